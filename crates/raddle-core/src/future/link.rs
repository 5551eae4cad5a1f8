//! Nodes that become another future: those of operations whose closure returns a future, `flat_map`
//! and its like, and those of promises that are linked.
//!
//! When the closure has returned a future that is not done, the node attaches itself to that one, and when
//! told moves the result over. If its own continuation is linked in this way already, it has that one attach
//! to the new future in its place and goes: a recursion of `flat_map` in tail position occupies two nodes,
//! however long it is. This is Twitter's linking, done on attaching.

use std::mem::{ManuallyDrop, offset_of};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now, Pending, Repr};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{self, InterruptNode};
use crate::future::node::{self, Body, Head, NodeRef, Root, Slot, VTable};
use crate::future::state::{Attach, Outcome, State};
use crate::future::then::attach;
use crate::future::upstream::{Locked, Purpose, Upstream, Visitor};
use crate::future::walk::{self, Next, Walk};
use crate::local::{self, Capture};
use crate::memory;
use crate::panics::discard;

/// An operation: from how one future ended to the next one.
pub(crate) trait ThenFuture<T>: Send + 'static {
    type Out: Send + 'static;

    /// May panic: that makes the next one fail.
    fn call(self, result: Result<T, Failure>) -> Future<Self::Out>;
}

/// Calls the operation; a panic is a failure.
#[inline]
fn call<T, O: ThenFuture<T>>(op: O, result: Result<T, Failure>) -> Future<O::Out> {
    panic::catch_unwind(AssertUnwindSafe(|| op.call(result)))
        .unwrap_or_else(|payload| Future::failed(Failure::panicked(payload)))
}

/// The node of such an operation; `head` and `upstream` come first, whatever the types.
#[repr(C)]
struct FlatMapNode<T, O: ThenFuture<T>, C> {
    head: Head,
    upstream: Upstream,
    body: Body<O, O::Out>,
    context: ManuallyDrop<C>,
}

/// The part of a `flat_map` node that does not depend on its types, and the part of a link node.
#[repr(C)]
struct Linked {
    head: Head,
    upstream: Upstream,
}

impl Linked {
    unsafe fn upstream<'a>(node: NonNull<Head>) -> &'a Upstream {
        // SAFETY: contract: of a living `flat_map` or link node.
        unsafe { &(*node.cast::<Linked>().as_ptr()).upstream }
    }

    unsafe fn visit(node: NonNull<Head>, _: &mut Visitor) -> Option<Locked> {
        // SAFETY: contract.
        Some(unsafe { Self::lock(node) })
    }

    /// # Safety
    ///
    /// Of a `flat_map` or link node that lives until this is unlocked (V1, V2).
    unsafe fn lock(node: NonNull<Head>) -> Locked {
        // SAFETY: contract.
        let upstream = NonNull::from(unsafe { Self::upstream(node) });
        // SAFETY: contract.
        unsafe { Locked::new(upstream) }
    }

    /// Attaches the `flat_map` or link node `node`, in the place of the consumer, to the future of `to`, whose cell is
    /// `cell`; a signal that came early goes on there.
    ///
    /// # Safety
    ///
    /// By the consumer of `to`; the node is alive, and who completes it is the caller. After `Ok` the node is that of who
    /// completes `to`.
    unsafe fn link(node: NonNull<Head>, to: NodeRef, cell: Option<NodeRef>) -> Result<(), Outcome> {
        // SAFETY: who is told by `to` passes the lock before it goes on (`pass`).
        let locked = unsafe { Self::lock(node) };
        let early = locked.signal();
        // SAFETY: contract.
        unsafe { Self::attach(locked, node, to, cell, cell.zip(early)) }
    }

    /// As `link`, of a node that is linked already, to what `over` becomes: the node that it has been
    /// linked to until now.
    ///
    /// # Safety
    ///
    /// As there; the caller is the producer of `over`, which the node is the continuation of.
    unsafe fn relink(
        node: NonNull<Head>,
        to: NodeRef,
        cell: Option<NodeRef>,
        over: NodeRef,
    ) -> Result<(), Outcome> {
        // SAFETY: as in `link`.
        let locked = unsafe { Self::lock(node) };
        // What came this way has gone there as well. Nobody else gets there any more: this is locked.
        // SAFETY: V2.
        let early = unsafe { Self::early(over) };
        // What was masked stays so.
        let masked = locked.cell().is_none_or(NodeRef::is_masked);
        let seen = if masked { cell.map(NodeRef::masked) } else { cell };
        // SAFETY: contract.
        unsafe { Self::attach(locked, node, to, seen, cell.zip(early)) }
    }

