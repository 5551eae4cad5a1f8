//! [`Worker`]: a place on a fork stack, and with it the right to fork.

use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;

use crate::fork_stack::Slot;
use crate::local::{self, Restore};
use crate::pool::registry::Registry;
use crate::pool::worker_memory::{SIZE, WorkerMemory};

raddle_sync::thread_local! {
    /// Where this thread's forks go: a slot at or below the head, such that all slots from it up to
    /// the head are taken. Null outside pools. `Worker::join` leaves it alone, ambient code finds
    /// the head from it.
    static CURRENT: Cell<*const Worker> = const { Cell::new(std::ptr::null()) };
}
raddle_sync::thread_local! {
    /// The workers that this thread is, innermost first, each once: linked by `Owned::outer`. A guest of one pool
    /// may be a worker of another beneath.
    static INNERMOST: Cell<*const WorkerMemory> = const { Cell::new(std::ptr::null()) };
}

/// A thread that takes part in a pool, as the code that runs on it sees it.
///
/// A `&Worker` comes from [`Pool::run`](crate::Pool::run) and is handed down by
/// [`Worker::join`]. It is a place in the worker's stack of forks, so each closure must
/// use the one it is given. The type is neither `Send` nor `Sync`; a join on one that was smuggled in from
/// further out all the same works or panics, unless the thief of the join further out waits for the very code that smuggles: then
/// so does that join.
///
/// ```
/// use raddle::{Pool, Worker};
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
/// ```compile_fail,E0277
/// # use raddle::Pool;
/// Pool::global().run(|worker| {
///     raddle::join(|| worker.index(), || ());
/// });
/// ```
#[repr(transparent)]
pub struct Worker {
    slot: Slot,
    _not_sync: PhantomData<*mut ()>,
}

