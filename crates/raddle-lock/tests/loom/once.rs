//! Models of values that are made once.

use super::model;
use raddle_lock::OnceLock;
use raddle_sync::atomic::{AtomicU32, Ordering::Relaxed};
use raddle_sync::sync::Arc;
use raddle_sync::thread;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

#[derive(Default)]
struct Shared {
    once: OnceLock<u32>,
    /// How often the value was made.
    made: AtomicU32,
}

impl Shared {
    fn ask(&self) -> u32 {
        *self.once.get_or_init(|| {
            self.made.fetch_add(1, Relaxed);
            7
        })
    }

    /// Asks with an initialiser that panics, silently: the value, if another had made it.
    fn ask_badly(&self) -> Option<u32> {
        let panics = || resume_unwind(Box::new("on purpose"));
        catch_unwind(AssertUnwindSafe(|| *self.once.get_or_init(panics))).ok()
    }
}

#[test]
fn one_of_two_makes_it() {
    model(3, || {
        let shared = Arc::new(Shared::default());
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || other.ask());
        assert!(shared.once.get().is_none_or(|&value| value == 7));
        assert_eq!(shared.ask() + thread.join().unwrap(), 14);
        assert_eq!(shared.made.load(Relaxed), 1);
    });
}

#[test]
fn all_that_wait_are_woken() {
    model(2, || {
        let shared = Arc::new(Shared::default());
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let shared = Arc::clone(&shared);
                thread::spawn(move || shared.ask())
            })
            .collect();
        assert_eq!(shared.ask(), 7);
        for thread in threads {
            assert_eq!(thread.join().unwrap(), 7);
        }
        assert_eq!(shared.made.load(Relaxed), 1);
    });
}

#[test]
fn after_a_panic_one_of_those_that_wait_tries_again() {
    model(2, || {
        let shared = Arc::new(Shared::default());
        let (bad, good) = (Arc::clone(&shared), Arc::clone(&shared));
        let bad = thread::spawn(move || bad.ask_badly());
        let good = thread::spawn(move || good.ask());
        assert_eq!(shared.ask() + good.join().unwrap(), 14);
        assert!(bad.join().unwrap().is_none_or(|value| value == 7));
        assert_eq!(shared.made.load(Relaxed), 1);
    });
}

#[test]
fn one_that_sets_it_and_one_that_makes_it_agree() {
    model(3, || {
        let shared = Arc::new(Shared::default());
        let other = Arc::clone(&shared);
        let thread = thread::spawn(move || other.once.set(8).is_ok());
        let value = shared.ask();
        let set = thread.join().unwrap();
        assert_eq!((value, shared.made.load(Relaxed)), if set { (8, 0) } else { (7, 1) });
    });
}
