//! What users of the facade alone reach of the locks: reports of deadlocks between tasks, and `lock_api`. A test program of its
//! own, for the hook.
#![cfg(any(debug_assertions, feature = "deadlock"))]

use raddle::lock::{Mutex, RawThinLock, lock_api, set_deadlock_hook};
use raddle::{FailureKind, Pool};
use std::sync::mpsc;
use std::sync::{Arc, Barrier};

type ApiMutex<T> = lock_api::Mutex<RawThinLock, T>;

/// One of the two fails with the panic of the hook, by which the other has its lock. It is always the one that waits for the
/// native lock, whoever sees the circle first: nothing unwinds out of `lock_api`.
#[test]
fn tasks_that_want_each_others_locks_are_told_of() {
    for _ in 0..8 {
        embrace();
    }
}

fn embrace() {
    let (told, tells) = mpsc::channel();
    set_deadlock_hook(Some(Arc::new(move |deadlock| {
        told.send(deadlock.to_string()).unwrap();
        panic!("{} strands", deadlock.waits().len());
    })));
    let pool = Pool::new(2).unwrap();
    let (one, other) = (Arc::new(Mutex::new(1)), Arc::new(ApiMutex::new(2)));
    let both = Arc::new(Barrier::new(2));
    let tasks = {
        let (one, other, both) = (Arc::clone(&one), Arc::clone(&other), Arc::clone(&both));
        let first = {
            let (one, other, both) = (Arc::clone(&one), Arc::clone(&other), Arc::clone(&both));
            pool.spawn(move || {
                let one = one.lock();
                both.wait();
                *one + *other.lock()
            })
        };
        let second = pool.spawn(move || {
            let other = other.lock();
            both.wait();
            *one.lock() + *other
        });
        [first, second]
    };
    let results = tasks.map(raddle::Future::wait);
    assert_eq!(results[0].as_ref().ok(), Some(&3));
    assert_eq!(results[1].as_ref().unwrap_err().kind(), FailureKind::Panicked);
    let report = tells.recv().unwrap();
    assert!(report.starts_with("deadlock of 2 strands"), "{report}");
    assert_eq!(report.matches(" waits for the lock at ").count(), 2, "{report}");
    set_deadlock_hook(None);
    assert_eq!(*one.lock() + *other.lock(), 3, "nobody has been left with a lock");
}
