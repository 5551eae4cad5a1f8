//! Two threads: what a producer may do against what a consumer may do, each with each.

use std::time::Duration;

use raddle_sync::thread;
use raddle_sync::time::let_expire;

use crate::future::{Failure, FailureKind, Future, Killed, Promise};
use crate::models::check;
use crate::models::future::{End, Stage, Token, Watcher, done, end, play};

/// What a producer does, on a thread of its own.
type Producer = fn(Promise<Token>, &Stage);

const VALUE: End = End::Value(7);
const FAILED: End = End::Failed(FailureKind::Error);

const PRODUCERS: &[(Producer, End)] = &[
    (|promise, stage| promise.set(stage.value(7)), VALUE),
    (|promise, stage| promise.fail(stage.signal(7)), FAILED),
    (|promise, _| drop(promise), End::Failed(FailureKind::Broken)),
    (links, VALUE),
];

fn links(promise: Promise<Token>, stage: &Stage) {
    let (inner, future) = Promise::new();
    promise.link(future);
    inner.set(stage.value(7));
}

/// What a consumer has in the end.
enum Left {
    Nothing,
    Has(End),
    /// To be done when the producer has been joined.
    Keeps(Future<Token>),
}

/// What comes of how the source ended.
type Expect = fn(End) -> End;

/// All producers, with a handler and without, against a consumer.
fn race(
    preemptions: usize,
    consumer: fn(Future<Token>, &Stage) -> Left,
    expect: Expect,
    also: fn(&Stage, End),
) {
    race_with(PRODUCERS, preemptions, consumer, expect, also);
}

/// As `race`, with those who bring a value: for the larger models.
fn race_for_a_value(
    preemptions: usize,
    consumer: fn(Future<Token>, &Stage) -> Left,
    expect: Expect,
    also: fn(&Stage, End),
) {
    race_with(&[PRODUCERS[0], PRODUCERS[3]], preemptions, consumer, expect, also);
}

fn race_with(
    producers: &[(Producer, End)],
    preemptions: usize,
    consumer: fn(Future<Token>, &Stage) -> Left,
    expect: Expect,
    also: fn(&Stage, End),
) {
    for &(producer, source) in producers {
        for handler in [false, true] {
            check(preemptions, move || {
                play(|stage| {
                    let (promise, future) = stage.promise(handler);
                    let producer = {
                        let stage = stage.clone();
                        thread::spawn(move || producer(promise, &stage))
                    };
                    let left = consumer(future, stage);
                    producer.join().unwrap();
                    match left {
                        Left::Nothing => {}
                        Left::Has(end) => assert_eq!(end, expect(source)),
                        Left::Keeps(future) => assert_eq!(done(future), expect(source)),
                    }
                    also(stage, source);
                });
            });
        }
    }
}

fn same(source: End) -> End {
    source
}

fn next(source: End) -> End {
    match source {
        End::Value(number) => End::Value(number + 1),
        failed @ End::Failed(_) => failed,
    }
}

fn nothing_else(_: &Stage, _: End) {}

/// Closures were called if there was a value, and not otherwise.
fn called_for_a_value(stage: &Stage, source: End) {
    assert_eq!(stage.called.count(), u32::from(source == VALUE), "closures called");
}

#[test]
fn a_completion_against_a_look_or_a_drop() {
    race(
        3,
        |future, _| if future.is_done() { Left::Has(done(future)) } else { Left::Nothing },
        same,
        nothing_else,
    );
}

#[test]
fn a_completion_against_a_map() {
    race(3, |future, stage| Left::Keeps(future.map(stage.step())), next, called_for_a_value);
}

#[test]
fn a_completion_against_a_map_that_is_dropped() {
    race(3, |future, stage| drop_it(future.map(stage.step())), next, called_for_a_value);
}

fn drop_it(future: Future<Token>) -> Left {
    drop(future);
    Left::Nothing
}

#[test]
fn a_completion_against_a_flat_map_to_what_is_ready() {
    race(
        3,
        |future, stage| Left::Keeps(future.flat_map(stage.to(Future::ready(stage.value(8))))),
        next,
        called_for_a_value,
    );
}

#[test]
fn a_completion_against_a_flat_map_to_what_is_pending() {
    race(
        3,
        |future, stage| {
            let (inner, pending) = stage.promise(false);
            let derived = future.flat_map(stage.to(pending));
            inner.set(stage.value(8));
            Left::Keeps(derived)
        },
        next,
        called_for_a_value,
    );
}

#[test]
fn a_completion_against_a_flat_map_that_is_dropped() {
    race(
        3,
        |future, stage| {
            let (inner, pending) = stage.promise(false);
            drop(future.flat_map(stage.to(pending)));
            inner.set(stage.value(8));
            Left::Nothing
        },
        next,
        called_for_a_value,
    );
}

#[test]
fn a_completion_against_a_wait() {
    race(2, |future, _| Left::Has(end(future.wait())), same, nothing_else);
}

#[test]
fn a_completion_against_a_wait_that_gives_up() {
    race(
        2,
        |future, _| match future.wait_timeout(Duration::ZERO) {
            Ok(result) => Left::Has(end(result)),
            Err(future) => Left::Keeps(future),
        },
        same,
        nothing_else,
    );
}

/// Waits for long, which may be over while the thread sleeps.
fn wait_in_time(future: Future<Token>) -> Result<Result<Token, Failure>, Future<Token>> {
    let clock = let_expire(1);
    let result = future.wait_timeout(Duration::from_secs(1 << 20));
    clock.join().unwrap();
    result
}

