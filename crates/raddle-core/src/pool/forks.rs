//! Slow paths of `join`, by the owner of a fork stack: what a push or a pop does when thieves have asked for
//! attention, when forks are recorded, or when something follows them.

use raddle_sync::atomic::{Ordering, fence};
use raddle_trace::EventKind;

use crate::fork_stack::{Popped, Slot};
use crate::latch;
use crate::local;
use crate::pool::recorder::{self, Place, fork_key};
use crate::pool::registry::Waker;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;

impl WorkerMemory {
    /// After a push that asked for attention.
    #[cold]
    #[inline(never)]
    pub(crate) fn pushed(&self, slot: &Slot, place: Place) {
        let mut loads = self.fork.is_followed();
        if self.must_heed() {
            // Since this job began. What it has forked before takes nothing along, nor does this if a thief has it.
            loads = self.fork.follow(slot);
            self.fork.request();
        }
        let (followed, recorded) = (self.fork.is_followed(), self.lane.has_tasks());
        if loads {
            self.load(slot);
        }
        if recorded {
            let length = self.fork.len_below(slot) + 1;
            self.lane.note_fork(length, Some(place), fork_key(self, slot));
        }
        if (followed || recorded) && !self.fork.must_settle(slot) {
            return;
        }
        let searching = self.registry().places.counts().searching();
        self.fork.publish(slot, searching);
        self.affinity.note_here();
        self.tell();
        if self.owned.spreads.get() > 0 {
            self.spread();
        }
        // The next one, too, unless there is one for each of those who look: to ask again they would need a round each.
        if self.fork.public() < searching {
            self.fork.request();
        }
    }

    /// This thread was woken for the fork that runs here: its first forks have more woken, whose first forks do so as well.
    #[inline(never)]
    fn spread(&self) {
        let registry = self.registry();
        let left = self.owned.spreads.take();
        if !registry.has_use_for_more() {
            return;
        }
        registry.wake_one(Waker::Busy);
        if left > 1 {
            self.owned.spreads.set(left - 1);
            // A hint to this very thread: the next push comes here, too.
            self.fork.request();
        }
    }

    /// Forks have been made public: sees that somebody comes for them.
    fn tell(&self) {
        fence(Ordering::SeqCst); // S3, W1
        if self.registry().places.counts().need_wake() {
            self.registry().wake_one(Waker::Busy);
        } else {
            self.wake_victim();
        }
    }

