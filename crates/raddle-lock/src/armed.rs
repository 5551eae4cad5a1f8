//! Flags on those who hold fat locks.

use crate::slot;
use crate::word;
use raddle_sync::time::Instant;

/// A flag on the holder of a sticky entry, taken back unless the entry keeps it.
pub(crate) struct Armed(u32);

impl Armed {
    /// Flags `holder`, if it can be: 0 is nobody, and strands without an id have no slot.
    /// `None` if the deadline passes meanwhile.
    pub(crate) fn new(holder: u32, deadline: Option<Instant>) -> Option<Armed> {
        if !(1..=word::MAX_OWNER).contains(&holder) {
            return Some(Armed(0));
        }
        // Lazily: one that is not armed has nothing to take back.
        slot::arm(holder, deadline).then(|| Armed(holder))
    }

    /// Whom it flags, or 0.
    pub(crate) fn holder(&self) -> u32 {
        self.0
    }

    /// Leaves the flag to the entry.
    pub(crate) fn leave(&mut self) {
        self.0 = 0;
    }
}

impl Drop for Armed {
    fn drop(&mut self) {
        if self.0 != 0 {
            slot::disarm(self.0);
        }
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use raddle_sync::atomic::Ordering;

    #[test]
    fn a_flag_that_came_too_late_is_taken_back_once() {
        let owner = word::MAX_OWNER - 1; // nobody's
        let slot = slot::of(owner);
        // As if stopped within a release.
        slot.releasing.store(1, Ordering::Relaxed);
        assert!(Armed::new(owner, Some(Instant::now())).is_none());
        slot.releasing.store(0, Ordering::Relaxed);
        assert_eq!(slot.flag.load(Ordering::Relaxed), 0);
    }
}
