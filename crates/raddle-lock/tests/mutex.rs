//! What the mutex promises, on real threads.

#![cfg(not(raddle_model))]

use raddle_lock::{Mutex, RawThinLock};
use raddle_sync::{strand, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What takes so long hangs.
const LONG: Duration = Duration::from_secs(600);

#[test]
fn sixteen_threads_lose_no_increment() {
    const THREADS: usize = if cfg!(miri) { 4 } else { 16 };
    const ROUNDS: usize = if cfg!(miri) { 30 } else { 20_000 };
    // Two counters that a broken lock would let drift apart.
    let counters = Arc::new(Mutex::new((0, 0)));
    let threads: Vec<_> = (0..THREADS)
        .map(|me| {
            let counters = Arc::clone(&counters);
            thread::spawn(move || {
                for round in 0..ROUNDS {
                    let mut both = match (round + me) % 3 {
                        0 => counters.try_lock_for(LONG).expect("its turn"),
                        1 => counters.try_lock().unwrap_or_else(|| counters.lock()),
                        _ => counters.lock(),
                    };
                    both.0 += 1;
                    both.1 += 1;
                    assert_eq!(both.0, both.1);
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*counters.lock(), (THREADS * ROUNDS, THREADS * ROUNDS));
    assert!(!counters.is_locked());
}

#[test]
fn through_lock_api_too() {
    const ROUNDS: usize = if cfg!(miri) { 30 } else { 5_000 };
    let counter = Arc::new(lock_api::Mutex::<RawThinLock, _>::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let counter = Arc::clone(&counter);
            thread::spawn(move || (0..ROUNDS).for_each(|_| *counter.lock() += 1))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*counter.lock(), 4 * ROUNDS);
    let guard = counter.lock();
    assert!(counter.is_locked());
    assert!(counter.try_lock_for(Duration::from_millis(1)).is_none());
    assert!(counter.try_lock_until(Instant::now()).is_none());
    drop(guard);
}

#[test]
fn locking_again_on_the_same_strand_panics_and_keeps_the_lock() {
    let mutex = Mutex::new(5);
    let guard = mutex.lock();
    let result = catch_unwind(AssertUnwindSafe(|| drop(mutex.lock())));
    let message = *result.unwrap_err().downcast::<&str>().unwrap();
    assert!(message.contains("held by the strand that wants it"), "{message}");
    assert!(mutex.is_locked());
    assert_eq!(*guard, 5);
    drop(guard);
    assert_eq!(*mutex.lock(), 5);
}

#[test]
fn a_foreign_strand_on_the_same_thread_does_not_own_the_lock() {
    let mutex = Mutex::new(());
    let guard = mutex.lock();
    {
        let _foreign = strand::enter_foreign();
        assert!(mutex.try_lock().is_none());
        // It waits, where the owner would fail at once: it is not the owner.
        let start = Instant::now();
        assert!(mutex.try_lock_for(Duration::from_millis(5)).is_none());
        assert!(start.elapsed() >= Duration::from_millis(5));
    }
    let start = Instant::now();
    assert!(mutex.try_lock_for(LONG).is_none());
    assert!(start.elapsed() < LONG / 2);
    drop(guard);
    assert!(mutex.try_lock().is_some());
}

#[test]
fn a_panic_releases_the_lock_and_keeps_the_value() {
    let mutex = Arc::new(Mutex::new(0));
    let other = Arc::clone(&mutex);
    let result = thread::spawn(move || {
        *other.lock() = 1;
        let _guard = other.lock();
        panic!("on purpose");
    })
    .join();
    assert!(result.is_err());
    assert_eq!(*mutex.lock(), 1);
}

#[test]
fn ways_in_and_out() {
    let mut mutex = Mutex::from(vec![1]);
    mutex.get_mut().push(2);
    assert_eq!(format!("{mutex:?}"), "Mutex { data: [1, 2] }");
    let guard = mutex.lock();
    assert_eq!(format!("{guard:?} {mutex:?}"), "[1, 2] Mutex { data: <locked> }");
    drop(guard);
    assert_eq!(mutex.into_inner(), [1, 2]);
    assert_eq!(Mutex::<u8>::default().into_inner(), 0);
    let unsized_value: &Mutex<[u8]> = &Mutex::new([1, 2, 3]);
    assert_eq!(unsized_value.lock().len(), 3);
    assert_eq!(Mutex::new("weft").lock().to_string(), "weft");
}
