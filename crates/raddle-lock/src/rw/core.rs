//! The word of a readers-writer lock, and who may change it how.
//!
//! | bit | meaning |
//! |---|---|
//! | 31 `HELD` | a writer has the lock; its name is in bits 15-0, if it has an id |
//! | 30 `CLAIMED` | one who will write waits for the readers to leave; nobody comes in but who reads already, or reads recursively |
//! | 29 `UPGRADABLE` | one reads who may write later; others may read |
//! | 28 `SLOTS` | readers may be in slots |
//! | 27 `PARKED` | somebody sleeps in the lock's bucket |
//! | 26-0 | readers that are counted; 0 where `HELD` |
//!
//! A reader is *counted* in the word, or *published* in a slot of its strand, which is a cell with the lock's address, and
//! whether the strand counts it among what it holds:
//!
//! ```text
//! reader:  cell = lock;  light fence;  in, if the word says SLOTS and neither CLAIMED nor HELD;  else cell = 0
//!          ..  cell = 0;  light fence;  if the word says CLAIMED, wake who has claimed
//! writer:  word |= CLAIMED;  if SLOTS: heavy fence, wait until no cell names the lock;  wait until none is counted;  HELD
//! ```
//!
//! **R1** Of a reader that publishes and a writer that claims, and runs the fence, at least one sees the other: the reader
//! the claim, and leaves again, or the writer the cell, and waits for it. So it is with a reader that leaves: either the
//! writer sees the cell empty, or the reader sees the claim, and wakes it.
//! **R2** `SLOTS` is set by a counted reader only, and taken away only by the step from `CLAIMED` to `HELD`, when all cells
//! have been seen empty. So where it is not set nobody who is published is in, and a writer needs no barrier. Nor may it look at
//! cells then: one that still names the lock is of a reader that has come too late, and need not see the claim as it leaves.
//! **R3** The step to `HELD` finds no counted reader. One that is counted while it is published as well keeps the
//! writer waiting throughout: it is counted before its cell is empty.
//! **R4** `PARKED` is set and taken away under the bucket's lock, and is set while somebody is queued there. Whoever waits
//! there waits for `HELD`, `CLAIMED` or `UPGRADABLE` to go, and whoever takes one of these away wakes the first.
//! **R5** A lock outlives the calls that release it: a reader looks at the word after it has left its cell.
//! **R6** Readers do not sleep where only `UPGRADABLE` is set. A writer that is woken alone, and finds that somebody has
//! become that meanwhile, wakes them as it queues again.
//! **R7** A read whose guard does not know its cell is published with [`HOLDS`](slot::HOLDS), and held. So who ends such a
//! read, and takes the hold back, finds no cell of a guard that knows its own, forgotten where this lock lies now.

use super::queue::{self, Kind};
use crate::core::Patience;
use crate::deadlock;
use crate::queue::{HAND_OFF, Node, WAITING};
use crate::slot;
use crate::spin::Spin;
use crate::word::MAX_OWNER;
use raddle_sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use raddle_sync::parker::Parker;
use raddle_sync::{const_fn, fence, strand};
use std::panic::resume_unwind;

pub(super) const HELD: u32 = 1 << 31;
pub(super) const CLAIMED: u32 = 1 << 30;
pub(super) const UPGRADABLE: u32 = 1 << 29;
pub(super) const SLOTS: u32 = 1 << 28;
pub(super) const PARKED: u32 = 1 << 27;
pub(super) const COUNT: u32 = PARKED - 1;
const OWNER: u32 = MAX_OWNER;

const MODEL: bool = cfg!(raddle_model);

/// A strand that reads without a hold, and forgets the guard, leaves the cell to the next strand of that name.
pub(super) const READS: &str = "this lock is read by the strand that wants to write, or was by an earlier one of the same name, \
                     which forgot its guard: waiting would hang";

/// The word of a lock.
pub(crate) struct RwCore {
    pub(super) word: AtomicU32,
}

/// Where a reader is published; `None`: it is counted.
pub(crate) type Cell = Option<&'static AtomicUsize>;

impl RwCore {
    const_fn! {
        pub(crate) const fn new() -> RwCore {
            RwCore { word: AtomicU32::new(0) }
        }
    }

    pub(super) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Comes in as a reader, if that needs no waiting and the lock is read often enough to be published. `HOLDS` is that of
    /// [`slot`], or 0 (R7).
    #[inline(always)]
    pub(crate) fn publish<const HOLDS: usize>(&self) -> Cell {
        let me = strand::with_local(strand::Local::token_or_zero);
        if me.wrapping_sub(1) >= MAX_OWNER {
            return None;
        }
        // ORD: a hint; it is looked at again below.
        if self.word.load(Ordering::Relaxed) & (SLOTS | CLAIMED | HELD) != SLOTS {
            return None;
        }
        let cell = &slot::of(me).reads[0];
        if cell.load(Ordering::Relaxed) != 0 {
            return self.publish_elsewhere::<HOLDS>(me);
        }
        self.publish_in::<HOLDS>(cell)
    }

