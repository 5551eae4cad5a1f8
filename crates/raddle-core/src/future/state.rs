//! The word between whoever completes a future and whoever consumes it.
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
//! | `NEVER`      | the producer has left, and it will never be done                | the consumer   |
//!
//! ```text
//!   EMPTY --attach--> CONT --complete--> (the continuation takes the result, the word stays)
//!     |   --attach--> WAIT --complete--> OK/ERR/GONE (and the waiter is told)
//!     |   <--detach--/
//!     |--complete--> OK/ERR/GONE
//!     |--forsake---> NEVER --kill--> GONE
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
//! `CONT` and `WAIT` it is attached in the place of whoever is behind it, and has a tag of its own, because whoever
//! may look at an interrupt node may not look at a continuation, which may be gone.
//!
//! A node of `map` and its like has none; in its place `EMPTY` carries the *cell* of the node's future (see `upstream`), which
//! only the consumer asks for: it takes that along when it leaves its place to a continuation. Under `WAIT` the cell is in
//! the waiter's own word, which holds what the node's word was before; detaching puts that back.
//!
//! A producer that *forsakes* a future leaves it to its consumer, with nothing in the slot: it has become one that is
//! never done. If a thread waits, the word stays `WAIT`, and it is the waiter's own word that is `NEVER`; a part of a
//! combination is taken out and told; a continuation is told, and forsakes its own (see `walk`).
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
//! - **F4** The state's hold on an interrupt node is let go of by the producer, or with the node that it belongs to. (Others may
//!   hold it: E3 in `interrupt_node`.)
//! - **F5** Who attaches to a node that is `NEVER`, or finds its waiter to be, has nobody upstream.

mod found;

use std::marker::PhantomData;
use std::ptr::NonNull;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::spin::Backoff;

pub(crate) use self::found::{
    Abandoned, Attach, Carries, Completed, Ended, Forsaken, Kill, Refused,
};
pub(crate) use crate::future::consumer::Vacant;
use crate::future::life::Life;

pub(super) const EMPTY: usize = 0;
pub(super) const CONT: usize = 1;
pub(super) const WAIT: usize = 2;
const DONE: usize = 3;
/// `CONT` and `WAIT` through an interrupt node.
pub(super) const CONT_INTERRUPTS: usize = 4;
pub(super) const WAIT_INTERRUPTS: usize = 7;
pub(super) const DROPPED: usize = 5;
pub(super) const KILLED: usize = 6;
pub(super) const TAG: usize = 7;

// With payloads that are no pointers.
pub(super) const BUSY: usize = EMPTY | 8;
pub(super) const NEVER: usize = EMPTY | 16;
pub(super) const OK: usize = DONE;
pub(super) const ERR: usize = DONE | 8;
pub(super) const GONE: usize = DONE | 16;
pub(super) const UNWANTED: usize = DROPPED | 8;

/// A word that its visitor took away; to be put back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Visit(pub(super) usize);

/// The state word; `C` is what attaches.
#[derive(Debug)]
pub(crate) struct State<C> {
    word: AtomicUsize,
    life: Life,
    _continuation: PhantomData<*const C>,
}

#[inline]
pub(super) fn word_of<C>(pointer: NonNull<C>, tag: usize) -> usize {
    pointer.as_ptr().expose_provenance() | tag
}

#[inline]
pub(super) fn payload<C>(word: usize) -> Option<NonNull<C>> {
    NonNull::new(std::ptr::with_exposed_provenance_mut(word & !TAG))
}

/// The interrupt node in a word whose payload is that, if there is one.
fn interrupt_node_of<C>(word: usize) -> Option<NonNull<C>> {
    if word == UNWANTED || word == NEVER { None } else { payload(word) }
}

impl<C> State<C> {
    #[inline]
    pub(crate) fn new() -> State<C> {
        Self::of_word(EMPTY)
    }

    /// Not done, with an interrupt node.
    pub(crate) fn with_interrupt_node(interrupt_node: NonNull<C>) -> State<C> {
        Self::of_word(word_of(interrupt_node, EMPTY))
    }

    /// Not done, with a cell.
    #[inline]
    pub(crate) fn with_cell(cell: NonNull<C>) -> State<C> {
        Self::of_word(word_of(cell, EMPTY))
    }

    /// With a continuation from the start.
    pub(crate) fn with_continuation(continuation: NonNull<C>) -> State<C> {
        Self::of_word(word_of(continuation, CONT))
    }

    #[inline]
    fn of_word(word: usize) -> State<C> {
        const { assert!(align_of::<C>() > TAG, "the tag needs three bits") };
        State { word: AtomicUsize::new(word), life: Life::new(), _continuation: PhantomData }
    }

