//! A pool without threads: what `pool::{shared, region, search}` do with the protocols, step by
//! step as there. One thread of the model plays one worker.

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::fence::{heavy, light};
use raddle_sync::hint;
use raddle_sync::parker::Parker;

use crate::deque::{ForkStack, Popped, Slot, Steal, Thief};
use crate::job::{ForkHeader, ForkJob, RunOn, TaskHeader, TaskVTable};
use crate::latch;
use crate::models::{Tally, parker};
use crate::queue::{Injector, Ring, Task};
use crate::sleep::Sleep;

/// A fork whose work is to be counted.
type Job = ForkJob<Tally, u32>;

/// What a thief calls.
unsafe fn run_job(header: *const ForkHeader, _: RunOn) {
    // SAFETY: all forks of the models are such jobs.
    let job = unsafe { &*header.cast::<Job>() };
    // SAFETY: J1: the caller has stolen it.
    unsafe { job.run_stolen(|ran| run(&ran)) };
}

fn run(ran: &Tally) -> u32 {
    ran.add();
    7
}

pub(super) struct Region {
    pub(super) fork: ForkStack,
    pub(super) ring: Ring,
    pub(super) parker: &'static Parker,
    slots: Box<[Slot]>,
}

impl Region {
    fn new() -> Region {
        let slots: Box<[Slot]> = (0..4).map(|_| Slot::new()).collect();
        Region {
            // SAFETY: the slots live as long as the region, on the heap.
            fork: unsafe { ForkStack::new(slots.as_ptr(), slots.len(), 0) },
            ring: Ring::new(),
            parker: parker(),
            slots,
        }
    }
}

pub(super) struct Rig {
    pub(super) sleep: Sleep,
    pub(super) injector: Injector,
    pub(super) regions: Vec<Region>,
}

impl Rig {
    /// A pool of so many workers, all busy.
    pub(super) fn new(workers: usize) -> Rig {
        Rig {
            sleep: Sleep::new(workers),
            injector: Injector::new(),
            regions: (0..workers).map(|_| Region::new()).collect(),
        }
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
        let region = &self.regions[me];
        let slot = &region.slots[at];
        let job = Job::new(ran.clone(), 0, run_job);
        if region.fork.push(slot, job.header()) {
            self.pushed(me, slot);
        }
        first();
        let result = if region.fork.pop(slot) || self.popped(me, slot) {
            // SAFETY: J1: the pop gave it back.
            run(&unsafe { job.take_closure() })
        } else {
            self.await_thief(me, slot);
            // SAFETY: J2: the thief is done.
            unsafe { job.take_result() }.expect("the job does not panic")
        };
        assert_eq!(result, 7);
    }

    fn pushed(&self, me: usize, slot: &Slot) {
        self.regions[me].fork.publish(slot);
        fence(Ordering::SeqCst);
        self.wake_if_needed();
    }

