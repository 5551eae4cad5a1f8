//! [`Pool`]: threads that work together, and the callers that join them.
//!
//! | module     | what it holds                                                        |
//! |------------|----------------------------------------------------------------------|
//! | [`worker`] | `Worker`, and which worker a thread is                                 |
//! | [`region`] | the memory of one worker                                              |
//! | [`shared`] | what all workers share; threads started, woken, ended                   |
//! | [`search`] | what a worker does without work: search, wait, sleep                   |
//! | [`hunt`]   | where it finds work, and how it runs it                                |
//! | [`gate`]   | how callers from outside come in as guests                             |
//! | [`bench`]  | how a thread sits out while a guest works                              |
//! | [`policy`] | when to wake whom, how many search, for how long                        |
//! | [`recorder`]| what is recorded in traces                                            |
//! | [`clock`]  | what stamps events                                                    |
//! | [`builder`]| `PoolBuilder`                                                         |

mod bench;
mod builder;
mod clock;
mod gate;
mod hunt;
mod kill;
pub mod policy;
pub(crate) mod recorder;
mod region;
mod search;
mod shared;
mod worker;

use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Instant;

use raddle_sync::parker::{self, Parker};
use raddle_sync::strand;
use raddle_trace::{EventKind, Trace, TraceLevel};

pub use self::builder::{PoolBuildError, PoolBuilder, ThreadName};
pub(crate) use self::gate::Home;
pub(crate) use self::region::Region;
use self::search::Goal;
pub(crate) use self::shared::Shared;
pub use self::worker::Worker;
use crate::future::Future;
use crate::job::{RunOn, TaskHeader, TaskVTable};
use crate::latch::Latch;
use crate::local::{self, Entered, Restore, Trail};
use crate::queue::Task;
use crate::spawn;

/// A pool of threads for fork/join and for spawned futures.
///
/// Threads that call [`run`](Pool::run) (or [`join`](crate::join) or [`scope`](crate::scope) from
/// outside) take part themselves, as guests. The number of threads bounds how many work on a
/// region at once, the caller included.
///
/// Dropping a pool finishes what was spawned, then ends its threads. An idle pool uses no processor
/// time.
///
/// ```
/// use raddle_core::Pool;
///
/// let pool = Pool::new(2)?;
/// let (a, b) = pool.run(|worker| worker.join(|_| 1, |_| 2));
/// assert_eq!(a + b, 3);
/// # Ok::<(), raddle_core::PoolBuildError>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    shared: Arc<Shared>,
}

