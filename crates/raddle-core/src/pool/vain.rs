//! Waits with a time limit for which nobody comes.
//!
//! Such a wait runs nothing, which might take longer than there is time, and leaves what it waits for to other threads. If all
//! threads that the pool can have wait like that, each lets its time pass in vain, and a program that waits again whenever the
//! time is over does so for ever. So where no other thread can come, and for 100 ms nobody works and nothing has ended, a thread
//! runs what it waits for after all, late or not. It takes on nothing else: that may wait for what lies beneath. What it ends is
//! no reason for the next to wait for as long: for a second whoever has that much time, and sees nobody who works, and nobody who could
//! come, does the same after 10 ms.
//!
//! (And its mail, after a while: see `mailbox`.)
//!
//! For how long is seen over several waits in a row: loops whose single waits are short are as common.

use std::cell::Cell;
use std::time::Duration;

use raddle_sync::atomic::Ordering;
use raddle_sync::time::Instant;

use crate::pool::relief::STILL;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;

/// For so long a thread waits in vain: as others do at the cap of spare threads. After so long without a wait it begins anew.
const VAIN: Duration = STILL.saturating_mul(10);

/// Since when a worker has seen nobody come, and others end nothing in its pool.
#[derive(Debug, Default)]
pub(crate) struct Vain {
    progress: Cell<usize>,
    since: Cell<Option<Instant>>,
    last: Cell<Option<Instant>>,
    /// That is so for long.
    over: Cell<bool>,
    /// It is within a wait with a limit, and was counted among those.
    counted: Cell<bool>,
}

impl Vain {
    fn look(&self, progress: usize, waited: Duration) {
        let now = Instant::now();
        let began = now.checked_sub(waited).unwrap_or(now);
        let is_next = |last| began.saturating_duration_since(last) < VAIN;
        let goes_on =
            self.progress.replace(progress) == progress && self.last.get().is_some_and(is_next);
        let since = self.since.get().filter(|_| goes_on).unwrap_or(began);
        self.since.set(Some(since));
        self.last.set(Some(now));
        self.over.set(now.saturating_duration_since(since) >= VAIN);
    }

    fn lasts(&self) -> Duration {
        self.since.get().map_or(Duration::ZERO, |since| since.elapsed())
    }

    fn begin_anew(&self) {
        self.since.set(None);
        self.over.set(false);
    }
}

impl WorkerMemory {
    /// Whether this thread has waited in vain for long, by its last look.
    pub(crate) fn has_waited_in_vain(&self) -> bool {
        self.owned.vain.over.get()
    }

    fn look_for_others(&self, waited: Duration, left: Duration) -> bool {
        let (registry, vain) = (self.registry(), &self.owned.vain);
        if waited.is_zero() && vain.since.get().is_none() {
            return false;
        }
        let me = usize::from(self.holds_place());
        // ORD: a hint, as all of it.
        let waiting = registry.limited.load(Ordering::Relaxed);
        if !registry.has_nobody_for_more() || registry.places.working() > waiting + me {
            vain.begin_anew();
            return false;
        }
        // What it has ended itself does no harm, and says nothing of others.
        vain.look(registry.progress().wrapping_sub(self.progress()), waited);
        if vain.over.get() {
            registry.note_vain_wait();
        } else if left >= VAIN && vain.lasts() >= STILL && registry.waits_are_in_vain() {
            vain.over.set(true);
        }
        vain.over.get()
    }

    /// It holds a place, and waits with a limit: who looks for others that work does not count it.
    fn count_limited(&self, begins: bool) {
        // ORD: a count that is a hint.
        match begins {
            true => self.registry().limited.fetch_add(1, Ordering::Relaxed),
            false => self.registry().limited.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Its place is given away (false), or it has one again.
    pub(crate) fn limited_wait_has_place(&self, has: bool) {
        if self.owned.vain.counted.get() {
            self.count_limited(has);
        }
    }
}

/// Whether no further thread can come in a pool that the calling thread works for.
pub(crate) fn may_be_left_alone() -> bool {
    Worker::occupied().any(|memory| memory.registry().has_nobody_else())
}

/// Whether nobody comes for what the calling thread has just `waited` for so long, or is about to wait for, with so much time `left`: of
/// its tasks it may run that itself.
pub(crate) fn nobody_comes(waited: Duration, left: Duration) -> bool {
    // Each of them looks.
    Worker::occupied().filter(|memory| memory.look_for_others(waited, left)).count() > 0
}

/// Calls `f`, which is no part of the wait that it lies on.
pub(crate) fn apart<R>(f: impl FnOnce() -> R) -> R {
    let counted: Vec<_> =
        Worker::occupied().filter(|memory| memory.owned.vain.counted.replace(false)).collect();
    counted.iter().for_each(|memory| memory.count_limited(false));
    let result = f();
    for memory in counted {
        memory.count_limited(true);
        memory.owned.vain.counted.set(true);
    }
    result
}

/// Calls `wait`, which has a limit.
pub(crate) fn limited(wait: impl FnOnce()) {
    for memory in Worker::occupied().filter(|memory| memory.holds_place()) {
        memory.owned.vain.counted.set(true);
        memory.count_limited(true);
    }
    wait();
    for memory in Worker::occupied().filter(|memory| memory.owned.vain.counted.replace(false)) {
        memory.count_limited(false);
    }
}
