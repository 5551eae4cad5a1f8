//! The lock behind all others: its fast paths, and what a strand does that cannot go on at once.

use crate::pending;
use crate::slot::{self, READY};
use crate::spin::{Moment, Spin};
use crate::table;
use crate::word::{self, FREE, MAX_OWNER, View, view};
use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::strand::{self, Local, Release};
use raddle_sync::time::Instant;
use raddle_sync::{const_fn, fence};
use std::time::Duration;

/// A word and its protocol; the states are in [`word`], [`slot`] and [`entry`](crate::entry).
pub(crate) struct Core {
    pub(crate) word: AtomicU32,
}

/// How long to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    /// Not at all.
    Try,
    /// For ever, or until then.
    Until(Option<Instant>),
    /// For ever, and without a panic: there is a guard already.
    Back,
}

/// A limit that no clock can tell: 34 years.
const AGES: Duration = Duration::from_secs(1 << 30);

impl Patience {
    /// For so long; a limit too far away to express is one all the same.
    pub(crate) fn at_most(limit: Duration) -> Patience {
        let now = Instant::now();
        Patience::Until(Some(now.checked_add(limit).unwrap_or_else(|| now + AGES)))
    }

    /// When it ends, if ever.
    pub(crate) fn deadline(self) -> Option<Instant> {
        match self {
            Patience::Until(deadline) => deadline,
            Patience::Try | Patience::Back => None,
        }
    }

    /// Whether it ends by itself, or has ended: such a wait fails where another would hang.
    pub(crate) fn ends(self) -> bool {
        matches!(self, Patience::Try) || self.deadline().is_some()
    }

    /// Whether it has ended by the clock.
    pub(crate) fn is_over(self) -> bool {
        self.deadline().is_some_and(|deadline| deadline <= Instant::now())
    }
}

/// What came of an attempt to take a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Gain {
    Nothing,
    Thin,
    Fat,
}

/// Why a guard cannot be taken back.
pub(crate) const BENEATH: &str = "this guard belongs to a strand beneath the one that runs";

/// Calls what takes a lock for which there is a guard already. Ends the process if it panics.
#[inline]
pub(crate) fn keeping_guards<R>(take_back: impl FnOnce() -> R) -> R {
    raddle_sync::unwinds_nowhere(
        "a lock could not be taken back, and there is a guard of it",
        take_back,
    )
}

impl Core {
    const_fn! {
        pub(crate) const fn new() -> Core {
            Core { word: AtomicU32::new(FREE) }
        }
    }

    /// Takes the lock. `RE`: once more, if this strand has it.
    ///
    /// # Panics
    ///
    /// If this strand has it and not `RE`.
    #[inline]
    pub(crate) fn acquire<const RE: bool>(&self) {
        if !strand::with_local(|local| self.acquire_now::<RE>(local)) {
            self.acquire_slow(RE, Patience::Until(None));
        }
    }

    /// Takes back a lock for which there is a guard already. The guard must not live on without the lock, so a
    /// panic does not get further than this: it ends the process.
    #[inline]
    pub(crate) fn acquire_back(&self) {
        keeping_guards(|| {
            if !strand::with_local(|local| self.acquire_now::<false>(local)) {
                self.acquire_slow(false, Patience::Back);
            }
        });
    }

    /// Takes the lock if that needs no waiting.
    #[inline]
    pub(crate) fn try_acquire<const RE: bool>(&self) -> bool {
        let seen = self.word.load(Ordering::Acquire);
        match view(seen) {
            View::Free | View::Aside { owner: 0, .. }
                if strand::with_local(|local| self.acquire_now::<RE>(local)) =>
            {
                true
            }
            View::Thin { owner: owner @ 1.. } | View::Aside { owner: owner @ 1.., .. }
                if !RE || owner != strand::token() =>
            {
                false
            }
            _ => self.acquire_slow(RE, Patience::Try),
        }
    }

    /// Takes the lock before `deadline` (`None`: whenever). False if the time ran out or, at once, if
    /// this strand has the lock and not `RE`.
    pub(crate) fn acquire_until<const RE: bool>(&self, deadline: Option<Instant>) -> bool {
        strand::with_local(|local| self.acquire_now::<RE>(local))
            || match self.is_held() && !RE {
                true => false,
                false => self.acquire_slow(RE, Patience::Until(deadline)),
            }
    }

