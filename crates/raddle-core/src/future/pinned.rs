//! A task that somebody has found upstream, and keeps.

use std::fmt;
use std::ptr::NonNull;

use crate::future::interrupt::Interrupt;
use crate::future::node::Head;
use crate::future::{Assist, Killed, Waiter};

/// A task that somebody has found upstream: it stays until this is dropped.
pub(crate) struct Pinned {
    pub(crate) node: NonNull<Head>,
    pub(crate) vtable: &'static PinVTable,
}

pub(crate) struct PinVTable {
    pub(crate) interrupt: unsafe fn(NonNull<Head>, &Interrupt),
    pub(crate) kill: unsafe fn(NonNull<Head>) -> Killed,
    pub(crate) assist: unsafe fn(NonNull<Head>, Waiter) -> Assist,
    pub(crate) unpin: unsafe fn(NonNull<Head>),
}

impl Pinned {
    /// The task does not start, and its future fails with the interrupt, or is killed; one that runs may ask for it. True: it
    /// is a kill, and it runs.
    pub(crate) fn end(&self, interrupt: &Interrupt) -> bool {
        if interrupt.is_kill() {
            // SAFETY: pinned.
            return unsafe { (self.vtable.kill)(self.node) } == Killed::WhileRunning;
        }
        // SAFETY: pinned.
        unsafe { (self.vtable.interrupt)(self.node, interrupt) };
        false
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

impl fmt::Debug for Pinned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Pinned").field(&self.node).finish()
    }
}
