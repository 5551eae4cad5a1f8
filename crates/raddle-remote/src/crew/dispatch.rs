//! Which task goes to which worker, and when workers are started.
//!
//! What is decided under the lock is carried out without it: a hook may be called before a task is sent, and to start a process
//! takes a while.

use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::time::{Duration, Instant};

use raddle_core::Failure;

use super::task::{Completion, Phase, Task};
use super::worker::{Link, Stage, Worker};
use super::{Crew, State};
use crate::arg::encode;
use crate::context::number;
use crate::message::Order;
use crate::shared;

/// What is to be done once the lock is free.
pub(super) enum Move {
    /// Send a task to a worker, which is busy with it from now on.
    Call {
        link: Link,
        worker: u64,
        task: Arc<Task>,
        attempt: u64,
        first: bool,
        news: News,
    },
    /// Start a worker.
    Start {
        worker: u64,
        index: usize,
    },
    Bye(Link),
}

/// Shared values that a worker has not seen.
type News = Vec<Arc<shared::Data>>;

/// How long a worker may take to leave.
pub(super) const GRACE: Duration = Duration::from_secs(3);

impl Crew {
    /// Gives tasks to workers that are free, and starts workers for the rest.
    pub(super) fn dispatch(&self, state: &mut State) -> Vec<Move> {
        let mut moves = Vec::new();
        while state.queue.front().is_some_and(|task| task.is_over()) {
            state.queue.pop_front();
        }
        while state.queued > 0 {
            let Some(worker) = state.idle.pop() else { break };
            let Some(worker) = state.workers.get_mut(&worker) else { continue };
            if !matches!(worker.stage, Stage::Idle) {
                continue;
            }
            let next = std::iter::from_fn(|| state.queue.pop_front()).find(|task| !task.is_over());
            let Some(task) = next else { break };
            state.queued -= 1;
            moves.extend(self.assign(worker, task));
        }
        let counting = || state.workers.values().filter(|worker| worker.counts());
        let starting = |worker: &&Worker| matches!(worker.stage, Stage::Starting);
        let (live, coming) = (counting().count(), counting().filter(starting).count());
        let wanted = state.queued.saturating_sub(coming).min(self.width.saturating_sub(live));
        for _ in 0..wanted {
            moves.push(self.hire(state));
        }
        moves
    }

    /// A place for a worker that is to be started.
    pub(super) fn hire(&self, state: &mut State) -> Move {
        let taken = |index: &usize| {
            state.workers.values().any(|worker| worker.counts() && worker.index == *index)
        };
        let index = (0..).find(|index| !taken(index)).unwrap_or(0);
        let worker = number();
        let deadline = Instant::now() + self.plan.settings.start_timeout;
        state.workers.insert(worker, Worker::new(worker, index, Some(deadline)));
        self.reactor.wake_at(deadline);
        Move::Start { worker, index }
    }

    fn assign(&self, worker: &mut Worker, task: Arc<Task>) -> Option<Move> {
        let link = worker.link()?;
        let (attempt, since) = (number(), Instant::now());
        let mut course = task.course();
        course.phase = Phase::Sent { worker: worker.number, attempt };
        course.attempt += 1;
        course.worker = worker.index;
        let first = !std::mem::replace(&mut course.started, true);
        drop(course);
        let new = |data: &&Arc<shared::Data>| worker.shared.insert(data.id);
        let news: News = task.request.shared.iter().filter(new).cloned().collect();
        worker.deadline = task.request.timeout.map(|timeout| since + timeout);
        if let Some(deadline) = worker.deadline {
            self.reactor.wake_at(deadline);
        }
        worker.stage = Stage::Busy { task: Arc::clone(&task), attempt, since };
        Some(Move::Call { link, worker: worker.number, task, attempt, first, news })
    }

    /// Does what was decided; without the lock.
    pub(super) fn carry_out(&self, mut moves: Vec<Move>, after: &mut Vec<Completion>) {
        while let Some(next) = (!moves.is_empty()).then(|| moves.remove(0)) {
            match next {
                Move::Bye(link) => link.bye(self),
                Move::Start { worker, index } => moves.extend(self.start(worker, index, after)),
                Move::Call { link, worker, task, attempt, first, news } => {
                    match self.before(&task, first) {
                        Ok(()) => self.send(&link, &task, attempt, &news),
                        Err(failure) => {
                            moves.extend(self.answered(worker, attempt, Err(failure), after));
                        }
                    }
                }
            }
        }
    }

    /// Calls `before_start`, once for each task.
    fn before(&self, task: &Task, first: bool) -> Result<(), Failure> {
        match self.plan.hooks.before_start.as_ref().filter(|_| first) {
            Some(hook) => panic::catch_unwind(AssertUnwindSafe(|| hook(&task.info())))
                .map_err(Failure::panicked),
            None => Ok(()),
        }
    }

    fn send(&self, link: &Link, task: &Arc<Task>, attempt: u64, news: &News) {
        for data in news {
            data.sent_by(self.this.clone() as _);
            link.share(self, data);
        }
        let request = &task.request;
        let order = Order {
            call: request.call,
            id: task.id,
            attempt: task.course().attempt,
            name: request.name.clone(),
            seed: request.seed,
        };
        // Numbers and a text: they can be encoded.
        link.call(self, task, attempt, &encode(&order).unwrap_or_default());
    }

    /// A worker has answered: its task is over, and it is free.
    pub(super) fn answered(
        &self,
        worker: u64,
        attempt: u64,
        ended: super::task::Ended,
        after: &mut Vec<Completion>,
    ) -> Vec<Move> {
        let mut state = self.state();
        let Some(one) = state.workers.get_mut(&worker) else { return Vec::new() };
        match &one.stage {
            Stage::Busy { task, attempt: current, .. } if *current == attempt => {
                after.extend(Completion::new(task, ended));
            }
            // Killed meanwhile.
            Stage::Dying | Stage::Retiring => return Vec::new(),
            _ => {
                drop(state);
                return self.misbehaves(worker, "it answered what was not asked".into(), after);
            }
        }
        one.tasks += 1;
        let old = self.plan.settings.recycle_after.is_some_and(|most| one.tasks >= most);
        let mut moves = Vec::new();
        if one.outgoing || old {
            moves.extend(self.retire(one));
        } else {
            one.stage = Stage::Idle;
            let deadline = Instant::now() + self.plan.settings.idle_timeout;
            one.deadline = Some(deadline);
            self.reactor.wake_at(deadline);
            state.idle.push(worker);
        }
        moves.extend(self.dispatch(&mut state));
        if state.unfinished == 0 || old {
            self.changed.notify_all();
        }
        moves
    }

    /// Has a worker that is free leave.
    pub(super) fn retire(&self, worker: &mut Worker) -> Option<Move> {
        worker.stage = Stage::Retiring;
        let deadline = Instant::now() + GRACE;
        worker.deadline = Some(deadline);
        self.reactor.wake_at(deadline);
        worker.link().map(Move::Bye)
    }
}
