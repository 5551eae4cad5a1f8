//! What programs rely on beyond types: a test for each row of what rayon-core promises or does.

mod asleep;
mod blocking;
mod broadcasts;
mod building;
mod ends;
mod former;
mod migrated;
mod numbers;
mod order;
mod outside;
mod panics;
mod pools;
mod processes;
mod threads;
mod types;
mod yields;

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use rayon_core::{ThreadPool, ThreadPoolBuilder, Yield};

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Blocks until `flag` is set, as code does that knows nothing of pools.
fn block_until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::yield_now();
    }
}

/// Blocks, but does the pool's work.
fn yield_until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        if rayon_core::yield_now() == Some(Yield::Idle) {
            thread::yield_now();
        }
    }
}

/// What `f` returns or panics with. (rayon does not say of its pools that they are fit for that.)
fn caught<R>(f: impl FnOnce() -> R) -> thread::Result<R> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(f))
}

thread_local! {
    static MARK: Cell<usize> = const { Cell::new(0) };
}