    #[inline(always)]
    fn publish_in<const HOLDS: usize>(&self, cell: &'static AtomicUsize) -> Cell {
        // ORD: Release, as in `leave`: a writer of the lock that was read before may see the cell as late as this.
        cell.store(self.address() | HOLDS, Ordering::Release);
        // ORD: Dekker with `drain`, whose half is the heavy fence (R1).
        fence::light();
        // ORD: Acquire pairs with the Releases that take `HELD` away: what the last writer did.
        if self.word.load(Ordering::Acquire) & (SLOTS | CLAIMED | HELD) == SLOTS {
            return Some(cell);
        }
        self.leave(cell);
        None
    }

    #[cold]
    fn publish_elsewhere<const HOLDS: usize>(&self, me: u32) -> Cell {
        let cell = slot::of(me).reads.iter().find(|cell| cell.load(Ordering::Relaxed) == 0)?;
        self.publish_in::<HOLDS>(cell)
    }

    /// Waits, as long as it may, to come in as a reader. `again`: also where one has claimed the lock, if somebody
    /// reads who keeps that one waiting. The error is that it did not come in.
    ///
    /// # Panics
    ///
    /// As [`wait`](RwCore::wait).
    #[cold]
    #[inline(never)]
    pub(crate) fn read_slow(&self, again: bool, patience: Patience) -> Result<Cell, ()> {
        strand::token(); // so that the next one can publish
        let taken = self.wait(Kind::Read, patience, |word| {
            let in_the_way = word & (HELD | CLAIMED);
            let passes = in_the_way == 0
                || in_the_way == CLAIMED
                    && (again && self.is_read(word) || self.is_read_here(word));
            passes.then(|| self.counted(word))
        });
        if taken { Ok(None) } else { Err(()) }
    }

    /// The word with one more reader.
    fn counted(&self, word: u32) -> u32 {
        assert_room(word);
        let slots = if word & (SLOTS | CLAIMED) == 0 && slot::may_publish() { SLOTS } else { 0 };
        (word + 1) | slots
    }

    /// Ends what [`publish`](RwCore::publish) or [`read_slow`](RwCore::read_slow) has begun.
    #[inline(always)]
    pub(crate) fn end_read(&self, cell: Cell) {
        match cell {
            Some(cell) => self.leave(cell),
            None => self.end_counted(),
        }
    }

    #[inline(always)]
    fn leave(&self, cell: &AtomicUsize) {
        // ORD: Release pairs with the Acquire in `is_published`: the reads are over. That may find what is stored here
        // later; those stores are Releases, too.
        cell.store(0, Ordering::Release);
        // ORD: Dekker with `drain` (R1).
        fence::light();
        // R5
        if self.word.load(Ordering::Relaxed) & CLAIMED != 0 {
            queue::wake_claimant(self);
        }
    }

    #[inline]
    fn end_counted(&self) {
        // ORD: Release pairs with the Acquire of the step to `HELD`: the reads are over.
        let before = self.word.fetch_sub(1, Ordering::Release);
        debug_assert!(before & COUNT != 0 && before & HELD == 0);
        if before & (COUNT | CLAIMED) == (CLAIMED | 1) {
            queue::wake_claimant(self);
        }
    }

    /// Ends a read of which is not known where it is published, or whether it is counted; the name of the strand that is
    /// published.
    #[inline]
    pub(crate) fn end_read_somewhere(&self) -> Option<u32> {
        let found = self.find_held();
        self.end_read(found.map(|(_, cell)| cell));
        found.map(|(name, _)| name)
    }

    /// Comes in as the writer, if that needs no waiting for anybody nor for a barrier.
    #[inline(always)]
    pub(crate) fn write_now(&self) -> bool {
        let me = strand::with_local(strand::Local::token_or_zero);
        // ORD: Acquire pairs with the Releases by which the last writer and the last reader left.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        let written = me.wrapping_sub(1) < MAX_OWNER
            && self.word.compare_exchange(0, HELD | me, success, failure).is_ok();
        if written {
            strand::with_local(strand::Local::hold);
        }
        written
    }

