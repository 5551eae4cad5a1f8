//! `join`: two closures, perhaps in parallel.
//!
//! The second closure is put on the fork stack, the first is called, then the second is taken back
//! and called, unless a thief has it. Not stolen, that costs four stores and two loads of a word that
//! only thieves write.

use std::mem::{ManuallyDrop, forget};
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr;

use raddle_trace::{EventKind, Subject};

use crate::job::{ForkHeader, ForkJob, RunOn};
use crate::panics::{Apart, discard};
use crate::pool::recorder::{Place, fork_key};
use crate::pool::{Pool, Worker, WorkerMemory};

impl Worker {
    /// Runs both closures, perhaps in parallel, and returns both results. The cheapest way to fork:
    /// a few nanoseconds if nobody steals.
    ///
    /// `a` runs on this thread at once; `b` may be stolen by any idle worker from the moment of
    /// the call, and runs on this thread after `a` if it was not. Each closure gets the worker that
    /// it runs on.
    ///
    /// A worker has room for about 260,000 nested forks; deeper ones run `a` and then `b` in
    /// place.
    ///
    /// # Panics
    ///
    /// If `a` or `b` panics, the panic goes on here after both are done; if both do, that of `a`. (If `b` does, what `a` has returned
    /// is dropped meanwhile, and a panic of that drop ends the process, as ever in Rust.) It may also panic if `self` is used inside of its own `join`, instead of the worker that the closure was
    /// given.
    ///
    /// ```
    /// fn fib(worker: &raddle::Worker, n: u32) -> u64 {
    ///     if n < 2 {
    ///         return n.into();
    ///     }
    ///     let (a, b) = worker.join(|w| fib(w, n - 1), |w| fib(w, n - 2));
    ///     a + b
    /// }
    /// assert_eq!(raddle::Pool::global().run(|worker| fib(worker, 20)), 6765);
    /// ```
    #[doc(alias = "fork")]
    #[inline(always)]
    #[track_caller]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&Worker) -> RA + Send,
        B: FnOnce(&Worker) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        self.join_at(Location::caller(), a, b)
    }

    /// As `join`, called from `place`: for helpers whose forks are their callers' in a trace. A helper that calls itself within
    /// the closures takes its place once, by `#[track_caller]`, and hands it down.
    ///
    /// Only slow paths look at it.
    ///
    /// ```
    /// use std::panic::Location;
    ///
    /// #[track_caller]
    /// fn sum(worker: &raddle::Worker, of: &[u64]) -> u64 {
    ///     halves(worker, Location::caller(), of)
    /// }
    ///
    /// fn halves(worker: &raddle::Worker, place: &'static Location<'static>, of: &[u64]) -> u64 {
    ///     if of.len() < 100 {
    ///         return of.iter().sum();
    ///     }
    ///     let (a, b) = of.split_at(of.len() / 2);
    ///     let (a, b) = worker.join_at(place, |w| halves(w, place, a), |w| halves(w, place, b));
    ///     a + b
    /// }
    /// assert_eq!(raddle::Pool::global().run(|worker| sum(worker, &[2; 1000])), 2000);
    /// ```
    #[inline(always)]
    pub fn join_at<A, B, RA, RB>(&self, place: &'static Location<'static>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&Worker) -> RA + Send,
        B: FnOnce(&Worker) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let Some(next) = self.next() else {
            return in_place(self, a, b);
        };
        let memory = self.memory();
        let b = ManuallyDrop::new(b);
        // SAFETY: of the two copies exactly one is used: the job's by a thief (or while unwinding), the
        // one here after a pop that gave the fork back (J1).
        let copy = unsafe { ptr::read(&*b) };
        let job = ForkJob::new(copy, memory.owned.context.get(), run_fork::<B, RB>);
        let header = job.header();
        if memory.fork.push(self.slot(), header) {
            memory.pushed(self.slot(), place);
        }
        let unwinding = Unwinding { worker: self, job: &job };
        let ra = a(next);
        forget(unwinding);
        let memory = self.afresh().memory();
        if memory.fork.pop(self.slot()) || memory.popped(self.slot()) {
            // The copy that never left: small ones stay in registers.
            (ra, ManuallyDrop::into_inner(b)(self))
        } else {
            (ra, stolen(self, &job, place))
        }
    }
}

/// Runs both closures, perhaps in parallel, and returns both results, from wherever it is called.
///
/// On a thread of a pool this is [`Worker::join`] and one thread-local read. From outside it enters
/// the global pool as by [`Pool::run`]: the caller takes part.
///
/// # Panics
///
/// As [`Worker::join`]; and from outside, if the global pool cannot be built.
///
/// ```
/// let (a, b) = raddle::join(|| 1 + 1, || 2 + 2);
/// assert_eq!((a, b), (2, 4));
/// ```
#[inline]
#[track_caller]
pub fn join<A, B, RA, RB>(a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    let place = Location::caller();
    match Worker::current() {
        Some(worker) => {
            let hint = Hint::here();
            let restore = Restore(hint);
            let results = worker.join_at(
                place,
                |next| {
                    Worker::set_hint(next);
                    let ra = a();
                    restore.again();
                    ra
                },
                |_| b(),
            );
            forget(restore);
            results
        }
        None => join_globally(place, a, b),
    }
}

/// Kept out of `join`, whose fast path would otherwise make room for it.
#[cold]
#[inline(never)]
fn join_globally<A, B, RA, RB>(place: Place, a: A, b: B) -> (RA, RB)
where
    A: FnOnce() -> RA + Send,
    B: FnOnce() -> RB + Send,
    RA: Send,
    RB: Send,
{
    Pool::global().run_at(place, |worker| worker.join_at(place, |_| a(), |_| b()))
}

