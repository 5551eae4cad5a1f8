//! What a pool counts about waits and wakes.

use std::io;
use std::sync::Once;

use raddle_sync::atomic::{AtomicU64, Ordering};

use crate::pool::Pool;

/// A number that grows.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    pub(crate) fn add(&self) {
        // ORD: a statistic.
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// See [`PoolStats`].
#[derive(Debug, Default)]
pub(crate) struct Stats {
    pub(crate) given: Counter,
    pub(crate) spare_threads: Counter,
    pub(crate) surplus: Counter,
    pub(crate) looks: Counter,
    hosted: Counter,
    refused: Counter,
}

impl Stats {
    /// A thread that waits takes on something else, because no other is to be had.
    pub(crate) fn host(&self) {
        self.hosted.add();
        say_once(|| {
            "no further thread is to be had, so threads that wait take on other work".into()
        });
    }

    /// How often that has been.
    pub(crate) fn hosted(&self) -> u64 {
        self.hosted.get()
    }

    /// The system has refused a thread.
    pub(crate) fn refuse(&self, error: &io::Error) {
        self.refused.add();
        say_once(|| format!("the system refuses threads ({error}); going on with those there are"));
    }
}

/// A line for the user, at most one in a process: waits go on, but programs that rely on other threads may be slow.
fn say_once(what: impl FnOnce() -> String) {
    static SAID: Once = Once::new();
    SAID.call_once(|| raddle_sync::say(format_args!("{}", what())));
}

/// How often threads of a pool have given their places away, and what that took, since it was built: see [`Pool::stats`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct PoolStats {
    /// Threads that blocked, and gave their place to whoever might use it.
    pub given: u64,
    /// Spare threads that were started for such a place.
    pub spare_threads: u64,
    /// Waits that were over when no place was free: for the rest of a task, one thread more than places worked.
    pub surplus: u64,
    /// Pieces of unrelated work that a waiting thread took on, because no thread was to be had.
    pub hosted: u64,
    /// Threads that the system refused.
    pub refused: u64,
    /// Looks for work where nobody was left to look: by a thread that went to sleep or to work, mostly. Each interrupts all processors that the
    /// program runs on, where the system has a fence that does.
    pub looks: u64,
}

impl Pool {
    /// What the pool has counted about waits and wakes so far.
    ///
    /// ```
    /// let pool = raddle::Pool::new(2)?;
    /// pool.run(|worker| worker.join(|_| (), |_| ()));
    /// assert_eq!(pool.stats().hosted, 0);
    /// # Ok::<(), raddle::PoolBuildError>(())
    /// ```
    pub fn stats(&self) -> PoolStats {
        let stats = &self.registry().stats;
        PoolStats {
            given: stats.given.get(),
            spare_threads: stats.spare_threads.get(),
            surplus: stats.surplus.get(),
            hosted: stats.hosted.get(),
            refused: stats.refused.get(),
            looks: stats.looks.get(),
        }
    }
}
