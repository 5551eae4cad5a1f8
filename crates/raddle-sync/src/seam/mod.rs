//! The one place that decides whose atomics, cells and threads the rest of raddle uses.

#[cfg(raddle_loom)]
#[path = "loom.rs"]
mod backend;
#[cfg(raddle_shuttle)]
#[path = "shuttle.rs"]
mod backend;
#[cfg(not(raddle_model))]
#[path = "std.rs"]
mod backend;

#[cfg(all(raddle_loom, raddle_shuttle))]
compile_error!("raddle_loom and raddle_shuttle exclude each other");
#[cfg(not(any(
    all(raddle_model, any(raddle_loom, raddle_shuttle)),
    not(any(raddle_model, raddle_loom, raddle_shuttle))
)))]
compile_error!("raddle_model goes with raddle_loom or raddle_shuttle, and they with it");

#[cfg(not(raddle_loom))]
mod plain_cell;

pub use backend::{atomic, cell, hint, thread};

/// Starts a thread. Not generic, so that what starting one takes is compiled here, and not again for each closure.
///
/// # Errors
///
/// As `Builder::spawn`.
pub fn start(
    builder: thread::Builder,
    run: Box<dyn FnOnce() + Send>,
) -> std::io::Result<thread::JoinHandle<()>> {
    builder.spawn(run)
}
