//! The operating system's process-wide memory barrier, where it has one.
//!
//! `register` says whether `issue` may be called; it is idempotent.

pub(super) use os::{issue, register};

/// Every light fence relies on the barrier, so going on without it would be a silent race.
#[cfg(any(target_os = "linux", target_os = "android"))]
fn lost() -> ! {
    crate::abort(format_args!(
        "the process-wide memory barrier stopped working ({}); \
         set RADDLE_FENCE=portable to do without it",
        std::io::Error::last_os_error()
    ));
}

#[cfg(any(target_os = "linux", target_os = "android"))]
mod os {
    // The system's numbers, which a program's lock file may have a `libc` from before.
    const PRIVATE_EXPEDITED: libc::c_int = 1 << 3;
    const REGISTER_PRIVATE_EXPEDITED: libc::c_int = 1 << 4;

    fn membarrier(command: libc::c_int) -> libc::c_long {
        let flags: libc::c_uint = 0;
        let cpu: libc::c_int = 0;
        // SAFETY: membarrier takes three integers, touches no memory of the caller and reports
        // unknown commands as an error.
        unsafe { libc::syscall(libc::SYS_membarrier, command, flags, cpu) }
    }

    pub(in super::super) fn register() -> bool {
        membarrier(REGISTER_PRIVATE_EXPEDITED) == 0 && membarrier(PRIVATE_EXPEDITED) == 0
    }

    pub(in super::super) fn issue() {
        if membarrier(PRIVATE_EXPEDITED) != 0 {
            super::lost();
        }
    }

    /// Called by the loader, before `main`: a process of one thread registers in a microsecond, one of several waits
    /// for all processors, up to 20 ms. Where this is not called, in a library that is loaded late, or fails,
    /// `register` makes up for it.
    extern "C" fn register_early() {
        membarrier(REGISTER_PRIVATE_EXPEDITED);
    }

    #[cfg(not(miri))]
    #[used]
    // SAFETY: an array of functions without arguments; this one calls nothing but the system.
    #[unsafe(link_section = ".init_array")]
    static EARLY: extern "C" fn() = register_early;
}

#[cfg(windows)]
mod os {
    #[link(name = "kernel32")]
    unsafe extern "system" {
        fn FlushProcessWriteBuffers();
    }

    pub(in super::super) fn register() -> bool {
        true
    }

    pub(in super::super) fn issue() {
        // SAFETY: the call takes nothing, returns nothing and cannot fail.
        unsafe { FlushProcessWriteBuffers() }
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", windows)))]
mod os {
    pub(in super::super) fn register() -> bool {
        false
    }

    pub(in super::super) fn issue() {
        unreachable!("issued only where `register` returned true");
    }
}
