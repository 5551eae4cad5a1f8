//! More strands than there are ids. A test program of its own, because it takes them all.

#![cfg(not(raddle_model))]

use raddle_lock::{Abandoned, Mutex, ObjectHeader, set_abandon_hook, stats};
use raddle_sync::{strand, thread};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::time::Duration;

#[test]
#[cfg_attr(miri, ignore = "takes too long")]
fn strands_beyond_the_ids_lock_fat_and_know_what_they_hold() {
    let mut foreign: Vec<_> = std::iter::from_fn(|| {
        let guard = strand::enter_foreign();
        strand::current().map(|_| guard)
    })
    .collect();
    assert!(foreign.len() >= 65_000 && foreign.len() <= 65_535);
    let total = Arc::new(Mutex::new(0));
    let threads: Vec<_> = (0..4)
        .map(|_| {
            let total = Arc::clone(&total);
            thread::spawn(move || {
                assert_eq!(strand::current(), None);
                for _ in 0..2_000 {
                    *total.lock() += 1;
                }
                let header = ObjectHeader::new();
                let guard = header.lock();
                assert!(header.is_fat() && header.is_held());
                let again = header.lock();
                drop(guard);
                assert!(header.is_held());
                drop(again);
                assert!(!header.is_fat() && !header.is_locked());
                let mutex = Mutex::new(());
                let _guard = mutex.lock();
                assert!(catch_unwind(AssertUnwindSafe(|| drop(mutex.lock()))).is_err());
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(*total.lock(), 8_000);
    assert_eq!(stats().fat_live, 0);
    // A header that stays fat, held by a strand without an id: who waits for it gives up in time.
    let hot = ObjectHeader::new();
    hot.identity_hash();
    (0..10).for_each(|_| drop(hot.lock()));
    assert!(hot.is_fat());
    let (held, given_up) = (Barrier::new(2), Barrier::new(2));
    std::thread::scope(|s| {
        s.spawn(|| {
            assert_eq!(strand::current(), None);
            let _guard = hot.lock();
            held.wait();
            given_up.wait();
        });
        held.wait();
        assert!(hot.try_lock_for(Duration::from_millis(20)).is_none());
        given_up.wait();
    });
    // Nor is its end with a lock held passed over.
    let told: Arc<std::sync::Mutex<Vec<Abandoned>>> = Arc::default();
    let sink = Arc::clone(&told);
    set_abandon_hook(Some(Arc::new(move |abandoned: &Abandoned| {
        sink.lock().unwrap().push(abandoned.clone());
    })));
    static LEFT: Mutex<()> = Mutex::new(());
    thread::spawn(|| std::mem::forget(LEFT.lock())).join().unwrap();
    set_abandon_hook(None);
    let told = told.lock().unwrap();
    assert_eq!(told.iter().map(|it| (it.id(), it.holds())).collect::<Vec<_>>(), [(None, 1)]);
    while foreign.pop().is_some() {}
    // With ids to be had again, locks are thin again.
    thread::spawn(|| {
        let header = ObjectHeader::new();
        let _guard = header.lock();
        assert!(!header.is_fat());
    })
    .join()
    .unwrap();
}
