//! A task on its way: queued, sent to a worker, over.
//!
//! | phase | what it is | left by |
//! |---|---|---|
//! | `Queued` | in the crew's queue | a worker is free, a kill, an interrupt |
//! | `Sent` | one worker has it, as one attempt | an answer, a death, a kill, a time-out |
//! | `Over` | its future is resolved, or about to be | |
//!
//! A task that is over may still lie in the queue: whoever takes it out drops it, and no more of them lie there than of others.
//!
//! # Invariants
//!
//! - **Q1** The phase changes under the crew's lock.
//! - **Q2** Whoever makes a task `Over` takes its completion, and calls it once, without a lock.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use raddle_core::{Failure, Interrupt, Killed, Producer};

use super::Crew;
use crate::entry::Call;
use crate::frame::Payload;
use crate::os::poll::Bell;
use crate::seed::Seed;
use crate::shared;

/// What a task is completed with: the bytes of its result, or why there are none.
pub(crate) type Ended = Result<Payload, Failure>;
type Complete = Box<dyn FnOnce(Ended) + Send>;

/// What is asked for, apart from where it runs.
pub(crate) struct Request {
    pub(crate) name: Option<String>,
    pub(crate) call: Call,
    pub(crate) seed: Seed,
    pub(crate) args: Vec<u8>,
    pub(crate) shared: Vec<Arc<shared::Data>>,
    pub(crate) timeout: Option<Duration>,
    pub(crate) retries: u32,
}

impl Request {
    /// How long it is, as [`Plan::max_frame`](crate::Plan::max_frame) counts.
    pub(crate) fn len(&self) -> u64 {
        (self.args.len() + self.name.as_ref().map_or(0, String::len)) as u64
    }
}

pub(crate) struct Task {
    pub(crate) id: u64,
    pub(crate) request: Request,
    /// Where it is.
    pub(super) crew: Weak<Crew>,
    course: Mutex<Course>,
}

/// How far a task has come.
pub(crate) struct Course {
    pub(crate) phase: Phase,
    /// How often it was sent.
    pub(crate) attempt: u32,
    /// What was said of it to `before_start`.
    pub(crate) started: bool,
    /// On which worker it was last.
    pub(crate) worker: usize,
    /// Why it was interrupted while it ran: so it is not tried again.
    pub(crate) interrupted: Option<Interrupt>,
    /// Of a thread that waits for its end (J2).
    pub(super) bell: Option<Arc<Bell>>,
    complete: Option<Complete>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Phase {
    Queued,
    Sent { worker: u64, attempt: u64 },
    Over,
}

impl Task {
    pub(super) fn new(id: u64, request: Request, crew: Weak<Crew>) -> Task {
        let course = Course {
            phase: Phase::Queued,
            attempt: 0,
            started: false,
            worker: 0,
            interrupted: None,
            bell: None,
            complete: None,
        };
        Task { id, request, crew, course: Mutex::new(course) }
    }

    pub(crate) fn course(&self) -> MutexGuard<'_, Course> {
        self.course.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What to do with the result; before the task is queued.
    pub(crate) fn on_end(&self, complete: impl FnOnce(Ended) + Send + 'static) {
        self.course().complete = Some(Box::new(complete));
    }
}

impl AsRef<[u8]> for Task {
    fn as_ref(&self) -> &[u8] {
        &self.request.args
    }
}

/// A task that is over, and with what: to be completed once no lock is held (Q2).
pub(crate) struct Completion {
    pub(crate) task: Arc<Task>,
    pub(crate) ended: Ended,
    pub(crate) complete: Option<Complete>,
    pub(crate) started: bool,
    /// To be rung first (J2).
    pub(super) bell: Option<Arc<Bell>>,
}

impl Completion {
    /// By whoever has the crew's lock (Q1); none if it is over already.
    pub(crate) fn new(task: &Arc<Task>, ended: Ended) -> Option<Completion> {
        let mut course = task.course();
        if matches!(course.phase, Phase::Over) {
            return None;
        }
        course.phase = Phase::Over;
        let (complete, started, bell) =
            (course.complete.take(), course.started, course.bell.take());
        drop(course);
        Some(Completion { task: Arc::clone(task), ended, complete, started, bell })
    }
}

/// Answers the interrupts and kills of a task's future.
pub(crate) struct Handle {
    pub(crate) crew: Arc<Crew>,
    pub(crate) task: Arc<Task>,
}

impl Producer for Handle {
    fn interrupt(&mut self, why: Interrupt) {
        self.crew.interrupt(&self.task, why);
    }

    fn kill(&mut self) -> Killed {
        self.crew.kill(&self.task)
    }
}
