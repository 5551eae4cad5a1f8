//! `spawn`: a task that may outlive its spawner, and the future of its result.

pub(crate) mod claim;
#[cfg(not(raddle_loom))]
pub(crate) mod hooks;
pub(crate) mod running;
#[cfg(not(raddle_loom))]
mod task;

#[cfg(not(raddle_loom))]
pub use self::hooks::{Outcome, TaskId};
#[cfg(not(raddle_loom))]
pub(crate) use self::task::task_of;
#[cfg(not(raddle_loom))]
pub use self::task::{interrupt_process, interrupted, killed, spawn};
