//! Calls of a broadcast that come to a thread which had better not make them at once, and to one that had better not leave them for good.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use raddle::lock::Mutex;
use raddle_core::{Future, Pool, Promise, Waits, blocking, spawn, yield_now};

use crate::in_time;

/// A task that holds a lock and does `within` meanwhile, on a thread of the pool; a broadcast wants the lock.
fn broadcast_wants_what_is_held(pool: Pool, within: impl FnOnce() + Send + 'static) {
    in_time(move || {
        let lock = Arc::new(Mutex::new(()));
        let (held, is_held) = mpsc::channel();
        let its = Arc::clone(&lock);
        let holds = move || {
            let _guard = its.lock();
            held.send(()).unwrap();
            within();
        };
        pool.spawn(holds).detach();
        is_held.recv().unwrap();
        pool.broadcast(|_| drop(lock.lock()));
    });
}

/// What comes from outside after a while, long past that for which mail is left.
fn later() -> Future<()> {
    let (promise, future) = Promise::new();
    thread::spawn(move || {
        thread::sleep(Duration::from_millis(100));
        promise.set(());
    });
    future
}

#[test]
fn who_waits_with_a_limit_and_holds_a_lock_gives_it_back_first() {
    let waits = || assert!(Future::<()>::never().wait_timeout(Duration::from_millis(100)).is_err());
    broadcast_wants_what_is_held(Pool::new(2).unwrap(), waits);
}

#[test]
fn who_yields_and_holds_a_lock_gives_it_back_first() {
    let pool = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();
    broadcast_wants_what_is_held(pool, || {
        let hosted = spawn(|| later().wait().unwrap());
        while !hosted.is_done() {
            yield_now();
        }
    });
}

#[test]
fn who_drops_a_pool_and_holds_a_lock_gives_it_back_first() {
    broadcast_wants_what_is_held(Pool::new(2).unwrap(), || {
        let other = Pool::new(1).unwrap();
        other.spawn(|| later().wait().unwrap()).detach();
        drop(other);
    });
}

/// All that the thread does are waits shorter than the while for which mail is left, where it leaves mail in any case.
#[test]
fn short_waits_in_what_a_yield_has_taken_on_leave_no_mail_for_good() {
    in_time(|| {
        let pool = Arc::new(Pool::builder().threads(1).waits(Waits::Host).build().unwrap());
        let from = Arc::clone(&pool);
        let (over, is_over) = mpsc::channel();
        let polls = move || {
            blocking(|| {
                let hosted = spawn(move || {
                    let (promise, mut called) = Promise::new();
                    thread::spawn(move || promise.set(from.broadcast(|thread| thread.index())));
                    loop {
                        match called.wait_timeout(Duration::from_millis(1)) {
                            Ok(calls) => break calls.unwrap(),
                            Err(again) => called = again,
                        }
                    }
                });
                while !hosted.is_done() {
                    yield_now();
                }
                over.send(hosted.wait().unwrap()).unwrap();
            });
        };
        pool.spawn(polls).detach();
        assert_eq!(is_over.recv().unwrap(), [0]);
    });
}
