//! Panics in closures, and in their drops: what they make of the result, and that they strand nobody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use raddle_core::{
    Failure, FailureKind, Future, Killed, Promise, collect_map, first, fold, join_all, traverse,
    window,
};

use crate::support::{Bomb, ON_PURPOSE, blow, kind, message};

type Op = fn(Future<u32>) -> Future<u32>;

/// Every operation with a closure that panics when it is called: for a value, or for a failure.
const PANIC_ON_VALUE: &[(&str, Op)] = &[
    ("map", |f| f.map(|_| blow())),
    ("and_then", |f| f.and_then(|_| -> Result<u32, Failure> { blow() })),
    ("flat_map", |f| f.flat_map(|_| blow())),
    ("filter", |f| f.filter(|_| blow())),
    ("transform", |f| f.transform(|_| blow())),
    ("map_result", |f| f.map_result(|_| blow())),
];

const PANIC_ON_FAILURE: &[(&str, Op)] = &[
    ("recover", |f| f.recover(|_| blow())),
    ("rescue", |f| f.rescue(|_| blow())),
    ("map_failure", |f| f.map_failure(|_| blow())),
    ("transform", |f| f.transform(|_| blow())),
    ("map_result", |f| f.map_result(|_| blow())),
];

/// Those that are there for their effect.
const PANIC_ASIDE: &[(&str, Op)] = &[
    ("on_success", |f| f.on_success(|_| blow())),
    ("on_failure", |f| f.on_failure(|_| blow())),
    ("on_complete", |f| f.on_complete(|_| blow())),
    ("ensure", |f| f.ensure(blow)),
];

/// A future of each sort that ends so: done, failed, and pending to be completed by `finish`.
fn sorts(value: Result<u32, &'static str>) -> Vec<(Future<u32>, Option<Promise<u32>>)> {
    let (promise, future) = Promise::new();
    let (done, settled) = Promise::new();
    done.complete(value.map_err(Failure::message));
    let result = Future::from_result(value.map_err(Failure::message));
    vec![(result, None), (settled, None), (future, Some(promise))]
}

fn finish(promise: Option<Promise<u32>>, value: Result<u32, &'static str>) {
    if let Some(promise) = promise {
        promise.complete(value.map_err(Failure::message));
    }
}

#[test]
fn a_panic_in_a_closure_is_the_next_failure() {
    for (value, ops) in [(Ok(1), PANIC_ON_VALUE), (Err("no"), PANIC_ON_FAILURE)] {
        for (name, op) in ops {
            for (future, promise) in sorts(value) {
                let next = op(future);
                finish(promise, value);
                let failure = next.wait().unwrap_err();
                assert_eq!(failure.kind(), FailureKind::Panicked, "{name}");
                assert_eq!(failure.to_string(), format!("panicked: {ON_PURPOSE}"), "{name}");
            }
        }
    }
}

#[test]
fn a_panic_aside_changes_nothing() {
    for value in [Ok(1), Err("no")] {
        for (name, op) in PANIC_ASIDE {
            for (future, promise) in sorts(value) {
                let next = op(future);
                finish(promise, value);
                match value {
                    Ok(value) => assert_eq!(next.wait().unwrap(), value, "{name}"),
                    Err(text) => assert_eq!(next.wait().unwrap_err().to_string(), text, "{name}"),
                }
            }
        }
    }
}

#[test]
fn a_panic_in_run_is_a_failure() {
    assert_eq!(kind(Future::<u32>::run(blow).wait()), FailureKind::Panicked);
}

#[test]
fn a_panic_can_be_resumed() {
    let failure = Future::ready(1).map(|_| -> u32 { blow() }).wait().unwrap_err();
    let payload = catch_unwind(AssertUnwindSafe(|| failure.resume())).unwrap_err();
    assert_eq!(message(&*payload), ON_PURPOSE);
}

