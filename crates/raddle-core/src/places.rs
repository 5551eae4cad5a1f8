//! Places: who may work, who searches, who sleeps, and how nobody oversleeps.
//!
//! A pool of `n` threads has `n` places, and a thread works for the pool while it holds one: a thread of the
//! pool, a guest, or a spare one that works in the stead of a thread that waits. One word counts the places
//! that are free (*idle*), the holders that look for work (*searching*), and who of these naps. A thread that blocks gives its place
//! back, and whoever may use it is found among those who
//!
//! | set      | are                                                        | what they do with a place       |
//! |----------|------------------------------------------------------------|---------------------------------|
//! | `parked` | threads without work, asleep                                | search                          |
//! | `vacant` | memory of workers that have no thread                       | a thread is started, it searches |
//! | `hosts`  | threads that wait, may take on anything and have the stack  | search, run one thing, wait on  |
//!
//! A thread whose wait is over goes on at once, and so does a guest that comes in. If no place is free then, there are
//! fewer than none: the count is below zero, and the next thread that searches or has finished its task pays the *debt*
//! with its own place. So `n` threads work, and those that came or went on within the current task of another.
//!
//! # The protocol
//!
//! | step | producer                                   | whoever leaves places idle and nobody searching |
//! |------|--------------------------------------------|------------------------------------------|
//! | 1    | store the work                             | change the word                           |
//! | 2    | *light fence*                              | ask every worker for attention            |
//! | 3    | load a word: `limit` (forks), counts (tasks)| *heavy fence*                            |
//! | 4    | asked, or nobody searches: claim a place   | look everywhere; if there is work, claim a place |
//!
//! # Invariants
//!
//! - **S1** If `idle > 0` and `searching = 0`, then since that became so (a holder slept or blocked, the
//!   last searcher went to work) whoever made it so has run, or is running, steps 2 to 4, or somebody has
//!   claimed a place, perhaps in their stead, which counts as searching from the claim on. So every item of work is seen by a look of
//!   step 4, or its producer's load of step 3 comes after step 1, and wakes. (Dekker, by the light/heavy
//!   pair of `raddle_sync::fence`.) A thread without a place runs a SeqCst fence in step 2, as the sleeper may do
//!   without the heavy one (S6).
//! - **S2** Whoever clears a bit of `parked`, `vacant` or `hosts` owns the wake of that worker, and holds a
//!   claimed place for it before it clears the bit. So a worker that is awake and finds its bit cleared counts as a
//!   searcher already; one that takes its own bit back is nobody's.
//! - **S3** A producer in its slow path lowers `limit`, runs a SeqCst fence, then loads the counts;
//!   a sleeper changes the counts, runs a SeqCst fence, then raises `limit`. So a raise that is
//!   overwritten belongs to a sleeper that the producer sees, and asks for again.
//! - **S4** Places that nobody can be found for are *stranded*: neither idle nor held, so that no producer asks in vain.
//!   Stranding adds to `stranded`, then looks for bits, of `vacant` too unless the system refuses threads; a worker
//!   sets its bit, a thread that leaves as well, then looks at `stranded` (a SeqCst fence between). So one of them puts the
//!   places back; where the system has refused a thread, whoever next brings work.
//! - **S5** A searcher may *nap*, one at a time: it keeps its place, its name stands in the word of the counts, and it looks
//!   for work, without a fence, each time a time limit ends. So S1 holds with "nobody searches" for "nobody searches or naps":
//!   a napper counts as a searcher again before it sleeps for good, and then takes steps 2 to 4. Whoever pushes a
//!   fork leaves it to the napper; whoever queues a task ends the nap (and whoever takes the name out of the word owns
//!   that wake). So what is left to it waits for a nap at most: as long as the clock says, and never for ever.
//! - **S6** A near look asks nobody, as nobody else holds a place. So whoever takes one afterwards raises its own `limit`, after it
//!   has changed the counts and run a SeqCst fence: a guest, a thread that goes on after it was blocked, the only searcher that
//!   goes to work. (Not while somebody naps, whose change of the counts comes later.) Who goes on without a place, within `blocking`,
//!   counts as *away* before it looks, in the same way: meanwhile no look is near.
//!
//! A worker that finds the searchers' cap reached goes to sleep without a search of its own: the
//! searchers look for it. `places.md` has the argument in full, and what was measured.
//!
//! The division into places and threads is that of Go's scheduler (its P and M); compensation for threads that
//! wait is the JDK's `ManagedBlocker`.

