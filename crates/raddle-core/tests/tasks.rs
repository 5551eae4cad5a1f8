//! Scopes and spawned futures as users see them.
#![allow(missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{FailureKind, Future, Killed, Outcome, Pool, TaskId, join, killed, scope, spawn};

/// Counts the values of its kind that are alive.
struct Counted(Arc<AtomicUsize>);

impl Counted {
    fn new(live: &Arc<AtomicUsize>) -> Counted {
        live.fetch_add(1, Ordering::SeqCst);
        Counted(Arc::clone(live))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Occupies a pool of one: `run` returns what `f` does while the only thread waits.
fn while_busy<R>(pool: &Pool, f: impl FnOnce() -> R) -> R {
    let (started, entered) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    let blocker = pool.spawn(move || {
        started.send(()).unwrap();
        wait.recv().unwrap();
    });
    entered.recv().unwrap();
    let result = f();
    go.send(()).unwrap();
    blocker.wait().unwrap();
    result
}

// --- scopes ---

#[test]
fn a_million_tasks_in_one_scope() {
    let total = AtomicUsize::new(0);
    scope(|s| {
        for _ in 0..1_000_000 {
            s.spawn(|_| {
                total.fetch_add(1, Ordering::Relaxed);
            });
        }
    });
    assert_eq!(total.into_inner(), 1_000_000);
}

#[test]
fn a_tree_of_scoped_tasks() {
    fn grow<'s>(s: &raddle_core::Scope<'s>, depth: u32, leaves: &'s AtomicUsize) {
        if depth == 0 {
            leaves.fetch_add(1, Ordering::Relaxed);
            return;
        }
        s.spawn(move |s| grow(s, depth - 1, leaves));
        s.spawn(move |s| grow(s, depth - 1, leaves));
    }
    for threads in [1, 2, 16] {
        let pool = Pool::new(threads).unwrap();
        let leaves = AtomicUsize::new(0);
        pool.run(|_| scope(|s| grow(s, 12, &leaves)));
        assert_eq!(leaves.into_inner(), 4096);
    }
}

#[test]
fn a_scope_waits_for_all_and_then_panics() {
    let pool = Pool::new(2).unwrap();
    for _ in 0..50 {
        let over = AtomicUsize::new(0);
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(|_| {
                scope(|s| {
                    for i in 0..20 {
                        let over = &over;
                        s.spawn(move |_| {
                            over.fetch_add(1, Ordering::Relaxed);
                            assert!(i % 7 != 3, "task");
                        });
                    }
                });
            });
        }));
        assert!(caught.is_err());
        assert_eq!(over.load(Ordering::Relaxed), 20);

        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(|_| {
                scope(|s| {
                    s.spawn(|_| {
                        over.fetch_add(1, Ordering::Relaxed);
                        panic!("task");
                    });
                    panic!("body");
                })
            })
        }));
        let payload = caught.unwrap_err();
        assert_eq!(payload.downcast_ref(), Some(&"body"));
        assert_eq!(over.load(Ordering::Relaxed), 21);
    }
}

#[test]
fn scopes_from_more_threads_than_places() {
    thread::scope(|t| {
        for _ in 0..50 {
            t.spawn(|| {
                let done = AtomicUsize::new(0);
                scope(|s| {
                    for _ in 0..20 {
                        s.spawn(|_| {
                            done.fetch_add(1, Ordering::Relaxed);
                        });
                    }
                });
                assert_eq!(done.into_inner(), 20);
            });
        }
    });
}

// --- futures ---

#[test]
fn futures_from_inside_and_outside() {
    for threads in [1, 2, 16] {
        let pool = Pool::new(threads).unwrap();
        let futures: Vec<_> = (0..10_000_u64).map(|i| pool.spawn(move || i)).collect();
        let sum: u64 = futures.into_iter().map(|f| f.wait().unwrap()).sum();
        assert_eq!(sum, 49_995_000);
        let sum: u64 = pool.run(|_| {
            let futures: Vec<_> = (0..10_000_u64).map(|i| spawn(move || i)).collect();
            futures.into_iter().rev().map(|f| f.wait().unwrap()).sum()
        });
        assert_eq!(sum, 49_995_000);
    }
}

