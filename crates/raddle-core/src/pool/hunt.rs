//! What a worker without work finds, and how it runs it. Which kinds it may take on depends on what it
//! waits for: see the table in `search`.

use std::mem::forget;
use std::time::Instant;

use raddle_sync::atomic::{AtomicU32, Ordering, fence};
use raddle_sync::{hint, strand};
use raddle_trace::EventKind;

use crate::deque::{Steal, Thief};
use crate::job::ForkHeader;
use crate::latch;
use crate::local::{Baggage, Entered};
use crate::pool::policy::POLL;
use crate::pool::recorder::{NOTHING, fork_key, task_key};
use crate::pool::region::Region;
use crate::pool::search::Goal;
use crate::pool::worker::Worker;
use crate::queue::Task;

/// Something to run.
#[derive(Debug)]
pub(crate) enum Work {
    Fork { job: *mut ForkHeader, victim: usize, index: usize },
    Task(Task),
}

/// Foreign jobs nested on one stack while their hosts wait, at most.
const MAX_DEPTH: usize = 64;
/// Tasks that a worker takes from the injector at a time.
const GRAB: usize = 32;
/// Every so many turns the injector is looked at first, so that it does not starve.
const FAIRNESS: u32 = 61;

impl Region {
    // --- finding work ---

    pub(crate) fn find(&self, goal: Goal<'_>, at: &Worker, searching: bool) -> Option<Work> {
        match goal {
            Goal::Fork(slot) => self.leapfrog(&slot.thief),
            Goal::Future(..) => self.own_fork(at),
            Goal::Scope(_) => {
                let own = self.ring.pop().map(Work::Task).or_else(|| self.own_fork(at));
                own.or_else(|| self.may_host().then(|| self.hunt(true)).flatten())
            }
            Goal::Idle => {
                let tick = self.owned.tick.get().wrapping_add(1);
                self.owned.tick.set(tick);
                if tick % FAIRNESS == 0 {
                    if let Some(work) = self.grab() {
                        return Some(work);
                    }
                }
                self.ring.pop().map(Work::Task).or_else(|| self.hunt(searching))
            }
        }
    }

    /// The oldest of this worker's own forks: the rest of the stack on which it waits, which may be what it
    /// waits for, with nobody else to run it.
    fn own_fork(&self, at: &Worker) -> Option<Work> {
        if self.fork.has_work() && !self.fork.has_public() {
            self.fork.open(at.slot());
            self.stay_attentive();
        }
        self.steal_fork(self.index, 0)
    }

    /// Foreign work, if this worker is not to sit out.
    fn hunt(&self, eager: bool) -> Option<Work> {
        if !self.start_hunt() {
            return None;
        }
        let work = self.grab().or_else(|| self.steal(eager));
        // ORD: Release pairs with the Acquire of the guest who waits for the end of a hunt.
        self.hunting.store(false, Ordering::Release);
        work
    }

    /// Announces that this worker is about to take foreign work. False: it may not, a guest works in
    /// its stead. (Dekker: the guest asks, then looks whether the worker hunts.)
    fn start_hunt(&self) -> bool {
        self.hunting.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        let may = !self.is_benched();
        if !may {
            self.hunting.store(false, Ordering::Relaxed);
        }
        may
    }

    /// Whether foreign work may be taken on top of what this thread's stack holds.
    pub(crate) fn may_host(&self) -> bool {
        self.owned.depth.get() < MAX_DEPTH && stack_position() > self.owned.stack_floor.get()
    }

    /// Helps the thief with what he forked from our job.
    fn leapfrog(&self, thief: &AtomicU32) -> Option<Work> {
        // ORD: a hint: where to look.
        let thief = Thief::unpack(thief.load(Ordering::Relaxed))?;
        let fork = &self.shared().regions[thief.worker].fork;
        self.steal_fork(thief.worker, thief.floor).or_else(|| {
            let private = fork.has_work_above(thief.floor);
            private.then(|| self.dislodge(thief.worker, thief.floor)).flatten()
        })
    }

    /// Takes tasks from the injector: the oldest to run, the rest for the ring, next oldest on top.
    fn grab(&self) -> Option<Work> {
        let mut batch = self.shared().injector.take::<GRAB>()?.into_iter();
        let first = batch.next();
        let mut rest = batch.rev().peekable();
        if rest.peek().is_some() {
            rest.for_each(|task| self.push_task(task));
            // On their way they were in no queue: who looked then may sleep now (S1).
            self.shared().announce();
        }
        first.map(Work::Task)
    }

    /// One round over all other workers, from a random one on. Eager: private jobs too.
    fn steal(&self, eager: bool) -> Option<Work> {
        let count = self.shared().regions.len();
        let start = self.random() as usize % count;
        let mut private = None;
        for victim in (start..count).chain(0..start).filter(|&victim| victim != self.index) {
            let region = &self.shared().regions[victim];
            let work = self.steal_fork(victim, 0);
            let work = work.or_else(|| {
                let task = region.ring.steal()?;
                self.lane.note(EventKind::Steal, victim, task_key(task));
                Some(Work::Task(task))
            });
            if work.is_some() {
                return work;
            }
            if region.fork.has_work() {
                private.get_or_insert(victim);
            }
        }
        private.filter(|_| eager).and_then(|victim| self.dislodge(victim, 0))
    }

