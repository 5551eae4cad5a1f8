//! [`Frame`]: all bindings of a context.

use std::cell::Cell;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::local::Thread;
use crate::local::key::HOT;
use crate::local::snapshot::{Context, Inner};
use crate::spawn::claim::Claim;

/// What a context word points to.
#[derive(Debug)]
pub(crate) struct Frame {
    /// The claim word of the running task.
    claim: *const Claim,
    hot: [*const (); HOT],
    /// The slots of the other keys, from id `HOT` on.
    cold: *const ColdSlot,
    cold_len: u32,
    /// A bit for each hot slot that is owned, and [`COLD_OWNED`], [`LENT`].
    flags: u16,
    /// Shares of the snapshot that the frame holds besides: taken some at a time, and handed out by `home`
    /// without a read-modify-write each.
    spare: Cell<u8>,
    /// How many it took last.
    batch: Cell<u8>,
    /// The snapshot of this frame, made when it is first asked for; the frame holds a share of it, unless
    /// it is `LENT`.
    snapshot: AtomicPtr<Inner>,
    /// The thread that made the frame to run in it. Others may run forks.
    home: Thread,
}

/// Room for slots of keys that came late.
#[derive(Debug, Default)]
pub(crate) struct Cold(Vec<ColdSlot>);

#[derive(Debug, Clone, Copy)]
pub(crate) struct ColdSlot {
    value: *const (),
    owned: bool,
}

const UNBOUND: ColdSlot = ColdSlot { value: ptr::null(), owned: false };
/// Some cold slot is owned.
const COLD_OWNED: u16 = 1 << HOT;
/// Whoever made the frame holds the snapshot for it.
const LENT: u16 = COLD_OWNED << 1;
/// How many shares a frame takes at a time, at most.
const BATCH: u8 = 32;

impl Frame {
    #[inline]
    pub(crate) fn empty(claim: *const Claim, home: Thread) -> Frame {
        Frame {
            claim,
            hot: [ptr::null(); HOT],
            cold: ptr::null(),
            cold_len: 0,
            flags: 0,
            spare: Cell::new(0),
            batch: Cell::new(0),
            snapshot: AtomicPtr::new(ptr::null_mut()),
            home,
        }
    }

    /// A copy for that thread, with nobody's snapshot.
    #[inline]
    pub(crate) fn copy(&self, home: Thread) -> Frame {
        Frame {
            claim: self.claim,
            hot: self.hot,
            cold: self.cold,
            cold_len: self.cold_len,
            flags: self.flags & !LENT,
            spare: Cell::new(0),
            batch: Cell::new(0),
            snapshot: AtomicPtr::new(ptr::null_mut()),
            home,
        }
    }

    /// A copy of the frame of a context word, for that thread.
    ///
    /// # Safety
    ///
    /// X1.
    #[inline]
    pub(crate) unsafe fn copy_of(word: usize, home: Thread) -> Frame {
        // SAFETY: contract.
        match unsafe { Frame::of_word(word) } {
            Some(frame) => frame.copy(home),
            None => Frame::empty(ptr::null(), home),
        }
    }

    pub(crate) fn with_claim(mut self, claim: *const Claim) -> Frame {
        self.claim = claim;
        self
    }

    #[inline(always)]
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

    fn cold(&self) -> &[ColdSlot] {
        if self.cold.is_null() {
            return &[];
        }
        // SAFETY: X2: set together by `set_cold`, alive as the frame is.
        unsafe { std::slice::from_raw_parts(self.cold, self.cold_len as usize) }
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
        self.cold().get(id - HOT).map_or(ptr::null(), |slot| slot.value)
    }

    /// Binds a key. A cold one has `cold` filled, which must outlive the frame.
    ///
    /// The snapshot that the frame had is not its own any more: only on a fresh copy.
    #[inline]
    pub(crate) fn set(&mut self, id: usize, value: *const (), owned: bool, cold: &mut Cold) {
        if let Some(slot) = self.hot.get_mut(id) {
            *slot = value;
            let bit = 1 << id;
            self.flags = if owned { self.flags | bit } else { self.flags & !bit };
        } else {
            self.set_cold(id, ColdSlot { value, owned }, cold);
        }
    }

