//! Interrupts against what changes where they are to go: linking, compression, completing. An interrupt that
//! found the source pending has reached it when both threads are done, once, wherever they met.

use std::sync::Arc;

use raddle_sync::atomic::{AtomicBool, Ordering};
use raddle_sync::thread;

use crate::future::{FailureKind, Future, Promise};
use crate::models::check;
use crate::models::future::{End, Stage, Token, done, number, play};

/// What is set up: a promise that the other thread uses up, the source, which stays pending
/// meanwhile, and the future that is made of both.
struct Scene {
    /// What the other thread does.
    moves: Box<dyn FnOnce() + Send>,
    source: Promise<Token>,
    future: Future<Token>,
    /// What is kept until the end.
    rest: Vec<Future<Token>>,
}

/// The scene's moves against interrupts of its future, all of which reach the source: one thread for each
/// list.
fn race(
    preemptions: usize,
    handler: bool,
    scene: fn(&Stage, bool) -> Scene,
    signals: &'static [u32],
) {
    check(preemptions, move || {
        play(|stage| {
            let Scene { moves, source, future, rest } = scene(stage, handler);
            let mover = thread::spawn(moves);
            for &signal in signals {
                stage.interrupt(&future, signal);
            }
            mover.join().unwrap();
            assert_eq!(source.interrupted().as_ref().map(number), signals.last().copied());
            if handler {
                let heard = stage.heard();
                assert_eq!(heard.last(), signals.last(), "the latest is heard last");
                assert!(heard.len() <= signals.len(), "{heard:?}: none twice");
            }
            source.set(stage.value(7));
            assert!(matches!(done(future), End::Value(7 | 8)));
            drop(rest);
        });
    });
}

fn always(scene: fn(&Stage, bool) -> Scene) {
    race(3, false, scene, &[1]);
    race(3, true, scene, &[1]);
}

