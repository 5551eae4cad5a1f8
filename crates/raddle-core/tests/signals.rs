//! Where interrupts go when futures are made of futures, step by step: the races are in the models.

use std::sync::{Arc, Mutex};

use raddle_core::{FailureKind, Future, Interrupt, Killed, Promise};

/// A promise that writes down what it hears.
fn listener() -> (Promise<u32>, Future<u32>, Arc<Mutex<Vec<String>>>) {
    let heard = Arc::new(Mutex::new(Vec::new()));
    let (promise, future) = Promise::with_interrupt({
        let heard = Arc::clone(&heard);
        move |signal: Interrupt| heard.lock().unwrap().push(signal.to_string())
    });
    (promise, future, heard)
}

fn heard(promise: &Promise<u32>) -> Option<String> {
    promise.interrupted().map(|signal| signal.to_string())
}

#[test]
fn an_interrupt_of_a_flat_map_reaches_a_promise_without_handler() {
    let (promise, future) = Promise::<u32>::new();
    let derived = future.flat_map(|_| Future::never());
    derived.interrupt("stop");
    assert_eq!(heard(&promise).as_deref(), Some("stop"));
    drop(derived.map(|n: u32| n));
    promise.set(1);
}

#[test]
fn an_interrupt_before_the_closure_reaches_the_future_that_it_returns() {
    let (outer, future) = Promise::<()>::new();
    let (inner, pending, signals) = listener();
    let derived = future.flat_map(|()| pending);
    derived.interrupt("early");
    assert!(heard(&inner).is_none());
    outer.set(());
    assert_eq!(*signals.lock().unwrap(), ["early"]);
    inner.set(7);
    assert_eq!(derived.wait().unwrap(), 7);
}

/// The second link goes over the first, and the signal that waited in between goes on.
#[test]
fn a_signal_that_waits_in_the_middle_goes_on_when_links_are_compressed() {
    let ((first, outer), (second, middle)) = (Promise::<()>::new(), Promise::<()>::new());
    let (source, pending, signals) = listener();
    let middle = middle.flat_map(|()| pending);
    middle.interrupt("early");
    let future = outer.flat_map(|()| middle);
    first.set(());
    second.set(());
    assert_eq!(*signals.lock().unwrap(), ["early"]);
    source.set(7);
    assert_eq!(future.wait().unwrap(), 7);
}

#[test]
fn a_signal_that_waits_at_a_promise_goes_on_when_it_is_linked() {
    let ((first, future), (second, middle)) = (Promise::new(), Promise::new());
    let (source, pending, signals) = listener();
    middle.interrupt("early");
    first.link(middle);
    second.link(pending);
    assert_eq!(*signals.lock().unwrap(), ["early"]);
    source.set(7);
    assert_eq!(future.wait().unwrap(), 7);
}

#[test]
fn what_is_masked_stays_so_when_links_are_compressed() {
    let ((first, outer), (second, middle)) = (Promise::<()>::new(), Promise::<()>::new());
    let (source, pending, signals) = listener();
    let middle = middle.flat_map(|()| pending).masked();
    let future = outer.flat_map(|()| middle);
    first.set(());
    second.set(());
    future.interrupt("stop");
    assert!(signals.lock().unwrap().is_empty());
    source.set(7);
    assert_eq!(future.wait().unwrap(), 7);
}

/// What the closure's own future was made of is gone then.
#[test]
fn an_interrupt_after_a_closure_that_returned_never_goes_nowhere() {
    let (promise, future) = Promise::<u32>::new();
    let derived = future.flat_map(|_| Future::<u32>::never());
    promise.set(1);
    derived.interrupt("stop");
    assert!(!derived.is_done());
    // Nobody would complete it, and nobody does: the node stays.
    assert_eq!(derived.kill(), Killed::BeforeStart);
}

#[test]
fn a_promise_can_be_linked_after_its_masked_future_was_killed() {
    let (promise, future) = Promise::<u32>::new();
    let (source, pending, signals) = listener();
    let future = future.masked();
    assert_eq!(future.kill(), Killed::BeforeStart);
    promise.link(pending);
    assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Killed);
    // Kills pass masks, and go on to what is linked later.
    assert_eq!(signals.lock().unwrap().len(), 1);
    source.set(1);
}

/// A closure that returns a future which waits for the closure's own, and was interrupted: not a hang.
#[test]
fn an_interrupted_future_that_becomes_one_made_of_it_ends() {
    let place = Arc::new(Mutex::new(None::<Future<u32>>));
    let (promise, future) = Promise::<u32>::new();
    let own = Arc::clone(&place);
    let derived = future.flat_map(move |_| own.lock().unwrap().take().unwrap()).map(|n| n + 1);
    derived.interrupt("stop");
    *place.lock().unwrap() = Some(derived);
    promise.set(1);
    assert!(place.lock().unwrap().is_none(), "taken by the closure");
}
