//! Who searches and who sleeps, and how nobody oversleeps. `sleep/README.md` has the whole story: states,
//! proof and measurements.
//!
//! A worker is *busy*, *searching*, or *asleep*; sleepers have a bit in a bitmap. Those who bring
//! work wake a sleeper only if nobody searches, so at the start of a region one wake is in flight.
//! A thief that finds work and was the last to search sees to it that somebody takes his place.
//!
//! # The protocol
//!
//! | step | producer                                   | last searcher, going to sleep or to work |
//! |------|--------------------------------------------|------------------------------------------|
//! | 1    | store the work                             | `searching` becomes 0, `sleeping` > 0     |
//! | 2    | *light fence*                              | ask every worker for attention            |
//! | 3    | load a word: `limit` (forks), counts (tasks)| *heavy fence*                            |
//! | 4    | asked, or nobody searches: wake a sleeper  | look everywhere once more; if there is work, stay, or wake somebody |
//!
//! # Invariants
//!
//! - **S1** If `sleeping` > 0 and `searching` = 0, then since `searching` became 0 the last searcher
//!   has run (or is running) steps 2 to 4, or a producer has claimed a sleeper, who counts as
//!   searching from the claim on. So every item of work is seen by a look of step 4, or its
//!   producer's load of step 3 comes after step 1 of that searcher, and wakes. (Dekker, by the
//!   light/heavy pair of `raddle_sync::fence`.)
//! - **S2** A worker that is asleep has its bit set, or was claimed, or is benched. Who clears a bit
//!   owns the wake: it alone moves the worker from sleeping to searching and gives it a token. A
//!   worker that is awake and finds its bit cleared goes on only when the counts say so too:
//!   otherwise it could end its search before it counts as a searcher, and nobody would know that
//!   it was the last.
//! - **S3** A producer in its slow path lowers `limit`, runs a SeqCst fence, then loads the counts;
//!   a sleeper changes the counts, runs a SeqCst fence, then raises `limit`. So a raise that is
//!   overwritten belongs to a sleeper whom the producer sees, and asks for again.
//!
//! A worker that finds the searchers' cap reached goes to sleep without a search of its own: the
//! searchers look for it. If there are none left by the time it has announced itself, it does the
//! last searcher's steps itself.

use crossbeam_utils::CachePadded;
use raddle_sync::atomic::{AtomicU64, Ordering, fence};
use raddle_sync::spin::Backoff;

const ONE_SEARCHING: u64 = 1;
const ONE_SLEEPING: u64 = 1 << 32;

/// A look at both counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts(u64);

impl Counts {
    pub(crate) fn searching(self) -> usize {
        (self.0 & (ONE_SLEEPING - 1)) as usize
    }

    pub(crate) fn sleeping(self) -> usize {
        (self.0 >> 32) as usize
    }

    /// New work needs a wake: nobody is there to find it.
    pub(crate) fn need_wake(self) -> bool {
        self.searching() == 0 && self.sleeping() > 0
    }

    /// Somebody would take work if there were some.
    pub(crate) fn interested(self) -> bool {
        self.0 != 0
    }
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Sleep {
    counts: CachePadded<AtomicU64>,
    /// Claims under way: the bit may be cleared, the counts not yet changed (S2).
    claims: CachePadded<AtomicU64>,
    bits: Box<[CachePadded<AtomicU64>]>,
}

impl Sleep {
    /// For `workers` workers, all of which count as busy.
    pub(crate) fn new(workers: usize) -> Sleep {
        let words = workers.div_ceil(64);
        Sleep {
            counts: CachePadded::new(AtomicU64::new(0)),
            claims: CachePadded::new(AtomicU64::new(0)),
            bits: (0..words).map(|_| CachePadded::new(AtomicU64::new(0))).collect(),
        }
    }

    /// The counts as a producer sees them after its fence (S1, step 3).
    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        // ORD: ordered by the caller's light or SeqCst fence (S1, S3).
        Counts(self.counts.load(Ordering::Relaxed))
    }

    /// Counts a thread that is about to start, as a searcher.
    pub(crate) fn add_searcher(&self) {
        // ORD: as in `claimed`.
        self.counts.fetch_add(ONE_SEARCHING, Ordering::SeqCst);
    }

    /// Of the threads that were to start, the one that was counted and all that would have followed never
    /// will: they sleep.
    pub(crate) fn never_started(&self, threads: usize) {
        // ORD: as in `claimed`.
        self.counts.fetch_add(threads as u64 * ONE_SLEEPING - ONE_SEARCHING, Ordering::SeqCst);
    }

