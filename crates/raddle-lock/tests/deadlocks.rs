//! Strands that wait for each other in a circle are told of. A test program of its own, for the hook.

#![cfg(not(raddle_model))]
#![cfg(any(debug_assertions, feature = "deadlock"))]

use lock_api::RawMutex;
use raddle_lock::{Deadlock, Mutex, OnceLock, RawThinLock, RwLock, set_deadlock_hook};
use raddle_lock::{RwLockUpgradableReadGuard, RwLockWriteGuard};
use raddle_sync::strand;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Barrier, MutexGuard, PoisonError, mpsc};
use std::thread;
use std::time::Duration;

/// The hook is the process's.
static ONE_AT_A_TIME: std::sync::Mutex<()> = std::sync::Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has all do their part at the same time, each on a thread, and the hook panic: how many strands each deadlock was of
/// that was told. That all come back shows that they leave nothing behind.
fn told_of(parts: &[&(dyn Fn() + Sync)]) -> Vec<usize> {
    let _alone = alone();
    let told = Arc::new(std::sync::Mutex::new(Vec::new()));
    let sink = Arc::clone(&told);
    set_deadlock_hook(Some(Arc::new(move |deadlock: &Deadlock| {
        sink.lock().unwrap().push(deadlock.waits().len());
        panic!("{deadlock}");
    })));
    thread::scope(|s| {
        for part in parts {
            s.spawn(move || {
                strand::current(); // whose readers can be published at once
                catch_unwind(AssertUnwindSafe(part))
            });
        }
    });
    set_deadlock_hook(None);
    told.lock().unwrap().clone()
}

/// A lock whose readers are published from now on.
fn read_often() -> RwLock<u32> {
    let lock = RwLock::new(0);
    (0..5_000).for_each(|_| drop(lock.read()));
    lock
}

#[test]
fn writers_that_wait_for_writers_are_seen() {
    let (a, b, met) = (RwLock::new(0), RwLock::new(0), Barrier::new(2));
    let both = |first: &RwLock<u32>, second: &RwLock<u32>| {
        let _first = first.write();
        met.wait();
        *second.write() += 1;
    };
    assert_eq!(told_of(&[&|| both(&a, &b), &|| both(&b, &a)]), [2]);
    assert_eq!(a.into_inner() + b.into_inner(), 1, "one has gone on");
}

#[test]
fn readers_that_wait_for_writers_are_seen() {
    let (a, b, met) = (RwLock::new(0), RwLock::new(0), Barrier::new(2));
    let both = |first: &RwLock<u32>, second: &RwLock<u32>| {
        let _first = first.write();
        met.wait();
        assert_eq!(*second.read(), 0);
    };
    assert_eq!(told_of(&[&|| both(&a, &b), &|| both(&b, &a)]), [2]);
    assert!(!a.is_locked() && !b.is_locked());
}

#[test]
fn a_writer_that_waits_for_a_published_reader_is_seen() {
    if !raddle_sync::fence::init() {
        return; // All readers are counted.
    }
    for upgrades in [false, true] {
        let (shared, mutex, met) = (read_often(), Mutex::new(0), Barrier::new(2));
        let reads = || {
            let reader = shared.read();
            met.wait();
            *mutex.lock() += *reader + 1;
        };
        let writes = || {
            let mut held = mutex.lock();
            met.wait();
            *held += 1;
            if upgrades {
                let guard = shared.upgradable_read();
                *RwLockUpgradableReadGuard::upgrade(guard) += 1;
            } else {
                *shared.write() += 1;
            }
        };
        assert_eq!(told_of(&[&reads, &writes]), [2]);
        assert!(!shared.is_locked() && !mutex.is_locked());
        *shared.write() += 1;
    }
}

#[test]
fn a_reader_behind_a_writer_that_waits_is_seen() {
    if !raddle_sync::fence::init() {
        return; // All readers are counted.
    }
    let (shared, mutex, met) = (read_often(), Mutex::new(0), Barrier::new(3));
    let reads = || {
        let _reader = shared.read();
        met.wait();
        *mutex.lock() += 1;
    };
    let writes = || {
        met.wait();
        *shared.write() += 1;
    };
    let reads_late = || {
        let _held = mutex.lock();
        met.wait();
        while shared.try_read().is_some() {
            thread::yield_now(); // until the writer has claimed the lock
        }
        drop(shared.read());
    };
    assert_eq!(told_of(&[&reads, &writes, &reads_late]), [3]);
    assert!(!shared.is_locked() && !mutex.is_locked());
}

#[test]
fn values_that_are_made_are_seen_among_locks() {
    let (once, mutex, met) = (OnceLock::new(), Mutex::new(0), Barrier::new(2));
    let makes = || {
        once.get_or_init(|| {
            met.wait();
            *mutex.lock() + 1
        });
    };
    let asks = || {
        let _held = mutex.lock();
        met.wait();
        once.get_or_init(|| 2);
    };
    assert_eq!(told_of(&[&makes, &asks]), [2]);
    assert!(matches!(once.get(), Some(1 | 2) | None), "by whichever was left");
    assert!(!mutex.is_locked());
}

#[test]
fn a_strand_beneath_one_that_waits_is_seen() {
    let (a, b, met) = (Mutex::new(0), RwLock::new(0), Barrier::new(2));
    let beneath = || {
        let _a = a.lock();
        met.wait();
        let _foreign = strand::enter_foreign();
        *b.write() += 1;
    };
    let other = || {
        let guard = b.write();
        met.wait();
        *a.lock() += 1;
        RwLockWriteGuard::unlock_fair(guard);
    };
    assert_eq!(told_of(&[&beneath, &other]), [2]);
}

