//! Locks in what a C library calls as a thread ends, when the thread's locals are gone. A test program of its own: if it is not well
//! there is no telling how it ends.

#![cfg(all(target_os = "linux", not(any(miri, raddle_model))))]

use raddle_lock::{Mutex, set_deadlock_hook};
use std::cell::Cell;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};

static KEY: AtomicU32 = AtomicU32::new(0);
static LOCK: Mutex<u32> = Mutex::new(0);
static LATE: AtomicBool = AtomicBool::new(false);

std::thread_local! {
    static CALLS: Cell<u32> = const { Cell::new(0) };
}

/// Calls itself again as often as the C library lets it, so that the standard library has been before.
unsafe extern "C" fn at_the_end(value: *mut libc::c_void) {
    CALLS.set(CALLS.get() + 1);
    if CALLS.get() < 4 {
        // SAFETY: the key is made, and never deleted.
        unsafe { libc::pthread_setspecific(KEY.load(Relaxed), value) };
        return;
    }
    LATE.store(true, Relaxed);
    *LOCK.lock() += 1;
}

/// Who wanted the name of its thread for a report of a deadlock got a panic instead, out of the lock's queue: the unlock then wrote
/// to a frame that was gone.
#[test]
fn a_thread_whose_locals_are_gone_waits_for_a_lock() {
    const ROLE: &str = "RADDLE_TEST_LATE";
    if std::env::var_os(ROLE).is_none() {
        // Where what a test says is kept for later, a panic that late ends the process by itself.
        let program = std::env::current_exe().unwrap();
        let output = Command::new(program).arg("--nocapture").env(ROLE, "1").output().unwrap();
        assert!(output.status.success(), "{output:?}");
        return;
    }
    set_deadlock_hook(Some(Arc::new(|deadlock| panic!("{deadlock}"))));
    let mut key = 0;
    // SAFETY: writes the key; the function is there for as long as the program.
    assert_eq!(unsafe { libc::pthread_key_create(&mut key, Some(at_the_end)) }, 0);
    KEY.store(key, Relaxed);
    let guard = LOCK.lock();
    let ends = thread::spawn(|| {
        drop(thread::current());
        // SAFETY: the key is made, and the value is a number.
        unsafe { libc::pthread_setspecific(KEY.load(Relaxed), std::ptr::without_provenance(8)) }
    });
    while !LATE.load(Relaxed) {
        thread::yield_now();
    }
    // The detector looks after 100 ms.
    let begun = Instant::now();
    while begun.elapsed() < Duration::from_millis(400) {
        thread::sleep(Duration::from_millis(10));
    }
    drop(guard);
    assert_eq!(ends.join().unwrap(), 0);
    assert_eq!(*LOCK.lock(), 1);
}
