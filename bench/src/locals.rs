//! What is done with scope locals, and with what others have instead.

use std::{
    cell::Cell,
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
};

use raddle::{Scope, ScopeLocal, Worker};

use crate::peers::timed;

/// More than have slots of their own in a frame.
pub(crate) const MANY: usize = 64;

/// The first is the one that is read; bound in this order, each in a call of its own.
static KEYS: [ScopeLocal<u64>; MANY] = [const { ScopeLocal::new("key") }; MANY];
static UNBOUND: ScopeLocal<u64> = ScopeLocal::new("unbound");

thread_local! {
    static PER_THREAD: Cell<u64> = const { Cell::new(1) };
}
tokio::task_local! {
    static PER_TASK: u64;
}

/// Runs something with so many locals bound to 1.
pub(crate) fn bound<R>(count: usize, f: impl FnOnce() -> R) -> R {
    fn nested(keys: &'static [ScopeLocal<u64>], f: &mut dyn FnMut()) {
        match keys.split_first() {
            Some((key, rest)) => key.bind(1).run(|| nested(rest, f)),
            None => f(),
        }
    }
    let (mut f, mut result) = (Some(f), None);
    nested(&KEYS[..count], &mut || result = f.take().map(|f| f()));
    result.expect("was called")
}

// --- forks ---

/// The exponential recursion without a cut-off; `leaf` makes the results of the leaves.
pub(crate) fn fib(w: &Worker, n: u32, leaf: impl Fn(u32) -> u64 + Copy + Send) -> u64 {
    if n < 2 {
        return leaf(n);
    }
    let (a, b) = w.join(move |w| fib(w, n - 1, leaf), move |w| fib(w, n - 2, leaf));
    a + b
}

/// Nanoseconds that a fork takes in a span of `tracing`, by fib(n) without a cut-off. From the subscriber on, spans follow all
/// forks of the process.
pub(crate) fn spanned(n: u32) -> Vec<f64> {
    tracing::subscriber::set_global_default(tracing_subscriber::registry())
        .expect("the first subscriber");
    let pool = crate::peers::raddle_pool(1);
    // A fork for each call that is no leaf; the sum of leaves is fib(n), and there are fib(n + 1) of them.
    let forks = |leaves: u64| (leaves - 1) as f64;
    tracing::info_span!("region").in_scope(|| {
        let leaves = pool.run(|w| fib(w, n, |_| 1));
        let sample = |_| {
            let (time, result) = timed(|| pool.run(|w| fib(w, n, |_| 1)));
            assert_eq!(result, leaves, "wrong result");
            time.as_nanos() as f64 / forks(leaves)
        };
        (0..9).map(sample).collect()
    })
}

/// A sum that is complete when both halves have been added.
struct Sum {
    pending: AtomicU32,
    sum: AtomicU64,
    parent: Option<Arc<Sum>>,
}

impl Sum {
    fn new(parent: Option<Arc<Sum>>) -> Arc<Sum> {
        let pending = if parent.is_none() { 1 } else { 2 };
        Arc::new(Sum { pending: AtomicU32::new(pending), sum: AtomicU64::new(0), parent })
    }

    /// Adds a part; whoever adds the last one goes on with the parent.
    fn add(self: &Arc<Sum>, mut part: u64) {
        let mut to = self;
        loop {
            to.sum.fetch_add(part, Ordering::Relaxed);
            // ORD: AcqRel pairs with itself: the last sees what the others added.
            if to.pending.fetch_sub(1, Ordering::AcqRel) != 1 {
                return;
            }
            part = to.sum.load(Ordering::Relaxed);
            match &to.parent {
                Some(parent) => to = parent,
                None => return,
            }
        }
    }
}

/// The same recursion in the manner of a `CountedCompleter`: nobody waits for anybody, tasks end in any
/// order.
pub(crate) fn counted_fib(n: u32, leaf: impl Fn(u32) -> u64 + Copy + Send + 'static) -> u64 {
    fn descend<'s>(
        scope: &Scope<'s>,
        mut n: u32,
        mut sum: Arc<Sum>,
        leaf: impl Fn(u32) -> u64 + Copy + Send + 's,
    ) {
        while n >= 2 {
            let both = Sum::new(Some(sum));
            let forked = Arc::clone(&both);
            scope.spawn(move |scope| descend(scope, n - 2, forked, leaf));
            (n, sum) = (n - 1, both);
        }
        sum.add(leaf(n));
    }
    let root = Sum::new(None);
    raddle::scope(|scope| descend(scope, n, Arc::clone(&root), leaf));
    root.sum.load(Ordering::Relaxed)
}

/// A leaf that reads nothing.
pub(crate) fn plain(n: u32) -> u64 {
    n.into()
}

/// A leaf that reads the first key.
pub(crate) fn reading(n: u32) -> u64 {
    u64::from(n) * KEYS[0].with(|one| *one)
}

