//! [`Pool`]: threads that work together, and the callers that join them.
//!
//! | module       | what it holds                                                      |
//! |--------------|--------------------------------------------------------------------|
//! | `worker`     | `Worker`, and which workers a thread is                               |
//! | `worker_memory` | the memory of one worker                                            |
//! | `registry`   | what all workers share; places, threads, wake-ups                     |
//! | `starts`, `end` | how threads start and leave; when a pool has nothing left to do    |
//! | `relief`     | what is done for a pool that stands still                            |
//! | `crew`       | its workers, as `places` asks for them                               |
//! | `search`, `nap` | the life of a thread: search, work, sleep; naps and rests          |
//! | `seat`       | pools whose threads come from elsewhere, and that have no guests      |
//! | `wait`       | what a worker takes on while it waits                                |
//! | `block`      | how whoever blocks gives its places to others                        |
//! | `find_work`  | where work is found, and how it is run                               |
//! | `forks`      | the slow paths of `join`                                            |
//! | `gate`       | how callers from outside come in as guests                           |
//! | `call`       | how they have a worker run their closure if there is no place         |
//! | `current`, `broadcast`, `stats`, `kill` | what users ask of a pool                  |
//! | `policy`     | when to wake whom, how many search, for how long                      |
//! | `recorder`, `clock` | what is recorded in traces, and what stamps it                 |
//! | `builder`, `build_error` | `PoolBuilder`                                           |

mod block;
mod broadcast;
mod build_error;
mod builder;
mod call;
pub(crate) mod clock;
mod crew;
mod current;
mod end;
mod find_work;
mod forks;
mod gate;
mod kill;
mod mailbox;
mod nap;
pub mod policy;
pub(crate) mod recorder;
mod registry;
mod relief;
mod run_work;
mod search;
pub(crate) mod seat;
mod starts;
mod stats;
mod turns;
pub(crate) mod vain;
pub(crate) mod wait;
mod wakes;
mod worker;
mod worker_memory;
pub(crate) mod yields;

use std::panic::Location;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use raddle_sync::parker::{self, Parker};
use raddle_sync::time::Instant;
use raddle_sync::{start, strand, thread};
use raddle_trace::{EventKind, Trace, TraceLevel};

pub use self::block::blocking;
pub(crate) use self::block::init as init_blocking;
pub use self::broadcast::{BroadcastContext, broadcast};
pub(crate) use self::broadcast::{Errand, broadcast_in};
pub use self::build_error::PoolBuildError;
pub use self::builder::{PoolBuilder, ThreadName, Waits};
pub use self::current::{CurrentPool, current_num_threads, current_worker_index, yield_now};
use self::find_work::Work;
pub(crate) use self::gate::{PoolRef, Suspended};
#[doc(hidden)]
pub use self::kill::kill_all_of;
use self::recorder::Place;
pub(crate) use self::registry::Registry;
use self::registry::Waker;
pub use self::stats::PoolStats;
use self::wait::Goal;
pub use self::worker::Worker;
pub(crate) use self::worker_memory::WorkerMemory;
use crate::latch::Latch;
use crate::queue::{NOBODY, Tag, Task};
use crate::spawn::hooks::TaskId;

/// A pool of threads for fork/join and for spawned futures.
///
/// Threads that call [`run`](Pool::run) (or [`join`](crate::join) or [`scope`](crate::scope) from
/// outside) take part themselves, as guests. The number of threads bounds how many work on a
/// region at once, the caller included.
///
/// A thread that waits for a fork, a future or the tasks of a scope runs what it waits for; if there is nothing of the
/// kind it gives its place to another thread meanwhile, if need be to a spare one ([`PoolBuilder::max_spare_threads`]). So
/// programs whose tasks wait for each other end, on a pool of one thread too.
///
/// Dropping a pool finishes what was spawned, then ends its threads, and waits for them. (Of threads that have left before,
/// having been idle for long, thread-local destructors may still run.) A thread of another pool makes its calls of that pool's
/// [`broadcast`](Pool::broadcast)s meanwhile, once they have waited for a second, unless it holds a lock of raddle's. Dropped by one of its own tasks, which it would wait for, it ends
/// later, and nobody waits. An idle pool uses no processor time.
///
/// A process that was forked (`fork`) has none of the pool's threads: to use or to drop a pool there that its parent built
/// panics or does nothing, respectively. A child may build pools of its own. What its parent has begun is never done there:
/// not a future whose task a thread of the parent runs. And forked from within a task it had better only `exec` or exit, as its
/// thread takes itself for one of the pool's. (A child that starts threads, for a pool of its own or a time limit, may hang in the
/// standard library if another thread of the parent was just being started.)
///
/// ```
/// use raddle::Pool;
///
/// let pool = Pool::new(2)?;
/// let (a, b) = pool.run(|worker| worker.join(|_| 1, |_| 2));
/// assert_eq!(a + b, 3);
/// # Ok::<(), raddle::PoolBuildError>(())
/// ```
#[derive(Debug)]
pub struct Pool {
    registry: Arc<Registry>,
}

