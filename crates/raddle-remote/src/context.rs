//! What the running task knows of itself, and which environment its own tasks go to.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use raddle_core::Snapshot;
use serde::{Deserialize, Serialize};

use crate::env::Env;
use crate::seed::Seed;

/// What there is to know of a task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TaskInfo {
    /// Its number, unique within the process that spawned it.
    pub id: u64,
    /// Which attempt it is: 1, and one more for each [retry](crate::Plan::retries).
    pub attempt: u32,
    /// What [`TaskBuilder::name`](crate::TaskBuilder::name) called it.
    pub name: Option<String>,
    /// Which worker runs it, counted from 0. Where nobody knows, as with threads, 0.
    pub worker: usize,
}

/// How far a task has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Progress {
    /// So much is done,
    pub done: u64,
    /// of so much.
    pub total: u64,
}

/// Whoever wants to know of progress.
pub(crate) type Report = Arc<dyn Fn(&TaskInfo, Progress) + Send + Sync>;

/// The running task.
pub(crate) struct Running {
    info: TaskInfo,
    /// Of the item, where a task runs several.
    seed: Seed,
    /// How many tasks it has spawned.
    spawned: AtomicU64,
    report: Option<Report>,
}

raddle_core::scope_local! {
    static RUNNING: Arc<Running>;
    static CURRENT: Env;
}

impl Running {
    pub(crate) fn new(info: TaskInfo, seed: Seed, report: Option<Report>) -> Running {
        Running { info, seed, spawned: AtomicU64::new(0), report }
    }

    /// Calls `f` as this task, in an environment for what it spawns; the caller's locals are not seen.
    pub(crate) fn run<R>(self, nested: Env, f: impl FnOnce() -> R) -> R {
        let bindings = RUNNING.bind(Arc::new(self)).bind_also(&CURRENT, nested);
        Snapshot::default().run(|| bindings.run(f))
    }
}

/// Calls `f` as one of several parts of the running task, with a seed of its own.
pub(crate) fn part<R>(index: u64, f: impl FnOnce() -> R) -> R {
    match RUNNING.get() {
        Some(whole) => {
            let Running { info, seed, report, .. } = &*whole;
            let part = Running::new(info.clone(), seed.child(index), report.clone());
            RUNNING.bind(Arc::new(part)).run(f)
        }
        None => f(),
    }
}

/// Numbers of tasks, attempts and workers, never used again.
pub(crate) fn number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    // ORD: a count, and nothing else.
    NEXT.fetch_add(1, Ordering::Relaxed)
}

/// The environment that is bound here.
pub(crate) fn bound() -> Option<Env> {
    CURRENT.get()
}

/// Calls `f` with an environment bound.
pub(crate) fn bind<R>(env: Env, f: impl FnOnce() -> R) -> R {
    CURRENT.bind(env).run(f)
}

/// The seed of the next task that the running one spawns, if there is one.
pub(crate) fn next_seed() -> Option<Seed> {
    RUNNING.try_with(|running| {
        // ORD: a count, and nothing else.
        running.seed.child(running.spawned.fetch_add(1, Ordering::Relaxed))
    })
}

/// The running task, if this code runs in one of an environment.
///
/// ```
/// use raddle::remote::{Env, Plan, task};
///
/// assert!(task().is_none());
/// let env = Env::new(Plan::threads(2))?;
/// let name = env.task().name("weave").spawn(|()| task().unwrap().name, ()).wait().unwrap();
/// assert_eq!(name.as_deref(), Some("weave"));
/// # Ok::<(), raddle::remote::RemoteError>(())
/// ```
pub fn task() -> Option<TaskInfo> {
    RUNNING.try_with(|running| running.info.clone())
}

/// Tells [`Plan::on_progress`](crate::Plan::on_progress) how far the running task has come. Outside of tasks, nothing happens.
pub fn progress(done: u64, total: u64) {
    if let Some(running) = RUNNING.get() {
        if let Some(report) = &running.report {
            report(&running.info, Progress { done, total });
        }
    }
}

/// 32 bytes to seed a random number generator with: the same for the same task of the same program, under every plan.
///
/// They are made of [`Plan::seed`](crate::Plan::seed) and the path of spawns that leads here: the third task that was spawned by
/// the first, say. Items of [`map`](crate::map) have one each. Outside of tasks, those of the current environment.
///
/// ```
/// use raddle::remote::{Env, Plan, seed};
///
/// fn draw(_: u32) -> [u8; 32] { seed() }
/// let drawn = |plan: Plan| Env::new(plan.seed(7)).unwrap().map(draw, 0..3).wait().unwrap();
/// assert_eq!(drawn(Plan::threads(2)), drawn(Plan::sequential()));
/// ```
pub fn seed() -> [u8; 32] {
    match RUNNING.try_with(|running| running.seed) {
        Some(seed) => seed.bytes(),
        None => Env::current().root_seed().bytes(),
    }
}
