//! Counts and records of what a strand holds, where guards are forgotten, or let go of by another strand than their own.

#![cfg(not(raddle_model))]

use raddle_lock::{
    Mutex, ObjectHeader, RawRwLock, ReentrantLock, RwLock, RwLockUpgradableReadGuard,
};
use raddle_sync::strand;
use std::cell::Cell;
use std::mem::forget;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
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

/// A strand forgot a lock; another one above it took the lock that lies there now, and ended with it. Its guards were then
/// let go of by what was written down of the one that had been forgotten: the first as if it were the last.
#[test]
fn guards_of_a_strand_that_has_ended_are_not_taken_for_those_of_a_lock_forgotten_there() {
    // How often it was forgotten, and how many other locks the second strand holds as well.
    for (forgotten, more) in [(1, 0), (1, 1), (1, 2), (1, 3), (3, 0), (3, 2), (3, 3)] {
        elsewhere(|| {
            drop(Mutex::new(0).lock()); // It unlocks the fast way from now on.
            let others = [(); 3].map(ReentrantLock::new);
            let mut lock = ReentrantLock::new(Cell::new(0));
            (0..forgotten).for_each(|_| forget(lock.lock()));
            lock = ReentrantLock::new(Cell::new(0));
            let middle = strand::enter_foreign();
            strand::current();
            let above = strand::enter_foreign();
            // First those others, or the lock itself: it is written down, or moved, or only counted.
            let held = others.each_ref().map(|other| other.lock());
            let held_twice = [0, 1, 2].map(|n| (n < more).then(|| others[n].lock()));
            let guards = [(); 3].map(|()| lock.lock());
            let late = [0, 1, 2].map(|n| (n < more).then(|| others[n].lock()));
            drop(above);
            drop(middle);
            let is_free = || elsewhere(|| lock.try_lock().is_some());
            for guard in guards {
                assert!(!is_free(), "{forgotten} forgotten, with {more} others");
                drop(guard);
            }
            assert!(is_free(), "{forgotten} forgotten, with {more} others");
            drop((held, held_twice, late));
            for other in &others {
                assert!(elsewhere(|| other.try_lock().is_some()));
            }
        });
    }
}

/// The same of a fat lock, whose word was overwritten: whoever slept for it slept for ever.
#[test]
fn one_who_sleeps_is_woken_by_a_guard_of_a_strand_that_has_ended() {
    elsewhere(|| {
        drop(Mutex::new(0).lock());
        let mut mutex = Mutex::new(0);
        forget(mutex.lock());
        mutex = Mutex::new(1);
        let above = strand::enter_foreign();
        let guard = mutex.lock();
        drop(above);
        thread::scope(|s| {
            let before = raddle_lock::stats().parks;
            let sleeper = s.spawn(|| mutex.try_lock_for(LONG).map(|value| *value));
            while raddle_lock::stats().parks == before {
                thread::yield_now();
            }
            drop(guard);
            assert_eq!(sleeper.join().unwrap(), Some(1));
        });
    });
}

/// A read that is counted belongs to no strand. It was taken off the one that ended it, which then seemed to hold nothing.
#[test]
fn a_counted_read_is_not_taken_off_another_strand() {
    static READ: lock_api::RwLock<RawRwLock, ()> = lock_api::RwLock::new(());
    let owned = ReentrantLock::new(Cell::new(0));
    elsewhere(|| {
        let mut read = Some(READ.read());
        // So deep that the thread does not keep its id.
        let beneath = [(); 7].map(|()| strand::enter_foreign());
        let strand = strand::enter_foreign();
        let id = strand::current();
        let held = owned.lock();
        read.take();
        drop(strand);
        let barrier = Barrier::new(4);
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    assert_ne!(strand::current(), id);
                    assert!(owned.try_lock().is_none());
                    barrier.wait();
                });
            }
        });
        drop(held);
        drop(beneath);
    });
    assert!(owned.try_lock().is_some());
    assert!(READ.try_write().is_some());
}

/// A guard that one strand has made and another, above it on the same thread, has to hand the lock on and take it back. The lock
/// would then be the other's, which ends with what it holds.
#[test]
fn a_guard_of_a_writer_or_reader_is_not_handed_on_by_a_strand_above() {
    elsewhere(|| {
        let lock = lock_api::RwLock::<RawRwLock, _>::new(0);
        let holds = || strand::with_local(strand::Local::holds);
        let panics = |bump: &mut dyn FnMut()| catch_unwind(AssertUnwindSafe(bump)).is_err();
        let mut guard = lock.write();
        thread::scope(|s| {
            s.spawn(|| assert!(lock.try_write_for(LONG).is_some()));
            let above = strand::enter_foreign();
            // As soon as that one sleeps.
            while !panics(&mut || lock_api::RwLockWriteGuard::bump(&mut guard)) {
                assert_eq!(holds(), 0, "a strand above has handed the lock on");
                thread::yield_now();
            }
            drop(above);
            assert!(lock.is_locked_exclusive() && holds() == 1);
            lock_api::RwLockWriteGuard::bump(&mut guard);
            drop(guard);
        });
        // Published, and counted: that is nobody's.
        for reads in [5_000, 0] {
            (0..reads).for_each(|_| drop(lock.read()));
            let mut guard = lock.read();
            let held = holds();
            thread::scope(|s| {
                s.spawn(|| assert!(lock.try_write_for(LONG).is_some()));
                while elsewhere(|| lock.try_read().is_some()) {
                    thread::yield_now(); // until it has claimed the lock
                }
                let above = strand::enter_foreign();
                lock_api::RwLockReadGuard::bump(&mut guard);
                assert_eq!(holds(), 0);
                drop(above);
                assert_eq!(holds(), held);
                lock_api::RwLockReadGuard::bump(&mut guard);
                drop(guard);
            });
            assert!(holds() == 0 && !lock.is_locked());
        }
    });
}

