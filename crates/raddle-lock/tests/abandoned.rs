//! A strand that ends while it holds a lock. A test program of its own, for the hook.

#![cfg(not(raddle_model))]

use raddle_lock::{Abandoned, Mutex, ReentrantLock, set_abandon_hook};
use raddle_sync::{strand, thread};
use std::sync::Arc;
use std::time::Duration;

#[test]
fn a_lock_left_locked_stays_so_and_is_reported_once() {
    let told: Arc<std::sync::Mutex<Vec<Abandoned>>> = Arc::default();
    let sink = Arc::clone(&told);
    set_abandon_hook(Some(Arc::new(move |abandoned: &Abandoned| {
        sink.lock().unwrap().push(abandoned.clone());
    })));
    let mutex = Arc::new(Mutex::new(0));
    let lock = Arc::new(ReentrantLock::new(0));
    let (m, l) = (Arc::clone(&mutex), Arc::clone(&lock));
    let id = thread::Builder::new()
        .name("leaver".into())
        .spawn(move || {
            drop(m.lock()); // a proper pair does not count
            std::mem::forget(m.lock());
            std::mem::forget(l.lock());
            strand::current()
        })
        .unwrap()
        .join()
        .unwrap();
    {
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 1, "{told:?}");
        assert_eq!((told[0].id(), told[0].holds(), told[0].thread()), (id, 2, Some("leaver")));
    }
    // Nobody is taken for the owner, whatever ids they get.
    for _ in 0..if cfg!(miri) { 10 } else { 300 } {
        let (m, l) = (Arc::clone(&mutex), Arc::clone(&lock));
        thread::spawn(move || {
            assert_ne!(strand::current(), id);
            assert!(m.try_lock().is_none() && l.try_lock().is_none());
            assert!(!m.is_held() && !l.is_held());
        })
        .join()
        .unwrap();
    }
    assert!(mutex.try_lock_for(Duration::from_millis(5)).is_none());
    assert!(lock.try_lock_for(Duration::from_millis(5)).is_none());
    assert!(mutex.is_locked());
    assert_eq!(told.lock().unwrap().len(), 1);
    set_abandon_hook(None);
}

/// As at the end of a thread. It got out of the drop of a guard, which had ended some of its strands and not the others.
#[test]
#[cfg(not(miri))]
fn a_hook_that_panics_ends_the_process_also_in_a_foreign_strand() {
    const ROLE: &str = "RADDLE_TEST_ABANDON_HOOK";
    const NAME: &str = "a_hook_that_panics_ends_the_process_also_in_a_foreign_strand";
    if std::env::var_os(ROLE).is_some() {
        set_abandon_hook(Some(Arc::new(|_: &Abandoned| panic!("not meant to"))));
        let mutex = Mutex::new(0);
        let ends = || {
            let _foreign = strand::enter_foreign();
            std::mem::forget(mutex.lock());
        };
        _ = std::panic::catch_unwind(ends);
        println!("went on");
        std::process::exit(0);
    }
    let mut program = std::process::Command::new(std::env::current_exe().unwrap());
    let output = program.args(["--exact", NAME, "--nocapture"]).env(ROLE, "1").output().unwrap();
    assert!(!output.status.success());
    assert!(!String::from_utf8_lossy(&output.stdout).contains("went on"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("hook for abandoned strands"));
}
