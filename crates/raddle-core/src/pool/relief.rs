//! Relief for a pool that stands still beside work that is queued.
//!
//! Where as many threads wait as there may be, one of them takes on what is queued. What it takes on may wait for what
//! lies beneath, so this is the last resort: only once no task has ended for a while, or somebody's task has been first in
//! the queue for very long, whatever else ends. Then the pool may ask a host,
//! next time two more, and so on. And not all who wait can be hosts: not whoever waits for a lock, or runs low on
//! stack. If there is none, and that stays so for long ([`VERY_STILL`]), the pool gets threads beyond those it should
//! have: rather that than a program that hangs. Where the system has refused threads, it is asked again: by whoever
//! next queues work or comes as a guest, or by the timer. If that has got no thread either, and the pool's own have
//! left, what is queued stays so until then.

use std::time::Duration;

use raddle_sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use raddle_sync::time::Instant;

use crate::pool::builder::Waits;
use crate::pool::registry::{Registry, Waker};
use crate::timer;

/// For so long no task ends in a pool that stands still.
pub(crate) const STILL: Duration = Duration::from_millis(10);
/// At so many looks more no task has ended, and no host was to be had, than at others one has, before there are more threads than
/// there should be: three seconds. What all wait for may come from outside.
const VERY_STILL: usize = 300;
/// After so long without a look it is another stillness.
const FORGOTTEN: Duration = Duration::from_secs(1);
/// So many threads more there may be, as a multiple of the spare ones, and at most.
const RESERVE: usize = 15;
pub(crate) const MOST_RESERVE: usize = 4096;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Relief {
    /// A look at the pool is due.
    due: AtomicBool,
    /// How many hosts may be asked.
    credit: AtomicUsize,
    /// How many there were granted last.
    step: AtomicUsize,
    /// How many threads there may be beyond the spare ones.
    granted: AtomicUsize,
    /// At how many looks there was no host, and nothing had ended; less those at which something had.
    hostless: AtomicUsize,
    /// When the last of them was, by the pool's clock.
    hostless_at: AtomicU64,
    /// What had been queued longest at the last look.
    first: AtomicUsize,
    /// At how many looks before it was the same.
    passed: AtomicUsize,
}

impl Relief {
    /// The most threads that it grants to a pool with so many spare ones.
    pub(crate) fn most(spares: usize) -> usize {
        (spares * RESERVE).min(MOST_RESERVE)
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
        cfg!(raddle_shuttle)
            || self.config.waits == Waits::Host
            || self.config.spares == 0
            || self.is_refused()
            // ORD: ordered by the SeqCst fences of `strand` and `recall` (S4).
            || self.relief.credit.load(Ordering::Relaxed) > 0
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
        if cfg!(raddle_shuttle) || self.relief.due.swap(true, Ordering::SeqCst) {
            return;
        }
        let (me, settled) = (self.weak(), self.settled());
        let look = move || {
            if let Some(registry) = me.upgrade() {
                registry.relieve(settled);
            }
        };
        match timer::at(Instant::now() + STILL, look) {
            Ok(timeout) => timeout.detach(),
            // No thread for the timer: the next host may be asked, as nobody else may come.
            Err(_) => {
                self.relief.credit.fetch_add(1, Ordering::SeqCst);
                self.relief.due.store(false, Ordering::SeqCst);
            }
        }
    }

    fn relieve(&self, settled: usize) {
        self.relief.due.store(false, Ordering::SeqCst);
        if self.is_over() {
            return;
        }
        let full = self.places.vacant.len() == 0;
        if self.is_passed_over() && full {
            // What ends is of no help to whoever waits for that.
            self.grant();
        } else if self.settled() != settled {
            // It goes on by itself.
            self.relief.step.store(0, Ordering::Relaxed);
            // Not to 0: what ends now and then may be of no help to the others.
            let fewer = self.relief.hostless.load(Ordering::Relaxed).saturating_sub(1);
            self.relief.hostless.store(fewer, Ordering::Relaxed);
            self.relief.credit.store(0, Ordering::SeqCst);
        } else if full && self.places.has_stranded() {
            self.grant();
        } else if !full {
            // Not where somebody outside just happens to try whether there is a taker for what he brings.
            self.relief.hostless.store(0, Ordering::Relaxed);
        }
        // If nobody is found again, relief is expected again.
        self.places.recall(&self.crew(Waker::Idle));
    }

    /// Whether what has been queued longest has been so at very many looks in a row.
    fn is_passed_over(&self) -> bool {
        let first = self.injector.first();
        // ORD: one look at a time is due.
        let same = self.relief.first.swap(first, Ordering::Relaxed) == first && first != 0;
        let looks = if same { self.relief.passed.load(Ordering::Relaxed) + 1 } else { 0 };
        self.relief.passed.store(looks, Ordering::Relaxed);
        looks >= VERY_STILL
    }

    /// One host or thread, then two more, and so on. Not by two at a time: one look is due.
    fn grant(&self) {
        if self.places.hosts.len() > 0 {
            let step =
                self.relief.step.load(Ordering::Relaxed).saturating_mul(2).clamp(1, MOST_RESERVE);
            self.relief.step.store(step, Ordering::Relaxed);
            self.relief.credit.fetch_add(step, Ordering::Relaxed);
            self.relief.hostless.store(0, Ordering::Relaxed);
            return;
        }
        let now = self.now();
        let last = self.relief.hostless_at.swap(now, Ordering::Relaxed);
        let anew = now.saturating_sub(last) > FORGOTTEN.as_nanos() as u64;
        let before = if anew { 0 } else { self.relief.hostless.load(Ordering::Relaxed) };
        self.relief.hostless.store(before + 1, Ordering::Relaxed);
        if before < VERY_STILL {
            return;
        }
        let first = self.first_spare() + self.config.spares;
        let before = self.relief.granted();
        let after = (2 * before).max(1).min(Relief::most(self.config.spares));
        self.relief.granted.store(after, Ordering::Relaxed);
        (before..after).for_each(|one| self.places.vacant.set(first + one));
    }
}