/// A strand that is published beneath does not make a counted read of the strand above its own.
#[test]
fn a_guard_above_that_of_a_strand_beneath_may_be_bumped() {
    elsewhere(|| {
        let lock = lock_api::RwLock::<RawRwLock, _>::new(0);
        (0..5_000).for_each(|_| drop(lock.read()));
        let beneath = lock.read();
        thread::scope(|s| {
            s.spawn(|| assert!(lock.try_write_for(LONG).is_some()));
            while elsewhere(|| lock.try_read().is_some()) {
                thread::yield_now(); // until it has claimed the lock
            }
            let strand = strand::enter_foreign();
            let mut above = lock.read_recursive();
            lock_api::RwLockReadGuard::bump(&mut above);
            drop(above);
            drop(strand);
            drop(beneath);
        });
        assert!(strand::with_local(strand::Local::holds) == 0 && !lock.is_locked());
    });
}

/// Nor does whoever has published both wait for a writer that waits for the one beneath.
#[test]
fn a_guard_is_not_bumped_where_the_strand_beneath_is_published_too() {
    elsewhere(|| {
        let lock = lock_api::RwLock::<RawRwLock, _>::new(0);
        (0..5_000).for_each(|_| drop(lock.read()));
        let beneath = lock.read();
        let strand = strand::enter_foreign();
        strand::token(); // by which its first read can be published
        let mut above = lock.read();
        thread::scope(|s| {
            s.spawn(|| drop(lock.write()));
            while elsewhere(|| lock.try_read().is_some()) {
                thread::yield_now(); // until it has claimed the lock
            }
            lock_api::RwLockReadGuard::bump(&mut above);
            drop(above);
            drop(strand);
            drop(beneath);
        });
        assert!(!lock.is_locked());
    });
}

/// The same for a writer that has become a reader.
#[test]
fn a_write_that_becomes_a_read_is_held_no_more() {
    static LOCK: lock_api::RwLock<RawRwLock, ()> = lock_api::RwLock::new(());
    elsewhere(|| {
        let holds = || strand::with_local(strand::Local::holds);
        let guard = LOCK.write();
        assert_eq!(holds(), 1);
        let guard = lock_api::RwLockWriteGuard::downgrade(guard);
        assert_eq!(holds(), 0);
        drop(guard);
        assert_eq!(holds(), 0);
        // Published, after so many.
        (0..5_000).for_each(|_| drop(LOCK.read()));
        let guards = [(); 3].map(|()| LOCK.read());
        assert!(holds() <= 3);
        drop(guards);
        assert_eq!(holds(), 0);
    });
}

/// A native lock that is read has no hold. One of `lock_api` that came to lie where such a lock was forgotten, and moved, took
/// one off the strand that ended a counted read of it.
#[test]
fn a_counted_read_is_not_taken_for_one_that_was_forgotten_there() {
    if !raddle_sync::fence::init() {
        return; // All readers are counted.
    }
    elsewhere(|| {
        strand::current();
        let holds = || strand::with_local(strand::Local::holds);
        let native = RwLock::new(());
        let mut place: Result<_, lock_api::RwLock<RawRwLock, ()>> = Ok(native);
        let lock = place.as_ref().unwrap();
        (0..5_000).for_each(|_| drop(lock.read()));
        forget(lock.read());
        let at = std::ptr::from_ref(lock).addr();
        // Moved, and so not the one that takes back what is published where it is dropped.
        let old = std::mem::replace(&mut place, Err(lock_api::RwLock::new(())));
        let lock = place.as_ref().unwrap_err();
        assert_eq!(std::ptr::from_ref(lock).addr(), at);
        drop(lock.read());
        assert_eq!(holds(), 0);
        assert!(lock.try_write().is_some());
        drop(old);
    });
}

/// It slept for itself to leave.
#[test]
fn one_that_reads_as_well_is_refused_the_upgrade() {
    if !raddle_sync::fence::init() {
        return; // All readers are counted.
    }
    strand::current();
    let lock = RwLock::new(0);
    (0..5_000).for_each(|_| drop(lock.read()));
    let guard = lock.upgradable_read();
    let read = lock.read();
    let guard = RwLockUpgradableReadGuard::try_upgrade(guard).unwrap_err();
    let upgrade = AssertUnwindSafe(|| drop(RwLockUpgradableReadGuard::upgrade(guard)));
    assert!(catch_unwind(upgrade).is_err());
    assert_eq!(*read, 0);
    drop(read);
    *lock.write() += 1;
    let guard = lock.upgradable_read();
    *RwLockUpgradableReadGuard::upgrade(guard) += 1;
    assert_eq!(lock.into_inner(), 2);
}
