//! Models of the latch and of the words that go through its states. Two threads are explored
//! completely, three with three preemptions.

use std::sync::Arc;

use raddle_sync::atomic::AtomicU32;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::thread;

use crate::fork_stack::PENDING;
use crate::latch::{Latch, is_set, prepare_sleep, set_word};
use crate::models::{check, parker};

/// A memory cell that two threads may use, one after the other.
struct Registry<T>(UnsafeCell<T>);

// SAFETY: the models check that its uses are ordered.
unsafe impl<T> Send for Registry<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Registry<T> {}

/// A lost wake-up is a deadlock, and what the setter did is visible.
#[test]
fn a_set_against_a_wait() {
    check(10, || {
        let parker = parker();
        let shared = Arc::new((Latch::new(parker), Registry(UnsafeCell::new(0))));
        let setter = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                // SAFETY: read only after the latch is set.
                shared.1.0.with_mut(|value| unsafe { *value = 7 });
                // SAFETY: the `Arc` keeps it.
                unsafe { Latch::set(&raw const shared.0) };
            })
        };
        shared.0.wait();
        // SAFETY: the latch is set.
        assert_eq!(shared.1.0.with(|value| unsafe { *value }), 7);
        setter.join().unwrap();
    });
}

/// The waiter has a token already, from somewhere, and its first park does not last.
#[test]
fn a_set_against_a_wait_with_a_stray_token() {
    check(3, || {
        let parker = parker();
        let latch = Arc::new(Latch::new(parker));
        let stray = thread::spawn(move || parker.unpark());
        let setter = {
            let latch = Arc::clone(&latch);
            // SAFETY: the `Arc` keeps it.
            thread::spawn(move || unsafe { Latch::set(&raw const *latch) })
        };
        latch.wait();
        setter.join().unwrap();
        stray.join().unwrap();
    });
}

/// L1: the waiter frees the word as soon as it is set, which loom sees as an access that must come
/// after all others.
#[test]
fn a_set_against_the_end_of_the_word() {
    check(10, || {
        let parker = parker();
        let place = Box::into_raw(Box::new(AtomicU32::new(PENDING)));
        let address = place.expose_provenance();
        let setter = thread::spawn(move || {
            let word = std::ptr::with_exposed_provenance::<AtomicU32>(address);
            // SAFETY: freed only after the join.
            set_word(unsafe { &*word }, parker);
        });
        // SAFETY: freed only below.
        let word = unsafe { &*place };
        while !is_set(word) {
            if prepare_sleep(word) {
                parker.park();
            }
        }
        // SAFETY: the setter is done with it (L1).
        unsafe { &mut *place }.with_mut(|value| *value = PENDING);
        setter.join().unwrap();
        // SAFETY: made by `Box::into_raw`.
        drop(unsafe { Box::from_raw(place) });
    });
}

/// L1: the next latch in the same memory is not set by the setter of the last.
#[test]
fn a_set_against_the_next_latch_in_its_place() {
    check(10, || {
        let parker = parker();
        let place = Box::into_raw(Box::new(Latch::new(parker)));
        let address = place.expose_provenance();
        let setter = thread::spawn(move || {
            // SAFETY: freed only after the join, and replaced only after it is set.
            unsafe { Latch::set(std::ptr::with_exposed_provenance(address)) };
        });
        // SAFETY: this thread's own.
        unsafe { &*place }.wait();
        // SAFETY: set, so that the setter is done with it (L1).
        unsafe { place.write(Latch::new(parker)) };
        setter.join().unwrap();
        // SAFETY: made by `Box::into_raw`.
        let next = unsafe { Box::from_raw(place) };
        assert!(!next.is_set());
    });
}
