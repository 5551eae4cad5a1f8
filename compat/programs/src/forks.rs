//! A program that forks by itself, without iterators: in a trace each of its lines has a name.

use std::hint::black_box;

/// A `join`, a scope with a task, a task of its own, and a pool's `join`.
pub(crate) fn forks() {
    sum(0, 1 << 12);
    let (sender, receiver) = std::sync::mpsc::channel();
    rayon::scope(|s| s.spawn(|_| _ = black_box(1)));
    rayon::spawn(move || sender.send(()).expect("somebody waits for it"));
    receiver.recv().expect("the task says so");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().expect("a thread");
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
}

fn sum(from: u64, to: u64) -> u64 {
    if to - from == 1 {
        return black_box(from);
    }
    let middle = from.midpoint(to);
    let (a, b) = rayon::join(|| sum(from, middle), || sum(middle, to));
    a + b
}
