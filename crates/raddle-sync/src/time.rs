//! The clock: under shuttle one that goes on by a step each time somebody looks at it, so that a spin for so long ends.
//! Under loom there is none, but a model may let time-outs expire, by `let_expire`.

#[cfg(not(raddle_shuttle))]
pub use std::time::Instant;

#[cfg(raddle_shuttle)]
pub use self::counted::{Instant, may_pass};

#[cfg(raddle_loom)]
pub(crate) use self::chosen::has_expired;
#[cfg(raddle_loom)]
pub use self::chosen::let_expire;

#[cfg(raddle_loom)]
mod chosen {
    use crate::atomic::{AtomicU32, Ordering};
    use crate::sync::{Arc, Mutex};

    loom::lazy_static! {
        static ref LIMITS: Mutex<Vec<Arc<AtomicU32>>> = Mutex::new(Vec::new());
    }

    /// From here on the next `times` sleeps of this execution that have a limit find it over at once, or sleep until they
    /// are woken: loom explores both for each. Takes one of the model's threads, to be joined at the end.
    #[must_use = "statics are torn down in any order when the main thread ends, which must be the last"]
    pub fn let_expire(times: usize) -> loom::thread::JoinHandle<()> {
        // A choice is a load that nothing orders with the only store.
        let limits: Vec<_> = (0..times).map(|_| Arc::new(AtomicU32::new(0))).collect();
        *LIMITS.lock() = limits.clone();
        let clock = loom::thread::spawn(move || {
            for limit in limits {
                limit.store(1, Ordering::Relaxed);
            }
        });
        loom::thread::yield_now();
        clock
    }

    /// Whether the limit of the sleep that begins now is over.
    pub(crate) fn has_expired() -> bool {
        let limit = LIMITS.lock().pop();
        limit.is_some_and(|limit| limit.load(Ordering::Relaxed) != 0)
    }
}

#[cfg(raddle_shuttle)]
mod counted {
    use std::cell::Cell;
    use std::ops::{Add, Sub};
    use std::time::Duration;

    /// By how much the clock goes on.
    const STEP: Duration = Duration::from_micros(20);

    thread_local! {
        /// All threads of a model run on one thread of the system.
        static NOW: Cell<Duration> = const { Cell::new(Duration::ZERO) };
    }

    /// Lets other threads go on; then so long has passed (true), or next to no time.
    pub fn may_pass(time: Duration) -> bool {
        use shuttle::rand::Rng;
        shuttle::thread::yield_now();
        let passes = shuttle::rand::thread_rng().gen_bool(0.2);
        if passes {
            // No further than what adds up.
            NOW.set(NOW.get().saturating_add(time.min(Duration::from_secs(1 << 40))));
        }
        passes
    }

    /// As [`std::time::Instant`].
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
    pub struct Instant(Duration);

    impl Instant {
        /// A step after the last time that was asked for.
        pub fn now() -> Instant {
            NOW.set(NOW.get() + STEP);
            Instant(NOW.get())
        }

        /// As of `std`.
        pub fn elapsed(&self) -> Duration {
            Instant::now().saturating_duration_since(*self)
        }

        /// As of `std`.
        pub fn saturating_duration_since(&self, earlier: Instant) -> Duration {
            self.0.saturating_sub(earlier.0)
        }

        /// As of `std`.
        pub fn checked_add(&self, time: Duration) -> Option<Instant> {
            self.0.checked_add(time).map(Instant)
        }

        /// As of `std`.
        pub fn checked_sub(&self, time: Duration) -> Option<Instant> {
            self.0.checked_sub(time).map(Instant)
        }
    }

    impl Sub for Instant {
        type Output = Duration;

        fn sub(self, earlier: Instant) -> Duration {
            self.saturating_duration_since(earlier)
        }
    }

    impl Add<Duration> for Instant {
        type Output = Instant;

        fn add(self, time: Duration) -> Instant {
            Instant(self.0 + time)
        }
    }
}