    /// A busy worker begins to search, unless `cap` others do.
    #[must_use]
    pub(crate) fn try_search(&self, cap: usize) -> bool {
        self.counts
            // ORD: the counts alone; S1 concerns the way down.
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |word| {
                (Counts(word).searching() < cap).then_some(word + ONE_SEARCHING)
            })
            .is_ok()
    }

    /// A searcher goes to work, or leaves. True: it was the last and somebody sleeps; steps 2 to 4.
    #[must_use]
    pub(crate) fn stop_search(&self) -> bool {
        // ORD: SeqCst, and the fence, for S1 and S3.
        let before = Counts(self.counts.fetch_sub(ONE_SEARCHING, Ordering::SeqCst));
        debug_assert!(before.searching() > 0, "who stops a search was counted");
        fence(Ordering::SeqCst);
        before.searching() == 1 && before.sleeping() > 0
    }

    /// A worker goes to sleep; `searching` says whether it counts as a searcher. True: nobody else
    /// searches; steps 2 to 4.
    #[must_use]
    pub(crate) fn fall_asleep(&self, worker: usize, searching: bool) -> bool {
        let change = if searching { ONE_SLEEPING - ONE_SEARCHING } else { ONE_SLEEPING };
        let before = self.lie_down(worker, change);
        before.searching() == usize::from(searching)
    }

    fn lie_down(&self, worker: usize, change: u64) -> Counts {
        let (word, bit) = self.bit(worker);
        // ORD: Release pairs with the Acquire in `take_bit`.
        word.fetch_or(bit, Ordering::Release);
        // ORD: SeqCst, and the fence, for S1 and S3.
        let before = Counts(self.counts.fetch_add(change, Ordering::SeqCst));
        fence(Ordering::SeqCst);
        before
    }

    /// Takes back the sleep of `worker`, who found work at the last moment and searches on; or a
    /// producer has claimed it, to the same effect, and a token is on its way.
    pub(crate) fn stay_awake(&self, worker: usize) {
        if self.take_bit(worker) {
            self.claimed();
        } else {
            self.await_claims();
        }
    }

    /// Ends the sleep of `worker`, who is awake and busy. False: it did not sleep by this count; if it
    /// was claimed, it counts as a searcher.
    pub(crate) fn rise(&self, worker: usize) -> bool {
        let taken = self.take_bit(worker);
        if taken {
            // ORD: as in `claimed`.
            self.counts.fetch_sub(ONE_SLEEPING, Ordering::SeqCst);
        } else {
            self.await_claims();
        }
        taken
    }

    /// Picks the sleeper of the lowest index and claims it. The caller gives it its token.
    #[must_use]
    pub(crate) fn claim(&self) -> Option<usize> {
        // ORD: Release, by `take_bit`: who finds its bit cleared sees this claim under way.
        self.claims.fetch_add(1, Ordering::Relaxed);
        let worker = self.take_lowest_bit();
        if worker.is_some() {
            self.claimed();
        }
        // ORD: Release pairs with the Acquire in `await_claims`.
        self.claims.fetch_sub(1, Ordering::Release);
        worker
    }

    fn take_lowest_bit(&self) -> Option<usize> {
        for (index, word) in self.bits.iter().enumerate() {
            loop {
                // ORD: a hint; `take_bit` decides.
                let bits = word.load(Ordering::Relaxed);
                if bits == 0 {
                    break;
                }
                let worker = index * 64 + bits.trailing_zeros() as usize;
                if self.take_bit(worker) {
                    return Some(worker);
                }
            }
        }
        None
    }

    /// A claimed worker could not be woken: it sleeps on. The caller sees to the work.
    pub(crate) fn unclaim(&self, worker: usize) {
        let _ = self.fall_asleep(worker, true);
    }

    /// Puts a benched worker that sleeps among the sleepers, and gives the counts without it.
    pub(crate) fn unbench(&self, worker: usize) -> Counts {
        self.lie_down(worker, ONE_SLEEPING)
    }

    pub(crate) fn is_asleep(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // ORD: callers hold the lock that orders them with claims.
        word.load(Ordering::Acquire) & bit != 0
    }

    fn claimed(&self) {
        // ORD: SeqCst so that S1 can speak of one order of all changes of the counts.
        self.counts.fetch_sub(ONE_SLEEPING - ONE_SEARCHING, Ordering::SeqCst);
    }

    /// By who found its bit cleared, until whoever did it has changed the counts (S2): a few
    /// instructions of another thread.
    fn await_claims(&self) {
        let mut backoff = Backoff::new();
        // ORD: Acquire pairs with the Release in `claim`.
        while self.claims.load(Ordering::Acquire) != 0 {
            backoff.spin();
        }
    }

    fn take_bit(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // ORD: Acquire pairs with the Release in `fall_asleep`.
        word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    fn bit(&self, worker: usize) -> (&AtomicU64, u64) {
        (&self.bits[worker / 64], 1 << (worker % 64))
    }
}