/// Every operation, with a closure that holds a bomb: not called for a value, or not called for a failure, or
/// called, whichever. The bomb goes off once, and the result comes all the same.
#[test]
fn a_closure_whose_drop_panics_strands_nobody() {
    type Armed = fn(Future<u32>, Bomb) -> Future<u32>;
    const OPS: &[(&str, Armed)] = &[
        ("map", |f, b| {
            f.map(move |n| {
                let _b = &b;
                n
            })
        }),
        ("and_then", |f, b| {
            f.and_then(move |n| {
                let _b = &b;
                Ok::<_, Failure>(n)
            })
        }),
        ("flat_map", |f, b| {
            f.flat_map(move |n| {
                let _b = &b;
                Future::ready(n)
            })
        }),
        ("filter", |f, b| {
            f.filter(move |_| {
                let _b = &b;
                true
            })
        }),
        ("transform", |f, b| {
            f.transform(move |r| {
                let _b = &b;
                Future::from_result(r)
            })
        }),
        ("map_result", |f, b| {
            f.map_result(move |r| {
                let _b = &b;
                r
            })
        }),
        ("recover", |f, b| {
            f.recover(move |e| {
                let _b = &b;
                Err(e)
            })
        }),
        ("rescue", |f, b| {
            f.rescue(move |e| {
                let _b = &b;
                Future::failed(e)
            })
        }),
        ("or", |f, b| {
            f.or(Future::<u32>::ready(0).map(move |_| {
                let _b = &b;
                3
            }))
        }),
        ("map_failure", |f, b| {
            f.map_failure(move |e| {
                let _b = &b;
                e
            })
        }),
        ("on_success", |f, b| {
            f.on_success(move |_| {
                let _b = &b;
            })
        }),
        ("on_failure", |f, b| {
            f.on_failure(move |_| {
                let _b = &b;
            })
        }),
        ("on_complete", |f, b| {
            f.on_complete(move |_| {
                let _b = &b;
            })
        }),
        ("ensure", |f, b| {
            f.ensure(move || {
                let _b = &b;
            })
        }),
    ];
    for value in [Ok(1), Err("no")] {
        for (name, op) in OPS {
            for (future, promise) in sorts(value) {
                let dropped = Arc::new(AtomicUsize::new(0));
                let told = Arc::new(AtomicUsize::new(0));
                let counts = Arc::clone(&told);
                let next = op(future, Bomb::new(&dropped)).ensure(move || {
                    counts.fetch_add(1, Ordering::SeqCst);
                });
                finish(promise, value);
                assert_eq!(dropped.load(Ordering::SeqCst), 1, "{name}");
                assert_eq!(told.load(Ordering::SeqCst), 1, "{name}");
                match next.wait() {
                    Ok(n) => assert!(Ok(n) == value || n == 3, "{name}"),
                    // A closure that was called and dropped by the call has panicked.
                    Err(failure) if failure.kind() == FailureKind::Panicked => {}
                    Err(failure) => assert_eq!(failure.to_string(), value.unwrap_err(), "{name}"),
                }
            }
        }
    }
}

/// A failure passes by a closure that is not called, and a value by one that is for failures: as they are,
/// though the closure panics as it goes.
#[test]
fn what_passes_by_stays_as_it_is() {
    type Armed = fn(Future<u32>, Bomb) -> Future<u32>;
    const BY_FAILURE: &[(&str, Armed)] = &[
        ("map", |f, b| {
            f.map(move |n| {
                let _b = &b;
                n
            })
        }),
        ("and_then", |f, b| {
            f.and_then(move |n| {
                let _b = &b;
                Ok::<_, Failure>(n)
            })
        }),
        ("flat_map", |f, b| {
            f.flat_map(move |n| {
                let _b = &b;
                Future::ready(n)
            })
        }),
        ("filter", |f, b| {
            f.filter(move |_| {
                let _b = &b;
                true
            })
        }),
        ("on_success", |f, b| {
            f.on_success(move |_| {
                let _b = &b;
            })
        }),
    ];
    const BY_VALUE: &[(&str, Armed)] = &[
        ("recover", |f, b| {
            f.recover(move |e| {
                let _b = &b;
                Err(e)
            })
        }),
        ("rescue", |f, b| {
            f.rescue(move |e| {
                let _b = &b;
                Future::failed(e)
            })
        }),
        ("map_failure", |f, b| {
            f.map_failure(move |e| {
                let _b = &b;
                e
            })
        }),
        ("on_failure", |f, b| {
            f.on_failure(move |_| {
                let _b = &b;
            })
        }),
    ];
    for (value, ops) in [(Ok(1), BY_VALUE), (Err("no"), BY_FAILURE)] {
        for (name, op) in ops {
            for (future, promise) in sorts(value) {
                let next = op(future, Bomb::new(&Arc::default()));
                finish(promise, value);
                assert_eq!(
                    next.wait().map_err(|e| e.to_string()),
                    value.map_err(String::from),
                    "{name}"
                );
            }
        }
    }
}

