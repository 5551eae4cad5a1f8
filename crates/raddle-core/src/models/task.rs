//! A spawned task without its closure's types: what `spawn::task`, `future::{node, wait}` and
//! `pool::kill` do with the protocols, step by step as there.

use std::ptr::NonNull;
use std::sync::Arc;

use raddle_sync::cell::UnsafeCell;

use crate::future::state::{Abandoned, Attach, Carries, Completed, Ended, State, Vacant};
use crate::job::{TaskHeader, TaskVTable};
use crate::latch::Latch;
use crate::models::{Memory, Tally, parker};
use crate::queue::{Injector, Task as Header};
use crate::spawn::claim::{Claim, KillOutcome, Started};
use crate::spawn::running::List;

/// A thread that waits, on its own stack.
#[derive(Debug)]
#[repr(align(8))]
pub(super) struct Waiting {
    pub(super) latch: Latch,
}

impl Waiting {
    pub(super) fn new() -> Waiting {
        Waiting { latch: Latch::new(parker()) }
    }

    /// # Safety
    ///
    /// By the producer, once, while the thread waits for the latch (F2).
    pub(super) unsafe fn tell(waiting: NonNull<Waiting>) {
        // SAFETY: contract.
        let latch = unsafe { &raw const (*waiting.as_ptr()).latch };
        // SAFETY: contract; the thread may go on at once (L1).
        unsafe { Latch::set(latch) };
    }
}

/// Counts its drops.
pub(super) struct Value(pub(super) Tally);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.add();
    }
}

/// What happened to a task.
#[derive(Clone, Default)]
pub(super) struct Record {
    pub(super) ran: Tally,
    pub(super) closures_dropped: Tally,
    pub(super) values_dropped: Tally,
    pub(super) taken: Tally,
    pub(super) killed: Tally,
    pub(super) interrupted: Tally,
    pub(super) freed: Tally,
}

impl Record {
    /// When all parties have gone.
    pub(super) fn assert_done(&self) {
        let ran = self.ran.count();
        assert!(ran <= 1, "it ran once at most");
        assert_eq!(self.closures_dropped.count(), 1, "closure dropped once");
        assert_eq!(self.values_dropped.count(), ran, "each value dropped once");
        assert!(self.taken.count() <= ran, "no value from nowhere");
        assert!(self.killed.count() <= 1, "killed once at most");
        let stopped = self.killed.count() + self.interrupted.count();
        assert!(ran + stopped > 0, "it ran, was killed or interrupted");
        assert!(ran + self.interrupted.count() <= 1, "what was interrupted did not run");
        assert_eq!(self.freed.count(), 1, "freed once");
    }
}

enum Body {
    Empty,
    Closure(Value),
    Result(Value),
}

/// The task; `header` first, so that a pointer to one is a pointer to the other. Its memory lives as
/// long as the model.
#[repr(C)]
pub(super) struct Task {
    header: TaskHeader,
    state: State<Waiting>,
    body: UnsafeCell<Body>,
    claim: Claim,
    memory: Memory,
    record: Record,
}

// SAFETY: the models check that the body's uses are ordered.
unsafe impl Send for Task {}
// SAFETY: as above.
unsafe impl Sync for Task {}

impl Task {
    /// A task that is about to be queued.
    pub(super) fn new(record: &Record) -> Arc<Task> {
        const TABLE: &TaskVTable = &TaskVTable {
            run: |_, _| unreachable!("by `run` below"),
            kill: Some(|_| unreachable!("by `kill_all` below")),
            is_void: |_| unreachable!("asked by pools only"),
            is_awaited: |_| unreachable!("asked by pools only"),
            complete_killed: |_| unreachable!("by `kill_all` below"),
            notes: crate::job::Notes::Nothing,
        };
        Arc::new(Task {
            header: TaskHeader::new(TABLE),
            state: State::new(),
            body: UnsafeCell::new(Body::Closure(Value(record.closures_dropped.clone()))),
            claim: Claim::new(),
            memory: Memory::new(record.freed.clone()),
            record: record.clone(),
        })
    }

    pub(super) fn header(&self) -> Header {
        // Of the whole task.
        NonNull::from(self).cast()
    }

    /// # Safety
    ///
    /// The header must be that of such a task, whose memory is still there.
    pub(super) unsafe fn of<'a>(header: Header) -> &'a Task {
        // SAFETY: contract.
        unsafe { header.cast().as_ref() }
    }

    fn put(&self, body: Body) -> Body {
        self.memory.touch();
        self.body.with_mut(|place| {
            // SAFETY: K1, F1.
            std::mem::replace(unsafe { &mut *place }, body)
        })
    }

    // --- the queue's side ---

    /// By who took it out of a queue, on a worker with this list.
    pub(super) fn run(&self, list: &List) {
        self.memory.touch();
        if self.state.is_dropped() && self.claim.start_alone() {
            return self.execute(list, true);
        }
        match self.claim.start_queued() {
            Started::Yes => self.execute(list, false),
            Started::No => {}
            Started::Free => self.memory.free(),
        }
    }

    fn execute(&self, list: &List, alone: bool) {
        let Body::Closure(closure) = self.put(Body::Empty) else {
            panic!("a task that has started has its closure");
        };
        let result = list.with(self.header(), || {
            self.record.ran.add();
            drop(closure);
            Value(self.record.values_dropped.clone())
        });
        self.memory.touch();
        let alone = alone && self.claim.finish_alone();
        if alone {
            // As for a result that needs no drop.
            drop(result);
            self.memory.free();
        } else if self.claim.finish() {
            self.put(Body::Result(result));
            self.complete(Ended::Ok);
        } else {
            drop(result);
            self.memory.touch();
            if self.claim.runner_leaves() {
                self.memory.free();
            }
        }
    }