// A panic is brought to whoever waits, and leaves nothing half done.
impl std::panic::UnwindSafe for Pool {}
impl std::panic::RefUnwindSafe for Pool {}

/// The global pool, once it is built.
static GLOBAL: OnceLock<Pool> = OnceLock::new();

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

    fn from_shared(registry: Arc<Registry>) -> Pool {
        Pool { registry }
    }

    /// The global pool: the one that `build` gives unless there is one.
    pub(crate) fn global_or(build: impl FnOnce() -> Arc<Registry>) -> &'static Pool {
        GLOBAL.get_or_init(|| Pool::from_shared(build()))
    }

    pub(crate) fn global_if_built() -> Option<&'static Pool> {
        GLOBAL.get()
    }

    pub(crate) fn shared(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// The pool's memory, without its end.
    fn into_shared(self) -> Arc<Registry> {
        let pool = std::mem::ManuallyDrop::new(self);
        // SAFETY: read once, and not dropped.
        unsafe { std::ptr::read(&pool.registry) }
    }

    pub(crate) fn registry(&self) -> &Registry {
        &self.registry
    }

    /// How many threads may work on a region at once, the caller included.
    pub fn num_threads(&self) -> usize {
        self.registry.threads()
    }

    /// Calls `f` with a worker of this pool and returns what it returns.
    ///
    /// The caller takes part: `f` runs on this thread at once, as a guest whose forks others steal.
    /// If as many guests work already as the pool has threads (or 16 to 64 are inside, as it has threads), or others wait to come in, `f` is
    /// queued and this thread blocks until a worker has run it: first come, first served, unless so many threads wait that
    /// there may soon be none to take their places. On a thread of this pool `f` is
    /// simply called.
    ///
    /// # Panics
    ///
    /// If `f` does.
    ///
    /// ```
    /// use raddle::Pool;
    ///
    /// let text = String::from("warp and weft");
    /// let (vowels, length) = Pool::global().run(|worker| {
    ///     worker.join(|_| text.matches(['a', 'e']).count(), |_| text.len())
    /// });
    /// assert_eq!((vowels, length), (3, 13));
    /// ```
    #[doc(alias = "install")]
    #[track_caller]
    pub fn run<F, R>(&self, f: F) -> R
    where
        F: FnOnce(&Worker) -> R + Send,
        R: Send,
    {
        self.run_at(Location::caller(), f)
    }

    /// As `run`, called from `place`.
    pub(crate) fn run_at<F, R>(&self, place: Place, f: F) -> R
    where
        F: FnOnce(&Worker) -> R + Send,
        R: Send,
    {
        if let Some(worker) = self.registry.worker_beneath() {
            return worker.call_here(f);
        }
        match self.registry.gate.home().enter(place) {
            Some(guest) => f(guest.worker()),
            None => self.registry.call(f),
        }
    }

    /// As [`join`](crate::join()), in this pool.
    #[track_caller]
    pub fn join<A, B, RA, RB>(&self, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce() -> RA + Send,
        B: FnOnce() -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let place = Location::caller();
        self.run_at(place, |worker| worker.join_at(place, |_| a(), |_| b()))
    }

    /// Kills the futures of this pool that are not done, each as by [`Future::kill`](crate::Future::kill), and says how many
    /// that were.
    ///
    /// What is queued is killed, and what runs. Missed may be what is neither at the moment: futures that are spawned during the
    /// call, and such as a thread has just taken out of a queue and not yet started. Those run as if nothing were. To be sure
    /// of a future, [`kill`](crate::Future::kill) that one.
    ///
    /// Closures that have not been started and async futures are dropped here, one after the other: what is dropped must not wait for
    /// its own future or another of them. What is to follow the futures runs when all have been killed, and so may wait for others of them:
    /// before this returns, or where this is called by what follows a future itself, after that.
    pub fn kill_all(&self) -> usize {
        kill::kill_all(&self.registry)
    }

    /// What the pool has recorded so far; it goes on recording. Costs a copy of all rings.
    ///
    /// See [`PoolBuilder::trace`] and [`trace`](crate::trace).
    pub fn trace(&self) -> Trace {
        self.registry.trace()
    }

    /// Switches recording on or off, or to another level, while the pool works. What was recorded before
    /// stays. Workers take notice one by one, within microseconds if they fork.
    ///
    /// The first switch from [`TraceLevel::Off`] allocates; recording never does. The trace's level is the least there has been, but
    /// for [`TraceLevel::Off`]: of what was recorded at level `Phase` it has no forks, and `scale` says so.
    pub fn set_trace(&self, level: TraceLevel) {
        self.registry.set_level(level);
    }

    /// How many threads the pool has at the moment: idle ones leave after `keep_alive`.
    pub fn live_threads(&self) -> usize {
        self.registry.present()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        if self.registry.is_forked() {
            // Its threads are in another process.
            std::mem::forget(Arc::clone(&self.registry));
            return;
        }
        if self.registry.worker_beneath().is_none() {
            return end::from_elsewhere(&self.registry);
        }
        // Dropped by one of its own tasks, which cannot wait for itself.
        let registry = Arc::clone(&self.registry);
        let ending = thread::Builder::new().name("raddle-end".into());
        if start(ending, Box::new(move || end::end(&registry))).is_err() {
            // No thread to be had: the pool stays.
            std::mem::forget(Arc::clone(&self.registry));
        }
    }
}

