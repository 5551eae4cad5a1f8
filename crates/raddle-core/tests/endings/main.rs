//! Programs that end: each a shape that a scheduler which waits by queue, by depth or on its only thread does not
//! finish.
#![allow(missing_docs)]

mod large;

use std::sync::mpsc;
use std::time::Duration;

use raddle_core::Pool;

/// Longer than any of this takes; a wait that long is a hang.
const LONG: Duration = Duration::from_secs(120);

/// Runs `f` on a task of the pool, on a stack of the pool's, and fails if it does not end.
fn ends<R: Send + 'static>(pool: &Pool, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    drop(pool.spawn(move || send.send(f())));
    receive.recv_timeout(LONG).expect("it ends")
}
