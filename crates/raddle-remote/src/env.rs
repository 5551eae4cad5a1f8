//! [`Env`]: where tasks go.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use raddle_core::{Future, Snapshot, collect};

use crate::arg::Arg;
use crate::context::{self, number};
#[cfg(target_os = "linux")]
use crate::crew::{Crew, task::Request};
#[cfg(target_os = "linux")]
use crate::entry::Call;
use crate::error::RemoteError;
use crate::here::{Local, Part, Threads, run_part};
use crate::plan::{Engine, Plan};
use crate::seed::Seed;
use crate::shared::Shared;

/// Where tasks go: what has become of a [`Plan`].
///
/// Clones are the same environment. When the last of them is dropped it finishes what was spawned, and then ends its workers.
///
/// A process that was forked (`fork`) has none of the workers: to spawn there in an environment that its parent made fails with
/// [`Engine`](RemoteError::Engine), under `threads` panics as with a [`Pool`](raddle_core::Pool), and all else does nothing. Futures
/// from before the fork are the parent's: to wait for one there never ends. It may make its own environment.
///
/// ```
/// use raddle::remote::{Env, Plan};
///
/// let env = Env::new(Plan::threads(2))?;
/// let squares = env.map(|n: u64| n * n, 0..4);
/// assert_eq!(squares.wait().unwrap(), [0, 1, 4, 9]);
/// # Ok::<(), raddle::remote::RemoteError>(())
/// ```
#[derive(Clone)]
#[doc(alias = "with-new-environment")]
pub struct Env(Arc<Inner>);

// A panic of a task, a hook or what follows is caught where it is called, and leaves nothing half done.
impl std::panic::UnwindSafe for Env {}
impl std::panic::RefUnwindSafe for Env {}

struct Inner {
    plan: Plan,
    backend: Backend,
    /// For what tasks spawn.
    nested: OnceLock<Env>,
    /// How many tasks were spawned outside of tasks.
    spawned: AtomicU64,
}

enum Backend {
    Sequential,
    Threads(Threads),
    #[cfg(target_os = "linux")]
    Crew(Arc<Crew>),
    /// What there is where there should be one of those.
    Broken(RemoteError),
}

static GLOBAL: OnceLock<Env> = OnceLock::new();

impl Env {
    /// An environment of this plan. On a cluster it has been reached when this returns; processes are started when they are
    /// needed.
    ///
    /// # Errors
    ///
    /// [`NotInitialised`](RemoteError::NotInitialised) if the plan needs [`init`](crate::init), which was not called.
    /// [`Start`](RemoteError::Start) if there are to be no workers, or threads cannot be had. [`Engine`](RemoteError::Engine)
    /// if it does not answer within [`Plan::start_timeout`]. [`NotInProgram`](RemoteError::NotInProgram) if a hook for workers
    /// is in a shared library.
    pub fn new(plan: Plan) -> Result<Env, RemoteError> {
        let backend = Backend::new(&plan)?;
        if let (Backend::Sequential, Some(hook)) = (&backend, plan.on_worker_start) {
            hook();
        }
        Ok(Env::of(plan, backend))
    }

    fn of(plan: Plan, backend: Backend) -> Env {
        let (nested, spawned) = (OnceLock::new(), AtomicU64::new(0));
        Env(Arc::new(Inner { plan, backend, nested, spawned }))
    }

    /// The environment here: that which [`run`](Env::run) has bound; in a task, one of the plan's
    /// [`nested`](Plan::nested) plan; else the [global](Env::set_global) one; else, in a worker's process, that for tasks; else
    /// one of the plan that the variable `RADDLE_PLAN` names, or of as many threads as there are processors.
    ///
    /// If that cannot be, all of its tasks fail with the reason.
    pub fn current() -> Env {
        static DEFAULT: OnceLock<Env> = OnceLock::new();
        if let Some(env) = context::bound().or_else(|| GLOBAL.get().cloned()) {
            return env;
        }
        DEFAULT.get_or_init(Env::from_environment).clone()
    }

    fn from_environment() -> Env {
        // The variable is the driver's. It is met here by threads that know nothing of the task that has started them.
        #[cfg(target_os = "linux")]
        if let Some(nested) = crate::worker::nested() {
            return nested;
        }
        let plan = match std::env::var("RADDLE_PLAN") {
            Ok(text) => text.parse().map_err(|error| format!("RADDLE_PLAN: {error}")),
            Err(std::env::VarError::NotPresent) => {
                Ok(Plan::threads(std::thread::available_parallelism().map_or(1, usize::from)))
            }
            Err(error) => Err(format!("RADDLE_PLAN: {error}")),
        };
        match plan.map_err(RemoteError::Start).and_then(Env::new) {
            Ok(env) => env,
            Err(error) => Env::broken(error),
        }
    }

