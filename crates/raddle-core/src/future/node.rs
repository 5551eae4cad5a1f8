//! What all nodes have in common.
//!
//! ```text
//!   Root<T> { state, slot }                    what a promise completes: two words for a word
//!   others  { state, vtable, body: union { what produces | slot }, .. }
//! ```
//!
//! # Invariants
//!
//! - **N1** A node starts with its state, though its allocation may start before. All but roots have the vtable next. Then
//!   comes the [`ResultSlot`] of the future's type, if it has one, as soon as it is aligned. A slot is full from the moment its producer decides
//!   the outcome until the consumer takes it; with the outcome `Killed` it is not looked at.
//! - **N2** The slot is used by one party at a time (F1 in `state`).
//! - **N3** A node is freed once: by the continuation that took its result, by its consumer, or by the
//!   producer if the consumer has gone. One that others may find upstream (it has `visit`, or is a root)
//!   goes only when the walk that passed it is over (see `walk`).

mod reference;

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

pub(crate) use self::reference::{Ends, NodeRef};
use crate::future::failure::{Failure, FailureKind};
use crate::future::interrupt_node::InterruptNode;
use crate::future::state::{Completed, Ended, Forsaken, State};
use crate::future::upstream::{Locked, Visitor};
use crate::future::wait::{self, Part};
use crate::future::walk::{self, Next, Walk};
use crate::future::{Assist, Killed, Waiter};
use crate::memory::{self, Class};
use crate::panics::discard;

/// What comes first in every node that is not a root.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Head {
    pub(crate) state: State<Head>,
    pub(crate) vtable: &'static VTable,
}

impl Head {
    #[inline(always)]
    pub(crate) fn table(&self) -> &'static VTable {
        self.state.touch();
        self.vtable
    }
}

/// What a node can do, by its type.
#[derive(Debug)]
pub(crate) struct VTable {
    /// Whether the node has a slot (N1).
    pub(crate) has_slot: bool,
    /// Frees the node; its slot is empty.
    pub(crate) free: unsafe fn(NonNull<Head>),
    /// Where its memory goes, if there is no more to freeing it, and nobody finds the node upstream.
    pub(crate) class: Option<Class>,
    /// The same of a node of `flat_map` and its like, from where such a one begins, if nobody has sent it a signal.
    pub(crate) linked: Option<Class>,
    /// What a continuation does when the node that it is attached to is done: takes the result, and says who is next.
    pub(crate) step: Step,
    /// The same when that will never be done: it forsakes its own. None: it does not hear of that, and waits on.
    pub(crate) forsaken: Option<Step>,
    /// Wakes a waiter; the consumer takes the result.
    pub(crate) wake: unsafe fn(NonNull<Head>),
    /// Receives a visitor, and says where it goes on; only nodes that interrupts go through have it.
    pub(crate) visit: Option<Visit>,
    /// Whether it is a part of a combination whose closure has no effect: when its future is dropped, what is upstream
    /// is not wanted any more.
    pub(crate) adapts: bool,
    /// Whether the node may become another future: see `linked`.
    pub(crate) links: bool,
    /// A waiting thread offers to run what has not started.
    pub(crate) assist: Option<unsafe fn(NonNull<Head>, Waiter) -> Assist>,
    /// Kills what produces the value, if that is not this node's own affair.
    pub(crate) kill: Option<unsafe fn(NonNull<Head>) -> Killed>,
}

/// Whether a closure can be in the place of a slot (N1); otherwise it is put into a box.
pub(crate) const fn fits<O>() -> bool {
    align_of::<O>() <= size_of::<Head>()
}

/// Sees to it that the slot of a new node is where it is looked for: `at` bytes from the head, in an allocation that is aligned
/// for it and begins so many bytes before the head.
#[inline(always)]
pub(crate) fn check_slot<T>(at: usize, before: usize) {
    let align = align_of::<ResultSlot<T>>();
    let end = before + size_of::<Head>();
    assert!(before + at == end.next_multiple_of(align), "the slot comes after the head");
}

