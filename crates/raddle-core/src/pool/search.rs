//! The life of a thread of the pool: it looks for work, runs it, sleeps.

use std::time::Duration;

use raddle_sync::time::Instant;

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::{hint, stack, strand, thread};
use raddle_trace::EventKind;

use crate::places::Look;
use crate::pool::Work;
use crate::pool::policy::{LAST_ROOM, MOST_ROOM};
use crate::pool::recorder::NOTHING;
use crate::pool::registry::Waker;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::{Hold, WorkerMemory};
use crate::queue::NOBODY;

/// What a thread of the pool comes for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Comes {
    /// The pool begins with it: for nothing in particular.
    First,
    /// There is work, for which it was claimed.
    Claimed,
    /// The pool has ended: for what exit hooks of others fork, and for mail.
    Late,
}

/// How a sleep ended.
enum Slept {
    /// The worker was claimed, or has found work, or is to look: it counts as a searcher.
    Searching,
    /// The thread is to leave the pool.
    Leaves,
}

impl WorkerMemory {
    // --- coming and going ---

    /// The life of a thread of the pool: it counts as a searcher. One that comes late calls no hooks: else two might start each other
    /// for ever.
    pub(crate) fn main(&self, comes: Comes) {
        let late = comes == Comes::Late;
        self.owned.hold.set(Hold::Place);
        self.owned.late.set(late);
        // S6: its memory may be one that was left with a low limit.
        self.fork.request();
        self.set_room();
        self.owned.rest.forget();
        self.looks_out();
        self.affinity.adopt();
        Worker::occupy(self);
        let current = self.base().enter();
        self.heed_followers(self.base());
        self.lane.note(EventKind::WorkerSpawn, self.index, NOTHING);
        let config = &self.registry().config;
        let searching = match &config.seats {
            Some(seats) => {
                seats.start(self);
                true
            }
            None => self.call_start_hook(late),
        };
        self.work(searching, comes);
        match &config.seats {
            // Those who stand in have none.
            Some(seats) if self.index < self.registry().threads() && seats.has_exit() => {
                self.call_exit_hook(|| seats.exit(self))
            }
            None if !late && config.thread_hooks.has_exit() => {
                self.call_exit_hook(|| config.thread_hooks.exit());
            }
            _ if self.owned.hold.get() == Hold::Place => self.give_place_back(),
            _ => {}
        }
        self.lane.note(EventKind::WorkerDie, self.index, NOTHING);
        drop(current);
        Worker::vacate(self);
        self.owned.hold.set(Hold::None);
    }

    /// A hook may take its time, or wait, and others are to be woken meanwhile: the thread does not search. True: it counts as a
    /// searcher, as before.
    fn call_start_hook(&self, late: bool) -> bool {
        let registry = self.registry();
        let hooks = &registry.config.thread_hooks;
        if !hooks.has_start() {
            return true;
        }
        self.hand_on();
        if !late {
            // The pool may have ended just now, and the hook wait for others.
            let _late = registry.keep_open();
            hooks.start();
        }
        self.entries.settle();
        registry.places.try_search(registry.search_cap())
    }

    /// A hook may fork, and wait, as a task: with a place, which others have while it waits. And it counts as one: the pool does not
    /// end before, unless it has.
    fn call_exit_hook(&self, hook: impl FnOnce()) {
        let registry = self.registry();
        self.entries.queue();
        if self.owned.hold.replace(Hold::Place) == Hold::None {
            registry.places.take();
            self.comes();
        }
        let late = registry.keep_open();
        hook();
        self.give_place_back();
        self.entries.settle();
        registry.end_if_done();
        drop(late);
    }

    /// As the thread leaves. Whoever is in an exit hook yet may need the place.
    fn give_place_back(&self) {
        let registry = self.registry();
        registry.sign_off(self);
        self.owned.hold.set(Hold::None);
        registry.places.release(&registry.crew(Waker::Idle));
    }

    /// Whether the pool needs this thread no more.
    pub(super) fn is_over(&self) -> bool {
        let registry = self.registry();
        if self.owned.late.get() { registry.is_over() } else { registry.ended() }
    }

