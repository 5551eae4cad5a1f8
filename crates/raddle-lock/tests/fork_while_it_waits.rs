//! Children of a process of which another thread is just waiting for its first notification. A test program of its own: a process
//! forks as a whole, and waits for the first time once.

#![cfg(all(target_os = "linux", not(any(miri, raddle_model))))]

use raddle_lock::{Condvar, Mutex};
use raddle_sync::parker;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

fn wait_for_nothing() {
    let mutex = Mutex::new(());
    _ = Condvar::new().wait_for(&mut mutex.lock(), Duration::from_micros(1));
}

/// Forks; how the child ended, 0 if well. It has so many seconds.
fn in_child(seconds: u32, f: impl FnOnce()) -> i32 {
    // SAFETY: the C library has its own mutexes whole in a child, and so have the locks that are tested. Nothing else is
    // relied upon.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: no memory is touched.
        unsafe { libc::alarm(seconds) };
        f();
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    status
}

/// The first who waited asked how many processors there are, within a `Once`, and in the child that was locked for ever.
#[test]
fn a_child_waits_for_notifications_whoever_was_about_to_do_so_first() {
    let limit = Duration::from_secs(2);
    let begun = Instant::now();
    // Each with a time of its own from the one's wait to the other's fork.
    for pause in (0_u32..).take_while(|_| begun.elapsed() < limit) {
        // In a child nobody has waited yet, each time.
        let status = in_child(120, || {
            let (ready, goes) = (AtomicBool::new(false), AtomicBool::new(false));
            thread::scope(|s| {
                s.spawn(|| {
                    drop(Mutex::new(()).lock());
                    parker::current();
                    ready.store(true, Ordering::Relaxed);
                    while !goes.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                    wait_for_nothing();
                });
                while !ready.load(Ordering::Relaxed) {
                    thread::yield_now();
                }
                goes.store(true, Ordering::Relaxed);
                (0..pause % 64 * 32).for_each(|_| std::hint::spin_loop());
                let status = in_child(30, wait_for_nothing);
                if status != 0 {
                    // SAFETY: ends the process, whose other threads have nothing to do.
                    unsafe { libc::_exit(1) };
                }
            });
        });
        assert_eq!(status, 0, "after {pause} children");
    }
}
