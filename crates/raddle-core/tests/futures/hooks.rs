//! What hooks of a pool hear of async futures: of each its start and its end, once.

use std::future::{Future as _, pending, poll_fn};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::thread;

use raddle_core::{
    FailureKind, Future, Killed, Outcome, Pool, PoolBuilder, Promise, TaskId, interrupted, killed,
    scope_local, spawn,
};
use tokio::sync::{mpsc as tokio_mpsc, oneshot};

use crate::support::{ON_PURPOSE, blow, kind, quiet, scaled};

/// What hooks have heard.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Call>>>);

/// A start, or an end.
type Call = (TaskId, Option<Outcome>);

impl Heard {
    fn builder(&self, threads: usize) -> PoolBuilder {
        let (before, after) = (self.clone(), self.clone());
        Pool::builder()
            .threads(threads)
            .before_start(move |id| before.0.lock().unwrap().push((id, None)))
            .after_finish(move |id, outcome| after.0.lock().unwrap().push((id, Some(outcome))))
    }

    fn pool(threads: usize) -> (Pool, Heard) {
        let heard = Heard::default();
        (heard.builder(threads).build().unwrap(), heard)
    }

    fn starts(&self) -> usize {
        self.0.lock().unwrap().iter().filter(|call| call.1.is_none()).count()
    }

    /// How those ended that have started, in the order of their starts; each start comes before its end.
    fn ends(&self) -> Vec<Outcome> {
        let calls = self.0.lock().unwrap();
        let starts = calls.iter().enumerate().filter(|(_, call)| call.1.is_none());
        let ends: Vec<Outcome> = starts
            .map(|(at, &(id, _))| {
                let of_id: Vec<_> = calls.iter().filter(|call| call.0 == id).collect();
                assert_eq!(of_id.len(), 2, "a start and an end of {id}: {calls:?}");
                let end = calls[at..].iter().find_map(|call| call.1.filter(|_| call.0 == id));
                end.unwrap_or_else(|| panic!("{id} ends before it starts: {calls:?}"))
            })
            .collect();
        assert_eq!(calls.len(), 2 * ends.len(), "an end without a start: {calls:?}");
        ends
    }

    /// The one end of the one future.
    #[track_caller]
    fn end(&self) -> Outcome {
        let ends = self.ends();
        assert_eq!(ends.len(), 1);
        ends[0]
    }
}

/// An async future that has been polled once, and waits for the sender.
fn suspended(pool: &Pool) -> (Future<u32>, oneshot::Sender<u32>) {
    let (send, receive) = oneshot::channel();
    let (polled, is_polled) = mpsc::channel();
    let future = pool.spawn_async(async move {
        polled.send(()).unwrap();
        receive.await.unwrap_or_else(|_| blow())
    });
    is_polled.recv().unwrap();
    until_idle(pool);
    (future, send)
}

/// An async future that has been polled once, and its only waker.
fn held(pool: &Pool) -> (Future<u32>, Waker) {
    let (send, waker) = mpsc::channel();
    let future = pool.spawn_async(poll_fn(move |context| {
        send.send(context.waker().clone()).unwrap();
        Poll::Pending
    }));
    let waker = waker.recv().unwrap();
    until_idle(pool);
    (future, waker)
}

/// Until what runs now is over, on a pool of one thread.
fn until_idle(pool: &Pool) {
    assert_eq!(pool.num_threads(), 1);
    // By a hop, of which hooks do not hear.
    let (promise, future) = Promise::new();
    let (send, over) = mpsc::channel();
    drop(future.on(pool).map(move |()| send.send(()).unwrap()));
    promise.set(());
    over.recv().unwrap();
}

#[test]
fn polled_often_it_starts_and_ends_once() {
    let (pool, heard) = Heard::pool(2);
    let (send, mut receive) = tokio_mpsc::channel::<usize>(1);
    let (seen, polls) = (heard.clone(), Arc::new(AtomicUsize::new(0)));
    let count = Arc::clone(&polls);
    let mut sums = Box::pin(async move {
        let mut sum = 0;
        while let Some(n) = receive.recv().await {
            sum += n;
        }
        sum
    });
    let sum = pool.spawn_async(poll_fn(move |context| {
        assert_eq!(seen.starts(), 1, "it has started, and none of its polls has");
        count.fetch_add(1, Ordering::SeqCst);
        sums.as_mut().poll(context)
    }));
    // Woken by another thread, many times, and by its own poll.
    let items = scaled(2_000);
    let sender = thread::spawn(move || (0..items).for_each(|n| send.blocking_send(n).unwrap()));
    sender.join().unwrap();
    assert_eq!(sum.wait().unwrap(), items * (items - 1) / 2);
    assert_eq!(heard.end(), Outcome::Completed, "before the result is there");
    assert!(polls.load(Ordering::SeqCst) > 1);
    drop(pool);
    assert_eq!(heard.end(), Outcome::Completed);
}

