//! How a worker waits.
//!
//! What a waiting thread takes on has to be over before it can go on. So it takes only what it waits for, by
//! dependency:
//!
//! | it waits for        | it takes                                                               |
//! |---------------------|------------------------------------------------------------------------|
//! | a stolen fork       | what the thief forked from it (leapfrogging)                             |
//! | a future            | its task and those upstream of it, if not started (see `spawn::task`)    |
//! | the tasks of a scope| tasks of that very scope                                                |
//!
//! And its mail, which is for it alone.
//!
//! When there is nothing of the kind it blocks, which gives its place to another thread (see `block`). So whatever else
//! there is to do is done beside it, never on top of it, and every wait ends that a thread per task would
//! end. Two things soften this. Where no thread is to be had (the system refuses one; at the cap of spare threads, once nothing has
//! ended for a while: see `relief`) a waiting thread that has the stack takes on anything, with the place of whoever found it. And in a pool of
//! [`Waits::Host`] it does so always, as rayon's threads do.
//!
//! # Invariants
//!
//! - **W1** Whoever waits for a thief, and could help it, sleeps only after it has set `done` of the slot to `SLEEPING`, raised the
//!   thief's `limit`, run the heavy fence and seen no fork of the thief's. (Without the stack for it there is nothing that it
//!   could do: it sleeps, and its place is for others. And a thief that does not sign cannot be asked: it sleeps for [`STILL`] at most.) A thief whose push is told
//!   of the raise runs a SeqCst fence and looks at `done` of the fork that it serves. So it either wakes the
//!   victim, or somebody else who will do, or its fork was seen. A thief that lowers `limit` otherwise does the
//!   same, as it may have overwritten the raise; the victim looks, and raises it, again. (A SeqCst fence
//!   between the victim's first two steps: as S3.)
//! - **W2** A worker that takes on anything while it waits has no slot of a fork that it serves say where it is,
//!   so nobody leapfrogs into what has nothing to do with that fork.

mod looks;

use raddle_sync::time::Instant;
use std::time::Duration;

use raddle_sync::atomic::Ordering;
use raddle_sync::{hint, stack, strand, thread};
use raddle_trace::{EventKind, Subject};

pub(crate) use self::looks::Looks;
use crate::depth;
use crate::fork_stack::{Slot, Thief};
use crate::latch::{self, Latch};
use crate::pool::builder::Waits;
use crate::pool::find_work::{Found, Work};
use crate::pool::policy::LAST_ROOM;
use crate::pool::recorder::{NOTHING, fork_key};
use crate::pool::relief::STILL;
use crate::pool::vain;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::{Hold, WorkerMemory};
use crate::pool::yields::Why;
use crate::queue::{NOBODY, Tag};
use crate::timer;

/// There such a wait sees nothing end for so many times as long, before it takes on something.
const LAST_PATIENCE: u32 = 10;

/// A thread that waits for a scope and holds a lock looks so often whether others have become unable to come.
const LONG_STILL: Duration = Duration::from_secs(1);

/// So many looks without progress a thread that yields takes for standing still: a tenth of a second.
const MANY_LOOKS: u32 = if cfg!(raddle_shuttle) { 3 } else { 1000 };
/// So many times a thread looks whether its thief is done before it does anything else: some 500 ns.
const SOON: u32 = if cfg!(raddle_model) { 1 } else { 40 };
/// So often a thread looks whether its thief has signed before it sleeps.
const UNSIGNED: u32 = if cfg!(raddle_model) { 3 } else { 100 };
/// So many times [`STILL`] a wait on a stack that is nearly full leaves what it would take on to others, though they get on.
const CRAMPED: u32 = 30;
/// So many times as many looks it takes for that whatever ends beside it.
const SELDOM: u32 = if cfg!(raddle_shuttle) { 2 } else { 30 };