#[test]
fn a_bomb_of_futures() {
    fn burst(depth: u32) -> u64 {
        if depth == 0 {
            return 1;
        }
        let children: Vec<_> = (0..4).map(|_| spawn(move || burst(depth - 1))).collect();
        children.into_iter().map(|child| child.wait().unwrap()).sum()
    }
    for threads in [1, 2, 16] {
        let pool = Pool::new(threads).unwrap();
        assert_eq!(pool.spawn(|| burst(7)).wait().unwrap(), 16_384);
    }
}

#[test]
fn a_chain_of_waits_on_a_pool_of_one() {
    fn chain(n: u32) -> u32 {
        if n == 0 { 0 } else { spawn(move || chain(n - 1)).wait().unwrap() + 1 }
    }
    let pool = Pool::new(1).unwrap();
    assert_eq!(pool.spawn(|| chain(500)).wait().unwrap(), 500);
    assert_eq!(pool.run(|_| chain(500)), 500);
}

#[test]
fn a_wait_inside_a_fork_whose_sibling_it_needs() {
    // The future is resolved by a task that the second half spawns: on one thread the waiting
    // first half has to run its own sibling.
    let pool = Pool::new(1).unwrap();
    pool.run(|w| {
        // The pool's own thread, that has just been started, would take the second half.
        while w.should_fork() {
            thread::yield_now();
        }
        let flag = &AtomicBool::new(false);
        w.join(
            |_| {
                scope(|s| {
                    s.spawn(|_| assert!(!flag.load(Ordering::Relaxed)));
                });
            },
            |_| flag.store(true, Ordering::Relaxed),
        );
    });
}

#[test]
fn a_panicking_future_fails() {
    let pool = Pool::new(2).unwrap();
    for ply in 0..100 {
        let failure = pool.spawn(move || -> u8 { panic!("wool {ply}") }).wait().unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Panicked);
        assert_eq!(failure.to_string(), format!("panicked: wool {ply}"));
        let caught = catch_unwind(AssertUnwindSafe(|| failure.resume()));
        assert_eq!(caught.unwrap_err().downcast_ref::<String>().unwrap(), &format!("wool {ply}"));
    }
    assert_eq!(pool.spawn(|| 1).wait().unwrap(), 1);
}

#[test]
fn a_future_that_waits_for_itself_is_a_cycle() {
    let pool = Pool::new(2).unwrap();
    let (give, take) = mpsc::channel::<Future<FailureKind>>();
    let (report, kind) = mpsc::channel();
    let future = pool.spawn(move || {
        let own = take.recv().unwrap();
        let kind = own.wait().unwrap_err().kind();
        report.send(kind).unwrap();
        kind
    });
    give.send(future).unwrap();
    assert_eq!(kind.recv().unwrap(), FailureKind::Cycle);
}

#[test]
fn wait_timeout_gives_the_future_back() {
    let pool = Pool::new(1).unwrap();
    let future = while_busy(&pool, || {
        let future = pool.spawn(|| 5);
        let future = future.wait_timeout(Duration::from_millis(5)).expect_err("not yet");
        assert!(!future.is_done());
        future
    });
    assert_eq!(future.wait_timeout(Duration::from_secs(60)).expect("by now").unwrap(), 5);
}

#[test]
fn wait_timeout_races_with_completion() {
    let pool = Pool::new(2).unwrap();
    for round in 0..2_000_u64 {
        let mut future = pool.spawn(move || round);
        let value = loop {
            match future.wait_timeout(Duration::from_micros(round % 50)) {
                Ok(result) => break result.unwrap(),
                Err(again) => future = again,
            }
        };
        assert_eq!(value, round);
    }
}

#[test]
fn dropped_futures_run_and_leak_nothing() {
    let live = Arc::new(AtomicUsize::new(0));
    let ran = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(2).unwrap();
    for _ in 0..2_000 {
        let (counted, ran) = (Counted::new(&live), Arc::clone(&ran));
        drop(pool.spawn(move || {
            ran.fetch_add(1, Ordering::SeqCst);
            counted
        }));
    }
    drop(pool);
    assert_eq!(ran.load(Ordering::SeqCst), 2_000, "a dropped pool finishes what was spawned");
    assert_eq!(live.load(Ordering::SeqCst), 0);
}

