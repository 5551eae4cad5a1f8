//! Kills of what is awkward to kill.

use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use raddle_core::{FailureKind, Future, Killed, Pool, Promise, collect, first, select, window};

use crate::{Bomb, assert_as_good_as_new, busy, in_time};

#[test]
fn a_fallback_that_nobody_wants_any_more_may_panic_as_it_is_dropped() {
    in_time(|| {
        let (promise, future) = Promise::<Bomb>::new();
        let either = future.or(Future::ready(Bomb));
        assert_eq!(either.kill(), Killed::BeforeStart);
        promise.fail("no");
        assert_as_good_as_new();
    });
}

#[test]
fn a_combination_that_was_polled_lets_its_inputs_go_when_it_is_killed() {
    fn check<T: Send + 'static>(what: &str, make: impl FnOnce(Future<u32>) -> Future<T>) {
        let (promise, future) = Promise::<u32>::new();
        let mut made = make(future);
        let mut context = Context::from_waker(Waker::noop());
        assert!(std::future::Future::poll(Pin::new(&mut made), &mut context).is_pending());
        assert_eq!(made.kill(), Killed::BeforeStart, "{what}");
        assert!(promise.is_abandoned(), "{what} holds on");
        drop(made);
        promise.set(1);
    }
    const LONG: Duration = Duration::from_secs(3600);
    in_time(|| {
        check("collect", |f| collect([f]));
        check("select", |f| select([f, Future::never()]));
        check("first", |f| first([f, Future::never()]));
        check("within", |f| f.within(LONG));
        check("interruptible", |f| f.interruptible());
        check("shared", |f| f.shared().future());
        check("window", |f| {
            let mut f = Some(f);
            window([1], 1, move |_| f.take().unwrap())
        });
        check("a combination of one", |f| collect([first([f])]));
        assert_as_good_as_new();
    });
}

#[test]
fn a_list_of_tasks_each_of_which_kills_the_next_is_killed_without_recursion() {
    /// Kills a future as it is dropped.
    struct Kills(Option<Future<()>>, #[expect(dead_code, reason = "for its count")] Arc<()>);
    impl Drop for Kills {
        fn drop(&mut self) {
            assert_eq!(
                self.0.as_ref().map_or(Killed::BeforeStart, Future::kill),
                Killed::BeforeStart
            );
        }
    }
    in_time(|| {
        for mapped in [false, true] {
            let counted = Arc::new(());
            let (pool, go) = busy();
            let mut last = None;
            for _ in 0..100_000 {
                let kills = Kills(last, Arc::clone(&counted));
                let task = pool.spawn(move || drop(kills));
                last = Some(if mapped { task.map(|()| ()) } else { task });
            }
            let task = last.unwrap();
            assert_eq!(task.kill(), Killed::BeforeStart);
            assert!(task.is_done());
            assert_eq!(task.kill(), Killed::TooLate);
            assert_eq!(Arc::strong_count(&counted), 1);
            drop(go);
            drop(pool);
        }
        assert_as_good_as_new();
    });
}

/// The task that brings the result is one of the pool's futures.
#[test]
fn what_is_on_its_way_to_a_pool_is_killed_with_the_futures_of_the_pool() {
    in_time(|| {
        let (pool, go) = busy();
        let (promise, future) = Promise::new();
        let moved = future.on(&pool);
        promise.set(1);
        pool.kill_all();
        drop(go);
        assert_eq!(moved.wait().unwrap_err().kind(), FailureKind::Killed);
    });
}

#[test]
fn what_the_end_of_one_leads_to_may_wait_for_another_that_is_killed_along() {
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        let (goes_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let (started, has_started) = std::sync::mpsc::channel();
        let runs = pool.spawn(move || {
            started.send(()).unwrap();
            let _ = may_go_on.recv();
        });
        has_started.recv().unwrap();
        let (first, second) = (pool.spawn(|| 1), pool.spawn(|| 2));
        let third = pool.spawn(|| 3);
        let waits = first.recover(move |_| Ok(second.wait().map_or(10, |_| 0)));
        let waits_too = third.recover(move |_| Ok(runs.wait().map_or(20, |()| 0)));
        assert_eq!(pool.kill_all(), 4);
        assert_eq!((waits.wait().ok(), waits_too.wait().ok()), (Some(10), Some(20)));
        drop(goes_on);
    });
}

