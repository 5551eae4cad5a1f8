//! When a disk has room for a trace: a program that forks all the time fills one within minutes, and has files of its own to write.

use std::path::Path;

/// What is left to others: so much, or this part of a small disk.
const LEFT: u64 = 64 << 20;
const PART: u64 = 64;

fn is_scarce_of(free: u64, all: u64) -> bool {
    free < LEFT.min(all / PART)
}

/// Whether nothing more is to be written there.
#[cfg(all(target_os = "linux", not(miri)))]
pub(super) fn is_scarce(path: &Path) -> bool {
    use std::os::unix::ffi::OsStrExt;
    let Ok(path) = std::ffi::CString::new(path.as_os_str().as_bytes()) else { return false };
    // SAFETY: of numbers.
    let mut disk: libc::statvfs64 = unsafe { std::mem::zeroed() };
    // SAFETY: a string, and room for what is known of the disk.
    let asked = unsafe { libc::statvfs64(path.as_ptr(), &mut disk) };
    let bytes = |blocks: u64| blocks.saturating_mul(disk.f_frsize);
    asked == 0 && is_scarce_of(bytes(disk.f_bavail), bytes(disk.f_blocks))
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(super) fn is_scarce(_: &Path) -> bool {
    // Nobody asks: of other systems, what is the size of a block is not known here.
    is_scarce_of(LEFT, LEFT)
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn something_is_left_to_others() {
        assert!(is_scarce_of(LEFT - 1, 1 << 40) && !is_scarce_of(LEFT, 1 << 40));
        assert!(is_scarce_of(0, 1 << 20) && !is_scarce_of(1 << 19, 1 << 20));
        // A system that does not say.
        assert!(!is_scarce_of(0, 0));
    }
}
