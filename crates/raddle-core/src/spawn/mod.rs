//! `spawn`: a task that may outlive its spawner, and the future of its result.

pub(crate) mod claim;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod hooks;
pub(crate) mod running;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
mod task;

#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub(crate) use self::hooks::Hooks;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub use self::hooks::{Outcome, TaskId};
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub(crate) use self::task::{Pinned, spawn_in, task_of};
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
pub use self::task::{interrupted, killed, spawn};
