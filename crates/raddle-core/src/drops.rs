//! What may be within another of its kind, and so on, dropped without recursion.
//!
//! An error that a failure is made of may have a failure itself, and a snapshot may be bound in another: who adds to what went
//! wrong at each of a million steps makes a chain that is a million long. So from some depth on, what is to be freed waits until the
//! outermost of these is over.

use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::panics::contain;

/// So many nest. Each takes its frames and those of the users' drops.
const DEEPEST: u32 = 32;

/// What is to be freed, and how.
type Free = (NonNull<()>, unsafe fn(NonNull<()>));

raddle_sync::thread_local! {
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

raddle_sync::thread_local! {
    /// Without a destructor: a thread's locals may hold what is freed here. Empty but while something is.
    static LATER: RefCell<ManuallyDrop<Vec<Free>>> =
        const { RefCell::new(ManuallyDrop::new(Vec::new())) };
}

/// Calls `free`, which may unwind: now, or if this is deep when the outermost such call is over.
///
/// # Safety
///
/// It must be sound to call it, once, on this thread at any later time.
pub(crate) unsafe fn nested(place: NonNull<()>, free: unsafe fn(NonNull<()>)) {
    let depth = DEPTH.with(Cell::get);
    if depth >= DEEPEST {
        return later(|later| later.push((place, free)));
    }
    DEPTH.with(|nested| nested.set(depth + 1));
    let leave = Leave(depth);
    // SAFETY: contract.
    unsafe { free(place) };
    drop(leave);
}

fn later<R>(act: impl FnOnce(&mut Vec<Free>) -> R) -> R {
    LATER.with(|later| act(&mut later.borrow_mut()))
}

/// Also when a panic passes.
struct Leave(u32);

impl Drop for Leave {
    fn drop(&mut self) {
        if self.0 == 0 {
            // Each may put off others.
            while let Some((place, free)) = later(Vec::pop) {
                // SAFETY: by who put it off.
                contain(|| unsafe { free(place) });
            }
            // The room goes, too.
            later(|later| *later = Vec::new());
        }
        DEPTH.with(|nested| nested.set(self.0));
    }
}
