//! Values, payloads and closures that nobody takes: dropped once each, also when their `Drop` panics.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use raddle_core::{Failure, FailureKind, Future, Pool, Promise};

use crate::support::{Bomb, Counted, kind, on_small_stack, quiet, scaled};

// --- values and payloads that nobody takes ---

#[test]
fn a_value_whose_drop_panics_and_that_nobody_takes() {
    let dropped = Arc::new(AtomicUsize::new(0));
    // The future gone first, then the promise set.
    let (promise, future) = Promise::new();
    drop(future);
    promise.set(Bomb::new(&dropped));
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    // The other way round.
    let (promise, future) = Promise::new();
    promise.set(Bomb::new(&dropped));
    drop(future);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
    // Killed.
    let (promise, future) = Promise::new();
    future.kill();
    promise.set(Bomb::new(&dropped));
    assert_eq!(dropped.load(Ordering::SeqCst), 3);
    assert_eq!(kind(future.wait()), FailureKind::Killed);
    // Through operations.
    let (promise, future) = Promise::new();
    drop(future.map(|bomb: Bomb| bomb).ensure(|| {}).flat_map(Future::ready));
    promise.set(Bomb::new(&dropped));
    assert_eq!(dropped.load(Ordering::SeqCst), 4);
    // Replaced.
    let (promise, future) = Promise::new();
    let unit = future.map(|_: Bomb| ()).rescue(|_| Future::ready(()));
    promise.set(Bomb::new(&dropped));
    unit.wait().unwrap();
    assert_eq!(dropped.load(Ordering::SeqCst), 5);
    // Linked.
    let ((outer, future), (inner, source)) = (Promise::new(), Promise::new());
    outer.link(source);
    drop(future);
    inner.set(Bomb::new(&dropped));
    assert_eq!(dropped.load(Ordering::SeqCst), 6);
    let (outer, future) = Promise::new();
    let (inner, source) = Promise::new();
    drop(future);
    outer.link(source);
    inner.set(Bomb::new(&dropped));
    assert_eq!(dropped.load(Ordering::SeqCst), 7);
}

#[test]
fn a_payload_whose_drop_panics_and_that_nobody_takes() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let fail = |promise: Promise<u32>| {
        promise.fail(Failure::panicked(Box::new(Bomb::new(&dropped))));
    };
    let (promise, future) = Promise::new();
    drop(future);
    fail(promise);
    let (promise, future) = Promise::new();
    fail(promise);
    drop(future);
    let (promise, future) = Promise::new();
    drop(future.map(|n| n + 1).flat_map(Future::ready).ensure(|| {}));
    fail(promise);
    let (promise, future) = Promise::new();
    let next = future.recover(|_| Ok(1));
    fail(promise);
    // The closure's call has dropped it: a panic of the closure.
    assert_eq!(kind(next.wait()), FailureKind::Panicked);
    let (promise, future) = Promise::new();
    let next = future.or(Future::ready(3));
    fail(promise);
    let _either = next.wait();
    assert_eq!(dropped.load(Ordering::SeqCst), 5);
}

/// A panic whose payload panics as it is dropped, in a closure whose panics go no further.
#[test]
fn a_panic_aside_with_a_payload_whose_drop_panics() {
    let dropped = Arc::new(AtomicUsize::new(0));
    quiet();
    let (promise, future) = Promise::new();
    let bomb = Bomb::new(&dropped);
    let next = future.ensure(move || std::panic::panic_any(bomb));
    promise.set(4);
    assert_eq!(next.wait().unwrap(), 4);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
}

#[test]
fn a_spawned_task_whose_result_or_closure_panics_as_it_is_dropped() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(1).unwrap();
    let bomb = Bomb::new(&dropped);
    drop(pool.spawn(move || bomb));
    // The pool's only thread is busy until the other is killed.
    let ((go, gone), (tell, begun)) = (mpsc::channel::<()>(), mpsc::channel());
    drop(pool.spawn(move || {
        tell.send(()).unwrap();
        gone.recv()
    }));
    begun.recv().unwrap();
    let bomb = Bomb::new(&dropped);
    let killed = pool.spawn(|| ()).flat_map(move |()| pool_free(bomb));
    killed.kill();
    assert_eq!(kind(killed.wait()), FailureKind::Killed);
    drop(go);
    drop(pool);
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
}

fn pool_free(bomb: Bomb) -> Future<()> {
    std::mem::forget(bomb);
    panic!("is not called")
}

