//! Keeping a thread that is woken off the processor of the thread that wakes it.
//!
//! The system may wake a thread on the waker's own processor, where it then waits for the waker to
//! finish, though another processor is idle. Linux does so in virtual machines: a halted processor looks
//! like one that the host has taken away, so it is not counted as idle. Two threads that were meant to
//! work at the same time work one after the other until the system's balancing notices, milliseconds
//! later. For a moment's affinity the sleeper is told to wake elsewhere.
//!
//! ```text
//!   waker:   confine: read the sleeper's affinity, take this processor out of it
//!            wake it
//!   sleeper: release: affinity as it was
//! ```
//!
//! # Invariants
//!
//! - **P1** `saved` is written by a waker that has the right to wake the sleeper (one at a time), before it
//!   stores `confined`; it is read by the sleeper after it took `confined`.

use crate::atomic::{AtomicBool, AtomicU32, Ordering};
use crate::cell::UnsafeCell;

/// A thread that others wake on a processor other than theirs.
#[derive(Debug)]
pub struct Elsewhere {
    /// The thread's number in the system; 0: there is none.
    thread: AtomicU32,
    confined: AtomicBool,
    saved: UnsafeCell<sys::Set>,
}

// SAFETY: P1.
unsafe impl Sync for Elsewhere {}
// SAFETY: P1.
unsafe impl Send for Elsewhere {}

impl Default for Elsewhere {
    fn default() -> Elsewhere {
        Elsewhere::new()
    }
}

impl Elsewhere {
    /// Of no thread yet.
    pub fn new() -> Elsewhere {
        Elsewhere {
            thread: AtomicU32::new(0),
            confined: AtomicBool::new(false),
            saved: UnsafeCell::new(sys::Set::empty()),
        }
    }

    /// The calling thread is the one that others will wake.
    pub fn adopt(&self) {
        // ORD: wakers learn of the thread by other means, which order.
        self.thread.store(sys::current_thread() as u32, Ordering::Relaxed);
    }

    /// By a waker, before it wakes the thread: not on this processor. Costs two system calls, about a
    /// microsecond. Where the system does not do that it does nothing.
    ///
    /// The thread must be alive, and no other waker in here at the same time.
    pub fn confine(&self) {
        let thread = self.thread.load(Ordering::Relaxed) as sys::Thread;
        // ORD: Acquire pairs with the Release in `release`: the sleeper is done with `saved`.
        if thread == 0 || self.confined.load(Ordering::Acquire) {
            return;
        }
        let Some((allowed, rest)) = sys::without_this_processor(thread) else { return };
        self.saved.with_mut(|saved| {
            // SAFETY: P1.
            unsafe { *saved = allowed };
        });
        // ORD: Release pairs with the Acquire in `release`: `saved` is complete (P1).
        self.confined.store(true, Ordering::Release);
        sys::set_affinity(thread, &rest);
    }

    /// By the thread itself, once it is awake: anywhere again.
    #[inline]
    pub fn release(&self) {
        // ORD: Acquire pairs with the Release in `confine` (P1).
        if self.confined.load(Ordering::Acquire) {
            let allowed = self.saved.with(|saved| {
                // SAFETY: P1.
                unsafe { *saved }
            });
            sys::set_affinity(0, &allowed);
            // ORD: Release pairs with the Acquire in `confine`.
            self.confined.store(false, Ordering::Release);
        }
    }
}

#[cfg(all(target_os = "linux", not(any(raddle_loom, raddle_shuttle))))]
mod sys {
    pub(super) type Thread = libc::pid_t;

    /// A set of processors.
    #[derive(Clone, Copy)]
    pub(super) struct Set(libc::cpu_set_t);

    const SIZE: usize = size_of::<libc::cpu_set_t>();

    impl Set {
        pub(super) fn empty() -> Set {
            // SAFETY: an array of integers, for which all zeroes is the empty set.
            Set(unsafe { std::mem::zeroed() })
        }

        pub(super) fn len(&self) -> usize {
            // SAFETY: counts the bits of a set.
            unsafe { libc::CPU_COUNT(&self.0) as usize }
        }
    }

    impl std::fmt::Debug for Set {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Set")
        }
    }

    pub(super) fn current_thread() -> Thread {
        // SAFETY: no arguments, no effects.
        unsafe { libc::gettid() }
    }

    /// Where the thread may run, and that without the calling thread's processor, if anything is left.
    pub(super) fn without_this_processor(thread: Thread) -> Option<(Set, Set)> {
        // SAFETY: no arguments, no effects.
        let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
        let mut allowed = Set::empty();
        // SAFETY: writes at most `SIZE` bytes to a set of that size.
        let failed = unsafe { libc::sched_getaffinity(thread, SIZE, &mut allowed.0) } != 0;
        if failed || cpu >= 8 * SIZE {
            return None;
        }
        let mut rest = allowed;
        // SAFETY: in bounds, as just tested.
        unsafe { libc::CPU_CLR(cpu, &mut rest.0) };
        (rest.len() > 0).then_some((allowed, rest))
    }

    pub(super) fn set_affinity(thread: Thread, set: &Set) {
        // Refused, the thread wakes wherever the system likes: as without us.
        // SAFETY: reads `SIZE` bytes of a set of that size.
        unsafe { libc::sched_setaffinity(thread, SIZE, &set.0) };
    }
}

#[cfg(not(all(target_os = "linux", not(any(raddle_loom, raddle_shuttle)))))]
mod sys {
    pub(super) type Thread = i32;

    #[derive(Clone, Copy, Debug)]
    pub(super) struct Set;

    impl Set {
        pub(super) fn empty() -> Set {
            Set
        }
    }

    pub(super) fn current_thread() -> i32 {
        0
    }

    pub(super) fn without_this_processor(_thread: i32) -> Option<(Set, Set)> {
        None
    }

    pub(super) fn set_affinity(_thread: i32, _set: &Set) {}
}

#[cfg(all(test, target_os = "linux", not(any(raddle_loom, raddle_shuttle))))]
mod tests {
    use std::sync::{Arc, mpsc};
    use std::thread;

    use super::*;

    #[test]
    fn a_confined_thread_gets_its_affinity_back() {
        let elsewhere = Arc::new(Elsewhere::new());
        let (ready, wait) = mpsc::channel();
        let (go, told) = mpsc::channel::<()>();
        let sleeper = thread::spawn({
            let elsewhere = Arc::clone(&elsewhere);
            move || {
                elsewhere.adopt();
                ready.send(()).unwrap();
                told.recv().unwrap();
                let count = || {
                    let own = sys::without_this_processor(sys::current_thread());
                    own.map(|(allowed, _)| allowed.len())
                };
                let confined = count();
                elsewhere.release();
                (confined, count())
            }
        });
        wait.recv().unwrap();
        elsewhere.confine();
        go.send(()).unwrap();
        let (confined, after) = sleeper.join().unwrap();
        // On a single processor there is nothing to take away.
        if let Some(after) = after {
            assert_eq!(confined.unwrap_or(1), after - 1);
        }
    }
}