/// For tables of nodes that are never attached in the one way ..
pub(crate) fn never<T>(_: NonNull<Head>) -> T {
    unreachable!("is not attached like that")
}
/// .. or the other.
pub(crate) fn never_in_walk<T>(node: NonNull<Head>, _: &Walk) -> T {
    never(node)
}

/// See [`VTable::step`].
pub(crate) type Step = unsafe fn(NonNull<Head>, &Walk) -> Option<NonNull<Head>>;

/// See [`VTable::visit`].
pub(crate) type Visit = unsafe fn(NonNull<Head>, &mut Visitor) -> Option<Locked>;

/// The node of a promise.
#[repr(C, align(8))]
pub(crate) struct Root<T> {
    pub(crate) state: State<Head>,
    pub(crate) slot: ResultSlot<T>,
}

impl<T> Root<T> {
    pub(crate) fn allocate(state: State<Head>) -> NonNull<Root<T>> {
        memory::allocate(Root { state, slot: ResultSlot { empty: () } })
    }

    /// Frees a root whose slot is empty, with its interrupt node.
    ///
    /// # Safety
    ///
    /// `node` is such a root, and nobody else knows it.
    #[inline]
    pub(super) unsafe fn free(node: NonNull<u8>) {
        let root = node.cast::<Root<T>>();
        // SAFETY: alive.
        let state = unsafe { &root.as_ref().state };
        if !state.is_bare() {
            Self::free_interrupt_node(state);
        }
        // SAFETY: contract.
        unsafe { memory::free(root) };
    }

    #[cold]
    fn free_interrupt_node(state: &State<Head>) {
        if let Some(interrupt_node) = state.interrupt_node() {
            // SAFETY: F4.
            unsafe { InterruptNode::free(interrupt_node) };
        }
    }
}

/// Writes a field of a node in the making: a copy of the whole would wait for the stores of its parts.
///
/// # Safety
///
/// The field lies at this offset, and nobody else knows the node.
#[inline(always)]
pub(crate) unsafe fn put<N, V>(node: NonNull<N>, offset: usize, field: V) {
    // SAFETY: contract.
    let place = unsafe { node.byte_add(offset) }.cast::<V>();
    // SAFETY: contract.
    unsafe { place.write(field) };
}

/// Takes a field out of a node.
///
/// # Safety
///
/// The field lies at this offset, is the caller's, and is not used again.
#[inline(always)]
pub(crate) unsafe fn pick<N, V>(node: NonNull<N>, offset: usize) -> V {
    // SAFETY: contract.
    let place = unsafe { node.byte_add(offset) }.cast::<V>();
    // SAFETY: contract.
    unsafe { place.read() }
}

/// The closure of an operation, then its result, in the same place.
#[repr(C)]
pub(crate) union Body<O, U> {
    op: ManuallyDrop<O>,
    slot: ManuallyDrop<ResultSlot<U>>,
}

impl<O, U> Body<O, U> {
    pub(crate) fn of(op: O) -> Body<O, U> {
        Body { op: ManuallyDrop::new(op) }
    }
}

/// The place of a result: a word at least.
#[repr(C)]
pub(crate) union ResultSlot<T> {
    pub(crate) empty: (),
    value: ManuallyDrop<T>,
    failure: ManuallyDrop<Failure>,
}

impl<T> ResultSlot<T> {
    /// The slot's content for a result, and the state that goes with it.
    #[inline]
    pub(crate) fn of(result: Result<T, Failure>) -> (ResultSlot<T>, Ended) {
        match result {
            Ok(value) => (ResultSlot { value: ManuallyDrop::new(value) }, Ended::Ok),
            Err(failure) => (ResultSlot { failure: ManuallyDrop::new(failure) }, Ended::Err),
        }
    }

