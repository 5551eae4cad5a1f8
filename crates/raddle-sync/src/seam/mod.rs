//! The one place that decides whose atomics, cells and threads the rest of raddle uses.

#[cfg(raddle_loom)]
#[path = "loom.rs"]
mod backend;
#[cfg(raddle_shuttle)]
#[path = "shuttle.rs"]
mod backend;
#[cfg(not(any(raddle_loom, raddle_shuttle)))]
#[path = "std.rs"]
mod backend;

#[cfg(all(raddle_loom, raddle_shuttle))]
compile_error!("raddle_loom and raddle_shuttle exclude each other");

#[cfg(not(raddle_loom))]
mod plain_cell;

pub use backend::{atomic, cell, hint, thread};
