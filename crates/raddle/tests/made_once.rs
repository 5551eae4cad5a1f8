//! Values that are made once by code that forks, where what it waits for asks for the value. The first pool comes with the
//! first test, within the making of a value.

use raddle::lock::{LazyLock, OnceLock};
use raddle::{Future, Pool};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Barrier};
use std::thread;

/// The message of its panic.
fn message<R>(f: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(f)).err().expect("a panic");
    let text = panic.downcast_ref::<&str>().map(ToString::to_string);
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default()
}

const CIRCLE: &str = "asked for by what makes it";

/// The other half is stolen: both run at once.
fn both<R: Send>(pool: &Pool, other: impl FnOnce() -> R + Send) {
    let at_once = Barrier::new(2);
    pool.run(|_| {
        raddle::join(
            || _ = at_once.wait(),
            || {
                at_once.wait();
                _ = other();
            },
        );
    });
}

/// Hung: the thief waited for the maker, and the maker for the thief.
#[test]
fn a_stolen_half_of_what_makes_it_gets_a_panic() {
    static LAZY: LazyLock<u32> = LazyLock::new(|| {
        both(&Pool::builder().threads(2).build().unwrap(), || *LAZY);
        1
    });
    assert!(message(|| *LAZY).contains(CIRCLE));
    assert!(message(|| *LAZY).contains("has panicked"));

    let pool = Pool::builder().threads(2).build().unwrap();
    let once = OnceLock::new();
    let again = || once.get_or_init(|| 5_u32);
    let made = message(|| {
        once.get_or_init(|| {
            both(&pool, again);
            1
        })
    });
    assert!(made.contains(CIRCLE));
    assert_eq!(*again(), 5);
}

#[test]
fn a_task_of_a_scope_within_the_making_gets_a_panic() {
    let pool = Pool::builder().threads(2).build().unwrap();
    let once = OnceLock::new();
    let made = message(|| {
        once.get_or_init(|| {
            pool.scope(|s| s.spawn(|_| _ = once.get_or_init(|| 1)));
            2
        })
    });
    assert!(made.contains(CIRCLE), "{made}");
}

/// One makes `a`, and what it has forked wants `b`; another makes `b`, and what it has forked wants `a`.
#[test]
fn of_two_that_want_each_others_one_gets_a_panic() {
    let pools = [(); 2].map(|()| Pool::builder().threads(2).build().unwrap());
    let (a, b) = (OnceLock::new(), OnceLock::new());
    let begun = Barrier::new(2);
    let make = |mine: &OnceLock<u32>, other: &OnceLock<u32>, pool: &Pool| {
        let make = || {
            *mine.get_or_init(|| {
                begun.wait();
                both(pool, || *other.get_or_init(|| 7));
                1
            })
        };
        catch_unwind(AssertUnwindSafe(make))
    };
    thread::scope(|s| {
        let one = s.spawn(|| make(&a, &b, &pools[0]));
        let other = make(&b, &a, &pools[1]);
        let one = one.join().unwrap();
        // One of them gets the panic, is empty again, and what the other has forked makes its value.
        assert!(one.is_ok() != other.is_ok());
    });
    assert_eq!(a.get().unwrap() + b.get().unwrap(), 8);
}

/// What is only started may wait: the making does not wait for it.
#[test]
fn a_task_that_is_spawned_within_the_making_waits_for_the_value() {
    let pool = Pool::builder().threads(2).build().unwrap();
    static ONCE: OnceLock<u32> = OnceLock::new();
    let asks = Arc::new(Barrier::new(2));
    let mut task = None;
    ONCE.get_or_init(|| {
        let asks_too = Arc::clone(&asks);
        task = Some(pool.spawn(move || {
            asks_too.wait();
            *ONCE.get_or_init(|| 1)
        }));
        asks.wait();
        3
    });
    assert_eq!(task.map(Future::wait).unwrap().unwrap(), 3);
}
