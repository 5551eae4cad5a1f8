//! What a node that waits for another future knows of that, and the lock of it.

use std::ptr::NonNull;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::spin::Backoff;

use crate::future::interrupt::Interrupt;
use crate::future::life::Life;
use crate::future::node::NodeRef;
use crate::future::walk;

/// The cell of the future that a node waits for, a signal that came early, and a lock: two words.
#[derive(Debug)]
pub(crate) struct Upstream {
    /// `LOCKED`, `LINKED`, `SHARED`, and the signal.
    word: AtomicUsize,
    cell: UnsafeCell<Option<NodeRef>>,
    life: Life,
}

const LOCKED: usize = 1;
const LINKED: usize = 2;
const SHARED: usize = 4;
const FLAGS: usize = 7;

impl Upstream {
    pub(crate) fn new(cell: Option<NodeRef>) -> Upstream {
        Upstream { word: AtomicUsize::new(0), cell: UnsafeCell::new(cell), life: Life::new() }
    }

    #[inline]
    fn word(&self) -> &AtomicUsize {
        self.life.touch();
        &self.word
    }

    /// Whether the node has been linked: it waits for a future that its closure returned.
    #[inline]
    pub(crate) fn is_linked(&self) -> bool {
        // ORD: set before attaching, which orders it for whoever asks.
        self.word().load(Ordering::Relaxed) & LINKED != 0
    }

    /// Whether there may be a shared future downstream.
    pub(crate) fn is_shared(&self) -> bool {
        // ORD: for the producer, who links under the lock.
        self.word().load(Ordering::Relaxed) & SHARED != 0
    }

    /// Whether a signal has come through.
    pub(crate) fn has_signal(&self) -> bool {
        // ORD: for the producer, who links under the lock.
        self.word().load(Ordering::Relaxed) & !FLAGS != 0
    }

    /// Whether nobody is here, and nobody has left a signal.
    #[inline]
    pub(crate) fn is_bare(&self) -> bool {
        // ORD: as in `pass`.
        self.word().load(Ordering::Acquire) & !(LINKED | SHARED) == 0
    }

    /// Waits until nobody is here: for whoever takes the result that came from upstream, and whoever frees.
    pub(crate) fn pass(&self) {
        let mut backoff = Backoff::new();
        // ORD: Acquire pairs with the Release of the unlock.
        while self.word().load(Ordering::Acquire) & LOCKED != 0 {
            backoff.spin();
        }
    }

    /// Lets go of the signal, if there is one: for whoever frees. Dropping does not, so that a node whose upstream is bare
    /// has nothing to drop.
    ///
    /// # Safety
    ///
    /// Once, after `pass`, when nobody comes here any more.
    pub(crate) unsafe fn let_go(&self) {
        // ORD: passed.
        let signal = self.word().load(Ordering::Relaxed) & !FLAGS;
        if signal != 0 {
            // SAFETY: put there by `remember`, and not taken out again (contract).
            let signal = unsafe { Interrupt::from_raw(std::ptr::with_exposed_provenance(signal)) };
            // It is the user's, and may own the next future.
            walk::let_go_of_signal(signal);
        }
    }
}

/// A locked [`Upstream`] (V2).
pub(crate) struct Locked(NonNull<Upstream>);

impl Locked {
    /// # Safety
    ///
    /// It stays alive while it is locked: V1, V2.
    pub(crate) unsafe fn new(upstream: NonNull<Upstream>) -> Locked {
        let locked = Locked(upstream);
        let mut backoff = Backoff::new();
        // ORD: Acquire pairs with the Release of the unlock.
        while locked.word().fetch_or(LOCKED, Ordering::Acquire) & LOCKED != 0 {
            backoff.spin();
        }
        locked
    }

    fn word(&self) -> &AtomicUsize {
        // SAFETY: alive (contract of `new`).
        unsafe { self.0.as_ref() }.word()
    }

    pub(crate) fn cell(&self) -> Option<NodeRef> {
        // SAFETY: alive (contract of `new`).
        let cell = unsafe { &self.0.as_ref().cell };
        // SAFETY: V2.
        cell.with(|cell| unsafe { *cell })
    }

    /// The node is linked to a future whose cell is this.
    pub(crate) fn link(&mut self, to: Option<NodeRef>) {
        // SAFETY: alive (contract of `new`).
        let cell = unsafe { &self.0.as_ref().cell };
        // SAFETY: V2.
        cell.with_mut(|cell| unsafe { *cell = to });
    }

    /// Says that the node is linked.
    pub(crate) fn set_linked(&mut self) {
        // ORD: see `is_linked`.
        self.word().fetch_or(LINKED, Ordering::Relaxed);
    }

    /// Says that there is a shared future downstream; whether that is known already.
    pub(crate) fn share(&mut self) -> bool {
        // ORD: under the lock.
        self.word().fetch_or(SHARED, Ordering::Relaxed) & SHARED != 0
    }

    pub(crate) fn is_shared(&self) -> bool {
        // ORD: under the lock.
        self.word().load(Ordering::Relaxed) & SHARED != 0
    }

    /// The latest signal that came through.
    pub(crate) fn signal(&self) -> Option<Interrupt> {
        let signal = self.word().load(Ordering::Relaxed) & !FLAGS;
        if signal == 0 {
            return None;
        }
        // SAFETY: put there by `remember`, and kept (V2).
        let signal = unsafe { Interrupt::from_raw(std::ptr::with_exposed_provenance(signal)) };
        let copy = signal.clone();
        std::mem::forget(signal);
        Some(copy)
    }

    /// Keeps the signal, unless a kill is kept; gives back what is not kept.
    pub(crate) fn remember(&mut self, signal: Interrupt) -> Option<Interrupt> {
        if self.signal().is_some_and(|before| before.is_kill()) {
            return Some(signal);
        }
        let flags = self.word().load(Ordering::Relaxed) & FLAGS;
        let new = signal.into_raw().expose_provenance();
        // ORD: under the lock. A swap, because who waits for the lock writes as well.
        let word = self.word().swap(new | flags, Ordering::Relaxed);
        (word & !FLAGS != 0).then(|| {
            let before = std::ptr::with_exposed_provenance(word & !FLAGS);
            // SAFETY: put there by this function; replaced.
            unsafe { Interrupt::from_raw(before) }
        })
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        // ORD: Release pairs with the Acquire of the lock and of `pass`.
        self.word().fetch_and(!LOCKED, Ordering::Release);
    }
}