    /// # Safety
    ///
    /// As `link`.
    unsafe fn attach(
        mut locked: Locked,
        node: NonNull<Head>,
        to: NodeRef,
        cell: Option<NodeRef>,
        early: Option<(NodeRef, Interrupt)>,
    ) -> Result<(), Outcome> {
        // Before the future can tell it, so that it knows by whom.
        locked.set_linked();
        // SAFETY: contract.
        unsafe { attach(to, node, Attach::Continuation) }?;
        locked.link(cell);
        let share = cell.filter(|_| locked.is_shared()).map(|cell| {
            let mut visitor = Visitor::new(Purpose::Share);
            // SAFETY: V1: while this lock is held, what has been attached is not completed beyond it.
            unsafe { visitor.go(cell, None) };
            visitor
        });
        let early = early.map(|(cell, signal)| {
            let mut visitor = Visitor::new(Purpose::Interrupt(signal.clone()));
            // SAFETY: V1: as above.
            unsafe { visitor.go(cell, None) };
            (visitor, signal)
        });
        drop(locked);
        share.map(Visitor::finish);
        if let Some((visitor, signal)) = early {
            visitor.finish().interrupt(&signal);
        }
        Ok(())
    }

    /// The signal that a root or `flat_map` node has been sent and has nobody to pass it on to yet.
    ///
    /// # Safety
    ///
    /// By its producer.
    unsafe fn early(node: NodeRef) -> Option<Interrupt> {
        match node.head() {
            // SAFETY: contract: a `flat_map` node, and alive.
            Some(head) => unsafe { Self::lock(head) }.signal(),
            None => {
                // SAFETY: contract.
                let interrupt_node = unsafe { node.state() }.interrupt_node()?;
                // SAFETY: they stay until the root is completed or freed.
                unsafe { InterruptNode::interrupts(interrupt_node) }
                    .look(|heard| heard.signal.clone())
            }
        }
    }
}

impl<T: Send + 'static> Future<T> {
    /// The future that the operation makes of this one.
    #[inline]
    pub(crate) fn then_future<O: ThenFuture<T>>(self, op: O) -> Future<O::Out> {
        // As in `then`.
        if let Repr::Pending(pending) = self.0 {
            return match local::capture().some() {
                None => pending.then_future(op, ()),
                Some(context) => pending.then_future(op, context),
            };
        }
        match self.now() {
            Now::Done(result) => now(op, result),
            Now::Pending(_) | Now::Never => Future(Repr::Never),
        }
    }
}

/// Calls the operation, now or soon.
#[inline]
fn now<T: Send + 'static, O: ThenFuture<T>>(op: O, result: Result<T, Failure>) -> Future<O::Out> {
    if !walk::enter() {
        return later(op, result);
    }
    let future = call(op, result);
    walk::leave();
    future
}

/// Has the operation called when this thread is less deep.
#[cold]
fn later<T: Send + 'static, O: ThenFuture<T>>(op: O, result: Result<T, Failure>) -> Future<O::Out> {
    let (slot, outcome) = Slot::of(result);
    // The context at that time is another.
    let operation = FlatMapNode::allocate(op, local::capture(), None);
    let root = Root::<T>::allocate(State::with_continuation(operation));
    let from = NodeRef::root(root);
    // SAFETY: just made.
    let place = unsafe { from.slot::<T>() };
    // SAFETY: as above.
    unsafe { place.write(slot) };
    walk::defer_walk(Next { node: operation, from, outcome });
    let node = NodeRef::headed(operation);
    // SAFETY: a new node of such a future.
    unsafe { Future::pending(node, Some(node)) }
}

