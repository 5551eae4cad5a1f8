//! The readers-writer lock, through its public face and through `lock_api`.

#![cfg(not(raddle_model))]

use raddle_lock::{
    RawRwLock, RwLock, RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard,
};
use raddle_sync::strand;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

/// So many reads that the lock's readers are published from then on.
const MANY: usize = if cfg!(miri) { 70 } else { 5_000 };
const SHORT: Duration = Duration::from_millis(5);

fn read_often<T>(lock: &RwLock<T>) {
    (0..MANY).for_each(|_| drop(lock.read()));
}

#[test]
fn readers_share_and_writers_do_not() {
    for warm in [false, true] {
        let lock = RwLock::new(1);
        if warm {
            read_often(&lock);
        }
        let outer = lock.read();
        thread::scope(|s| {
            s.spawn(|| {
                assert_eq!(*lock.try_read().unwrap() + *lock.read(), 2);
                assert!(lock.try_write().is_none());
                assert!(lock.try_write_for(SHORT).is_none());
                assert!(lock.is_locked() && !lock.is_written());
                assert_eq!(*lock.try_read().unwrap(), 1, "one that gave up is forgotten");
            });
        });
        drop(outer);
        assert!(!lock.is_locked());
        *lock.try_write().unwrap() += 1;
        let guard = lock.write();
        thread::scope(|s| {
            s.spawn(|| {
                assert!(lock.try_read().is_none() && lock.try_write().is_none());
                assert!(lock.try_read_for(SHORT).is_none());
                assert!(lock.try_upgradable_read().is_none() && lock.is_written());
            });
        });
        assert_eq!(*guard, 2);
    }
}

#[test]
fn nobody_sees_half_a_write() {
    const ROUNDS: u64 = if cfg!(miri) { 60 } else { 60_000 };
    const THREADS: u64 = if cfg!(miri) { 3 } else { 6 };
    for often in [4, 64, 1024] {
        let lock = RwLock::new((0_u64, 0_u64));
        let written: u64 = thread::scope(|s| {
            let lock = &lock;
            let threads: Vec<_> = (0..THREADS)
                .map(|n| {
                    s.spawn(move || {
                        let mut written = 0;
                        let mut random = (n + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                        for _ in 0..ROUNDS {
                            random ^= random << 13;
                            random ^= random >> 7;
                            random ^= random << 17;
                            let _foreign = (random & 0xF00 == 0).then(strand::enter_foreign);
                            if (random >> 32) % often != 0 {
                                let outer = lock.read();
                                let inner = (random & 0xF000 == 0).then(|| lock.read_recursive());
                                assert_eq!(outer.0, outer.1);
                                drop(outer);
                                assert!(inner.is_none_or(|pair| pair.0 == pair.1));
                                continue;
                            }
                            let limit = Duration::from_micros(random >> 20 & 0x7F);
                            let guard = match random & 3 {
                                0 => lock.try_write_for(limit),
                                1 => {
                                    let guard = lock.upgradable_read();
                                    assert_eq!(guard.0, guard.1);
                                    RwLockUpgradableReadGuard::try_upgrade(guard).ok()
                                }
                                2 => lock.try_write(),
                                _ => Some(lock.write()),
                            };
                            let Some(mut pair) = guard else { continue };
                            pair.0 += 1;
                            std::hint::spin_loop();
                            pair.1 += 1;
                            written += 1;
                            match random & 0x30 {
                                0 => RwLockWriteGuard::unlock_fair(pair),
                                0x10 => assert!(RwLockWriteGuard::downgrade(pair).0 > 0),
                                _ => {}
                            }
                        }
                        written
                    })
                })
                .collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).sum()
        });
        assert_eq!(*lock.read(), (written, written));
        assert!(!lock.is_locked());
    }
}

#[test]
fn a_writer_gets_its_turn_though_readers_never_stop() {
    let (lock, stop) = (RwLock::new(0), AtomicBool::new(false));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                let mut kept = lock.read();
                while !stop.load(Relaxed) {
                    let next = lock.try_read(); // so that somebody always reads
                    drop(std::mem::replace(
                        &mut kept,
                        match next {
                            Some(next) => next,
                            None => break,
                        },
                    ));
                }
                drop(kept);
                while !stop.load(Relaxed) {
                    drop(lock.read());
                }
            });
        }
        for _ in 0..if cfg!(miri) { 3 } else { 200 } {
            *lock.write() += 1;
        }
        stop.store(true, Relaxed);
    });
}

