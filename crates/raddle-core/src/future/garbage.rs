//! What a walk leaves to be freed when it is over: see `walk`.

use std::cell::Cell;
use std::num::NonZero;
use std::ptr::NonNull;

use crate::future::linked::Linked;
use crate::future::node::{Head, NodeRef};
use crate::future::state::State;
use crate::memory::{self, Class};

/// Nodes to be freed when the walk is over (T1): a list through their empty slots, the last first.
#[derive(Debug, Default)]
pub(super) struct Garbage {
    /// What came first, if it cannot be in the list itself: the promise from which most walks begin.
    first: Cell<Option<Rubbish>>,
    last: Cell<Option<NonNull<Link>>>,
}

/// In the list: a node of `flat_map` and its like; or, so marked, [`Other`].
#[derive(Debug)]
enum Link {}

/// Marks others.
const OTHER: usize = 1;

/// Any other node.
struct Other {
    rubbish: Rubbish,
    before: Option<NonNull<Link>>,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Rubbish {
    pub(super) node: NonNull<u8>,
    /// Where its memory goes, if it is a root with nothing but that.
    pub(super) class: Option<Class>,
    pub(super) free: unsafe fn(NonNull<u8>),
}

impl Rubbish {
    /// # Safety
    ///
    /// Once, of what nobody finds any more.
    #[inline(always)]
    unsafe fn free(self) {
        if let Some(class) = self.class {
            // SAFETY: N1: alive.
            let state: &State<Head> = unsafe { self.node.cast().as_ref() };
            if state.is_bare() {
                // SAFETY: contract; there is nothing to drop.
                return unsafe { memory::free_of(self.node, class) };
            }
        }
        // SAFETY: contract.
        unsafe { (self.free)(self.node) };
    }
}

impl Garbage {
    #[inline]
    pub(super) fn push(&self, rubbish: Rubbish) {
        if self.first.get().is_none() && self.last.get().is_none() {
            self.first.set(Some(rubbish));
        } else {
            self.push_other(rubbish.node, rubbish.class, rubbish.free);
        }
    }

    /// As `Walk::push_linked`.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline]
    pub(super) unsafe fn push_linked(&self, node: NonNull<Head>) {
        // SAFETY: contract.
        let slot = unsafe { Self::link_in(node) };
        // SAFETY: a slot has room for a word.
        unsafe { slot.write(self.last.get()) };
        self.last.set(Some(node.cast()));
    }

    // In parts, which travel in registers.
    #[cold]
    #[inline(never)]
    fn push_other(&self, node: NonNull<u8>, class: Option<Class>, free: unsafe fn(NonNull<u8>)) {
        let rubbish = Rubbish { node, class, free };
        let other = memory::allocate(Other { rubbish, before: self.last.get() });
        self.last.set(Some(other.cast().map_addr(|addr| addr | OTHER)));
    }

    /// Where a node leads to the one before.
    ///
    /// # Safety
    ///
    /// The node is alive, with a table, and its slot empty and the caller's.
    #[inline]
    unsafe fn link_in(node: NonNull<Head>) -> *mut Option<NonNull<Link>> {
        // SAFETY: contract.
        unsafe { NodeRef::headed(node).slot::<()>() }.cast()
    }

    /// What was pushed last: where it begins, or where its head does.
    pub(super) fn newest(&self) -> Option<NonNull<u8>> {
        let Some(link) = self.last.get() else { return self.first.get().map(|first| first.node) };
        if link.addr().get() & OTHER == 0 {
            return Some(link.cast());
        }
        let other = link.as_ptr().map_addr(|addr| addr & !OTHER).cast::<Other>();
        // SAFETY: allocated by `push_other`, and not cleared yet.
        Some(unsafe { &*other }.rubbish.node)
    }

    /// The last first: whoever goes upstream holds the lock of one until it has left the next (V2), and
    /// the lock is passed before the node is freed.
    #[inline]
    pub(super) fn clear(self) {
        if self.last.get().is_some() {
            Self::clear_list(self.last.get());
        }
        if let Some(rubbish) = self.first.get() {
            // SAFETY: pushed by whoever took the result, for this moment (N3).
            unsafe { rubbish.free() };
        }
    }

    #[inline(never)]
    fn clear_list(mut last: Option<NonNull<Link>>) {
        while let Some(link) = last {
            if link.addr().get() & OTHER == 0 {
                let node = link.cast::<Head>();
                // SAFETY: pushed by `push_linked`.
                let slot = unsafe { Self::link_in(node) };
                // SAFETY: as above.
                last = unsafe { slot.read() };
                // SAFETY: N3: kept until here.
                let table = unsafe { node.as_ref() }.table();
                match table.linked {
                    // SAFETY: pushed by whoever took the result, for this moment (N3).
                    Some(class) => unsafe { Linked::free_early(node, class) },
                    // SAFETY: as above.
                    None => unsafe { (table.free)(node) },
                }
            } else {
                // SAFETY: marked, so it is not 0 without the mark either.
                let other = link
                    .cast::<Other>()
                    .map_addr(|addr| unsafe { NonZero::new_unchecked(addr.get() & !OTHER) });
                // SAFETY: allocated by `push_other`, and out of the list now.
                let Other { rubbish, before } = unsafe { other.read() };
                // SAFETY: as above.
                unsafe { memory::free(other) };
                last = before;
                // SAFETY: pushed by whoever took the result, for this moment (N3).
                unsafe { rubbish.free() };
            }
        }
    }
}
