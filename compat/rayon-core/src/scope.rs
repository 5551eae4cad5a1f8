//! Tasks that borrow.

use std::fmt;
use std::panic::Location;
use std::ptr::NonNull;

use raddle_core::compat::{self, Place, Team, with_here};

use crate::broadcast::BroadcastContext;
use crate::fifo::Fifo;
use crate::global;

/// Where tasks are spawned that may borrow: see [`scope`].
#[repr(transparent)]
pub struct Scope<'scope>(raddle_core::Scope<'scope>);

/// As [`Scope`], of tasks that run first in, first out: see [`scope_fifo`].
pub struct ScopeFifo<'scope> {
    /// Of the call that opened the scope, which is not over while anybody has a reference to this.
    scope: NonNull<raddle_core::Scope<'scope>>,
    fifos: Fifos<'scope>,
}

/// A queue for each thread of the pool: of the same call.
struct Fifos<'scope>(NonNull<[Fifo<Entry<'scope>>]>);

type Entry<'scope> = Box<dyn FnOnce(&raddle_core::Scope<'scope>) + Send + 'scope>;

// SAFETY: a reference to a `Sync` value, and `Fifos`.
unsafe impl Send for ScopeFifo<'_> {}
// SAFETY: as above.
unsafe impl Sync for ScopeFifo<'_> {}
// SAFETY: a reference to queues of what is `Send`, under locks.
unsafe impl Send for Fifos<'_> {}
// SAFETY: as above.
unsafe impl Sync for Fifos<'_> {}

impl Clone for Fifos<'_> {
    fn clone(&self) -> Self {
        *self
    }
}

impl Copy for Fifos<'_> {}

impl<'scope> Fifos<'scope> {
    fn all(&self) -> &[Fifo<Entry<'scope>>] {
        // SAFETY: only what runs within the scope has this: see `ScopeFifo`.
        unsafe { self.0.as_ref() }
    }
}

/// Calls `op` with a scope on a thread of the pool that this thread works in, else of the global one, and returns when `op`
/// and all that was spawned in the scope are over.
///
/// # Panics
///
/// If `op` or a task does, after all are over.
///
/// ```
/// let mut parts = [0; 4];
/// rayon_core::scope(|s| {
///     for (i, part) in parts.iter_mut().enumerate() {
///         s.spawn(move |_| *part = i * i);
///     }
/// });
/// assert_eq!(parts, [0, 1, 4, 9]);
/// ```
#[track_caller]
pub fn scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    scope_at(Location::caller(), op)
}

/// As [`scope`], with [`ScopeFifo::spawn_fifo`]: of what a thread has spawned in the scope it runs the oldest first.
///
/// # Panics
///
/// As [`scope`].
#[track_caller]
pub fn scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    scope_fifo_at(Location::caller(), op)
}

/// As [`scope`], with `op` called on this thread, also outside of pools.
///
/// # Panics
///
/// As [`scope`].
#[track_caller]
pub fn in_place_scope<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R,
{
    in_place_scope_at(Location::caller(), op)
}

/// As [`scope_fifo`], with `op` called on this thread, also outside of pools.
///
/// # Panics
///
/// As [`scope`].
#[track_caller]
pub fn in_place_scope_fifo<'scope, OP, R>(op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R,
{
    in_place_scope_fifo_at(Location::caller(), op)
}

/// As [`scope`], called from `place`.
pub(crate) fn scope_at<'scope, OP, R>(place: Place, op: OP) -> R
where
    OP: FnOnce(&Scope<'scope>) -> R + Send,
    R: Send,
{
    global::in_pool(|_| in_place_scope_at(place, op))
}

/// As [`scope_fifo`], called from `place`.
pub(crate) fn scope_fifo_at<'scope, OP, R>(place: Place, op: OP) -> R
where
    OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
    R: Send,
{
    global::in_pool(|_| in_place_scope_fifo_at(place, op))
}

fn in_place_scope_at<'scope, R>(place: Place, op: impl FnOnce(&Scope<'scope>) -> R) -> R {
    with_here(|here| match here {
        Some(here) => here.scope(place, |scope| op(Scope::of(scope))),
        None => scope_in(global::team(), place, op),
    })
}

fn in_place_scope_fifo_at<'scope, R>(place: Place, op: impl FnOnce(&ScopeFifo<'scope>) -> R) -> R {
    with_here(|here| match here {
        Some(here) => {
            let fifos = fifos(here.num_threads());
            here.scope(place, |scope| op(&ScopeFifo::of(scope, Fifos(NonNull::from(&*fifos)))))
        }
        None => scope_fifo_in(global::team(), place, op),
    })
}

pub(crate) fn scope_in<'scope, R>(
    team: &Team,
    place: Place,
    op: impl FnOnce(&Scope<'scope>) -> R,
) -> R {
    team.scope(place, |scope| op(Scope::of(scope)))
}

pub(crate) fn scope_fifo_in<'scope, R>(
    team: &Team,
    place: Place,
    op: impl FnOnce(&ScopeFifo<'scope>) -> R,
) -> R {
    let fifos = fifos(team.num_threads());
    team.scope(place, |scope| op(&ScopeFifo::of(scope, Fifos(NonNull::from(&*fifos)))))
}

