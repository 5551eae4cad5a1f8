//! What users have given goes piece by piece: two pieces that panic as they go, or one beside a closure that panics, would end the
//! process. And a piece that is of no use goes by the result, which stays as it is.

use std::fmt;
use std::mem::forget;
use std::ops::ControlFlow;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use raddle_core::{
    Failure, FailureKind, Future, Promise, Retry, collect_map, fold, tail_loop,
    traverse_sequentially, while_do, window,
};

use crate::support::{Bomb, blow, kind};

type Dropped = Arc<AtomicUsize>;

/// How many have gone off since it was asked last.
fn count(dropped: &Dropped) -> usize {
    dropped.swap(0, Ordering::SeqCst)
}

/// How a future comes to an end without a value.
const ENDS: [&str; 4] = ["fails", "is broken", "is killed", "is dropped"];

/// Brings that about, by the promise that it waits for.
fn end<T: Send + 'static, U>(how: &str, promise: Promise<T>, future: Future<U>) {
    match how {
        "fails" => {
            promise.fail("cut");
            assert_eq!(kind(future.wait()), FailureKind::Error);
        }
        "is broken" => {
            drop(promise);
            assert_eq!(kind(future.wait()), FailureKind::Broken);
        }
        "is killed" => {
            future.kill();
            drop(promise);
            assert_eq!(kind(future.wait()), FailureKind::Killed);
        }
        _ => {
            drop(future);
            drop(promise);
        }
    }
}

#[test]
fn values_of_those_in_turn() {
    let dropped = Dropped::default();
    for how in ENDS {
        let (promise, last) = Promise::new();
        let (mut last, bombs) = (Some(last), Arc::clone(&dropped));
        let all = traverse_sequentially(0..3, move |n| {
            if n < 2 { Future::ready(Bomb::new(&bombs)) } else { last.take().unwrap() }
        });
        end(how, promise, all);
        assert_eq!(count(&dropped), 2, "{how}");
    }
    let bombs = Arc::clone(&dropped);
    let all =
        traverse_sequentially(
            0..3,
            move |n| {
                if n < 2 { Future::ready(Bomb::new(&bombs)) } else { blow() }
            },
        );
    assert_eq!(kind(all.wait()), FailureKind::Panicked);
    assert_eq!(count(&dropped), 2);
}

/// One item is left beside the closure.
#[test]
fn items_and_the_closure_that_is_called_with_them() {
    type Each = fn([Bomb; 2], Bomb, Option<Future<u32>>) -> Future<Vec<u32>>;
    let each: [(&str, Each); 2] = [
        ("in turn", |items, held, mut next| {
            traverse_sequentially(items, move |item| {
                forget(item);
                let _held = &held;
                next.take().unwrap_or_else(blow)
            })
        }),
        ("window", |items, held, mut next| {
            window(items, 1, move |item| {
                forget(item);
                let _held = &held;
                next.take().unwrap_or_else(blow)
            })
        }),
    ];
    let dropped = Dropped::default();
    let items = || [(); 2].map(|()| Bomb::new(&dropped));
    for (name, each) in each {
        for how in ENDS {
            let (promise, future) = Promise::new();
            end(how, promise, each(items(), Bomb::new(&dropped), Some(future)));
            assert_eq!(count(&dropped), 2, "{name} {how}");
        }
        let all = each(items(), Bomb::new(&dropped), None);
        assert_eq!(kind(all.wait()), FailureKind::Panicked);
        assert_eq!(count(&dropped), 2, "{name} panics");
    }
}

#[test]
fn keys_of_a_map() {
    let dropped = Dropped::default();
    for how in ENDS {
        let ((promise, one), (_other, other)) = (Promise::<u32>::new(), Promise::new());
        let map = [one, other].map(|future| (Bomb::new(&dropped), future));
        end(how, promise, collect_map::<_, _, Vec<_>>(map));
        assert_eq!(count(&dropped), 2, "{how}");
    }
}

