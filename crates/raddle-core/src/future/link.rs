//! Nodes of promises that are linked to a future. What they become is in `linked`.

use std::ptr::NonNull;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now};
use crate::future::interrupt_node::InterruptNode;
use crate::future::linked::{Linked, is_upstream, linked_result};
use crate::future::node::{self, Head, NodeRef, Root, VTable};
use crate::future::state::{Refused, State};
use crate::future::upstream::{Locked, Upstream};
use crate::future::walk::{self, Walk};
use crate::memory;

/// What attaches a promise to the future that it is linked to.
#[repr(C)]
pub(crate) struct LinkNode<T> {
    linked: Linked,
    pub(crate) root: NonNull<Root<T>>,
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
        has_slot: false,
        // SAFETY: of such a node (contract).
        free: |node| unsafe { Linked::free::<Self>(node) },
        class: None,
        linked: None,
        step: Self::step,
        forsaken: Some(Self::forsaken),
        wake: node::never,
        visit: Some(Linked::visit),
        adapts: false,
        links: true,
        assist: None,
        kill: None,
    };

    unsafe fn step(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: of a living link node.
        unsafe { node.as_ref() }.state.touch();
        // SAFETY: of a living link node.
        let root = unsafe { Linked::start::<Self>(node).as_ref() }.root;
        // SAFETY: of a living link node.
        let upstream = unsafe { Linked::upstream(node) };
        // SAFETY: attached by `link`.
        let result = unsafe { linked_result::<T>(upstream, walk) };
        // It may be found upstream of the root until the walk is over.
        walk.push(Linked::start(node), |node| {
            // SAFETY: its work is done.
            unsafe { Linked::free::<Self>(Linked::head(node.cast::<Self>())) };
        });
        // SAFETY: this is the producer of the root, whose slot is empty.
        unsafe { walk.conclude(NodeRef::root(root), result) }
    }

    unsafe fn forsaken(node: NonNull<Head>, walk: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: of a living link node.
        let root = unsafe { Linked::start::<Self>(node).as_ref() }.root;
        // SAFETY: of a living link node.
        unsafe { Linked::upstream(node) }.pass();
        // SAFETY: told once, of a node whose slot is empty.
        unsafe { walk.pass::<T>() };
        // As in `step`.
        walk.push(Linked::start(node), |node| {
            // SAFETY: its work is done.
            unsafe { Linked::free::<Self>(Linked::head(node.cast::<Self>())) };
        });
        // SAFETY: this is the producer of the root, whose slot is empty.
        unsafe { walk.leave::<T>(NodeRef::root(root)) }
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
        Now::Done(result) => Some(result),
        Now::Never => None,
        // SAFETY: the producer keeps the root alive.
        Now::Pending(pending) if unsafe { is_upstream(target, &pending) } => {
            drop(pending);
            Some(Err(Failure::cycle()))
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
    match result {
        // SAFETY: contract.
        Some(result) => walk::start(unsafe { node::conclude(target, result) }),
        // SAFETY: contract.
        None => unsafe { walk::forsake::<T>(target) },
    }
}

/// Makes a link node that the root's interrupt node knows, and attaches it.
fn attach_linker<T: Send + 'static>(
    root: NonNull<Root<T>>,
    to: NodeRef,
    cell: Option<NodeRef>,
) -> Result<(), Refused> {
    let linking = Linked::head(memory::allocate(LinkNode {
        linked: Linked {
            head: Head { state: State::new(), vtable: LinkNode::<T>::VTABLE },
            upstream: Upstream::new(None),
        },
        root,
    }));
    // SAFETY: by the producer.
    if unsafe { NodeRef::root(root).state() }.is_attached() {
        // Whoever follows may be shared (V4). Those who come later say so.
        LinkNode::lock(linking).share();
    }
    // SAFETY: by the producer.
    let interrupt_node = unsafe { InterruptNode::of(NodeRef::root(root)) };
    // SAFETY: it stays until the root is completed.
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
        unsafe { Linked::free::<LinkNode<T>>(linking) };
    }
    // It may be over since, and the handler is the user's.
    walk::let_go(interrupts);
    linked
}
