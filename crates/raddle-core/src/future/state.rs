//! The word between who completes a future and who consumes it.
//!
//! Each node has exactly two parties, the *producer* and the *consumer*, so it needs no reference
//! count: the transition that finds the other party gone frees the node.
//!
//! | state       | meaning                                                    | who frees     |
//! |-------------|------------------------------------------------------------|---------------|
//! | `EMPTY`     | not done, nobody attached                                   |               |
//! | `CONT(ptr)` | not done; `ptr` is to be told                               |               |
//! | `OK`, `ERR` | done; the slot holds the value, or the failure              | the consumer  |
//! | `KILLED`    | done; the slot holds nothing for the consumer               | the consumer  |
//! | `DROPPED`   | not done; the consumer has gone                             | the producer  |
//!
//! ```text
//!   EMPTY --attach--> CONT --complete--> OK/ERR/KILLED (and the continuation runs)
//!     |  <--detach--    |
//!     |--complete--> OK/ERR/KILLED
//!     \--abandon---> DROPPED --complete--> (freed)
//! ```
//!
//! `KILLED` is apart from `ERR` because who kills a running task cannot write its slot: the closure may
//! still be in there.
//!
//! The outcome is in the state, not in the slot, which is why a word-sized value needs no more than
//! a word. A pointer is at least 8-aligned; its low three bits hold the tag. `LINK`, by which a
//! future forwards to another, has its tag reserved.
//!
//! # Invariants
//!
//! - **F1** The slot belongs to the producer until the transition to `OK` or `ERR`, afterwards to the
//!   consumer. After `KILLED` it is whose it was.
//! - **F2** A continuation is told once, by the producer that found it; detaching succeeds only if
//!   it has not been and will not be told.

use std::ptr::NonNull;

use raddle_sync::atomic::{AtomicUsize, Ordering};

const EMPTY: usize = 0;
const CONT: usize = 1;
/// Reserved: the future is another's.
#[allow(dead_code, reason = "the layout is fixed before linking is built")]
const LINK: usize = 2;
const OK: usize = 3;
const ERR: usize = 4;
const DROPPED: usize = 5;
const KILLED: usize = 6;
const TAG: usize = 7;

/// Who attaches: at least 8-aligned.
pub(crate) type Continuation<C> = NonNull<C>;

/// How a future ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Err,
    Killed,
}

impl Outcome {
    fn word(self) -> usize {
        match self {
            Outcome::Ok => OK,
            Outcome::Err => ERR,
            Outcome::Killed => KILLED,
        }
    }
}

/// What the producer found on completing.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Completed<C> {
    /// Nobody has attached; the consumer will come, and frees.
    Alone,
    /// Tell this one, who is or represents the consumer.
    Tell(Continuation<C>),
    /// The consumer has gone: drop what is in the slot and free.
    Dropped,
}

/// The state word; `C` is what attaches.
#[derive(Debug)]
pub(crate) struct State<C> {
    word: AtomicUsize,
    _continuation: std::marker::PhantomData<*const C>,
}

impl<C> State<C> {
    pub(crate) fn new() -> State<C> {
        const { assert!(align_of::<C>() > TAG, "the tag needs three bits") };
        State { word: AtomicUsize::new(EMPTY), _continuation: std::marker::PhantomData }
    }

    /// Producer: the slot is written. It is the consumer's from here on (F1).
    pub(crate) fn complete(&self, outcome: Outcome) -> Completed<C> {
        // ORD: Release pairs with the Acquire of `outcome` and `attach`: the slot is visible.
        // Acquire pairs with the Release of `attach`: the continuation is.
        let before = self.word.swap(outcome.word(), Ordering::AcqRel);
        match before & TAG {
            EMPTY => Completed::Alone,
            DROPPED => Completed::Dropped,
            _ => {
                debug_assert_eq!(before & TAG, CONT, "completed once");
                let pointer = std::ptr::with_exposed_provenance_mut(before & !TAG);
                NonNull::new(pointer).map_or(Completed::Alone, Completed::Tell)
            }
        }
    }

    /// The outcome, once there is one. After `Some` the slot is the consumer's (F1).
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        // ORD: Acquire pairs with the Release in `complete`.
        Self::read(self.word.load(Ordering::Acquire))
    }

    fn read(word: usize) -> Option<Outcome> {
        match word & TAG {
            OK => Some(Outcome::Ok),
            ERR => Some(Outcome::Err),
            KILLED => Some(Outcome::Killed),
            _ => None,
        }
    }

    /// Consumer: asks to be told. Gives the outcome instead if there is one.
    pub(crate) fn attach(&self, continuation: Continuation<C>) -> Result<(), Outcome> {
        let word = continuation.as_ptr().expose_provenance() | CONT;
        // ORD: Release pairs with the Acquire in `complete`; Acquire on failure with its Release.
        match self.word.compare_exchange(EMPTY, word, Ordering::Release, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(word) => Err(Self::read(word).expect("a future has one consumer")),
        }
    }

    /// Consumer: asks no longer. False: it was told, or is being told (F2).
    pub(crate) fn detach(&self, continuation: Continuation<C>) -> bool {
        let word = continuation.as_ptr().expose_provenance() | CONT;
        // ORD: nothing is handed over; on failure `outcome` is asked again.
        self.word.compare_exchange(word, EMPTY, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    /// Consumer: goes away. Gives the outcome if there is one: then drop the slot and free.
    pub(crate) fn abandon(&self) -> Option<Outcome> {
        // ORD: Release, so that what the consumer did is before the producer frees; Acquire on
        // failure as in `outcome`.
        match self.word.compare_exchange(EMPTY, DROPPED, Ordering::Release, Ordering::Acquire) {
            Ok(_) => None,
            Err(word) => Some(Self::read(word).expect("a future has one consumer")),
        }
    }
}
