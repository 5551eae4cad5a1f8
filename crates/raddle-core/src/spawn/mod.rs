//! `spawn`: a task that may outlive its spawner, and the future of its result.

#[cfg(not(raddle_loom))]
mod asked;
pub(crate) mod claim;
#[cfg(not(raddle_loom))]
mod home;
#[cfg(not(raddle_loom))]
pub(crate) mod hooks;
pub(crate) mod running;
#[cfg(not(raddle_loom))]
mod task;

#[cfg(not(raddle_loom))]
pub use self::asked::{interrupt_process, interrupted, killed};
#[cfg(not(raddle_loom))]
pub use self::hooks::{Outcome, TaskId};
#[cfg(not(raddle_loom))]
pub use self::task::spawn;
#[cfg(not(raddle_loom))]
pub(crate) use self::task::task_of;
