//! Waits of threads that had better run nothing meanwhile, and what is called while others wait.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{
    Failure, FailureKind, Future, Pool, Promise, ScopeLocal, Waits as PoolWaits, blocking,
    broadcast, interrupted, killed, spawn, window, yield_now,
};
use raddle_sync::parker;

use crate::{LONG, SHORT, busy, in_time};

/// The task waits for the next timer, and nobody but the waiting thread has the time to run it.
#[test]
fn a_task_that_a_continuation_of_a_timer_waits_for_holds_no_timer_up() {
    in_time(|| {
        let (pool, go) = busy();
        let (pool, owned) = (Arc::new(pool), go);
        let spawner = Arc::clone(&pool);
        let (send, receive) = mpsc::channel();
        let (over, is_over) = mpsc::channel();
        drop(Future::delay(Duration::from_millis(1)).map(move |()| {
            let task = spawner.spawn(move || receive.recv().unwrap());
            over.send(task.wait().unwrap()).unwrap();
        }));
        drop(Future::delay(Duration::from_millis(20)).map(move |()| send.send(7).unwrap()));
        assert_eq!(is_over.recv_timeout(LONG).expect("no timer fires any more"), 7);
        drop(owned);
    });
}

/// Waits for a future as it is dropped, and tells what came of it.
struct Waits<T: Send + 'static>(Option<Future<T>>, mpsc::Sender<Result<T, Failure>>);

impl<T: Send + 'static> Drop for Waits<T> {
    fn drop(&mut self) {
        self.1.send(self.0.take().unwrap().wait()).unwrap();
    }
}

#[test]
fn what_is_waited_for_inside_of_a_panic_runs_elsewhere() {
    in_time(|| {
        for spares in [0, 64] {
            let pool = Pool::builder().threads(1).max_spare_threads(spares).build().unwrap();
            let (tell, told) = mpsc::channel();
            let task = pool.spawn(move || {
                let _waits = Waits(Some(spawn(thread::panicking)), tell);
                panic!("meant");
            });
            let panics = told.recv().unwrap().unwrap();
            // Where no thread is to be had there is nobody else.
            assert!(!panics || spares == 0);
            assert_eq!(task.wait().unwrap_err().kind(), FailureKind::Panicked);
        }
        // Nor is there anybody for the pool beneath.
        let alone = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
        let other = Pool::new(1).unwrap();
        let (tell, told) = mpsc::channel();
        let task = alone.spawn(move || {
            let future = spawn(|| true);
            other.run(|_| {
                let _waits = Waits(Some(future), tell);
                panic!("meant");
            });
        });
        assert!(told.recv().unwrap().unwrap());
        assert_eq!(task.wait().unwrap_err().kind(), FailureKind::Panicked);
        // A thread from outside.
        let pool = Arc::new(Pool::new(1).unwrap());
        let (tell, told) = mpsc::channel();
        let spawner = Arc::clone(&pool);
        let panics = thread::spawn(move || {
            let _waits = Waits(Some(spawner.spawn(thread::panicking)), tell);
            panic!("meant");
        });
        assert!(!told.recv().unwrap().unwrap());
        assert!(panics.join().is_err());
        // Who waits for itself is told so all the same.
        let (give, own) = mpsc::channel::<Future<()>>();
        let (tell, told) = mpsc::channel();
        let task = pool.spawn(move || {
            let _waits = Waits(Some(own.recv().unwrap()), tell);
            panic!("meant");
        });
        give.send(task).unwrap();
        assert_eq!(told.recv().unwrap().unwrap_err().kind(), FailureKind::Cycle);
    });
}

/// So deep that the way to the next task is long.
fn down(n: u32) -> Future<u32> {
    spawn(|| ()).flat_map(move |()| match n {
        0 => Future::ready(0),
        n => down(n - 1).map(|n| n + 1),
    })
}

#[test]
fn a_recursion_that_is_no_tail_call_is_waited_for_in_linear_time() {
    in_time(|| {
        const DEEP: u32 = 300_000;
        let pool = Pool::new(1).unwrap();
        assert_eq!(pool.spawn(|| down(DEEP).wait()).wait().unwrap().unwrap(), DEEP);
        assert_eq!(pool.spawn(|| ()).flat_map(|()| down(DEEP)).wait().unwrap(), DEEP);
    });
}

/// Where nobody else can run the tasks, who waits goes on with them.
#[test]
fn a_deep_recursion_is_run_by_who_waits_if_nobody_else_can() {
    in_time(|| {
        const DEEP: u32 = 4_000;
        let pool = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
        assert_eq!(pool.spawn(|| down(DEEP).wait()).wait().unwrap().unwrap(), DEEP);
        let (pool, go) = busy();
        assert_eq!(pool.spawn(|| ()).flat_map(|()| down(DEEP)).wait().unwrap(), DEEP);
        drop(go);
    });
}

#[test]
fn a_window_calls_for_nobody_who_completes_its_inputs() {
    static NAME: ScopeLocal<u32> = ScopeLocal::new("name");
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        let (promise, future) = Promise::<()>::new();
        let mut future = Some(future);
        let (see, seen) = mpsc::channel();
        let all = NAME.bind(7).run(|| {
            window(0..2, 1, move |_| {
                future.take().unwrap_or_else(|| {
                    let name = NAME.with(|&name| name);
                    see.send((interrupted(), killed(), name)).unwrap();
                    Future::ready(())
                })
            })
        });
        let (started, starts) = mpsc::channel();
        let (go, goes) = mpsc::channel::<()>();
        let task = pool.spawn(move || {
            started.send(()).unwrap();
            let _ = goes.recv();
            NAME.bind(8).run(|| promise.set(()));
        });
        starts.recv().unwrap();
        task.interrupt("stop");
        task.kill();
        drop(go);
        assert_eq!(seen.recv().unwrap(), (false, false, 7));
        assert_eq!(all.wait().unwrap().len(), 2);
    });
}

