//! Small ids for logical threads of execution.
//!
//! A **strand** is what a lock's owner is: one logical thread of execution. It is not always the
//! operating system's thread. A worker that waits may run foreign work on the same thread; were the
//! thread the owner, that work could re-enter a lock which the work beneath it holds. So the wait
//! loop runs foreign work under [`enter_foreign`], as another strand.
//!
//! **I1** At any time no two strands have the same id. An id comes from the [`Dispenser`] and goes
//! back exactly once: when the thread ends, or when the foreign strand does.
//! **I2** A thread's foreign strands nest: only the innermost guard may be dropped. The depth is kept
//! beside the id, every live or forgotten guard has a depth of its own, and a guard dropped out of
//! turn panics without changing anything.
//! **I3** A thread's own id goes back only if no foreign guard is left that could restore it.
//!
//! A thread must not end while it holds a lock: its id will name another thread's strand.

mod dispenser;

pub use dispenser::Dispenser;

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU16;

/// The id of a strand: 1 to 65,535.
///
/// ```
/// let me = raddle_sync::strand::current().unwrap();
/// assert_eq!(Some(me), raddle_sync::strand::current());
/// assert_ne!(me.get(), 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StrandId(NonZeroU16);

impl StrandId {
    /// The number, never 0.
    #[inline]
    pub const fn get(self) -> u16 {
        self.0.get()
    }
}

impl fmt::Debug for StrandId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StrandId({})", self.0)
    }
}

/// How many ids there are; few under models, so that running out of them is explored too.
const LIMIT: u16 = if cfg!(any(raddle_loom, raddle_shuttle)) { 7 } else { u16::MAX };

crate::lazy_static! {
    static DISPENSER: Dispenser = Dispenser::new(LIMIT);
}

/// What this thread runs as: the id (0: none assigned yet) below the depth of foreign strands.
#[derive(Clone, Copy, Default)]
struct Running {
    depth: u32,
    id: u16,
}

/// Gives the thread's own id back when the thread ends.
struct AtThreadEnd;

impl Drop for AtThreadEnd {
    fn drop(&mut self) {
        if cfg!(any(raddle_loom, raddle_shuttle)) {
            return; // A model tears its statics down before its threads' locals.
        }
        let running = RUNNING.with(Cell::get);
        if let (0, Some(id)) = (running.depth, NonZeroU16::new(running.id)) {
            RUNNING.with(|r| r.set(Running::default()));
            DISPENSER.give_back(StrandId(id)); // I3: no guard is left
        }
    }
}

// Two variables, so that the one read on every call needs no destructor, and with it no check
// whether it still lives.
crate::thread_local! {
    static RUNNING: Cell<Running> = const { Cell::new(Running { depth: 0, id: 0 }) };
}
crate::thread_local! {
    static AT_THREAD_END: AtThreadEnd = const { AtThreadEnd };
}

/// The id of the strand that runs now, assigned on first use; `None` while all ids are taken.
///
/// Costs a thread-local read once assigned. `None` may become an id later. Once a thread's locals
/// are being destroyed, a thread that has no id gets none.
#[inline]
pub fn current() -> Option<StrandId> {
    match NonZeroU16::new(RUNNING.with(Cell::get).id) {
        Some(id) => Some(StrandId(id)),
        None => assign(),
    }
}

#[cold]
fn assign() -> Option<StrandId> {
    let id = DISPENSER.take()?;
    let running = RUNNING.with(Cell::get);
    // A foreign strand's guard gives its id back; a thread's own is given back at the thread's end.
    if running.depth == 0 && AT_THREAD_END.try_with(|_| ()).is_err() {
        DISPENSER.give_back(id);
        return None;
    }
    RUNNING.with(|r| r.set(Running { id: id.get(), ..running }));
    Some(id)
}