    /// The fast path: free, or this strand's own and thin.
    #[inline(always)]
    fn acquire_now<const RE: bool>(&self, local: &Local) -> bool {
        let me = local.token_or_zero();
        // Neither 0, not assigned yet, nor a token too large for a word.
        if me.wrapping_sub(1) >= MAX_OWNER {
            return false;
        }
        // The look costs nothing that can be measured, and saves a read-modify-write that fails.
        let seen = self.word.load(Ordering::Acquire);
        if seen != FREE {
            return self.acquire_again::<RE>(seen, me, local);
        }
        // ORD: Acquire pairs with the Releases of `FREE` in `release` and after it: what the last holder
        // did happens before.
        let taken =
            self.word.compare_exchange(FREE, me, Ordering::Acquire, Ordering::Relaxed).is_ok();
        if taken {
            // SAFETY: just taken.
            unsafe { local.hold_fast(self.address()) };
        }
        taken
    }

    /// `seen` is not free: this strand's own thin lock once more, or one that nobody has and others wait for.
    #[inline]
    fn acquire_again<const RE: bool>(&self, seen: u32, me: u32, local: &Local) -> bool {
        // The word says that the lock is this strand's, so that what is written down of it is true.
        if RE && seen == me && local.again(self.address()) {
            return true;
        }
        match seen {
            word::ASIDE => self.take_aside(me, local),
            _ => word::is_fat(seen) && self.take_fat(seen, me, local),
        }
    }

    /// Waits for the lock, as long as it may; false if it did not get it.
    #[cold]
    #[inline(never)]
    pub(crate) fn acquire_slow(&self, reentrant: bool, patience: Patience) -> bool {
        let name = strand::keep_name(); // What it waits and then holds under is one name.
        let me = name.token();
        let mut spin = Spin::default();
        let mut moment = Moment::default();
        let gain = loop {
            let seen = self.word.load(Ordering::Acquire);
            match view(seen) {
                View::Free if me <= MAX_OWNER => {
                    // ORD: as in `acquire_now`.
                    let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
                    if self.word.compare_exchange(FREE, me, success, failure).is_ok() {
                        break Gain::Thin;
                    }
                }
                View::Aside { owner: 0, .. } if me <= MAX_OWNER => {
                    if strand::with_local(|local| self.take_aside(me, local)) {
                        return true;
                    }
                }
                View::Free | View::Hashed | View::Aside { owner: 0, .. } => {
                    if self.inflate_free(seen, me) {
                        break Gain::Fat;
                    }
                }
                View::Thin { owner } | View::Aside { owner, .. } if owner == me => {
                    return self.acquire_own(reentrant, patience);
                }
                View::Thin { .. } | View::Aside { .. } if matches!(patience, Patience::Try) => {
                    return false;
                }
                // Where others wait a spin would only slow down the one that has the lock.
                View::Aside { .. } => {
                    if let Some(gain) = self.sleep_aside(me, patience) {
                        break gain;
                    }
                    if patience.is_over() {
                        return false;
                    }
                }
                View::Thin { owner } => {
                    if !spin.spin() {
                        if let Some(gain) = self.sleep_thin(owner, me, patience) {
                            break gain;
                        }
                        // It has changed hands meanwhile, and may do so for ever.
                        if patience.is_over() {
                            return false;
                        }
                    }
                }
                View::Fat => {
                    if table::entry(seen & word::INDEX).owner.load(Ordering::Relaxed) == me {
                        return self.acquire_own(reentrant, patience); // E5
                    }
                    if let Some(gain) = self.acquire_fat(seen, me, patience) {
                        break gain;
                    }
                    // Its last holder is about to change the word, and until then still has the lock.
                    let unchanged = self.word.load(Ordering::Acquire) == seen;
                    if !moment.pass(unchanged, patience) {
                        return false;
                    }
                }
            }
        };
        strand::with_local(|local| match gain {
            Gain::Nothing => {}
            // SAFETY: just taken.
            Gain::Thin => unsafe { local.hold_fast(self.address()) },
            // SAFETY: as above.
            Gain::Fat => unsafe { local.hold_slow(self.address()) },
        });
        gain != Gain::Nothing
    }