/// What ends a wait.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Goal<'a> {
    /// The thief of this slot's fork is done. Inside of a `Drop` nothing runs meanwhile that others could run, as it would find
    /// itself panicking.
    Fork { slot: &'a Slot, helping: bool },
    /// The tasks of a scope are over. They bear this tag, and those that this worker spawned lie in its ring from this
    /// position on.
    Scope(&'a Latch, Tag, usize),
    /// A future is done, or the time has come.
    Future(&'a Latch, Option<Instant>),
    /// This is set. Nothing runs meanwhile that others could run: it may want what the thread holds that others do not see.
    Alone(&'a Latch),
    /// A future is done, or the waiter looks again whether it could run what it waits for. Meanwhile it waits as without a limit.
    Look(&'a Latch, Instant),
}

impl Goal<'_> {
    fn is_reached(self) -> bool {
        match self {
            Goal::Fork { slot, .. } => latch::is_set(&slot.done),
            Goal::Scope(latch, ..) | Goal::Alone(latch) => latch.is_set(),
            Goal::Future(latch, _) | Goal::Look(latch, _) => latch.is_set() || self.is_late(),
        }
    }

    /// When the wait is over in any case, or looks again.
    pub(crate) fn limit(self) -> Option<Instant> {
        match self {
            Goal::Future(_, deadline) => deadline,
            Goal::Look(_, time) => Some(time),
            Goal::Fork { .. } | Goal::Scope(..) | Goal::Alone(_) => None,
        }
    }

    pub(crate) fn is_late(self) -> bool {
        self.limit().is_some_and(|limit| Instant::now() >= limit)
    }

    /// As `is_reached`, without what is only a time to look again.
    fn is_over(self) -> bool {
        match self {
            Goal::Look(latch, _) => latch.is_set(),
            _ => self.is_reached(),
        }
    }

    /// Tells the goal's setter that this worker sleeps. False: no need to.
    fn prepare_sleep(self) -> bool {
        match self {
            Goal::Fork { slot, .. } => latch::prepare_sleep(&slot.done),
            Goal::Scope(latch, ..)
            | Goal::Future(latch, _)
            | Goal::Alone(latch)
            | Goal::Look(latch, _) => latch.prepare_sleep(),
        }
    }

    /// Whether nothing is to run meanwhile that others could run.
    pub(crate) fn is_alone(self) -> bool {
        self.is_limited() || matches!(self, Goal::Fork { helping: false, .. } | Goal::Alone(_))
    }

    /// Whether nothing at all is, as it might be too late then: but mail that has lain for long.
    pub(crate) fn is_limited(self) -> bool {
        matches!(self, Goal::Future(_, Some(_)))
    }
}

/// Records a wait, unless it is over at once.
struct Waiting<'a>(Option<(&'a WorkerMemory, (Subject, u32))>);

impl<'a> Waiting<'a> {
    fn begin(memory: &'a WorkerMemory, goal: Goal<'_>) -> Waiting<'a> {
        let key = match goal {
            Goal::Fork { slot, .. } => fork_key(memory, slot),
            _ => NOTHING,
        };
        if !memory.lane.is_on() || goal.is_reached() {
            return Waiting(None);
        }
        memory.lane.note(EventKind::Wait, 0, key);
        Waiting(Some((memory, key)))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if let Some((memory, key)) = self.0 {
            memory.lane.note(EventKind::Waited, 0, key);
        }
    }
}

impl WorkerMemory {
    /// Waits for the thief of the worker's fork, helping it if `helping`. The slot is then to be freed by
    /// `joined`.
    #[cold]
    #[inline(never)]
    pub(crate) fn await_thief(&self, worker: &Worker, helping: bool) {
        let slot = worker.slot();
        self.lane.note(EventKind::Join, 0, fork_key(self, slot));
        slot.mark_waiting();
        if self.is_done_soon(slot) {
            return;
        }
        self.owned.unsigned.set(0);
        self.await_goal(Goal::Fork { slot, helping }, worker.next());
    }

    /// Whether a stolen fork is done within about what a steal takes. To look meanwhile for what could be done would take longer,
    /// and reads what the thief writes.
    fn is_done_soon(&self, slot: &Slot) -> bool {
        (0..SOON).any(|_| {
            hint::spin_loop();
            latch::is_set(&slot.done)
        })
    }

    /// Waits on the current worker for what sets a latch. True: it is set.
    pub(crate) fn await_latch(&self, latch: &Latch, goal: Goal<'_>) -> bool {
        self.await_goal(goal, Worker::current());
        latch.is_set()
    }

