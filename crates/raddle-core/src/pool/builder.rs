//! [`PoolBuilder`].

use std::fmt;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use raddle_trace::TraceLevel;

use crate::fork_stack::Thief;
use crate::pool::Pool;
use crate::pool::build_error::PoolBuildError;
use crate::pool::policy::Policy;
use crate::pool::recorder::{Settings, room_for};
use crate::pool::registry::{Config, Registry};
use crate::pool::relief::MOST_RESERVE;
use crate::spawn::hooks::{Hooks, Outcome, TaskId};

/// How many threads a pool may have: thieves sign with their index.
pub(crate) const MOST_THREADS: usize = 4096;
/// How many spare threads there may be.
const MOST_SPARES: usize = 4096;
/// How many there may be unless the builder says otherwise: as the JDK's pools.
pub(crate) const SPARES: usize = 256;
const _: () = assert!(MOST_THREADS + 64 + MOST_SPARES + MOST_RESERVE <= Thief::MAX_WORKERS);

/// What a thread of a pool does while it waits: see [`PoolBuilder::waits`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Waits {
    /// It runs what it waits for, and nothing else on top of that; another thread takes its place.
    #[default]
    Substitute,
    /// It takes on anything, as threads of rayon do. No thread more is needed, but what it takes on may wait for what
    /// lies beneath, or take a lock that is held there: then both hang. It takes that from the pool it was in last: a thread that
    /// waits within a call of another pool does nothing for its own, nor does one within [`blocking`](crate::blocking). Where
    /// what it waits for needs that, give the pool [`max_spare_threads`](PoolBuilder::max_spare_threads).
    Host,
}

/// What a pool calls in its threads.
#[derive(Default)]
pub(crate) struct ThreadHooks {
    start: Option<ThreadHook>,
    exit: Option<ThreadHook>,
}

type ThreadHook = Box<dyn Fn() + Send + Sync>;

impl ThreadHooks {
    pub(crate) fn has_start(&self) -> bool {
        self.start.is_some()
    }

    pub(crate) fn has_exit(&self) -> bool {
        self.exit.is_some()
    }

    pub(crate) fn start(&self) {
        call(self.start.as_ref());
    }

    pub(crate) fn exit(&self) {
        call(self.exit.as_ref());
    }
}

/// A panic of a hook has been reported by the panic hook, and changes nothing.
fn call(hook: Option<&ThreadHook>) {
    if let Some(hook) = hook {
        crate::panics::contain(hook);
    }
}

impl fmt::Debug for ThreadHooks {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadHooks").finish_non_exhaustive()
    }
}

/// Sets up a [`Pool`].
///
/// ```
/// use std::time::Duration;
/// use raddle::Pool;
///
/// let pool = Pool::builder()
///     .threads(2)
///     .thread_name("weaver")
///     .stack_size(4 << 20)
///     .keep_alive(Duration::from_secs(5))
///     .build()?;
/// assert_eq!(pool.num_threads(), 2);
/// # Ok::<(), raddle::PoolBuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct PoolBuilder {
    threads: Option<usize>,
    name: Name,
    stack_size: Option<usize>,
    keep_alive: Duration,
    waits: Waits,
    spares: Option<usize>,
    spin_for: Option<Duration>,
    hooks: Hooks,
    thread_hooks: ThreadHooks,
    trace: Settings,
    policy: Policy,
}

/// How long an idle thread stays unless the builder says otherwise.
const KEEP_ALIVE: Duration = Duration::from_secs(30);

impl PoolBuilder {
    pub(crate) fn new() -> PoolBuilder {
        PoolBuilder {
            threads: None,
            name: Name::prefix("raddle"),
            stack_size: None,
            keep_alive: KEEP_ALIVE,
            waits: Waits::default(),
            spares: None,
            spin_for: None,
            hooks: Hooks::default(),
            thread_hooks: ThreadHooks::default(),
            trace: Settings::default(),
            policy: Policy::default(),
        }
    }

    /// How many threads may work on a region at once, the caller included. By default as for the
    /// global pool: see [`Pool::global`].
    pub fn threads(mut self, threads: usize) -> Self {
        self.threads = Some(threads);
        self
    }

    /// What the threads are called: a prefix, to which `-0`, `-1`, .. is added, or a function of
    /// the thread's index. By default `raddle`.
    pub fn thread_name(mut self, name: impl ThreadName) -> Self {
        self.name = name.into_name();
        self
    }

