//! The word between who completes a future and who consumes it.
//!
//! Each node has exactly two parties, the *producer* and the *consumer*, so it needs no reference
//! count: the transition that finds the other party gone frees the node.
//!
//! | state        | meaning                                                     | who frees      |
//! |--------------|-------------------------------------------------------------|----------------|
//! | `EMPTY`      | not done, nobody attached                                    |                |
//! | `BUSY`       | as `EMPTY` or `WAIT`; the consumer is upstream, or at its interrupt node |              |
//! | `CONT(ptr)`  | not done; `ptr` took the consumer's place and will be told     | `ptr`          |
//! | `WAIT(ptr)`  | not done; `ptr` is to be told, the consumer stays              |                |
//! | `OK`, `ERR`  | done; the slot holds the value, or the failure                | the consumer   |
//! | `DROPPED`    | not done; the consumer has gone                               | the producer   |
//! | `UNWANTED`   | as `DROPPED`, and it was killed before; only without an interrupt node        | the producer   |
//! | `KILLED`     | done, by the consumer; the producer does not know yet           | who leaves last |
//! | `GONE`       | done, killed; the producer has left                            | the consumer   |
//!
//! ```text
//!   EMPTY --attach--> CONT --complete--> (the continuation takes the result, the word stays)
//!     |   --attach--> WAIT --complete--> OK/ERR/GONE (and the waiter is told)
//!     |   <--detach--/
//!     |--complete--> OK/ERR/GONE
//!     |--abandon---> DROPPED --complete--> (freed)
//!     \--kill------> KILLED --complete--> GONE
//!                          \--abandon--> UNWANTED, or DROPPED with an interrupt node
//! ```
//!
//! The outcome is in the state, not in the slot, which is why a word-sized value needs no more than
//! a word. A pointer is at least 8-aligned; its low three bits hold the tag.
//!
//! A promise that was interrupted, or asked to be told of it, has an *interrupt node* (see `interrupt_node`) that stands
//! between the state and the continuation. `EMPTY`, `DROPPED` and `KILLED` carry a pointer to it, in
//! `CONT` and `WAIT` it is attached in the place of who is behind it, and has a tag of its own, because who
//! may look at an interrupt node may not look at a continuation, which may be gone.
//!
//! # Read-modify-writes
//!
//! Attaching is one. Completing is none in `CONT`, where the consumer has left for good, and one otherwise.
//!
//! # Invariants
//!
//! - **F1** The slot belongs to the producer until it completes, afterwards to the consumer; after
//!   `KILLED` still to the producer.
//! - **F2** A continuation or waiter is told once, by the producer that found it; detaching succeeds
//!   only if it has not been and will not be told.
//! - **F3** While the word is `BUSY` the producer waits with completing. So whatever is upstream of an
//!   uncompleted node (see `upstream`) stays, and so does its interrupt node.
//! - **F4** Ears are freed by the producer, or with the node.

use std::marker::PhantomData;
use std::ptr::NonNull;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::spin::Backoff;

use crate::future::life::Life;

const EMPTY: usize = 0;
const CONT: usize = 1;
const WAIT: usize = 2;
const DONE: usize = 3;
/// `CONT` and `WAIT` through an interrupt node.
const CONT_EARS: usize = 4;
const WAIT_INTERRUPTS: usize = 7;
const DROPPED: usize = 5;
const KILLED: usize = 6;
const TAG: usize = 7;

// With payloads that are no pointers.
const BUSY: usize = EMPTY | 8;
const OK: usize = DONE;
const ERR: usize = DONE | 8;
const GONE: usize = DONE | 16;
const UNWANTED: usize = DROPPED | 8;

/// How a future ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Ok,
    Err,
    Killed,
}

impl Outcome {
    #[inline]
    fn word(self) -> usize {
        match self {
            Outcome::Ok => OK,
            Outcome::Err => ERR,
            Outcome::Killed => GONE,
        }
    }
}

/// How somebody is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the place of the consumer, for good.
    Continuation,
    /// Until detached: the consumer stays.
    Waiter,
}