    fn complete(&self, outcome: Ended) {
        self.memory.touch();
        match self
            .state
            .complete(outcome, Carries::Cell, |_| unreachable!("tasks have no interrupt_node"))
        {
            Completed::Alone => {}
            // SAFETY: F2: it waits.
            Completed::Tell(waiting) => unsafe { Waiting::tell(waiting) },
            Completed::Dropped => self.use_up(outcome),
            other => unreachable!("{other:?}"),
        }
    }

    fn use_up(&self, outcome: Ended) {
        if outcome == Ended::Ok {
            assert!(matches!(self.put(Body::Empty), Body::Result(_)));
        }
        self.memory.touch();
        if self.claim.release() {
            self.memory.free();
        }
    }

    /// A killer's look, or a visitor's; and for models of the list alone the end of the task.
    pub(super) fn look(&self) {
        self.memory.touch();
    }

    pub(super) fn end(&self) {
        self.memory.free();
    }

    // --- killers ---

    /// Kills it, if it can be, and leaves the future to the caller.
    fn kill_only(&self) -> bool {
        self.memory.touch();
        match self.claim.kill() {
            KillOutcome::Unstarted => {
                assert!(matches!(self.put(Body::Empty), Body::Closure(_)));
                self.record.killed.add();
            }
            KillOutcome::Running => self.record.killed.add(),
            KillOutcome::TooLate => return false,
        }
        true
    }

    /// By whoever holds it in the queue's name.
    pub(super) fn kill_queued(&self) {
        if self.kill_only() {
            self.complete(Ended::Killed);
        }
    }

    /// By the future's handle, where this is deep. True: `discard_killed` is to follow.
    #[must_use]
    pub(super) fn kill(&self) -> bool {
        self.memory.touch();
        let killed = self.claim.kill();
        if killed == KillOutcome::TooLate {
            return false;
        }
        if killed == KillOutcome::Unstarted {
            self.claim.pin();
        }
        self.record.killed.add();
        self.complete(Ended::Killed);
        killed == KillOutcome::Unstarted
    }

    /// By who has killed and pinned it.
    pub(super) fn discard_killed(&self) {
        assert!(matches!(self.put(Body::Empty), Body::Closure(_)));
        self.unpin();
    }

    /// Kills what runs on a worker.
    pub(super) fn kill_running(list: &List) {
        let mut killed = Vec::new();
        list.for_each(|header| {
            // SAFETY: U2.
            if unsafe { Task::of(header) }.kill_only() {
                killed.push(header);
            }
        });
        for header in killed {
            // SAFETY: killed and not completed, so it is alive.
            unsafe { Task::of(header) }.complete(Ended::Killed);
        }
    }

    // --- the consumer's side ---

    /// The handle is dropped.
    pub(super) fn abandon(&self) {
        self.memory.touch();
        if let Abandoned::Done(outcome) = self.state.abandon() {
            self.use_up(outcome);
        }
    }

    /// By the handle: a visitor pins the task, and when it has left the future interrupts it.
    pub(super) fn interrupt(&self) {
        self.memory.touch();
        let Some(visit) = self.state.visit() else { return };
        self.claim.pin();
        self.state.leave(visit);
        self.interrupt_pinned();
    }

    /// By who has pinned it.
    pub(super) fn interrupt_pinned(&self) {
        self.memory.touch();
        self.claim.interrupt();
        if self.claim.start_waiting() {
            assert!(matches!(self.put(Body::Empty), Body::Closure(_)));
            self.record.interrupted.add();
            self.memory.touch();
            if self.claim.finish() {
                self.complete(Ended::Err);
            } else {
                assert!(!self.claim.runner_leaves(), "it is pinned");
            }
        }
        self.unpin();
    }

    pub(super) fn unpin(&self) {
        self.memory.touch();
        if self.claim.unpin() {
            self.memory.free();
        }
    }

    /// Of a future that is not done, for `interrupt_pinned` on another thread.
    pub(super) fn pin(&self) -> bool {
        self.memory.touch();
        let Some(visit) = self.state.visit() else { return false };
        self.claim.pin();
        self.state.leave(visit);
        true
    }

    /// By a waiting thread: runs the task if nobody has started it, out of the injector or not.
    pub(super) fn run_here(&self, injector: &Injector, list: &List) {
        self.memory.touch();
        if self.state.outcome().is_some() || !self.claim.start_waiting() {
            return;
        }
        // SAFETY: alive, and in no other injector.
        if unsafe { injector.remove(self.header()) } {
            self.claim.unqueued();
        }
        self.execute(list, false);
    }

    /// Waits, and takes the result.
    pub(super) fn wait(&self) {
        self.memory.touch();
        if self.state.outcome().is_none() {
            let waiting = Waiting::new();
            let me = NonNull::from(&waiting);
            if self.state.attach(Vacant::UNSEEN, me, Attach::Waiter, Carries::Cell, |_| ()).is_ok()
            {
                waiting.latch.wait();
            }
        }
        let outcome = self.state.outcome().expect("waited until it was done");
        if outcome == Ended::Ok {
            self.record.taken.add();
        }
        self.use_up(outcome);
    }
}
