//! How long a strand spins for a lock before it sleeps.

use raddle_sync::hint;

const MODEL: bool = cfg!(any(raddle_loom, raddle_shuttle));
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

/// A bounded spin of some 270 pauses, a few microseconds: what a sleep and a wake cost.
///
/// It never yields the processor. Where the holder of the lock shares it, a yield lets the holder
/// run for as long as the scheduler likes, milliseconds mostly, and the strand is neither in the
/// lock's queue meanwhile nor running; asleep it is at least in the queue.
#[derive(Default)]
pub(crate) struct Spin {
    looks: u32,
}

impl Spin {
    /// Four looks, in less than a microsecond.
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
