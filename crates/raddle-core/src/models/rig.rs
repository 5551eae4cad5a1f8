//! A pool without threads: what `pool::{shared, region, search}` do with the protocols, step by
//! step as there. One thread of the model plays one worker.

mod sleeping;
mod waiting;

use std::sync::Mutex;

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::parker::Parker;

use crate::deque::{ForkStack, Popped, Slot, Steal, Thief};
use crate::job::{ForkHeader, ForkJob, RunOn, TaskHeader, TaskVTable};
use crate::latch;
use crate::models::{Tally, parker};
use crate::queue::{Injector, Ring, Task};
use crate::sleep::Sleep;

/// What a fork does once it is counted.
pub(super) type Body = fn(Place<'_>, &Tally);

/// A fork whose work is to be counted.
type Job = ForkJob<(Tally, Body), u32>;

/// Where code runs: the worker, and its first free slot.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) rig: &'a Rig,
    pub(super) me: usize,
    pub(super) at: usize,
}

/// What a thief calls.
unsafe fn run_job(header: *const ForkHeader, place: RunOn) {
    // SAFETY: all forks of the models are such jobs.
    let job = unsafe { &*header.cast::<Job>() };
    // SAFETY: `run_fork` passes one.
    let place = unsafe { *place.cast::<Place<'_>>() };
    // SAFETY: J1: the caller has stolen it.
    unsafe { job.run_stolen(|work| run(place, &work)) };
}

fn run(place: Place<'_>, (ran, body): &(Tally, Body)) -> u32 {
    ran.add();
    body(place, ran);
    7
}

/// Whether the owner of a stolen fork helps its thief, as all do but those that unwind.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Waits {
    Helping,
    Idly,
}

pub(super) struct Region {
    pub(super) fork: ForkStack,
    pub(super) ring: Ring,
    pub(super) parker: &'static Parker,
    /// The victim of the fork that runs here, and the fork's slot. Only its own worker looks (R2).
    serving: Mutex<Option<(usize, usize)>>,
    slots: Box<[Slot]>,
    /// What is done to the fork of a slot that is pushed on an open stack, before it is published.
    loaded: Box<[UnsafeCell<bool>]>,
}

// SAFETY: `loaded` is the owner's, or the thief's.
unsafe impl Sync for Region {}
// SAFETY: as above.
unsafe impl Send for Region {}

impl Region {
    fn new() -> Region {
        let slots: Box<[Slot]> = (0..4).map(|_| Slot::new()).collect();
        let loaded = slots.iter().map(|_| UnsafeCell::new(false)).collect();
        Region {
            // SAFETY: the slots live as long as the region, on the heap.
            fork: unsafe { ForkStack::new(slots.as_ptr(), slots.len(), 0) },
            ring: Ring::new(),
            parker: parker(),
            serving: Mutex::new(None),
            slots,
            loaded,
        }
    }
}

pub(super) struct Rig {
    /// Forks at this slot and above are pushed on an open stack.
    open_from: usize,
    pub(super) sleep: Sleep,
    pub(super) injector: Injector,
    pub(super) regions: Vec<Region>,
    /// Every fork is recorded, or may be.
    recorded: bool,
}

impl Rig {
    /// A pool of so many workers, all busy.
    pub(super) fn new(workers: usize) -> Rig {
        Rig {
            open_from: usize::MAX,
            sleep: Sleep::new(workers),
            injector: Injector::new(),
            regions: (0..workers).map(|_| Region::new()).collect(),
            recorded: false,
        }
    }

    /// As while every fork is recorded; or, if not `from_the_start`, as soon as somebody says so.
    pub(super) fn recorded(mut self, from_the_start: bool) -> Rig {
        self.recorded = true;
        self.regions.iter().for_each(|region| region.fork.set_recorded(from_the_start));
        self
    }

    /// Forks at this slot and above are to be pushed on an open stack.
    pub(super) fn open_from(self, slot: usize) -> Rig {
        Rig { open_from: slot, ..self }
    }

