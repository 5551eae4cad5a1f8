//! What may be done, at random, and what closures do.

use std::sync::{Arc, Mutex};

use proptest::prelude::*;
use raddle_core::{Failure, Future};

use super::terms::{Event, How, Outcome, number};
use crate::support::ON_PURPOSE;

/// A value, and a share of what must be gone in the end.
#[derive(Clone, Debug)]
pub(super) struct Value(
    pub(super) u64,
    #[allow(dead_code, reason = "it counts")] pub(super) Arc<()>,
);

pub(super) fn outcome(result: &Result<Value, Failure>) -> Outcome {
    result.as_ref().map(|value| value.0).map_err(Failure::to_string)
}

/// What a closure does besides: it says that it was called, and returns or panics as it is to.
#[derive(Clone)]
pub(super) struct Closure {
    pub(super) id: usize,
    pub(super) how: How,
    pub(super) log: Arc<Mutex<Vec<Event>>>,
    pub(super) share: Arc<()>,
}

impl Closure {
    pub(super) fn note(&self, given: Outcome) {
        self.log.lock().unwrap().push(Event::Called(self.id, given));
    }

    /// The answer of a filter.
    pub(super) fn keeps(&self) -> bool {
        if self.how == How::Panic {
            panic!("{ON_PURPOSE} {}", self.id);
        }
        self.how == How::Value
    }

    pub(super) fn refail(&self, given: Outcome) -> Failure {
        self.note(given);
        if self.how == How::Panic {
            panic!("{ON_PURPOSE} {}", self.id);
        }
        Failure::message(format!("no {}", self.id))
    }

    pub(super) fn call(&self, given: Outcome) -> Result<Value, Failure> {
        let n = number(&given);
        self.note(given);
        if self.how == How::Panic {
            panic!("{ON_PURPOSE} {}", self.id);
        }
        let value = self.how.give(self.id, n);
        value.map(|n| Value(n, self.share.clone())).map_err(Failure::message)
    }

    pub(super) fn map(&self, given: u64) -> Value {
        self.call(Ok(given)).expect("it does not fail")
    }

    /// Returns the future that it holds, or does not.
    pub(super) fn become_of(&self, given: Outcome, next: Future<Value>) -> Future<Value> {
        match self.call(given) {
            Ok(_) => next,
            Err(failure) => Future::failed(failure),
        }
    }
}

/// The operations that have a source and a closure.
#[derive(Clone, Copy, Debug)]
pub(super) enum Name {
    Map,
    AndThen,
    MapResult,
    Recover,
    OnSuccess,
    OnFailure,
    OnComplete,
    Ensure,
    Filter,
    MapFailure,
    /// With a closure behind it.
    Lift,
    LiftAndLower,
    FlatMap,
    Rescue,
    Transform,
    Or,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Verb {
    Promise {
        hears: bool,
    },
    Ready(How),
    /// A task that has been waited for.
    Task(How),
    /// An async future that has been.
    Async(How),
    /// An async future that waits at a gate.
    Close(How),
    /// Opens a gate.
    Open,
    Op(Name, How),
    /// An operation whose closure sets a promise.
    Sets,
    Zip,
    Collect,
    /// So wide.
    Window(usize),
    First,
    Select,
    Share,
    /// The shared future stays.
    Keep,
    /// One more consumer of one that stays.
    Consume,
    /// No more consumers.
    Leave,
    Mask,
    Interruptible,
    Set(How),
    /// By one of several.
    Try(How),
    Link,
    Interrupt,
    Kill,
    Drop,
    Take,
    /// Two that are done.
    AsCompleted,
}

/// A step: what to do, with which futures or promises.
pub(super) type Step = (Verb, usize, usize, usize);

pub(super) fn steps() -> impl Strategy<Value = Vec<Step>> {
    use Name::*;
    let how = || prop_oneof![6 => Just(How::Value), 2 => Just(How::Fail), 1 => Just(How::Panic)];
    let name = || {
        let effects = prop::sample::select(&[OnSuccess, OnFailure, OnComplete, Ensure][..]);
        let values = prop::sample::select(
            &[Map, AndThen, MapResult, Recover, Filter, MapFailure, Lift, LiftAndLower][..],
        );
        let futures = prop::sample::select(&[FlatMap, Rescue, Transform, Or][..]);
        prop_oneof![1 => effects, 2 => values, 3 => futures]
    };
    let verb = prop_oneof![
        6 => any::<bool>().prop_map(|hears| Verb::Promise { hears }),
        1 => prop_oneof![
            6 => how().prop_map(Verb::Ready),
            1 => how().prop_map(Verb::Task),
            1 => how().prop_map(Verb::Async),
        ],
        1 => prop_oneof![2 => how().prop_map(Verb::Close), 1 => Just(Verb::Open)],
        12 => (name(), how()).prop_map(|(name, how)| Verb::Op(name, how)),
        2 => prop_oneof![
            4 => prop::sample::select(&[Verb::Zip, Verb::Collect, Verb::First, Verb::Select][..]),
            1 => (1..4_usize).prop_map(Verb::Window),
        ],
        2 => prop::sample::select(&[Verb::Sets, Verb::Share, Verb::Mask, Verb::Interruptible, Verb::Keep][..]),
        2 => prop::sample::select(&[Verb::Consume, Verb::Consume, Verb::Leave][..]),
        3 => prop_oneof![3 => how().prop_map(Verb::Set), 1 => how().prop_map(Verb::Try)],
        2 => Just(Verb::Link),
        3 => Just(Verb::Interrupt),
        2 => prop::sample::select(&[Verb::Kill, Verb::Drop, Verb::Take, Verb::AsCompleted][..]),
    ];
    let index = || 0..64_usize;
    prop::collection::vec((verb, index(), index(), index()), 1..60)
}
