//! [`Plan`]: where tasks run, and how.

use std::fmt;
use std::mem;
use std::panic::{self, AssertUnwindSafe};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use raddle_core::Failure;
use serde::{Deserialize, Serialize};

use crate::context::{Progress, TaskInfo};

/// Where the tasks of an [`Env`](crate::Env) run, and how.
///
/// The user of a program chooses it, by `RADDLE_PLAN` or an option, and the program means the same under each. As a text:
/// `sequential`, `threads`, `threads:4`, `processes`, `processes:4`, `loopback`, `loopback:4`, `ray` or `ray:auto`, `ray:HOST:PORT`.
///
/// ```
/// use raddle::remote::Plan;
///
/// let plan: Plan = "processes:4".parse()?;
/// assert_eq!(plan.seed(7).to_string(), "processes:4");
/// assert!("proceses:4".parse::<Plan>().is_err());
/// # Ok::<(), raddle::remote::ParsePlanError>(())
/// ```
#[derive(Clone)]
#[must_use = "a plan does nothing until there is an `Env` of it"]
pub struct Plan {
    pub(crate) settings: Settings,
    pub(crate) hooks: Arc<Hooks>,
    pub(crate) on_worker_start: Option<fn()>,
}

/// Where tasks run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Engine {
    Sequential,
    Threads(usize),
    Processes(usize),
    /// The slots of Ray, at this address.
    Ray(String),
    /// The same slots without Ray: processes that a bridge on this machine starts.
    Loopback(usize),
}

/// What becomes of the output of tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Output {
    /// It is read as it comes and goes to [`Plan::on_output`], else to the output of this process. What cannot be written there,
    /// because a disk is full or nobody reads any more, is lost, and nobody is told.
    #[default]
    Relay,
    /// Workers write to the standard output and error of this process, as if they were this process. On Ray, to that of its
    /// workers.
    Inherit,
    /// It is thrown away; [`Death::stderr_tail`](crate::Death::stderr_tail) has the last of it.
    Discard,
}

/// Which output it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// What can be sent to a worker, for the environments within its tasks.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Settings {
    pub(crate) engine: Engine,
    pub(crate) nested: Option<Box<Settings>>,
    pub(crate) seed: u64,
    pub(crate) retries: u32,
    pub(crate) recycle_after: Option<u32>,
    pub(crate) idle_timeout: Duration,
    pub(crate) start_timeout: Duration,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) max_frame: u64,
    pub(crate) env: Vec<(String, String)>,
    pub(crate) output: Output,
    pub(crate) strict: bool,
    pub(crate) workers: Option<usize>,
    pub(crate) resources: Vec<(String, f64)>,
    pub(crate) python: Option<String>,
}

type BeforeStart = dyn Fn(&TaskInfo) + Send + Sync;
type AfterFinish = dyn Fn(&TaskInfo, Result<(), &Failure>) + Send + Sync;
type OnOutput = dyn Fn(&TaskInfo, Stream, &[u8]) + Send + Sync;
type OnProgress = dyn Fn(&TaskInfo, Progress) + Send + Sync;

/// What is called in this process.
#[derive(Clone, Default)]
pub(crate) struct Hooks {
    pub(crate) before_start: Option<Arc<BeforeStart>>,
    pub(crate) after_finish: Option<Arc<AfterFinish>>,
    pub(crate) on_output: Option<Arc<OnOutput>>,
    pub(crate) on_progress: Option<Arc<OnProgress>>,
}

impl Hooks {
    pub(crate) fn is_empty(&self) -> bool {
        let Hooks { before_start, after_finish, on_output, on_progress } = self;
        before_start.is_none()
            && after_finish.is_none()
            && on_output.is_none()
            && on_progress.is_none()
    }
}

/// Calls a hook whose panic concerns nobody: it was reported.
pub(crate) fn call_hook(hook: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(hook)) {
        // Its own drop may panic.
        mem::forget(payload);
    }
}

/// Frames of 1 GiB.
const MAX_FRAME: u64 = 1 << 30;

impl Settings {
    fn new(engine: Engine) -> Settings {
        Settings {
            engine,
            nested: None,
            seed: 0,
            retries: 0,
            recycle_after: None,
            idle_timeout: Duration::from_secs(30),
            start_timeout: Duration::from_secs(30),
            memory_limit: None,
            max_frame: MAX_FRAME,
            env: Vec::new(),
            output: Output::default(),
            strict: false,
            workers: None,
            resources: Vec::new(),
            python: None,
        }
    }

    /// The plan of environments within a task.
    pub(crate) fn nested(&self) -> Settings {
        match &self.nested {
            Some(nested) => (**nested).clone(),
            None => Settings { strict: self.strict, ..Settings::new(Engine::Sequential) },
        }
    }
}

impl From<Settings> for Plan {
    fn from(settings: Settings) -> Plan {
        Plan { settings, hooks: Arc::default(), on_worker_start: None }
    }
}

impl Plan {
    fn new(engine: Engine) -> Plan {
        Settings::new(engine).into()
    }