    /// Waits to come in as the writer, as long as it may; not at all if the running strand has the lock already, as far as that
    /// can be seen: it writes, or reads published.
    ///
    /// # Panics
    ///
    /// If the running strand has the lock, and there is no limit.
    #[cold]
    #[inline(never)]
    pub(crate) fn write_slow(&self, patience: Patience) -> bool {
        let me = strand::token(); // L5
        let word = self.word.load(Ordering::Relaxed);
        let (writes, reads) = (is_writer(me, word), self.is_read_here(word));
        if (writes || reads) && patience.ends() {
            return false;
        }
        assert!(!writes, "this lock is held by the strand that wants to write: waiting would hang");
        assert!(!reads, "{READS}");
        if matches!(patience, Patience::Try) && self.is_read(word) {
            return false; // A claim would keep others out meanwhile, for nothing, and cost a barrier.
        }
        self.wait(Kind::Write, patience, |word| {
            (word & (HELD | CLAIMED | UPGRADABLE) == 0).then_some(word | CLAIMED)
        }) && self.drain(patience, 0)
    }

    /// Comes in as the one reader that may write later.
    ///
    /// # Panics
    ///
    /// As [`wait`](RwCore::wait).
    pub(crate) fn read_upgradable(&self, patience: Patience) -> bool {
        self.wait(Kind::Upgradable, patience, |word| {
            (word & (HELD | CLAIMED | UPGRADABLE) == 0).then(|| {
                assert_room(word); // It may become one that is counted.
                word | UPGRADABLE
            })
        })
    }

    /// Ends the writer's time; for whoever waits longest, if `fair`.
    #[inline]
    pub(crate) fn end_write(&self, fair: bool) {
        let me = strand::with_local(strand::Local::token_or_zero);
        // ORD: as below.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        if me.wrapping_sub(1) < MAX_OWNER
            && self.word.compare_exchange(HELD | me, 0, success, failure).is_ok()
        {
            // SAFETY: its name is out of the lock's word.
            return strand::with_local(|local| unsafe { local.unhold() });
        }
        self.end_write_slow(fair);
    }

    /// Where somebody waits, or the writer is not the running strand, or has no id.
    #[cold]
    #[inline(never)]
    fn end_write_slow(&self, fair: bool) {
        let seen = self.word.load(Ordering::Relaxed);
        // ORD: Release pairs with the Acquires of those who come in.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        if seen & PARKED != 0 || self.word.compare_exchange(seen, 0, success, failure).is_err() {
            queue::wake(self, HELD | OWNER, fair);
        }
        unhold(seen);
    }

    /// Makes a counted reader of the writer.
    pub(crate) fn downgrade(&self) {
        // ORD: Release pairs with the Acquires of those who come in.
        let before = self.change(Ordering::Release, |word| (word & PARKED) | 1);
        if before & PARKED != 0 {
            queue::wake(self, 0, false);
        }
        unhold(before);
    }

    /// Ends the time of the one that may write later; `also` is counted into the word.
    pub(crate) fn end_upgradable(&self, also: u32) {
        // Counted first: while `UPGRADABLE` is set nobody claims the lock.
        let seen = self.word.fetch_add(also, Ordering::Relaxed);
        if seen & PARKED != 0 {
            return queue::wake(self, UPGRADABLE, false);
        }
        // ORD: Release pairs with the Acquire of those who claim.
        let before = self.change(Ordering::Release, |word| word & !UPGRADABLE);
        if before & PARKED != 0 {
            queue::wake(self, 0, false);
        }
    }

    pub(super) fn change(&self, order: Ordering, change: impl Fn(u32) -> u32) -> u32 {
        let mut seen = self.word.load(Ordering::Relaxed);
        loop {
            match self.word.compare_exchange_weak(seen, change(seen), order, Ordering::Relaxed) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }

    /// Waits until `step` can be taken, and takes it. False if the time is over.
    ///
    /// # Panics
    ///
    /// If it would wait for ever, as the running strand is the writer, and has an id.
    fn wait(&self, kind: Kind, patience: Patience, step: impl Fn(u32) -> Option<u32>) -> bool {
        let me = strand::token();
        let mut spin = Spin::default();
        // Has been woken, and lost to somebody else.
        let mut lost = false;
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            if let Some(next) = step(seen) {
                // ORD: Acquire pairs with the Releases by which others left.
                let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                if self.word.compare_exchange(seen, next, success, failure).is_ok() {
                    return true;
                }
                continue;
            }
            if matches!(patience, Patience::Try) {
                return false;
            }
            assert!(
                !is_writer(me, seen) || patience.deadline().is_some(),
                "this lock is held by the strand that wants to read: waiting would hang"
            );
            if seen & PARKED == 0 && spin.spin() {
                continue;
            }
            let node = Node::new();
            let mut bucket = queue::bucket(self);
            let seen = self.word.load(Ordering::Relaxed);
            if step(seen).is_some() {
                continue;
            }
            // ORD: `Relaxed`: whoever takes `HELD` away reads it again under the bucket's lock (R4).
            let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
            if self.word.compare_exchange(seen, seen | PARKED, success, failure).is_err() {
                continue;
            }
            bucket.push(&node, me, kind, lost);
            // R6
            let beside = match seen & (HELD | CLAIMED) {
                0 if kind != Kind::Read => bucket.take_readers(),
                _ => Vec::new(),
            };
            drop(bucket);
            beside.into_iter().for_each(Parker::unpark);
            let holders = || self.holders();
            let what = deadlock::For { address: self.address(), me, holders: &holders };
            let slept = deadlock::sleep(&what, &node, patience.deadline(), patience);
            let mut signal = *slept.as_ref().unwrap_or(&WAITING);
            if signal == WAITING {
                let mut bucket = queue::bucket(self);
                if bucket.remove(&node) {
                    if bucket.is_empty() {
                        self.change(Ordering::Relaxed, |word| word & !PARKED);
                    }
                    drop(bucket);
                    slept.unwrap_or_else(|panic| resume_unwind(panic)); // Q2
                    return false;
                }
                signal = node.signalled();
                deadlock::discard(slept);
            }
            if signal == HAND_OFF {
                return true;
            }
            lost = true;
            spin = if MODEL { Spin::default() } else { Spin::short() };
        }
    }
}