/// It said that the strand that waits holds the lock itself.
#[test]
fn who_holds_a_lock_beneath_who_waits_for_it_is_named() {
    let _alone = alone();
    let (tell, told) = mpsc::channel();
    let tell = std::sync::Mutex::new(tell);
    set_deadlock_hook(Some(Arc::new(move |deadlock: &Deadlock| {
        tell.lock().unwrap().send(deadlock.clone()).unwrap();
        panic!("{deadlock}");
    })));
    let runs = || {
        let lock = Mutex::new(0);
        let (_held, holder) = (lock.lock(), strand::token());
        let _foreign = strand::enter_foreign();
        let waiter = strand::token();
        catch_unwind(AssertUnwindSafe(|| *lock.lock() += 1)).unwrap_err();
        (holder, waiter)
    };
    let thread = thread::Builder::new().name("both".into()).spawn(runs).unwrap();
    let (holder, waiter) = thread.join().unwrap();
    set_deadlock_hook(None);
    let deadlock = told.recv().unwrap();
    let [wait] = deadlock.waits() else { panic!("{deadlock}") };
    assert_eq!(
        deadlock.to_string(),
        format!(
            "deadlock of 1 strand:\n  strand {waiter} on thread 'both' waits for the lock at {:#x}, held by strand {holder} on \
             'both', which lies beneath strand {waiter} there and cannot go on before it",
            wait.lock
        )
    );
}

#[test]
fn who_waits_long_and_not_in_a_circle_is_not_told_of() {
    let (shared, mutex) = (read_often(), Mutex::new(0));
    let (met, late) = (Barrier::new(3), Barrier::new(2));
    let reads = || {
        let _reader = shared.read();
        met.wait();
        late.wait(); // until both others wait, or are about to
        thread::sleep(Duration::from_millis(400)); // for the detector to look at them
        *mutex.lock() += 1;
    };
    let writes = || {
        met.wait();
        let mut written = shared.write();
        *written += 1;
        *mutex.lock() += 1;
    };
    let reads_late = || {
        met.wait();
        while shared.try_read().is_some() {
            thread::yield_now(); // until the writer has claimed the lock
        }
        late.wait();
        drop(shared.read());
    };
    assert!(told_of(&[&reads, &writes, &reads_late]).is_empty());
    assert_eq!((shared.into_inner(), mutex.into_inner()), (1, 2));
}

#[test]
#[cfg_attr(miri, ignore = "leaves threads behind")]
fn a_circle_of_three_is_found_and_told_once() {
    let _alone = alone();
    let (tell, told) = mpsc::channel::<Deadlock>();
    let tell = std::sync::Mutex::new(tell);
    set_deadlock_hook(Some(Arc::new(move |deadlock: &Deadlock| {
        tell.lock().unwrap().send(deadlock.clone()).unwrap();
    })));
    // Left to hang, so the locks must live for ever.
    let locks: &'static [Mutex<()>; 3] = Box::leak(Box::default());
    let barrier = Arc::new(Barrier::new(3));
    for (n, mine) in locks.iter().enumerate() {
        let barrier = Arc::clone(&barrier);
        let next = &locks[(n + 1) % 3];
        let run = move || {
            let _mine = mine.lock();
            barrier.wait();
            drop(next.lock());
        };
        thread::Builder::new().name(format!("philosopher {n}")).spawn(run).unwrap();
    }
    let deadlock = told.recv().unwrap();
    let text = deadlock.to_string();
    assert_eq!(deadlock.waits().len(), 3, "{text}");
    for (n, lock) in locks.iter().enumerate() {
        assert!(text.contains(&format!("philosopher {n}")), "{text}");
        let address = format!("{:#x}", std::ptr::from_ref(lock).addr());
        assert!(text.contains(&address), "{text}");
    }
    // Longer than the detector's intervals: there is nothing more to tell.
    assert!(told.recv_timeout(Duration::from_millis(350)).is_err());
    set_deadlock_hook(None);
}

/// The payload of the hook's panic is discarded by one that has been given the lock meanwhile. It was dropped, and if that
/// panicked the lock stayed taken.
#[test]
fn a_payload_whose_drop_panics_takes_no_lock_along() {
    struct Bomb;
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("dropped");
        }
    }
    static LOCKS: [RawThinLock; 2] = [RawThinLock::new(), RawThinLock::new()];
    static FORCED: AtomicUsize = AtomicUsize::new(0);
    let _alone = alone();
    set_deadlock_hook(Some(Arc::new(|deadlock: &Deadlock| {
        // The lock that this thread waits for.
        let lock = deadlock.waits()[0].lock;
        FORCED.store(lock, Relaxed);
        let lock = LOCKS.iter().find(|it| ptr::from_ref(*it).addr() == lock).unwrap();
        // SAFETY: whose it is does not unlock it again.
        unsafe { lock.unlock() };
        std::panic::panic_any(Bomb);
    })));
    let met = Barrier::new(2);
    let both = |n: usize| {
        let (first, second) = (&LOCKS[n], &LOCKS[1 - n]);
        first.lock();
        met.wait();
        second.lock();
        // SAFETY: locked above.
        unsafe { second.unlock() };
        if FORCED.load(Relaxed) != ptr::from_ref(first).addr() {
            // SAFETY: locked above, and not unlocked by the hook.
            unsafe { first.unlock() };
        }
    };
    thread::scope(|s| {
        let threads = [0, 1].map(|n| {
            s.spawn({
                let both = &both;
                move || both(n)
            })
        });
        // Forgotten, should it be the payload.
        let went_on = threads.map(|thread| thread.join().map_err(mem::forget).is_ok());
        assert_eq!(went_on, [true; 2]);
    });
    set_deadlock_hook(None);
    assert!(LOCKS.iter().all(|lock| !lock.is_locked()));
}
