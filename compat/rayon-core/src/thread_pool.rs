//! [`ThreadPool`], and what a thread knows of the pool that it works in.

use std::error::Error;
use std::fmt;
use std::panic::{Location, RefUnwindSafe, UnwindSafe};

use raddle_core::compat::{Here, MAX_THREADS, Team, with_here};

use crate::broadcast::{self, BroadcastContext};
use crate::join::join_at;
use crate::scope::{self, Scope, ScopeFifo};
use crate::{global, spawn};

/// A pool of threads: built by [`ThreadPoolBuilder`](crate::ThreadPoolBuilder).
///
/// When it is dropped its threads go as soon as they have done what was spawned. Nobody waits for that.
pub struct ThreadPool {
    pub(crate) team: Team,
}

impl ThreadPool {
    /// As [`ThreadPoolBuilder::build`](crate::ThreadPoolBuilder::build).
    ///
    /// # Errors
    ///
    /// As there.
    #[deprecated(note = "Use `ThreadPoolBuilder::build`")]
    #[allow(deprecated)]
    pub fn new(configuration: crate::Configuration) -> Result<ThreadPool, Box<dyn Error>> {
        configuration.build()
    }

    /// Calls `op` on a thread of this pool: here if this is one, else while the caller blocks. What `op` does by functions
    /// of this crate it does in this pool.
    ///
    /// A thread of another pool goes on with work of that pool meanwhile.
    ///
    /// # Panics
    ///
    /// If `op` does.
    pub fn install<OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce() -> R + Send,
        R: Send,
    {
        match self.with_here(|_| ()) {
            Some(()) => op(),
            None => self.team.call(op),
        }
    }

    /// As [`broadcast`](crate::broadcast()), in this pool.
    ///
    /// # Panics
    ///
    /// As there.
    #[track_caller]
    pub fn broadcast<OP, R>(&self, op: OP) -> Vec<R>
    where
        OP: Fn(BroadcastContext<'_>) -> R + Sync,
        R: Send,
    {
        broadcast::broadcast_in(&self.team, Location::caller(), op)
    }

    /// How many threads the pool has.
    #[inline]
    pub fn current_num_threads(&self) -> usize {
        self.team.num_threads()
    }

    /// The index of this thread if it is one of this pool.
    #[inline]
    pub fn current_thread_index(&self) -> Option<usize> {
        self.with_here(|here| here.index())?
    }

    /// Whether this thread, if it is one of this pool, has work in its own queue.
    #[inline]
    pub fn current_thread_has_pending_tasks(&self) -> Option<bool> {
        self.with_here(|here| here.has_pending())
    }

    /// As [`join`](crate::join()), in this pool.
    ///
    /// # Panics
    ///
    /// As there.
    #[track_caller]
    pub fn join<A, B, RA, RB>(&self, oper_a: A, oper_b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let place = Location::caller();
        self.install(|| join_at(place, oper_a, oper_b))
    }

    /// As [`scope`](crate::scope()), in this pool.
    ///
    /// # Panics
    ///
    /// As there.
    #[track_caller]
    pub fn scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R + Send,
        R: Send,
    {
        let place = Location::caller();
        self.install(|| scope::scope_at(place, op))
    }

    /// As [`scope_fifo`](crate::scope_fifo()), in this pool.
    ///
    /// # Panics
    ///
    /// As there.
    #[track_caller]
    pub fn scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R + Send,
        R: Send,
    {
        let place = Location::caller();
        self.install(|| scope::scope_fifo_at(place, op))
    }

    /// As [`in_place_scope`](crate::in_place_scope()), with tasks in this pool.
    ///
    /// # Panics
    ///
    /// As there.
    #[track_caller]
    pub fn in_place_scope<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&Scope<'scope>) -> R,
    {
        scope::scope_in(&self.team, Location::caller(), op)
    }

    /// As [`in_place_scope_fifo`](crate::in_place_scope_fifo()), with tasks in this pool.
    ///
    /// # Panics
    ///
    /// As there.
    #[track_caller]
    pub fn in_place_scope_fifo<'scope, OP, R>(&self, op: OP) -> R
    where
        OP: FnOnce(&ScopeFifo<'scope>) -> R,
    {
        scope::scope_fifo_in(&self.team, Location::caller(), op)
    }

    /// As [`spawn`](crate::spawn()), in this pool.
    #[track_caller]
    pub fn spawn<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        self.team.spawn(Location::caller(), op);
    }

    /// As [`spawn_fifo`](crate::spawn_fifo()), in this pool.
    #[track_caller]
    pub fn spawn_fifo<OP>(&self, op: OP)
    where
        OP: FnOnce() + Send + 'static,
    {
        spawn::spawn_fifo_in(&self.team, Location::caller(), op);
    }

    /// As [`spawn_broadcast`](crate::spawn_broadcast()), in this pool.
    #[track_caller]
    pub fn spawn_broadcast<OP>(&self, op: OP)
    where
        OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
    {
        broadcast::spawn_broadcast_in(&self.team, Location::caller(), op);
    }

    /// As [`yield_now`](crate::yield_now()), if this thread is one of this pool.
    pub fn yield_now(&self) -> Option<Yield> {
        self.with_here(|here| Yield::of(here.yield_now()))
    }

    /// As [`yield_local`](crate::yield_local()), if this thread is one of this pool.
    pub fn yield_local(&self) -> Option<Yield> {
        self.with_here(|here| Yield::of(here.yield_local()))
    }

    /// Calls `f` with this thread, if it works in this pool.
    fn with_here<R>(&self, f: impl FnOnce(Here<'_>) -> R) -> Option<R> {
        with_here(|here| here.filter(|here| here.is_of(&self.team)).map(f))
    }
}

// What panics in a pool leaves it as it was.
impl UnwindSafe for ThreadPool {}
impl RefUnwindSafe for ThreadPool {}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.team.end();
    }
}

