//! A crew: workers in other processes, the queue of tasks for them, and who has which.
//!
//! ```text
//! worker: Starting -READY-> Idle -CALL g-> Busy(g) -DONE|PANICKED|FAILED g-> Idle
//!         Busy -kill g|time-out|EOF|bad frame-> Dying -reaped-> gone;  Idle -idle|recycle|BYE-> Retiring -> gone
//!         Starting -time-out|mismatch-> gone; three in a row fail the queue with Start, if there is no other
//! task:   Queued -> Sent(g) -> over;  Sent(g), its worker died, retries left -> Queued
//! ```
//!
//! | file | what it holds |
//! |---|---|
//! | `task` | a task, from the queue to its end |
//! | `worker` | a worker's state |
//! | `dispatch` | which task goes to which worker, and when workers are started |
//! | `hear` | what a worker says, and what its end means |
//! | `conduit`, `outbox` | what leads to a process |
//! | `launch` | how a process is started |
//! | `bridge`, `renew` | how workers elsewhere are reached, and what if that is lost |
//! | `reactor` | the threads that wait for all of that |
//! | `help` | what a thread does that waits for a task |
//! | `complete` | which thread resolves futures |
//! | `end` | kills, resets, shutdown |
//!
//! # Invariants
//!
//! - **M1** State changes under one lock, and no code of the user's runs under it.
//!   To drop a task or a shared value is none of it: what workers are to forget is noted, and told by the reactor.
//! - **M2** A process is signalled and reaped under that lock, so that a number is never used after it was given back.
//! - **M3** In the child of a fork a crew does nothing, and none of its locks is taken: sockets and workers are the parent's, and
//!   a thread that is not there may hold the lock.

pub(crate) mod bridge;
mod complete;
mod conduit;
mod dispatch;
mod end;
mod hear;
mod help;
mod launch;
mod outbox;
mod reactor;
mod renew;
pub(crate) mod task;
mod worker;

use std::collections::{HashMap, VecDeque};
use std::panic;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use raddle_core::{Failure, Future, Helper, Promise, Snapshot};

use self::bridge::Bridge;
use self::complete::Unresolved;
use self::reactor::Reactor;
use self::renew::Way;
use self::task::{Completion, Handle, Phase, Request, Task};
use self::worker::Worker;
use crate::arg::{Arg, decode};
use crate::context::{TaskInfo, number};
use crate::error::RemoteError;
use crate::message::Build;
use crate::plan::Plan;
use crate::shared;
use crate::worker::build;

/// So many tasks that are over may lie in the queue besides as many as there are others.
const FEW: usize = 16;

pub(crate) struct Crew {
    pub(crate) plan: Plan,
    /// How many workers there may be.
    width: usize,
    build: Build,
    /// Which process has made it.
    process: u32,
    state: Mutex<State>,
    /// Told when tasks are over and when workers are gone.
    changed: Condvar,
    reactor: Reactor,
    /// What is over, and waits for a thread to resolve it.
    unresolved: Mutex<Unresolved>,
    /// Shared values that are gone, and that workers are to forget.
    forgotten: Mutex<Vec<u64>>,
    this: Weak<Crew>,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Arc<Task>>,
    /// How many of the queue are not over.
    queued: usize,
    workers: HashMap<u64, Worker>,
    /// Those that have nothing to do, the last that had something at the end.
    idle: Vec<u64>,
    /// How many tasks are not over, or being completed.
    unfinished: usize,
    /// How many starts have failed in a row.
    failed_starts: u32,
    /// How many threads wait for a change.
    waiting: usize,
    /// No task is taken any more.
    closing: bool,
    /// Where workers are.
    way: Way,
}

impl Crew {
    /// A crew of so many processes on this machine.
    pub(crate) fn local(plan: Plan, width: usize) -> Result<Arc<Crew>, RemoteError> {
        let build = build(false)?;
        Crew::new(plan, build, width, Way::Here, Reactor::new()?)
    }

    /// A crew behind a bridge.
    pub(crate) fn bridged(plan: Plan) -> Result<Arc<Crew>, RemoteError> {
        let build = build(true)?;
        // First: whoever fails to wait for a bridge leaves a zombie.
        let reactor = Reactor::new()?;
        let (bridge, width) = Bridge::start(&plan, &build, number(), |_| ())?;
        Crew::new(plan, build, width, Way::Open(Arc::new(bridge)), reactor)
    }

    fn new(
        plan: Plan,
        build: Build,
        width: usize,
        way: Way,
        reactor: Reactor,
    ) -> Result<Arc<Crew>, RemoteError> {
        let crew = Arc::new_cyclic(|this| Crew {
            plan,
            width,
            build,
            process: std::process::id(),
            state: Mutex::new(State { way, ..State::default() }),
            changed: Condvar::new(),
            reactor,
            unresolved: Mutex::default(),
            forgotten: Mutex::default(),
            this: this.clone(),
        });
        let bridge = crew.state().way.bridge().cloned();
        let heard = bridge.map_or(Ok(()), |bridge| bridge.conduit.register(&crew.reactor.epoll));
        heard.and_then(|()| crew.reactor.start(&crew)).inspect_err(|_| crew.close_way())?;
        Ok(crew)
    }

