//! Closures that nobody waits for, as queues hold them. As nobody has their futures they are none: what a queue needs, what the
//! closure inherits, and the closure, in one allocation.
//!
//! # Invariants
//!
//! - **DT1** A queue has each task run that it is given, once. Whoever runs one has all of it.

use std::mem::ManuallyDrop;
use std::ptr::NonNull;

use crate::job::{RunOn, TaskHeader, TaskVTable};
use crate::local::{self, Snapshot};
use crate::memory;
use crate::pool::{Errand, Worker, WorkerMemory};
use crate::queue::Task;

/// A closure, with what comes first in every task.
#[repr(C)]
struct Job<F> {
    header: TaskHeader,
    inherited: Snapshot,
    closure: F,
}

/// A task that calls `closure` as the code that makes it would, and gives its panic to the pool.
pub(super) fn task<F: FnOnce() + Send + 'static>(closure: F) -> Task {
    let header = TaskHeader::new(Job::<F>::VTABLE);
    let job = Job { header, inherited: Snapshot::capture(), closure };
    memory::allocate(ManuallyDrop::new(job)).cast()
}

impl<F: FnOnce() + Send + 'static> Job<F> {
    /// Plain: a kill is of futures.
    const VTABLE: &'static TaskVTable = &TaskVTable::plain(Self::run);

    unsafe fn run(task: NonNull<TaskHeader>, worker: RunOn) {
        let place = task.cast::<ManuallyDrop<Self>>();
        // SAFETY: DT1, and made by `task`.
        let job = ManuallyDrop::into_inner(unsafe { place.read() });
        // SAFETY: DT1; what was in it has been taken out.
        unsafe { memory::free(place) };
        // SAFETY: by `run`'s contract.
        let worker = unsafe { &*worker.cast::<Worker>() };
        let Self { inherited, closure, .. } = job;
        within(&inherited, || worker.registry().guard(closure));
    }
}

/// Calls `f`, which does not unwind, with what it inherits. Nothing else is to be had where a task runs.
#[inline]
fn within(inherited: &Snapshot, f: impl FnOnce()) {
    if inherited.is_empty() { local::outside(f) } else { inherited.run(f) }
}

/// A closure that each thread of a pool calls with its number.
pub(super) struct Round<F> {
    inherited: Snapshot,
    closure: F,
}

impl<F> Round<F> {
    /// As `task`.
    pub(super) fn new(closure: F) -> Round<F> {
        Round { inherited: Snapshot::capture(), closure }
    }
}

impl<F: Fn(usize)> Errand for Round<F> {
    fn run(&self, index: usize, memory: &WorkerMemory) {
        within(&self.inherited, || memory.registry().guard(|| (self.closure)(index)));
    }

    fn end(self, memory: &WorkerMemory) {
        let Self { inherited, closure } = self;
        within(&inherited, || memory.registry().guard(|| drop(closure)));
    }
}
