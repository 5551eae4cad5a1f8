//! Which copy of the process this is.
//!
//! After `fork()` the child has the parent's memory and one thread, the one that forked. Numbers of threads that it
//! remembers name threads of the parent. Whoever keeps such a number keeps the generation along, and leaves it
//! alone in a later one.
//!
//! `vfork`, and processes cloned by system calls of one's own, are not noticed. Where the system has no forks, and
//! under the model checkers, the generation is always 0.

pub use sys::{generation, init};

#[cfg(all(unix, not(any(miri, raddle_loom, raddle_shuttle))))]
mod sys {
    use crate::atomic::{AtomicBool, AtomicU32, Ordering};

    static GENERATION: AtomicU32 = AtomicU32::new(0);
    // No `Once`: forked while another thread is within, it would be locked in the child for ever. Two threads may
    // register at the same time; then a fork counts twice, which is as good.
    static REGISTERED: AtomicBool = AtomicBool::new(false);

    /// How often the process has been forked since [`init`], counted along its ancestors: 0 before any fork, more
    /// in a child than in its parent. Costs a load.
    ///
    /// ```
    /// raddle_sync::fork::init();
    /// assert_eq!(raddle_sync::fork::generation(), 0);
    /// ```
    #[inline]
    pub fn generation() -> u32 {
        // ORD: it changes only while there is no other thread.
        GENERATION.load(Ordering::Relaxed)
    }

    /// Has forks counted from now on. Idempotent, and callable from any thread.
    pub fn init() {
        // ORD: Acquire pairs with the Release below: whoever returns from here has the handler in place.
        if REGISTERED.load(Ordering::Acquire) {
            return;
        }
        // Without memory for the handler the number stays 0, as where there are no forks.
        // SAFETY: the handler adds to a word, which is allowed wherever a fork may be.
        unsafe { libc::pthread_atfork(None, None, Some(in_child)) };
        REGISTERED.store(true, Ordering::Release);
    }

    unsafe extern "C" fn in_child() {
        GENERATION.fetch_add(1, Ordering::Relaxed);
    }
}

#[cfg(not(all(unix, not(any(miri, raddle_loom, raddle_shuttle)))))]
mod sys {
    /// How often the process has been forked: 0, since there are no forks here.
    #[inline]
    pub fn generation() -> u32 {
        0
    }

    /// Has forks counted from now on, of which there are none.
    pub fn init() {}
}
