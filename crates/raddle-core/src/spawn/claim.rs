//! Who may run, finish or kill a spawned task, and when its memory may go: one word.
//!
//! | bits       | meaning                                                              |
//! |------------|----------------------------------------------------------------------|
//! | phase      | `QUEUED`, `RUNNING`, `FINISHED` or `KILLED`                            |
//! | `QUEUE`    | a queue still points to the task                                      |
//! | `RUNNER`   | a thread still runs the task, though it may have been killed           |
//! | `RELEASED` | the future's parties have gone; the last of the others frees            |
//! | `INTERRUPTED` | the task's future was interrupted                                    |
//! | `AWAITED`  | a thread has blocked on the task's future while it ran                |
//! | pins       | how many hold the task, having found it upstream of their future       |
//!
//! ```text
//!   QUEUED --start--> RUNNING --finish--> FINISHED
//!      \--kill--> KILLED <--kill--/
//! ```
//!
//! # Invariants
//!
//! - **K1** Whoever moves the phase from `QUEUED` owns the closure: to run it, or to drop it.
//! - **K2** Whoever moves the phase to `FINISHED` or `KILLED` is the producer of the future (see
//!   `future::state`): it alone completes the state. The slot is the runner's from its start on, and
//!   to a future that was killed while running the slot means nothing.
//! - **K3** The task is freed by the future's parties (`release`) if there is neither `QUEUE` nor
//!   `RUNNER` nor a pin, otherwise by the last of them to go after `RELEASED`. Only whoever knows that the
//!   future's parties are there may pin.
//! - **K4** When the future's parties have gone and the word is `QUEUED | QUEUE`, nobody but the queue knows the task. So
//!   whoever has taken it out of the queue is alone with it, until it lists it as running, and again when it has taken
//!   it off the list: no read-modify-write is needed.

use raddle_sync::atomic::{AtomicU32, Ordering};

const QUEUED: u32 = 0;
const RUNNING: u32 = 1;
const FINISHED: u32 = 2;
const KILLED: u32 = 3;
const PHASE: u32 = 3;
const QUEUE: u32 = 4;
const RUNNER: u32 = 8;
const RELEASED: u32 = 16;
const INTERRUPTED: u32 = 32;
const AWAITED: u32 = 64;
const PIN: u32 = 128;
/// Who else may hold the task when `RELEASED` is set.
const HOLDERS: u32 = !(PHASE | RELEASED | INTERRUPTED | AWAITED);

/// See the module.
#[derive(Debug)]
pub(crate) struct Claim(AtomicU32);

/// What a queue's attempt to start a task came upon.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Started {
    /// Run it.
    Yes,
    /// Somebody else has run or killed it, or is about to. Nothing is left to do.
    No,
    /// As `No`, and nobody else knows the task: free it.
    Free,
}

/// What a killer came upon.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum KillOutcome {
    /// It is the killer's now: drop the closure, complete the future.
    Unstarted,
    /// Complete the future; the closure is running.
    Running,
    /// Finished, or killed by another.
    TooLate,
}

/// Whether nobody holds a task any more.
fn is_free(word: u32) -> bool {
    word & (RELEASED | HOLDERS) == RELEASED
}

impl Claim {
    /// A task that is about to be queued.
    pub(crate) fn new() -> Claim {
        Claim(AtomicU32::new(QUEUED | QUEUE))
    }

    /// By who took it out of a queue.
    pub(crate) fn start_queued(&self) -> Started {
        // ORD: the queue has ordered the closure; Acquire for K3.
        let started = self.start(|word| (word & !PHASE & !QUEUE) | RUNNING | RUNNER);
        if started {
            return Started::Yes;
        }
        // ORD: AcqRel: K3, whoever frees has seen what the others did.
        let before = self.0.fetch_and(!QUEUE, Ordering::AcqRel);
        if is_free(before & !QUEUE) { Started::Free } else { Started::No }
    }

    /// By who took it out of a queue and has seen that the future's parties have gone. True: it has started, and nobody
    /// else knows it (K4).
    #[inline]
    pub(crate) fn start_alone(&self) -> bool {
        // ORD: Acquire: K3: those who had pinned it have gone.
        let alone = self.0.load(Ordering::Acquire) == QUEUED | QUEUE;
        if alone {
            // ORD: published by the list of running tasks.
            self.0.store(RUNNING | RUNNER, Ordering::Relaxed);
        }
        alone
    }

