//! Large graphs of shared futures: whoever goes through one, for whatever reason, takes time in proportion to its size. In a
//! process of its own, where no other test is in the way, least of all of the caches.
#![allow(missing_docs)]

use std::time::{Duration, Instant};

use raddle_core::{Future, Killed, Pool, Promise, Shared, collect, spawn};

/// Of so many nodes above the source.
type Shape = fn(usize, Future<u32>) -> Shared<u32>;

/// How long it takes to go through such a graph of its own, in some way.
type Way = fn(Shape, usize) -> Duration;

/// Each the sum of the two before.
fn sums(nodes: usize, source: Future<u32>) -> Shared<u32> {
    let first = source.shared();
    let (mut before, mut last) = (first.clone(), first);
    for _ in 0..nodes {
        let next = before.future().zip_with(last.future(), u32::wrapping_add).shared();
        before = std::mem::replace(&mut last, next);
    }
    last
}

/// Each the sum of the one before and the same again.
fn diamonds(nodes: usize, source: Future<u32>) -> Shared<u32> {
    let pair = |last: &Shared<u32>| last.future().zip_with(last.future(), u32::wrapping_add);
    (0..nodes).fold(source.shared(), |last, _| pair(&last).shared())
}

fn chain(nodes: usize, source: Future<u32>) -> Shared<u32> {
    (0..nodes).fold(source.shared(), |last, _| last.map(|n| n.wrapping_add(1)).shared())
}

/// With nothing between one and the next.
fn bare_chain(nodes: usize, source: Future<u32>) -> Shared<u32> {
    (0..nodes).fold(source.shared(), |last, _| last.future().shared())
}

/// One of many, all of which are of one.
fn fan(nodes: usize, source: Future<u32>) -> Shared<u32> {
    let source = source.shared();
    let arms = (0..nodes).map(|_| source.map(|n| n).shared().future());
    collect(arms).map(|all| all.into_iter().fold(0, u32::wrapping_add)).shared()
}

const SHAPES: &[(&str, Shape)] = &[
    ("sums", sums),
    ("diamonds", diamonds),
    ("a chain", chain),
    ("a bare chain", bare_chain),
    ("a fan", fan),
];

fn took(f: impl FnOnce()) -> Duration {
    let start = Instant::now();
    f();
    start.elapsed()
}

fn waited(shape: Shape, nodes: usize) -> Duration {
    let (_promise, source) = Promise::new();
    let top = shape(nodes, source);
    took(|| assert!(top.future().wait_timeout(Duration::ZERO).is_err()))
}

fn interrupted(shape: Shape, nodes: usize) -> Duration {
    let (promise, source) = Promise::new();
    let top = shape(nodes, source);
    let took = took(|| top.future().interrupt("stop"));
    assert_eq!(promise.interrupted().unwrap().to_string(), "stop");
    took
}

fn killed(shape: Shape, nodes: usize) -> Duration {
    let (promise, source) = Promise::new();
    let top = shape(nodes, source);
    let took = took(|| assert_eq!(top.future().kill(), Killed::BeforeStart));
    assert!(promise.interrupted().is_some());
    took
}

fn dropped(shape: Shape, nodes: usize) -> Duration {
    let (_promise, source) = Promise::new();
    let top = shape(nodes, source);
    took(|| drop(top))
}

/// The first of several times that is no more than `most`: the machine has other tests to run.
fn quickly(what: &str, most: Duration, f: impl Fn() -> Duration) {
    let found = (0..50).map(|_| f()).find(|took| *took < most);
    assert!(found.is_some(), "{what}: more than {most:?} each time");
}

const NODES: usize = 10_000;

/// How many times slower than where the limits were set this machine is at what graphs are made of: small blocks, here and there.
fn slowness() -> f64 {
    // In nanoseconds, optimised, on a Xeon of 2023.
    const THERE: f64 = 250_000.0;
    let blocks = || {
        let mut blocks: Vec<Option<Box<[usize; 8]>>> =
            (0..NODES).map(|i| Some(Box::new([i; 8]))).collect();
        let sum: usize =
            (0..NODES).map(|i| blocks[i * 7919 % NODES].take().map_or(0, |b| b[7])).sum();
        assert_eq!(sum, NODES * (NODES - 1) / 2);
    };
    let least = (0..20).map(|_| took(blocks)).min().unwrap();
    (least.as_nanos() as f64 / THERE).max(1.0)
}

/// Whoever visited every path would take longer than there is time.
fn in_no_time() {
    // A few, optimised and alone.
    let most = Duration::from_millis(if cfg!(debug_assertions) { 300 } else { 10 });
    let most = if cfg!(debug_assertions) { most } else { most.mul_f64(slowness()) };
    for &(name, shape) in SHAPES {
        quickly(&format!("{name}, wait"), most, || waited(shape, NODES));
        quickly(&format!("{name}, interrupt"), most, || interrupted(shape, NODES));
        quickly(&format!("{name}, kill"), most, || killed(shape, NODES));
        quickly(&format!("{name}, drop"), most * 3, || dropped(shape, NODES));
    }
    let pool = Pool::new(1).unwrap();
    quickly("run and wait", most * 3, || {
        pool.run(|_| {
            let top = sums(NODES, spawn(|| 1));
            took(|| assert_ne!(top.future().wait().unwrap(), 0))
        })
    });
}

/// Ten times the nodes take ten times as long, and some more, as they are farther from the processor: not a hundred times.
fn in_proportion() {
    let ways: [(&str, Way); 2] = [("interrupt", interrupted), ("kill", killed)];
    for &(name, shape) in SHAPES {
        for (way, through) in ways {
            let least = (0..5).map(|_| through(shape, NODES)).min().unwrap();
            let most = least * 40;
            quickly(&format!("{name}, {way}, larger"), most, || through(shape, 10 * NODES));
        }
    }
}

// One after the other.
#[test]
fn large_graphs_of_shared_futures() {
    in_no_time();
    in_proportion();
}
