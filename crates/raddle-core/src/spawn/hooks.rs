//! What a pool calls round its spawned futures.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;

use crate::panics::{contain, discard};

/// The number of a spawned future within its pool, as hooks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u64);

impl TaskId {
    /// That of tasks which no hook hears of: polls of async futures, what brings a result to a pool. Others begin at 1.
    pub(crate) const UNHEARD: TaskId = TaskId(0);

    /// The number itself: unique within the pool.
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// How a spawned future ended, as hooks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Outcome {
    /// With a value.
    Completed,
    /// With a panic.
    Panicked,
    /// It was killed while it ran; or while it was suspended, if it is an async one, also by the end of its pool.
    Killed,
    /// It was interrupted: an async one, which is dropped then. What else runs hears of interrupts if it asks, and ends by itself.
    Interrupted,
    /// Nobody was left who could wake it: an async one.
    Broken,
}

type BeforeStart = Box<dyn Fn(TaskId) + Send + Sync>;
/// Shared with async futures that have started, which may be over when their pool has gone.
type AfterFinish = Arc<dyn Fn(TaskId, Outcome) + Send + Sync>;

/// The hooks of a pool.
#[derive(Default)]
pub(crate) struct Hooks {
    pub(crate) before_start: Option<BeforeStart>,
    pub(crate) after_finish: Option<AfterFinish>,
}

impl Hooks {
    pub(crate) fn any(&self) -> bool {
        self.before_start.is_some() || self.after_finish.is_some()
    }

    /// Calls the hook; a panic of it becomes the future's.
    #[inline]
    pub(crate) fn before_start(&self, id: TaskId) -> std::thread::Result<()> {
        match &self.before_start {
            Some(hook) if id != TaskId::UNHEARD => {
                panic::catch_unwind(AssertUnwindSafe(|| hook(id)))
            }
            _ => Ok(()),
        }
    }

    /// Calls the hook; a panic of it has been reported by the panic hook and changes nothing.
    #[inline]
    pub(crate) fn after_finish(&self, id: TaskId, outcome: Outcome) {
        if let Some(hook) = self.after_finish.as_ref().filter(|_| id != TaskId::UNHEARD) {
            contain(|| hook(id, outcome));
        }
    }

    /// For an async future that has started: who is to hear of its end.
    pub(crate) fn unfinished(&self, id: TaskId) -> Option<Unfinished> {
        let hook = Arc::clone(self.after_finish.as_ref()?);
        Some(Unfinished { id, hook })
    }
}

/// What is still to be said of an async future: see [`Hooks::unfinished`].
pub(crate) struct Unfinished {
    id: TaskId,
    hook: AfterFinish,
}

impl Unfinished {
    /// As [`Hooks::after_finish`].
    pub(crate) fn finish(self, outcome: Outcome) {
        contain(|| (self.hook)(self.id, outcome));
        // The pool may have gone: then what the hook holds goes here.
        discard(self.hook);
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}
