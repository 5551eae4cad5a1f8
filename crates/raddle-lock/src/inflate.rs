//! Locks that become fat, and thin again, and are dropped.

use crate::core::{Core, Patience};
use crate::entry::{DEAD, Entry, LOCKED};
use crate::pending::{self, Guard};
use crate::slot;
use crate::spin::Moment;
use crate::table;
use crate::word::{self, FREE, View, view};
use raddle_sync::atomic::Ordering;
use raddle_sync::strand;

impl Core {
    /// Makes a free lock, `seen` so, a fat one that `me` holds; false if it is so no longer.
    #[cold]
    pub(crate) fn inflate_free(&self, seen: u32, me: u32) -> bool {
        if seen == word::ASIDE {
            let entry = self.claim(&mut pending::bucket(self.address()));
            entry.inspect(|entry| entry.owner.store(me, Ordering::Relaxed));
            return entry.is_some();
        }
        let entry = table::take();
        entry.owner.store(me, Ordering::Relaxed);
        if seen != FREE {
            if word::is_hot(seen) {
                table::make_sticky(entry);
            }
            entry.restore.store(word::hotter(seen), Ordering::Relaxed);
        }
        let fat = word::fat(entry.index, entry.state.load(Ordering::Relaxed));
        // ORD: Acquire as for any free lock that is taken; Release: the entry as it is now (T1).
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let done = self.word.compare_exchange(seen, fat, success, failure).is_ok();
        if done {
            table::inflated();
        } else {
            table::give_back(entry);
        }
        done
    }

    /// The entry of a lock that this strand holds; made, if it is thin.
    pub(crate) fn inflate_held(&self) -> &'static Entry {
        let seen = self.word.load(Ordering::Acquire);
        let (View::Thin { owner } | View::Aside { owner, .. }) = view(seen) else {
            return table::entry(seen & word::INDEX);
        };
        // SAFETY: a fat lock's levels are let go of as its entry says.
        let levels = strand::with_local(|local| unsafe { local.forget(self.address()) });
        let levels = u32::try_from(levels).expect("a lock taken too often by its owner");
        let mut bucket = pending::bucket(self.address());
        if bucket.find().is_none() {
            // Nobody has flagged the owner for this lock; `adopt` takes the flag away.
            bucket.leave(table::take(), owner);
            slot::arm_quietly(owner);
        }
        self.adopt(&mut bucket, owner, levels)
    }

    /// Gives a thin lock, held by `owner` who calls this, the entry that waits for it.
    pub(crate) fn adopt(&self, bucket: &mut Guard, owner: u32, levels: u32) -> &'static Entry {
        let entry = bucket.remove().expect("the caller has found it");
        entry.owner.store(owner, Ordering::Relaxed);
        entry.levels.store(levels, Ordering::Relaxed);
        let fat = word::fat(entry.index, entry.state.load(Ordering::Relaxed));
        // ORD: Release: whoever reads the word sees the entry (T1).
        self.word.store(fat, Ordering::Release); // L1
        table::inflated();
        entry
    }

    /// Makes the lock thin again; its entry is dead.
    pub(crate) fn deflate(&self, entry: &'static Entry) {
        let inner = entry.inner.lock();
        // Under `inner`, because of those who ask for a hash.
        let restore = entry.restore.load(Ordering::Relaxed);
        // ORD: Release pairs with the Acquires that take a free lock.
        self.word.store(restore, Ordering::Release); // E2
        drop(inner);
        table::deflated();
        table::give_back(entry);
    }
}

/// A dropped lock gives its entry back. What is left in it are hashes, and guards that were forgotten.
impl Drop for Core {
    #[inline]
    fn drop(&mut self) {
        if self.word.load(Ordering::Acquire) != FREE {
            self.drop_slow();
        }
    }
}

impl Core {
    #[cold]
    fn drop_slow(&mut self) {
        if cfg!(raddle_model) && std::thread::panicking() {
            return; // The model has failed and has no statics left; let its message through.
        }
        let seen = self.word.load(Ordering::Acquire);
        match view(seen) {
            View::Free | View::Hashed => {}
            View::Thin { .. } | View::Aside { .. } => {
                let entry = pending::bucket(self.address()).remove(); // P3
                entry.into_iter().for_each(table::give_back);
            }
            View::Fat => {
                let entry = table::entry(seen & word::INDEX);
                // One that has taken it by mistake is about to let go of it (`confirm`). Later the generations might have come
                // round, and it would let go of another lock's. One that is dead already is nobody's: in the child of a fork,
                // that of a thread which was about to make the lock thin.
                let mut moment = Moment::default();
                while entry.state.load(Ordering::Relaxed) & (LOCKED | DEAD) == LOCKED
                    && entry.owner.load(Ordering::Relaxed) == 0
                    && moment.pass(true, Patience::Back)
                {}
                // A strand that holds it by mistake, for a moment, is told so by the state.
                entry.update(Ordering::AcqRel, |state| state | LOCKED | DEAD);
                table::deflated();
                table::give_back(entry);
            }
        }
    }
}

#[cfg(all(test, not(raddle_model)))]
impl Core {
    /// Leaves the lock as a thread does that is about to make it thin: fat, free, and its entry dead.
    pub(crate) fn leave_dying(&self) -> &'static Entry {
        self.acquire::<false>();
        let entry = self.inflate_held();
        // What the release does before it deflates.
        entry.owner.store(0, Ordering::Release);
        entry.update(Ordering::Release, |state| state | DEAD);
        // SAFETY: its name is gone from the lock.
        strand::with_local(|local| unsafe { local.unhold() });
        entry
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;
    use std::thread;

    /// Whether an entry is nobody's, or by now another lock's, of another test.
    fn is_given_back(entry: &Entry, before: u32) -> bool {
        let state = entry.state.load(Ordering::Relaxed);
        state & DEAD != 0 || (state ^ before) & word::GENERATIONS != 0
    }

    /// As in the child of a fork: the thread that was about to make the lock thin is not there. The drop waited for it.
    #[test]
    fn a_lock_is_dropped_whose_entry_is_dead_already() {
        let core = Core::new();
        let entry = core.leave_dying();
        assert!(word::is_fat(core.word.load(Ordering::Relaxed)));
        let before = entry.state.load(Ordering::Relaxed);
        drop(core);
        assert!(is_given_back(entry, before));
    }

    /// It let go of the entry when that might have been another lock's.
    #[test]
    fn a_lock_is_dropped_after_one_that_has_taken_its_entry_by_mistake() {
        let core = Core::new();
        core.acquire::<false>();
        let entry = core.inflate_held();
        table::make_sticky(entry);
        core.release::<false>();
        let free = entry.state.load(Ordering::Relaxed);
        assert!(word::is_fat(core.word.load(Ordering::Relaxed)) && entry.take(free, false).is_ok());
        let (begun, dropped) = (AtomicBool::new(false), AtomicBool::new(false));
        thread::scope(|s| {
            s.spawn(|| {
                begun.store(true, Ordering::Relaxed);
                drop(core);
                dropped.store(true, Ordering::Relaxed);
            });
            while !begun.load(Ordering::Relaxed) {
                thread::yield_now();
            }
            (0..1000).for_each(|_| thread::yield_now());
            assert!(!dropped.load(Ordering::Relaxed));
            entry.state.store(free, Ordering::Release);
        });
        assert!(is_given_back(entry, free));
    }
}
