//! Models of futures: the code itself, from [`Promise`] to [`Future::wait`], nothing rebuilt.
//!
//! | file        | what races                                                            |
//! |-------------|-----------------------------------------------------------------------|
//! | `pairs`     | each thing a producer may do against each thing a consumer may do        |
//! | `signals`   | interrupts against what moves the place where they are to go            |
//! | `several`   | combinations against the completion of one of their inputs               |
//! | `threes`    | three threads of the same, at random (shuttle)                        |
//! | `graphs`    | small graphs, and two or three threads, both at random (shuttle)        |
//!
//! Whatever a model makes (values, closures, handlers, signals) holds a [`Token`], and at the end as many
//! have gone as there were. So for nodes: see `ledger`, which also tells a use after the free and a
//! second free.

#[cfg(raddle_shuttle)]
mod graphs;
#[cfg(raddle_loom)]
mod pairs;
mod several;
#[cfg(raddle_loom)]
mod signals;
#[cfg(raddle_shuttle)]
mod threes;

use std::error::Error;
use std::fmt;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use crate::future::handle::{Now, Repr};
use crate::future::node::{self, Head, VTable};
use crate::future::state::{Attach, State, Vacant};
use crate::future::then::attach;
use crate::future::{Failure, FailureKind, Future, Interrupt, Promise};
use crate::ledger;
use crate::memory;
use crate::models::Tally;

/// How many tokens there were, and how many have gone.
#[derive(Clone, Debug, Default)]
struct Census {
    born: Tally,
    gone: Tally,
}

impl Census {
    fn token(&self, number: u32) -> Token {
        self.born.add();
        Token { number, census: self.clone() }
    }
}

/// Something that goes once.
#[derive(Debug)]
struct Token {
    number: u32,
    census: Census,
}

impl Token {
    /// The next number, made of this one.
    fn next(self) -> Token {
        self.census.token(self.number + 1)
    }
}

impl Clone for Token {
    fn clone(&self) -> Token {
        self.census.token(self.number)
    }
}

impl Drop for Token {
    fn drop(&mut self) {
        self.census.gone.add();
    }
}

/// The reason of an interrupt, or of a failure.
#[derive(Debug)]
struct Signal(Token);

impl fmt::Display for Signal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "signal {}", self.0.number)
    }
}

impl Error for Signal {}

/// Which signal it is; 0: that the future was killed.
fn number(signal: &Interrupt) -> u32 {
    let failure = signal.cause().expect("all signals here are failures");
    match failure.downcast_ref::<Signal>() {
        Some(signal) => signal.0.number,
        None => {
            assert_eq!(failure.kind(), FailureKind::Killed);
            0
        }
    }
}

/// What a model's threads share, beside the model.
#[derive(Clone, Debug, Default)]
struct Stage {
    census: Census,
    /// Closures that were called.
    called: Tally,
    /// Watchers that were told.
    told: Tally,
    /// Watchers that left, or came too late.
    not_told: Tally,
    /// What handlers were called with.
    heard: Arc<Mutex<Vec<u32>>>,
}

impl Stage {
    fn signal(&self, number: u32) -> Failure {
        Failure::new(Signal(self.census.token(number)))
    }

    fn interrupt(&self, future: &Future<Token>, number: u32) {
        future.interrupt(self.signal(number));
    }

    /// A promise and its future, with a handler or without.
    fn promise(&self, handler: bool) -> (Promise<Token>, Future<Token>) {
        if !handler {
            return Promise::new();
        }
        let (heard, token) = (Arc::clone(&self.heard), self.census.token(0));
        Promise::with_interrupt(move |signal| {
            let _held = &token;
            heard.lock().unwrap().push(number(&signal));
        })
    }

    fn heard(&self) -> Vec<u32> {
        self.heard.lock().unwrap().clone()
    }

    /// A closure for `map`.
    fn step(&self) -> impl FnOnce(Token) -> Token + Send + 'static {
        let (called, token) = (self.called.clone(), self.census.token(0));
        move |value| {
            called.add();
            drop(token);
            value.next()
        }
    }

    /// A closure for `flat_map` that returns this future.
    fn to(&self, future: Future<Token>) -> impl FnOnce(Token) -> Future<Token> + Send + 'static {
        let (called, token) = (self.called.clone(), self.census.token(0));
        move |value| {
            called.add();
            drop((token, value));
            future
        }
    }

    fn value(&self, number: u32) -> Token {
        self.census.token(number)
    }
}

/// Plays a model once: what it has made is gone afterwards.
fn play(model: impl Fn(&Stage)) {
    ledger::open();
    let stage = Stage::default();
    model(&stage);
    let Census { born, gone } = &stage.census;
    assert_eq!(gone.count(), born.count(), "tokens gone, of those there were");
    ledger::close();
}

/// How a future ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Value(u32),
    Failed(FailureKind),
}

fn end(result: Result<Token, Failure>) -> End {
    match result {
        Ok(value) => End::Value(value.number),
        Err(failure) => End::Failed(failure.kind()),
    }
}

/// How a future that must be done ended.
fn done(future: Future<Token>) -> End {
    match future.now() {
        Now::Done(result) => end(result),
        Now::Pending(_) | Now::Never => panic!("it is not done"),
    }
}

/// A watcher of a future that somebody keeps: freed by whoever tells or detaches it.
#[repr(C)]
struct Watcher {
    head: Head,
    told: Tally,
}

impl Watcher {
    const VTABLE: &'static VTable = &VTable {
        has_slot: false,
        free: |_| unreachable!("freed by whoever tells or detaches it"),
        class: None,
        linked: None,
        step: node::never_in_walk,
        forsaken: None,
        wake: |node| {
            let watcher = node.cast::<Watcher>();
            // SAFETY: told once (F2).
            unsafe { watcher.as_ref() }.told.add();
            // SAFETY: as above.
            unsafe { memory::free(watcher) };
        },
        adapts: false,
        visit: None,
        links: false,
        assist: None,
        kill: None,
    };

    /// False: the future is done.
    fn watch(stage: &Stage, future: &Future<Token>) -> bool {
        let Repr::Pending(pending) = &future.0 else { return false };
        let head = Head { state: State::new(), vtable: Self::VTABLE };
        let watcher = memory::allocate(Watcher { head, told: stage.told.clone() });
        // SAFETY: the future is the consumer.
        if unsafe { attach(pending.node(), Vacant::UNSEEN, watcher.cast(), Attach::Waiter) }.is_ok()
        {
            return true;
        }
        // SAFETY: it is not attached.
        unsafe { memory::free(watcher) };
        false
    }

    /// False: it is told.
    fn leave(future: &Future<Token>) -> bool {
        let Repr::Pending(pending) = &future.0 else { return false };
        // SAFETY: the future is the consumer.
        let state = unsafe { pending.node().state() };
        let Some(watcher) = state.detach(crate::future::interrupt_node::behind) else {
            return false;
        };
        let watcher: NonNull<Watcher> = watcher.cast();
        // SAFETY: detached (F2).
        unsafe { memory::free(watcher) };
        true
    }
}
