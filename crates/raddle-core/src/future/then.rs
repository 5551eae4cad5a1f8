//! Nodes of operations whose closure returns a value: `map` and its like.

use std::mem::{ManuallyDrop, offset_of};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now, Pending, Repr};
use crate::future::node::{self, Body, Ends, Head, NodeRef, VTable};
use crate::future::state::{Attach, Refused, State, Vacant};
use crate::future::wait::host;
use crate::future::walk::Walk;
use crate::local::{self, Capture};
use crate::memory;
use crate::panics::discard;

/// An operation: from how one future ended to how the next one does.
pub(crate) trait Then<T>: Send + 'static {
    type Out: Send + 'static;

    /// See [`VTable::adapts`].
    const ADAPTS: bool = false;

    /// May panic: that makes the next one fail.
    fn call(self, result: Result<T, Failure>) -> Result<Self::Out, Failure>;
}

/// Calls the operation; a panic is a failure.
#[inline]
pub(crate) fn call<T, O: Then<T>>(op: O, result: Result<T, Failure>) -> Result<O::Out, Failure> {
    panic::catch_unwind(AssertUnwindSafe(|| op.call(result)))
        .unwrap_or_else(|payload| Err(Failure::panicked(payload)))
}

/// The node: a head and the operation's closure, then its result, in the same place.
#[repr(C)]
struct MapNode<T, O: Then<T>, C> {
    head: Head,
    body: Body<O, O::Out>,
    context: ManuallyDrop<C>,
}

impl<T: Send + 'static> Future<T> {
    /// The future of what the operation makes of this one.
    #[inline]
    pub(crate) fn then<O: Then<T>>(self, op: O) -> Future<O::Out> {
        match self.0 {
            Repr::Ready(value) => Future::from(call(op, Ok(value))),
            Repr::Failed(failure) => Future::from(call(op, Err(failure))),
            Repr::Pending(pending) if const { node::fits::<O>() } => pending.then(op),
            Repr::Pending(pending) => pending.then(Boxed(Box::new(op))),
            rare => Future(rare).then_rarely(op),
        }
    }

    #[cold]
    #[inline(never)]
    fn then_rarely<O: Then<T>>(self, op: O) -> Future<O::Out> {
        match self.now() {
            Now::Done(result) => settled(op, Some(result)),
            // It had been polled.
            Now::Pending(pending) => Future::from_pending(pending).then(op),
            Now::Never => Future::never(),
        }
    }
}

/// The next future where the result is there or never will be.
#[cold]
#[inline(never)]
fn settled<T, O: Then<T>>(op: O, result: Option<Result<T, Failure>>) -> Future<O::Out> {
    match result {
        Some(result) => Future::from(call(op, result)),
        None => Future::never(),
    }
}

/// An operation that is aligned so that it would not be where the slot is.
struct Boxed<O>(Box<O>);

impl<T, O: Then<T>> Then<T> for Boxed<O> {
    type Out = O::Out;

    const ADAPTS: bool = O::ADAPTS;

    fn call(self, result: Result<T, Failure>) -> Result<O::Out, Failure> {
        (*self.0).call(result)
    }
}

impl<T: Send + 'static> Pending<T> {
    #[inline]
    fn then<O: Then<T>>(self, op: O) -> Future<O::Out> {
        match local::capture().some() {
            None => self.then_in(op, ()),
            Some(context) => self.then_in(op, context),
        }
    }

    #[inline]
    fn then_in<O: Then<T>, C: Capture>(self, op: O, context: C) -> Future<O::Out> {
        let (pending, vacant) = match self.take() {
            // Saves the node.
            Ok(result) => return Future::from(call(op, result)),
            Err(both) => both,
        };
        let Some(cell) = pending.cell_of(vacant) else { return Future::never() };
        let step = MapNode::<T, O, C>::allocate(op, context, cell);
        match pending.attach(vacant, step.cast()) {
            // SAFETY: a new node of such a future, with the cell of the one it took the place of.
            Ok(()) => unsafe { Future::pending(Ends::with_cell(step.cast(), cell)) },
            // SAFETY: it is not attached, so it is this thread's alone.
            Err(now) => unsafe { MapNode::refused(step, now) },
        }
    }

    /// Leaves the consumer's place to a continuation, or gives the result; none if it will never be done.
    #[inline]
    pub(crate) fn attach(
        self,
        vacant: Vacant,
        continuation: NonNull<Head>,
    ) -> Result<(), Option<Result<T, Failure>>> {
        let this = ManuallyDrop::new(self);
        // SAFETY: this is the consumer.
        match unsafe { attach(this.node(), vacant, continuation, Attach::Continuation) } {
            Ok(()) => Ok(()),
            Err(refused) => Err(ManuallyDrop::into_inner(this).refused(refused)),
        }
    }
}

