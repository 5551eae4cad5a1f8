//! What a worker without work finds. What it may take on while it waits: see the table in `wait`.

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::fence::light;
use raddle_sync::hint;
use raddle_sync::spin::Backoff;
use raddle_sync::time::Instant;
use raddle_trace::EventKind;

use crate::fork_stack::{Slot, Steal, Thief};
use crate::job::ForkHeader;
use crate::latch;
use crate::pool::builder::Waits;
use crate::pool::policy::POLL;
use crate::pool::recorder::{NOTHING, Place, fork_key, task_key};
use crate::pool::registry::{Registry, Waker};
use crate::pool::wait::Goal;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::{Hold, WorkerMemory};
use crate::queue::{NOBODY, Tag, Task};

/// Something to run.
#[derive(Debug)]
pub(crate) enum Work {
    Fork { job: *mut ForkHeader, victim: usize, index: usize },
    Task(Task, Tag),
}

/// A task out of a queue.
pub(super) fn tagged((task, tag): (Task, Tag)) -> Work {
    Work::Task(task, tag)
}

/// What a wait has found.
#[derive(Debug)]
pub(crate) enum Found {
    /// Something that it waits for.
    Own(Work),
    /// Anything.
    Any(Work),
}

/// Tasks that a worker takes from the injector at a time.
const GRAB: usize = 32;
/// Every so many turns what is oldest comes first, so that nothing starves.
pub(crate) const FAIRNESS: u32 = 61;
/// So many times a thief looks whether the owner, or another thief, is done with a fork that comes before what else there is.
const MOST_ROUNDS: usize = 1000;
/// What a round counts in which no other thread is about to have it.
const SLOW_ROUND: usize = 10;
/// So many tasks run out of turn before the ring is looked through for what is left of them.
const MANY_HUSKS: usize = 64;

impl WorkerMemory {
    // --- finding work ---

    /// Anything.
    #[inline(always)]
    pub(crate) fn find_any(&self, eager: bool) -> Option<Work> {
        // Where threads give their places away, those that come begin ever more in that order, the oldest forks first, and none of
        // what those wait for that yield.
        if self.is_ordered() {
            return self.find_in_order(eager, None);
        }
        let tick = self.owned.tick.get().wrapping_add(1);
        self.owned.tick.set(tick);
        if tick % FAIRNESS == 0 {
            if let Some(work) = self.oldest() {
                return Some(work);
            }
        }
        self.open_mail().or_else(|| self.own_task()).or_else(|| self.find_elsewhere(eager))
    }

    /// What a thread takes on before it pays a debt with its place: what only it may run; and if it was `claimed` just now, one thing
    /// of what others would take that had a place. Those that were quicker, guests or threads that had blocked, may be so each time.
    pub(crate) fn find_in_debt(&self, claimed: bool) -> Option<Work> {
        if self.is_ordered() {
            return (claimed || self.has_mail()).then(|| self.find_in_order(claimed, None))?;
        }
        self.open_mail().or_else(|| claimed.then(|| self.one_by_turns())?)
    }

    /// What has waited longest: in the injector, here, or with others, by turns, as there may always be something in one of them.
    fn one_by_turns(&self) -> Option<Work> {
        let turn = self.owned.tick.get().wrapping_add(1);
        self.owned.tick.set(turn);
        (0..3).find_map(|place| match (turn % 3 + place) % 3 {
            0 => self.registry().injector.take_one().map(tagged),
            1 => self.ring.steal_with_tag().map(tagged),
            _ => self.steal(false),
        })
    }

    /// As `find_any`, where there is nothing in the ring.
    fn find_elsewhere(&self, eager: bool) -> Option<Work> {
        // What is in hand of a scope would hold it up meanwhile.
        self.owned.purse.turn_to(NOBODY);
        let queued = if self.registry().is_crowded() { self.alternate() } else { self.grab() };
        queued.or_else(|| self.steal(eager))
    }

    pub(crate) fn newest(&self) -> Option<Work> {
        self.ring.pop_with_tag().map(tagged)
    }

    /// One task, by turns the newest and the oldest. Where many threads wait already, what is left to do had better let
    /// some of them go on than wait, too: that may be at either end.
    fn alternate(&self) -> Option<Work> {
        let injector = &self.registry().injector;
        if self.owned.tick.get() % 2 == 0 {
            return injector.take_newest().map(tagged);
        }
        injector.take_one().map(tagged)
    }