    fn popped(&self, me: usize, slot: &Slot) -> bool {
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
            return;
        }
        if !fork.has_public() {
            fork.request();
        } else if counts.need_wake() {
            self.wake_one();
        }
    }

    /// Here the owner does nothing meanwhile but sleep.
    fn await_thief(&self, me: usize, slot: &Slot) {
        slot.mark_waiting();
        self.until_stolen(me, slot);
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
        let job = Box::leak(Box::new(Job::new(Tally::default(), 0, run_job)));
        if self.regions[me].fork.push(slot, job.header()) {
            self.pushed(me, slot);
        }
    }

    // --- thieves ---

    /// Runs one public job of the victim. False: there is none, or two races were lost: two thieves
    /// that try for ever keep a model from its end.
    pub(super) fn steal(&self, me: usize, victim: usize) -> bool {
        let fork = &self.regions[victim].fork;
        for _ in 0..2 {
            match fork.steal() {
                Steal::Job(job, index) => {
                    self.run_fork(me, job, victim, index);
                    return true;
                }
                Steal::Retry => {}
                Steal::Private | Steal::Empty => return false,
            }
        }
        false
    }

    /// As `steal`, but takes what is private as well, by the heavy fence.
    pub(super) fn dislodge(&self, me: usize, victim: usize) -> bool {
        self.steal(me, victim) || (self.regions[victim].fork.escalate() && self.steal(me, victim))
    }

    fn run_fork(&self, me: usize, job: *mut ForkHeader, victim: usize, index: usize) {
        let victim = &self.regions[victim];
        let slot = victim.fork.slot(index);
        let thief = Thief { worker: me, floor: 0 };
        slot.thief.store(thief.pack(), Ordering::Relaxed);
        // SAFETY: I5: the job stays until `done` is set.
        let run = unsafe { &*job }.run;
        // SAFETY: J1: the job is ours.
        unsafe { run(job, std::ptr::null()) };
        latch::set_word(&slot.done, victim.parker);
    }

    // --- tasks ---

    /// A worker spawns.
    pub(super) fn queue(&self, me: usize, task: Task) {
        self.push_task(me, task);
        self.announce();
    }

    pub(super) fn push_task(&self, me: usize, task: Task) {
        let ring = &self.regions[me].ring;
        let Err(task) = ring.push(task) else {
            return;
        };
        let oldest = std::iter::from_fn(|| ring.steal()).take(Ring::SPILL);
        self.injector.push(oldest.chain([task]));
    }

    fn announce(&self) {
        light();
        self.wake_if_needed();
    }

    /// A worker takes a task from the injector, and others for its ring.
    pub(super) fn grab(&self, me: usize) -> Option<Task> {
        let mut batch = self.injector.take::<2>()?.into_iter();
        let first = batch.next();
        let mut rest = batch.rev().peekable();
        if rest.peek().is_some() {
            rest.for_each(|task| self.push_task(me, task));
            self.announce();
        }
        first
    }

    /// Somebody from outside spawns.
    pub(super) fn inject(&self, tasks: impl IntoIterator<Item = Task>) {
        self.injector.push(tasks);
        fence(Ordering::SeqCst);
        self.wake_if_needed();
    }

    // --- waking and sleeping ---

    fn wake_if_needed(&self) {
        if self.sleep.counts().need_wake() {
            self.wake_one();
        }
    }

    fn wake_one(&self) {
        if let Some(worker) = self.sleep.claim() {
            self.regions[worker].parker.unpark();
        }
    }

    pub(super) fn has_work(&self) -> bool {
        let regions = &mut self.regions.iter();
        self.injector.len() > 0 || regions.any(|r| r.fork.has_work() || r.ring.has_work())
    }

    /// Whether a task lies anywhere, without a look at forks.
    pub(super) fn has_task(&self) -> bool {
        self.injector.len() > 0 || self.regions.iter().any(|r| r.ring.has_work())
    }

    fn look_around(&self) -> bool {
        for region in &self.regions {
            region.fork.request();
        }
        heavy();
        self.has_work()
    }

    /// A searcher stops; with few workers the cap on searchers is one.
    pub(super) fn hand_on(&self) {
        let alone = self.sleep.stop_search();
        if self.sleep.counts().sleeping() == 0 {
            return;
        }
        let work = self.has_work() || (alone && self.look_around());
        if work && self.sleep.counts().searching() == 0 {
            self.wake_one();
        }
    }

    /// Up to the moment when the worker parks. False: it found work at the last moment, and
    /// searches.
    pub(super) fn fall_asleep(&self, me: usize, searching: bool) -> bool {
        let stays = self.sleep.fall_asleep(me, searching) && self.look_around();
        if stays {
            self.sleep.stay_awake(me);
        }
        !stays
    }

    /// A guest has gone, and a worker that sleeps outside the counts may play (see `pool::bench`).
    pub(super) fn release(&self, worker: usize) {
        let before = self.sleep.unbench(worker);
        let unasked = before.searching() == 0 && before.sleeping() == 0;
        if unasked && self.look_around() {
            self.wake_one();
        }
    }

    /// After the park. True: it counts as a searcher.
    pub(super) fn rise(&self, me: usize) -> bool {
        !self.sleep.rise(me)
    }

    /// A searcher looks, and sleeps, until it has found something.
    pub(super) fn search(&self, me: usize, mut look: impl FnMut() -> bool) {
        let mut searching = true;
        while !look() {
            if self.fall_asleep(me, searching) {
                self.regions[me].parker.park();
                searching = self.rise(me);
            } else {
                searching = true;
                hint::spin_loop();
            }
        }
        if searching {
            self.hand_on();
        }
    }

    /// S1 when all is quiet: nobody sleeps beside work that nobody looks for.
    pub(super) fn assert_nobody_oversleeps(&self) {
        assert!(
            !(self.has_work() && self.sleep.counts().need_wake()),
            "work, a sleeper, and nobody who looks for it"
        );
    }
}

/// Tasks that only lie about in queues, leaked.
pub(super) fn idle_tasks<const N: usize>() -> [Task; N] {
    const IDLE: &TaskVTable =
        &TaskVTable { run: |_, _| unreachable!("not run"), kill: |_| false, bury: |_| () };
    std::array::from_fn(|_| Task::from(Box::leak(Box::new(TaskHeader::new(IDLE)))))
}
