//! Models of the readers-writer lock.

use super::{LONG, model};
use raddle_lock::{Mutex, RwLock, RwLockUpgradableReadGuard, RwLockWriteGuard};
use raddle_sync::sync::Arc;
use raddle_sync::time::let_expire;
use raddle_sync::{strand, thread};

#[test]
fn a_published_reader_and_a_writer_exclude_each_other() {
    model(2, || {
        let lock = Arc::new(RwLock::new(0));
        drop(lock.read()); // counted; from now on readers are published
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || *other.write() += 1);
        let first = *lock.read();
        let second = *lock.read();
        assert!(first <= second);
        thread.join().unwrap();
        assert_eq!(*lock.read(), 1);
    });
}

#[test]
fn two_writers_and_a_reader_lose_nothing() {
    model(1, || {
        let lock = Arc::new(RwLock::new(0));
        drop(lock.read());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let lock = Arc::clone(&lock);
                thread::spawn(move || *lock.write() += 1)
            })
            .collect();
        assert!(*lock.read() <= 2);
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.read(), 2);
    });
}

#[test]
fn a_writer_that_gives_up_lets_the_others_in() {
    model(2, || {
        let clock = let_expire(2);
        let lock = Arc::new(RwLock::new(0));
        drop(lock.read());
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || {
            other.try_write_for(LONG).map_or(0, |mut value| {
                *value += 1;
                1
            })
        });
        let outer = lock.read();
        let inner = lock.read();
        assert_eq!(*outer, *inner);
        drop(outer);
        drop(inner);
        *lock.write() += 1;
        let added = thread.join().unwrap();
        assert_eq!(*lock.read(), 1 + added);
        clock.join().unwrap();
    });
}

#[test]
fn an_upgrade_waits_for_published_readers() {
    model(2, || {
        let lock = Arc::new(RwLock::new(0));
        drop(lock.read());
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || {
            let guard = other.upgradable_read();
            let before = *guard;
            let mut guard = RwLockUpgradableReadGuard::upgrade(guard);
            assert_eq!(*guard, before);
            *guard += 1;
        });
        assert!(*lock.read() <= 1);
        *lock.write() += 1;
        thread.join().unwrap();
        assert_eq!(*lock.read(), 2);
    });
}

#[test]
fn a_counted_reader_and_a_writer_exclude_each_other() {
    model(3, || {
        let lock = Arc::new(RwLock::new(0));
        let other = Arc::clone(&lock);
        // The first read is counted, for want of a name.
        let thread = thread::spawn(move || *other.read());
        *lock.write() += 1;
        assert!(thread.join().unwrap() <= 1);
        assert!(lock.try_write().is_some() && !lock.is_locked());
    });
}

#[test]
fn a_reader_that_gives_up_leaves_the_others_their_wake_up() {
    model(1, || {
        let clock = let_expire(2);
        let lock = Arc::new(RwLock::new(0));
        let (timed, plain) = (Arc::clone(&lock), Arc::clone(&lock));
        let threads = [
            thread::spawn(move || {
                assert!(timed.try_read_for(LONG).is_none_or(|value| *value <= 2));
            }),
            thread::spawn(move || *plain.write() += 1),
        ];
        *lock.write() += 1;
        for thread in threads {
            thread.join().unwrap();
        }
        assert_eq!(*lock.read(), 2);
        clock.join().unwrap();
    });
}

#[test]
fn a_hand_over_of_a_write_races_with_the_time_out() {
    model(2, || {
        let clock = let_expire(2);
        let lock = Arc::new(RwLock::new(0));
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || {
            other.try_write_for(LONG).map_or(0, |mut value| {
                *value += 1;
                1
            })
        });
        let mut guard = lock.write();
        *guard += 1;
        RwLockWriteGuard::unlock_fair(guard);
        *lock.write() += 1;
        let added = thread.join().unwrap();
        assert_eq!(*lock.read(), 2 + added);
        clock.join().unwrap();
    });
}

