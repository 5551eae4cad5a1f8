//! For drop-ins for other schedulers: `compat/rayon-core` is written against this.
//!
//! A [`Team`] is a pool by rayon's rules. Its threads come from elsewhere: whoever has a [`Seat`] brings one when it likes. It
//! has no guests, so a closure from outside runs on one of its threads. Threads look for work in a fixed order: their own, the
//! newest first; what was sent to them; what others have; what came from outside, the oldest first. And it ends
//! when its handle is gone and nothing is left to do, without anybody waiting for that.
//!
//! ```
//! use raddle::compat::{Settings, Team, with_here};
//!
//! let team = Team::new(Settings { threads: 2, ..Settings::default() })?;
//! for index in 0..2 {
//!     let seat = team.seat(index);
//!     std::thread::spawn(move || seat.run());
//! }
//! let index = team.call(|| with_here(|here| here.and_then(|here| here.index())));
//! assert!(index.is_some_and(|index| index < 2));
//! team.end();
//! # Ok::<(), std::io::Error>(())
//! ```

mod began;
mod detached;
#[cfg(unix)]
mod ended;
mod join;
mod record;

use std::any::Any;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;
use std::time::{Duration, Instant};

use self::detached::Round;
pub use self::join::join;
use crate::pool::seat::{MOST_SEATS, SeatConfig, SeatHooks};
use crate::pool::{self, BroadcastContext, Pool, Registry, Waits, Worker, WorkerMemory};
use crate::queue::Task;
use crate::scope::Scope;
use crate::spawn;
pub use raddle_sync::say;

/// The most threads that a team may have.
pub const MAX_THREADS: usize = MOST_SEATS;

/// Where in the source something is forked, for traces: what a function with `#[track_caller]` gets from [`Location::caller`].
pub type Place = &'static Location<'static>;
/// What a thread of a team calls, with its index.
pub type ThreadHook = Box<dyn Fn(usize) + Send + Sync>;
/// What gets the panics that nobody waits for.
pub type PanicHook = Box<dyn Fn(Box<dyn Any + Send>) + Send + Sync>;

/// How a team is to be.
pub struct Settings {
    /// How many threads it has: from 1 to [`MAX_THREADS`].
    pub threads: usize,
    /// What a thread does while it waits.
    pub waits: Waits,
    /// The size of the stacks of spare threads, if there are any.
    pub stack_size: Option<usize>,
    /// Whether a thread takes the oldest of what it has queued before the newest.
    pub oldest_first: bool,
    /// Called by each thread when it comes; not by spare ones.
    pub on_start: Option<ThreadHook>,
    /// Called by each thread before it goes; not by spare ones.
    pub on_exit: Option<ThreadHook>,
    /// Gets panics of hooks and of what [`Team::spawn`] runs. Without it, or if it panics, the process aborts.
    pub on_panic: Option<PanicHook>,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            threads: 1,
            waits: Waits::Host,
            stack_size: None,
            oldest_first: false,
            on_start: None,
            on_exit: None,
            on_panic: None,
        }
    }
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut all = f.debug_struct("Settings");
        all.field("threads", &self.threads).field("waits", &self.waits).finish_non_exhaustive()
    }
}

/// A pool by rayon's rules: see the [module](self). A handle, of which there may be several.
#[derive(Clone, Debug)]
pub struct Team(Arc<Registry>);

impl Team {
    /// A team whose threads have yet to come.
    ///
    /// If the environment variable `RADDLE_TRACE` names a file, what the team does is recorded into it while it runs (a second team's
    /// into the same name with `.2` added, and so on), and the file is whole when the team has ended, when the process exits, or when
    /// Ctrl-C or SIGTERM ends it, which it does not heed itself. With `RADDLE_TRACE_ROOM` the newest events are kept, so many of each
    /// thread, and written at the process's end. If the file cannot be written, that is said, and nothing is recorded.
    ///
    /// # Errors
    ///
    /// If the system gives no memory.
    ///
    /// # Panics
    ///
    /// If the number of threads is out of bounds.
    pub fn new(settings: Settings) -> io::Result<Team> {
        let threads = settings.threads;
        assert!((1..=MAX_THREADS).contains(&threads), "a team of {threads} threads");
        let (trace, path) = record::settings();
        let registry = Registry::seated(SeatConfig {
            threads,
            waits: settings.waits,
            stack_size: settings.stack_size,
            trace,
            unwritten: record::unwritten,
            oldest_first: settings.oldest_first,
            hooks: SeatHooks::new(settings.on_start, settings.on_exit, settings.on_panic),
            gone: record::retire,
        })?;
        record::enlist(&registry, path);
        Ok(Team(registry))
    }

    /// The right of some thread to be the one of this index. Once for each index.
    ///
    /// # Panics
    ///
    /// If there is no such index, it has been given away, or the global pool is raddle's own, which has its threads.
    pub fn seat(&self, index: usize) -> Seat {
        self.0.give_seat(index);
        Seat { registry: Arc::clone(&self.0), index }
    }

