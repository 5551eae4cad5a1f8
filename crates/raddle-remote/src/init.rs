//! [`init`] and [`init_tests!`](crate::init_tests): how a copy of this program becomes a worker.

#![allow(
    clippy::needless_doctest_main,
    clippy::test_attr_in_doctest,
    reason = "where it belongs is what the examples show"
)]

use std::sync::atomic::{AtomicBool, Ordering};

#[cfg(target_os = "linux")]
use crate::{image::Image, worker};

static DONE: AtomicBool = AtomicBool::new(false);

/// Makes this process a worker if another one of this program has started it to be one; then it never returns.
///
/// The first thing in `main`, before arguments are read or threads are started: what comes before it runs in every worker.
/// Without it an [`Env`](crate::Env) of processes is refused with
/// [`RemoteError::NotInitialised`](crate::RemoteError::NotInitialised), and nothing is started.
///
/// ```
/// fn main() {
///     raddle::remote::init();
///     let sum = raddle::remote::spawn(|(a, b)| a + b, (1, 2));
///     assert_eq!(sum.wait().unwrap(), 3);
/// }
/// ```
pub fn init() {
    #[cfg(target_os = "linux")]
    if worker::is_wanted() {
        worker::main();
    }
    set_done();
}

pub(crate) fn set_done() {
    // ORD: Release pairs with the Acquire in `is_done`; nothing but the flag is told.
    DONE.store(true, Ordering::Release);
}

/// What this program is started with to be a worker, besides the token; none if it would not become one.
#[cfg(target_os = "linux")]
pub(crate) fn arguments() -> Option<&'static [&'static str]> {
    // ORD: Acquire pairs with the Release in `set_done`.
    if DONE.load(Ordering::Acquire) {
        // A worker of tests was started so itself.
        return match has_tests() {
            true => Some(TEST),
            false => Some(&[]),
        };
    }
    // A process that was started as a worker and is not: no `init` comes first in its `main`.
    (!worker::is_wanted() && has_tests()).then_some(TEST)
}

/// The harness of libtest is to run one test, the one that [`init_tests!`](crate::init_tests) makes, on its main thread.
const TEST: &[&str] = &["raddle_remote_worker", "--nocapture", "--test-threads=1", "--quiet"];

/// What [`init_tests!`](crate::init_tests) leaves in a program, by which a driver knows that it can be started as a worker. That
/// in this library is the other way round, so that it is found in programs only that use the macro.
const REVERSED: [u8; 32] = *b"21.10.reteba.rekrow.stset.elddar";

/// See [`init_tests!`](crate::init_tests).
#[doc(hidden)]
#[derive(Debug)]
#[repr(C, align(32))]
pub struct Mark(pub [u8; 32]);

#[cfg(target_os = "linux")]
fn has_tests() -> bool {
    static FOUND: std::sync::OnceLock<bool> = std::sync::OnceLock::new();
    *FOUND.get_or_init(|| {
        let mut wanted = std::hint::black_box(REVERSED);
        wanted.reverse();
        Image::get().has_constant(&wanted)
    })
}

/// See [`init_tests!`](crate::init_tests).
#[doc(hidden)]
pub fn init_test(mark: &'static Mark) {
    std::hint::black_box(mark);
    init();
}

/// Once in a file of tests: makes the test `raddle_remote_worker`, as which this program is started to be a worker.
///
/// Tests have no `main` for [`init`](crate::init) to be the first in. When it runs as a test it does nothing.
///
/// ```
/// # // (An example is no test of libtest's.)
/// raddle::remote::init_tests!();
///
/// #[test]
/// fn sums() {
///     use raddle::remote::{Env, Plan};
///     let env = Env::new(Plan::processes(2)).unwrap();
///     assert_eq!(env.spawn(|(a, b)| a + b, (1, 2)).wait().unwrap(), 3);
/// }
/// ```
#[macro_export]
macro_rules! init_tests {
    () => {
        #[test]
        fn raddle_remote_worker() {
            static MARK: $crate::Mark = $crate::Mark(*b"raddle.tests.worker.abeter.01.12");
            $crate::init_test(&MARK);
        }
    };
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::{Env, Plan, RemoteError};

    /// These have no `init_tests!`: a worker of theirs would run all of them once more.
    #[test]
    fn tests_without_the_macro_start_nothing() {
        for plan in [Plan::processes(2), Plan::loopback(2)] {
            let refused = Env::new(plan);
            assert!(matches!(refused, Err(RemoteError::NotInitialised)), "{refused:?}");
        }
    }
}
