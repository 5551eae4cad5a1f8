//! Entries of thin locks: what a lock will have once its owner comes to it.
//!
//! A thin lock's word is its owner's (L1), so a strand that must sleep cannot make the lock fat. It leaves an
//! entry here, under the lock's address, puts itself into that entry's queue and sees to it that the
//! owner looks here when it releases.
//!
//! **P1** All of this is under the lock of the address's bucket; within it, an entry's `inner` may be locked.
//! **P2** While an entry is here, it is [aside](crate::aside), or `armed` is the owner it was left for, flagged (L2) on its
//! behalf. Then the lock's word named that owner, under the bucket's lock, when the entry was left or anybody joined it; so
//! it is the owner's, who will release under the bucket's lock, find the entry, and make it the lock's.
//! **P3** Its lock is alive while there is somebody in its queue. One left for a hash alone may outlive
//! a lock whose guard was forgotten; it is taken away by the lock's drop, or else by its owner.
//! **P4** Under an address lies one entry at most. Where a lock is fat that is not its own, but one that has outlived another
//! lock (P3): whoever has an entry asks whether it is the one that lies there, and setting one aside takes a stale one away.

use crate::core::{Core, Gain, Patience};
use crate::entry::{Entry, QUEUED};
use crate::queue::Node;
use crate::slot;
use crate::table;
use crate::word::{View, view};
use raddle_sync::atomic::Ordering;
use raddle_sync::sync::{Mutex, MutexGuard};
use raddle_sync::time::Instant;

/// An entry that waits for a lock's owner.
pub(crate) struct Pending {
    address: usize,
    pub(crate) entry: &'static Entry,
    /// Whose slot is flagged; or `NOBODY`'s.
    pub(crate) armed: u32,
}

impl Pending {
    /// The entry is left for `owner` from now on, which the caller has armed.
    fn leave_for(&mut self, owner: u32) {
        self.disarm();
        self.armed = owner; // P2
    }

    fn disarm(&self) {
        if self.armed != NOBODY {
            slot::disarm(self.armed);
        }
    }
}

/// For whom an entry is left that is aside.
pub(crate) const NOBODY: u32 = 0;

/// The locks of a few addresses, mostly none.
#[repr(align(64))]
pub(crate) struct Bucket(Mutex<Vec<Pending>>);

const BUCKETS: usize = if cfg!(raddle_model) { 1 } else { 512 };

#[cfg(not(raddle_model))]
static BUCKET: [Bucket; BUCKETS] = [const { Bucket(Mutex::new(Vec::new())) }; BUCKETS];

#[cfg(raddle_model)]
raddle_sync::lazy_static! {
    static BUCKET: [Bucket; BUCKETS] = std::array::from_fn(|_| Bucket(Mutex::new(Vec::new())));
}

/// Locks the bucket of an address.
pub(crate) fn bucket(address: usize) -> Guard {
    // Fibonacci hashing of the word's index: neighbouring words go to different buckets.
    let hash = (address as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    Guard { address, list: BUCKET[hash as usize % BUCKETS].0.lock() }
}

/// Locks all buckets.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_all() -> Vec<MutexGuard<'static, Vec<Pending>>> {
    BUCKET.iter().map(|bucket| bucket.0.lock()).collect()
}

/// What came of a look for the entry of a thin lock.
pub(crate) enum Found<R> {
    Entry(R),
    /// The lock is not thin, or not that owner's, any more.
    Changed,
    /// The deadline has passed.
    Late,
}

/// A locked bucket, as seen from one address.
pub(crate) struct Guard {
    address: usize,
    list: MutexGuard<'static, Vec<Pending>>,
}

impl Guard {
    /// What lies under the address. Not a fat lock's own (P4).
    pub(crate) fn find(&mut self) -> Option<&mut Pending> {
        self.list.iter_mut().find(|pending| pending.address == self.address)
    }

    /// Leaves an entry for the owner that the caller has armed, or `NOBODY`; there is none yet.
    pub(crate) fn leave(&mut self, entry: &'static Entry, armed: u32) {
        self.list.push(Pending { address: self.address, entry, armed });
    }

    /// Takes the entry away, and the flag off its owner.
    pub(crate) fn remove(&mut self) -> Option<&'static Entry> {
        let at = self.list.iter().position(|pending| pending.address == self.address)?;
        let pending = self.list.swap_remove(at);
        pending.disarm();
        Some(pending.entry)
    }
}

impl Core {
    /// Goes to sleep for a thin lock; `None` if it has changed hands meanwhile, so that one should look
    /// again.
    pub(crate) fn sleep_thin(&self, owner: u32, me: u32, patience: Patience) -> Option<Gain> {
        let node = Node::new();
        let join = |entry: &'static Entry| {
            let mut inner = entry.inner.lock();
            entry.update(Ordering::Relaxed, |state| state | QUEUED);
            inner.lock.push_back(&node);
            entry
        };
        match self.with_pending(owner, patience.deadline(), join) {
            Found::Entry(entry) => {
                slot::note_contention();
                Some(self.wait_turn(entry, &node, me, patience))
            }
            Found::Changed => None,
            Found::Late => Some(Gain::Nothing),
        }
    }

    /// Makes sure that `owner` will find an entry for this lock, and calls `f` with it under the bucket's
    /// lock.
    pub(crate) fn with_pending<R>(
        &self,
        owner: u32,
        deadline: Option<Instant>,
        f: impl FnOnce(&'static Entry) -> R,
    ) -> Found<R> {
        let named = |core: &Core| match view(core.word.load(Ordering::Acquire)) {
            View::Thin { owner } => owner,
            _ => 0,
        };
        let mut here = bucket(self.address());
        if let Some(pending) = here.find().filter(|pending| pending.armed == owner) {
            let entry = pending.entry;
            // P2
            return if named(self) == owner { Found::Entry(f(entry)) } else { Found::Changed };
        }
        drop(here);
        if !slot::arm(owner, deadline) {
            return Found::Late;
        }
        let mut here = bucket(self.address());
        if named(self) != owner {
            slot::disarm(owner);
            return Found::Changed;
        }
        let entry = match here.find() {
            Some(pending) => {
                pending.leave_for(owner);
                pending.entry
            }
            None => {
                let entry = table::take();
                here.leave(entry, owner);
                entry
            }
        };
        Found::Entry(f(entry))
    }
}