/// Where ambient code looked for the head before a fork.
#[derive(Clone, Copy)]
pub(crate) struct Hint(*const Worker);

// SAFETY: only first halves hold one, and they run on the thread that forked.
unsafe impl Send for Hint {}
// SAFETY: as above.
unsafe impl Sync for Hint {}

impl Hint {
    #[inline(always)]
    pub(crate) fn here() -> Hint {
        Hint(Worker::hint())
    }

    #[inline(always)]
    pub(crate) fn set(self) {
        Worker::set_hint(self.0);
    }
}

/// Puts the hint back when a panic passes.
pub(crate) struct Restore(pub(crate) Hint);

impl Restore {
    /// Puts it back, from where it lies and not from a register: such a one would be saved and loaded by each function
    /// that is called, one after the other.
    #[inline(always)]
    fn again(&self) {
        // SAFETY: valid for reads.
        unsafe { ptr::read_volatile(&self.0) }.set();
    }
}

impl Drop for Restore {
    fn drop(&mut self) {
        self.0.set();
    }
}

/// The slot's thief has run another job: the worker was used inside of its own join. The slot is left as
/// it is, for that join.
#[cold]
#[inline(never)]
fn smuggled() -> ! {
    panic!("this `&Worker` has an unfinished join: each closure must use the worker it is given");
}

/// The fork stack is full.
#[cold]
#[inline(never)]
fn in_place<A, B, RA, RB>(worker: &Worker, a: A, b: B) -> (RA, RB)
where
    A: FnOnce(&Worker) -> RA,
    B: FnOnce(&Worker) -> RB,
{
    match panic::catch_unwind(AssertUnwindSafe(|| a(worker))) {
        Ok(ra) => (ra, b(worker)),
        Err(payload) => {
            let _rb = Apart::new(panic::catch_unwind(AssertUnwindSafe(|| b(worker))));
            panic::resume_unwind(payload)
        }
    }
}

/// What a thief calls.
///
/// # Safety
///
/// `header` must be that of a `ForkJob<B, RB>` that the caller owns (J1), `worker` a `&Worker` of the
/// calling thread.
unsafe fn run_fork<B, RB>(header: *const ForkHeader, worker: RunOn)
where
    B: FnOnce(&Worker) -> RB,
{
    // SAFETY: contract.
    let job = unsafe { &*header.cast::<ForkJob<B, RB>>() };
    // SAFETY: contract.
    let worker = unsafe { &*worker.cast::<Worker>() };
    // SAFETY: contract.
    unsafe { job.run_stolen(|b| b(worker)) };
}

/// Records the end of a second half, however it ends.
struct Recorded<'a>(&'a WorkerMemory, (Subject, u32));

impl Drop for Recorded<'_> {
    fn drop(&mut self) {
        self.0.lane.note(EventKind::Executed, 0, self.1);
    }
}

/// The result of `b` from its thief; or `b` was not stolen, and is run here to be recorded.
#[cold]
#[inline(never)]
fn stolen<B, RB>(worker: &Worker, job: &ForkJob<B, RB>, place: Place) -> RB
where
    B: FnOnce(&Worker) -> RB,
{
    let memory = worker.memory();
    if memory.take_recorded_pop() {
        let key = fork_key(memory, worker.slot());
        memory.lane.note(EventKind::Exec, 0, key);
        let _recorded = Recorded(memory, key);
        // SAFETY: J1: the pop gave it back; the caller forgets its copy.
        let b = unsafe { job.take_closure() };
        return b(worker);
    }
    memory.await_thief(worker, true);
    if !job.is_spent() {
        smuggled();
    }
    memory.joined(worker, Some(place));
    // SAFETY: J2: the thief is done.
    match unsafe { job.take_result() } {
        Ok(result) => result,
        Err(payload) => panic::resume_unwind(payload),
    }
}

/// Sees to `b` while a panic of `a` passes through `join`.
struct Unwinding<'a, B: FnOnce(&Worker) -> RB, RB> {
    worker: &'a Worker,
    job: &'a ForkJob<B, RB>,
}

impl<B: FnOnce(&Worker) -> RB, RB> Drop for Unwinding<'_, B, RB> {
    // Inlined so that the struct never has to be in memory: the fast path keeps its two words anyway.
    #[inline(always)]
    fn drop(&mut self) {
        finish(self.worker, self.job);
    }
}

/// Runs `b`, or waits for its thief; what it returns or panics with is dropped.
#[cold]
#[inline(never)]
fn finish<B, RB>(worker: &Worker, job: &ForkJob<B, RB>)
where
    B: FnOnce(&Worker) -> RB,
{
    // The panic that passes may have left the hint above this slot.
    let _current = worker.enter();
    let memory = worker.memory();
    let outcome = if memory.fork.pop(worker.slot()) || memory.regained(worker.slot()) {
        // SAFETY: J1: the pop gave it back.
        let b = unsafe { job.take_closure() };
        panic::catch_unwind(AssertUnwindSafe(|| b(worker)))
    } else {
        // Inside of a `Drop`, where it would find itself panicking, nothing else runs but what nobody else may.
        memory.await_thief(worker, false);
        if !job.is_spent() {
            // As in `stolen`, but there is a panic already. What was stolen is another job.
            return;
        }
        memory.joined(worker, None);
        // SAFETY: J2: the thief is done.
        unsafe { job.take_result() }
    };
    discard(outcome);
}
