//! Who is woken, or started, for work that is to be seen: what `places` asks of a pool.

use std::time::Duration;

use raddle_sync::atomic::Ordering;

use crate::places::Look;
use crate::pool::crew::WokenBy;
use crate::pool::policy::{LONGEST_WAKE, Policy, Who};
use crate::pool::registry::{PAUSE, Registry, Waker};
use crate::pool::worker::Worker;

impl Registry {
    /// Gives a parked worker that was claimed its token (P2).
    pub(super) fn rouse(&self, worker: usize, waker: Waker) {
        let memory = &self.memories[worker];
        let wake = || {
            // ORD: read by the woken worker after its token.
            memory.roused_at.store(self.now().max(1), Ordering::Relaxed);
            memory.parker().unpark();
        };
        if waker == Waker::Busy && self.awake() <= self.processors {
            memory.affinity.wake(wake);
        } else {
            wake();
        }
    }

    /// How many places are in use, those just claimed included.
    fn awake(&self) -> usize {
        let counts = self.places.counts();
        let idle = counts.idle() + i64::from(counts.napper().is_some());
        (self.threads() as i64 - idle).max(0) as usize
    }

    /// The crew, to be woken by such a thread.
    pub(crate) fn crew(&self, waker: Waker) -> WokenBy<'_> {
        WokenBy { registry: self, waker }
    }

    /// After work was made visible and a fence: wakes a sleeper if nobody searches.
    #[inline]
    pub(crate) fn wake_if_needed(&self, waker: Waker) {
        self.places.wake_if_needed(&self.crew(waker));
    }

    /// Sees that somebody uses a free place, if there is one.
    #[cold]
    pub(crate) fn wake_one(&self, waker: Waker) {
        self.places.wake_one(&self.crew(waker));
    }

    /// Whether the system has refused a thread just now.
    pub(crate) fn is_refused(&self) -> bool {
        // ORD: a hint.
        self.now() < self.refusal.until.load(Ordering::Relaxed)
    }

    /// Whether a thread may be asked for. Not in the child of a fork, where it would run the parent's tasks once more.
    pub(super) fn may_start(&self) -> bool {
        !self.is_over() && !self.is_refused() && !self.is_forked()
    }

    /// Starts a thread for a claimed place. False: there is none to be had.
    pub(super) fn start_one(&self) -> bool {
        if !self.may_start() {
            return false;
        }
        let Some(worker) = self.places.vacant.take_lowest() else { return false };
        if let Err(error) = Worker::upright(|| self.start(worker)) {
            self.places.vacant.set(worker);
            let pause = (2 * self.refusal.pause.load(Ordering::Relaxed)).clamp(PAUSE.0, PAUSE.1);
            self.refusal.pause.store(pause, Ordering::Relaxed);
            self.refusal.until.store(self.now() + pause, Ordering::Relaxed);
            self.stats.refuse(&error);
            self.see_to_mail_later(worker, Duration::from_nanos(pause));
            return false;
        }
        // ORD: a hint.
        self.refusal.pause.store(0, Ordering::Relaxed);
        true
    }

    /// Places that nobody was found for are free again, if the system may be asked for threads again.
    #[inline]
    pub(crate) fn retry(&self) {
        // ORD: hints.
        if self.places.has_stranded() && self.may_start() {
            self.places.recall(&self.crew(Waker::Idle));
        }
    }

    /// How much work is to be seen, counted up to as many as one wakes at a time: all tasks, and of each thread's forks that there
    /// are some, as only the thread knows how many.
    #[cfg_attr(target_os = "linux", unsafe(link_section = "raddle_enter"))]
    pub(crate) fn visible_work(&self) -> usize {
        let most = self.config.policy.fan_out.max(1);
        let mut seen = self.injector.len();
        for memory in self.memories.iter() {
            if seen >= most {
                break;
            }
            seen += memory.ring.len() + usize::from(memory.fork.has_work());
        }
        seen.min(most)
    }

    /// Steps 2 to 4 of S1. True: there is work.
    #[cold]
    pub(crate) fn look_around(&self) -> bool {
        self.stats.looks.add();
        for memory in self.memories.iter() {
            memory.fork.request();
        }
        raddle_sync::fence::heavy();
        self.visible_work() > 0
    }

    /// A thief has found work and stops searching: sees to a successor. Where none is needed for what is to be seen, it looks for all,
    /// or wakes one all the same if it `wants_lookout`.
    pub(crate) fn hand_on(&self, waker: Waker, wants_lookout: impl FnOnce() -> bool) -> Look {
        let look = self.places.stop_search();
        let counts = self.places.counts();
        if counts.free() == counts.searching() {
            return look;
        }
        let mut wakes = self.visible_work();
        if wakes == 0 && look == Look::Far {
            if wants_lookout() {
                self.wake_one(waker);
                return look;
            }
            wakes = usize::from(self.look_around());
        }
        self.wake_some(wakes, waker);
        look
    }

    /// A worker that was woken sees to others first, if that is the policy.
    pub(crate) fn pass_on(&self) {
        if self.config.policy.who == Who::Woken && self.places.counts().idle() > 0 {
            self.wake_some(self.visible_work(), Waker::Busy);
        }
    }

    /// Several at a time make the ramp-up a tree.
    fn wake_some(&self, visible: usize, waker: Waker) {
        for _ in 0..self.config.policy.wakes(self.threads(), visible) {
            if self.places.counts().searching() < self.search_cap() {
                self.wake_one(waker);
            }
        }
    }

    /// Of how many forks a thread that was woken for one has one more woken each.
    pub(crate) fn spreads(&self) -> usize {
        let spreads = self.config.policy.spreads(self.threads());
        if spreads > 0 && self.has_use_for_more() { spreads } else { 0 }
    }

    /// Whether there is somebody to be woken who would have a processor.
    pub(crate) fn has_use_for_more(&self) -> bool {
        self.places.counts().idle() > 0 && self.awake() < self.processors
    }

    /// The most workers that may search at a time, for one that is to be woken.
    pub(crate) fn search_cap(&self) -> usize {
        self.cap(Policy::search_cap)
    }

    /// As `search_cap`, for a worker that has just worked.
    pub(crate) fn linger_cap(&self) -> usize {
        self.cap(Policy::linger_cap)
    }

    fn cap(&self, by: impl Fn(&Policy, usize, usize) -> usize) -> usize {
        if self.config.spin_for.is_some() {
            // All are to be hot.
            return self.threads();
        }
        let cap = by(&self.config.policy, self.threads(), self.places.counts().free());
        // A caller from outside needs two: one for the call, and one for what it forks.
        if self.is_seated() { cap.max(2) } else { cap }
    }

    /// How long a search may spin before the worker sleeps: [`Policy::patience`](crate::pool::policy::Policy::patience).
    pub(crate) fn patience(&self, fruitless: bool, lost: u32) -> Duration {
        self.config.policy.patience(self.wake_cost(), fruitless, lost)
    }

    /// How much of a search is no bet.
    pub(crate) fn sure(&self) -> Duration {
        self.config.policy.sure(self.wake_cost())
    }

    fn wake_cost(&self) -> Duration {
        // ORD: a statistic.
        Duration::from_nanos(self.wake_cost.load(Ordering::Relaxed))
    }

    pub(crate) fn note_wake(&self, roused_at: u64) {
        // A wake of milliseconds is of a processor that others had: it says nothing about the next.
        let took = self.now().saturating_sub(roused_at).min(LONGEST_WAKE.as_nanos() as u64);
        let before = self.wake_cost.load(Ordering::Relaxed);
        // ORD: a statistic; a lost update does no harm.
        self.wake_cost.store(before - before / 8 + took / 8, Ordering::Relaxed);
    }
}
