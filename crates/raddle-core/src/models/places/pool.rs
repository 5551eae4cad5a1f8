//! A pool, as far as places go, and how a model is played in one.

use std::sync::Arc;

use raddle_sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use raddle_sync::fence::{heavy, light};
use raddle_sync::parker::Parker;

use crate::models::{Tally, check, idle_tasks, parker, together};
use crate::places::{Crew, Places};
use crate::queue::{Injector, NOBODY, Ring, Task};

/// A pool, as far as places go.
pub(super) struct Pool {
    pub(super) places: Places,
    pub(super) rings: Vec<Ring>,
    pub(super) injector: Injector,
    pub(super) parkers: Vec<&'static Parker>,
    /// Threads that a worker's memory is to have, to be started by the model.
    pub(super) started: AtomicUsize,
    /// Memory that may have a thread.
    pub(super) startable: bool,
    /// Whoever is asleep may go.
    pub(super) ended: AtomicBool,
    pub(super) ran: Tally,
}

impl Crew for Pool {
    fn sees_work(&self) -> bool {
        self.injector.len() > 0 || self.rings.iter().any(Ring::has_work)
    }

    fn look_around(&self) -> bool {
        heavy();
        self.sees_work()
    }

    fn rouse(&self, worker: usize) {
        self.parkers[worker].unpark();
    }

    fn may_start(&self) -> bool {
        self.startable && !self.ended()
    }

    fn start(&self) -> bool {
        if !self.may_start() {
            return false;
        }
        let Some(worker) = self.places.vacant.take_lowest() else { return false };
        // The thread that the model has ready.
        self.started.store(worker + 1, Ordering::Release);
        self.starter().unpark();
        true
    }

    fn rouse_host(&self, worker: usize) {
        self.parkers[worker].unpark();
    }
}

impl Pool {
    /// So many places, all free, and workers.
    pub(super) fn new(places: usize, workers: usize) -> Pool {
        Pool {
            places: Places::new(places, workers),
            rings: (0..workers).map(|_| Ring::new()).collect(),
            injector: Injector::new(),
            // One more, of the thread that is still to be started.
            parkers: (0..=workers).map(|_| parker()).collect(),
            started: AtomicUsize::new(0),
            startable: false,
            ended: AtomicBool::new(false),
            ran: Tally::default(),
        }
    }

    pub(super) fn starter(&self) -> &'static Parker {
        self.parkers[self.rings.len()]
    }

    // --- producers ---

    /// By a holder, as `WorkerMemory::announce`.
    pub(super) fn push(&self, me: usize, task: Task) {
        self.rings[me].push(task, NOBODY);
        light();
        self.places.wake_if_needed(self);
    }

    /// From outside, as `Registry::inject_again`.
    pub(super) fn inject(&self, task: Task) {
        self.injector.push([task]);
        fence(Ordering::SeqCst);
        self.places.wake_if_needed(self);
        if self.places.has_stranded() {
            self.places.recall(self);
        }
    }

    // --- threads ---

    pub(super) fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// There is nothing more to do.
    pub(super) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.parkers.iter().for_each(|parker| parker.unpark());
    }

    pub(super) fn find(&self, me: usize) -> bool {
        let injected = || self.injector.take::<1>().map(|batch| batch.into_iter().count());
        let found = self.rings[me].pop().is_some()
            || injected().is_some()
            || self.rings.iter().any(|ring| ring.steal().is_some());
        if found {
            self.ran.add();
        }
        found
    }

    /// A searcher has found work: sees to a successor, as `Registry::hand_on`.
    pub(super) fn hand_on(&self) {
        let look = self.places.stop_search();
        if self.places.counts().idle() > 0 {
            let near = self.sees_work();
            if near || look == crate::places::Look::Far && self.look_around() {
                self.places.wake_one(self);
            }
        }
    }

    /// As `hand_on`, by one that wakes somebody to look on rather than look for all.
    pub(super) fn hand_on_to_lookout(&self) {
        if self.places.stop_search() == crate::places::Look::Far {
            self.places.wake_one(self);
        }
    }

    /// The life of a thread that is a searcher to begin with, as `WorkerMemory::work`, until the pool has ended or the thread
    /// has left. It ends the pool when all `tasks` have been run.
    pub(super) fn work(&self, me: usize, mut searching: bool, tasks: u32) {
        while !self.ended() {
            if !self.places.counts().in_debt() {
                if self.find(me) {
                    if searching {
                        self.hand_on();
                    }
                    if self.ran.count() == tasks {
                        self.end();
                    }
                    searching = self.places.try_search(1);
                    continue;
                }
            }
            if !self.sleep(me, searching, false) {
                return;
            }
            searching = true;
        }
    }

    /// As `WorkerMemory::sleep`. False: the thread leaves; of itself if it is `late`.
    pub(super) fn sleep(&self, me: usize, searching: bool, late: bool) -> bool {
        if self.places.fall_asleep(self, me, searching) {
            return true;
        }
        self.places.recall(self);
        loop {
            if !self.places.parked.has(me) {
                return true;
            }
            let late = late || self.ended();
            if !late {
                self.parkers[me].park();
            }
            if (late || self.ended()) && self.places.parked.take(me) {
                return false;
            }
        }
    }
}

/// Runs each party in a thread of its own, and the last one in the model's.
pub(super) fn play(
    preemptions: usize,
    pool: fn() -> Pool,
    tasks: u32,
    parties: &'static [fn(&Pool)],
) {
    check(preemptions, move || {
        let pool = Arc::new(pool());
        together(&pool, parties);
        assert_eq!(pool.ran.count(), tasks, "each task ran once");
        assert!(!pool.sees_work());
    });
}

pub(super) fn task() -> Task {
    idle_tasks::<1>()[0]
}