#[test]
fn one_that_wakes_itself_starts_once() {
    let (pool, heard) = Heard::pool(1);
    let mut turns = scaled(1_000);
    let future = pool.spawn_async(poll_fn(move |context| {
        turns -= 1;
        context.waker().wake_by_ref();
        if turns == 0 { Poll::Ready(()) } else { Poll::Pending }
    }));
    future.wait().unwrap();
    drop(pool);
    assert_eq!(heard.end(), Outcome::Completed);
}

#[test]
fn what_has_not_been_polled_has_no_calls() {
    let (pool, heard) = Heard::pool(1);
    let (open, gate) = mpsc::channel::<()>();
    let (busy, is_busy) = mpsc::channel();
    let holds = pool.spawn(move || {
        busy.send(()).unwrap();
        gate.recv().unwrap();
    });
    is_busy.recv().unwrap();
    let never_polled = || pool.spawn_async(async { panic!("it is polled") });
    let killed: Future<u32> = never_polled();
    assert_eq!(killed.kill(), Killed::BeforeStart);
    let interrupted: Future<u32> = never_polled();
    interrupted.interrupt("enough");
    let dropped: Future<u32> = never_polled();
    drop(dropped.cancel_on_drop());
    open.send(()).unwrap();
    holds.wait().unwrap();
    assert_eq!(kind(killed.wait()), FailureKind::Killed);
    assert_eq!(kind(interrupted.wait()), FailureKind::Interrupted);
    drop(pool);
    assert_eq!(heard.end(), Outcome::Completed, "the task that was in the way");
}

#[test]
fn killed_between_polls() {
    let (pool, heard) = Heard::pool(1);
    let (future, _send) = suspended(&pool);
    assert_ne!(future.kill(), Killed::TooLate);
    assert_eq!(kind(future.wait()), FailureKind::Killed);
    assert_eq!(heard.end(), Outcome::Killed);
    drop(pool);
    assert_eq!(heard.end(), Outcome::Killed);
}

#[test]
fn killed_by_what_is_made_of_it() {
    let (pool, heard) = Heard::pool(1);
    let (future, _send) = suspended(&pool);
    let made = future.map(|n| n + 1);
    assert_ne!(made.kill(), Killed::TooLate);
    drop(pool);
    assert_eq!(heard.end(), Outcome::Killed);
}

/// As a task that runs and is killed: whatever it returns, nobody sees that.
#[test]
fn killed_while_it_is_polled() {
    let futures: [fn(Future<u32>) -> Future<u32>; 2] =
        [|future| future, |future| future.map(|n| n)];
    for make in futures {
        for by_pool in [false, true] {
            let (pool, heard) = Heard::pool(1);
            let (polled, is_polled) = mpsc::channel();
            let future = make(pool.spawn_async(async move {
                polled.send(()).unwrap();
                while !killed() {
                    thread::yield_now();
                }
                1
            }));
            is_polled.recv().unwrap();
            if by_pool {
                assert_eq!(pool.kill_all(), 1);
            } else {
                assert_eq!(future.kill(), Killed::WhileRunning);
            }
            assert_eq!(kind(future.wait()), FailureKind::Killed);
            drop(pool);
            assert_eq!(heard.end(), Outcome::Killed);
        }
    }
}

#[test]
fn interrupted_between_polls() {
    let (pool, heard) = Heard::pool(1);
    let (future, _send) = suspended(&pool);
    future.interrupt("enough");
    assert_eq!(kind(future.wait()), FailureKind::Interrupted);
    assert_eq!(heard.end(), Outcome::Interrupted);
    drop(pool);
    assert_eq!(heard.end(), Outcome::Interrupted);
}

