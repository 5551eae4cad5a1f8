//! Interrupt nodes: where a promise hears of interrupts.
//!
//! A root has no room for a handler, so an interrupt node stands between the root's
//! state and its continuation. Promises with a handler have one from the start; others get one when they are
//! interrupted, or linked.
//!
//! # Invariants
//!
//! - **E1** `next` is written by whoever attaches to the root, or puts the interrupt node between, before the
//!   state says so; and read by who completes.
//! - **E2** A handler is called by one thread at a time, holding nothing, with the latest signal that
//!   it has not seen.

use std::any::Any;
use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::Weak;

use raddle_sync::cell::UnsafeCell;
use raddle_sync::sync::{Arc, Mutex};

use crate::future::Killed;
use crate::future::interrupt::Interrupt;
use crate::future::node::{self, Head, NodeRef, VTable};
use crate::future::state::State;
use crate::future::upstream::Inputs;
use crate::future::walk;
use crate::local::{self, Capture, Context};
use crate::memory;
use crate::panics::discard;

#[repr(C)]
pub(crate) struct InterruptNode {
    head: Head,
    next: UnsafeCell<Option<NonNull<Head>>>,
    pub(crate) interrupts: Arc<Interrupts>,
}

static VTABLE: VTable = VTable {
    has_slot: false,
    free: |_| unreachable!("interrupt nodes are freed by `InterruptNode::free`"),
    class: None,
    linked: None,
    // SAFETY: by `step`'s contract.
    step: |interrupt_node, _| unsafe { InterruptNode::next(interrupt_node) },
    forsaken: None,
    wake: node::never,
    visit: None,
    adapts: false,
    relink: None,
    assist: None,
    kill: None,
};

pub(crate) fn is_interrupt_node(node: NonNull<Head>) -> bool {
    // SAFETY: asked of what is attached to a living node, or a part of it, by who may look at it.
    std::ptr::eq(unsafe { node.as_ref() }.table(), &VTABLE)
}

/// What is behind a living interrupt node, for its consumer.
pub(crate) fn behind(interrupt_node: NonNull<Head>) -> Option<NonNull<Head>> {
    // SAFETY: asked by the consumer of the node that it belongs to, who wrote it (E1).
    unsafe { InterruptNode::next(interrupt_node) }
}

impl InterruptNode {
    pub(crate) fn allocate(interrupts: Arc<Interrupts>) -> NonNull<Head> {
        let head = Head { state: State::new(), vtable: &VTABLE };
        memory::allocate(InterruptNode { head, next: UnsafeCell::new(None), interrupts }).cast()
    }

    /// # Safety
    ///
    /// An interrupt node that nothing leads to any more (F4).
    pub(crate) unsafe fn free(interrupt_node: NonNull<Head>) {
        let interrupt_node = interrupt_node.cast::<InterruptNode>();
        // What it holds is the user's, and may panic as it goes.
        // SAFETY: contract.
        let interrupts = unsafe { InterruptNode::interrupts(interrupt_node.cast()) };
        // SAFETY: contract.
        unsafe { memory::free(interrupt_node) };
        walk::let_go(interrupts);
    }

    /// Who is behind it.
    ///
    /// # Safety
    ///
    /// A living interrupt node, E1.
    pub(crate) unsafe fn next(interrupt_node: NonNull<Head>) -> Option<NonNull<Head>> {
        // SAFETY: contract.
        unsafe { interrupt_node.as_ref() }.state.touch();
        // SAFETY: contract.
        let next = &unsafe { interrupt_node.cast::<InterruptNode>().as_ref() }.next;
        // SAFETY: E1.
        next.with(|next| unsafe { *next })
    }

    /// # Safety
    ///
    /// A living interrupt node, E1.
    pub(crate) unsafe fn set_next(interrupt_node: NonNull<Head>, behind: NonNull<Head>) {
        // SAFETY: contract.
        unsafe { interrupt_node.as_ref() }.state.touch();
        // SAFETY: contract.
        let next = &unsafe { interrupt_node.cast::<InterruptNode>().as_ref() }.next;
        // SAFETY: E1.
        next.with_mut(|next| unsafe { *next = Some(behind) });
    }

    /// What it hears.
    ///
    /// # Safety
    ///
    /// A living interrupt node.
    pub(crate) unsafe fn interrupts(interrupt_node: NonNull<Head>) -> Arc<Interrupts> {
        // SAFETY: contract.
        unsafe { interrupt_node.as_ref() }.state.touch();
        // SAFETY: contract.
        unsafe { interrupt_node.cast::<InterruptNode>().as_ref() }.interrupts.clone()
    }

