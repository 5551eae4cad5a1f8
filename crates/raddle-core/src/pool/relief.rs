//! Relief for a pool that stands still beside work that is queued.
//!
//! Where as many threads wait as there may be, one of them takes on what is queued: it is a *host*. What it takes on may wait for
//! what lies beneath, so only once nobody works, nobody is about to wake up and no task has ended for a while. (As long as somebody
//! works, the others may wait for that: it is left alone, unless no task ends for very long. A task may wait for what is
//! queued in a way that nobody sees.) Then the pool may ask a host, next time two more, and so on.
//!
//! Not all who wait can be hosts: not whoever waits for a lock, or runs low on stack. And what is queued may be what a host would
//! wait for, or lie beneath the tasks of whoever works. So if there is work that nobody may take for longer, the pool gets threads
//! beyond those it should have: rather that than a program that hangs. (Where what is queued longest changes somebody does take it:
//! a long queue is no reason; nor is one of which hosts take.) Where a thread waits for a lock, or is within `blocking`, nobody sees
//! what lies beneath others that it waits for (a host would take on one more that wants the lock, and then whoever has it may wait
//! for what lies beneath that host): so threads come before hosts. Soon, too: where it is a lock, once nobody works; where it is
//! `blocking`, unless somebody has asked for the cap, so that not too many are. And so it is, with the cap that a pool has of itself, where
//! nobody works and more than three quarters of those that could be hosts wait for tasks: what one takes on may wait for a task that lies
//! beneath it, so that its thread waits for itself. (A promise says nothing of who keeps it: of those who wait for one nobody knows. Where
//! many do, hosts come first, as they may be what keeps it.) And where there are but threads that look again and again whether something
//! has come, and yield in between, and none that could be a host.
//! (Such threads do not count as those that work, but one does that has had a processor in between for more than it takes to look.)
//!
//! Where the system has refused threads, it is asked again: by whoever next queues work or comes as a guest, or by the timer. If
//! that has got no thread either, and the pool's own have left, what is queued stays so until then.

use std::time::Duration;

use raddle_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use raddle_sync::time::Instant;

use crate::pool::builder::Waits;
use crate::pool::registry::{Registry, Waker};
use crate::pool::wait::Goal;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;
use crate::pool::yields::Seen;
use crate::timer;

/// For so long no task ends in a pool that stands still.
pub(crate) const STILL: Duration = Duration::from_millis(10);
/// At so many looks in a row nobody works, nor has a task ended, before a host is asked: a tenth of a second. A thread that has
/// been woken may take that long to run, where many want the processors. Or there is work that nobody may take, before there are
/// more threads than there should be: where hosts are there, and one waits for a lock, or is within `blocking` and nobody has asked
/// for the cap; or where those who work only yield.
const RATHER_STILL: usize = if cfg!(raddle_shuttle) { 2 } else { 10 };
/// The same where it is not so; or no task has ended, before a host is asked though somebody
/// works: three seconds. What all wait for may come from outside.
const VERY_STILL: usize = if cfg!(raddle_shuttle) { 4 } else { 300 };
/// Stands for as many where nobody looks, and no further thread comes.
const UNSEEN: usize = usize::MAX / 2;
/// After so long without a look, or a host, it is another stillness.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// So many threads more there may be, as a multiple of the spare ones, and at most.
const RESERVE: usize = 15;
pub(crate) const MOST_RESERVE: usize = 4096;

/// What a thread that could be a host sleeps for: a future that comes of a task; something else. Or there is no such thread.
const NOTHING: u8 = 0;
const TASK: u8 = 1;
const OTHER: u8 = 2;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Relief {
    /// A look at the pool is due.
    due: AtomicBool,
    /// At how many looks in a row nothing has ended.
    still: AtomicUsize,
    /// How many hosts may be asked.
    credit: AtomicUsize,
    /// How many there were granted last.
    step: AtomicUsize,
    /// How many threads there may be beyond the spare ones.
    granted: AtomicUsize,
    /// At how many looks in a row there was work that nobody might take.
    short: AtomicUsize,
    /// At how many looks there was such work since somebody might.
    full: AtomicUsize,
    /// At how many looks in a row nobody worked but who polls.
    quiet: AtomicUsize,
    /// Some poll, and nobody waits that could be a host; nor has anybody asked for the cap.
    polled: AtomicBool,
    /// What had been queued longest at the last look.
    first: AtomicUsize,
    /// How much hosts had taken on by then.
    hosted: AtomicU64,
    /// When the last look was, by the pool's clock.
    looked_at: AtomicU64,
    /// When hosts were granted last.
    granted_at: AtomicU64,
    /// When a wait with a limit has last seen for long that nobody comes, if ever.
    in_vain_at: AtomicU64,
}

