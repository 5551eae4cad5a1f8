//! The end of a pool: once its handle is gone and nothing is left to do. It is counted, not inferred from who sleeps.
//!
//! # Invariants
//!
//! - **P3** An entry of a queue is counted in `queued` before it can be found, and in `settled` when it has been
//!   run or is found to be void; a start hook before its thread is started, an exit hook before it is called, and each
//!   when it is over. So if the sum of `settled`, added up first, equals that of `queued`, there was a moment at which nothing was
//!   queued and no task ran.

use raddle_sync::atomic::{AtomicUsize, Ordering, fence};
use raddle_sync::thread;

use crate::pool::registry::Registry;
use crate::pool::worker_memory::WorkerMemory;

impl Registry {
    /// Whether the threads are to go as soon as there is nothing left to do: a hint.
    pub(crate) fn is_ending(&self) -> bool {
        // ORD: a hint; whoever falls asleep asks again.
        self.terminating.load(Ordering::Relaxed)
    }

    pub(crate) fn ended(&self) -> bool {
        // ORD: Acquire pairs with the store in `end_if_done`; sleepers are unparked after it.
        self.ended.load(Ordering::Acquire)
    }

    /// Whether nobody comes any more: the pool has ended, and no exit hook runs, nor what one has spawned, which may wait for others.
    pub(crate) fn is_over(&self) -> bool {
        // ORD: ordered by the fence of `keep_open`; sleepers are unparked after the last is over.
        self.ended() && self.exiting.load(Ordering::SeqCst) == 0
    }

    /// # Panics
    ///
    /// If nobody comes any more.
    pub(crate) fn assert_open(&self) {
        assert!(!self.is_over(), "raddle: the pool has ended");
    }

    /// Until this is dropped the pool is not over, should it have ended.
    pub(super) fn keep_open(&self) -> KeptOpen<'_> {
        // ORD: as in `is_over`.
        self.exiting.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        if self.ended() {
            // Before, nobody might be started.
            self.retry();
        }
        KeptOpen(self)
    }

    fn unpark_all(&self) {
        for memory in self.memories.iter().filter(|memory| !self.is_guest(memory.index)) {
            memory.parker().unpark();
        }
    }

    fn sum(&self, of: fn(&WorkerMemory) -> &AtomicUsize) -> usize {
        // ORD: SeqCst: the sums of `is_done` in this order (P3).
        let each = self.memories.iter().map(|memory| of(memory).load(Ordering::SeqCst));
        each.fold(0_usize, usize::wrapping_add)
    }

    /// How many entries of queues have been seen to (P3).
    pub(crate) fn settled(&self) -> usize {
        self.sum(|memory| &memory.settled)
    }

    /// How much has ended so far, stolen forks included: that it stays the same says that nothing has.
    pub(crate) fn progress(&self) -> usize {
        self.settled().wrapping_add(self.sum(|memory| &memory.ended_forks))
    }

    /// Whether nothing is queued and no task runs: exact once nobody comes from outside (P3).
    fn is_done(&self) -> bool {
        let settled = self.settled();
        fence(Ordering::SeqCst);
        let outside = self.queued_outside.load(Ordering::SeqCst);
        settled == self.sum(|memory| &memory.queued).wrapping_add(outside)
    }

    /// By a thread that has just fallen asleep (or see `see_to_end`), or by whoever ends the pool: if the pool is to end and nothing is left
    /// to do, the threads may go.
    pub(crate) fn end_if_done(&self) {
        // ORD: ordered by the SeqCst fences of `terminate` and of falling asleep: the later sees both.
        if self.terminating.load(Ordering::Relaxed) && !self.ended() && self.is_done() {
            // ORD: Release pairs with the Acquire in `ended`.
            self.ended.store(true, Ordering::Release);
            self.unpark_all();
        }
    }

    /// Lets the threads go once there is nothing left to do, and waits for them. Not on one of them that works; one that has left may
    /// drop what it has kept.
    pub(crate) fn terminate(&self) {
        self.terminating.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
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
pub(super) struct KeptOpen<'a>(&'a Registry);

impl Drop for KeptOpen<'_> {
    fn drop(&mut self) {
        // ORD: as in `is_over`.
        if self.0.exiting.fetch_sub(1, Ordering::SeqCst) == 1 && self.0.ended() {
            self.0.unpark_all();
        }
    }
}

impl WorkerMemory {
    /// This worker has run something while it waits. If its thread is here for good, it never falls asleep as one that has
    /// nothing to do, and so sees to the pool's end now.
    pub(crate) fn see_to_end(&self) {
        if self.owned.for_good.get() {
            // As when falling asleep: what it has seen to is counted.
            fence(Ordering::SeqCst);
            self.registry().end_if_done();
        }
    }
}