#[test]
fn a_pool_dropped_while_its_queue_is_full() {
    for threads in [1, 2, 16] {
        let ran = Arc::new(AtomicUsize::new(0));
        let pool = Pool::new(threads).unwrap();
        let futures: Vec<_> = (0..5_000)
            .map(|_| {
                let ran = Arc::clone(&ran);
                pool.spawn(move || {
                    // Spawned by a task of a pool that is going.
                    drop(spawn({
                        let ran = Arc::clone(&ran);
                        move || ran.fetch_add(1, Ordering::SeqCst)
                    }));
                    ran.fetch_add(1, Ordering::SeqCst);
                })
            })
            .collect();
        drop(pool);
        assert_eq!(ran.load(Ordering::SeqCst), 10_000);
        assert!(futures.iter().all(Future::is_done));
        futures.into_iter().for_each(|f| f.wait().unwrap());
    }
}

#[test]
fn a_pool_dropped_by_its_own_task() {
    let pool = Arc::new(Mutex::new(None));
    let (done, wait) = mpsc::channel();
    let handle = {
        let pool = Arc::clone(&pool);
        let own = Pool::new(2).unwrap();
        let future = own.spawn(move || {
            let own: Pool = loop {
                if let Some(own) = pool.lock().unwrap().take() {
                    break own;
                }
                thread::yield_now();
            };
            drop(own);
            done.send(()).unwrap();
        });
        (own, future)
    };
    *pool.lock().unwrap() = Some(handle.0);
    wait.recv_timeout(Duration::from_secs(60)).unwrap();
    handle.1.wait().unwrap();
}

#[test]
fn futures_waited_for_after_and_while_their_pool_goes() {
    for _ in 0..200 {
        let pool = Pool::new(2).unwrap();
        let futures: Vec<_> = (0..64_u64).map(|i| pool.spawn(move || i)).collect();
        let waiter =
            thread::spawn(move || futures.into_iter().map(|f| f.wait().unwrap()).sum::<u64>());
        drop(pool);
        assert_eq!(waiter.join().unwrap(), 2016);
    }
}

// --- kill ---

#[test]
fn killed_before_the_start() {
    let live = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(1).unwrap();
    let future = while_busy(&pool, || {
        let counted = Counted::new(&live);
        let future = pool.spawn(move || drop(counted));
        assert_eq!(future.kill(), Killed::BeforeStart);
        assert_eq!(live.load(Ordering::SeqCst), 0, "its closure is dropped at once");
        assert!(future.is_done());
        assert_eq!(future.kill(), Killed::TooLate);
        future
    });
    assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Killed);
}

#[test]
fn killed_while_running() {
    let live = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(2).unwrap();
    for _ in 0..100 {
        let (started, entered) = mpsc::channel();
        let (over, ended) = mpsc::channel();
        let counted = Counted::new(&live);
        let future = pool.spawn(move || {
            started.send(()).unwrap();
            while !killed() {
                thread::yield_now();
            }
            over.send(()).unwrap();
            counted
        });
        entered.recv().unwrap();
        assert_eq!(future.kill(), Killed::WhileRunning);
        assert!(future.is_done(), "it is resolved though the closure still runs");
        assert_eq!(future.wait().err().unwrap().kind(), FailureKind::Killed);
        ended.recv().unwrap();
    }
    drop(pool);
    assert_eq!(live.load(Ordering::SeqCst), 0);
}

#[test]
fn halves_of_a_killed_task_know_it_on_any_thread() {
    let pool = Pool::new(2).unwrap();
    let both = Arc::new(Barrier::new(3));
    let future = pool.spawn({
        let both = Arc::clone(&both);
        move || {
            let half = || {
                both.wait();
                while !killed() {
                    thread::yield_now();
                }
            };
            join(half, half);
        }
    });
    both.wait();
    assert!(!killed());
    assert_eq!(future.kill(), Killed::WhileRunning);
    drop(pool);
    assert!(future.wait().is_err());
}

