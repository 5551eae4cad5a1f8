//! Threads that want the same lock all the time.

use std::{
    sync::{
        Barrier,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use super::peers::Lock;

/// What one run showed.
pub(super) struct Run {
    /// Nanoseconds per critical section, over all threads.
    pub(super) each: f64,
    /// Microseconds that some thread once waited.
    pub(super) worst: f64,
    /// The most that a thread got, divided by the least.
    pub(super) spread: f64,
}

/// Has so many threads fight for one lock for `time`. The waits are timed only if `waits`, because two looks
/// at the clock take longer than an empty critical section.
pub(super) fn run<L: Lock>(threads: usize, inside: Duration, time: Duration, waits: bool) -> Run {
    let lock = L::make();
    let stop = AtomicBool::new(false);
    let start = Barrier::new(threads + 1);
    let (elapsed, done) = thread::scope(|s| {
        let threads: Vec<_> = (0..threads)
            .map(|_| {
                s.spawn(|| {
                    start.wait();
                    fight(&lock, inside, &stop, waits)
                })
            })
            .collect();
        start.wait();
        let begin = Instant::now();
        thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
        let elapsed = begin.elapsed();
        (elapsed, threads.into_iter().map(|t| t.join().expect("no panic")).collect::<Vec<_>>())
    });
    let total: u64 = done.iter().map(|(count, _)| count).sum();
    let least = done.iter().map(|(count, _)| *count).min().unwrap_or(0);
    let most = done.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let worst = done.iter().map(|(_, worst)| *worst).max().unwrap_or_default();
    Run {
        each: elapsed.as_nanos() as f64 / total as f64,
        worst: worst.as_nanos() as f64 / 1e3,
        spread: most as f64 / least.max(1) as f64,
    }
}

fn fight<L: Lock>(lock: &L, inside: Duration, stop: &AtomicBool, waits: bool) -> (u64, Duration) {
    let (mut count, mut worst) = (0, Duration::ZERO);
    while !stop.load(Ordering::Relaxed) {
        let before = waits.then(Instant::now);
        let guard = lock.take();
        if let Some(before) = before {
            worst = worst.max(before.elapsed());
        }
        if !inside.is_zero() {
            let begin = Instant::now();
            while begin.elapsed() < inside {}
        }
        drop(guard);
        count += 1;
    }
    (count, worst)
}
