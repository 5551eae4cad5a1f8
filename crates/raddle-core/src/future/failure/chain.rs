//! Failures within failures, dropped without recursion.
//!
//! An error that a failure is made of may have a failure itself, and so on: code that adds to what went wrong at each of a million steps
//! makes a chain that is a million long. So from some depth on, what is to be dropped waits until the outermost drop is over.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;

use super::Failure;
use crate::panics::discard;

/// So many drops nest. Each takes its frames and those of the users' errors.
const DEEPEST: u32 = 32;

thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Without a destructor: a failure may be dropped while a thread's locals are destroyed. Empty but while one is.
    static LATER: RefCell<ManuallyDrop<Vec<Failure>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Calls `free`, which drops what a failure is made of; false if that is to be put off, by [`put_off`].
pub(super) fn nested(free: impl FnOnce()) -> bool {
    let depth = DEPTH.get();
    if depth >= DEEPEST {
        return false;
    }
    DEPTH.set(depth + 1);
    let leave = Leave(depth);
    free();
    drop(leave);
    true
}

/// Whose drop is to wait.
pub(super) fn put_off(failure: Failure) {
    LATER.with_borrow_mut(|later| later.push(failure));
}

/// Also when a panic of an error's drop passes.
struct Leave(u32);

impl Drop for Leave {
    fn drop(&mut self) {
        if self.0 == 0 {
            // Each may put off others.
            while let Some(next) = LATER.with_borrow_mut(|later| later.pop()) {
                discard(next);
            }
            // The room goes, too.
            LATER.with_borrow_mut(|later| **later = Vec::new());
        }
        DEPTH.set(self.0);
    }
}
