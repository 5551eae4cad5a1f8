//! Waits in continuations: what a thread has put off, and what it runs while it waits.

use std::hint::black_box;
use std::panic::{catch_unwind, panic_any};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{
    Failure, FailureKind, Future, Pool, Promise, Waits, as_completed, collect, first, join, scope,
    select, spawn, wait_any,
};

use crate::support::{SMALL, in_time, kind, on_small_stack, scaled};

/// A row of promises, each set by the continuation of the one before, which then does this.
fn row(length: usize, then: fn()) {
    let (first, mut future) = Promise::<()>::new();
    for _ in 0..length {
        let (promise, next) = Promise::new();
        drop(future.map(move |()| {
            promise.set(());
            then();
        }));
        future = next;
    }
    first.set(());
    future.wait().unwrap();
}

/// So far down that what is completed there is put off.
const FAR: usize = 75;

/// From where that is not so to where it is.
fn depths() -> impl Iterator<Item = usize> {
    (0..50).step_by(10).chain(50..=FAR)
}

/// Calls `last` so many frames of 4 KiB down in a continuation's stack.
fn far_down(frames: usize, last: impl FnOnce() + Send + 'static) {
    #[inline(never)]
    fn dig(frames: usize, last: Box<dyn FnOnce()>) {
        let frame = black_box([0_u8; 4 << 10]);
        if frames == 0 {
            last()
        } else {
            dig(frames - 1, last)
        }
        black_box(&frame);
    }
    let (first, future) = Promise::<()>::new();
    drop(future.map(move |()| dig(frames, Box::new(last))));
    first.set(());
}

/// Otherwise the tests below show nothing.
#[test]
fn what_is_completed_far_down_is_put_off() {
    for (frames, at_once) in [(0, true), (FAR, false)] {
        let (send, receive) = mpsc::channel();
        far_down(frames, move || {
            let done = Arc::new(AtomicBool::new(false));
            let sets = Arc::clone(&done);
            let (promise, future) = Promise::<()>::new();
            drop(future.map(move |()| sets.store(true, Ordering::SeqCst)));
            promise.set(());
            send.send(done.load(Ordering::SeqCst)).unwrap();
        });
        assert_eq!(receive.recv().unwrap(), at_once, "{frames}");
    }
}

/// The rest of the row is not run on top of each wait.
#[test]
fn continuations_that_set_the_next_promise_and_wait() {
    in_time("a row of waits", || {
        let pool = Pool::builder().threads(2).stack_size(SMALL).build().unwrap();
        let length = scaled(if cfg!(debug_assertions) { 5_000 } else { 100_000 });
        pool.spawn(move || row(length, || spawn(|| ()).wait().unwrap())).wait().unwrap();
        let within_a_task = || drop(Future::delay(Duration::ZERO).wait_timeout(Duration::ZERO));
        pool.spawn(move || row(length, within_a_task)).wait().unwrap();
        on_small_stack(move || row(length, || spawn(|| ()).wait().unwrap()));
    });
}

/// What follows the task that the wait runs is nested in nothing.
#[test]
fn a_wait_at_any_depth_of_completions() {
    for depth in depths() {
        in_time("a wait at depth", move || {
            let pool = Pool::new(1).unwrap();
            let (sender, result) = mpsc::channel();
            drop(pool.spawn(move || {
                far_down(depth, move || {
                    sender.send(spawn(|| 1).map(|n| n + 1).wait().unwrap()).unwrap();
                });
            }));
            assert_eq!(result.recv().unwrap(), 2, "{depth}");
        });
    }
}

