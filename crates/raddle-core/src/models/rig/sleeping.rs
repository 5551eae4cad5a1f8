//! The rig's tasks, and how its workers wake and sleep.

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::fence::{heavy, light};
use raddle_sync::hint;

use crate::models::rig::Rig;
use crate::queue::{Ring, Task};

impl Rig {
    // --- tasks ---

    /// A worker spawns.
    pub(in crate::models) fn queue(&self, me: usize, task: Task) {
        self.push_task(me, task);
        self.announce();
    }

    pub(in crate::models) fn push_task(&self, me: usize, task: Task) {
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
    pub(in crate::models) fn grab(&self, me: usize) -> Option<Task> {
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
    pub(in crate::models) fn inject(&self, tasks: impl IntoIterator<Item = Task>) {
        self.injector.push(tasks);
        fence(Ordering::SeqCst);
        self.wake_if_needed();
    }

    // --- waking and sleeping ---

    pub(in crate::models) fn wake_if_needed(&self) {
        if self.sleep.counts().need_wake() {
            self.wake_one();
        }
    }

    pub(in crate::models) fn wake_one(&self) {
        if let Some(worker) = self.sleep.claim() {
            self.regions[worker].parker.unpark();
        }
    }

    pub(in crate::models) fn has_work(&self) -> bool {
        let regions = &mut self.regions.iter();
        self.injector.len() > 0 || regions.any(|r| r.fork.has_work() || r.ring.has_work())
    }

    /// Whether a task lies anywhere, without a look at forks.
    pub(in crate::models) fn has_task(&self) -> bool {
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
    pub(in crate::models) fn hand_on(&self) {
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
    pub(in crate::models) fn fall_asleep(&self, me: usize, searching: bool) -> bool {
        let stays = self.sleep.fall_asleep(me, searching) && self.look_around();
        if stays {
            self.sleep.stay_awake(me);
        }
        !stays
    }

    /// A guest has gone, and a worker that sleeps outside the counts may play (see `pool::bench`).
    pub(in crate::models) fn release(&self, worker: usize) {
        let before = self.sleep.unbench(worker);
        let unasked = before.searching() == 0 && before.sleeping() == 0;
        if unasked && self.look_around() {
            self.wake_one();
        }
    }

    /// After the park. True: it counts as a searcher.
    pub(in crate::models) fn rise(&self, me: usize) -> bool {
        !self.sleep.rise(me)
    }

    /// A searcher looks, and sleeps, until it has found something.
    pub(in crate::models) fn search(&self, me: usize, mut look: impl FnMut() -> bool) {
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
    pub(in crate::models) fn assert_nobody_oversleeps(&self) {
        assert!(
            !(self.has_work() && self.sleep.counts().need_wake()),
            "work, a sleeper, and nobody who looks for it"
        );
    }
}
