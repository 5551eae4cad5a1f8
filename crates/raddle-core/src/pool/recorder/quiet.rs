//! Writing that no signal ends the process for: a file that may not grow any further (`ulimit -f`), or a pipe that nobody reads. A program
//! that does not record would not have met them.

use std::marker::PhantomData;

/// As long as this lives, the calling thread writes where such a signal would be sent and gets an error only.
pub(super) struct Quiet {
    #[cfg(all(target_os = "linux", not(miri)))]
    before: Option<(libc::sigset_t, bool)>,
    /// The mask is the thread's.
    _here: PhantomData<*const ()>,
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use std::marker::PhantomData;
    use std::mem::zeroed;
    use std::ptr::null_mut;

    use super::Quiet;

    const SENT: [i32; 2] = [libc::SIGXFSZ, libc::SIGPIPE];

    fn sent() -> libc::sigset_t {
        // SAFETY: of numbers.
        let mut set: libc::sigset_t = unsafe { zeroed() };
        // SAFETY: a set.
        unsafe { libc::sigemptyset(&mut set) };
        for signal in SENT {
            // SAFETY: a set, and a signal that there is.
            unsafe { libc::sigaddset(&mut set, signal) };
        }
        set
    }

    fn is_pending() -> bool {
        // SAFETY: of numbers.
        let mut set: libc::sigset_t = unsafe { zeroed() };
        // SAFETY: room for a set.
        unsafe { libc::sigpending(&mut set) };
        // SAFETY: a set, and a signal that there is.
        SENT.iter().any(|signal| unsafe { libc::sigismember(&set, *signal) } == 1)
    }

    impl Quiet {
        pub(in super::super) fn begin() -> Quiet {
            let pending = is_pending();
            // SAFETY: of numbers.
            let mut before: libc::sigset_t = unsafe { zeroed() };
            // SAFETY: a set, and room for one.
            let held = unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &sent(), &mut before) } == 0;
            Quiet { before: held.then_some((before, pending)), _here: PhantomData }
        }
    }

    impl Drop for Quiet {
        fn drop(&mut self) {
            let Some((before, pending)) = self.before else { return };
            let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
            // What was there before is not ours. Each is sent once, however often.
            // SAFETY: a set, nobody who wants to know more, and a time.
            while !pending && unsafe { libc::sigtimedwait(&sent(), null_mut(), &none) } > 0 {}
            // SAFETY: a set.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &before, null_mut()) };
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
impl Quiet {
    pub(super) fn begin() -> Quiet {
        Quiet { _here: PhantomData }
    }
}
