//! How a thread that searches leaves others alone (S5 of `places`): it looks for itself, and nobody tells it of forks.
//!
//! It *naps* once a search has been in vain: regions that are over before a sleeper would be awake need wake nobody, and thieves that go
//! to work need not look for those who sleep. A thief that has to do so again and again wakes somebody who naps instead, as long as
//! that is of use.
//!
//! It *rests* when what it comes for is not worth coming for: forks that are over in less time than it takes to steal them, or that
//! their owner has popped by the time that it answers. An owner that is asked has no fast path, and waits for its thief, which
//! makes a small join many times as long. So after some of them in a row the thief stays away, for ever longer up to a bound, until
//! what it gets is worth it again. A thread that waits, and helps its thief with nothing but such forks, rests likewise.

use std::cell::Cell;
use std::time::Duration;

use raddle_sync::atomic::Ordering;
use raddle_sync::time::Instant;
use raddle_trace::EventKind;

use crate::pool::policy::{
    GRACE, LOOKS, MANY_ENDED, MANY_RESTS, NAP, RESTS, SMALL_FORK, TOLERATED, TRIES,
};
use crate::pool::recorder::NOTHING;
use crate::pool::registry::Registry;
use crate::pool::worker_memory::{Hold, WorkerMemory};

/// What a thread has come for of late.
#[derive(Debug, Default)]
pub(crate) struct Rest {
    /// So many times in a row it was not worth it.
    worthless: Cell<u32>,
    /// So it was just now.
    due: Cell<bool>,
}

impl Rest {
    /// What it came for had been popped by its owner, or was over in no time. True: it rests before it comes again.
    pub(crate) fn note_worthless(&self) -> bool {
        self.worthless.set(self.worthless.get().saturating_add(1));
        self.due.set(self.worthless.get() > TOLERATED);
        self.is_due()
    }

    /// It has run a fork, since then.
    pub(crate) fn note_fork(&self, began: Instant) {
        if began.elapsed() < SMALL_FORK {
            self.note_worthless();
        } else {
            self.forget();
        }
    }

    /// It was worth it, or this is about something else.
    pub(crate) fn forget(&self) {
        self.worthless.set(0);
        self.due.set(false);
    }

    /// What the last note said.
    pub(crate) fn is_due(&self) -> bool {
        self.due.get()
    }

    /// Whether that has been so for long.
    fn is_long(&self) -> bool {
        self.worthless.get() > MANY_RESTS
    }

    /// For how long it rests now.
    fn take(&self) -> Duration {
        self.due.set(false);
        let doublings = self.worthless.get().saturating_sub(TOLERATED + 1).min(16);
        (RESTS.0 * (1 << doublings)).min(RESTS.1)
    }
}

impl Registry {
    /// Whether the napper, if there is one, rests: a hint.
    pub(crate) fn is_resting(&self) -> bool {
        self.resting.load(Ordering::Relaxed)
    }
}

/// When a thread has gone to work with nobody left to look on, and has looked for all of them (S1), which takes a heavy fence.
#[derive(Debug, Default)]
pub(crate) struct Looked {
    /// By the pool's clock.
    last: Cell<u64>,
    /// So many times, one soon after the other.
    times: Cell<u32>,
}

impl Looked {
    /// It is about to. True: it has done so again and again.
    fn note(&self, now: u64) -> bool {
        let soon = now.saturating_sub(self.last.replace(now)) < LOOKS.0.as_nanos() as u64;
        let times = if soon { self.times.get() + 1 } else { 1 };
        let often = times >= LOOKS.1;
        self.times.set(if often { 0 } else { times });
        often
    }
}

impl WorkerMemory {
    /// Whether somebody is to be woken to look on, since this thread has looked for all of them again and again.
    pub(super) fn wants_lookout(&self) -> bool {
        let registry = self.registry();
        let often = self.owned.looked.note(registry.now());
        if often {
            // ORD: a hint.
            registry.wants_lookout.store(true, Ordering::Relaxed);
        }
        often
    }

    /// By a thread that was woken: if it is to look on, it naps, however often that was in vain.
    pub(super) fn looks_out(&self) {
        let wanted = &self.registry().wants_lookout;
        // ORD: a hint.
        if wanted.load(Ordering::Relaxed) && wanted.swap(false, Ordering::Relaxed) {
            self.owned.napped_in_vain.set(0);
        }
    }

