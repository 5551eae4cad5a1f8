//! What Linux has and std does not offer: a function for each system call, with errors and owned descriptors.

pub(crate) mod poll;
pub(crate) mod process;
pub(crate) mod socket;

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The error of a call that returned -1.
pub(crate) fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// The same for calls that return a length.
pub(crate) fn check_len(result: isize) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// A descriptor that a call has just returned.
fn own(result: libc::c_int) -> io::Result<OwnedFd> {
    let fd = check(result)?;
    // SAFETY: new, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

pub(crate) fn set_nonblocking(fd: &impl AsRawFd) -> io::Result<()> {
    // SAFETY: takes and returns numbers.
    let flags = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GETFL) })?;
    // SAFETY: as above.
    check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_SETFL, flags | libc::O_NONBLOCK) })?;
    Ok(())
}

/// Reads what there is.
pub(crate) fn read(fd: &impl AsRawFd, to: &mut [u8]) -> io::Result<usize> {
    again(|| {
        // SAFETY: the buffer is as long as it says.
        check_len(unsafe { libc::read(fd.as_raw_fd(), to.as_mut_ptr().cast(), to.len()) })
    })
}

/// Writes all of it; who reads there may have gone, of which nobody needs to be told.
pub(crate) fn write_all(fd: RawFd, mut bytes: &[u8]) {
    while !bytes.is_empty() {
        let written = again(|| {
            // SAFETY: the buffer is as long as it says.
            check_len(unsafe { libc::write(fd, bytes.as_ptr().cast(), bytes.len()) })
        });
        match written {
            Ok(written @ 1..) => bytes = &bytes[written..],
            // Somebody has made it nonblocking.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                if poll::poll([(fd, libc::POLLOUT)], None).is_err() {
                    return;
                }
            }
            _ => return,
        }
    }
}

/// Calls until it is not interrupted by a signal.
pub(crate) fn again<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// A copy of a descriptor, at a high number and closed on `exec`.
pub(crate) fn high_copy(fd: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: takes and returns numbers.
    own(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 500) })
        // A low limit on descriptors.
        // SAFETY: as above.
        .or_else(|_| own(unsafe { libc::fcntl(fd, libc::F_DUPFD_CLOEXEC, 3) }))
}

/// Makes `to` another name of a descriptor, which programs that are executed inherit.
pub(crate) fn copy_to(fd: &impl AsRawFd, to: RawFd) -> io::Result<()> {
    // SAFETY: takes and returns numbers.
    check(unsafe { libc::dup2(fd.as_raw_fd(), to) })?;
    Ok(())
}

/// Closes all descriptors above 2 but these.
pub(crate) fn close_others(keep: &mut [RawFd]) {
    keep.sort_unstable();
    let mut from: libc::c_uint = 3;
    for &fd in &*keep {
        let fd = fd as libc::c_uint;
        if from < fd {
            close_range(from, fd - 1);
        }
        from = fd + 1;
    }
    close_range(from, libc::c_uint::MAX);
}

fn close_range(first: libc::c_uint, last: libc::c_uint) {
    // SAFETY: first in `main`, so that nobody has them: what is closed was left open by whoever started this program.
    unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
}

/// A file in memory with this in it, which nobody can change.
pub(crate) fn sealed_memory(bytes: &[u8]) -> io::Result<OwnedFd> {
    use std::io::Write;
    // Who writes more to a file than it may is ended.
    if bytes.len() as u64 > process::longest_file()? {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    // SAFETY: the name is a C string.
    let fd = own(unsafe {
        libc::memfd_create(c"raddle".as_ptr(), libc::MFD_CLOEXEC | libc::MFD_ALLOW_SEALING)
    })?;
    let mut file = std::fs::File::from(fd);
    file.write_all(bytes)?;
    let seals = libc::F_SEAL_SHRINK | libc::F_SEAL_GROW | libc::F_SEAL_WRITE | libc::F_SEAL_SEAL;
    // SAFETY: takes and returns numbers.
    check(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_ADD_SEALS, seals) })?;
    Ok(file.into())
}

/// A file in memory that cannot change, mapped.
#[derive(Debug)]
pub(crate) struct Mapped {
    start: *mut libc::c_void,
    len: usize,
}

// SAFETY: nobody writes there.
unsafe impl Send for Mapped {}
// SAFETY: as above.
unsafe impl Sync for Mapped {}

impl Mapped {
    /// Maps a descriptor of [`sealed_memory`].
    pub(crate) fn new(fd: &OwnedFd, len: usize) -> io::Result<Mapped> {
        // SAFETY: takes and returns a number.
        let seals = check(unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_GET_SEALS) })?;
        const SEALS: libc::c_int = libc::F_SEAL_WRITE | libc::F_SEAL_SHRINK;
        let size = std::fs::File::from(fd.try_clone()?).metadata()?.len();
        if seals & SEALS != SEALS || size != len as u64 || len == 0 {
            return Err(io::Error::other("not a sealed file of that length"));
        }
        // SAFETY: a new mapping, wherever the system likes.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_READ,
                libc::MAP_SHARED,
                fd.as_raw_fd(),
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Mapped { start, len })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        // SAFETY: mapped as long as this lives, and sealed: nobody changes it, or cuts it short.
        unsafe { std::slice::from_raw_parts(self.start.cast(), self.len) }
    }
}

impl Drop for Mapped {
    fn drop(&mut self) {
        // SAFETY: what was mapped, once.
        unsafe { libc::munmap(self.start, self.len) };
    }
}
