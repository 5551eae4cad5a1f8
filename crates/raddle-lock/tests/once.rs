//! Values that are made once.

#![cfg(not(raddle_model))]

use raddle_lock::{LazyLock, OnceLock};
use raddle_sync::strand;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread;

const _: () = assert!(size_of::<OnceLock<u32>>() == 8);

#[test]
fn many_ask_and_one_makes_it() {
    let (once, made, barrier) = (OnceLock::new(), AtomicU32::new(0), Barrier::new(8));
    thread::scope(|s| {
        for _ in 0..8 {
            s.spawn(|| {
                barrier.wait();
                let value = once.get_or_init(|| {
                    made.fetch_add(1, Relaxed);
                    thread::yield_now();
                    Box::new(7)
                });
                assert_eq!(**value, 7);
            });
        }
    });
    assert_eq!(made.into_inner(), 1);
    assert_eq!(once.into_inner(), Some(Box::new(7)));
}

#[test]
fn a_panic_leaves_it_empty_for_the_next() {
    let once = OnceLock::new();
    let panics =
        || catch_unwind(AssertUnwindSafe(|| _ = once.get_or_init(|| panic!("on purpose"))));
    assert!(panics().is_err() && panics().is_err());
    assert_eq!(once.get(), None);
    assert_eq!(once.set(1), Ok(()));
    assert_eq!(*once.get_or_init(|| unreachable!()), 1);
    let lazy = LazyLock::new(|| -> u32 { panic!("on purpose") });
    for _ in 0..2 {
        assert!(catch_unwind(AssertUnwindSafe(|| *lazy)).is_err());
    }
}

#[test]
fn who_asks_for_what_it_makes_is_told_so() {
    let once = OnceLock::<u32>::new();
    let ask = || catch_unwind(AssertUnwindSafe(|| *once.get_or_init(|| 2)));
    let value = once.get_or_init(|| {
        assert!(ask().is_err());
        let _foreign = strand::enter_foreign(); // what a thread takes on while it waits
        assert!(ask().is_err());
        let _deeper = strand::enter_foreign();
        assert!(ask().is_err());
        1
    });
    assert_eq!(*value, 1);
}

#[test]
fn two_that_ask_for_each_other_are_told_so_and_one_goes_on() {
    let (a, b, barrier) = (OnceLock::new(), OnceLock::new(), Barrier::new(2));
    let make = |mine: &OnceLock<u32>, other: &OnceLock<u32>| {
        *mine.get_or_init(|| {
            barrier.wait();
            let asked = || catch_unwind(AssertUnwindSafe(|| *other.get_or_init(|| 1)));
            // On top of what makes the value, as a task that is waited for.
            let _foreign = strand::enter_foreign();
            asked().unwrap_or(10) + 1
        })
    };
    let (x, y) = thread::scope(|s| {
        let other = s.spawn(|| make(&b, &a));
        (make(&a, &b), other.join().unwrap())
    });
    assert_eq!((x.min(y), x.max(y)), (11, 12), "one was told, the other has waited");
}