    /// As where there is no process-wide fence.
    pub(super) fn portable(mut self) -> Rig {
        for region in &mut self.regions {
            region.fork.make_portable();
        }
        self
    }

    // --- `Worker::join` ---

    /// Forks a job at slot `at`, calls `first`, and takes the job back or waits for its thief.
    pub(super) fn join(&self, me: usize, at: usize, ran: &Tally, first: impl FnOnce()) {
        self.join_of(Place { rig: self, me, at }, ran, |_, _| (), Waits::Idly, first);
    }

    /// As `join`, of a job with this `body`.
    pub(super) fn join_of(
        &self,
        place: Place<'_>,
        ran: &Tally,
        body: Body,
        waits: Waits,
        first: impl FnOnce(),
    ) {
        let Place { me, at, .. } = place;
        let region = &self.regions[me];
        let slot = &region.slots[at];
        let job = Job::new((ran.clone(), body), 0, run_job);
        if region.fork.push(slot, job.header()) {
            self.pushed(me, slot);
        }
        first();
        let result = if region.fork.pop(slot) || self.popped(me, slot) {
            // SAFETY: J1: the pop gave it back.
            run(place, &unsafe { job.take_closure() })
        } else {
            self.await_thief(place, waits);
            // SAFETY: J2: the thief is done.
            unsafe { job.take_result() }.expect("the job does not panic")
        };
        assert_eq!(result, 7);
    }

    fn pushed(&self, me: usize, slot: &Slot) {
        let Region { fork, loaded, .. } = &self.regions[me];
        if fork.is_open() {
            // SAFETY: not published.
            loaded[fork.index_of(slot)].with_mut(|loaded| unsafe { *loaded = true });
        }
        if self.recorded && !fork.must_settle(slot) {
            return;
        }
        fork.publish(slot);
        fence(Ordering::SeqCst);
        if self.sleep.counts().need_wake() {
            self.wake_one();
        } else {
            self.wake_victim(me);
        }
    }

    /// Makes a worker's stack stay open; `at` is its first free slot.
    pub(super) fn stay_open(&self, me: usize, at: usize) {
        self.regions[me].fork.stay_open(&self.regions[me].slots[at]);
    }

    fn wake_victim(&self, me: usize) {
        let serving = *self.regions[me].serving.lock().unwrap();
        if let Some((victim, index)) = serving {
            let victim = &self.regions[victim];
            if latch::is_asleep(&victim.slots[index].done) {
                victim.parker.unpark();
            }
        }
    }

    fn popped(&self, me: usize, slot: &Slot) -> bool {
        if self.recorded && !self.regions[me].fork.must_settle(slot) {
            return true;
        }
        let wanted = self.sleep.counts().interested();
        let popped = self.regions[me].fork.pop_slow(slot, wanted);
        self.stay_attentive(me);
        popped == Popped::Owned
    }

    fn stay_attentive(&self, me: usize) {
        let fork = &self.regions[me].fork;
        fence(Ordering::SeqCst);
        let counts = self.sleep.counts();
        if !counts.interested() {
            self.wake_victim(me);
            return;
        }
        if !fork.has_public() {
            fork.request();
        } else if counts.need_wake() {
            self.wake_one();
        }
    }

    fn await_thief(&self, place: Place<'_>, waits: Waits) {
        let Place { me, at, .. } = place;
        let slot = &self.regions[me].slots[at];
        slot.mark_waiting();
        match waits {
            Waits::Helping => self.help(Place { at: at + 1, ..place }, slot),
            Waits::Idly => self.until_stolen(me, slot),
        }
        self.regions[me].fork.reset(slot);
        self.stay_attentive(me);
    }

    fn until_stolen(&self, me: usize, slot: &Slot) {
        while !latch::is_set(&slot.done) {
            if latch::prepare_sleep(&slot.done) {
                self.regions[me].parker.park();
            }
        }
    }

