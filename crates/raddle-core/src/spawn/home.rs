//! Spawning on a pool that one knows without owning it.

use std::thread;

use crate::future::Future;
use crate::pool::{self, CurrentPool, PoolRef};
use crate::queue::NOBODY;
use crate::spawn::hooks::{TaskId, Unfinished};
use crate::spawn::task_of;

impl CurrentPool {
    /// As [`Pool::spawn`](crate::Pool::spawn). On a thread that has left the pool, too: it does not end meanwhile.
    ///
    /// # Panics
    ///
    /// If the pool has ended.
    #[track_caller]
    pub fn spawn<F, T>(&self, f: F) -> Future<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (pool, _kept) = self.to_queue();
        pool.spawn(f)
    }
}

impl PoolRef {
    /// Spawns a task on the pool, or gives the closure back if the pool has gone. If it is to come `last`, then after all
    /// that is queued. It is none of the user's, so hooks do not hear of it.
    pub(crate) fn spawn<F, T>(self, f: F, last: bool) -> Result<Future<T>, F>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.with(f, |registry, f| {
            let (future, task) = task_of(registry, TaskId::UNHEARD, f);
            match last {
                true => pool::queue_last(registry, task, NOBODY, None),
                false => pool::queue(registry, task, None),
            }
            future
        })
    }

    /// Calls the hook for an async future of this pool that starts here, on one of its workers; if it panics, so ends the
    /// future. Gives what is to hear of that end.
    pub(crate) fn starts_async(self) -> (thread::Result<()>, Option<Unfinished>) {
        let starts = self.with((), |registry, ()| {
            let (hooks, id) = (&registry.config.hooks, pool::next_task_id(registry));
            (hooks.before_start(id), hooks.unfinished(id))
        });
        starts.unwrap_or((Ok(()), None))
    }
}
