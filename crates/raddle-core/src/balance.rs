//! What a pool has been given to do, and how much of it is over: its end is counted, not inferred from who sleeps.
//!
//! | step | whoever ends the pool        | whoever has run something, and finds nothing more |
//! |------|------------------------------|---------------------------------------------------|
//! | 1    | says that it is to end         | has settled what it has run                          |
//! | 2    | *SeqCst fence*               | *SeqCst fence*                                    |
//! | 3    | adds up; if it is done, ends it | if it is to end, adds up; if it is done, ends it     |
//!
//! # Invariants
//!
//! - **EN1** An entry of a queue is counted in `queued`, or `outside`, before it can be found, and in `settled` when it has been
//!   run or is found to be void; a start hook before its thread is started, an exit hook before it is called, and each
//!   when it is over. What an entry queues while it runs is counted before it is settled. The sum of `settled` is added up
//!   first: so what is queued of all that it has seen, and of what those have queued, is in the second sum. If the two are equal, all
//!   that was ever queued is over, once nobody comes from outside.
//! - **EN2** Of those that take step 2 the last, in the order of fences, sees in step 3 that the pool is to end, and what
//!   all others have settled. So if each thread takes the steps when it has nothing more to do, one of them ends the pool.
//! - **EN3** Whoever ends the pool stores `ended`, runs a SeqCst fence, and gives all who sleep a token; and whoever is the last to
//!   keep it open lowers `open`, runs a SeqCst fence, and does so if it has ended. A sleeper looks at both before it sleeps and
//!   after each token. So it has one to come until it sees that the pool is over.

use raddle_sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use raddle_sync::padded::CachePadded;

/// What one worker has counted: each only ever grows, and is written by the worker's thread alone.
#[derive(Debug)]
#[repr(C)]
pub(crate) struct Entries {
    /// What it has queued.
    queued: AtomicUsize,
    /// Entries that it has seen to, whoever has queued them.
    settled: AtomicUsize,
}

impl Entries {
    pub(crate) fn new() -> Entries {
        Entries { queued: AtomicUsize::new(0), settled: AtomicUsize::new(0) }
    }

    /// By the worker: something is to be seen to, which cannot be found yet (EN1).
    #[inline]
    pub(crate) fn queue(&self) {
        // ORD: the worker's own count; whatever lets the entry be found has a Release.
        self.queued.store(self.queued.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
    }

    /// By the worker: an entry has been seen to (EN1).
    #[inline]
    pub(crate) fn settle(&self) {
        let settled = self.settled.load(Ordering::Relaxed).wrapping_add(1);
        // ORD: Release pairs with the Acquire in `settled`: what the entry queued is counted.
        self.settled.store(settled, Ordering::Release);
    }

    /// How many entries it has seen to.
    pub(crate) fn settled(&self) -> usize {
        // ORD: Acquire pairs with the Release in `settle`.
        self.settled.load(Ordering::Acquire)
    }
}

/// In `open`: nobody comes from outside any more.
const SHUT: usize = 1 << (usize::BITS - 1);

/// The end of a pool.
#[derive(Debug)]
pub(crate) struct End {
    /// Entries queued by threads that are no workers here.
    outside: CachePadded<AtomicUsize>,
    /// So many run that may wait for others though the pool has ended.
    open: AtomicUsize,
    /// The pool is to end once there is nothing left to do.
    due: AtomicBool,
    /// There is nothing left to do.
    ended: AtomicBool,
}

impl End {
    pub(crate) fn new() -> End {
        End {
            outside: CachePadded::new(AtomicUsize::new(0)),
            open: AtomicUsize::new(0),
            due: AtomicBool::new(false),
            ended: AtomicBool::new(false),
        }
    }

    // --- entries ---

    /// As [`Entries::queue`], by anybody, of so many.
    pub(crate) fn queue_outside(&self, entries: usize) {
        // ORD: the entry is found later; SeqCst as such a thread may have no other order with who adds up.
        self.outside.fetch_add(entries, Ordering::SeqCst);
    }

