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
//!   victim, or somebody else who will do, or its fork was seen. A thief that lowers `limit` otherwise does the
//!   same, as it may have overwritten the raise; the victim looks, and raises it, again. (A SeqCst fence
//!   between the victim's first two steps: as S3.)

use std::time::{Duration, Instant};

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::{hint, thread};

use raddle_trace::{EventKind, Subject};

use crate::deque::{Popped, Slot, Thief};
use crate::latch::{self, Latch};
use crate::local::{self, Baggage};
use crate::pool::hunt::stack_position;
use crate::pool::recorder::{NOTHING, fork_key};
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

/// Records a wait, unless it is over at once.
struct Waiting<'a>(Option<(&'a Region, (Subject, u32))>);

impl<'a> Waiting<'a> {
    fn begin(region: &'a Region, goal: Goal<'_>) -> Waiting<'a> {
        let key = match goal {
            Goal::Fork(slot) => fork_key(region, slot),
            Goal::Scope(_) | Goal::Future(..) => NOTHING,
            Goal::Idle => return Waiting(None),
        };
        if !region.lane.is_on() || region.is_reached(goal) {
            return Waiting(None);
        }
        region.lane.note(EventKind::Wait, 0, key);
        Waiting(Some((region, key)))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some((region, key)) = self.0 {
            region.lane.note(EventKind::Waited, 0, key);
        }
    }
}

/// How a sleep ended.
enum Slept {
    /// The worker is awake again; `counted` says whether as a searcher.
    Woken { counted: bool },
    /// The thread has left the pool.
    Left,
}

/// How much stack a guest may have used below its entry and still take on foreign work.
const GUEST_STACK: usize = 512 << 10;
/// Rust's default for threads, of which half may be used before foreign work is refused.
const DEFAULT_STACK: usize = 2 << 20;
impl Region {
    // --- coming and going ---

    /// The life of a thread of the pool.
    pub(crate) fn main(&self) {
        let size = self.shared().config.stack_size.unwrap_or(DEFAULT_STACK);
        self.owned.stack_floor.set(stack_position().saturating_sub(size / 2));
        self.elsewhere.adopt();
        let _current = self.base().enter();
        self.lane.note(EventKind::WorkerSpawn, self.index, NOTHING);
        self.work_until(Goal::Idle, Some(self.base()), true);
        self.lane.note(EventKind::WorkerDie, self.index, NOTHING);
    }

    /// A guest takes this region, in the context it has.
    pub(crate) fn guest_arrives(&self, context: usize) {
        self.owned.context.set(context);
        self.owned.stack_floor.set(stack_position().saturating_sub(GUEST_STACK));
        self.heed_followers(self.base());
        // The first fork tells sleepers.
        self.fork.request();
    }

