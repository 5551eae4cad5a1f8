//! How a worker runs what it has found.

use std::mem::forget;

use raddle_sync::atomic::Ordering;
use raddle_sync::strand;
use raddle_sync::time::Instant;
use raddle_trace::EventKind;

use crate::depth;
use crate::fork_stack::{Slot, Thief};
use crate::job::{ForkHeader, Notes};
use crate::latch;
use crate::local::{self, Entered};
use crate::pool::find_work::Work;
use crate::pool::recorder::{fork_key, task_key};
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::queue::{NOBODY, Tag, Task};

/// A stolen fork that runs on this thread's stack, and the one beneath.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) slot: *const Slot,
    pub(crate) victim: usize,
    /// What the slot says of its thief.
    thief: u32,
    outer: *const Serving,
}

impl WorkerMemory {
    /// Runs a foreign job on a thread that has nothing else to do. True: the worker counts as a searcher now.
    #[inline]
    pub(crate) fn run(&self, work: Work) -> bool {
        let no_unwinding = AbortOnUnwind;
        let at = self.base();
        self.heed_followers(at);
        let searching = match work {
            Work::Fork { job, victim, index } => {
                self.owned.purse.turn_to(NOBODY);
                self.run_fork(job, victim, index, at, false)
            }
            Work::Task(task, tag) => {
                self.owned.rest.forget();
                self.owned.purse.turn_to(tag);
                self.run_task(task, at);
                false
            }
        };
        // Somebody else's task may be the next that asks.
        self.registry().leave_number(self);
        self.owned.looks.forget();
        forget(no_unwinding);
        searching
    }

    /// Runs a foreign job on top of this thread's stack, while it waits.
    pub(crate) fn run_on_top(&self, work: Work, at: &Worker) {
        // What runs while we wait is another strand of work: it must not pass for us.
        let _strand = strand::enter_foreign();
        let no_unwinding = AbortOnUnwind;
        let _current = at.enter();
        self.heed_followers(at);
        self.on_top(|| match work {
            Work::Fork { job, victim, index } => {
                self.run_fork(job, victim, index, at, true);
            }
            Work::Task(task, _) => self.run_task(task, at),
        });
        forget(no_unwinding);
    }

    /// Runs a task of the scope that this thread waits for, and those that come next in its ring. True: others are to have a turn.
    pub(crate) fn run_own(&self, first: Task, tag: Tag, at: &Worker) -> bool {
        let mut strand = strand::enter_foreign();
        let no_unwinding = AbortOnUnwind;
        let _current = at.enter();
        self.owned.purse.turn_to(tag);
        let always_oldest = self.takes_oldest();
        let starve = self.on_top(|| {
            let mut task = first;
            loop {
                self.heed_followers(at);
                self.run_task(task, at);
                // A claimed host, or mail, is the caller's to see to.
                if self.has_mail() {
                    return false;
                }
                let turn = self.counts_inline();
                if turn && self.others_starve() {
                    return true;
                }
                let oldest = if turn { self.ring.steal_tagged(tag) } else { None };
                let Some(next) = oldest.or_else(|| self.next_own(tag, always_oldest)) else {
                    return false;
                };
                task = next;
                depth::settle();
                self.owned.looks.forget();
                strand.renew();
            }
        });
        forget(no_unwinding);
        starve
    }

    /// Runs `f`, another piece of work, on top of what this thread is at: it has a depth of its own, and has not looked yet whether
    /// the pool stands still.
    pub(crate) fn on_top<R>(&self, f: impl FnOnce() -> R) -> R {
        let spreads = self.owned.spreads.take();
        let result = self.owned.looks.apart(|| depth::fresh(f));
        self.owned.spreads.set(spreads);
        result
    }

    /// Runs `f`, which has nothing to do with the forks that this thread serves: so nobody is to follow it there (W2 of
    /// `wait`).
    pub(crate) fn hidden<R>(&self, f: impl FnOnce() -> R) -> R {
        let innermost = self.owned.serving.replace(std::ptr::null());
        self.each_served(innermost, |slot, _| slot.thief.store(Thief::HIDDEN, Ordering::Relaxed));
        let result = f();
        self.each_served(innermost, |slot, thief| slot.thief.store(thief, Ordering::Relaxed));
        self.owned.serving.set(innermost);
        result
    }

