//! Iterators that run on all threads of a pool at once.

use std::sync::{Barrier, Mutex, MutexGuard, PoisonError};

use rayon::prelude::*;

/// Calls `f` on each thread of the pool, while all others are in such a call: each item of a parallel iterator
/// blocks until all have been begun.
pub fn on_each_thread(f: impl Fn() + Sync) {
    let threads = rayon::current_num_threads();
    let met = Barrier::new(threads);
    (0..threads).into_par_iter().with_max_len(1).for_each(|_| {
        // First: what waits for rayon within `f` may take on an item that blocks.
        met.wait();
        f();
    });
}

/// Keeps others of the process from the threads that [`on_each_thread`] blocks: two of those would each have some and wait
/// for the rest.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}
