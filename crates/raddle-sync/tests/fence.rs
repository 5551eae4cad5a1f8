//! The fence's Dekker form on the real machine: both threads must not miss each other.

#![cfg(not(raddle_model))]

use raddle_sync::atomic::{AtomicU32, Ordering, fence as full_fence};
use raddle_sync::{fence, spin::Backoff, thread};
use std::sync::Arc;

const ROUNDS: u32 = if cfg!(miri) { 100 } else { 20_000 };

/// One round's two words, each on a cache line of its own so that the store has to wait for it.
#[repr(align(128))]
#[derive(Default)]
struct Line(AtomicU32);

#[derive(Default)]
struct Round {
    x: Line,
    y: Line,
    seen_by_a: Line,
    seen_by_b: Line,
}

/// Waits until both threads have arrived at `round`.
fn meet(arrived: &AtomicU32, round: u32) {
    arrived.fetch_add(1, Ordering::AcqRel);
    let mut backoff = Backoff::new();
    while arrived.load(Ordering::Acquire) < 2 * (round + 1) {
        backoff.spin();
    }
}

/// Runs the form `rounds` times; returns how often neither side saw the other.
fn misses(rounds: u32, a_fence: fn(), b_fence: fn()) -> usize {
    let words: Arc<Vec<Round>> = Arc::new((0..rounds).map(|_| Round::default()).collect());
    let arrived = Arc::new(AtomicU32::new(0));
    let b = {
        let (words, arrived) = (Arc::clone(&words), Arc::clone(&arrived));
        thread::spawn(move || {
            for (number, round) in (0..).zip(words.iter()) {
                meet(&arrived, number);
                round.y.0.store(1, Ordering::Relaxed);
                b_fence();
                round.seen_by_b.0.store(round.x.0.load(Ordering::Relaxed), Ordering::Relaxed);
            }
        })
    };
    for (number, round) in (0..).zip(words.iter()) {
        meet(&arrived, number);
        round.x.0.store(1, Ordering::Relaxed);
        a_fence();
        round.seen_by_a.0.store(round.y.0.load(Ordering::Relaxed), Ordering::Relaxed);
    }
    b.join().unwrap();
    let zero = |line: &Line| line.0.load(Ordering::Relaxed) == 0;
    words.iter().filter(|round| zero(&round.seen_by_a) && zero(&round.seen_by_b)).count()
}

#[test]
fn light_and_heavy_see_each_other() {
    if !fence::init() {
        return; // No process-wide barrier here; the portable form is the next test.
    }
    assert!(fence::process_wide());
    assert_eq!(misses(ROUNDS, fence::light, fence::heavy), 0);
}

#[test]
fn a_full_fence_and_heavy_see_each_other() {
    fence::init();
    assert_eq!(misses(ROUNDS, || full_fence(Ordering::SeqCst), fence::heavy), 0);
}

/// Threads that ask for the barrier at the same time, and share it.
const SHARING: usize = 3;

#[derive(Default)]
struct Shares {
    x: Line,
    y: [Line; SHARING],
    seen_by_a: [Line; SHARING],
    seen_by_b: [Line; SHARING],
}

/// Waits until all threads have arrived at `round`.
fn meet_all(arrived: &AtomicU32, round: u32) {
    arrived.fetch_add(1, Ordering::AcqRel);
    let mut backoff = Backoff::new();
    while arrived.load(Ordering::Acquire) < (1 + SHARING as u32) * (round + 1) {
        backoff.spin();
    }
}

#[test]
fn each_of_those_who_share_a_barrier_is_seen_or_sees() {
    let rounds = if cfg!(miri) { 30 } else { 3_000 };
    fence::init();
    let a_fence =
        if fence::process_wide() { fence::light } else { || full_fence(Ordering::SeqCst) };
    let words: Arc<Vec<Shares>> = Arc::new((0..rounds).map(|_| Shares::default()).collect());
    let arrived = Arc::new(AtomicU32::new(0));
    let sharing: Vec<_> = (0..SHARING)
        .map(|who| {
            let (words, arrived) = (Arc::clone(&words), Arc::clone(&arrived));
            thread::spawn(move || {
                for (number, round) in (0..).zip(words.iter()) {
                    meet_all(&arrived, number);
                    round.y[who].0.store(1, Ordering::Relaxed);
                    fence::heavy();
                    let seen = round.x.0.load(Ordering::Relaxed);
                    round.seen_by_b[who].0.store(seen, Ordering::Relaxed);
                }
            })
        })
        .collect();
    for (number, round) in (0..).zip(words.iter()) {
        meet_all(&arrived, number);
        round.x.0.store(1, Ordering::Relaxed);
        a_fence();
        for (y, seen) in round.y.iter().zip(&round.seen_by_a) {
            seen.0.store(y.0.load(Ordering::Relaxed), Ordering::Relaxed);
        }
    }
    sharing.into_iter().for_each(|thread| thread.join().unwrap());
    let zero = |line: &Line| line.0.load(Ordering::Relaxed) == 0;
    let missed = |round: &Shares| {
        round.seen_by_a.iter().zip(&round.seen_by_b).any(|(a, b)| zero(a) && zero(b))
    };
    assert_eq!(words.iter().filter(|round| missed(round)).count(), 0);
}
