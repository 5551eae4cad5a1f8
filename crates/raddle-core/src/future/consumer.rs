//! What a consumer does with the word of a node: see `state`, where the words and the invariants are.

use std::ptr::NonNull;

use raddle_sync::atomic::Ordering;
use raddle_sync::spin::Backoff;

use crate::future::state::{
    Abandoned, Attach, BUSY, CONT, CONT_INTERRUPTS, Carries, DROPPED, EMPTY, ERR, Ended, GONE,
    KILLED, Kill, NEVER, OK, Refused, State, TAG, UNWANTED, Visit, WAIT, WAIT_INTERRUPTS, payload,
    word_of,
};

/// A word of a node to which somebody may be attached, or will never be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Vacant(usize);

impl Vacant {
    /// Of a node that the consumer has not looked at.
    pub(crate) const UNSEEN: Vacant = Vacant(NEVER);

    /// What is to be seen now.
    pub(crate) fn of<C>(state: &State<C>) -> Vacant {
        // ORD: nothing is looked at.
        let word = state.word().load(Ordering::Relaxed);
        if word & TAG == EMPTY { Vacant(word) } else { Vacant::UNSEEN }
    }

    /// What it carries.
    #[inline]
    pub(crate) fn carried<C>(self) -> Option<NonNull<C>> {
        if self.0 == NEVER { None } else { payload(self.0) }
    }
}

impl<C> State<C> {
    /// The outcome, once there is one. After `Some` the slot is the consumer's (F1).
    pub(crate) fn outcome(&self) -> Option<Ended> {
        // ORD: Acquire pairs with the Release in `complete`.
        Self::read(self.word().load(Ordering::Acquire))
    }

    pub(super) fn read(word: usize) -> Option<Ended> {
        match word {
            OK => Some(Ended::Ok),
            ERR => Some(Ended::Err),
            GONE => Some(Ended::Killed),
            _ => (word & TAG == KILLED).then_some(Ended::Killed),
        }
    }

    /// The outcome, once there is one, or else what the word says; for a consumer of whom there is no other part.
    #[inline]
    pub(crate) fn vacant(&self) -> Result<Vacant, Ended> {
        // ORD: Acquire pairs with the Release in `complete`.
        let word = self.word().load(Ordering::Acquire);
        debug_assert!(word != BUSY, "nobody else goes upstream from here");
        match word & TAG {
            EMPTY => Ok(Vacant(word)),
            _ => Self::read(word).map_or(Ok(Vacant(NEVER)), Err),
        }
    }

    /// Asks to have `who`, which starts with its state, told; an interrupt node that is there is pointed to it by `behind`.
    /// Gives the outcome instead if there is one. `Vacant` is what a continuation's consumer has seen, if it has looked.
    #[inline]
    pub(crate) fn attach(
        &self,
        vacant: Vacant,
        who: NonNull<C>,
        how: Attach,
        carries: Carries,
        behind: impl Fn(NonNull<C>),
    ) -> Result<(), Refused> {
        let tag = if how == Attach::Continuation { CONT } else { WAIT };
        let after = word_of(who, tag);
        let before = match (carries, how) {
            (Carries::Cell, Attach::Continuation) => vacant.0,
            _ => EMPTY,
        };
        if before == BUSY || before == NEVER {
            return self.attach_slowly(carries, who, how, behind);
        }
        // ORD: Release pairs with the Acquire in `complete`.
        match self.word().compare_exchange(before, after, Ordering::Release, Ordering::Relaxed) {
            Ok(_) => Ok(()),
            Err(_) => self.attach_slowly(carries, who, how, behind),
        }
    }