    fn broken(error: RemoteError) -> Env {
        Env::of(Plan::sequential(), Backend::Broken(error))
    }

    /// Makes this the environment of all code for which none is bound.
    ///
    /// It is never dropped: when the process ends, what it still has to do is lost.
    ///
    /// # Errors
    ///
    /// The environment, if there is a global one already.
    pub fn set_global(self) -> Result<(), Env> {
        GLOBAL.set(self)
    }

    /// Calls `f` with this as the [current](Env::current) environment, for what it calls and all that works on its behalf.
    ///
    /// ```
    /// use raddle::remote::{Env, Plan, spawn};
    ///
    /// let env = Env::new(Plan::sequential())?;
    /// let length = env.run(|| spawn(|word: String| word.len(), "weft".into()));
    /// assert_eq!(length.wait().unwrap(), 4);
    /// # Ok::<(), raddle::remote::RemoteError>(())
    /// ```
    #[doc(alias = "with")]
    pub fn run<R>(&self, f: impl FnOnce() -> R) -> R {
        context::bind(self.clone(), f)
    }

    /// Runs `f` with these arguments: see [`spawn`](crate::spawn).
    pub fn spawn<A: Arg, R: Arg>(&self, f: fn(A) -> R, args: A) -> Future<R> {
        self.task().spawn(f, args)
    }

    /// Runs `f` with each of the items: see [`map`](crate::map).
    pub fn map<A: Arg, R: Arg>(
        &self,
        f: fn(A) -> R,
        items: impl IntoIterator<Item = A>,
    ) -> Future<Vec<R>> {
        self.task().map(f, items)
    }

    /// A task that is to have a name, a time limit or retries.
    pub fn task(&self) -> TaskBuilder {
        let retries = self.0.plan.settings.retries;
        TaskBuilder { env: self.clone(), name: None, timeout: None, retries }
    }

    /// Data that many tasks read: each worker is sent it once. (`Sync`, because in a plan of threads they read the same value at
    /// the same time.)
    ///
    /// # Errors
    ///
    /// [`Encode`](RemoteError::Encode), and [`TooLarge`](RemoteError::TooLarge).
    pub fn share<T: Arg + Sync>(&self, value: T) -> Result<Shared<T>, RemoteError> {
        let shared = Shared::new(value);
        if let Backend::Broken(error) = &self.0.backend {
            return Err(error.clone());
        }
        let settings = &self.0.plan.settings;
        let sends = !matches!(self.0.backend, Backend::Sequential | Backend::Threads(_));
        if sends || settings.strict {
            let (len, limit) = (shared.encoded()?.len() as u64, settings.max_frame);
            if len > limit {
                return Err(RemoteError::TooLarge { len, limit });
            }
        }
        Ok(shared)
    }

    /// How many tasks can run at once.
    #[doc(alias = "nbrOfWorkers")]
    #[doc(alias = "future-max-threads")]
    pub fn workers(&self) -> usize {
        match &self.0.backend {
            Backend::Sequential | Backend::Broken(_) => 1,
            Backend::Threads(threads) => threads.width(),
            #[cfg(target_os = "linux")]
            Backend::Crew(crew) => crew.width(),
        }
    }

    /// How many of the workers have nothing to do.
    #[doc(alias = "nbrOfFreeWorkers")]
    pub fn free_workers(&self) -> usize {
        match &self.0.backend {
            Backend::Sequential => 1,
            Backend::Broken(_) => 0,
            Backend::Threads(threads) => threads.free(),
            #[cfg(target_os = "linux")]
            Backend::Crew(crew) => crew.free(),
        }
    }

    /// Kills all tasks that are not over, and returns how many that were. Threads go on with what they run until it asks
    /// [`raddle::killed`](raddle_core::killed); processes end.
    ///
    /// What follows the tasks is called, mostly by the caller and one after the other. It may wait for other killed tasks as for any
    /// future. If it waits for what follows another by other means, a channel say, then under `threads` within
    /// [`raddle::blocking`](raddle_core::blocking); and at most a thousand may wait so at the same time.
    #[doc(alias = "kill-all-futures")]
    pub fn kill_all(&self) -> usize {
        match &self.0.backend {
            Backend::Sequential | Backend::Broken(_) => 0,
            Backend::Threads(threads) => threads.kill_all(),
            #[cfg(target_os = "linux")]
            Backend::Crew(crew) => crew.kill_all(),
        }
    }

