//! Looking who has a readers-writer lock, or wants it.

use super::core::{CLAIMED, COUNT, HELD, PARKED, RwCore, SLOTS, UPGRADABLE};
use super::queue;
use crate::core::BENEATH;
use crate::slot;
use crate::word::MAX_OWNER;
use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::strand;

impl RwCore {
    /// Whether the running strand reads the lock, of which it has just seen `word`, published. Nobody takes it away meanwhile.
    pub(super) fn is_read_here(&self, word: u32) -> bool {
        let me = strand::token();
        let is_it = |cell: &AtomicUsize| slot::names(cell.load(Ordering::Relaxed), self.address());
        word & SLOTS != 0 && me <= MAX_OWNER && slot::of(me).reads.iter().any(is_it) // R2
    }

    /// A strand of this thread that is published with [`HOLDS`](slot::HOLDS), and where; the running one first.
    #[inline]
    pub(super) fn find_held(&self) -> Option<(u32, &'static AtomicUsize)> {
        let held = self.address() | slot::HOLDS;
        strand::with_local(|local| {
            local.find_name(|name| {
                let reads = &slot::of(name).reads;
                let cell = reads.iter().find(|cell| cell.load(Ordering::Relaxed) == held)?;
                Some((name, cell))
            })
        })
    }

    /// Panics if the writer, as far as it has a name, is not the strand that runs. As [`Core::assert_held`].
    ///
    /// [`Core::assert_held`]: crate::core::Core::assert_held
    #[cfg_attr(raddle_loom, allow(dead_code, reason = "for `lock_api`"))]
    pub(super) fn assert_written_here(&self) {
        let me = strand::token(); // L5
        let owner = self.word.load(Ordering::Relaxed) & MAX_OWNER;
        assert!(owner == 0 || owner == me, "{BENEATH}");
    }

    /// Whether a strand of this thread that does not run is published with [`HOLDS`](slot::HOLDS). A read that is counted is
    /// nobody's.
    #[cfg_attr(raddle_loom, allow(dead_code, reason = "for `lock_api`"))]
    pub(super) fn is_held_beneath(&self) -> bool {
        let (me, held) = (strand::token(), self.address() | slot::HOLDS);
        let is_it = |cell: &AtomicUsize| cell.load(Ordering::Relaxed) == held;
        let holds = |name| name != me && slot::of(name).reads.iter().any(is_it);
        strand::with_local(|local| local.find_name(|name| holds(name).then_some(()))).is_some()
    }

    /// Whether a cell names this lock. Where the word says `SLOTS` (R2); after the barrier (R1).
    pub(super) fn is_published(&self) -> bool {
        let address = self.address();
        // ORD: Acquire pairs with the Releases in `leave` and `publish_in`, and when a lock is dropped.
        slot::any_read(|cell| slot::names(cell.load(Ordering::Acquire), address))
    }

    /// Whether somebody reads, as far as that is seen without a barrier.
    pub(super) fn is_read(&self, word: u32) -> bool {
        word & COUNT != 0 || word & SLOTS != 0 && self.is_published()
    }

    /// The strands that have the lock, or have claimed it, as far as they are known.
    pub(super) fn holders(&self) -> Vec<u32> {
        let word = self.word.load(Ordering::Relaxed);
        match word & (HELD | CLAIMED) {
            CLAIMED => queue::bucket(self).claimant().into_iter().collect(),
            HELD if word & MAX_OWNER != 0 => vec![word & MAX_OWNER],
            _ => Vec::new(),
        }
    }

    pub(crate) fn is_locked(&self) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        word & (HELD | UPGRADABLE | COUNT) != 0 || word & SLOTS != 0 && self.is_published()
    }

    /// Whether a writer has the lock.
    pub(crate) fn is_written(&self) -> bool {
        self.word.load(Ordering::Relaxed) & HELD != 0
    }

    /// Whether somebody waits to come in.
    pub(crate) fn is_wanted(&self) -> bool {
        self.word.load(Ordering::Relaxed) & (PARKED | CLAIMED) != 0
    }
}