#[test]
fn readers_get_their_turn_though_writers_never_stop() {
    let (lock, stop) = (RwLock::new(0), AtomicBool::new(false));
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| {
                while !stop.load(Relaxed) {
                    *lock.write() += 1;
                }
            });
        }
        (0..if cfg!(miri) { 3 } else { 200 }).for_each(|_| drop(lock.read()));
        stop.store(true, Relaxed);
    });
}

#[test]
fn a_strand_that_reads_reads_again_past_a_writer_that_waits() {
    for warm in [false, true] {
        let lock = RwLock::new(0);
        if warm {
            read_often(&lock);
        }
        let outer = lock.read();
        thread::scope(|s| {
            let writer = s.spawn(|| *lock.write() += 1);
            while lock.try_read().is_some() {
                thread::yield_now(); // until the writer has claimed the lock
                if warm {
                    break; // published, this strand always comes in
                }
            }
            let inner = lock.read_recursive();
            assert!(!writer.is_finished());
            drop(outer);
            assert_eq!(*inner, 0, "the inner read keeps the writer waiting");
            drop(inner);
        });
        assert_eq!(*lock.read(), 1);
    }
}

#[test]
fn upgrade_waits_for_readers_and_lets_nobody_write_in_between() {
    let lock = RwLock::new(0);
    let barrier = Barrier::new(2);
    thread::scope(|s| {
        s.spawn(|| {
            let reader = lock.read();
            barrier.wait();
            barrier.wait();
            assert_eq!(*reader, 0);
        });
        barrier.wait();
        let guard = lock.upgradable_read();
        s.spawn(|| *lock.write() += 10);
        assert!(lock.try_upgradable_read().is_none());
        let guard = RwLockUpgradableReadGuard::try_upgrade(guard).unwrap_err();
        assert_eq!(*guard, 0);
        barrier.wait();
        let mut guard = RwLockUpgradableReadGuard::upgrade(guard);
        *guard += 1;
        assert_eq!(*guard, 1);
        drop(guard);
    });
    assert_eq!(*lock.read(), 11);
    let reader = RwLockUpgradableReadGuard::downgrade(lock.upgradable_read());
    assert_eq!(*lock.upgradable_read(), *reader);
}

#[test]
fn a_downgrade_lets_readers_in_that_wait() {
    let lock = RwLock::new(0);
    thread::scope(|s| {
        let mut guard = lock.write();
        let reader = s.spawn(|| *lock.read());
        while !format!("{lock:?}").contains("locked") {}
        *guard = 1;
        let guard = RwLockWriteGuard::downgrade(guard);
        assert_eq!(reader.join().unwrap(), 1);
        drop(guard);
    });
}

#[test]
fn writing_again_panics_instead_of_hanging() {
    let lock = RwLock::new(0);
    let guard = lock.write();
    let result = catch_unwind(AssertUnwindSafe(|| drop(lock.write())));
    assert!(result.is_err());
    assert!(lock.try_write().is_none());
    drop(guard);
    read_often(&lock);
    let reader = lock.read();
    if raddle_sync::fence::process_wide() {
        assert!(catch_unwind(AssertUnwindSafe(|| drop(lock.write()))).is_err());
    }
    drop(reader);
    assert_eq!(lock.into_inner(), 0);
}

/// It waited for itself for ever.
#[test]
fn reading_what_one_writes_panics_instead_of_hanging() {
    let lock = RwLock::new(0);
    let guard = lock.write();
    let panics = |f: &dyn Fn()| catch_unwind(AssertUnwindSafe(f)).is_err();
    assert!(panics(&|| drop(lock.read())));
    assert!(panics(&|| drop(lock.read_recursive())));
    assert!(panics(&|| drop(lock.upgradable_read())));
    assert!(lock.try_read().is_none() && lock.try_upgradable_read().is_none());
    assert!(lock.try_read_for(SHORT).is_none() && lock.try_upgradable_read_for(SHORT).is_none());
    {
        let _other = strand::enter_foreign();
        assert!(lock.try_read_for(SHORT).is_none());
    }
    drop(guard);
    assert_eq!(*lock.read() + *lock.upgradable_read(), 0);
}

