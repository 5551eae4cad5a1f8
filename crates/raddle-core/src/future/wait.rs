//! Blocking on a node.

use std::ptr::NonNull;
use std::time::Instant;

use crate::future::node::{Assist, Head, VTable};
use crate::future::state::State;
use crate::latch::Latch;
use crate::pool;

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
        drop_slot: |_, _| unreachable!("has no slot"),
        step: |node| {
            // SAFETY: `told` by the producer, once, while the thread waits for the latch (F2).
            let latch = unsafe { &raw const (*node.cast::<Waiting>().as_ptr()).latch };
            // SAFETY: as above; the thread may go on at once (L1).
            unsafe { Latch::set(latch) };
        },
        assist: |_, _| Assist::Go,
        kill: |_| unreachable!("is no future"),
    };
}

/// Blocks until the node is done, or the time has come; a worker helps meanwhile.
///
/// # Safety
///
/// The caller is the consumer of the node.
pub(super) unsafe fn block(node: NonNull<Head>, deadline: Option<Instant>) {
    let waiting = Waiting {
        head: Head { state: State::new(), vtable: Waiting::VTABLE },
        latch: Latch::new(pool::current_parker()),
    };
    // SAFETY: the consumer keeps the node alive.
    let state = unsafe { &node.as_ref().state };
    // Of the whole of it, not of the head alone.
    let me: NonNull<Head> = NonNull::from(&waiting).cast();
    if state.attach(me).is_err() {
        return;
    }
    if !pool::wait_for_future(&waiting.latch, deadline) && !state.detach(me) {
        // Being told this very moment: not to leave before.
        waiting.latch.wait();
    }
    let _ = &waiting.head;
}
