//! Jobs: what a fork stack and a task queue point to.
//!
//! A **fork** ([`ForkJob`]) lives on the stack of the `join` that made it, which does not return
//! before the job is over. A **task** ([`TaskHeader`]) lives on the heap and frees itself.
//!
//! # Invariants
//!
//! - **J1** Exactly one party takes a fork's closure: the owner after a pop that said so, or the
//!   thief that took it from the stack.
//! - **J2** A thief writes the result before it sets `done` of the slot, and does not touch the job
//!   afterwards; the owner reads the result only after it saw `done`.

use std::cell::Cell;
use std::mem::{ManuallyDrop, MaybeUninit};
use std::panic::{self, AssertUnwindSafe};
use std::ptr::NonNull;
use std::thread;

use raddle_sync::cell::UnsafeCell;

/// The thread that runs a job, as the job sees it: opaque to this module.
pub(crate) type RunOn = *const ();

/// What comes first in every fork.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct ForkHeader {
    /// Runs the job; the second argument is the worker that runs it.
    pub(crate) run: unsafe fn(*const ForkHeader, RunOn),
    /// The context word of the forking code: the thief works under it (see `local`). `SPENT` once a thief
    /// has run the job.
    pub(crate) context: Cell<usize>,
}

/// No context: frames are aligned.
const SPENT: usize = usize::MAX;

impl ForkHeader {
    /// By the thief, before it sets `done` (J2).
    pub(crate) fn mark_spent(&self) {
        self.context.set(SPENT);
    }
}

/// A closure waiting on the stack of its `join`, and the place for its result.
#[repr(C)]
pub(crate) struct ForkJob<F, R> {
    header: ForkHeader,
    closure: UnsafeCell<ManuallyDrop<F>>,
    result: UnsafeCell<MaybeUninit<thread::Result<R>>>,
}

impl<F, R> ForkJob<F, R> {
    #[inline(always)]
    pub(crate) fn new(
        closure: F,
        context: usize,
        run: unsafe fn(*const ForkHeader, RunOn),
    ) -> ForkJob<F, R> {
        ForkJob {
            header: ForkHeader { run, context: Cell::new(context) },
            closure: UnsafeCell::new(ManuallyDrop::new(closure)),
            result: UnsafeCell::new(MaybeUninit::uninit()),
        }
    }

    #[inline(always)]
    pub(crate) fn header(&self) -> *mut ForkHeader {
        // Of the whole job, so that `run` may reach behind the header.
        self as *const ForkJob<F, R> as *mut ForkHeader
    }

    /// Takes the closure.
    ///
    /// # Safety
    ///
    /// Once only, by the party that owns the job (J1).
    #[inline(always)]
    pub(crate) unsafe fn take_closure(&self) -> F {
        self.closure.with_mut(|closure| {
            // SAFETY: J1: no other party looks at the closure.
            let closure = unsafe { &mut *closure };
            // SAFETY: taken once (contract).
            unsafe { ManuallyDrop::take(closure) }
        })
    }

    /// Runs `call` on the closure and stores what comes of it, a panic too.
    ///
    /// # Safety
    ///
    /// As [`ForkJob::take_closure`], by the thief.
    pub(crate) unsafe fn run_stolen(&self, call: impl FnOnce(F) -> R) {
        // SAFETY: passed on.
        let closure = unsafe { self.take_closure() };
        // Unwind safety is the joiner's: the panic goes on in its thread.
        let result = panic::catch_unwind(AssertUnwindSafe(|| call(closure)));
        self.result.with_mut(|place| {
            // SAFETY: J2: the owner does not look before `done`.
            let place = unsafe { &mut *place };
            place.write(result);
        });
    }

    /// By the owner after it saw `done`: whether a thief has run this very job.
    pub(crate) fn is_spent(&self) -> bool {
        self.header.context.get() == SPENT
    }

    /// The result of a stolen job.
    ///
    /// # Safety
    ///
    /// Once only, by the owner after it saw `done` (J2).
    pub(crate) unsafe fn take_result(&self) -> thread::Result<R> {
        self.result.with_mut(|place| {
            // SAFETY: J2: the thief is gone.
            let place = unsafe { &mut *place };
            // SAFETY: written by `run_stolen`, taken once (contract).
            unsafe { place.assume_init_read() }
        })
    }
}

/// What a task can do, by its type.
#[derive(Debug)]
pub(crate) struct TaskVTable {
    /// Runs the task, or lets go of it if somebody else has run or killed it. Frees the queue's
    /// share of it; never unwinds.
    pub(crate) run: unsafe fn(NonNull<TaskHeader>, RunOn),
    /// Kills the task if it has not finished, and says whether it did; none if it may not be killed. Drops the task's
    /// closure, so not under a lock. What must follow is left to `complete_killed`.
    pub(crate) kill: Option<unsafe fn(NonNull<TaskHeader>) -> bool>,
    /// Whether somebody else has run or killed the task, so that this entry of a queue is void.
    pub(crate) is_void: unsafe fn(NonNull<TaskHeader>) -> bool,
    /// Whether a thread has blocked on the task's future while the task ran.
    pub(crate) is_awaited: unsafe fn(NonNull<TaskHeader>) -> bool,
    /// Completes the future of a task that `kill` killed.
    pub(crate) complete_killed: unsafe fn(NonNull<TaskHeader>),
    /// What `run` itself records.
    pub(crate) notes: Notes,
}

/// What a task records of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Notes {
    Nothing,
    /// That it is over, before those go on who wait for that.
    End,
    /// That it runs and is over: whether it does is found out when it is started.
    All,
}

impl TaskVTable {
    /// That of a task that is nobody's future, and is not killed.
    pub(crate) const fn plain(run: unsafe fn(NonNull<TaskHeader>, RunOn)) -> TaskVTable {
        TaskVTable {
            run,
            kill: None,
            is_void: |_| false,
            is_awaited: |_| false,
            complete_killed: |_| (),
            notes: Notes::Nothing,
        }
    }

    /// The same where `run` lets go whoever waits for the task: it records the end itself.
    pub(crate) const fn awaited(run: unsafe fn(NonNull<TaskHeader>, RunOn)) -> TaskVTable {
        TaskVTable { notes: Notes::End, ..TaskVTable::plain(run) }
    }
}

/// What every queued task holds; queues link through it.
#[derive(Debug)]
pub(crate) struct TaskHeader {
    pub(crate) vtable: &'static TaskVTable,
    /// The injector's links, guarded by its lock.
    pub(crate) links: UnsafeCell<Links>,
}

impl TaskHeader {
    pub(crate) fn new(vtable: &'static TaskVTable) -> TaskHeader {
        TaskHeader { vtable, links: UnsafeCell::new(Links::default()) }
    }
}

/// Neighbours in the injector, and what the task is stored with.
#[derive(Debug, Default)]
pub(crate) struct Links {
    /// 0: it is in no injector. Else its tag, and a bit that no tag has: as a word of its own a header would be longer.
    pub(crate) linked: usize,
    pub(crate) previous: Option<NonNull<TaskHeader>>,
    pub(crate) next: Option<NonNull<TaskHeader>>,
}
