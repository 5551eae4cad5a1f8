//! A guard never stands for a lock that it does not hold: rather the process ends. A test program of its own, which runs
//! itself once more for that.

#![cfg(not(any(miri, raddle_model)))]

use raddle_lock::{Mutex, MutexGuard, RawRwLock, RawThinLock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

/// Runs this in a process of its own, which is to end rather than to come back, with these words.
fn ends_the_process(test: &str, words: &str, comes_back: impl FnOnce()) {
    const ROLE: &str = "RADDLE_TEST_KEEPS_A_GUARD";
    if std::env::var_os(ROLE).is_some() {
        let result = catch_unwind(AssertUnwindSafe(comes_back));
        println!("came back: {result:?}");
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ROLE, "1")
        .output()
        .unwrap();
    let (told, said) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(!output.status.success() && !said.contains("came back"), "{said}");
    assert!(said.contains("running 1 test"), "{said}");
    assert!(told.contains(words) && told.contains("could not be taken back"), "{told}");
}

type ApiRwLock = lock_api::RwLock<RawRwLock, i32>;

#[test]
fn unlocked_does_not_come_back_without_the_lock() {
    ends_the_process("unlocked_does_not_come_back_without_the_lock", "not re-entrant", || {
        let mutex = Mutex::new(0);
        let mut kept = None;
        let mut guard = mutex.lock();
        MutexGuard::unlocked(&mut guard, || kept = Some(mutex.lock()));
    });
}

#[test]
fn nor_does_that_of_lock_api() {
    ends_the_process("nor_does_that_of_lock_api", "not re-entrant", || {
        let mutex = lock_api::Mutex::<RawThinLock, _>::new(0);
        let mut kept = None;
        let mut guard = mutex.lock();
        lock_api::MutexGuard::unlocked(&mut guard, || kept = Some(mutex.lock()));
    });
}

#[test]
fn nor_does_that_of_a_writer() {
    ends_the_process("nor_does_that_of_a_writer", "read by the strand that wants to write", || {
        let lock = ApiRwLock::new(0);
        let mut kept = None;
        let mut guard = lock.write();
        lock_api::RwLockWriteGuard::unlocked(&mut guard, || {
            // So that it is published.
            (0..5_000).for_each(|_| drop(lock.read()));
            kept = Some(lock.read());
        });
    });
}

const HELD: &str = "held by the strand that wants to read";

#[test]
fn nor_does_that_of_a_reader() {
    ends_the_process("nor_does_that_of_a_reader", HELD, || {
        let lock = ApiRwLock::new(0);
        let mut kept = None;
        let mut guard = lock.read();
        lock_api::RwLockReadGuard::unlocked(&mut guard, || kept = Some(lock.write()));
    });
}

#[test]
fn nor_does_that_of_one_that_may_write_later() {
    ends_the_process("nor_does_that_of_one_that_may_write_later", HELD, || {
        let lock = ApiRwLock::new(0);
        let mut kept = None;
        let mut guard = lock.upgradable_read();
        lock_api::RwLockUpgradableReadGuard::unlocked(&mut guard, || kept = Some(lock.write()));
    });
}

#[test]
fn one_that_writes_does_not_wait_for_itself_to_read() {
    ends_the_process("one_that_writes_does_not_wait_for_itself_to_read", HELD, || {
        let lock = ApiRwLock::new(0);
        let _guard = lock.write();
        drop(lock.read());
    });
}