    fn each_served(&self, innermost: *const Serving, mut visit: impl FnMut(&Slot, u32)) {
        let mut next = innermost;
        // SAFETY: on this thread's stack, beneath this frame.
        while let Some(serving) = unsafe { next.as_ref() } {
            // SAFETY: slots live as long as the pool (R1).
            visit(unsafe { &*serving.slot }, serving.thief);
            next = serving.outer;
        }
    }

    fn run_fork(
        &self,
        job: *mut ForkHeader,
        victim: usize,
        index: usize,
        at: &Worker,
        waiting: bool,
    ) -> bool {
        let registry = self.registry();
        let victim = &registry.memories[victim];
        let slot = victim.fork.slot(index);
        let thief = Thief { worker: self.index, floor: self.fork.index_of(at.slot()) }.pack();
        // ORD: a hint for the victim.
        slot.thief.store(thief, Ordering::Relaxed);
        // SAFETY: I5: the job stays until `done` is set.
        let header = unsafe { &*job };
        // SAFETY: we are the thief.
        let (context, captured) = unsafe { local::open_fork(header.context.get()) };
        let entered = Entered::by(|| captured);
        let before = self.owned.context.replace(context);
        let outer = self.owned.serving.get();
        let serving = Serving { slot, victim: victim.index, thief, outer };
        self.owned.serving.set(&serving);
        let key = fork_key(victim, slot);
        self.lane.note(EventKind::Exec, 0, key);
        let began = Instant::now();
        // SAFETY: J1: the job is ours; `at` is this worker.
        unsafe { (header.run)(job, std::ptr::from_ref(at).cast()) };
        header.mark_spent();
        // ORD: a hint: the worker's own count.
        self.ended_forks.store(self.ended_forks.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        // Before the owner goes on, and may end up with the same number again.
        self.lane.note(EventKind::Executed, 0, key);
        drop(entered);
        self.owned.serving.set(outer);
        self.owned.context.set(before);
        // Before the owner goes on, so that it finds a searcher for what it forks next.
        let searching = !waiting && registry.places.try_search(registry.linger_cap());
        if self.lane.is_on() && latch::is_asleep(&slot.done) {
            registry.note_wake_of(victim.index, || latch::set_word(&slot.done, victim.parker()));
        } else {
            latch::set_word(&slot.done, victim.parker());
        }
        // What it forked itself it has not come for: to rest would only hold up the wait.
        if victim.index != self.index {
            self.owned.rest.note_fork(began);
        }
        searching
    }

    /// Runs a task that was taken out of a queue.
    pub(crate) fn run_task(&self, task: Task, at: &Worker) {
        let before = self.owned.context.replace(0);
        let key = task_key(task);
        // SAFETY: a queued task is alive until its queue's share of it is used, which is here.
        let vtable = unsafe { task.as_ref() }.vtable;
        if vtable.notes != Notes::All {
            self.lane.note(EventKind::Exec, 0, key);
        }
        // SAFETY: as above; it frees itself.
        unsafe { (vtable.run)(task, std::ptr::from_ref(at).cast()) };
        if vtable.notes == Notes::Nothing {
            self.lane.note(EventKind::Executed, 0, key);
        }
        self.owned.context.set(before);
        self.entries.settle();
    }

    /// Runs a task that this thread has started, and records that.
    #[inline]
    pub(crate) fn noted(&self, task: Task, run: impl FnOnce()) {
        let key = task_key(task);
        self.lane.note(EventKind::Exec, 0, key);
        run();
        self.lane.note(EventKind::Executed, 0, key);
    }

    /// Records that a task is over, before whoever waits for it goes on: by a task that does so itself ([`Notes::End`]).
    #[inline]
    pub(crate) fn note_end(&self, task: Task) {
        if self.lane.is_on() {
            self.lane.note(EventKind::Executed, 0, task_key(task));
        }
    }
}

/// Jobs catch their panics. Should one get through, then it must not unwind a frame that a thief still
/// uses.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        raddle_sync::abort(format_args!("a panic escaped from a job"));
    }
}
