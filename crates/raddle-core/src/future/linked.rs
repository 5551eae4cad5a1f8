//! Nodes that become another future: those of operations whose closure returns a future, `flat_map`
//! and its like, and those of promises that are linked.
//!
//! When the closure has returned a future that is not done, the node attaches itself to that one, and when
//! told moves the result over. If its own continuation is linked in this way already, it has that one attach
//! to the new future in its place and goes, and so does each behind it but the last that is linked: a recursion of `flat_map` in
//! tail position occupies two nodes, however long it is, whichever of its closures run first. This is Twitter's linking, done on
//! attaching.

use std::mem::{ManuallyDrop, offset_of};
use std::ptr::NonNull;

use crate::future::failure::Failure;
use crate::future::handle::Pending;
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{self, InterruptNode};
use crate::future::link::LinkNode;
use crate::future::node::{Head, NodeRef};
use crate::future::state::{Attach, Refused, Vacant};
use crate::future::then::attach;
use crate::future::upstream::{Locked, Purpose, Upstream, Visitor};
use crate::future::walk::Walk;
use crate::future::watch::leads_nowhere;
use crate::memory::{self, Class};

/// How many steps a look for a ring takes that is made wherever there might be one. A loop with so many operations behind it takes them
/// in each turn.
const FEW: usize = 8;

/// The part of a `flat_map` node that does not depend on its types, and the part of a link node: what comes first in the
/// allocation. What points to the node points to its head.
#[repr(C)]
pub(crate) struct Linked {
    pub(crate) upstream: Upstream,
    pub(crate) head: Head,
}

impl Linked {
    pub(crate) unsafe fn upstream<'a>(node: NonNull<Head>) -> &'a Upstream {
        // SAFETY: contract: of a living `flat_map` or link node.
        unsafe { &(*Linked::start::<Linked>(node).as_ptr()).upstream }
    }

    /// Where the allocation of a `flat_map` or link node begins, which is an `N`, from its head.
    #[inline]
    pub(crate) fn start<N>(node: NonNull<Head>) -> NonNull<N> {
        let start = node.as_ptr().wrapping_byte_sub(offset_of!(Linked, head));
        // SAFETY: no allocation begins at 0.
        unsafe { NonNull::new_unchecked(start) }.cast()
    }

    /// As `free`, of a node whose table says that it goes to this list.
    ///
    /// # Safety
    ///
    /// As there.
    #[inline]
    pub(crate) unsafe fn free_early(node: NonNull<Head>, class: Class) {
        // SAFETY: contract: alive.
        if unsafe { Linked::upstream(node) }.is_bare() {
            // SAFETY: contract; without a signal there is nothing to drop.
            unsafe { memory::free_of(Linked::start(node), class) };
        } else {
            // SAFETY: contract: alive.
            let free = unsafe { node.as_ref() }.table().free;
            // SAFETY: contract.
            unsafe { free(node) };
        }
    }

    /// Frees such a node, which is an `N`, when nobody is there any more who has found it.
    ///
    /// # Safety
    ///
    /// Nobody finds it from here on, and it is used no more.
    #[inline]
    pub(crate) unsafe fn free<N>(node: NonNull<Head>) {
        // By a shared reference: whoever is there may unlock it meanwhile.
        // SAFETY: contract: alive.
        let upstream = unsafe { Linked::upstream(node) };
        upstream.pass();
        // SAFETY: contract: the last use.
        unsafe { upstream.let_go() };
        // SAFETY: contract.
        unsafe { memory::free(Linked::start::<N>(node)) };
    }

    /// The head of such a node.
    #[inline]
    pub(crate) fn head<N>(start: NonNull<N>) -> NonNull<Head> {
        // SAFETY: within the node.
        unsafe { start.byte_add(offset_of!(Linked, head)) }.cast()
    }

    pub(crate) unsafe fn visit(node: NonNull<Head>, _: &mut Visitor) -> Option<Locked> {
        // SAFETY: contract.
        Some(unsafe { Self::lock(node) })
    }