    /// The size of the threads' stacks in bytes. By default the standard library's.
    ///
    /// Once it is set, spawned tasks run on the pool's threads and its guests only, never on a thread
    /// from outside that merely waits for one.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// How long a thread stays without work. It is started again when it is needed.
    pub fn keep_alive(mut self, time: Duration) -> Self {
        self.keep_alive = time;
        self
    }

    /// What a thread does while it waits, and there is nothing to do that it waits for. By default
    /// [`Waits::Substitute`]; [`Waits::Host`] is for programs that were written for rayon's rules.
    ///
    /// ```
    /// use raddle::{Pool, Waits};
    ///
    /// let pool = Pool::builder().threads(1).waits(Waits::Host).build()?;
    /// assert_eq!(pool.join(|| 1, || 2), (1, 2));
    /// # Ok::<(), raddle::PoolBuildError>(())
    /// ```
    pub fn waits(mut self, waits: Waits) -> Self {
        self.waits = waits;
        self
    }

    /// How many threads there may be beyond [`threads`](PoolBuilder::threads), in the stead of those that wait or are
    /// [`blocking`](crate::blocking). By default 256, with [`Waits::Host`] none; at most 4096.
    ///
    /// They are started when they are needed, kept for the next time, and leave after [`keep_alive`](PoolBuilder::keep_alive). No more
    /// threads work at a time for it, except that one whose wait is over goes on at once. At the cap, once nobody works and no task has
    /// ended for 100 ms (or whoever works ends none for three seconds), and where the system refuses threads, threads that wait take
    /// on other work, as long as their stacks have room: [`Pool::stats`] counts that, and standard error has a line about it, once. A
    /// task that so lands on top of what it waits for fails with [`FailureKind::Cycle`](crate::FailureKind::Cycle), or hangs: small
    /// caps are for programs whose tasks do not wait for each other. If for three seconds there is work that nobody may take, the
    /// pool gets threads beyond the cap after all, up to fifteen times as many and 4,096 at most, so that the program goes on.
    /// While a thread waits for a lock, or is [`blocking`](crate::blocking), they come before hosts, of which one may hold what it
    /// takes on wants; then after 100 ms, but while one is blocking only beyond the 256 that a pool has of itself. So they do beyond those
    /// where nobody works and more than three quarters of those who wait do so for tasks, as in a graph of a thousand that wait for each other
    /// (that a promise comes of a task that sets it is not seen), and where nobody but threads that
    /// [yield](crate::yield_now) until something has come is left. As many as it has once had the pool may have again. If this is 0 they
    /// never come, and a thread that waits within a call of another pool, or is blocking, is nobody's help: see [`Waits::Host`].
    ///
    /// ```
    /// use raddle::{Pool, Promise};
    ///
    /// let pool = Pool::builder().threads(1).max_spare_threads(1).build()?;
    /// let (promise, future) = Promise::new();
    /// let waits = pool.spawn(move || future.wait());
    /// pool.spawn(move || promise.set(1));
    /// assert_eq!(waits.wait()??, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ManagedBlocker")]
    pub fn max_spare_threads(mut self, threads: usize) -> Self {
        self.spares = Some(threads);
        self
    }

    /// For how long at least an idle thread stays hot, looking for work without pause, before it sleeps. By default about as
    /// long as a wake takes, 5 to 100 us; where guests come every few milliseconds, one thread then looks every 100 us.
    ///
    /// For those who own the machine: a region that begins in that time finds all its thieves at once; the processors are busy
    /// for it, as with OpenMP's active wait policy.
    pub fn spin_for(mut self, time: Duration) -> Self {
        self.spin_for = Some(time);
        self
    }

    /// Called by each thread of the pool, spare ones too, when it starts; not by guests. A panic is reported by the
    /// panic hook, and the thread goes on.
    pub fn on_thread_start(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.thread_hooks.start = Some(Box::new(hook));
        self
    }

    /// Called by each thread of the pool before it leaves: as [`on_thread_start`](PoolBuilder::on_thread_start).
    #[doc(alias = "on_thread_stop")]
    pub fn on_thread_exit(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.thread_hooks.exit = Some(Box::new(hook));
        self
    }