/// Two threads, of which the one waits for a fork or scope, the other for what the first has put off.
#[test]
fn a_wait_for_a_fork_at_any_depth_of_completions() {
    for depth in depths() {
        for forks in [true, false] {
            in_time("a fork at depth", move || {
                let pool = Pool::new(2).unwrap();
                let (sender, over) = mpsc::channel();
                drop(pool.spawn(move || {
                    far_down(depth, move || {
                        let (promise, future) = Promise::<u32>::new();
                        let future = future.map(|n| n + 1);
                        promise.set(1);
                        let stolen = Arc::new(AtomicBool::new(false));
                        let seen = Arc::clone(&stolen);
                        let until = move || {
                            while !seen.load(Ordering::SeqCst) {
                                thread::yield_now()
                            }
                        };
                        let work = move || {
                            stolen.store(true, Ordering::SeqCst);
                            future.wait().unwrap();
                        };
                        if forks {
                            join(until, work);
                        } else {
                            scope(|s| {
                                s.spawn(move |_| work());
                                until()
                            });
                        }
                        sender.send(()).unwrap();
                    });
                }));
                over.recv().unwrap();
            });
        }
    }
}

/// What a thread has put off is done though it waits for something else; in its order.
#[test]
fn what_is_put_off_does_not_wait_for_who_put_it_off() {
    in_time("what is put off", || {
        let (go, gone) = Promise::<()>::new();
        let (sender, order) = mpsc::channel();
        let (other, end) = mpsc::channel();
        let waiting = thread::spawn(move || {
            far_down(FAR, move || {
                for n in 0..10 {
                    let (promise, future) = Promise::new();
                    let sender = sender.clone();
                    drop(future.map(move |n: u32| sender.send(n).unwrap()));
                    promise.set(n);
                }
                gone.wait().unwrap();
                other.send(()).unwrap();
            });
        });
        assert_eq!(order.iter().take(10).collect::<Vec<_>>(), (0..10).collect::<Vec<_>>());
        assert!(end.try_recv().is_err());
        go.set(());
        waiting.join().unwrap();
        end.recv().unwrap();
    });
}

/// What is put off may wait for what the thread does after its own wait.
#[test]
fn what_is_put_off_may_wait_for_who_put_it_off() {
    in_time("what waits for who put it off", || {
        let (go, gone) = Promise::<()>::new();
        let (sender, end) = mpsc::channel();
        let waiting = thread::spawn(move || {
            far_down(FAR, move || {
                let ((first, put_off), (later, awaited)) = (Promise::new(), Promise::<u32>::new());
                drop(put_off.map(move |()| {
                    go.set(());
                    sender.send(awaited.wait().unwrap()).unwrap();
                }));
                first.set(());
                gone.wait().unwrap();
                later.set(1);
            });
        });
        assert_eq!(end.recv().unwrap(), 1);
        waiting.join().unwrap();
    });
}

/// Continuations with large frames: it is the stack that counts, not the calls.
#[test]
fn completions_nested_in_large_frames() {
    const FRAME: usize = 8 << 10;
    on_small_stack(|| {
        let (first, mut future) = Promise::<usize>::new();
        let length = 1_000;
        for _ in 0..length {
            let (promise, next) = Promise::new();
            drop(future.map(move |n| {
                let frame = black_box([1_u8; FRAME]);
                promise.set(n + usize::from(frame[n % FRAME]));
                black_box(&frame);
            }));
            future = next;
        }
        first.set(0);
        assert_eq!(future.wait().unwrap(), length);
    });
}

// --- time limits ---

/// A wait for what a task will not have done in time.
type Limited = fn(Future<u32>) -> bool;

/// Longer than it takes to start the task, shorter than anybody's patience.
const SHORT: Duration = Duration::from_millis(20);

fn late<T>(result: Result<T, Failure>) -> bool {
    kind(result) == FailureKind::TimedOut
}

