//! Entries that are set aside: a lock for which others wait and that is thin meanwhile.
//!
//! While the first of those who wait is awake, or will be soon by itself, whoever runs takes the lock ahead of it. So that
//! this costs no more than two read-modify-writes, the unlock that finds it so leaves the entry in the lock's bucket
//! ([`pending`]), for nobody, and lets the word say who has the lock. The entry stays `LOCKED`.
//!
//! | the word is | | who writes it |
//! |---|---|---|
//! | `ASIDE` | free | anybody: a holder's name, or that of the entry, which is the lock's again |
//! | `ASIDE`, owner | held | the owner, by a read-modify-write; others add `WANTED` |
//! | `ASIDE`, `WANTED`, owner | held | the owner, which makes it that of the entry as it releases |
//!
//! **A1** Under the bucket's lock the word is aside exactly while an entry is there for nobody.
//! **A2** Such an entry's state says `WOKEN` or `LAZY`: that strand is *on duty*. Or the word is `WANTED`. Whoever is on duty
//! takes the lock from the free word, or makes it `WANTED` before it sleeps for longer than a moment; and if it gives up
//! the next one is woken, and on duty then.
//! **A3** `WANT` is set under the bucket's lock, under which entries are set aside, and not beside an aside word that is not
//! `WANTED`.
//! **A4** A lock that has a hash, or that somebody waits on to be notified, is not set aside. One that gets a hash while it is
//! will be fat with its next holder, or the one that it has.
//!
//! Whoever runs looks at the clock about every 20 us: one that waits may have been told to run long ago, and get no processor.

