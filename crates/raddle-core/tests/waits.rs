//! What a waiting thread takes on, and that waits end.
#![allow(missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{FailureKind, Future, Pool, Promise, Worker, blocking, join, scope, spawn};
use raddle_sync::strand;

/// Longer than any of this takes; a wait that long is a hang.
const LONG: Duration = Duration::from_secs(300);

fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

fn flag() -> Arc<AtomicBool> {
    Arc::default()
}

/// A task that runs until it is told to end, and has started.
fn blocker(pool: &Pool) -> (Future<()>, Arc<AtomicBool>) {
    let (started, end) = (flag(), flag());
    let future = pool.spawn({
        let (started, end) = (Arc::clone(&started), Arc::clone(&end));
        move || {
            started.store(true, Ordering::SeqCst);
            until(&end);
        }
    });
    until(&started);
    (future, end)
}

#[test]
fn a_waiter_does_not_host_what_waits_for_it() {
    // slow <- a <- b on two threads: b must not come to lie on top of a, which it waits for.
    for _ in 0..100 {
        let pool = Pool::new(2).unwrap();
        let (slow, end) = blocker(&pool);
        let in_a = flag();
        let a = pool.spawn({
            let in_a = Arc::clone(&in_a);
            move || {
                in_a.store(true, Ordering::SeqCst);
                slow.wait().unwrap();
            }
        });
        until(&in_a);
        let b = pool.spawn(move || a.wait());
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || send.send(b.wait())));
        end.store(true, Ordering::SeqCst);
        receive.recv_timeout(LONG).unwrap().unwrap().unwrap();
    }
}

#[test]
fn acyclic_waits_across_threads_end() {
    // slow <- a <- c <- b on three threads.
    for _ in 0..100 {
        let pool = Pool::new(3).unwrap();
        let (slow, end) = blocker(&pool);
        let (give, take) = mpsc::channel::<Future<()>>();
        let c = pool.spawn(move || take.recv().unwrap().wait().unwrap());
        let in_a = flag();
        let a = pool.spawn({
            let in_a = Arc::clone(&in_a);
            move || {
                in_a.store(true, Ordering::SeqCst);
                slow.wait().unwrap();
            }
        });
        until(&in_a);
        let b = pool.spawn(move || c.wait().unwrap());
        give.send(a).unwrap();
        end.store(true, Ordering::SeqCst);
        b.wait_timeout(LONG).expect("acyclic").unwrap();
    }
}

#[test]
fn a_cycle_through_a_stolen_half_is_seen() {
    let pool = Pool::new(2).unwrap();
    let (give, take) = mpsc::channel::<Future<()>>();
    let (report, kind) = mpsc::channel();
    let future = pool.spawn(move || {
        let stolen = &AtomicBool::new(false);
        join(
            || until(stolen),
            move || {
                stolen.store(true, Ordering::SeqCst);
                let own = take.recv().unwrap();
                report.send(own.wait().unwrap_err().kind()).unwrap();
            },
        );
    });
    give.send(future).unwrap();
    assert_eq!(kind.recv_timeout(LONG).unwrap(), FailureKind::Cycle);
}

#[test]
fn a_waiter_runs_its_own_forks() {
    // The only other thread is busy until the second half has run, whose owner waits for that thread.
    let pool = Pool::new(2).unwrap();
    for _ in 0..20 {
        let (busy, end) = blocker(&pool);
        pool.run(move |w| {
            // Forks that nobody asks for leave the next one private.
            for _ in 0..4 {
                w.join(|_| (), |_| ());
            }
            w.join(move |_| busy.wait().unwrap(), |_| end.store(true, Ordering::SeqCst));
        });
    }
}

#[test]
fn a_sleeping_victim_helps_its_thief() {
    // The victim sleeps when the thief forks. Both halves of that fork meet.
    let pool = Pool::new(2).unwrap();
    for _ in 0..20 {
        let meet = std::sync::Barrier::new(2);
        let stolen = AtomicBool::new(false);
        let given = pool.stats().given;
        pool.run(|w| {
            w.join(
                |_| until(&stolen),
                |w| {
                    stolen.store(true, Ordering::SeqCst);
                    while pool.stats().given == given {
                        thread::yield_now();
                    }
                    w.join(|_| meet.wait(), |_| meet.wait());
                },
            )
        });
    }
}

#[test]
fn a_guest_that_sleeps_gives_its_place_to_a_thread() {
    // One task blocks until the other has run; the guest waits for the first.
    let pool = Pool::new(2).unwrap();
    for _ in 0..20 {
        pool.run(|_| {
            let (send, receive) = mpsc::channel();
            let started = flag();
            let first = spawn({
                let started = Arc::clone(&started);
                move || {
                    started.store(true, Ordering::SeqCst);
                    receive.recv_timeout(LONG).unwrap()
                }
            });
            until(&started);
            drop(spawn(move || send.send(7)));
            assert_eq!(first.wait().unwrap(), 7);
        });
    }
}

