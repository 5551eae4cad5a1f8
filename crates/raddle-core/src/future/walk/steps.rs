//! The steps of a walk, and where the walks of a thread are.

use std::cell::Cell;
use std::mem::offset_of;
use std::ptr::{self, NonNull};

use raddle_sync::stack;

use crate::future::failure::Failure;
use crate::future::garbage::{Garbage, Rubbish};
use crate::future::node::{self, Head, NodeRef, Root};
use crate::future::state::Ended;
use crate::future::upstream::Cells;
use crate::memory;

raddle_sync::thread_local! {
    /// The innermost walk that this thread is at (T6).
    static INNERMOST: Cell<Option<NonNull<Walk>>> = const { Cell::new(None) };
}

/// A walk, at a node that is done. Shared with whoever waits within it, who asks where it is.
#[derive(Debug)]
pub(crate) struct Walk {
    /// The node that is done, or whose closure has taken the result: alive while a closure runs (T6).
    at: Cell<NodeRef>,
    outcome: Cell<Ended>,
    garbage: Garbage,
    /// The one that this one runs in, if it is known to the thread.
    around: Option<NonNull<Walk>>,
    /// Where it is, until its loop is over (T6).
    here: Cell<*const Walk>,
}

impl Walk {
    fn new(from: NodeRef, outcome: Ended, around: Option<NonNull<Walk>>) -> Walk {
        let (at, outcome) = (Cell::new(from), Cell::new(outcome));
        Walk { at, outcome, garbage: Garbage::default(), around, here: Cell::new(ptr::null()) }
    }

    /// Goes from `from`, which is done, to `node`, which takes its result, and on, in the context of this thread, which is none.
    #[inline(always)]
    pub(super) fn go(mut node: NonNull<Head>, from: NodeRef, outcome: Ended) {
        let around = INNERMOST.with(Cell::get);
        let walk = Walk::new(from, outcome, around);
        walk.here.set(&raw const walk);
        INNERMOST.with(|innermost| innermost.set(Some(NonNull::from(&walk))));
        loop {
            // SAFETY: F2: attached nodes are alive until they are told.
            let head = unsafe { node.as_ref() };
            // SAFETY: the walk is at a node that is done, and this is its continuation.
            match unsafe { (head.table().step)(node, &walk) } {
                Some(next) => node = next,
                None => break,
            }
        }
        // SAFETY: its own. Volatile, as it is: nobody reads it but who should not find it (T6).
        unsafe { walk.here.as_ptr().write_volatile(ptr::null()) };
        INNERMOST.with(|innermost| innermost.set(around));
        walk.garbage.clear();
    }

    /// Leaves a node for good, and so on downstream.
    ///
    /// # Safety
    ///
    /// As [`node::forsake`].
    pub(super) unsafe fn begin_forsaking<T>(node: NodeRef) {
        let walk = Walk::new(node, Ended::Killed, None);
        // SAFETY: contract.
        unsafe { walk.forsake::<T>(node) };
        walk.garbage.clear();
    }

    /// Takes the result of the node where the walk is, for the continuation `by`, where it is from now on, and frees the node.
    ///
    /// # Safety
    ///
    /// Once at each node, by its continuation; it is the node of a future of `T`.
    #[inline(always)]
    pub(crate) unsafe fn take<T>(&self, by: NodeRef) -> Result<T, Failure> {
        // SAFETY: contract.
        let result = unsafe { self.look::<T>() };
        // SAFETY: contract: the continuation is in the consumer's place.
        unsafe { self.at.replace(by).consumed::<T>(self) };
        result
    }

    /// The closure of the node where it is is over, or the node is another's to free (T6).
    #[inline(always)]
    pub(crate) fn is_nowhere(&self) {
        self.at.set(NodeRef::NOBODY);
    }

    /// Completes a node, and goes there if somebody takes its result.
    ///
    /// # Safety
    ///
    /// As [`node::conclude`].
    #[inline(always)]
    pub(crate) unsafe fn conclude<T>(
        &self,
        node: NodeRef,
        result: Result<T, Failure>,
    ) -> Option<NonNull<Head>> {
        self.is_nowhere();
        // SAFETY: contract.
        let next = unsafe { node::conclude(node, result) }?;
        self.at.set(node);
        self.outcome.set(next.outcome);
        Some(next.node)
    }

