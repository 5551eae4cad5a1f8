//! The lock word and its protocol.
//!
//! | bits | meaning |
//! |---|---|
//! | 0-15 | the owner's strand id |
//! | 16 | `CONTENDED`: somebody sleeps on the word, or is about to |
//! | 17 | `ANONYMOUS`: held by a strand without an id, all 65,535 being taken |
//!
//! | word | meaning | lock | unlock |
//! |---|---|---|---|
//! | 0 | free | compare-exchange to the owner's | |
//! | owner | held | spin, then set `CONTENDED` and sleep | swap to 0 |
//! | owner, `CONTENDED` | held, wanted | sleep | swap to 0, wake one |
//!
//! **I1** The word is not 0 exactly while somebody holds the lock, and only the holder makes it 0.
//! **I2** Whoever sleeps does so on a word with `CONTENDED` set, so the holder that frees it wakes one.
//! Whoever takes the lock after having slept sets `CONTENDED` again, because others may still sleep:
//! the wake-up it used up is passed on by its own unlock. Whoever gives up after a time limit does so
//! with `CONTENDED` set, for the same reason.
//! **I3** Only a strand itself writes its id into a free word, so a strand that reads its own id holds
//! the lock, however old the value it reads.

use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::spin::Backoff;
use raddle_sync::{const_fn, futex, strand};
use std::fmt;
use std::time::{Duration, Instant};

const FREE: u32 = 0;
const CONTENDED: u32 = 1 << 16;
const ANONYMOUS: u32 = 1 << 17;

/// A four-byte mutual-exclusion lock without a value, for `lock_api::Mutex` and its kin.
///
/// Most callers want [`Mutex`](crate::Mutex). The lock belongs to the strand that took it; the guards
/// of `lock_api` stay on their thread. A guard kept beyond the end of its strand (a
/// [`ForeignStrand`](raddle_sync::strand::ForeignStrand), or a thread) leaves the lock in the name of
/// whichever strand gets the id next.
///
/// ```
/// type Mutex<T> = lock_api::Mutex<raddle_lock::RawThinLock, T>;
/// static TOTAL: Mutex<u32> = Mutex::new(0);
/// *TOTAL.lock() += 1;
/// assert_eq!(*TOTAL.lock(), 1);
/// assert_eq!(size_of::<raddle_lock::RawThinLock>(), 4);
/// ```
///
/// # Panics
///
/// Locking panics if the same strand holds the lock already, unless there was no id for it.
pub struct RawThinLock {
    word: AtomicU32,
}

/// This strand's value for a held word.
#[inline]
fn me() -> u32 {
    strand::current().map_or(ANONYMOUS, |id| u32::from(id.get()))
}

impl RawThinLock {
    const_fn! {
        /// A free lock.
        pub const fn new() -> RawThinLock {
            RawThinLock { word: AtomicU32::new(FREE) }
        }
    }

    #[inline]
    pub(crate) fn acquire(&self) {
        let me = me();
        if !self.try_acquire_as(me) {
            self.acquire_slow(me);
        }
    }

    #[inline]
    pub(crate) fn try_acquire(&self) -> bool {
        self.try_acquire_as(me())
    }

    /// Takes the lock before `deadline` (`None`: whenever). False if the time ran out, and at once if
    /// this strand holds the lock, since it would only wait for itself.
    pub(crate) fn acquire_until(&self, deadline: Option<Instant>) -> bool {
        let me = me();
        self.try_acquire_as(me) || (!self.is_held_by(me) && self.contend(me, deadline))
    }

    #[inline]
    fn try_acquire_as(&self, me: u32) -> bool {
        // ORD: Acquire pairs with the Release in `release`: what the last holder did happens before.
        self.word.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_ok()
    }

    /// Frees the lock. Only its holder may call this.
    #[inline]
    pub(crate) fn release(&self) {
        // ORD: Release pairs with the Acquires in `try_acquire_as` and `contend`.
        if self.word.swap(FREE, Ordering::Release) & CONTENDED != 0 {
            futex::wake(&self.word, 1); // I2
        }
    }

    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.word.load(Ordering::Relaxed) != FREE
    }

    fn is_held_by(&self, me: u32) -> bool {
        // ORD: `Relaxed` is enough (I3). An anonymous strand cannot know its own holds from others'.
        me != ANONYMOUS && self.word.load(Ordering::Relaxed) & !CONTENDED == me
    }

    #[cold]
    fn acquire_slow(&self, me: u32) {
        assert!(
            !self.is_held_by(me),
            "this lock is held by the strand that wants it: it is not re-entrant, and waiting would hang"
        );
        self.contend(me, None);
    }

    /// Spins, then sleeps, until the lock is taken (true) or the deadline is past (false).
    #[cold]
    fn contend(&self, me: u32, deadline: Option<Instant>) -> bool {
        let mut backoff = Backoff::new();
        // `CONTENDED` once this thread has slept (I2).
        let mut mark = 0;
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            if seen == FREE {
                // ORD: Acquire pairs with the Release in `release`.
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                match self.word.compare_exchange(FREE, me | mark, success, failure) {
                    Ok(_) => return true,
                    Err(now) => seen = now,
                }
                continue;
            }
            // Where somebody sleeps already, the lock is held for longer than a spin lasts.
            if seen & CONTENDED == 0 {
                if !backoff.is_completed() {
                    backoff.spin();
                    seen = self.word.load(Ordering::Relaxed);
                    continue;
                }
                let wanted = seen | CONTENDED;
                let relaxed = Ordering::Relaxed; // ORD: carries no data; the futex orders the sleep
                if let Err(now) = self.word.compare_exchange(seen, wanted, relaxed, relaxed) {
                    seen = now;
                    continue;
                }
                seen = wanted;
            }
            let remaining = deadline.map(|d| d.saturating_duration_since(Instant::now()));
            if remaining == Some(Duration::ZERO) {
                return false; // I2: the word is marked
            }
            futex::wait(&self.word, seen, remaining);
            mark = CONTENDED;
            backoff.reset();
            seen = self.word.load(Ordering::Relaxed);
        }
    }
}