/// A leaf that reads a thread-local variable instead.
pub(crate) fn reading_thread_local(n: u32) -> u64 {
    u64::from(n) * PER_THREAD.get()
}

/// Spawns so many futures and waits for them all.
pub(crate) fn spawn_all(count: u64) -> u64 {
    let futures: Vec<_> = (0..count).map(|i| raddle::spawn(move || i)).collect();
    futures.into_iter().map(|future| future.wait().expect("no failure")).sum()
}

// --- reads and bindings ---

/// Something small that is done over and over.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Act {
    /// A call that reads nothing: what all reads have in common, as each is a call of its own.
    Call,
    ThreadLocal,
    /// tokio's, at this depth: each binding within the last.
    TaskLocal(usize),
    /// The first key, below so many bindings, itself included.
    Get(usize),
    /// The last of so many.
    GetLast(usize),
    /// All keys in turn.
    GetEach,
    /// A key that is not bound, below so many that are.
    Miss(usize),
    /// Binds and reads.
    BindGet,
    BindRefGet,
    TaskBindGet,
}

impl Act {
    /// Nanoseconds each, some samples.
    pub(crate) fn measure(self, times: u32) -> Vec<f64> {
        let pool = raddle::Pool::new(1).expect("a pool");
        pool.run(|_| match self {
            Act::Call => repeat(times, || read_nothing(&KEYS[0])),
            Act::ThreadLocal => repeat(times, read_thread_local),
            Act::TaskLocal(depth) => within_task(depth, &mut || repeat(times, read_task_local)),
            Act::Get(depth) => bound(depth, || repeat(times, || read(&KEYS[0]))),
            Act::GetLast(depth) => bound(depth, || repeat(times, || read(&KEYS[depth - 1]))),
            Act::GetEach => bound(MANY, || {
                let mut i = 0;
                repeat(times, || {
                    i = (i + 1) % MANY;
                    read(&KEYS[i])
                })
            }),
            Act::Miss(depth) => bound(depth, || repeat(times, || read_or_one(&UNBOUND))),
            Act::BindGet => {
                repeat(times, || KEYS[0].bind(black_box(1)).run(|| KEYS[0].with(|one| *one)))
            }
            Act::BindRefGet => {
                repeat(times, || KEYS[0].bind_ref(black_box(&1)).run(|| KEYS[0].with(|one| *one)))
            }
            Act::TaskBindGet => {
                repeat(times, || PER_TASK.sync_scope(black_box(1), || PER_TASK.with(|one| *one)))
            }
        })
    }
}

fn within_task(depth: usize, f: &mut dyn FnMut() -> Vec<f64>) -> Vec<f64> {
    match depth {
        0 => f(),
        _ => PER_TASK.sync_scope(1, || within_task(depth - 1, f)),
    }
}

fn repeat(times: u32, mut act: impl FnMut() -> u64) -> Vec<f64> {
    const SAMPLES: usize = 7;
    let mut sample = || {
        let (time, sum) = timed(|| (0..times).map(|_| black_box(act())).sum::<u64>());
        assert_eq!(sum, u64::from(times), "wrong values");
        time.as_nanos() as f64 / f64::from(times)
    };
    sample();
    (0..SAMPLES).map(|_| sample()).collect()
}

#[inline(never)]
fn read(key: &ScopeLocal<u64>) -> u64 {
    key.with(|value| *value)
}

#[inline(never)]
fn read_or_one(key: &ScopeLocal<u64>) -> u64 {
    key.try_with(|value| *value).unwrap_or(1)
}

#[inline(never)]
fn read_nothing(_: &ScopeLocal<u64>) -> u64 {
    black_box(1)
}

#[inline(never)]
fn read_thread_local() -> u64 {
    PER_THREAD.get()
}

#[inline(never)]
fn read_task_local() -> u64 {
    PER_TASK.with(|value| *value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recursions_agree_whatever_is_bound() {
        let pool = raddle::Pool::new(2).unwrap();
        for count in [1, 8, MANY] {
            bound(count, || {
                assert_eq!(pool.run(|w| fib(w, 15, reading)), 610);
                assert_eq!(pool.run(|_| counted_fib(15, reading)), 610);
                assert_eq!(pool.run(|w| fib(w, 15, plain)), 610);
            });
        }
        assert_eq!(pool.run(|_| counted_fib(15, plain)), 610);
        assert_eq!(pool.run(|w| fib(w, 15, reading_thread_local)), 610);
    }

    #[test]
    fn acts_do_what_they_say() {
        for act in [
            Act::Call,
            Act::ThreadLocal,
            Act::TaskLocal(3),
            Act::Get(1),
            Act::GetLast(MANY),
            Act::GetEach,
            Act::Miss(MANY),
            Act::BindGet,
            Act::BindRefGet,
            Act::TaskBindGet,
        ] {
            assert!(act.measure(10).iter().all(|nanos| *nanos > 0.0), "{act:?}");
        }
    }
}