/// Finishes what was spawned, and ends the threads.
fn finish(registry: &Registry) {
    registry.gate.close();
    loop {
        registry.terminate();
        let found = run_what_is_left(registry);
        match found {
            // It may have had a thread started.
            Some(true) => {}
            // A thread that has just been started has it, or is about to be; or somebody from outside is to queue something.
            _ if !registry.end.is_over() => thread::sleep(Duration::from_millis(1)),
            _ if !registry.handles.lock().is_empty() => {}
            // Then nobody comes any more, and what has come is to be seen.
            _ if !registry.end.shut() => {}
            Some(false) if registry.injector.len() > 0 => {}
            _ => break,
        }
    }
}

/// What no thread was there to run: the system may have refused the last one, or an exit hook has spawned it. Whether there was something;
/// none: there is no memory for that, and no thread's that has left.
fn run_what_is_left(registry: &Registry) -> Option<bool> {
    let (memory, vacant) = memory_to_finish(registry)?;
    let mut some = false;
    registry.places.take();
    memory.guest_arrives(0);
    let late = registry.keep_open();
    {
        let _current = memory.base().enter();
        // What runs here has nothing to do with what this thread holds, nor with what it has put off.
        let mut strand = strand::enter_foreign();
        let left = || registry.memories.iter().find_map(|memory| memory.ring.steal_with_tag());
        while let Some((task, tag)) = registry.injector.take_one().or_else(left) {
            crate::depth::fresh(|| memory.run(Work::Task(task, tag)));
            strand.renew();
            some = true;
        }
        memory.purse().turn_to(NOBODY);
    }
    memory.guest_leaves();
    drop(late);
    if let Some(index) = vacant {
        registry.places.leave(&registry.crew(Waker::Idle), index);
        // Sent while this was its thread.
        registry.await_thread_for_mail(index);
    }
    Some(some)
}

/// A guest's; or that of a thread that has left, whose index is said, too.
fn memory_to_finish(registry: &Registry) -> Option<(&WorkerMemory, Option<usize>)> {
    if let Ok(memory) = registry.memories.make(registry.first_guest(), registry) {
        registry.guests.fetch_add(1, raddle_sync::atomic::Ordering::Relaxed);
        return Some((memory, None));
    }
    let mut left = registry.memories.iter().filter(|memory| !registry.is_guest(memory.index));
    let memory = left.find(|memory| registry.places.vacant.take(memory.index))?;
    memory.affinity.adopt();
    Some((memory, Some(memory.index)))
}