    /// The guest goes; what it spawned stays.
    pub(crate) fn guest_leaves(&self) {
        self.unload(self.base().slot());
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
        if self.fork.is_open() {
            self.load(slot);
        }
        if self.lane.has_tasks() {
            let length = self.fork.len_below(slot) + 1;
            self.lane.note(EventKind::Fork, length, fork_key(self, slot));
            if !self.fork.must_settle(slot) {
                return;
            }
        }
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
            self.shared().note_wake_of(victim, || self.shared().regions[victim].parker().unpark());
        }
    }

    /// After a pop that was not fast: true if the fork is the owner's, to be run in place. If it is to be
    /// recorded, then not: see [`Region::take_recorded_pop`].
    #[cold]
    #[inline(never)]
    pub(crate) fn popped(&self, slot: &Slot) -> bool {
        if !self.lane.has_tasks() {
            return self.regained(slot);
        }
        let owned = !self.fork.must_settle(slot) || self.regained(slot);
        self.owned.recorded_pop.set(owned);
        false
    }

    /// Whether `popped` said no only to have the second half run out of line, where it is recorded.
    pub(crate) fn take_recorded_pop(&self) -> bool {
        self.owned.recorded_pop.take()
    }

    /// After a pop that was not fast: true if the fork is the owner's.
    #[cold]
    #[inline(never)]
    pub(crate) fn regained(&self, slot: &Slot) -> bool {
        // Who waits for this very job is no searcher, and helps all the same.
        let wanted = self.shared().sleep.counts().interested() || self.is_awaited();
        let popped = self.fork.pop_slow(slot, wanted);
        self.stay_attentive();
        let owned = popped == Popped::Owned;
        if owned {
            self.unload(slot);
        }
        owned
    }

    /// Whether the fork that runs here was stolen from somebody who waits for it: a hint.
    fn is_awaited(&self) -> bool {
        let (slot, _) = self.owned.serving.get();
        // SAFETY: slots live as long as the pool (R1).
        unsafe { slot.as_ref() }.is_some_and(Slot::is_awaited)
    }

    /// After the owner has lowered `limit`: raises it again if somebody still waits for work, and
    /// wakes somebody if there is some (S3). The raise may also have been the victim's (W1).
    pub(crate) fn stay_attentive(&self) {
        fence(Ordering::SeqCst); // S3, W1
        let counts = self.shared().sleep.counts();
        if !counts.interested() {
            self.wake_victim();
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
        self.lane.note(EventKind::Join, 0, fork_key(self, slot));
        slot.mark_waiting();
        self.work_until(Goal::Fork(slot), worker.next().filter(|_| helping), false);
    }

    /// Frees the slot of a fork whose thief is done.
    pub(crate) fn joined(&self, worker: &Worker) {
        self.fork.reset(worker.slot());
        self.unload(worker.slot());
        self.lane.note(EventKind::Joined, 0, fork_key(self, worker.slot()));
        self.stay_attentive();
    }

    // --- what else follows forks: see `local::follow` ---

    /// From now on forks are seen to, if anything follows tasks. `head` is the first free slot.
    pub(crate) fn heed_followers(&self, head: &Worker) {
        if local::is_followed() && !self.fork.is_open() {
            self.fork.stay_open(head.slot());
        }
    }

    /// Has the fork just pushed take along what follows it. No thief has it yet.
    fn load(&self, slot: &Slot) {
        self.unload(slot);
        // Should a follower fork, then not here, which would publish this fork too early.
        let hint = Worker::hint();
        Worker::set_hint(std::ptr::null());
        let trail = local::capture_trail();
        Worker::set_hint(hint);
        let Some(trail) = trail else { return };
        let baggage = Baggage::new(self.owned.context.get(), trail);
        slot.fork().context.set(baggage.word());
        self.owned.baggage.borrow_mut().push((self.fork.index_of(slot), baggage));
    }

    /// Drops what forks from this slot on took along: they are over.
    fn unload(&self, slot: &Slot) {
        let index = self.fork.index_of(slot);
        let pop = |all: &mut Vec<(usize, Box<Baggage>)>| match all.last() {
            Some((at, _)) if *at >= index => all.pop(),
            _ => None,
        };
        loop {
            // Dropped when the list is not borrowed any more: it is the followers'.
            let over = pop(&mut self.owned.baggage.borrow_mut());
            if over.is_none() {
                return;
            }
        }
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
        let _waiting = Waiting::begin(self, goal);
        let mut since = Instant::now();
        let mut fruitless = false;
        while !self.is_reached(goal) {
            if let Some((work, at)) = at.and_then(|at| Some((self.find(goal, at, searching)?, at)))
            {
                if searching {
                    shared.hand_on(Waker::Busy);
                }
                self.owned.fruitless.set(false);
                searching = self.run(work, at, goal);
                since = Instant::now();
                fruitless = false;
                continue;
            }
            // Who waits looks for work without counting as a searcher: when his goal is reached he has
            // better to do than to see to a successor.
            let waits = !matches!(goal, Goal::Idle);
            if !waits && !std::mem::replace(&mut fruitless, true) {
                self.lane.note(EventKind::Search, 0, NOTHING);
            }
            if self.is_benched() {
                // To sleep at once.
            } else if !searching && !waits {
                searching = shared.sleep.try_search(shared.search_cap());
                since = Instant::now();
                if searching {
                    continue;
                }
            } else if since.elapsed() < self.patience(waits) {
                if shared.oversubscribed {
                    thread::yield_now()
                } else {
                    hint::spin_loop()
                }
                continue;
            }
            if !waits {
                self.owned.fruitless.set(true);
            }
            match self.sleep(goal, at, searching) {
                Slept::Woken { counted } => {
                    searching = counted;
                    if searching {
                        shared.pass_on();
                    }
                }
                Slept::Left => return,
            }
            since = Instant::now();
        }
        if searching {
            shared.hand_on(Waker::Busy);
        }
    }

    /// Whether a guest works in this thread's stead: a hint.
    pub(crate) fn is_benched(&self) -> bool {
        self.index < self.shared().crew() && self.shared().benches.is_asked(self.index)
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

    /// How long this search may go on. Who waits is patient each time: going to sleep costs him two heavy
    /// fences, and his thief a wake.
    fn patience(&self, waits: bool) -> Duration {
        self.shared().patience(self.owned.fruitless.get() && !waits)
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
        let is_thread = self.index < shared.crew();
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
            let is_guest = self.index >= shared.crew();
            let is_replaced = matches!(goal, Goal::Future(..)) && shared.config.reserve > 0;
            if is_guest {
                shared.gate.rest(shared);
            } else if is_replaced {
                shared.rest();
            }
            self.park(goal);
            if is_guest {
                shared.gate.resume(shared);
            } else if is_replaced {
                shared.resume();
            }
        }
        Slept::Woken { counted: false }
    }

    /// Parks for as long as the goal allows. False: that time is over.
    fn park(&self, goal: Goal<'_>) -> bool {
        self.lane.note(EventKind::Park, 0, NOTHING);
        let woken = self.park_unrecorded(goal);
        self.lane.note(EventKind::Unparked, 0, NOTHING);
        woken
    }

    fn park_unrecorded(&self, goal: Goal<'_>) -> bool {
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
        fence(Ordering::SeqCst); // W1
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