    /// What a wait may take on: see `wait`. Anything, if it was `claimed` for that.
    pub(crate) fn find(&self, goal: Goal<'_>, at: &Worker, claimed: bool) -> Option<Found> {
        if goal.is_alone() {
            return self.find_mail(goal).map(Found::Any);
        }
        if claimed {
            return self.find_as_host(at).map(Found::Any);
        }
        let ordered = self.is_ordered();
        // Then mail, and what a thief may be helped with, come after what lies here.
        let has_own =
            ordered && (self.ring.has_work() || self.is_host(goal) && self.fork.has_work());
        // Nobody else opens it, but what it holds may take more stack than there is: see `is_cramped`.
        let mail = if has_own || !self.has_room() { None } else { self.open_mail() };
        if mail.is_some() {
            return mail.map(Found::Any);
        }
        // The scope's own, with whatever stack: nobody else may come for it.
        let own = match goal {
            Goal::Scope(_, tag, _) if ordered => {
                self.next_own(tag, self.takes_oldest()).map(|task| Work::Task(task, tag))
            }
            _ => None,
        };
        if own.is_some() || !self.has_room() {
            return own.map(Found::Own);
        }
        let own = match goal {
            Goal::Fork { slot, .. } if !has_own => self.leapfrog(slot),
            Goal::Scope(_, tag, floor) if !ordered => self.task_of(tag, floor),
            _ => None,
        };
        own.map(Found::Own).or_else(|| {
            let work = self.is_host(goal).then(|| self.find_as_host(at));
            work.flatten().map(Found::Any)
        })
    }

    /// Whether programs rely on the order in which things are taken on.
    fn is_ordered(&self) -> bool {
        self.registry().is_seated() && self.registry().config.waits == Waits::Host
    }

    /// What a waiting thread may run that takes on anything: the rest of its own stack as well.
    pub(crate) fn find_as_host(&self, at: &Worker) -> Option<Work> {
        if self.registry().is_seated() {
            return self.find_in_order(true, Some(at));
        }
        self.find_any(true).or_else(|| self.own_fork(at))
    }

    /// Anything, where programs rely on an order: its own, the newest first; mail; what others have; what came from outside,
    /// the oldest first, and one at a time.
    fn find_in_order(&self, eager: bool, at: Option<&Worker>) -> Option<Work> {
        self.find_local(at).or_else(|| {
            self.owned.purse.turn_to(NOBODY);
            self.steal_in_order(eager)
        })
    }

    /// As `find_in_order`, of what nobody else need give.
    pub(crate) fn find_local(&self, at: Option<&Worker>) -> Option<Work> {
        self.own_task().or_else(|| self.own_fork(at?)).or_else(|| self.open_mail())
    }

    /// The next of this worker's own tasks.
    fn own_task(&self) -> Option<Work> {
        if self.takes_oldest() { self.ring.steal_with_tag().map(tagged) } else { self.newest() }
    }

    /// Whether of its own tasks the worker takes the oldest first.
    pub(crate) fn takes_oldest(&self) -> bool {
        self.registry().config.seats.as_ref().is_some_and(|seats| seats.oldest_first)
    }

    /// The next of this worker's own tasks, if it has this tag.
    pub(super) fn next_own(&self, tag: Tag, oldest: bool) -> Option<Task> {
        if oldest { self.ring.steal_tagged(tag) } else { self.ring.pop_tagged(tag).ok() }
    }

    /// The oldest of this worker's own forks: the rest of the stack on which it waits.
    fn own_fork(&self, at: &Worker) -> Option<Work> {
        if self.fork.has_work() && !self.fork.has_public() {
            self.fork.open(at.slot());
            self.stay_attentive();
        }
        self.steal_fork(self.index, 0, || true)
    }

    /// A task of the scope of this tag.
    fn task_of(&self, tag: Tag, floor: usize) -> Option<Work> {
        loop {
            match self.ring.pop_tagged(tag) {
                Ok(task) => return Some(Work::Task(task, tag)),
                // What lies on top is for others to run, while this worker waits for what may lie beneath.
                Err(true) if self.ring.reaches(floor.wrapping_sub(self.owned.cleared.get())) => {
                    self.registry().inject_again(self.ring.pop_with_tag());
                }
                Err(_) => break,
            }
        }
        self.others().find_map(|victim| {
            let task = self.registry().memories.get(victim)?.ring.steal_tagged(tag)?;
            self.lane.note(EventKind::Steal, victim, task_key(task));
            Some(Work::Task(task, tag))
        })
    }

    /// What has waited longest: in the injector, here, or with others, by turns.
    fn oldest(&self) -> Option<Work> {
        let own = || self.ring.steal_with_tag().map(tagged);
        let hidden = || self.dislodge(self.hidden_fork()?, 0, || true);
        match self.owned.tick.get() / FAIRNESS % 3 {
            0 => self.grab().or_else(own),
            1 => own().or_else(|| self.grab()),
            // What lies with a thread that is blocked, or beneath a leaf, is for those that work, who may have enough of their own.
            _ => hidden().or_else(|| self.steal(false)),
        }
    }

