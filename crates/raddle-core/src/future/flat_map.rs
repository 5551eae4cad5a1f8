//! Nodes of operations whose closure returns a future: `flat_map` and its like. What they become is in `linked`.

use std::mem::{ManuallyDrop, offset_of};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;

use crate::depth;
use crate::future::failure::Failure;
use crate::future::handle::{Future, Now, Pending, Repr};
use crate::future::linked::{Linked, is_just_upstream, is_upstream, linked_result};
use crate::future::node::{self, Body, Ends, Head, NodeRef, ResultSlot, Root, VTable};
use crate::future::state::State;
use crate::future::upstream::Upstream;
use crate::future::walk::{self, Next, Walk};
use crate::local::{self, Capture};
use crate::memory;
use crate::panics::discard;

/// An operation: from how one future ended to the next one.
pub(crate) trait ThenFuture<T>: Send + 'static {
    type Out: Send + 'static;

    /// May panic: that makes the next one fail.
    fn call(self, result: Result<T, Failure>) -> Future<Self::Out>;

    /// In the place of the call, when the next one has been killed.
    fn killed(self)
    where
        Self: Sized,
    {
        discard(self);
    }
}

/// Calls the operation; a panic is a failure.
#[inline]
fn call<T, O: ThenFuture<T>>(op: O, result: Result<T, Failure>) -> Future<O::Out> {
    panic::catch_unwind(AssertUnwindSafe(|| op.call(result)))
        .unwrap_or_else(|payload| Future::failed(Failure::panicked(payload)))
}

/// The node of such an operation; `linked` comes first, whatever the types.
#[repr(C)]
struct FlatMapNode<T, O: ThenFuture<T>, C> {
    linked: Linked,
    body: Body<O, O::Out>,
    context: ManuallyDrop<C>,
}

impl<T: Send + 'static> Future<T> {
    /// The future that the operation makes of this one.
    #[inline]
    pub(crate) fn then_future<O: ThenFuture<T>>(self, op: O) -> Future<O::Out> {
        match self.0 {
            Repr::Ready(value) => now(op, Ok(value)),
            Repr::Failed(failure) => now(op, Err(failure)),
            Repr::Pending(pending) if const { node::fits::<O>() } => pending.then_future(op),
            Repr::Pending(pending) => pending.then_future(Boxed(Box::new(op))),
            rare => Future(rare).then_future_rarely(op),
        }
    }

    #[cold]
    #[inline(never)]
    fn then_future_rarely<O: ThenFuture<T>>(self, op: O) -> Future<O::Out> {
        match self.now() {
            Now::Done(result) => now(op, result),
            // It had been polled.
            Now::Pending(pending) => Future::from_pending(pending).then_future(op),
            Now::Never => Future::never(),
        }
    }
}

/// Calls the operation, now or soon.
#[inline]
fn now<T: Send + 'static, O: ThenFuture<T>>(op: O, result: Result<T, Failure>) -> Future<O::Out> {
    let Some(level) = depth::enter() else { return later(op, result) };
    let future = call(op, result);
    depth::leave(level);
    future
}

/// Has the operation called when this thread is less deep.
#[cold]
#[inline(never)]
fn later<T: Send + 'static, O: ThenFuture<T>>(op: O, result: Result<T, Failure>) -> Future<O::Out> {
    if const { node::fits::<O>() } {
        deferred(op, result)
    } else {
        deferred(Boxed(Box::new(op)), result)
    }
}

fn deferred<T, O>(op: O, result: Result<T, Failure>) -> Future<O::Out>
where
    T: Send + 'static,
    O: ThenFuture<T>,
{
    let (slot, outcome) = ResultSlot::of(result);
    // The context at that time is another.
    let operation = FlatMapNode::allocate_deferred(op, local::capture());
    let root = Root::<T>::allocate(State::with_continuation(operation));
    let from = NodeRef::root(root);
    // SAFETY: just made.
    let place = unsafe { from.slot::<T>() };
    // SAFETY: as above.
    unsafe { place.write(slot) };
    walk::defer_walk(Next { node: operation, from, outcome });
    // SAFETY: a new node of such a future.
    unsafe { Future::pending(Ends::of(NodeRef::headed(operation))) }
}

/// As in `then`.
struct Boxed<O>(Box<O>);

impl<T, O: ThenFuture<T>> ThenFuture<T> for Boxed<O> {
    type Out = O::Out;

    fn call(self, result: Result<T, Failure>) -> Future<O::Out> {
        (*self.0).call(result)
    }