mod bits;
mod counts;

use std::cell::Cell;

use raddle_sync::atomic::{AtomicU64, AtomicUsize, Ordering, fence};
use raddle_sync::padded::CachePadded;

pub(crate) use self::bits::Bits;
pub(crate) use self::counts::Counts;

/// So many hosts are asked whether others wait for them.
const MOST_LOOKS: usize = 64;
const ONE_SEARCHING: u64 = 1;
/// The napper's number, plus one, lies here.
const NAPPER: u32 = 16;
const ONE_IDLE: u64 = 1 << 32;

/// What whoever has changed the counts is to do about work that nobody is there to find (S1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub(crate) enum Look {
    /// Nothing: it was so before, or somebody searches.
    No,
    /// Look. No other thread held a place, so what others have brought is to be seen.
    Near,
    /// Steps 2 to 4.
    Far,
}

/// The workers of a pool, as the steps of the protocol need them.
pub(crate) trait Crew {
    /// Whether there is work that is to be seen without a fence.
    fn sees_work(&self) -> bool;
    /// Steps 2 to 4, but for the claim. True: there is work.
    fn look_around(&self) -> bool;
    /// Gives a parked worker that was claimed its token.
    fn rouse(&self, worker: usize);
    /// Whether a thread may be started, if there is memory for one.
    fn may_start(&self) -> bool;
    /// Starts a thread for a claimed place. False: there is no memory for one, or now none may be started.
    fn start(&self) -> bool;
    /// Gives a host that was claimed its token.
    fn rouse_host(&self, worker: usize);
    /// Whether a host may be asked, where no thread is to be had.
    fn may_host(&self) -> bool {
        true
    }
    /// A host is about to be asked.
    fn hosts_one(&self) {}
    /// Places stay stranded.
    fn stranded(&self) {}
    /// Whether a thread waits for what this host is at, so that others had better take things on.
    fn is_awaited(&self, _worker: usize) -> bool {
        false
    }
    /// Whether a host comes before a thread that is to be started.
    fn prefers_hosts(&self) -> bool {
        false
    }
}

/// With what a thread goes on that had blocked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Resumed {
    /// A place that was free.
    Place,
    /// One more than there are: somebody is in debt.
    Surplus,
    /// A place that was claimed for it as a host: it counts as a searcher.
    Claimed,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Places {
    /// How many there are.
    all: i64,
    counts: CachePadded<AtomicU64>,
    stranded: CachePadded<AtomicUsize>,
    /// Threads that go on without a place, and may fork (S6).
    away: CachePadded<AtomicUsize>,
    pub(crate) parked: Bits,
    pub(crate) vacant: Bits,
    pub(crate) hosts: Bits,
    /// Below this worker the next host is looked for.
    next_host: AtomicUsize,
    /// Threads that sleep for a lock.
    lockers: AtomicUsize,
}

impl Places {
    /// `places` of them, all idle; sets of `workers`, all empty.
    pub(crate) fn new(places: usize, workers: usize) -> Places {
        Places {
            all: places as i64,
            counts: CachePadded::new(AtomicU64::new(places as u64 * ONE_IDLE)),
            stranded: CachePadded::new(AtomicUsize::new(0)),
            away: CachePadded::new(AtomicUsize::new(0)),
            parked: Bits::new(workers),
            vacant: Bits::new(workers),
            hosts: Bits::new(workers),
            next_host: AtomicUsize::new(workers),
            lockers: AtomicUsize::new(0),
        }
    }

