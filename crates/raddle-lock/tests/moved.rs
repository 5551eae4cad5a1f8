//! Locks that are moved when a guard of theirs was forgotten: what is written down of one is then found where another lies.

#![cfg(not(raddle_model))]

use raddle_lock::{ObjectHeader, ReentrantLock};
use std::cell::Cell;
use std::mem::forget;
use std::thread;
use std::time::Duration;

/// What another thread says.
fn elsewhere<R: Send>(f: impl FnOnce() -> R + Send) -> R {
    thread::scope(|s| s.spawn(f).join().unwrap())
}

/// Takes and forgets two levels, with no room for a record: the lock is fat.
fn forget_fat(nest: &ReentrantLock<()>, other: &ReentrantLock<()>, lock: impl Fn()) {
    let _nests = [nest.lock(), nest.lock(), other.lock(), other.lock()];
    lock();
    lock();
}

/// A level was counted with the lock and let go of by the record of another one that had lain there: the lock was free,
/// beside a guard.
#[test]
fn a_fat_lock_is_not_let_go_of_by_the_record_of_another() {
    let (nest, other) = (ReentrantLock::new(()), ReentrantLock::new(()));
    let mut locks = [ReentrantLock::new(Cell::new(0)), ReentrantLock::new(Cell::new(0))];
    drop(nest.lock()); // From now on this strand lets go by the record alone.
    forget_fat(&nest, &other, || forget(locks[1].lock()));
    forget(locks[0].lock());
    forget(locks[0].lock());
    locks.swap(0, 1);
    let held = locks[0].lock();
    drop(locks[0].lock());
    drop(locks[0].lock());
    drop(locks[0].lock());
    assert!(locks[0].is_held());
    assert!(elsewhere(|| locks[0].try_lock().is_none()));
    held.set(1);
}

/// The same, where the record is of a strand beneath the one that takes the lock, and ends before its guard.
#[test]
fn nor_by_one_of_a_strand_beneath() {
    let (nest, other) = (ReentrantLock::new(()), ReentrantLock::new(()));
    let mut locks = [ReentrantLock::new(()), ReentrantLock::new(())];
    drop(nest.lock());
    forget(locks[0].lock());
    let above = raddle_sync::strand::enter_foreign();
    forget_fat(&nest, &other, || forget(locks[1].lock()));
    locks.swap(0, 1);
    let held = locks[0].lock();
    drop(above);
    drop(held);
    assert!(locks[0].is_locked());
    assert!(elsewhere(|| locks[0].try_lock().is_none()));
}

/// Whoever gave up waiting found the entry left for another header, which had lain there, and gave back that of the one which
/// is there now, and held: the next header that became fat had the same.
#[test]
fn a_header_that_is_given_up_keeps_its_entry() {
    let (nest, other) = (ReentrantLock::new(()), ReentrantLock::new(()));
    let mut headers = [ObjectHeader::new(), ObjectHeader::new()];
    forget_fat(&nest, &other, || forget(headers[1].lock()));
    forget(headers[0].lock());
    elsewhere(|| headers[0].identity_hash()); // Leaves an entry, for this strand.
    headers.swap(0, 1);
    assert!(headers[0].is_fat() && headers[0].is_held());
    elsewhere(|| {
        assert!(headers[0].try_lock_for(Duration::from_millis(5)).is_none());
        // Fat, with the entry that this thread has given back last.
        let next = ObjectHeader::new();
        let _guard = next.lock();
        next.identity_hash();
        assert!(next.is_fat() && headers[0].is_locked());
        assert!(!headers[0].is_held(), "two headers have one entry");
    });
    assert!(headers[0].is_held());
}
