//! Sleep on a 32-bit word until somebody who changed it says so.
//!
//! **F1** [`wait`] sleeps only if the word holds the expected value, and checks that atomically with
//! respect to [`wake`]: a thread that changes the word *and then* calls `wake` either is seen by the
//! check or wakes the sleeper. No wake-up is lost between the check and the sleep.
//!
//! **F2** The address is only a name to `wake`: it never reads or writes the word, and waking on a
//! word that has been freed is at worst a spurious wake-up of whoever sleeps at that address now.
//!
//! On Linux these are the futex system calls. WakeAffinity, and under the model checkers, they are a
//! table of mutexes and condition variables, hashed by address. Under loom a time limit
//! expires where the model says that it may ([`time::let_expire`](crate::time)); under shuttle it may at any time.

use crate::atomic::AtomicU32;
use std::time::Duration;

#[cfg(all(any(target_os = "linux", target_os = "android"), not(raddle_model)))]
#[path = "futex/linux.rs"]
mod sys;

#[cfg(any(not(any(target_os = "linux", target_os = "android")), raddle_model))]
#[path = "futex/table.rs"]
mod sys;

// The table is what other systems run on, so Linux tests it too.
#[cfg(all(test, any(target_os = "linux", target_os = "android"), not(raddle_model)))]
mod table;

/// Sleeps while `word` holds `expected`, until a [`wake`] on the same word or until `limit` is over.
///
/// Returns false if the time ran out, true otherwise. True says nothing about the word: it may have
/// held another value from the start, or the wake-up may be spurious. Callers loop. A sleep costs a
/// system call and two context switches.
///
/// ```
/// use raddle_sync::{atomic::{AtomicU32, Ordering}, futex};
/// use std::{sync::Arc, time::Duration};
///
/// let word = Arc::new(AtomicU32::new(0));
/// assert!(!futex::wait(&word, 0, Some(Duration::from_millis(1)))); // nobody wakes us
///
/// let other = Arc::clone(&word);
/// let thread = std::thread::spawn(move || {
///     other.store(1, Ordering::Release);
///     futex::wake(&other, 1);
/// });
/// while word.load(Ordering::Acquire) == 0 {
///     futex::wait(&word, 0, None);
/// }
/// thread.join().unwrap();
/// ```
pub fn wait(word: &AtomicU32, expected: u32, limit: Option<Duration>) -> bool {
    sys::wait(word, expected, limit)
}

/// Wakes up to `n` threads that sleep on `word`; returns how many it woke. Costs a system call,
/// also when nobody sleeps. Never touches the word itself (F2).
pub fn wake(word: &AtomicU32, n: u32) -> usize {
    sys::wake(word, n)
}

#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) use sys::{AllLocks, forget_sleepers, lock_all, unlock_all};

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::{sys, table};
    use crate::atomic::{AtomicU32, Ordering};
    use std::sync::Arc;
    use std::time::{Duration, Instant};

    type Wait = fn(&AtomicU32, u32, Option<Duration>) -> bool;
    type Wake = fn(&AtomicU32, u32) -> usize;
    const BOTH: [(Wait, Wake); 2] = [(sys::wait, sys::wake), (table::wait, table::wake)];

    #[test]
    fn a_changed_word_is_not_slept_on() {
        for (wait, _) in BOTH {
            assert!(wait(&AtomicU32::new(1), 0, None));
        }
    }

    #[test]
    fn a_limit_expires_and_not_early() {
        for (wait, wake) in BOTH {
            let word = AtomicU32::new(0);
            let limit = Duration::from_millis(20);
            let start = Instant::now();
            // A spurious wake-up is allowed; the limit must be reached in the end all the same.
            while wait(&word, 0, Some(limit.saturating_sub(start.elapsed()))) {
                assert!(start.elapsed() < Duration::from_secs(300));
            }
            assert!(start.elapsed() >= limit);
            assert_eq!(wake(&word, 1), 0, "the sleeper left nothing behind");
        }
    }

    #[test]
    fn wake_counts_the_sleepers() {
        for (wait, wake) in BOTH {
            let word = Arc::new(AtomicU32::new(0));
            let sleepers: Vec<_> = (0..3)
                .map(|_| {
                    let word = Arc::clone(&word);
                    crate::thread::spawn(move || {
                        while word.load(Ordering::Acquire) == 0 {
                            wait(&word, 0, None);
                        }
                    })
                })
                .collect();
            // The word is unchanged, so whoever is woken goes back to sleep: no race to win.
            while wake(&word, 1) == 0 {
                crate::thread::yield_now();
            }
            while wake(&word, 3) != 3 {
                crate::thread::yield_now();
            }
            word.store(1, Ordering::Release);
            wake(&word, u32::MAX);
            for sleeper in sleepers {
                sleeper.join().unwrap();
            }
        }
    }

    /// The child found a bucket locked by a thread that it has no copy of.
    #[cfg(all(unix, not(miri)))]
    #[test]
    fn the_child_of_a_fork_sleeps_and_wakes_by_the_table() {
        use std::sync::atomic::AtomicBool;
        let done = AtomicBool::new(false);
        std::thread::scope(|s| {
            s.spawn(|| {
                let words: Vec<_> = (0..64).map(AtomicU32::new).collect();
                while !done.load(Ordering::Relaxed) {
                    words.iter().for_each(|word| _ = table::wake(word, 1));
                    table::wait(&words[0], 0, Some(Duration::from_micros(10)));
                }
            });
            for _ in 0..50 {
                let locked = table::lock_all();
                // SAFETY: the child calls nothing that another thread may have locked.
                let child = unsafe { libc::fork() };
                if child == 0 {
                    table::unlock_all(locked);
                    table::forget_sleepers();
                    // SAFETY: ends this process, if it hangs.
                    unsafe { libc::alarm(300) };
                    for n in 0..64 {
                        let word = AtomicU32::new(n);
                        table::wait(&word, n, Some(Duration::from_micros(1)));
                    }
                    // SAFETY: ends this process.
                    unsafe { libc::_exit(0) };
                }
                let mut status = 0;
                // SAFETY: our child.
                assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
                assert_eq!(status, 0);
            }
            done.store(true, Ordering::Relaxed);
        });
    }
}