#[test]
fn interrupted_while_it_is_polled_it_may_go_on() {
    for goes_on in [true, false] {
        let (pool, heard) = Heard::pool(1);
        let (polled, is_polled) = mpsc::channel();
        let future = pool.spawn_async(async move {
            polled.send(()).unwrap();
            while !interrupted() {
                thread::yield_now();
            }
            if !goes_on {
                pending::<()>().await;
            }
            1
        });
        is_polled.recv().unwrap();
        future.interrupt("enough");
        assert_eq!(future.wait().is_ok(), goes_on);
        drop(pool);
        let end = if goes_on { Outcome::Completed } else { Outcome::Interrupted };
        assert_eq!(heard.end(), end);
    }
}

#[test]
fn dropped_it_goes_on_or_is_interrupted() {
    let (pool, heard) = Heard::pool(1);
    let (future, send) = suspended(&pool);
    drop(future);
    send.send(1).unwrap();
    let (future, _send) = suspended(&pool);
    drop(future.cancel_on_drop());
    drop(pool);
    assert_eq!(heard.ends(), [Outcome::Completed, Outcome::Interrupted]);
}

#[test]
fn its_pool_kills_all_or_ends() {
    for ends in [false, true] {
        let (pool, heard) = Heard::pool(1);
        let (first, _one) = suspended(&pool);
        let (second, _two) = suspended(&pool);
        if !ends {
            // Two, and what waited for them, which is just over.
            assert!((2..=3).contains(&pool.kill_all()));
        }
        drop(pool);
        assert_eq!(kind(first.wait()), FailureKind::Killed);
        assert_eq!(kind(second.wait()), FailureKind::Killed);
        assert_eq!(heard.ends(), [Outcome::Killed; 2]);
    }
}

#[test]
fn a_poll_panics() {
    let (pool, heard) = Heard::pool(1);
    let first = pool.spawn_async(async { blow::<u32>() });
    assert_eq!(kind(first.wait()), FailureKind::Panicked);
    let (later, send) = suspended(&pool);
    drop(send);
    assert_eq!(kind(later.wait()), FailureKind::Panicked);
    drop(pool);
    assert_eq!(heard.ends(), [Outcome::Panicked; 2]);
}

#[test]
fn nobody_is_left_who_could_wake_it() {
    let (pool, heard) = Heard::pool(1);
    let at_once = pool.spawn_async(pending::<u32>());
    assert_eq!(kind(at_once.wait()), FailureKind::Broken);
    // Here, and not on a worker.
    let (later, waker) = held(&pool);
    drop(waker);
    assert_eq!(heard.ends(), [Outcome::Broken; 2]);
    assert_eq!(kind(later.wait()), FailureKind::Broken);
    drop(pool);
    assert_eq!(heard.ends(), [Outcome::Broken; 2]);
}

