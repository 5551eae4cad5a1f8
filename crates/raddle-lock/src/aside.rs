//! Entries that are set aside: a lock for which others wait and that is thin meanwhile.
//!
//! While the first of those who wait is awake, or will be soon by itself, whoever runs takes the lock ahead of it. So that
//! this costs no more than two read-modify-writes, the unlock that finds it so leaves the entry in the lock's bucket
//! ([`pending`]), for nobody, and lets the word say who has the lock. The entry stays `LOCKED`.
//!
//! | the word is | | who writes it |
//! |---|---|---|
//! | `ASIDE` | free | anybody: a holder's name, or that of the entry, which is the lock's again |
//! | `ASIDE`, owner | held | the owner, by a read-modify-write, or under the bucket's lock; others add `WANTED` there |
//! | `ASIDE`, `WANTED`, owner | held | the owner, which makes it that of the entry as it releases |
//!
//! **A1** Under the bucket's lock the word is aside exactly while an entry is there for nobody.
//! **A2** Such an entry's state says `WOKEN` or `LAZY`: that strand is *on duty*. Or the word is `WANTED`. Whoever is on duty
//! takes the lock from the free word, or makes it `WANTED` before it sleeps for longer than a moment; and if it gives up
//! the next one is woken, and on duty then.
//! **A3** `WANT` is set under the bucket's lock, under which entries are set aside, and not beside an aside word that is not
//! `WANTED`.
//! **A4** A lock that has a hash, or that somebody waits on to be notified, is not set aside. One that gets a hash while it is
//! keeps it in the entry; it is fat when its holder releases it, or one that waits takes it.
//!
//! Whoever runs looks at the clock about every 20 us, as far as can be told from how often it has unlocked in the last 20: one
//! that waits may have been told to run long ago, and get no processor.

use crate::core::{Core, Gain, Patience};
use crate::entry::{DEAD, Entry, HANDED, LAZY, LOCKED, PINNED, QUEUED, WANT, WOKEN, clock};
use crate::pending::{self, Guard, NOBODY};
use crate::queue::{Node, WAKE};
use crate::slot;
use crate::table;
use crate::word::{self, ASIDE, FREE, GENERATIONS, MAX_OWNER, View, WANTED, view};
use raddle_sync::atomic::Ordering;
use raddle_sync::strand::Local;
use std::cell::Cell;

/// What came of a step of a strand that waits.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step<R> {
    Done(R),
    /// It has got the lock instead.
    Lock,
}

impl Core {
    /// Frees a fat lock, held by the caller, by setting its entry aside, and wakes the first that waits, if nobody is on duty.
    /// False if nobody waits, or the lock must stay fat. Nothing of `self` is touched once it is free.
    pub(crate) fn set_aside(&self, entry: &'static Entry, generation: u32) -> bool {
        let mut bucket = pending::bucket(self.address());
        let mut inner = entry.inner.lock();
        let state = entry.state.load(Ordering::Relaxed);
        let others = DEAD | PINNED | HANDED | WANT | GENERATIONS; // A3, A4
        if state & (QUEUED | WOKEN | LAZY) == 0
            || state & others != generation
            || entry.restore.load(Ordering::Relaxed) != FREE
        {
            return false;
        }
        debug_assert_ne!(state & LOCKED, 0);
        let first = match state & (WOKEN | LAZY) {
            0 => inner.lock.pop_front(),
            _ => None,
        };
        if first.is_some() {
            let clear = if inner.lock.is_empty() { QUEUED } else { 0 };
            entry.update(Ordering::Relaxed, |state| (state & !clear) | WOKEN); // A2
            entry.pass_over();
        }
        let stale = bucket.remove(); // P4
        bucket.leave(entry, NOBODY);
        // ORD: Release pairs with the Acquires that take a free lock.
        self.word.store(ASIDE, Ordering::Release); // E2, A1
        let parker = first.map(|first| Node::signal(first, WAKE));
        drop(inner); // Q4
        drop(bucket);
        stale.into_iter().for_each(table::give_back);
        table::deflated();
        if let Some(parker) = parker {
            parker.unpark();
        }
        true
    }

    /// One attempt to take a lock that is aside and free. Written down as held, if it succeeds.
    #[inline(never)]
    pub(crate) fn take_aside(&self, me: u32, local: &Local) -> bool {
        // ORD: Acquire pairs with the Releases of a free lock: what the last holder did.
        let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
        if self.word.compare_exchange(ASIDE, ASIDE | me, success, failure).is_err() {
            return false;
        }
        // SAFETY: just taken.
        unsafe { local.hold_slow(self.address()) };
        true
    }