impl<T: Send + 'static> Pending<T> {
    #[inline]
    fn then_future<O: ThenFuture<T>, C: Capture>(self, op: O, context: C) -> Future<O::Out> {
        let pending = match self.take() {
            // Saves the node.
            Ok(result) => return now(op, result),
            Err(pending) => pending,
        };
        let operation = FlatMapNode::<T, O, C>::allocate(op, context, pending.cell());
        match pending.attach(operation) {
            Ok(()) => {
                let node = NodeRef::headed(operation);
                // SAFETY: a new node of such a future.
                unsafe { Future::pending(node, Some(node)) }
            }
            Err(result) => {
                // SAFETY: it is not attached, so it is this thread's alone.
                let op = unsafe { FlatMapNode::<T, O, C>::dismantle(operation) }.0;
                // SAFETY: as above.
                unsafe { memory::free(operation.cast::<FlatMapNode<T, O, C>>()) };
                Future::from(result).then_future(op)
            }
        }
    }

    /// Has `target` become this future: it is attached here, or what `target` is linked to is. Gives the result
    /// back if this is done; otherwise the target is used up.
    ///
    /// # Safety
    ///
    /// By the producer of `target`, which is a future of `T`. `link` attaches it.
    unsafe fn become_of(
        self,
        target: NodeRef,
        link: impl FnOnce(NodeRef, Option<NodeRef>) -> Result<(), Outcome>,
    ) -> Result<(), Result<T, Failure>> {
        // SAFETY: the producer keeps it alive.
        let state = unsafe { target.state() };
        if state.is_dropped() {
            // Nobody will take the result.
            drop(self);
            // SAFETY: the consumer has gone; the slot is empty.
            unsafe { target.free::<T>() };
            return Ok(());
        }
        let this = ManuallyDrop::new(self);
        let mut behind = state.continuation();
        if let Some(interrupt_node) = behind.filter(|&node| interrupt_node::is_interrupt_node(node))
        {
            // SAFETY: E1: attached, so there is one.
            behind = unsafe { InterruptNode::next(interrupt_node) };
        }
        let over = behind.and_then(|next| {
            // SAFETY: attached nodes are alive until they are told.
            let relink = unsafe { next.as_ref() }.table().relink?;
            // SAFETY: as above, and a `flat_map` or link node.
            unsafe { Linked::upstream(next) }.is_linked().then_some((next, relink))
        });
        let linked = match over {
            Some((next, relink)) => {
                // SAFETY: this is the consumer here, and the producer that the node waits for.
                let linked = unsafe { relink(next, this.node(), this.cell(), target) };
                if linked.is_ok() {
                    // SAFETY: nothing leads to it any more, neither from below nor from upstream (V2).
                    unsafe { target.free::<T>() };
                }
                linked
            }
            None => link(this.node(), this.cell()),
        };
        linked.map_err(|outcome| ManuallyDrop::into_inner(this).take_done(outcome))
    }
}

impl<T: Send + 'static, O: ThenFuture<T>, C: Capture> FlatMapNode<T, O, C> {
    const VTABLE: &'static VTable = &VTable {
        slot: offset_of!(Self, body),
        // SAFETY: of such a node (contract).
        free: |node| unsafe { memory::free(node.cast::<Self>()) },
        step: Self::step,
        wake: node::never,
        visit: Some(Linked::visit),
        adapts: false,
        relink: Some(Linked::relink),
        assist: None,
        kill: None,
    };

    /// Field by field, as for `then`.
    #[inline]
    fn allocate(op: O, context: C, upstream: Option<NodeRef>) -> NonNull<Head> {
        let place = memory::reserve::<Self>();
        let head = Head { state: State::new(), vtable: Self::VTABLE };
        // SAFETY: just reserved, here and below.
        unsafe { node::put(place, offset_of!(Self, head), head) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, upstream), Upstream::new(upstream)) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, body), op) };
        // SAFETY: as above.
        unsafe { node::put(place, offset_of!(Self, context), context) };
        place.cast()
    }

    /// Takes the closure and the context out.
    ///
    /// # Safety
    ///
    /// Once, by who owns the node.
    #[inline]
    unsafe fn dismantle(node: NonNull<Head>) -> (O, C) {
        // SAFETY: alive.
        unsafe { node.as_ref() }.state.touch_body();
        // SAFETY: contract.
        let op = unsafe { node::pick(node, offset_of!(Self, body)) };
        // SAFETY: contract.
        (op, unsafe { node::pick(node, offset_of!(Self, context)) })
    }

    unsafe fn step(node: NonNull<Head>, walk: &mut Walk) -> Option<NonNull<Head>> {
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
        let input = unsafe { walk.take::<T>() };
        // SAFETY: told once before it is linked.
        let (op, context) = unsafe { Self::dismantle(node) };
        // SAFETY: alive until it is completed.
        let inner = if unsafe { node.as_ref() }.state.is_killed() {
            // One by one: two panics at once would end the process.
            discard(op);
            discard(input);
            discard(context);
            Future::failed(Failure::killed())
        } else {
            context.run(|| call(op, input))
        };
        let result = match inner.now() {
            Now::Done(result) => result,
            Now::Never => {
                // Nobody will complete it, so it stays; what was upstream goes.
                // SAFETY: a living `flat_map` node.
                unsafe { Linked::lock(node) }.link(None);
                return None;
            }
            Now::Pending(pending) => {
                // A signal that came early would go round for ever. (Without one, those who wait for each
                // other are out of everybody's reach, unless there is a shared one among them.)
                let asks = upstream.has_signal() || upstream.is_shared();
                // SAFETY: this is the producer.
                let cycle = asks && unsafe { is_upstream(target, &pending) };
                let linked = if cycle {
                    drop(pending);
                    Err(Err(Failure::cycle()))
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
                    Err(result) => result,
                }
            }
        };
        // SAFETY: this is the producer, the closure is gone.
        unsafe { walk.conclude(target, result) }
    }
}