    /// The interrupt node of a root that is not being visited itself, made if there is none.
    ///
    /// # Safety
    ///
    /// The root is alive and not done, and the caller its producer or a visitor from downstream.
    pub(crate) unsafe fn of(root: NodeRef) -> NonNull<Head> {
        // SAFETY: contract.
        let state = unsafe { root.state() };
        let mut made = None;
        let mut backoff = raddle_sync::spin::Backoff::new();
        let interrupt_node = loop {
            if let Some(interrupt_node) = state.interrupt_node() {
                break interrupt_node;
            }
            let interrupt_node =
                *made.get_or_insert_with(|| InterruptNode::allocate(Arc::default()));
            // SAFETY: E1: not in place yet.
            if state.put_interrupt_node(interrupt_node, |next| unsafe {
                InterruptNode::set_next(interrupt_node, next)
            }) {
                made = None;
                break interrupt_node;
            }
            backoff.spin();
        };
        if let Some(unused) = made {
            // SAFETY: nothing leads to it.
            unsafe { InterruptNode::free(unused) };
        }
        interrupt_node
    }
}

/// What has been heard, and who wants to hear it.
#[derive(Default)]
pub(crate) struct Interrupts(Mutex<Heard>);

#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) signal: Option<Interrupt>,
    /// The handler has not seen the signal yet.
    fresh: bool,
    running: bool,
    /// There is another handler than the one that is running.
    replaced: bool,
    handler: Option<Handler>,
    /// What the promise was linked to.
    pub(crate) forward: Option<NonNull<Head>>,
    /// Whose result the promise is made of.
    pub(crate) inputs: Option<Weak<dyn Inputs>>,
}

// SAFETY: `forward` is a node, whose parts that are used through it are behind a lock; all else is `Send`.
unsafe impl Send for Heard {}

/// Says what came of a kill.
pub(crate) type Hear = Box<dyn FnMut(Interrupt) -> Killed + Send>;

/// One that does not know of kills.
pub(crate) fn hear(mut handler: impl FnMut(Interrupt) + Send + 'static) -> Hear {
    Box::new(move |interrupt| {
        handler(interrupt);
        Killed::BeforeStart
    })
}

struct Handler {
    call: Hear,
    /// That of the code that made the promise.
    context: Context,
}

impl Heard {
    /// Whether there is a handler to be called now. One that is set later is called then.
    pub(crate) fn is_handled(&self) -> bool {
        self.handler.is_some() || self.running
    }

    /// Remembers the signal, unless there was a kill; gives back the one before. The same one may come on two ways, by an input of
    /// a combination and by what is made of it, and is heard once.
    pub(crate) fn hear(&mut self, signal: &Interrupt) -> Option<Interrupt> {
        if self.signal.as_ref().is_some_and(|heard| heard.is_kill() || heard.is(signal)) {
            return None;
        }
        self.fresh = true;
        self.signal.replace(signal.clone())
    }
}

impl fmt::Debug for Interrupts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Interrupts").finish_non_exhaustive()
    }
}

impl Interrupts {
    pub(crate) fn new(handler: Option<Hear>, inputs: Option<Weak<dyn Inputs>>) -> Arc<Interrupts> {
        let handler = handler.map(|call| Handler { call, context: local::capture() });
        Arc::new(Interrupts(Mutex::new(Heard { handler, inputs, ..Heard::default() })))
    }

    pub(crate) fn with_inputs(inputs: Weak<dyn Inputs>) -> Arc<Interrupts> {
        Self::new(None, Some(inputs))
    }

    pub(crate) fn look<R>(&self, f: impl FnOnce(&mut Heard) -> R) -> R {
        f(&mut self.0.lock())
    }

    /// Sets the handler, which has seen nothing yet; gives back the one before, unless it is being called.
    pub(crate) fn set(&self, call: Hear) -> Option<Box<dyn Any + Send>> {
        let handler = Handler { call, context: local::capture() };
        self.look(|heard| {
            heard.fresh = heard.signal.is_some();
            heard.replaced = heard.running;
            heard.handler.replace(handler).map(|handler| Box::new(handler) as _)
        })
    }

    /// Calls the handler if it has not seen the latest signal (E2). True: that was a kill, and found it running.
    pub(crate) fn run(&self) -> bool {
        let mut running = false;
        while let Some((mut handler, signal)) = self.look(|heard| {
            if heard.running || !heard.fresh {
                return None;
            }
            let handler = heard.handler.take()?;
            heard.fresh = false;
            heard.running = true;
            Some((handler, heard.signal.clone()?))
        }) {
            let call = AssertUnwindSafe(|| handler.context.run(|| (handler.call)(signal)));
            match panic::catch_unwind(call) {
                Ok(killed) => running |= killed == Killed::WhileRunning,
                Err(payload) => discard(payload),
            }
            let replaced = self.look(|heard| {
                heard.running = false;
                match std::mem::take(&mut heard.replaced) {
                    true => Some(handler),
                    false => {
                        heard.handler = Some(handler);
                        None
                    }
                }
            });
            discard(replaced);
        }
        running
    }
}