    /// One that was counted by `queue_outside` will never be there.
    pub(crate) fn take_back(&self) {
        // ORD: as in `queue_outside`; the caller then looks for the end.
        self.outside.fetch_sub(1, Ordering::SeqCst);
    }

    // --- the end ---

    /// Step 1 of whoever ends the pool, who then calls `look`.
    pub(crate) fn ask(&self) {
        // ORD: Release pairs with the Acquire in `look`: what the caller has queued before. Else by the fence of `look` (EN2).
        self.due.store(true, Ordering::Release);
    }

    /// Whether the pool is to end: a hint.
    pub(crate) fn is_due(&self) -> bool {
        // ORD: a hint; whoever falls asleep looks again.
        self.due.load(Ordering::Relaxed)
    }

    pub(crate) fn has_ended(&self) -> bool {
        // ORD: Acquire pairs with the store in `look`.
        self.ended.load(Ordering::Acquire)
    }

    /// Steps 2 and 3, by whoever has done step 1: these are all the workers. True: the pool has ended just now, and the
    /// caller gives all who sleep a token (EN3).
    #[must_use]
    pub(crate) fn look<'a, E: Iterator<Item = &'a Entries>>(&self, all: impl Fn() -> E) -> bool {
        fence(Ordering::SeqCst); // EN2
        // ORD: Acquire pairs with the Release in `ask`.
        let due = self.due.load(Ordering::Acquire);
        let ends = due && !self.has_ended() && self.is_done(all);
        if ends {
            // ORD: Release pairs with the Acquire in `has_ended`.
            self.ended.store(true, Ordering::Release);
            fence(Ordering::SeqCst); // EN3, pairs with the fence in `close`
        }
        ends
    }

    /// Whether nothing is queued and nothing runs: exact once nobody comes from outside (EN1).
    fn is_done<'a, E: Iterator<Item = &'a Entries>>(&self, all: impl Fn() -> E) -> bool {
        let settled = all().map(Entries::settled).fold(0, usize::wrapping_add);
        // ORD: after the first sum, whose loads are Acquire.
        let queued = all().map(|entries| entries.queued.load(Ordering::Relaxed));
        let outside = self.outside.load(Ordering::SeqCst);
        settled == queued.fold(outside, usize::wrapping_add)
    }

    // --- what runs when it has ended ---

    /// Whether nobody comes any more: the pool has ended, and nobody keeps it open.
    pub(crate) fn is_over(&self) -> bool {
        // ORD: ordered by the fences of EN3, and by that of `open`; what ran while it was open is to be seen.
        self.has_ended() && self.open.load(Ordering::SeqCst) & !SHUT == 0
    }

    /// Until `close` is called the pool is not over, should it have ended, which is what this says.
    pub(crate) fn open(&self) -> bool {
        // ORD: as in `is_over`.
        self.open.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        self.has_ended()
    }

    /// As `open`, by a thread from outside that is to queue something. False: the pool is over.
    #[must_use]
    pub(crate) fn open_from_outside(&self) -> bool {
        // ORD: as in `is_over`. Whoever ends the pool looks for what is queued until it has shut it, which it cannot meanwhile.
        let more = |open| (open & SHUT == 0).then_some(open + 1);
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, more).is_ok()
    }

    /// By whoever ends the pool, when it has ended and is over: from now on nobody comes from outside. What has been queued before is
    /// to be looked for after this. False: somebody keeps it open.
    #[must_use]
    pub(crate) fn shut(&self) -> bool {
        // ORD: as in `is_over`.
        let shut = self.open.compare_exchange(0, SHUT, Ordering::SeqCst, Ordering::SeqCst);
        matches!(shut, Ok(_) | Err(SHUT))
    }

    /// Ends what `open` began. True: the pool is over, and the caller gives all who sleep a token (EN3).
    #[must_use]
    pub(crate) fn close(&self) -> bool {
        // ORD: as in `is_over`.
        let last = self.open.fetch_sub(1, Ordering::SeqCst) & !SHUT == 1;
        fence(Ordering::SeqCst); // EN3, pairs with the fence in `look`
        last && self.has_ended()
    }
}
