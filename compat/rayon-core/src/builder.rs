//! [`ThreadPoolBuilder`].

use std::any::Any;
use std::env;
use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Once;
use std::thread;

use raddle_core::Waits;
use raddle_core::compat::{PanicHook, Settings, Team, ThreadHook, say, with_here};

use crate::error::ThreadPoolBuildError;
use crate::global;
use crate::thread::{CustomSpawn, DefaultSpawn, ThreadBuilder, ThreadSpawn, stack_for};
use crate::thread_pool::{ThreadPool, max_num_threads};

/// Sets up a [`ThreadPool`], or the global one.
///
/// ```
/// let pool = rayon_core::ThreadPoolBuilder::new().num_threads(3).build()?;
/// assert_eq!(pool.install(rayon_core::current_num_threads), 3);
/// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
/// ```
pub struct ThreadPoolBuilder<S = DefaultSpawn> {
    num_threads: usize,
    use_current_thread: bool,
    thread_name: Option<Box<dyn FnMut(usize) -> String>>,
    stack_size: Option<usize>,
    panic_handler: Option<PanicHook>,
    start_handler: Option<ThreadHook>,
    exit_handler: Option<ThreadHook>,
    breadth_first: bool,
    spawn_handler: S,
}

impl Default for ThreadPoolBuilder {
    fn default() -> ThreadPoolBuilder {
        ThreadPoolBuilder {
            num_threads: 0,
            use_current_thread: false,
            thread_name: None,
            stack_size: None,
            panic_handler: None,
            start_handler: None,
            exit_handler: None,
            breadth_first: false,
            spawn_handler: DefaultSpawn,
        }
    }
}

impl ThreadPoolBuilder {
    /// A builder of a pool of as many threads as the environment asks for, or as there are processors.
    pub fn new() -> ThreadPoolBuilder {
        ThreadPoolBuilder::default()
    }

    /// Builds a pool of threads that may borrow, calls `with_pool` with it, ends it, and waits for its threads. Each calls
    /// `wrapper`, which is to call [`ThreadBuilder::run`].
    ///
    /// # Errors
    ///
    /// As [`build`](ThreadPoolBuilder::build).
    ///
    /// ```
    /// let names = vec!["warp", "weft"];
    /// let longest = rayon_core::ThreadPoolBuilder::new().build_scoped(
    ///     |thread| thread.run(),
    ///     |pool| pool.install(|| names.iter().map(|name| name.len()).max()),
    /// )?;
    /// assert_eq!(longest, Some(4));
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    pub fn build_scoped<W, F, R>(self, wrapper: W, with_pool: F) -> Result<R, ThreadPoolBuildError>
    where
        W: Fn(ThreadBuilder) + Sync,
        F: FnOnce(&ThreadPool) -> R,
    {
        thread::scope(|scope| {
            let wrapper = &wrapper;
            let start = |thread: ThreadBuilder| {
                thread.of_std().spawn_scoped(scope, move || wrapper(thread)).map(drop)
            };
            let pool = self.spawn_handler(start).build()?;
            Ok(with_pool(&pool))
        })
    }
}

impl<S: ThreadSpawn> ThreadPoolBuilder<S> {
    /// Builds the pool. Its threads are started, not waited for.
    ///
    /// # Errors
    ///
    /// If a thread cannot be started: then those that were end. With
    /// [`use_current_thread`](ThreadPoolBuilder::use_current_thread), if the thread works in a pool already.
    pub fn build(self) -> Result<ThreadPool, ThreadPoolBuildError> {
        Ok(ThreadPool { team: self.start()? })
    }

    /// Builds the global pool, and waits until its threads run.
    ///
    /// # Errors
    ///
    /// As [`build`](ThreadPoolBuilder::build), and if there is a global pool: it is built once, when it is first used.
    pub fn build_global(self) -> Result<(), ThreadPoolBuildError> {
        global::build(self)?.await_threads();
        Ok(())
    }

    pub(crate) fn start(mut self) -> Result<Team, ThreadPoolBuildError> {
        let threads = self.threads().min(max_num_threads());
        let team = Team::new(Settings {
            threads,
            waits: waits(),
            stack_size: Some(stack_for(self.stack_size)),
            oldest_first: self.breadth_first,
            on_start: self.start_handler.take(),
            on_exit: self.exit_handler.take(),
            on_panic: self.panic_handler.take(),
        })?;
        // Names and the spawn handler are the user's, and may panic.
        let unfinished = Unfinished(&team);
        for index in 0..threads {
            let name = self.thread_name.as_mut().map(|name| name(index));
            if index == 0 && self.use_current_thread {
                if with_here(|here| here.is_some()) {
                    return Err(ThreadPoolBuildError::IN_POOL);
                }
                team.seat_here();
                continue;
            }
            let seat = team.seat(index);
            let stack_size = self.stack_size;
            let thread = ThreadBuilder { name, stack_size, seat, _marker: PhantomData };
            self.spawn_handler.spawn(thread)?;
        }
        std::mem::forget(unfinished);
        Ok(team)
    }