/// Half of the count is for those who come in at the same moment, or are handed the lock.
fn assert_room(word: u32) {
    assert!(word & COUNT < COUNT / 2, "too many readers of one lock");
}

/// The writer named in a word, if it has an id, holds the lock no more.
#[inline]
fn unhold(word: u32) {
    if word & OWNER != 0 {
        // SAFETY: the caller has taken the name out of the lock's word.
        strand::with_local(|local| unsafe { local.unhold_of(word & OWNER) });
    }
}

/// Whether a word says that the strand of this name writes. Of one without an id none does.
fn is_writer(name: u32, word: u32) -> bool {
    word & (HELD | OWNER) == HELD | name
}

/// The running strand's id, or 0.
pub(super) fn name() -> u32 {
    Some(strand::token()).filter(|&name| name <= MAX_OWNER).unwrap_or(0)
}

/// Cells that still name a lock which is dropped are of guards that were forgotten: the next lock at this address is
/// not theirs.
impl Drop for RwCore {
    fn drop(&mut self) {
        if self.word.load(Ordering::Relaxed) & SLOTS != 0 {
            let address = self.address();
            slot::any_read(|cell| {
                // ORD: Acquire and Release hand on what the cell's strand has done, to a writer that finds this 0 in the stead
                // of what that strand has stored before.
                if slot::names(cell.load(Ordering::Acquire), address) {
                    cell.store(0, Ordering::Release);
                }
                false
            });
        }
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    /// The word is as before: no read-modify-write can have come to it but for nothing.
    #[test]
    fn a_reader_that_is_published_leaves_the_word_alone() {
        strand::token();
        for holds in [0, slot::HOLDS] {
            let core = RwCore::new();
            core.word.store(SLOTS, Ordering::Relaxed);
            let cells = [(); 5].map(|()| match holds {
                0 => core.publish::<0>(),
                _ => core.publish::<{ slot::HOLDS }>(),
            });
            let written = cells[..4].iter().flatten().map(|cell| cell.load(Ordering::Relaxed));
            assert!(written.eq([core.address() | holds; 4]) && cells[4].is_none());
            assert_eq!(core.word.load(Ordering::Relaxed), SLOTS);
            assert_eq!(core.find_held().is_some(), holds != 0);
            assert!(core.is_read_here(SLOTS) && !core.is_read_here(0) && core.is_published());
            cells[..4].iter().for_each(|cell| core.end_read(*cell));
            assert_eq!(core.word.load(Ordering::Relaxed), SLOTS);
            assert!(!core.is_published());
        }
    }

    /// Each left its count behind, until that ran into `PARKED`, and was gone.
    #[test]
    fn readers_that_were_upgradable_are_not_too_many() {
        let core = RwCore::new();
        core.word.store(COUNT / 2 - 1, Ordering::Relaxed);
        assert!(core.read_upgradable(Patience::Try));
        core.end_upgradable(1);
        assert_eq!(core.word.load(Ordering::Relaxed), COUNT / 2);
        for patience in [Patience::Try, Patience::Until(None)] {
            let read = || core.read_upgradable(patience);
            let read = std::panic::catch_unwind(std::panic::AssertUnwindSafe(read));
            assert!(read.is_err_and(|panic| panic.is::<&str>()));
        }
        assert_eq!(core.word.load(Ordering::Relaxed), COUNT / 2);
        core.end_counted();
        assert!(core.read_upgradable(Patience::Try), "there is room again");
    }
}