    /// The counts as a producer sees them after its fence (S1, step 3).
    #[inline]
    pub(crate) fn counts(&self) -> Counts {
        // ORD: ordered by the caller's light or SeqCst fence (S1, S3).
        Counts(self.counts.load(Ordering::Relaxed))
    }

    /// Changes the counts, by a holder.
    fn change(&self, by: u64) -> Look {
        // ORD: SeqCst, and the fence, for S1 and S3.
        let before = self.counts.fetch_add(by, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let (before, after) = (Counts(before), Counts(before.wrapping_add(by)));
        if before.need_wake() || !after.need_wake() {
            Look::No
        // ORD: ordered by the fence: S6.
        } else if before.idle() + 1 >= self.all && self.away.load(Ordering::Relaxed) == 0 {
            // Whoever held a place before gave it back in this word, after all that it brought.
            Look::Near
        } else {
            Look::Far
        }
    }

    /// Changes the counts if `to` says so.
    fn try_change(&self, to: impl Fn(Counts) -> Option<u64>) -> bool {
        self.counts
            // ORD: SeqCst so that S1 can speak of one order of all changes.
            .fetch_update(Ordering::SeqCst, Ordering::Relaxed, |word| {
                Some(word.wrapping_add(to(Counts(word))?))
            })
            .is_ok()
    }

    // --- holders ---

    /// A holder gives its place back; `searching` says whether it counts as a searcher.
    pub(crate) fn give(&self, searching: bool) -> Look {
        self.change(if searching { ONE_IDLE - ONE_SEARCHING } else { ONE_IDLE })
    }

    /// Takes a place, whether one is free or not. True: it was.
    pub(crate) fn take(&self) -> bool {
        // ORD: as in `change`.
        Counts(self.counts.fetch_sub(ONE_IDLE, Ordering::SeqCst)).idle() > 0
    }

    /// As `take`, as a searcher.
    pub(crate) fn take_searching(&self) {
        // ORD: as in `change`.
        self.counts.fetch_sub(ONE_IDLE - ONE_SEARCHING, Ordering::SeqCst);
    }

    /// Takes a place that is free, or that a searcher will give up for it.
    #[must_use]
    pub(crate) fn try_take(&self) -> bool {
        let spare = |counts: Counts| {
            counts.idle() + counts.searching() as i64 + i64::from(counts.naps()) > 0
        };
        self.try_change(|counts| spare(counts).then_some(ONE_IDLE.wrapping_neg()))
    }

    /// A holder that works begins to search, unless `cap` others do.
    #[must_use]
    pub(crate) fn try_search(&self, cap: usize) -> bool {
        self.try_change(|counts| (counts.searching() < cap).then_some(ONE_SEARCHING))
    }

    /// A searcher goes to work.
    pub(crate) fn stop_search(&self) -> Look {
        debug_assert!(self.counts().searching() > 0, "what stops a search was counted");
        self.change(ONE_SEARCHING.wrapping_neg())
    }

    /// A searcher begins to nap (S5), unless another one does.
    #[must_use]
    pub(crate) fn begin_nap(&self, worker: usize) -> bool {
        let napper = (worker as u64 + 1) << NAPPER;
        self.try_change(|counts| (!counts.naps()).then_some(napper.wrapping_sub(ONE_SEARCHING)))
    }

    /// Whoever naps, if it is this worker, counts as awake from now on. False: it does already.
    pub(crate) fn end_nap(&self, worker: usize) -> bool {
        let napper = (worker as u64 + 1) << NAPPER;
        self.try_change(|counts| {
            (counts.napper() == Some(worker)).then_some(ONE_SEARCHING.wrapping_sub(napper))
        })
    }

    // --- wakes ---

    /// Claims a free place for a searcher that the caller finds.
    #[must_use]
    pub(crate) fn claim(&self) -> bool {
        self.try_change(|counts| {
            (counts.idle() > 0).then_some(ONE_SEARCHING.wrapping_sub(ONE_IDLE))
        })
    }

    /// Nobody was found for a claimed place: strands it, and all that are free. False: somebody has come meanwhile, and
    /// the caller still has its claim.
    fn strand(&self, crew: &impl Crew) -> bool {
        let free = AtomicUsize::new(0);
        let _ = self.try_change(|counts| {
            let idle = counts.idle().max(0) as u64;
            // ORD: this thread's own.
            free.store(idle as usize, Ordering::Relaxed);
            Some((idle * ONE_IDLE + ONE_SEARCHING).wrapping_neg())
        });
        // ORD: S4.
        self.stranded.fetch_add(free.load(Ordering::Relaxed) + 1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let found = self.parked.any()
            || crew.may_host() && self.hosts.any()
            || crew.may_start() && self.vacant.any();
        let stays = !(found && self.unstrand() && self.claim());
        if stays {
            crew.stranded();
        }
        stays
    }

    /// Puts stranded places back: somebody may be found now. True: there were some; steps 2 to 4.
    pub(crate) fn unstrand(&self) -> bool {
        // ORD: S4; ordered by the fence of whoever has set a bit.
        if self.stranded.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let places = self.stranded.swap(0, Ordering::SeqCst);
        if places == 0 {
            return false;
        }
        let _ = self.change(places as u64 * ONE_IDLE);
        true
    }

    /// Whether somebody sleeps, naps or searches, who would take work: a hint.
    pub(crate) fn has_somebody(&self) -> bool {
        let counts = self.counts();
        self.parked.any() || counts.searching() > 0 || counts.naps()
    }

    /// How many threads work, those that search left out: a hint.
    pub(crate) fn working(&self) -> usize {
        // ORD: a hint.
        let stranded = self.stranded.load(Ordering::Relaxed);
        let free = self.counts().free_or_less() + stranded as i64;
        usize::try_from(self.all - free).unwrap_or(0)
    }

    /// Whether places are stranded: a hint.
    #[inline]
    pub(crate) fn has_stranded(&self) -> bool {
        // ORD: a hint.
        self.stranded.load(Ordering::Relaxed) > 0
    }
}

/// The steps of the protocol, by the threads of a pool.
impl Places {
    /// After work was made visible and a fence: finds somebody for it if nobody searches.
    #[inline]
    pub(crate) fn wake_if_needed(&self, crew: &impl Crew) {
        if self.counts().need_wake_now() {
            self.wake_one(crew);
        }
    }

    /// Sees that somebody uses a free place, if there is one, or that of whoever naps.
    #[cold]
    pub(crate) fn wake_one(&self, crew: &impl Crew) {
        if !self.disturb(crew) && self.claim() {
            self.find_taker(crew);
        }
    }

    /// Ends the nap, if somebody naps.
    fn disturb(&self, crew: &impl Crew) -> bool {
        let napper = self.counts().napper().filter(|&worker| self.end_nap(worker));
        napper.inspect(|&worker| crew.rouse(worker)).is_some()
    }

    /// Finds somebody for a place that the caller has claimed.
    fn find_taker(&self, crew: &impl Crew) {
        loop {
            if let Some(worker) = self.parked.take_lowest() {
                return crew.rouse(worker);
            }
            if crew.prefers_hosts() && self.wake_host(crew) {
                return;
            }
            if crew.start() || self.wake_host(crew) || self.strand(crew) {
                return;
            }
        }
    }

    /// Has a host take something on, each time another one, threads of the pool last, and where others wait for what lies
    /// beneath only if there is no other: what is taken on may wait for it, too.
    fn wake_host(&self, crew: &impl Crew) -> bool {
        if !crew.may_host() {
            return false;
        }
        // ORD: a hint.
        let from = self.next_host.load(Ordering::Relaxed);
        // To ask costs a heavy fence.
        let looks = Cell::new(MOST_LOOKS);
        let fits = |worker| {
            looks.set(looks.get().saturating_sub(1));
            looks.get() == 0 || !crew.is_awaited(worker)
        };
        let host = self.hosts.take_below(from, fits);
        host.is_some_and(|worker| {
            // ORD: a hint.
            self.next_host.store(worker, Ordering::Relaxed);
            crew.hosts_one();
            crew.rouse_host(worker);
            true
        })
    }

    /// Looks for work, as the change of the counts asks. True: there is some.
    fn look(&self, crew: &impl Crew, look: Look) -> bool {
        match look {
            Look::No => false,
            Look::Near => crew.sees_work(),
            Look::Far => crew.look_around(),
        }
    }

    /// A holder gives its place back for good, or until it is no longer blocked.
    pub(crate) fn release(&self, crew: &impl Crew) {
        let look = self.give(false);
        if self.look(crew, look) {
            self.wake_one(crew);
        }
    }

    /// Somebody has come who could use a place: those that nobody was found for are free again.
    pub(crate) fn recall(&self, crew: &impl Crew) {
        // ORD: S4, between the bit that the caller may have set and the load in `unstrand`.
        fence(Ordering::SeqCst);
        if self.unstrand() && crew.look_around() {
            self.wake_one(crew);
        }
    }

    /// A holder gives its place back to sleep; `searching` says whether it counts as a searcher. True: there is work, and
    /// it goes on as a searcher. False: it is to call `recall`, and then sleeps until its bit of `parked` is cleared.
    pub(crate) fn fall_asleep(&self, crew: &impl Crew, worker: usize, searching: bool) -> bool {
        self.parked.set(worker);
        let look = self.give(searching);
        if !self.look(crew, look) {
            return false;
        }
        // Whoever has claimed this worker has a token for it, which makes for one sleep less.
        let awake = !self.parked.take(worker) || self.claim();
        if !awake {
            // Others have taken the free places.
            self.parked.set(worker);
        }
        awake
    }

    /// A thread that has taken its own bit out of `parked` is no more: its memory may have another.
    pub(crate) fn leave(&self, crew: &impl Crew, worker: usize) {
        self.vacant.set(worker);
        // Whoever had a place for this thread, and found it neither parked nor gone, has stranded it.
        self.recall(crew);
    }

    /// A holder is about to block; as a host it may be claimed meanwhile.
    pub(crate) fn block(&self, crew: &impl Crew, worker: usize, hosts: bool) {
        if hosts {
            self.hosts.set(worker);
        }
        self.release(crew);
        if hosts && crew.may_host() {
            self.recall(crew);
        }
    }

    /// A thread goes on without a place, and may fork. It is to run a SeqCst fence, then to look at the counts (S6).
    pub(crate) fn go_away(&self) {
        // ORD: S6.
        self.away.fetch_add(1, Ordering::SeqCst);
    }

    /// The end of that.
    pub(crate) fn come_back(&self) {
        // ORD: one too many asks in vain.
        self.away.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether a worker is. A hint.
    pub(crate) fn has_away(&self) -> bool {
        self.away.load(Ordering::Relaxed) > 0
    }

    /// A thread is about to sleep for a lock.
    pub(crate) fn wants_lock(&self) {
        // ORD: a hint, here and below.
        self.lockers.fetch_add(1, Ordering::Relaxed);
    }

    /// The end of that.
    pub(crate) fn has_lock(&self) {
        self.lockers.fetch_sub(1, Ordering::Relaxed);
    }

    /// Whether any thread does. A hint.
    pub(crate) fn wants_locks(&self) -> bool {
        self.lockers.load(Ordering::Relaxed) > 0
    }

    /// A thread that had blocked goes on.
    pub(crate) fn resume(&self, worker: usize, hosts: bool) -> Resumed {
        if hosts && !self.hosts.take(worker) {
            Resumed::Claimed // S2
        } else if self.take() {
            Resumed::Place
        } else {
            Resumed::Surplus
        }
    }
}
