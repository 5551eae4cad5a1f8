//! How a future ends, how one attaches to it, and what its two parties find.

use std::ptr::NonNull;

use super::{ERR, GONE, OK};

/// How a future ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Ok,
    Err,
    Killed,
}

impl Ended {
    #[inline]
    pub(super) fn word(self) -> usize {
        match self {
            Ended::Ok => OK,
            Ended::Err => ERR,
            Ended::Killed => GONE,
        }
    }
}

/// What a word carries that says `EMPTY`, by the kind of the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Carries {
    /// A promise's: its interrupt node, if it has one.
    Interrupts,
    /// Another's: the cell of its future, if it is not that itself.
    Cell,
}

/// How somebody is attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Attach {
    /// In the place of the consumer, for good.
    Continuation,
    /// Until detached: the consumer stays.
    Waiter,
    /// As a waiter, who hears also that it will never be done.
    Part,
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

/// What the producer found on leaving for good.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Forsaken<C> {
    /// The consumer frees.
    Left,
    /// Who hears of it: a continuation, whose future will never be done either, or a part of a combination.
    Next(NonNull<C>),
    /// The consumer has gone: free.
    Dropped,
}

/// Why nobody was attached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Done(Ended),
    /// It will never be done. Waiters are not told so.
    Never,
    /// Somebody waits, and only one is told.
    Taken,
}

/// What a consumer that leaves finds.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Abandoned {
    /// The producer will free.
    Left,
    /// Drop what is in the slot, if the outcome says there is something, and free.
    Done(Ended),
    /// Free: the slot is empty.
    Never,
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
