//! The end of a pool: once its handle is gone and nothing is left to do, as `balance` counts it.

use std::sync::Arc;

use raddle_sync::atomic::Ordering;
use raddle_sync::thread;

use crate::pool::registry::Registry;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::pool::{self, blocking, call};

/// Ends the pool, on a thread that is none of its own. One of another pool has work to wait for that may need its place, or the calls of
/// a broadcast, which nobody else can make.
pub(super) fn from_elsewhere(registry: &Arc<Registry>) {
    let me = Arc::clone(registry);
    // One of its own that has left, and visits another, is not to be waited for.
    let beside =
        Worker::occupied().any(WorkerMemory::has_mailbox) && !registry.has_started_this_thread();
    let finished = beside && call::call_beside("raddle-end", move || pool::finish(&me));
    blocking(|| {
        if !finished {
            pool::finish(registry);
        }
        end_suspended(registry);
    });
}

/// Ends the pool, on a thread that none of it waits for.
pub(super) fn end(registry: &Registry) {
    pool::finish(registry);
    end_suspended(registry);
}

fn end_suspended(registry: &Registry) {
    // Async futures that wait for something else than the pool: nobody will poll them.
    registry.gate.kill_suspended();
    registry.recorder.finish();
}

impl Registry {
    /// Whether the threads are to go as soon as there is nothing left to do: a hint.
    pub(crate) fn is_ending(&self) -> bool {
        self.end.is_due()
    }

    pub(crate) fn ended(&self) -> bool {
        self.end.has_ended()
    }

    /// Whether nobody comes any more: the pool has ended, and no exit hook runs, nor what one has spawned, which may wait for others. Nor
    /// is there anything that came from outside as the pool ended: a thread that has left, and is waited for, may wait for that.
    pub(crate) fn is_over(&self) -> bool {
        // In this order: it is queued while its sender keeps the pool open.
        self.end.is_over() && self.injector.len() == 0
    }

    /// # Panics
    ///
    /// If nobody comes any more.
    pub(crate) fn assert_open(&self) {
        assert!(!self.is_over(), "raddle: the pool has ended");
    }

    /// Until this is dropped the pool is not over, should it have ended.
    pub(super) fn keep_open(&self) -> KeptOpen<'_> {
        if self.end.open() {
            // Before, nobody might be started.
            self.retry();
        }
        KeptOpen(self)
    }

    /// As `keep_open`, for a thread that is none of the pool's, and is to queue something: whoever ends the pool looks for it.
    ///
    /// # Panics
    ///
    /// If nobody comes any more.
    pub(super) fn keep_open_for_others(&self) -> KeptOpen<'_> {
        // Pools of seats are not shut.
        assert!(!self.is_over() && self.end.open_from_outside(), "raddle: the pool has ended");
        KeptOpen(self)
    }

    fn unpark_all(&self) {
        for memory in self.memories.iter().filter(|memory| !self.is_guest(memory.index)) {
            memory.parker().unpark();
        }
    }

    /// How many entries of queues have been seen to.
    pub(crate) fn settled(&self) -> usize {
        self.memories.iter().map(|memory| memory.entries.settled()).fold(0, usize::wrapping_add)
    }

    /// How much has ended so far, stolen forks included: that it stays the same says that nothing has.
    pub(crate) fn progress(&self) -> usize {
        self.memories.iter().map(WorkerMemory::progress).fold(0, usize::wrapping_add)
    }

    /// By a thread that has just fallen asleep (or see `see_to_end`), or by whoever ends the pool: if the pool is to end and nothing is left
    /// to do, the threads may go (EN2).
    pub(crate) fn end_if_done(&self) {
        if self.end.look(|| self.memories.iter().map(|memory| &memory.entries)) {
            self.unpark_all();
        }
    }

    fn has_started_this_thread(&self) -> bool {
        let me = thread::current().id();
        self.handles.lock().iter().any(|handle| handle.thread().id() == me)
    }

    /// Lets the threads go once there is nothing left to do, and waits for them. Not on one of them that works; one that has left may
    /// drop what it has kept.
    pub(crate) fn terminate(&self) {
        self.end.ask();
        self.end_if_done();
        // One by one: a task that still runs may start further threads.
        loop {
            let handle = self.handles.lock().pop();
            let Some(handle) = handle else { break };
            if handle.thread().id() == thread::current().id() {
                continue;
            }
            // A worker's loop does not panic; if it did, its message is out already.
            let _ = handle.join();
        }
    }
}

/// Something runs that may wait for others: a hook, or what one has spawned.
pub(crate) struct KeptOpen<'a>(&'a Registry);

impl Drop for KeptOpen<'_> {
    fn drop(&mut self) {
        if self.0.end.close() {
            self.0.unpark_all();
        }
    }
}

impl WorkerMemory {
    /// What it has of that.
    pub(crate) fn progress(&self) -> usize {
        // ORD: a hint.
        let forks = self.ended_forks.load(Ordering::Relaxed);
        self.entries.settled().wrapping_add(forks)
    }

    /// This worker has run something while it waits. If its thread is here for good, it never falls asleep as one that has
    /// nothing to do, and so sees to the pool's end now.
    pub(crate) fn see_to_end(&self) {
        if self.owned.for_good.get() {
            self.registry().end_if_done();
        }
    }
}
