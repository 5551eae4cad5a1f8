//! Which files are recorded into now: two writers in one would be of no use to either, be they pools of one process or of two.
//!
//! Within a process a list says so, and among processes a lock of the file (`flock`), which goes with the process, however that ends.

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use raddle_sync::fork;

use super::per_process::PerProcess;

/// The files of this process. A child of it finds those of its parent's locked.
static TAKEN: PerProcess<Vec<PathBuf>> = PerProcess::new(Vec::new());

/// A file that nobody else records into as long as this is there.
#[derive(Debug)]
pub(crate) struct Taken {
    path: PathBuf,
    lock: File,
    /// The process that has it: see [`fork::generation`].
    generation: u32,
}

impl Taken {
    /// Makes the file if need be, and leaves it as it is otherwise: whoever records into it goes on. None for what is no file (devices,
    /// pipes), as that takes what many write.
    ///
    /// # Errors
    ///
    /// If it cannot be written; [`AlreadyExists`](io::ErrorKind::AlreadyExists) if somebody has taken it.
    pub(crate) fn of(path: &Path) -> io::Result<Option<Taken>> {
        if path.exists() && !path.is_file() {
            return Ok(None);
        }
        let lock = File::options().append(true).create(true).open(path)?;
        // Links lead to the same file.
        let path = path.canonicalize()?;
        let mut taken = TAKEN.lock();
        if taken.contains(&path) {
            let why = "another pool records into it";
            return Err(io::Error::new(io::ErrorKind::AlreadyExists, why));
        }
        sys::lock(&lock)?;
        taken.push(path.clone());
        Ok(Some(Taken { path, lock, generation: fork::generation() }))
    }

    /// Drops what is in the file.
    pub(crate) fn clear(&self) -> io::Result<()> {
        self.lock.set_len(0)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        // A child has the parent's lock in common with it.
        if self.generation == fork::generation() {
            let mut taken = TAKEN.lock();
            taken.retain(|path| *path != self.path);
            // Before anybody else of this process may ask.
            sys::unlock(&self.lock);
        }
    }
}

#[cfg(all(unix, not(miri)))]
mod sys {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;

    /// A file system that has no locks has none.
    pub(super) fn lock(file: &File) -> io::Result<()> {
        // SAFETY: an open file.
        if unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX | libc::LOCK_NB) } == 0 {
            return Ok(());
        }
        match io::Error::last_os_error().kind() {
            io::ErrorKind::WouldBlock => {
                let why = "another process records into it";
                Err(io::Error::new(io::ErrorKind::AlreadyExists, why))
            }
            _ => Ok(()),
        }
    }

    /// At once, though a child that was forked off has the file open, too.
    pub(super) fn unlock(file: &File) {
        // SAFETY: an open file.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_UN) };
    }
}

#[cfg(not(all(unix, not(miri))))]
mod sys {
    use std::fs::File;
    use std::io;

    pub(super) fn lock(_: &File) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn unlock(_: &File) {}
}