use crate::core::{Core, Gain, Patience};
use crate::entry::{DEAD, Entry, HANDED, LAZY, LOCKED, PINNED, QUEUED, WANT, WOKEN, clock};
use crate::pending::{self, Guard, NOBODY};
use crate::queue::{Node, WAKE};
use crate::table;
use crate::word::{self, ASIDE, FREE, GENERATIONS, View, WANTED, view};
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
        debug_assert!(state & LOCKED != 0 && bucket.find().is_none());
        let first = match state & (WOKEN | LAZY) {
            0 => inner.lock.pop_front(),
            _ => None,
        };
        if first.is_some() {
            let clear = if inner.lock.is_empty() { QUEUED } else { 0 };
            entry.update(Ordering::Relaxed, |state| (state & !clear) | WOKEN); // A2
            entry.pass_over();
        }
        bucket.leave(entry, NOBODY);
        // ORD: Release pairs with the Acquires that take a free lock.
        self.word.store(ASIDE, Ordering::Release); // E2, A1
        let parker = first.map(|first| Node::signal(first, WAKE));
        drop(inner); // Q4
        drop(bucket);
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
        let held = ASIDE | local.token_or_zero();
        if self.word.load(Ordering::Relaxed) != held || !may_pass() {
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
            return self.release_thin(owner, fair); // Who waited has given up.
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
        // A2: nobody is in the child of a fork, nor where those who were have given up, and there is a hash.
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

    /// Nobody waits for a lock that is aside any more: it is free, or its owner's, or will be fat with that. Whether the
    /// caller is to give the entry back.
    pub(crate) fn end_aside(&self, bucket: &mut Guard, entry: &Entry) -> bool {
        let hash = entry.restore.load(Ordering::Relaxed);
        loop {
            let seen = self.word.load(Ordering::Relaxed);
            let next = match view(seen) {
                View::Aside { owner: 0, .. } => hash,
                View::Aside { owner, .. } if hash == FREE => owner,
                View::Aside { wanted: false, .. } => seen | WANTED,
                _ => return false,
            };
            // ORD: Release: it continues the release of a free word.
            let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
            if self.word.compare_exchange(seen, next, success, failure).is_ok() {
                let over = next & ASIDE == 0;
                if over {
                    bucket.remove(); // A1
                }
                return over;
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
const MOST: u32 = 4096;

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
            _ => (stride / 2).max(1),
        };
        glance.stride.set(next);
        glance.left.set(next);
    });
    now
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::core::Gain;
    use crate::queue::{HAND_OFF, WAITING};
    use raddle_sync::strand;
    use std::thread;

    /// Holds a lock for which so many wait, and lets go of it: the first is awake, and the lock thin.
    fn aside<const N: usize>(core: &Core) -> (&'static Entry, [Node; N]) {
        core.acquire::<false>();
        let (entry, nodes) = (core.inflate_held(), [(); N].map(|()| Node::new()));
        (entry, nodes)
    }

    /// As that, with the nodes where they stay.
    fn set_aside(core: &Core, entry: &'static Entry, nodes: &[Node]) {
        nodes.iter().for_each(|node| entry.inner.lock().lock.push_back(node));
        entry.update(Ordering::Relaxed, |state| state | QUEUED);
        core.release::<false>();
        assert_eq!(core.word.load(Ordering::Relaxed), ASIDE);
        assert!(is_on_duty(core) && nodes[0].signalled() == WAKE);
    }

    /// Whether somebody will look after those who wait by itself.
    fn is_on_duty(core: &Core) -> bool {
        let mut bucket = pending::bucket(core.address());
        let entry = bucket.find().filter(|pending| pending.armed == NOBODY);
        entry.is_some_and(|pending| {
            pending.entry.state.load(Ordering::Relaxed) & (WOKEN | LAZY) != 0
        })
    }

    fn is_wanted(core: &Core) -> bool {
        matches!(view(core.word.load(Ordering::Relaxed)), View::Aside { wanted: true, .. })
    }

    fn is_over(core: &Core) -> bool {
        core.word.load(Ordering::Relaxed) == FREE
            && pending::bucket(core.address()).find().is_none()
    }

    /// As a strand that has got the lock by its entry.
    fn release(core: &Core, entry: &Entry) {
        entry.own(strand::token());
        // SAFETY: just taken.
        strand::with_local(|local| unsafe { local.hold_slow(core.address()) });
        core.release::<false>();
    }

    #[test]
    fn whoever_runs_finds_the_lock_thin() {
        let core = Core::new();
        let (entry, nodes) = aside::<1>(&core);
        set_aside(&core, entry, &nodes);
        for _ in 0..3 {
            core.acquire::<false>();
            assert_eq!(core.word.load(Ordering::Relaxed), ASIDE | strand::token());
            assert!(!core.try_awake(entry, crate::spin::Spin::short()) && core.is_wanted());
            core.release::<false>();
        }
        assert!(core.try_awake(entry, crate::spin::Spin::short()));
        release(&core, entry);
        assert!(is_over(&core));
    }

    /// A1: else nobody would look after those who are left.
    #[test]
    fn whoever_gives_up_wakes_the_next() {
        for lazy in [false, true] {
            let core = Core::new();
            let (entry, nodes) = aside::<3>(&core);
            set_aside(&core, entry, &nodes);
            core.acquire::<false>();
            for node in &nodes {
                assert_eq!(node.signalled(), WAKE);
                let mark = if lazy { LAZY } else { 0 };
                if lazy {
                    let step = core.go_back(entry, node, LAZY);
                    assert!(matches!(step, Step::Done(false)) && node.signalled() == WAITING);
                }
                assert!(is_on_duty(&core));
                assert_eq!(core.give_up(entry, node, mark), Some(Gain::Nothing));
            }
            assert!(!is_on_duty(&core) && !core.is_wanted());
            core.release::<false>();
            assert!(is_over(&core));
        }
    }

    /// A1: before it sleeps until it is told, it sees to it that it is.
    #[test]
    fn whoever_wants_the_lock_tells_its_owner() {
        let core = Core::new();
        let (entry, nodes) = aside::<2>(&core);
        set_aside(&core, entry, &nodes);
        core.acquire::<false>();
        assert!(matches!(core.go_back(entry, &nodes[0], WANT), Step::Done(false)));
        assert!(!is_on_duty(&core) && is_wanted(&core));
        core.release::<false>();
        assert_eq!((nodes[0].signalled(), nodes[1].signalled()), (HAND_OFF, WAITING));
        release(&core, entry);
        assert_eq!(nodes[1].signalled(), WAKE);
        assert_eq!(core.give_up(entry, &nodes[1], 0), Some(Gain::Nothing));
        assert!(is_over(&core));
    }

    /// Also at the last moment.
    #[test]
    fn whoever_wants_a_free_lock_takes_it() {
        let core = Core::new();
        let (entry, nodes) = aside::<1>(&core);
        set_aside(&core, entry, &nodes);
        assert!(matches!(core.go_back(entry, &nodes[0], WANT), Step::Lock));
        release(&core, entry);
        assert!(is_over(&core));
    }

    #[test]
    fn a_fair_unlock_hands_over() {
        let core = Core::new();
        let (entry, nodes) = aside::<1>(&core);
        set_aside(&core, entry, &nodes);
        core.acquire::<false>();
        core.release_fair::<false>();
        assert!(core.is_locked() && entry.state.load(Ordering::Relaxed) & HANDED != 0);
        assert!(core.try_awake(entry, crate::spin::Spin::short()));
        release(&core, entry);
        assert!(is_over(&core));
    }

    /// A4
    #[test]
    fn a_hash_is_left_with_the_entry() {
        for held in [false, true] {
            for given_up in [false, true] {
                let core = Core::new();
                let (entry, nodes) = aside::<1>(&core);
                set_aside(&core, entry, &nodes);
                if held {
                    core.acquire::<false>();
                }
                let hash = core.with_aside(|entry| {
                    entry.restore.store(word::hashed(5), Ordering::Relaxed);
                    word::identity(word::hashed(5))
                });
                assert_eq!(is_wanted(&core), held);
                if given_up {
                    assert_eq!(core.give_up(entry, &nodes[0], 0), Some(Gain::Nothing));
                }
                if held {
                    core.release::<false>();
                }
                if !given_up {
                    assert!(core.try_awake(entry, crate::spin::Spin::short()));
                    release(&core, entry);
                }
                assert_eq!(view(core.word.load(Ordering::Relaxed)), View::Hashed);
                assert_eq!(Some(core.identity_hash()), hash);
                assert!(pending::bucket(core.address()).find().is_none());
            }
        }
    }

    #[test]
    fn a_strand_without_an_id_takes_the_entry() {
        let core = Core::new();
        let (entry, nodes) = aside::<1>(&core);
        set_aside(&core, entry, &nodes);
        let me = crate::word::MAX_OWNER + 1;
        assert!(core.inflate_free(ASIDE, me) && !is_on_duty(&core));
        assert_eq!(entry.owner.load(Ordering::Relaxed), me);
        assert!(!core.try_awake(entry, crate::spin::Spin::short()));
        release(&core, entry);
        assert!(core.try_awake(entry, crate::spin::Spin::short()));
        release(&core, entry);
        assert!(is_over(&core));
    }

    /// A2: as in the child of a fork.
    #[test]
    fn where_nobody_is_on_duty_the_owner_is_told() {
        let core = Core::new();
        let (entry, nodes) = aside::<1>(&core);
        set_aside(&core, entry, &nodes);
        core.acquire::<false>();
        entry.update(Ordering::Relaxed, |state| state & !WOKEN);
        thread::scope(|s| {
            let core = &core;
            let other = s.spawn(|| {
                core.acquire::<false>();
                core.release::<false>();
            });
            while !is_wanted(core) {
                thread::yield_now();
            }
            core.release::<false>();
            other.join().unwrap();
        });
        assert!(!core.is_locked());
    }

    /// With threads: each of them is on duty at some time, and nobody is left.
    #[test]
    fn everybody_gets_a_lock_that_one_takes_all_the_time() {
        const ROUNDS: usize = if cfg!(miri) { 3 } else { 300 };
        let mutex = crate::Mutex::new(0_usize);
        thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    for round in 0..ROUNDS {
                        let limit = std::time::Duration::from_micros(round as u64 % 200);
                        let timed = || mutex.try_lock_for(limit).filter(|_| round % 2 == 0);
                        *std::iter::repeat_with(timed)
                            .take(round)
                            .flatten()
                            .next()
                            .unwrap_or_else(|| mutex.lock()) += 1;
                    }
                });
            }
            while *mutex.lock() < 4 * ROUNDS {}
        });
        assert_eq!(mutex.into_inner(), 4 * ROUNDS);
    }
}
