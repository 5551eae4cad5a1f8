//! Locks of `raddle_lock` in tasks: whoever waits for one gives its place away, and whoever holds one hosts nothing.

use std::sync::Arc;

use raddle_lock::{Condvar, Mutex};

use super::*;

type Number = Arc<Mutex<u32>>;

/// Adds to it in steps that others may come between.
fn raise(number: &Number) {
    let mut guard = number.lock();
    let before = *guard;
    thread::yield_now();
    *guard = before + 1;
}

fn contended_in(pool: &Pool) {
    let number = Number::default();
    let futures = [(); 3].map(|()| {
        let number = Arc::clone(&number);
        pool.spawn(move || raise(&number))
    });
    raise(&number);
    for future in futures {
        future.wait().unwrap();
    }
    assert_eq!(*number.lock(), 4);
}

#[test]
fn tasks_that_contend_for_a_lock_on_one_thread() {
    check(|| contended_in(&pool(1)));
}

#[test]
fn tasks_that_contend_for_a_lock() {
    check(|| contended_in(&pool(2)));
}

/// One holds it while it waits for a task that is queued behind one that wants it.
fn held_across_a_wait_in(pool: &Pool) {
    let number = Number::default();
    let (promise, future) = Promise::new();
    let holder = Arc::clone(&number);
    let holds = pool.spawn(move || {
        let mut guard = holder.lock();
        *guard += future.wait().unwrap();
    });
    let other = Arc::clone(&number);
    let wants = pool.spawn(move || raise(&other));
    let sets = pool.spawn(move || promise.set(1));
    for future in [holds, wants, sets] {
        future.wait().unwrap();
    }
    assert_eq!(*number.lock(), 2);
}

#[test]
fn a_lock_held_across_a_wait_on_one_thread() {
    check(|| held_across_a_wait_in(&pool(1)));
}

#[test]
fn a_lock_held_across_a_wait() {
    check(|| held_across_a_wait_in(&pool(2)));
}

/// What a wait runs on top of a stack that holds the lock is another strand: the tasks of the scope want it once it is free.
#[test]
fn a_lock_taken_by_tasks_of_a_scope_and_by_who_waits_for_them() {
    check(|| {
        let (pool, number) = (pool(2), Number::default());
        pool.run(|_| {
            scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|_| raise(&number));
                }
                raise(&number);
            });
        });
        assert_eq!(*number.lock(), 3);
    });
}

/// Guests wait for it as well: the one that sleeps leaves the only place to the other.
#[test]
fn guests_that_contend_for_a_lock_on_one_thread() {
    check(|| {
        let (pool, number) = (Arc::new(pool(1)), Number::default());
        let (other, theirs) = (Arc::clone(&pool), Arc::clone(&number));
        let thread = thread::spawn(move || other.run(|_| raise(&theirs)));
        pool.run(|_| raise(&number));
        thread.join().unwrap();
        assert_eq!(*number.lock(), 2);
    });
}

/// A condition that a task waits for gives the place to the task that brings it about.
#[test]
fn a_task_that_waits_for_a_condition_on_one_thread() {
    check(|| {
        let pool = pool(1);
        let shared: Arc<(Mutex<bool>, Condvar)> = Arc::default();
        let theirs = Arc::clone(&shared);
        let waits = pool.spawn(move || {
            let (ready, changed) = &*theirs;
            let mut ready = ready.lock();
            while !*ready {
                changed.wait(&mut ready);
            }
        });
        let notifies = pool.spawn(move || {
            let (ready, changed) = &*shared;
            *ready.lock() = true;
            changed.notify_one();
        });
        waits.wait().unwrap();
        notifies.wait().unwrap();
    });
}