/// Each holds the last waker of the next.
#[test]
fn a_chain_that_nobody_can_wake_ends_without_recursion() {
    struct Last(#[expect(dead_code, reason = "for its drop")] Arc<Mutex<Option<Waker>>>);
    let (pool, heard) = Heard::pool(1);
    let count = 5_000;
    let (polled, is_polled) = mpsc::channel();
    let last = (0..count).fold(Last(Arc::default()), |next, _| {
        let waker = Arc::new(Mutex::new(None::<Waker>));
        let kept = Arc::downgrade(&waker);
        let polled = polled.clone();
        drop(pool.spawn_async(async move {
            let _next = next;
            poll_fn(|context| {
                if let Some(waker) = kept.upgrade() {
                    *waker.lock().unwrap() = Some(context.waker().clone());
                }
                polled.send(()).unwrap();
                Poll::<()>::Pending
            })
            .await;
        }));
        Last(waker)
    });
    is_polled.iter().take(count).for_each(drop);
    until_idle(&pool);
    crate::support::on_small_stack(move || drop(last));
    drop(pool);
    assert_eq!(heard.ends(), vec![Outcome::Broken; count]);
}

#[test]
fn hooks_that_panic() {
    quiet();
    let ends = Arc::<Mutex<Vec<Outcome>>>::default();
    let (heard, starts) = (Arc::clone(&ends), AtomicUsize::new(0));
    let pool = Pool::builder()
        .threads(1)
        .before_start(move |_| {
            assert!(starts.fetch_add(1, Ordering::SeqCst) > 0, "{ON_PURPOSE}: before");
        })
        .after_finish(move |_, outcome| {
            heard.lock().unwrap().push(outcome);
            panic!("{ON_PURPOSE}: after");
        })
        .build()
        .unwrap();
    let alive = Arc::new(());
    let kept = Arc::clone(&alive);
    let first: Future<u32> = pool.spawn_async(async move {
        drop(kept);
        unreachable!("its start has failed")
    });
    assert_eq!(kind(first.wait()), FailureKind::Panicked);
    assert_eq!(Arc::strong_count(&alive), 1);
    let (second, send) = suspended(&pool);
    send.send(2).unwrap();
    assert_eq!(second.wait().unwrap(), 2);
    drop(pool);
    assert_eq!(*ends.lock().unwrap(), [Outcome::Panicked, Outcome::Completed]);
}

/// Both spawned and async ones, and nothing else: no hops, forks or continuations.
#[test]
fn spawned_tasks_have_theirs_as_before() {
    let (pool, heard) = Heard::pool(2);
    let sum = pool.spawn_async(async {
        let mut sum = 0;
        for n in 0..10_u32 {
            sum += spawn(move || n).await.unwrap();
        }
        sum
    });
    assert_eq!(sum.wait().unwrap(), 45);
    let other = Pool::new(1).unwrap();
    let hops = other.spawn(|| 1_u32).on(&pool).map(|n| n + 1).on(&other).on(&pool);
    assert_eq!(hops.flat_map(Future::ready).wait().unwrap(), 2);
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
    pool.scope(|scope| (0..10).for_each(|_| scope.spawn(|_| ())));
    drop(pool);
    assert_eq!(heard.ends(), [Outcome::Completed; 11]);
}

scope_local! { static USER: u32; }

/// The start sees the locals of the future, as that of a task does. The end sees none, least of all those of who brings it about.
#[test]
fn what_hooks_see_of_locals() {
    let seen = Arc::<Mutex<Vec<Option<u32>>>>::default();
    let (before, after) = (Arc::clone(&seen), Arc::clone(&seen));
    let pool = Pool::builder()
        .threads(1)
        .before_start(move |_| before.lock().unwrap().push(USER.get()))
        .after_finish(move |_, _| after.lock().unwrap().push(USER.get()))
        .build()
        .unwrap();
    USER.bind(1).run(|| pool.spawn(|| ())).wait().unwrap();
    let (future, _send) = USER.bind(2).run(|| suspended(&pool));
    USER.bind(3).run(|| future.interrupt("enough"));
    drop(pool);
    assert_eq!(*seen.lock().unwrap(), [Some(1), None, Some(2), None]);
}

/// What hooks hold goes with their pool, once none of its async futures is left that has started and is not over.
#[test]
fn hooks_go_with_their_pool() {
    let heard = Heard::default();
    let pool = heard.builder(1).build().unwrap();
    // Its waker outlives it.
    let (future, waker) = held(&pool);
    drop(pool);
    assert_eq!(kind(future.wait()), FailureKind::Killed);
    assert_eq!(Arc::strong_count(&heard.0), 1);
    waker.wake();
}

/// Woken, interrupted, killed and without its pool, all at once: whichever comes first, there is one start and one end.
#[test]
fn all_ends_at_once() {
    for round in 0..scaled(300) {
        let (pool, heard) = Heard::pool(2);
        let (send, receive) = oneshot::channel::<u32>();
        let future = pool.spawn_async(async { receive.await.unwrap_or(0) });
        let other = pool.spawn_async(pending::<()>());
        let barrier = Barrier::new(4);
        thread::scope(|threads| {
            threads.spawn(|| {
                barrier.wait();
                let _ = send.send(1);
            });
            threads.spawn(|| {
                barrier.wait();
                future.interrupt("enough");
            });
            threads.spawn(|| {
                barrier.wait();
                if round % 2 == 0 {
                    pool.kill_all()
                } else {
                    0
                };
                drop(pool);
            });
            barrier.wait();
            other.kill();
        });
        let _ = future.wait();
        drop(other);
        // Who has it end may be at it when the pool has gone, but not longer than the thread is.
        let ends = heard.ends();
        assert!(ends.len() <= 2, "{ends:?}");
    }
}