    /// Waits until the goal is reached. Jobs that it takes on fork from `at` on; without it there are none.
    fn await_goal(&self, goal: Goal<'_>, at: Option<&Worker>) {
        if goal.is_reached() {
            return;
        }
        // Of this wait: what it takes on may wait, too.
        let wants_task = self.owned.wants_task.take();
        // What this thread has put off may be what it waits for.
        depth::flush();
        // What it takes on may take long, or wait for a timer.
        timer::about_to_block();
        let _waiting = Waiting::begin(self, goal);
        let purse = matches!(goal, Goal::Scope(..)).then(|| self.purse().open(NOBODY));
        let mut since: Option<Instant> = None;
        // Claimed to take something on: this thread counts as a searcher.
        let mut searching = false;
        self.owned.rest.forget();
        // Whoever was claimed has something to take on, even if it is time to look again.
        while !(goal.is_over() || goal.is_reached() && !searching) {
            if self.owned.rest.is_due() {
                self.rest_while(|| !goal.is_reached());
                continue;
            }
            if let Some((found, at)) = at.and_then(|at| Some((self.find(goal, at, searching)?, at)))
            {
                let claimed = std::mem::take(&mut searching);
                if claimed {
                    self.hand_on();
                }
                self.run_found(found, goal, at);
                if claimed {
                    self.registry().renew_credit();
                }
                since = None;
                continue;
            }
            if std::mem::take(&mut searching) {
                self.hand_on();
            }
            if self.open_beneath(goal) {
                since = None;
                continue;
            }
            // A wait looks without counting as a searcher: when its goal is reached it has better to do than to see to a
            // successor. It is patient each time: to sleep costs two heavy fences, and to be woken a wake.
            let patience = self.registry().patience(false, 0);
            if since.get_or_insert_with(Instant::now).elapsed() < patience {
                self.pause();
                continue;
            }
            if let Some((found, at)) = at.and_then(|at| Some((self.find_queued(goal)?, at))) {
                self.run_found(found, goal, at);
                since = None;
                continue;
            }
            searching = self.sleep_apart(goal, at, wants_task);
            self.owned.rest.forget();
            let waited = since.take().map_or(Duration::ZERO, |since| since.elapsed());
            if let Some(at) = at.filter(|_| !searching && self.must_overreach(goal, waited)) {
                if let Some(work) = self.find_at_last(goal, at) {
                    vain::apart(|| self.hidden(|| self.run_on_top(work, at)));
                    self.see_to_end();
                }
            }
        }
        self.owned.rest.forget();
        if goal.is_over() {
            self.owned.cramped.set(Duration::ZERO);
        }
        if searching {
            self.hand_on();
        }
        if let Some(outer) = purse {
            // Empty: see above.
            self.purse().close(outer);
        }
    }

    fn run_found(&self, found: Found, goal: Goal<'_>, at: &Worker) {
        let mut starve = false;
        match found {
            Found::Own(Work::Task(task, tag)) => {
                starve = self.run_own(task, tag, at);
                self.purse().turn_to(NOBODY);
            }
            Found::Own(work) => {
                self.run_on_top(work, at);
                starve = self.counts_inline() && self.others_starve();
            }
            Found::Any(work) => vain::apart(|| self.hidden(|| self.run_on_top(work, at))),
        }
        self.see_to_end();
        if starve && !goal.is_reached() {
            self.give_turn(Why::Waits);
        }
    }

    /// What it waits for that is queued for anybody: moved there, or spawned from outside. A look that may take long, so only
    /// before it sleeps, and only if nobody else may come for it.
    fn find_queued(&self, goal: Goal<'_>) -> Option<Found> {
        let Goal::Scope(_, tag, _) = goal else { return None };
        if !(self.has_room() && self.is_on_its_own()) {
            return None;
        }
        let registry = self.registry();
        let task = registry.injector.take_tagged(tag).or_else(|| {
            // Whoever holds a lock is no host, so nobody may ever come to what lies beneath others' tasks in a ring: once nobody
            // is idle and nothing has ended since the last look; now and then in any case, as what ends may be of no help.
            let sifts = strand::with_local(strand::Local::thread_holds)
                && !registry.is_seated()
                && !registry.places.has_somebody()
                && self.owned.looks.look(registry.progress()).is_still(1, SELDOM);
            sifts.then(|| registry.empty_rings())?;
            self.owned.looks.begin_anew();
            registry.injector.take_tagged(tag)
        });
        Some(Found::Own(Work::Task(task?, tag)))
    }