    /// # Safety
    ///
    /// Of a `flat_map` or link node that lives until this is unlocked (V1, V2).
    pub(crate) unsafe fn lock(node: NonNull<Head>) -> Locked {
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
    /// By the consumer of `to`; the node is alive, and whoever completes it is the caller. After `Ok` the node is that of whoever
    /// completes `to`.
    pub(crate) unsafe fn link(
        node: NonNull<Head>,
        to: NodeRef,
        cell: Option<NodeRef>,
    ) -> Result<(), Refused> {
        // SAFETY: whoever is told by `to` passes the lock before it goes on (`pass`).
        let locked = unsafe { Self::lock(node) };
        let early = locked.signal();
        // SAFETY: contract.
        unsafe { Self::attach(locked, node, to, cell, cell.zip(early)) }
    }

    /// As `link`, of a node that is linked already, to what `over` becomes: the node that it has been
    /// linked to until now, or that the last of those `between` is. Each of these is linked to the one before. Whoever was on
    /// the way from the node to `over` has left there afterwards.
    ///
    /// # Safety
    ///
    /// As there; the caller is the producer of `over`, of which the first of them all is the continuation.
    unsafe fn relink(
        node: NonNull<Head>,
        to: NodeRef,
        cell: Option<NodeRef>,
        over: NodeRef,
        between: &[NonNull<Head>],
    ) -> Result<(), Refused> {
        // SAFETY: as in `link`.
        let locked = unsafe { Self::lock(node) };
        let is_masked = |locked: &Locked| locked.cell().is_none_or(NodeRef::is_masked);
        // Nobody else gets there any more: this is locked. Who is there goes on, when each is locked in its turn (V2).
        // What was masked stays so.
        let masked = between.iter().rev().fold(is_masked(&locked), |masked, &between| {
            // SAFETY: told by `over`, so alive.
            masked | is_masked(&unsafe { Self::lock(between) })
        });
        // What came this way has gone to `over` as well.
        // SAFETY: V2.
        let early = unsafe { Self::early(over) };
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
    ) -> Result<(), Refused> {
        // Before the future can tell it, so that it knows by whom.
        locked.set_linked();
        // SAFETY: contract: by the consumer of `to`, who keeps it, so that its word does not become another's.
        let vacant = Vacant::of(unsafe { to.state() });
        // SAFETY: as above.
        unsafe { attach(to, vacant, node, Attach::Continuation) }?;
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
                // SAFETY: it stays until the root is completed or freed.
                unsafe { InterruptNode::look(interrupt_node, |heard| heard.signal.clone()) }
            }
        }
    }
}

impl<T: Send + 'static> Pending<T> {
    /// Has `target` become this future: it is attached here, or what `target` is linked to is. Gives the result
    /// back if this is done, or none if it never will be; otherwise the target is used up.
    ///
    /// # Safety
    ///
    /// By the producer of `target`, which is a future of `T`. `link` attaches it.
    pub(crate) unsafe fn become_of(
        self,
        target: NodeRef,
        link: impl FnOnce(NodeRef, Option<NodeRef>) -> Result<(), Refused>,
    ) -> Result<(), Option<Result<T, Failure>>> {
        // SAFETY: the producer keeps it alive.
        let state = unsafe { target.state() };
        if state.is_dropped() {
            // Nobody will take the result. What was asked before its consumer went holds.
            // SAFETY: contract.
            if let Some(early) = unsafe { Linked::early(target) } {
                self.interrupt(&early);
            }
            drop(self);
            // SAFETY: the consumer has gone; the slot is empty.
            unsafe { target.free::<T>() };
            return Ok(());
        }
        // Before it is used up. (If it is done meanwhile, there is nothing to attach to.)
        let cell = self.cell();
        let this = ManuallyDrop::new(self);
        // The last of those that are linked already, each to the one before.
        let mut between = Vec::new();
        // SAFETY: this is the producer.
        let mut last = unsafe { linked_behind(target) };
        while let Some(next) = last {
            // SAFETY: attached nodes are alive until they are told.
            let outlet = unsafe { outlet(next) };
            // SAFETY: as above: the producer of all that is linked to it.
            let Some(further) = (unsafe { linked_behind(outlet) }) else { break };
            between.push(next);
            last = Some(further);
        }
        let linked = match last {
            Some(last) => {
                // SAFETY: this is the consumer here, and the producer that the nodes wait for.
                let linked = unsafe { Linked::relink(last, this.node(), cell, target, &between) };
                if linked.is_ok() {
                    for node in between.into_iter().rev() {
                        // SAFETY: as below.
                        unsafe { free_linked::<T>(node) };
                    }
                    // SAFETY: nothing leads to it any more, neither from below nor from upstream (V2).
                    unsafe { target.free::<T>() };
                }
                linked
            }
            None => link(this.node(), cell),
        };
        linked.map_err(|refused| ManuallyDrop::into_inner(this).refused(refused))
    }
}

