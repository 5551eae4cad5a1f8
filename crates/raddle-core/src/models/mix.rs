//! Larger mixes, at random: several workers that fork, steal, sleep and wake, and one task among many
//! parties. Sequentially consistent, so these are about the steps and not about the orderings.

use std::sync::Arc;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::thread;

use crate::models::Tally;
use crate::models::rig::{Rig, idle_tasks};
use crate::models::task::{List, Record, Task, list};
use crate::queue::Injector;

const ITERATIONS: usize = 20_000;

fn check(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(model, ITERATIONS);
}

/// A binary tree of forks, the left side first.
fn tree(rig: &Rig, me: usize, at: usize, depth: usize, ran: &Tally) {
    if depth > 0 {
        rig.join(me, at, ran, || tree(rig, me, at + 1, depth - 1, ran));
        rig.join(me, at, ran, || ());
    }
}

/// What a tree of this depth forks.
fn forks(depth: u32) -> u32 {
    2 * depth
}

/// Two owners, each with a tree; two thieves steal from both, sleep and are woken, until all is done.
fn owners_and_thieves(rig: fn() -> Rig) {
    const OWNERS: usize = 2;
    const THIEVES: usize = 2;
    const DEPTH: u32 = 3;
    check(move || {
        let rig = Arc::new(rig());
        let ran = Tally::default();
        let busy = Arc::new(AtomicUsize::new(OWNERS));
        let thieves: Vec<_> = (OWNERS..OWNERS + THIEVES)
            .map(|me| {
                let (rig, busy) = (Arc::clone(&rig), Arc::clone(&busy));
                rig.sleep.add_searcher();
                thread::spawn(move || {
                    while busy.load(Ordering::SeqCst) > 0 {
                        rig.search(me, || {
                            (0..OWNERS).any(|owner| rig.dislodge(me, owner))
                                || busy.load(Ordering::SeqCst) == 0
                        });
                        while busy.load(Ordering::SeqCst) > 0 && !rig.sleep.try_search(2) {
                            thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let owners: Vec<_> = (0..OWNERS)
            .map(|me| {
                let (rig, ran, busy) = (Arc::clone(&rig), ran.clone(), Arc::clone(&busy));
                thread::spawn(move || {
                    tree(&rig, me, 0, DEPTH as usize, &ran);
                    if busy.fetch_sub(1, Ordering::SeqCst) == 1 {
                        for region in &rig.regions {
                            region.parker.unpark();
                        }
                    }
                })
            })
            .collect();
        for thread in owners.into_iter().chain(thieves) {
            thread.join().unwrap();
        }
        assert_eq!(ran.count(), OWNERS as u32 * forks(DEPTH));
    });
}

#[test]
fn two_owners_and_two_thieves_that_sleep() {
    owners_and_thieves(|| Rig::new(4));
}

#[test]
fn portable_two_owners_and_two_thieves_that_sleep() {
    owners_and_thieves(|| Rig::new(4).portable());
}

/// An owner whose last leaf lasts until all is stolen: whoever oversleeps makes it a deadlock.
#[test]
fn forks_that_only_thieves_can_end() {
    check(|| {
        const THIEVES: usize = 2;
        let rig = Arc::new(Rig::new(1 + THIEVES));
        let ran = Tally::default();
        let thieves: Vec<_> = (1..=THIEVES)
            .map(|me| {
                let rig = Arc::clone(&rig);
                rig.sleep.add_searcher();
                thread::spawn(move || rig.search(me, || rig.dislodge(me, 0)))
            })
            .collect();
        // As many forks as thieves, each of whom steals once and is busy ever after.
        rig.join(0, 0, &ran, || {
            rig.join(0, 1, &ran, || rig.long_leaf(0, 1));
        });
        for thief in thieves {
            thief.join().unwrap();
        }
        assert_eq!(ran.count(), THIEVES as u32);
    });
}

/// Producers inside and outside; each worker takes one task and is busy ever after.
#[test]
fn tasks_for_workers_that_fall_asleep() {
    check(|| {
        const WORKERS: usize = 3;
        let rig = Arc::new(Rig::new(1 + WORKERS));
        let workers: Vec<_> = (1..=WORKERS)
            .map(|me| {
                let rig = Arc::clone(&rig);
                rig.sleep.add_searcher();
                thread::spawn(move || {
                    rig.search(me, || {
                        rig.grab(me).is_some()
                            || (0..=WORKERS).any(|other| rig.regions[other].ring.steal().is_some())
                    });
                })
            })
            .collect();
        let outside = {
            let rig = Arc::clone(&rig);
            thread::spawn(move || {
                for task in idle_tasks::<2>() {
                    rig.inject([task]);
                }
            })
        };
        for task in idle_tasks::<1>() {
            rig.queue(0, task);
        }
        outside.join().unwrap();
        for worker in workers {
            worker.join().unwrap();
        }
        assert!(!rig.has_task());
    });
}

/// A task among its parties, one thread each; what is left in the queue is run at the end.
fn parties(parties: &'static [fn(&Arc<Task>, &Injector, &List)]) {
    check(move || {
        let record = Record::default();
        let stage = Arc::new((Task::new(&record), Injector::new(), list()));
        stage.1.push([stage.0.header()]);
        let threads: Vec<_> = parties
            .iter()
            .map(|&party| {
                let stage = Arc::clone(&stage);
                thread::spawn(move || party(&stage.0, &stage.1, &stage.2))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        works(&stage.0, &stage.1, &stage.2);
        record.assert_done();
    });
}

fn works(_: &Arc<Task>, injector: &Injector, list: &List) {
    for task in injector.take::<1>().into_iter().flat_map(|batch| batch.into_iter()) {
        // SAFETY: the stage keeps it.
        unsafe { Task::of(task) }.run(list);
    }
}

fn kills_all(_: &Arc<Task>, injector: &Injector, list: &List) {
    let batch = injector.take::<1>();
    let queued: Vec<_> = batch.into_iter().flat_map(|batch| batch.into_iter()).collect();
    for &task in &queued {
        // SAFETY: the stage keeps it.
        unsafe { Task::of(task) }.kill();
    }
    Task::kill_running(list);
    injector.push(queued);
}

#[test]
fn a_task_its_worker_two_killers_and_a_drop() {
    parties(&[works, kills_all, kills_all, |task, _, _| task.abandon()]);
}

#[test]
fn a_task_its_worker_two_killers_and_a_waiter() {
    parties(&[works, kills_all, kills_all, |task, _, _| task.wait()]);
}

#[test]
fn a_task_two_killers_and_a_waiter_who_helps() {
    parties(&[kills_all, kills_all, |task, injector, list| {
        task.run_here(injector, list);
        task.wait();
    }]);
}

#[test]
fn a_task_its_worker_a_killer_and_a_consumer_who_kills() {
    parties(&[works, kills_all, |task, _, _| {
        task.kill();
        task.abandon();
    }]);
}

#[test]
fn a_task_its_worker_a_killer_and_a_consumer_who_interrupts() {
    parties(&[works, kills_all, |task, _, _| {
        let pinned = task.pin();
        task.abandon();
        if pinned {
            task.interrupt_pinned();
        }
    }]);
}