const LIMITED: &[(&str, Limited)] = &[
    ("wait_timeout", |task| task.wait_timeout(SHORT).is_err()),
    ("wait_timeout of a map", |task| task.map(|n| n).wait_timeout(SHORT).is_err()),
    ("wait_timeout of a flat_map", |task| {
        Future::ready(()).flat_map(|()| task).wait_timeout(SHORT).is_err()
    }),
    ("wait_timeout of a collect", |task| collect([task]).wait_timeout(SHORT).is_err()),
    ("within", |task| late(task.within(SHORT).wait())),
    ("interrupt_after", |task| late(task.interrupt_after(SHORT).wait())),
    ("within, then map", |task| late(task.map(|n| n).within(SHORT).map(|n| n).wait())),
    ("within of a collect", |task| late(collect([task]).within(SHORT).wait())),
    ("zip of within", |task| late(task.within(SHORT).zip(spawn(|| 1)).wait())),
    ("link to within", |task| {
        let (promise, future) = Promise::new();
        promise.link(task.within(SHORT));
        late(future.wait())
    }),
    ("shared within", |task| late(task.within(SHORT).shared().wait())),
    ("first", |task| first([task, Future::delay(SHORT).map(|()| 2)]).wait().unwrap() == 2),
    ("select", |task| {
        let (_, index, _rest) = select([task, Future::delay(SHORT).map(|()| 2)]).wait().unwrap();
        index == 1
    }),
    ("wait_any", |task| wait_any(&mut vec![task, Future::delay(SHORT).map(|()| 2)]).0 == 1),
    ("as_completed", |task| {
        as_completed([task, Future::delay(SHORT).map(|()| 2)]).next().unwrap().0 == 1
    }),
    ("first of a first", |task| {
        let inner = first([task, Future::never()]);
        first([Future::delay(SHORT).map(|()| 2), inner]).wait().unwrap() == 2
    }),
];

/// The task waits for what is done after the wait: to run it would be to hang.
#[test]
fn limits_limit() {
    for (name, wait) in LIMITED {
        in_time(name, move || {
            for threads in [1, 2] {
                let pool = Pool::new(threads).unwrap();
                let limited = move || {
                    let (go, gate) = mpsc::channel();
                    let over = wait(spawn(move || gate.recv().unwrap()));
                    // Not started, it may have been interrupted.
                    let _gone = go.send(1);
                    over
                };
                assert!(pool.spawn(limited).wait().unwrap(), "a task: {name}");
                let (sender, result) = mpsc::channel();
                drop(pool.spawn(move || sender.send(limited()).unwrap()));
                assert!(result.recv().unwrap(), "a thread of the pool: {name}");
                assert!(pool.run(|_| limited()), "a guest: {name}");
                assert!(limited(), "a thread from outside: {name}");
            }
        });
    }
}

/// Pools in which each thread that there can be waits with a limit.
fn pools_without_more_threads() -> impl Iterator<Item = Pool> {
    let host = |threads| Pool::builder().threads(threads).waits(Waits::Host);
    [host(1), host(2), host(8), Pool::builder().threads(1).max_spare_threads(2)]
        .map(|b| b.build().unwrap())
        .into_iter()
}

type LongWait = fn(Future<u32>) -> u32;

const LONG_WAITS: &[(&str, LongWait)] = &[
    ("long", |task| match task.wait_timeout(Duration::from_secs(600)) {
        Ok(result) => result.unwrap(),
        Err(_) => panic!("ten minutes are over"),
    }),
    ("short, again and again", |mut task| {
        loop {
            match task.wait_timeout(Duration::from_millis(1)) {
                Ok(result) => return result.unwrap(),
                Err(same) => task = same,
            }
        }
    }),
    ("of a map of a link", |task| {
        let (promise, future) = Promise::new();
        promise.link(task.map(|n| n));
        LONG_WAITS[0].1(future.map(|n| n))
    }),
];

/// What all threads of a pool leave to others is done all the same.
#[test]
fn limited_waits_of_all_threads_come_to_an_end() {
    for (name, wait) in LONG_WAITS {
        in_time(name, move || {
            for pool in pools_without_more_threads() {
                let waits = || pool.spawn(move || wait(spawn(|| 1)));
                let all: Vec<_> = (0..8).map(|_| waits()).collect();
                assert_eq!(collect(all).wait().unwrap(), [1; 8]);
            }
        });
    }
}