fn is_forgotten(then: u64, now: u64) -> bool {
    now.saturating_sub(then) > FORGOTTEN.as_nanos() as u64
}

impl Relief {
    /// The most threads that it grants to a pool with so many spare ones.
    pub(crate) fn most(spares: usize) -> usize {
        (spares * RESERVE).min(MOST_RESERVE)
    }

    /// Whether all of those have been granted.
    fn is_spent(&self, spares: usize) -> bool {
        self.granted() >= Relief::most(spares)
    }

    pub(crate) fn granted(&self) -> usize {
        // ORD: a hint.
        self.granted.load(Ordering::Relaxed)
    }

    /// A host is asked.
    pub(crate) fn spend(&self) {
        // ORD: a count; one too many does no harm.
        let _ =
            self.credit.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |n| n.checked_sub(1));
    }
}

impl Registry {
    /// Whether a host may be asked: see the module.
    pub(crate) fn may_host(&self) -> bool {
        self.config.waits == Waits::Host
            || self.config.spares == 0
            || self.is_refused()
            // ORD: ordered by the SeqCst fences of `strand` and `recall` (S4).
            || self.relief.credit.load(Ordering::Relaxed) > 0 && !self.is_left_to_others()
    }

    /// Whether others may wait for somebody who works, or is about to wake up; or hosts wait for threads, of which more are to come.
    fn is_left_to_others(&self) -> bool {
        // ORD: hints.
        let still = self.relief.still.load(Ordering::Relaxed);
        let polled = || self.relief.polled.load(Ordering::Relaxed);
        let unseen = || {
            self.places.wants_locks()
                || self.places.has_away()
                || polled()
                || self.tasks_are_awaited()
        };
        let comes = || !self.relief.is_spent(self.config.spares) && unseen();
        still < UNSEEN && (self.somebody_works() || comes())
    }

    /// Whether somebody works, and that is not in doubt.
    fn somebody_works(&self) -> bool {
        // ORD: a hint.
        let still = self.relief.still.load(Ordering::Relaxed);
        let stands = still >= VERY_STILL && !self.is_forgotten();
        !stands && !self.only_polls() && self.goes_on()
    }

    /// Whether the last look was so long ago that it says nothing any more.
    fn is_forgotten(&self) -> bool {
        // ORD: a hint.
        is_forgotten(self.relief.looked_at.load(Ordering::Relaxed), self.now())
    }

    /// Whether somebody works, or is about to wake up, or has just given its turn to others.
    fn goes_on(&self) -> bool {
        let now = self.now();
        let naps = |memory: &WorkerMemory| memory.poller.seen(now) == Seen::NapsAndWorks;
        let goes_on = |memory: &WorkerMemory| memory.wakes_up() || naps(memory);
        self.places.working() > 0 || self.memories.iter().any(goes_on)
    }

    /// Whether whoever does has only yielded again and again for long.
    fn only_polls(&self) -> bool {
        self.relief.quiet.load(Ordering::Relaxed) >= RATHER_STILL && !self.is_forgotten()
    }

