//! Models of the lock, explored exhaustively:
//! `RUSTFLAGS="--cfg raddle_loom" cargo test -p raddle-lock --release --test loom`

#![cfg(raddle_loom)]

use raddle_lock::Mutex;
use raddle_sync::sync::Arc;
use raddle_sync::{strand, thread};

/// At most three preemptions: with them the lock spins, sleeps, is woken and barged past, and the
/// number of executions stays within reach.
fn bounded_model(model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(3);
    builder.check(model);
}

/// Loom reports overlapping accesses to the value, accesses without a happens-before edge, and a lost
/// wake-up as a deadlock.
#[test]
fn two_threads_exclude_each_other() {
    bounded_model(|| {
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let thread = thread::spawn(move || *other.lock() += 1);
        *mutex.lock() += 1;
        thread.join().unwrap();
        assert_eq!(*mutex.lock(), 2);
    });
}

#[test]
fn three_threads_pass_the_wake_up_on() {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(2);
    builder.check(|| {
        let mutex = Arc::new(Mutex::new(0));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let mutex = Arc::clone(&mutex);
                thread::spawn(move || *mutex.lock() += 1)
            })
            .collect();
        *mutex.lock() += 1;
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*mutex.lock(), 3);
    });
}

#[test]
fn a_failed_attempt_leaves_no_trace() {
    bounded_model(|| {
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let thread = thread::spawn(move || match other.try_lock() {
            Some(mut value) => {
                *value += 1;
                1
            }
            None => 0,
        });
        *mutex.lock() += 1;
        let added = thread.join().unwrap();
        assert_eq!(*mutex.lock(), 1 + added);
    });
}

#[test]
fn strands_without_ids_still_exclude_each_other() {
    bounded_model(|| {
        // A model has seven ids; foreign strands take them all and nest, so none is left.
        let guards: Vec<_> = std::iter::from_fn(|| {
            let guard = strand::enter_foreign();
            strand::current().map(|_| guard)
        })
        .collect();
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let thread = thread::spawn(move || {
            assert_eq!(strand::current(), None);
            *other.lock() += 1;
        });
        *mutex.lock() += 1;
        thread.join().unwrap();
        assert_eq!(*mutex.lock(), 2);
        guards.into_iter().rev().for_each(drop);
    });
}