/// For so many threads. To outlive the scope.
fn fifos<'scope>(threads: usize) -> Box<[Fifo<Entry<'scope>>]> {
    (0..threads).map(|_| Fifo::default()).collect()
}

impl<'scope> Scope<'scope> {
    fn of<'a>(scope: &'a raddle_core::Scope<'scope>) -> &'a Scope<'scope> {
        let scope: *const raddle_core::Scope<'scope> = scope;
        // SAFETY: transparent.
        unsafe { &*scope.cast() }
    }

    /// Spawns a task, which may spawn further ones through the scope it is given. What a thread has spawned last it runs
    /// first, unless others have taken it.
    #[track_caller]
    pub fn spawn<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&Scope<'scope>) + Send + 'scope,
    {
        self.0.spawn(move |scope| body(Scope::of(scope)));
    }

    /// Has each thread of the pool call `body` once, as [`broadcast`](crate::broadcast()) does.
    #[track_caller]
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&Scope<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let threads = compat::scope_threads(&self.0);
        compat::scope_spawn_each(&self.0, Location::caller(), move |scope, index| {
            body(Scope::of(scope), BroadcastContext::new(index, threads));
        });
    }
}

impl<'scope> ScopeFifo<'scope> {
    fn of(scope: &raddle_core::Scope<'scope>, fifos: Fifos<'scope>) -> ScopeFifo<'scope> {
        ScopeFifo { scope: NonNull::from(scope), fifos }
    }

    fn scope(&self) -> &raddle_core::Scope<'scope> {
        // SAFETY: only what runs within the scope has a reference to this: see the field.
        unsafe { self.scope.as_ref() }
    }

    /// Spawns a task. Of what a thread has spawned so, it runs the oldest first.
    #[track_caller]
    pub fn spawn_fifo<BODY>(&self, body: BODY)
    where
        BODY: FnOnce(&ScopeFifo<'scope>) + Send + 'scope,
    {
        let (scope, fifos) = (self.scope(), self.fifos);
        let Some(index) = compat::scope_index(scope) else {
            // What comes from outside is in order anyway.
            scope.spawn(move |scope| body(&ScopeFifo::of(scope, fifos)));
            return;
        };
        // It may run by the token of another, but not in its context.
        let entry = move |scope: &_| body(&ScopeFifo::of(scope, fifos));
        // SAFETY: it is called by the token of one that is spawned below, each of which the scope waits for.
        let entry = unsafe { compat::scope_carry(scope, entry) };
        fifos.all()[index].push(Box::new(entry));
        scope.spawn(move |scope| {
            let entry = fifos.all()[index].pop();
            entry(scope);
        });
    }

    /// As [`Scope::spawn_broadcast`].
    #[track_caller]
    pub fn spawn_broadcast<BODY>(&self, body: BODY)
    where
        BODY: Fn(&ScopeFifo<'scope>, BroadcastContext<'_>) + Send + Sync + 'scope,
    {
        let (threads, fifos) = (self.fifos.all().len(), self.fifos);
        compat::scope_spawn_each(self.scope(), Location::caller(), move |scope, index| {
            body(&ScopeFifo::of(scope, fifos), BroadcastContext::new(index, threads));
        });
    }
}

impl fmt::Debug for Scope<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Scope").field(&self.0).finish()
    }
}

impl fmt::Debug for ScopeFifo<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopeFifo").field("scope", self.scope()).finish_non_exhaustive()
    }
}

/// A scope's lifetime is invariant, of either kind: with a shorter one a task could borrow what is gone before it runs, with a
/// longer one it could leave behind what does not live as long.
///
/// ```
/// fn tasks_may_borrow<'scope>(_: &rayon_core::Scope<'scope>, _: &'scope str) {}
/// fn tasks_may_borrow_fifo<'scope>(_: &rayon_core::ScopeFifo<'scope>, _: &'scope str) {}
/// fn as_it_is<'scope>(scope: &rayon_core::Scope<'scope>, fifo: &rayon_core::ScopeFifo<'scope>, it: &'scope str) {
///     tasks_may_borrow(scope, it);
///     tasks_may_borrow_fifo(fifo, it);
/// }
/// ```
///
/// ```compile_fail,E0597
/// fn tasks_may_borrow<'scope>(_: &rayon_core::Scope<'scope>, _: &'scope str) {}
/// fn shorter(scope: &rayon_core::Scope<'static>) {
///     let local = String::new();
///     tasks_may_borrow(scope, &local);
/// }
/// ```
///
/// ```compile_fail,E0521
/// fn tasks_leave_behind(_: &rayon_core::Scope<'static>) {}
/// fn longer(scope: &rayon_core::Scope<'_>) { tasks_leave_behind(scope) }
/// ```
///
/// ```compile_fail,E0597
/// fn tasks_may_borrow<'scope>(_: &rayon_core::ScopeFifo<'scope>, _: &'scope str) {}
/// fn shorter(scope: &rayon_core::ScopeFifo<'static>) {
///     let local = String::new();
///     tasks_may_borrow(scope, &local);
/// }
/// ```
///
/// ```compile_fail,E0521
/// fn tasks_leave_behind(_: &rayon_core::ScopeFifo<'static>) {}
/// fn longer(scope: &rayon_core::ScopeFifo<'_>) { tasks_leave_behind(scope) }
/// ```
#[cfg(doctest)]
pub struct ScopesAreInvariant;