#[test]
fn a_pool_entered_again_through_another() {
    for threads in [1, 2] {
        let outer = Pool::new(threads).unwrap();
        let inner = Pool::new(1).unwrap();
        let seven = outer.run(|_| inner.run(|_| outer.run(|w| w.join(|_| 3, |_| 4))));
        assert_eq!(seven, (3, 4));
        let waited = outer.run(|_| inner.run(|_| outer.spawn(|| 7).wait().unwrap()));
        assert_eq!(waited, 7);
    }
}

#[test]
fn a_pool_dropped_by_a_task_that_its_waiter_runs() {
    for _ in 0..50 {
        let pool = Arc::new(Pool::new(1).unwrap());
        let last = Arc::clone(&pool);
        let future = pool.spawn(move || drop(last));
        drop(pool);
        future.wait().unwrap();
    }
}

#[test]
fn a_dropped_pool_keeps_its_threads_for_what_is_still_to_come() {
    for _ in 0..50 {
        let pool = Pool::builder().threads(2).keep_alive(Duration::from_millis(1)).build().unwrap();
        let (task, go) = blocker(&pool);
        drop(task);
        let over = flag();
        drop(pool.spawn({
            let (go, over) = (Arc::clone(&go), Arc::clone(&over));
            move || {
                until(&go);
                // The child needs a thread of its own while this one blocks.
                let (send, receive) = mpsc::channel();
                drop(spawn(move || send.send(()).unwrap()));
                receive.recv_timeout(LONG).unwrap();
                over.store(true, Ordering::SeqCst);
            }
        }));
        let dropping = thread::spawn(move || drop(pool));
        go.store(true, Ordering::SeqCst);
        dropping.join().unwrap();
        assert!(over.load(Ordering::SeqCst), "all tasks are over when the drop returns");
    }
}

#[test]
fn nothing_foreign_runs_inside_of_a_panic() {
    let pool = Pool::new(2).unwrap();
    for _ in 0..20 {
        let (send, receive) = mpsc::channel();
        let (stolen, panicking) = (AtomicBool::new(false), AtomicBool::new(false));
        struct Signal<'a>(&'a AtomicBool);
        impl Drop for Signal<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::SeqCst);
            }
        }
        let caught = catch_unwind(AssertUnwindSafe(|| {
            pool.run(|w| {
                w.join(
                    |_| {
                        until(&stolen);
                        let _signal = Signal(&panicking);
                        drop(spawn(move || send.send(thread::panicking()).unwrap()));
                        panic!("a");
                    },
                    |_| {
                        stolen.store(true, Ordering::SeqCst);
                        until(&panicking);
                    },
                );
            });
        }));
        assert!(caught.is_err());
        assert!(!receive.recv_timeout(LONG).unwrap());
    }
}

#[test]
fn work_taken_on_while_waiting_is_another_strand() {
    let pool = Pool::new(1).unwrap();
    pool.run(|_| {
        let own = strand::current();
        assert!(own.is_some());
        assert_ne!(spawn(strand::current).wait().unwrap(), own);
        let (inner, after) = (AtomicBool::new(false), AtomicBool::new(false));
        scope(|s| {
            s.spawn(|_| inner.store(strand::current() != own, Ordering::SeqCst));
        });
        after.store(strand::current() == own, Ordering::SeqCst);
        assert!(inner.into_inner() && after.into_inner());
    });
}

scoped_tls::scoped_thread_local!(static OUTER: Worker);

#[test]
fn a_smuggled_worker_panics() {
    let pool = Pool::new(2).unwrap();
    // The outer fork is stolen, so that its slot is a thief's.
    let stolen = AtomicBool::new(false);
    let caught = catch_unwind(AssertUnwindSafe(|| {
        pool.run(|w| {
            OUTER.set(w, || {
                w.join(
                    |_| {
                        until(&stolen);
                        OUTER.with(|outer| outer.join(|_| (), |_| String::from("of nobody")))
                    },
                    |_| stolen.store(true, Ordering::SeqCst),
                )
            })
        })
    }));
    let payload = caught.unwrap_err();
    assert!(payload.downcast_ref::<&str>().unwrap().contains("unfinished join"));
    assert_eq!(pool.run(|w| w.join(|_| 1, |_| 2)), (1, 2));
}

/// Tasks that wait for what later tasks bring, more of them than the pool has threads.
#[test]
fn the_reserve_plays_while_threads_wait() {
    for (threads, reserve) in [(1, 1), (1, 3), (2, 2), (4, 12)] {
        let pool = Pool::builder().threads(threads).max_spare_threads(reserve).build().unwrap();
        for _ in 0..50 {
            let (promises, futures): (Vec<_>, Vec<_>) =
                (0..threads + reserve - 1).map(|_| Promise::<usize>::new()).unzip();
            let waits: Vec<_> =
                futures.into_iter().map(|future| pool.spawn(move || future.wait())).collect();
            let sets: Vec<_> = promises
                .into_iter()
                .enumerate()
                .map(|(index, promise)| pool.spawn(move || promise.set(index)))
                .collect();
            for (index, wait) in waits.into_iter().enumerate() {
                assert_eq!(wait.wait().unwrap().unwrap(), index);
            }
            assert!(raddle_core::wait_all(sets).into_iter().all(|set| set.is_ok()));
        }
    }
}