    #[inline(always)]
    pub(super) fn word(&self) -> &AtomicUsize {
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

    /// The slot is written. It is the consumer's from here on (F1). What the word carries goes to `free_interrupt_node` (F4),
    /// if it carries something and nobody is attached who takes it along.
    #[inline(always)]
    pub(crate) fn complete(
        &self,
        outcome: Ended,
        carries: Carries,
        free_interrupt_node: impl FnOnce(NonNull<C>),
    ) -> Completed<C> {
        // ORD: Acquire pairs with the Release of `attach`: the continuation is visible.
        let word = self.word().load(Ordering::Acquire);
        if let (CONT, Some(next)) = (word & TAG, payload(word)) {
            return Completed::Next(next);
        }
        // ORD: as in `complete_slowly`.
        let exchange = |word| {
            self.word().compare_exchange(word, outcome.word(), Ordering::AcqRel, Ordering::Acquire)
        };
        let alone = match carries {
            Carries::Interrupts => word == EMPTY,
            Carries::Cell => word & TAG == EMPTY && word != BUSY,
        };
        if alone && exchange(word).is_ok() {
            return Completed::Alone;
        }
        if word & TAG == DROPPED {
            return Completed::Dropped;
        }
        self.complete_slowly(word, outcome, free_interrupt_node)
    }

    #[cold]
    #[inline(never)]
    fn complete_slowly(
        &self,
        mut word: usize,
        outcome: Ended,
        free_interrupt_node: impl FnOnce(NonNull<C>),
    ) -> Completed<C> {
        let mut backoff = Backoff::new();
        loop {
            let after = match word & TAG {
                CONT | CONT_INTERRUPTS => {
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
            // An interrupt node is told in the place of the waiter, hands on, and goes: see `walk::wake`.
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
        // ORD: AcqRel: whoever frees has seen what the other did.
        let word = self.word().swap(GONE, Ordering::AcqRel);
        // The consumer does not look at interrupt nodes, so this one is the producer's still (F4).
        if let Some(interrupt_node) = interrupt_node_of(word) {
            free_interrupt_node(interrupt_node);
        }
        word & TAG == DROPPED
    }

    /// The producer leaves for good, with the slot empty: it will never be done. `next_of` says who is behind an interrupt
    /// node, `hears` whether a waiter wants to know.
    #[cold]
    pub(crate) fn forsake(
        &self,
        next_of: impl Fn(NonNull<C>) -> Option<NonNull<C>>,
        hears: impl Fn(NonNull<C>) -> bool,
        free_interrupt_node: impl Fn(NonNull<C>),
    ) -> Forsaken<C> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: Acquire, as in `complete`.
            let word = self.word().load(Ordering::Acquire);
            match word & TAG {
                _ if word == BUSY => backoff.spin(),
                CONT => return payload(word).map_or(Forsaken::Left, Forsaken::Next),
                CONT_INTERRUPTS => {
                    let next = payload(word).and_then(&next_of);
                    return next.map_or(Forsaken::Left, Forsaken::Next);
                }
                DROPPED => return Forsaken::Dropped,
                KILLED => match self.leave_killed(&free_interrupt_node) {
                    true => return Forsaken::Dropped,
                    false => return Forsaken::Left,
                },
                EMPTY => {
                    // ORD: Release: whoever frees has seen what the producer did.
                    let left = self.word().compare_exchange(
                        word,
                        NEVER,
                        Ordering::AcqRel,
                        Ordering::Relaxed,
                    );
                    if left.is_ok() {
                        interrupt_node_of(word).into_iter().for_each(&free_interrupt_node);
                        return Forsaken::Left;
                    }
                }
                // The waiter stays while the word is held: whoever detaches it waits.
                _ if self.hold(word) => {
                    let interrupt_node =
                        (word & TAG == WAIT_INTERRUPTS).then(|| payload(word)).flatten();
                    let waiter = match interrupt_node {
                        Some(interrupt_node) => next_of(interrupt_node),
                        None => payload(word),
                    };
                    // Attached, so alive until it is told or detached.
                    let told = waiter.filter(|&waiter| hears(waiter));
                    let stays = if told.is_none() { waiter } else { None };
                    if let Some(waiter) = stays {
                        // SAFETY: as above.
                        unsafe { Self::set_aside(waiter, NEVER) };
                    }
                    let after = stays.map_or(NEVER, |waiter| word_of(waiter, WAIT));
                    // ORD: as in `leave`; AcqRel in `hold`: what is told is visible.
                    self.word().store(after, Ordering::Release);
                    interrupt_node.into_iter().for_each(&free_interrupt_node);
                    return told.map_or(Forsaken::Left, Forsaken::Next);
                }
                _ => {}
            }
        }
    }

    /// Looks at who is to be told, if somebody is, and stays meanwhile: whoever detaches it waits. So `look` takes no lock.
    pub(crate) fn look_at_waiter<R>(
        &self,
        next_of: impl Fn(NonNull<C>) -> Option<NonNull<C>>,
        look: impl FnOnce(NonNull<C>) -> R,
    ) -> Option<R> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: nothing is looked at before the word is taken.
            let word = self.word().load(Ordering::Relaxed);
            match word & TAG {
                _ if word == BUSY => backoff.spin(),
                WAIT | WAIT_INTERRUPTS if self.hold(word) => {
                    let between = word & TAG == WAIT_INTERRUPTS;
                    let waiter =
                        if between { payload(word).and_then(next_of) } else { payload(word) };
                    let seen = waiter.map(look);
                    // ORD: as in `leave`.
                    self.word().store(word, Ordering::Release);
                    return seen;
                }
                WAIT | WAIT_INTERRUPTS => {}
                _ => return None,
            }
        }
    }

