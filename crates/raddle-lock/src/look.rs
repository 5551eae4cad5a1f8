//! Looking who has a lock, or wants it.

use crate::core::{BENEATH, Core};
use crate::pending;
use crate::slot::{self, READY};
use crate::table;
use crate::word::{self, View, view};
use raddle_sync::atomic::Ordering;
use raddle_sync::strand;

impl Core {
    /// Panics unless the strand that runs holds the lock: one that lets go of it, to take it back, must be the one whose
    /// guard it is.
    #[inline]
    pub(crate) fn assert_held(&self) {
        assert!(self.is_held(), "{BENEATH}");
    }

    /// Whether somebody waits for this lock, which this strand holds: asleep, or awake and perhaps without a processor.
    pub(crate) fn is_wanted(&self) -> bool {
        let seen = self.word.load(Ordering::Acquire);
        match view(seen) {
            View::Fat => {
                let state = table::entry(seen & word::INDEX).state.load(Ordering::Relaxed);
                state & (crate::entry::QUEUED | crate::entry::WOKEN) != 0
            }
            View::Thin { owner } => {
                slot::of(owner).flag.load(Ordering::Relaxed) > READY
                    && pending::bucket(self.address()).find().is_some()
            }
            View::Aside { .. } => true,
            View::Free | View::Hashed => false,
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        let seen = self.word.load(Ordering::Acquire);
        match view(seen) {
            View::Free | View::Hashed | View::Aside { owner: 0, .. } => false,
            View::Thin { .. } | View::Aside { .. } => true,
            View::Fat => {
                let entry = table::entry(seen & word::INDEX);
                entry.state.load(Ordering::Relaxed) & crate::entry::LOCKED != 0
                    // Given back between the two looks: then look again.
                    && (self.word.load(Ordering::Acquire) == seen || self.is_locked())
            }
        }
    }

    /// Whether the strand that runs now holds the lock. Exact: what it would read otherwise is its own
    /// doing (L1, E5).
    pub(crate) fn is_held(&self) -> bool {
        let me = strand::token(); // L5
        self.holder() == Some(me)
    }

    /// Who holds the lock, at some moment during the call.
    pub(crate) fn holder(&self) -> Option<u32> {
        let seen = self.word.load(Ordering::Acquire);
        match view(seen) {
            View::Free | View::Hashed | View::Aside { owner: 0, .. } => None,
            View::Thin { owner } | View::Aside { owner, .. } => Some(owner),
            View::Fat => {
                let owner = table::entry(seen & word::INDEX).owner.load(Ordering::Relaxed);
                Some(owner).filter(|&owner| owner != 0)
            }
        }
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::entry::WOKEN;

    /// A guard that was bumped passed over one that had been woken, and had no processor to take the lock by itself.
    #[test]
    fn one_that_was_woken_waits_yet() {
        let core = Core::new();
        core.acquire::<false>();
        assert!(!core.is_wanted());
        let entry = core.inflate_held();
        assert!(!core.is_wanted());
        entry.update(Ordering::Relaxed, |state| state | WOKEN);
        let wanted = core.is_wanted();
        entry.update(Ordering::Relaxed, |state| state & !WOKEN);
        core.release::<false>();
        assert!(wanted);
    }
}
