//! What the tests of parking_lot and of WebKit ask of a mutex, a re-entrant lock, a fair one and a condition, written anew from their
//! behaviour: of the types here, and of those of `lock_api` over them.

#![cfg(not(raddle_model))]

#[path = "peers/queues.rs"]
mod queues;

use raddle_lock::{
    Condvar, Mutex, MutexGuard, RawFairThinLock, RawRwLock, RawThinLock, ReentrantLock,
};
use raddle_sync::strand;
use std::cell::{Cell, RefCell};
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

type ApiMutex<T> = lock_api::Mutex<RawThinLock, T>;
type FairMutex<T> = lock_api::Mutex<RawFairThinLock, T>;
type ApiReentrant<T> = lock_api::ReentrantMutex<RawThinLock, StrandName, T>;

/// Has a re-entrant mutex of `lock_api` belong to strands, as ours does.
struct StrandName;

// SAFETY: no two strands have the same name at a time.
unsafe impl lock_api::GetThreadId for StrandName {
    const INIT: StrandName = StrandName;

    fn nonzero_thread_id(&self) -> NonZeroUsize {
        NonZeroUsize::new(strand::token() as usize).unwrap()
    }
}

const ROUNDS: u32 = if cfg!(miri) { 20 } else { 1_000 };

/// The tests of a mutex, of one kind or another.
macro_rules! mutexes {
    ($($module:ident: $mutex:ident, $guard:path;)*) => { $( mod $module {
        use super::*;
        use $guard as Guard;

        #[test]
        fn many_threads_count_together() {
            let (count, threads) = (Arc::new($mutex::new(0)), if cfg!(miri) { 2 } else { 6 });
            let handles: Vec<_> = (0..threads)
                .map(|_| {
                    let count = Arc::clone(&count);
                    thread::spawn(move || (0..ROUNDS).for_each(|_| *count.lock() += 1))
                })
                .collect();
            handles.into_iter().for_each(|handle| handle.join().unwrap());
            assert_eq!(*count.lock(), threads * ROUNDS);
        }

        #[test]
        fn what_is_locked_is_tried_in_vain_and_free_after_a_panic() {
            let mutex = Arc::new($mutex::new(1));
            let other = Arc::clone(&mutex);
            let result = thread::spawn(move || {
                let _guard = other.lock();
                panic!("on purpose");
            });
            assert!(result.join().is_err());
            let guard = mutex.lock();
            assert!(mutex.try_lock().is_none() && mutex.is_locked());
            assert!(thread::scope(|s| s.spawn(|| mutex.try_lock_for(Duration::from_millis(1)).is_none()).join().unwrap()));
            assert_eq!(*guard, 1);
            drop(guard);
            assert!(mutex.try_lock_until(Instant::now()).is_some());
        }

        #[test]
        fn a_destructor_may_lock_while_its_thread_unwinds() {
            struct AddsAtLast(Arc<$mutex<u32>>);
            impl Drop for AddsAtLast {
                fn drop(&mut self) {
                    *self.0.lock() += 1;
                }
            }
            let mutex = Arc::new($mutex::new(1));
            let adds = AddsAtLast(Arc::clone(&mutex));
            assert!(catch_unwind(AssertUnwindSafe(move || { let _adds = adds; panic!("on purpose") })).is_err());
            assert_eq!(*mutex.lock(), 2);
        }

        #[test]
        fn values_go_in_and_out() {
            let mut mutex = $mutex::new(String::from("warp"));
            mutex.get_mut().push('s');
            assert_eq!(mutex.into_inner(), "warps");
            let dropped = Arc::new(());
            drop($mutex::new(Arc::clone(&dropped)));
            assert_eq!(Arc::strong_count(&dropped), 1);
            let slice: &$mutex<[i32]> = &$mutex::new([1, 2, 3]);
            slice.lock()[1] = 7;
            assert_eq!(*slice.lock(), [1, 7, 3]);
            assert_eq!(*$mutex::<u8>::default().lock(), 0);
        }

        #[test]
        fn it_shows_its_value_or_that_it_is_locked() {
            let mutex = $mutex::new(vec![0, 10]);
            assert_eq!(format!("{mutex:?}"), "Mutex { data: [0, 10] }");
            let guard = mutex.lock();
            assert_eq!(format!("{mutex:?} {guard:?}"), "Mutex { data: <locked> } [0, 10]");
        }

        #[test]
        fn parts_of_the_value_are_guarded_like_the_whole() {
            let mutex = $mutex::new([Some(1), None]);
            let whole = Guard::try_map(mutex.lock(), |pair| pair[1].as_mut()).unwrap_err();
            let mut part = Guard::try_map(whole, |pair| pair[0].as_mut()).unwrap();
            *part += 1;
            assert!(mutex.try_lock().is_none());
            drop(part);
            assert_eq!(*mutex.lock(), [Some(2), None]);
        }

        #[test]
        fn a_guard_lets_others_in_and_comes_back() {
            let mutex = $mutex::new(0);
            let mut guard = mutex.lock();
            thread::scope(|s| {
                let (tell, told) = mpsc::channel();
                let other = &mutex;
                s.spawn(move || {
                    tell.send(()).unwrap();
                    *other.lock() += 1;
                });
                told.recv().unwrap();
                while *guard == 0 {
                    Guard::bump(&mut guard); // to whoever waits, if somebody does by now
                }
            });
            assert_eq!(Guard::unlocked(&mut guard, || mutex.try_lock().map(|value| *value)), Some(1));
            Guard::unlock_fair(guard);
            assert!(!mutex.is_locked());
        }
    } )* };
}

