//! The measurements themselves; every figure is in seconds.

use std::hint::black_box;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use raddle::{Future, Pool, Promise, Worker, scope_local};

use crate::machine;
use crate::workload::fib;

/// How much is measured: the more, the steadier the figures.
#[derive(Debug, Clone, Copy)]
pub(super) struct Effort {
    /// The number whose computation is timed on one thread.
    pub(super) fib: u32,
    /// The number that all threads compute together.
    pub(super) fib_all: u32,
    /// How often each of those is repeated; the fastest counts.
    rounds: usize,
    pub(super) futures: usize,
    /// How often a hand-off is repeated; the median counts.
    hand_offs: usize,
    pub(super) idle: Duration,
}

impl Effort {
    pub(super) const FULL: Effort = Effort {
        fib: 34,
        fib_all: 38,
        rounds: 5,
        futures: 200_000,
        hand_offs: 300,
        idle: Duration::from_secs(1),
    };
    pub(super) const QUICK: Effort = Effort {
        fib: 28,
        fib_all: 30,
        rounds: 3,
        futures: 20_000,
        hand_offs: 50,
        idle: Duration::from_millis(300),
    };
}

/// One half of the join that is handed off.
pub(super) const HALF: Duration = Duration::from_micros(20);

/// How long the pool is left alone before a hand-off from the quiet.
pub(super) const QUIET: Duration = Duration::from_millis(3);

/// What a fork costs, on one thread: the time per fork of a computation that does nothing but fork.
#[derive(Debug, Clone, Copy)]
pub(super) struct Forks {
    /// Plain calls in place of forks: the floor.
    pub(super) call: f64,
    pub(super) worker: f64,
    pub(super) ambient: f64,
}

pub(super) fn forks(one: &Pool, effort: Effort) -> Forks {
    let n = effort.fib;
    // `fib(n)` forks once per addition, and it adds up `fib(n + 1)` ones, the last for nothing.
    let forks = (fib::sequential(n + 1) - 1) as f64;
    let per_fork = |work: &(dyn Fn() + Sync)| fastest(effort.rounds, work) / forks;
    Forks {
        call: per_fork(&|| _ = black_box(fib::sequential(black_box(n)))),
        worker: per_fork(&|| _ = black_box(one.run(|worker| forked(worker, black_box(n))))),
        ambient: per_fork(&|| _ = black_box(one.run(|_| ambient(black_box(n))))),
    }
}

/// [`fib::fib`] without the cut-off, whose comparison would be measured with it.
fn forked(worker: &Worker, n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = worker.join(|w| forked(w, n - 1), |w| forked(w, n - 2));
    a + b
}

fn ambient(n: u32) -> u64 {
    if n < 2 {
        return u64::from(n);
    }
    let (a, b) = raddle::join(|| ambient(n - 1), || ambient(n - 2));
    a + b
}

/// The time of one computation of nothing but forks.
pub(super) fn fib_on(pool: &Pool, effort: Effort) -> f64 {
    let n = black_box(effort.fib_all);
    fastest(effort.rounds, &|| _ = black_box(pool.run(|worker| forked(worker, n))))
}

/// What a future costs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Futures {
    /// A closure that is boxed, kept and called: the floor.
    pub(super) boxed: f64,
    /// All spawned first, then all waited for; per future.
    pub(super) together: f64,
    /// One spawned and waited for at a time.
    pub(super) alone: f64,
    /// Two boxes of the size of a promise and an operation.
    pub(super) boxes: f64,
    /// A promise, an operation on its future, set and taken.
    pub(super) mapped: f64,
    /// An operation on a future that is done.
    pub(super) ready: f64,
}

pub(super) fn futures(pool: &Pool, effort: Effort) -> Futures {
    let count = effort.futures;
    type Boxed = Box<dyn FnOnce() -> usize + Send>;
    let boxed = fastest(effort.rounds, &|| {
        let calls: Vec<Boxed> =
            (0..count).map(|i| Box::new(move || black_box(i)) as Boxed).collect();
        black_box(calls.into_iter().map(|call| call()).sum::<usize>());
    });
    let together = fastest(effort.rounds, &|| {
        let futures: Vec<_> = (0..count).map(|i| pool.spawn(move || black_box(i))).collect();
        let value = |future: raddle::Future<usize>| future.wait().unwrap_or_else(|f| f.resume());
        black_box(futures.into_iter().map(value).sum::<usize>());
    });
    let alone = median(
        effort.hand_offs * 10,
        || (),
        || {
            _ = black_box(pool.spawn(|| black_box(1)).wait());
        },
    );
    let each = |work: &dyn Fn()| fastest(effort.rounds, &|| (0..count).for_each(|_| work()));
    let boxes = each(&|| _ = black_box((Box::new([0_u64; 2]), Box::new([0_u64; 3]))));
    let mapped = each(&|| {
        let (promise, future) = Promise::new();
        let next = future.map(|n: u64| n + 1);
        promise.set(black_box(1));
        _ = black_box(next.wait());
    });
    let ready = each(&|| _ = black_box(black_box(Future::ready(1_u64)).map(|n| n + 1).wait()));
    let [boxed, together, boxes, mapped, ready] =
        [boxed, together, boxes, mapped, ready].map(|time| time / count as f64);
    Futures { boxed, together, alone, boxes, mapped, ready }
}

