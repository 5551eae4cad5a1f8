//! What a fat lock consists of.
//!
//! | bit of `state` | meaning |
//! |---|---|
//! | 0 `LOCKED` | somebody holds the lock, or it is being inflated or is free |
//! | 1 `QUEUED` | the queue of those who want the lock is not empty |
//! | 2 `WOKEN` | one that was in the queue is awake and tries to take the lock |
//! | 3 `PINNED` | somebody waits for a notification |
//! | 4 `DEAD` | the entry belongs to no lock |
//! | 29-26 | generation, as in the word |
//!
//! | state | lock | unlock |
//! |---|---|---|
//! | none | take it | |
//! | `LOCKED` | spin, then into the queue | give the entry back, or keep it where the lock is hot |
//! | `LOCKED`, `QUEUED` | the same | wake the first in the queue, or hand it the lock if that is due |
//! | `LOCKED`, `WOKEN` | the same | just free it: somebody is awake and looks |
//! | `QUEUED` or `WOKEN`, free | take it, ahead of the queue | |
//!
//! **E1** Entries never move and are never freed: touching one is always possible, and whoever has
//! taken one asks the word again whether it is still the lock's.
//! **E2** A word says `fat(i)` exactly while the entry belongs to it. Only the holder gives an entry back,
//! by the step `LOCKED -> LOCKED | DEAD` from a state with no other bit: nobody is queued, awake, or waits
//! to be notified. So an entry with one of these bits stays, and so does one that is held by others.
//! **E3** `QUEUED` and the queue are changed under `inner`; `QUEUED` is set only beside `LOCKED`. So the
//! holder learns of it, at the latest when its own step to a free lock fails.
//! **E4** At most one strand is `WOKEN`. It clears the bit when it takes the lock, or goes back into the
//! queue, ahead of all others, or gives up; each by a read-modify-write that finds the lock held, so
//! that the holder looks after the queue.
//! **E5** `owner`, `levels` are written by the holder only. A strand that finds its own name in `owner`
//! holds the lock.

use crate::queue::{List, Node};
use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::sync::Mutex;
use std::time::{Duration, Instant};

pub(crate) const LOCKED: u32 = 1;
pub(crate) const QUEUED: u32 = 2;
pub(crate) const WOKEN: u32 = 4;
pub(crate) const PINNED: u32 = 8;
pub(crate) const DEAD: u32 = 16;

/// One fat lock.
#[repr(align(128))]
pub(crate) struct Entry {
    pub(crate) state: AtomicU32,
    /// The holder's name; 0 while nobody holds it, or has only just taken it.
    pub(crate) owner: AtomicU32,
    /// Levels beyond the first.
    pub(crate) levels: AtomicU32,
    /// The word to go back to: free, or hashed. Guarded by `inner` while the entry is alive.
    pub(crate) restore: AtomicU32,
    /// 1: stays fat when nobody wants it, because it would soon be fat again.
    pub(crate) sticky: AtomicU32,
    pub(crate) index: u32,
    pub(crate) inner: Mutex<Inner>,
    /// The next free entry; guarded by the table's lock.
    pub(crate) next_free: AtomicU32,
}

/// The queues of a fat lock.
pub(crate) struct Inner {
    /// Those who want the lock.
    pub(crate) lock: List,
    /// Those who wait for a notification.
    pub(crate) notice: List,
    /// From when on an unlock hands over instead of waking.
    fair_at: Option<Instant>,
    seed: u32,
}

impl Entry {
    pub(crate) fn new(index: u32) -> Entry {
        Entry {
            state: AtomicU32::new(LOCKED | DEAD),
            owner: AtomicU32::new(0),
            levels: AtomicU32::new(0),
            restore: AtomicU32::new(0),
            sticky: AtomicU32::new(0),
            index,
            inner: Mutex::new(Inner {
                lock: List::new(),
                notice: List::new(),
                fair_at: None,
                seed: index + 1,
            }),
            next_free: AtomicU32::new(0),
        }
    }

    /// Changes the state from whatever it is; the state before.
    pub(crate) fn update(&self, order: Ordering, change: impl Fn(u32) -> u32) -> u32 {
        let mut seen = self.state.load(Ordering::Relaxed);
        loop {
            match self.state.compare_exchange_weak(seen, change(seen), order, Ordering::Relaxed) {
                Ok(_) => return seen,
                Err(now) => seen = now,
            }
        }
    }

    /// One attempt to take the lock whatever else there is; as the strand awake, if `woken`. The error
    /// is the state that stood in the way, which is held, or of another generation.
    pub(crate) fn take(&self, generation: u32, woken: bool) -> Result<(), u32> {
        let mut seen = self.state.load(Ordering::Relaxed);
        loop {
            if seen & (LOCKED | DEAD | crate::word::GENERATIONS) != generation {
                return Err(seen);
            }
            let taken = (seen | LOCKED) & if woken { !WOKEN } else { !0 };
            // ORD: Acquire pairs with the Releases in `release`: the last critical section.
            match self.state.compare_exchange_weak(
                seen,
                taken,
                Ordering::Acquire,
                Ordering::Relaxed,
            ) {
                Ok(_) => return Ok(()),
                Err(now) => seen = now,
            }
        }
    }
}

impl Inner {
    /// Whether the unlock that asks had better hand over; about every half millisecond, as in
    /// parking_lot, at intervals that do not beat with anything.
    pub(crate) fn fairness_is_due(&mut self) -> bool {
        if cfg!(any(raddle_loom, raddle_shuttle)) {
            return false; // No clock. Models ask for fairness.
        }
        let now = Instant::now();
        let due = self.fair_at.is_some_and(|at| now >= at);
        if due || self.fair_at.is_none() {
            // xorshift (Marsaglia, "Xorshift RNGs", 2003).
            self.seed ^= self.seed << 13;
            self.seed ^= self.seed >> 17;
            self.seed ^= self.seed << 5;
            self.fair_at = Some(now + Duration::from_nanos(u64::from(self.seed % 1_000_000)));
        }
        due
    }

    /// For the entry's next lock.
    pub(crate) fn reset(&mut self) {
        debug_assert!(self.lock.is_empty() && self.notice.is_empty());
        self.fair_at = None;
    }

    /// Puts a waiting node among those who want the lock.
    pub(crate) fn requeue(&mut self, node: *const Node) {
        self.lock.push_back(node);
    }
}