    /// Takes the result as [`take`](Walk::take), and leaves the node to [`pass_on`](Walk::pass_on).
    ///
    /// # Safety
    ///
    /// As there.
    #[inline(always)]
    pub(crate) unsafe fn look<T>(&self) -> Result<T, Failure> {
        // SAFETY: contract: it is done (F1).
        unsafe { self.at.get().take::<T>(self.outcome.get()) }
    }

    /// Completes a node to which somebody is attached for good, goes there, and frees the one where the walk has been: that comes
    /// last, so that little is kept over the calls that it may take.
    ///
    /// # Safety
    ///
    /// As [`node::conclude`], after `look::<T>`.
    #[inline(always)]
    pub(crate) unsafe fn pass_on<T, U>(&self, node: NodeRef, result: Result<U, Failure>) {
        // SAFETY: contract.
        self.outcome.set(unsafe { node::fill(node, result) });
        let before = self.at.replace(node);
        // SAFETY: contract: the continuation is in the consumer's place.
        unsafe { before.consumed::<T>(self) };
    }

    /// Leaves a node for good, and so on downstream.
    ///
    /// # Safety
    ///
    /// As [`node::forsake`].
    #[cold]
    pub(crate) unsafe fn forsake<T>(&self, node: NodeRef) {
        // SAFETY: contract.
        let mut next = unsafe { self.leave::<T>(node) };
        while let Some(node) = next {
            // SAFETY: F2: attached nodes are alive until they are told.
            let head = unsafe { node.as_ref() };
            let Some(forsaken) = head.table().forsaken else { unreachable!("it hears of that") };
            // SAFETY: told once, by whoever forsakes what it is attached to.
            next = unsafe { forsaken(node, self) };
        }
    }

    /// Leaves one node for good, and goes there if somebody is attached.
    ///
    /// # Safety
    ///
    /// As [`node::forsake`].
    pub(crate) unsafe fn leave<T>(&self, node: NodeRef) -> Option<NonNull<Head>> {
        self.is_nowhere();
        // SAFETY: contract.
        let next = unsafe { node::forsake::<T>(node) }?;
        self.at.set(node);
        Some(next)
    }

    /// Frees the node where the walk is, whose slot is empty; as [`take`](Walk::take), for one that will never be done.
    ///
    /// # Safety
    ///
    /// As there.
    pub(crate) unsafe fn pass<T>(&self) {
        // SAFETY: contract: the continuation is in the consumer's place.
        unsafe { self.at.replace(NodeRef::NOBODY).consumed::<T>(self) };
    }

    /// Frees a node when the walk is over.
    #[inline]
    pub(crate) fn push(&self, node: NonNull<u8>, free: unsafe fn(NonNull<u8>)) {
        self.garbage.push(Rubbish { node, class: None, free });
    }

    /// The same for the node of a promise, whose slot is empty.
    #[inline]
    pub(crate) fn push_root<T>(&self, node: NonNull<u8>) {
        let class = const { memory::class_of::<Root<T>>() };
        self.garbage.push(Rubbish { node, class, free: Root::<T>::free });
    }

    /// The same for a node of `flat_map` and its like, whose slot is empty.
    ///
    /// # Safety
    ///
    /// It is alive, and nobody else uses the slot.
    #[inline]
    pub(crate) unsafe fn push_linked(&self, node: NonNull<Head>) {
        // SAFETY: contract.
        unsafe { self.garbage.push_linked(node) };
    }
}

/// The cells that this thread has passed on its way to the closures of continuations that it is running, each the last before
/// one. What is found to lie behind one of them, and is not done, waits for one of the closures, and so for this thread.
pub(crate) fn passed() -> Cells {
    let mut cells = Cells::default();
    let mut at = INNERMOST.with(Cell::get);
    while let Some(walk) = at.filter(|walk| stack::is_beneath(walk.addr().get())) {
        let here = walk.as_ptr().wrapping_byte_add(offset_of!(Walk, here)).cast::<*const Walk>();
        // SAFETY: T6: on this stack, where a walk is, or was.
        if unsafe { here.read_volatile() } != walk.as_ptr() {
            break;
        }
        // SAFETY: T6: it runs beneath, on this thread.
        let walk = unsafe { walk.as_ref() };
        let node = walk.at.get();
        if node != NodeRef::NOBODY {
            cells.insert(node.address().addr());
            cells.extend(walk.garbage.newest().map(|node| node.addr().get()));
        }
        at = walk.around;
    }
    cells
}
