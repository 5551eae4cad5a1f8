//! `join`.

use std::marker::PhantomData;
use std::panic::Location;

use raddle_core::compat::{self, Place};

use crate::global;

/// Runs both closures, perhaps in parallel, and returns both results.
///
/// On a thread of a pool `a` runs there at once, and `b` afterwards unless another thread has stolen it; outside of pools
/// both run in the global pool while the caller blocks. What is not stolen costs some nanoseconds, so closures may be
/// small. A thread whose `b` was stolen does other work until it is over: see `RADDLE_WAITS` in the crate's documentation.
///
/// # Panics
///
/// If `a` or `b` does, after both are over; if both do, with the panic of `a`.
///
/// ```
/// let (a, b) = rayon_core::join(|| 1 + 1, || 2 + 2);
/// assert_eq!((a, b), (2, 4));
/// ```
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    join_at(Location::caller(), oper_a, oper_b)
}

/// As [`join`], called from `place`.
#[inline]
pub(crate) fn join_at<A, B, RA, RB>(place: Place, oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let (a, b) = (|_| oper_a(), |_| oper_b());
    compat::join(place, false, a, b, |place, a, b| global::team().call(|| injected(place, a, b)))
}

/// As [`join`], with closures that are told whether they run on another thread than the caller's.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
/// let both = pool.install(|| rayon_core::join_context(|a| a.migrated(), |b| b.migrated()));
/// assert_eq!(both, (false, false));
/// ```
#[inline]
#[track_caller]
pub fn join_context<A, B, RA, RB>(oper_a: A, oper_b: B) -> (RA, RB)
where
    A: FnOnce(FnContext) -> RA + Send,
    B: FnOnce(FnContext) -> RB + Send,
    RA: Send,
    RB: Send,
{
    let a = |migrated| oper_a(FnContext::new(migrated));
    let b = |migrated| oper_b(FnContext::new(migrated));
    compat::join(Location::caller(), false, a, b, |place, a, b| {
        global::team().call(|| injected(place, a, b))
    })
}

/// A join that comes from outside, on the thread that has taken it.
#[cold]
fn injected<A, B, RA, RB>(place: Place, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(bool) -> RA + Send,
    B: FnOnce(bool) -> RB + Send,
    RA: Send,
    RB: Send,
{
    compat::join(place, true, a, b, |_, _, _| unreachable!("on a thread of the pool"))
}

/// What [`join_context`] tells its closures.
#[derive(Debug)]
pub struct FnContext {
    migrated: bool,
    /// Of one thread: neither `Send` nor `Sync`. Named as in the original, whose Debug shows it.
    _marker: PhantomData<*mut ()>,
}

impl FnContext {
    #[inline]
    fn new(migrated: bool) -> FnContext {
        FnContext { migrated, _marker: PhantomData }
    }

    /// Whether the closure runs on another thread than the one that called.
    #[inline]
    pub fn migrated(&self) -> bool {
        self.migrated
    }
}