/// A linked node is told: the result, which is to be moved on.
///
/// # Safety
///
/// By a `flat_map` or link node, told that `from` is done.
unsafe fn linked_result<T>(upstream: &Upstream, walk: &mut Walk) -> Result<T, Failure> {
    // Who linked it may still be at it.
    upstream.pass();
    // SAFETY: it is done, and its result is this node's to take (F1).
    unsafe { walk.take::<T>() }
}

/// What attaches a promise to the future that it is linked to.
#[repr(C)]
pub(crate) struct LinkNode<T> {
    linked: Linked,
    root: NonNull<Root<T>>,
}

impl LinkNode<()> {
    /// Locks a link node of any type that was found in the interrupt node of its root, which is locked.
    pub(crate) fn lock(linking: NonNull<Head>) -> Locked {
        // SAFETY: it is taken out of the interrupt node before it is freed, and its lock is passed then.
        unsafe { Linked::lock(linking) }
    }
}

impl<T: Send + 'static> LinkNode<T> {
    const VTABLE: &'static VTable = &VTable {
        slot: 0,
        // SAFETY: of such a node (contract).
        free: |node| unsafe { memory::free(node.cast::<Self>()) },
        step: Self::step,
        wake: node::never,
        visit: Some(Linked::visit),
        adapts: false,
        relink: Some(Linked::relink),
        assist: None,
        kill: None,
    };

    unsafe fn step(node: NonNull<Head>, walk: &mut Walk) -> Option<NonNull<Head>> {
        // SAFETY: of a living link node.
        unsafe { node.as_ref() }.state.touch();
        // SAFETY: of a living link node.
        let root = unsafe { node.cast::<Self>().as_ref() }.root;
        // SAFETY: of a living link node.
        let upstream = unsafe { Linked::upstream(node) };
        // SAFETY: attached by `link`.
        let result = unsafe { linked_result::<T>(upstream, walk) };
        // It may be found upstream of the root until the walk is over.
        walk.push(node.cast(), |node| {
            // SAFETY: its work is done.
            unsafe { memory::free(node.cast::<Self>()) };
        });
        // SAFETY: this is the producer of the root, whose slot is empty.
        unsafe { walk.conclude(NodeRef::root(root), result) }
    }
}

/// Has the promise of `root` become this future.
///
/// # Safety
///
/// By the producer of the root, which is used up.
pub(crate) unsafe fn link<T: Send + 'static>(root: NonNull<Root<T>>, future: Future<T>) {
    let target = NodeRef::root(root);
    let result = match future.now() {
        Now::Done(result) => result,
        // Nobody will complete it.
        Now::Never => return,
        // SAFETY: the producer keeps the root alive.
        Now::Pending(pending) if unsafe { is_upstream(target, &pending) } => {
            drop(pending);
            Err(Failure::cycle())
        }
        Now::Pending(pending) => {
            // SAFETY: contract.
            let linked =
                unsafe { pending.become_of(target, |to, cell| attach_linker(root, to, cell)) };
            match linked {
                Ok(()) => return,
                Err(result) => result,
            }
        }
    };
    // SAFETY: contract.
    walk::start(unsafe { node::conclude(target, result) });
}