/// Two panics at once would end the process.
#[test]
fn a_closure_and_a_value_whose_drops_panic() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let armed = |future: Future<Bomb>| {
        let bomb = Bomb::new(&dropped);
        future.map(move |value| {
            let _bomb = &bomb;
            value
        })
    };
    // Killed: neither is wanted.
    let (promise, future) = Promise::new();
    let next = armed(future);
    assert_eq!(next.kill(), Killed::BeforeStart);
    promise.set(Bomb::new(&dropped));
    assert_eq!(kind(next.wait()), FailureKind::Killed);
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);

    let (promise, future) = Promise::new();
    let bomb = Bomb::new(&dropped);
    let next = future.flat_map(move |value: Bomb| {
        let _bomb = &bomb;
        Future::ready(value)
    });
    next.kill();
    promise.set(Bomb::new(&dropped));
    assert_eq!(kind(next.wait()), FailureKind::Killed);
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);
}

/// A failure whose payload is a bomb, and closures that are bombs themselves.
#[test]
fn a_closure_and_a_payload_whose_drops_panic() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let armed: [&dyn Fn(Future<u32>, Bomb) -> Future<u32>; 5] = [
        &|f, b| {
            f.map(move |n| {
                let _b = &b;
                n
            })
        },
        &|f, b| {
            f.and_then(move |n| {
                let _b = &b;
                Ok::<_, Failure>(n)
            })
        },
        &|f, b| {
            f.flat_map(move |n| {
                let _b = &b;
                Future::ready(n)
            })
        },
        &|f, b| {
            f.filter(move |_| {
                let _b = &b;
                true
            })
        },
        &|f, b| {
            f.on_success(move |_| {
                let _b = &b;
            })
        },
    ];
    for op in armed {
        let (promise, future) = Promise::new();
        let next = op(future, Bomb::new(&dropped)).recover(|failure| {
            let kind = failure.kind();
            let gone = catch_unwind(AssertUnwindSafe(|| drop(failure)));
            assert!(kind == FailureKind::Panicked && gone.is_err());
            Ok(9)
        });
        promise.fail(Failure::panicked(Box::new(Bomb::new(&dropped))));
        assert_eq!(next.wait().unwrap(), 9);
        assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);
    }
}

#[test]
fn what_loses_or_is_not_wanted_may_panic_as_it_is_dropped() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let ready = || Future::ready(Some(Bomb::new(&dropped)));
    let winner = first([Future::ready(None), ready(), ready()]).wait().unwrap();
    assert!(winner.is_none());
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);
    join_all([ready(), ready(), ready()]).wait().unwrap();
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 3);
    let all = traverse([false, false, true], |last| if last { blow() } else { ready() });
    assert_eq!(kind(all.wait().map(drop)), FailureKind::Panicked);
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);
}

/// What is left of the values when a closure has panicked, and what a window that is dropped meanwhile has been given.
#[test]
fn what_is_left_when_a_closure_panics_may_panic_as_it_is_dropped() {
    /// Panics as it is collected.
    struct Blows;
    impl FromIterator<(u32, Bomb)> for Blows {
        fn from_iter<I: IntoIterator<Item = (u32, Bomb)>>(items: I) -> Blows {
            items.into_iter().take(1).for_each(std::mem::forget);
            blow()
        }
    }

    let dropped = Arc::new(AtomicUsize::new(0));
    let ready = || Future::ready(Bomb::new(&dropped));
    let sum = fold([ready(), ready(), ready()], 0, |_, bomb| {
        std::mem::forget(bomb);
        blow()
    });
    assert_eq!(kind(sum.wait()), FailureKind::Panicked);
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);

    let map = collect_map::<_, _, Blows>((0..3).map(|n| (n, ready())));
    assert_eq!(kind(map.wait()), FailureKind::Panicked);
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);

    let place = Arc::new(Mutex::new(None));
    let (promise, future) = Promise::new();
    let mut firsts = vec![future];
    let (drops, bomb, last) = (Arc::clone(&place), Bomb::new(&dropped), Bomb::new(&dropped));
    let mut last = Some(last);
    let all = window(0..2, 1, move |_| {
        let _bomb = &bomb;
        if let Some(first) = firsts.pop() {
            return first;
        }
        let all: Option<Future<Vec<Option<Bomb>>>> = drops.lock().unwrap().take();
        drop(all);
        Future::ready(last.take())
    });
    *place.lock().unwrap() = Some(all);
    promise.set(None);
    assert_eq!(dropped.swap(0, Ordering::SeqCst), 2);
}
