//! Interrupt nodes: where a promise hears of interrupts.
//!
//! A root has no room for a handler, so an interrupt node stands between the root's
//! state and its continuation. Promises with a handler have one from the start; others get one when they are
//! interrupted, or linked. It is one allocation with what it has heard: an interrupt of a large graph takes about as long as
//! it takes to fetch what lies on its way.
//!
//! # Invariants
//!
//! - **E1** `next` is written by whoever attaches to the root, or puts the interrupt node between, before the
//!   state says so; and read by whoever completes.
//! - **E2** A handler is called by one thread at a time, holding nothing, with the latest signal that
//!   it has not seen.
//! - **E3** The last who holds an interrupt node frees it. The state that leads to it counts as one, until F4 has it freed; the
//!   others are [`Interrupts`], who use nothing but what is behind the lock, and the word that says E4.
//! - **E4** Its own word says when the promise has been completed and a continuation has the value. Who knows of that, whichever way,
//!   finds it so: then no handler is called.

use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::sync::{Arc, Weak};

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::sync::Mutex;

use crate::future::Killed;
use crate::future::interrupt::Interrupt;
use crate::future::node::{self, Head, NodeRef, VTable};
use crate::future::promise::Helper;
use crate::future::state::State;
use crate::future::upstream::{Combination, Inputs};
use crate::future::walk::{self, Walk};
use crate::local::{self, Capture, Context};
use crate::memory;
use crate::panics::discard;

#[repr(C)]
pub(crate) struct InterruptNode {
    head: Head,
    next: UnsafeCell<Option<NonNull<Head>>>,
    /// How many hold it (E3).
    holders: AtomicUsize,
    heard: Mutex<Heard>,
}

