//! Yields, and what is pending.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use rayon_core::Yield;

use crate::order::Log;
use crate::{block_until, pool, yield_until};

#[test]
fn a_yield_runs_one_thing() {
    let (pool, log) = (pool(1), Log::default());
    pool.install(|| {
        assert_eq!(rayon_core::yield_now(), Some(Yield::Idle));
        assert_eq!(rayon_core::yield_local(), Some(Yield::Idle));
        log.spawn(1);
        log.spawn(0);
        assert_eq!(rayon_core::yield_local(), Some(Yield::Executed));
        assert_eq!(log.all(), [0]);
        assert_eq!(pool.yield_now(), Some(Yield::Executed));
        assert_eq!(log.all(), [0, 1]);
    });
}

#[test]
fn a_local_yield_leaves_what_comes_from_outside() {
    let pool = Arc::new(pool(1));
    let ran = Arc::new(AtomicBool::new(false));
    let (there, flag) = (Arc::clone(&pool), Arc::clone(&ran));
    pool.install(move || {
        let outside = Arc::clone(&there);
        let set = Arc::clone(&flag);
        let spawns = move || outside.spawn(move || set.store(true, SeqCst));
        thread::spawn(spawns).join().unwrap();
        assert_eq!(rayon_core::yield_local(), Some(Yield::Idle));
        assert_eq!(rayon_core::yield_now(), Some(Yield::Executed));
        assert!(flag.load(SeqCst));
    });
    drop(ran);
}

#[test]
fn a_yield_takes_what_another_thread_has_queued() {
    let pool = pool(2);
    for _ in 0..100 {
        let [queued, ran] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
        pool.scope(|s| {
            // On the other thread, which then blocks: so whoever runs what it has queued has taken it from there.
            s.spawn(|_| {
                let set = Arc::clone(&ran);
                rayon_core::spawn(move || set.store(true, SeqCst));
                queued.store(true, SeqCst);
                block_until(&ran);
            });
            block_until(&queued);
            assert_eq!(rayon_core::yield_local(), Some(Yield::Idle));
            assert!(!ran.load(SeqCst));
            assert_eq!(rayon_core::yield_now(), Some(Yield::Executed));
            assert!(ran.load(SeqCst));
        });
    }
}

#[test]
fn forks_and_tasks_are_pending() {
    let pool = pool(1);
    pool.install(|| {
        let pending = || rayon_core::current_thread_has_pending_tasks();
        assert_eq!(pending(), Some(false));
        rayon_core::join(
            || assert_eq!(pending(), Some(true)),
            || assert_eq!(pending(), Some(false)),
        );
        rayon_core::spawn(|| ());
        assert_eq!(pool.current_thread_has_pending_tasks(), Some(true));
        rayon_core::yield_local();
        assert_eq!(pending(), Some(false));
    });
}

#[test]
fn a_thread_that_yields_makes_others_progress() {
    let pool = pool(1);
    pool.install(|| {
        let done = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&done);
        rayon_core::spawn(move || flag.store(true, SeqCst));
        yield_until(&done);
    });
}

#[test]
fn nested_scopes_see_all_that_a_thread_has_spawned() {
    // 70 deep, with more tasks in the innermost than a small queue holds.
    fn nest(depth: usize, count: &AtomicUsize) {
        rayon_core::scope(|s| {
            if depth > 0 {
                nest(depth - 1, count);
            } else {
                for _ in 0..1000 {
                    s.spawn(|_| {
                        count.fetch_add(1, SeqCst);
                    });
                }
            }
        });
    }
    let count = AtomicUsize::new(0);
    pool(1).install(|| nest(70, &count));
    assert_eq!(count.into_inner(), 1000);
}
