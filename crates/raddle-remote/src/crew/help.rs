//! A thread that waits for a task of a process reads itself what the worker says: otherwise a thread of the reactor would be woken
//! for that, only to wake this one.
//!
//! The reactor does not hear of the worker's socket meanwhile, nor afterwards as long as the worker is idle. Of the worker's end, and
//! of what it writes, it does.
//!
//! # Invariants
//!
//! - **J1** The socket of a worker that has a task is heard by the reactor, or by a thread that runs no code of the user's: what
//!   it completes it completes when that is so.
//! - **J2** Whoever else completes the task rings the bell that it finds in its course. So a thread that helps does not wait longer
//!   than it is to.

use std::cell::RefCell;
use std::sync::Arc;

use raddle_core::Helper;

use super::Crew;
use super::conduit::{Conduit, Quiet, SOCKET};
use super::task::{Completion, Phase, Task};
use super::worker::{Link, Stage};
use crate::os::poll::Bell;

thread_local! {
    /// A bell that nobody has rung, and the process that made it: the child of a fork would ring its parent's.
    static BELL: RefCell<Option<(u32, Arc<Bell>)>> = const { RefCell::new(None) };
}

impl Helper for Task {
    fn help(self: Arc<Task>) {
        if let Some(crew) = self.crew.upgrade() {
            crew.help(&self);
        }
    }
}

impl Crew {
    /// Waits until the worker that has the task says something, and sees to that; or until the task is over.
    fn help(&self, task: &Arc<Task>) {
        if self.is_forked() {
            return;
        }
        if task.is_over() {
            return self.hurry();
        }
        // Hooks may want what this thread holds.
        if !self.plan.hooks.is_empty() {
            return;
        }
        let Some((conduit, bell)) = self.sit_down(task) else { return };
        let mut after = Vec::new();
        conduit.mute(&self.reactor.epoll);
        if let Some(quiet) = conduit.wait(&bell) {
            self.serve(&conduit, None, SOCKET, quiet, &mut after);
        }
        // J1
        if !self.is_idle(conduit.number) {
            conduit.unmute(&self.reactor.epoll);
        }
        let (mut own, others): (Vec<_>, Vec<_>) =
            after.into_iter().partition(|completion| Arc::ptr_eq(&completion.task, task));
        let left = own.first_mut().and_then(|own| own.bell.take());
        let bell = match left.or_else(|| task.course().bell.take()) {
            Some(_) => Some(bell),
            // Somebody has rung it, or will. With another at once this thread always has one descriptor.
            None => Bell::new().ok().map(Arc::new),
        };
        let bell = bell.map(|bell| (self.process, bell));
        let _ = BELL.try_with(|kept| kept.replace(bell));
        self.complete_elsewhere(others);
        self.complete_here(own);
    }

    fn is_idle(&self, worker: u64) -> bool {
        let state = self.state();
        state.workers.get(&worker).is_some_and(|worker| matches!(worker.stage, Stage::Idle))
    }

    /// A worker has been sent a task: from now on somebody hears what it says, if nobody did (J1). If the caller is the one who waited
    /// for the one before, and has the future of this one, it may be answered by now: a worker that shares the processor with who
    /// sends takes it at once.
    pub(super) fn listen(
        &self,
        link: &Link,
        task: &Arc<Task>,
        own: bool,
        after: &mut Vec<Completion>,
    ) {
        let Link::Process(conduit) = link else { return };
        if own && conduit.is_muted() && self.plan.hooks.is_empty() {
            self.serve(conduit, None, SOCKET, Quiet::default(), after);
            if task.is_over() {
                return;
            }
        }
        conduit.unmute(&self.reactor.epoll);
    }

    /// What leads to the worker that has the task, and a bell that is rung when that is over; none if nobody can help, or somebody
    /// does.
    fn sit_down(&self, task: &Task) -> Option<(Arc<Conduit>, Arc<Bell>)> {
        let state = self.state();
        if state.queued > 0 {
            // The reactor is at work anyway, and to change who hears costs more than it saves.
            return None;
        }
        let mut course = task.course();
        let Phase::Sent { worker, .. } = course.phase else { return None };
        if course.bell.is_some() {
            return None;
        }
        let Some(Link::Process(conduit)) = &state.workers.get(&worker)?.link else { return None };
        let bell = match BELL.try_with(RefCell::take).ok()? {
            Some((process, bell)) if process == self.process => bell,
            _ => Arc::new(Bell::new().ok()?),
        };
        course.bell = Some(Arc::clone(&bell));
        Some((Arc::clone(conduit), bell))
    }
}