    /// Takes the result out.
    ///
    /// # Safety
    ///
    /// The slot must be full, unless the outcome is `Killed`, and is empty afterwards.
    #[inline]
    pub(crate) unsafe fn take(slot: *mut ResultSlot<T>, outcome: Ended) -> Result<T, Failure> {
        match outcome {
            // SAFETY: N1, and the contract.
            Ended::Ok => Ok(unsafe { slot.cast::<T>().read() }),
            // SAFETY: as above.
            Ended::Err => Err(unsafe { slot.cast::<Failure>().read() }),
            Ended::Killed => Err(Failure::plain(FailureKind::Killed)),
        }
    }
}

/// Producer: completes a node and says who takes the result, if somebody does. Whoever waits is told.
///
/// # Safety
///
/// The caller is the node's producer, nothing is in its slot, and unless there is a next the caller does not use
/// the node afterwards. It is the node of a future of `T`.
#[inline(always)]
pub(crate) unsafe fn conclude<T>(node: NodeRef, result: Result<T, Failure>) -> Option<Next> {
    // SAFETY: contract.
    let outcome = unsafe { fill(node, result) };
    // SAFETY: contract.
    unsafe { complete::<T>(node, outcome) }
}

/// Producer: puts the result into the slot, and says with which outcome the node is to be completed.
///
/// # Safety
///
/// As [`conclude`].
#[inline(always)]
pub(crate) unsafe fn fill<T>(node: NodeRef, result: Result<T, Failure>) -> Ended {
    let (full, outcome) = ResultSlot::of(result);
    // SAFETY: contract.
    let slot = unsafe { node.slot::<T>() };
    // SAFETY: F1: the producer's until it is completed.
    unsafe { slot.write(full) };
    outcome
}

/// As [`conclude`], with the slot full already (or the outcome `Killed`).
///
/// # Safety
///
/// As there.
#[inline(always)]
pub(crate) unsafe fn complete<T>(node: NodeRef, outcome: Ended) -> Option<Next> {
    // SAFETY: alive until it is completed.
    let state = unsafe { node.state() };
    if wait::host::is_recorded() {
        resolves(node, state);
    }
    match state.complete(outcome, node.carries(), node.free_carried()) {
        Completed::Next(next) => Some(Next { node: next, from: node, outcome }),
        Completed::Alone => None,
        Completed::Dropped => {
            // SAFETY: the consumer has gone, so both the slot and the node are the producer's, and nobody
            // is downstream, who could find it.
            unsafe { discard_early::<T>(node, outcome) };
            None
        }
        other => {
            // SAFETY: contract.
            unsafe { completed::<T>(node, outcome, other) };
            None
        }
    }
}

/// Producer: leaves a node for good, that will never be done now, and says whose node will not be either.
///
/// # Safety
///
/// As for [`conclude`], with the slot empty.
pub(crate) unsafe fn forsake<T>(node: NodeRef) -> Option<NonNull<Head>> {
    // SAFETY: alive until it is left.
    let state = unsafe { node.state() };
    // SAFETY: E1: attached, so there is one.
    let next_of = |interrupt_node| unsafe { InterruptNode::next(interrupt_node) };
    // SAFETY: F2: alive while it is attached.
    let hears = |waiter: NonNull<Head>| unsafe { waiter.as_ref() }.table().forsaken.is_some();
    match state.forsake(next_of, hears, node.free_carried()) {
        Forsaken::Left => None,
        Forsaken::Next(next) => Some(next),
        Forsaken::Dropped => {
            // SAFETY: the consumer has gone, so it is the producer's.
            unsafe { node.free::<T>() };
            None
        }
    }
}

/// Records that a node is about to be done. If what takes its result runs next, that comes after whoever asked for it, too.
#[cold]
#[inline(never)]
fn resolves(node: NodeRef, state: &State<Head>) {
    if state.continuation().is_some() {
        wait::host::goes_on(node.address());
    } else if !state.is_dropped() {
        wait::host::resolves(node.address(), Part::All);
    }
}

/// What is left to do when nobody takes the result.
#[cold]
unsafe fn completed<T>(node: NodeRef, outcome: Ended, found: Completed<Head>) {
    match found {
        Completed::Next(_) | Completed::Alone | Completed::Dropped => {}
        Completed::Tell(waiter) => {
            // SAFETY: F2.
            unsafe { walk::wake(waiter) };
        }
        // SAFETY: the slot is the producer's still (F1), who has not left yet.
        Completed::Killed => unsafe { discard_killed::<T>(node, outcome) },
    }
}

