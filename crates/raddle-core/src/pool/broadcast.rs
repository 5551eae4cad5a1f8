//! The same closure on each thread of a pool.
//!
//! # Invariants
//!
//! - **BR1** An [`Errand`] that nobody waits for is freed, with its letters, by the thread that takes the last share of it. Each letter
//!   has one, and is run once, by the thread to which it was sent, which touches none of it afterwards.

use std::mem::ManuallyDrop;
use std::panic::{self, AssertUnwindSafe, Location};
use std::ptr::NonNull;
use std::sync::Mutex;
use std::thread;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_trace::EventKind;

use crate::job::{RunOn, TaskHeader, TaskVTable};
use crate::latch::Latch;
use crate::local::{self, Captured, Entered, Restore};
use crate::memory;
use crate::panics::{Discarding, discard};
use crate::pool::recorder::{self, Place, key_of, task_key};
use crate::pool::wait::Goal;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::pool::{Pool, Registry, current_parker, wait_for};
use crate::queue::Task;

/// Which thread of a pool a closure runs on: see [`Pool::broadcast`].
#[derive(Clone, Copy, Debug)]
pub struct BroadcastContext {
    index: usize,
    threads: usize,
}

impl BroadcastContext {
    /// The number of the thread: below [`num_threads`](BroadcastContext::num_threads).
    pub fn index(&self) -> usize {
        self.index
    }

    /// How many threads the closure runs on.
    pub fn num_threads(&self) -> usize {
        self.threads
    }
}

/// What all calls share.
struct Call<'a, F, R> {
    f: &'a F,
    results: Mutex<Vec<Option<thread::Result<R>>>>,
    pending: AtomicUsize,
    latch: Latch,
    context: usize,
    captured: Option<Captured>,
}

/// One call, as a queue holds it.
#[repr(C)]
struct Letter<'a, F, R> {
    header: TaskHeader,
    call: *const Call<'a, F, R>,
    index: usize,
}

impl Pool {
    /// Calls `f` once on each thread of the pool, and returns the results in their order. Threads that work call it after
    /// their task, threads that wait or [yield](crate::yield_now) meanwhile call it at once, also if they do so in another pool; spare
    /// threads and guests don't. Not on a thread that is within [`blocking`](crate::blocking) or waits for a lock or a condition: then that
    /// has to end first.
    ///
    /// A thread that waits calls it on top of its wait, which goes on when the call is over: so `f` must not wait for a lock that waiting
    /// tasks hold, nor for such a task. In a wait with a time limit it calls it once the call has lain there for 10 ms, if it holds no lock
    /// of raddle's, and the wait may end late by it. If `f` waits for a fork while a panic of the other half passes, or for the end of a
    /// pool that a panic drops, [`std::thread::panicking`] is true in the call.
    ///
    /// # Panics
    ///
    /// If `f` does, after all calls are over.
    ///
    /// ```
    /// let pool = raddle::Pool::new(3)?;
    /// assert_eq!(pool.broadcast(|thread| thread.index() * 10), [0, 10, 20]);
    /// # Ok::<(), raddle::PoolBuildError>(())
    /// ```
    #[track_caller]
    pub fn broadcast<F, R>(&self, f: F) -> Vec<R>
    where
        F: Fn(BroadcastContext) -> R + Sync,
        R: Send,
    {
        broadcast_in(self.registry(), Location::caller(), &f)
    }
}

/// As [`Pool::broadcast`], in the pool that this thread works in; outside of pools, in the global pool.
#[track_caller]
pub fn broadcast<F, R>(f: F) -> Vec<R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    match Worker::here() {
        Some(memory) => broadcast_in(memory.registry(), Location::caller(), &f),
        None => Pool::global().broadcast(f),
    }
}

pub(crate) fn broadcast_in<F, R>(registry: &Registry, place: Place, f: &F) -> Vec<R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    registry.assert_here();
    let threads = registry.threads();
    let call = Call {
        f,
        results: Mutex::new((0..threads).map(|_| None).collect()),
        pending: AtomicUsize::new(threads),
        latch: Latch::new(current_parker()),
        context: local::current(),
        captured: local::capture_followed(),
    };
    let letters: Vec<_> = (0..threads)
        .map(|index| Letter { header: TaskHeader::new(Letter::<F, R>::VTABLE), call: &call, index })
        .collect();
    // Of the whole letters.
    let tasks: Vec<Task> = letters.iter().map(|letter| NonNull::from(letter).cast()).collect();
    // In traces it is a scope: whoever has called goes on after all calls.
    let recorded = registry.is_recorded().then(|| key_of(&raw const call));
    if let Some(key) = recorded {
        registry.note_here(EventKind::ScopeBegin, 0, key);
    }
    registry.send_each(place, tasks.into_iter());
    // A thread that leaves its mail for later would wait for what it leaves.
    let is_its = |memory: &WorkerMemory| std::ptr::eq(memory.registry(), registry);
    let here = Worker::occupied().find(|memory| is_its(memory) && memory.has_mailbox());
    let leaves_mail = here.is_some_and(|here| here.owned.mailbox.leaves.replace(false));
    wait_for(&call.latch, Goal::Future(&call.latch, None));
    if let Some(here) = here {
        here.owned.mailbox.leaves.set(leaves_mail);
    }
    if let Some(key) = recorded {
        registry.note_here(EventKind::ScopeEnd, 0, key);
    }
    drop(letters);
    let results = call.results.into_inner().unwrap_or_else(|e| e.into_inner());
    let mut values = Vec::with_capacity(threads);
    let mut panic = None;
    for result in results.into_iter().flatten() {
        match result {
            Ok(value) => values.push(value),
            Err(payload) if panic.is_none() => panic = Some(payload),
            Err(payload) => discard(payload),
        }
    }
    match panic {
        Some(payload) => {
            // They go as the panic passes: what they are may do another thing then.
            let _values = Discarding(values);
            panic::resume_unwind(payload)
        }
        None => values,
    }
}

