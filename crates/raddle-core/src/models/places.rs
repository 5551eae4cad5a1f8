//! Models of places, with real rings, injectors and parkers: nobody sleeps beside work that nobody looks for.
//!
//! A pool here is a crew of workers with a ring each. Whoever is to find the work of a model cannot do without: if it
//! sleeps through it, all sleep, and loom reports a deadlock. Explored with two or three preemptions.
//!
//! What each fails without: the fence of `change`, of `strand` or of `recall`; the look of whoever falls asleep, or of a
//! holder that blocks; `recall` by a thread that leaves, or by a host; the look at bits, those of `vacant` too, after
//! stranding; the second set of `parked` by whoever finds no place to stay awake with; `resume` that minds the host's
//! bit; whoever sees a debt; the name of the napper, by which two who end a nap are one searcher. What they cannot show: that a near look will not do for a far one (a light fence is a full one
//! here); and the order of a bit and the place that is given, which `recall` makes up for.

use std::sync::Arc;

use raddle_sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use raddle_sync::fence::{heavy, light};
use raddle_sync::parker::Parker;
use raddle_sync::thread;

use crate::models::{Tally, check, idle_tasks, parker};
use crate::places::{Crew, Places, Resumed};
use crate::queue::{Injector, NOBODY, Ring, Task};

/// A pool, as far as places go.
struct Pool {
    places: Places,
    rings: Vec<Ring>,
    injector: Injector,
    parkers: Vec<&'static Parker>,
    /// Threads that a worker's memory is to have, to be started by the model.
    started: AtomicUsize,
    /// Memory that may have a thread.
    startable: bool,
    /// Whoever is asleep may go.
    ended: AtomicBool,
    ran: Tally,
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
    fn new(places: usize, workers: usize) -> Pool {
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

    fn starter(&self) -> &'static Parker {
        self.parkers[self.rings.len()]
    }

    // --- producers ---

    /// By a holder, as `WorkerMemory::announce`.
    fn push(&self, me: usize, task: Task) {
        self.rings[me].push(task, NOBODY);
        light();
        self.places.wake_if_needed(self);
    }

    /// From outside, as `Registry::inject_again`.
    fn inject(&self, task: Task) {
        self.injector.push([task]);
        fence(Ordering::SeqCst);
        self.places.wake_if_needed(self);
        if self.places.has_stranded() {
            self.places.recall(self);
        }
    }

    // --- threads ---

    fn ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// There is nothing more to do.
    fn end(&self) {
        self.ended.store(true, Ordering::Release);
        self.parkers.iter().for_each(|parker| parker.unpark());
    }

    fn find(&self, me: usize) -> bool {
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
    fn hand_on(&self) {
        let look = self.places.stop_search();
        if self.places.counts().idle() > 0 {
            let near = self.sees_work();
            if near || look == crate::places::Look::Far && self.look_around() {
                self.places.wake_one(self);
            }
        }
    }

    /// The life of a thread that is a searcher to begin with, as `WorkerMemory::work`, until the pool has ended or the thread
    /// has left. It ends the pool when all `tasks` have been run.
    fn work(&self, me: usize, mut searching: bool, tasks: u32) {
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
    fn sleep(&self, me: usize, searching: bool, late: bool) -> bool {
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
fn play(preemptions: usize, pool: fn() -> Pool, tasks: u32, parties: &'static [fn(&Pool)]) {
    check(preemptions, move || {
        let pool = Arc::new(pool());
        let (last, others) = parties.split_last().unwrap();
        let threads: Vec<_> = others
            .iter()
            .map(|&party| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || party(&pool))
            })
            .collect();
        last(&pool);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(pool.ran.count(), tasks, "each task ran once");
        assert!(!pool.sees_work());
    });
}

fn task() -> Task {
    idle_tasks::<1>()[0]
}

// --- (a) falling asleep ---

/// The last searcher goes to sleep while a holder queues a task, which nobody else will run.
#[test]
fn a_push_against_the_last_searcher_that_falls_asleep() {
    fn pool() -> Pool {
        let pool = Pool::new(2, 2);
        assert!(pool.places.take());
        pool.places.take_searching();
        pool
    }
    play(3, pool, 1, &[|pool| pool.work(1, true, 1), |pool| pool.push(0, task())]);
}

/// As above, from outside: by one that holds no place, and has no light fence.
#[test]
fn an_injection_against_the_last_searcher_that_falls_asleep() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 1);
        pool.places.take_searching();
        pool
    }
    play(3, pool, 1, &[|pool| pool.work(0, true, 1), |pool| pool.inject(task())]);
}

