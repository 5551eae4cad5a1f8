//! How pools come, idle and go.
#![allow(missing_docs)]

use std::cell::RefCell;
use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{
    CurrentPool, Pool, PoolBuildError, Promise, Waits, Worker, current_worker_index, join, spawn,
    yield_now,
};

fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        thread::yield_now();
    }
}

#[test]
fn absurd_numbers_of_threads_are_refused() {
    assert!(matches!(Pool::new(0), Err(PoolBuildError::NoThreads)));
    let error = Pool::new(1_000_000).unwrap_err();
    assert_eq!(error.to_string(), "1000000 threads were asked for, and a pool has at most 4096");
}

#[test]
fn a_thread_that_cannot_start_is_reported() {
    let error = Pool::builder().threads(3).stack_size(usize::MAX / 2).build().unwrap_err();
    let PoolBuildError::Threads { asked: 3, started: 0, .. } = error else {
        panic!("{error:?}");
    };
    assert!(error.to_string().starts_with("only 0 of 3 threads could be started: "), "{error}");
}

#[test]
fn threads_have_names() {
    let by_prefix = Pool::builder().threads(1).thread_name("shuttle").build().unwrap();
    let by_function =
        Pool::builder().threads(1).thread_name(|i: usize| format!("heddle {i}")).build().unwrap();
    let name = |pool: &Pool| {
        // Not run by the waiting thread: that one has no place while a guest is in.
        let (send, receive) = std::sync::mpsc::channel();
        drop(pool.spawn(move || send.send(thread::current().name().map(String::from))));
        receive.recv().unwrap().unwrap()
    };
    assert_eq!(name(&by_prefix), "shuttle-0");
    assert_eq!(name(&by_function), "heddle 0");
}

#[test]
fn a_name_that_panics_leaves_nothing_behind() {
    let built = std::panic::catch_unwind(|| {
        Pool::builder().threads(2).thread_name(|_: usize| panic!("nameless")).build()
    });
    assert!(built.is_err());
    assert_eq!(Pool::new(2).unwrap().run(|w| w.join(|_| 1, |_| 2)), (1, 2));
}

#[test]
fn idle_threads_leave_and_come_back() {
    let pool = Pool::builder().threads(3).keep_alive(Duration::from_millis(1)).build().unwrap();
    for _ in 0..5 {
        eventually("idle threads leave", || pool.live_threads() == 0);
        // From outside, with nobody to wait on.
        let future = pool.spawn(thread::current);
        eventually("a thread is started for a queued task", || future.is_done());
        assert_ne!(future.wait().unwrap().id(), thread::current().id());
        eventually("and leaves again", || pool.live_threads() == 0);
        // A fork needs a thread too: both halves meet.
        let meet = Barrier::new(2);
        pool.run(|w| w.join(|_| meet.wait(), |_| meet.wait()));
    }
}

#[test]
fn all_threads_work_when_there_is_work_for_all() {
    let pool = Pool::new(4).unwrap();
    for _ in 0..20 {
        let meet = Barrier::new(4);
        let meet = &meet;
        let here = || {
            meet.wait();
            thread::current().id()
        };
        let ids = pool.run(|_| {
            let ((a, b), (c, d)) = join(|| join(here, here), || join(here, here));
            [a, b, c, d]
        });
        assert_eq!(HashSet::from(ids).len(), 4);
        assert!(ids.contains(&thread::current().id()), "the caller takes part");
    }
}