    /// Makes the calling thread that of index 0, for good: it works whenever it waits. Nothing else has that seat.
    ///
    /// # Panics
    ///
    /// If it works in a pool already, and as [`seat`](Team::seat).
    pub fn seat_here(&self) {
        assert!(Worker::here().is_none(), "this thread works in a pool already");
        self.0.give_seat(0);
        self.0.take_seat_for_good(0);
    }

    /// Blocks until all threads have come. (It does not wait for their hooks.)
    pub fn await_threads(&self) {
        self.0.await_threads();
    }

    /// The team's owner has no more use for it: its threads go when they have done what was spawned.
    pub fn end(&self) {
        self.0.let_go();
    }

    /// Makes this the global pool, so that [`raddle::join`](crate::join()) and others share it. False: there is one.
    pub fn make_global(&self) -> bool {
        let pool = Pool::global_or(|| Arc::clone(&self.0));
        Arc::ptr_eq(pool.shared(), &self.0)
    }

    /// The global pool, if it has been built.
    pub fn global() -> Option<Team> {
        Pool::global_if_built().map(|pool| Team(Arc::clone(pool.shared())))
    }

    /// How many threads it has.
    pub fn num_threads(&self) -> usize {
        self.0.threads()
    }

    /// Has one of the threads call `f`: this one if it is one of them (beneath another pool's work, too). Else it blocks
    /// meanwhile. A thread that works in another pool does there meanwhile what its waits do.
    pub fn call<R: Send>(&self, f: impl FnOnce() -> R + Send) -> R {
        match self.0.worker_beneath() {
            Some(worker) => worker.call_here(|_| f()),
            None => self.0.call(|_| f()),
        }
    }

    /// Has one of the threads call `f` some time: on a thread of the team, this one before all that it has queued
    /// before.
    pub fn spawn(&self, place: Place, f: impl FnOnce() + Send + 'static) {
        spawn_in(&self.0, place, f);
    }

    /// Has each thread call `f` with its number, one after the other of its other calls of this kind; nobody waits for it. See
    /// [`spawn`](Team::spawn).
    pub fn spawn_each(&self, place: Place, f: impl Fn(usize) + Send + Sync + 'static) {
        spawn_each_in(&self.0, place, f);
    }

    /// As [`Pool::broadcast`].
    pub fn broadcast<R: Send>(
        &self,
        place: Place,
        f: impl Fn(BroadcastContext) -> R + Sync,
    ) -> Vec<R> {
        pool::broadcast_in(&self.0, place, &f)
    }

    /// As [`scope`](crate::scope()), of tasks in this team, on whichever thread calls.
    pub fn scope<'scope, R>(&self, place: Place, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
        match self.0.worker_beneath() {
            Some(worker) => worker.call_here(|_| Scope::open(&self.0, place, f)),
            None => Scope::open(&self.0, place, f),
        }
    }
}

/// The right to be a thread of a [`Team`]. If it is dropped unused, the thread never comes, and the others do its part.
#[derive(Debug)]
pub struct Seat {
    registry: Arc<Registry>,
    index: usize,
}

impl Seat {
    /// Which thread it will be.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Works for the team, and returns when that has ended.
    ///
    /// # Panics
    ///
    /// If the thread works in a pool already.
    pub fn run(self) {
        self.registry.take_seat(self.index);
    }
}

/// The pool that the calling thread works in, as that thread sees it: see [`with_here`].
#[derive(Clone, Copy)]
pub struct Here<'a> {
    memory: &'a WorkerMemory,
    /// Of this thread.
    _not_send: PhantomData<*const ()>,
}

