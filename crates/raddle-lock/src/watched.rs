//! What the tests in this library see of sleeps for locks, by the hooks that a process has once.

use crate::core::{Core, Patience};
use crate::entry::{Entry, QUEUED};
use crate::queue::Node;
use raddle_sync::atomic::Ordering;
use raddle_sync::strand;
use raddle_sync::watch::{LockHooks, set_lock_hooks};
use std::cell::Cell;
use std::sync::{Mutex, PoisonError};

thread_local! {
    /// What this thread does when it is about to want to sleep.
    static BEFORE: Cell<Option<fn()>> = const { Cell::new(None) };
}

/// The addresses of locks, each as often as somebody has gone to sleep for it.
static SLEPT: Mutex<Vec<usize>> = Mutex::new(Vec::new());

fn watch() {
    set_lock_hooks(LockHooks {
        before: || BEFORE.get().into_iter().for_each(|before| before()),
        waits: |lock, _| SLEPT.lock().unwrap_or_else(PoisonError::into_inner).push(lock),
        awake: |_, _| (),
    });
}

/// Calls `f`, and `before` each time that this thread is about to queue for a lock meanwhile.
pub(crate) fn before_each_sleep<R>(before: fn(), f: impl FnOnce() -> R) -> R {
    watch();
    BEFORE.set(Some(before));
    let result = f();
    BEFORE.set(None);
    result
}

/// How often somebody has gone to sleep for a lock, and would by now notice that it has waited. To be asked before the first.
pub(crate) fn sleeps(core: &Core) -> usize {
    watch();
    let slept = SLEPT.lock().unwrap_or_else(PoisonError::into_inner);
    slept.iter().filter(|&&lock| lock == core.address()).count()
}

/// Queues the running strand for a lock that it holds, and has it let go of; how it is told so. Then takes the lock, and lets
/// go of it.
pub(crate) fn queued(core: &Core, release: impl FnOnce(&Entry)) -> u32 {
    let (entry, node) = (core.inflate_held(), Node::new());
    entry.inner.lock().lock.push_back(&node);
    entry.update(Ordering::Relaxed, |state| state | QUEUED);
    release(entry);
    let signal = node.signalled();
    core.wait_turn(entry, &node, strand::token(), Patience::Back);
    // SAFETY: just taken.
    strand::with_local(|local| unsafe { local.hold_slow(core.address()) });
    core.release::<false>();
    signal
}
