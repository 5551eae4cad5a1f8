//! Futures in async runtimes, and async futures on a pool.

use std::future::{Future as _, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc as std_mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{FailureKind, Future, Killed, Pool, Promise, scope_local, spawn};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::{mpsc, oneshot};

use crate::support::{blow, in_time, kind, scaled};

fn runtimes() -> [Runtime; 2] {
    [
        Builder::new_current_thread().enable_time().build().unwrap(),
        Builder::new_multi_thread().worker_threads(2).enable_time().build().unwrap(),
    ]
}

/// A chain on a task of the pool, awaited many times by many tasks.
async fn awaits(count: usize) -> usize {
    let mut sum = 0;
    for n in 0..count {
        sum += spawn(move || n).map(|n| n + 1).flat_map(|n| spawn(move || n)).await.unwrap();
    }
    sum
}

#[test]
fn awaited_in_tokio() {
    let count = scaled(2_000);
    for runtime in runtimes() {
        let sum = runtime.block_on(async {
            let tasks: Vec<_> = (0..4).map(|_| tokio::spawn(awaits(count / 4))).collect();
            let mut sum = 0;
            for task in tasks {
                sum += task.await.unwrap();
            }
            sum
        });
        let each = count / 4;
        assert_eq!(sum, 4 * each * (each + 1) / 2);
    }
}

#[test]
fn awaited_in_smol() {
    let count = scaled(2_000);
    let sum = smol::block_on(async {
        let (one, other) = (smol::spawn(awaits(count)), awaits(count));
        other.await + one.await
    });
    assert_eq!(sum, count * (count + 1));
}

#[test]
fn failures_are_awaited_as_results() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let panicked = spawn(blow::<u32>).await;
            assert_eq!(kind(panicked), FailureKind::Panicked);
            let (promise, future) = Promise::<u32>::new();
            drop(promise);
            assert_eq!(kind(future.await), FailureKind::Broken);
            assert_eq!(Future::ready(3).await.unwrap(), 3);
        });
    }
}

/// `timeout` drops the future, which detaches; it interrupts if it was asked to.
#[test]
fn a_timeout_detaches_or_interrupts() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (promise, future) = Promise::<u32>::new();
            let limit = Duration::from_millis(1);
            let next = future.map(|n| n + 1).flat_map(Future::ready);
            assert!(tokio::time::timeout(limit, next).await.is_err());
            assert!(promise.interrupted().is_none());
            promise.set(1);

            let (promise, future) = Promise::<u32>::new();
            let next = future.map(|n| n + 1).flat_map(Future::ready).cancel_on_drop();
            assert!(tokio::time::timeout(limit, next).await.is_err());
            let why = promise.interrupted().expect("it was dropped while it waited");
            assert_eq!(why.to_string(), "its future was dropped");

            let (promise, future) = Promise::<u32>::new();
            assert!(tokio::time::timeout(limit, future.masked().cancel_on_drop()).await.is_err());
            assert!(promise.interrupted().is_none());
        });
    }
}

#[test]
fn a_future_that_was_polled_is_one_like_any_other() {
    let mut context = Context::from_waker(Waker::noop());
    let polled = || {
        let (promise, mut future) = Promise::<u32>::new();
        let mut context = Context::from_waker(Waker::noop());
        assert!(pin!(&mut future).poll(&mut context).is_pending());
        assert!(pin!(&mut future).poll(&mut context).is_pending());
        (promise, future)
    };
    let (promise, future) = polled();
    let next = future.map(|n| n + 1);
    promise.set(1);
    assert_eq!(next.wait().unwrap(), 2);
    let (promise, future) = polled();
    future.interrupt("stop");
    assert!(promise.interrupted().is_some() && !future.is_done());
    promise.set(1);
    assert!(future.is_done());
    assert_eq!(future.flat_map(Future::ready).wait().unwrap(), 1);
    let (promise, future) = polled();
    assert_eq!(future.kill(), Killed::BeforeStart);
    assert_eq!(kind(future.wait()), FailureKind::Killed);
    drop(promise);
    let (promise, future) = polled();
    let waits = std::thread::spawn(move || {
        future.wait_ref();
        future.wait()
    });
    promise.set(3);
    assert_eq!(waits.join().unwrap().unwrap(), 3);
    let (promise, future) = polled();
    drop(future);
    assert!(promise.interrupted().is_none());
    let (promise, future) = Promise::<u32>::new();
    let heard = Arc::new(AtomicBool::new(false));
    let hears = heard.clone();
    let (source, inner) = Promise::with_interrupt(move |_| hears.store(true, Ordering::SeqCst));
    promise.link(inner);
    let mut awaiting = future.cancel_on_drop();
    assert!(pin!(&mut awaiting).poll(&mut context).is_pending());
    source.set(1);
    drop(awaiting);
    assert!(!heard.load(Ordering::SeqCst));
}