    /// The other workers, from a random one on.
    pub(super) fn others(&self) -> impl Iterator<Item = usize> {
        let count = self.registry().memories.end();
        let start = self.random() as usize % count;
        (start..count).chain(0..start).filter(|&victim| victim != self.index)
    }

    /// Helps the thief with what it forked from our job, as long as it is at that.
    fn leapfrog(&self, slot: &Slot) -> Option<Work> {
        // ORD: where to look; that it is so yet, `steal_above` finds out.
        let word = slot.thief.load(Ordering::Relaxed);
        let thief = Thief::unpack(word)?;
        let memory = &self.registry().memories[thief.worker];
        let fork = &memory.fork;
        let may_skip = !self.is_ordered();
        // ORD: stored before the thief's next forks were made public.
        let still = || {
            !latch::is_set(&slot.done)
                && slot.thief.load(Ordering::Relaxed) == word
                && (may_skip || !memory.has_older_task())
        };
        self.steal_fork(thief.worker, thief.floor, still).or_else(|| {
            let private = fork.has_work_above(thief.floor);
            private.then(|| self.ask(thief.worker, thief.floor, still)).flatten()
        })
    }

    /// Takes tasks from the injector: the oldest to run, the rest for the ring, next oldest on top.
    fn grab(&self) -> Option<Work> {
        // Callers are served in the order in which they came, whatever turn it is: not out of a ring.
        // ORD: whoever queues a call counts it before, and the injector's lock orders that.
        let calls = || self.registry().calls.load(Ordering::Relaxed) > 0;
        let most = || if calls() { 1 } else { GRAB };
        let mut batch = self.registry().injector.take_at_most::<GRAB>(most)?.tagged();
        let first = batch.next();
        let mut rest = batch.rev().peekable();
        if rest.peek().is_some() {
            rest.for_each(|(task, tag)| self.ring.push(task, tag));
            // On their way they were in no queue: whoever looked then may sleep now (S1).
            self.announce();
        }
        first.map(tagged)
    }

    fn steal_task_of(&self, victim: &WorkerMemory) -> Option<Work> {
        self.note_stolen(victim, victim.ring.steal_with_tag()?)
    }

    fn note_stolen(&self, victim: &WorkerMemory, (task, tag): (Task, Tag)) -> Option<Work> {
        self.lane.note(EventKind::Steal, victim.index, task_key(task));
        Some(Work::Task(task, tag))
    }

    /// One round over all other workers. Eager: private jobs too.
    fn steal(&self, eager: bool) -> Option<Work> {
        let mut private = None;
        for victim in self.others() {
            let Some(memory) = self.registry().memories.get(victim) else { continue };
            let work = self.steal_fork(victim, 0, || true);
            let work = work.or_else(|| self.steal_task_of(memory));
            if work.is_some() {
                return work;
            }
            if memory.fork.is_to_be_had() {
                private.get_or_insert(victim);
            }
        }
        self.ask(private.filter(|_| eager)?, 0, || true)
    }

    /// As `steal`, of each worker what is oldest, be it a fork or a task; then what came from outside: when nobody has anything, or
    /// nothing of it can be had in so many rounds, or but forks that are popped meanwhile.
    fn steal_in_order(&self, eager: bool) -> Option<Work> {
        let victims = || self.others().filter_map(|victim| self.registry().memories.get(victim));
        let mut rounds = 0;
        while rounds < MOST_ROUNDS {
            let mut more = false;
            for memory in victims() {
                match self.steal_oldest_of(memory) {
                    Ok(work) => return Some(work),
                    Err(any) => more |= any,
                }
            }
            if !more {
                break;
            }
            if !eager {
                // As a searcher it comes back; at the cap of those, others see to it.
                return None;
            }
            let ask =
                |memory: &WorkerMemory| self.dislodge(memory.index, 0, || !memory.has_older_task());
            let fork = victims().filter(|memory| memory.fork.has_work()).find_map(ask);
            if fork.is_some() {
                return fork;
            }
            // Somebody has it soon, if the system lets it run.
            let soon = victims().any(|memory| memory.fork.is_escalating());
            // Tasks do not vanish as forks do, and come before what is from outside.
            let lasts = || victims().any(|memory| memory.ring.has_work());
            if !soon && !lasts() && self.owned.rest.note_worthless() {
                break;
            }
            rounds += if soon { 1 } else { SLOW_ROUND };
            self.pause();
        }
        self.registry().injector.take_one().map(tagged)
    }

    /// Its oldest fork, if that is public, or its oldest task, whichever is older. Else whether there is something to come by.
    fn steal_oldest_of(&self, memory: &WorkerMemory) -> Result<Work, bool> {
        let fork = self.steal_fork(memory.index, 0, || !memory.has_older_task());
        let task = || {
            let is_next = |task| !memory.fork.is_to_be_had() || memory.fork_comes_after(task);
            self.note_stolen(memory, memory.ring.steal_at(is_next)?)
        };
        fork.or_else(task).ok_or_else(|| memory.fork.is_to_be_had() || memory.ring.has_work())
    }

