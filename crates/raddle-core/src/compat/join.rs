//! Forks as rayon's programs know them: closures that learn whether they were stolen, and one order for forks and tasks.

use std::mem::forget;
use std::panic::{self, AssertUnwindSafe};

use super::Place;
use crate::join::{Hint, Restore};
use crate::latch;
use crate::panics::Apart;
use crate::pool::{Waits, Worker};

/// Runs both closures, perhaps in parallel, and returns both results; outside of pools what `outside` makes of them.
///
/// Each closure is told whether it runs elsewhere than its caller would expect: both if the whole join was `injected` into
/// the pool, the second one if it was stolen. In a trace the join is at `place`. What `a` spawns runs before `b`, unless somebody has taken either; by
/// [`Waits::Substitute`] whenever.
///
/// # Panics
///
/// If `a` or `b` does, after both are over.
// Not inlined: iterators call it from the functions that have their leaves' loops, which would have fewer registers.
#[inline(never)]
pub fn join<A, B, RA, RB>(
    place: Place,
    injected: bool,
    a: A,
    b: B,
    outside: impl FnOnce(Place, A, B) -> (RA, RB),
) -> (RA, RB)
where
    A: FnOnce(bool) -> RA + Send,
    B: FnOnce(bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let Some(worker) = Worker::current() else { return outside(place, a, b) };
    let hint = Hint::here();
    let restore = Restore(hint);
    let home = std::ptr::from_ref(worker).expose_provenance();
    let position = worker.memory().ring.position();
    worker.slot().date(position);
    let (ra, rb) = worker.join_at(
        place,
        move |next| {
            next.set_current();
            // Caught, so that what runs until `b` is over is not within a panic: as that of `b`.
            let ra = panic::catch_unwind(AssertUnwindSafe(|| a(injected)));
            if next.memory().ring.position() != position {
                finish_spawned(next, home, position);
            }
            hint.set();
            ra
        },
        // In place it is given the worker that forked it.
        move |at| {
            let migrated = injected || std::ptr::from_ref(at).addr() != home;
            panic::catch_unwind(AssertUnwindSafe(|| b(migrated)))
        },
    );
    forget(restore);
    match (ra, rb) {
        (Ok(ra), Ok(rb)) => (ra, rb),
        (Err(payload), other) => {
            // It goes as the panic passes: what it is may do another thing then.
            let _other = Apart::new(other);
            panic::resume_unwind(payload)
        }
        (Ok(ra), Err(payload)) => {
            let _other = Apart::new(ra);
            panic::resume_unwind(payload)
        }
    }
}

/// Runs what a first half has spawned, the newest first, until the second half, which was forked at `home`, is over. Where the
/// oldest comes first, that is the second half.
#[cold]
#[inline(never)]
fn finish_spawned(worker: &Worker, home: usize, position: usize) {
    let memory = worker.memory();
    if memory.registry().config.waits == Waits::Host && !memory.takes_oldest() {
        // SAFETY: the worker that joins beneath this one: a slot of the same memory (R1).
        let forked = unsafe { &*std::ptr::with_exposed_provenance::<Worker>(home) };
        memory.run_above(position, || latch::is_set(&forked.slot().done));
    }
}
