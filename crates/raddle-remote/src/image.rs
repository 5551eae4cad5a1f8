//! The main program in memory: where its segments are, and which build it is.
//!
//! Two processes that execute one file have the same bytes at the same distance from where it was loaded: that is what makes
//! an address of one mean something in the other (see `entry`).

use std::ffi::{c_int, c_void};
use std::fs::File;
use std::hash::Hasher;
use std::io::{self, Read};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::sync::OnceLock;

use libc::{PF_W, PF_X, PT_LOAD, PT_NOTE, dl_phdr_info, size_t};

/// The main program, as it was loaded.
#[derive(Debug)]
pub(crate) struct Image {
    base: usize,
    text: Vec<Range<usize>>,
    /// What is not executed.
    data: Vec<Range<usize>>,
    /// What is neither executed nor written.
    constant: Vec<Range<usize>>,
    notes: Vec<Range<usize>>,
}

impl Image {
    /// That of this process.
    pub(crate) fn get() -> &'static Image {
        static IMAGE: OnceLock<Image> = OnceLock::new();
        IMAGE.get_or_init(|| {
            let mut image = Image {
                base: 0,
                text: Vec::new(),
                data: Vec::new(),
                constant: Vec::new(),
                notes: Vec::new(),
            };
            // SAFETY: `note` has the type that is asked for, and gets the pointer that it expects.
            unsafe { libc::dl_iterate_phdr(Some(note), (&raw mut image).cast()) };
            image
        })
    }

    /// How far an address of the program's text is from its base.
    pub(crate) fn text_offset(&self, address: usize) -> Option<i64> {
        contains(&self.text, address, 1).then(|| address.wrapping_sub(self.base) as i64)
    }

    /// Whether this is an address of the program's text.
    pub(crate) fn is_text(&self, address: usize) -> bool {
        contains(&self.text, address, 1)
    }

    /// How far something of so many bytes in the program's data is from its base.
    pub(crate) fn data_offset(&self, address: usize, len: usize) -> Option<i64> {
        contains(&self.data, address, len).then(|| address.wrapping_sub(self.base) as i64)
    }

    /// The address at an offset, if it is one of the text.
    pub(crate) fn text_at(&self, offset: i64) -> Option<usize> {
        let address = self.base.wrapping_add(offset as usize);
        contains(&self.text, address, 1).then_some(address)
    }

    /// The address at an offset, if so many bytes there are data.
    pub(crate) fn data_at(&self, offset: i64, len: usize) -> Option<usize> {
        let address = self.base.wrapping_add(offset as usize);
        contains(&self.data, address, len).then_some(address)
    }

    /// Whether these bytes are among the program's constants, at a multiple of their length.
    pub(crate) fn has_constant<const N: usize>(&self, wanted: &[u8; N]) -> bool {
        self.constant.iter().any(|range| {
            let start = range.start.next_multiple_of(N);
            (start..range.end.saturating_sub(N - 1)).step_by(N).any(|address| {
                // SAFETY: within a segment that is mapped for good, may be read, and is not written.
                unsafe { (address as *const [u8; N]).read() == *wanted }
            })
        })
    }

    /// The note that the linker left about this build; empty if it left none.
    pub(crate) fn build_id(&self) -> Vec<u8> {
        self.notes.iter().find_map(|range| build_id(bytes(range))).unwrap_or_default()
    }
}

fn contains(ranges: &[Range<usize>], address: usize, len: usize) -> bool {
    let within = |range: &Range<usize>| {
        range.contains(&address) && address.checked_add(len).is_some_and(|end| end <= range.end)
    };
    ranges.iter().any(within)
}

fn bytes(range: &Range<usize>) -> &'static [u8] {
    // SAFETY: a note of the main program: mapped for good, and constant.
    unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) }
}

