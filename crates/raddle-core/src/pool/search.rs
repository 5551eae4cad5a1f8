//! What a worker does when it has nothing to do: look for work, wait for a goal, sleep.
//!
//! What it may take on depends on why it has nothing to do, because what it takes on has to be over
//! before it can go on:
//!
//! | it waits for        | it takes                                                           |
//! |---------------------|--------------------------------------------------------------------|
//! | work (a thread)     | anything                                                            |
//! | a stolen fork       | what the thief forked from it (leapfrogging)                          |
//! | a future            | the future's task, if not started (see `spawn::task`); its own forks   |
//! | the tasks of a scope| its own tasks and forks first; below a depth cap, anything             |
//!
//! So a chain of waits for forks and futures ends at a thread that runs: nobody waits for something that
//! lies suspended beneath himself. (A scope's tasks are in the same queues as all others.)
//!
//! # Invariants
//!
//! - **W1** Who waits for a thief sleeps only after it has set `done` of the slot to `SLEEPING`, raised the
//!   thief's `limit`, run the heavy fence and seen no fork of the thief's. A thief whose push is told
//!   of the raise runs a SeqCst fence and looks at `done` of the fork that it serves. So it either wakes the
//!   victim, or somebody else who will do, or its fork was seen.

use std::mem::forget;
use std::time::{Duration, Instant};

use raddle_sync::atomic::{AtomicU32, Ordering, fence};
use raddle_sync::{hint, strand, thread};

use crate::deque::{Popped, Slot, Steal, Thief};
use crate::job::ForkHeader;
use crate::latch::{self, Latch};
use crate::pool::region::Region;
use crate::pool::shared::Waker;
use crate::pool::worker::Worker;
use crate::queue::{Ring, Task};

