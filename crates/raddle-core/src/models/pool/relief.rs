//! Pools at their cap of spare threads, all of whose threads wait for what is queued: relief ends that (`pool::relief`).
//!
//! Whoever can is asked to host; where nobody can there come more threads than there should be. What these fail without: that
//! stranded places have the timer look, and again after each look; that a look calls the places back; hosts, threads beyond the
//! cap, and hosts without a look where there is no timer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use raddle_lock::Mutex;

use super::*;
use crate::blocking;

/// One thread, and one in its stead.
fn capped() -> Pool {
    Pool::builder().threads(1).max_spare_threads(1).build().expect("the pool can be built")
}

/// So many tasks wait for one that is queued behind them.
fn waiters_in(pool: &Pool, count: u32) {
    let (promise, future) = Promise::new();
    let set = future.shared();
    let waits: Vec<_> = (0..count)
        .map(|_| {
            let set = set.clone();
            pool.spawn(move || set.wait().unwrap())
        })
        .collect();
    let sets = pool.spawn(move || promise.set(1));
    for future in waits {
        assert_eq!(future.wait().unwrap(), 1);
    }
    sets.wait().unwrap();
}

/// Threads would come as well, later: whether hosts were asked is seen over all schedules.
#[test]
fn as_many_tasks_as_threads_that_wait_for_another() {
    static HOSTED: AtomicU64 = AtomicU64::new(0);
    check(|| {
        let pool = capped();
        waiters_in(&pool, 2);
        HOSTED.fetch_add(pool.stats().hosted, Ordering::Relaxed);
    });
    assert!(HOSTED.load(Ordering::Relaxed) > 0, "no thread has been asked to host");
}

/// Each wait is a thread's of its own, so whoever hosts may take on another that waits before it comes to the one that sets.
#[test]
fn more_tasks_than_threads_that_wait_for_another() {
    check(|| waiters_in(&capped(), 3));
}

/// Where the timer gets no thread either, nobody looks whether the pool stands still: hosts are asked without.
#[test]
fn more_tasks_than_threads_that_wait_for_another_while_threads_are_refused() {
    check(|| {
        let pool = capped();
        thread::refuse(50);
        waiters_in(&pool, 2);
    });
}

/// Its calls hold no place that they could be given as hosts, and nobody sees what they wait for.
fn blocked_in(pool: &Pool) {
    let tally = Tally::default();
    let blocks = [(); 2].map(|()| {
        let tally = tally.clone();
        pool.spawn(move || blocking(|| until(&tally, 1)))
    });
    let ours = tally.clone();
    let adds = pool.spawn(move || ours.add());
    for future in blocks {
        future.wait().unwrap();
    }
    adds.wait().unwrap();
}

#[test]
fn as_many_tasks_as_threads_that_block_for_another() {
    check(|| blocked_in(&capped()));
}

/// One holds a lock while it waits, the other wants the lock: neither is a host.
#[test]
fn tasks_that_hold_and_want_a_lock_and_wait_for_another() {
    check(|| {
        let (pool, number) = (capped(), Arc::new(Mutex::new(0)));
        let (promise, future) = Promise::new();
        let (held, wanted) = (Arc::clone(&number), Arc::clone(&number));
        let holds = pool.spawn(move || {
            let mut guard = held.lock();
            *guard += future.wait().unwrap();
        });
        let wants = pool.spawn(move || *wanted.lock() += 1);
        let sets = pool.spawn(move || promise.set(1));
        for future in [holds, wants, sets] {
            future.wait().unwrap();
        }
        assert_eq!(*number.lock(), 2);
    });
}

/// One can be a host, and the other is within `blocking`.
#[test]
fn a_task_that_waits_and_one_that_blocks_for_another() {
    check(|| {
        let (pool, tally) = (capped(), Tally::default());
        let (promise, future) = Promise::new();
        let waits = pool.spawn(move || future.wait().unwrap());
        let ours = tally.clone();
        let blocks = pool.spawn(move || blocking(|| until(&ours, 1)));
        let sets = pool.spawn(move || {
            tally.add();
            promise.set(());
        });
        for future in [waits, blocks, sets] {
            future.wait().unwrap();
        }
    });
}

/// The pool is dropped meanwhile: its end waits for what relief brings about.
#[test]
fn a_pool_dropped_while_as_many_tasks_as_threads_wait_for_another() {
    check(|| {
        let (pool, tally) = (capped(), Tally::default());
        let (promises, futures): (Vec<_>, Vec<_>) = (0..2).map(|_| Promise::<()>::new()).unzip();
        for future in futures {
            let tally = tally.clone();
            drop(pool.spawn(move || {
                future.wait().unwrap();
                tally.add();
            }));
        }
        drop(pool.spawn(move || promises.into_iter().for_each(|promise| promise.set(()))));
        drop(pool);
        assert_eq!(tally.count(), 2);
    });
}