/// A searcher goes to work, the last one, while a holder queues a task: somebody asleep is to be woken.
#[test]
fn a_push_against_the_last_searcher_that_goes_to_work() {
    fn pool() -> Pool {
        let pool = Pool::new(3, 3);
        assert!(pool.places.take());
        pool.places.take_searching();
        pool.places.parked.set(2);
        pool
    }
    // What the searcher has found keeps it until the other task has been run.
    fn goes_to_work(pool: &Pool) {
        pool.hand_on();
    }
    fn sleeps(pool: &Pool) {
        while pool.places.parked.has(2) {
            pool.parkers[2].park();
        }
        pool.work(2, true, 1);
    }
    play(2, pool, 1, &[sleeps, goes_to_work, |pool| pool.push(0, task())]);
}

// --- (b) blocking ---

/// The only holder blocks with a task in its ring, while another comes from outside; a parked thread runs both.
#[test]
fn a_holder_that_blocks_against_an_injection() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 2);
        assert!(pool.places.take());
        pool.places.parked.set(1);
        pool
    }
    fn blocks(pool: &Pool) {
        pool.places.block(pool, 0, false);
        while !pool.ended() {
            pool.parkers[0].park();
        }
        let _ = pool.places.resume(0, false);
    }
    fn sleeps(pool: &Pool) {
        while pool.places.parked.has(1) {
            pool.parkers[1].park();
        }
        pool.work(1, true, 1);
    }
    play(2, pool, 1, &[sleeps, blocks, |pool| pool.inject(task())]);
}

/// A holder blocks while another, which is busy ever after, queues a task: the parked thread is to run it.
#[test]
fn a_holder_that_blocks_against_a_push() {
    fn pool() -> Pool {
        let pool = Pool::new(2, 3);
        assert!(pool.places.take());
        assert!(pool.places.take());
        pool.places.parked.set(2);
        pool
    }
    fn sleeps(pool: &Pool) {
        while pool.places.parked.has(2) {
            pool.parkers[2].park();
        }
        pool.work(2, true, 1);
    }
    play(
        2,
        pool,
        1,
        &[
            sleeps,
            |pool| pool.places.block(pool, 0, false),
            |pool| {
                pool.push(1, task());
            },
        ],
    );
}

/// A wait that is over goes on without a place, and whoever works in its stead pays: two work at most for a moment, and
/// in the end all is as it was.
#[test]
fn a_resumed_wait_against_who_works_in_its_stead() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 2);
        assert!(pool.places.take());
        pool.places.parked.set(1);
        pool
    }
    fn blocks(pool: &Pool) {
        // Its own, which the other takes or it does itself.
        pool.rings[0].push(task(), NOBODY);
        pool.places.block(pool, 0, false);
        let resumed = pool.places.resume(0, false);
        assert_ne!(resumed, Resumed::Claimed);
        pool.work(0, false, 1);
        assert!(pool.places.counts().idle() >= -1);
    }
    fn sleeps(pool: &Pool) {
        while pool.places.parked.has(1) && !pool.ended() {
            pool.parkers[1].park();
        }
        if pool.ended() && pool.places.parked.take(1) {
            return;
        }
        pool.work(1, true, 1);
    }
    play(3, pool, 1, &[sleeps, blocks]);
}

/// Whoever finds the pool in debt takes on one thing more at most: what it has found already.
#[test]
fn a_debt_against_a_searcher() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 2);
        pool.places.take_searching();
        pool
    }
    fn goes_on(pool: &Pool) {
        let _ = pool.places.resume(0, false);
        pool.push(0, task());
        pool.push(0, task());
        while pool.places.counts().idle() < 0 {
            thread::yield_now();
        }
        assert!(pool.find(0), "the debt is paid before the second");
        if pool.ran.count() == 2 {
            pool.end();
        }
        pool.work(0, false, 2);
    }
    play(2, pool, 2, &[|pool| pool.work(1, true, 2), goes_on]);
}

// --- (c) leaving ---

/// A thread leaves while somebody claims it: it stays, or another is started in its memory.
#[test]
fn a_thread_that_leaves_against_an_injection() {
    fn pool() -> Pool {
        let mut pool = Pool::new(1, 1);
        pool.startable = true;
        pool.places.take_searching();
        pool
    }
    fn leaves(pool: &Pool) {
        if pool.sleep(0, true, true) {
            pool.work(0, true, 1);
        } else {
            pool.places.leave(pool, 0);
        }
    }
    /// The thread that may be started.
    fn is_started(pool: &Pool) {
        while pool.started.load(Ordering::Acquire) == 0 {
            if pool.ended() {
                return;
            }
            pool.starter().park();
        }
        pool.work(0, true, 1);
    }
    play(3, pool, 1, &[leaves, is_started, |pool| pool.inject(task())]);
}

// --- (d) stranding ---

