//! Where the memory of workers comes from.

use std::alloc::Layout;
use std::io;
use std::ptr::NonNull;

use super::SIZE;

fn layout() -> Layout {
    Layout::from_size_align(SIZE, SIZE).expect("a power of two")
}

/// `SIZE` bytes of zeroes at a multiple of `SIZE`, committed on first touch.
#[cfg(all(unix, not(any(miri, raddle_shuttle))))]
pub(super) fn zeroed() -> io::Result<NonNull<u8>> {
    match kept::take() {
        Some(base) => Ok(base),
        None => fresh(),
    }
}

#[cfg(all(unix, not(any(miri, raddle_shuttle))))]
fn fresh() -> io::Result<NonNull<u8>> {
    // Where the flag is missing, memory is never reserved.
    #[cfg(any(target_os = "freebsd", target_os = "dragonfly"))]
    const UNRESERVED: libc::c_int = 0;
    #[cfg(not(any(target_os = "freebsd", target_os = "dragonfly")))]
    const UNRESERVED: libc::c_int = libc::MAP_NORESERVE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | UNRESERVED;
    let access = libc::PROT_READ | libc::PROT_WRITE;
    // Twice the size holds an aligned piece; the rest is given back.
    // SAFETY: a fresh anonymous mapping touches nothing that exists.
    let start = unsafe { libc::mmap(std::ptr::null_mut(), 2 * SIZE, access, flags, -1, 0) };
    if start == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    let before = start.align_offset(SIZE);
    let base = start.wrapping_byte_add(before);
    if before > 0 {
        // SAFETY: the part of our mapping below the aligned piece.
        unsafe { libc::munmap(start, before) };
    }
    if before < SIZE {
        // SAFETY: the part of our mapping above it.
        unsafe { libc::munmap(base.wrapping_byte_add(SIZE), SIZE - before) };
    }
    debug_assert_eq!(base as usize % layout().align(), 0);
    #[cfg(any(target_os = "linux", target_os = "android"))]
    {
        // Of a worker's memory a few pages are used. But an aligned mapping of this size is what huge pages are made for: where they
        // are on for all, the first write would have 2 MiB zeroed and kept, for each thread. If it is refused nothing is lost but that.
        // SAFETY: our mapping, which nobody uses yet; advice changes nothing that is read.
        unsafe { libc::madvise(base, SIZE, libc::MADV_NOHUGEPAGE) };
    }
    Ok(NonNull::new(base.cast()).expect("mmap does not map address zero"))
}

/// Gives back what `zeroed` gave.
///
/// # Safety
///
/// Once, with nobody using the memory.
#[cfg(all(unix, not(any(miri, raddle_shuttle))))]
pub(super) unsafe fn give_back(base: NonNull<u8>) {
    // SAFETY: by contract.
    if !unsafe { kept::put(base) } {
        // SAFETY: the whole of a mapping of `fresh` (contract).
        unsafe { libc::munmap(base.as_ptr().cast(), SIZE) };
    }
}

/// Addresses that were mapped, for the next pool: a program may build one for each of its files. They hold zeroes and no memory.
#[cfg(all(unix, not(any(miri, raddle_shuttle))))]
mod kept {
    use std::ptr::NonNull;
    use std::sync::{Mutex, MutexGuard};

    /// 128 MiB of addresses.
    const MOST: usize = 32;

    struct Kept {
        bases: [Option<NonNull<u8>>; MOST],
        len: usize,
    }

    // SAFETY: mappings that nobody uses.
    unsafe impl Send for Kept {}

    static KEPT: Mutex<Kept> = Mutex::new(Kept { bases: [None; MOST], len: 0 });

    /// Not waited for: a thread that has it may be in the parent of this process.
    fn lock() -> Option<MutexGuard<'static, Kept>> {
        KEPT.try_lock().ok()
    }

    pub(super) fn take() -> Option<NonNull<u8>> {
        let mut kept = lock()?;
        kept.len = kept.len.checked_sub(1)?;
        let last = kept.len;
        kept.bases[last].take()
    }

    /// False: there are enough, or the system does not take what they hold.
    ///
    /// # Safety
    ///
    /// As `give_back`, unless this is false.
    pub(super) unsafe fn put(base: NonNull<u8>) -> bool {
        // SAFETY: the whole of a mapping, which nobody uses (contract).
        if !unsafe { empty(base) } {
            return false;
        }
        let Some(mut kept) = lock().filter(|kept| kept.len < MOST) else { return false };
        let end = kept.len;
        kept.bases[end] = Some(base);
        kept.len += 1;
        true
    }

    /// Whether all reads as zeroes now.
    ///
    /// # Safety
    ///
    /// `SIZE` bytes from `base` on are mapped, and nobody uses them.
    #[cfg(target_os = "linux")]
    unsafe fn empty(base: NonNull<u8>) -> bool {
        // SAFETY: by contract. Where memory is locked it is refused.
        unsafe { libc::madvise(base.as_ptr().cast(), super::SIZE, libc::MADV_DONTNEED) == 0 }
    }

    /// Elsewhere the call promises nothing.
    #[cfg(not(target_os = "linux"))]
    unsafe fn empty(_base: NonNull<u8>) -> bool {
        false
    }
}

#[cfg(not(all(unix, not(any(miri, raddle_shuttle)))))]
pub(super) fn zeroed() -> io::Result<NonNull<u8>> {
    // SAFETY: the size is not zero.
    let base = unsafe { std::alloc::alloc_zeroed(layout()) };
    NonNull::new(base).ok_or_else(|| io::Error::from(io::ErrorKind::OutOfMemory))
}

/// Gives back what `zeroed` gave.
///
/// # Safety
///
/// Once, with nobody using the memory.
#[cfg(not(all(unix, not(any(miri, raddle_shuttle)))))]
pub(super) unsafe fn give_back(base: NonNull<u8>) {
    // SAFETY: allocated with this layout.
    unsafe { std::alloc::dealloc(base.as_ptr(), layout()) };
}

#[cfg(all(test, target_os = "linux", not(any(miri, raddle_model))))]
mod tests {
    use std::fs;

    use super::*;

    /// Whether the system has marked the mapping at this address: a flag of two letters; none if it tells no flags.
    fn is_marked(address: usize, flag: &str) -> Option<bool> {
        let maps = fs::read_to_string("/proc/self/smaps").ok()?;
        let mut is_it = false;
        for line in maps.lines() {
            if let Some(flags) = line.strip_prefix("VmFlags:") {
                if is_it {
                    return Some(flags.split_whitespace().any(|one| one == flag));
                }
                continue;
            }
            let bounds = line.split_once(' ').and_then(|(range, _)| range.split_once('-'));
            let Some((start, end)) = bounds else { continue };
            let number = |text| usize::from_str_radix(text, 16);
            let (Ok(start), Ok(end)) = (number(start), number(end)) else { continue };
            is_it = (start..end).contains(&address);
        }
        None
    }

    /// Where huge pages are on for all, each worker had one of 2 MiB.
    #[test]
    fn a_worker_s_memory_is_not_made_of_huge_pages() {
        let base = fresh().unwrap();
        let marked = is_marked(base.as_ptr().addr(), "nh");
        // SAFETY: nobody uses it.
        unsafe { give_back(base) };
        if fs::exists("/sys/kernel/mm/transparent_hugepage").unwrap() {
            assert_ne!(marked, Some(false));
        }
    }
}