/// As many threads as the environment asks for, or as there are processors.
fn default_threads() -> usize {
    match std::env::var("RADDLE_NUM_THREADS") {
        Ok(text) => match text.trim().parse() {
            Ok(threads) if threads > 0 => threads,
            _ => {
                let threads = raddle_sync::processors();
                raddle_sync::say(format_args!(
                    "RADDLE_NUM_THREADS is {text:?}, not a number of threads; using {threads}"
                ));
                threads
            }
        },
        Err(_) => raddle_sync::processors(),
    }
}

// --- for scope, spawn and future ---

/// Queues a task: on this worker if it is one of the pool, else for whoever comes first.
#[inline]
pub(crate) fn queue(registry: &Registry, task: Task, place: Option<Place>) {
    match here(registry) {
        Some(memory) => queue_here(memory, task, place),
        None => queue_last(registry, task, NOBODY, place),
    }
}

/// Queues a task on the worker that this thread is.
pub(crate) fn queue_here(memory: &WorkerMemory, task: Task, place: Option<Place>) {
    memory.queue(task, NOBODY, place);
}

/// Before a task is made.
///
/// # Panics
///
/// If the pool has ended, and the caller is no worker of it.
pub(crate) fn assert_takes_tasks(registry: &Registry) {
    if here(registry).is_none() {
        registry.assert_here();
        registry.assert_open();
    }
}

/// The worker of this pool that the thread is, innermost.
#[inline]
pub(crate) fn here<'a>(registry: &Registry) -> Option<&'a WorkerMemory> {
    Worker::here().filter(|memory| std::ptr::eq(memory.registry, registry))
}

/// Where this worker's next task will lie in its ring, had no husk been cleared.
pub(crate) fn task_position() -> usize {
    Worker::here()
        .map_or(0, |memory| memory.ring.position().wrapping_add(memory.owned.cleared.get()))
}

/// Queues a task that is to come after all that is queued.
pub(crate) fn queue_last(registry: &Registry, task: Task, tag: Tag, place: Option<Place>) {
    if registry.memories[0].lane.has_tasks() {
        let (place, key) = (place.map_or(0, recorder::number_of), recorder::task_key(task));
        registry.note_here(EventKind::Fork, place, key);
    }
    registry.inject(task, tag);
}

/// The id of the next task, from this worker's block if it is one of the pool; where there are no hooks none.
#[inline]
pub(crate) fn next_task_id(registry: &Registry) -> TaskId {
    if !registry.config.hooks.any() {
        return TaskId::UNHEARD;
    }
    TaskId(match here(registry) {
        Some(memory) => memory.task_id(),
        None => registry.id_block(1).0,
    })
}

/// Something follows tasks from now on: see to the forks of the worker that this thread is, and to the next ones of the others
/// that it is. Other threads do when they turn to something else.
pub(crate) fn heed_followers() {
    if let Some(worker) = Worker::current() {
        worker.memory().heed_followers(worker);
    }
    Worker::occupied().for_each(|memory| memory.fork.request());
}

/// What this thread parks on.
pub(crate) fn current_parker() -> &'static Parker {
    Worker::here().map_or_else(parker::current, WorkerMemory::parker)
}

/// Blocks until the latch, made with `current_parker`, is set. False: the goal's time has come, and it is not.
///
/// A thread that has become a worker since the latch was made waits as one that is none.
pub(crate) fn wait_for(latch: &Latch, goal: Goal<'_>) -> bool {
    if let Some(memory) = Worker::here().filter(|memory| latch.wakes(memory.parker())) {
        return memory.await_latch(latch, goal);
    }
    crate::depth::flush();
    loop {
        // If all timers wait for this thread, each time it blocks the system is asked for another.
        let soon = crate::timer::is_held_up().then(|| Instant::now() + relief::STILL);
        let Some(until) = [goal.limit(), soon].into_iter().flatten().min() else {
            latch.wait();
            return true;
        };
        if latch.wait_until(until, soon.is_some()) {
            return true;
        }
        if goal.is_late() {
            return false;
        }
    }
}

/// Blocks until the latch of a future, made with `current_parker`, is set. False: the time has come, or that to look again, and it is
/// not. One of these, or neither.
pub(crate) fn wait_for_future(
    latch: &Latch,
    deadline: Option<Instant>,
    look_again: Option<Instant>,
) -> bool {
    let goal = match look_again {
        Some(time) => Goal::Look(latch, time),
        None => Goal::Future(latch, deadline),
    };
    wait_for(latch, goal)
}
