//! Models of sleeping and waking. Two kinds:
//!
//! - a producer needs its work done by a worker that goes to sleep: a lost wake-up is a deadlock,
//!   which loom reports;
//! - workers of which some stay asleep throughout, and no thread plays them: when all is quiet,
//!   nobody may be asleep beside work that nobody looks for (S1).
//!
//! Explored with at most three preemptions, those of three threads with two.

use std::sync::Arc;

use raddle_sync::thread;

use crate::models::rig::{Rig, idle_tasks};
use crate::models::{Tally, check};

const PRODUCER: usize = 0;
const WORKER: usize = 1;
const SLEEPER: usize = 2;

// --- a producer and a worker ---

/// Forks of the producer, which `produces`, against a worker that looks for so many.
fn forks(rig: fn() -> Rig, count: u32, produces: fn(&Rig, &Tally)) {
    check(3, move || {
        let rig = Arc::new(rig());
        // Nobody is interested in this one, so that the next are private.
        rig.join(PRODUCER, 0, &Tally::default(), || {});
        rig.sleep.add_searcher();
        let ran = Tally::default();
        let worker = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                for turn in 0..count {
                    if turn > 0 {
                        assert!(rig.sleep.try_search(1));
                    }
                    rig.search(WORKER, || rig.dislodge(WORKER, PRODUCER));
                }
            })
        };
        produces(&rig, &ran);
        worker.join().unwrap();
        assert_eq!(ran.count(), count);
    });
}

fn one_fork(rig: &Rig, ran: &Tally) {
    rig.join(PRODUCER, 0, ran, || rig.long_leaf(PRODUCER, 0));
}

#[test]
fn a_fork_against_falling_asleep() {
    forks(|| Rig::new(2), 1, one_fork);
}

#[test]
fn a_second_fork_against_falling_asleep() {
    forks(
        || Rig::new(2),
        2,
        |rig, ran| {
            rig.join(PRODUCER, 0, ran, || {
                rig.join(PRODUCER, 1, ran, || rig.long_leaf(PRODUCER, 1));
            });
        },
    );
}

#[test]
fn a_fork_after_a_stolen_one_against_falling_asleep() {
    forks(
        || Rig::new(2),
        2,
        |rig, ran| {
            one_fork(rig, ran);
            one_fork(rig, ran);
        },
    );
}

#[test]
fn a_fork_after_one_that_was_not_stolen_against_falling_asleep() {
    check(3, || {
        let rig = Arc::new(Rig::new(2));
        rig.join(PRODUCER, 0, &Tally::default(), || {});
        rig.sleep.add_searcher();
        let worker = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.fall_asleep(WORKER, true))
        };
        rig.join(PRODUCER, 0, &Tally::default(), || {});
        rig.fork_for_good(PRODUCER, 0);
        worker.join().unwrap();
        rig.assert_nobody_oversleeps();
    });
}

#[test]
fn portable_fork_against_falling_asleep() {
    forks(|| Rig::new(2).portable(), 1, one_fork);
}

/// Tasks, queued by `queue`, against a worker that looks for so many.
fn task(queue: fn(&Rig)) {
    check(3, move || {
        let rig = Arc::new(Rig::new(2));
        rig.sleep.add_searcher();
        let worker = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.search(WORKER, || rig.has_task()))
        };
        queue(&rig);
        worker.join().unwrap();
        rig.assert_nobody_oversleeps();
    });
}

#[test]
fn a_task_in_a_ring_against_falling_asleep() {
    task(|rig| rig.queue(PRODUCER, idle_tasks::<1>()[0]));
}

#[test]
fn a_task_from_outside_against_falling_asleep() {
    task(|rig| rig.inject(idle_tasks::<1>()));
}

// --- some stay asleep ---