/// Nobody is to be had for a task, until a thread parks.
#[test]
fn stranding_against_a_holder_that_falls_asleep() {
    fn pool() -> Pool {
        let pool = Pool::new(2, 1);
        assert!(pool.places.take());
        pool
    }
    play(3, pool, 1, &[|pool| pool.work(0, false, 1), |pool| pool.inject(task())]);
}

/// Two bring work, and nobody is to be had until a thread parks, which finds that one of them has taken the place.
#[test]
fn stranding_against_a_searcher_that_cannot_stay_awake() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 1);
        pool.places.take_searching();
        pool
    }
    play(
        3,
        pool,
        2,
        &[
            |pool| pool.work(0, true, 2),
            |pool| pool.inject(task()),
            |pool| {
                pool.inject(task());
            },
        ],
    );
}

/// Nobody is to be had for a task, until a thread that waits becomes a host.
#[test]
fn stranding_against_a_host() {
    fn pool() -> Pool {
        let pool = Pool::new(2, 1);
        assert!(pool.places.take());
        pool
    }
    play(3, pool, 1, &[hosts_until_it_has_run, |pool| pool.inject(task())]);
}

/// Waits for the model's only task, which it may have to run itself.
fn hosts_until_it_has_run(pool: &Pool) {
    while pool.ran.count() == 0 {
        pool.places.block(pool, 0, true);
        pool.parkers[0].park();
        if pool.places.resume(0, true) == Resumed::Claimed {
            pool.find(0);
            pool.hand_on();
        }
    }
}

/// As above, and the host has to pay a debt, so that what it gives is no free place.
#[test]
fn stranding_beside_a_debt_against_a_host() {
    fn pool() -> Pool {
        let pool = Pool::new(2, 2);
        assert!(pool.places.take());
        pool
    }
    // It is busy ever after.
    fn goes_on(pool: &Pool) {
        let _ = pool.places.resume(1, false);
    }
    play(2, pool, 1, &[hosts_until_it_has_run, goes_on, |pool| pool.inject(task())]);
}

// --- (e) hosts ---

/// A host is claimed when its wait is over: the place is not lost, nor is the task.
#[test]
fn a_claim_of_a_host_against_the_end_of_its_wait() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 2);
        assert!(pool.places.take());
        pool
    }
    fn waits(pool: &Pool) {
        pool.places.block(pool, 0, true);
        pool.parkers[0].park();
        let resumed = pool.places.resume(0, true);
        // The wait may be over by now: it goes on with what it has, and then to the next search.
        if resumed == Resumed::Claimed {
            pool.hand_on();
        }
        pool.work(0, false, 1);
    }
    fn ends_it(pool: &Pool) {
        pool.parkers[0].unpark();
    }
    play(3, pool, 1, &[waits, ends_it, |pool| pool.inject(task())]);
}

// --- (f) naps ---

/// A nap that ends, and then nothing is to be seen; or something is.
fn naps(pool: &Pool, tasks: u32) {
    if pool.places.begin_nap(1) {
        pool.places.end_nap(1);
    }
    pool.work(1, true, tasks);
}

fn with_a_searcher() -> Pool {
    let pool = Pool::new(2, 2);
    assert!(pool.places.take());
    pool.places.take_searching();
    pool
}

/// As a fork, which is left to whoever naps.
fn leave(pool: &Pool, me: usize) {
    pool.rings[me].push(task(), NOBODY);
    light();
    if pool.places.counts().need_wake() {
        pool.places.wake_one(pool);
    }
}

/// What is left to a napper is found by it, before it sleeps for good.
#[test]
fn a_fork_against_a_nap_that_ends() {
    play(3, with_a_searcher, 1, &[|pool| naps(pool, 1), |pool| leave(pool, 0)]);
}

/// A task ends the nap while it ends of itself: the napper is one searcher, and has one token at most.
#[test]
fn a_push_against_a_nap_that_ends() {
    play(3, with_a_searcher, 1, &[|pool| naps(pool, 1), |pool| pool.push(0, task())]);
}

/// As above, and whoever brings the other task may find it awake, asleep, or at its second nap.
#[test]
fn two_that_bring_work_against_naps() {
    fn naps_twice(pool: &Pool) {
        if pool.places.begin_nap(1) {
            pool.places.end_nap(1);
        }
        naps(pool, 2);
    }
    play(2, with_a_searcher, 2, &[naps_twice, |pool| leave(pool, 0), |pool| pool.inject(task())]);
}

/// A guest takes the place of whoever naps, which pays when the nap is over; what the guest leaves is found.
#[test]
fn a_guest_against_the_nap_of_the_only_holder() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 2);
        pool.places.take_searching();
        pool
    }
    fn visits(pool: &Pool) {
        assert!(pool.places.try_take(), "who naps can do without a place");
        leave(pool, 0);
        pool.places.release(pool);
    }
    play(3, pool, 1, &[|pool| naps(pool, 1), visits]);
}
