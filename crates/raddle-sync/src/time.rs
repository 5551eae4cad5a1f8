//! The clock: under shuttle one that goes on by a step each time somebody looks at it, so that a spin for so long ends.

#[cfg(not(raddle_shuttle))]
pub use std::time::Instant;

#[cfg(raddle_shuttle)]
pub use self::counted::Instant;

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
