//! What is seen of one case: what was called with what, how futures ended, and that all that was made has gone.

use std::error::Error;
use std::fmt;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicU8, AtomicUsize};
use std::sync::{Arc, Mutex};
use std::thread;

use raddle_core::{Failure, Future, Promise, Shared, SharedPromise};

use crate::plan::NODES;

#[path = "../graphs/results.rs"]
mod results;

pub(crate) use self::results::{How, Outcome, fold, mix, number};

/// A plan makes fewer.
const TOKENS: usize = 1024;

const ALIVE: u8 = 1;
const GONE: u8 = 2;

/// Where what is seen is noted. Never freed, so that what is dropped twice finds it.
pub(crate) struct Case {
    tokens: [AtomicU8; TOKENS],
    born: AtomicUsize,
    gone: AtomicUsize,
    /// Orders what is stamped.
    pub(crate) clock: AtomicUsize,
    /// Threads that have come to the start, and those that have ended.
    pub(crate) arrived: AtomicUsize,
    pub(crate) left: AtomicUsize,
    pub(crate) faults: Mutex<Vec<String>>,
    pub(crate) notes: [Notes; NODES],
    /// When each event began and ended; but for signals that came too late.
    pub(crate) spans: Mutex<Vec<(usize, usize, usize)>>,
}

/// What is seen of a node.
#[derive(Default)]
pub(crate) struct Notes {
    /// Calls of its closure.
    pub(crate) calls: AtomicUsize,
    /// What that was called with.
    pub(crate) given: Mutex<Option<Outcome>>,
    /// What came of it, to who took the result.
    pub(crate) ended: Mutex<Option<Outcome>>,
    /// Kills that were in time.
    pub(crate) kills: AtomicUsize,
    pub(crate) heard: Mutex<Vec<String>>,
    /// What the promise said of interrupts, just before it was completed, and when it was asked.
    pub(crate) asked: Mutex<Option<(usize, Option<String>)>>,
    /// Who completed it, of several.
    pub(crate) won: Mutex<Vec<Winner>>,
    /// How often the handle that several have was used.
    pub(crate) uses: AtomicUsize,
    pub(crate) future: Slot<Future<Value>>,
    pub(crate) shared: Slot<Shared<Value>>,
    pub(crate) promise: Slot<Promise<Value>>,
    pub(crate) several: Slot<SharedPromise<Value>>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Winner {
    Event(usize),
    /// The handler, by this signal.
    Heard(String),
}

impl Case {
    pub(crate) fn new() -> Case {
        Case {
            tokens: std::array::from_fn(|_| AtomicU8::new(0)),
            born: AtomicUsize::new(0),
            gone: AtomicUsize::new(0),
            clock: AtomicUsize::new(1),
            arrived: AtomicUsize::new(0),
            left: AtomicUsize::new(0),
            faults: Mutex::default(),
            notes: std::array::from_fn(|_| Notes::default()),
            spans: Mutex::default(),
        }
    }

    /// For the next plan.
    pub(crate) fn clear(&self) {
        let born = self.born.swap(0, SeqCst);
        self.tokens[..born].iter().for_each(|token| token.store(0, SeqCst));
        self.gone.store(0, SeqCst);
        self.clock.store(1, SeqCst);
        self.arrived.store(0, SeqCst);
        self.left.store(0, SeqCst);
        self.spans.lock().unwrap().clear();
        for notes in &self.notes {
            notes.clear();
        }
    }

    pub(crate) fn fault(&self, what: impl Into<String>) {
        self.faults.lock().unwrap().push(what.into());
    }

    pub(crate) fn token(&'static self) -> Token {
        let number = self.born.fetch_add(1, SeqCst);
        assert!(number < TOKENS, "a plan makes fewer tokens");
        self.tokens[number].store(ALIVE, SeqCst);
        Token { case: self, number }
    }

    pub(crate) fn value(&'static self, number: u64) -> Value {
        Value { number, _token: self.token() }
    }

    pub(crate) fn failure(&'static self, text: String) -> Failure {
        Failure::new(Wrong { text, _token: self.token() })
    }

    /// So many things are alive.
    pub(crate) fn alive(&self) -> usize {
        self.born.load(SeqCst) - self.gone.load(SeqCst).min(self.born.load(SeqCst))
    }

    pub(crate) fn now(&self) -> usize {
        self.clock.fetch_add(1, SeqCst)
    }
}

impl Notes {
    fn clear(&self) {
        for count in [&self.calls, &self.kills, &self.uses] {
            count.store(0, SeqCst);
        }
        for outcome in [&self.given, &self.ended] {
            *outcome.lock().unwrap() = None;
        }
        *self.asked.lock().unwrap() = None;
        self.heard.lock().unwrap().clear();
        self.won.lock().unwrap().clear();
        self.future.clear();
        self.shared.clear();
        self.promise.clear();
        self.several.clear();
    }
}

/// Goes once, with what holds it.
pub(crate) struct Token {
    case: &'static Case,
    number: usize,
}

impl Token {
    fn check(&self) {
        if self.case.tokens[self.number].load(SeqCst) != ALIVE {
            self.case.fault(format!("token {} is used after it has gone", self.number));
        }
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        if self.case.tokens[self.number].swap(GONE, SeqCst) != ALIVE {
            self.case.fault(format!("token {} goes twice", self.number));
        }
        self.case.gone.fetch_add(1, SeqCst);
    }
}

pub(crate) struct Value {
    pub(crate) number: u64,
    _token: Token,
}

impl Clone for Value {
    fn clone(&self) -> Value {
        self._token.check();
        self._token.case.value(self.number)
    }
}

/// Why something failed or was interrupted.
struct Wrong {
    text: String,
    _token: Token,
}

impl fmt::Debug for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Error for Wrong {}

pub(crate) fn outcome(result: &Result<Value, Failure>) -> Outcome {
    match result {
        Ok(value) => {
            value._token.check();
            Ok(value.number)
        }
        Err(failure) => Err(failure.to_string()),
    }
}

/// A place for what one thread puts there, several may use, and one takes out.
pub(crate) struct Slot<T>(Mutex<Place<T>>);

enum Place<T> {
    Empty,
    There(Arc<T>),
    Gone,
}

impl<T> Default for Slot<T> {
    fn default() -> Slot<T> {
        Slot(Mutex::new(Place::Empty))
    }
}

impl<T> Slot<T> {
    fn clear(&self) {
        *self.0.lock().unwrap() = Place::Empty;
    }

    pub(crate) fn put(&self, thing: T) {
        *self.0.lock().unwrap() = Place::There(Arc::new(thing));
    }

    /// None: somebody has taken it out.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&T) -> R) -> Option<R> {
        let thing = loop {
            match &*self.0.lock().unwrap() {
                Place::There(thing) => break Arc::clone(thing),
                Place::Gone => return None,
                Place::Empty => {}
            }
            thread::yield_now();
        };
        // Who takes it waits for this to be over.
        Some(look(&thing))
    }

    pub(crate) fn take(&self) -> T {
        let mut thing = loop {
            {
                let mut place = self.0.lock().unwrap();
                if let Place::There(_) = *place {
                    let Place::There(thing) = std::mem::replace(&mut *place, Place::Gone) else {
                        unreachable!("seen")
                    };
                    break thing;
                }
                assert!(matches!(*place, Place::Empty), "taken twice");
            }
            thread::yield_now();
        };
        loop {
            match Arc::try_unwrap(thing) {
                Ok(thing) => return thing,
                Err(again) => thing = again,
            }
            thread::yield_now();
        }
    }
}