    /// Whether its oldest task comes before its oldest fork.
    fn has_older_task(&self) -> bool {
        self.ring.has_work() && self.fork_comes_after(self.ring.oldest())
    }

    /// Whether its oldest fork comes after its task at this position.
    fn fork_comes_after(&self, task: usize) -> bool {
        self.fork.comes_after(task, self.ring.position())
    }

    /// A public fork of this worker, from `floor` on, if it is there `still`.
    fn steal_fork(&self, victim: usize, floor: usize, still: impl Fn() -> bool) -> Option<Work> {
        let mut backoff = Backoff::new();
        loop {
            match self.registry().memories[victim].fork.steal_above(floor, &still) {
                Steal::Job(job, index) => {
                    let memory = &self.registry().memories[victim];
                    let key = fork_key(memory, memory.fork.slot(index));
                    self.lane.note(EventKind::Steal, victim, key);
                    return Some(Work::Fork { job, victim, index });
                }
                // The owner is at it; if the system has stopped it, others may have something.
                Steal::Retry if !backoff.is_completed() => backoff.spin(),
                Steal::Retry | Steal::Private | Steal::Empty => return None,
            }
        }
    }

    /// As `dislodge`, where it was not worth it if the owner has popped it meanwhile, or another thief has it.
    fn ask(&self, victim: usize, floor: usize, still: impl Fn() -> bool) -> Option<Work> {
        self.dislodge(victim, floor, still).or_else(|| {
            self.owned.rest.note_worthless();
            None
        })
    }

    /// Gets a private fork, from `floor` on: asks, and if the owner does not answer, takes.
    fn dislodge(&self, victim: usize, floor: usize, still: impl Fn() -> bool) -> Option<Work> {
        let fork = &self.registry().memories[victim].fork;
        self.lane.note(EventKind::Ask, victim, NOTHING);
        fork.request();
        if !self.registry().oversubscribed {
            let asked = Instant::now();
            while asked.elapsed() < POLL {
                let work = self.steal_fork(victim, floor, &still);
                if work.is_some() || !fork.has_work_above(floor) || !still() {
                    return work;
                }
                hint::spin_loop();
            }
        }
        if still() && fork.escalate() { self.steal_fork(victim, floor, &still) } else { None }
    }

    // --- its own tasks ---

    /// Queues a task that this worker spawned, and sees that somebody comes for it.
    #[inline]
    pub(crate) fn queue(&self, task: Task, tag: Tag, place: Option<Place>) {
        self.entries.queue();
        if self.lane.has_tasks() {
            // Before a thief has it.
            self.lane.note_fork(self.ring.len() + 1, place, task_key(task));
        }
        self.ring.push(task, tag);
        self.announce();
    }

    /// After the ring has been added to: S1, steps 2 to 4.
    #[inline]
    fn announce(&self) {
        let registry = self.registry();
        if registry.process_wide && self.owned.hold.get() == Hold::Place {
            light();
        } else {
            fence(Ordering::SeqCst);
        }
        registry.wake_if_needed(Waker::Busy);
        registry.retry();
    }

    /// A task was run out of turn, or killed, whose entry still lies in some queue: perhaps in the ring, which is cleared when
    /// there are many.
    pub(crate) fn leave_husk(&self, at: &Worker) {
        let husks = self.owned.husks.get() + 1;
        self.owned.husks.set(husks);
        // Programs of rayon's rely on what lies where.
        if husks < MANY_HUSKS || husks < self.ring.len() / 2 || self.registry().is_seated() {
            return;
        }
        self.owned.husks.set(0);
        let before = self.ring.position();
        let mut rest = Vec::new();
        while let Some((task, tag)) = self.ring.pop_with_tag() {
            // SAFETY: a queued task is alive until its queue's share of it is used.
            let vtable = unsafe { task.as_ref() }.vtable;
            // SAFETY: as above.
            if unsafe { (vtable.is_void)(task) } {
                self.run_task(task, at);
            } else {
                rest.push((task, tag));
            }
        }
        let any = !rest.is_empty();
        rest.into_iter().rev().for_each(|(task, tag)| self.ring.push(task, tag));
        let cleared = before.wrapping_sub(self.ring.position());
        self.owned.cleared.set(self.owned.cleared.get().wrapping_add(cleared));
        if any {
            // As in `grab`.
            self.announce();
        }
    }

    /// A fresh id for a task.
    pub(crate) fn task_id(&self) -> u64 {
        let (mut next, mut end) = self.owned.ids.get();
        if next == end {
            (next, end) = self.registry().id_block(Registry::ID_BLOCK);
        }
        self.owned.ids.set((next + 1, end));
        next
    }
}