// As `Pool`.
impl std::panic::UnwindSafe for Worker {}
impl std::panic::RefUnwindSafe for Worker {}

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

    /// The header of the worker memory that this slot lies in.
    #[inline(always)]
    pub(crate) fn memory(&self) -> &WorkerMemory {
        let base = self as *const Worker as usize & !(SIZE - 1);
        let memory = std::ptr::with_exposed_provenance::<WorkerMemory>(base);
        // SAFETY: R1: worker memories are aligned to their size and start with their header.
        unsafe { &*memory }
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
        // SAFETY: within the worker memory (R1), as just tested.
        Some(unsafe { &*next })
    }

    /// The worker that this thread is, at its head; none outside pools.
    #[inline(always)]
    pub(crate) fn current<'a>() -> Option<&'a Worker> {
        // SAFETY: set by `CurrentGuard` and `set_current`, to a slot of a worker memory that lives until it
        // is set back.
        let worker = unsafe { CURRENT.with(Cell::get).as_ref() }?;
        Some(worker.head())
    }

    /// The head of the stack, of which `self` is at or below it.
    #[inline(always)]
    pub(crate) fn head(&self) -> &Worker {
        if !self.slot.is_taken() {
            return self;
        }
        let above = self.above();
        if !above.slot.is_taken() {
            return above;
        }
        above.distant_head()
    }

    /// As `head`, of a taken slot. Taken slots are contiguous (R3). Beyond the last slot there is nothing; it is itself never
    /// taken.
    #[cold]
    #[inline(never)]
    fn distant_head(&self) -> &Worker {
        self.at_distance(first_free(|slots| self.at_distance(slots).slot.is_taken()))
    }

    /// The slot so many above, or the last one of the memory.
    fn at_distance(&self, slots: usize) -> &Worker {
        let here = std::ptr::from_ref(self).addr();
        let last = (here | (SIZE - 1)) + 1 - size_of::<Worker>();
        let there = here.saturating_add(slots.saturating_mul(size_of::<Worker>())).min(last);
        let there = std::ptr::with_exposed_provenance::<Worker>(there);
        // SAFETY: within the worker memory (R1).
        unsafe { &*there }
    }

    /// The memory of the worker that this thread is, without looking for the head.
    #[inline]
    pub(crate) fn here<'a>() -> Option<&'a WorkerMemory> {
        // SAFETY: as in `current`.
        Some(unsafe { CURRENT.with(Cell::get).as_ref() }?.memory())
    }

    /// Runs `f`, which may start a thread, as by one that does not lie to be woken elsewhere: what it starts has its affinity for good.
    pub(crate) fn upright<R>(f: impl FnOnce() -> R) -> R {
        match Worker::here() {
            Some(memory) => memory.affinity.upright(f),
            None => f(),
        }
    }

    /// The innermost worker that this thread is and `accept` accepts, at its head.
    pub(crate) fn beneath<'a>(accept: impl Fn(&Registry) -> bool) -> Option<&'a Worker> {
        let memory = Worker::occupied().find(|memory| accept(memory.registry()))?;
        Some(memory.base().head())
    }

    /// Calls `f` as this worker, which the thread is, if only beneath another.
    pub(crate) fn call_here<R>(&self, f: impl FnOnce(&Worker) -> R) -> R {
        // The worker memory is another, the context the same.
        let context = local::current();
        let _current = self.enter();
        // SAFETY: X1: it remains the caller's.
        let _restore = unsafe { Restore::after(context) };
        f(self)
    }

    /// The workers that this thread is, innermost first.
    pub(crate) fn occupied<'a>() -> impl Iterator<Item = &'a WorkerMemory> {
        let mut next = INNERMOST.with(Cell::get);
        std::iter::from_fn(move || {
            // SAFETY: a worker memory is taken out before the thread leaves it, and lives longer (R1).
            let memory = unsafe { next.as_ref() }?;
            next = memory.owned.outer.get();
            Some(memory)
        })
    }

    /// From now on the thread is this worker, too.
    pub(crate) fn occupy(memory: &WorkerMemory) {
        memory.owned.outer.set(INNERMOST.with(|cell| cell.replace(memory)));
    }

    /// The thread is this worker no more: the innermost.
    pub(crate) fn vacate(memory: &WorkerMemory) {
        debug_assert!(std::ptr::eq(INNERMOST.with(Cell::get), memory));
        INNERMOST.with(|cell| cell.set(memory.owned.outer.get()));
    }

    /// The slot above a taken one.
    #[inline(always)]
    fn above(&self) -> &Worker {
        let above = self as *const Worker as usize + size_of::<Worker>();
        let above = std::ptr::with_exposed_provenance::<Worker>(above);
        // SAFETY: R1: the last slot of a worker memory is never taken (`next`), so there is one above.
        unsafe { &*above }
    }

    /// Where ambient code starts to look for the head.
    #[inline(always)]
    pub(crate) fn hint() -> *const Worker {
        CURRENT.with(Cell::get)
    }

    #[inline(always)]
    pub(crate) fn set_hint(hint: *const Worker) {
        CURRENT.with(|cell| cell.set(hint));
    }

    /// Ambient code looks for the head from here on.
    #[inline(always)]
    pub(crate) fn set_current(&self) {
        Worker::set_hint(self);
    }

    /// Makes `self` the current worker until the guard is dropped.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn enter(&self) -> CurrentGuard {
        let place: *const Cell<usize> = &self.memory().owned.context;
        CurrentGuard { hint: CURRENT.with(|cell| cell.replace(self)), place: local::enter(place) }
    }

    pub(crate) fn registry(&self) -> &Registry {
        self.memory().registry()
    }

    /// Calls `f` with the worker that this thread is, if it is one: so tasks of scopes and spawned closures, which are
    /// given none, get at theirs and its cheap [`join`](Worker::join).
    ///
    /// ```
    /// use raddle::{Worker, spawn};
    ///
    /// let sum = spawn(|| Worker::with(|worker| worker.join(|_| 1, |_| 2)).map(|(a, b)| a + b));
    /// assert_eq!(sum.wait()?, Some(3));
    /// assert!(Worker::with(|_| ()).is_none());
    /// # Ok::<(), raddle::Failure>(())
    /// ```
    pub fn with<R>(f: impl FnOnce(&Worker) -> R) -> Option<R> {
        Worker::current().map(f)
    }

    /// The number of this worker's memory in its pool: that of its lane in traces. Threads of the pool come first, then
    /// guests, then spare threads. See also [`current_worker_index`](crate::current_worker_index).
    ///
    /// ```
    /// let pool = raddle::Pool::new(2)?;
    /// assert!(pool.run(|worker| worker.index()) >= 2); // the caller is a guest
    /// # Ok::<(), raddle::PoolBuildError>(())
    /// ```
    pub fn index(&self) -> usize {
        self.memory().index
    }

    /// Whether a fork would find a taker: some thread has nothing to do, and this worker no fork that it could take.
    ///
    /// For loops that ask now and then, and fork half of what is left when told to: so they fork as often as there are
    /// thieves, and not once for each element. If it says yes, the next [`join`](Worker::join) on this worker offers its
    /// second half at once. It is a hint, which costs a few loads.
    ///
    /// ```
    /// use raddle::{Pool, Worker};
    ///
    /// fn sum(worker: &Worker, mut numbers: &[u64]) -> u64 {
    ///     let mut total = 0;
    ///     while let Some((block, rest)) = numbers.split_at_checked(64) {
    ///         if worker.should_fork() {
    ///             let (left, right) = numbers.split_at(numbers.len() / 2);
    ///             let (left, right) = worker.join(|w| sum(w, left), |w| sum(w, right));
    ///             return total + left + right;
    ///         }
    ///         total += block.iter().sum::<u64>();
    ///         numbers = rest;
    ///     }
    ///     total + numbers.iter().sum::<u64>()
    /// }
    ///
    /// let numbers: Vec<u64> = (0..100_000).collect();
    /// assert_eq!(Pool::global().run(|worker| sum(worker, &numbers)), 4_999_950_000);
    /// ```
    #[inline]
    pub fn should_fork(&self) -> bool {
        let memory = self.memory();
        memory.is_wanted() && memory.offer(self.slot())
    }

    /// How many threads work for this worker's pool: [`Pool::num_threads`](crate::Pool::num_threads).
    pub fn num_threads(&self) -> usize {
        self.registry().threads()
    }
}

