//! What handlers of interrupts may wait for.

use std::time::Duration;

use raddle_core::{FailureKind, Future, Promise};

use crate::support::{in_time, kind};

/// A promise whose handler waits for this future.
fn waits_for(done: Future<()>) -> (Promise<u32>, Future<u32>) {
    let mut done = Some(done);
    Promise::with_interrupt(move |_| done.take().unwrap().wait().unwrap())
}

/// What follows may be what the handler waits for.
#[test]
fn a_time_limit_holds_whatever_a_handler_waits_for() {
    in_time("a handler that waits for what follows", || {
        let (follows, done) = Promise::new();
        let (promise, future) = waits_for(done);
        let late = future.interrupt_after(Duration::from_millis(1)).map_result(move |result| {
            follows.set(());
            result
        });
        assert_eq!(kind(late.wait()), FailureKind::TimedOut);
        assert_eq!(promise.interrupted().unwrap().to_string(), "timed out");
    });
}