/// A wait with a limit ends by itself. It panicked.
#[test]
fn a_limited_wait_for_what_one_has_fails() {
    let lock = RwLock::new(0);
    let guard = lock.write();
    assert!(lock.try_write_for(SHORT).is_none());
    assert!(lock.try_write_until(Instant::now() + SHORT).is_none());
    assert!(lock.try_write_for(Duration::MAX).is_none());
    drop(guard);
    strand::current();
    read_often(&lock);
    if raddle_sync::fence::process_wide() {
        let (reader, begun) = (lock.read(), Instant::now());
        const LONG: Duration = Duration::from_secs(600);
        assert!(lock.try_write_for(LONG).is_none());
        let guard = lock.upgradable_read();
        let guard = RwLockUpgradableReadGuard::try_upgrade_for(guard, LONG).unwrap_err();
        let later = Instant::now() + LONG;
        let guard = RwLockUpgradableReadGuard::try_upgrade_until(guard, later).unwrap_err();
        assert!(begun.elapsed() < LONG);
        drop((guard, reader));
    }
    let raw = lock_api::RwLock::<RawRwLock, _>::new(0);
    let guard = raw.write();
    assert!(raw.try_write_for(SHORT).is_none());
    drop(guard);
    *lock.try_write_for(SHORT).unwrap() += 1;
    assert_eq!(lock.into_inner(), 1);
}

#[test]
fn parts_are_guarded_like_the_whole() {
    let lock = RwLock::new((1, vec![2]));
    let part = RwLockReadGuard::map(lock.read(), |pair| &pair.0);
    assert!(lock.try_write().is_none());
    assert_eq!(*part, 1);
    drop(part);
    let whole = RwLockReadGuard::try_map(lock.read(), |pair| pair.1.get(7)).unwrap_err();
    assert_eq!(whole.1.len(), 1);
    drop(whole);
    let mut part = RwLockWriteGuard::try_map(lock.write(), |pair| pair.1.get_mut(0)).unwrap();
    *part = 3;
    assert!(lock.try_read().is_none());
    drop(part);
    assert_eq!(*lock.read(), (1, vec![3]));
}

#[test]
fn a_forgotten_read_does_not_hold_up_the_next_lock_at_its_place() {
    let mut place = RwLock::new(0);
    for _ in 0..3 {
        read_often(&place);
        std::mem::forget(place.read());
        place = RwLock::new(0); // drops the old one where it lies
        assert!(place.try_write_for(Duration::from_secs(5)).is_some());
    }
}

#[test]
fn through_lock_api_it_is_shared_timed_fair_and_upgraded() {
    type Api<T> = lock_api::RwLock<RawRwLock, T>;
    let lock: Arc<Api<u32>> = Arc::new(Api::new(0));
    (0..MANY).for_each(|_| drop(lock.read()));
    let outer = lock.read();
    {
        let _foreign = strand::enter_foreign();
        assert_eq!(*lock.read() + *lock.read_recursive(), 0);
        drop(outer); // by another strand than the one that reads
    }
    *lock.try_write_for(SHORT).unwrap() += 1;
    let mut guard = lock.write();
    *guard += 1;
    let told = AtomicU32::new(0);
    thread::scope(|s| {
        let (lock, told) = (&lock, &told);
        let (tell, tell_me) = mpsc::channel();
        s.spawn(move || {
            tell.send(()).unwrap();
            told.store(*lock.read(), Relaxed);
        });
        tell_me.recv().unwrap();
        lock_api::RwLockWriteGuard::bump(&mut guard);
        assert!(lock.try_read_until(Instant::now() + SHORT).is_none());
        lock_api::RwLockWriteGuard::unlock_fair(guard);
    });
    assert_eq!(told.load(Relaxed), 2);
    let guard = lock_api::RwLockUpgradableReadGuard::upgrade(lock.upgradable_read());
    let guard = lock_api::RwLockWriteGuard::downgrade(guard);
    assert_eq!(*guard, 2);
    drop(guard);
    assert!(!lock.is_locked());
}

/// A writer that has claimed the lock waits for a reader that is published, and so must nobody that the reader waits for.
#[test]
fn who_reads_again_passes_a_writer_that_waits_for_published_readers() {
    let lock = Arc::new(RwLock::new(0));
    (0..5_000).for_each(|_| drop(lock.read()));
    let read = lock.read();
    let writer = {
        let lock = Arc::clone(&lock);
        thread::spawn(move || *lock.write() += 1)
    };
    let elsewhere = |f: fn(&RwLock<u32>) -> bool| {
        let lock = Arc::clone(&lock);
        thread::spawn(move || f(&lock))
    };
    // Until the writer has claimed it.
    while elsewhere(|lock| lock.try_read().is_some()).join().unwrap() {
        thread::yield_now();
    }
    assert!(elsewhere(|lock| *lock.read_recursive() == 0).join().unwrap());
    drop(read);
    writer.join().unwrap();
    assert_eq!(*lock.read(), 1);
}