mutexes! {
    native: Mutex, MutexGuard;
    through_lock_api: ApiMutex, lock_api::MutexGuard;
    fair: FairMutex, lock_api::MutexGuard;
}

/// With the feature `arc_lock`.
#[test]
fn a_guard_may_keep_its_lock_alive() {
    let mutex = Arc::new(ApiMutex::new(1));
    let lock = Arc::new(lock_api::RwLock::<RawRwLock, _>::new(1));
    let (mut guard, reader) = (mutex.lock_arc(), lock.read_arc());
    let (last, locks) = (Arc::downgrade(&mutex), (Arc::clone(&mutex), Arc::clone(&lock)));
    assert!(lock.try_write_arc().is_none());
    drop((mutex, lock));
    thread::spawn(move || {
        assert!(locks.0.try_lock_arc().is_none());
        assert_eq!(*locks.1.read_arc(), 1);
    })
    .join()
    .unwrap();
    *guard += *reader;
    drop(reader);
    assert_eq!(*guard, 2);
    drop(guard);
    assert!(last.upgrade().is_none(), "the guard was the last that kept it");
}

/// The tests of a re-entrant lock, of one kind or another.
macro_rules! nests {
    ($($module:ident: $lock:ident, $name:literal;)*) => { $( mod $module {
        use super::*;

        #[test]
        fn a_nest_shares_its_value_and_keeps_others_out() {
            let lock = $lock::new(RefCell::new(1));
            {
                let outer = lock.lock();
                let inner = lock.try_lock().expect("the same strand");
                *inner.borrow_mut() += 1;
                assert_eq!(*outer.borrow(), 2);
                assert!(thread::scope(|s| s.spawn(|| lock.try_lock().is_none()).join().unwrap()));
                drop(outer);
                let _above = strand::enter_foreign();
                assert!(lock.try_lock().is_none(), "this thread, but another strand");
            }
            assert!(thread::scope(|s| s.spawn(|| lock.try_lock().is_some()).join().unwrap()));
            assert_eq!(format!("{lock:?}"), concat!($name, " { data: RefCell { value: 2 } }"));
        }

        #[test]
        fn many_threads_count_in_nests() {
            let (lock, threads) = ($lock::new(Cell::new(0)), if cfg!(miri) { 2 } else { 6 });
            thread::scope(|s| {
                for n in 0..threads {
                    let lock = &lock;
                    s.spawn(move || {
                        for round in 0..ROUNDS {
                            let guards: Vec<_> = (0..=(n + round) % 4).map(|_| lock.lock()).collect();
                            guards[0].set(guards[0].get() + 1);
                            // The outermost first.
                            guards.into_iter().for_each(drop);
                        }
                    });
                }
            });
            assert_eq!(lock.lock().get(), threads * ROUNDS);
            assert!(!lock.is_locked());
        }
    } )* };
}

nests! {
    native_nests: ReentrantLock, "ReentrantLock";
    nests_through_lock_api: ApiReentrant, "ReentrantMutex";
}

#[test]
fn a_notification_wakes_one_or_all_and_says_how_many() {
    const WAITERS: usize = if cfg!(miri) { 2 } else { 10 };
    let (ready, changed) = (Mutex::new(0), Condvar::new());
    assert!(!changed.notify_one());
    assert_eq!(changed.notify_all(), 0);
    for all in [false, true] {
        *ready.lock() = 0;
        let woken = AtomicUsize::new(0);
        thread::scope(|s| {
            for _ in 0..WAITERS {
                s.spawn(|| {
                    let mut count = ready.lock();
                    *count += 1;
                    changed.wait(&mut count);
                    woken.fetch_add(1, SeqCst);
                });
            }
            while *ready.lock() < WAITERS {
                thread::yield_now();
            }
            drop(ready.lock()); // the last one waits by now
            if all {
                assert_eq!(changed.notify_all(), WAITERS);
            } else {
                (0..WAITERS).for_each(|_| assert!(changed.notify_one()));
            }
        });
        assert_eq!(woken.into_inner(), WAITERS);
    }
}

