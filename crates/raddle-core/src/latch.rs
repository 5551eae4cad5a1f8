//! A latch: one party waits, another sets it, once.
//!
//! ```text
//!   UNSET --prepare_sleep--> SLEEPING --set--> SET (and wake)
//!     \------------------------set-----------> SET
//! ```
//!
//! # Invariants
//!
//! - **L1** The waiter may free the latch as soon as it has seen `SET`; so the setter reads the
//!   parker, which is immortal, *before* its swap, and touches the latch no more after it.
//! - **L2** No wake-up is lost: the waiter goes to sleep only after it changed `UNSET` to
//!   `SLEEPING`, and a setter that finds `SLEEPING` unparks. A token given before the waiter parks
//!   keeps it from sleeping (see `raddle_sync::parker`).
//!
//! The same three states, without the parker, are the `done` word of a slot of the fork stack.

use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::parker::Parker;
use raddle_sync::time::Instant;

use crate::fork_stack::{DONE, PENDING, SLEEPING};

/// Whether a word that goes through a latch's states is set.
#[inline]
pub(crate) fn is_set(word: &AtomicU32) -> bool {
    // ORD: Acquire pairs with the swap in `set_word`: what the setter did is visible.
    word.load(Ordering::Acquire) == DONE
}

/// Whether the waiter sleeps, or is about to.
pub(crate) fn is_asleep(word: &AtomicU32) -> bool {
    // ORD: ordered by the caller's fence.
    word.load(Ordering::Relaxed) == SLEEPING
}

/// Announces that the waiter sleeps next. False: it is set already.
#[must_use]
pub(crate) fn prepare_sleep(word: &AtomicU32) -> bool {
    // ORD: Acquire on failure as in `is_set`; a woken waiter may come here again in `SLEEPING`.
    match word.compare_exchange(PENDING, SLEEPING, Ordering::Relaxed, Ordering::Acquire) {
        Ok(_) => true,
        Err(state) => state == SLEEPING,
    }
}

/// Sets the word; the waiter, which parks on `parker`, is woken if it sleeps.
pub(crate) fn set_word(word: &AtomicU32, parker: &'static Parker) {
    // ORD: Release pairs with the Acquire of `is_set`; after this the word may be gone (L1).
    if word.swap(DONE, Ordering::AcqRel) == SLEEPING {
        parker.unpark();
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Latch {
    word: AtomicU32,
    parker: &'static Parker,
}

impl Latch {
    /// A latch for the thread that parks on `parker`.
    pub(crate) fn new(parker: &'static Parker) -> Latch {
        Latch { word: AtomicU32::new(PENDING), parker }
    }

    pub(crate) fn is_set(&self) -> bool {
        is_set(&self.word)
    }

    /// Whether it is for whoever parks on this.
    pub(crate) fn wakes(&self, parker: &'static Parker) -> bool {
        std::ptr::eq(self.parker, parker)
    }

    #[must_use]
    pub(crate) fn prepare_sleep(&self) -> bool {
        prepare_sleep(&self.word)
    }

    /// Sets the latch.
    ///
    /// # Safety
    ///
    /// `this` must be valid until the call; it may be freed during it (L1).
    pub(crate) unsafe fn set(this: *const Latch) {
        // SAFETY: valid, since it is not set yet (L1).
        let latch = unsafe { &*this };
        let parker = latch.parker;
        set_word(&latch.word, parker);
    }

    /// Blocks the thread until the latch is set.
    pub(crate) fn wait(&self) {
        while !self.is_set() {
            if self.prepare_sleep() {
                self.parker.park();
            }
        }
    }

    /// Blocks the thread until it is woken, or for so long.
    #[cfg(raddle_loom)]
    pub(crate) fn sleep(&self, time: std::time::Duration) {
        if !time.is_zero() && self.prepare_sleep() {
            self.parker.park_timeout(time);
        }
    }

    /// Blocks the thread until the latch is set (true) or the time has come (false), on which it may rely: see `Parker::nap`.
    pub(crate) fn wait_until(&self, deadline: Instant, relies: bool) -> bool {
        while !self.is_set() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            if self.prepare_sleep() {
                let _ = if relies { self.parker.nap(left) } else { self.parker.park_timeout(left) };
            }
        }
        true
    }
}