    /// Each task runs when it is spawned, on the thread that spawns it.
    #[doc(alias = "plan(sequential)")]
    pub fn sequential() -> Plan {
        Plan::new(Engine::Sequential)
    }

    /// Tasks run on so many threads of this process.
    #[doc(alias = "multithreading")]
    pub fn threads(threads: usize) -> Plan {
        Plan::new(Engine::Threads(threads))
    }

    /// Tasks run in so many processes on this machine, each a copy of this program that waits in [`init`](crate::init).
    ///
    /// One starts in a millisecond, when it is needed. Linux only.
    #[doc(alias = "multisession")]
    #[doc(alias = "ProcessPoolExecutor")]
    pub fn processes(processes: usize) -> Plan {
        Plan::new(Engine::Processes(processes))
    }

    /// Tasks run on a cluster of [Ray](https://www.ray.io), at this address: `auto` for the one that runs on this machine, or
    /// `HOST:PORT`.
    ///
    /// This program is copied there, so all machines are of one architecture. Python with Ray 2.52 or later is needed here and
    /// there: see [`python`](Plan::python). As many workers as the cluster has processors, or [`workers`](Plan::workers).
    #[doc(alias = "cluster")]
    pub fn ray(address: impl Into<String>) -> Plan {
        Plan::new(Engine::Ray(address.into()))
    }

    /// What [`ray`](Plan::ray) does, without Ray: the bridge starts so many workers on this machine. For tests of programs that
    /// are to run on a cluster; needs Python.
    pub fn loopback(slots: usize) -> Plan {
        Plan::new(Engine::Loopback(slots))
    }

    /// The plan of environments within tasks. By default [`sequential`](Plan::sequential), so that a program that nests does
    /// not start the square of its workers.
    ///
    /// Hooks of that plan, [`on_worker_start`](Plan::on_worker_start) too, are not called: they stay where they were made. What a task
    /// has spawned there and does not wait for may be lost when its worker leaves.
    pub fn nested(mut self, plan: Plan) -> Plan {
        self.settings.nested = Some(Box::new(plan.settings));
        self
    }

    /// The number that the [`seed`](crate::seed) of each task is made of, with the path of spawns that leads to it. 0 unless
    /// said otherwise.
    pub fn seed(mut self, seed: u64) -> Plan {
        self.settings.seed = seed;
        self
    }

    /// How often a task is tried again when its worker has died. Not after a panic, a kill or a time-out. 0 unless said
    /// otherwise: a task may have done something before it died.
    pub fn retries(mut self, retries: u32) -> Plan {
        self.settings.retries = retries;
        self
    }

    /// A worker is replaced after so many tasks: for code that leaks. Never, by default.
    #[doc(alias = "max_tasks_per_child")]
    pub fn recycle_after(mut self, tasks: u32) -> Plan {
        self.settings.recycle_after = Some(tasks.max(1));
        self
    }

    /// How long a worker stays without work, by default 30 s. Another is started when it is needed.
    pub fn idle_timeout(mut self, time: Duration) -> Plan {
        self.settings.idle_timeout = time;
        self
    }

    /// How long a worker may take to be ready, or an engine to answer. By default 30 s.
    pub fn start_timeout(mut self, time: Duration) -> Plan {
        self.settings.start_timeout = time;
        self
    }

    /// How many bytes of memory of its own a worker may have. Beyond, allocation fails in it, which ends a Rust program by
    /// `SIGABRT`.
    pub fn memory_limit(mut self, bytes: u64) -> Plan {
        self.settings.memory_limit = Some(bytes);
        self
    }

    /// How long arguments and results may be, in bytes as they are sent. By default 1 GiB; less than 4 GiB in any case. Of a
    /// [`map`](crate::map) that is the arguments of a part of the items, which is made as short as it has to be; and its results,
    /// which fail together if they are longer.
    pub fn max_frame(mut self, bytes: u64) -> Plan {
        // Whole frames have a length of 32 bits, those of the bridge too.
        self.settings.max_frame = bytes.min(u64::from(u32::MAX) - (4 << 20));
        self
    }

    /// Sets a variable in the environment of workers.
    pub fn env(mut self, key: impl Into<String>, value: impl Into<String>) -> Plan {
        self.settings.env.push((key.into(), value.into()));
        self
    }

    /// What becomes of the output of tasks.
    pub fn output(mut self, output: Output) -> Plan {
        self.settings.output = output;
        self
    }

    /// Has `sequential` and `threads` make bytes of arguments and results, and values of them again, as the other plans must:
    /// so that what cannot be sent is found at once.
    pub fn strict(mut self, strict: bool) -> Plan {
        self.settings.strict = strict;
        self
    }

    /// How many workers there are: for [`ray`](Plan::ray), and instead of what the plan was made with.
    pub fn workers(mut self, workers: usize) -> Plan {
        self.settings.workers = Some(workers);
        self
    }

    /// Called in every worker when it starts.
    pub fn on_worker_start(mut self, hook: fn()) -> Plan {
        self.on_worker_start = Some(hook);
        self
    }

