//! How futures of tasks that are over are resolved.
//!
//! What follows a future is code of the user's, may take long, and may wait for another task that was over at the same time. So of
//! several only the first is resolved at once; the others lie where a thread of the reactor finds them, if this one takes long.
//!
//! # Invariants
//!
//! - **P1** A completion is in one hand: of whoever resolves it, or in `unresolved`, under a lock that nobody keeps.
//! - **P2** If something lies in `unresolved`, the timer is set, or the reactor has stopped and a thread was started for it, or
//!   there was none to be had; and whoever left it there takes it out again unless others do.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::sync::{MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use raddle_core::Snapshot;

use super::Crew;
use super::task::Completion;
use crate::context::number;
use crate::plan::{Plan, call_hook};
use crate::within::{is_within, within};

/// Whoever takes longer to resolve a future is helped with the others.
const PATIENCE: Duration = Duration::from_millis(5);

/// Completions that wait for their turn, those that came at the same time under one number.
pub(super) type Unresolved = BTreeMap<u64, VecDeque<Completion>>;

impl Crew {
    /// Completes tasks that are over; without a lock (M1).
    pub(super) fn complete(&self, completions: Vec<Completion>) {
        let mut rest = VecDeque::from(completions);
        let Some(first) = rest.pop_front() else { return };
        let rest = (!rest.is_empty()).then(|| self.leave_to_others(rest, PATIENCE));
        self.resolve(first);
        if let Some(rest) = rest {
            self.resolve_all(rest);
        }
    }

    /// Resolves what was left to others under this number, as far as they have not taken it.
    fn resolve_all(&self, number: u64) {
        while let Some(next) = self.take_one(number) {
            self.resolve(next);
        }
    }

    /// Completes tasks, where what decodes their values is called as by a thread that knows nothing.
    pub(super) fn complete_here(&self, completions: Vec<Completion>) {
        if !completions.is_empty() {
            Snapshot::default().run(|| self.complete(completions));
        }
    }

    /// Completes tasks that this thread does not wait for: what follows them is to run on another.
    pub(super) fn complete_elsewhere(&self, completions: Vec<Completion>) {
        if completions.is_empty() {
            return;
        }
        let number = self.leave_to_others(completions.into(), Duration::ZERO);
        if self.reactor.has_stopped() {
            // A thread may be at it, or none was to be had.
            Snapshot::default().run(|| self.resolve_all(number));
        }
    }

    /// A thread is about to wait for what may lie here: it is resolved by another now.
    pub(super) fn hurry(&self) {
        if !self.unresolved().is_empty() {
            self.reactor.wake_in(Duration::ZERO);
        }
    }

    fn resolve(&self, completion: Completion) {
        within(self.key(), || call_hook(|| completion.resolve(&self.plan)));
        let mut state = self.state();
        state.unfinished -= 1;
        if state.unfinished == 0 {
            self.tell(&state);
        }
    }

    /// Has another thread resolve these in so long (P2), as far as the caller has not (`take_one`).
    fn leave_to_others(&self, completions: VecDeque<Completion>, patience: Duration) -> u64 {
        let number = number();
        self.unresolved().insert(number, completions);
        if !self.reactor.has_stopped() {
            self.reactor.wake_in(patience);
        } else if let Some(crew) = self.this.upgrade() {
            let _ = self.reactor.besides(move || crew.complete(crew.take_unresolved()));
        }
        number
    }

    fn take_one(&self, number: u64) -> Option<Completion> {
        let mut unresolved = self.unresolved();
        let rest = unresolved.get_mut(&number)?;
        let next = rest.pop_front();
        if rest.is_empty() {
            unresolved.remove(&number);
        }
        next
    }

    /// All that waits for its turn: by a thread that is about to resolve it.
    pub(super) fn take_unresolved(&self) -> Vec<Completion> {
        mem::take(&mut *self.unresolved()).into_values().flatten().collect()
    }

    fn unresolved(&self) -> MutexGuard<'_, Unresolved> {
        self.unresolved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As the reactor's, of which there is none yet that waits, maybe.
    pub(super) fn stand_in(&self) {
        if let Some(crew) = self.this.upgrade() {
            self.reactor.stand_in(&crew);
        }
    }

    /// Whether it is by this thread that tasks are completed: one of the reactor's, or whichever called something that has.
    pub(super) fn is_mine(&self) -> bool {
        is_within(self.key()) || self.reactor.is_mine(thread::current().id())
    }

    fn key(&self) -> usize {
        self.this.as_ptr().addr()
    }
}

impl Completion {
    /// Calls what is to be called, and resolves the future.
    pub(super) fn resolve(self, plan: &Plan) {
        let Completion { task, ended, complete, started, bell } = self;
        if let Some(bell) = bell {
            // It waits for the rest as others do.
            bell.ring();
        }
        if let Some(hook) = plan.hooks.after_finish.as_ref().filter(|_| started) {
            let outcome = ended.as_ref().map(|_| ());
            call_hook(|| hook(&task.info(), outcome));
        }
        if let Some(complete) = complete {
            complete(ended);
        }
    }
}
