//! What an object header promises, on real threads.

#![cfg(not(raddle_model))]

use raddle_lock::{HeaderGuard, ObjectHeader, ReentrantLock};
use raddle_sync::{strand, thread};
use std::cell::RefCell;
use std::collections::{HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc;
use std::time::{Duration, Instant};

fn message(f: impl FnOnce()) -> String {
    let payload = catch_unwind(AssertUnwindSafe(f)).expect_err("should have panicked");
    payload
        .downcast_ref::<&str>()
        .map(|s| (*s).to_owned())
        .unwrap_or_else(|| payload.downcast_ref::<String>().expect("a message").clone())
}

#[test]
fn hundreds_of_levels_in_any_order() {
    let header = ObjectHeader::new();
    let mut guards: VecDeque<HeaderGuard<'_>> =
        (0..if cfg!(miri) { 70 } else { 300 }).map(|_| header.lock()).collect();
    assert!(!header.is_fat() && header.is_held());
    // The outermost first, then from both ends.
    while guards.len() > 1 {
        drop(guards.pop_front());
        assert!(header.is_held() && header.is_locked());
        thread::Builder::new().spawn(|| ()).unwrap().join().unwrap();
        if guards.len() > 1 {
            drop(guards.pop_back());
        }
    }
    std::thread::scope(|s| {
        s.spawn(|| assert!(header.try_lock().is_none(), "one level is left"));
    });
    guards.clear();
    assert!(!header.is_locked() && !header.is_held() && !header.is_fat());
    std::thread::scope(|s| {
        s.spawn(|| assert!(header.try_lock().is_some()));
    });
}

#[test]
fn an_outer_guard_dropped_first_does_not_let_others_in() {
    let lock = ReentrantLock::new(RefCell::new(1));
    let outer = lock.lock();
    let inner = lock.lock();
    drop(outer);
    std::thread::scope(|s| {
        s.spawn(|| assert!(lock.try_lock().is_none()));
    });
    *inner.borrow_mut() += 1;
    drop(inner);
    assert_eq!(lock.into_inner().into_inner(), 2);
}

#[test]
fn the_hash_survives_moves_locks_and_inflation() {
    let header = ObjectHeader::new();
    let hash = header.identity_hash();
    let mut header = vec![header];
    for _ in 0..10 {
        let guard = header[0].lock();
        assert_eq!(header[0].identity_hash(), hash);
        drop(guard);
        header = header.into_iter().chain(Some(ObjectHeader::new())).collect(); // moves it
        assert_eq!(header[0].identity_hash(), hash);
    }
    let held = ObjectHeader::new();
    let guard = held.lock();
    let from_another = std::thread::scope(|s| s.spawn(|| held.identity_hash()).join().unwrap());
    assert_eq!(held.identity_hash(), from_another);
    drop(guard);
    assert_eq!(held.identity_hash(), from_another);
    const MANY: usize = if cfg!(miri) { 200 } else { 10_000 };
    let many: HashSet<u32> = (0..MANY).map(|_| ObjectHeader::new().identity_hash()).collect();
    assert_eq!(many.len(), MANY);
}

#[test]
fn racing_threads_agree_on_the_hash() {
    for _ in 0..if cfg!(miri) { 5 } else { 300 } {
        let header = ObjectHeader::new();
        let hashes: HashSet<u32> = std::thread::scope(|s| {
            let threads: Vec<_> = (0..4)
                .map(|n| {
                    let header = &header;
                    s.spawn(move || {
                        let _guard = (n % 2 == 0).then(|| header.lock());
                        header.identity_hash()
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert_eq!(hashes.len(), 1);
        assert!(hashes.contains(&header.identity_hash()));
    }
}

#[test]
fn a_wait_gives_all_levels_up_and_gets_them_back() {
    let header = ObjectHeader::new();
    let (inside, waits) = mpsc::channel();
    std::thread::scope(|s| {
        let header = &header;
        s.spawn(move || {
            let _outer = header.lock();
            let mut guard = header.lock();
            inside.send(()).unwrap();
            header.wait(&mut guard);
            assert!(header.is_held());
            drop(guard);
            assert!(header.is_held(), "the outer level is there still");
        });
        waits.recv().unwrap();
        let guard = header.lock(); // not before the wait has released it
        assert!(header.is_fat());
        header.notify_one();
        header.notify_one(); // nobody left: nothing
        drop(guard);
    });
    assert!(!header.is_locked() && !header.is_fat());
}

#[test]
fn notify_all_wakes_all_and_notify_one_one() {
    let header = ObjectHeader::new();
    let (inside, waits) = mpsc::channel();
    let (left, leaves) = mpsc::channel();
    std::thread::scope(|s| {
        let header = &header;
        for _ in 0..5 {
            let (inside, left) = (inside.clone(), left.clone());
            s.spawn(move || {
                let mut guard = header.lock();
                inside.send(()).unwrap();
                header.wait(&mut guard);
                left.send(()).unwrap();
            });
        }
        for _ in 0..5 {
            waits.recv().unwrap();
        }
        let guard = header.lock();
        header.notify_one();
        drop(guard);
        leaves.recv().unwrap();
        let guard = header.lock();
        assert!(leaves.try_recv().is_err(), "the others still wait");
        header.notify_all();
        drop(guard);
        for _ in 0..4 {
            leaves.recv().unwrap();
        }
    });
    assert!(!header.is_fat());
}

#[test]
fn a_wait_times_out_not_early_and_keeps_the_lock() {
    let header = ObjectHeader::new();
    let mut guard = header.lock();
    let start = Instant::now();
    let result = header.wait_for(&mut guard, Duration::from_millis(20));
    assert!(result.timed_out() && !result.notified());
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert!(header.is_held());
    drop(guard);
    assert!(!header.is_fat());
}

#[test]
fn a_limited_wait_that_races_with_notifications_ends_one_way_or_the_other() {
    const ROUNDS: u64 = if cfg!(miri) { 20 } else { 2_000 };
    let header = ObjectHeader::new();
    let done = std::sync::atomic::AtomicBool::new(false);
    let notified = std::thread::scope(|s| {
        let waiter = s.spawn(|| {
            let mut notified = 0;
            for n in 0..ROUNDS {
                let mut guard = header.lock();
                let limit = Duration::from_micros(n % 60);
                notified += u64::from(header.wait_for(&mut guard, limit).notified());
                assert!(header.is_held());
            }
            done.store(true, std::sync::atomic::Ordering::Relaxed);
            notified
        });
        while !done.load(std::sync::atomic::Ordering::Relaxed) {
            let _guard = header.lock();
            header.notify_all();
        }
        waiter.join().unwrap()
    });
    assert!(notified <= ROUNDS);
    assert!(!header.is_locked());
    assert!(header.try_lock().is_some());
}

#[test]
fn misuse_is_told() {
    let header = ObjectHeader::new();
    for notify in [ObjectHeader::notify_one, ObjectHeader::notify_all] {
        assert!(message(|| notify(&header)).contains("does not hold"));
    }
    let guard = header.lock();
    std::thread::scope(|s| {
        s.spawn(|| assert!(message(|| header.notify_one()).contains("does not hold")));
    });
    {
        let _foreign = strand::enter_foreign();
        assert!(message(|| header.notify_one()).contains("does not hold"));
        assert!(!header.is_held());
    }
    drop(guard);
    let other = ObjectHeader::new();
    let mut guard = other.lock();
    assert!(message(|| header.wait(&mut guard)).contains("another header's"));
}

#[test]
fn attempts_with_a_limit() {
    let header = ObjectHeader::new();
    let guard = header.lock();
    assert!(header.try_lock_for(Duration::ZERO).is_some(), "it is ours");
    std::thread::scope(|s| {
        s.spawn(|| {
            let start = Instant::now();
            assert!(header.try_lock_for(Duration::from_millis(10)).is_none());
            assert!(start.elapsed() >= Duration::from_millis(10));
            assert!(header.try_lock().is_none());
        });
    });
    // Nobody waits any more, so the lock is as it was.
    drop(guard);
    assert!(!header.is_fat() && !header.is_locked());
    std::thread::scope(|s| {
        s.spawn(|| assert!(header.try_lock_for(Duration::MAX).is_some()));
    });
}

#[test]
fn a_guard_dropped_by_a_foreign_strand_unlocks_what_its_own_strand_locked() {
    let header = ObjectHeader::new();
    let guard = header.lock();
    {
        let _foreign = strand::enter_foreign();
        drop(guard);
    }
    assert!(!header.is_locked());
    std::thread::scope(|s| {
        s.spawn(|| drop(header.lock()));
    });
}
