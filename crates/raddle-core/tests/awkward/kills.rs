//! Kills of what is awkward to kill.

use raddle_core::{Future, Killed, Promise};

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
