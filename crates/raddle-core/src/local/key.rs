//! Keys: which slot is whose.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// How many keys have slots in every frame.
pub(crate) const HOT: usize = 8;

/// How many keys were bound ever.
static COUNT: Mutex<u32> = Mutex::new(0);

/// The id of a key, given when it is first bound: so keys that are only read cost nothing, and the first
/// few get the hot slots.
#[derive(Debug)]
pub(crate) struct KeyId(AtomicU32);

/// The id of keys that were never bound: no frame has a slot for it.
const NONE: u32 = u32::MAX;

impl KeyId {
    pub(crate) const fn new() -> KeyId {
        KeyId(AtomicU32::new(NONE))
    }

    /// The id; one that no frame has a slot for if the key was never bound.
    #[inline(always)]
    pub(crate) fn get(&self) -> usize {
        // ORD: an id is a number; what was bound with it is ordered by how the frame got here.
        self.0.load(Ordering::Relaxed) as usize
    }

    /// The id, given now if need be.
    #[inline]
    pub(crate) fn assign(&self) -> usize {
        match self.get() {
            id if id == NONE as usize => self.assign_slowly(),
            id => id,
        }
    }

    #[cold]
    #[inline(never)]
    fn assign_slowly(&self) -> usize {
        let mut count = COUNT.lock().unwrap_or_else(PoisonError::into_inner);
        if self.get() == NONE as usize {
            let id = *count;
            assert!(id < NONE, "fewer keys than that");
            *count += 1;
            self.0.store(id, Ordering::Relaxed);
        }
        self.get()
    }
}
