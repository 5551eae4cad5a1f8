//! The count of a scope, and the credit that workers have with it.
//!
//! Were the count raised with each task that is spawned and lowered with each that is over, that would be two
//! read-modify-writes a task. So a worker has a *purse*: it draws many shares at a time, gives each task that it spawns
//! one of them, takes that of each task that ends on it, and gives back what it has left when it turns to something
//! else.
//!
//! # Invariants
//!
//! - **CN1** `shares` counts those of whoever opened the scope, of every spawned task that is not over, and of purses. So
//!   when it is zero all are over. Whoever brings it there sets the latch, and touches the count no more; the scope
//!   returns only when the latch is set, or when it brought the count to zero itself.
//! - **CN2** A purse is used by its worker's thread alone. It has shares of a count only while that thread runs
//!   the body or a task of that scope, or is between two of its tasks: beneath is a frame that gives them back.

use std::cell::Cell;
use std::ptr;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::parker::Parker;

use crate::latch::Latch;
use crate::queue::{NOBODY, Tag};

/// How many shares a purse draws at a time.
#[cfg(not(raddle_model))]
const DRAW: usize = 32;
#[cfg(raddle_model)]
const DRAW: usize = 2;

/// See the module.
#[derive(Debug)]
pub(crate) struct Count {
    shares: AtomicUsize,
    latch: Latch,
}

impl Count {
    /// With one share, for a thread that parks on `parker`.
    pub(crate) fn new(parker: &'static Parker) -> Count {
        Count { shares: AtomicUsize::new(1), latch: Latch::new(parker) }
    }

    /// Set when the count is zero, unless it was the opener who brought it there.
    pub(crate) fn latch(&self) -> &Latch {
        &self.latch
    }

    /// The name of the count in queues.
    pub(crate) fn tag(&self) -> Tag {
        ptr::from_ref(self).expose_provenance()
    }

    /// A share for a task, by a thread without a purse; the caller has one, or what it runs has (CN1).
    pub(crate) fn add(&self) {
        self.draw(1);
    }

    fn draw(&self, shares: usize) {
        // ORD: the drawer's own share, or that of what it runs, keeps the count above zero.
        self.shares.fetch_add(shares, Ordering::Relaxed);
    }

    /// The opener gives up its share, and what its purse had. True: all are over. Else the latch will be set.
    #[must_use]
    pub(crate) fn close(&self, purse: usize) -> bool {
        // ORD: Acquire pairs with the Release in `give_back`: what the tasks did is visible.
        self.shares.fetch_sub(1 + purse, Ordering::AcqRel) == 1 + purse
    }

    /// Gives up shares.
    ///
    /// # Safety
    ///
    /// They are the caller's, who keeps `count` alive by them; it may be gone afterwards (CN1).
    pub(crate) unsafe fn give_back(count: *const Count, shares: usize) {
        // SAFETY: alive by the shares (contract).
        let all = unsafe { &(*count).shares };
        // ORD: Release pairs with the Acquire in `close`, or through the latch with its waiter's; Acquire, so that who
        // sets the latch passes on what the others did.
        if all.fetch_sub(shares, Ordering::AcqRel) == shares {
            // SAFETY: the opener waits for its latch (CN1).
            let latch = unsafe { &raw const (*count).latch };
            // SAFETY: as above.
            unsafe { Latch::set(latch) };
        }
    }
}

/// What a worker has in hand of one count: see the module.
#[derive(Debug)]
pub(crate) struct Purse {
    /// Of which count; [`NOBODY`]: none.
    tag: Cell<Tag>,
    shares: Cell<usize>,
}

/// What a purse held before it was opened for something else.
#[derive(Debug)]
#[must_use]
pub(crate) struct Outer(Tag, usize);

impl Purse {
    pub(crate) fn new() -> Purse {
        Purse { tag: Cell::new(NOBODY), shares: Cell::new(0) }
    }

    /// Puts what is in hand aside, for a frame that runs on top.
    pub(crate) fn open(&self, tag: Tag) -> Outer {
        Outer(self.tag.replace(tag), self.shares.replace(0))
    }

    /// Ends what `open` began. What is in hand now is the caller's to give back.
    pub(crate) fn close(&self, outer: Outer) -> usize {
        self.tag.set(outer.0);
        self.shares.replace(outer.1)
    }

    /// Before the thread runs a task of this tag, or looks for one elsewhere ([`NOBODY`]): gives back what it has of
    /// another count.
    #[inline]
    pub(crate) fn turn_to(&self, tag: Tag) {
        if self.tag.get() != tag {
            self.turn(tag);
        }
    }

    fn turn(&self, tag: Tag) {
        let count = ptr::with_exposed_provenance::<Count>(self.tag.replace(tag));
        let shares = self.shares.replace(0);
        if shares > 0 {
            // SAFETY: those in hand.
            unsafe { Count::give_back(count, shares) };
        }
    }

    /// A share for a task that is spawned here.
    #[inline]
    pub(crate) fn spend(&self, count: &Count) {
        if self.tag.get() != ptr::from_ref(count).addr() {
            count.add();
        } else if let Some(left) = self.shares.get().checked_sub(1) {
            self.shares.set(left);
        } else {
            count.draw(DRAW);
            self.shares.set(DRAW - 1);
        }
    }

    /// Takes the share of a task that is over.
    ///
    /// # Safety
    ///
    /// It is the caller's, who keeps `count` alive by it; it may be gone afterwards (CN1).
    #[inline]
    pub(crate) unsafe fn earn(&self, count: *const Count) {
        if self.tag.get() == count.addr() {
            self.shares.set(self.shares.get() + 1);
        } else {
            // SAFETY: contract.
            unsafe { Count::give_back(count, 1) };
        }
    }
}