impl<F, R> Letter<'_, F, R>
where
    F: Fn(BroadcastContext) -> R + Sync,
    R: Send,
{
    const VTABLE: &'static TaskVTable = &TaskVTable::awaited(Self::run);

    unsafe fn run(task: Task, worker: RunOn) {
        // SAFETY: of `broadcast_in`, which waits.
        let letter = unsafe { task.cast::<Self>().as_ref() };
        // SAFETY: as above.
        let call = unsafe { &*letter.call };
        // SAFETY: by `run`'s contract.
        let worker = unsafe { &*worker.cast::<Worker>() };
        worker.memory().lane.note(EventKind::Member, 0, key_of(letter.call));
        let context = BroadcastContext { index: letter.index, threads: worker.num_threads() };
        let entered = Entered::by(|| call.captured.as_ref());
        // SAFETY: X1: of code that waits for this.
        let restore = unsafe { Restore::after(call.context) };
        let result = panic::catch_unwind(AssertUnwindSafe(|| (call.f)(context)));
        drop(restore);
        drop(entered);
        call.results.lock().unwrap_or_else(|e| e.into_inner())[letter.index] = Some(result);
        // Whoever has called may ask at once, too.
        worker.registry().leave_number(worker.memory());
        worker.memory().note_end(task);
        let latch = &raw const call.latch;
        // ORD: AcqRel: the last has seen what the others did.
        if call.pending.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: it waits for its latch; nothing is used after this.
            unsafe { Latch::set(latch) };
        }
    }
}

/// What each thread of a pool is to do once. Nobody waits for that here.
pub(crate) trait Errand {
    /// By the thread of this number. Does not unwind.
    fn run(&self, index: usize, memory: &WorkerMemory);

    /// By one of the threads, after all have run it. Does not unwind.
    fn end(self, memory: &WorkerMemory);
}

/// An errand, and its letters (BR1).
struct Sent<E> {
    errand: E,
    /// How many have not run it yet.
    left: AtomicUsize,
    letters: Box<[Circular<E>]>,
}

/// One thread's letter.
#[repr(C)]
struct Circular<E> {
    header: TaskHeader,
    sent: NonNull<ManuallyDrop<Sent<E>>>,
    index: usize,
}

impl<E: Errand> Circular<E> {
    const VTABLE: &'static TaskVTable = &TaskVTable::awaited(Self::run);

    unsafe fn run(task: Task, worker: RunOn) {
        // SAFETY: BR1: its share has not been taken.
        let Circular { sent, index, .. } = *unsafe { task.cast::<Self>().as_ref() };
        // SAFETY: by `run`'s contract.
        let memory = unsafe { &*worker.cast::<Worker>() }.memory();
        // SAFETY: BR1, as above.
        let Sent { errand, left, .. } = &**unsafe { sent.as_ref() };
        errand.run(index, memory);
        memory.note_end(task);
        // ORD: AcqRel: the last has seen what the others did.
        if left.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: BR1: it was the last.
            let last = ManuallyDrop::into_inner(unsafe { sent.read() });
            // SAFETY: as above; what was in it has been taken out.
            unsafe { memory::free(sent) };
            last.errand.end(memory);
        }
    }
}

impl Registry {
    /// Has each thread run the errand, with its number.
    ///
    /// # Safety
    ///
    /// Threads may share it and send it to each other, and what it borrows outlives its `end`.
    pub(crate) unsafe fn send_errand<E: Errand>(&self, place: Place, errand: E) {
        let threads = self.threads();
        let left = AtomicUsize::new(threads);
        let sent = Sent { errand, left, letters: Box::default() };
        let mut sent = memory::allocate(ManuallyDrop::new(sent));
        let header = || TaskHeader::new(Circular::<E>::VTABLE);
        let letters =
            (0..threads).map(|index| Circular { header: header(), sent, index }).collect();
        // SAFETY: nobody else has it yet.
        let new = unsafe { sent.as_mut() };
        new.letters = letters;
        let first = NonNull::from(&mut *new.letters).cast::<Circular<E>>();
        let tasks = (0..threads).map(|index| {
            // SAFETY: one of the letters, which are there until all have been sent (BR1).
            unsafe { first.add(index) }.cast()
        });
        self.send_each(place, tasks);
    }

    /// Has each thread run its task, the first the first. Of two that are sent so at the same time all threads run the same one
    /// first: tasks may wait for each other, as calls of one closure do at a barrier.
    pub(crate) fn send_each(&self, place: Place, tasks: impl ExactSizeIterator<Item = Task>) {
        let threads = tasks.len();
        self.end.queue_outside(threads);
        let order = self.letters.lock();
        let recorded = self.memories[0].lane.has_tasks().then(|| recorder::number_of(place));
        for (worker, task) in tasks.enumerate() {
            if let Some(place) = recorded {
                self.note_here(EventKind::Fork, place, task_key(task));
            }
            self.memories[worker].mail.put(task);
        }
        drop(order);
        (0..threads).for_each(|worker| self.rouse_for_mail(worker));
    }

    /// Sees to it that a thread opens its mail (ML1).
    fn rouse_for_mail(&self, worker: usize) {
        self.memories[worker].parker().unpark();
        self.await_thread_for_mail(worker);
    }
}
