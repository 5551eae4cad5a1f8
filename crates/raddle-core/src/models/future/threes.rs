//! Three threads, at random: what they do, and on what.

use std::time::Duration;

use raddle_sync::thread;
use shuttle::rand::{Rng, thread_rng};

use crate::future::{FailureKind, Future, Killed, Promise};
use crate::models::future::several::COMBINATIONS;
use crate::models::future::{End, Stage, Token, Watcher, done, end, number, play};

const ITERATIONS: usize = 20_000;

fn check(model: impl Fn(&Stage) + Send + Sync + 'static) {
    shuttle::check_random(move || play(&model), ITERATIONS);
}

pub(super) fn one_in(n: u32) -> bool {
    thread_rng().gen_range(0..n) == 0
}

pub(super) type Move = Box<dyn FnOnce() + Send>;

/// A future that becomes `next`, by way of one operation or another, when the move is made.
fn level(stage: &Stage, next: Future<Token>) -> (Move, Future<Token>) {
    let (promise, future) = stage.promise(one_in(4));
    let value = stage.value(1);
    let set: Move = Box::new(move || promise.set(value));
    let (moves, future) = match thread_rng().gen_range(0..5) {
        0 => (set, future.flat_map(stage.to(next))),
        1 => (set, future.map(stage.step()).flat_map(stage.to(next))),
        2 => {
            let ready = Future::ready(stage.value(2));
            (set, future.flat_map(stage.to(ready)).flat_map(stage.to(next)))
        }
        3 => {
            let (outer, linked) = Promise::new();
            outer.link(future);
            (set, linked.flat_map(stage.to(next)))
        }
        _ => {
            drop(set);
            let (promise, future) = Promise::new();
            (Box::new(move || promise.link(next)) as Move, future)
        }
    };
    (moves, if one_in(4) { future.map(stage.step()) } else { future })
}

/// Threads link what is upstream of a future that another one interrupts: the signals reach the
/// source.
fn links_and_interrupts(levels: u32) {
    check(move |stage| {
        let (source, future) = stage.promise(false);
        let mut future = if one_in(2) { future.map(stage.step()) } else { future };
        let mut moves = vec![];
        for _ in 0..levels {
            let (link, next) = level(stage, future);
            moves.push(link);
            future = next;
        }
        let others: Vec<_> = moves.into_iter().map(thread::spawn).collect();
        let signals = thread_rng().gen_range(1..3);
        for signal in 1..=signals {
            stage.interrupt(&future, signal);
        }
        for other in others {
            other.join().unwrap();
        }
        assert_eq!(source.interrupted().as_ref().map(number), Some(signals));
        source.set(stage.value(7));
        let most = 8 + levels;
        assert!(matches!(done(future), End::Value(sum) if (7..=most).contains(&sum)));
    });
}

#[test]
fn two_links_and_interrupts() {
    links_and_interrupts(2);
}

#[test]
fn three_links_and_interrupts() {
    links_and_interrupts(3);
}

/// As before, but the source is completed meanwhile by the thread that makes the second link.
#[test]
fn two_links_a_completion_and_interrupts() {
    check(|stage| {
        let (source, future) = stage.promise(one_in(2));
        let (second, future) = level(stage, future);
        let (first, future) = level(stage, future);
        let value = stage.value(7);
        let before = one_in(2);
        let others = [
            thread::spawn(first),
            thread::spawn(move || {
                if before {
                    source.set(value);
                    second();
                } else {
                    second();
                    source.set(value);
                }
            }),
        ];
        for signal in 1..=2 {
            stage.interrupt(&future, signal);
        }
        let ended = if one_in(2) { Some(end(future.wait())) } else { None };
        for other in others {
            other.join().unwrap();
        }
        assert!(matches!(ended, None | Some(End::Value(7..=10))));
    });
}

/// What a producer does; how its future ends.
fn produce(stage: &Stage, promise: Promise<Token>) -> (Move, End) {
    produce_after(stage, promise, |_| ())
}

/// As `produce`; just before it completes the promise, or one that this is linked to, it looks at that.
pub(super) fn produce_after(
    stage: &Stage,
    promise: Promise<Token>,
    look: impl Fn(&Promise<Token>) + Send + 'static,
) -> (Move, End) {
    let (value, signal) = (stage.value(7), stage.signal(7));
    let way = thread_rng().gen_range(0..4);
    let end = match way {
        1 => End::Failed(FailureKind::Error),
        2 => End::Failed(FailureKind::Broken),
        _ => End::Value(7),
    };
    let (inner, future) = stage.promise(false);
    let moves = move || {
        look(&promise);
        match way {
            0 => promise.set(value),
            1 => promise.fail(signal),
            2 => drop(promise),
            _ => {
                promise.link(future);
                look(&inner);
                inner.set(value);
            }
        }
    };
    (Box::new(moves), end)
}

