//! What each thread runs once.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;

use rayon_core::Yield;

use crate::order::Log;
use crate::{block_until, caught, pool};

#[test]
fn a_broadcast_runs_once_on_each_thread_by_index() {
    let pool = pool(7);
    for _ in 0..50 {
        let calls = AtomicUsize::new(0);
        let indices = pool.broadcast(|thread| {
            calls.fetch_add(1, SeqCst);
            assert_eq!(thread.num_threads(), 7);
            assert_eq!(rayon_core::current_thread_index(), Some(thread.index()));
            thread.index()
        });
        assert_eq!(indices, (0..7).collect::<Vec<_>>());
        assert_eq!(calls.into_inner(), 7);
    }
}

#[test]
fn a_broadcast_reaches_threads_that_wait_in_a_join() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    pool.install(|| {
        rayon_core::join(
            || block_until(&stolen),
            || {
                stolen.store(true, SeqCst);
                assert_eq!(rayon_core::broadcast(|thread| thread.index()), [0, 1]);
            },
        )
    });
}

#[test]
fn and_those_that_wait_in_a_scope() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    pool.scope(|s| {
        s.spawn(|_| {
            stolen.store(true, SeqCst);
            assert_eq!(rayon_core::broadcast(|thread| thread.index()), [0, 1]);
        });
        block_until(&stolen);
    });
}

#[test]
fn and_those_whose_first_half_has_panicked() {
    let pool = pool(2);
    let stolen = AtomicBool::new(false);
    let result = caught(|| {
        pool.install(|| {
            rayon_core::join(
                || {
                    block_until(&stolen);
                    panic!("a");
                },
                || {
                    stolen.store(true, SeqCst);
                    rayon_core::broadcast(|thread| thread.index());
                },
            )
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"a"));
}

#[test]
fn and_those_that_wait_for_another_pool() {
    let (a, b) = (pool(2), pool(1));
    let inside = AtomicBool::new(false);
    let over = AtomicBool::new(false);
    a.in_place_scope(|s| {
        s.spawn(|_| {
            b.install(|| {
                inside.store(true, SeqCst);
                block_until(&over);
            });
        });
        block_until(&inside);
        assert_eq!(a.broadcast(|thread| thread.index()), [0, 1]);
        over.store(true, SeqCst);
    });
}

/// Runs on one of two threads, while `busy` is called on the other with a flag that says when that is to go on. Both are
/// queued for that one meanwhile: a broadcast for it, and a task of this thread's that it may steal. What it runs, in
/// order.
fn broadcast_or_steal(busy: fn(&AtomicBool)) -> Vec<i32> {
    let [begun, free] = [(); 2].map(|()| Arc::new(AtomicBool::new(false)));
    let log = Log::default();
    let (is_busy, goes_on) = (Arc::clone(&begun), Arc::clone(&free));
    rayon_core::spawn(move || {
        is_busy.store(true, SeqCst);
        busy(&goes_on);
    });
    block_until(&begun);
    let (here, noted) = (rayon_core::current_thread_index(), log.clone());
    rayon_core::spawn_broadcast(move |thread| {
        if Some(thread.index()) != here {
            noted.note(1);
        }
    });
    log.spawn(2);
    free.store(true, SeqCst);
    while log.all().len() < 2 {
        thread::yield_now();
    }
    log.all()
}

#[test]
fn a_broadcast_is_taken_before_stealing() {
    let pool = pool(2);
    let yields_after: fn(&AtomicBool) = |free| {
        block_until(free);
        assert_eq!(rayon_core::yield_now(), Some(Yield::Executed));
    };
    for busy in [block_until, yields_after] {
        for _ in 0..200 {
            assert_eq!(pool.install(|| broadcast_or_steal(busy)), [1, 2]);
        }
    }
}

#[test]
fn a_broadcast_panics_once_all_calls_are_over() {
    let pool = pool(4);
    let calls = AtomicUsize::new(0);
    let result = caught(|| {
        pool.broadcast(|_| {
            calls.fetch_add(1, SeqCst);
            panic!("each");
        })
    });
    assert_eq!(result.unwrap_err().downcast_ref::<&str>(), Some(&"each"));
    assert_eq!(calls.into_inner(), 4);
}

#[test]
fn broadcasts_of_scopes_borrow() {
    let pool = pool(3);
    let seen = Mutex::new(Vec::new());
    pool.scope(|s| s.spawn_broadcast(|_, thread| seen.lock().unwrap().push(thread.index())));
    pool.scope_fifo(|s| s.spawn_broadcast(|_, thread| seen.lock().unwrap().push(thread.index())));
    let mut seen = seen.into_inner().unwrap();
    seen.sort_unstable();
    assert_eq!(seen, [0, 0, 1, 1, 2, 2]);
}

/// Their calls wait for each other, so all threads must have them in the same order.
#[test]
fn broadcasts_at_the_same_time_come_in_the_same_order_everywhere() {
    const THREADS: usize = 4;
    let pool = pool(THREADS);
    for _ in 0..300 {
        thread::scope(|threads| {
            threads.spawn(|| {
                let together = Barrier::new(THREADS);
                pool.broadcast(|_| together.wait());
            });
            threads.spawn(|| {
                let together = Arc::new(Barrier::new(THREADS));
                let (send, receive) = channel();
                pool.spawn_broadcast(move |_| {
                    together.wait();
                    send.send(()).unwrap();
                });
                assert_eq!(receive.iter().count(), THREADS);
            });
            threads.spawn(|| {
                let together = Barrier::new(THREADS);
                pool.in_place_scope(|s| s.spawn_broadcast(|_, _| _ = together.wait()));
            });
        });
    }
}