#[test]
fn waits_end_in_time_and_say_so() {
    let (mutex, condition) = (Mutex::new(0), Condvar::new());
    let mut guard = mutex.lock();
    let begun = Instant::now();
    let limit = Duration::from_millis(10);
    assert!(condition.wait_for(&mut guard, limit).timed_out());
    assert!(condition.wait_until(&mut guard, Instant::now()).timed_out());
    assert!(condition.wait_while_for(&mut guard, |n| *n == 0, limit).timed_out());
    assert!(begun.elapsed() >= 2 * limit);
    assert!(condition.wait_while_for(&mut guard, |n| *n == 1, limit).notified());
    thread::scope(|s| {
        s.spawn(|| {
            *mutex.lock() = 1;
            condition.notify_one();
        });
        // Longer than the clock can count is for ever.
        assert!(condition.wait_for(&mut guard, Duration::MAX).notified());
        assert_eq!(*guard, 1);
    });
}

#[test]
fn a_condition_is_asked_as_often_as_need_be() {
    let (mutex, condition) = (Mutex::new(0), Condvar::new());
    let asked = Cell::new(0);
    // Says no at this call.
    let until = |call| {
        asked.set(0);
        let asked = &asked;
        move |_: &mut i32| {
            asked.set(asked.get() + 1);
            asked.get() < call
        }
    };
    let mut guard = mutex.lock();
    // Not once it is false: nobody notifies.
    condition.wait_while(&mut guard, until(1));
    assert_eq!(asked.get(), 1);
    assert!(condition.wait_while_for(&mut guard, until(1), Duration::ZERO).notified());
    assert_eq!(asked.get(), 1);
    // Once more when the time is over: what it has become meanwhile counts.
    let limit = Duration::from_millis(1);
    assert!(condition.wait_while_for(&mut guard, until(2), limit).notified());
    assert_eq!(asked.get(), 2);
    assert!(condition.wait_while_for(&mut guard, until(3), limit).timed_out());
    assert_eq!(asked.get(), 2);
    // After each notification.
    const TIMES: i32 = if cfg!(miri) { 3 } else { 50 };
    thread::scope(|s| {
        s.spawn(|| {
            for _ in 0..TIMES {
                while !condition.notify_one() {
                    thread::yield_now();
                }
            }
        });
        condition.wait_while(&mut guard, until(TIMES + 1));
    });
    assert_eq!(asked.get(), TIMES + 1);
    assert_eq!(format!("{condition:?} {:?}", Condvar::default()), "Condvar Condvar");
}

/// Who is notified by the holder of the mutex waits for the mutex from then on, however long that takes: its limit is over
/// for nothing.
#[test]
fn a_notification_counts_although_the_mutex_comes_too_late() {
    const LIMIT: Duration = Duration::from_millis(20);
    let (mutex, condition) = (Mutex::new(0), Condvar::new());
    // Its time may be over before it is notified.
    let in_time = (0..1_000).any(|_| {
        *mutex.lock() = 0;
        thread::scope(|s| {
            let waiter = s.spawn(|| {
                let mut guard = mutex.lock();
                *guard = 1;
                let result = condition.wait_for(&mut guard, LIMIT);
                (result.notified(), *guard)
            });
            let mut guard = mutex.lock();
            while *guard == 0 {
                MutexGuard::unlocked(&mut guard, thread::yield_now);
            }
            let notified = condition.notify_all();
            *guard = 2;
            let begun = Instant::now();
            while begun.elapsed() <= LIMIT {
                thread::yield_now();
            }
            drop(guard);
            assert_eq!(waiter.join().unwrap(), (notified == 1, 2));
            notified == 1
        })
    });
    assert!(in_time);
}

#[test]
fn one_condition_serves_several_mutexes() {
    let (a, b, condition) = (Mutex::new(false), Mutex::new(false), Condvar::new());
    let gone = AtomicUsize::new(0);
    thread::scope(|s| {
        for mutex in [&a, &b, &a, &b] {
            s.spawn(|| {
                condition.wait_while(&mut mutex.lock(), |ready| !*ready);
                gone.fetch_add(1, SeqCst);
            });
        }
        *a.lock() = true;
        *b.lock() = true;
        while gone.load(SeqCst) < 4 {
            condition.notify_all();
            thread::yield_now();
        }
    });
}
