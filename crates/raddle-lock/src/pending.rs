//! Entries of thin locks: what a lock will have once its owner comes to it.
//!
//! A thin lock's word is its owner's (L1), so a strand that must sleep cannot make the lock fat. It leaves an
//! entry here, under the lock's address, puts itself into that entry's queue and sees to it that the
//! owner looks here when it releases.
//!
//! **P1** All of this is under the lock of the address's bucket; within it, an entry's `inner` may be locked.
//! **P2** While an entry is here, it is [aside](crate::aside), or `armed` is the owner it was left for, flagged (L2) on its
//! behalf. Then the
//! lock's word named that owner, under the bucket's lock, when the entry was left or anybody joined it; so
//! it is the owner's, who will release under the bucket's lock, find the entry, and make it the lock's.
//! **P3** Its lock is alive while there is somebody in its queue. One left for a hash alone may outlive
//! a lock whose guard was forgotten; it is taken away by the lock's drop, or else by its owner.

use crate::entry::Entry;
use crate::slot;
use raddle_sync::sync::{Mutex, MutexGuard};

/// An entry that waits for a lock's owner.
pub(crate) struct Pending {
    address: usize,
    pub(crate) entry: &'static Entry,
    /// Whose slot is flagged; or `NOBODY`'s.
    pub(crate) armed: u32,
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

/// A locked bucket, as seen from one address.
pub(crate) struct Guard {
    address: usize,
    list: MutexGuard<'static, Vec<Pending>>,
}

impl Guard {
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
        if pending.armed != NOBODY {
            slot::disarm(pending.armed);
        }
        Some(pending.entry)
    }
}
