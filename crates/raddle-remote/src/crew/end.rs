//! How things are brought to an end: one task, all of them, the workers, the crew.

use std::sync::Arc;
use std::time::{Duration, Instant};

use raddle_core::{Failure, Interrupt, Killed};

use super::dispatch::{GRACE, Move};
use super::task::{Completion, Phase, Task};
use super::worker::{Stage, Worker};
use super::{Crew, State};

/// How long workers that were signalled may take to be gone.
const LAST: Duration = Duration::from_secs(10);

impl Crew {
    /// The task's future was killed.
    pub(super) fn kill(&self, task: &Arc<Task>) -> Killed {
        if self.is_forked() {
            return Killed::TooLate;
        }
        let mut after = Vec::new();
        let killed = self.kill_in(&mut self.state(), task, &mut after);
        self.complete(after);
        killed
    }

    fn kill_in(&self, state: &mut State, task: &Arc<Task>, after: &mut Vec<Completion>) -> Killed {
        let phase = task.course().phase;
        let killed = match phase {
            Phase::Over => return Killed::TooLate,
            Phase::Queued => Killed::BeforeStart,
            Phase::Sent { worker, .. } => {
                if let Some(worker) = state.workers.get_mut(&worker) {
                    worker.kill(self);
                }
                Killed::WhileRunning
            }
        };
        after.extend(Completion::new(task, Err(Failure::killed())));
        if killed == Killed::BeforeStart {
            state.passes_over_one();
        }
        killed
    }

    /// The task's future was interrupted.
    pub(super) fn interrupt(&self, task: &Arc<Task>, why: Interrupt) {
        if self.is_forked() {
            return;
        }
        let mut after = Vec::new();
        let mut state = self.state();
        let phase = task.course().phase;
        match phase {
            Phase::Over => {}
            Phase::Queued => {
                after.extend(Completion::new(task, Err(Failure::from(why))));
                state.passes_over_one();
            }
            Phase::Sent { worker, attempt, .. } => {
                task.course().interrupted = Some(why);
                let link = state.workers.get(&worker).and_then(|worker| worker.link());
                drop(state);
                if let Some(link) = link {
                    link.interrupt(self, attempt);
                }
                return;
            }
        }
        drop(state);
        self.complete(after);
    }

    /// Kills all tasks that are not over; returns how many those were.
    pub(crate) fn kill_all(&self) -> usize {
        if self.is_forked() {
            return 0;
        }
        let mut after = Vec::new();
        let mut state = self.state();
        let busy = |worker: &Worker| match &worker.stage {
            Stage::Busy { task, .. } => Some(Arc::clone(task)),
            _ => None,
        };
        let mut tasks: Vec<Arc<Task>> = state.workers.values().filter_map(busy).collect();
        tasks.extend(state.queue.drain(..));
        for task in &tasks {
            self.kill_in(&mut state, task, &mut after);
        }
        drop(state);
        let killed = after.len();
        self.complete(after);
        killed
    }

    /// Has all workers replaced: those that are free now, busy ones when their task is over. What is queued stays so.
    pub(crate) fn reset(&self) {
        if self.is_forked() {
            return;
        }
        let mut moves = Vec::new();
        let mut state = self.state();
        let mut warm = 0;
        for worker in state.workers.values_mut().filter(|worker| worker.counts()) {
            warm += 1;
            self.dismiss(worker, &mut moves);
        }
        state.idle.clear();
        // Without a bridge there are none.
        for _ in 0..warm {
            moves.push(self.hire(&mut state));
        }
        drop(state);
        let mut after = Vec::new();
        self.carry_out(moves, &mut after);
        self.complete_elsewhere(after);
        let leaves = |worker: &Worker| !worker.is_busy() && worker.is_leaving();
        self.wait_for(Some(GRACE + LAST), |state| !state.workers.values().any(leaves));
    }

    /// Has a worker go: at once, or when its task is over.
    fn dismiss(&self, worker: &mut Worker, moves: &mut Vec<Move>) {
        worker.outgoing = true;
        match worker.stage {
            Stage::Idle => moves.extend(self.retire(worker)),
            // It has nothing to finish.
            Stage::Starting => worker.end(self),
            _ => {}
        }
    }

    /// Waits until something is so, for so long at most; whether it is.
    fn wait_for(&self, limit: Option<Duration>, is_so: impl Fn(&State) -> bool) -> bool {
        if self.is_mine() {
            // It is by this thread that it would come about.
            return is_so(&self.state());
        }
        let deadline = limit.and_then(|limit| Instant::now().checked_add(limit));
        // A task's end may need the pool for which this thread works.
        raddle_core::blocking(|| {
            let mut state = self.state();
            state.waiting += 1;
            let is_so = loop {
                if is_so(&state) {
                    break true;
                }
                let left =
                    deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
                if left == Some(Duration::ZERO) {
                    break false;
                }
                // Told of most changes; looked at now and then besides.
                let look = left.map_or(LAST, |left| left.min(LAST));
                let waited = self.changed.wait_timeout(state, look);
                state = waited.unwrap_or_else(std::sync::PoisonError::into_inner).0;
            };
            state.waiting -= 1;
            is_so
        })
    }

    /// As `shut_down`; by a thread of its own where this one would wait for itself, which then says whether all is done by now.
    pub(crate) fn end(self: &Arc<Crew>, limit: Option<Duration>) -> bool {
        if self.is_forked() {
            // To drop it is to take locks as well (M3).
            std::mem::forget(Arc::clone(self));
            return true;
        }
        if !self.is_mine() {
            return self.shut_down(limit);
        }
        let mut state = self.state();
        state.closing = true;
        let finished = state.queued == 0 && !state.workers.values().any(Worker::is_busy);
        drop(state);
        let crew = Arc::clone(self);
        let end = move || crew.shut_down(limit);
        let _ = std::thread::Builder::new().name("raddle-end".into()).spawn(end);
        finished
    }

    /// Takes no more tasks, finishes those that there are, for so long at most, and ends all workers; whether none was killed.
    fn shut_down(&self, limit: Option<Duration>) -> bool {
        self.state().closing = true;
        // What follows some may go on: those are over.
        let finished = self.wait_for(limit, |state| state.unfinished == 0) || self.kill_all() == 0;
        let mut moves: Vec<Move> = Vec::new();
        let mut state = self.state();
        for worker in state.workers.values_mut() {
            self.dismiss(worker, &mut moves);
        }
        state.idle.clear();
        drop(state);
        self.carry_out(moves, &mut Vec::new());
        let is_over = |state: &State| !state.workers.values().any(Worker::is_leaving);
        if !self.wait_for(Some(GRACE + LAST), is_over) {
            for worker in self.state().workers.values() {
                worker.end(self);
            }
            self.wait_for(Some(LAST), is_over);
        }
        self.close_way();
        self.reactor.stop();
        finished
    }
}