/// The waker of the latest poll is woken, and no other.
#[test]
fn a_future_moves_from_task_to_task() {
    for runtime in runtimes() {
        runtime.block_on(async {
            let (promise, future) = Promise::<u32>::new();
            let mut awaiting = future.into_future();
            let (polled, was_polled) = oneshot::channel();
            let first = tokio::spawn(async move {
                poll_fn(|cx| {
                    assert!(pin!(&mut awaiting).poll(cx).is_pending());
                    Poll::Ready(())
                })
                .await;
                assert!(polled.send(awaiting).is_ok(), "the test waits");
            });
            let awaiting = was_polled.await.unwrap();
            first.await.unwrap();
            let second = tokio::spawn(awaiting);
            promise.set(5);
            assert_eq!(second.await.unwrap().unwrap(), 5);
        });
    }
}

// --- from async ---

#[test]
fn a_pool_of_one_drives_timers_and_channels_of_tokio() {
    let pool = Pool::new(1).unwrap();
    let [runtime, other] = runtimes();
    drop(runtime);
    let handle = other.handle().clone();
    let timer = pool.spawn_async(async move {
        let sleep = {
            let _entered = handle.enter();
            tokio::time::sleep(Duration::from_millis(1))
        };
        sleep.await;
        7
    });
    assert_eq!(timer.wait().unwrap(), 7);
    let (send, mut receive) = mpsc::channel::<usize>(1);
    let sum = pool.spawn_async(async move {
        let mut sum = 0;
        while let Some(n) = receive.recv().await {
            sum += n;
        }
        sum
    });
    // Wakes from another thread, many times.
    let count = scaled(20_000);
    let sender = thread::spawn(move || (0..count).for_each(|n| send.blocking_send(n).unwrap()));
    sender.join().unwrap();
    assert_eq!(sum.wait().unwrap(), count * (count - 1) / 2);
}