    /// This strand holds the lock: another level, or a refusal.
    fn acquire_own(&self, reentrant: bool, patience: Patience) -> bool {
        if !reentrant {
            assert!(
                matches!(patience, Patience::Try),
                "this lock is held by the strand that wants it: it is not re-entrant, and waiting \
                 would hang"
            );
            return false;
        }
        // ORD: Acquire pairs with the Release in `end_aside`, by which a lock that was aside becomes a thin one whose owner
        // is flagged. A level that is written down is let go of by `release_now`, which has to find the flag.
        let thin = matches!(view(self.word.load(Ordering::Acquire)), View::Thin { .. });
        let address = self.address();
        let written_down = |local: &Local| {
            // SAFETY: it has the lock, whose word names it, and of which nothing is written down.
            local.again(address) || unsafe { local.again_from_others(address) }
        };
        if thin && strand::with_local(written_down) {
            return true;
        }
        let entry = self.inflate_held();
        let levels = entry.levels.load(Ordering::Relaxed);
        let more = strand::with_local(Local::can_hold).then(|| levels.checked_add(1));
        let levels = more.flatten().expect("a lock taken too often by its owner");
        // Not just counted: a record of this address, of a lock that was forgotten and lies elsewhere by now, would be
        // found by `release_now`.
        // SAFETY: it has the lock, at one level more.
        strand::with_local(|local| unsafe { local.hold_slow(address) });
        entry.levels.store(levels, Ordering::Relaxed); // E5
        true
    }

    /// Releases one level of the lock, which this strand holds. `RE`: there may be several.
    #[inline]
    pub(crate) fn release<const RE: bool>(&self) {
        if !self.release_now::<RE>() {
            self.release_slower();
        }
    }

    /// Where the lock is not thin, or somebody has flagged its owner.
    #[inline(never)]
    fn release_slower(&self) {
        let released = strand::with_local(|local| {
            self.release_fat_now(local) || self.release_aside_now(local)
        });
        if !released {
            self.release_slow(false);
        }
    }

    /// The fast path: thin, taken by this strand and written down, and nobody has flagged it.
    ///
    /// It does not look at the word, which would cost a fifth to a half of an uncontended pair. So a record that is out of
    /// date, of a lock that was forgotten, must not be found by one who lets go of the lock that lies there now. Where
    /// this strand took a level of that, the record is of it if the lock was thin, and there is none if it was not (each
    /// way to take such a level ends in `hold_slow`); where another of this thread did, which has ended since, there is no
    /// record of this one's left (see H3 in `strand/local.rs` of `raddle_sync`).
    #[inline(always)]
    fn release_now<const RE: bool>(&self) -> bool {
        strand::with_local(|local| {
            // SAFETY: below the word becomes free, or the lock is held again.
            match unsafe { local.let_go::<RE>(self.address()) } {
                Release::Level => return true,
                Release::Unknown => return false,
                Release::Last => {}
            }
            let slot = slot::of(local.token_or_zero());
            // Not 0 if this is a signal handler that interrupts another release, which then goes on.
            let outer = slot.releasing.load(Ordering::Relaxed);
            slot.releasing.store(1, Ordering::Relaxed);
            // ORD: Dekker with `slot::arm`, whose half is the heavy fence (L2).
            fence::light();
            if slot.flag.load(Ordering::Relaxed) != READY {
                // ORD: Release, as below: an earlier release's freed word, for whom this is the zero that is seen.
                slot.releasing.store(outer, Ordering::Release);
                local.hold();
                return false;
            }
            // ORD: Release pairs with the Acquire in `acquire_now` and others that take a free lock.
            self.word.store(FREE, Ordering::Release); // L1
            // ORD: Release pairs with the Acquire in `slot::arm`: the freed word (L2).
            slot.releasing.store(outer, Ordering::Release);
            true
        })
    }

    /// As [`release`](Core::release), to whoever waits longest.
    pub(crate) fn release_fair<const RE: bool>(&self) {
        // Where nobody has flagged this strand nobody waits.
        if !self.release_now::<RE>() {
            self.release_slow(true);
        }
    }