/// Drops what is in the slot of a node that has been killed, and leaves it: now, or soon if this is deep, because what is dropped may
/// complete the next one.
///
/// # Safety
///
/// By the producer, after `Completed::Killed`; the slot is full unless the outcome is `Killed`. It is the node of a future of `T`.
unsafe fn discard_killed<T>(node: NodeRef, outcome: Ended) {
    let leave: unsafe fn(NodeRef) = match outcome {
        Ended::Ok => leave_killed_value::<T>,
        Ended::Err => leave_killed_failure::<T>,
        Ended::Killed => leave_killed::<T>,
    };
    // SAFETY: contract: once, and whenever, as the node is there until the producer leaves.
    unsafe { walk::drop_node(node, leave) };
}

unsafe fn leave_killed_value<T>(node: NodeRef) {
    // SAFETY: contract of `discard_killed`.
    discard(unsafe { node.take::<T>(Ended::Ok) }.ok());
    // SAFETY: as above; the slot is empty.
    unsafe { leave_killed::<T>(node) };
}

unsafe fn leave_killed_failure<T>(node: NodeRef) {
    // SAFETY: contract of `discard_killed`.
    discard(unsafe { node.take::<T>(Ended::Err) }.err());
    // SAFETY: as above; the slot is empty.
    unsafe { leave_killed::<T>(node) };
}

unsafe fn leave_killed<T>(node: NodeRef) {
    // SAFETY: contract of `discard_killed`: the producer has not left yet.
    let state = unsafe { node.state() };
    if state.leave_killed(node.free_carried()) {
        // SAFETY: the consumer has gone, and the slot is empty.
        unsafe { node.free::<T>() };
    }
}

/// As [`discard_result`], which is not called if there is nothing to drop.
///
/// # Safety
///
/// As there.
#[inline]
pub(crate) unsafe fn discard_early<T>(node: NodeRef, outcome: Ended) {
    let is_empty = match outcome {
        Ended::Ok => !std::mem::needs_drop::<T>(),
        Ended::Err => {
            // SAFETY: contract.
            let slot = unsafe { node.slot::<T>() };
            // SAFETY: as above, and full.
            let failure: &Failure = unsafe { &*slot.cast::<Failure>() };
            !failure.is_counted()
        }
        Ended::Killed => true,
    };
    if is_empty {
        // SAFETY: contract.
        unsafe { node.free::<T>() };
    } else {
        // SAFETY: contract.
        unsafe { discard_result::<T>(node, outcome) };
    }
}

/// Drops what is in the slot of a node that nobody uses any more, and frees it: now, or soon if this is deep,
/// because what is dropped may own the next one.
///
/// # Safety
///
/// The slot and the node are the caller's, the slot is full unless the outcome is `Killed`. It is the node of a
/// future of `T`.
pub(crate) unsafe fn discard_result<T>(node: NodeRef, outcome: Ended) {
    let discard: unsafe fn(NodeRef) = match outcome {
        Ended::Ok => discard_value::<T>,
        Ended::Err => discard_failure::<T>,
        Ended::Killed => NodeRef::free::<T>,
    };
    // SAFETY: contract: once, and whenever.
    unsafe { walk::drop_node(node, discard) };
}

unsafe fn discard_value<T>(node: NodeRef) {
    // SAFETY: contract of `discard_result`.
    discard(unsafe { node.take::<T>(Ended::Ok) }.ok());
    // SAFETY: as above; the slot is empty.
    unsafe { node.free::<T>() };
}

unsafe fn discard_failure<T>(node: NodeRef) {
    // SAFETY: contract of `discard_result`.
    discard(unsafe { node.take::<T>(Ended::Err) }.err());
    // SAFETY: as above; the slot is empty.
    unsafe { node.free::<T>() };
}
