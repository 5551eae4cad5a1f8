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

/// A wait beyond this is one for which a thread has slept.
const LONG: Duration = Duration::from_micros(20);

/// What one run showed.
pub(super) struct Run {
    /// Nanoseconds per critical section, over all threads.
    pub(super) each: f64,
    /// Microseconds that one in a hundred of the waits over 20 us exceeded, or of the longest of threads without such.
    pub(super) p99: f64,
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
    let total: u64 = done.iter().map(|(count, _)| *count).sum();
    let least = done.iter().map(|(count, _)| *count).min().unwrap_or(0);
    let most = done.iter().map(|(count, _)| *count).max().unwrap_or(0);
    let mut long: Vec<Duration> = done.into_iter().flat_map(|(_, long)| long).collect();
    long.sort_unstable();
    let us = |at: usize| long.get(at).map_or(0.0, |wait| wait.as_nanos() as f64 / 1e3);
    Run {
        each: elapsed.as_nanos() as f64 / total as f64,
        p99: us(long.len().saturating_sub(1) * 99 / 100),
        worst: us(long.len().saturating_sub(1)),
        spread: most as f64 / least.max(1) as f64,
    }
}

/// How often the lock was had, and the waits that took long, or the longest.
fn fight<L: Lock>(
    lock: &L,
    inside: Duration,
    stop: &AtomicBool,
    waits: bool,
) -> (u64, Vec<Duration>) {
    let (mut count, mut worst, mut long) = (0, Duration::ZERO, Vec::with_capacity(4096));
    while !stop.load(Ordering::Relaxed) {
        let before = waits.then(Instant::now);
        let guard = lock.take();
        if let Some(before) = before {
            let wait = before.elapsed();
            worst = worst.max(wait);
            if wait > LONG {
                long.push(wait);
            }
        }
        if !inside.is_zero() {
            let begin = Instant::now();
            while begin.elapsed() < inside {}
        }
        drop(guard);
        count += 1;
    }
    if long.is_empty() {
        long.push(worst);
    }
    (count, long)
}