static VTABLE: VTable = VTable {
    has_slot: false,
    free: |_| unreachable!("interrupt nodes are freed by `InterruptNode::free`"),
    class: None,
    linked: None,
    step: InterruptNode::step,
    forsaken: None,
    wake: node::never,
    visit: None,
    adapts: false,
    links: false,
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
    fn allocate(heard: Heard) -> NonNull<InterruptNode> {
        memory::allocate(InterruptNode {
            head: Head { state: State::new(), vtable: &VTABLE },
            next: UnsafeCell::new(None),
            holders: AtomicUsize::new(1),
            heard: Mutex::new(heard),
        })
    }

    /// One that has heard nothing, for a state.
    pub(crate) fn empty() -> NonNull<Head> {
        Self::allocate(Heard::default()).cast()
    }

    /// # Safety
    ///
    /// An interrupt node that nothing leads to any more (F4).
    pub(crate) unsafe fn free(interrupt_node: NonNull<Head>) {
        // What it holds is the user's, and may panic as it goes.
        walk::let_go(Interrupts(interrupt_node.cast()));
    }

    /// The promise has been completed, and who is behind has its value: no handler is called any more (E4).
    unsafe fn step(interrupt_node: NonNull<Head>, _: &Walk) -> Option<NonNull<Head>> {
        // SAFETY: by `step`'s contract.
        unsafe { interrupt_node.as_ref() }.state.set_over();
        // SAFETY: as above.
        unsafe { Self::next(interrupt_node) }
    }

    /// Whether the promise has been completed, as far as is known here.
    ///
    /// # Safety
    ///
    /// A living interrupt node.
    pub(crate) unsafe fn is_over(interrupt_node: NonNull<Head>) -> bool {
        // SAFETY: contract.
        unsafe { interrupt_node.as_ref() }.state.is_over()
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

    /// What it hears, to be kept.
    ///
    /// # Safety
    ///
    /// A living interrupt node.
    pub(crate) unsafe fn interrupts(interrupt_node: NonNull<Head>) -> Interrupts {
        // SAFETY: contract.
        unsafe { interrupt_node.as_ref() }.state.touch();
        // SAFETY: contract.
        let node = unsafe { interrupt_node.cast::<InterruptNode>().as_ref() };
        // ORD: it is held already, by the state.
        node.holders.fetch_add(1, Ordering::Relaxed);
        Interrupts(interrupt_node.cast())
    }

    /// A look at what it has heard.
    ///
    /// # Safety
    ///
    /// An interrupt node that lives until this returns.
    pub(crate) unsafe fn look<R>(
        interrupt_node: NonNull<Head>,
        f: impl FnOnce(&mut Heard) -> R,
    ) -> R {
        // SAFETY: contract.
        unsafe { interrupt_node.as_ref() }.state.touch();
        // SAFETY: contract.
        f(&mut unsafe { interrupt_node.cast::<InterruptNode>().as_ref() }.heard.lock())
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
            let interrupt_node = *made.get_or_insert_with(InterruptNode::empty);
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

/// Somebody's hold on an interrupt node (E3), which may outlast the root.
pub(crate) struct Interrupts(NonNull<InterruptNode>);

// SAFETY: E3: what is behind a lock, and `Send`.
unsafe impl Send for Interrupts {}

/// What has been heard, and who wants to hear it.
#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) signal: Option<Interrupt>,
    /// The handler has not seen the signal yet.
    fresh: bool,
    running: bool,
    /// There is another handler than the one that is running.
    replaced: bool,
    /// Few have one, and so it takes no more than a word of the others.
    handler: Option<Box<Handler>>,
    /// What the promise was linked to.
    pub(crate) forward: Option<NonNull<Head>>,
    /// Whose result the promise is made of, and by which key that knows it.
    inputs: Option<(Weak<dyn Inputs>, usize)>,
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
    helper: Option<Arc<dyn Helper>>,
    /// That of the code that made the promise.
    context: Context,
}

impl Handler {
    fn new(call: Hear, helper: Option<Arc<dyn Helper>>) -> Box<Handler> {
        Box::new(Handler { call, helper, context: local::capture() })
    }
}

impl Heard {
    /// Whether there is a handler to be called now. One that is set later is called then.
    pub(crate) fn is_handled(&self) -> bool {
        self.handler.is_some() || self.running
    }

    /// Who can help whoever waits.
    pub(crate) fn helper(&self) -> Option<Arc<dyn Helper>> {
        self.handler.as_ref()?.helper.clone()
    }

    /// Whose result the promise is made of, if that is still there.
    pub(crate) fn combination(&self) -> Option<Combination> {
        let (inputs, key) = self.inputs.as_ref()?;
        Some((inputs.upgrade()?, *key))
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
    pub(crate) fn new(handler: Option<Hear>, inputs: Option<Weak<dyn Inputs>>) -> Interrupts {
        let handler = handler.map(|call| Handler::new(call, None));
        let inputs = inputs.map(|inputs| (inputs, 0));
        Interrupts(InterruptNode::allocate(Heard { handler, inputs, ..Heard::default() }))
    }

    pub(crate) fn helped(call: Hear, helper: Arc<dyn Helper>) -> Interrupts {
        let handler = Some(Handler::new(call, Some(helper)));
        Interrupts(InterruptNode::allocate(Heard { handler, ..Heard::default() }))
    }

    pub(crate) fn with_inputs(inputs: Weak<dyn Inputs>) -> Interrupts {
        Self::with_inputs_by(inputs, 0)
    }

    /// Of a combination that has several futures, and knows this one's by a key.
    pub(crate) fn with_inputs_by(inputs: Weak<dyn Inputs>, key: usize) -> Interrupts {
        let inputs = Some((inputs, key));
        Interrupts(InterruptNode::allocate(Heard { inputs, ..Heard::default() }))
    }

    /// For a state, in the place of this.
    pub(crate) fn into_node(self) -> NonNull<Head> {
        ManuallyDrop::new(self).0.cast()
    }

    pub(crate) fn look<R>(&self, f: impl FnOnce(&mut Heard) -> R) -> R {
        // SAFETY: E3: this holds it.
        unsafe { InterruptNode::look(self.0.cast(), f) }
    }

    /// Sets the handler, which has seen nothing yet; gives back the one before, unless it is being called.
    pub(crate) fn set(&self, call: Hear) -> Option<Box<dyn Any + Send>> {
        let handler = Handler::new(call, None);
        self.look(|heard| {
            heard.fresh = heard.signal.is_some();
            heard.replaced = heard.running;
            heard.handler.replace(handler).map(|handler| handler as _)
        })
    }

    fn is_over(&self) -> bool {
        // SAFETY: E3: this holds it.
        unsafe { InterruptNode::is_over(self.0.cast()) }
    }

    /// Calls the handler if it has not seen the latest signal (E2), unless the promise is over (E4). True: that was a kill, and found
    /// it running.
    pub(crate) fn run(&self) -> bool {
        let mut running = false;
        while let Some((mut handler, signal)) = self.look(|heard| {
            if heard.running || !heard.fresh || self.is_over() {
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

impl Drop for Interrupts {
    fn drop(&mut self) {
        // SAFETY: E3: this holds it.
        let node = unsafe { self.0.as_ref() };
        // ORD: Release pairs with the Acquire of the last: what all others did with it is done.
        if node.holders.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        // A handler that panics as it is dropped does so when the memory has gone back.
        let heard = self.look(std::mem::take);
        // SAFETY: E3: nobody else has it.
        unsafe { memory::free(self.0) };
        drop(heard);
    }
}