    /// Whether somebody would take a fork: a thread without work, or whoever waits for the fork that runs here.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        let registry = self.registry();
        registry.places.counts().asks(registry.is_resting()) || self.victim_waits()
    }

    /// Somebody would take a fork. If there is one, sees that it is to be had; if not, the next push is public. True: that.
    #[inline(never)]
    pub(crate) fn offer(&self, head: &Slot) -> bool {
        if !self.fork.has_work() {
            // A hint to this very thread.
            self.fork.request();
            return true;
        }
        if self.fork.is_asked() && !self.fork.has_public() {
            self.fork.answer(head, self.registry().places.counts().searching());
            self.tell();
        }
        false
    }

    /// If the fork that runs here was stolen from somebody who sleeps until it is done: what it forks is
    /// the victim's to help with (W1).
    fn wake_victim(&self) {
        let Some((slot, victim)) = self.served() else { return };
        if latch::is_asleep(&slot.done) {
            self.registry()
                .note_wake_of(victim, || self.registry().memories[victim].parker().unpark());
        }
    }

    /// The stolen fork that runs here, innermost, and whose it is.
    #[inline]
    fn served(&self) -> Option<(&Slot, usize)> {
        // SAFETY: on this thread's stack, beneath this frame.
        let serving = unsafe { self.owned.serving.get().as_ref() }?;
        // SAFETY: slots live as long as the pool (R1).
        Some((unsafe { &*serving.slot }, serving.victim))
    }

    /// After a pop that was not fast: true if the fork is the owner's, to be run in place. If it is to be
    /// recorded, then not: see [`WorkerMemory::take_recorded_pop`].
    #[cold]
    #[inline(never)]
    pub(crate) fn popped(&self, slot: &Slot) -> bool {
        let (followed, recorded) = (self.fork.is_followed(), self.lane.has_tasks());
        self.fork.unload(slot);
        if !followed && !recorded || self.fork.must_settle(slot) {
            if !self.regained(slot) {
                return false;
            }
        } else {
            self.unload(slot);
        }
        self.owned.recorded_pop.set(recorded);
        !recorded
    }

    /// Whether `popped` said no only to have the second half run out of line, where it is recorded.
    pub(crate) fn take_recorded_pop(&self) -> bool {
        self.owned.recorded_pop.take()
    }

    /// After a pop that was not fast: true if the fork is the owner's.
    #[cold]
    #[inline(never)]
    pub(crate) fn regained(&self, slot: &Slot) -> bool {
        let counts = self.registry().places.counts();
        // Whoever waits is no searcher, and helps all the same: with this very job, or with anything, and then it has asked.
        let asked = self.fork.is_asked();
        let wanted = counts.asks(self.registry().is_resting()) || self.victim_waits() || asked;
        let popped = self.fork.pop_slow(slot, wanted.then(|| counts.searching()));
        self.stay_attentive();
        if asked && !self.fork.has_public() {
            // It has had no answer.
            self.fork.request();
        }
        let owned = popped == Popped::Owned;
        if owned {
            self.unload(slot);
        }
        owned
    }

    /// Whether the fork that runs here was stolen from somebody who waits for it: a hint.
    #[inline]
    fn victim_waits(&self) -> bool {
        self.served().is_some_and(|(slot, _)| slot.is_awaited())
    }

    /// After the owner has lowered `limit`: raises it again if somebody still waits for work, and
    /// wakes somebody if there is some (S3). The raise may also have been the victim's (W1).
    pub(crate) fn stay_attentive(&self) {
        fence(Ordering::SeqCst); // S3, W1
        let counts = self.registry().places.counts();
        if self.must_heed() {
            // It has been told so by a request, which this pop may have overwritten: the next push sees to it.
            self.fork.request();
        }
        let asks = counts.asks(self.registry().is_resting());
        if !(asks || counts.interested() && self.victim_waits()) {
            self.wake_victim();
            return;
        }
        let public = self.fork.public();
        if public == 0 || public < counts.searching() || self.owned.spreads.get() > 0 {
            self.fork.request();
        } else if counts.need_wake() {
            self.registry().wake_one(Waker::Busy);
        }
    }

    /// Frees the slot of a fork whose thief is done.
    pub(crate) fn joined(&self, worker: &Worker, place: Option<Place>) {
        self.fork.reset(worker.slot());
        self.unload(worker.slot());
        if self.lane.is_on() {
            let place = place.map_or(0, recorder::number_of);
            self.lane.note(EventKind::Joined, place, fork_key(self, worker.slot()));
        }
        self.stay_attentive();
    }

    // --- what else follows forks: see `local::follow` ---

    /// Whether something has come to follow tasks, and forks here are not seen to yet.
    fn must_heed(&self) -> bool {
        local::is_followed() && !self.fork.is_followed()
    }

    /// From now on forks are seen to, if anything follows tasks. `head` is the first slot whose fork is not.
    pub(crate) fn heed_followers(&self, head: &Worker) {
        if self.must_heed() {
            self.fork.follow(head.slot());
            // That overwrites a request, perhaps one of this very thread, in the stead of sleepers that have asked nobody (S6).
            self.fork.request();
        }
    }

    /// Has the fork just pushed take along what follows it. No thief has it yet (I7 in `fork_stack`).
    fn load(&self, slot: &Slot) {
        // Should a follower fork, then not here, which would publish this fork too early.
        let hint = Worker::hint();
        Worker::set_hint(std::ptr::null());
        // Borrowed: a follower is being asked, and has this thread run what forks. Nothing follows that, and no thief has it: the
        // fork of which it is asked lies below, and would be had before (I7).
        if let Ok(mut captures) = self.owned.captures.try_borrow_mut() {
            let (at, context) = (self.fork.index_of(slot), self.owned.context.get());
            slot.fork().context.set(captures.push(at, context));
            self.fork.load(slot);
        }
        Worker::set_hint(hint);
    }

    /// Drops what forks from this slot on took along: they are over.
    pub(crate) fn unload(&self, slot: &Slot) {
        let at = self.fork.index_of(slot);
        loop {
            // Dropped when the list is not borrowed any more: it is the followers'.
            let over = self.owned.captures.try_borrow_mut().ok().and_then(|mut all| all.pop(at));
            if over.is_none() {
                return;
            }
        }
    }
}
