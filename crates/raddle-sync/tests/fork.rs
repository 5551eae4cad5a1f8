//! A child after `fork()`. A test program of its own, with a single test: a process forks as a whole.

#![cfg(all(target_os = "linux", not(any(miri, raddle_model))))]

use raddle_sync::affinity::WakeAffinity;
use raddle_sync::fork;
use std::sync::{Arc, mpsc};
use std::thread;

/// On how many processors a thread may run.
fn processors(thread: libc::pid_t) -> i32 {
    // SAFETY: an array of integers.
    let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a set of that size.
    let failed = unsafe { libc::sched_getaffinity(thread, size_of_val(&set), &mut set) } != 0;
    assert!(!failed);
    // SAFETY: counts bits.
    unsafe { libc::CPU_COUNT(&set) }
}

/// Runs `f` in a child; what it returned.
fn in_child(f: impl FnOnce() -> u8) -> i32 {
    // SAFETY: the child calls `f`, which takes no lock and allocates nothing, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: ends the process.
        unsafe { libc::_exit(f().into()) };
    }
    let mut status = 0;
    // SAFETY: our child.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert!(libc::WIFEXITED(status), "the child died: {status:#x}");
    libc::WEXITSTATUS(status)
}

/// On how many processors the thread may run while it is being woken.
fn while_woken(elsewhere: &WakeAffinity, thread: libc::pid_t) -> i32 {
    let mut count = 0;
    elsewhere.wake(|| count = processors(thread));
    count
}

#[test]
fn a_child_leaves_the_threads_of_its_parent_alone() {
    fork::init();
    fork::init();
    assert_eq!(fork::generation(), 0);

    let elsewhere = Arc::new(WakeAffinity::new());
    let (ready, wait) = mpsc::channel();
    let (go, told) = mpsc::channel::<()>();
    let sleeper = thread::spawn({
        let elsewhere = Arc::clone(&elsewhere);
        move || {
            elsewhere.adopt();
            elsewhere.lie_down();
            // SAFETY: no arguments, no effects.
            ready.send(unsafe { libc::gettid() }).unwrap();
            told.recv().unwrap();
            elsewhere.release();
        }
    });
    let thread = wait.recv().unwrap();
    let before = processors(thread);

    let generation = in_child(|| {
        let confined = while_woken(&elsewhere, thread) != before;
        // A thread of the child's own is another matter.
        let own = WakeAffinity::new();
        own.adopt();
        own.lie_down();
        let of_its_own = while_woken(&own, 0) == (before - 1).max(1);
        own.release();
        let wrong = confined || !of_its_own || processors(0) != before;
        if wrong { 100 } else { fork::generation() as u8 }
    });
    assert_eq!(generation, 1);
    assert_eq!(processors(thread), before, "the child took a processor from its parent's thread");
    assert_eq!(fork::generation(), 0, "the parent is what it was");

    // Grandchildren count on.
    assert_eq!(in_child(|| in_child(|| fork::generation() as u8) as u8), 2);

    assert_eq!(while_woken(&elsewhere, thread), (before - 1).max(1));
    go.send(()).unwrap();
    sleeper.join().unwrap();
}
