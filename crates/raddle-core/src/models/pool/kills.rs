//! Kills and interrupts, from outside and by tasks, while others wait.

use std::sync::Arc;

use super::*;
use crate::{FailureKind, blocking, interrupted};

/// What a scope spawns is no future, and runs.
#[test]
fn kill_all_beside_the_scope_of_a_guest() {
    check(|| {
        let (pool, tally) = (Arc::new(pool(2)), Tally::default());
        let other = Arc::clone(&pool);
        let killer = thread::spawn(move || assert_eq!(other.kill_all(), 0));
        pool.run(|_| tasks(&tally, 3));
        assert_eq!(tally.count(), 3);
        killer.join().unwrap();
    });
}

/// A task either does not start, or is killed while it waits for its scope, whose tasks run all the same.
fn kill_all_beside_a_task_with_a_scope(pool: Pool) {
    let (pool, tally) = (Arc::new(pool), Tally::default());
    let ours = tally.clone();
    let task = pool.spawn(move || tasks(&ours, 2));
    let other = Arc::clone(&pool);
    let killer = thread::spawn(move || other.kill_all());
    match task.wait() {
        Ok(()) => assert_eq!(tally.count(), 2),
        Err(failure) => assert_eq!(failure.kind(), FailureKind::Killed),
    }
    assert!(killer.join().unwrap() <= 1);
    drop(pool);
    assert!([0, 2].contains(&tally.count()), "half a scope");
}

#[test]
fn kill_all_beside_a_task_with_a_scope_on_one_thread() {
    check(|| kill_all_beside_a_task_with_a_scope(pool(1)));
}

#[test]
fn kill_all_beside_a_task_with_a_scope_on_two_threads() {
    check(|| kill_all_beside_a_task_with_a_scope(pool(2)));
}

#[test]
fn kill_all_beside_a_task_with_a_scope_without_spare_threads() {
    check(|| kill_all_beside_a_task_with_a_scope(small(1)));
}

/// One of them waits for the other, and somebody for both: all waits end, whoever is killed.
#[test]
fn kill_all_by_a_guest_beside_tasks_that_wait() {
    check(|| {
        let pool = Arc::new(pool(1));
        let (promise, set) = Promise::<u32>::new();
        let first = pool.spawn(move || set.wait());
        let second = pool.spawn(move || first.wait());
        let other = Arc::clone(&pool);
        let killer = thread::spawn(move || other.run(|_| other.kill_all()));
        drop(pool.spawn(move || promise.set(1)));
        match second.wait() {
            // The inner ones fail as killed, or as a promise that is dropped unset.
            Ok(Ok(Ok(value))) => assert_eq!(value, 1),
            Ok(Ok(Err(failure))) => assert_eq!(failure.kind(), FailureKind::Broken),
            Ok(Err(failure)) | Err(failure) => assert_eq!(failure.kind(), FailureKind::Killed),
        }
        killer.join().unwrap();
    });
}

/// The task waits for a promise whose handler another task sets off.
fn interrupt_beside_a_task_that_waits(pool: &Pool) {
    let (gone, goes) = Promise::new();
    let mut gone = Some(gone);
    let (promise, future) = Promise::<u32>::with_interrupt(move |_| {
        gone.take().into_iter().for_each(|gone: Promise<u32>| gone.set(7));
    });
    let waits = pool.spawn(move || goes.wait().unwrap());
    let interrupts = pool.spawn(move || future.interrupt("enough"));
    assert_eq!(waits.wait().unwrap(), 7);
    interrupts.wait().unwrap();
    drop(promise);
}

#[test]
fn an_interrupt_that_a_task_waits_for_on_one_thread() {
    check(|| interrupt_beside_a_task_that_waits(&pool(1)));
}

#[test]
fn an_interrupt_that_a_task_waits_for() {
    check(|| interrupt_beside_a_task_that_waits(&pool(2)));
}

/// Interrupted before it starts it does not run; while it waits, it goes on, and knows.
#[test]
fn an_interrupt_of_a_task_that_waits() {
    check(|| {
        let pool = pool(1);
        let (promise, set) = Promise::new();
        let waits = pool.spawn(move || {
            set.wait().unwrap();
            interrupted()
        });
        let sets = pool.spawn(move || promise.set(()));
        let thread = thread::spawn(move || {
            waits.interrupt("enough");
            waits
        });
        match thread.join().unwrap().wait() {
            Ok(_) => {}
            Err(failure) => assert_eq!(failure.kind(), FailureKind::Interrupted),
        }
        sets.wait().unwrap();
    });
}

/// It polls, and the task that interrupts it has its place meanwhile. (By `blocking`, as a yield needs a limit that ends.)
#[test]
fn an_interrupt_of_a_task_that_polls_by_another_on_one_thread() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let ours = tally.clone();
        let polls = pool.spawn(move || {
            ours.add();
            blocking(|| {
                while !interrupted() {
                    hint::spin_loop();
                }
            });
        });
        let interrupts = pool.spawn(move || {
            polls.interrupt("enough");
            polls
        });
        match interrupts.wait().unwrap().wait() {
            Ok(()) => assert_eq!(tally.count(), 1),
            Err(failure) => assert_eq!(failure.kind(), FailureKind::Interrupted),
        }
    });
}