    /// Releases one level of the lock; to whoever waits longest, if `fair`.
    #[cold]
    #[inline(never)]
    pub(crate) fn release_slow(&self, fair: bool) {
        let seen = self.word.load(Ordering::Acquire);
        let address = self.address();
        match view(seen) {
            View::Free | View::Hashed | View::Aside { owner: 0, .. } => {
                panic!("this lock is not held, so it cannot be unlocked")
            }
            View::Aside { owner, .. } => {
                self.release_aside(owner, fair);
                // SAFETY: it is released, and the name is gone from the lock.
                strand::with_local(|local| unsafe { local.unhold_of(owner) });
            }
            View::Thin { owner } => {
                // SAFETY: it is let go of right below.
                let release =
                    strand::with_local(|local| unsafe { local.let_go_of(owner, address) });
                if release != Release::Level {
                    self.release_thin(owner, fair);
                }
            }
            View::Fat => {
                let entry = table::entry(seen & word::INDEX);
                let owner = entry.owner.load(Ordering::Relaxed); // E5
                match entry.levels.load(Ordering::Relaxed) {
                    0 => self.release_fat(entry, seen, fair),
                    levels => entry.levels.store(levels - 1, Ordering::Relaxed), // E5
                }
                // SAFETY: the level is released, and with the last one the name is gone from the lock.
                strand::with_local(|local| unsafe { local.unhold_of(owner) });
            }
        }
    }

    /// The last level of a thin lock. Nothing of `self` is touched once it is free.
    pub(crate) fn release_thin(&self, owner: u32, fair: bool) {
        let slot = slot::of(owner);
        let mut flag = slot.flag.load(Ordering::Relaxed);
        if flag & READY == 0 && slot::prepare(owner) {
            flag = slot.flag.load(Ordering::Relaxed);
        }
        if flag <= READY {
            let outer = slot.releasing.load(Ordering::Relaxed); // as in `release_now`
            let clean = if flag == READY {
                slot.releasing.store(1, Ordering::Relaxed);
                fence::light(); // ORD: as in `release`
                slot.flag.load(Ordering::Relaxed) == READY
            } else {
                slot::reconsider();
                slot::begin_full_release(slot)
            };
            if clean {
                self.word.store(FREE, Ordering::Release); // ORD: as in `release`; L1
            }
            slot.releasing.store(outer, Ordering::Release); // ORD: as in `release`
            if clean {
                return;
            }
        }
        // Somebody waits for this strand, perhaps for this lock (L3).
        let mut bucket = pending::bucket(self.address());
        if bucket.find().is_some() {
            let entry = self.adopt(&mut bucket, owner, 0);
            drop(bucket);
            self.release_fat(entry, self.word.load(Ordering::Acquire), fair);
        } else {
            self.word.store(FREE, Ordering::Release); // ORD: as in `release`; L1
        }
    }

    /// The name under which the lock waits in buckets.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::watched::before_each_sleep;
    use std::cell::Cell;
    use std::ptr;

    thread_local! {
        /// The lock that changes hands each time this thread is about to sleep, and how often it has.
        static CHANGING: Cell<(*const Core, u32)> = const { Cell::new((ptr::null(), 0)) };
    }

    /// Then it is free.
    const TIMES: u32 = 200;

    fn change_hands() {
        let (core, times) = CHANGING.get();
        CHANGING.set((core, times + 1));
        // Names that nobody else has in this program.
        let next = if times < TIMES { 30_000 + times } else { FREE };
        // SAFETY: set by the test below, which has not returned.
        unsafe { &*core }.word.store(next, Ordering::Relaxed);
    }

    /// Whoever found another owner each time that it was about to sleep did not look at the clock, and waited on.
    #[test]
    fn a_lock_that_changes_hands_for_ever_is_given_up_in_time() {
        let core = Core::new();
        core.word.store(29_999, Ordering::Relaxed);
        CHANGING.set((&core, 0));
        let patience = Patience::Until(Some(Instant::now()));
        let taken = before_each_sleep(change_hands, || core.acquire_slow(false, patience));
        core.word.store(FREE, Ordering::Relaxed);
        let (_, times) = CHANGING.get();
        assert!(!taken && times < TIMES, "waited until it was free");
    }
}