/// What the producer found on completing.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Completed<C> {
    /// Nobody is attached; the consumer will come, and frees.
    Alone,
    /// The consumer has left its place to this continuation, which takes the result.
    Next(NonNull<C>),
    /// Tell this one.
    Tell(NonNull<C>),
    /// The consumer has gone: drop what is in the slot and free.
    Dropped,
    /// The consumer has killed the future: drop what is in the slot, then `leave_killed`.
    Killed,
}

/// What a consumer that leaves finds.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Abandoned {
    /// The producer will free.
    Left,
    /// Drop what is in the slot, if the outcome says there is something, and free.
    Done(Outcome),
}

/// What a consumer that kills finds.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Kill<C> {
    /// It was done.
    TooLate,
    /// It is killed; tell the waiter, if there is one.
    Done(Option<NonNull<C>>),
}

/// A word that its visitor took away; to be put back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit(usize);

/// The state word; `C` is what attaches.
#[derive(Debug)]
pub(crate) struct State<C> {
    word: AtomicUsize,
    life: Life,
    _continuation: PhantomData<*const C>,
}

fn word_of<C>(pointer: NonNull<C>, tag: usize) -> usize {
    pointer.as_ptr().expose_provenance() | tag
}

#[inline]
fn payload<C>(word: usize) -> Option<NonNull<C>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(word & !TAG))
}

/// The interrupt node in a word whose payload is that, if there is one.
fn interrupt_node_of<C>(word: usize) -> Option<NonNull<C>> {
    if word == UNWANTED { None } else { payload(word) }
}

impl<C> State<C> {
    pub(crate) fn new() -> State<C> {
        Self::of_word(EMPTY)
    }

    /// Not done, with an interrupt node.
    pub(crate) fn with_interrupt_node(interrupt_node: NonNull<C>) -> State<C> {
        Self::of_word(word_of(interrupt_node, EMPTY))
    }

    /// With a continuation from the start.
    pub(crate) fn with_continuation(continuation: NonNull<C>) -> State<C> {
        Self::of_word(word_of(continuation, CONT))
    }

    fn of_word(word: usize) -> State<C> {
        const { assert!(align_of::<C>() > TAG, "the tag needs three bits") };
        State { word: AtomicUsize::new(word), life: Life::new(), _continuation: PhantomData }
    }

    #[inline(always)]
    fn word(&self) -> &AtomicUsize {
        self.life.touch();
        &self.word
    }

    /// For models: before each use of what is in the node; see `life`.
    #[inline(always)]
    pub(crate) fn touch_body(&self) {
        self.life.touch_body();
    }

    /// For models: before each use of the node's other parts.
    #[inline(always)]
    pub(crate) fn touch(&self) {
        self.life.touch();
    }

    // --- the producer's ---

    /// The slot is written. It is the consumer's from here on (F1). The interrupt node, if there is one and the node
    /// will not take them along, go to `free_interrupt_node` (F4).
    #[inline]
    pub(crate) fn complete(
        &self,
        outcome: Outcome,
        free_interrupt_node: impl FnOnce(NonNull<C>),
    ) -> Completed<C> {
        // ORD: Acquire pairs with the Release of `attach`: the continuation is visible.
        let word = self.word().load(Ordering::Acquire);
        if word & TAG == CONT {
            return payload(word).map_or(Completed::Alone, Completed::Next);
        }
        // ORD: as in `complete_slowly`.
        let exchange = |word| {
            self.word().compare_exchange(word, outcome.word(), Ordering::AcqRel, Ordering::Acquire)
        };
        if word == EMPTY && exchange(word).is_ok() {
            return Completed::Alone;
        }
        self.complete_slowly(word, outcome, free_interrupt_node)
    }

