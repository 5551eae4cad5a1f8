//! How nodes are referred to: an address, with marks.

use std::hint;
use std::mem::offset_of;
use std::num::NonZero;
use std::ptr::NonNull;

use super::{Head, ResultSlot, Root, VTable};
use crate::future::failure::Failure;
use crate::future::interrupt_node::InterruptNode;
use crate::future::state::{Carries, Ended, State};
use crate::future::walk::Walk;
use crate::memory;

/// A node of any kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NodeRef(NonNull<u8>);

/// Marks roots; nodes are 8-aligned.
const ROOT: usize = 1;
/// Marks cells that interrupts do not come to, though others do who go upstream (see `upstream`).
const DEAF: usize = 2;
/// Marks what a handle holds if its node is not its cell, which the node's state carries; the other marks are the cell's.
const CARRIED: usize = 4;
const MARKS: usize = ROOT | DEAF | CARRIED;

/// A node and the cell of its future, as a handle holds them: in a word, as the one is the other or leads there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ends(NodeRef);

impl Ends {
    /// Of a node that is its own cell.
    #[inline]
    pub(crate) fn of(node: NodeRef) -> Ends {
        Ends(node)
    }

    /// Of a node whose state carries the cell.
    #[inline]
    pub(crate) fn with_cell(node: NonNull<Head>, cell: NodeRef) -> Ends {
        let marks = cell.0.addr().get() & (ROOT | DEAF);
        Ends(NodeRef(node.cast::<u8>().map_addr(|addr| addr | marks | CARRIED)))
    }

    #[inline]
    pub(crate) fn node(self) -> NodeRef {
        let addr = self.0.0.addr().get();
        let marks = if addr & CARRIED == 0 { ROOT } else { 0 };
        NodeRef(self.0.0.map_addr(|addr| NodeRef::unmarked(addr, MARKS & !marks)))
    }

    /// The cell, if the node's state carries that.
    #[inline]
    pub(crate) fn cell(self, carried: Option<NonNull<Head>>) -> Option<NodeRef> {
        let addr = self.0.0.addr().get();
        if addr & CARRIED == 0 {
            return Some(self.0);
        }
        let marks = addr & (ROOT | DEAF);
        Some(NodeRef(carried?.cast::<u8>().map_addr(|addr| addr | marks)))
    }

    /// The same, the cell marked as [`masked`](NodeRef::masked).
    pub(crate) fn masked(self) -> Ends {
        Ends(self.0.masked())
    }
}

impl NodeRef {
    /// No node: none is at this address.
    pub(crate) const NOBODY: NodeRef = NodeRef(NonNull::<Head>::dangling().cast());

    #[inline(always)]
    pub(crate) fn root<T>(root: NonNull<Root<T>>) -> NodeRef {
        // SAFETY: as in `headed`.
        unsafe { hint::assert_unchecked(root.addr().get() & MARKS == 0) };
        NodeRef(root.cast::<u8>().map_addr(|addr| addr | ROOT))
    }

    #[inline(always)]
    pub(crate) fn headed(node: NonNull<Head>) -> NodeRef {
        // SAFETY: nodes are 8-aligned. Said, so that what asks for marks is not compiled.
        unsafe { hint::assert_unchecked(node.addr().get() & MARKS == 0) };
        NodeRef(node.cast())
    }

    #[inline]
    pub(crate) fn is_root(self) -> bool {
        self.0.addr().get() & ROOT != 0
    }

    /// What the node's state carries.
    #[inline]
    pub(crate) fn carries(self) -> Carries {
        if self.is_root() { Carries::Interrupts } else { Carries::Cell }
    }

    /// For a node that is left by the last who needed what its state carried.
    #[inline]
    pub(crate) fn free_carried(self) -> impl Fn(NonNull<Head>) {
        move |carried| {
            if self.is_root() {
                // SAFETY: F4: nothing else leads to it.
                unsafe { InterruptNode::free(carried) };
            }
        }
    }

    /// Where the node is, to call it by.
    pub(crate) fn address(self) -> *const u8 {
        self.start().as_ptr()
    }

    /// The node's address, without the mark.
    #[inline]
    fn start(self) -> NonNull<u8> {
        self.0.map_addr(|addr| Self::unmarked(addr, ROOT | DEAF))
    }

    #[inline]
    fn unmarked(addr: NonZero<usize>, marks: usize) -> NonZero<usize> {
        // SAFETY: nodes are not at the addresses 0 to 7.
        unsafe { NonZero::new_unchecked(addr.get() & !marks) }
    }

    /// The node that a state carries: without marks, as the handle has them.
    #[inline]
    pub(crate) fn carried(self) -> NonNull<Head> {
        self.start().cast()
    }

