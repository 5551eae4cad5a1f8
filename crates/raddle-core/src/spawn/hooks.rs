//! What a pool calls round its spawned futures.

use std::fmt;
use std::panic::{self, AssertUnwindSafe};

/// The number of a spawned future within its pool, as hooks see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub(crate) u64);

impl TaskId {
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
    /// It was killed while it ran.
    Killed,
}

type BeforeStart = Box<dyn Fn(TaskId) + Send + Sync>;
type AfterFinish = Box<dyn Fn(TaskId, Outcome) + Send + Sync>;

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
            Some(hook) => panic::catch_unwind(AssertUnwindSafe(|| hook(id))),
            None => Ok(()),
        }
    }

    /// Calls the hook; a panic of it has been reported by the panic hook and changes nothing.
    #[inline]
    pub(crate) fn after_finish(&self, id: TaskId, outcome: Outcome) {
        if let Some(hook) = &self.after_finish {
            crate::panics::contain(|| hook(id, outcome));
        }
    }
}

impl fmt::Debug for Hooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hooks").finish_non_exhaustive()
    }
}
