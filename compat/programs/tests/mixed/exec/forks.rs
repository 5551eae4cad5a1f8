//! Joins of all kinds, and shapes that are nothing but joins.

use raddle::Worker;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::ir::Fork;
use crate::oracle::leaf;
use crate::rng::mix;

pub(super) fn fork<A, B>(kind: Fork, a: A, b: B) -> (u64, u64)
where
    A: FnOnce() -> u64 + Send,
    B: FnOnce() -> u64 + Send,
{
    match kind {
        Fork::Rayon => rayon::join(a, b),
        Fork::Context => rayon::join_context(|_| a(), |_| b()),
        Fork::Raddle => raddle::join(a, b),
        Fork::Worker => {
            let mut halves = Some((a, b));
            let by_worker = Worker::with(|worker| {
                let (a, b) = halves.take().expect("called once");
                worker.join(|_| a(), |_| b())
            });
            by_worker.unwrap_or_else(|| {
                let (a, b) = halves.take().expect("nobody has called it");
                raddle::join(a, b)
            })
        }
        Fork::Scope => {
            let (first, second) = (AtomicU64::new(0), AtomicU64::new(0));
            rayon::scope(|s| {
                s.spawn(|_| first.store(a(), Relaxed));
                second.store(b(), Relaxed);
            });
            (first.into_inner(), second.into_inner())
        }
    }
}

pub(super) fn tree(kind: Fork, depth: u32, x: u64) -> u64 {
    if depth == 0 {
        return leaf(x);
    }
    let half = |which| tree(kind, depth - 1, mix(x, which));
    let (a, b) = fork(kind, || half(1), || half(2));
    mix(a, b)
}

pub(super) fn chain(kind: Fork, second: bool, count: u32, x: u64) -> u64 {
    if count == 0 {
        return leaf(x);
    }
    let rest = || chain(kind, second, count - 1, mix(x, 3));
    let (a, b) = if second { fork(kind, || leaf(x), rest) } else { fork(kind, rest, || leaf(x)) };
    mix(a, b)
}
