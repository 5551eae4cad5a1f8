//! Models of the locks, explored systematically:
//! `RUSTFLAGS="--cfg raddle_model --cfg raddle_loom" cargo test -p raddle-lock --release --test loom`
//!
//! Limits are shrunk: three strand ids, one entry in a segment, one bucket, no spinning. Loom reports overlapping
//! accesses to a value, accesses without a happens-before edge, and a lost wake-up as a deadlock. It has no clock:
//! where a model lets time-outs expire, that is one more choice for loom.

#![cfg(raddle_loom)]

#[path = "loom/once.rs"]
mod once;
#[path = "loom/readers.rs"]
mod readers;

use raddle_lock::{Condvar, Mutex, ObjectHeader, ReentrantLock};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::sync::Arc;
use raddle_sync::time::let_expire;
use raddle_sync::{strand, thread};
use std::time::Duration;

/// A limit that is over when the model says so: never by the clock, however long an execution takes.
const LONG: Duration = Duration::from_secs(1_000_000);

/// Explores with so many preemptions at most: with them locks are contended, inflated, handed on and
/// deflated, and the number of executions stays within reach.
fn model(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    raddle_lock::keep_names();
    builder.check(model);
}

#[test]
fn two_threads_exclude_each_other() {
    model(3, || {
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
    model(1, || {
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
fn a_deflating_lock_is_not_lost_to_one_that_has_seen_it_fat() {
    model(2, || {
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        // Twice each: the second time the lock may be thin, pending, fat, or just going thin.
        let thread = thread::spawn(move || {
            *other.lock() += 1;
            *other.lock() += 1;
        });
        *mutex.lock() += 1;
        *mutex.lock() += 1;
        thread.join().unwrap();
        assert_eq!(*mutex.lock(), 4);
    });
}

#[test]
fn a_straggler_does_not_take_the_next_lock_of_an_entry_for_its_own() {
    model(2, || {
        // Both hashed, so that each lock takes an entry, the same one. The first gives it back; the second
        // has been locked so often that it keeps it, unlocked and there for a straggler to take.
        let headers = Arc::new([ObjectHeader::new(), ObjectHeader::new()]);
        let inside = Arc::new([UnsafeCell::new(()), UnsafeCell::new(())]);
        headers.iter().for_each(|header| _ = header.identity_hash());
        (0..3).for_each(|_| drop(headers[1].lock()));
        let use_one = |headers: &[ObjectHeader; 2], inside: &[UnsafeCell<()>; 2], n: usize| {
            let _guard = headers[n].lock();
            inside[n].with_mut(|_| ());
        };
        let (h, i) = (Arc::clone(&headers), Arc::clone(&inside));
        let thread = thread::spawn(move || use_one(&h, &i, 0));
        use_one(&headers, &inside, 0);
        use_one(&headers, &inside, 1);
        thread.join().unwrap();
        assert!(headers.iter().all(|header| !header.is_locked()));
        assert!(!headers[0].is_fat());
    });
}

#[test]
fn a_failed_attempt_leaves_no_trace() {
    model(3, || {
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
fn a_fair_unlock_hands_over() {
    model(2, || {
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let thread = thread::spawn(move || *other.lock() += 1);
        let mut guard = mutex.lock();
        *guard += 1;
        raddle_lock::MutexGuard::unlock_fair(guard);
        *mutex.lock() += 1;
        thread.join().unwrap();
        assert_eq!(*mutex.lock(), 3);
    });
}

#[test]
fn levels_beyond_the_thin_ones_inflate_and_come_back() {
    model(2, || {
        let lock = Arc::new(ReentrantLock::new(UnsafeCell::new(0)));
        let add = |lock: &ReentrantLock<UnsafeCell<i32>>| {
            let guards = [lock.lock(), lock.lock(), lock.lock()];
            // SAFETY: the lock is held, and this strand is in no other access.
            guards[0].with_mut(|n| unsafe { *n += 1 });
        };
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || add(&other));
        add(&lock);
        thread.join().unwrap();
        // SAFETY: the lock is held, and this strand is in no other access.
        assert_eq!(lock.lock().with(|n| unsafe { *n }), 2);
        assert!(!lock.is_locked());
    });
}

#[test]
fn a_hash_asked_for_while_the_lock_is_held_stays() {
    model(2, || {
        let header = Arc::new(ObjectHeader::new());
        let other = Arc::clone(&header);
        let thread = thread::spawn(move || other.identity_hash());
        drop(header.lock());
        let mine = header.identity_hash();
        drop(header.lock());
        assert_eq!(thread.join().unwrap(), mine);
        assert_eq!(header.identity_hash(), mine);
        assert!(!header.is_locked() && !header.is_fat());
    });
}

#[test]
fn a_hot_lock_that_stays_fat_excludes_and_wakes() {
    model(2, || {
        let shared = Arc::new((ObjectHeader::new(), UnsafeCell::new(0)));
        shared.0.identity_hash();
        (0..5).for_each(|_| drop(shared.0.lock()));
        assert!(shared.0.is_fat());
        let add = |shared: &(ObjectHeader, UnsafeCell<i32>)| {
            let _guard = shared.0.lock();
            // SAFETY: under the lock.
            shared.1.with_mut(|n| unsafe { *n += 1 });
        };
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            add(&other);
            add(&other);
        });
        add(&shared);
        add(&shared);
        thread.join().unwrap();
        // SAFETY: the other thread is done.
        assert_eq!(shared.1.with(|n| unsafe { *n }), 4);
        assert!(!shared.0.is_locked());
    });
}

#[test]
fn a_notification_reaches_the_one_that_waits() {
    model(2, || {
        let shared = Arc::new((ObjectHeader::new(), UnsafeCell::new(false)));
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let _guard = other.0.lock();
            // SAFETY: under the lock.
            other.1.with_mut(|ready| unsafe { *ready = true });
            other.0.notify_one();
        });
        let (header, ready) = &*shared;
        let mut guard = header.lock();
        // SAFETY: under the lock.
        while !ready.with(|ready| unsafe { *ready }) {
            header.wait(&mut guard);
        }
        drop(guard);
        thread.join().unwrap();
        assert!(!header.is_locked() && !header.is_fat());
    });
}

#[test]
fn a_condition_loses_no_notification() {
    model(2, || {
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_one();
        });
        let mut guard = shared.0.lock();
        while !*guard {
            assert!(shared.1.wait_for(&mut guard, LONG).notified());
        }
        drop(guard);
        thread.join().unwrap();
    });
}

#[test]
fn strands_without_ids_still_exclude_each_other() {
    model(2, || {
        // A model has three ids; foreign strands take them all and nest, so none is left.
        let guards: Vec<_> = std::iter::from_fn(|| {
            let guard = strand::enter_foreign();
            strand::current().map(|_| guard)
        })
        .collect();
        assert_eq!(guards.len(), 3);
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

#[test]
fn an_id_used_again_does_not_own_what_its_last_strand_released() {
    model(2, || {
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let thread = thread::spawn(move || {
            for _ in 0..2 {
                let _foreign = strand::enter_foreign(); // the second gets the id of the first
                *other.lock() += 1;
            }
        });
        *mutex.lock() += 1;
        thread.join().unwrap();
        assert_eq!(*mutex.lock(), 3);
    });
}

/// Adds one, if the lock is had in time; how often it was.
fn add_in_time(mutex: &Mutex<i32>) -> i32 {
    mutex.try_lock_for(LONG).map_or(0, |mut value| {
        *value += 1;
        1
    })
}

#[test]
fn a_time_out_races_with_the_unlock_that_wakes() {
    model(2, || {
        let clock = let_expire(2);
        let mutex = Arc::new(Mutex::new(0));
        let other = Arc::clone(&mutex);
        let thread = thread::spawn(move || add_in_time(&other));
        *mutex.lock() += 1;
        let fair = mutex.lock();
        raddle_lock::MutexGuard::unlock_fair(fair);
        let added = thread.join().unwrap();
        assert_eq!(*mutex.lock(), 1 + added);
        clock.join().unwrap();
    });
}

#[test]
fn one_that_gives_up_leaves_the_others_their_wake_up() {
    model(1, || {
        let clock = let_expire(2);
        let mutex = Arc::new(Mutex::new(0));
        let (timed, plain) = (Arc::clone(&mutex), Arc::clone(&mutex));
        let threads = [
            thread::spawn(move || add_in_time(&timed)),
            thread::spawn(move || {
                *plain.lock() += 1;
                1
            }),
        ];
        *mutex.lock() += 1;
        let added: i32 = threads.into_iter().map(|thread| thread.join().unwrap()).sum();
        assert_eq!(*mutex.lock(), 1 + added);
        clock.join().unwrap();
    });
}

#[test]
fn a_wait_that_times_out_takes_the_lock_back() {
    model(2, || {
        let clock = let_expire(2);
        let shared = Arc::new((ObjectHeader::new(), UnsafeCell::new(0)));
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            let _guard = other.0.lock();
            // SAFETY: under the lock.
            other.1.with_mut(|n| unsafe { *n += 1 });
            other.0.notify_one();
        });
        let (header, n) = &*shared;
        let mut guard = header.lock();
        // SAFETY: under the lock.
        if n.with(|n| unsafe { *n }) == 0 {
            let result = header.wait_for(&mut guard, LONG);
            // SAFETY: under the lock.
            assert!(result.timed_out() || n.with(|n| unsafe { *n }) == 1);
        }
        // SAFETY: under the lock.
        n.with_mut(|n| unsafe { *n += 1 });
        drop(guard);
        thread.join().unwrap();
        // SAFETY: the other thread is done.
        assert_eq!(n.with(|n| unsafe { *n }), 2);
        assert!(!header.is_locked() && !header.is_fat());
        clock.join().unwrap();
    });
}

#[test]
fn a_condition_that_times_out_loses_no_notification() {
    model(2, || {
        let clock = let_expire(2);
        let shared = Arc::new((Mutex::new(false), Condvar::new()));
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || {
            *other.0.lock() = true;
            other.1.notify_one()
        });
        let mut guard = shared.0.lock();
        let mut notified = false;
        while !*guard {
            notified = shared.1.wait_for(&mut guard, LONG).notified();
        }
        drop(guard);
        let woke = thread.join().unwrap();
        assert!(!notified || woke, "notified by nobody");
        clock.join().unwrap();
    });
}

#[test]
fn a_holder_without_an_id_lets_time_outs_and_locks_by() {
    model(1, || {
        let shared = Arc::new((ObjectHeader::new(), UnsafeCell::new(0)));
        shared.0.identity_hash();
        (0..5).for_each(|_| drop(shared.0.lock()));
        assert!(shared.0.is_fat());
        let guards: Vec<_> = std::iter::from_fn(|| {
            let guard = strand::enter_foreign();
            strand::current().map(|_| guard)
        })
        .collect();
        let add = |shared: &(ObjectHeader, UnsafeCell<i32>)| {
            let _guard = shared.0.lock();
            // SAFETY: under the lock.
            shared.1.with_mut(|n| unsafe { *n += 1 });
        };
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || add(&other));
        add(&shared);
        thread.join().unwrap();
        guards.into_iter().rev().for_each(drop);
        // SAFETY: the other thread is done.
        assert_eq!(shared.1.with(|n| unsafe { *n }), 2);
    });
}

/// A lock that is aside, gets a hash, and is its owner's as a thin one is when the one that waits gives up: the owner, which
/// takes it once more meanwhile, finds the entry when it lets go of it.
#[test]
fn a_hash_outlives_the_one_that_gave_up() {
    model(1, || {
        let clock = let_expire(2);
        let header = Arc::new(ObjectHeader::new());
        let outer = header.lock();
        let (timed, hashed) = (Arc::clone(&header), Arc::clone(&header));
        let waiter = thread::spawn(move || drop(timed.try_lock_for(LONG)));
        thread::yield_now(); // It may queue now ..
        drop(outer);
        let outer = header.lock(); // .. so that this is aside.
        let hash = thread::spawn(move || hashed.identity_hash()).join().unwrap();
        let inner = header.lock();
        drop(outer);
        drop(inner);
        waiter.join().unwrap();
        assert_eq!(header.identity_hash(), hash);
        assert!(!header.is_locked() && !header.is_fat());
        clock.join().unwrap();
    });
}