/// The main program comes first, and is all that is wanted.
unsafe extern "C" fn note(info: *mut dl_phdr_info, _: size_t, image: *mut c_void) -> c_int {
    // SAFETY: the caller's, for the time of the call.
    let info = unsafe { &*info };
    // SAFETY: what `Image::get` passes.
    let image = unsafe { &mut *image.cast::<Image>() };
    image.base = info.dlpi_addr as usize;
    // SAFETY: the loader's table, of so many entries.
    let headers = unsafe { std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()) };
    for header in headers {
        let start = image.base.wrapping_add(header.p_vaddr as usize);
        let range = start..start.wrapping_add(header.p_memsz as usize);
        match header.p_type {
            PT_NOTE => image.notes.push(range),
            PT_LOAD if header.p_flags & PF_X != 0 => image.text.push(range),
            PT_LOAD => {
                if header.p_flags & PF_W == 0 {
                    image.constant.push(range.clone());
                }
                image.data.push(range);
            }
            _ => {}
        }
    }
    1
}

/// The id in a section of notes: each is three words (length of its name, of what it says, its type), and both of these.
fn build_id(mut notes: &[u8]) -> Option<Vec<u8>> {
    const GNU_BUILD_ID: u32 = 3;
    let mut take = |len: usize| -> Option<&[u8]> {
        let (taken, rest) = notes.split_at_checked(len.checked_next_multiple_of(4)?)?;
        notes = rest;
        taken.get(..len)
    };
    let word = |bytes: &[u8]| Some(u32::from_le_bytes(bytes.try_into().ok()?));
    loop {
        let (name, what, kind) = (word(take(4)?)?, word(take(4)?)?, word(take(4)?)?);
        let (name, what) = (take(name as usize)?, take(what as usize)?);
        if kind == GNU_BUILD_ID && name == b"GNU\0" {
            return Some(what.to_vec());
        }
    }
}

/// A number for this very file: where it lies, and when it was changed. Costs nothing, and means something on this machine.
pub(crate) fn file_identity() -> io::Result<u64> {
    let file = std::fs::metadata("/proc/self/exe")?;
    let mut hasher = std::hash::DefaultHasher::new();
    for part in [file.dev(), file.ino(), file.size(), file.mtime() as u64, file.mtime_nsec() as u64]
    {
        hasher.write_u64(part);
    }
    Ok(hasher.finish())
}

/// A number for what is in this file, for copies of it elsewhere.
pub(crate) fn file_hash() -> io::Result<u64> {
    let mut file = File::open("/proc/self/exe")?;
    let mut hasher = std::hash::DefaultHasher::new();
    let mut buffer = vec![0; 1 << 20];
    loop {
        match file.read(&mut buffer)? {
            0 => return Ok(hasher.finish()),
            read => hasher.write(&buffer[..read]),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    static CONSTANT: u64 = 7;

    #[test]
    fn functions_are_text_and_constants_are_data() {
        let image = Image::get();
        let function = functions_are_text_and_constants_are_data as *const () as usize;
        let constant = &raw const CONSTANT as usize;
        let offset = image.text_offset(function).unwrap();
        assert_eq!(image.text_at(offset), Some(function));
        assert_eq!(image.data_offset(function, 1), None);
        assert!(image.data_offset(constant, 8).is_some());
        assert_eq!(image.text_offset(constant), None);
        assert_eq!(image.text_offset(&raw const function as usize), None);
        assert_eq!(image.text_offset(libc::getpid as *const () as usize), None, "a library's");
    }

    #[test]
    fn damaged_notes_are_none() {
        let good =
            [&[4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0][..], b"GNU\0", &[0xab, 0xcd, 0, 0]].concat();
        assert_eq!(build_id(&good), Some(vec![0xab, 0xcd]));
        assert!((0..good.len()).all(|len| build_id(&good[..len]).is_none()));
    }

    proptest! {
        #[test]
        fn offsets_at_random_are_refused_or_inside(offset: i64) {
            let image = Image::get();
            let inside = |address: usize| address.wrapping_sub(image.base) < 1 << 32;
            prop_assert!(image.text_at(offset).is_none_or(inside));
            prop_assert!(image.data_at(offset, 48).is_none_or(inside));
        }

        #[test]
        fn notes_at_random_end(notes in proptest::collection::vec(any::<u8>(), 0..100)) {
            let _ = build_id(&notes);
        }
    }
}