impl Pool {
    /// The pool that `join`, `scope` and `spawn` use outside of pools, built on first use.
    ///
    /// It has `RADDLE_NUM_THREADS` threads if that variable is set to a number from 1 on, otherwise
    /// as many as [`std::thread::available_parallelism`] says. It is never dropped.
    ///
    /// # Panics
    ///
    /// If it cannot be built.
    pub fn global() -> &'static Pool {
        static GLOBAL: OnceLock<Pool> = OnceLock::new();
        GLOBAL.get_or_init(|| match Pool::builder().build() {
            Ok(pool) => pool,
            Err(error) => panic!("raddle's global pool: {error}"),
        })
    }

    /// A pool of so many threads, set up as by [`Pool::builder`].
    ///
    /// # Errors
    ///
    /// See [`PoolBuildError`].
    pub fn new(threads: usize) -> Result<Pool, PoolBuildError> {
        Pool::builder().threads(threads).build()
    }

    /// Starts to set up a pool.
    pub fn builder() -> PoolBuilder {
        PoolBuilder::new()
    }

    fn from_shared(shared: Arc<Shared>) -> Pool {
        Pool { shared }
    }

    pub(crate) fn shared(&self) -> &Shared {
        &self.shared
    }

    /// How many threads may work on a region at once, the caller included.
    pub fn num_threads(&self) -> usize {
        self.shared.threads()
    }

    /// Calls `f` with a worker of this pool and returns what it returns.
    ///
    /// The caller takes part: `f` runs on this thread at once, as a guest whose forks others steal.
    /// If all places for guests are taken (there are as many as threads, and at most 64), `f` is
    /// queued and this thread blocks until a worker has run it. On a thread of this pool `f` is
    /// simply called.
    ///
    /// # Panics
    ///
    /// If `f` does.
    ///
    /// ```
    /// use raddle_core::Pool;
    ///
    /// let text = String::from("warp and weft");
    /// let (vowels, length) = Pool::global().run(|worker| {
    ///     worker.join(|_| text.matches(['a', 'e']).count(), |_| text.len())
    /// });
    /// assert_eq!((vowels, length), (3, 13));
    /// ```
    #[doc(alias = "install")]
    pub fn run<F, R>(&self, f: F) -> R
    where
        F: FnOnce(&Worker) -> R + Send,
        R: Send,
    {
        if let Some(worker) = Worker::beneath(|shared| std::ptr::eq(shared, &*self.shared)) {
            // The region is another, the context the same.
            let context = local::current();
            let _current = worker.enter();
            // SAFETY: X1: it remains the caller's.
            let _restore = unsafe { Restore::after(context) };
            return f(worker);
        }
        match self.shared.gate.home().enter() {
            Some(guest) => f(guest.worker()),
            None => self.run_queued(f),
        }
    }

    /// Has a worker call `f`, and blocks meanwhile.
    #[cold]
    fn run_queued<F, R>(&self, f: F) -> R
    where
        F: FnOnce(&Worker) -> R + Send,
        R: Send,
    {
        let mut call = Call {
            header: TaskHeader::new(Call::<F, R>::VTABLE),
            latch: Latch::new(parker::current()),
            context: local::current(),
            trail: local::capture_trail(),
            closure: Some(f),
            result: None,
        };
        let task = std::ptr::NonNull::from(&mut call).cast::<TaskHeader>();
        self.shared.note_here(EventKind::Submit, 0, recorder::task_key(task));
        self.shared.inject([task]);
        // SAFETY: the call is this frame's.
        let latch = unsafe { &(*task.cast::<Call<F, R>>().as_ptr()).latch };
        latch.wait();
        self.shared.note_here(EventKind::Waited, 0, recorder::task_key(task));
        match call.result.take() {
            Some(Ok(result)) => result,
            Some(Err(payload)) => panic::resume_unwind(payload),
            None => unreachable!("the latch is set after the call"),
        }
    }

    /// Runs `f` on this pool and returns the future of its result: see [`spawn`](crate::spawn()).
    pub fn spawn<F, T>(&self, f: F) -> Future<T>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        spawn::spawn_in(&self.shared, f)
    }

    /// Kills every future of this pool that is not done, as by
    /// [`Future::kill`](crate::Future::kill), and says how many that were.
    ///
    /// Futures that are spawned during the call may or may not be among them.
    pub fn kill_all(&self) -> usize {
        kill::kill_all(&self.shared)
    }

    /// What the pool has recorded so far; it goes on recording. Costs a copy of all rings.
    ///
    /// See [`PoolBuilder::trace`] and [`trace`](crate::trace).
    pub fn trace(&self) -> Trace {
        self.shared.trace()
    }

    /// Switches recording on or off, or to another level, while the pool works. What was recorded before
    /// stays. Workers take notice one by one, within microseconds if they fork.
    ///
    /// The first switch from [`TraceLevel::Off`] allocates; recording never does.
    pub fn set_trace(&self, level: TraceLevel) {
        self.shared.set_level(level);
    }

    /// How many threads the pool has at the moment: idle ones leave after `keep_alive`.
    pub fn live_threads(&self) -> usize {
        self.shared.present()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if Worker::beneath(|shared| std::ptr::eq(shared, &*self.shared)).is_none() {
            end(&self.shared);
            return;
        }
        // Dropped by one of its own tasks, which cannot wait for itself.
        let shared = Arc::clone(&self.shared);
        let ending = thread::Builder::new().name("raddle-end".into());
        if ending.spawn(move || end(&shared)).is_err() {
            // No thread to be had: the pool stays.
            std::mem::forget(Arc::clone(&self.shared));
        }
    }
}

/// Finishes what was spawned, and ends the threads.
fn end(shared: &Shared) {
    shared.gate.close();
    shared.terminate();
    // What no thread was there to run: the system may have refused the last one.
    let region = &shared.regions[shared.crew()];
    region.guest_arrives(0);
    let _current = region.base().enter();
    let queued = || shared.injector.take::<1>()?.into_iter().next();
    while let Some(task) = region.ring.pop().or_else(queued) {
        region.run_task(task, region.base());
    }
}