/// Runs as another strand until the guard is dropped.
///
/// The new strand gets an id only if [`current`] asks for one; entering and leaving cost a
/// thread-local read and write each.
///
/// ```
/// use raddle_sync::strand;
/// let mine = strand::current();
/// let foreign = strand::enter_foreign();
/// assert_ne!(strand::current(), mine);
/// drop(foreign);
/// assert_eq!(strand::current(), mine);
/// ```
///
/// The guard stays on its thread:
/// ```compile_fail
/// let guard = raddle_sync::strand::enter_foreign();
/// std::thread::spawn(move || drop(guard));
/// ```
#[must_use = "the foreign strand ends when the guard is dropped"]
#[inline]
pub fn enter_foreign() -> ForeignStrand {
    RUNNING.with(|r| {
        let outer = r.get();
        let depth = outer.depth.checked_add(1).expect("foreign strands nested too deep");
        r.set(Running { depth, id: 0 });
        ForeignStrand { outer, not_send: PhantomData }
    })
}

/// A foreign strand's time on this thread; see [`enter_foreign`].
///
/// Guards are dropped in the reverse order of entering, as scopes do by themselves. If an inner one was
/// forgotten, the outer one ends its strand too; one that is dropped after an outer one does nothing.
pub struct ForeignStrand {
    outer: Running,
    not_send: PhantomData<*const ()>,
}

impl Drop for ForeignStrand {
    #[inline]
    fn drop(&mut self) {
        let inner = RUNNING.with(|r| {
            let inner = r.get();
            // Not innermost any more: an outer guard has ended this strand already (I2).
            (inner.depth > self.outer.depth).then(|| {
                r.set(self.outer);
                inner.id
            })
        });
        if let Some(id) = inner.and_then(NonZeroU16::new) {
            DISPENSER.give_back(StrandId(id));
        }
    }
}

impl fmt::Debug for ForeignStrand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ForeignStrand").field("depth", &(self.outer.depth + 1)).finish()
    }
}

#[cfg(all(test, not(any(raddle_loom, raddle_shuttle))))]
mod tests {
    use super::*;
    use crate::thread;
    use std::collections::HashSet;
    use std::sync::{Arc, Barrier};

    #[test]
    fn living_threads_have_different_ids() {
        let barrier = Arc::new(Barrier::new(8));
        let threads: Vec<_> = (0..8)
            .map(|_| {
                let barrier = Arc::clone(&barrier);
                thread::spawn(move || {
                    let id = current().unwrap();
                    barrier.wait();
                    id
                })
            })
            .collect();
        let ids: HashSet<_> = threads.into_iter().map(|t| t.join().unwrap()).collect();
        assert_eq!(ids.len(), 8);
    }

    #[test]
    fn ids_of_ended_threads_are_used_again() {
        // More threads than ids would take far too long; that ids stay small shows the same.
        let largest = (0..500)
            .map(|_| thread::spawn(|| current().unwrap().get()).join().unwrap())
            .max()
            .unwrap();
        assert!(largest < 400, "{largest} ids in use by a handful of threads");
    }

    #[test]
    fn foreign_strands_nest_and_restore() {
        let base = current();
        let one = enter_foreign();
        let id_one = current();
        assert_ne!(id_one, base);
        {
            let _unassigned = enter_foreign();
        }
        {
            let _two = enter_foreign();
            let id_two = current();
            assert!(id_two != id_one && id_two != base && id_two.is_some());
        }
        assert_eq!(current(), id_one);
        drop(one);
        assert_eq!(current(), base);
    }

    #[test]
    fn guards_forgotten_or_dropped_out_of_order_do_no_harm() {
        let base = current();
        let outer = enter_foreign();
        let inner = enter_foreign();
        assert!(current().is_some());
        drop(outer);
        assert_eq!(current(), base, "the outer guard ends the inner strand too");
        drop(inner);
        assert_eq!(current(), base);
        let outer = enter_foreign();
        std::mem::forget(enter_foreign());
        drop(outer);
        assert_eq!(current(), base);
    }
}
