//! What the deadlock hook may do, and when it is not called. A test program of its own, for the hook, and with one test that
//! runs itself once more.

#![cfg(not(any(miri, raddle_model)))]
#![cfg(any(debug_assertions, feature = "deadlock"))]

use raddle_lock::{Mutex, set_deadlock_hook};
use std::panic::catch_unwind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// Two that wait for each other's locks, until the panic of the hook ends one's wait; whether it did each one's.
fn embrace() -> (bool, bool) {
    let (a, b, barrier) = (Mutex::new(0), Mutex::new(0), Barrier::new(2));
    let take = |first: &Mutex<u32>, second: &Mutex<u32>| {
        let _first = first.lock();
        barrier.wait();
        let take = std::panic::AssertUnwindSafe(|| *second.lock() += 1);
        catch_unwind(take).is_err()
    };
    let results = thread::scope(|s| {
        let other = s.spawn(|| take(&b, &a));
        (take(&a, &b), other.join().unwrap())
    });
    // Nobody has been left in a queue.
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| (0..5_000).for_each(|_| *a.lock() += *b.lock()));
        }
    });
    results
}

#[test]
fn a_hook_that_panics_ends_a_wait_and_leaves_nobody_in_the_queue() {
    const ROLE: &str = "RADDLE_TEST_CLOSED_PIPE";
    if std::env::var_os(ROLE).is_some() {
        // The report goes to a standard error that is closed, which is no reason to panic: they hang.
        static LOCKS: [Mutex<()>; 2] = [Mutex::new(()), Mutex::new(())];
        static BARRIER: Barrier = Barrier::new(2);
        static PANICS: AtomicU32 = AtomicU32::new(0);
        for n in 0..2 {
            thread::spawn(move || {
                let take = || {
                    let _first = LOCKS[n].lock();
                    BARRIER.wait();
                    drop(LOCKS[1 - n].lock());
                };
                if catch_unwind(take).is_err() {
                    PANICS.fetch_add(1, Relaxed);
                }
            });
        }
        thread::sleep(Duration::from_millis(600)); // Longer than the detector takes.
        println!("panics: {}.", PANICS.load(Relaxed));
        std::process::exit(0);
    }
    let told = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&told);
    set_deadlock_hook(Some(Arc::new(move |deadlock| {
        count.fetch_add(1, Relaxed);
        panic!("a deadlock of {}", deadlock.waits().len());
    })));
    let (mine, other) = embrace();
    assert!(mine != other, "one panics, by which the other goes on");
    assert_eq!(told.load(Relaxed), 1);

    // A wait with a deadline ends by itself, so there is no deadlock to tell of.
    let (a, b, barrier) = (Mutex::new(()), Mutex::new(()), Barrier::new(2));
    thread::scope(|s| {
        s.spawn(|| {
            let _a = a.lock();
            barrier.wait();
            assert!(b.try_lock_for(Duration::from_millis(500)).is_none());
        });
        let _b = b.lock();
        barrier.wait();
        drop(a.lock());
    });
    assert_eq!(told.load(Relaxed), 1);
    set_deadlock_hook(None);

    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--nocapture"])
        .env(ROLE, "1")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    let output = child.wait_with_output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("panics: 0."), "{output:?}");
}