#[test]
fn what_the_end_of_a_pool_leads_to_may_wait_for_another_of_its_futures() {
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        let (polled, is_polled) = std::sync::mpsc::channel();
        let (senders, mut both): (Vec<_>, Vec<_>) = (0..2)
            .map(|_| {
                let (promise, future) = Promise::<u32>::new();
                let polled = polled.clone();
                let waits = async move {
                    polled.send(()).unwrap();
                    future.await.unwrap()
                };
                (promise, pool.spawn_async(waits))
            })
            .unzip();
        is_polled.iter().take(2).for_each(drop);
        let (second, first) = (both.pop().unwrap(), both.pop().unwrap());
        let waits = first.recover(move |_| Ok(second.wait().map_or(10, |_| 0)));
        drop(pool);
        assert_eq!(waits.wait().ok(), Some(10));
        drop(senders);
    });
}

/// Wakes as it is dropped, as the sender of a channel does.
struct Wakes(Arc<Mutex<Option<Waker>>>);

impl Drop for Wakes {
    fn drop(&mut self) {
        let waker = self.0.lock().unwrap().take();
        waker.into_iter().for_each(Waker::wake);
    }
}

#[test]
fn a_chain_of_suspended_futures_each_of_which_wakes_the_next_ends_without_recursion() {
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        let (polled, is_polled) = std::sync::mpsc::channel();
        let last = (0..20_000).fold(Wakes(Arc::default()), |wakes, _| {
            let next = Wakes(Arc::default());
            let (polled, kept) = (polled.clone(), Arc::clone(&next.0));
            drop(pool.spawn_async(async move {
                let _next = next;
                std::future::poll_fn(|context: &mut Context<'_>| {
                    *wakes.0.lock().unwrap() = Some(context.waker().clone());
                    let _ = polled.send(());
                    std::task::Poll::<()>::Pending
                })
                .await
            }));
            Wakes(kept)
        });
        is_polled.iter().take(20_000).for_each(drop);
        drop(pool);
        drop(last);
    });
}

#[test]
fn what_a_window_calls_for_as_it_is_killed_is_killed_along() {
    in_time(|| {
        let (calls, is_called) = std::sync::mpsc::channel();
        let (goes_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let (hears, heard) = std::sync::mpsc::channel();
        let (keeps, kept) = std::sync::mpsc::channel();
        let counted = Arc::new(());
        let held = Arc::clone(&counted);
        let (start, started) = Promise::<()>::new();
        let mut first = Some(started);
        let both = window(0..2, 1, move |_| {
            if let Some(first) = first.take() {
                return first;
            }
            calls.send(()).unwrap();
            may_go_on.recv().unwrap();
            let (promise, future) = Promise::<()>::new();
            let (hears, held) = (hears.clone(), Arc::clone(&held));
            promise.on_interrupt(move |_| {
                let _held = &held;
                hears.send(()).unwrap();
            });
            keeps.send(promise).unwrap();
            future
        });
        let starts = std::thread::spawn(move || start.set(()));
        is_called.recv().unwrap();
        both.kill();
        goes_on.send(()).unwrap();
        heard.recv().unwrap();
        starts.join().unwrap();
        // The window and what it was called with are gone, and nobody waits for what it has called for.
        let promise = kept.recv().unwrap();
        assert_eq!(Arc::strong_count(&counted), 2, "the handler's is left");
        assert!(promise.is_abandoned());
        drop(promise);
        assert_eq!(Arc::strong_count(&counted), 1);
    });
}

#[test]
fn a_handler_hears_what_was_said_before_the_future_was_dropped() {
    let (promise, future) = Promise::<()>::new();
    drop(future.cancel_on_drop());
    let (hears, heard) = std::sync::mpsc::channel();
    promise.on_interrupt(move |_| hears.send(()).unwrap());
    assert!(heard.try_recv().is_ok());
}
