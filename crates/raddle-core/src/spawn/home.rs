//! Spawning on a pool that one knows without owning it.

use crate::future::Future;
use crate::pool::{self, PoolRef};
use crate::queue::NOBODY;
use crate::spawn::task_of;

impl PoolRef {
    /// Spawns a task on the pool, or gives the closure back if the pool has gone. If it is to come `last`, then after all
    /// that is queued.
    pub(crate) fn spawn<F, T>(self, f: F, last: bool) -> Result<Future<T>, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.with(f, |registry, f| {
            let (future, task) = task_of(registry, f);
            match last {
                true => pool::queue_last(registry, task, NOBODY, None),
                false => pool::queue(registry, task, None),
            }
            future
        })
    }
}