/// As many threads as the environment asks for, or as there are processors.
fn default_threads() -> usize {
    let processors = || thread::available_parallelism().map_or(1, |n| n.get());
    match std::env::var("RADDLE_NUM_THREADS") {
        Ok(text) => match text.trim().parse() {
            Ok(threads) if threads > 0 => threads,
            _ => {
                let threads = processors();
                eprintln!(
                    "raddle: RADDLE_NUM_THREADS is {text:?}, not a number of threads; using {threads}"
                );
                threads
            }
        },
        Err(_) => processors(),
    }
}

// --- for scope, spawn and future ---

/// Queues a task: on this worker if it is one of the pool, else for whoever comes first.
pub(crate) fn queue(shared: &Shared, task: Task) {
    match Worker::here().filter(|region| std::ptr::eq(region.shared, shared)) {
        Some(region) => {
            region.push_task(task);
            if region.lane.has_tasks() {
                region.lane.note(EventKind::Fork, 1, recorder::task_key(task));
            }
            shared.announce();
        }
        None => {
            if shared.regions[0].lane.has_tasks() {
                shared.note_here(EventKind::Fork, 0, recorder::task_key(task));
            }
            shared.inject([task]);
        }
    }
}

/// The id of the next task, from this worker's block if it is one of the pool.
pub(crate) fn next_task_id(shared: &Shared) -> u64 {
    match Worker::here().filter(|region| std::ptr::eq(region.shared, shared)) {
        Some(region) => region.task_id(),
        None => shared.id_block(1).0,
    }
}

/// Something follows tasks from now on: see to the forks of the worker that this thread is. Others do when they
/// turn to something else.
pub(crate) fn heed_followers() {
    if let Some(worker) = Worker::current() {
        worker.region().heed_followers(worker);
    }
}

/// Runs the task that this worker has queued last, if there is one.
pub(crate) fn run_own_task() -> bool {
    let Some(worker) = Worker::current() else { return false };
    let Some(task) = worker.region().ring.pop() else { return false };
    // Another strand of work than the one that waits.
    let _strand = strand::enter_foreign();
    worker.region().run_task(task, worker);
    true
}

/// What this thread parks on.
pub(crate) fn current_parker() -> &'static Parker {
    Worker::here().map_or_else(parker::current, Region::parker)
}

/// Blocks until the latch of a scope, made with `current_parker`, is set.
pub(crate) fn wait_for_scope(latch: &Latch) {
    match Worker::here() {
        Some(region) => {
            region.await_latch(latch, Goal::Scope(latch));
        }
        None => latch.wait(),
    }
}

/// Blocks until the latch of a future, made with `current_parker`, is set. False: the time has come,
/// and it is not.
pub(crate) fn wait_for_future(latch: &Latch, deadline: Option<Instant>) -> bool {
    match (Worker::here(), deadline) {
        (Some(region), deadline) => region.await_latch(latch, Goal::Future(latch, deadline)),
        (None, None) => {
            latch.wait();
            true
        }
        (None, Some(deadline)) => latch.wait_until(deadline),
    }
}

/// A closure whose caller blocks until a worker has called it.
#[repr(C)]
struct Call<F, R> {
    header: TaskHeader,
    latch: Latch,
    context: usize,
    trail: Option<Trail>,
    closure: Option<F>,
    result: Option<thread::Result<R>>,
}

impl<F, R> Call<F, R>
where
    F: FnOnce(&Worker) -> R + Send,
    R: Send,
{
    const VTABLE: &'static TaskVTable =
        // Its caller waits for it, so it is not to be killed.
        &TaskVTable { run: Self::run, kill: |_| false, bury: |_| {} };

    unsafe fn run(task: Task, worker: RunOn) {
        let call = task.cast::<Self>().as_ptr();
        // SAFETY: the caller blocks until the latch is set, and does not touch the rest.
        let closure = unsafe { &mut (*call).closure }.take();
        // SAFETY: by `run`'s contract.
        let worker = unsafe { &*worker.cast::<Worker>() };
        // SAFETY: as above.
        worker.region().owned.context.set(unsafe { (*call).context });
        // SAFETY: as above.
        let trail = unsafe { &(*call).trail };
        let entered = Entered::by(|| trail.as_ref());
        let result = closure.map(|f| panic::catch_unwind(AssertUnwindSafe(|| f(worker))));
        drop(entered);
        // SAFETY: as above.
        unsafe { (*call).result = result };
        // SAFETY: as above; after this the caller goes on.
        let latch = unsafe { &raw const (*call).latch };
        // SAFETY: as above.
        unsafe { Latch::set(latch) };
    }
}