/// Woken by two threads at once, at any moment: no wake is lost, and it is never polled by two.
#[test]
fn wakes_race_with_polls() {
    let pool = Pool::new(2).unwrap();
    let target = scaled(20_000);
    let ticks = Arc::new(AtomicUsize::new(0));
    let waker = Arc::new(Mutex::new(None::<Waker>));
    let polling = AtomicBool::new(false);
    let future = {
        let (ticks, waker) = (ticks.clone(), waker.clone());
        pool.spawn_async(poll_fn(move |cx| {
            assert!(!polling.swap(true, Ordering::SeqCst), "polled by two threads");
            *waker.lock().unwrap() = Some(cx.waker().clone());
            let over = ticks.load(Ordering::SeqCst) >= 2 * target;
            polling.store(false, Ordering::SeqCst);
            if over { Poll::Ready(()) } else { Poll::Pending }
        }))
    };
    thread::scope(|threads| {
        for _ in 0..2 {
            threads.spawn(|| {
                for _ in 0..target {
                    ticks.fetch_add(1, Ordering::SeqCst);
                    let waker = waker.lock().unwrap().clone();
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
            });
        }
    });
    future.wait().unwrap();
}

/// Tells when it is dropped.
struct Tells(std_mpsc::Sender<()>);

impl Drop for Tells {
    fn drop(&mut self) {
        self.0.send(()).ok();
    }
}

/// An async future that has been polled once and waits for the sender, and tells when it is dropped.
fn hangs(pool: &Pool) -> (Future<u32>, oneshot::Sender<u32>, std_mpsc::Receiver<()>) {
    let (send, receive) = oneshot::channel();
    let (dropped, was_dropped) = std_mpsc::channel();
    let (begun, has_begun) = std_mpsc::channel();
    let tells = Tells(dropped);
    let future = pool.spawn_async(async move {
        let _tells = tells;
        begun.send(()).unwrap();
        receive.await.unwrap()
    });
    has_begun.recv().unwrap();
    (future, send, was_dropped)
}

#[test]
fn an_interrupt_drops_the_async_future() {
    let pool = Pool::new(1).unwrap();
    let (future, send, dropped) = hangs(&pool);
    let next = future.map(|n| n + 1);
    next.interrupt("enough");
    dropped.recv().unwrap();
    let failure = next.wait().unwrap_err();
    assert_eq!(
        (failure.kind(), failure.to_string()),
        (FailureKind::Interrupted, "interrupted: enough".into())
    );
    assert!(send.send(1).is_err());
}

#[test]
fn a_kill_drops_the_async_future() {
    let pool = Pool::new(1).unwrap();
    let (future, send, dropped) = hangs(&pool);
    assert_ne!(future.kill(), Killed::TooLate);
    dropped.recv().unwrap();
    assert_eq!(kind(future.wait()), FailureKind::Killed);
    assert!(send.send(1).is_err());
}

/// Suspended, it is in no queue: `kill_all` and the end of its pool find it all the same.
#[test]
fn suspended_futures_end_with_their_pool() {
    let pool = Pool::new(1).unwrap();
    let mut senders = Vec::new();
    let mut suspended = || {
        let (future, sender, dropped) = hangs(&pool);
        senders.push((sender, dropped));
        future
    };
    let (one, two) = (suspended(), suspended().map(|n| n + 1));
    // Two, and polls that are just over.
    assert!((2..=4).contains(&pool.kill_all()));
    assert_eq!(kind(one.wait()), FailureKind::Killed);
    assert_eq!(kind(two.wait()), FailureKind::Killed);
    let three = suspended();
    assert!(!three.is_done());
    drop(pool);
    assert_eq!(kind(three.wait()), FailureKind::Killed);
    for (_, dropped) in &senders {
        dropped.recv().unwrap();
    }
}

#[test]
fn dropping_the_raddle_future_detaches() {
    let pool = Pool::new(1).unwrap();
    let (future, send, dropped) = hangs(&pool);
    drop(future);
    assert!(dropped.try_recv().is_err());
    send.send(1).expect("it still waits");
    dropped.recv().unwrap();
}

#[test]
fn a_panic_in_a_poll_is_a_failure() {
    let pool = Pool::new(1).unwrap();
    let at_once = pool.spawn_async(async { blow::<u32>() });
    assert_eq!(kind(at_once.wait()), FailureKind::Panicked);
    let (send, receive) = oneshot::channel::<u32>();
    let later = pool.spawn_async(async {
        receive.await.unwrap();
        blow::<u32>()
    });
    send.send(1).unwrap();
    assert_eq!(kind(later.wait()), FailureKind::Panicked);
}

scope_local! { static USER: u32; }

#[test]
fn every_poll_sees_the_locals_of_who_made_it() {
    let pool = Pool::new(1).unwrap();
    let (send, mut receive) = mpsc::channel::<()>(1);
    let future = USER.bind(7).run(|| {
        pool.spawn_async(async move {
            let mut polls = vec![USER.get()];
            while receive.recv().await.is_some() {
                polls.push(USER.get());
            }
            polls
        })
    });
    USER.bind(8).run(|| (0..10).for_each(|_| send.blocking_send(()).unwrap()));
    drop(send);
    assert_eq!(future.wait().unwrap(), vec![Some(7); 11]);
}

/// A worker that waits for an async future on its own pool of one polls it itself.
#[test]
fn a_worker_waits_for_what_its_pool_of_one_drives() {
    let pool = Pool::new(1).unwrap();
    let (send, receive) = oneshot::channel::<u32>();
    let waits = pool.spawn(move || {
        let inner =
            Future::from_async(async move { receive.await.unwrap() + spawn(|| 1).await.unwrap() });
        inner.map(|n| n * 2).wait().unwrap()
    });
    let sender = thread::spawn(move || send.send(20).unwrap());
    assert_eq!(waits.wait().unwrap(), 42);
    sender.join().unwrap();
}

/// A poll that runs can ask, as any task can.
#[test]
fn a_poll_that_runs_knows_that_it_is_not_wanted() {
    for kill in [false, true] {
        let (send, started) = std_mpsc::channel();
        let future = Future::from_async(async move {
            send.send(()).unwrap();
            while !(raddle_core::interrupted() || raddle_core::killed()) {
                thread::yield_now();
            }
            1
        });
        started.recv().unwrap();
        if kill {
            assert_eq!(future.kill(), Killed::WhileRunning);
            assert_eq!(kind(future.wait()), FailureKind::Killed);
        } else {
            future.interrupt("enough");
            assert_eq!(future.wait().unwrap(), 1, "it ends by itself");
        }
    }
}

/// Async futures that await each other, many deep, on a small stack.
#[test]
fn a_chain_of_async_futures_ends_without_recursion() {
    for end in [0, 1, 2] {
        let (promise, future) = Promise::<u64>::new();
        let mut future = future;
        for _ in 0..5_000 {
            let inner = future;
            future = Future::from_async(async move { inner.await.map(|n| n + 1) }).lower();
        }
        let on_a_small_stack = move || {
            match end {
                0 => future.interrupt("enough"),
                1 => assert_ne!(future.kill(), Killed::TooLate),
                _ => promise.set(0),
            }
            assert_eq!(future.wait().is_ok(), end == 2);
        };
        thread::Builder::new()
            .stack_size(256 << 10)
            .spawn(on_a_small_stack)
            .unwrap()
            .join()
            .unwrap();
    }
}

/// As a runtime of one thread has it, which sleeps where it polls in vain.
#[test]
fn a_poll_in_vain_leaves_what_was_put_off_to_others() {
    in_time("a continuation that awaits its sibling", || {
        let (promise, source) = Promise::<u32>::new();
        let shared = source.shared();
        let (one, other) = (shared.future(), shared.future());
        let [runtime, _] = runtimes();
        let both = one.map(move |n| n + runtime.block_on(other).unwrap());
        promise.set(1);
        assert_eq!(both.wait().unwrap(), 2);
    });
}

#[test]
fn a_waker_that_is_kept_keeps_no_locals() {
    scope_local! { static HELD: Arc<()>; }
    let held = Arc::new(());
    let kept = Arc::new(Mutex::new(Vec::<Waker>::new()));
    for end in 0..3 {
        let wakers = Arc::clone(&kept);
        let future = HELD.bind(Arc::clone(&held)).run(|| {
            Future::from_async(poll_fn(move |cx| {
                wakers.lock().unwrap().push(cx.waker().clone());
                if end == 0 { Poll::Ready(()) } else { Poll::Pending }
            }))
        });
        while kept.lock().unwrap().len() <= end {
            thread::yield_now();
        }
        match end {
            0 => {}
            1 => future.interrupt("enough"),
            _ => _ = future.kill(),
        }
        assert_eq!(future.wait().is_ok(), end == 0);
        // The frame in which it was bound goes when the last poll returns.
        let since = Instant::now();
        while Arc::strong_count(&held) > 1 && since.elapsed() < Duration::from_secs(20) {
            thread::yield_now();
        }
        assert_eq!(Arc::strong_count(&held), 1, "end {end}");
    }
    assert_eq!(kept.lock().unwrap().len(), 3);
}

/// Neither an executor that polls where it is woken, nor a clone, has to do with who completes.
#[test]
fn what_completes_binds_nothing_for_whom_it_wakes() {
    scope_local! { static USER: &'static str; }
    struct Sees(Mutex<Vec<Option<&'static str>>>);
    impl std::task::Wake for Sees {
        fn wake(self: Arc<Self>) {
            self.0.lock().unwrap().push(USER.get());
        }
    }
    struct Asks(Option<&'static str>);
    impl Clone for Asks {
        fn clone(&self) -> Asks {
            Asks(USER.get())
        }
    }
    let seen = Arc::new(Sees(Mutex::default()));
    let waker = Waker::from(Arc::clone(&seen));
    for mapped in [false, true] {
        let (promise, future) = Promise::<u32>::new();
        let mut future = pin!(if mapped { future.map(|n| n) } else { future });
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        USER.bind("anna").run(|| promise.set(1));
    }
    assert_eq!(*seen.0.lock().unwrap(), [None, None]);
    let (promise, future) = Promise::<Asks>::new();
    let consumers = future.shared();
    let consumers = [consumers.future(), consumers.future()];
    USER.bind("anna").run(|| promise.set(Asks(None)));
    for consumer in consumers {
        assert_eq!(consumer.wait().unwrap().0, None);
    }
}
