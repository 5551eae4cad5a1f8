//! Which guards of foreign strands have no strand any more.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

/// The times that a strand ended together with others above it (S2), whose guards may be left.
///
/// A guard remembers how many there had been when its strand began. Mostly there are none since, so that its strand still is.
#[derive(Debug)]
pub(in super::super) struct Cuts {
    count: Cell<u64>,
    /// The latest of each depth, as far as no later one was as deep: ever deeper. Never freed: guards may turn up.
    latest: RefCell<ManuallyDrop<Vec<Cut>>>,
}

#[derive(Debug)]
struct Cut {
    /// How many there were with it.
    count: u64,
    /// All strands above this depth ended.
    depth: u32,
}

impl Cuts {
    pub(super) const fn new() -> Cuts {
        Cuts { count: Cell::new(0), latest: RefCell::new(ManuallyDrop::new(Vec::new())) }
    }

    /// How many there have been.
    #[inline(always)]
    pub(in super::super) fn count(&self) -> u64 {
        self.count.get()
    }

    /// All strands above a depth have ended.
    pub(in super::super) fn cut(&self, depth: u32) {
        let count = self.count.get() + 1;
        self.count.set(count);
        let mut latest = self.latest.borrow_mut();
        latest.retain(|cut| cut.depth < depth); // The rest have ended no strand that this one has not.
        latest.push(Cut { count, depth });
    }

    /// Whether there was one that has ended a strand of this depth, which began when there had been `count`.
    pub(in super::super) fn ended(&self, depth: u32, count: u64) -> bool {
        self.latest.borrow().iter().any(|cut| cut.count > count && cut.depth < depth)
    }
}
