//! [`PoolBuilder`] and what can go wrong with it.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use raddle_trace::TraceLevel;
use thiserror::Error;

use crate::deque::Thief;
use crate::pool::Pool;
use crate::pool::policy::Policy;
use crate::pool::recorder::Settings;
use crate::pool::shared::{Config, Shared};
use crate::spawn::{Hooks, Outcome, TaskId};

/// Why a pool could not be built. Nothing is left behind.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolBuildError {
    /// A pool needs a thread.
    #[error("a pool needs at least one thread, and 0 were asked for")]
    NoThreads,
    /// More threads than a pool can have.
    #[error("{asked} threads were asked for, and a pool has at most {most}")]
    TooManyThreads {
        /// How many were asked for.
        asked: usize,
        /// How many there may be.
        most: usize,
    },
    /// The system gave only some of the threads.
    #[error("only {started} of {asked} threads could be started: {source}")]
    Threads {
        /// How many were asked for.
        asked: usize,
        /// How many were started, and stopped again.
        started: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no memory for the workers' fork stacks.
    #[error("no memory for the fork stacks of {asked} threads: {source}")]
    Memory {
        /// How many threads were asked for.
        asked: usize,
        /// What the system said.
        source: io::Error,
    },
}

/// How many threads a pool may have: thieves sign with their index.
const MOST_THREADS: usize = 4096;
const _: () = assert!(2 * MOST_THREADS <= Thief::MAX_WORKERS);

/// Sets up a [`Pool`].
///
/// ```
/// use std::time::Duration;
/// use raddle_core::Pool;
///
/// let pool = Pool::builder()
///     .threads(2)
///     .thread_name("weaver")
///     .stack_size(4 << 20)
///     .keep_alive(Duration::from_secs(5))
///     .build()?;
/// assert_eq!(pool.num_threads(), 2);
/// # Ok::<(), raddle_core::PoolBuildError>(())
/// ```
#[derive(Debug)]
#[must_use = "a builder does nothing until `build`"]
pub struct PoolBuilder {
    threads: Option<usize>,
    name: Name,
    stack_size: Option<usize>,
    keep_alive: Duration,
    reserve: usize,
    hooks: Hooks,
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
            reserve: 0,
            hooks: Hooks::default(),
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

    /// How many threads more there may be in the stead of those that wait for futures. By default none.
    ///
    /// A thread of the pool that waits for a future runs what the future needs of the pool and nobody has
    /// started, then it sleeps, and the pool has one thread less to work with. Where tasks wait for what comes from
    /// elsewhere, that may leave nobody to work. So many sleeping threads are replaced: one of these is started
    /// when it is needed, and sits out as soon as it can when the one it replaces goes on.
    ///
    /// ```
    /// use raddle_core::{Pool, Promise};
    ///
    /// let pool = Pool::builder().threads(1).compensate(1).build()?;
    /// let (promise, future) = Promise::new();
    /// let waits = pool.spawn(move || future.wait());
    /// pool.spawn(move || promise.set(1));
    /// assert_eq!(waits.wait()??, 1);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ManagedBlocker")]
    pub fn compensate(mut self, threads: usize) -> Self {
        self.reserve = threads;
        self
    }

    /// Called before each spawned future starts, on the thread that runs it: one of the pool, or one that
    /// waits for the future.
    ///
    /// If it panics, the future fails with that panic and its closure is not called.
    pub fn before_start(mut self, hook: impl Fn(TaskId) + Send + Sync + 'static) -> Self {
        self.hooks.before_start = Some(Box::new(hook));
        self
    }

    /// Called after each spawned future that was started has finished, on the thread that ran it and
    /// before its result is there for others. One that was killed before it started has neither call.
    ///
    /// If it panics, the panic hook reports that, and the future's result stands.
    pub fn after_finish(mut self, hook: impl Fn(TaskId, Outcome) + Send + Sync + 'static) -> Self {
        self.hooks.after_finish = Some(Box::new(hook));
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
        self.trace.capacity = events.clamp(2, 1 << 30).next_power_of_two();
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
        let crew = asked.saturating_add(self.reserve);
        if crew > MOST_THREADS {
            return Err(PoolBuildError::TooManyThreads { asked: crew, most: MOST_THREADS });
        }
        raddle_sync::fence::init();
        let config = Config {
            threads: asked,
            names: (0..crew).map(|index| self.name.of(index)).collect(),
            stack_size: self.stack_size,
            keep_alive: self.keep_alive,
            reserve: self.reserve,
            hooks: self.hooks,
            trace: self.trace,
            policy: self.policy,
        };
        let shared =
            Shared::new(config).map_err(|source| PoolBuildError::Memory { asked, source })?;
        start_all(&shared, asked)?;
        Ok(Pool::from_shared(shared))
    }
}

fn start_all(shared: &Arc<Shared>, asked: usize) -> Result<(), PoolBuildError> {
    for started in 0..asked {
        shared.sleep.add_searcher();
        if let Err(source) = shared.start(started) {
            shared.sleep.never_started(asked - started);
            shared.terminate();
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
pub struct Name(Box<dyn FnMut(usize) -> String>);

impl std::fmt::Debug for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Name")
    }
}

impl Name {
    fn prefix(prefix: impl Into<String>) -> Name {
        let prefix = prefix.into();
        Name(Box::new(move |index| format!("{prefix}-{index}")))
    }

    /// The index-th name, without NULs, which the system would not take.
    fn of(&mut self, index: usize) -> String {
        (self.0)(index).replace('\0', "")
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
        Name(Box::new(self))
    }
}