/// What a consumer does until it has the result, or does not want it any more. False: it has killed it.
fn consume(stage: &Stage, mut future: Future<Token>, expected: End) -> bool {
    let was = |ended: End| {
        assert_eq!(ended, expected);
        true
    };
    for signal in 1.. {
        match thread_rng().gen_range(0..9) {
            0 => return true,
            1 => return was(end(future.wait())),
            2 => match future.wait_timeout(Duration::ZERO) {
                Ok(result) => return was(end(result)),
                Err(same) => future = same,
            },
            3 | 4 => stage.interrupt(&future, signal),
            5 => match future.kill() {
                Killed::TooLate => return was(done(future)),
                Killed::BeforeStart => {
                    assert_eq!(done(future), End::Failed(FailureKind::Killed));
                    return false;
                }
                Killed::WhileRunning => unreachable!("there are no tasks"),
            },
            6 => future = future.map_result(|result| result),
            7 => future = future.transform(Future::from),
            _ => {
                if Watcher::watch(stage, &future) {
                    if one_in(2) {
                        stage.interrupt(&future, signal);
                    }
                    Watcher::leave(&future);
                }
            }
        }
    }
    unreachable!("as many rounds as it takes")
}

/// The signals came in order, the latest last.
fn in_order(stage: &Stage) {
    let heard = stage.heard();
    let killed = heard.iter().position(|&signal| signal == 0).unwrap_or(heard.len());
    let (heard, rest) = heard.split_at(killed);
    assert!(heard.is_sorted_by(|a, b| a < b), "{heard:?}");
    assert!(rest.len() <= 1, "nobody is heard after the kill: {rest:?}");
}

/// Two producers, the second of a future that a closure returns, and a consumer.
#[test]
fn two_producers_and_a_consumer() {
    check(|stage| {
        let first_hears = one_in(2);
        let ((one, outer), (two, inner)) =
            (stage.promise(first_hears), stage.promise(!first_hears && one_in(2)));
        let ((first, one), (second, two)) = (produce(stage, one), produce(stage, two));
        let future = outer.flat_map(stage.to(inner));
        let expected = if let End::Value(_) = one { two } else { one };
        let others = [thread::spawn(first), thread::spawn(second)];
        let lives = consume(stage, future, expected);
        for other in others {
            other.join().unwrap();
        }
        in_order(stage);
        let (called, wanted) = (stage.called.count(), u32::from(matches!(one, End::Value(_))));
        assert!(called == wanted || called == 0 && !lives, "closures called");
    });
}

/// Two producers of a combination's inputs, and its consumer.
#[test]
fn two_producers_of_a_combination_and_a_consumer() {
    check(|stage| {
        let (combine, _) = COMBINATIONS[thread_rng().gen_range(0..COMBINATIONS.len())];
        let hears = one_in(2);
        let ((one, a), (two, b)) = (stage.promise(hears), stage.promise(!hears));
        let ((first, one), (second, two)) = (produce(stage, one), produce(stage, two));
        let others = [thread::spawn(first), thread::spawn(second)];
        let future = combine(a, b);
        let interrupts = thread_rng().gen_range(0..3);
        for signal in 1..=interrupts {
            stage.interrupt(&future, signal);
        }
        let ended = match thread_rng().gen_range(0..3) {
            0 => None,
            1 => Some(end(future.wait())),
            _ => match future.kill() {
                Killed::TooLate => Some(done(future)),
                _ => None,
            },
        };
        for other in others {
            other.join().unwrap();
        }
        assert!(ended.is_none_or(|ended| ended == one || ended == two), "{ended:?}");
        in_order(stage);
    });
}

/// A producer, and two who have one future between them: they interrupt, and one kills.
#[test]
fn a_producer_and_two_interrupters() {
    check(|stage| {
        let (promise, future) = stage.promise(true);
        let (moves, expected) = produce(stage, promise);
        let future = match thread_rng().gen_range(0..3) {
            0 => future,
            1 => future.map_result(|result| result),
            _ => future.transform(Future::from),
        };
        let future = std::sync::Arc::new(future);
        let kills = one_in(2);
        let others = [
            thread::spawn(moves),
            thread::spawn({
                let (future, stage) = (std::sync::Arc::clone(&future), stage.clone());
                move || {
                    stage.interrupt(&future, 1);
                    drop(future);
                }
            }),
        ];
        let killed = kills && future.kill() == Killed::BeforeStart;
        stage.interrupt(&future, 2);
        for other in others {
            other.join().unwrap();
        }
        let future = std::sync::Arc::into_inner(future).unwrap();
        let expected = if killed { End::Failed(FailureKind::Killed) } else { expected };
        assert_eq!(done(future), expected);
        let heard = stage.heard();
        assert!(heard.iter().all(|signal| heard.iter().filter(|&s| s == signal).count() == 1));
    });
}
