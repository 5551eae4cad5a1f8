//! Locks and continuations in a process that has had no pool so far: so the only test here.

use raddle::Promise;
use raddle::lock::Mutex;
use std::sync::{Arc, Barrier};
use std::thread;

/// What a thread has put off until its continuation is over is others' to do as soon as that waits for a lock.
#[test]
fn a_continuation_that_waits_for_a_lock_keeps_no_other_from_being_called() {
    let mutex = Arc::new(Mutex::new(()));
    let (promise, future) = Promise::new();
    let shared = future.shared();
    let lock = |mutex: &Arc<Mutex<()>>| {
        let mutex = Arc::clone(mutex);
        move |_| drop(mutex.lock())
    };
    // One of the two is called before the one between them.
    let first = shared.map(lock(&mutex));
    let other = shared.map(|n| n + 1);
    let last = shared.map(lock(&mutex));
    let met = Barrier::new(2);
    thread::scope(|s| {
        s.spawn(|| {
            let guard = mutex.lock();
            met.wait();
            assert_eq!(other.wait().unwrap(), 2);
            drop(guard);
        });
        met.wait();
        promise.set(1);
        first.wait().unwrap();
        last.wait().unwrap();
    });
}