#[test]
fn kill_all_kills_what_waits_and_what_runs() {
    let pool = Pool::new(2).unwrap();
    let started = Arc::new(Barrier::new(3));
    let mut futures: Vec<_> = (0..2)
        .map(|_| {
            let started = Arc::clone(&started);
            pool.spawn(move || {
                started.wait();
                while !killed() {
                    thread::yield_now();
                }
            })
        })
        .collect();
    started.wait();
    futures.extend((0..500).map(|_| pool.spawn(|| ())));
    assert_eq!(pool.kill_all(), 502);
    for future in futures {
        assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Killed);
    }
    assert_eq!(pool.kill_all(), 0);
    assert_eq!(pool.spawn(|| 3).wait().unwrap(), 3, "the pool goes on");
}

#[test]
fn kills_race_with_starts_and_finishes() {
    let live = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(2).unwrap();
    for round in 0..3_000 {
        let counted = Counted::new(&live);
        let future = pool.spawn(move || counted);
        for _ in 0..round % 40 {
            std::hint::spin_loop();
        }
        if round % 5 == 0 {
            pool.kill_all();
        }
        match (future.kill(), future.wait()) {
            (Killed::TooLate, result) => {
                if let Err(failure) = result {
                    assert_eq!(failure.kind(), FailureKind::Killed);
                }
            }
            (_, result) => assert_eq!(result.err().unwrap().kind(), FailureKind::Killed),
        }
    }
    drop(pool);
    assert_eq!(live.load(Ordering::SeqCst), 0);
}

// --- hooks ---

#[test]
fn hooks_are_called_in_pairs() {
    type Calls = Mutex<Vec<(TaskId, Option<Outcome>)>>;
    let calls: Arc<Calls> = Arc::default();
    let (before, after) = (Arc::clone(&calls), Arc::clone(&calls));
    let pool = Pool::builder()
        .threads(2)
        .before_start(move |id| before.lock().unwrap().push((id, None)))
        .after_finish(move |id, outcome| after.lock().unwrap().push((id, Some(outcome))))
        .build()
        .unwrap();
    for i in 0..100 {
        let _ = pool.spawn(move || assert!(i % 10 != 0)).wait();
    }
    let calls = calls.lock().unwrap();
    let finished = |outcome| calls.iter().filter(|call| call.1 == Some(outcome)).count();
    assert_eq!(finished(Outcome::Completed), 90);
    assert_eq!(finished(Outcome::Panicked), 10);
    let mut ids: Vec<_> = calls.iter().filter(|call| call.1.is_none()).map(|call| call.0).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 100, "ids are unique");
    for id in ids {
        let of_id: Vec<_> = calls.iter().filter(|call| call.0 == id).map(|call| call.1).collect();
        assert!(matches!(of_id[..], [None, Some(_)]), "{of_id:?}");
    }
}

#[test]
fn hooks_that_panic() {
    let live = Arc::new(AtomicUsize::new(0));
    let pool = Pool::builder()
        .threads(2)
        .before_start(|id| assert!(id.get() % 3 != 0, "before"))
        .after_finish(|id, _| assert!(id.get() % 5 != 0, "after"))
        .build()
        .unwrap();
    let futures: Vec<_> = (0..60)
        .map(|_| {
            let counted = Counted::new(&live);
            pool.spawn(move || drop(counted))
        })
        .collect();
    let failed = futures.into_iter().filter_map(|f| f.wait().err()).count();
    assert_eq!(failed, 20, "a panic before the start is the future's, one after it is nobody's");
    drop(pool);
    assert_eq!(live.load(Ordering::SeqCst), 0);
}

#[test]
fn drops_that_panic() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    let pool = Pool::new(2).unwrap();
    for _ in 0..50 {
        // The result's drop, on the worker or here.
        let future = pool.spawn(|| Bomb);
        let _ = catch_unwind(AssertUnwindSafe(|| drop(future)));
        // The closure's drop, by a kill.
        let bomb = Bomb;
        let future = pool.spawn(move || std::mem::forget(bomb));
        future.kill();
        let _ = future.wait();
    }
    assert_eq!(pool.spawn(|| 3).wait().unwrap(), 3);
}