/// The continuation of a node, if that is linked to it.
///
/// # Safety
///
/// By the node's producer.
unsafe fn linked_behind(node: NodeRef) -> Option<NonNull<Head>> {
    // SAFETY: the producer keeps it alive.
    let mut behind = unsafe { node.state() }.continuation()?;
    if interrupt_node::is_interrupt_node(behind) {
        // SAFETY: E1: attached, so there is one.
        behind = unsafe { InterruptNode::next(behind) }?;
    }
    // SAFETY: attached nodes are alive until they are told.
    let links = unsafe { behind.as_ref() }.table().links;
    // SAFETY: as above, and a `flat_map` or link node.
    (links && unsafe { Linked::upstream(behind) }.is_linked()).then_some(behind)
}

/// Where the result of a continuation goes: into its own slot, or a link node's root.
///
/// # Safety
///
/// It is alive.
unsafe fn outlet(node: NonNull<Head>) -> NodeRef {
    // SAFETY: contract.
    match unsafe { node.as_ref() }.table().has_slot {
        // SAFETY: a link node: all else that takes a result has a slot.
        false => NodeRef::root(unsafe { Linked::start::<LinkNode<()>>(node).as_ref() }.root),
        true => NodeRef::headed(node),
    }
}

/// Frees a linked node, and the root if that is another.
///
/// # Safety
///
/// Of a future of `T`; nothing leads there any more.
unsafe fn free_linked<T>(node: NonNull<Head>) {
    // SAFETY: contract: alive.
    let outlet = unsafe { outlet(node) };
    if outlet.is_root() {
        // SAFETY: contract.
        unsafe { NodeRef::headed(node).free::<T>() };
    }
    // SAFETY: contract.
    unsafe { outlet.free::<T>() };
}

/// A linked node is told: the result, which is to be moved on.
///
/// # Safety
///
/// By a `flat_map` or link node, told that `from` is done.
pub(crate) unsafe fn linked_result<T>(upstream: &Upstream, walk: &Walk) -> Result<T, Failure> {
    // Whoever linked it may still be at it.
    upstream.pass();
    // SAFETY: it is done, and its result is this node's to take (F1).
    unsafe { walk.take::<T>(NodeRef::NOBODY) }
}

/// Whether a root or `flat_map` node is upstream of a future, or its own.
///
/// # Safety
///
/// By its producer.
pub(crate) unsafe fn is_upstream<T>(wanted: NodeRef, pending: &Pending<T>) -> bool {
    if pending.node() == wanted {
        return true;
    }
    // What is made of a promise's future is attached to it. So links that are made before what leads to them,
    // which cannot be compressed, are not followed to their end by each new one.
    // SAFETY: by its producer.
    if !unsafe { wanted.state() }.is_attached() {
        return false;
    }
    // From both ends, and no further than to the nearer one; where what is downstream may go any time, upstream to the end.
    let mut steps = 16;
    loop {
        // SAFETY: by its producer.
        match unsafe { follow(wanted, pending.node(), steps) } {
            Followed::End { met } => return met,
            // So links behind shared futures that have no consumers yet are not followed to the first of them.
            // SAFETY: by its producer, or that of what it leads to (F2).
            Followed::Unknown(at) if unsafe { leads_nowhere(at) } => return false,
            Followed::Unknown(_) => steps = usize::MAX,
            Followed::Further => {}
        }
        let mut visitor = Visitor::new(Purpose::Find(wanted, steps));
        // SAFETY: by its consumer.
        unsafe { visitor.enter(pending.ends()) };
        let found = visitor.finish();
        if found.node || !found.cut {
            return found.node;
        }
        steps = steps.saturating_mul(4);
    }
}

/// Whether a root or `flat_map` node is a few steps upstream of a future, or its own, and no join nor race between: a look that
/// costs no read-modify-write.
///
/// # Safety
///
/// By its producer.
pub(crate) unsafe fn is_just_upstream<T>(wanted: NodeRef, pending: &Pending<T>) -> bool {
    // SAFETY: contract.
    matches!(unsafe { follow(wanted, pending.node(), FEW) }, Followed::End { met: true })
}

/// What is downstream of a node.
enum Followed {
    /// A future that somebody has; whether it is the one in question, or that was on the way.
    End { met: bool },
    /// To this one somebody is attached who may go any time.
    Unknown(NodeRef),
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
                true => Followed::Unknown(at),
                false => Followed::End { met: false },
            };
        };
        if interrupt_node::is_interrupt_node(next) {
            // SAFETY: E1: attached, so there is one.
            let Some(behind) = (unsafe { InterruptNode::next(next) }) else {
                return Followed::Unknown(at);
            };
            next = behind;
        }
        // SAFETY: as above.
        at = unsafe { outlet(next) };
    }
    Followed::Further
}