    /// Called before each spawned future starts, on the thread that runs it: one of the pool, or one that
    /// waits for the future.
    ///
    /// If it panics, the future fails with that panic and its closure is not called.
    ///
    /// An async future ([`Pool::spawn_async`]) counts once, however often it is polled: this is called before its first poll, on
    /// the thread of that poll. Others may be on other threads, and nothing is called round them. So what each poll is to find is
    /// not to be put into its thread here: scope locals are bound in each, and [`follow`](crate::follow()) does so for state of other
    /// libraries. What is no spawned future has no calls: forks, tasks of scopes, continuations, also those that
    /// [`Future::on`](crate::Future::on) brings to the pool.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicUsize, Ordering};
    /// use raddle::{Pool, Promise};
    ///
    /// let started = Arc::new(AtomicUsize::new(0));
    /// let count = Arc::clone(&started);
    /// let hook = move |_| _ = count.fetch_add(1, Ordering::Relaxed);
    /// let pool = Pool::builder().threads(1).before_start(hook).build()?;
    /// let (promise, future) = Promise::<u32>::new();
    /// let sum = pool.spawn_async(async { future.await.unwrap() + 1 }); // suspended, and polled again
    /// pool.spawn(|| promise.set(1)).wait()?;
    /// assert_eq!(sum.wait()?, 2);
    /// assert_eq!(started.load(Ordering::Relaxed), 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn before_start(mut self, hook: impl Fn(TaskId) + Send + Sync + 'static) -> Self {
        self.hooks.before_start = Some(Box::new(hook));
        self
    }

    /// Called after each spawned future that was started has finished, on the thread that ran it and
    /// before its result is there for others; if it was killed meanwhile, which resolves it at once, when its closure has returned. One
    /// that was killed or interrupted before it started has neither call.
    ///
    /// No scope local of the future is bound by then, as what they hold goes before its result is there; nor is any of those of the
    /// thread. What is to be said of the request that it was for, [`before_start`](PoolBuilder::before_start) can note by the id.
    ///
    /// If it panics, the panic hook reports that, and the future's result stands.
    ///
    /// For an async future it is called once, when that has been dropped, on the thread that ends it, which may be another than that of
    /// [`before_start`](PoolBuilder::before_start): the thread of its last poll, or whoever interrupts or kills it, lets go of
    /// the last waker, or drops the pool.
    pub fn after_finish(mut self, hook: impl Fn(TaskId, Outcome) + Send + Sync + 'static) -> Self {
        self.hooks.after_finish = Some(Arc::new(hook));
        self
    }

    /// Records what the pool does, from the start: see [`Pool::trace`]. By default nothing. At level
    /// [`Phase`](TraceLevel::Phase) that costs some 10 ns for what changes hands and nothing for the rest;
    /// at level [`Tasks`](TraceLevel::Tasks) some 40 ns for every fork.
    pub fn trace(mut self, level: TraceLevel) -> Self {
        self.trace.level = level;
        self
    }

    /// How many events each worker's ring has room for, rounded up to a power of two; by default 65,536,
    /// which is one MiB per worker, and as much for each guest. Allocated when recording is first switched
    /// on.
    pub fn trace_capacity(mut self, events: usize) -> Self {
        self.trace.capacity = room_for(events);
        self
    }

    /// Records into this file while the pool runs, at the level that [`trace`](PoolBuilder::trace) says: nothing is lost
    /// when a ring is full, and what a killed program leaves can be read. The file is whole when the pool has been
    /// dropped; [`Pool::trace`] reads it back. One that exists is replaced; one that another pool records into is refused, be it
    /// of this process or of another. Once a disk has hardly any room left, or the file may
    /// not grow any further (`ulimit -f`), nothing more is written (on Linux), and that is said.
    ///
    /// Costs a thread that writes some forty times a second, and now and then a worker's time, which the trace leaves out
    /// of its tasks'.
    ///
    /// ```
    /// use raddle::{Pool, trace::{Trace, TraceLevel}};
    ///
    /// let path = std::env::temp_dir().join(format!("raddle-doc-{}.trace", std::process::id()));
    /// let pool = Pool::builder().threads(2).trace(TraceLevel::Tasks).trace_to(&path).build()?;
    /// pool.run(|worker| worker.join(|_| 1, |_| 2));
    /// drop(pool);
    /// assert_eq!(Trace::load(&path)?.phases().len(), 1);
    /// # std::fs::remove_file(&path)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace_to(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace.file = Some(path.into());
        self
    }

    /// Whether a full ring overwrites its oldest events (true, as by default) or refuses new ones. Either way
    /// traces say how many were lost.
    pub fn trace_overwrites(mut self, overwrites: bool) -> Self {
        self.trace.newest = overwrites;
        self
    }

    /// When to wake whom; for measurements.
    #[doc(hidden)]
    pub fn policy(mut self, policy: Policy) -> Self {
        self.policy = policy;
        self
    }

    /// Starts the threads.
    ///
    /// # Errors
    ///
    /// See [`PoolBuildError`].
    pub fn build(mut self) -> Result<Pool, PoolBuildError> {
        let asked = self.threads.unwrap_or_else(super::default_threads);
        if asked == 0 {
            return Err(PoolBuildError::NoThreads);
        }
        let spares = self.spares.unwrap_or(match self.waits {
            Waits::Substitute => SPARES,
            Waits::Host => 0,
        });
        let most = [(asked, MOST_THREADS), (spares, MOST_SPARES)];
        if let Some(&(asked, most)) = most.iter().find(|(asked, most)| asked > most) {
            return Err(PoolBuildError::TooManyThreads { asked, most });
        }
        raddle_sync::fence::init();
        raddle_sync::fork::init();
        crate::pool::block::init();
        let names: Vec<String> = (0..asked).map(|index| self.name.of(index)).collect();
        let config = Config {
            threads: asked,
            spare_names: match &self.name.prefix {
                Some(prefix) => (0..spares.max(1)).map(|i| format!("{prefix}-spare-{i}")).collect(),
                None => names.clone(),
            },
            names,
            stack_size: self.stack_size,
            keep_alive: self.keep_alive,
            spin_for: self.spin_for,
            waits: self.waits,
            spares,
            spares_asked: self.spares.is_some(),
            hooks: self.hooks,
            thread_hooks: self.thread_hooks,
            seats: None,
            trace: self.trace,
            policy: self.policy,
        };
        let recorder = Registry::recorder_for(&config).map_err(|source| match source.kind() {
            io::ErrorKind::OutOfMemory => {
                PoolBuildError::TraceMemory { events: config.trace.capacity, source }
            }
            _ => {
                let path = config.trace.file.clone().unwrap_or_default();
                PoolBuildError::Trace { path, source }
            }
        })?;
        let registry = Registry::new(config, recorder)
            .map_err(|source| PoolBuildError::Memory { asked, source })?;
        start_all(&registry, asked)?;
        Ok(Pool::from_shared(registry))
    }
}