    /// How many threads are asked for: here, in the environment, or one for each processor.
    fn threads(&self) -> usize {
        if self.num_threads > 0 {
            return self.num_threads;
        }
        let number = |name| env::var(name).ok()?.parse::<usize>().ok();
        let processors = || thread::available_parallelism().map_or(1, |n| n.get());
        // 0 in the first one says that it is to be the number of processors, whatever the second one says.
        match number("RAYON_NUM_THREADS").or_else(|| number("RAYON_RS_NUM_CPUS")) {
            Some(threads @ 1..) => threads,
            Some(0) | None => processors(),
        }
    }
}

/// Ends a pool that is given up.
struct Unfinished<'a>(&'a Team);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// What `RADDLE_WAITS` says.
fn waits() -> Waits {
    match env::var_os("RADDLE_WAITS") {
        Some(text) if text == "substitute" => Waits::Substitute,
        Some(text) if text != "host" => {
            // A program may build many pools.
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                say(format_args!(
                    "RADDLE_WAITS is {text:?}, not `host` or `substitute`; using `host`"
                ));
            });
            Waits::Host
        }
        _ => Waits::Host,
    }
}

impl<S> ThreadPoolBuilder<S> {
    /// Has `spawn` start the threads. It is called once for each, in order, and has another thread call
    /// [`ThreadBuilder::run`], now or later.
    ///
    /// ```
    /// let pool = rayon_core::ThreadPoolBuilder::new()
    ///     .num_threads(2)
    ///     .spawn_handler(|thread| {
    ///         std::thread::spawn(|| thread.run());
    ///         Ok(())
    ///     })
    ///     .build()?;
    /// pool.install(|| assert!(rayon_core::current_thread_index() < Some(2)));
    /// # Ok::<(), rayon_core::ThreadPoolBuildError>(())
    /// ```
    pub fn spawn_handler<F>(self, spawn: F) -> ThreadPoolBuilder<CustomSpawn<F>>
    where
        F: FnMut(ThreadBuilder) -> io::Result<()>,
    {
        ThreadPoolBuilder {
            num_threads: self.num_threads,
            use_current_thread: self.use_current_thread,
            thread_name: self.thread_name,
            stack_size: self.stack_size,
            panic_handler: self.panic_handler,
            start_handler: self.start_handler,
            exit_handler: self.exit_handler,
            breadth_first: self.breadth_first,
            spawn_handler: CustomSpawn(spawn),
        }
    }

    /// What the threads are called, by their index. By default they have no names.
    pub fn thread_name<F>(mut self, closure: F) -> Self
    where
        F: FnMut(usize) -> String + 'static,
    {
        self.thread_name = Some(Box::new(closure));
        self
    }

    /// How many threads the pool has: at most [`max_num_threads`]. 0, as by default: what the environment variable
    /// `RAYON_NUM_THREADS` says, or as many as there are processors.
    pub fn num_threads(mut self, num_threads: usize) -> Self {
        self.num_threads = num_threads;
        self
    }

    /// Makes the calling thread that of index 0, for good. It does the pool's work only while it waits for some, or
    /// [yields](crate::yield_now).
    pub fn use_current_thread(mut self) -> Self {
        self.use_current_thread = true;
        self
    }

    /// What gets the panics of what is [spawned](crate::spawn()), and of the handlers of threads. Without it, or if it
    /// panics, the process aborts.
    pub fn panic_handler<H>(mut self, panic_handler: H) -> Self
    where
        H: Fn(Box<dyn Any + Send>) + Send + Sync + 'static,
    {
        self.panic_handler = Some(Box::new(panic_handler));
        self
    }

    /// The size of the threads' stacks in bytes, of which they get more (up to four times as much): see "from rayon". By default the
    /// standard library's.
    pub fn stack_size(mut self, stack_size: usize) -> Self {
        self.stack_size = Some(stack_size);
        self
    }

    /// Has threads take the oldest of what they have spawned first.
    #[deprecated(note = "use `scope_fifo` and `spawn_fifo` for similar effect")]
    pub fn breadth_first(mut self) -> Self {
        self.breadth_first = true;
        self
    }

    /// Called by each thread when it starts, with its index.
    pub fn start_handler<H>(mut self, start_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.start_handler = Some(Box::new(start_handler));
        self
    }

    /// Called by each thread before it leaves the pool, with its index.
    pub fn exit_handler<H>(mut self, exit_handler: H) -> Self
    where
        H: Fn(usize) + Send + Sync + 'static,
    {
        self.exit_handler = Some(Box::new(exit_handler));
        self
    }
}

/// Stands for a closure.
struct Closure;

impl fmt::Debug for Closure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("<closure>")
    }
}

// As in the original: programs show their settings.
impl<S> fmt::Debug for ThreadPoolBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadPoolBuilder")
            .field("num_threads", &self.num_threads)
            .field("use_current_thread", &self.use_current_thread)
            .field("get_thread_name", &self.thread_name.as_ref().map(|_| Closure))
            .field("panic_handler", &self.panic_handler.as_ref().map(|_| Closure))
            .field("stack_size", &self.stack_size)
            .field("start_handler", &self.start_handler.as_ref().map(|_| Closure))
            .field("exit_handler", &self.exit_handler.as_ref().map(|_| Closure))
            .field("breadth_first", &self.breadth_first)
            .finish()
    }
}