    #[cold]
    fn attach_slowly(
        &self,
        carries: Carries,
        who: NonNull<C>,
        how: Attach,
        behind: impl Fn(NonNull<C>),
    ) -> Result<(), Refused> {
        let mut backoff = Backoff::new();
        // ORD: Acquire pairs with the Release in `complete`.
        let mut word = self.word().load(Ordering::Acquire);
        loop {
            if let Some(outcome) = Self::read(word) {
                return Err(Refused::Done(outcome));
            }
            let after = if word == NEVER {
                if how != Attach::Waiter {
                    return Err(Refused::Never);
                }
                // SAFETY: the caller's still; contract.
                unsafe { Self::set_aside(who, NEVER) };
                word_of(who, WAIT)
            } else if word == BUSY {
                backoff.spin();
                // ORD: as below.
                word = self.word().load(Ordering::Acquire);
                continue;
            } else {
                if matches!(word & TAG, WAIT | WAIT_INTERRUPTS) && how != Attach::Continuation {
                    return Err(Refused::Taken);
                }
                assert!(word & TAG == EMPTY, "a future has one consumer");
                match payload(word).filter(|_| carries == Carries::Interrupts) {
                    None if how == Attach::Continuation => word_of(who, CONT),
                    None => {
                        // SAFETY: the caller's still; contract.
                        unsafe { Self::set_aside(who, word) };
                        word_of(who, WAIT)
                    }
                    Some(interrupt_node) => {
                        if !self.hold(word) {
                            // ORD: as below.
                            word = self.word().load(Ordering::Acquire);
                            continue;
                        }
                        behind(interrupt_node);
                        let tag = if how == Attach::Continuation {
                            CONT_INTERRUPTS
                        } else {
                            WAIT_INTERRUPTS
                        };
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
    pub(super) fn hold(&self, word: usize) -> bool {
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
                    if self.hold(word) {
                        let waiter: Option<NonNull<C>> = payload(word);
                        // SAFETY: attached, and held.
                        let before = waiter.map_or(EMPTY, |waiter| unsafe { Self::aside(waiter) });
                        // ORD: as in `leave`.
                        self.word().store(before, Ordering::Release);
                        return waiter;
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
        // Whoever is killed may be waited for, too.
        matches!(word & TAG, EMPTY | WAIT_INTERRUPTS) && word & !TAG != 0 && word != NEVER
    }

    /// As `abandon`, if nobody can want to know; none: not gone.
    #[inline]
    pub(crate) fn abandon_early(&self, carries: Carries) -> Option<Abandoned> {
        // ORD: Acquire pairs with the Release in `complete`.
        let word = self.word().load(Ordering::Acquire);
        match word {
            OK => return Some(Abandoned::Done(Ended::Ok)),
            ERR => return Some(Abandoned::Done(Ended::Err)),
            _ => {}
        }
        let bare = match carries {
            Carries::Interrupts => word == EMPTY,
            Carries::Cell => word & TAG == EMPTY && word != BUSY && word != NEVER,
        };
        // ORD: Release, as in `abandon`.
        let exchange = |word| {
            self.word().compare_exchange(word, DROPPED, Ordering::Release, Ordering::Relaxed)
        };
        (bare && exchange(word).is_ok()).then_some(Abandoned::Left)
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
                // ORD: Acquire above: whoever frees has seen what the producer did.
                _ if word == NEVER => return Abandoned::Never,
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
    pub(crate) fn kill(
        &self,
        carries: Carries,
        next_of: impl Fn(NonNull<C>) -> Option<NonNull<C>>,
    ) -> Kill<C> {
        let mut backoff = Backoff::new();
        loop {
            // ORD: nothing is looked at before the word is taken or changed.
            let word = self.word().load(Ordering::Relaxed);
            let after = match word & TAG {
                _ if word == BUSY => {
                    backoff.spin();
                    continue;
                }
                _ if word == NEVER => GONE,
                EMPTY if carries == Carries::Cell => KILLED,
                EMPTY => word | KILLED,
                WAIT if self.hold(word) => {
                    let waiter = payload(word);
                    // SAFETY: attached, and held.
                    let never =
                        waiter.is_some_and(|waiter| unsafe { Self::aside(waiter) } == NEVER);
                    // ORD: as in `leave`.
                    self.word().store(if never { GONE } else { KILLED }, Ordering::Release);
                    return Kill::Done(waiter);
                }
                WAIT_INTERRUPTS if self.hold(word) => {
                    let waiter = payload(word).and_then(&next_of);
                    // ORD: as in `leave`.
                    self.word().store((word & !TAG) | KILLED, Ordering::Release);
                    return Kill::Done(waiter);
                }
                WAIT | WAIT_INTERRUPTS => continue,
                _ => return Kill::TooLate,
            };
            // ORD: Release for the producer, who frees if the consumer has gone; Acquire: the waiter is visible.
            if self
                .word()
                .compare_exchange(word, after, Ordering::AcqRel, Ordering::Relaxed)
                .is_ok()
            {
                return Kill::Done(None);
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
                _ if word == NEVER => return None,
                EMPTY | WAIT | WAIT_INTERRUPTS if self.hold(word) => {
                    let waiter = payload(word).filter(|_| word & TAG == WAIT);
                    // SAFETY: attached, and held.
                    if waiter.is_some_and(|waiter| unsafe { Self::aside(waiter) } == NEVER) {
                        self.leave(Visit(word));
                        return None;
                    }
                    return Some(Visit(word));
                }
                EMPTY | WAIT | WAIT_INTERRUPTS => {}
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

    /// The cell of the visited node's future.
    pub(crate) fn cell<C>(&self) -> Option<NonNull<C>> {
        let word = match payload::<C>(self.0) {
            // SAFETY: attached, and held.
            Some(waiter) if self.0 & TAG == WAIT => unsafe { State::aside(waiter) },
            _ => self.0,
        };
        payload(word)
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
