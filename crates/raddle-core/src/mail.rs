//! Mail: tasks for one thread of a pool and no other, whether it is awake, asleep, or yet to be started.
//!
//! # Invariants
//!
//! - **ML1** Whoever sends mail puts it there, then gives the worker a token, then tries to take it out of `vacant`. Whoever sets its bit
//!   in `parked` looks for mail afterwards and after each token, and takes itself out. Whoever sets it in `vacant` looks for
//!   mail afterwards, too: both change the same word, so either the bit is found, or the mail is, and opened by the thread that is there,
//!   though it was about to leave, or a new one.

use crate::places::{Crew, Places};
use crate::queue::{Injector, Tag, Task};

/// The mail of one worker.
#[derive(Debug, Default)]
pub(crate) struct Mail(Injector);

impl Mail {
    pub(crate) fn new() -> Mail {
        Mail(Injector::new())
    }

    /// A sender's first step (ML1), which then gives the worker its token, and calls `claim`.
    pub(crate) fn put(&self, task: Task) {
        self.0.push([task]);
    }

    #[inline]
    pub(crate) fn is_there(&self) -> bool {
        self.0.len() > 0
    }

    /// The oldest, by the thread that it is for.
    #[inline]
    pub(crate) fn open(&self) -> Option<(Task, Tag)> {
        if self.is_there() { self.0.take_one() } else { None }
    }

    /// After the worker's bit has been set in `vacant`, or it has been sent mail and a token. True: there is mail, the worker has no
    /// thread, and the caller is to see that it gets one, or to be it.
    #[must_use]
    pub(crate) fn takes_out(&self, places: &Places, worker: usize) -> bool {
        self.is_there() && places.vacant.take(worker)
    }

    /// As `takes_out`, for whoever has claimed no place for that thread. It gets one, whether or not one is free: no other thread will
    /// do; and it counts as a searcher.
    #[must_use]
    pub(crate) fn claim(&self, places: &Places, worker: usize) -> bool {
        let claims = self.takes_out(places, worker);
        if claims {
            places.take_searching();
        }
        claims
    }

    /// As [`Places::leave`]. True: there is mail for the thread that leaves, and it stays, as a searcher.
    #[must_use]
    pub(crate) fn calls_back(&self, places: &Places, crew: &impl Crew, worker: usize) -> bool {
        places.leave(crew, worker);
        self.claim(places, worker)
    }

    /// By a worker that has set its bit in `parked`, now and after each token. True: there is mail, or it has been claimed,
    /// too; it goes on as a searcher.
    #[must_use]
    pub(crate) fn wakes(&self, places: &Places, worker: usize) -> bool {
        let wakes = self.is_there();
        // Else whoever has claimed it has a place for it (S2).
        if wakes && places.parked.take(worker) {
            places.take_searching();
        }
        wakes
    }
}
