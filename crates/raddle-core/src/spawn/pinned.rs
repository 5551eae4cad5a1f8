//! Tasks that are found upstream of a future.

use std::ptr::NonNull;

use crate::future::node::Head;
use crate::future::{Assist, Interrupt, Killed, Waiter};

/// A task that somebody has found upstream: it stays until this is dropped.
pub(crate) struct Pinned {
    pub(super) node: NonNull<Head>,
    pub(super) vtable: &'static PinVTable,
}

pub(super) struct PinVTable {
    pub(super) interrupt: unsafe fn(NonNull<Head>, &Interrupt),
    pub(super) kill: unsafe fn(NonNull<Head>) -> Killed,
    pub(super) assist: unsafe fn(NonNull<Head>, Waiter) -> Assist,
    pub(super) unpin: unsafe fn(NonNull<Head>),
}

impl Pinned {
    /// The task does not start, and its future fails with the interrupt; one that runs may ask for it.
    pub(crate) fn interrupt(&self, interrupt: &Interrupt) {
        // SAFETY: pinned.
        unsafe { (self.vtable.interrupt)(self.node, interrupt) };
    }

    pub(crate) fn kill(&self) -> Killed {
        // SAFETY: pinned.
        unsafe { (self.vtable.kill)(self.node) }
    }

    /// Runs it, if it has not been started.
    pub(crate) fn assist(&self, waiter: Waiter) -> Assist {
        // SAFETY: pinned.
        unsafe { (self.vtable.assist)(self.node, waiter) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        // SAFETY: pinned, once.
        unsafe { (self.vtable.unpin)(self.node) };
    }
}