    /// Replaces all workers, so that what comes finds them as they are at first. Tasks that are not over end all the same:
    /// what runs on the old workers, what is queued on new ones (under `threads` on the old ones, too). Seeds go on where they were.
    #[doc(alias = "initialize-environment")]
    pub fn reset(&self) {
        match &self.0.backend {
            Backend::Sequential | Backend::Broken(_) => {}
            Backend::Threads(threads) => threads.reset(),
            #[cfg(target_os = "linux")]
            Backend::Crew(crew) => crew.reset(),
        }
    }

    /// Takes no more tasks, waits for those that there are, for so long at most, kills the others, and ends all workers.
    /// Whether none had to be killed. (Called in a continuation of a task that ran in a process, it cannot wait: it returns whether
    /// all is done by now, and ends the rest in the background.)
    ///
    /// What follows a future, and hooks, are the caller's own code and cannot be killed: where such a one does not return, this
    /// does not either, whatever `time` is.
    pub fn shutdown(self, time: Duration) -> bool {
        match &self.0.backend {
            Backend::Sequential | Backend::Broken(_) => true,
            Backend::Threads(threads) => threads.shut_down(time),
            #[cfg(target_os = "linux")]
            Backend::Crew(crew) => crew.end(Some(time)),
        }
    }

    /// The plan that it was made of.
    pub fn plan(&self) -> &Plan {
        &self.0.plan
    }

    pub(crate) fn root_seed(&self) -> Seed {
        Seed::root(self.0.plan.settings.seed)
    }

    fn next_seed(&self) -> Seed {
        context::next_seed().unwrap_or_else(|| {
            // ORD: a count, and nothing else.
            self.root_seed().child(self.0.spawned.fetch_add(1, Ordering::Relaxed))
        })
    }

    /// The environment for what its tasks spawn.
    fn nested(&self) -> Env {
        let settings = &self.0.plan.settings;
        let plain = |plan: &Plan| plan.hooks.is_empty() && plan.on_worker_start.is_none();
        if let (Backend::Sequential, None, true) =
            (&self.0.backend, &settings.nested, plain(&self.0.plan))
        {
            return self.clone();
        }
        let nested = self
            .0
            .nested
            .get_or_init(|| Env::new(Plan::from(settings.nested())).unwrap_or_else(Env::broken));
        nested.clone()
    }
}

impl Backend {
    fn new(plan: &Plan) -> Result<Backend, RemoteError> {
        let settings = &plan.settings;
        let width = |workers: usize| match settings.workers.unwrap_or(workers) {
            0 => Err(RemoteError::Start("0 workers were asked for".to_owned())),
            workers => Ok(workers),
        };
        match settings.engine {
            Engine::Sequential => Ok(Backend::Sequential),
            Engine::Threads(threads) => {
                Ok(Backend::Threads(Threads::new(plan.clone(), width(threads)?)?))
            }
            #[cfg(target_os = "linux")]
            Engine::Processes(_) | Engine::Ray(_) | Engine::Loopback(_) => {
                crate::init::arguments().ok_or(RemoteError::NotInitialised)?;
                plan.on_worker_start.map(crate::entry::hook_offset).transpose()?;
                Ok(Backend::Crew(match settings.engine {
                    Engine::Processes(processes) => Crew::local(plan.clone(), width(processes)?)?,
                    _ => {
                        // 0 is refused; the bridge says how many there are.
                        let asked = match settings.engine {
                            Engine::Loopback(slots) => slots,
                            _ => 1,
                        };
                        width(asked)?;
                        Crew::bridged(plan.clone())?
                    }
                }))
            }
            #[cfg(not(target_os = "linux"))]
            _ => Err(RemoteError::Engine(format!("the plan {plan} needs Linux"))),
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        if let Backend::Crew(crew) = &self.backend {
            crew.end(None);
        }
    }
}

impl fmt::Debug for Env {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Env").field(&format_args!("{}", self.0.plan)).finish()
    }
}

/// A task that is to be spawned: made by [`Env::task`].
///
/// ```
/// use std::time::Duration;
/// use raddle::remote::{Env, Plan};
///
/// let env = Env::new(Plan::threads(1))?;
/// let task = env.task().name("weave").timeout(Duration::from_secs(60));
/// assert_eq!(task.spawn(|n: u32| n + 1, 1).wait().unwrap(), 2);
/// # Ok::<(), raddle::remote::RemoteError>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "a task is spawned by `spawn`"]
pub struct TaskBuilder {
    env: Env,
    name: Option<String>,
    timeout: Option<Duration>,
    retries: u32,
}

impl TaskBuilder {
    /// What the task is called, in [`TaskInfo`](crate::TaskInfo).
    pub fn name(mut self, name: impl Into<String>) -> TaskBuilder {
        self.name = Some(name.into());
        self
    }