    /// Whether this is its copy in the child of a fork (M3).
    fn is_forked(&self) -> bool {
        self.process != std::process::id()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells who waits for a change; nobody does, mostly, and to tell nobody is a call of the system too.
    fn tell(&self, state: &State) {
        if state.waiting > 0 {
            self.changed.notify_all();
        }
    }

    pub(crate) fn reactor(&self) -> &Reactor {
        &self.reactor
    }

    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// How many workers have nothing to do, or could be started.
    pub(crate) fn free(&self) -> usize {
        if self.is_forked() {
            return 0;
        }
        let state = self.state();
        // Those that were there before a reset are none of them.
        let is_taken = |worker: &&Worker| worker.is_busy() && !worker.outgoing;
        self.width.saturating_sub(state.workers.values().filter(is_taken).count())
    }

    /// The future of a task.
    pub(crate) fn spawn<R: Arg>(self: &Arc<Crew>, request: Request) -> Future<R> {
        if self.is_forked() {
            let why = "this process was forked from the one that made the environment";
            return Future::failed(RemoteError::Engine(why.to_owned()));
        }
        let task = Arc::new(Task::new(number(), request, self.this.clone()));
        let handle = Handle { crew: Arc::clone(self), task: Arc::clone(&task) };
        // A promise keeps the locals of whoever makes it, and with them what `Env::run` has bound: an environment, mostly this.
        let helper = Arc::clone(&task) as Arc<dyn Helper>;
        let (promise, future) = Snapshot::default().run(|| Promise::with_helper(handle, helper));
        task.on_end(move |ended| {
            let value = ended.and_then(|bytes| {
                panic::catch_unwind(|| decode(&bytes))
                    .map_err(Failure::panicked)?
                    .map_err(Failure::new)
            });
            promise.complete(value);
        });
        let mut state = self.state();
        if let Err(error) = state.accepts(&self.plan, &task) {
            drop(state);
            let completion = Completion::new(&task, Err(Failure::new(error)));
            completion.into_iter().for_each(|completion| completion.resolve(&self.plan));
            return future;
        }
        state.unfinished += 1;
        state.queued += 1;
        state.queue.push_back(Arc::clone(&task));
        let moves = self.dispatch(&mut state);
        drop(state);
        let mut after = Vec::new();
        self.carry_out_for(Some(&task), moves, &mut after);
        let (own, others) =
            after.into_iter().partition(|completion| Arc::ptr_eq(&completion.task, &task));
        // Where workers cannot be started all that is queued has failed. The caller may hold what follows that waits for.
        self.complete_elsewhere(others);
        self.complete_here(own);
        future
    }
}

impl State {
    /// Whether a task can be taken.
    fn accepts(&self, plan: &Plan, task: &Task) -> Result<(), RemoteError> {
        let (request, limit) = (&task.request, plan.settings.max_frame);
        let shared = request.shared.iter().map(|data| data.slice().len() as u64);
        let len = shared.fold(request.len(), u64::max);
        if len > limit {
            return Err(RemoteError::TooLarge { len, limit });
        }
        match self.closing {
            true => Err(RemoteError::Engine("the environment was shut down".to_owned())),
            false => Ok(()),
        }
    }
}

impl State {
    /// A task that is queued is over, and is dropped when its turn comes; or now, where there are more such than others.
    fn passes_over_one(&mut self) {
        self.queued -= 1;
        if self.queue.len() > 2 * self.queued + FEW {
            self.queue.retain(|task| !task.is_over());
        }
    }
}

impl Task {
    /// What there is to know of the attempt that is on its way.
    fn info(&self) -> TaskInfo {
        let course = self.course();
        TaskInfo {
            id: self.id,
            attempt: course.attempt,
            name: self.request.name.clone(),
            worker: course.worker,
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.course().phase, Phase::Over)
    }
}

impl shared::Forget for Crew {
    /// By whoever drops the last clone of a shared value, which may be this crew, under any of its locks.
    fn forget(&self, id: u64) {
        if self.is_forked() {
            return;
        }
        self.forgotten.lock().unwrap_or_else(PoisonError::into_inner).push(id);
        self.reactor.wake_in(Duration::ZERO);
    }
}

impl Crew {
    /// Has workers forget what is gone.
    fn forget_all(&self) {
        let ids =
            std::mem::take(&mut *self.forgotten.lock().unwrap_or_else(PoisonError::into_inner));
        for id in ids {
            let mut state = self.state();
            let holders = state.workers.values_mut().filter(|worker| worker.shared.contains(&id));
            let links: Vec<_> = holders
                .filter_map(|worker| {
                    worker.shared.remove(&id);
                    worker.link()
                })
                .collect();
            drop(state);
            links.iter().for_each(|link| link.unshare(self, id));
        }
    }
}

impl From<std::io::Error> for RemoteError {
    fn from(error: std::io::Error) -> RemoteError {
        RemoteError::Start(error.to_string())
    }
}