    /// Called in this process when a task is about to start for the first time. A panic of it is the task's failure, and the task does
    /// not start. It must not wait for tasks: what they say may come the same way, and after it.
    pub fn before_start(mut self, hook: impl Fn(&TaskInfo) + Send + Sync + 'static) -> Plan {
        self.hooks_mut().before_start = Some(Arc::new(hook));
        self
    }

    /// Called in this process when a task that has started has ended, killed ones too; once, after the last attempt, and before
    /// what waits for the task goes on. (On threads a task that is killed, or whose time is up, may go on for a while: then after that.)
    pub fn after_finish(
        mut self,
        hook: impl Fn(&TaskInfo, Result<(), &Failure>) + Send + Sync + 'static,
    ) -> Plan {
        self.hooks_mut().after_finish = Some(Arc::new(hook));
        self
    }

    /// Called in this process with what a task writes to standard output and error, as it comes. All of it has come when the
    /// task is over. It must not wait for tasks. (Under `sequential` and `threads` tasks write where this process does.)
    pub fn on_output(
        mut self,
        hook: impl Fn(&TaskInfo, Stream, &[u8]) + Send + Sync + 'static,
    ) -> Plan {
        self.hooks_mut().on_output = Some(Arc::new(hook));
        self
    }

    /// Called in this process with what a task says by [`progress`](crate::progress), in order. It must not wait for tasks.
    pub fn on_progress(
        mut self,
        hook: impl Fn(&TaskInfo, Progress) + Send + Sync + 'static,
    ) -> Plan {
        self.hooks_mut().on_progress = Some(Arc::new(hook));
        self
    }

    /// What each worker takes of a resource of the cluster: `num_cpus` (1 by default), `num_gpus`, or one of its own.
    pub fn resource(mut self, name: impl Into<String>, amount: f64) -> Plan {
        self.settings.resources.push((name.into(), amount));
        self
    }

    /// The Python that has Ray, by default `python3`.
    pub fn python(mut self, path: impl Into<std::path::PathBuf>) -> Plan {
        self.settings.python = Some(path.into().to_string_lossy().into_owned());
        self
    }

    fn hooks_mut(&mut self) -> &mut Hooks {
        Arc::make_mut(&mut self.hooks)
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.settings.engine {
            Engine::Sequential => f.write_str("sequential"),
            Engine::Threads(threads) => write!(f, "threads:{threads}"),
            Engine::Processes(processes) => write!(f, "processes:{processes}"),
            Engine::Ray(address) => write!(f, "ray:{address}"),
            Engine::Loopback(slots) => write!(f, "loopback:{slots}"),
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Plan").field(&self.settings).finish()
    }
}

/// A text that is no plan.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}' is no plan: sequential, threads, threads:N, processes, processes:N, loopback, loopback:N, ray, \
     ray:auto and ray:HOST:PORT are"
)]
pub struct ParsePlanError(String);

impl FromStr for Plan {
    type Err = ParsePlanError;

    fn from_str(text: &str) -> Result<Plan, ParsePlanError> {
        let wrong = || ParsePlanError(text.to_owned());
        let (name, rest) = match text.trim().split_once(':') {
            Some((name, rest)) => (name, Some(rest)),
            None => (text.trim(), None),
        };
        let number = || match rest {
            None => Ok(std::thread::available_parallelism().map_or(1, usize::from)),
            Some(digits) => match digits.parse() {
                Ok(number) if number > 0 => Ok(number),
                _ => Err(wrong()),
            },
        };
        match name {
            "sequential" if rest.is_none() => Ok(Plan::sequential()),
            "threads" => Ok(Plan::threads(number()?)),
            "processes" => Ok(Plan::processes(number()?)),
            "loopback" => Ok(Plan::loopback(number()?)),
            "ray" => match rest {
                None => Ok(Plan::ray("auto")),
                Some("") => Err(wrong()),
                Some(address) => Ok(Plan::ray(address)),
            },
            _ => Err(wrong()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plans_are_read_as_they_are_written() {
        for text in [
            "sequential",
            "threads:3",
            "processes:12",
            "ray:auto",
            "ray:10.0.0.1:6379",
            "loopback:2",
        ] {
            assert_eq!(text.parse::<Plan>().unwrap().to_string(), text);
        }
        assert_eq!("ray".parse::<Plan>().unwrap().to_string(), "ray:auto");
        assert!("threads".parse::<Plan>().unwrap().to_string().starts_with("threads:"));
    }

    #[test]
    fn what_is_no_plan_is_named() {
        for text in [
            "",
            "thread",
            "threads:0",
            "threads:-1",
            "threads:",
            "processes:2:3",
            "sequential:1",
            "ray:",
            "Ray",
            "threads:99999999999999999999",
        ] {
            let error = text.parse::<Plan>().unwrap_err().to_string();
            assert!(error.starts_with(&format!("'{text}' is no plan: ")), "{error}");
        }
    }
}