    /// As `finish`, by the runner that started it alone and has taken it off the list (K4). False: it was killed, or is known
    /// to others.
    #[inline]
    pub(crate) fn finish_alone(&self) -> bool {
        // ORD: a killer's doings are seen by whoever takes the task off the list.
        let alone = self.0.load(Ordering::Relaxed) == RUNNING | RUNNER;
        if alone {
            // ORD: as above.
            self.0.store(FINISHED, Ordering::Relaxed);
        }
        alone
    }

    /// By a waiting thread, that leaves the task in its queue.
    pub(crate) fn start_waiting(&self) -> bool {
        self.start(|word| (word & !PHASE) | RUNNING | RUNNER)
    }

    /// Moves the phase on from `QUEUED`.
    fn start(&self, after: impl Fn(u32) -> u32) -> bool {
        let mut word = QUEUED | QUEUE;
        // ORD: Acquire pairs with nothing new: the consumer has the task from its spawner; and for K3.
        while let Err(now) =
            self.0.compare_exchange(word, after(word), Ordering::Acquire, Ordering::Acquire)
        {
            if now & PHASE != QUEUED {
                return false;
            }
            word = now;
        }
        true
    }

    /// By the waiting thread that started it, after it took it out of the queue as well.
    pub(crate) fn unqueued(&self) {
        // ORD: the runner still holds the task.
        self.0.fetch_and(!QUEUE, Ordering::Relaxed);
    }

    /// By the runner: true if it is the producer now (K2); false if the task was killed meanwhile.
    pub(crate) fn finish(&self) -> bool {
        // ORD: Release: whoever frees has seen the runner's doings (K3).
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
                (word & PHASE == RUNNING).then_some((word & !PHASE & !RUNNER) | FINISHED)
            })
            .is_ok()
    }

    /// By the runner of a killed task, as its last act. True: free it.
    #[must_use]
    pub(crate) fn runner_leaves(&self) -> bool {
        // ORD: K3.
        is_free(self.0.fetch_and(!RUNNER, Ordering::AcqRel) & !RUNNER)
    }

    /// By anybody who knows the task to be alive.
    pub(crate) fn kill(&self) -> KillOutcome {
        // ORD: AcqRel: K1, the closure is the killer's to drop.
        let killed = self.0.fetch_update(Ordering::AcqRel, Ordering::Relaxed, |word| {
            matches!(word & PHASE, QUEUED | RUNNING).then_some((word & !PHASE) | KILLED)
        });
        match killed {
            Ok(before) if before & PHASE == QUEUED => KillOutcome::Unstarted,
            Ok(_) => KillOutcome::Running,
            Err(_) => KillOutcome::TooLate,
        }
    }

    pub(crate) fn is_queued(&self) -> bool {
        // ORD: a hint.
        self.0.load(Ordering::Relaxed) & PHASE == QUEUED
    }

    /// By whoever is about to block until the task has been run, and holds it.
    pub(crate) fn mark_awaited(&self) {
        if !self.is_awaited() {
            // ORD: a hint.
            self.0.fetch_or(AWAITED, Ordering::Relaxed);
        }
    }

    pub(crate) fn is_awaited(&self) -> bool {
        // ORD: a hint.
        self.0.load(Ordering::Relaxed) & AWAITED != 0
    }

    pub(crate) fn is_killed(&self) -> bool {
        // ORD: a hint.
        self.0.load(Ordering::Relaxed) & PHASE == KILLED
    }

    /// By the future's last party. True: free it.
    #[must_use]
    pub(crate) fn release(&self) -> bool {
        // ORD: Acquire: K3.
        if self.0.load(Ordering::Acquire) & HOLDERS == 0 {
            return true;
        }
        // ORD: K3.
        self.0.fetch_or(RELEASED, Ordering::AcqRel) & HOLDERS == 0
    }

    /// Keeps the task from being freed (K3).
    pub(crate) fn pin(&self) {
        // ORD: the future's parties hold the task meanwhile.
        let before = self.0.fetch_add(PIN, Ordering::Relaxed);
        if before > u32::MAX / 2 {
            // As `Arc` does: the count must not come round, and nobody means to have so many.
            raddle_sync::abort(format_args!("a task is interrupted too often at a time"));
        }
    }

    /// By who pinned it. True: free it.
    #[must_use]
    pub(crate) fn unpin(&self) -> bool {
        // ORD: K3.
        is_free(self.0.fetch_sub(PIN, Ordering::AcqRel) - PIN)
    }

    /// By who has pinned it.
    pub(crate) fn interrupt(&self) {
        // ORD: a hint.
        self.0.fetch_or(INTERRUPTED, Ordering::Relaxed);
    }

    pub(crate) fn is_interrupted(&self) -> bool {
        // ORD: a hint.
        self.0.load(Ordering::Relaxed) & INTERRUPTED != 0
    }
}
