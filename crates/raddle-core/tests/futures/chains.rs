//! Chains of combinations on a small stack: each takes the one before as an input.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use raddle_core::{FailureKind, Future, Pool, Promise, collect, collect_results, first, join_all};

use crate::support::{Counted, kind, on_small_stack};

const MANY: usize = 100_000;

type Link = fn(Future<u32>) -> Future<u32>;

const LINKS: &[(&str, Link)] = &[
    ("collect", |f| collect([f]).map(|mut values| values.remove(0))),
    ("collect_results", |f| collect_results([f]).and_then(|mut results| results.remove(0))),
    ("join_all", |f| join_all([f]).map(|()| 1)),
    ("zip", |f| f.zip(Future::ready(())).map(|(n, ())| n)),
    ("first", |f| first([f, Future::never()])),
    ("shared", |f| f.shared().future()),
    ("shared map", |f| f.shared().map(|n| n)),
    ("interruptible", Future::interruptible),
    ("within", |f| f.within(Duration::from_secs(3600))),
    ("interrupt_after", |f| f.interrupt_after(Duration::from_secs(3600))),
    ("masked", |f| f.masked().map(|n| n)),
    ("or", |f| f.or(Future::ready(1))),
];

fn chain(link: Link, live: &Arc<AtomicUsize>) -> (Promise<u32>, Future<u32>) {
    let (promise, future) = Promise::new();
    let counted = Counted::new(live);
    let future = future.map(move |n| n * u32::from(counted.alive()));
    (promise, (0..MANY).fold(future, |future, _| link(future)))
}

#[test]
fn long_chains_of_combinations_completed() {
    on_small_stack(|| {
        for (name, link) in LINKS {
            let live = Arc::default();
            let (promise, last) = chain(*link, &live);
            promise.set(1);
            assert!(last.is_done(), "{name}");
            assert_eq!(last.wait().unwrap(), 1, "{name}");
            assert_eq!(live.load(Ordering::SeqCst), 0, "{name}");
        }
    });
}

#[test]
fn long_chains_of_combinations_broken() {
    on_small_stack(|| {
        for (name, link) in LINKS {
            let (promise, last) = chain(*link, &Arc::default());
            drop(promise);
            assert!(last.is_done(), "{name}");
            if *name == "or" {
                assert_eq!(last.wait().unwrap(), 1);
            } else {
                assert_eq!(kind(last.wait()), FailureKind::Broken, "{name}");
            }
        }
    });
}

#[test]
fn long_chains_of_combinations_dropped() {
    on_small_stack(|| {
        for (_, link) in LINKS {
            let live = Arc::default();
            let (promise, last) = chain(*link, &live);
            drop(last);
            promise.set(1);
            assert_eq!(live.load(Ordering::SeqCst), 0);
        }
    });
}

#[test]
fn long_chains_of_combinations_interrupted() {
    on_small_stack(|| {
        for (name, link) in LINKS {
            let (promise, last) = chain(*link, &Arc::default());
            last.interrupt("stop");
            let heard = promise.interrupted().map(|signal| signal.to_string());
            match *name {
                "masked" => assert!(heard.is_none()),
                "interruptible" => {
                    assert!(heard.is_none());
                    assert_eq!(kind(last.wait()), FailureKind::Interrupted);
                }
                _ => assert_eq!(heard.as_deref(), Some("stop"), "{name}"),
            }
        }
    });
}

#[test]
fn long_chains_of_combinations_killed() {
    on_small_stack(|| {
        for (name, link) in LINKS {
            let (promise, last) = chain(*link, &Arc::default());
            last.kill();
            promise.set(1);
            assert_eq!(kind(last.wait()), FailureKind::Killed, "{name}");
        }
    });
}

#[test]
fn a_long_chain_of_hops_between_pools() {
    on_small_stack(|| {
        let (one, other) = (Pool::new(1).unwrap(), Pool::new(1).unwrap());
        let (promise, future) = Promise::new();
        let last = (0..10_000)
            .fold(future, |future, n| future.on(if n % 2 == 0 { &one } else { &other }).map(|n| n));
        promise.set(1);
        assert_eq!(last.wait().unwrap(), 1);
    });
}