/// After panics in drops within continuations the thread is as good as new: nesting is still counted right.
#[test]
fn a_thread_is_as_good_as_new_after_panics() {
    on_small_stack(|| {
        let dropped = Arc::new(AtomicUsize::new(0));
        for _ in 0..100 {
            let (promise, future) = Promise::new();
            let bomb = Bomb::new(&dropped);
            drop(future.map(move |(): ()| drop(bomb)));
            promise.set(());
            let (promise, future) = Promise::<Bomb>::new();
            drop(future.map(|_| ()));
            promise.set(Bomb::new(&dropped));
        }
        assert_eq!(dropped.load(Ordering::SeqCst), 200);
        // At depth 0 a continuation runs before `set` returns.
        let (promise, future) = Promise::new();
        let next = future.map(|n: u32| n + 1);
        promise.set(1);
        assert!(next.is_done());
        let (first, mut future) = Promise::new();
        for _ in 0..100_000 {
            let (promise, next) = Promise::new();
            drop(future.map(move |()| promise.set(())));
            future = next;
        }
        first.set(());
        assert!(future.is_done());
    });
}

// --- nothing is lost ---

/// Whatever becomes of a chain, each closure and each value is dropped once.
#[test]
fn every_closure_and_value_is_dropped_once() {
    for how in 0..8 {
        let live = Arc::new(AtomicUsize::new(0));
        let new = || Counted::new(&live);
        let (promise, future) = Promise::<Counted>::new();
        let (a, b, c, d) = (new(), new(), new(), new());
        let next = future
            .map(move |value| {
                drop(a);
                value
            })
            .flat_map(move |value| {
                drop(b);
                Future::ready(value)
            })
            .rescue(move |failure| {
                drop(c);
                Future::failed(failure)
            })
            .ensure(move || drop(d));
        match how {
            0 => {
                promise.set(new());
                drop(next.wait());
            }
            1 => {
                promise.fail(Failure::timed_out());
                drop(next.wait());
            }
            2 => {
                drop(promise);
                drop(next);
            }
            3 => {
                drop(next);
                promise.set(new());
            }
            4 => {
                next.kill();
                promise.set(new());
                drop(next);
            }
            5 => {
                promise.link(Future::ready(new()));
                drop(next);
            }
            6 => {
                let (inner, source) = Promise::new();
                promise.link(source.map(|value| value));
                next.interrupt("stop");
                inner.set(new());
                assert!(next.is_done());
                drop(next);
            }
            _ => {
                let (inner, source) = Promise::new();
                drop(next);
                promise.link(source);
                drop(inner);
            }
        }
        assert_eq!(live.load(Ordering::SeqCst), 0, "case {how}");
    }
}

// --- links that are refused ---

/// What nobody will ever complete needs no link to it: the node made for it goes back whole.
#[test]
fn a_link_to_what_never_comes_frees_what_it_made() {
    for _ in 0..3 {
        let (promise, future) = Promise::<u32>::new();
        promise.link(Future::never());
        let (outer, linked) = Promise::<u32>::new();
        outer.link(future);
        assert!(!linked.is_done());
        // Memory that went back at the wrong place would be handed out here.
        let nodes: Vec<_> = (0..300_u32).map(|_| Promise::<u32>::new()).collect();
        for (promise, future) in nodes {
            promise.set(7);
            assert_eq!(future.wait().unwrap(), 7);
        }
    }
}

/// Each step says what it was about when it went wrong.
#[test]
fn a_chain_of_failures_is_dropped_without_recursion() {
    #[derive(Debug)]
    struct While(Failure, #[expect(dead_code, reason = "counts what is alive")] Counted);
    impl std::fmt::Display for While {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("while at it")
        }
    }
    impl std::error::Error for While {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }
    let live = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&live);
    on_small_stack(move || {
        let steps = scaled(1_000_000);
        let mut failure = Failure::new(std::fmt::Error);
        for _ in 0..steps {
            failure = Failure::new(While(failure, Counted::new(&counted)));
        }
        // A clone in the middle keeps what is below it.
        let mut middle = &failure;
        for _ in 0..steps / 2 {
            middle = &middle.downcast_ref::<While>().unwrap().0;
        }
        let middle = middle.clone();
        let (promise, future) = Promise::<u32>::new();
        promise.fail(failure);
        drop(future);
        assert_eq!(counted.load(Ordering::SeqCst), steps - steps / 2);
        drop(middle);
    });
    assert_eq!(live.load(Ordering::SeqCst), 0);
}
