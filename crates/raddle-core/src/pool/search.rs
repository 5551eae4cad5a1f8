//! What a worker does when it has nothing to do: look for work, wait for a goal, sleep.

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
    /// The latch is set, or the time has come.
    Latch(&'a Latch, Option<Instant>),
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
        fence(Ordering::SeqCst); // S3
        self.shared().wake_if_needed(Waker::Busy);
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

    /// Waits for the thief of the fork in `slot`, helping meanwhile, and frees the slot.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_thief(&self, worker: &Worker) {
        let slot = worker.slot();
        slot.mark_waiting();
        self.work_until(Goal::Fork(slot), worker.next(), false);
        self.fork.reset(slot);
        self.stay_attentive();
    }

    /// Waits for a latch on the current worker, helping meanwhile. True: it is set.
    pub(crate) fn await_latch(&self, latch: &Latch, deadline: Option<Instant>) -> bool {
        let head = Worker::current().filter(|head| head.next().is_some());
        self.work_until(Goal::Latch(latch, deadline), head, false);
        latch.is_set()
    }

    // --- the loop ---

    /// Works until the goal is reached. Foreign jobs fork from `at` on; without it there are none.
    /// `searching`: this worker counts as a searcher already.
    fn work_until(&self, goal: Goal<'_>, at: Option<&Worker>, mut searching: bool) {
        let shared = self.shared();
        let mut since = Instant::now();
        while !self.is_reached(goal) {
            if let Some((work, at)) = at.and_then(|at| Some((self.find(goal, searching)?, at))) {
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
            match self.sleep(goal, searching) {
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
            Goal::Idle => self.shared().terminating() && self.shared().visible_work() == 0,
            Goal::Fork(slot) => latch::is_set(&slot.done),
            Goal::Latch(latch, deadline) => {
                latch.is_set() || deadline.is_some_and(|deadline| Instant::now() >= deadline)
            }
        }
    }

    /// How long this search may go on.
    fn patience(&self) -> Duration {
        let time = self.shared().spin_time();
        if self.owned.fruitless.get() { time / 4 } else { time }
    }

    /// Sleeps until woken, among the sleepers or on the bench.
    fn sleep(&self, goal: Goal<'_>, searching: bool) -> Slept {
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
        if self.prepare_sleep(goal) {
            let woken = match self.longest_sleep(goal) {
                None => {
                    self.parker().park();
                    true
                }
                Some(time) => self.parker().park_timeout(time),
            };
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
            self.elsewhere.release();
        }
        Slept::Woken { counted }
    }

    /// Tells the goal's setter that this worker sleeps. False: no need to.
    fn prepare_sleep(&self, goal: Goal<'_>) -> bool {
        match goal {
            Goal::Idle => !self.shared().terminating(),
            Goal::Fork(slot) => latch::prepare_sleep(&slot.done),
            Goal::Latch(latch, _) => latch.prepare_sleep(),
        }
    }

    /// The longest sleep.
    fn longest_sleep(&self, goal: Goal<'_>) -> Option<Duration> {
        match goal {
            Goal::Idle => Some(self.shared().config.keep_alive),
            Goal::Latch(_, Some(deadline)) => {
                Some(deadline.saturating_duration_since(Instant::now()))
            }
            Goal::Fork(_) | Goal::Latch(_, None) => None,
        }
    }

    // --- finding work ---

    fn find(&self, goal: Goal<'_>, searching: bool) -> Option<Work> {
        if let Goal::Fork(slot) = goal {
            if let Some(work) = self.leapfrog(&slot.thief) {
                return Some(work);
            }
        }
        let tick = self.owned.tick.get().wrapping_add(1);
        self.owned.tick.set(tick);
        if tick % FAIRNESS == 0 && matches!(goal, Goal::Idle) {
            if let Some(work) = self.grab() {
                return Some(work);
            }
        }
        // Own tasks and own forks at any depth: they may be what is waited for, with nobody else
        // to run them. There are at most a ring of the ones and a stack of the others.
        let own = self.ring.pop().map(Work::Task).or_else(|| self.steal_from(self.index).0);
        if own.is_some() {
            return own;
        }
        if !self.may_host() || !self.start_hunt() {
            return None;
        }
        let work = self.hunt(searching || !matches!(goal, Goal::Idle));
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

    fn hunt(&self, eager: bool) -> Option<Work> {
        self.grab().or_else(|| self.steal(eager))
    }

    /// Whether foreign work may be taken on top of what this thread's stack holds.
    fn may_host(&self) -> bool {
        self.owned.depth.get() < MAX_DEPTH && stack_position() > self.owned.stack_floor.get()
    }

    /// Helps the thief with what he forked from our job.
    fn leapfrog(&self, thief: &AtomicU32) -> Option<Work> {
        // ORD: a hint: where to look.
        let thief = Thief::unpack(thief.load(Ordering::Relaxed))?;
        let region = &self.shared().regions[thief.worker];
        loop {
            match region.fork.steal_above(thief.floor) {
                Steal::Job(job, index) => {
                    return Some(Work::Fork { job, victim: thief.worker, index });
                }
                Steal::Retry => hint::spin_loop(),
                Steal::Private => return self.dislodge(thief.worker),
                Steal::Empty => return None,
            }
        }
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
            let (work, has_private) = self.steal_from(victim);
            if work.is_some() {
                return work;
            }
            if has_private {
                private.get_or_insert(victim);
            }
        }
        private.filter(|_| eager).and_then(|victim| self.dislodge(victim))
    }

    /// A job of this worker that is there for the taking; and whether there are private ones.
    fn steal_from(&self, victim: usize) -> (Option<Work>, bool) {
        let region = &self.shared().regions[victim];
        loop {
            match region.fork.steal() {
                Steal::Job(job, index) => return (Some(Work::Fork { job, victim, index }), false),
                Steal::Retry => hint::spin_loop(),
                found => {
                    let task = if victim == self.index { None } else { region.ring.steal() };
                    return (task.map(Work::Task), matches!(found, Steal::Private));
                }
            }
        }
    }

    /// Gets a private job: asks, and if the owner does not answer, takes.
    fn dislodge(&self, victim: usize) -> Option<Work> {
        let region = &self.shared().regions[victim];
        region.fork.request();
        if !self.shared().oversubscribed {
            let asked = Instant::now();
            while asked.elapsed() < POLL {
                match region.fork.steal() {
                    Steal::Job(job, index) => return Some(Work::Fork { job, victim, index }),
                    Steal::Empty => return None,
                    Steal::Retry | Steal::Private => hint::spin_loop(),
                }
            }
        }
        if region.fork.escalate() { self.steal_from(victim).0 } else { None }
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
        let (run, context) = (header.run, header.context);
        let before = self.owned.context.replace(context);
        // SAFETY: J1: the job is ours; `at` is this worker.
        unsafe { run(job, std::ptr::from_ref(at).cast()) };
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

/// About where the stack pointer is.
#[inline(never)]
fn stack_position() -> usize {
    let here = 0u8;
    std::ptr::from_ref(&here) as usize
}