/// A promise is linked to the source.
fn link(stage: &Stage, handler: bool) -> Scene {
    let (outer, future) = Promise::new();
    let (source, pending) = stage.promise(handler);
    Scene { moves: Box::new(move || outer.link(pending)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_link() {
    always(link);
}

#[test]
fn two_interrupts_against_a_link() {
    race(3, true, link, &[1, 2]);
}

/// As `link`; it is a future made of the promise's that is interrupted.
fn link_behind_a_map(stage: &Stage, handler: bool) -> Scene {
    let mut scene = link(stage, handler);
    scene.future = scene.future.map(stage.step());
    scene
}

#[test]
fn an_interrupt_of_a_map_against_a_link() {
    always(link_behind_a_map);
}

/// As `link`, and the source is behind an operation.
fn link_to_a_map(stage: &Stage, handler: bool) -> Scene {
    let (outer, future) = Promise::new();
    let (source, pending) = stage.promise(handler);
    let pending = pending.map(stage.step());
    Scene { moves: Box::new(move || outer.link(pending)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_link_to_a_map() {
    always(link_to_a_map);
}

/// A `flat_map` whose closure returns the source's future.
fn flat_map(stage: &Stage, handler: bool) -> Scene {
    let (outer, future) = Promise::new();
    let (source, pending) = stage.promise(handler);
    let value = stage.value(1);
    let future = future.flat_map(stage.to(pending));
    Scene { moves: Box::new(move || outer.set(value)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_closure_that_returns_a_future() {
    always(flat_map);
}

#[test]
fn two_interrupts_against_a_closure_that_returns_a_future() {
    race(3, true, flat_map, &[1, 2]);
}

/// A `flat_map` on a `flat_map` that is done: both and their source are freed when the first is linked.
fn second_flat_map(stage: &Stage, handler: bool) -> Scene {
    let (outer, future) = Promise::new();
    let (source, pending) = stage.promise(handler);
    let value = stage.value(1);
    let ready = Future::ready(stage.value(2));
    let future = future.flat_map(stage.to(ready)).flat_map(stage.to(pending));
    Scene { moves: Box::new(move || outer.set(value)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_the_second_of_two_closures() {
    always(second_flat_map);
}

/// As `second_flat_map`, but on a promise that was linked, whose own parts go as well.
fn flat_map_on_a_link(stage: &Stage, handler: bool) -> Scene {
    let ((outer, future), (inner, linked)) = (Promise::new(), Promise::new());
    let (source, pending) = stage.promise(handler);
    outer.link(linked);
    let value = stage.value(1);
    let future = future.flat_map(stage.to(pending));
    Scene { moves: Box::new(move || inner.set(value)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_closure_on_what_was_linked() {
    always(flat_map_on_a_link);
}

/// The closure's future is itself a `flat_map`, which is linked the moment that its own closure returns: the
/// second is attached over the first.
fn tail(stage: &Stage, handler: bool) -> Scene {
    let ((first, outer), (second, inner)) = (Promise::new(), Promise::new());
    let (source, pending) = stage.promise(handler);
    let inner = inner.flat_map(stage.to(pending));
    let future = outer.flat_map(stage.to(inner));
    first.set(stage.value(1));
    let value = stage.value(2);
    Scene { moves: Box::new(move || second.set(value)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_compression() {
    always(tail);
}

#[test]
fn two_interrupts_against_a_compression() {
    race(3, true, tail, &[1, 2]);
}

/// As `tail`, and both steps happen.
fn tail_twice(stage: &Stage, handler: bool) -> Scene {
    let ((first, outer), (second, inner)) = (Promise::new(), Promise::new());
    let (source, pending) = stage.promise(handler);
    let inner = inner.flat_map(stage.to(pending));
    let future = outer.flat_map(stage.to(inner));
    let (one, two) = (stage.value(1), stage.value(2));
    let moves = Box::new(move || {
        first.set(one);
        second.set(two);
    });
    Scene { moves, source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_two_links() {
    always(tail_twice);
}

/// Promises that are linked one to the other: the second link goes over the first.
fn chain_of_links(stage: &Stage, handler: bool) -> Scene {
    let ((first, future), (second, inner)) = (Promise::new(), Promise::new());
    let (source, pending) = stage.promise(handler);
    first.link(inner);
    Scene { moves: Box::new(move || second.link(pending)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_second_link() {
    always(chain_of_links);
}

/// As `tail`, but the closures of the middle have run before the outer one's: the last of three goes over two.
fn tail_from_the_inside(stage: &Stage, handler: bool) -> Scene {
    let ((first, outer), (second, middle)) = (Promise::new(), Promise::new());
    let (third, inner) = Promise::new();
    let (source, pending) = stage.promise(handler);
    let inner = inner.flat_map(stage.to(pending));
    let middle = middle.flat_map(stage.to(inner));
    let future = outer.flat_map(stage.to(middle));
    second.set(stage.value(1));
    first.set(stage.value(2));
    let value = stage.value(3);
    Scene { moves: Box::new(move || third.set(value)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_compression_of_two() {
    always(tail_from_the_inside);
}

#[test]
fn two_interrupts_against_a_compression_of_two() {
    race(1, true, tail_from_the_inside, &[1, 2]);
}

/// As `chain_of_links`, over two.
fn links_from_the_inside(stage: &Stage, handler: bool) -> Scene {
    let ((first, future), (second, middle)) = (Promise::new(), Promise::new());
    let (third, inner) = Promise::new();
    let (source, pending) = stage.promise(handler);
    second.link(inner);
    first.link(middle);
    Scene { moves: Box::new(move || third.link(pending)), source, future, rest: vec![] }
}

#[test]
fn an_interrupt_against_a_third_link() {
    always(links_from_the_inside);
}

#[test]
fn two_interrupts_against_a_third_link() {
    race(2, true, links_from_the_inside, &[1, 2]);
}

// --- early signals ---

/// The future that a closure returns was interrupted before, and then becomes another one.
fn early(stage: &Stage, handler: bool) -> Scene {
    let ((first, outer), (second, inner)) = (Promise::new(), Promise::new());
    let (source, pending) = stage.promise(handler);
    let inner = inner.flat_map(stage.to(pending));
    stage.interrupt(&inner, 1);
    let future = outer.flat_map(stage.to(inner));
    first.set(stage.value(1));
    let value = stage.value(2);
    Scene { moves: Box::new(move || second.set(value)), source, future, rest: vec![] }
}

/// As `early`, with promises.
fn early_link(stage: &Stage, handler: bool) -> Scene {
    let ((first, future), (second, inner)) = (Promise::new(), Promise::new());
    let (source, pending) = stage.promise(handler);
    stage.interrupt(&inner, 1);
    first.link(inner);
    Scene { moves: Box::new(move || second.link(pending)), source, future, rest: vec![] }
}

/// Nobody interrupts but who did so early; the signal is kept for what comes.
fn early_signal(scene: fn(&Stage, bool) -> Scene) {
    for handler in [false, true] {
        check(3, move || {
            play(|stage| {
                let Scene { moves, source, future, rest } = scene(stage, handler);
                let mover = thread::spawn(moves);
                drop(rest);
                drop(future);
                mover.join().unwrap();
                let heard = source.interrupted().as_ref().map(number);
                // Whatever is dropped before it is linked says nothing any more.
                assert!(source.is_abandoned() || heard == Some(1), "{heard:?}");
                source.set(stage.value(7));
            });
        });
    }
}

#[test]
fn a_drop_against_a_compression_after_an_early_signal() {
    early_signal(early);
}

#[test]
fn a_drop_against_a_second_link_after_an_early_signal() {
    early_signal(early_link);
}

#[test]
fn an_early_signal_goes_on_when_links_are_compressed() {
    for scene in [early, early_link] {
        for handler in [false, true] {
            check(1, move || {
                play(|stage| {
                    let Scene { moves, source, future, rest } = scene(stage, handler);
                    moves();
                    assert_eq!(source.interrupted().as_ref().map(number), Some(1));
                    assert_eq!(stage.heard(), if handler { vec![1] } else { vec![] });
                    source.set(stage.value(7));
                    assert_eq!(done(future), End::Value(7));
                    drop(rest);
                });
            });
        }
    }
}

/// A future that was masked stays so, also when another one is attached in its place.
#[test]
fn an_interrupt_against_the_compression_of_what_is_masked() {
    check(3, || {
        play(|stage| {
            let ((first, outer), (second, inner)) = (Promise::new(), Promise::new());
            let (source, pending) = stage.promise(true);
            let inner = inner.flat_map(stage.to(pending)).masked();
            let future = outer.flat_map(stage.to(inner));
            first.set(stage.value(1));
            let value = stage.value(2);
            let mover = thread::spawn(move || second.set(value));
            stage.interrupt(&future, 1);
            mover.join().unwrap();
            assert!(source.interrupted().is_none() && stage.heard().is_empty());
            source.set(stage.value(7));
            assert_eq!(done(future), End::Value(7));
        });
    });
}

// --- against the end of the source ---

/// A closure's future, or a link, against the completion of the source behind it.
fn ends(preemptions: usize, link: fn(&Stage, Promise<Token>, Future<Token>)) {
    for handler in [false, true] {
        for interrupts in [false, true] {
            check(preemptions, move || {
                play(|stage| {
                    let (outer, future) = Promise::new();
                    let (source, pending) = stage.promise(handler);
                    if interrupts {
                        stage.interrupt(&future, 1);
                    }
                    let value = stage.value(7);
                    let other = thread::spawn(move || source.set(value));
                    link(stage, outer, pending);
                    other.join().unwrap();
                    assert_eq!(done(future), End::Value(7));
                    let heard = stage.heard();
                    let most = usize::from(handler && interrupts);
                    assert!(heard.len() <= most, "{heard:?}");
                });
            });
        }
    }
}

#[test]
fn a_completion_against_a_link_after_an_early_signal() {
    ends(3, |_, outer, pending| outer.link(pending));
}

#[test]
fn a_completion_against_a_second_link() {
    ends(3, |_, outer, pending| {
        let (second, inner) = Promise::new();
        outer.link(inner);
        second.link(pending);
    });
}

#[test]
fn a_completion_against_a_second_link_after_an_interrupt() {
    check(3, || {
        play(|stage| {
            let ((first, future), (second, inner)) = (Promise::new(), Promise::new());
            let (source, pending) = stage.promise(true);
            first.link(inner);
            let value = stage.value(7);
            let other = thread::spawn(move || source.set(value));
            stage.interrupt(&future, 1);
            second.link(pending);
            stage.interrupt(&future, 2);
            other.join().unwrap();
            assert_eq!(done(future), End::Value(7));
        });
    });
}

/// A killed future and a promise that is linked.
#[test]
fn a_link_against_a_kill() {
    for masked in [false, true] {
        check(3, move || {
            play(|stage| {
                let (outer, future) = Promise::new();
                let future = if masked { future.masked() } else { future };
                let (source, pending) = stage.promise(true);
                let other = thread::spawn(move || outer.link(pending));
                future.kill();
                assert_eq!(done(future), End::Failed(FailureKind::Killed));
                other.join().unwrap();
                // Kills pass masks.
                let heard = stage.heard();
                assert!(heard.len() <= 1, "{heard:?}");
                source.set(stage.value(7));
            });
        });
    }
}

/// What a closure returned is never done, and nobody can go where what led there was.
#[test]
fn an_interrupt_against_a_closure_that_returns_never() {
    check(3, || {
        play(|stage| {
            let (outer, future) = Promise::new();
            let future = future.flat_map(stage.to(Future::never()));
            let value = stage.value(1);
            let other = thread::spawn(move || outer.set(value));
            future.interrupt("stop");
            other.join().unwrap();
            future.interrupt("stop");
            assert!(!future.is_done());
        });
    });
}

/// Two threads interrupt one future: one signal after the other, and the handler is called by one
/// at a time, with the latest last.
#[test]
fn two_interrupts_at_once() {
    check(3, || {
        play(|stage| {
            let (promise, future) = stage.promise(true);
            let future = Arc::new(future.map(stage.step()));
            let other = {
                let (future, stage) = (Arc::clone(&future), stage.clone());
                thread::spawn(move || {
                    stage.interrupt(&future, 2);
                    drop(future);
                })
            };
            stage.interrupt(&future, 1);
            other.join().unwrap();
            let last = promise.interrupted().as_ref().map(number);
            let heard = stage.heard();
            assert!(matches!(heard[..], [_] | [1, 2] | [2, 1]), "{heard:?}");
            assert_eq!(heard.last().copied(), last, "the latest is heard last");
            promise.set(stage.value(7));
            let future = Arc::into_inner(future).unwrap();
            assert_eq!(done(future), End::Value(8));
        });
    });
}

/// Who knows that a closure has the value does not come to the handler of the promise.
#[test]
fn an_interrupt_after_the_promise_is_completed() {
    check(3, || {
        play(|stage| {
            let (promise, future) = stage.promise(true);
            let begun = Arc::new(AtomicBool::new(false));
            let begins = Arc::clone(&begun);
            let future = future.map(move |value: Token| {
                begins.store(true, Ordering::Release);
                value.next()
            });
            let value = stage.value(7);
            let other = thread::spawn(move || promise.set(value));
            let late = begun.load(Ordering::Acquire);
            stage.interrupt(&future, 1);
            other.join().unwrap();
            assert!(!late || stage.heard().is_empty(), "it has the value already");
            assert_eq!(done(future), End::Value(8));
        });
    });
}
