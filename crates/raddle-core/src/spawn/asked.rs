//! What a running task may ask about itself.

use raddle_sync::atomic::{AtomicBool, Ordering};

use crate::local::Frame;
use crate::spawn::claim::Claim;

/// Whether the running task has been killed: a task that takes long asks now and then, and returns.
///
/// Halves of a `join` and tasks of a scope ask for the task they were forked in, on whichever thread
/// they run. Outside of spawned tasks it is false.
///
/// ```
/// use raddle::{killed, spawn};
///
/// let future = spawn(|| while !killed() { std::hint::spin_loop() });
/// future.kill();
/// assert!(future.wait().is_err());
/// ```
pub fn killed() -> bool {
    Frame::current_claim().is_some_and(Claim::is_killed)
}

/// Whether the future of the running task has been interrupted ([`Future::interrupt`](crate::Future::interrupt)): a task whose result is
/// not wanted any more asks now and then, and returns what it has, or fails.
///
/// Asked from where [`killed`] can be. A task that was interrupted before it started does not run. A kill is no interrupt: whoever is
/// to stop for both asks for both.
///
/// ```
/// use raddle::{interrupted, spawn};
///
/// let (started, wait) = std::sync::mpsc::channel();
/// let future = spawn(move || {
///     started.send(()).unwrap();
///     while !interrupted() { std::hint::spin_loop() }
///     "stopped"
/// });
/// wait.recv().unwrap();
/// future.interrupt("enough");
/// assert_eq!(future.wait().unwrap(), "stopped");
/// ```
pub fn interrupted() -> bool {
    // ORD: a hint, as the claim's.
    Frame::current_claim().is_some_and(Claim::is_interrupted)
        || PROCESS_INTERRUPTED.load(Ordering::Relaxed)
}

/// Whether all that this process does is for a task that has been interrupted: see [`interrupt_process`].
static PROCESS_INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Has [`interrupted`] answer so everywhere in this process: for one that works on a single task of another process's.
#[doc(hidden)]
pub fn interrupt_process(interrupted: bool) {
    // ORD: as in `interrupted`.
    PROCESS_INTERRUPTED.store(interrupted, Ordering::Relaxed);
}
