//! The same closure on each thread.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;

use raddle_core::compat::{Place, Team, with_here};

use crate::global;

/// Calls `op` once on each thread of the pool that this thread works in, else of the global one, and returns the results
/// by the threads' indices.
///
/// Each thread does so when it has done what it has queued itself, and before it steals; also while it waits in a
/// [`join`](crate::join()) or a [`scope`](crate::scope()).
///
/// # Panics
///
/// If `op` does, after all calls are over.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
/// assert_eq!(pool.broadcast(|thread| thread.index() * 10), [0, 10, 20]);
/// ```
#[track_caller]
pub fn broadcast<OP, R>(op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    let place = Location::caller();
    with_here(|here| match here {
        Some(here) => here.broadcast(place, |thread| op(BroadcastContext::of(thread))),
        None => broadcast_in(global::team(), place, op),
    })
}

pub(crate) fn broadcast_in<OP, R>(team: &Team, place: Place, op: OP) -> Vec<R>
where
    OP: Fn(BroadcastContext<'_>) -> R + Sync,
    R: Send,
{
    team.broadcast(place, |thread| op(BroadcastContext::of(thread)))
}

/// As [`broadcast`], but nobody waits for it. A panic goes to the pool's
/// [panic handler](crate::ThreadPoolBuilder::panic_handler); without one the process aborts.
#[track_caller]
pub fn spawn_broadcast<OP>(op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    let place = Location::caller();
    with_here(|here| match here {
        Some(here) => here.spawn_each(place, each(here.num_threads(), op)),
        None => spawn_broadcast_in(global::team(), place, op),
    })
}

pub(crate) fn spawn_broadcast_in<OP>(team: &Team, place: Place, op: OP)
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    team.spawn_each(place, each(team.num_threads(), op));
}

/// `op`, called by numbers.
fn each<OP>(threads: usize, op: OP) -> impl Fn(usize) + Send + Sync + 'static
where
    OP: Fn(BroadcastContext<'_>) + Send + Sync + 'static,
{
    move |index| op(BroadcastContext::new(index, threads))
}

/// Which thread a broadcast closure runs on.
pub struct BroadcastContext<'a> {
    index: usize,
    threads: usize,
    /// Of one call: neither `Send` nor `Sync`.
    _call: PhantomData<&'a mut dyn Fn()>,
}

impl BroadcastContext<'_> {
    pub(crate) fn new(index: usize, threads: usize) -> Self {
        BroadcastContext { index, threads, _call: PhantomData }
    }

    fn of(thread: raddle_core::BroadcastContext) -> Self {
        BroadcastContext::new(thread.index(), thread.num_threads())
    }

    /// The index of the thread: below [`num_threads`](BroadcastContext::num_threads).
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many threads the closure runs on.
    pub fn num_threads(&self) -> usize {
        self.threads
    }
}

impl fmt::Debug for BroadcastContext<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BroadcastContext")
            .field("index", &self.index)
            .field("num_threads", &self.threads)
            .finish_non_exhaustive()
    }
}