#[test]
fn a_completion_against_a_wait_that_gives_up_as_it_sleeps() {
    race(
        2,
        |future, _| match wait_in_time(future) {
            Ok(result) => Left::Has(end(result)),
            Err(future) => Left::Keeps(future),
        },
        same,
        nothing_else,
    );
}

#[test]
fn a_completion_against_a_wait_that_gives_up_and_a_drop() {
    race_for_a_value(
        2,
        |future, _| {
            drop(future.wait_timeout(Duration::ZERO));
            Left::Nothing
        },
        same,
        nothing_else,
    );
}

#[test]
fn a_completion_against_a_wait_that_gives_up_and_a_map() {
    race_for_a_value(
        2,
        |future, stage| match future.wait_timeout(Duration::ZERO) {
            Ok(result) => Left::Has(end(result.map(stage.step()))),
            Err(future) => Left::Keeps(future.map(stage.step())),
        },
        next,
        called_for_a_value,
    );
}

/// A handler was called with this, or it came too late.
fn heard_once(stage: &Stage, _: End) {
    let heard = stage.heard();
    assert!(matches!(heard[..], [] | [1]), "{heard:?}");
}

#[test]
fn a_completion_against_an_interrupt() {
    race(
        3,
        |future, stage| {
            stage.interrupt(&future, 1);
            Left::Keeps(future)
        },
        same,
        heard_once,
    );
}

#[test]
fn a_completion_against_an_interrupt_and_a_drop() {
    race(
        3,
        |future, stage| {
            stage.interrupt(&future, 1);
            drop_it(future)
        },
        same,
        heard_once,
    );
}

#[test]
fn a_completion_against_an_interrupt_and_a_map() {
    race(
        2,
        |future, stage| {
            stage.interrupt(&future, 1);
            Left::Keeps(future.map(stage.step()))
        },
        next,
        heard_once,
    );
}

#[test]
fn a_completion_against_two_interrupts_the_second_of_which_wins() {
    race(
        2,
        |future, stage| {
            stage.interrupt(&future, 1);
            stage.interrupt(&future, 2);
            Left::Keeps(future)
        },
        same,
        |stage, _| {
            let heard = stage.heard();
            assert!(matches!(heard[..], [] | [1] | [1, 2]), "{heard:?}");
        },
    );
}

#[test]
fn a_completion_against_an_interrupt_of_a_map() {
    race(
        3,
        |future, stage| {
            let derived = future.map(stage.step());
            stage.interrupt(&derived, 1);
            Left::Keeps(derived)
        },
        next,
        heard_once,
    );
}

#[test]
fn a_completion_against_an_interrupt_of_a_flat_map() {
    race(
        2,
        |future, stage| {
            let derived = future.flat_map(stage.to(Future::ready(stage.value(8))));
            stage.interrupt(&derived, 1);
            Left::Keeps(derived)
        },
        next,
        heard_once,
    );
}

/// What was killed ends so, or came to its end before.
fn killed(future: Future<Token>) -> Left {
    match future.kill() {
        Killed::TooLate => Left::Keeps(future),
        Killed::BeforeStart => {
            assert_eq!(done(future), End::Failed(FailureKind::Killed));
            Left::Nothing
        }
        Killed::WhileRunning => unreachable!("there are no tasks"),
    }
}

fn heard_the_kill(stage: &Stage, _: End) {
    let heard = stage.heard();
    assert!(matches!(heard[..], [] | [0]), "{heard:?}");
}

#[test]
fn a_completion_against_a_kill() {
    race(2, |future, _| killed(future), same, heard_the_kill);
}

#[test]
fn a_completion_against_a_kill_through_a_mask() {
    race(3, |future, _| killed(future.masked()), same, heard_the_kill);
}

#[test]
fn a_completion_against_a_kill_of_a_map() {
    race(2, |future, stage| killed(future.map(stage.step())), next, heard_the_kill);
}

#[test]
fn a_completion_against_a_kill_of_a_flat_map() {
    race_for_a_value(
        1,
        |future, stage| {
            let (inner, pending) = stage.promise(false);
            let left = killed(future.flat_map(stage.to(pending)));
            inner.set(stage.value(8));
            left
        },
        next,
        heard_the_kill,
    );
}

/// Watches, and leaves.
fn watched(future: Future<Token>, stage: &Stage, between: fn(&Future<Token>, &Stage)) -> Left {
    let watches = Watcher::watch(stage, &future);
    between(&future, stage);
    if !watches || Watcher::leave(&future) {
        stage.not_told.add();
    }
    Left::Keeps(future)
}

/// A watcher was told, or it left.
fn told_or_not(stage: &Stage, _: End) {
    assert_eq!(stage.told.count() + stage.not_told.count(), 1, "told, or not");
}

#[test]
fn a_completion_against_a_watcher_that_leaves() {
    race(3, |future, stage| watched(future, stage, |_, _| ()), same, told_or_not);
}

#[test]
fn a_completion_against_an_interrupt_of_what_is_watched() {
    race(
        2,
        |future, stage| watched(future, stage, |future, stage| stage.interrupt(future, 1)),
        same,
        told_or_not,
    );
}

#[test]
fn a_completion_against_an_interrupt_and_a_watcher() {
    race(
        2,
        |future, stage| {
            stage.interrupt(&future, 1);
            watched(future, stage, |_, _| ())
        },
        same,
        told_or_not,
    );
}

#[test]
fn a_completion_against_a_kill_of_what_is_watched() {
    race(
        2,
        |future, stage| {
            if !Watcher::watch(stage, &future) {
                stage.not_told.add();
            }
            killed(future)
        },
        same,
        told_or_not,
    );
}
