//! Combinations of two futures, one of which is completed meanwhile.

use raddle_sync::thread;

use crate::future::{Future, Killed, Promise, collect, first, select};
use crate::models::future::{End, Stage, Token, done, number, play};

/// Makes one future of two.
pub(super) type Combine = fn(Future<Token>, Future<Token>) -> Future<Token>;

/// What they are, and whether the second input is wanted whoever comes first.
pub(super) const COMBINATIONS: &[(Combine, bool)] =
    &[(whoever_is_first, false), (the_other_one, true), (all, true), (shares, true)];

fn whoever_is_first(a: Future<Token>, b: Future<Token>) -> Future<Token> {
    first([a, b])
}

fn the_other_one(a: Future<Token>, b: Future<Token>) -> Future<Token> {
    select([a, b]).flat_map(|(_, _, mut rest)| rest.remove(0))
}

fn all(a: Future<Token>, b: Future<Token>) -> Future<Token> {
    collect([a, b]).map(|mut values| values.remove(0))
}

/// Two shares of the one, and the other.
fn shares(a: Future<Token>, b: Future<Token>) -> Future<Token> {
    let shared = a.shared();
    drop(shared.future());
    all(shared.future(), b)
}

/// What is done with the combination, by the thread that has it.
type Action = fn(&Stage, Future<Token>) -> Option<Future<Token>>;

/// As `play_with`, but that the first input becomes one that is never done.
fn forsake_with(stage: &Stage, combine: Combine, action: Action) {
    let ((one, a), (two, b)) = (stage.promise(true), Promise::new());
    let other = stage.value(2);
    let forsakes = thread::spawn(move || one.link(Future::never()));
    let left = action(stage, combine(a, b));
    forsakes.join().unwrap();
    two.set(other);
    drop(left);
}

#[cfg(raddle_loom)]
fn race_to_never(preemptions: usize, action: Action) {
    for &(combine, _) in COMBINATIONS {
        crate::models::check(preemptions, move || {
            play(|stage| forsake_with(stage, combine, action))
        });
    }
}

#[cfg(raddle_shuttle)]
fn race_to_never(_: usize, action: Action) {
    for &(combine, _) in COMBINATIONS {
        let model = move || play(|stage| forsake_with(stage, combine, action));
        shuttle::check_random(model, 2_000);
    }
}

/// The first input is completed while the combination is made and this is done with it; `also` looks at
/// the promise of the second.
fn play_with(stage: &Stage, combine: Combine, action: Action, also: impl Fn(&Promise<Token>)) {
    let ((one, a), (two, b)) = (stage.promise(false), Promise::new());
    let (value, other) = (stage.value(1), stage.value(2));
    let completes = thread::spawn(move || one.set(value));
    let left = action(stage, combine(a, b));
    completes.join().unwrap();
    also(&two);
    two.set(other);
    if let Some(future) = left {
        assert!(matches!(done(future), End::Value(1 | 2)));
    }
}

#[cfg(raddle_loom)]
fn race(preemptions: usize, action: Action, also: fn(&Promise<Token>, bool)) {
    for &(combine, wanted) in COMBINATIONS {
        crate::models::check(preemptions, move || {
            play(|stage| play_with(stage, combine, action, |two| also(two, wanted)));
        });
    }
}

#[cfg(raddle_shuttle)]
fn race(_: usize, action: Action, also: fn(&Promise<Token>, bool)) {
    for &(combine, wanted) in COMBINATIONS {
        let model = move || {
            play(|stage| play_with(stage, combine, action, |two| also(two, wanted)));
        };
        shuttle::check_random(model, 2_000);
    }
}

#[test]
fn a_completion_against_a_combination() {
    race(2, |_, future| Some(future), |two, wanted| assert!(!wanted || !two.is_abandoned()));
}

/// The inputs go with the combination; nobody is left with them.
#[test]
fn a_completion_against_a_combination_that_is_dropped() {
    race(2, |_, _| None, |_, _| ());
}

/// The second input hears it, unless nobody wants it any more.
#[test]
fn a_completion_against_an_interrupt_of_a_combination() {
    race(
        2,
        |stage, future| {
            stage.interrupt(&future, 1);
            Some(future)
        },
        |two, wanted| {
            let heard = two.interrupted().as_ref().map(number);
            assert!(heard == Some(1) || !wanted && two.is_abandoned(), "{heard:?}");
        },
    );
}

#[test]
fn a_completion_against_a_kill_of_a_combination() {
    race(
        1,
        |_, future| match future.kill() {
            Killed::TooLate => Some(future),
            _ => None,
        },
        |_, _| (),
    );
}

#[test]
fn an_input_that_becomes_never_against_a_combination() {
    race_to_never(2, |_, future| Some(future));
}

#[test]
fn an_input_that_becomes_never_against_a_combination_that_is_dropped() {
    race_to_never(2, |_, _| None);
}

#[test]
fn an_input_that_becomes_never_against_an_interrupt_and_a_kill() {
    race_to_never(1, |stage, future| {
        stage.interrupt(&future, 1);
        let _ = future.kill();
        Some(future)
    });
}

// --- what watches a promise that is linked ---

/// Makes something of a future that watches it, for a while.
type Watches = fn(&Stage, Future<Token>) -> Box<dyn Send>;

const WATCHES: &[Watches] = &[
    |_, future| Box::new(future.shared()),
    |_, future| Box::new(future.shared().future()),
    |_, future| Box::new(collect([future])),
    |stage, future| {
        stage.interrupt(&future, 1);
        Box::new(future.shared())
    },
];

/// Whoever links looks at what watches the promise's future, which goes meanwhile.
#[test]
fn a_link_against_the_end_of_what_watches_the_promise() {
    for &watches in WATCHES {
        let model = move || {
            play(|stage| {
                let (outer, future) = Promise::new();
                let (source, pending) = stage.promise(false);
                let pending = pending.map(stage.step());
                let watcher = watches(stage, future);
                let goes = thread::spawn(move || drop(watcher));
                outer.link(pending);
                goes.join().unwrap();
                source.set(stage.value(7));
            });
        };
        #[cfg(raddle_loom)]
        crate::models::check(2, model);
        #[cfg(raddle_shuttle)]
        shuttle::check_random(model, 2_000);
    }
}