fn start_all(registry: &Arc<Registry>, asked: usize) -> Result<(), PoolBuildError> {
    for started in 0..asked {
        registry.places.take_searching();
        // Nobody else knows of the pool, but for the threads started here: if one of them was quicker, very well.
        if !registry.places.vacant.take(started) {
            // What a thread's hook has queued meanwhile has asked nobody, as a search was under way.
            registry.give_back();
            continue;
        }
        if let Err(source) = registry.start_first(started) {
            registry.places.vacant.set(started);
            registry.give_back();
            registry.await_thread_for_mail(started);
            super::end::end(registry);
            return Err(PoolBuildError::Threads { asked, started, source });
        }
    }
    Ok(())
}

/// How threads are called: see [`PoolBuilder::thread_name`].
pub trait ThreadName: sealed::Sealed {
    #[doc(hidden)]
    fn into_name(self) -> Name;
}

/// Names by index.
#[doc(hidden)]
pub struct Name {
    of: Box<dyn FnMut(usize) -> String>,
    prefix: Option<String>,
}

impl fmt::Debug for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Name")
    }
}

impl Name {
    fn prefix(prefix: impl Into<String>) -> Name {
        let prefix = prefix.into().replace('\0', "");
        let own = prefix.clone();
        Name { of: Box::new(move |index| format!("{own}-{index}")), prefix: Some(prefix) }
    }

    /// The index-th name, without NULs, which the system would not take.
    fn of(&mut self, index: usize) -> String {
        (self.of)(index).replace('\0', "")
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for &str {}
    impl Sealed for String {}
    impl<F: FnMut(usize) -> String + 'static> Sealed for F {}
}

impl ThreadName for &str {
    fn into_name(self) -> Name {
        Name::prefix(self)
    }
}

impl ThreadName for String {
    fn into_name(self) -> Name {
        Name::prefix(self)
    }
}

impl<F: FnMut(usize) -> String + 'static> ThreadName for F {
    fn into_name(self) -> Name {
        Name { of: Box::new(self), prefix: None }
    }
}