/// A wait with a limit, on the thread that all timers wait for, lasts as long as the limit says.
#[test]
fn a_continuation_of_a_timer_waits_no_longer_than_it_wants() {
    in_time(|| {
        let ask = || {
            let asks = |()| {
                let (_promise, never) = Promise::<()>::new();
                let since = Instant::now();
                assert!(never.wait_timeout(Duration::ZERO).is_err());
                since.elapsed()
            };
            Future::delay(Duration::from_millis(1)).map(asks).wait().unwrap()
        };
        let least = (0..50).map(|_| ask()).min().unwrap();
        assert!(least < Duration::from_millis(5), "it takes {least:?} at least");
    });
}

/// A thread that waits inside of a panic is there for its mail, and for what nobody else can run.
#[test]
fn a_wait_inside_of_a_panic_keeps_nobody_waiting() {
    in_time(|| {
        let pool = Pool::new(2).unwrap();
        let (tell, told) = mpsc::channel();
        drop(pool.spawn(move || {
            let _waits = Waits(Some(spawn(|| broadcast(|thread| thread.index()))), tell);
            panic!("meant");
        }));
        assert_eq!(told.recv().unwrap().unwrap(), [0, 1]);

        let alone = Pool::builder().threads(1).max_spare_threads(0).build().unwrap();
        let (tell, told) = mpsc::channel();
        drop(alone.spawn(move || {
            let (promise, future) = Promise::new();
            drop(spawn(move || promise.set(1)));
            let _waits = Waits(Some(future), tell);
            panic!("meant");
        }));
        assert_eq!(told.recv().unwrap().unwrap(), 1);
    });
}

/// All but one of those who wait for a future that they keep look at it now and then: also they are there for their mail, and for
/// what nobody else can run.
#[test]
fn who_looks_now_and_then_keeps_nobody_waiting() {
    in_time(|| {
        for spares in [0, 256] {
            let pool = Pool::builder().threads(1).max_spare_threads(spares).build().unwrap();
            let (promise, future) = Promise::new();
            let future = Arc::new(future);
            let first = Arc::clone(&future);
            let (tell, told) = mpsc::channel();
            let first = thread::spawn(move || {
                tell.send(parker::current()).unwrap();
                first.wait_ref();
            });
            // It is the first, and so the one that looks no more.
            let first_sleeps_on = told.recv().unwrap();
            while !first_sleeps_on.is_parked() {
                thread::yield_now();
            }
            let (started, starts) = mpsc::channel();
            let second = Arc::clone(&future);
            let waits = pool.spawn(move || {
                if spares == 0 {
                    drop(spawn(move || promise.set(())));
                } else {
                    started.send(promise).unwrap();
                }
                second.wait_ref();
            });
            if spares > 0 {
                let promise = starts.recv().unwrap();
                assert_eq!(pool.broadcast(|thread| thread.index()), [0]);
                promise.set(());
            }
            first.join().unwrap();
            waits.wait().unwrap();
        }
    });
}

/// What a thread of hosts runs while it yields may broadcast, whatever lies beneath, or wait for who does, if there is no lock.
#[test]
fn what_is_run_by_a_yield_gets_its_broadcasts() {
    type Outer = fn(&dyn Fn());
    let outer: [(bool, Outer); 2] = [
        (true, |f| {
            let lock = raddle::lock::Mutex::new(());
            let _held = lock.lock();
            f();
        }),
        (false, |f| blocking(f)),
    ];
    for (locks, outer) in outer {
        // The one that yields runs all of it.
        let pool = Pool::builder().threads(1).waits(PoolWaits::Host).build().unwrap();
        let pool = Arc::new(pool);
        let outside = Arc::clone(&pool);
        let polls = pool.spawn(move || {
            outer(&|| {
                let calls = spawn(|| broadcast(|thread| thread.index()));
                let (promise, called) = Promise::new();
                let outside = Arc::clone(&outside);
                let awaits = spawn(move || {
                    if locks {
                        return vec![0];
                    }
                    let calls = move || promise.set(outside.broadcast(|thread| thread.index()));
                    thread::spawn(calls);
                    called.wait().unwrap()
                });
                while !(calls.is_done() && awaits.is_done()) {
                    yield_now();
                }
                assert_eq!([calls.wait().unwrap(), awaits.wait().unwrap()], [[0], [0]]);
            });
        });
        let Ok(result) = polls.wait_timeout(LONG) else {
            // The pool would wait for its threads.
            std::mem::forget(pool);
            panic!("hangs");
        };
        result.unwrap();
    }
}

/// The other pool's end waits for a call that only the thread can make that drops the pool.
#[test]
fn a_broadcast_reaches_a_thread_that_drops_another_pool() {
    for waits in [PoolWaits::Substitute, PoolWaits::Host] {
        for threads in [1, 3] {
            let pool = Pool::builder().threads(threads).waits(waits).build().unwrap();
            let pool = Arc::new(pool);
            let sender = Arc::clone(&pool);
            let drops = pool.spawn(move || {
                let other = Pool::new(1).unwrap();
                let calls = other.spawn(move || {
                    thread::sleep(SHORT);
                    sender.broadcast(|thread| thread.index())
                });
                drop(other);
                assert!(calls.is_done());
                calls.wait().unwrap()
            });
            let Ok(result) = drops.wait_timeout(LONG) else {
                // The pool would wait for its threads.
                std::mem::forget(pool);
                panic!("hangs: {threads} threads, {waits:?}");
            };
            assert_eq!(result.unwrap(), Vec::from_iter(0..threads));
        }
    }
}
