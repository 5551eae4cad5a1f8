//! A short, bounded spin before a thread sleeps.

use crate::{hint, thread};

/// Doublings of the pause before the thread yields instead: 1, 2, 4, .. 64 pauses.
const SPIN_STEPS: u32 = 7;
/// Steps in all; the ones after the pauses yield the processor.
const STEPS: u32 = if cfg!(raddle_model) { 1 } else { SPIN_STEPS + 4 };
/// A thread that goes on after that rests from this step on.
const PATIENCE: u32 = STEPS + 50;
/// For so long. Too short to matter to a thread that waits for one that the system has stopped.
#[cfg(not(raddle_model))]
const REST: std::time::Duration = std::time::Duration::from_micros(50);

/// An exponential back-off: pauses of 1, 2, 4 .. 64, then a few yields, then
/// [`is_completed`](Backoff::is_completed) says that it is time to sleep.
///
/// A thread that cannot sleep, as nobody would wake it, goes on: after some more yields each step sleeps for 50 us. For a yield makes way only
/// for threads of the same priority, and it may be one of a lower that is waited for.
///
/// The whole spin is 127 pauses and 4 yields, a few microseconds: about what a sleep and a wake
/// cost, so that spinning at most doubles the price of a wait.
///
/// ```
/// use raddle_sync::spin::Backoff;
/// let mut backoff = Backoff::new();
/// let mut steps = 0;
/// while !backoff.is_completed() {
///     backoff.spin();
///     steps += 1;
/// }
/// assert!((1..=16).contains(&steps));
/// ```
#[derive(Debug, Clone, Default)]
pub struct Backoff {
    step: u32,
}

impl Backoff {
    /// A back-off that has not spun yet.
    #[inline]
    pub const fn new() -> Backoff {
        Backoff { step: 0 }
    }

    /// Pauses for a little longer than the last time, up to a bound.
    #[inline]
    pub fn spin(&mut self) {
        if self.step < SPIN_STEPS {
            // Under a model every pause is a branch of the search, and one says as much as many.
            let pauses = if cfg!(any(miri, raddle_model)) { 1 } else { 1 << self.step };
            for _ in 0..pauses {
                hint::spin_loop();
            }
        } else if self.step < PATIENCE {
            thread::yield_now();
        } else {
            rest();
        }
        self.step = (self.step + 1).min(PATIENCE);
    }

    /// True once the whole spin is spent.
    #[inline]
    pub fn is_completed(&self) -> bool {
        self.step >= STEPS
    }

    /// Starts again from the shortest pause.
    #[inline]
    pub fn reset(&mut self) {
        self.step = 0;
    }
}

/// For others to run, whatever their priority.
fn rest() {
    #[cfg(not(raddle_model))]
    std::thread::sleep(REST);
    #[cfg(raddle_model)]
    thread::yield_now();
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn completes_after_its_steps_and_resets() {
        let mut backoff = Backoff::new();
        for _ in 0..STEPS {
            assert!(!backoff.is_completed());
            backoff.spin();
        }
        assert!(backoff.is_completed());
        backoff.spin();
        assert!(backoff.is_completed());
        backoff.reset();
        assert!(!backoff.is_completed());
    }
}
