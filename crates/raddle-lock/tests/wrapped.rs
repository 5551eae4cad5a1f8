//! Counts and records of what a strand holds, where guards are forgotten, or let go of by another strand than their own.

#![cfg(not(any(raddle_loom, raddle_shuttle)))]

use raddle_lock::{Mutex, ObjectHeader, ReentrantLock};
use std::mem::forget;
use std::thread;
use std::time::Duration;

/// Ends a test that would hang.
const LONG: Duration = Duration::from_secs(60);

/// What another thread says.
fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|s| s.spawn(f).join().unwrap())
}

/// A record of a lock that was forgotten lies in the second place when the first becomes empty. A lock at the same address
/// was then written down in both.
#[test]
fn a_header_where_another_was_forgotten_keeps_its_levels() {
    elsewhere(|| {
        let (mutex, mut header) = (Mutex::new(0), ObjectHeader::new());
        let first = mutex.lock();
        forget(header.lock());
        drop(first);
        header = ObjectHeader::new();
        let outer = header.lock();
        let inner = header.lock();
        header.identity_hash();
        let _other = mutex.lock();
        drop(inner);
        assert!(header.is_held());
        assert!(elsewhere(|| header.try_lock().is_none()));
        drop(outer);
        assert!(!header.is_locked());
    });
}

#[test]
fn a_reentrant_lock_where_another_was_forgotten_is_unlocked() {
    elsewhere(|| {
        let mutex = Mutex::new(0);
        let mut lock = ReentrantLock::new(0);
        let first = mutex.lock();
        forget(lock.lock());
        forget(lock.lock());
        drop(first);
        lock = ReentrantLock::new(1);
        thread::scope(|s| {
            let before = raddle_lock::stats().parks;
            let guard = lock.lock();
            let sleeper = s.spawn(|| lock.try_lock_for(LONG).map(|value| *value));
            while raddle_lock::stats().parks == before {
                thread::yield_now();
            }
            drop(guard);
            assert_eq!(sleeper.join().unwrap(), Some(1));
        });
    });
}