    /// The node, if it has a head.
    #[inline]
    pub(crate) fn head(self) -> Option<NonNull<Head>> {
        (!self.is_root()).then(|| self.start().cast())
    }

    /// The cell, for all but interrupts.
    pub(crate) fn masked(self) -> NodeRef {
        NodeRef(self.0.map_addr(|addr| addr | DEAF))
    }

    pub(crate) fn is_masked(self) -> bool {
        self.0.addr().get() & DEAF != 0
    }

    /// The node of a cell, whether masked or not.
    pub(crate) fn node(self) -> NodeRef {
        if self.is_root() {
            NodeRef(self.start().map_addr(|addr| addr | ROOT))
        } else {
            NodeRef(self.start())
        }
    }

    /// The state of the node.
    ///
    /// # Safety
    ///
    /// It is alive for `'a`.
    #[inline]
    pub(crate) unsafe fn state<'a>(self) -> &'a State<Head> {
        // SAFETY: N1; alive (contract).
        unsafe { self.start().cast().as_ref() }
    }

    /// The table of the node, if it has one.
    ///
    /// # Safety
    ///
    /// It is alive.
    #[inline]
    pub(crate) unsafe fn vtable(self) -> Option<&'static VTable> {
        let head = self.head()?;
        // SAFETY: N1; alive (contract).
        Some(unsafe { head.as_ref() }.table())
    }

    /// The slot of the node.
    ///
    /// # Safety
    ///
    /// It is alive and the node of a future of `T`.
    #[inline]
    pub(crate) unsafe fn slot<T>(self) -> *mut ResultSlot<T> {
        // SAFETY: contract.
        unsafe { self.state() }.touch_body();
        let (start, align) = (self.start().as_ptr(), align_of::<ResultSlot<T>>());
        if self.is_root() {
            // SAFETY: N1.
            return unsafe { start.byte_add(offset_of!(Root<T>, slot)) }.cast();
        }
        // SAFETY: N1.
        let end = unsafe { start.byte_add(size_of::<Head>()) };
        if align <= align_of::<Head>() {
            return end.cast();
        }
        end.map_addr(|addr| addr.next_multiple_of(align)).cast()
    }

    /// Takes the result out of a node that is done.
    ///
    /// # Safety
    ///
    /// As [`slot`](NodeRef::slot); the slot is the caller's (N2) and empty afterwards.
    #[inline]
    pub(crate) unsafe fn take<T>(self, outcome: Ended) -> Result<T, Failure> {
        // SAFETY: contract.
        let slot = unsafe { self.slot::<T>() };
        // SAFETY: contract.
        unsafe { ResultSlot::take(slot, outcome) }
    }

    /// Frees a node whose slot is empty and that nobody can find upstream any more.
    ///
    /// # Safety
    ///
    /// It is the node of a future of `T`, and nobody else knows it (N3).
    #[inline(always)]
    pub(crate) unsafe fn free<T>(self) {
        // SAFETY: contract.
        match unsafe { self.vtable() } {
            // SAFETY: contract.
            None => unsafe { Root::<T>::free(self.start()) },
            // SAFETY: contract.
            Some(&VTable { class: Some(class), .. }) => unsafe {
                memory::free_of(self.start(), class);
            },
            // SAFETY: contract.
            Some(vtable) => unsafe { (vtable.free)(self.start().cast()) },
        }
    }

    /// Frees a node whose result a continuation has taken: at once, or when the walk is over (N3).
    ///
    /// # Safety
    ///
    /// As [`free`](NodeRef::free), except that it may be found upstream.
    #[inline(always)]
    pub(crate) unsafe fn consumed<T>(self, walk: &Walk) {
        // SAFETY: contract.
        match unsafe { self.vtable() } {
            None => walk.push_root::<T>(self.start()),
            // SAFETY: contract.
            Some(&VTable { class: Some(class), .. }) => unsafe {
                memory::free_of(self.start(), class);
            },
            // SAFETY: contract.
            Some(vtable) => unsafe { self.consumed_with(vtable, walk) },
        }
    }

    /// The same for a node of which freeing is more.
    #[inline]
    unsafe fn consumed_with(self, vtable: &'static VTable, walk: &Walk) {
        match vtable {
            // SAFETY: contract.
            VTable { links: true, .. } => unsafe { walk.push_linked(self.start().cast()) },
            // A task that was killed may not have left its slot yet.
            VTable { visit: Some(_), .. } => {
                walk.push(self.start(), |node| {
                    let node = node.cast::<Head>();
                    // SAFETY: N3: kept until here.
                    let free = unsafe { node.as_ref() }.table().free;
                    // SAFETY: as above.
                    unsafe { free(node) };
                });
            }
            // SAFETY: contract.
            _ => unsafe { (vtable.free)(self.start().cast()) },
        }
    }
}
