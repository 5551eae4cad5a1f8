//! A pool without threads: what `pool::{shared, region, search}` do with the protocols, step by
//! step as there. One thread of the model plays one worker.

mod sleeping;

use raddle_sync::atomic::{Ordering, fence};
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
}

/// Tasks that only lie about in queues, leaked.
pub(super) fn idle_tasks<const N: usize>() -> [Task; N] {
    const IDLE: &TaskVTable =
        &TaskVTable { run: |_, _| unreachable!("not run"), kill: |_| false, bury: |_| () };
    std::array::from_fn(|_| Task::from(Box::leak(Box::new(TaskHeader::new(IDLE)))))
}