    /// Releases a lock that is aside and that this strand has, if it is not wanted, and it is not time for a look at the clock.
    #[inline(always)]
    pub(crate) fn release_aside_now(&self, local: &Local) -> bool {
        let me = local.token_or_zero();
        let held = ASIDE | me;
        // One without an id, whose name would be another word, has no lock that is aside.
        if me.wrapping_sub(1) >= MAX_OWNER
            || self.word.load(Ordering::Relaxed) != held
            || !may_pass()
        {
            return false;
        }
        // ORD: Release pairs with the Acquires that take a free lock.
        let (success, failure) = (Ordering::Release, Ordering::Relaxed);
        let freed = self.word.compare_exchange(held, ASIDE, success, failure).is_ok();
        if freed {
            // SAFETY: its name is gone from the lock.
            unsafe { local.unhold() };
        }
        freed
    }

    /// Releases a lock that is aside and that `owner` has. To whoever waits longest, if that is `fair`, or wants it, or has
    /// been passed over for long.
    pub(crate) fn release_aside(&self, owner: u32, fair: bool) {
        let now = look_at_clock();
        let mut bucket = pending::bucket(self.address());
        let View::Aside { wanted, .. } = view(self.word.load(Ordering::Relaxed)) else {
            drop(bucket);
            return self.release_thin(owner, fair); // Whoever waited has given up.
        };
        let aside = bucket.find().map(|pending| pending.entry);
        let overdue = aside.is_some_and(|entry| entry.is_passed_over(now));
        if !(wanted || fair || overdue) {
            // ORD: as in `release_aside_now`. Only `WANTED` is added by others, under the bucket's lock.
            self.word.store(ASIDE, Ordering::Release);
            return;
        }
        let entry = self.adopt(&mut bucket, owner, 0);
        drop(bucket);
        self.release_fat(entry, self.word.load(Ordering::Acquire), fair || overdue);
    }

