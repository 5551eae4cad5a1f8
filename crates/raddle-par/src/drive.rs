//! The loop: sequential while nobody asks, halved when somebody does.

use raddle_core::{Pool, Worker};

/// A loop in progress: what is left of it, and what it has come to so far.
pub(crate) trait Work: Sized + Send {
    /// What it comes to.
    type Output: Send;

    /// Fewer items are not worth a fork.
    const LEAST: usize = 2;
    /// So many are done before the first look.
    const FIRST: usize = 1;
    /// And so many between two looks, at the most.
    const MOST: usize = 512;

    /// How many items are left.
    fn left(&self) -> usize;
    /// Does the next `count` items.
    fn advance(&mut self, count: usize);
    /// Cuts off the latter half of what is left.
    fn halve(self) -> (Self, Self);
    /// When nothing is left.
    fn finish(self) -> Self::Output;
    /// What both halves come to.
    fn combine(front: Self::Output, back: Self::Output) -> Self::Output;
}

/// Calls `f` with the worker that this thread is, or as a guest of the global pool.
pub(crate) fn enter<R: Send>(f: impl FnOnce(&Worker) -> R + Send) -> R {
    let mut f = Some(f);
    let mut call = |worker: &Worker| f.take().map(|f| f(worker));
    match Worker::with(&mut call).flatten() {
        Some(result) => result,
        None => Pool::global().run(call).expect("called once"),
    }
}

/// Runs a loop on the pool that this thread is in, or on the global one.
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    if work.left() < W::LEAST { alone(work) } else { enter(|worker| drive(worker, work)) }
}

/// Runs a loop on this thread, where there is nothing to share.
fn alone<W: Work>(mut work: W) -> W::Output {
    work.advance(work.left());
    work.finish()
}

/// Runs a loop, and has others take part who ask.
pub(crate) fn drive<W: Work>(worker: &Worker, mut work: W) -> W::Output {
    let mut step = W::FIRST;
    loop {
        let left = work.left();
        if left >= W::LEAST && worker.should_fork() {
            let (front, back) = work.halve();
            let (front, back) = worker.join(|w| drive(w, front), |w| drive(w, back));
            return W::combine(front, back);
        }
        // Whoever asks meanwhile waits: for little beside what is left to share.
        let count = step.min(left / 8).max(W::FIRST).min(left);
        work.advance(count);
        if count == left {
            return work.finish();
        }
        step = (step * 2).min(W::MOST);
    }
}