/// Makes a link node that the root's interrupt node knows, and attaches it.
fn attach_linker<T: Send + 'static>(
    root: NonNull<Root<T>>,
    to: NodeRef,
    cell: Option<NodeRef>,
) -> Result<(), Outcome> {
    let linking: NonNull<Head> = memory::allocate(LinkNode {
        linked: Linked {
            head: Head { state: State::new(), vtable: LinkNode::<T>::VTABLE },
            upstream: Upstream::new(None),
        },
        root,
    })
    .cast();
    // SAFETY: by the producer.
    if unsafe { NodeRef::root(root).state() }.is_attached() {
        // Whoever follows may be shared (V4). Those who come later say so.
        LinkNode::lock(linking).share();
    }
    // SAFETY: by the producer.
    let interrupt_node = unsafe { InterruptNode::of(NodeRef::root(root)) };
    // SAFETY: they stay until the root is completed.
    let interrupts = unsafe { InterruptNode::interrupts(interrupt_node) };
    interrupts.look(|heard| {
        heard.forward = Some(linking);
        if let Some(signal) = &heard.signal {
            let none = LinkNode::lock(linking).remember(signal.clone());
            debug_assert!(none.is_none(), "nobody else knows it yet");
        }
    });
    // SAFETY: by the consumer of `to`.
    let linked = unsafe { Linked::link(linking, to, cell) };
    if linked.is_err() {
        interrupts.look(|heard| heard.forward = None);
        // SAFETY: visitors that found it in the interrupt node have its lock, which the free passes.
        unsafe { memory::free(linking.cast::<LinkNode<T>>()) };
    }
    linked
}

/// Whether a root or `flat_map` node is upstream of a future, or its own.
///
/// # Safety
///
/// By its producer.
unsafe fn is_upstream<T>(wanted: NodeRef, pending: &Pending<T>) -> bool {
    if pending.node() == wanted {
        return true;
    }
    // What is made of a promise's future is attached to it. So links that are made before what leads to them,
    // which cannot be compressed, are not followed to their end by each new one.
    // SAFETY: by its producer.
    if !unsafe { wanted.state() }.is_attached() {
        return false;
    }
    // From both ends, and no further than to the nearer one.
    let mut steps = 16;
    loop {
        // SAFETY: by its producer.
        match unsafe { follow(wanted, pending.node(), steps) } {
            Followed::End { met } => return met,
            Followed::Unknown => steps = usize::MAX,
            Followed::Further => {}
        }
        let mut visitor = Visitor::new(Purpose::Find(wanted, steps));
        // SAFETY: by its consumer.
        unsafe { visitor.enter(pending.node(), pending.cell()) };
        let found = visitor.finish();
        if found.node || !found.cut {
            return found.node;
        }
        steps = steps.saturating_mul(4);
    }
}

/// What is downstream of a node.
enum Followed {
    /// A future that somebody has; whether it is the one in question, or that was on the way.
    End { met: bool },
    /// Somebody is attached who may go any time.
    Unknown,
    /// More than so many steps.
    Further,
}

/// Goes downstream from a root or `flat_map` node, as far as there is one way.
///
/// # Safety
///
/// By its producer.
unsafe fn follow(from: NodeRef, to: NodeRef, steps: usize) -> Followed {
    let mut at = from;
    for _ in 0..steps {
        if at == to {
            return Followed::End { met: true };
        }
        // SAFETY: nobody but the producer of the first can complete it, or what is attached behind it (F2).
        let state = unsafe { at.state() };
        let Some(mut next) = state.continuation() else {
            return match state.is_attached() {
                true => Followed::Unknown,
                false => Followed::End { met: false },
            };
        };
        if interrupt_node::is_interrupt_node(next) {
            // SAFETY: E1: attached, so there is one.
            let Some(behind) = (unsafe { InterruptNode::next(next) }) else {
                return Followed::Unknown;
            };
            next = behind;
        }
        // SAFETY: as above.
        at = match unsafe { next.as_ref() }.table().slot {
            // SAFETY: a link node: all else that takes a result has a slot.
            0 => NodeRef::root(unsafe { next.cast::<LinkNode<()>>().as_ref() }.root),
            _ => NodeRef::headed(next),
        };
    }
    Followed::Further
}