    /// A leaf that goes on until a thief has run the job at slot `at`.
    pub(super) fn long_leaf(&self, me: usize, at: usize) {
        self.until_stolen(me, &self.regions[me].slots[at]);
    }

    /// A fork at slot `at` that is never taken back: what its owner does next takes too long.
    pub(super) fn fork_for_good(&self, me: usize, at: usize) {
        let slot = &self.regions[me].slots[at];
        let job = Box::leak(Box::new(Job::new((Tally::default(), |_, _| ()), 0, run_job)));
        if self.regions[me].fork.push(slot, job.header()) {
            self.pushed(me, slot);
        }
    }

    // --- thieves ---

    /// Runs one public job of the victim. False: there is none, or two races were lost: two thieves
    /// that try for ever keep a model from its end.
    pub(super) fn steal(&self, me: usize, victim: usize) -> bool {
        Place { rig: self, me, at: 0 }.steal(victim, 0)
    }

    /// As `steal`, but takes what is private as well, by the heavy fence.
    pub(super) fn dislodge(&self, me: usize, victim: usize) -> bool {
        Place { rig: self, me, at: 0 }.dislodge(victim, 0)
    }
}

/// A stolen job that is still to be run.
pub(super) struct Loot {
    job: *mut ForkHeader,
    victim: usize,
    index: usize,
}

// SAFETY: J1: the job is its thief's.
unsafe impl Send for Loot {}

impl Place<'_> {
    /// Steals the victim's public job, which is there.
    pub(super) fn loot(self, victim: usize) -> Loot {
        match self.rig.regions[victim].fork.steal() {
            Steal::Job(job, index) => Loot { job, victim, index },
            other => unreachable!("{other:?}"),
        }
    }

    pub(super) fn run(self, loot: Loot) {
        self.run_fork(loot.job, loot.victim, loot.index);
    }

    /// As `Rig::steal`, from `floor` on.
    fn steal(self, victim: usize, floor: usize) -> bool {
        let fork = &self.rig.regions[victim].fork;
        for _ in 0..2 {
            match fork.steal_above(floor) {
                Steal::Job(job, index) => {
                    self.run_fork(job, victim, index);
                    return true;
                }
                Steal::Retry => {}
                Steal::Private | Steal::Empty => return false,
            }
        }
        false
    }

    fn dislodge(self, victim: usize, floor: usize) -> bool {
        let fork = &self.rig.regions[victim].fork;
        self.steal(victim, floor) || (fork.escalate() && self.steal(victim, floor))
    }

    fn run_fork(self, job: *mut ForkHeader, victim: usize, index: usize) {
        let serving = &self.rig.regions[self.me].serving;
        let owner = &self.rig.regions[victim];
        let slot = owner.fork.slot(index);
        let thief = Thief { worker: self.me, floor: self.at };
        slot.thief.store(thief.pack(), Ordering::Relaxed);
        // SAFETY: stolen.
        let loaded = owner.loaded[index].with(|loaded| unsafe { *loaded });
        assert!(loaded || index < self.rig.open_from, "was seen to before it was stolen");
        // SAFETY: I5: the job stays until `done` is set.
        let run = unsafe { &*job }.run;
        let served = serving.lock().unwrap().replace((victim, index));
        // SAFETY: J1: the job is ours.
        unsafe { run(job, std::ptr::from_ref(&self).cast()) };
        *serving.lock().unwrap() = served;
        latch::set_word(&slot.done, owner.parker);
    }
}

/// Tasks that only lie about in queues, leaked.
pub(super) fn idle_tasks<const N: usize>() -> [Task; N] {
    const IDLE: &TaskVTable =
        &TaskVTable { run: |_, _| unreachable!("not run"), kill: |_| false, bury: |_| () };
    std::array::from_fn(|_| Task::from(Box::leak(Box::new(TaskHeader::new(IDLE)))))
}