    #[cold]
    #[inline(never)]
    fn complete_slowly(
        &self,
        mut word: usize,
        outcome: Outcome,
        free_interrupt_node: impl FnOnce(NonNull<C>),
    ) -> Completed<C> {
        let mut backoff = Backoff::new();
        loop {
            let after = match word & TAG {
                CONT | CONT_EARS => {
                    return payload(word).map_or(Completed::Alone, Completed::Next);
                }
                DROPPED => return Completed::Dropped,
                KILLED => return Completed::Killed,
                _ if word == BUSY => {
                    backoff.spin();
                    // ORD: as in `complete`; F3: Acquire pairs with the Release of `leave`.
                    word = self.word().load(Ordering::Acquire);
                    continue;
                }
                _ => outcome.word(),
            };
            // ORD: Release pairs with the Acquire of `outcome` and `attach`: the slot is visible.
            // Acquire pairs with the Release of `attach`: the waiter is.
            match self.word().compare_exchange(word, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => word = now,
            }
        }
        match word & TAG {
            // Ears are told in the place of the waiter, hand on and free themselves: see `walk::wake`.
            WAIT | WAIT_INTERRUPTS => payload(word).map_or(Completed::Alone, Completed::Tell),
            _ => {
                if let Some(interrupt_node) = interrupt_node_of(word) {
                    free_interrupt_node(interrupt_node);
                }
                Completed::Alone
            }
        }
    }

    /// After `Killed`, with the slot empty: the producer leaves. True: the consumer has left before, free.
    #[must_use]
    pub(crate) fn leave_killed(&self, free_interrupt_node: impl FnOnce(NonNull<C>)) -> bool {
        // ORD: AcqRel: who frees has seen what the other did.
        let word = self.word().swap(GONE, Ordering::AcqRel);
        // The consumer does not look at interrupt nodes, so this one is the producer's still (F4).
        if let Some(interrupt_node) = interrupt_node_of(word) {
            free_interrupt_node(interrupt_node);
        }
        word & TAG == DROPPED
    }

    /// The continuation, if the consumer has left its place to one.
    pub(crate) fn continuation(&self) -> Option<NonNull<C>> {
        // ORD: Acquire pairs with the Release of `attach`.
        let word = self.word().load(Ordering::Acquire);
        matches!(word & TAG, CONT | CONT_EARS).then(|| payload(word)).flatten()
    }

    /// Whether somebody is attached, or may be.
    pub(crate) fn is_attached(&self) -> bool {
        // ORD: Acquire: what is attached downstream was so before.
        let word = self.word.load(Ordering::Acquire);
        word == BUSY || !matches!(word & TAG, EMPTY | DROPPED | KILLED)
    }

    /// Whether the consumer has gone.
    pub(crate) fn is_dropped(&self) -> bool {
        // ORD: Acquire pairs with the Release in `abandon`: the producer may free.
        self.word().load(Ordering::Acquire) & TAG == DROPPED
    }

    /// Whether the consumer has killed it, and may have gone since: what has not started need not.
    #[inline]
    pub(crate) fn is_killed(&self) -> bool {
        // ORD: a hint.
        let word = self.word().load(Ordering::Relaxed);
        word & TAG == KILLED || word == UNWANTED
    }

