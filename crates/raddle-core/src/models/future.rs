//! Models of a future's state: the producer against the consumer, explored completely. The value is
//! taken or dropped once, the node is freed once, and not used afterwards.

use std::ptr::NonNull;
use std::sync::Arc;

use raddle_sync::cell::UnsafeCell;
use raddle_sync::thread;

use crate::future::state::{Completed, Outcome, State};
use crate::models::task::{Value, Waiting};
use crate::models::{Memory, Tally, check};

struct Node {
    state: State<Waiting>,
    slot: UnsafeCell<Option<Value>>,
    memory: Memory,
}

// SAFETY: the models check that the slot's uses are ordered.
unsafe impl Send for Node {}
// SAFETY: as above.
unsafe impl Sync for Node {}

impl Node {
    fn put(&self, value: Option<Value>) -> Option<Value> {
        self.slot.with_mut(|slot| {
            // SAFETY: F1.
            std::mem::replace(unsafe { &mut *slot }, value)
        })
    }

    /// As `future::node::complete`.
    fn complete(&self, outcome: Outcome) {
        self.memory.touch();
        match self.state.complete(outcome) {
            Completed::Alone => {}
            // SAFETY: F2: it waits.
            Completed::Tell(waiting) => unsafe { Waiting::tell(waiting) },
            Completed::Dropped => drop(self.finish()),
        }
    }

    /// The last party takes what is in the slot and frees the node.
    fn finish(&self) -> Option<Value> {
        self.memory.touch();
        let value = self.put(None);
        self.memory.free();
        value
    }

    fn abandon(&self) {
        self.memory.touch();
        if self.state.abandon().is_some() {
            self.finish();
        }
    }

    /// As `future::wait::block`; `patient` or with a time limit that is over at once.
    fn block(&self, patient: bool) {
        self.memory.touch();
        let waiting = Waiting::new();
        let me = NonNull::from(&waiting);
        if self.state.attach(me).is_err() {
            return;
        }
        if patient || !self.state.detach(me) {
            waiting.latch.wait();
        }
    }
}

/// A producer that completes with this outcome against a consumer.
fn race(outcome: Outcome, consumer: fn(&Node)) {
    check(10, move || {
        let (freed, dropped) = (Tally::default(), Tally::default());
        let node = Arc::new(Node {
            state: State::new(),
            slot: UnsafeCell::new(None),
            memory: Memory::new(freed.clone()),
        });
        let producer = {
            let (node, value) = (Arc::clone(&node), Value(dropped.clone()));
            thread::spawn(move || {
                // To a killed future the slot means nothing.
                let _ = node.put((outcome != Outcome::Killed).then_some(value));
                node.complete(outcome);
            })
        };
        consumer(&node);
        producer.join().unwrap();
        assert_eq!((freed.count(), dropped.count()), (1, 1), "freed, dropped");
    });
}

#[test]
fn a_completion_against_a_drop() {
    race(Outcome::Ok, Node::abandon);
    race(Outcome::Killed, Node::abandon);
}

#[test]
fn a_completion_against_a_wait() {
    race(Outcome::Ok, |node| {
        node.block(true);
        assert_eq!(node.state.outcome(), Some(Outcome::Ok));
        assert!(node.finish().is_some(), "there is a value");
    });
    race(Outcome::Killed, |node| {
        node.block(true);
        assert_eq!(node.state.outcome(), Some(Outcome::Killed));
        node.finish();
    });
}

#[test]
fn a_completion_against_a_look() {
    race(Outcome::Err, |node| {
        if node.state.outcome().is_some() {
            assert!(node.finish().is_some(), "there is a failure");
        } else {
            node.abandon();
        }
    });
}

#[test]
fn a_completion_against_a_wait_that_gives_up_and_a_drop() {
    race(Outcome::Ok, |node| {
        node.block(false);
        node.abandon();
    });
}

#[test]
fn a_completion_against_a_wait_that_gives_up_and_another() {
    race(Outcome::Ok, |node| {
        node.block(false);
        node.block(true);
        assert!(node.finish().is_some(), "there is a value");
    });
}
