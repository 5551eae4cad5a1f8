//! Blocking on a node.

use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::future::ears;
use crate::future::node::{Head, NodeRef, Told, VTable};
use crate::future::state::{Attach, State};
use crate::future::then::attach;
use crate::latch::Latch;

/// A waiting thread, as a node that is told: on the thread's own stack.
#[repr(C)]
struct Waiting {
    head: Head,
    latch: Latch,
}

impl Waiting {
    const VTABLE: &'static VTable = &VTable {
        slot: 0,
        free: |_| unreachable!("lives on a stack"),
        told: Told::Wake(|node| {
            // SAFETY: told by the producer, once, while the thread waits for the latch (F2).
            let latch = unsafe { &raw const (*node.cast::<Waiting>().as_ptr()).latch };
            // SAFETY: as above; the thread may go on at once (L1).
            unsafe { Latch::set(latch) };
        }),
        visit: None,
        relink: None,
        assist: None,
        kill: None,
    };
}

/// Blocks until the node is done, or the time has come; a worker helps meanwhile.
///
/// # Safety
///
/// The caller is the consumer of the node.
pub(super) unsafe fn block(node: NodeRef, deadline: Option<Instant>) {
    let waiting = Waiting {
        head: Head { state: State::new(), vtable: Waiting::VTABLE },
        latch: Latch::new(host::parker()),
    };
    // Of the whole of it, not of the head alone.
    let me: NonNull<Head> = NonNull::from(&waiting).cast();
    // SAFETY: contract.
    if unsafe { attach(node, me, Attach::Waiter) }.is_err() {
        return;
    }
    // SAFETY: the consumer keeps the node alive.
    let state = unsafe { node.state() };
    if !host::wait(&waiting.latch, deadline) && state.detach(ears::behind).is_none() {
        // Being told this very moment: not to leave before.
        waiting.latch.wait();
    }
    let _ = &waiting.head;
}

/// Blocks for good.
pub(super) fn forever() -> ! {
    let latch = Latch::new(host::parker());
    loop {
        host::wait(&latch, None);
    }
}

/// Blocks for so long.
pub(super) fn idle(time: Duration) {
    host::wait(&Latch::new(host::parker()), Instant::now().checked_add(time));
}

/// How a thread waits: a worker helps meanwhile.
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod host {
    pub(super) use crate::pool::{current_parker as parker, wait_for_future as wait};
}

#[cfg(any(raddle_loom, raddle_shuttle))]
mod host {
    use std::time::Instant;

    use raddle_sync::parker::Parker;

    use crate::latch::Latch;

    pub(super) fn parker() -> &'static Parker {
        Box::leak(Box::default())
    }

    /// Under a model a time limit is over at once.
    pub(super) fn wait(latch: &Latch, deadline: Option<Instant>) -> bool {
        if deadline.is_none() {
            latch.wait();
        }
        deadline.is_none()
    }
}
