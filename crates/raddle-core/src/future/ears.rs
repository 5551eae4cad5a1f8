//! Ears: where a promise hears of interrupts.
//!
//! A root has no room for a handler, so ears are a node of their own that stands between the root's
//! state and its continuation. Promises with a handler have them from the start; others get them when they are
//! interrupted, or linked.
//!
//! # Invariants
//!
//! - **E1** `next` is written by who attaches to the root, or by who puts the ears between, before the
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

use crate::future::interrupt::Interrupt;
use crate::future::memory;
use crate::future::node::{self, Head, NodeRef, VTable};
use crate::future::state::State;
use crate::future::upstream::Inputs;
use crate::future::walk;
use crate::local::{self, Capture, Context};
use crate::panics::discard;

#[repr(C)]
pub(crate) struct Ears {
    head: Head,
    next: UnsafeCell<Option<NonNull<Head>>>,
    pub(crate) hearing: Arc<Hearing>,
}

static VTABLE: VTable = VTable {
    slot: 0,
    free: |_| unreachable!("ears are freed by `Ears::free`"),
    // SAFETY: by `step`'s contract.
    step: |ears, _| unsafe { Ears::next(ears) },
    wake: node::never,
    visit: None,
    adapts: false,
    relink: None,
    assist: None,
    kill: None,
};

pub(crate) fn is_ears(node: NonNull<Head>) -> bool {
    // SAFETY: asked of what is attached to a living node, or a part of it, by who may look at it.
    std::ptr::eq(unsafe { node.as_ref() }.table(), &VTABLE)
}

/// Who is behind living ears, for their consumer.
pub(crate) fn behind(ears: NonNull<Head>) -> Option<NonNull<Head>> {
    // SAFETY: asked by the consumer of the node that they belong to, who wrote it (E1).
    unsafe { Ears::next(ears) }
}

impl Ears {
    pub(crate) fn allocate(hearing: Arc<Hearing>) -> NonNull<Head> {
        let head = Head { state: State::new(), vtable: &VTABLE };
        memory::allocate(Ears { head, next: UnsafeCell::new(None), hearing }).cast()
    }

    /// # Safety
    ///
    /// Ears that nothing leads to any more (F4).
    pub(crate) unsafe fn free(ears: NonNull<Head>) {
        let ears = ears.cast::<Ears>();
        // What they hold is the user's, and may panic as it goes.
        // SAFETY: contract.
        let hearing = unsafe { Ears::hearing(ears.cast()) };
        // SAFETY: contract.
        unsafe { memory::free(ears) };
        walk::let_go(hearing);
    }

    /// Who is behind them.
    ///
    /// # Safety
    ///
    /// Living ears, E1.
    pub(crate) unsafe fn next(ears: NonNull<Head>) -> Option<NonNull<Head>> {
        // SAFETY: contract.
        unsafe { ears.as_ref() }.state.touch();
        // SAFETY: contract.
        let next = &unsafe { ears.cast::<Ears>().as_ref() }.next;
        // SAFETY: E1.
        next.with(|next| unsafe { *next })
    }

    /// # Safety
    ///
    /// Living ears, E1.
    pub(crate) unsafe fn set_next(ears: NonNull<Head>, behind: NonNull<Head>) {
        // SAFETY: contract.
        unsafe { ears.as_ref() }.state.touch();
        // SAFETY: contract.
        let next = &unsafe { ears.cast::<Ears>().as_ref() }.next;
        // SAFETY: E1.
        next.with_mut(|next| unsafe { *next = Some(behind) });
    }

    /// What they hear.
    ///
    /// # Safety
    ///
    /// Living ears.
    pub(crate) unsafe fn hearing(ears: NonNull<Head>) -> Arc<Hearing> {
        // SAFETY: contract.
        unsafe { ears.as_ref() }.state.touch();
        // SAFETY: contract.
        unsafe { ears.cast::<Ears>().as_ref() }.hearing.clone()
    }

    /// The ears of a root that is not being visited itself, made if there are none.
    ///
    /// # Safety
    ///
    /// The root is alive and not done, and the caller its producer or a visitor from downstream.
    pub(crate) unsafe fn of(root: NodeRef) -> NonNull<Head> {
        // SAFETY: contract.
        let state = unsafe { root.state() };
        let mut made = None;
        let mut backoff = raddle_sync::spin::Backoff::new();
        let ears = loop {
            if let Some(ears) = state.ears() {
                break ears;
            }
            let ears = *made.get_or_insert_with(|| Ears::allocate(Arc::default()));
            // SAFETY: E1: not in place yet.
            if state.put_ears(ears, |next| unsafe { Ears::set_next(ears, next) }) {
                made = None;
                break ears;
            }
            backoff.spin();
        };
        if let Some(unused) = made {
            // SAFETY: nothing leads to them.
            unsafe { Ears::free(unused) };
        }
        ears
    }
}

/// What has been heard, and who wants to hear it.
#[derive(Default)]
pub(crate) struct Hearing(Mutex<Heard>);

#[derive(Default)]
pub(crate) struct Heard {
    pub(crate) signal: Option<Interrupt>,
    /// The handler has not seen the signal yet.
    fresh: bool,
    running: bool,
    handler: Option<Handler>,
    /// What the promise was linked to.
    pub(crate) forward: Option<NonNull<Head>>,
    /// Whose result the promise is made of.
    pub(crate) inputs: Option<Weak<dyn Inputs>>,
}

// SAFETY: `forward` is a node, whose parts that are used through it are behind a lock; all else is `Send`.
unsafe impl Send for Heard {}

struct Handler {
    call: Box<dyn FnMut(Interrupt) + Send>,
    /// That of the code that made the promise.
    context: Context,
}

impl Heard {
    /// Remembers the signal; gives back the one before.
    pub(crate) fn hear(&mut self, signal: &Interrupt) -> Option<Interrupt> {
        self.fresh = true;
        self.signal.replace(signal.clone())
    }
}

impl fmt::Debug for Hearing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hearing").finish_non_exhaustive()
    }
}

impl Hearing {
    pub(crate) fn new(
        handler: Option<Box<dyn FnMut(Interrupt) + Send>>,
        inputs: Option<Weak<dyn Inputs>>,
    ) -> Arc<Hearing> {
        let handler = handler.map(|call| Handler { call, context: local::capture() });
        Arc::new(Hearing(Mutex::new(Heard { handler, inputs, ..Heard::default() })))
    }

    pub(crate) fn with_inputs(inputs: Weak<dyn Inputs>) -> Arc<Hearing> {
        Self::new(None, Some(inputs))
    }

    pub(crate) fn look<R>(&self, f: impl FnOnce(&mut Heard) -> R) -> R {
        f(&mut self.0.lock())
    }

    /// Calls the handler if it has not seen the latest signal (E2).
    pub(crate) fn run(&self) {
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
            let panicked: Option<Box<dyn Any + Send>> = panic::catch_unwind(call).err();
            discard(panicked);
            self.look(|heard| {
                heard.running = false;
                heard.handler = Some(handler);
            });
        }
    }
}
