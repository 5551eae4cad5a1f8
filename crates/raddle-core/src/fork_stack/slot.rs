//! One place of a fork stack: what is forked there, whether it is done, and who has stolen it.

use raddle_sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use super::INDEX_BITS;
use crate::job::ForkHeader;

/// The bits of a slot's index, and of a fork's date.
const INDEX_MASK: u32 = (1 << INDEX_BITS) - 1;
/// In place of a job: the owner waits for its thief.
const WAITING: usize = 1;
/// Nobody has finished the stolen job of this slot, and its owner is awake.
pub(crate) const PENDING: u32 = 0;
/// The stolen job of this slot is finished.
pub(crate) const DONE: u32 = 1;
/// Not finished, and the owner sleeps until it is.
pub(crate) const SLEEPING: u32 = 2;

/// Where one fork is: 16 bytes.
#[derive(Debug)]
// Shuttle's atomics are larger than they are, and a worker memory's size is a power of two.
#[cfg_attr(raddle_shuttle, repr(align(256)))]
pub(crate) struct Slot {
    /// Null: not below the head. Else a job, or [`WAITING`].
    pub(super) job: AtomicPtr<ForkHeader>,
    /// `PENDING` unless the job was stolen; outside the job so that setting it never touches the
    /// frame that the owner then leaves.
    pub(crate) done: AtomicU32,
    /// Who stole the job, and at which depth of the thief's stack it runs: see [`Thief`]. Before that [how
    /// old](Slot::date) the fork is.
    pub(crate) thief: AtomicU32,
}

impl Slot {
    #[cfg(raddle_model)]
    pub(crate) fn new() -> Slot {
        Slot {
            job: AtomicPtr::new(std::ptr::null_mut()),
            done: AtomicU32::new(PENDING),
            thief: AtomicU32::new(0),
        }
    }

    /// Whether this slot is below the head.
    #[inline(always)]
    pub(crate) fn is_taken(&self) -> bool {
        // ORD: only the owner asks, about its own stores.
        !self.job.load(Ordering::Relaxed).is_null()
    }

    /// What is forked here next comes after the tasks that lie in the owner's ring below this `position`.
    ///
    /// By the owner, with nothing here.
    #[inline]
    pub(crate) fn date(&self, position: usize) {
        // ORD: a hint to thieves. No thief's signature: those are greater.
        self.thief.store(position as u32 & INDEX_MASK, Ordering::Relaxed);
    }

    /// Whether the fork that is here comes after the task at this `position` of the owner's ring, whose `end` has moved by less than
    /// half of what a date can say. Of a fork that was not dated nothing can be said.
    pub(super) fn comes_after(&self, position: usize, end: usize) -> bool {
        // ORD: of a job that was seen. Of one that goes meanwhile any answer will do (I2).
        let date = self.thief.load(Ordering::Relaxed);
        // Dates go round.
        let unused = u32::BITS - INDEX_BITS;
        let behind = ((end as u32).wrapping_sub(date) << unused) as i32 >> unused;
        let date_in_full = end.wrapping_sub(behind as usize);
        date <= INDEX_MASK && date_in_full.wrapping_sub(position) as isize > 0
    }

    /// The fork in this slot.
    ///
    /// By the owner, before it is published.
    pub(crate) fn fork(&self) -> &ForkHeader {
        // ORD: the owner's own store.
        let job = self.job.load(Ordering::Relaxed);
        // SAFETY: just pushed, and not popped.
        unsafe { &*job }
    }

    /// Whether the owner of this slot, whose fork was stolen, waits for the thief by now: a hint for the thief.
    pub(crate) fn is_awaited(&self) -> bool {
        // ORD: a hint.
        self.job.load(Ordering::Relaxed).addr() == WAITING
    }

    /// Marks the slot of a stolen fork as below the head while its owner waits for the thief.
    pub(crate) fn mark_waiting(&self) {
        // ORD: read by the owner, and by its thief as a hint; `tail` is above this slot (I6), so nobody takes
        // it for a job.
        self.job.store(std::ptr::without_provenance_mut(WAITING), Ordering::Relaxed);
    }
}

/// Who runs a stolen job: the worker's index and the slot from which its own forks start, so that
/// the victim can help with just those (leapfrogging: Wagner and Calder, 1993).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thief {
    pub(crate) worker: usize,
    pub(crate) floor: usize,
}

impl Thief {
    /// The most workers that the packed form can name.
    pub(crate) const MAX_WORKERS: usize = (1 << (32 - INDEX_BITS)) - 2;

    /// In place of a thief that runs something else while it waits.
    pub(crate) const HIDDEN: u32 = u32::MAX;

    /// Greater than any index: such a word says that no thief has signed yet.
    pub(crate) fn pack(self) -> u32 {
        ((self.worker as u32 + 1) << INDEX_BITS) | self.floor as u32
    }

    /// Who it is; none if it has not signed yet, or hides.
    pub(crate) fn unpack(word: u32) -> Option<Thief> {
        if word == Thief::HIDDEN {
            return None;
        }
        let worker = (word >> INDEX_BITS).checked_sub(1)? as usize;
        Some(Thief { worker, floor: (word & INDEX_MASK) as usize })
    }
}