    #[cold]
    #[inline(never)]
    fn set_cold(&mut self, id: usize, slot: ColdSlot, Cold(slots): &mut Cold) {
        let index = id - HOT;
        if !ptr::eq(self.cold, slots.as_ptr()) {
            let before = self.cold();
            slots.clear();
            slots.reserve_exact(before.len().max(index + 1));
            slots.extend_from_slice(before);
        }
        if slots.len() <= index {
            slots.resize(index + 1, UNBOUND);
        }
        slots[index] = slot;
        self.flags &= !COLD_OWNED;
        if slots.iter().any(|slot| slot.owned) {
            self.flags |= COLD_OWNED;
        }
        self.cold = slots.as_ptr();
        self.cold_len = u32::try_from(slots.len()).expect("ids have 32 bits");
    }

    /// All bound keys, with their values, and whether they are owned.
    fn bound(&self) -> impl Iterator<Item = (usize, NonNull<()>, bool)> {
        let hot = self.hot.iter().enumerate();
        let hot = hot.map(|(id, &value)| (id, value, self.flags & (1 << id) != 0));
        let cold = self.cold().iter().enumerate();
        let cold = cold.map(|(index, slot)| (index + HOT, slot.value, slot.owned));
        hot.chain(cold)
            .filter_map(|(id, value, owned)| Some((id, NonNull::new(value.cast_mut())?, owned)))
    }

    /// The owned bindings, each with its key.
    pub(crate) fn owned(&self) -> impl Iterator<Item = (usize, NonNull<()>)> {
        self.bound().filter_map(|(id, value, owned)| owned.then_some((id, value)))
    }

    /// The bindings of borrows that `other` has as well, each with its key.
    pub(crate) fn borrowed_by_both(
        &self,
        other: &Frame,
    ) -> impl Iterator<Item = (usize, NonNull<()>)> {
        let borrowed = |frame: &Frame, id: usize| match frame.hot.get(id) {
            Some(_) => frame.flags & (1 << id) == 0,
            None => frame.cold().get(id - HOT).is_some_and(|slot| !slot.owned),
        };
        self.bound().filter_map(move |(id, value, owned)| {
            let same = !owned && borrowed(other, id) && ptr::eq(other.get(id), value.as_ptr());
            same.then_some((id, value))
        })
    }

    /// Whether nothing is bound that detached code may have.
    #[inline]
    pub(crate) fn binds_nothing(&self) -> bool {
        self.flags & !LENT == 0
    }

    /// What detached code takes along: nothing if nothing is bound that it may have.
    #[inline]
    pub(crate) fn capture(&self) -> Context {
        if self.binds_nothing() {
            return Context::default();
        }
        // ORD: Acquire pairs with the Release below: the snapshot is complete.
        match NonNull::new(self.snapshot.load(Ordering::Acquire)) {
            // SAFETY: a snapshot of this frame.
            Some(inner) => unsafe { self.share(inner) },
            None => self.capture_slowly(),
        }
    }

    /// A share of the snapshot.
    ///
    /// # Safety
    ///
    /// It must be that of this frame.
    #[inline]
    unsafe fn share(&self, inner: NonNull<Inner>) -> Context {
        if !self.home.is_current() {
            // SAFETY: the frame holds a share of it, or who made the frame does.
            unsafe { Context::add_shares(inner, 1) };
        } else if let Some(spare) = self.spare.get().checked_sub(1) {
            self.spare.set(spare);
        } else {
            // Twice as many each time: most frames are asked once, or often.
            let batch = self.batch.get().saturating_mul(2).clamp(1, BATCH);
            // SAFETY: as above.
            unsafe { Context::add_shares(inner, batch.into()) };
            self.batch.set(batch);
            self.spare.set(batch - 1);
        }
        // SAFETY: the share just added, or kept in `spare`.
        unsafe { Context::from_raw(inner.as_ptr()) }
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

    /// Gives a fresh frame the snapshot that it is a copy of, which must outlive it.
    #[inline]
    pub(crate) fn lend_snapshot(&mut self, inner: *const Inner) {
        *self.snapshot.get_mut() = inner.cast_mut();
        self.flags |= LENT;
    }
}

impl Drop for Frame {
    #[inline]
    fn drop(&mut self) {
        let Some(snapshot) = NonNull::new(*self.snapshot.get_mut()) else { return };
        let own = u8::from(self.flags & LENT == 0);
        // SAFETY: the frame's shares.
        unsafe { Context::release(snapshot, usize::from(self.spare.get() + own)) };
    }
}
