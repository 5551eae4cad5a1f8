//! [`Worker`]: a place on a fork stack, and with it the right to fork.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::deque::Slot;
use crate::local;
use crate::pool::region::{Region, SIZE};
use crate::pool::shared::Shared;

thread_local! {
    /// Where this thread's forks go: a slot at or below the head, such that all slots from it up to
    /// the head are taken. Null outside pools. `Worker::join` leaves it alone, ambient code finds
    /// the head from it.
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}

/// A thread that takes part in a pool, as the code that runs on it sees it.
///
/// A `&Worker` comes from [`Pool::run`](crate::Pool::run) and is handed down by
/// [`Worker::join`]. It is a place in the worker's stack of forks, so each closure must
/// use the one it is given. The type is neither `Send` nor `Sync`; a join on one that was smuggled in from
/// further out all the same works or panics.
///
/// ```
/// use raddle_core::{Pool, Worker};
///
/// fn sum(worker: &Worker, numbers: &[u64]) -> u64 {
///     if numbers.len() <= 1024 {
///         return numbers.iter().sum();
///     }
///     let (left, right) = numbers.split_at(numbers.len() / 2);
///     let (left, right) = worker.join(|w| sum(w, left), |w| sum(w, right));
///     left + right
/// }
///
/// let numbers: Vec<u64> = (0..100_000).collect();
/// let total = Pool::global().run(|worker| sum(worker, &numbers));
/// assert_eq!(total, 4_999_950_000);
/// ```
///
/// It does not cross threads:
///
/// ```compile_fail
/// # use raddle_core::Pool;
/// Pool::global().run(|worker| {
///     raddle_core::join(|| worker.index(), || ());
/// });
/// ```
#[repr(transparent)]
pub struct Worker {
    slot: Slot,
    _not_sync: PhantomData<*mut ()>,
}

impl fmt::Debug for Worker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Worker").field("index", &self.index()).finish_non_exhaustive()
    }
}

impl Worker {
    pub(crate) fn from_slot(slot: &Slot) -> &Worker {
        let worker: *const Worker = (slot as *const Slot).cast();
        // SAFETY: `Worker` is a transparent `Slot`.
        unsafe { &*worker }
    }

    #[inline(always)]
    pub(crate) fn slot(&self) -> &Slot {
        &self.slot
    }

    /// The same worker, of which the compiler knows nothing: what it has computed from the other one need
    /// not be kept in registers across a call.
    #[inline(always)]
    #[allow(clippy::pointers_in_nomem_asm_block, reason = "nothing is read through it")]
    pub(crate) fn afresh(&self) -> &Worker {
        #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
        {
            let mut worker: *const Worker = self;
            // SAFETY: no instruction at all.
            unsafe {
                std::arch::asm!(
                    "/* {0} */",
                    inout(reg) worker,
                    options(pure, nomem, nostack, preserves_flags)
                );
            }
            // SAFETY: it is `self`.
            unsafe { &*worker }
        }
        #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
        self
    }

    /// The header of the region that this slot lies in.
    #[inline(always)]
    pub(crate) fn region(&self) -> &Region {
        let base = self as *const Worker as usize & !(SIZE - 1);
        let region = std::ptr::with_exposed_provenance::<Region>(base);
        // SAFETY: R1: regions are aligned to their size and start with their header.
        unsafe { &*region }
    }

    /// The next slot; none if this is the last one that may be used.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<&Worker> {
        let next = self as *const Worker as usize + size_of::<Worker>();
        // The last slot has none, so it is never taken, and above a taken slot there is always one.
        if next & (SIZE - 1) == 0 {
            return None;
        }
        let next = std::ptr::with_exposed_provenance::<Worker>(next);
        // SAFETY: within the region (R1), as just tested.
        Some(unsafe { &*next })
    }

    /// The worker that this thread is, at its head; none outside pools.
    #[inline(always)]
    pub(crate) fn current<'a>() -> Option<&'a Worker> {
        // SAFETY: set by `CurrentGuard` and `set_current`, to a slot of a region that lives until it
        // is set back.
        let worker = unsafe { CURRENT.get().as_ref() }?;
        Some(worker.head())
    }

    /// The head of the stack, of which `self` is at or below it.
    #[inline(always)]
    fn head(&self) -> &Worker {
        let mut worker = self;
        while worker.slot.is_taken() {
            worker = worker.above();
        }
        worker
    }

    /// The region of the worker that this thread is, without looking for the head.
    #[inline]
    pub(crate) fn here<'a>() -> Option<&'a Region> {
        // SAFETY: as in `current`.
        Some(unsafe { CURRENT.get().as_ref() }?.region())
    }

    /// The innermost worker that this thread is and `accept` accepts, at its head: a guest of one pool may be
    /// a worker of another beneath.
    pub(crate) fn beneath<'a>(accept: impl Fn(&Shared) -> bool) -> Option<&'a Worker> {
        let mut hint = CURRENT.get();
        // SAFETY: as in `current`; a guest's region keeps what was current before.
        while let Some(worker) = unsafe { hint.as_ref() } {
            if accept(worker.shared()) {
                return Some(worker.head());
            }
            hint = worker.region().owned.outer.get();
        }
        None
    }

    /// The slot above a taken one.
    #[inline(always)]
    fn above(&self) -> &Worker {
        let above = self as *const Worker as usize + size_of::<Worker>();
        let above = std::ptr::with_exposed_provenance::<Worker>(above);
        // SAFETY: R1: the last slot of a region is never taken (`next`), so there is one above.
        unsafe { &*above }
    }

    /// Where ambient code starts to look for the head.
    #[inline(always)]
    pub(crate) fn hint() -> *const Worker {
        CURRENT.get()
    }

    #[inline(always)]
    pub(crate) fn set_hint(hint: *const Worker) {
        CURRENT.set(hint);
    }

    /// Makes `self` the current worker until the guard is dropped.
    pub(crate) fn enter(&self) -> CurrentGuard {
        let place: *const Cell<usize> = &self.region().owned.context;
        CurrentGuard { hint: CURRENT.replace(self), place: local::enter(place) }
    }

    pub(crate) fn shared(&self) -> &Shared {
        self.region().shared()
    }

    /// The index of this worker in its pool: its threads have the indices below
    /// [`num_threads`](Worker::num_threads), then come those that [`PoolBuilder::compensate`](crate::PoolBuilder::compensate)
    /// allows, then guests.
    ///
    /// ```
    /// let pool = raddle_core::Pool::new(2)?;
    /// assert!(pool.run(|worker| worker.index()) >= 2); // the caller is a guest
    /// # Ok::<(), raddle_core::PoolBuildError>(())
    /// ```
    pub fn index(&self) -> usize {
        self.region().index
    }

    /// How many threads work for this worker's pool: [`Pool::num_threads`](crate::Pool::num_threads).
    pub fn num_threads(&self) -> usize {
        self.shared().threads()
    }
}

/// Puts the previous worker back.
#[derive(Debug)]
pub(crate) struct CurrentGuard {
    hint: *const Worker,
    place: *const Cell<usize>,
}

impl Drop for CurrentGuard {
    fn drop(&mut self) {
        CURRENT.set(self.hint);
        local::enter(self.place);
    }
}