/// The guest has a place of theirs from the first moment on, when none of them has come yet.
#[test]
fn no_more_work_at_once_than_a_new_pool_has_threads() {
    fn tree(worker: &Worker, depth: u32, leaf: &(dyn Fn() + Sync)) {
        if depth == 0 {
            return leaf();
        }
        worker.join(|worker| tree(worker, depth - 1, leaf), |worker| tree(worker, depth - 1, leaf));
    }
    let most_at_once = |threads: usize| {
        let (now, most) = (AtomicUsize::new(0), AtomicUsize::new(0));
        let pool = Pool::new(threads).unwrap();
        pool.run(|worker| {
            tree(worker, 4, &|| {
                most.fetch_max(now.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
                now.fetch_sub(1, Ordering::Relaxed);
            });
        });
        most.into_inner()
    };
    // The system may stop a thread that has seen no guest yet, and two that come at once may each take the other for the one that
    // leaves its place.
    for threads in 1..=2 {
        let kept = (0..20).filter(|_| most_at_once(threads) <= threads).count();
        assert!(kept >= 5, "in {kept} of 20 pools of {threads}");
    }
}

#[test]
fn all_threads_run_futures_when_nobody_is_a_guest() {
    let pool = Pool::new(4).unwrap();
    for _ in 0..20 {
        let meet = std::sync::Arc::new(Barrier::new(4));
        let futures: Vec<_> = (0..4)
            .map(|_| {
                let meet = meet.clone();
                pool.spawn(move || meet.wait().is_leader())
            })
            .collect();
        eventually("all four meet", || futures.iter().all(|f| f.is_done()));
        let leaders = futures.into_iter().filter_map(|f| f.wait().unwrap().then_some(()));
        assert_eq!(leaders.count(), 1);
    }
}

#[test]
fn a_stack_size_holds_for_spawned_work() {
    fn deep(n: u32) -> u32 {
        let frame = std::hint::black_box([0_u8; 512]);
        if n == 0 { 0 } else { deep(n - 1) + 1 + u32::from(frame[7]) }
    }
    let pool = Pool::builder().threads(1).stack_size(64 << 20).build().unwrap();
    // From a thread whose own stack would not do.
    let depth = thread::Builder::new()
        .stack_size(64 << 10)
        .spawn(move || pool.spawn(|| deep(20_000)).wait().unwrap())
        .unwrap();
    assert_eq!(depth.join().unwrap(), 20_000);
}

#[test]
fn many_pools_come_and_go() {
    for round in 0..300 {
        let pool = Pool::new(1 + round % 4).unwrap();
        if round % 3 == 0 {
            assert_eq!(pool.run(|w| w.join(|_| 1, |_| 2)), (1, 2));
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn an_idle_pool_uses_no_processor_time() {
    /// In a second.
    const LITTLE: Duration = Duration::from_millis(5);
    /// Nanoseconds that this process has used.
    fn used_time() -> u64 {
        let mut sum = 0;
        for task in std::fs::read_dir("/proc/self/task").unwrap() {
            let Ok(stat) = std::fs::read_to_string(task.unwrap().path().join("schedstat")) else {
                continue;
            };
            sum += stat.split_whitespace().next().unwrap().parse::<u64>().unwrap();
        }
        sum
    }
    // In a process of its own: other tests run beside this one here.
    if std::env::var_os("RADDLE_IDLE_CHILD").is_none() {
        let status = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "an_idle_pool_uses_no_processor_time", "--nocapture"])
            .env("RADDLE_IDLE_CHILD", "1")
            .status()
            .unwrap();
        assert!(status.success());
        return;
    }
    for threads in [2, 16] {
        let pool = Pool::new(threads).unwrap();
        // Another thread has worked.
        let both = Barrier::new(2);
        pool.run(|w| _ = w.join(|_| both.wait(), |_| both.wait()));
        // So that mostly the first window will do.
        thread::sleep(Duration::from_millis(300));
        // A thread that comes to sleep late, for want of a processor, does so in one of the first; and this very thread's two
        // looks are in each, which may take long.
        let windows = (0..30).map(|_| {
            let before = used_time();
            thread::sleep(Duration::from_secs(1));
            Duration::from_nanos(used_time().saturating_sub(before))
        });
        let mut seen = Vec::new();
        let idle = windows.inspect(|&used| seen.push(used)).any(|used| used < LITTLE);
        assert!(idle, "{threads} idle threads used {seen:?}");
    }
}

/// A guest has kept what says which pool it works in.
#[test]
fn a_pool_that_has_ended_says_so() {
    thread_local! {
        static KEPT: RefCell<Option<CurrentPool>> = const { RefCell::new(None) };
    }
    let pool = Pool::new(1).unwrap();
    pool.run(|_| KEPT.set(Pool::current()));
    let kept = KEPT.take().expect("a guest works in the pool");
    assert_eq!(kept.run(|_| 7), 7);
    drop(pool);
    let late = catch_unwind(AssertUnwindSafe(|| drop(kept.spawn(|| 7))));
    let payload = late.expect_err("there is no thread that would run it");
    assert_eq!(payload.downcast_ref(), Some(&"raddle: the pool has ended"));
}

/// As above, of whoever has taken a reference while the pool was there.
#[test]
fn a_pool_that_has_ended_takes_no_task() {
    thread_local! {
        static KEPT: RefCell<Option<CurrentPool>> = const { RefCell::new(None) };
    }
    let pool = Pool::new(1).unwrap();
    pool.run(|_| KEPT.set(Pool::current()));
    let kept = KEPT.take().expect("a guest works in the pool");
    let reference: &Pool = &kept;
    drop(pool);
    let captured = Arc::new(());
    let held = Arc::clone(&captured);
    let late = catch_unwind(AssertUnwindSafe(|| drop(reference.spawn(move || drop(held)))));
    let payload = late.expect_err("there is no thread that would run it");
    assert_eq!(payload.downcast_ref(), Some(&"raddle: the pool has ended"));
    assert_eq!(Arc::strong_count(&captured), 1, "what the closure holds is dropped");
}

/// Nobody can come in its place.
#[test]
fn a_yield_where_there_is_no_other_thread_runs_what_is_polled_for() {
    let pool = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
    let (started, starts) = mpsc::channel();
    let polls = pool.spawn(move || {
        started.send(()).unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        let sets = Arc::clone(&done);
        drop(spawn(move || sets.fetch_add(1, Ordering::SeqCst)));
        while done.load(Ordering::SeqCst) == 0 {
            yield_now();
        }
    });
    starts.recv().unwrap();
    assert!(polls.wait_timeout(Duration::from_secs(60)).is_ok(), "hangs");
}

/// As above, of the last of many tasks, and while others bring tasks that they run themselves.
#[test]
fn a_yield_where_there_is_no_other_thread_runs_all_whoever_else_goes_on() {
    const TASKS: usize = 100;
    let pool = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
    let (started, starts) = mpsc::channel();
    let polls = pool.spawn(move || {
        started.send(()).unwrap();
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..TASKS {
            let done = Arc::clone(&done);
            drop(spawn(move || done.fetch_add(1, Ordering::SeqCst)));
        }
        while done.load(Ordering::SeqCst) < TASKS {
            yield_now();
        }
    });
    starts.recv().unwrap();
    let since = Instant::now();
    while !polls.is_done() {
        pool.spawn(|| ()).wait().unwrap();
        assert!(since.elapsed() < Duration::from_secs(60), "hangs");
    }
}

/// Where another one can, who yields takes on nothing that may wait for what lies beneath.
#[test]
fn a_yield_leaves_what_is_queued_to_a_thread_that_is_idle() {
    let pool = Pool::builder().threads(2).max_spare_threads(0).build().unwrap();
    for _ in 0..50 {
        let (promise, future) = Promise::new();
        let (started, starts) = mpsc::channel();
        let polls = pool.spawn(move || {
            let waits = spawn(move || {
                started.send(()).unwrap();
                future.wait().unwrap();
            });
            while starts.try_recv().is_err() {
                yield_now();
            }
            promise.set(());
            drop(waits);
        });
        assert!(polls.wait_timeout(Duration::from_secs(60)).is_ok(), "hangs");
    }
}

/// The same on threads that have taken something on in this way before.
#[test]
fn a_yield_is_as_patient_as_the_first_one() {
    let pool = Pool::builder().threads(2).max_spare_threads(0).build().unwrap();
    let both = Arc::new(Barrier::new(2));
    let hosts: Vec<_> = (0..2)
        .map(|_| {
            let both = Arc::clone(&both);
            pool.spawn(move || {
                both.wait();
                let (done, queued) = mpsc::channel();
                drop(spawn(move || done.send(())));
                while queued.try_recv().is_err() {
                    yield_now();
                }
                both.wait();
            })
        })
        .collect();
    for host in hosts {
        assert!(host.wait_timeout(Duration::from_secs(60)).is_ok(), "hangs");
    }
    let ((release, released), (promise, future)) = (mpsc::channel::<()>(), Promise::new());
    let (busy, is_busy) = mpsc::channel();
    let other = pool.spawn(move || {
        busy.send(()).unwrap();
        released.recv().unwrap();
    });
    is_busy.recv().unwrap();
    let (started, starts) = mpsc::channel();
    // Not by this thread, as a guest.
    let (over, is_over) = mpsc::channel();
    drop(pool.spawn(move || {
        let waits = spawn(move || {
            started.send(()).unwrap();
            future.wait().unwrap();
        });
        (0..20).for_each(|_| yield_now());
        release.send(()).unwrap();
        while starts.try_recv().is_err() {
            yield_now();
        }
        promise.set(());
        drop(waits);
        over.send(()).unwrap();
    }));
    is_over.recv_timeout(Duration::from_secs(60)).expect("it has taken on what waits for itself");
    other.wait().unwrap();
}

/// What is polled for within a pool may be another one's, for which this thread works, too.
#[test]
fn a_yield_in_a_pool_within_a_pool_serves_both() {
    let inner = Arc::new(Pool::new(1).unwrap());
    let outer = Pool::new(1).unwrap();
    let (over, is_over) = mpsc::channel();
    drop(outer.spawn(move || {
        let (done, queued) = mpsc::channel();
        drop(spawn(move || done.send(())));
        // Only this thread asks it.
        let queued = std::sync::Mutex::new(queued);
        inner.run(|_| {
            while queued.lock().unwrap().try_recv().is_err() {
                yield_now();
            }
        });
        over.send(()).unwrap();
    }));
    is_over.recv_timeout(Duration::from_secs(60)).expect("nobody works in its place");
}

/// Who searches has no number: another task that works may have it.
#[test]
fn every_task_of_a_pool_finds_a_number_after_a_broadcast() {
    let pool = Pool::new(2).unwrap();
    for _ in 0..2_000 {
        assert_eq!(pool.broadcast(|_| current_worker_index().is_some()), [true; 2]);
        assert!(pool.run(|_| current_worker_index()).is_some());
    }
}

#[test]
fn a_yield_in_a_pool_of_hosts_runs_what_is_polled_for() {
    let pool = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();
    let polls = pool.spawn(|| {
        let done = Arc::new(AtomicUsize::new(0));
        for _ in 0..10 {
            let done = done.clone();
            drop(spawn(move || done.fetch_add(1, Ordering::SeqCst)));
        }
        while done.load(Ordering::SeqCst) < 10 {
            yield_now();
        }
    });
    assert!(polls.wait_timeout(Duration::from_secs(60)).is_ok(), "hangs");
}

#[test]
fn a_yield_calls_what_a_broadcast_calls_on_the_thread() {
    for waits in [Waits::Substitute, Waits::Host] {
        for threads in [1, 2, 3] {
            let pool = Pool::builder().threads(threads).waits(waits).build().unwrap();
            let polls = pool.spawn(move || {
                let broadcast = spawn(|| raddle_core::broadcast(|thread| thread.index()));
                while !broadcast.is_done() {
                    yield_now();
                }
                assert_eq!(broadcast.wait().unwrap(), Vec::from_iter(0..threads));
            });
            let Ok(result) = polls.wait_timeout(Duration::from_secs(60)) else {
                // The pool would wait for its threads.
                std::mem::forget(pool);
                panic!("hangs: {threads} threads, {waits:?}");
            };
            result.unwrap();
        }
    }
}

#[test]
fn a_broadcast_reaches_a_thread_that_joins_while_a_panic_passes() {
    for waits in [Waits::Substitute, Waits::Host] {
        for threads in [2, 3] {
            let pool = Pool::builder().threads(threads).waits(waits).build().unwrap();
            let (begins, begun) = mpsc::channel();
            let torn = pool.spawn(move || {
                let joins = AssertUnwindSafe(|| {
                    join(
                        // Once the other half is stolen.
                        move || begun.recv().map(|()| panic!("torn")).unwrap(),
                        move || {
                            begins.send(()).unwrap();
                            let all = raddle_core::broadcast(|thread| thread.index());
                            assert_eq!(all, Vec::from_iter(0..threads));
                            let failing = || raddle_core::broadcast(|_| panic!("of all"));
                            assert!(catch_unwind(failing).is_err());
                        },
                    )
                });
                catch_unwind(joins).unwrap_err().downcast_ref::<&str>().copied()
            });
            let Ok(result) = torn.wait_timeout(Duration::from_secs(300)) else {
                // The pool would wait for its threads.
                std::mem::forget(pool);
                panic!("hangs: {threads} threads, {waits:?}");
            };
            assert_eq!(result.unwrap(), Some("torn"));
        }
    }
}

/// Though what it waits for waits for its call; also where the single waits are shorter than the while that they leave it.
#[test]
fn a_broadcast_reaches_a_thread_that_waits_with_a_limit() {
    type Wait = fn(raddle_core::Future<usize>) -> usize;
    let at_once: Wait = |future| {
        let waited = future.wait_timeout(Duration::from_secs(600));
        waited.unwrap_or_else(|_| panic!("ten minutes are over")).unwrap()
    };
    let again_and_again: Wait = |mut future| loop {
        match future.wait_timeout(Duration::from_millis(1)) {
            Ok(result) => break result.unwrap(),
            Err(again) => future = again,
        }
    };
    let while_away: Wait = |future| {
        let waited = raddle_core::blocking(|| future.wait_timeout(Duration::from_secs(600)));
        waited.unwrap_or_else(|_| panic!("ten minutes are over")).unwrap()
    };
    for waits in [Waits::Substitute, Waits::Host] {
        for (way, wait) in [at_once, again_and_again, while_away].into_iter().enumerate() {
            let pool = Pool::builder().threads(2).waits(waits).build().unwrap();
            let (over, is_over) = mpsc::channel();
            let root = move || {
                let (begins, begun) = mpsc::channel();
                let broadcasts = spawn(move || {
                    begins.send(()).unwrap();
                    let nested = |_| raddle_core::broadcast(|thread| thread.index()).len();
                    raddle_core::broadcast(nested).into_iter().sum()
                });
                // By now it is another thread's.
                begun.recv().unwrap();
                over.send(wait(broadcasts)).unwrap();
            };
            // Nobody waits for it who could run it himself.
            pool.spawn(root).detach();
            let Ok(calls) = is_over.recv_timeout(Duration::from_secs(60)) else {
                // The pool would wait for its threads.
                std::mem::forget(pool);
                panic!("hangs: way {way}, {waits:?}");
            };
            assert_eq!(calls, 4);
        }
    }
}

#[test]
fn a_broadcast_calls_its_caller_that_works_in_another_pool() {
    for threads in [1, 3] {
        let (pool, other) = (Pool::new(threads).unwrap(), Pool::new(1).unwrap());
        let pool = &pool;
        let name = || thread::current().name().map(str::to_owned);
        let names = pool.broadcast(|_| name());
        let all = pool.broadcast(|_| other.run(|_| pool.broadcast(|_| name())));
        assert_eq!(all, vec![names; threads]);
    }
}

/// Nobody has asked for that thread to run it.
#[test]
fn a_broadcast_reaches_a_thread_that_helps_another_pool() {
    for waits in [Waits::Substitute, Waits::Host] {
        for yields in [false, true] {
            let pool = Arc::new(Pool::builder().threads(1).waits(waits).build().unwrap());
            let other = Arc::new(Pool::new(1).unwrap());
            let (over, is_over) = mpsc::channel();
            let (frees, freed) = mpsc::channel::<()>();
            // Its own thread is at something else, so whoever waits for the task runs it.
            other.spawn(move || freed.recv().unwrap_err()).detach();
            let (from, here) = (pool.clone(), other.clone());
            let root = move || {
                let task = here.spawn(move || {
                    let called = Arc::new(AtomicUsize::new(0));
                    let (calls, pool) = (called.clone(), from.clone());
                    // Somebody else's, for which it waits within the other pool.
                    let broadcast = thread::spawn(move || {
                        pool.broadcast(|_| calls.fetch_add(1, Ordering::SeqCst));
                    });
                    let (promise, done) = raddle_core::Promise::new();
                    thread::spawn(move || promise.set(broadcast.join().is_ok()));
                    while yields && called.load(Ordering::SeqCst) == 0 {
                        yield_now();
                    }
                    done.wait().unwrap()
                });
                over.send(task.wait().unwrap()).unwrap();
            };
            pool.spawn(root).detach();
            let Ok(done) = is_over.recv_timeout(Duration::from_secs(60)) else {
                // The pools would wait for their threads.
                std::mem::forget((pool, other));
                panic!("hangs: {waits:?}, yields: {yields}");
            };
            assert!(done);
            drop(frees);
        }
    }
}

#[test]
fn a_broadcast_may_be_called_beneath_another_pool() {
    let (a, b) = (Pool::new(2).unwrap(), Pool::new(2).unwrap());
    let reached = b.run(|_| a.run(|_| b.run(|_| raddle_core::broadcast(|thread| thread.index()))));
    assert_eq!(reached, [0, 1]);
}

#[test]
fn the_panic_of_a_broadcast_goes_on_though_a_result_panics_as_it_is_dropped() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("a bomb");
        }
    }
    let pool = Pool::new(2).unwrap();
    let call = || {
        pool.broadcast(|thread| {
            assert_eq!(thread.index(), 0, "meant");
            Bomb
        })
    };
    let payload = catch_unwind(AssertUnwindSafe(call)).map(std::mem::forget).unwrap_err();
    assert!(payload.downcast_ref::<String>().unwrap().contains("meant"));
}