/// Calls `f` with the pool that the calling thread works in; none outside of pools.
///
/// The thread may leave the pool after the call, so it cannot be kept:
///
/// ```compile_fail,E0521
/// let mut kept = None;
/// raddle::compat::with_here(|here| kept = here);
/// ```
#[inline]
pub fn with_here<R>(f: impl FnOnce(Option<Here<'_>>) -> R) -> R {
    f(here())
}

#[inline]
fn here<'a>() -> Option<Here<'a>> {
    Some(Here { memory: Worker::here()?, _not_send: PhantomData })
}

/// How long a thread whose wait has ended waits for an index, where other threads took its place.
const LONGEST_WAIT: Duration = Duration::from_millis(20);

impl Here<'_> {
    /// The number of this thread among those of the pool that work: by [`Waits::Host`] always the same. By
    /// [`Waits::Substitute`] its place's: none if after a moment all are taken, and within [`blocking`](crate::blocking), as
    /// another thread may have the number then.
    #[inline]
    pub fn index(&self) -> Option<usize> {
        let number = self.memory.registry().number_of(self.memory);
        number.or_else(|| self.memory.holds_place().then(|| self.await_index())?)
    }

    #[cold]
    fn await_index(&self) -> Option<usize> {
        let since = Instant::now();
        loop {
            std::thread::yield_now();
            let number = self.memory.registry().number_of(self.memory);
            if number.is_some() || since.elapsed() > LONGEST_WAIT {
                return number;
            }
        }
    }

    /// How many threads the pool has.
    #[inline]
    pub fn num_threads(&self) -> usize {
        self.memory.registry().threads()
    }

    /// Whether the pool is this team's.
    #[inline]
    pub fn is_of(&self, team: &Team) -> bool {
        std::ptr::eq(self.memory.registry(), &*team.0)
    }

    /// A number for this thread's part in this pool, and no other's at the same time.
    pub fn part(&self) -> usize {
        std::ptr::from_ref(self.memory).addr()
    }

    /// Whether this thread has queued or forked something that nobody has taken.
    pub fn has_pending(&self) -> bool {
        self.memory.ring.has_work() || self.memory.fork.has_work()
    }

    /// Runs one thing: of this thread's own, of another's, or from outside. False: there was nothing.
    pub fn yield_now(&self) -> bool {
        self.memory.take_on(|at| self.memory.find_as_host(at))
    }

    /// Runs one thing of this thread's own, or that was sent to it. False: there was nothing.
    pub fn yield_local(&self) -> bool {
        self.memory.take_on(|at| self.memory.find_local(Some(at)))
    }

    /// As [`Team::spawn`].
    pub fn spawn(&self, place: Place, f: impl FnOnce() + Send + 'static) {
        spawn_in(self.memory.registry(), place, f);
    }

    /// As [`Team::spawn_each`].
    pub fn spawn_each(&self, place: Place, f: impl Fn(usize) + Send + Sync + 'static) {
        spawn_each_in(self.memory.registry(), place, f);
    }

    /// As [`Team::broadcast`].
    pub fn broadcast<R: Send>(
        &self,
        place: Place,
        f: impl Fn(BroadcastContext) -> R + Sync,
    ) -> Vec<R> {
        pool::broadcast_in(self.memory.registry(), place, &f)
    }

    /// As [`Team::scope`].
    pub fn scope<'scope, R>(&self, place: Place, f: impl FnOnce(&Scope<'scope>) -> R) -> R {
        Scope::open(self.memory.registry(), place, f)
    }
}

impl fmt::Debug for Here<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Here").field("thread", &self.memory.index).finish_non_exhaustive()
    }
}

fn spawn_in(registry: &Registry, place: Place, f: impl FnOnce() + Send + 'static) {
    registry.assert_here();
    pool::assert_takes_tasks(registry);
    pool::queue(registry, task_in(registry, f), Some(place));
}

fn spawn_each_in(registry: &Registry, place: Place, f: impl Fn(usize) + Send + Sync + 'static) {
    registry.assert_here();
    if !registry.config.hooks.any() {
        // SAFETY: it borrows nothing, and is `Send` and `Sync` as `f` is.
        return unsafe { registry.send_errand(place, Round::new(f)) };
    }
    let f = Arc::new(f);
    let task = |index| {
        let f = Arc::clone(&f);
        heard_of(registry, Box::new(move || f(index)))
    };
    let tasks: Vec<_> = (0..registry.threads()).map(task).collect();
    registry.send_each(place, tasks.into_iter());
}

/// A task that nobody waits for.
fn task_in(registry: &Registry, f: impl FnOnce() + Send + 'static) -> Task {
    if registry.config.hooks.any() { heard_of(registry, Box::new(f)) } else { detached::task(f) }
}

/// As a future that nobody has: of those the pool's hooks hear.
#[cold]
fn heard_of(registry: &Registry, f: Box<dyn FnOnce() + Send>) -> Task {
    // Run on a worker of this pool, and by none but the queue.
    let guarded = move || match Worker::here() {
        Some(memory) => memory.registry().guard(f),
        None => f(),
    };
    let (future, task) = spawn::task_of(registry, pool::next_task_id(registry), guarded);
    drop(future);
    task
}

/// How many threads the pool of this scope has.
pub fn scope_threads(scope: &Scope<'_>) -> usize {
    scope.registry().threads()
}

/// Has each thread of the pool of this scope call `f` with its number, as a task of the scope.
pub fn scope_spawn_each<'scope, F>(scope: &Scope<'scope>, place: Place, f: F)
where
    F: Fn(&Scope<'scope>, usize) + Send + Sync + 'scope,
{
    scope.spawn_each(place, f);
}

/// `f` as a task of the scope runs it that is spawned here, in the context that it has: for another of its tasks to call,
/// which may be a later one.
///
/// # Panics
///
/// When it is called, with another scope.
///
/// # Safety
///
/// It is called, or dropped, before the scope is over: what is bound by reference around the scope is there as long.
pub unsafe fn scope_carry<'scope, F>(
    scope: &Scope<'scope>,
    f: F,
) -> impl FnOnce(&Scope<'scope>) + Send + use<'scope, F>
where
    F: FnOnce(&Scope<'scope>) + Send + 'scope,
{
    // SAFETY: contract.
    unsafe { scope.carry(f) }
}

/// Whether the calling thread works in the pool of this scope, and its index there.
pub fn scope_index(scope: &Scope<'_>) -> Option<usize> {
    let here = here()?;
    std::ptr::eq(here.memory.registry(), scope.registry()).then(|| here.index()).flatten()
}

#[cfg(all(test, not(any(miri, raddle_model))))]
mod tests;
