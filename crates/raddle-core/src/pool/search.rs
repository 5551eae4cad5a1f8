//! The life of a thread of the pool: it looks for work, runs it, sleeps.

use raddle_sync::time::Instant;

use raddle_sync::{hint, stack, thread};
use raddle_trace::EventKind;

use crate::pool::policy::MOST_ROOM;
use crate::pool::recorder::NOTHING;
use crate::pool::registry::Waker;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::{Hold, WorkerMemory};
use crate::queue::NOBODY;

/// How a sleep ended.
enum Slept {
    /// The worker was claimed, or has found work: it counts as a searcher.
    Searching,
    /// The thread is to leave the pool.
    Leaves,
}

impl WorkerMemory {
    // --- coming and going ---

    /// The life of a thread of the pool, which was claimed for it: it counts as a searcher.
    pub(crate) fn main(&self) {
        self.owned.hold.set(Hold::Place);
        self.set_room();
        self.elsewhere.adopt();
        Worker::occupy(self);
        let current = self.base().enter();
        self.lane.note(EventKind::WorkerSpawn, self.index, NOTHING);
        let hooks = &self.registry().config.thread_hooks;
        hooks.start();
        self.work();
        hooks.exit();
        self.lane.note(EventKind::WorkerDie, self.index, NOTHING);
        drop(current);
        Worker::vacate(self);
        self.owned.hold.set(Hold::None);
    }

    /// A guest takes this worker memory and a place, in the context it has.
    pub(crate) fn guest_arrives(&self, context: usize) {
        self.owned.context.set(context);
        self.owned.hold.set(Hold::Place);
        self.set_room();
        Worker::occupy(self);
        self.heed_followers(self.base());
        // The first fork tells sleepers.
        self.fork.request();
    }

    /// The guest goes; what it spawned stays.
    pub(crate) fn guest_leaves(&self) {
        self.unload(self.base().slot());
        if self.ring.has_work() {
            self.registry().inject_again(std::iter::from_fn(|| self.ring.steal()));
        }
        Worker::vacate(self);
        if self.owned.hold.replace(Hold::None) == Hold::Place {
            let registry = self.registry();
            registry.sign_off(self);
            registry.places.release(&registry.crew(Waker::Idle));
        }
    }

    fn set_room(&self) {
        self.owned.room.set((stack::remaining() / 4).min(MOST_ROOM));
    }

    /// Whether the stack has room for more than what the thread has to do anyway.
    pub(crate) fn has_room(&self) -> bool {
        stack::remaining() > self.owned.room.get()
    }

    // --- the loop ---

    /// Works until the pool ends, or until there has been nothing to do for long.
    fn work(&self) {
        let registry = self.registry();
        let mut searching = true;
        // When the search began that has found nothing so far.
        let mut since: Option<Instant> = None;
        while !registry.ended() {
            if !registry.places.counts().in_debt() {
                if let Some(work) = self.find_any(searching) {
                    if searching {
                        registry.hand_on(Waker::Busy);
                    }
                    self.owned.fruitless.set(false);
                    searching = self.run(work);
                    since = None;
                    continue;
                }
                if since.is_none() {
                    self.lane.note(EventKind::Search, 0, NOTHING);
                }
                if !searching {
                    searching = registry.places.try_search(registry.search_cap());
                }
                if searching && since.get_or_insert_with(Instant::now).elapsed() < self.patience() {
                    self.pause();
                    continue;
                }
            }
            self.owned.purse.turn_to(NOBODY);
            self.owned.fruitless.set(true);
            match self.sleep(searching) {
                Slept::Searching => registry.pass_on(),
                Slept::Leaves => return,
            }
            searching = true;
            since = None;
        }
        // Places are of no use any more: the pool has ended.
    }

    fn patience(&self) -> std::time::Duration {
        let registry = self.registry();
        let time = registry.patience(self.owned.fruitless.get());
        registry.config.spin_for.map_or(time, |least| time.max(least))
    }

    /// A moment of a search.
    pub(crate) fn pause(&self) {
        if self.registry().oversubscribed { thread::yield_now() } else { hint::spin_loop() }
    }

    /// Gives the place away, and sleeps until claimed.
    fn sleep(&self, searching: bool) -> Slept {
        let registry = self.registry();
        registry.sign_off(self);
        self.owned.hold.set(Hold::None);
        self.elsewhere.lie_down();
        let crew = registry.crew(Waker::Idle);
        let awake = registry.places.fall_asleep(&crew, self.index, searching);
        if awake || self.has_mail() && self.wake_for_mail() {
            self.owned.hold.set(Hold::Place);
            self.elsewhere.release();
            return Slept::Searching;
        }
        registry.places.recall(&crew);
        registry.end_if_done();
        self.lane.note(EventKind::Park, 0, NOTHING);
        let slept = loop {
            if !registry.places.parked.has(self.index) {
                break Slept::Searching;
            }
            let ended = registry.ended();
            let late = ended || !self.parker().park_timeout(registry.config.keep_alive);
            if late && registry.places.parked.take(self.index) {
                break Slept::Leaves;
            }
        };
        self.lane.note(EventKind::Unparked, 0, NOTHING);
        self.elsewhere.release();
        // ORD: written before the token that woke us.
        let roused_at = self.roused_at.swap(0, raddle_sync::atomic::Ordering::Relaxed);
        if roused_at != 0 {
            registry.note_wake(roused_at);
        }
        if matches!(slept, Slept::Searching) {
            self.owned.hold.set(Hold::Place);
        }
        slept
    }

    /// There is mail, which only this thread may open.
    fn wake_for_mail(&self) -> bool {
        let places = &self.registry().places;
        if places.parked.take(self.index) {
            places.take_searching();
        }
        true
    }
}
