//! Which task goes to which worker, and when workers are started.
//!
//! What is decided under the lock is carried out without it: a hook may be called before a task is sent, and to start a process
//! takes a while.

use std::collections::VecDeque;
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
    /// Start a bridge.
    Bridge,
}

/// Shared values that a worker has not seen.
type News = Vec<Arc<shared::Data>>;

/// How long a worker may take to leave.
pub(super) const GRACE: Duration = Duration::from_secs(3);
/// After so many starts in a row that failed the queue fails, or waits for workers that there are.
pub(super) const MOST_FAILED: u32 = 3;

impl Crew {
    /// Gives tasks to workers that are free, and starts workers for the rest.
    pub(super) fn dispatch(&self, state: &mut State) -> Vec<Move> {
        let mut moves = Vec::new();
        loop {
            while state.queue.front().is_some_and(|task| task.is_over()) {
                state.queue.pop_front();
            }
            if state.queue.is_empty() {
                break;
            }
            let Some(worker) = state.idle.pop() else { break };
            let Some(worker) = state.workers.get_mut(&worker).filter(|one| one.is_free()) else {
                continue;
            };
            let (Some(link), Some(task)) = (worker.link(), state.queue.pop_front()) else { break };
            state.queued -= 1;
            moves.push(self.assign(worker, link, task));
        }
        if !state.way.leads() {
            self.want_bridge(state, &mut moves);
            return moves;
        }
        let counting = || state.workers.values().filter(|worker| worker.counts());
        let starting = |worker: &&Worker| matches!(worker.stage, Stage::Starting);
        let (live, coming) = (counting().count(), counting().filter(starting).count());
        let wanted = state.queued.saturating_sub(coming).min(self.width.saturating_sub(live));
        // Where none can be started those that there are have to do.
        let vain = state.failed_starts >= MOST_FAILED
            && state.workers.values().any(Worker::is_worth_waiting_for);
        for _ in 0..if vain { 0 } else { wanted } {
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
        let deadline = self.reactor.wake_in(self.plan.settings.start_timeout);
        state.workers.insert(worker, Worker::new(worker, index, deadline));
        Move::Start { worker, index }
    }

    fn assign(&self, worker: &mut Worker, link: Link, task: Arc<Task>) -> Move {
        let (attempt, since) = (number(), Instant::now());
        let mut course = task.course();
        course.phase = Phase::Sent { worker: worker.number, attempt };
        course.attempt += 1;
        course.worker = worker.index;
        let first = !std::mem::replace(&mut course.started, true);
        drop(course);
        let new = |data: &&Arc<shared::Data>| worker.shared.insert(data.id);
        let news: News = task.request.shared.iter().filter(new).cloned().collect();
        worker.deadline = task.request.timeout.and_then(|limit| self.reactor.wake_in(limit));
        worker.stage = Stage::Busy { task: Arc::clone(&task), attempt, since };
        Move::Call { link, worker: worker.number, task, attempt, first, news }
    }

    /// Does what was decided; without the lock.
    pub(super) fn carry_out(&self, moves: Vec<Move>, after: &mut Vec<Completion>) {
        self.carry_out_for(None, moves, after);
    }

    /// The same, where the caller is about to have the future of one of the tasks.
    pub(super) fn carry_out_for(
        &self,
        own: Option<&Arc<Task>>,
        moves: Vec<Move>,
        after: &mut Vec<Completion>,
    ) {
        let mut moves = VecDeque::from(moves);
        while let Some(next) = moves.pop_front() {
            match next {
                Move::Bye(link) => link.bye(self),
                Move::Bridge => moves.extend(self.renew(after)),
                Move::Start { worker, index } => moves.extend(self.start(worker, index, after)),
                Move::Call { link, worker, task, attempt, first, news } => {
                    // First, and in any case: the worker counts as having them.
                    self.share(&link, &news);
                    match self.before(&task, first) {
                        Ok(()) => {
                            self.send(&link, &task, attempt);
                            let own = own.is_some_and(|own| Arc::ptr_eq(own, &task));
                            self.listen(&link, &task, own, after);
                        }
                        Err(failure) => {
                            // Not of it: it will not start.
                            task.course().started = false;
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
            Some(hook) => {
                self.stand_in();
                panic::catch_unwind(AssertUnwindSafe(|| hook(&task.info())))
                    .map_err(Failure::panicked)
            }
            None => Ok(()),
        }
    }

    fn share(&self, link: &Link, news: &News) {
        for data in news {
            data.sent_by(self.this.clone() as _);
            link.share(self, data);
        }
    }

    fn send(&self, link: &Link, task: &Arc<Task>, attempt: u64) {
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
        // Reason enough to try again to start another.
        state.failed_starts = state.failed_starts.min(MOST_FAILED - 1);
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
            one.deadline = self.reactor.wake_in(self.plan.settings.idle_timeout);
            state.idle.push(worker);
        }
        moves.extend(self.dispatch(&mut state));
        if state.unfinished == 0 || old {
            self.tell(&state);
        }
        moves
    }

    /// Has a worker that is free leave.
    pub(super) fn retire(&self, worker: &mut Worker) -> Option<Move> {
        worker.stage = Stage::Retiring;
        worker.deadline = self.reactor.wake_in(GRACE);
        worker.link().map(Move::Bye)
    }
}
