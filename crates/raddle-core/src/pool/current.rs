//! The pool that the calling thread works in.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::Arc;

use crate::pool::end::KeptOpen;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::pool::yields::Why;
use crate::pool::{Pool, Registry, here, mailbox};

/// The pool that this thread works in: see [`Pool::current`]. Dropping it does nothing to the pool.
///
/// Using it panics once the pool is no more: a thread that has left the pool may have kept it.
pub struct CurrentPool {
    pool: ManuallyDrop<Pool>,
    /// Of this thread, which the pool waits for.
    _not_send: PhantomData<*const ()>,
}

impl CurrentPool {
    fn of(registry: &Registry) -> Option<CurrentPool> {
        let pool = ManuallyDrop::new(Pool::from_shared(registry.handle()?));
        Some(CurrentPool { pool, _not_send: PhantomData })
    }

    /// The pool for a thread that is to queue something: as long as what comes along is kept, whoever ends the pool looks for that.
    ///
    /// # Panics
    ///
    /// If the pool has ended.
    pub(crate) fn to_queue(&self) -> (&Pool, Option<KeptOpen<'_>>) {
        let registry = self.pool.registry();
        registry.assert_here();
        let kept = here(registry).is_none().then(|| registry.keep_open_for_others());
        (&self.pool, kept)
    }
}

impl Deref for CurrentPool {
    type Target = Pool;

    fn deref(&self) -> &Pool {
        self.pool.registry().assert_open();
        &self.pool
    }
}

impl Drop for CurrentPool {
    fn drop(&mut self) {
        // The share, not the pool.
        // SAFETY: not used after this.
        let pool = unsafe { ManuallyDrop::take(&mut self.pool) };
        let registry: Arc<Registry> = pool.into_shared();
        drop(registry);
    }
}

impl fmt::Debug for CurrentPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CurrentPool").field(&self.pool.num_threads()).finish()
    }
}

impl Pool {
    /// The pool that this thread works in; none outside of pools.
    ///
    /// ```
    /// use raddle::Pool;
    ///
    /// let pool = Pool::new(3)?;
    /// assert_eq!(pool.run(|_| Pool::current().map(|pool| pool.num_threads())), Some(3));
    /// assert!(Pool::current().is_none());
    /// # Ok::<(), raddle::PoolBuildError>(())
    /// ```
    pub fn current() -> Option<CurrentPool> {
        CurrentPool::of(Worker::here()?.registry())
    }
}

/// How many threads the pool has that this thread works in; outside of pools, the global pool.
///
/// ```
/// let pool = raddle::Pool::new(3)?;
/// assert_eq!(pool.run(|_| raddle::current_num_threads()), 3);
/// # Ok::<(), raddle::PoolBuildError>(())
/// ```
pub fn current_num_threads() -> usize {
    match Worker::here() {
        Some(memory) => memory.registry().threads(),
        None => Pool::global().num_threads(),
    }
}

/// The number of this thread's place in its pool: below [`current_num_threads`], and no other thread that works has it
/// at the same time. None outside of pools.
///
/// A task keeps its number until it waits, and may have another one afterwards. None also where more threads work for a
/// moment than there are places, since a guest has come or a wait has ended while all were taken: then the last of them that
/// asks gets none until its task waits or ends. And none for a thread that has given its place away, within
/// [`blocking`](crate::blocking).
///
/// ```
/// let pool = raddle::Pool::new(2)?;
/// assert!(pool.run(|_| raddle::current_worker_index()).is_some_and(|index| index < 2));
/// assert_eq!(raddle::current_worker_index(), None);
/// # Ok::<(), raddle::PoolBuildError>(())
/// ```
#[doc(alias = "current_thread_index")]
pub fn current_worker_index() -> Option<usize> {
    let memory = Worker::here()?;
    memory.registry().number_of(memory)
}

/// Lets another thread work in this one's place for a moment, if there is work; outside of pools, the system decides.
///
/// A task that has worked since it yielded last goes on once there is a place for it, or the others that yield have had as long: after a
/// tenth of a second at most, or a little longer where thousands do. One that only polls goes on after some 100 us, longer where many do.
///
/// For code that polls for what a queued task will do; to wait for a future is better. In a pool of
/// [`Waits::Host`](crate::Waits::Host) it runs some of the work itself, as rayon's does. What a [`broadcast`](crate::broadcast()) calls
/// on this thread is called here, as where a thread waits, but not while the thread holds a lock of raddle's, or has little stack left.
///
/// ```
/// use std::sync::atomic::{AtomicBool, Ordering};
/// use raddle::{Pool, spawn, yield_now};
///
/// static DONE: AtomicBool = AtomicBool::new(false);
///
/// let pool = Pool::new(1)?;
/// let waits = pool.spawn(|| {
///     drop(spawn(|| DONE.store(true, Ordering::Release)));
///     while !DONE.load(Ordering::Acquire) {
///         yield_now();
///     }
/// });
/// waits.wait()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn yield_now() {
    // What was sent to this thread nobody else runs, and what it polls for may wait for that.
    if mailbox::open_at_yield() {
        return;
    }
    let has_work = |memory: &WorkerMemory| memory.registry().visible_work() > 0;
    let Some(memory) = Worker::here().filter(|_| Worker::occupied().any(has_work)) else {
        return raddle_sync::thread::yield_now();
    };
    // In a pool within a pool, the work may be the outer one's.
    if has_work(memory) {
        memory.give_turn(Why::Yields);
    } else {
        memory.nap_a_turn(Why::Yields);
    }
}