impl Default for RawThinLock {
    fn default() -> RawThinLock {
        RawThinLock::new()
    }
}

impl fmt::Debug for RawThinLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawThinLock").field("locked", &self.is_taken()).finish()
    }
}

// Loom's words cannot be built in a `const`, which `INIT` must be.
#[cfg(not(raddle_loom))]
mod traits {
    use super::{Duration, Instant, RawThinLock};

    // SAFETY: `acquire` and a true `try_acquire` return to one caller at a time until it calls
    // `release` (I1); the guards stay on their thread.
    unsafe impl lock_api::RawMutex for RawThinLock {
        const INIT: RawThinLock = RawThinLock::new();
        type GuardMarker = lock_api::GuardNoSend;

        #[inline]
        fn lock(&self) {
            self.acquire();
        }

        #[inline]
        fn try_lock(&self) -> bool {
            self.try_acquire()
        }

        #[inline]
        unsafe fn unlock(&self) {
            self.release();
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.is_taken()
        }
    }

    // SAFETY: a true answer of `acquire_until` is as good as `acquire`'s return (I1).
    unsafe impl lock_api::RawMutexTimed for RawThinLock {
        type Duration = Duration;
        type Instant = Instant;

        fn try_lock_for(&self, limit: Duration) -> bool {
            self.acquire_until(Instant::now().checked_add(limit))
        }

        fn try_lock_until(&self, deadline: Instant) -> bool {
            self.acquire_until(Some(deadline))
        }
    }
}

#[cfg(all(test, not(any(raddle_loom, raddle_shuttle))))]
mod tests {
    use super::*;
    use raddle_sync::thread;
    use std::sync::Arc;

    #[test]
    fn a_free_word_is_zero_and_a_held_one_names_its_owner() {
        let lock = RawThinLock::new();
        lock.acquire();
        assert_eq!(lock.word.load(Ordering::Relaxed), me());
        assert!(lock.is_taken());
        assert!(!lock.try_acquire());
        lock.release();
        assert_eq!(lock.word.load(Ordering::Relaxed), FREE);
    }

    #[test]
    fn a_strand_without_an_id_locks_anonymously_and_is_never_taken_for_the_owner() {
        let lock = RawThinLock::new();
        assert!(lock.try_acquire_as(ANONYMOUS));
        assert!(!lock.is_held_by(ANONYMOUS));
        assert!(!lock.try_acquire_as(ANONYMOUS));
        lock.release();
        assert!(!lock.is_taken());
    }

    #[test]
    fn a_sleeper_marks_the_word_and_is_woken_by_the_unlock() {
        let lock = Arc::new(RawThinLock::new());
        lock.acquire();
        let other = Arc::clone(&lock);
        let sleeper = thread::spawn(move || {
            other.acquire();
            let word = other.word.load(Ordering::Relaxed);
            other.release();
            word
        });
        // Not a race to win: the mark must appear, however long the other thread takes.
        while lock.word.load(Ordering::Relaxed) & CONTENDED == 0 {
            thread::yield_now();
        }
        lock.release();
        let word = sleeper.join().unwrap();
        assert_ne!(word & !CONTENDED, FREE);
        assert!(!lock.is_taken());
    }

    #[test]
    fn a_limit_that_runs_out_leaves_the_lock_usable() {
        let lock = Arc::new(RawThinLock::new());
        lock.acquire();
        let other = Arc::clone(&lock);
        let limit = Duration::from_millis(10);
        let waited = thread::spawn(move || {
            let start = Instant::now();
            assert!(!other.acquire_until(start.checked_add(limit)));
            start.elapsed()
        })
        .join()
        .unwrap();
        assert!(waited >= limit);
        lock.release();
        assert!(lock.acquire_until(Some(Instant::now())), "a free lock needs no time");
        lock.release();
    }

    #[test]
    fn a_timed_attempt_on_the_own_lock_fails_at_once() {
        let lock = RawThinLock::new();
        lock.acquire();
        assert!(!lock.acquire_until(None));
        lock.release();
    }
}
