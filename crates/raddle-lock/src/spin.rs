//! How long a strand spins for a lock before it sleeps.

use crate::core::Patience;
use raddle_sync::hint;
use raddle_sync::spin::Backoff;
use raddle_sync::time::Instant;
use std::time::Duration;

const MODEL: bool = cfg!(raddle_model);
/// Looks at the lock, with 1, 2, 4, 8, and then 16 pauses in between. Many looks, because a lock that is
/// held for half of the time is missed by few; not more, because each takes the word away from its owner.
const LOOKS: u32 = if MODEL {
    0
} else if cfg!(miri) {
    2
} else {
    20
};
const LONGEST: u32 = 4;

/// How often one who only tries looks again at a lock that changes all the time.
const TRIES: u32 = 8;
/// How long one sleeps who waits for a step that another is in the middle of. Giving the processor away would not
/// help that one where the scheduler goes by priority.
const NAP: Duration = Duration::from_micros(50);

/// Waiting for somebody who is between two instructions, and may have lost its processor there.
#[derive(Default)]
pub(crate) struct Moment {
    backoff: Backoff,
    tries: u32,
}

impl Moment {
    /// Waits a little, if it is `unchanged`; false, at once, if there is no time for that, or none left.
    pub(crate) fn pass(&mut self, unchanged: bool, patience: Patience) -> bool {
        if !unchanged {
            self.backoff.reset();
            self.tries += 1;
            return match patience {
                Patience::Try => self.tries < TRIES,
                Patience::Until(_) | Patience::Back => !patience.is_over(),
            };
        }
        let left = match patience {
            Patience::Try => return false,
            Patience::Until(Some(deadline)) => deadline.saturating_duration_since(Instant::now()),
            Patience::Until(None) | Patience::Back => NAP,
        };
        if left.is_zero() {
            return false;
        }
        if !self.backoff.is_completed() {
            self.backoff.spin();
        } else if cfg!(raddle_model) {
            hint::spin_loop();
        } else {
            std::thread::sleep(left.min(NAP));
        }
        true
    }
}

/// A bounded spin of some 270 pauses, 1 to 13 us by processor: less than a sleep and a wake cost.
///
/// It never yields the processor. Where the holder of the lock shares it, a yield lets the holder
/// run for as long as the scheduler likes, milliseconds mostly, and the strand is neither in the
/// lock's queue meanwhile nor running; asleep it is at least in the queue.
#[derive(Default)]
pub(crate) struct Spin {
    looks: u32,
}

impl Spin {
    /// One more look, in less than a microsecond.
    pub(crate) fn short() -> Spin {
        Spin { looks: LOOKS.saturating_sub(1) }
    }

    /// Pauses; false, at once, if the spin is over.
    #[inline]
    pub(crate) fn spin(&mut self) -> bool {
        if self.looks >= LOOKS {
            return false;
        }
        let pauses = if MODEL { 1 } else { 1 << self.looks.min(LONGEST) };
        for _ in 0..pauses {
            hint::spin_loop();
        }
        self.looks += 1;
        true
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    /// One that found the lock changed each time waited on.
    #[test]
    fn what_changes_for_ever_is_not_waited_for_longer_than_there_is_time() {
        let now = Instant::now();
        let mut moment = Moment::default();
        for unchanged in [false, true, false] {
            assert!(!moment.pass(unchanged, Patience::Until(Some(now))));
            assert!(moment.pass(unchanged, Patience::Until(Some(now + 1_000_000 * NAP))));
            assert!(moment.pass(unchanged, Patience::Until(None)));
            assert!(moment.pass(unchanged, Patience::Back));
        }
        let tries = (0..).take_while(|_| Moment::pass(&mut moment, false, Patience::Try)).count();
        assert!(tries < TRIES as usize, "{tries}");
    }
}
