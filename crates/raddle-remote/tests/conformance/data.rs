//! Much data, and data that many tasks read.

use raddle::remote::{Env, Plan, RemoteError, Shared, seed};
use serde::{Deserialize, Serialize};

use crate::support::{Gates, On, failure, note, until, value};

/// Bytes that serde takes as a whole.
#[derive(Debug, PartialEq, Serialize, Deserialize)]
struct Bytes(String);

pub fn sixty_four_megabytes_both_ways(on: &On) {
    let env = on.env();
    let turned = |bytes: Bytes| Bytes(bytes.0.replacen('a', "b", 1));
    let sent = Bytes("a".repeat(64 << 20));
    let back = value(env.spawn(turned, sent));
    assert_eq!(back.0.len(), 64 << 20);
    assert!(back.0.starts_with("ba") && back.0.ends_with('a'));
    let small = (value(env.spawn(|n| n + 1, 1)), value(env.map(|n: u32| n, 0..3)));
    assert_eq!(small, (2, vec![0, 1, 2]));
}

/// Says each time that it is decoded.
#[derive(Debug)]
struct Told {
    path: String,
    rows: Vec<u64>,
}

impl Serialize for Told {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        (&self.path, &self.rows).serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Told {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Told, D::Error> {
        let (path, rows): (String, Vec<u64>) = Deserialize::deserialize(deserializer)?;
        note(&path);
        Ok(Told { path, rows })
    }
}

/// Parts of a map are as short as they have to be, and each item is as if it were not so.
pub fn maps_of_long_items(on: &On) {
    let lengths = |items: &[usize]| items.iter().map(|&len| "x".repeat(len)).collect::<Vec<_>>();
    let measure = |text: String| (text.len(), seed());
    let items: Vec<usize> = (0..60).map(|n| n * 7919 % 9_000).collect();
    let env = |plan: Plan| Env::new(plan.max_frame(10_000).seed(7)).unwrap();
    let expected = value(env(Plan::sequential()).map(measure, lengths(&items)));
    let env = env(on.plan());
    assert_eq!(value(env.map(measure, lengths(&items))), expected);
    if on.is_apart() {
        let failed = failure(env.map(measure, lengths(&[1, 20_000, 1])));
        assert!(matches!(failed.downcast_ref(), Some(RemoteError::TooLarge { .. })), "{failed}");
    }
}

pub fn shared_values_are_sent_once(on: &On) {
    let env = on.env();
    let gates = Gates::new();
    let shared = env.share(Told { path: gates.at("decoded"), rows: (0..1000).collect() }).unwrap();
    let cell = |(table, row): (Shared<Told>, usize)| table.rows[row] + table.path.len() as u64;
    let futures: Vec<_> = (0..50).map(|row| env.spawn(cell, (shared.clone(), row))).collect();
    let extra = gates.at("decoded").len() as u64;
    for (row, future) in (0..).zip(futures) {
        assert_eq!(value(future), row + extra);
    }
    let most = if on.is_apart() { env.workers() } else { 0 };
    assert!(gates.lines("decoded") <= most, "{} times", gates.lines("decoded"));
    // And to a worker that comes later.
    env.reset();
    assert_eq!(value(env.spawn(cell, (shared.clone(), 3))), 3 + extra);
    assert_eq!(shared.rows.len(), 1000);
    // It comes back as what it was.
    let back = value(env.spawn(|shared: Shared<Told>| shared, shared.clone()));
    assert!(std::ptr::eq(&*back, &*shared));
}

/// Also to where nobody else has them any more.
pub fn shared_values_come_back(on: &On) {
    type Outer = Shared<(Shared<Vec<u32>>, u32)>;
    let env = on.env();
    let same = |shared: Shared<Vec<u32>>| shared;
    let back = value(env.spawn(same, env.share(vec![1, 2, 3]).unwrap()));
    assert_eq!(*back, [1, 2, 3]);
    // And on from there.
    let sum = |shared: Shared<Vec<u32>>| shared.iter().sum::<u32>();
    assert_eq!(value(env.spawn(sum, back)), 6);
    let twice = |shared: Outer| (shared.clone(), shared);
    let outer = env.share((env.share(vec![4, 5]).unwrap(), 6)).unwrap();
    let (one, other) = value(env.spawn(twice, outer));
    assert!(std::ptr::eq(&*one, &*other));
    assert_eq!((one.0.as_slice(), one.1), ([4, 5].as_slice(), 6));
}

/// How much memory the worker has of its own.
fn resident(_: ()) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse().unwrap()
}

