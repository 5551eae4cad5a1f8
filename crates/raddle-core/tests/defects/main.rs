//! Programs that once hung, lost work, ended too early, ran something twice, leaked, or failed with a cycle where there is
//! none. They are larger than every constant in the pool: rings, caps of spare threads, the depths at which a thread stops
//! taking things on.
#![allow(missing_docs)]

mod cycles;
mod ends;
mod follows;
mod forks;
mod memory;
mod order;
mod pools;
mod promises;
mod scopes;
mod turns;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::Pool;

/// Longer than any of this takes; what lasts that long hangs.
const LONG: Duration = Duration::from_secs(120);

/// How much of the full size a debug build does.
const fn sized(full: usize) -> usize {
    if cfg!(debug_assertions) { full / 5 } else { full }
}

/// Calls `f` on a thread of its own, so that what hangs fails.
fn ends<R: Send + 'static>(what: &str, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    thread::spawn(move || send.send(catch_unwind(AssertUnwindSafe(f))));
    match receive.recv_timeout(LONG) {
        Ok(Ok(result)) => result,
        Ok(Err(payload)) => resume_unwind(payload),
        Err(_) => panic!("{what} hangs"),
    }
}

/// The same in a task of the pool's, which is left alone if it hangs.
fn ends_on(pool: Pool, what: &str, f: impl FnOnce() + Send + 'static) {
    ends(what, move || {
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            f();
            send.send(()).unwrap();
        }));
        receive.recv().unwrap();
    });
}

fn flag() -> Arc<AtomicBool> {
    Arc::default()
}

fn raise(flag: &AtomicBool) {
    flag.store(true, Ordering::SeqCst);
}

fn until(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}