    fn killed(self) {
        (*self.0).killed();
    }
}

impl<T: Send + 'static> Pending<T> {
    #[inline]
    fn then_future<O: ThenFuture<T>>(self, op: O) -> Future<O::Out> {
        match local::capture().some() {
            None => self.then_future_in(op, ()),
            Some(context) => self.then_future_in(op, context),
        }
    }

    #[inline]
    fn then_future_in<O: ThenFuture<T>, C: Capture>(self, op: O, context: C) -> Future<O::Out> {
        let (pending, vacant) = match self.take() {
            // Saves the node.
            Ok(result) => return now(op, result),
            Err(both) => both,
        };
        let operation = FlatMapNode::<T, O, C>::allocate(op, context, pending.cell_of(vacant));
        match pending.attach(vacant, operation) {
            // SAFETY: a new node of such a future.
            Ok(()) => unsafe { Future::pending(Ends::of(NodeRef::headed(operation))) },
            // SAFETY: it is not attached, so it is this thread's alone.
            Err(now) => unsafe { FlatMapNode::<T, O, C>::refused(operation, now) },
        }
    }
}

impl<T: Send + 'static, O: ThenFuture<T>, C: Capture> FlatMapNode<T, O, C> {
    const VTABLE: &'static VTable = &VTable {
        has_slot: true,
        // SAFETY: of such a node (contract).
        free: |node| unsafe { Linked::free::<Self>(node) },
        class: None,
        linked: memory::class_of::<Self>(),
        step: Self::step,
        forsaken: Some(Self::forsaken),
        wake: node::never,
        visit: Some(Linked::visit),
        adapts: false,
        links: true,
        assist: None,
        kill: None,
    };

    /// Of one whose source lies upstream of nothing: while the closure runs the walk is at the node itself, which does (T6).
    const DEFERRED: &'static VTable = &VTable { step: Self::other_step, ..*Self::VTABLE };

    #[inline]
    fn allocate(op: O, context: C, upstream: Option<NodeRef>) -> NonNull<Head> {
        Self::allocate_in(Self::VTABLE, op, context, upstream)
    }

    fn allocate_deferred(op: O, context: C) -> NonNull<Head> {
        Self::allocate_in(Self::DEFERRED, op, context, None)
    }

    /// Field by field, as for `then`.
    #[inline]
    fn allocate_in(
        vtable: &'static VTable,
        op: O,
        context: C,
        upstream: Option<NodeRef>,
    ) -> NonNull<Head> {
        let before = offset_of!(Self, linked.head);
        node::check_slot::<O::Out>(offset_of!(Self, body) - before, before);
        let place = memory::reserve::<Self>();
        let head = Head { state: State::new(), vtable };
        // SAFETY: just reserved, here and below.
        unsafe { node::put(place, offset_of!(Self, linked.head), head) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, linked.upstream), Upstream::new(upstream)) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, body), op) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, context), context) };
        Linked::head(place)
    }

    /// Takes the closure and the context out.
    ///
    /// # Safety
    ///
    /// Once, by whoever owns the node.
    #[inline]
    unsafe fn dismantle(node: NonNull<Head>) -> (O, C) {
        // SAFETY: alive.
        unsafe { node.as_ref() }.state.touch_body();
        let start = Linked::start::<Self>(node);
        // SAFETY: contract.
        let op = unsafe { node::pick(start, offset_of!(Self, body)) };
        // SAFETY: contract.
        (op, unsafe { node::pick(start, offset_of!(Self, context)) })
    }

    /// The future of a node that could not be attached, as the result is there or never will be.
    ///
    /// # Safety
    ///
    /// Once, by whoever owns the node.
    #[cold]
    #[inline(never)]
    unsafe fn refused(node: NonNull<Head>, result: Option<Result<T, Failure>>) -> Future<O::Out> {
        // SAFETY: contract.
        let op = unsafe { Self::dismantle(node) }.0;
        // SAFETY: contract.
        unsafe { Linked::free::<Self>(node) };
        match result {
            Some(result) => now(op, result),
            None => Future::never(),
        }
    }

    unsafe fn step(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: of a living `flat_map` node.
        let upstream = unsafe { Linked::upstream(node) };
        // SAFETY: alive until it is completed.
        let next = unsafe { node.as_ref() }.state.continuation_for_good();
        let Some(next) = next.filter(|_| !upstream.is_linked()) else {
            // SAFETY: as this.
            return unsafe { Self::other_step(node, walk) };
        };
        // In the midst of a chain, as in `then`.
        // SAFETY: it is done, and its result is this node's to take (F1).
        let input = unsafe { walk.look::<T>() };
        // SAFETY: told once before it is linked.
        let (op, context) = unsafe { Self::dismantle(node) };
        let result = match context.run(|| call(op, input)).0 {
            Repr::Ready(value) => Ok(value),
            Repr::Failed(failure) => Err(failure),
            inner => {
                // SAFETY: as `look`.
                unsafe { walk.pass::<T>() };
                // SAFETY: as this; the closure is gone.
                return unsafe { Self::become_of(node, Future(inner), walk) };
            }
        };
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.pass_on::<T, O::Out>(NodeRef::headed(node), result) };
        Some(next)
    }

    /// The step of a node whose future somebody has, or had, or that has become another.
    #[inline(never)]
    unsafe fn other_step(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        let target = NodeRef::headed(node);
        // SAFETY: of a living `flat_map` node.
        let upstream = unsafe { Linked::upstream(node) };
        if upstream.is_linked() {
            // SAFETY: a `flat_map` node that was attached by `link`.
            let result = unsafe { linked_result::<O::Out>(upstream, walk) };
            // SAFETY: this is the producer, whose slot is empty.
            return unsafe { walk.conclude(target, result) };
        }
        // SAFETY: it is done, and its result is this node's to take (F1).
        let input = unsafe { walk.take::<T>(target) };
        // SAFETY: told once before it is linked.
        let (op, context) = unsafe { Self::dismantle(node) };
        // SAFETY: alive until it is completed.
        let inner = if unsafe { node.as_ref() }.state.is_killed() {
            // One by one: two panics at once would end the process.
            op.killed();
            discard(input);
            discard(context);
            Future::failed(Failure::killed())
        } else {
            context.run(|| call(op, input))
        };
        walk.is_nowhere();
        let result = match inner.0 {
            Repr::Ready(value) => Ok(value),
            Repr::Failed(failure) => Err(failure),
            // SAFETY: as this; the closure is gone.
            inner => return unsafe { Self::become_of(node, Future(inner), walk) },
        };
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.conclude(target, result) }
    }

    /// The node ends as `inner` does.
    ///
    /// # Safety
    ///
    /// By the producer, when the closure is gone.
    #[inline(never)]
    unsafe fn become_of(
        node: NonNull<Head>,
        inner: Future<O::Out>,
        walk: &Walk,
    ) -> Option<NonNull<Head>> {
        let target = NodeRef::headed(node);
        // SAFETY: of a living `flat_map` node.
        let upstream = unsafe { Linked::upstream(node) };
        let result = match inner.now() {
            Now::Done(result) => result,
            Now::Never => {
                // SAFETY: this is the producer, the closure is gone.
                unsafe { walk.forsake::<O::Out>(target) };
                return None;
            }
            Now::Pending(pending) => {
                // A signal that came early would go round for ever. Without one, those who wait for each other are out of
                // everybody's reach, unless there is a shared one among them: so a look that costs little will do.
                let cycle = match upstream.has_signal() || upstream.is_shared() {
                    // SAFETY: this is the producer.
                    true => unsafe { is_upstream(target, &pending) },
                    // SAFETY: as above.
                    false => unsafe { is_just_upstream(target, &pending) },
                };
                let linked = if cycle {
                    drop(pending);
                    Err(Some(Err(Failure::cycle())))
                } else {
                    let link = |to, cell| {
                        // SAFETY: by the consumer of `to`, as this is the producer.
                        unsafe { Linked::link(node, to, cell) }
                    };
                    // SAFETY: this is the producer.
                    unsafe { pending.become_of(target, link) }
                };
                match linked {
                    Ok(()) => return None,
                    Err(Some(result)) => result,
                    Err(None) => {
                        // SAFETY: this is the producer, the closure is gone.
                        unsafe { walk.forsake::<O::Out>(target) };
                        return None;
                    }
                }
            }
        };
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.conclude(target, result) }
    }

    unsafe fn forsaken(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: of a living `flat_map` node.
        let upstream = unsafe { Linked::upstream(node) };
        if upstream.is_linked() {
            // As in `linked_result`.
            upstream.pass();
            // SAFETY: told once, of a node whose slot is empty.
            unsafe { walk.pass::<O::Out>() };
        } else {
            // SAFETY: as above.
            unsafe { walk.pass::<T>() };
            // SAFETY: told once before it is linked.
            let (op, context) = unsafe { Self::dismantle(node) };
            discard(op);
            discard(context);
        }
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.leave::<O::Out>(NodeRef::headed(node)) }
    }
}