    /// Makes the free lock, whose entry is aside, a fat one of the caller's; `None` if it is not free.
    pub(crate) fn claim(&self, bucket: &mut Guard) -> Option<&'static Entry> {
        let entry = bucket.find()?.entry;
        let fat = word::fat(entry.index, entry.state.load(Ordering::Relaxed));
        // ORD: Acquire pairs with the Releases of a free lock; Release: the entry as it is now (T1).
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        self.word.compare_exchange(ASIDE, fat, success, failure).ok()?;
        bucket.remove(); // A1
        table::inflated();
        Some(entry)
    }

    /// As the strand awake: takes the lock if it is aside and free.
    pub(crate) fn claim_aside(&self) -> bool {
        if self.word.load(Ordering::Relaxed) != ASIDE {
            return false;
        }
        let claimed = self.claim(&mut pending::bucket(self.address()));
        claimed.is_some_and(|entry| {
            entry.update(Ordering::Relaxed, |state| state & !(WOKEN | HANDED | WANT)); // E4
            true
        })
    }

    /// As the strand on duty: calls `f` under the bucket's lock, when whoever holds the lock will look at its entry as it
    /// releases: the lock is fat or `WANTED`. If it is aside and free takes it instead.
    pub(crate) fn with_holder<R>(&self, f: impl FnOnce() -> R) -> Step<R> {
        let mut bucket = pending::bucket(self.address());
        match self.want(&mut bucket) {
            Some(entry) => {
                entry.update(Ordering::Relaxed, |state| state & !(WOKEN | HANDED | WANT)); // E4
                Step::Lock
            }
            None => Step::Done(f()),
        }
    }

    /// Makes a word that is aside `WANTED`; or claims the lock if it is free.
    fn want(&self, bucket: &mut Guard) -> Option<&'static Entry> {
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            match view(seen) {
                View::Aside { owner: 0, .. } => {
                    if let Some(entry) = self.claim(bucket) {
                        return Some(entry);
                    }
                }
                View::Aside { wanted: false, .. } if !self.add_wanted(seen) => {}
                _ => return None,
            }
        }
    }

    /// Under the bucket's lock; false if the word is not as `seen`.
    fn add_wanted(&self, seen: u32) -> bool {
        // ORD: `Relaxed`: the owner's release fails on it, and asks for the bucket's lock.
        let (success, failure) = (Ordering::Relaxed, Ordering::Relaxed);
        self.word.compare_exchange(seen, seen | WANTED, success, failure).is_ok()
    }

    /// Waits for a lock that is aside and held; `None` if it is so no longer.
    pub(crate) fn sleep_aside(&self, me: u32, patience: Patience) -> Option<Gain> {
        let node = Node::new();
        let mut bucket = pending::bucket(self.address());
        let seen = self.word.load(Ordering::Relaxed);
        let View::Aside { owner: 1.., wanted } = view(seen) else { return None };
        let entry = bucket.find().expect("aside (A1)").entry;
        let on_duty = wanted || entry.state.load(Ordering::Relaxed) & (WOKEN | LAZY) != 0;
        // A2: nobody is in the child of a fork.
        if !on_duty && !self.add_wanted(seen) {
            return None;
        }
        let mut inner = entry.inner.lock();
        entry.update(Ordering::Relaxed, |state| state | QUEUED);
        inner.lock.push_back(&node);
        drop(inner);
        drop(bucket);
        Some(self.wait_turn(entry, &node, me, patience))
    }

    /// Calls `f`, which gives the lock a hash, with the entry of a lock that is aside; `None` if it is so no longer.
    pub(crate) fn with_aside<R>(&self, f: impl FnOnce(&'static Entry) -> R) -> Option<R> {
        let mut bucket = pending::bucket(self.address());
        let seen = self.word.load(Ordering::Relaxed);
        match view(seen) {
            View::Aside { owner: 0, .. } | View::Aside { wanted: true, .. } => {}
            View::Aside { .. } if self.add_wanted(seen) => {} // A4
            _ => return None,
        }
        bucket.find().map(|pending| f(pending.entry))
    }

    /// Nobody waits for a lock that is aside any more: it is free, or its owner's as a thin one is. With a hash the entry
    /// stays for that owner (P2). Whether the caller is to give the entry back.
    pub(crate) fn end_aside(&self, bucket: &mut Guard, entry: &Entry) -> bool {
        let hash = entry.restore.load(Ordering::Relaxed);
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let View::Aside { owner, .. } = view(seen) else { unreachable!("aside (A1)") };
            let stays = owner != 0 && hash != FREE;
            if stays {
                // Before the word: its owner, which has not written it down as held fast, reads the word first, with
                // Acquire.
                slot::arm_quietly(owner);
            }
            let next = if owner == 0 { hash } else { owner };
            // ORD: Release: it continues the release of a free word, and the flag comes before.
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            let done = self.word.compare_exchange(seen, next, success, failure).is_ok();
            match (done, stays) {
                (true, true) => bucket.find().expect("aside (A1)").armed = owner,
                (true, false) => _ = bucket.remove(),
                (false, true) => slot::disarm(owner),
                (false, false) => {}
            }
            if done {
                return !stays;
            }
        }
    }
}

raddle_sync::thread_local! {
    static GLANCE: Glance = const { Glance::new() };
}

/// Unlocks of the running thread that pass over those who wait: how many are to come before it looks at the clock again, and
/// were at first; and when it last looked. The clock costs as much as a lock does.
struct Glance {
    left: Cell<u32>,
    stride: Cell<u32>,
    looked: Cell<u64>,
}

/// About how often it looks, and the most unlocks in between.
const INTERVAL: u64 = 20_000;
const HALF_INTERVAL: u64 = INTERVAL / 2;
const MOST: u32 = 1024;

impl Glance {
    const fn new() -> Glance {
        Glance { left: Cell::new(1), stride: Cell::new(1), looked: Cell::new(0) }
    }
}

/// Whether this unlock may pass over those who wait without a look at the clock.
#[inline]
pub(crate) fn may_pass() -> bool {
    cfg!(raddle_model)
        || GLANCE.with(|glance| {
            let left = glance.left.get() - 1;
            // Whoever looks sets it anew.
            glance.left.set(left.max(1));
            left > 0
        })
}

/// The time, and the next look is in about 20 us.
pub(crate) fn look_at_clock() -> u64 {
    let now = clock();
    GLANCE.with(|glance| {
        let stride = glance.stride.get();
        let next = match now.saturating_sub(glance.looked.replace(now)) {
            0..HALF_INTERVAL => (stride * 2).min(MOST),
            HALF_INTERVAL..INTERVAL => stride,
            late => u32::try_from(u64::from(stride) * INTERVAL / late).unwrap_or(1).max(1),
        };
        glance.stride.set(next);
        glance.left.set(next);
    });
    now
}

#[cfg(all(test, not(raddle_model)))]
mod tests;
