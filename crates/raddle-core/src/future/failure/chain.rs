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

raddle_sync::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

raddle_sync::thread_local! {
    /// Without a destructor: a failure may be dropped while a thread's locals are destroyed. Empty but while one is.
    static LATER: RefCell<ManuallyDrop<Vec<Failure>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Calls `free`, which drops what a failure is made of; false if that is to be put off, by [`put_off`].
pub(super) fn nested(free: impl FnOnce()) -> bool {
    let depth = DEPTH.with(Cell::get);
    if depth >= DEEPEST {
        return false;
    }
    DEPTH.with(|nested| nested.set(depth + 1));
    let leave = Leave(depth);
    free();
    drop(leave);
    true
}

/// Whose drop is to wait.
pub(super) fn put_off(failure: Failure) {
    later(|later| later.push(failure));
}

fn later<R>(act: impl FnOnce(&mut Vec<Failure>) -> R) -> R {
    LATER.with(|later| act(&mut later.borrow_mut()))
}

/// Also when a panic of an error's drop passes.
struct Leave(u32);

impl Drop for Leave {
    fn drop(&mut self) {
        if self.0 == 0 {
            // Each may put off others.
            while let Some(next) = later(Vec::pop) {
                discard(next);
            }
            // The room goes, too.
            later(|later| *later = Vec::new());
        }
        DEPTH.with(|nested| nested.set(self.0));
    }
}