/// Nothing else is taken on, which might wait for what lies beneath.
#[test]
fn a_limited_wait_takes_on_its_own_task_only() {
    in_time("a wait", || {
        let pool = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();
        let (_promise, event) = Promise::<u32>::new();
        let (give, given) = mpsc::channel::<Future<u32>>();
        let limited = pool.spawn(move || {
            drop(
                spawn(move || given.recv().unwrap().wait())
                    .map(|result| assert_eq!(result.unwrap(), 5)),
            );
            assert!(event.wait_timeout(Duration::from_millis(300)).is_err());
            5
        });
        let shared = limited.shared();
        give.send(shared.future()).unwrap();
        assert_eq!(shared.future().wait().unwrap(), 5);
    });
}

/// That nobody came once says nothing of later.
#[test]
fn a_limited_wait_begins_anew_after_a_while() {
    // For so long nobody comes before a wait runs what it waits for.
    const VAIN: Duration = Duration::from_millis(100);
    in_time("waits", || {
        let pool = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();
        let (sender, result) = mpsc::channel();
        // This thread does not help: a guest would leave its place to the pool's own thread, which comes.
        drop(pool.spawn(move || {
            // After how long the task has begun, if it has.
            let wait = |limit| {
                let since = Instant::now();
                spawn(move || since.elapsed()).wait_timeout(limit).ok().map(Result::unwrap)
            };
            let first = wait(Duration::from_secs(600));
            thread::sleep(2 * VAIN);
            sender.send((first, wait(VAIN / 2))).unwrap();
        }));
        let (first, second) = result.recv().unwrap();
        assert!(first.is_some_and(|began| began >= VAIN), "{first:?}");
        // In the middle of it the thread may have had no processor for as long.
        assert!(second.is_none_or(|began| began >= VAIN), "{second:?}");
    });
}

/// Inside of a panic nothing else is taken on, however long nobody comes.
#[test]
fn a_limited_wait_inside_of_a_panic_takes_on_nothing() {
    struct WaitsOnDrop(bool);
    impl Drop for WaitsOnDrop {
        fn drop(&mut self) {
            let limit = Duration::from_millis(300);
            self.0 = Future::<()>::never().map(|()| ()).wait_timeout(limit).is_ok();
            let (_promise, future) = Promise::<()>::new();
            self.0 |= future.wait_timeout(limit).is_ok();
        }
    }
    in_time("a panic", || {
        let pool = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();
        let panics = pool.spawn(|| {
            let other = spawn(thread::panicking);
            let unwound = catch_unwind(|| {
                let _waits = WaitsOnDrop(false);
                panic_any("on purpose");
            });
            assert!(unwound.is_err());
            other
        });
        assert!(!panics.wait().unwrap().wait().unwrap());
    });
}

// --- who depends on whom ---

/// A wait for an async future takes on nothing else, such as what waits for the waiting task.
#[test]
fn a_wait_for_an_async_future_runs_its_polls_only() {
    in_time("an async future", || {
        let pool = Pool::new(1).unwrap();
        let (event, happens) = Promise::<u32>::new();
        let (give, given) = mpsc::channel::<Future<u32>>();
        let (sender, result) = mpsc::channel();
        let waits = pool.spawn(move || {
            let own = given.recv().unwrap();
            drop(spawn(move || sender.send(own.wait()).unwrap()));
            Future::from_async(async move { happens.await.unwrap() }).wait().unwrap()
        });
        give.send(waits).unwrap();
        // Nothing to wait for: there is not going to be one.
        assert!(result.recv_timeout(SHORT).is_err());
        event.set(5);
        assert_eq!(result.recv().unwrap().unwrap(), 5);
    });
}