    /// Whether no other thread may come for what is queued.
    fn is_on_its_own(&self) -> bool {
        let registry = self.registry();
        registry.config.spares == 0 || registry.is_refused() || registry.has_nobody_else()
    }

    /// Blocks until the goal wakes this worker, or its thief, or somebody who has a place for a host. True: that.
    fn sleep_apart(&self, goal: Goal<'_>, at: Option<&Worker>, wants_task: bool) -> bool {
        let cramped = self.is_cramped(goal);
        self.ring.give_back();
        let helps = at.is_some() && self.has_room();
        if !goal.prepare_sleep() || helps && self.thief_has_work(goal) {
            return false;
        }
        // What a thread takes on may wait for what it holds itself.
        let free = !strand::with_local(strand::Local::thread_holds);
        // Within `blocking` there is no place that it could be given.
        let has_place = !matches!(self.owned.hold.get(), Hold::Away(_));
        let may_host = free && helps && has_place && !goal.is_alone();
        self.affinity.lie_down();
        self.lies_down(goal, may_host, wants_task);
        // ORD: a hint.
        self.serves.store(!self.owned.serving.get().is_null(), Ordering::Relaxed);
        self.owned.apart.set(true);
        self.lane.note(EventKind::Park, 0, NOTHING);
        let left = goal.limit().map(|limit| limit.saturating_duration_since(Instant::now()));
        if cramped {
            let last = stack::remaining() <= LAST_ROOM;
            let progress = self.registry().progress();
            let patience = if last { LAST_PATIENCE * STILL } else { STILL };
            let left = left.filter(|left| goal.is_limited() && *left < patience);
            let woken = self.parker().park_timeout(left.unwrap_or(patience)) || left.is_some();
            self.owned.stuck.set(!woken && progress == self.registry().progress());
        } else {
            // If all timers wait for this thread, each time the system is asked for another.
            let asks = timer::is_held_up().then_some(STILL);
            // Whoever queues a task of the scope from outside wakes others, and by then there may be none.
            let looks = matches!(goal, Goal::Scope(..)) && helps && !may_host;
            let rest = looks.then(|| if self.is_on_its_own() { STILL } else { LONG_STILL });
            // Its thief, which has not signed, has not been asked to wake it (W1): soon it looks again.
            let asks_thief = matches!(goal, Goal::Fork { helping: true, .. });
            let unsigned = asks_thief && self.owned.unsigned.get() > 0;
            let rest = if helps && unsigned { Some(STILL) } else { rest };
            let mail = at.and_then(|_| self.looks_at_mail_after(goal));
            let relies = asks.or(rest).or(mail).is_some();
            match [left, asks, rest, mail].into_iter().flatten().min() {
                Some(time) if relies => _ = self.parker().nap(time),
                Some(time) => _ = self.parker().park_timeout(time),
                None => self.parker().park(),
            }
        }
        self.lane.note(EventKind::Unparked, 0, NOTHING);
        self.owned.apart.set(false);
        self.gets_up();
        self.affinity.release();
        let claimed = self.owned.hold.get() == Hold::Claimed;
        if claimed {
            self.owned.hold.set(Hold::Place);
        }
        claimed
    }

    /// Asks the thief that is waited for to wake us when it forks, and looks whether it has (W1).
    fn thief_has_work(&self, goal: Goal<'_>) -> bool {
        let Goal::Fork { slot, helping: true } = goal else { return false };
        // ORD: a hint: where to look.
        let word = slot.thief.load(Ordering::Relaxed);
        if word == Thief::HIDDEN {
            self.owned.unsigned.set(0);
            return false;
        }
        let Some(thief) = Thief::unpack(word) else {
            // It has not signed yet: first it sees to a successor, which takes some microseconds, unless the system has stopped it,
            // perhaps in favour of this thread. Then this one sleeps for a while.
            let looks = self.owned.unsigned.get();
            self.owned.unsigned.set(looks.wrapping_add(1));
            thread::yield_now();
            return looks < UNSIGNED;
        };
        self.owned.unsigned.set(0);
        self.registry().memories[thief.worker].fork.watch(thief.floor)
    }

