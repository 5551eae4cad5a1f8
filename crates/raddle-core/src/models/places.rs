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

mod pool;

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::fence::light;
use raddle_sync::thread;

use self::pool::{Pool, play, task};
use crate::places::Resumed;
use crate::queue::NOBODY;

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
    // What the searcher has found keeps it until the other task has been run.
    fn goes_to_work(pool: &Pool) {
        pool.hand_on();
    }
    play(2, with_a_sleeper, 1, &[sleeps, goes_to_work, |pool| pool.push(0, task())]);
}

/// As above, and it has the sleeper look on rather than look itself.
#[test]
fn a_push_against_the_last_searcher_that_wakes_a_lookout() {
    fn goes_to_work(pool: &Pool) {
        pool.hand_on_to_lookout();
    }
    play(2, with_a_sleeper, 1, &[sleeps, goes_to_work, |pool| pool.push(0, task())]);
}

/// A pool with a holder, a searcher, and worker 2 asleep.
fn with_a_sleeper() -> Pool {
    let pool = Pool::new(3, 3);
    assert!(pool.places.take());
    pool.places.take_searching();
    pool.places.parked.set(2);
    pool
}

/// The life of that worker.
fn sleeps(pool: &Pool) {
    while pool.places.parked.has(2) {
        pool.parkers[2].park();
    }
    pool.work(2, true, 1);
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