#[test]
fn a_downgrade_lets_readers_in_and_keeps_writers_out() {
    model(2, || {
        let lock = Arc::new(RwLock::new(0));
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || {
            let seen = *other.read();
            *other.write() += 1;
            seen
        });
        let mut guard = lock.write();
        *guard += 1;
        let guard = RwLockWriteGuard::downgrade(guard);
        assert!(*guard == 1 || *guard == 2);
        let before = *guard;
        assert_eq!(*guard, before);
        drop(guard);
        assert!(thread.join().unwrap() <= 1);
        assert_eq!(*lock.read(), 2);
    });
}

#[test]
fn an_upgrade_that_fails_still_reads() {
    model(2, || {
        let lock = Arc::new(RwLock::new(0));
        drop(lock.read());
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || {
            let guard = other.upgradable_read();
            let before = *guard;
            match RwLockUpgradableReadGuard::try_upgrade(guard) {
                Ok(mut guard) => {
                    *guard += 1;
                    1
                }
                Err(guard) => {
                    let guard = RwLockUpgradableReadGuard::downgrade(guard);
                    assert_eq!(*guard, before);
                    0
                }
            }
        });
        assert!(*lock.read() <= 1);
        *lock.write() += 1;
        let added = thread.join().unwrap();
        assert_eq!(*lock.read(), 1 + added);
    });
}

/// One that published itself too late, and took that back, is not waited for: it need not see the claim of a writer that ran no
/// barrier, and so wakes nobody.
#[test]
fn a_writer_that_ran_no_barrier_does_not_wait_for_one_that_came_too_late() {
    model(2, || {
        let lock = Arc::new(RwLock::new(0));
        drop(lock.read());
        let other = Arc::clone(&lock);
        let late = thread::spawn(move || {
            strand::current();
            *other.read()
        });
        thread::yield_now(); // It may have seen that readers are published.
        let counted = RwLockWriteGuard::downgrade(lock.write());
        let other = Arc::clone(&lock);
        let writer = thread::spawn(move || *other.write() += 1);
        thread::yield_now();
        drop(counted);
        writer.join().unwrap();
        assert!(late.join().unwrap() <= 1);
        assert_eq!(*lock.read(), 1);
    });
}

/// A name passes from one strand to the next, and no lock with it: who asked for its name only after it had looked at a lock
/// might be given that of the holder it saw, which has gone since.
#[test]
fn nobody_comes_by_a_lock_with_its_name() {
    let let_go_by = |hold: fn(&(RwLock<u32>, Mutex<u32>)), look: fn(&(RwLock<u32>, Mutex<u32>))| {
        model(3, move || {
            let locks = Arc::new((RwLock::new(0), Mutex::new(0)));
            let other = Arc::clone(&locks);
            let thread = thread::spawn(move || {
                let _its_name_goes_back = strand::enter_foreign();
                hold(&other);
            });
            thread::yield_now(); // The other may have it, under the name that comes first.
            look(&locks);
            thread.join().unwrap();
        });
    };
    let_go_by(|locks| *locks.0.write() += 1, |locks| *locks.0.write() += 1);
    let_go_by(|locks| *locks.1.lock() += 1, |locks| assert!(!locks.1.is_held()));
    let_go_by(|locks| *locks.1.lock() += 1, |locks| assert!(locks.1.try_lock_for(LONG).is_some()));
}

/// The guard of a read that is published has the name of its strand, which it may outlive: nobody else gets the name, and is told that
/// it reads the lock itself.
#[test]
fn a_name_stays_with_a_guard_that_outlives_its_strand() {
    model(2, || {
        let lock = Arc::new(RwLock::new(0));
        drop(lock.read()); // counted; from now on readers are published
        let guard = {
            let _strand = strand::enter_foreign();
            strand::current();
            lock.read()
        };
        let other = Arc::clone(&lock);
        let thread = thread::spawn(move || *other.write() += 1);
        assert_eq!(*guard, 0);
        drop(guard);
        thread.join().unwrap();
        assert_eq!(*lock.read(), 1);
    });
}
