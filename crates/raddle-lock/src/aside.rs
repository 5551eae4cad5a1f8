//! Entries that are set aside: a lock for which others wait is thin meanwhile.
//!
//! While the first of those who wait is awake, or will be soon by itself, whoever runs takes the lock ahead of it. So that
//! this costs no more than where nobody waits, the unlock that finds it so makes the lock thin and leaves the entry in the
//! lock's bucket ([`pending`]), for no owner: nobody is flagged. The entry stays `LOCKED`.
//!
//! **A1** An entry is aside only while its state says `WOKEN` or `LAZY`, and not `WANT`: that strand is *on duty*. It takes the
//! lock from the free word, or flags its owner, before it sleeps for longer than a moment; and if it gives up it wakes the
//! next one, which is on duty then.
//! **A2** `WANT` is set, and the duty passed on, under the bucket's lock, under which entries are set aside.
//! **A3** A lock with an entry aside has no hash, and nobody waits for a notification: its word is free or thin. Whoever
//! would make it something else asks the bucket first, and takes that entry.

use crate::core::{Core, Found, Patience};
use crate::entry::{DEAD, Entry, HANDED, LAZY, LOCKED, PINNED, QUEUED, WANT, WOKEN};
use crate::pending::{self, Guard, NOBODY};
use crate::queue::{Node, WAKE};
use crate::table;
use crate::word::{self, FREE, GENERATIONS, View, view};
use raddle_sync::atomic::Ordering;

/// What came of a step of a strand that waits.
pub(crate) enum Step<R> {
    Done(R),
    /// It has got the lock instead.
    Lock,
    /// The deadline has passed.
    Late,
}