    /// Looks who works. No snapshot: those who poll come and go meanwhile, so one look says little.
    fn look_who_polls(&self) {
        let working = self.places.working();
        let now = self.now();
        let (mut polls, mut in_place, mut others) = (false, 0, false);
        for memory in self.memories.iter() {
            let seen = memory.poller.seen(now);
            polls |= matches!(seen, Seen::Polls | Seen::Naps);
            in_place += usize::from(seen == Seen::Polls);
            others |= seen == Seen::NapsAndWorks || seen == Seen::Other && memory.wakes_up();
        }
        // ORD: hints, here and below.
        if polls && !others && working <= in_place {
            self.relief.quiet.fetch_add(1, Ordering::Relaxed);
        } else {
            self.relief.quiet.store(0, Ordering::Relaxed);
        }
        // What they wait for nobody sees.
        let unseen = polls && !self.config.spares_asked && self.places.hosts.len() == 0;
        self.relief.polled.store(unseen, Ordering::Relaxed);
    }

    /// Whether nobody has asked for the cap, and more than three quarters of those that could be hosts wait for tasks: see the module.
    fn tasks_are_awaited(&self) -> bool {
        if self.config.spares_asked {
            return false;
        }
        let (mut tasks, mut all) = (0, 0);
        for memory in self.memories.iter() {
            // ORD: a hint.
            let sleeps_for = memory.sleeps_for.load(Ordering::Relaxed);
            all += usize::from(sleeps_for != NOTHING);
            tasks += usize::from(sleeps_for == TASK);
        }
        // One may wait for all that it has spawned.
        tasks > 1 && tasks * 4 > all * 3
    }

    /// A thread has waited in vain for long: see `vain`.
    pub(crate) fn note_vain_wait(&self) {
        // ORD: a hint, here and below.
        self.relief.in_vain_at.store(self.now().max(1), Ordering::Relaxed);
    }

    /// Whether one has of late.
    pub(crate) fn waits_are_in_vain(&self) -> bool {
        let at = self.relief.in_vain_at.load(Ordering::Relaxed);
        at != 0 && !is_forgotten(at, self.now())
    }

    /// What a host has taken on is over, so no harm was done: the next may be asked at once. Where hosts need no credit
    /// nothing is written, as every wait comes here.
    pub(crate) fn renew_credit(&self) {
        if self.config.waits == Waits::Substitute {
            // ORD: a hint, before the host gives its place back, which has a fence.
            self.relief.credit.fetch_max(1, Ordering::Relaxed);
        }
    }

    /// Places are stranded: looks after a while whether the pool stands still.
    pub(crate) fn expect_relief(&self) {
        // ORD: a flag; what it guards is looked at anew.
        if self.is_forked() || self.relief.due.swap(true, Ordering::SeqCst) {
            return;
        }
        let (me, settled) = (self.weak(), self.settled());
        let look = move || {
            if let Some(registry) = me.upgrade() {
                registry.relieve(settled);
            }
        };
        match Worker::upright(|| timer::at(Instant::now() + STILL, look)) {
            Ok(timeout) => timeout.detach(),
            // No thread for the timer: the next host may be asked, as nobody else may come.
            Err(_) => {
                self.relief.still.store(UNSEEN, Ordering::Relaxed);
                self.relief.credit.fetch_add(1, Ordering::SeqCst);
                self.relief.due.store(false, Ordering::SeqCst);
                if self.places.hosts.len() > 0 {
                    // Whoever has just given its place away may not be one, and so asks none.
                    self.places.recall(&self.crew(Waker::Idle));
                }
            }
        }
    }

    fn relieve(&self, settled: usize) {
        self.relief.due.store(false, Ordering::SeqCst);
        if self.is_over() {
            return;
        }
        if self.is_forgotten() {
            // ORD: hints, here and below.
            self.relief.still.store(0, Ordering::Relaxed);
            self.relief.short.store(0, Ordering::Relaxed);
            self.relief.full.store(0, Ordering::Relaxed);
            self.relief.quiet.store(0, Ordering::Relaxed);
        }
        // After what that has ended.
        self.relief.looked_at.store(self.now(), Ordering::Relaxed);
        if self.settled() != settled {
            self.relief.still.store(0, Ordering::Relaxed);
            self.relief.credit.fetch_min(1, Ordering::SeqCst);
        }
        let first = self.injector.first();
        let last = self.relief.first.swap(first, Ordering::Relaxed);
        // With nothing there what stands still lies elsewhere.
        let moved = first != 0 && last != 0 && first != last;
        let hosted = self.stats.hosted();
        let hosts = self.relief.hosted.swap(hosted, Ordering::Relaxed) != hosted;
        self.look_who_polls();
        let full = self.places.vacant.len() == 0;
        if moved || hosts || !full {
            // What is queued is taken, if later than one would like; or may be.
            self.relief.short.store(0, Ordering::Relaxed);
        }
        if !full {
            self.relief.full.store(0, Ordering::Relaxed);
        }
        if full && self.places.has_stranded() {
            self.relieve_stranded();
        } // Else a thread from outside just happens to try whether there is a taker for what it brings.
        // If nobody is found again, relief is expected again.
        self.places.recall(&self.crew(Waker::Idle));
    }