    /// Kills the task when a worker has had it for so long, which includes the call of [`Plan::before_start`]: it fails with
    /// [`TimedOut`](raddle_core::FailureKind::TimedOut). A thread goes on until the task asks whether it was killed; `sequential`
    /// knows no limits.
    pub fn timeout(mut self, time: Duration) -> TaskBuilder {
        self.timeout = Some(time);
        self
    }

    /// As [`Plan::retries`], for this task.
    pub fn retries(mut self, retries: u32) -> TaskBuilder {
        self.retries = retries;
        self
    }

    /// Runs `f` with these arguments: see [`spawn`](crate::spawn).
    pub fn spawn<A: Arg, R: Arg>(self, f: fn(A) -> R, args: A) -> Future<R> {
        let seed = self.env.next_seed();
        match &self.env.0.backend {
            #[cfg(target_os = "linux")]
            Backend::Crew(crew) => {
                match Call::one(f).and_then(|call| self.request(call, seed, &args)) {
                    Ok(request) => crew.spawn(request),
                    Err(error) => Future::failed(error),
                }
            }
            _ => self.here(f, args, seed),
        }
    }

    /// Runs `f` with each of the items: see [`map`](crate::map). The limit, retries and the name are those of each task that this makes, which
    /// does a part of the items one after the other.
    pub fn map<A: Arg, R: Arg>(
        self,
        f: fn(A) -> R,
        items: impl IntoIterator<Item = A>,
    ) -> Future<Vec<R>> {
        let seed = self.env.next_seed();
        let mut items: Vec<A> = items.into_iter().collect();
        if items.is_empty() {
            return Future::ready(Vec::new());
        }
        // Some parts for each worker, so that those that take longer are made up for.
        let len = items.len().div_ceil(self.env.workers().saturating_mul(PARTS_PER_WORKER));
        let mut parts = Vec::new();
        while items.len() > len {
            let first = (items.len() - 1) / len * len;
            parts.push((first as u64, items.split_off(first)));
        }
        parts.push((0, items));
        let mut futures: Vec<Future<Vec<R>>> = Vec::new();
        parts.into_iter().rev().for_each(|part| self.part(f, part, seed, &mut futures));
        // As for a promise: the locals of the caller are not to be kept.
        Snapshot::default()
            .run(|| collect(futures).map(|parts| parts.into_iter().flatten().collect()))
    }

    /// Spawns a part of the items; one that is too long to be sent in halves, as long as it has any.
    fn part<A: Arg, R: Arg>(
        &self,
        f: fn(A) -> R,
        part: Part<A>,
        seed: Seed,
        futures: &mut Vec<Future<Vec<R>>>,
    ) {
        let future = match &self.env.0.backend {
            #[cfg(target_os = "linux")]
            Backend::Crew(crew) => {
                let limit = self.env.0.plan.settings.max_frame;
                match Call::several(f).and_then(|call| self.request(call, seed, &part)) {
                    Ok(request) if request.len() > limit && part.1.len() > 1 => {
                        drop(request);
                        let (first, mut items) = part;
                        let rest = items.split_off(items.len() / 2);
                        let second = first + items.len() as u64;
                        self.part(f, (first, items), seed, futures);
                        return self.part(f, (second, rest), seed, futures);
                    }
                    Ok(request) => crew.spawn(request),
                    Err(error) => Future::failed(error),
                }
            }
            _ => self.here(move |part| run_part(f, part), part, seed),
        };
        futures.push(future);
    }

    #[cfg(target_os = "linux")]
    fn request<A: Arg>(&self, call: Call, seed: Seed, args: &A) -> Result<Request, RemoteError> {
        let (args, shared) = crate::shared::encode_args(args)?;
        let TaskBuilder { name, timeout, retries, .. } = self.clone();
        Ok(Request { name, call, seed, args, shared, timeout, retries })
    }

    fn here<A: Arg, R: Arg, F>(&self, f: F, args: A, seed: Seed) -> Future<R>
    where
        F: FnOnce(A) -> R + Send + 'static,
    {
        let plan = &self.env.0.plan;
        if let Backend::Threads(threads) = &self.env.0.backend {
            threads.assert_here();
        }
        let local = Local {
            f,
            args,
            id: number(),
            name: self.name.clone(),
            seed,
            hooks: Arc::clone(&plan.hooks),
            nested: self.env.nested(),
            strict: plan.settings.strict,
        };
        match &self.env.0.backend {
            Backend::Sequential => Future::from(local.call(0, || false)),
            Backend::Threads(threads) => {
                Snapshot::default().run(|| threads.spawn(local, self.timeout))
            }
            Backend::Broken(error) => Future::failed(error.clone()),
            #[cfg(target_os = "linux")]
            Backend::Crew(_) => unreachable!("its tasks are sent"),
        }
    }
}

/// How many parts of a [`map`](crate::map) there are for each worker.
const PARTS_PER_WORKER: usize = 4;
