//! A guard never stands for a lock that it does not hold: rather the process ends. A test program of its own, which runs
//! itself once more for that.

#![cfg(not(any(raddle_loom, raddle_shuttle, miri)))]

use raddle_lock::{Mutex, MutexGuard};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::Command;

#[test]
fn unlocked_does_not_come_back_without_the_lock() {
    const ROLE: &str = "RADDLE_TEST_KEEPS_A_GUARD";
    if std::env::var_os(ROLE).is_some() {
        let mutex = Mutex::new(0);
        let mut kept = None;
        let result = catch_unwind(AssertUnwindSafe(|| {
            let mut guard = mutex.lock();
            MutexGuard::unlocked(&mut guard, || kept = Some(mutex.lock()));
        }));
        // Two guards of one mutex: the one that was unlocked, and by now dropped, and `kept`.
        println!("came back: {result:?}, locked: {}, kept: {kept:?}", mutex.is_locked());
        return;
    }
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "unlocked_does_not_come_back_without_the_lock", "--nocapture"])
        .env(ROLE, "1")
        .output()
        .unwrap();
    let (told, said) =
        (String::from_utf8_lossy(&output.stderr), String::from_utf8_lossy(&output.stdout));
    assert!(!output.status.success() && !said.contains("came back"), "{said}");
    assert!(told.contains("not re-entrant") && told.contains("could not be taken back"), "{told}");
}