/// `producer` against `worker`, who counts as searching, while another sleeps.
fn beside_a_sleeper(producer: fn(&Rig), worker: fn(&Rig)) {
    check(3, move || {
        let rig = Arc::new(Rig::new(3));
        rig.join(PRODUCER, 0, &Tally::default(), || {});
        rig.sleep.add_searcher();
        assert!(rig.fall_asleep(SLEEPER, false));
        let other = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || worker(&rig))
        };
        producer(&rig);
        other.join().unwrap();
        rig.assert_nobody_oversleeps();
    });
}

#[test]
fn a_task_against_the_last_searcher_who_goes_to_work() {
    beside_a_sleeper(|rig| rig.inject(idle_tasks::<1>()), Rig::hand_on);
}

#[test]
fn a_task_against_the_last_searcher_who_goes_to_sleep() {
    beside_a_sleeper(
        |rig| rig.queue(PRODUCER, idle_tasks::<1>()[0]),
        |rig| {
            rig.fall_asleep(WORKER, true);
        },
    );
}

#[test]
fn a_fork_against_the_last_searcher_who_goes_to_work() {
    beside_a_sleeper(|rig| rig.fork_for_good(PRODUCER, 0), Rig::hand_on);
}

#[test]
fn a_second_task_against_the_last_searcher_who_found_the_first() {
    beside_a_sleeper(
        |rig| {
            let tasks = idle_tasks::<2>();
            rig.queue(PRODUCER, tasks[0]);
            rig.queue(PRODUCER, tasks[1]);
        },
        |rig| {
            rig.regions[PRODUCER].ring.steal();
            rig.hand_on();
        },
    );
}

/// Of three tasks one worker takes two, one of them for its ring, and another the third.
#[test]
fn tasks_on_their_way_between_queues_against_falling_asleep() {
    check(3, || {
        let rig = Arc::new(Rig::new(3));
        rig.injector.push(idle_tasks::<3>());
        rig.sleep.add_searcher();
        let sleeper = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.fall_asleep(SLEEPER, true))
        };
        let worker = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.injector.take::<1>().is_some())
        };
        assert!(rig.grab(PRODUCER).is_some());
        worker.join().unwrap();
        sleeper.join().unwrap();
        rig.assert_nobody_oversleeps();
    });
}

/// The worker is claimed for new work at the moment at which what it waits for is there.
#[test]
fn a_claim_against_a_worker_that_wakes_for_another_reason() {
    check(3, || {
        let rig = Arc::new(Rig::new(3));
        assert!(rig.fall_asleep(WORKER, false));
        assert!(rig.fall_asleep(SLEEPER, false));
        let worker = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                if rig.rise(WORKER) {
                    rig.hand_on();
                }
            })
        };
        rig.inject(idle_tasks::<1>());
        worker.join().unwrap();
        rig.assert_nobody_oversleeps();
    });
}

#[test]
fn two_claims_against_a_worker_that_wakes_for_another_reason() {
    check(2, || {
        let rig = Arc::new(Rig::new(3));
        assert!(rig.fall_asleep(WORKER, false));
        assert!(rig.fall_asleep(SLEEPER, false));
        let injects = || {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.inject(idle_tasks::<1>()))
        };
        let injectors = [injects(), injects()];
        if rig.rise(WORKER) {
            rig.hand_on();
        }
        for injector in injectors {
            injector.join().unwrap();
        }
        rig.assert_nobody_oversleeps();
    });
}

/// A worker comes back among the sleepers while the only searcher goes to work and forks.
#[test]
fn the_end_of_a_bench_against_the_last_searcher_who_goes_to_work() {
    check(3, || {
        let rig = Arc::new(Rig::new(2));
        rig.join(PRODUCER, 0, &Tally::default(), || {});
        rig.sleep.add_searcher();
        let guest = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || rig.release(WORKER))
        };
        rig.hand_on();
        rig.fork_for_good(PRODUCER, 0);
        guest.join().unwrap();
        rig.assert_nobody_oversleeps();
    });
}