    /// Of an interrupt node, which is completed by nobody: the promise has been.
    pub(crate) fn set_over(&self) {
        // ORD: nothing comes with it.
        self.word().store(NEVER, Ordering::Relaxed);
    }

    /// The same, asked.
    pub(crate) fn is_over(&self) -> bool {
        // ORD: as above.
        self.word().load(Ordering::Relaxed) == NEVER
    }

    /// Keeps what the node's word was in the word of a waiter; `NEVER`: it will not be told.
    ///
    /// # Safety
    ///
    /// A living node, which starts with its state.
    pub(super) unsafe fn set_aside(waiter: NonNull<C>, word: usize) {
        // SAFETY: contract.
        let state = unsafe { waiter.cast::<State<C>>().as_ref() };
        // ORD: ordered by the word that leads there.
        state.word().store(word, Ordering::Relaxed);
    }

    /// What was set aside in a waiter's word.
    ///
    /// # Safety
    ///
    /// As for `set_aside`.
    pub(super) unsafe fn aside(waiter: NonNull<C>) -> usize {
        // SAFETY: contract.
        let state = unsafe { waiter.cast::<State<C>>().as_ref() };
        // ORD: as in `set_aside`.
        state.word().load(Ordering::Relaxed)
    }

    /// The continuation, if the consumer has left its place to one.
    pub(crate) fn continuation(&self) -> Option<NonNull<C>> {
        // ORD: Acquire pairs with the Release of `attach`.
        let word = self.word().load(Ordering::Acquire);
        matches!(word & TAG, CONT | CONT_INTERRUPTS).then(|| payload(word)).flatten()
    }

    /// The same for a node without an interrupt node, of which that is so for good, whatever comes meanwhile.
    #[inline(always)]
    pub(crate) fn continuation_for_good(&self) -> Option<NonNull<C>> {
        // ORD: as in `complete`.
        let word = self.word().load(Ordering::Acquire);
        if word & TAG == CONT { payload(word) } else { None }
    }

    /// Whether somebody is attached, or may be.
    pub(crate) fn is_attached(&self) -> bool {
        // ORD: Acquire: what is attached downstream was so before.
        let word = self.word.load(Ordering::Acquire);
        word == BUSY || !matches!(word & TAG, EMPTY | DROPPED | KILLED)
    }

    /// Whether it will never be done, and nobody waits for it or is to be told.
    pub(crate) fn is_never(&self) -> bool {
        // ORD: Acquire pairs with the Release in `forsake`.
        self.word().load(Ordering::Acquire) == NEVER
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

    /// Whether it is clear that there is no interrupt node.
    #[inline]
    pub(crate) fn is_bare(&self) -> bool {
        // ORD: for whoever frees the node.
        let word = self.word().load(Ordering::Relaxed);
        matches!(word & TAG, CONT | DONE) || word == DROPPED
    }

    /// The interrupt node, if there is one.
    pub(crate) fn interrupt_node(&self) -> Option<NonNull<C>> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: Acquire pairs with the Release of who put them there.
            let word = self.word().load(Ordering::Acquire);
            match word & TAG {
                _ if word == BUSY => backoff.spin(),
                EMPTY | DROPPED | KILLED | CONT_INTERRUPTS | WAIT_INTERRUPTS => {
                    return interrupt_node_of(word);
                }
                _ => return None,
            }
        }
    }

    /// Puts an interrupt node where there is none, for the producer or for a visitor of the consumer. Its `next`,
    /// if it has to have one, is set by `between`. False: the word has changed, look again.
    pub(crate) fn put_interrupt_node(
        &self,
        interrupt_node: NonNull<C>,
        between: impl FnOnce(NonNull<C>),
    ) -> bool {
        // ORD: Acquire: what is there is visible.
        let word = self.word().load(Ordering::Acquire);
        let tag = match word & TAG {
            _ if word == BUSY || word == NEVER => return false,
            EMPTY | DROPPED | KILLED if interrupt_node_of::<C>(word).is_none() => word & TAG,
            CONT => CONT_INTERRUPTS,
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
}
