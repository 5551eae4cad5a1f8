//! [`Frame`]: all bindings of a context.

use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::local::key::HOT;
use crate::local::snapshot::{Context, Inner};
use crate::spawn::claim::Claim;

/// What a context word points to.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The claim word of the running task.
    claim: *const Claim,
    hot: [*const (); HOT],
    /// The values of the other keys, for ids from `HOT` on; null: all unbound.
    cold: *const Cold,
    /// Which hot slots are owned, and may be shared; the last bit says that for some cold ones.
    owned: u32,
    /// The snapshot of this frame, made when it is first asked for; the frame holds a share of it.
    snapshot: AtomicPtr<Inner>,
}

/// Slots of keys that came late.
#[derive(Debug, Default, Clone)]
pub(crate) struct Cold {
    pub(crate) slots: Vec<ColdSlot>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct ColdSlot {
    pub(crate) value: *const (),
    pub(crate) owned: bool,
}

const UNBOUND: ColdSlot = ColdSlot { value: ptr::null(), owned: false };
const COLD_OWNED: u32 = 1 << HOT;

impl Frame {
    pub(crate) const fn empty(claim: *const Claim) -> Frame {
        Frame {
            claim,
            hot: [ptr::null(); HOT],
            cold: ptr::null(),
            owned: 0,
            snapshot: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A copy, with nobody's snapshot.
    pub(crate) fn copy(&self) -> Frame {
        Frame {
            claim: self.claim,
            hot: self.hot,
            cold: self.cold,
            owned: self.owned,
            snapshot: AtomicPtr::new(ptr::null_mut()),
        }
    }

    /// A copy of the current frame.
    #[inline]
    pub(crate) fn copy_current() -> Frame {
        // SAFETY: X1.
        unsafe { Frame::of_word(super::current()) }.map_or(Frame::empty(ptr::null()), Frame::copy)
    }

    pub(crate) fn with_claim(mut self, claim: *const Claim) -> Frame {
        self.claim = claim;
        self
    }

    pub(crate) fn word(&self) -> usize {
        (self as *const Frame).expose_provenance()
    }

    /// The frame of a context word.
    ///
    /// # Safety
    ///
    /// X1, for `'a`.
    #[inline(always)]
    pub(crate) unsafe fn of_word<'a>(word: usize) -> Option<&'a Frame> {
        // SAFETY: null, or alive (contract).
        unsafe { ptr::with_exposed_provenance::<Frame>(word).as_ref() }
    }

    /// The claim word of the task that the current code belongs to, if any.
    pub(crate) fn current_claim<'a>() -> Option<&'a Claim> {
        // SAFETY: X1.
        let frame = unsafe { Frame::of_word(super::current()) }?;
        // SAFETY: the task outlives its frame, and all code that runs in it.
        unsafe { frame.claim.as_ref() }
    }

    pub(crate) fn claim(&self) -> *const Claim {
        self.claim
    }

    /// The value of a key; null if it is not bound.
    #[inline(always)]
    pub(crate) fn get(&self, id: usize) -> *const () {
        match self.hot.get(id) {
            Some(&value) => value,
            None => self.get_cold(id),
        }
    }

    #[inline]
    fn get_cold(&self, id: usize) -> *const () {
        // SAFETY: alive as the frame is.
        let cold = unsafe { self.cold.as_ref() };
        cold.and_then(|cold| cold.slots.get(id - HOT)).map_or(ptr::null(), |slot| slot.value)
    }

    /// Binds a key. A cold one has `cold` filled, which must outlive the frame at its place.
    ///
    /// The snapshot that the frame had is not its own any more: only on a fresh copy.
    #[inline]
    pub(crate) fn set(&mut self, id: usize, value: *const (), owned: bool, cold: &mut Cold) {
        if let Some(slot) = self.hot.get_mut(id) {
            *slot = value;
            let bit = 1 << id;
            self.owned = if owned { self.owned | bit } else { self.owned & !bit };
        } else {
            self.set_cold(id, ColdSlot { value, owned }, cold);
        }
    }

    #[cold]
    fn set_cold(&mut self, id: usize, slot: ColdSlot, cold: &mut Cold) {
        if !ptr::eq(self.cold, cold) {
            // SAFETY: alive as the frame that this was copied from.
            if let Some(before) = unsafe { self.cold.as_ref() } {
                cold.slots.clone_from(&before.slots);
            }
        }
        let index = id - HOT;
        if cold.slots.len() <= index {
            cold.slots.resize(index + 1, UNBOUND);
        }
        cold.slots[index] = slot;
        self.owned &= !COLD_OWNED;
        if cold.slots.iter().any(|slot| slot.owned) {
            self.owned |= COLD_OWNED;
        }
        self.cold = cold;
    }

    /// The owned bindings, each with its key.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (usize, *const ())> {
        let hot = self.hot.iter().enumerate().filter(|(id, _)| self.owned & (1 << id) != 0);
        // SAFETY: alive as the frame is.
        let cold = unsafe { self.cold.as_ref() }.into_iter().flat_map(|cold| cold.slots.iter());
        let cold = cold.enumerate().filter(|(_, slot)| slot.owned);
        hot.map(|(id, &value)| (id, value))
            .chain(cold.map(|(index, slot)| (index + HOT, slot.value)))
    }

    /// What detached code takes along: nothing if nothing is bound that it may have.
    #[inline]
    pub(crate) fn capture(&self) -> Context {
        if self.owned == 0 {
            return Context::default();
        }
        // ORD: Acquire pairs with the Release below: the snapshot is complete.
        match NonNull::new(self.snapshot.load(Ordering::Acquire)) {
            // SAFETY: the frame holds a share of it.
            Some(inner) => unsafe { Context::share(inner) },
            None => self.capture_slowly(),
        }
    }

    #[cold]
    fn capture_slowly(&self) -> Context {
        let context = Context::of_frame(self);
        let own = context.clone().into_raw();
        // ORD: Release pairs with the Acquire above. A stolen fork of the frame's code may be here as well.
        let placed = self.snapshot.compare_exchange(
            ptr::null_mut(),
            own,
            Ordering::Release,
            Ordering::Relaxed,
        );
        if placed.is_err() {
            // SAFETY: from `into_raw`, and not placed.
            drop(unsafe { Context::from_raw(own) });
        }
        context
    }

    /// Gives a fresh frame the snapshot that it is a copy of.
    pub(crate) fn set_snapshot(&mut self, context: Context) {
        *self.snapshot.get_mut() = context.into_raw();
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        let snapshot = *self.snapshot.get_mut();
        if !snapshot.is_null() {
            // SAFETY: the frame's share.
            drop(unsafe { Context::from_raw(snapshot) });
        }
    }
}