scope_local! {
    static UNUSED: u64;
}

/// What a fork costs while a scope local is bound that nobody reads, and reading one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Locals {
    /// A fork with nothing bound: the floor.
    pub(super) fork: f64,
    pub(super) bound: f64,
    pub(super) read: f64,
}

pub(super) fn locals(one: &Pool, effort: Effort) -> Locals {
    let n = effort.fib;
    let forks = (fib::sequential(n + 1) - 1) as f64;
    let fork = || _ = black_box(one.run(|worker| forked(worker, black_box(n))));
    let bound = || UNUSED.bind(1).run(fork);
    // In turns: a processor changes its pace.
    let (mut plain, mut inherited) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..effort.rounds {
        plain = plain.min(time(fork));
        inherited = inherited.min(time(bound));
    }
    let reads = effort.futures;
    let read = UNUSED.bind(1).run(|| {
        fastest(effort.rounds, &|| {
            (0..reads).for_each(|_| _ = black_box(UNUSED.with(|value| *value)));
        })
    });
    Locals { fork: plain / forks, bound: inherited / forks, read: read / reads as f64 }
}

/// What taking and releasing a lock costs that nobody else wants.
#[derive(Debug, Clone, Copy)]
pub(super) struct Locks {
    /// One atomic read-modify-write: the floor.
    pub(super) atomic: f64,
    pub(super) pair: f64,
    pub(super) standard: f64,
}

pub(super) fn locks(effort: Effort) -> Locks {
    let count = effort.futures;
    let word = AtomicU64::new(0);
    let (ours, theirs) = (raddle::lock::Mutex::new(0_u64), std::sync::Mutex::new(0_u64));
    let each = |work: &dyn Fn()| {
        fastest(effort.rounds, &|| (0..count).for_each(|_| work())) / count as f64
    };
    Locks {
        atomic: each(&|| _ = black_box(word.swap(1, Ordering::Relaxed))),
        pair: each(&|| *ours.lock() += 1),
        standard: each(&|| *theirs.lock().unwrap_or_else(|e| e.into_inner()) += 1),
    }
}

/// How long it takes to hand work to the pool from outside.
#[derive(Debug, Clone, Copy)]
pub(super) struct HandOffs {
    /// A region with nothing in it, again and again.
    pub(super) empty: f64,
    /// Two halves of 20 us, again and again.
    pub(super) hot: f64,
    /// The same after 3 ms of quiet.
    pub(super) quiet: f64,
}

pub(super) fn hand_offs(pool: &Pool, effort: Effort) -> HandOffs {
    let halves = || _ = pool.run(|worker| worker.join(|_| spin(HALF), |_| spin(HALF)));
    HandOffs {
        empty: median(effort.hand_offs * 10, || (), || pool.run(|_| ())),
        hot: median(effort.hand_offs * 3, || (), halves),
        quiet: median(effort.hand_offs, || thread::sleep(QUIET), halves),
    }
}

/// The part of one processor that a pool uses while it has nothing to do.
pub(super) fn idle(pool: &Pool, effort: Effort) -> Option<f64> {
    pool.run(|worker| forked(worker, 20));
    // Workers may look for work for a moment before they sleep.
    thread::sleep(Duration::from_millis(50));
    let before = machine::cpu_time()?;
    let clock = Instant::now();
    thread::sleep(effort.idle);
    let used = machine::cpu_time()?.saturating_sub(before);
    Some(used.as_secs_f64() / clock.elapsed().as_secs_f64())
}

fn spin(time: Duration) {
    let clock = Instant::now();
    while clock.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn time(work: impl FnOnce()) -> f64 {
    let clock = Instant::now();
    work();
    clock.elapsed().as_secs_f64()
}

/// The fastest of some rounds: what disturbs a long computation only ever makes it slower.
fn fastest(rounds: usize, work: &dyn Fn()) -> f64 {
    (0..rounds).map(|_| time(work)).fold(f64::INFINITY, f64::min)
}

/// The median of some rounds: what is usual for something short.
fn median(rounds: usize, before: impl Fn(), work: impl Fn()) -> f64 {
    let mut times: Vec<f64> = (0..rounds)
        .map(|_| {
            before();
            time(&work)
        })
        .collect();
    times.sort_by(f64::total_cmp);
    times[rounds / 2]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        // Three of ten take long, and on a busy machine now and then more.
        let of_ten = || {
            let rounds = std::cell::Cell::new(0);
            let work = || {
                rounds.set(rounds.get() + 1);
                if rounds.get() > 7 {
                    thread::sleep(Duration::from_millis(20));
                }
            };
            median(10, || (), work)
        };
        assert!((0..100).any(|_| of_ten() < 0.02));
        assert!(fastest(2, &|| thread::sleep(Duration::from_millis(2))) >= 0.002);
    }

    #[test]
    fn forks_are_counted_right() {
        fn count(n: u32, forks: &AtomicU64) {
            if n >= 2 {
                forks.fetch_add(1, Ordering::Relaxed);
                count(n - 1, forks);
                count(n - 2, forks);
            }
        }
        let forks = AtomicU64::new(0);
        count(17, &forks);
        assert_eq!(forks.into_inner(), fib::sequential(18) - 1);
    }
}