#[test]
fn what_is_folded_and_the_closure() {
    let dropped = Dropped::default();
    let folded = |future: Future<u32>, blows: bool| {
        let held = Bomb::new(&dropped);
        fold([future], Bomb::new(&dropped), move |sum, _| {
            let _held = &held;
            if blows {
                forget(sum);
                return blow();
            }
            sum
        })
    };
    for how in ENDS {
        let (promise, future) = Promise::new();
        end(how, promise, folded(future, false));
        assert_eq!(count(&dropped), 2, "{how}");
    }
    assert_eq!(kind(folded(Future::ready(1), true).wait().map(forget)), FailureKind::Panicked);
    assert_eq!(count(&dropped), 1);
    // The closure has gone by what was made.
    folded(Future::ready(1), false).map(forget).wait().unwrap();
    assert_eq!(count(&dropped), 1);
}

#[test]
fn both_closures_of_a_loop() {
    let dropped = Dropped::default();
    let turns = |next: Option<Future<u32>>, goes_on: bool| {
        let (one, other) = (Bomb::new(&dropped), Bomb::new(&dropped));
        let mut next = next;
        let go_on = move || {
            let _one = &one;
            goes_on
        };
        while_do(go_on, move || {
            let _other = &other;
            next.take().unwrap_or_else(blow)
        })
    };
    for how in ENDS {
        let (promise, future) = Promise::new();
        end(how, promise, turns(Some(future), true));
        assert_eq!(count(&dropped), 2, "{how}");
    }
    assert_eq!(kind(turns(None, true).wait()), FailureKind::Panicked);
    assert_eq!(count(&dropped), 2);
    turns(None, false).wait().unwrap();
    assert_eq!(count(&dropped), 2);

    let bomb = Bomb::new(&dropped);
    let last = tail_loop(7, move |n: u32| {
        let _bomb = &bomb;
        Future::ready(ControlFlow::<u32, u32>::Break(n))
    });
    assert_eq!(last.wait().unwrap(), 7);
    assert_eq!(count(&dropped), 1);
}

#[test]
fn values_that_nobody_wants() {
    let dropped = Dropped::default();
    let made = || Future::ready(Bomb::new(&dropped));
    assert_eq!(kind(made().filter(|_| false).wait().map(forget)), FailureKind::Empty);
    assert_eq!(kind(made().filter(|_| blow()).wait().map(forget)), FailureKind::Panicked);
    made().filter(|_| true).map(forget).wait().unwrap();
    assert_eq!(count(&dropped), 2);
    made().unit().wait().unwrap();
    assert_eq!(count(&dropped), 1);
    let (mut left, bombs) = (3, Arc::clone(&dropped));
    let go_on = move || {
        left -= 1;
        left > 0
    };
    while_do(go_on, move || Future::ready(Bomb::new(&bombs))).wait().unwrap();
    assert_eq!(count(&dropped), 2);
}

/// An error that holds one.
#[derive(Debug)]
struct Torn(#[expect(dead_code, reason = "dropped")] Bomb);

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("on purpose: torn")
    }
}

impl std::error::Error for Torn {}

#[test]
fn failures_between_two_tries() {
    let dropped = Dropped::default();
    for blows in [false, true] {
        let (mut tries, bombs) = (0, Arc::clone(&dropped));
        let held = Bomb::new(&dropped);
        let retry = Retry::new(3, Duration::ZERO).when(move |_| {
            let _held = &held;
            !blows || blow()
        });
        let last = retry.run(move || {
            tries += 1;
            if tries == 3 { Future::ready(7) } else { Future::failed(Torn(Bomb::new(&bombs))) }
        });
        match blows {
            false => assert_eq!(last.wait().unwrap(), 7),
            true => assert_eq!(kind(last.wait()), FailureKind::Panicked),
        }
        assert_eq!(count(&dropped), if blows { 2 } else { 3 });
    }
}

#[test]
fn a_failure_that_is_resumed() {
    let dropped = Dropped::default();
    let failure = Failure::new(Torn(Bomb::new(&dropped)));
    let shared = failure.clone();
    for failure in [failure, shared] {
        assert!(catch_unwind(AssertUnwindSafe(|| failure.resume())).is_err());
    }
    assert_eq!(count(&dropped), 1);
}
