//! Keys: which slot is whose.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many keys have slots in every frame.
pub(crate) const HOT: usize = 8;

/// What a snapshot does with the values of a key.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Share {
    /// Takes a share of an owned value.
    pub(crate) retain: unsafe fn(*const ()),
    /// Lets go of one.
    pub(crate) release: unsafe fn(*const ()),
}

impl Share {
    /// Of values of type `T`, which are in an `Arc` when they are owned.
    pub(crate) const fn of<T>() -> Share {
        Share {
            // SAFETY: from `Arc::into_raw`, and alive (X2).
            retain: |value| unsafe { Arc::increment_strong_count(value.cast::<T>()) },
            // SAFETY: as above, once for each share.
            release: |value| unsafe { Arc::decrement_strong_count(value.cast::<T>()) },
        }
    }
}

/// All keys that were bound ever, by id.
static KEYS: Mutex<Vec<Share>> = Mutex::new(Vec::new());

/// The id of a key, given when it is first bound: so keys that are only read cost nothing, and the first
/// few get the hot slots.
#[derive(Debug)]
pub(crate) struct KeyId(AtomicU32);

const NONE: u32 = u32::MAX;

impl KeyId {
    pub(crate) const fn new() -> KeyId {
        KeyId(AtomicU32::new(NONE))
    }

    /// The id, if the key was ever bound.
    #[inline(always)]
    pub(crate) fn get(&self) -> Option<usize> {
        // ORD: an id is a number; what was bound with it is ordered by how the frame got here.
        match self.0.load(Ordering::Relaxed) {
            NONE => None,
            id => Some(id as usize),
        }
    }

    /// The id, given now if need be.
    #[inline]
    pub(crate) fn assign(&self, share: Share) -> usize {
        self.get().unwrap_or_else(|| self.assign_slowly(share))
    }

    #[cold]
    fn assign_slowly(&self, share: Share) -> usize {
        let mut keys = KEYS.lock().unwrap_or_else(PoisonError::into_inner);
        self.get().unwrap_or_else(|| {
            let id = keys.len();
            keys.push(share);
            self.0.store(u32::try_from(id).expect("fewer keys than that"), Ordering::Relaxed);
            id
        })
    }
}

/// What is done with the values of a key.
pub(crate) fn share(id: usize) -> Share {
    KEYS.lock().unwrap_or_else(PoisonError::into_inner)[id]
}