    /// A guest takes this worker memory and a place, in the context it has.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn guest_arrives(&self, context: usize) {
        self.owned.context.set(context);
        self.owned.hold.set(Hold::Place);
        self.set_room();
        self.affinity.note_here();
        self.owned.looks.forget();
        Worker::occupy(self);
        self.heed_followers(self.base());
        self.comes();
    }

    /// The thread has taken a place: its first fork tells sleepers, who may have asked nobody (`Look::Near`), and is there for those
    /// that search. A napper looks for itself (S5).
    pub(crate) fn comes(&self) {
        fence(Ordering::SeqCst); // S6
        let counts = self.registry().places.counts();
        if counts.searching() > 0 || counts.napper().is_none() {
            self.fork.request();
        }
    }

    /// A search has found something. If nobody else holds a place, nobody has asked for this worker's forks (S6).
    pub(crate) fn hand_on(&self) {
        if self.registry().hand_on(Waker::Busy, || self.wants_lookout()) == Look::Near {
            self.fork.request();
        }
    }

    /// The guest goes; what it spawned stays.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn guest_leaves(&self) {
        self.unload(self.base().slot());
        if self.ring.has_work() {
            self.registry().inject_again(self.ring.drain());
        }
        self.ring.give_back();
        Worker::vacate(self);
        self.affinity.note_away();
        // Now that its memory is at hand: so that the next guest's first fork need not.
        self.fork.relax();
        if self.owned.hold.replace(Hold::None) == Hold::Place {
            let registry = self.registry();
            registry.sign_off(self);
            registry.places.release(&registry.crew(Waker::Idle));
        }
    }

    pub(super) fn set_room(&self) {
        self.owned.room.set((stack::remaining() / 4).min(MOST_ROOM));
    }

    /// Whether the stack has room for more than what the thread has to do anyway.
    pub(crate) fn has_room(&self) -> bool {
        stack::remaining() > self.owned.room.get()
    }

    /// As `has_room`, for a task. A guest may have come with less stack than tasks count on, so others run them if they can.
    pub(crate) fn fits_task(&self) -> bool {
        let fits = || stack::remaining() > LAST_ROOM || !self.registry().is_guest(self.index);
        self.has_room() && (fits() || self.registry().has_nobody_else())
    }

    // --- the loop ---

    /// Works until the pool ends, or until there has been nothing to do for long.
    fn work(&self, mut searching: bool, comes: Comes) {
        let registry = self.registry();
        // What runs here is not taken for whoever holds what an earlier task, or the thread's owner, has not let go of.
        let mut strand = strand::enter_foreign();
        // When the search began that has found nothing so far.
        let mut since: Option<Instant> = None;
        // What for, if it has just come, or been claimed.
        let mut comes = Some(comes);
        // It has been found a place for what is to be seen, and has not found it yet.
        let mut woken = true;
        // What is run when the pool has ended, which it may any moment when it is ending, may wait for others as a hook may.
        let mut late = None;
        while !self.is_over() {
            let counts = registry.places.counts();
            let in_debt = counts.in_debt();
            // Of those that the pool begins with some leave their places to guests, but no more than guests are there.
            let claimed = comes
                .take()
                .is_some_and(|comes| comes != Comes::First || counts.free_or_less() > 0);
            let work = if in_debt { self.find_in_debt(claimed) } else { self.find_any(searching) };
            if let Some(work) = work {
                // To hand on takes its time.
                let late_find = since.is_some_and(|since| since.elapsed() > registry.sure());
                if searching {
                    self.hand_on();
                }
                let for_a_fork = std::mem::take(&mut woken) && matches!(work, Work::Fork { .. });
                self.owned.spreads.set(if for_a_fork { registry.spreads() } else { 0 });
                if self.owned.spreads.get() > 0 {
                    // A hint to this very thread: its first push.
                    self.fork.request();
                }
                self.owned.fruitless.set(false);
                if late_find {
                    self.owned.bets_lost.set(0);
                }
                if late.is_none() && registry.is_ending() {
                    late = Some(registry.keep_open());
                }
                searching = self.run(work);
                strand.renew();
                since = None;
                if !(searching && self.owned.rest.is_due()) || self.rest() {
                    continue;
                }
            }
            late = None;
            // Else it would search first, though nobody is to come: whoever falls asleep ends the pool.
            if since.is_none() && registry.is_ending() {
                registry.end_if_done();
                if self.is_over() {
                    break;
                }
            }
            if !in_debt {
                if since.is_none() {
                    self.lane.note(EventKind::Search, 0, NOTHING);
                }
                if !searching {
                    searching = registry.places.try_search(registry.linger_cap());
                }
                if searching && since.get_or_insert_with(Instant::now).elapsed() < self.patience() {
                    if !self.owned.rest.is_due() {
                        self.pause();
                        continue;
                    }
                    if self.rest() {
                        since = None;
                        continue;
                    }
                }
            }
            self.owned.purse.turn_to(NOBODY);
            // A search that follows one in vain is no bet.
            if !self.owned.fruitless.replace(true) && !in_debt && since.is_some() {
                self.owned.bets_lost.set(self.owned.bets_lost.get().wrapping_add(1));
            }
            let napped = searching && !in_debt && self.nap();
            match if napped { Slept::Searching } else { self.sleep(searching) } {
                Slept::Searching => registry.pass_on(),
                Slept::Leaves => return,
            }
            self.owned.rest.forget();
            woken = !napped;
            if woken {
                self.looks_out();
            }
            // S6: nobody may have asked it while it slept.
            self.fork.request();
            searching = true;
            since = None;
            comes = Some(Comes::Claimed);
        }
        if searching {
            self.hand_on();
        }
        // Of a hook's.
        while let Some(mail) = self.open_mail() {
            late.get_or_insert_with(|| registry.keep_open());
            self.run(mail);
            strand.renew();
        }
        drop(late);
        // What is in hand of a scope would hold up a thread's hook.
        self.owned.purse.turn_to(NOBODY);
    }

    fn patience(&self) -> Duration {
        let registry = self.registry();
        let time = registry.patience(self.owned.fruitless.get(), self.owned.bets_lost.get());
        // Whoever falls asleep ends the pool.
        let least = registry.config.spin_for.filter(|_| !registry.is_ending());
        time.max(least.unwrap_or_default())
    }

    /// A moment of a search. Where callers from outside are threads beside the pool's, and may have just been woken, their
    /// processor is not kept from them.
    pub(crate) fn pause(&self) {
        let registry = self.registry();
        if registry.oversubscribed || registry.is_seated() {
            thread::yield_now();
        } else {
            hint::spin_loop();
        }
    }

    /// The thread is awake again.
    pub(super) fn woken(&self) {
        self.lane.note(EventKind::Unparked, 0, NOTHING);
        self.affinity.release();
        // ORD: written before the token that woke us.
        let roused_at = self.roused_at.swap(0, Ordering::Relaxed);
        if roused_at != 0 {
            self.registry().note_wake(roused_at);
        }
    }

    /// Gives the place away, and sleeps until claimed.
    fn sleep(&self, mut searching: bool) -> Slept {
        let registry = self.registry();
        if self.ring.keeps_much() {
            // Meanwhile another searches.
            if std::mem::take(&mut searching) {
                self.hand_on();
            }
            self.ring.give_back();
        }
        registry.sign_off(self);
        self.owned.hold.set(Hold::None);
        self.affinity.lie_down();
        let crew = registry.crew(Waker::Idle);
        let awake = registry.places.fall_asleep(&crew, self.index, searching);
        if awake || self.mail.wakes(&registry.places, self.index) {
            self.owned.hold.set(Hold::Place);
            self.affinity.release();
            return Slept::Searching;
        }
        registry.places.recall(&crew);
        registry.end_if_done();
        self.lane.note(EventKind::Park, 0, NOTHING);
        let (since, visits) = (Instant::now(), registry.visits());
        let slept = loop {
            let awake = !registry.places.parked.has(self.index);
            if awake || self.mail.wakes(&registry.places, self.index) {
                break Slept::Searching;
            }
            let late = self.is_over() || !self.parker().park_timeout(registry.config.keep_alive);
            if late && registry.places.parked.take(self.index) {
                break Slept::Leaves;
            }
        };
        if registry.visits() != visits && since.elapsed() < registry.config.policy.drowsy {
            self.owned.napped_in_vain.set(0);
        }
        self.woken();
        if matches!(slept, Slept::Searching) {
            self.owned.hold.set(Hold::Place);
        }
        slept
    }
}