#[test]
fn the_reserve_sits_out_when_nobody_waits() {
    let pool = Pool::builder().threads(2).max_spare_threads(6).build().unwrap();
    let busy = Arc::new(AtomicUsize::new(0));
    let most = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..2_000)
        .map(|_| {
            let (busy, most) = (Arc::clone(&busy), Arc::clone(&most));
            pool.spawn(move || {
                most.fetch_max(busy.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::hint::black_box((0..2_000_u64).sum::<u64>());
                busy.fetch_sub(1, Ordering::SeqCst);
            })
        })
        .collect();
    drop(tasks);
    drop(pool);
    assert!(most.load(Ordering::SeqCst) <= 2, "{most:?} at a time");
}

/// The reserve is still at work when the pool ends, and what it spawns is run.
#[test]
fn a_pool_ends_with_its_reserve_at_work() {
    for _ in 0..50 {
        let done = Arc::new(AtomicUsize::new(0));
        let pool = Pool::builder().threads(1).max_spare_threads(2).build().unwrap();
        let (promise, future) = Promise::<()>::new();
        drop(pool.spawn(move || future.wait()));
        let count = Arc::clone(&done);
        drop(pool.spawn(move || {
            promise.set(());
            for _ in 0..10 {
                let count = Arc::clone(&count);
                drop(raddle_core::spawn(move || count.fetch_add(1, Ordering::SeqCst)));
                std::thread::yield_now();
            }
        }));
        drop(pool);
        assert_eq!(done.load(Ordering::SeqCst), 10);
    }
}

/// Ends, or the test fails: what hangs would hang the test.
fn ends(what: &str, future: Future<()>) {
    match future.wait_timeout(Duration::from_secs(300)) {
        Ok(result) => result.unwrap(),
        Err(_) => panic!("{what} hangs"),
    }
}

/// The place has gone by the time of the fork, and the limit of the fork stack is low.
#[test]
fn a_join_within_blocking_is_seen_by_others() {
    let pool = Pool::new(1).unwrap();
    let future = pool.spawn(|| {
        for _ in 0..3 {
            join(|| (), || ());
        }
        let (promise, future) = Promise::<u32>::new();
        blocking(|| join(|| future.wait().unwrap(), move || promise.set(1)));
    });
    ends("a half that waits for the other", future);
}

/// A wait within the call does not take the place back, as the call blocks again.
#[test]
fn blocking_goes_on_after_a_wait_within_it() {
    let pool = Pool::new(1).unwrap();
    let (promise, future) = Promise::<u32>::new();
    let (send, receive) = mpsc::channel();
    let waits = pool.spawn(move || {
        blocking(|| {
            blocking(|| future.wait().unwrap());
            receive.recv().unwrap()
        })
    });
    pool.spawn(move || promise.set(1)).wait().unwrap();
    let sends = pool.spawn(move || send.send(()).unwrap());
    ends("what blocks after a wait", waits);
    sends.wait().unwrap();
}

/// A thread whose wait is over has not been asked for attention by what fell asleep meanwhile.
#[test]
fn a_fork_after_a_wait_wakes_somebody() {
    let pool = Pool::builder().threads(2).spin_for(Duration::from_millis(50)).build().unwrap();
    let stage = Arc::new(AtomicUsize::new(0));
    let reaches = |stage: &AtomicUsize, count| {
        while stage.load(Ordering::SeqCst) < count {
            std::hint::spin_loop();
        }
    };
    let (promise, future) = Promise::<u32>::new();
    let other = pool.spawn({
        let stage = Arc::clone(&stage);
        move || {
            stage.fetch_add(1, Ordering::SeqCst);
            reaches(&stage, 3);
        }
    });
    let task = pool.spawn(move || {
        stage.fetch_add(1, Ordering::SeqCst);
        reaches(&stage, 2);
        // Both places are in use and nobody searches: the limit is lowered, and stays so.
        for _ in 0..3 {
            join(|| (), || ());
        }
        stage.fetch_add(1, Ordering::SeqCst);
        future.wait().unwrap();
        let (promise, future) = Promise::<u32>::new();
        join(|| future.wait().unwrap(), move || promise.set(1));
    });
    other.wait().unwrap();
    // The pool's other thread searches for so long, then sleeps.
    let asleep = Future::delay(Duration::from_millis(150));
    asleep.wait().unwrap();
    promise.set(1);
    ends("a half that waits for the other", task);
}
