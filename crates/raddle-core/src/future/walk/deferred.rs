//! What is put off.

use std::mem::needs_drop;
use std::sync::Arc;

use super::{Next, abandon_now, defer, walk};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::Interrupts;
use crate::future::node::NodeRef;
use crate::future::pinned::Pinned;
use crate::future::upstream::Combination;
use crate::future::watch::{self, Watch};
use crate::panics::discard;

/// What waits for the thread to be less deep.
pub(super) enum Deferred {
    Walk(Next),
    Tell(NodeRef, unsafe fn(NodeRef)),
    Drop(NodeRef, unsafe fn(NodeRef)),
    Abandon(Combination),
    Told(Arc<dyn Watch>, usize),
    Hear(Interrupts),
    Interrupt(Pinned, Interrupt),
    LetGo(Interrupts),
    LetGoOfSource(Arc<dyn Watch>),
    LetGoOfSignal(Interrupt),
    /// Not before what follows: it may wait for that.
    LetGoOfValue(Box<dyn Send>),
}

/// Drops a value when all is over that this thread runs, or has another do it if that waits. From where something runs (T2).
pub(crate) fn drop_later<T: Send + 'static>(value: T) {
    if const { needs_drop::<T>() } {
        defer(Deferred::LetGoOfValue(Box::new(value)));
    }
}

impl Deferred {
    pub(super) fn is_drop(&self) -> bool {
        use Deferred::{Abandon, Drop, LetGo, LetGoOfSignal, LetGoOfSource};
        matches!(self, Drop(..) | Abandon(_) | LetGo(_) | LetGoOfSource(_) | LetGoOfSignal(_))
    }

    /// True: that was a kill, and something runs.
    pub(super) fn run(self) -> bool {
        match self {
            Deferred::Walk(Next { node, from, outcome }) => walk(node, from, outcome),
            // SAFETY: by who deferred it.
            Deferred::Tell(node, f) | Deferred::Drop(node, f) => unsafe { f(node) },
            Deferred::Abandon(combination) => abandon_now(combination),
            Deferred::Told(watch, index) => watch::tell(watch, index),
            Deferred::Hear(interrupts) => {
                let running = interrupts.run();
                // The promise may be completed by now, and what its handler holds is the user's.
                discard(interrupts);
                return running;
            }
            Deferred::Interrupt(task, signal) => {
                let running = task.end(&signal);
                discard(signal);
                return running;
            }
            Deferred::LetGo(interrupts) => discard(interrupts),
            Deferred::LetGoOfSource(source) => discard(source),
            Deferred::LetGoOfSignal(signal) => discard(signal),
            Deferred::LetGoOfValue(value) => discard(value),
        }
        false
    }
}
