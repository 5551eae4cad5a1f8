//! Attempts that do not succeed, and what they do to others. A program of its own, as it looks at what the process counts.

#![cfg(not(raddle_model))]

use raddle_lock::{RwLock, RwLockUpgradableReadGuard, stats};
use std::sync::Barrier;
use std::thread;

const READS: u32 = if cfg!(miri) { 200 } else { 100_000 };

/// Each claimed the lock, for nothing: a barrier, and readers that came meanwhile did not come in.
#[test]
fn an_attempt_to_write_what_is_read_leaves_no_trace() {
    let lock = RwLock::new(0);
    let (begin, end) = (Barrier::new(2), Barrier::new(2));
    thread::scope(|s| {
        s.spawn(|| {
            (0..READS).for_each(|_| drop(lock.read())); // so that it is published
            let _guard = lock.read();
            begin.wait();
            end.wait();
        });
        begin.wait();
        let before = stats().barriers;
        let reads = s.spawn(|| (0..1000).all(|_| lock.try_read().is_some()));
        for _ in 0..1000 {
            assert!(lock.try_write().is_none());
            let upgradable = lock.upgradable_read();
            assert!(RwLockUpgradableReadGuard::try_upgrade(upgradable).is_err());
        }
        assert!(reads.join().unwrap(), "nobody writes, nor waits to");
        assert_eq!(stats().barriers, before);
        end.wait();
    });
    assert!(lock.try_write().is_some());
}