impl fmt::Debug for ThreadPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPool")
            .field("num_threads", &self.current_num_threads())
            .finish_non_exhaustive()
    }
}

/// What [`yield_now`] and [`yield_local`] have done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Yield {
    /// Something was run.
    Executed,
    /// There was nothing.
    Idle,
}

impl Yield {
    fn of(executed: bool) -> Yield {
        if executed { Yield::Executed } else { Yield::Idle }
    }
}

/// The most threads that a pool may have: whoever asks for more gets so many.
pub fn max_num_threads() -> usize {
    MAX_THREADS
}

/// How many threads the pool has that this thread works in; outside of pools, the global one.
#[inline]
pub fn current_num_threads() -> usize {
    with_here(|here| match here {
        Some(here) => here.num_threads(),
        None => global::team().num_threads(),
    })
}

/// The index of this thread in the pool that it works in: the same as long as the pool lives, below
/// [`current_num_threads`], and no other thread's. None outside of pools. (With `RADDLE_WAITS=substitute` the number of its
/// place: perhaps another one after a wait, and none within `raddle::blocking`, or for a moment where more threads go on from a
/// wait than the pool has.)
#[inline]
pub fn current_thread_index() -> Option<usize> {
    with_here(|here| here?.index())
}

/// Whether this thread has work in its own queue; none outside of pools.
#[inline]
pub fn current_thread_has_pending_tasks() -> Option<bool> {
    with_here(|here| Some(here?.has_pending()))
}

/// Runs one thing, as a thread that waits would do: of its own, of another thread's, or from outside. None outside of
/// pools.
///
/// ```
/// assert_eq!(rayon_core::yield_now(), None);
/// ```
pub fn yield_now() -> Option<Yield> {
    with_here(|here| Some(Yield::of(here?.yield_now())))
}

/// As [`yield_now`], of this thread's own only.
pub fn yield_local() -> Option<Yield> {
    with_here(|here| Some(Yield::of(here?.yield_local())))
}