    /// A public fork of this worker, from `floor` on.
    fn steal_fork(&self, victim: usize, floor: usize) -> Option<Work> {
        loop {
            match self.shared().regions[victim].fork.steal_above(floor) {
                Steal::Job(job, index) => {
                    let region = &self.shared().regions[victim];
                    let key = fork_key(region, region.fork.slot(index));
                    self.lane.note(EventKind::Steal, victim, key);
                    return Some(Work::Fork { job, victim, index });
                }
                Steal::Retry => hint::spin_loop(),
                Steal::Private | Steal::Empty => return None,
            }
        }
    }

    /// Gets a private fork, from `floor` on: asks, and if the owner does not answer, takes.
    fn dislodge(&self, victim: usize, floor: usize) -> Option<Work> {
        let fork = &self.shared().regions[victim].fork;
        self.lane.note(EventKind::Ask, victim, NOTHING);
        fork.request();
        if !self.shared().oversubscribed {
            let asked = Instant::now();
            while asked.elapsed() < POLL {
                let work = self.steal_fork(victim, floor);
                if work.is_some() || !fork.has_work_above(floor) {
                    return work;
                }
                hint::spin_loop();
            }
        }
        if fork.escalate() { self.steal_fork(victim, floor) } else { None }
    }

    fn random(&self) -> u64 {
        // Xorshift: Marsaglia, 2003.
        let mut x = self.owned.random.get();
        x ^= x << 13;
        x ^= x >> 7;
        x ^= x << 17;
        self.owned.random.set(x);
        x
    }

    // --- running it ---

    /// Runs a foreign job on top of this thread's stack. True: the worker counts as a searcher now.
    pub(crate) fn run(&self, work: Work, at: &Worker, goal: Goal<'_>) -> bool {
        // What runs while we wait is another strand of work: it must not pass for us.
        let waiting = !matches!(goal, Goal::Idle);
        let _strand = waiting.then(strand::enter_foreign);
        let no_unwinding = AbortOnUnwind;
        let _current = at.enter();
        self.heed_followers(at);
        self.owned.depth.set(self.owned.depth.get() + usize::from(waiting));
        let searching = match work {
            Work::Fork { job, victim, index } => self.run_fork(job, victim, index, at, waiting),
            Work::Task(task) => {
                self.run_task(task, at);
                false
            }
        };
        self.owned.depth.set(self.owned.depth.get() - usize::from(waiting));
        forget(no_unwinding);
        searching
    }

    fn run_fork(
        &self,
        job: *mut ForkHeader,
        victim: usize,
        index: usize,
        at: &Worker,
        waiting: bool,
    ) -> bool {
        let shared = self.shared();
        let victim = &shared.regions[victim];
        let slot = victim.fork.slot(index);
        let thief = Thief { worker: self.index, floor: self.fork.index_of(at.slot()) };
        // ORD: a hint for the victim.
        slot.thief.store(thief.pack(), Ordering::Relaxed);
        // SAFETY: I5: the job stays until `done` is set.
        let header = unsafe { &*job };
        // SAFETY: we are the thief.
        let (context, trail) = unsafe { Baggage::open(header.context.get()) };
        let entered = Entered::by(|| trail);
        let before = self.owned.context.replace(context);
        let served = self.owned.serving.replace((slot, victim.index));
        let key = fork_key(victim, slot);
        self.lane.note(EventKind::Exec, 0, key);
        // SAFETY: J1: the job is ours; `at` is this worker.
        unsafe { (header.run)(job, std::ptr::from_ref(at).cast()) };
        header.mark_spent();
        // Before the owner goes on, and may end up with the same number again.
        self.lane.note(EventKind::Executed, 0, key);
        drop(entered);
        self.owned.serving.set(served);
        self.owned.context.set(before);
        // Before the owner goes on, so that he finds a searcher for what he forks next.
        let searching = !waiting && shared.sleep.try_search(shared.search_cap());
        if self.lane.is_on() && latch::is_asleep(&slot.done) {
            shared.note_wake_of(victim.index, || latch::set_word(&slot.done, victim.parker()));
        } else {
            latch::set_word(&slot.done, victim.parker());
        }
        searching
    }

    pub(crate) fn run_task(&self, task: Task, at: &Worker) {
        let before = self.owned.context.replace(0);
        let key = task_key(task);
        self.lane.note(EventKind::Exec, 0, key);
        // SAFETY: a queued task is alive until its queue's share of it is used, which is here.
        let vtable = unsafe { task.as_ref() }.vtable;
        // SAFETY: as above; it frees itself.
        unsafe { (vtable.run)(task, std::ptr::from_ref(at).cast()) };
        self.lane.note(EventKind::Executed, 0, key);
        self.owned.context.set(before);
    }
}

/// Jobs catch their panics. Should one get through, then it must not unwind a frame that a thief still
/// uses.
struct AbortOnUnwind;

impl Drop for AbortOnUnwind {
    fn drop(&mut self) {
        eprintln!("raddle: a panic escaped from a job");
        std::process::abort();
    }
}

/// About where the stack pointer is.
#[inline(never)]
pub(crate) fn stack_position() -> usize {
    let here = 0u8;
    std::ptr::from_ref(&here) as usize
}