impl Core {
    /// Frees a fat lock, held by the caller, by setting its entry aside, and wakes the first that waits, if nobody is on duty.
    /// False if nobody waits, or the lock must stay fat. Nothing of `self` is touched once it is free.
    pub(crate) fn set_aside(&self, entry: &'static Entry, generation: u32) -> bool {
        let mut bucket = pending::bucket(self.address());
        let mut inner = entry.inner.lock();
        let state = entry.state.load(Ordering::Relaxed);
        let others = DEAD | PINNED | HANDED | WANT | GENERATIONS;
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
            entry.update(Ordering::Relaxed, |state| (state & !clear) | WOKEN); // A1
        }
        bucket.leave(entry, NOBODY);
        // ORD: Release pairs with the Acquires that take a free lock.
        self.word.store(FREE, Ordering::Release);
        let parker = first.map(|first| Node::signal(first, WAKE));
        drop(inner); // Q4
        drop(bucket);
        table::deflated();
        if let Some(parker) = parker {
            parker.unpark();
        }
        true
    }

    /// Makes the free lock, whose entry is aside, a fat one of the caller's; false if it is not free.
    pub(crate) fn claim(&self, bucket: &mut Guard, entry: &'static Entry) -> bool {
        let fat = word::fat(entry.index, entry.state.load(Ordering::Relaxed));
        // ORD: Acquire pairs with the Releases of `FREE`; Release: the entry as it is now (T1).
        let (success, failure) = (Ordering::AcqRel, Ordering::Relaxed);
        let claimed = self.word.compare_exchange(FREE, fat, success, failure).is_ok();
        if claimed {
            bucket.remove();
            table::inflated();
        }
        claimed
    }

    /// As the strand awake: takes the lock if its entry is aside and it is free.
    pub(crate) fn claim_aside(&self, entry: &'static Entry) -> bool {
        if self.word.load(Ordering::Relaxed) != FREE {
            return false;
        }
        let mut bucket = pending::bucket(self.address());
        let claimed = bucket.find().is_some() && self.claim(&mut bucket, entry);
        if claimed {
            // E4
            entry.update(Ordering::Relaxed, |state| state & !(WOKEN | HANDED | WANT));
        }
        claimed
    }

    /// As the strand on duty: calls `f` under the bucket's lock, when whoever holds the lock will look at its entry as it
    /// releases: the lock is fat, or it is flagged. If the lock is free then, takes it instead.
    pub(crate) fn with_holder<R>(
        &self,
        entry: &'static Entry,
        patience: Patience,
        f: impl Fn() -> R,
    ) -> Step<R> {
        loop {
            let mut bucket = pending::bucket(self.address());
            if bucket.find().is_none_or(|pending| pending.armed != NOBODY) {
                let done = f();
                drop(bucket);
                return Step::Done(done);
            }
            let View::Thin { owner } = view(self.word.load(Ordering::Acquire)) else {
                if self.claim(&mut bucket, entry) {
                    // E4
                    entry.update(Ordering::Relaxed, |state| state & !(WOKEN | HANDED | WANT));
                    return Step::Lock;
                }
                continue;
            };
            drop(bucket);
            match self.with_pending(owner, patience.deadline(), |_| f()) {
                Found::Entry(done) => return Step::Done(done),
                Found::Changed if !patience.is_over() => {}
                Found::Changed | Found::Late => return Step::Late,
            }
        }
    }

    /// Whether the lock's entry is aside, so that somebody waits for it and will look after those who join.
    pub(crate) fn is_aside(&self) -> bool {
        pending::any_aside() && pending::bucket(self.address()).aside().is_some()
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::core::Gain;
    use crate::queue::{HAND_OFF, WAITING};
    use crate::slot::{self, READY};
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
        assert_eq!(core.word.load(Ordering::Relaxed), FREE);
        assert!(core.is_aside() && nodes[0].signalled() == WAKE);
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

    const LONG: Patience = Patience::Until(None);

    #[test]
    fn whoever_runs_finds_the_lock_thin() {
        let core = Core::new();
        let (entry, nodes) = aside::<1>(&core);
        set_aside(&core, entry, &nodes);
        for _ in 0..3 {
            core.acquire::<false>();
            assert_eq!(
                view(core.word.load(Ordering::Relaxed)),
                View::Thin { owner: strand::token() }
            );
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
            for n in 0..nodes.len() {
                assert_eq!(nodes[n].signalled(), WAKE);
                let mark = if lazy { LAZY } else { 0 };
                if lazy {
                    let step = core.go_back(entry, &nodes[n], LAZY, LONG);
                    assert!(matches!(step, Step::Done(false)) && nodes[n].signalled() == WAITING);
                }
                assert!(core.is_aside());
                assert_eq!(core.give_up(entry, &nodes[n], mark), Some(Gain::Nothing));
            }
            assert!(!core.is_aside() && !core.is_wanted());
            core.release::<false>();
            assert!(is_over(&core));
        }
    }

    /// A1: before it sleeps until it is told, it sees to it that it is.
    #[test]
    fn whoever_wants_the_lock_flags_its_owner() {
        let core = Core::new();
        let (entry, nodes) = aside::<2>(&core);
        set_aside(&core, entry, &nodes);
        core.acquire::<false>();
        assert!(matches!(core.go_back(entry, &nodes[0], WANT, LONG), Step::Done(false)));
        assert!(slot::of(strand::token()).flag.load(Ordering::Relaxed) > READY);
        assert!(!core.is_aside() && core.is_wanted());
        core.release::<false>();
        assert_eq!((nodes[0].signalled(), nodes[1].signalled()), (HAND_OFF, WAITING));
        assert_eq!(slot::of(strand::token()).flag.load(Ordering::Relaxed) & !READY, 0);
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
        assert!(matches!(core.go_back(entry, &nodes[0], WANT, LONG), Step::Lock));
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

    /// A3: a free word became that of a hash, and of another entry, and the one aside was lost.
    #[test]
    fn a_hash_and_a_strand_without_an_id_find_the_entry() {
        for by_hash in [false, true] {
            let core = Core::new();
            let (entry, nodes) = aside::<1>(&core);
            set_aside(&core, entry, &nodes);
            let hash = by_hash.then(|| core.identity_hash());
            if hash.is_none() {
                let me = crate::word::MAX_OWNER + 1;
                assert!(core.inflate_free(FREE, me) && !core.is_aside());
                assert_eq!(entry.owner.load(Ordering::Relaxed), me);
            }
            assert!(word::is_fat(core.word.load(Ordering::Relaxed)));
            let taken = core.try_awake(entry, crate::spin::Spin::short());
            assert_eq!(taken, by_hash, "free, with a hash, or held by the other");
            if taken {
                release(&core, entry);
                assert_eq!(Some(core.identity_hash()), hash);
            } else {
                release(&core, entry);
                assert!(core.try_awake(entry, crate::spin::Spin::short()));
                release(&core, entry);
            }
        }
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
                        while round % 2 == 0 {
                            let Some(mut count) = mutex.try_lock_for(limit) else { continue };
                            *count += 1;
                            break;
                        }
                        if round % 2 == 1 {
                            *mutex.lock() += 1;
                        }
                    }
                });
            }
            while *mutex.lock() < 4 * ROUNDS {}
        });
        assert_eq!(mutex.into_inner(), 4 * ROUNDS);
    }
}
