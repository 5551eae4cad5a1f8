//! Linux futexes, private to the process.

use crate::atomic::AtomicU32;
use std::time::Duration;

pub(super) fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    let limit = limit.map(|limit| libc::timespec {
        // A limit beyond what the kernel can count is as good as the longest one it can.
        tv_sec: libc::time_t::try_from(limit.as_secs()).unwrap_or(libc::time_t::MAX),
        tv_nsec: limit.subsec_nanos() as _,
    });
    let limit_ptr = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: `word` is a live, aligned 32-bit word and `limit_ptr` is null or points to a timespec,
    // both for the whole call; the kernel reads them and writes neither.
    let result = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAIT | libc::FUTEX_PRIVATE_FLAG,
            expected,
            limit_ptr,
        )
    };
    // EAGAIN (the word differs) and EINTR (a signal) are wake-ups to the caller, who loops.
    !(result == -1 && errno() == Some(libc::ETIMEDOUT))
}

pub(super) fn wake(word: &AtomicU32, n: u32) -> usize {
    let count = i32::try_from(n).unwrap_or(i32::MAX);
    // SAFETY: for FUTEX_WAKE the address is a key and is not accessed.
    let woken = unsafe {
        libc::syscall(
            libc::SYS_futex,
            word.as_ptr(),
            libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG,
            count,
        )
    };
    usize::try_from(woken).unwrap_or(0)
}

fn errno() -> Option<i32> {
    std::io::Error::last_os_error().raw_os_error()
}

/// A fork needs nothing: those who sleep are the kernel's.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_all() -> AllLocks {
    AllLocks
}

#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) struct AllLocks;

#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn unlock_all(_: AllLocks) {}

/// The child of a fork has nobody who sleeps.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn forget_sleepers() {}