    /// The interrupt node, if there is one.
    pub(crate) fn interrupt_node(&self) -> Option<NonNull<C>> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: Acquire pairs with the Release of who put them there.
            let word = self.word().load(Ordering::Acquire);
            match word & TAG {
                _ if word == BUSY => backoff.spin(),
                EMPTY | DROPPED | KILLED | CONT_EARS | WAIT_INTERRUPTS => {
                    return interrupt_node_of(word);
                }
                _ => return None,
            }
        }
    }

    /// Puts an interrupt node where there is none, for the producer or for a visitor of the consumer. Its `next`,
    /// if they have to have one, is set by `between`. False: the word has changed, look again.
    pub(crate) fn put_interrupt_node(
        &self,
        interrupt_node: NonNull<C>,
        between: impl FnOnce(NonNull<C>),
    ) -> bool {
        // ORD: Acquire: what is there is visible.
        let word = self.word().load(Ordering::Acquire);
        let tag = match word & TAG {
            _ if word == BUSY => return false,
            EMPTY | DROPPED | KILLED if interrupt_node_of::<C>(word).is_none() => word & TAG,
            CONT => CONT_EARS,
            WAIT => WAIT_INTERRUPTS,
            _ => return false,
        };
        if let (CONT | WAIT, Some(next)) = (word & TAG, payload(word)) {
            between(next);
        }
        // ORD: Release pairs with the Acquire of whoever finds the interrupt node.
        let after = word_of(interrupt_node, tag);
        self.word().compare_exchange(word, after, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    // --- the consumer's ---

    /// The outcome, once there is one. After `Some` the slot is the consumer's (F1).
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        // ORD: Acquire pairs with the Release in `complete`.
        Self::read(self.word().load(Ordering::Acquire))
    }

    fn read(word: usize) -> Option<Outcome> {
        match word {
            OK => Some(Outcome::Ok),
            ERR => Some(Outcome::Err),
            GONE => Some(Outcome::Killed),
            _ => (word & TAG == KILLED).then_some(Outcome::Killed),
        }
    }

    /// Asks to have `who` told; an interrupt node that is there is pointed to it by `behind`. Gives the outcome
    /// instead if there is one.
    #[inline]
    pub(crate) fn attach(
        &self,
        who: NonNull<C>,
        how: Attach,
        behind: impl Fn(NonNull<C>),
    ) -> Result<(), Outcome> {
        let tag = if how == Attach::Continuation { CONT } else { WAIT };
        let after = word_of(who, tag);
        // ORD: Release pairs with the Acquire in `complete`; Acquire on failure with its Release.
        match self.word().compare_exchange(EMPTY, after, Ordering::Release, Ordering::Acquire) {
            Ok(_) => Ok(()),
            Err(word) => self.attach_slowly(word, who, how, behind),
        }
    }

    #[cold]
    fn attach_slowly(
        &self,
        mut word: usize,
        who: NonNull<C>,
        how: Attach,
        behind: impl Fn(NonNull<C>),
    ) -> Result<(), Outcome> {
        let mut backoff = Backoff::new();
        loop {
            if let Some(outcome) = Self::read(word) {
                return Err(outcome);
            }
            let after = if word == BUSY {
                backoff.spin();
                // ORD: as below.
                word = self.word().load(Ordering::Acquire);
                continue;
            } else {
                assert!(word & TAG == EMPTY, "a future has one consumer");
                match (payload(word), how) {
                    (None, Attach::Continuation) => word_of(who, CONT),
                    (None, Attach::Waiter) => word_of(who, WAIT),
                    (Some(interrupt_node), how) => {
                        if !self.hold(word) {
                            // ORD: as below.
                            word = self.word().load(Ordering::Acquire);
                            continue;
                        }
                        behind(interrupt_node);
                        let tag =
                            if how == Attach::Continuation { CONT_EARS } else { WAIT_INTERRUPTS };
                        // ORD: as in `leave`.
                        self.word().store(word_of(interrupt_node, tag), Ordering::Release);
                        return Ok(());
                    }
                }
            };
            // ORD: as in `attach`.
            match self.word().compare_exchange(word, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Ok(()),
                Err(now) => word = now,
            }
        }
    }

    /// Takes the word away, for the consumer to look at the interrupt node, which the producer may free (F4) as soon as it
    /// can complete (F3). To be stored again, soon. False: it has changed.
    fn hold(&self, word: usize) -> bool {
        // ORD: Acquire: the interrupt node is visible.
        self.word().compare_exchange(word, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// A waiter asks no longer, and is given back. None: it was told, or is being told (F2). `behind` says who
    /// is behind an interrupt node.
    pub(crate) fn detach(
        &self,
        behind: impl Fn(NonNull<C>) -> Option<NonNull<C>>,
    ) -> Option<NonNull<C>> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: nothing is handed over; on failure `outcome` is asked again.
            let word = self.word().load(Ordering::Relaxed);
            match word & TAG {
                _ if word == BUSY => backoff.spin(),
                WAIT => {
                    // ORD: as above.
                    let after = self.word().compare_exchange(
                        word,
                        EMPTY,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    if after.is_ok() {
                        return payload(word);
                    }
                }
                WAIT_INTERRUPTS => {
                    if self.hold(word) {
                        let waiter = payload(word).and_then(&behind);
                        // ORD: as in `leave`.
                        self.word().store(word & !TAG, Ordering::Release);
                        return waiter;
                    }
                }
                _ => return None,
            }
        }
    }

    /// Whether somebody may want to know that the consumer goes: see `interrupt_node`.
    #[inline]
    pub(crate) fn is_heard(&self) -> bool {
        // ORD: a hint for the consumer, whose visits put them there, or who made the promise.
        let word = self.word().load(Ordering::Relaxed);
        word & TAG == EMPTY && word & !TAG != 0
    }

    /// The consumer goes away; nobody waits.
    pub(crate) fn abandon(&self) -> Abandoned {
        let mut backoff = Backoff::new();
        // ORD: Acquire pairs with the Release in `complete`.
        let mut word = self.word().load(Ordering::Acquire);
        loop {
            let after = match word & TAG {
                _ if word == BUSY => {
                    backoff.spin();
                    word = self.word().load(Ordering::Acquire);
                    continue;
                }
                EMPTY => word | DROPPED,
                KILLED if word == KILLED => UNWANTED,
                KILLED => (word & !TAG) | DROPPED,
                _ => {
                    return Abandoned::Done(Self::read(word).expect("a future has one consumer"));
                }
            };
            // ORD: Release, so that what the consumer did is before the producer frees; Acquire on
            // failure as above.
            match self.word().compare_exchange(word, after, Ordering::AcqRel, Ordering::Acquire) {
                Ok(_) => return Abandoned::Left,
                Err(now) => word = now,
            }
        }
    }

    /// The consumer kills the future; the interrupt node stays for the producer.
    pub(crate) fn kill(&self, next_of: impl Fn(NonNull<C>) -> Option<NonNull<C>>) -> Kill<C> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: nothing is looked at before the word is taken or changed.
            let word = self.word().load(Ordering::Relaxed);
            let after = match word & TAG {
                _ if word == BUSY => {
                    backoff.spin();
                    continue;
                }
                EMPTY => word | KILLED,
                WAIT => KILLED,
                WAIT_INTERRUPTS if self.hold(word) => {
                    let waiter = payload(word).and_then(&next_of);
                    // ORD: as in `leave`.
                    self.word().store((word & !TAG) | KILLED, Ordering::Release);
                    return Kill::Done(waiter);
                }
                WAIT_INTERRUPTS => continue,
                _ => return Kill::TooLate,
            };
            // ORD: Release for the producer, who frees if the consumer has gone; Acquire: the waiter is visible.
            if self
                .word()
                .compare_exchange(word, after, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Kill::Done(if word & TAG == WAIT { payload(word) } else { None });
            }
        }
    }

    /// Holds the producer up, so that what is upstream stays (F3). None: it is done. To be followed by
    /// `leave`, soon, and without running anybody's code between.
    pub(crate) fn visit(&self) -> Option<Visit> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: Acquire: what was put upstream is visible.
            let word = self.word().load(Ordering::Acquire);
            match word & TAG {
                _ if word == BUSY => backoff.spin(),
                EMPTY | WAIT | WAIT_INTERRUPTS => {
                    if self
                        .word()
                        .compare_exchange(word, BUSY, Ordering::AcqRel, Ordering::Relaxed)
                        .is_ok()
                    {
                        return Some(Visit(word));
                    }
                }
                _ => return None,
            }
        }
    }

    /// Ends a visit.
    pub(crate) fn leave(&self, visit: Visit) {
        // ORD: Release pairs with the Acquire in `complete`: what the visitor did upstream is done
        // before any of it is freed (F3).
        self.word().store(visit.0, Ordering::Release);
    }
}

impl Visit {
    /// The interrupt node of the visited node itself.
    pub(crate) fn interrupt_node<C>(&self) -> Option<NonNull<C>> {
        matches!(self.0 & TAG, EMPTY | WAIT_INTERRUPTS).then(|| payload(self.0)).flatten()
    }

    /// Gives the visited node an interrupt node, which it has not; `between` sets its `next`.
    pub(crate) fn put_interrupt_node<C>(
        &mut self,
        interrupt_node: NonNull<C>,
        between: impl FnOnce(NonNull<C>),
    ) {
        match payload(self.0) {
            Some(waiter) => {
                between(waiter);
                self.0 = word_of(interrupt_node, WAIT_INTERRUPTS);
            }
            None => self.0 = word_of(interrupt_node, EMPTY),
        }
    }
}