/// Attaches to a node.
///
/// # Safety
///
/// By its consumer.
#[inline]
pub(crate) unsafe fn attach(
    to: NodeRef,
    vacant: Vacant,
    who: NonNull<Head>,
    how: Attach,
) -> Result<(), Refused> {
    if how == Attach::Continuation && host::is_recorded() {
        host::follows(to.address());
    }
    // SAFETY: the consumer keeps it alive.
    let state = unsafe { to.state() };
    // SAFETY: E1: by whoever attaches.
    state.attach(vacant, who, how, to.carries(), |interrupt_node| unsafe {
        super::interrupt_node::InterruptNode::set_next(interrupt_node, who)
    })
}

impl<T: Send + 'static, O: Then<T>, C: Capture> MapNode<T, O, C> {
    const VTABLE: &'static VTable = &VTable {
        has_slot: true,
        // SAFETY: of such a node (contract).
        free: |node| unsafe { memory::free(node.cast::<Self>()) },
        class: memory::class_of::<Self>(),
        linked: None,
        step: Self::step,
        forsaken: Some(Self::forsaken),
        wake: node::never,
        visit: None,
        adapts: O::ADAPTS,
        links: false,
        assist: None,
        kill: None,
    };

    /// Writes field by field: a copy of the whole would wait for the stores.
    #[inline]
    fn allocate(op: O, context: C, cell: NodeRef) -> NonNull<Self> {
        node::check_slot::<O::Out>(offset_of!(Self, body), 0);
        let place = memory::reserve::<Self>();
        let head = Head { state: State::with_cell(cell.carried()), vtable: Self::VTABLE };
        // SAFETY: just reserved, here and below.
        unsafe { node::put(place, offset_of!(Self, head), head) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, body), op) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, context), context) };
        place
    }

    /// Takes the closure and the context out.
    ///
    /// # Safety
    ///
    /// Once, by whoever owns the node.
    #[inline]
    unsafe fn dismantle(node: NonNull<Self>) -> (O, C) {
        // SAFETY: alive.
        unsafe { node.as_ref() }.head.state.touch_body();
        // SAFETY: contract.
        let op = unsafe { node::pick(node, offset_of!(Self, body)) };
        // SAFETY: contract.
        (op, unsafe { node::pick(node, offset_of!(Self, context)) })
    }

    /// The future of a node that could not be attached, as the result is there or never will be.
    ///
    /// # Safety
    ///
    /// Once, by whoever owns the node.
    #[cold]
    #[inline(never)]
    unsafe fn refused(node: NonNull<Self>, now: Option<Result<T, Failure>>) -> Future<O::Out> {
        // SAFETY: contract.
        let op = unsafe { Self::dismantle(node) }.0;
        // SAFETY: contract.
        unsafe { memory::free(node) };
        settled(op, now)
    }

    unsafe fn step(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: alive until it is completed.
        let Some(next) = unsafe { node.as_ref() }.state.continuation_for_good() else {
            // SAFETY: as this.
            return unsafe { Self::last_step(node, walk) };
        };
        // In the midst of a chain: nobody kills it any more, and `next` is attached for good.
        // SAFETY: it is done, and its result is this node's to take (F1).
        let input = unsafe { walk.look::<T>() };
        // SAFETY: told once (F2).
        let (op, context) = unsafe { Self::dismantle(node.cast()) };
        let result = context.run(|| call(op, input));
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.pass_on::<T, O::Out>(NodeRef::headed(node), result) };
        Some(next)
    }

    /// The step of a node whose future somebody has, or had.
    #[inline(never)]
    unsafe fn last_step(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: it is done, and its result is this node's to take (F1).
        let input = unsafe { walk.take::<T>(NodeRef::headed(node)) };
        // SAFETY: told once (F2).
        let (op, context) = unsafe { Self::dismantle(node.cast()) };
        // SAFETY: alive until it is completed.
        let killed = unsafe { node.as_ref() }.state.is_killed();
        let result = if killed {
            // One by one: two panics at once would end the process.
            discard(op);
            discard(input);
            discard(context);
            Err(Failure::killed())
        } else {
            context.run(|| call(op, input))
        };
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.conclude(NodeRef::headed(node), result) }
    }

    unsafe fn forsaken(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: told once, of a node whose slot is empty.
        unsafe { walk.pass::<T>() };
        // SAFETY: told once.
        let (op, context) = unsafe { Self::dismantle(node.cast()) };
        discard(op);
        discard(context);
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.leave::<O::Out>(NodeRef::headed(node)) }
    }
}