    /// There is work, nobody may take it, and there is no memory for a further thread.
    fn relieve_stranded(&self) {
        let mut still = self.relief.still.fetch_add(1, Ordering::Relaxed) + 1;
        let short = self.relief.short.fetch_add(1, Ordering::Relaxed) + 1;
        let full = self.relief.full.fetch_add(1, Ordering::Relaxed) + 1;
        if full % RATHER_STILL == 0 && !self.is_seated() {
            // Where it is seen whether it moves: others may be taking it, one after the other, from a thread that waits. Though what
            // is queued moves, too: that may be what comes and goes from outside.
            self.empty_rings();
        }
        // Whoever works may be about to release the lock, or at the task.
        let expected = self.places.wants_locks() || self.tasks_are_awaited();
        let unseen = expected && !self.somebody_works()
            || !self.config.spares_asked && self.places.has_away();
        let instead = unseen && self.places.hosts.len() > 0;
        let polled = self.only_polls() && self.relief.polled.load(Ordering::Relaxed);
        let soon = short.min(still) >= RATHER_STILL && (instead || polled);
        // Whatever ends is of no help to whoever waits for that, in the long run.
        let late = short >= VERY_STILL;
        if (soon || late) && self.grant_threads() {
            return;
        }
        if late {
            still = VERY_STILL;
            self.relief.still.store(still, Ordering::Relaxed);
        }
        if still >= RATHER_STILL && !self.is_left_to_others() {
            self.grant_hosts();
        }
    }

    /// One host may be asked, then two more, and so on, though something ends in between: each may end a little and then wait,
    /// too. Not by two at a time: one look is due.
    fn grant_hosts(&self) {
        let now = self.now();
        let last = self.relief.granted_at.swap(now, Ordering::Relaxed);
        let before =
            if is_forgotten(last, now) { 0 } else { self.relief.step.load(Ordering::Relaxed) };
        let step = (2 * before).clamp(1, MOST_RESERVE);
        self.relief.step.store(step, Ordering::Relaxed);
        self.relief.credit.fetch_add(step, Ordering::Relaxed);
    }

    /// The pool may have one thread more than it should, then two more, and so on. False: it has as many as it can have.
    fn grant_threads(&self) -> bool {
        let first = self.first_spare() + self.config.spares;
        let before = self.relief.granted();
        let after = (2 * before).max(1).min(Relief::most(self.config.spares));
        self.relief.granted.store(after, Ordering::Relaxed);
        (before..after).for_each(|one| self.places.vacant.set(first + one));
        before < after
    }
}

impl WorkerMemory {
    /// It falls asleep until the goal is reached: whether it may be a host meanwhile, and wants what comes of a task.
    pub(crate) fn lies_down(&self, goal: Goal<'_>, may_host: bool, wants_task: bool) {
        self.owned.hosts.set(may_host);
        let sleeps_for = match goal {
            _ if !may_host => NOTHING,
            Goal::Future(..) | Goal::Look(..) if wants_task => TASK,
            _ => OTHER,
        };
        // ORD: a hint, here and below.
        self.sleeps_for.store(sleeps_for, Ordering::Relaxed);
    }

    /// It is awake again.
    pub(crate) fn gets_up(&self) {
        self.owned.hosts.set(false);
        self.sleeps_for.store(NOTHING, Ordering::Relaxed);
    }
}
