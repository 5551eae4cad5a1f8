//! How many tasks of a pool are not over, and which of them have been killed all at once.
//!
//! A pool that kills all that it has misses what a thread has just taken out of a queue and not begun, and knows nothing of what is
//! about to be queued. Each task is counted here before that, and as it begins it asks whether all that there was has been killed since.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

#[derive(Default)]
pub(super) struct Tally {
    counts: Mutex<Counts>,
    over: Condvar,
}

#[derive(Default)]
struct Counts {
    /// Not begun yet.
    queued: usize,
    /// Not begun yet, and killed.
    doomed: usize,
    running: usize,
    /// How often all were killed.
    kills: u64,
    /// How many of those that were doomed have been ended here, and not by the pool.
    caught: usize,
}

impl Counts {
    fn unfinished(&self) -> usize {
        self.queued + self.doomed + self.running
    }
}

impl Tally {
    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One more task.
    pub(super) fn enter(self: &Arc<Tally>) -> Ticket {
        let mut counts = self.counts();
        counts.queued += 1;
        Ticket { tally: Arc::clone(self), kills: counts.kills, running: false }
    }

    pub(super) fn is_over(&self) -> bool {
        self.counts().unfinished() == 0
    }

    pub(super) fn running(&self) -> usize {
        self.counts().running
    }

    /// All that there are are killed, by the pool as far as it knows them. Returns what [`missed`](Tally::missed) is to be told.
    pub(super) fn doom(&self) -> usize {
        let mut counts = self.counts();
        counts.doomed += std::mem::take(&mut counts.queued);
        counts.kills += 1;
        counts.caught
    }

    /// How many the pool has not known: they end as they begin, or have.
    pub(super) fn missed(&self, before: usize) -> usize {
        let counts = self.counts();
        counts.caught.wrapping_sub(before) + counts.doomed
    }

    /// Whether a task that entered when all had been killed so often has been killed with all since.
    pub(super) fn has_doomed(&self, kills: u64) -> bool {
        self.counts().kills != kills
    }

    /// A task that was doomed is ended.
    pub(super) fn catch(&self) {
        let mut counts = self.counts();
        counts.caught = counts.caught.wrapping_add(1);
    }

    /// Waits until all tasks are over, until then at most; whether they are.
    pub(super) fn wait(&self, deadline: Option<Instant>) -> bool {
        let mut counts = self.counts();
        while counts.unfinished() > 0 {
            let left = match deadline {
                Some(deadline) => deadline.saturating_duration_since(Instant::now()),
                None => Duration::from_secs(3600),
            };
            if left.is_zero() {
                break;
            }
            let waited = self.over.wait_timeout(counts, left);
            counts = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        counts.unfinished() == 0
    }
}

/// One task: counted until it is over, or never will be run.
pub(super) struct Ticket {
    tally: Arc<Tally>,
    /// How often all had been killed when it entered.
    pub(super) kills: u64,
    running: bool,
}

impl Ticket {
    /// The task begins; false if it was killed before.
    pub(super) fn begin(&mut self) -> bool {
        let mut counts = self.tally.counts();
        let doomed = counts.kills != self.kills;
        *if doomed { &mut counts.doomed } else { &mut counts.queued } -= 1;
        counts.running += 1;
        // The pool may have had it on its list by then.
        if doomed && !raddle_core::killed() {
            counts.caught = counts.caught.wrapping_add(1);
        }
        self.running = true;
        !doomed
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut counts = self.tally.counts();
        let doomed = counts.kills != self.kills;
        let place = match (self.running, doomed) {
            (true, _) => &mut counts.running,
            (false, true) => &mut counts.doomed,
            (false, false) => &mut counts.queued,
        };
        *place -= 1;
        if counts.unfinished() == 0 {
            self.tally.over.notify_all();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_killed_before_it_begins_is_counted_once() {
        let tally = Arc::new(Tally::default());
        let [mut runs, mut about_to, mut begins, gone] = [(); 4].map(|()| tally.enter());
        assert!(runs.begin());
        let before = tally.doom();
        assert!(tally.has_doomed(begins.kills));
        assert!(!begins.begin(), "killed");
        // By the pool, in its queue.
        drop(gone);
        let mut new = tally.enter();
        assert!(!tally.has_doomed(new.kills));
        assert_eq!(tally.missed(before), 2);
        assert!(!about_to.begin());
        assert_eq!(tally.missed(before), 2);
        assert!(new.begin(), "it came later");
        assert_eq!(tally.running(), 4);
        drop((runs, about_to, begins));
        assert!(!tally.is_over());
        drop(new);
        assert!(tally.wait(None) && tally.is_over());
    }
}