/// What ends a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal<'a> {
    /// The pool's end: a thread without a job.
    Idle,
    /// The thief of this slot's fork is done.
    Fork(&'a Slot),
    /// The tasks of a scope are over.
    Scope(&'a Latch),
    /// A future is done, or the time has come.
    Future(&'a Latch, Option<Instant>),
}

/// How a sleep ended.
enum Slept {
    /// The worker is awake again; `counted` says whether as a searcher.
    Woken { counted: bool },
    /// The thread has left the pool.
    Left,
}

/// Something to run.
#[derive(Debug)]
enum Work {
    Fork { job: *mut ForkHeader, victim: usize, index: usize },
    Task(Task),
}

/// Foreign jobs nested on one stack while their hosts wait, at most.
const MAX_DEPTH: usize = 64;
/// How much stack a guest may have used below its entry and still take on foreign work.
const GUEST_STACK: usize = 512 << 10;
/// Rust's default for threads, of which half may be used before foreign work is refused.
const DEFAULT_STACK: usize = 2 << 20;
/// How long a thief polls an owner that it has asked to share.
const POLL: Duration = Duration::from_nanos(1500);
/// Tasks that a worker takes from the injector at a time.
const GRAB: usize = 32;
/// Every so many turns the injector is looked at first, so that it does not starve.
const FAIRNESS: u32 = 61;

impl Region {
    // --- coming and going ---

    /// The life of a thread of the pool.
    pub(crate) fn main(&self) {
        let size = self.shared().config.stack_size.unwrap_or(DEFAULT_STACK);
        self.owned.stack_floor.set(stack_position().saturating_sub(size / 2));
        self.elsewhere.adopt();
        let _current = self.base().enter();
        self.work_until(Goal::Idle, Some(self.base()), true);
    }

    /// A guest takes this region, in the context it has.
    pub(crate) fn guest_arrives(&self, context: usize) {
        self.owned.context.set(context);
        self.owned.stack_floor.set(stack_position().saturating_sub(GUEST_STACK));
        // The first fork tells sleepers.
        self.fork.request();
    }

    /// The guest goes; what it spawned stays.
    pub(crate) fn guest_leaves(&self) {
        let left = std::iter::from_fn(|| self.ring.steal());
        if self.ring.has_work() {
            self.shared().injector.push(left);
        }
    }

    // --- slow paths of join ---

    /// After a push that asked for attention.
    #[cold]
    #[inline(never)]
    pub(crate) fn pushed(&self, slot: &Slot) {
        self.fork.publish(slot);
        fence(Ordering::SeqCst); // S3, W1
        if self.shared().sleep.counts().need_wake() {
            self.shared().wake_one(Waker::Busy);
        } else {
            self.wake_victim();
        }
    }

    /// If the fork that runs here was stolen from somebody who sleeps until it is done: what it forks is
    /// the victim's to help with (W1).
    fn wake_victim(&self) {
        let (slot, victim) = self.owned.serving.get();
        // SAFETY: slots live as long as the pool (R1).
        if unsafe { slot.as_ref() }.is_some_and(|slot| latch::is_asleep(&slot.done)) {
            self.shared().regions[victim].parker().unpark();
        }
    }

    /// After a pop that was not fast: true if the fork is the owner's.
    #[cold]
    #[inline(never)]
    pub(crate) fn popped(&self, slot: &Slot) -> bool {
        let wanted = self.shared().sleep.counts().interested();
        let popped = self.fork.pop_slow(slot, wanted);
        self.stay_attentive();
        popped == Popped::Owned
    }

    /// After the owner has lowered `limit`: raises it again if somebody still waits for work, and
    /// wakes somebody if there is some (S3).
    fn stay_attentive(&self) {
        fence(Ordering::SeqCst); // S3
        let counts = self.shared().sleep.counts();
        if !counts.interested() {
            return;
        }
        if !self.fork.has_public() {
            self.fork.request();
        } else if counts.need_wake() {
            self.shared().wake_one(Waker::Busy);
        }
    }

    /// Waits for the thief of the worker's fork, helping him if `helping`. The slot is then to be freed by
    /// `joined`.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_thief(&self, worker: &Worker, helping: bool) {
        let slot = worker.slot();
        slot.mark_waiting();
        self.work_until(Goal::Fork(slot), worker.next().filter(|_| helping), false);
    }

    /// Frees the slot of a fork whose thief is done.
    pub(crate) fn joined(&self, worker: &Worker) {
        self.fork.reset(worker.slot());
        self.stay_attentive();
    }

    /// Waits on the current worker for what sets a latch. True: it is set.
    pub(crate) fn await_latch(&self, latch: &Latch, goal: Goal<'_>) -> bool {
        self.work_until(goal, Worker::current(), false);
        latch.is_set()
    }

    // --- the loop ---

    /// Works until the goal is reached. Foreign jobs fork from `at` on; without it there are none.
    /// `searching`: this worker counts as a searcher already.
    fn work_until(&self, goal: Goal<'_>, at: Option<&Worker>, mut searching: bool) {
        let shared = self.shared();
        let mut since = Instant::now();
        while !self.is_reached(goal) {
            if let Some((work, at)) = at.and_then(|at| Some((self.find(goal, at, searching)?, at)))
            {
                if searching {
                    shared.hand_on(Waker::Busy);
                }
                self.owned.fruitless.set(false);
                searching = self.run(work, at, goal);
                since = Instant::now();
                continue;
            }
            // Who waits looks for work without counting as a searcher: when his goal is reached he has
            // better to do than to see to a successor.
            let waits = !matches!(goal, Goal::Idle);
            if self.is_benched() {
                // To sleep at once.
            } else if !searching && !waits {
                searching = shared.sleep.try_search(shared.search_cap());
                since = Instant::now();
                if searching {
                    continue;
                }
            } else if since.elapsed() < self.patience() {
                if shared.oversubscribed {
                    thread::yield_now()
                } else {
                    hint::spin_loop()
                }
                continue;
            }
            self.owned.fruitless.set(true);
            match self.sleep(goal, at, searching) {
                Slept::Woken { counted } => searching = counted,
                Slept::Left => return,
            }
            since = Instant::now();
        }
        if searching {
            shared.hand_on(Waker::Busy);
        }
    }

    /// Whether a guest works in this thread's stead: a hint.
    fn is_benched(&self) -> bool {
        self.index < self.shared().threads() && self.shared().benches.is_asked(self.index)
    }

    fn is_reached(&self, goal: Goal<'_>) -> bool {
        match goal {
            Goal::Idle => self.shared().ended(),
            Goal::Fork(slot) => latch::is_set(&slot.done),
            Goal::Scope(latch) => latch.is_set(),
            Goal::Future(latch, deadline) => {
                latch.is_set() || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            }
        }
    }

    /// How long this search may go on.
    fn patience(&self) -> Duration {
        let time = self.shared().spin_time();
        if self.owned.fruitless.get() { time / 4 } else { time }
    }

    /// Sleeps until woken.
    fn sleep(&self, goal: Goal<'_>, at: Option<&Worker>, searching: bool) -> Slept {
        let slept = match goal {
            Goal::Idle => self.sleep_among_others(goal, searching),
            // Somebody who may take on anything.
            Goal::Scope(_) if at.is_some() && self.may_host() => {
                self.sleep_among_others(goal, searching)
            }
            _ => self.sleep_apart(goal, at, searching),
        };
        self.elsewhere.release();
        slept
    }

    /// Sleeps where whoever has work may wake this worker; or on the bench.
    fn sleep_among_others(&self, goal: Goal<'_>, searching: bool) -> Slept {
        let shared = self.shared();
        let is_thread = self.index < shared.threads();
        if is_thread && shared.benches.sit_out(self.index) {
            if searching {
                shared.hand_on(Waker::Idle);
            }
        } else if shared.sleep.fall_asleep(self.index, searching) && shared.look_around() {
            let counted = if is_thread {
                shared.benches.stay_awake(&shared.sleep, self.index)
            } else {
                shared.sleep.stay_awake(self.index);
                true
            };
            return Slept::Woken { counted };
        }
        shared.end_if_quiet();
        if self.prepare_sleep(goal) {
            let woken = self.park(goal);
            if !woken && matches!(goal, Goal::Idle) && shared.leave_seat(self.index) {
                return Slept::Left;
            }
        }
        let counted = if is_thread {
            shared.benches.rise(&shared.sleep, self.index)
        } else {
            !shared.sleep.rise(self.index)
        };
        // ORD: written before the token that woke us.
        let roused_at = self.roused_at.swap(0, Ordering::Relaxed);
        if roused_at != 0 {
            shared.note_wake(roused_at);
        }
        Slept::Woken { counted }
    }

    /// Sleeps where only the goal wakes this worker, or the thief it waits for (W1). In a guest's stead a
    /// thread of the pool plays meanwhile.
    fn sleep_apart(&self, goal: Goal<'_>, at: Option<&Worker>, searching: bool) -> Slept {
        let shared = self.shared();
        if searching {
            shared.hand_on(Waker::Idle);
        }
        if self.prepare_sleep(goal) && !(at.is_some() && self.thief_has_work(goal)) {
            let is_guest = self.index >= shared.threads();
            if is_guest {
                shared.gate.rest(shared);
            }
            self.park(goal);
            if is_guest {
                shared.gate.resume(shared);
            }
        }
        Slept::Woken { counted: false }
    }

    /// Parks for as long as the goal allows. False: that time is over.
    fn park(&self, goal: Goal<'_>) -> bool {
        let time = match goal {
            Goal::Idle => Some(self.shared().config.keep_alive),
            Goal::Future(_, Some(deadline)) => {
                Some(deadline.saturating_duration_since(Instant::now()))
            }
            Goal::Fork(_) | Goal::Scope(_) | Goal::Future(_, None) => None,
        };
        match time {
            Some(time) => self.parker().park_timeout(time),
            None => {
                self.parker().park();
                true
            }
        }
    }

    /// Asks the thief that is waited for to wake us when he forks, and looks whether he has (W1).
    fn thief_has_work(&self, goal: Goal<'_>) -> bool {
        let Goal::Fork(slot) = goal else { return false };
        // ORD: a hint: where to look.
        let Some(thief) = Thief::unpack(slot.thief.load(Ordering::Relaxed)) else {
            // He has not signed yet: a few instructions, unless the system has stopped him.
            thread::yield_now();
            return true;
        };
        let fork = &self.shared().regions[thief.worker].fork;
        fork.request();
        raddle_sync::fence::heavy();
        fork.has_work_above(thief.floor)
    }

    /// Tells the goal's setter that this worker sleeps. False: no need to.
    fn prepare_sleep(&self, goal: Goal<'_>) -> bool {
        match goal {
            Goal::Idle => !self.shared().ended(),
            Goal::Fork(slot) => latch::prepare_sleep(&slot.done),
            Goal::Scope(latch) | Goal::Future(latch, _) => latch.prepare_sleep(),
        }
    }

    // --- finding work ---

    fn find(&self, goal: Goal<'_>, at: &Worker, searching: bool) -> Option<Work> {
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
    fn may_host(&self) -> bool {
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
            let work = work.or_else(|| region.ring.steal().map(Work::Task));
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
                Steal::Job(job, index) => return Some(Work::Fork { job, victim, index }),
                Steal::Retry => hint::spin_loop(),
                Steal::Private | Steal::Empty => return None,
            }
        }
    }

    /// Gets a private fork, from `floor` on: asks, and if the owner does not answer, takes.
    fn dislodge(&self, victim: usize, floor: usize) -> Option<Work> {
        let fork = &self.shared().regions[victim].fork;
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
    fn run(&self, work: Work, at: &Worker, goal: Goal<'_>) -> bool {
        // What runs while we wait is another strand of work: it must not pass for us.
        let waiting = !matches!(goal, Goal::Idle);
        let _strand = waiting.then(strand::enter_foreign);
        let no_unwinding = AbortOnUnwind;
        let _current = at.enter();
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
        let (run, context) = (header.run, header.context.get());
        let before = self.owned.context.replace(context);
        let served = self.owned.serving.replace((slot, victim.index));
        // SAFETY: J1: the job is ours; `at` is this worker.
        unsafe { run(job, std::ptr::from_ref(at).cast()) };
        header.mark_spent();
        self.owned.serving.set(served);
        self.owned.context.set(before);
        // Before the owner goes on, so that he finds a searcher for what he forks next.
        let searching = !waiting && shared.sleep.try_search(shared.search_cap());
        latch::set_word(&slot.done, victim.parker());
        searching
    }

    pub(crate) fn run_task(&self, task: Task, at: &Worker) {
        let before = self.owned.context.replace(0);
        // SAFETY: a queued task is alive until its queue's share of it is used, which is here.
        let vtable = unsafe { task.as_ref() }.vtable;
        // SAFETY: as above; it frees itself.
        unsafe { (vtable.run)(task, std::ptr::from_ref(at).cast()) };
        self.owned.context.set(before);
    }

    // --- tasks of this worker ---

    /// Queues a task that this worker spawned.
    pub(crate) fn push_task(&self, task: Task) {
        let Err(task) = self.ring.push(task) else {
            return;
        };
        let oldest = std::iter::from_fn(|| self.ring.steal()).take(Ring::SPILL);
        self.shared().injector.push(oldest.chain([task]));
    }

    /// A fresh id for a task.
    pub(crate) fn task_id(&self) -> u64 {
        let (mut next, mut end) = self.owned.ids.get();
        if next == end {
            (next, end) = self.shared().id_block(crate::pool::shared::Shared::ID_BLOCK);
        }
        self.owned.ids.set((next + 1, end));
        next
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
fn stack_position() -> usize {
    let here = 0u8;
    std::ptr::from_ref(&here) as usize
}