pub fn shared_values_are_forgotten(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.alone();
    let len = |shared: Shared<Bytes>| shared.0.len();
    // It is forgotten when the next message comes.
    let used = |round: usize| {
        let shared = env.share(Bytes("x".repeat((32 << 20) + round))).unwrap();
        assert_eq!(value(env.spawn(len, shared.clone())), (32 << 20) + round);
    };
    used(0);
    let before = value(env.spawn(resident, ()));
    (1..6).for_each(used);
    until(|| value(env.spawn(resident, ())) < before + (64 << 10));
}

pub fn large_shared_values(on: &On) {
    let env = on.env();
    let shared = env.share(Bytes("y".repeat(20 << 20))).unwrap();
    let ends = |(shared, at): (Shared<Bytes>, usize)| shared.0.as_bytes()[at];
    let found = value(env.map(ends, [0, 5 << 20, (20 << 20) - 1].map(|at| (shared.clone(), at))));
    assert_eq!(found, [b'y'; 3]);
}

pub fn strict_plans_encode(on: &On) {
    let env = Env::new(on.plan().strict(true)).unwrap();
    let shared = env.share(vec![1_u32, 2, 3]).unwrap();
    let sum = |(shared, more): (Shared<Vec<u32>>, u32)| shared.iter().sum::<u32>() + more;
    assert_eq!(value(env.spawn(sum, (shared.clone(), 4))), 10);
    assert_eq!(value(env.map(sum, (0..3).map(|n| (shared.clone(), n)))), [6, 7, 8]);
    // One that was made by another environment.
    let other = Env::new(Plan::sequential()).unwrap().share(vec![5_u32]).unwrap();
    assert_eq!(value(env.spawn(sum, (other, 1))), 6);
}

pub fn shared_values_in_shared_values(on: &On) {
    type Outer = Shared<(Shared<Vec<u32>>, u32)>;
    let env = Env::new(on.plan().strict(true)).unwrap();
    let inner = env.share(vec![1, 2, 3]).unwrap();
    let outer: Outer = env.share((inner, 10)).unwrap();
    let sum = |outer: Outer| outer.0.iter().sum::<u32>() + outer.1;
    for _ in 0..3 {
        assert_eq!(value(env.spawn(sum, outer.clone())), 16);
    }
    // And on from there.
    let deeper = |outer: Outer| {
        let env = Env::current();
        (env.workers(), value(env.spawn(|outer: Outer| outer.0.len(), outer)))
    };
    let env = Env::new(on.plan().nested(Plan::processes(2))).unwrap();
    assert_eq!(value(env.spawn(deeper, outer)), (2, 3));
}

pub fn shared_values_of_tasks_that_never_ran(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.alone();
    let len = |shared: Shared<Bytes>| shared.0.len();
    for round in 0..10 {
        let gates = Gates::new();
        let shared = env.share(Bytes("x".repeat(round + 1))).unwrap();
        assert_eq!(value(env.spawn(len, shared.clone())), round + 1);
        let busy = env.spawn(crate::support::pass, (gates.at("here"), gates.at("go")));
        gates.wait("here");
        let queued = env.spawn(len, shared);
        queued.kill();
        // Nobody but the queue has it now.
        drop(queued);
        gates.open("go");
        value(busy);
        assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
    }
}

pub fn hooks_that_panic_keep_no_shared_value(on: &On) {
    let plan = on.plan().workers(1).before_start(|info| assert!(info.name.is_none(), "no names"));
    let env = Env::new(plan).unwrap();
    let shared = env.share(vec![1_u32, 2, 3]).unwrap();
    let sum = |shared: Shared<Vec<u32>>| shared.iter().sum::<u32>();
    let failed = crate::support::failure(env.task().name("a").spawn(sum, shared.clone()));
    assert_eq!(failed.kind(), raddle::FailureKind::Panicked);
    assert_eq!(value(env.spawn(sum, shared)), 6);
}
