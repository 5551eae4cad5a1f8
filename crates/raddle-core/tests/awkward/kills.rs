//! Kills of what is awkward to kill.

use std::pin::Pin;
use std::task::{Context, Waker};
use std::time::Duration;

use raddle_core::{Future, Killed, Promise, collect, first, select, window};

use crate::{Bomb, assert_as_good_as_new, in_time};

#[test]
fn a_fallback_that_nobody_wants_any_more_may_panic_as_it_is_dropped() {
    in_time(|| {
        let (promise, future) = Promise::<Bomb>::new();
        let either = future.or(Future::ready(Bomb));
        assert_eq!(either.kill(), Killed::BeforeStart);
        promise.fail("no");
        assert_as_good_as_new();
    });
}

#[test]
fn a_combination_that_was_polled_lets_its_inputs_go_when_it_is_killed() {
    fn check<T: Send + 'static>(what: &str, make: impl FnOnce(Future<u32>) -> Future<T>) {
        let (promise, future) = Promise::<u32>::new();
        let mut made = make(future);
        let mut context = Context::from_waker(Waker::noop());
        assert!(std::future::Future::poll(Pin::new(&mut made), &mut context).is_pending());
        assert_eq!(made.kill(), Killed::BeforeStart, "{what}");
        assert!(promise.is_abandoned(), "{what} holds on");
        drop(made);
        promise.set(1);
    }
    const LONG: Duration = Duration::from_secs(3600);
    in_time(|| {
        check("collect", |f| collect([f]));
        check("select", |f| select([f, Future::never()]));
        check("first", |f| first([f, Future::never()]));
        check("within", |f| f.within(LONG));
        check("interruptible", |f| f.interruptible());
        check("shared", |f| f.shared().future());
        check("window", |f| {
            let mut f = Some(f);
            window([1], 1, move |_| f.take().unwrap())
        });
        check("a combination of one", |f| collect([first([f])]));
        assert_as_good_as_new();
    });
}