    /// Whether the wait would take on something if the stack had room: anything, or its mail; or leaves its mail for later. Nobody else
    /// may be there to do it, so after a while in which nothing has ended it does so all the same: in a pool that gets no threads to
    /// stand in, and for mail, with any stack that is left.
    fn is_cramped(&self, goal: Goal<'_>) -> bool {
        let leaves = self.owned.mailbox.leaves.get() || !self.has_room();
        self.hosts_at_last(goal) || leaves && self.opens_mail(goal) && self.leaves_no_lock()
    }

    /// Whether that is anything, and not only its mail.
    fn hosts_at_last(&self, goal: Goal<'_>) -> bool {
        if self.has_room() {
            return false;
        }
        let enough = || self.registry().is_seated() || stack::remaining() > LAST_ROOM;
        !goal.is_alone() && self.registry().config.waits == Waits::Host && enough()
    }

    /// What a wait takes on that is cramped: mail first, as nobody else does.
    fn find_at_last(&self, goal: Goal<'_>, at: &Worker) -> Option<Work> {
        let hosts = self.hosts_at_last(goal);
        self.mail_of_now_or_later().or_else(|| hosts.then(|| self.find_as_host(at))?)
    }

    /// Whether the wait takes on anything though its stack is nearly full, when it has waited for so long once more.
    fn must_overreach(&self, goal: Goal<'_>, waited: Duration) -> bool {
        let stuck = self.owned.stuck.take();
        if !self.is_cramped(goal) || goal.is_over() {
            return false;
        }
        // By the clock: a thief that forks a lot may wake it any number of times.
        let cramped = self.owned.cramped.get() + waited;
        // What ends elsewhere may be no help: a thread may wait for what lies here, and try again and again.
        let must = stuck || cramped >= CRAMPED * STILL && stack::remaining() > LAST_ROOM;
        self.owned.cramped.set(if must { Duration::ZERO } else { cramped });
        must
    }

    /// Whether a wait takes on anything of itself.
    pub(crate) fn is_host(&self, goal: Goal<'_>) -> bool {
        !goal.is_alone() && self.may_host()
    }

    fn may_host(&self) -> bool {
        self.registry().config.waits == Waits::Host && self.has_room()
    }

    /// Where a wait would take on anything, does so for once; and so it does where nobody else can come, once nothing has ended
    /// at very many looks: what it takes on may wait for what lies beneath. False: nothing was to be had.
    pub(crate) fn host_once(&self) -> bool {
        if !self.has_room() {
            return false;
        }
        let locked = strand::with_local(strand::Local::thread_holds);
        if self.may_host() {
            // It may want what is held beneath; within `blocking` there is none (see `broadcast`).
            let leaves = locked || !self.holds_place();
            let before =
                self.owned.mailbox.leaves.replace(leaves || self.owned.mailbox.leaves.get());
            let hosted = self.take_on(|at| self.find_as_host(at));
            self.owned.mailbox.leaves.set(before);
            return hosted;
        }
        let registry = self.registry();
        let looks = &self.owned.looks;
        if !self.is_on_its_own() {
            looks.begin_anew();
            return false;
        }
        // A thread that is idle does not come while there are more at work than there should be.
        let comes = registry.places.has_somebody() && !registry.places.counts().in_debt();
        if !registry.may_host() || comes || locked {
            return false;
        }
        let all = SELDOM * MANY_LOOKS;
        let still = looks.look(registry.progress()).is_still(MANY_LOOKS, all);
        let hosted = still && self.take_on(|at| self.find_as_host(at));
        if hosted {
            // No harm was done: the next comes at once.
            looks.go_on(all);
        }
        hosted
    }

    /// Runs what `find` finds, on top of this thread's stack. False: nothing.
    pub(crate) fn take_on(&self, find: impl FnOnce(&Worker) -> Option<Work>) -> bool {
        depth::flush();
        let Some(at) = Worker::current() else { return false };
        let Some(work) = find(at) else { return false };
        self.hidden(|| self.run_on_top(work, at));
        self.see_to_end();
        true
    }

    /// Runs what has been queued here since the ring ended at this position, the newest first, as long as it is not `over`.
    #[cold]
    #[inline(never)]
    pub(crate) fn run_above(&self, position: usize, over: impl Fn() -> bool) {
        while !over() && self.ring.reaches(position) && self.take_on(|_| self.newest()) {}
    }
}