    /// Sleeps for short times and looks after each (S5): regions that are over before somebody who sleeps for good
    /// would be awake need not wake anybody, and those that last find somebody all the same. True: there is something to be
    /// seen to. False: it has been quiet for long, or there is a debt. Either way the worker counts as a searcher.
    pub(super) fn nap(&self) -> bool {
        let registry = self.registry();
        let drowsy = registry.config.policy.drowsy.min(registry.config.keep_alive);
        // Where there is one place only, nobody may help a guest.
        let may_help = registry.threads() > 1 && self.owned.napped_in_vain.get() < TRIES;
        if drowsy.is_zero() || !may_help || !registry.places.begin_nap(self.index) {
            return false;
        }
        registry.sign_off(self);
        self.owned.hold.set(Hold::None);
        self.lane.note(EventKind::Park, 0, NOTHING);
        self.affinity.note_away();
        let mut since = Instant::now();
        let mut visits = registry.visits();
        let visits_before = visits;
        let (mut ended, mut of_use) = (registry.progress(), false);
        let wanted = loop {
            let counts = registry.places.counts();
            if counts.napper() != Some(self.index) || self.is_over() {
                break true;
            }
            if counts.in_debt() {
                // Somebody else works in this place: it is given back.
                break false;
            }
            registry.make_way(self);
            if self.has_mail() || registry.visible_work() > 0 && self.work_lasts() {
                break true;
            }
            // Each of their thieves would have had to look for all.
            let ended_now = registry.progress();
            if ended_now.wrapping_sub(std::mem::replace(&mut ended, ended_now)) >= MANY_ENDED {
                (since, of_use) = (Instant::now(), true);
            }
            let visits_now = registry.visits();
            match visits_now.wrapping_sub(std::mem::replace(&mut visits, visits_now)) {
                0 => {}
                1 => since = Instant::now(),
                // Region after region: better met awake.
                _ => break true,
            }
            if registry.is_ending() || since.elapsed() >= drowsy {
                break false;
            }
            self.parker().nap(NAP);
        };
        let disturbed = !registry.places.end_nap(self.index);
        let in_vain = (disturbed || !wanted) && visits == visits_before && !of_use;
        let before = self.owned.napped_in_vain.get();
        self.owned.napped_in_vain.set(if in_vain { before.saturating_add(1) } else { 0 });
        self.owned.hold.set(Hold::Place);
        self.woken();
        wanted
    }

    /// Whether there is work a moment after a napper has seen some, or more has come meanwhile, or the next guest: to take part in a region
    /// that is about to end costs its owner more than it is worth.
    fn work_lasts(&self) -> bool {
        let registry = self.registry();
        let (since, visits) = (Instant::now(), registry.visits());
        // Not the last look alone: one loop after the other, each of two thirds of that time, is seen in its first half only.
        let mut gone = false;
        loop {
            self.pause();
            if registry.places.counts().napper() != Some(self.index) {
                return true;
            }
            let visible = registry.visible_work() > 0;
            if gone && visible {
                return true;
            }
            gone |= !visible;
            if since.elapsed() >= GRACE {
                return visible || visits != registry.visits();
            }
        }
    }

    /// Leaves owners alone for a while, if no other thread looks on meanwhile. It counts as a searcher before and after. False: one
    /// does, and has for long, so this thread may as well sleep.
    pub(super) fn rest(&self) -> bool {
        let registry = self.registry();
        // What is to be hot does not nap.
        let long = self.owned.rest.is_long() && registry.config.spin_for.is_none();
        if !registry.places.begin_nap(self.index) {
            if !long {
                self.owned.rest.take();
            }
            return !long;
        }
        let time = self.owned.rest.take();
        // ORD: hints, here and below: to ask a thread that rests, or not to ask one that naps, does no harm.
        registry.resting.store(true, Ordering::Relaxed);
        if long {
            self.lane.note(EventKind::Park, 0, NOTHING);
            self.affinity.note_away();
            registry.make_way(self);
        }
        let since = Instant::now();
        loop {
            let counts = registry.places.counts();
            if counts.napper() != Some(self.index) {
                break;
            }
            let goes_on = counts.in_debt() || self.has_mail() || registry.is_ending();
            if goes_on || since.elapsed() >= time {
                registry.places.end_nap(self.index);
                break;
            }
            if long {
                self.parker().nap(NAP);
            } else {
                self.pause();
            }
        }
        registry.resting.store(false, Ordering::Relaxed);
        if long {
            self.woken();
        } else {
            // Whoever has ended the rest has not woken it.
            self.roused_at.store(0, Ordering::Relaxed);
        }
        true
    }

    /// As `rest`, of a thread that waits, and looks whether it still does.
    pub(super) fn rest_while(&self, waits: impl Fn() -> bool) {
        let (since, time) = (Instant::now(), self.owned.rest.take());
        while waits() && since.elapsed() < time {
            self.pause();
        }
    }
}
