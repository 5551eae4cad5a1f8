//! What all nodes have in common.
//!
//! # Invariants
//!
//! - **N1** A node starts with its [`Head`]; `vtable.slot` bytes from its start lies a [`Slot`] of
//!   the future's type, which holds a value when the state is `OK` and a failure when it is `ERR`.
//!   When it is `KILLED` the slot is not looked at.
//! - **N2** The slot is used by one party at a time (F1 in `state`).

use std::mem::ManuallyDrop;
use std::panic;
use std::ptr::NonNull;

use crate::future::failure::{Failure, FailureKind};
use crate::future::handle::Killed;
use crate::future::state::{Completed, Outcome, State};
use crate::panics::discard;

/// What comes first in every node.
#[derive(Debug)]
#[repr(C, align(8))]
pub(crate) struct Head {
    pub(crate) state: State<Head>,
    pub(crate) vtable: &'static VTable,
}

/// What a node can do, by its type.
#[derive(Debug)]
pub(crate) struct VTable {
    /// Where in the node the slot is (N1).
    pub(crate) slot: usize,
    /// Frees the node; its slot is empty.
    pub(crate) free: unsafe fn(NonNull<Head>),
    /// Drops what a done node's slot holds.
    pub(crate) drop_slot: unsafe fn(NonNull<Head>, Outcome),
    /// Tells this node that the one it is attached to is done.
    pub(crate) step: unsafe fn(NonNull<Head>),
    /// A waiting thread offers to run what has not started.
    pub(crate) assist: unsafe fn(NonNull<Head>, Waiter) -> Assist,
    /// Kills what produces the value.
    pub(crate) kill: unsafe fn(NonNull<Head>) -> Killed,
}

/// Who waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Waiter {
    /// A thread that is a worker, or may become a guest.
    Patient,
    /// A thread with a deadline: outside of pools it does not run anything.
    Hurried,
}

/// What came of an offer to help.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assist {
    /// What could be done is done: wait, if that is still needed.
    Go,
    /// The waiting thread is itself running what it waits for.
    Cycle,
}

/// The place of a result.
#[repr(C)]
pub(crate) union Slot<T> {
    value: ManuallyDrop<T>,
    failure: ManuallyDrop<Failure>,
}

impl<T> Slot<T> {
    /// The slot's content for a result, and the state that goes with it.
    pub(crate) fn of(result: Result<T, Failure>) -> (Slot<T>, Outcome) {
        match result {
            Ok(value) => (Slot { value: ManuallyDrop::new(value) }, Outcome::Ok),
            Err(failure) => (Slot { failure: ManuallyDrop::new(failure) }, Outcome::Err),
        }
    }

    /// Takes the result out.
    ///
    /// # Safety
    ///
    /// The slot must be full, unless the outcome is `Killed`, and is empty afterwards.
    pub(crate) unsafe fn take(slot: *mut Slot<T>, outcome: Outcome) -> Result<T, Failure> {
        match outcome {
            // SAFETY: N1, and the contract.
            Outcome::Ok => Ok(unsafe { slot.cast::<T>().read() }),
            // SAFETY: as above.
            Outcome::Err => Err(unsafe { slot.cast::<Failure>().read() }),
            Outcome::Killed => Err(Failure::plain(FailureKind::Killed)),
        }
    }
}

/// The slot of a node.
///
/// # Safety
///
/// The node must be that of a future of `T`, and alive.
pub(crate) unsafe fn slot<T>(node: NonNull<Head>) -> *mut Slot<T> {
    // SAFETY: contract.
    let offset = unsafe { node.as_ref() }.vtable.slot;
    // SAFETY: N1.
    unsafe { node.byte_add(offset) }.cast().as_ptr()
}

/// Producer: completes a node whose slot is full, and tells whoever waits.
///
/// # Safety
///
/// The caller is the node's producer, its slot is full with this outcome (or the outcome is `Killed`),
/// and the caller does not use the node afterwards.
pub(crate) unsafe fn complete(node: NonNull<Head>, outcome: Outcome) {
    // SAFETY: alive until it is completed.
    let head = unsafe { node.as_ref() };
    let vtable = head.vtable;
    match head.state.complete(outcome) {
        Completed::Alone => {}
        Completed::Tell(continuation) => {
            // SAFETY: F2: attached nodes are alive until they are told.
            let step = unsafe { continuation.as_ref() }.vtable.step;
            // SAFETY: as above.
            unsafe { step(continuation) };
        }
        Completed::Dropped => {
            let dropping = panic::catch_unwind(|| {
                // SAFETY: the consumer has gone, so the slot is ours.
                unsafe { (vtable.drop_slot)(node, outcome) };
            });
            discard(dropping);
            // SAFETY: and so is the node.
            unsafe { (vtable.free)(node) };
        }
    }
}