/// The first that is not taken, where all below it are, 0 among them: gallops, then bisects.
fn first_free(is_taken: impl Fn(usize) -> bool) -> usize {
    let (mut taken, mut step) = (0, 1);
    let mut free = loop {
        let next = taken + step;
        if !is_taken(next) {
            break next;
        }
        taken = next;
        step *= 2;
    };
    while free - taken > 1 {
        let middle = taken.midpoint(free);
        if is_taken(middle) {
            taken = middle;
        } else {
            free = middle;
        }
    }
    free
}

impl Registry {
    /// The worker of this pool that the thread is, at its head, also beneath others.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn worker_beneath<'a>(&self) -> Option<&'a Worker> {
        Worker::beneath(|registry| std::ptr::eq(registry, self))
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
        CURRENT.with(|cell| cell.set(self.hint));
        local::enter(self.place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_head_far_above_the_hint_is_found_in_few_looks() {
        for head in (1..=1_000).chain([1 << 14, SIZE / size_of::<Worker>() - 1, usize::MAX >> 2]) {
            let looks = Cell::new(0);
            let is_taken = |slots| {
                looks.set(looks.get() + 1);
                slots < head
            };
            assert_eq!(first_free(is_taken), head);
            // There, and back.
            let most = 2 * head.ilog2() + 2;
            assert!(looks.get() <= most, "{} looks for {head}", looks.get());
        }
    }
}
