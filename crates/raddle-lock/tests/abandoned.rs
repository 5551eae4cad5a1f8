//! A strand that ends while it holds a lock. A test program of its own, for the hook.

#![cfg(not(any(raddle_loom, raddle_shuttle)))]

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
