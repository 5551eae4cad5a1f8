//! What a fat lock consists of.
//!
//! | bit of `state` | meaning |
//! |---|---|
//! | 0 `LOCKED` | somebody holds the lock, or it is being inflated or is free |
//! | 1 `QUEUED` | the queue of those who want the lock is not empty |
//! | 2 `WOKEN` | one that was in the queue is awake and tries to take the lock |
//! | 3 `PINNED` | somebody waits for a notification |
//! | 4 `DEAD` | the entry belongs to no lock |
//! | 5 `HANDED` | the lock is held, by the one who is `WOKEN`, though it may not know yet |
//! | 6 `WANT` | the one who is `WOKEN`, or else the first in the queue, has lost often enough |
//! | 7 `LAZY` | the first in the queue has lost, and will look again by itself in a moment |
//! | 29-26 | generation, as in the word |
//!
//! | state | lock | unlock |
//! |---|---|---|
//! | none | take it | |
//! | `LOCKED` | spin, then into the queue | give the entry back, or keep it where the lock is hot |
//! | `LOCKED`, `QUEUED` | into the queue | free it, then wake the first |
//! | `LOCKED`, `QUEUED`, `LAZY` | the same | just free it |
//! | `LOCKED`, `QUEUED`, `WANT` | the same | hand it to the first |
//! | `LOCKED`, `WOKEN` | the same | just free it |
//! | `LOCKED`, `WOKEN`, `WANT` | the same | hand it over, by `HANDED` |
//! | `QUEUED` or `WOKEN`, free | take it, ahead of those who wait | |
//!
//! So a lock under pressure stays with whoever runs, and pays for no wake-ups, until the one that has waited
//! longest comes awake, some ten thousand times a second, and is given it on the spot. Where an unlock just frees the lock, or
//! wakes the first, it sets the entry [aside](crate::aside), if it can. Once one had to wait for more
//! than a millisecond the lock *starves*: it is handed over in order, by each unlock, and the next one comes awake meanwhile,
//! until one gets it sooner.
//!
//! **E1** Entries never move and are never freed: touching one is always possible, and whoever has
//! taken one asks the word again whether it is still the lock's.
//! **E2** A word says `fat(i)` exactly while the entry belongs to it and is not aside. Only the holder gives such an entry back,
//! by the step `LOCKED -> LOCKED | DEAD` from a state with no other bit: nobody is queued, awake, or waits
//! to be notified. So an entry with one of these bits stays, and so does one that is held by others.
//! **E3** `QUEUED` and the queue are changed under `inner`; `QUEUED` is set only beside `LOCKED`. So the
//! holder learns of it, at the latest when its own step to a free lock fails.
//! **E4** At most one strand is `WOKEN`. It clears the bit when it takes the lock, or goes back into the
//! queue, ahead of all others, or gives up; each by a read-modify-write that finds the lock held, so
//! that the holder looks after the queue. While the first in the queue is `LAZY` nobody is woken, and the
//! same goes for it: it makes itself `WOKEN` when its moment is over, or takes the lock if it gives up.
//! `WANT` is of the strand that set it, and goes with its taking the lock or giving up.
//! **E6** A *clean* hold, one of a sticky entry that began with no other bit set, ends with a plain store as
//! that of a thin lock does: its state is the holder's alone. Whoever wants to change it flags the holder
//! first (L2), notes that in `armed`, and finds under `inner` that the holder is the same; that holder's
//! release will find the flag, and take it away.
//! **E5** `owner`, `levels` are written by the holder only. A strand that finds its own name in `owner`
//! holds the lock.

use crate::armed::Armed;
use crate::queue::List;
use raddle_sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use raddle_sync::sync::Mutex;
use raddle_sync::time::Instant;

pub(crate) const LOCKED: u32 = 1;
pub(crate) const QUEUED: u32 = 2;
pub(crate) const WOKEN: u32 = 4;
pub(crate) const PINNED: u32 = 8;
pub(crate) const DEAD: u32 = 16;
pub(crate) const HANDED: u32 = 32;
pub(crate) const WANT: u32 = 64;
pub(crate) const LAZY: u32 = 128;

const MODEL: bool = cfg!(raddle_model);
/// Nanoseconds for which a lock may pass over those who wait for it, if they get no processor to ask for
/// it themselves.
const PATIENCE: u64 = 150_000;

/// Nanoseconds after which one that waits has starved.
pub(crate) const STARVED: u64 = 1_000_000;

/// Nanoseconds since some moment; not in models.
pub(crate) fn clock() -> u64 {
    if MODEL {
        return 0;
    }
    raddle_sync::lazy_static! {
        static START: Instant = Instant::now();
    }
    u64::try_from(START.elapsed().as_nanos()).unwrap_or(u64::MAX)
}

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
    /// 1: the hold is clean (E6). The holder's.
    pub(crate) clean: AtomicU32,
    /// The holder that somebody has flagged for this entry, or 0; guarded by `inner`.
    pub(crate) armed: AtomicU32,
    /// 1: stays fat when nobody wants it, because it would soon be fat again.
    pub(crate) sticky: AtomicU32,
    /// When the lock last went to the one that had waited longest, or that was last passed over for the first time, in
    /// nanoseconds. The holder's.
    turned: AtomicU64,
    /// 1: the one that got the lock last had starved. The holder's.
    pub(crate) starving: AtomicU32,
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
}

impl Entry {
    pub(crate) fn new(index: u32) -> Entry {
        Entry {
            state: AtomicU32::new(LOCKED | DEAD),
            owner: AtomicU32::new(0),
            levels: AtomicU32::new(0),
            restore: AtomicU32::new(0),
            clean: AtomicU32::new(0),
            armed: AtomicU32::new(0),
            sticky: AtomicU32::new(0),
            turned: AtomicU64::new(0),
            starving: AtomicU32::new(0),
            index,
            inner: Mutex::new(Inner { lock: List::new(), notice: List::new() }),
            next_free: AtomicU32::new(0),
        }
    }

    /// Says who holds the lock; said by the holder (E5).
    #[inline]
    pub(crate) fn own(&self, me: u32) {
        self.owner.store(me, Ordering::Relaxed);
        // ORD: before what is done with the lock, in the eyes of a fork (F3).
        if !MODEL {
            fence(Ordering::Release);
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

    /// Whether those who wait have been passed over for long, and had better be handed the lock. Asked by the holder.
    pub(crate) fn is_passed_over(&self, now: u64) -> bool {
        // ORD: `Relaxed`, here and below: the lock orders its holders.
        !MODEL && now.saturating_sub(self.turned.load(Ordering::Relaxed)) > PATIENCE
    }

    /// From now on one that is told to run may be passed over. Said by the holder.
    pub(crate) fn pass_over(&self) {
        if !MODEL {
            self.turned.store(clock(), Ordering::Relaxed);
        }
    }

    /// In the child of a fork, where nobody waits (F2). Not dead, though it may be in a free list.
    #[cfg(all(unix, not(any(miri, raddle_model))))]
    pub(crate) fn forget_waiters(&self, inner: &mut Inner) {
        *inner = Inner { lock: List::new(), notice: List::new() };
        self.armed.store(0, Ordering::Relaxed);
        self.starving.store(0, Ordering::Relaxed);
        let held = self.owner.load(Ordering::Relaxed) != 0; // F3
        let free = if held { 0 } else { LOCKED };
        let waiting = QUEUED | WOKEN | PINNED | HANDED | WANT | LAZY;
        self.update(Ordering::Relaxed, |state| state & !(waiting | free | DEAD));
    }

    /// Makes it again what the entry of a thin lock is that has not come by.
    #[cfg(all(unix, not(any(miri, raddle_model))))]
    pub(crate) fn lock_again(&self) {
        self.update(Ordering::Relaxed, |state| state | LOCKED);
    }

    /// Says that one which has waited since `began` has got the lock. Said by the holder.
    pub(crate) fn turn(&self, began: u64) {
        if !MODEL {
            let now = clock();
            self.turned.store(now, Ordering::Relaxed);
            let starved = now.saturating_sub(began) > STARVED;
            self.starving.store(starved.into(), Ordering::Relaxed);
        }
    }

    /// Whether the state of this sticky entry, found locked under `inner`, may be changed by others than its
    /// holder: its hold did not begin clean, or its holder is flagged (E6).
    pub(crate) fn is_fair_game(&self, armed: &mut Armed) -> bool {
        // ORD: Acquire pairs with the Releases that free the lock: `owner` is not older than that.
        let state = self.state.load(Ordering::Acquire);
        if state & (QUEUED | WOKEN | LAZY | PINNED) != 0 {
            return true;
        }
        let holder = armed.holder();
        if self.owner.load(Ordering::Relaxed) > crate::word::MAX_OWNER {
            return true; // Without an id, so without a slot: its hold is not clean.
        }
        if holder == 0 || self.owner.load(Ordering::Relaxed) != holder {
            return false;
        }
        if self.armed.swap(holder, Ordering::Relaxed) == 0 {
            armed.leave();
        }
        true
    }

    /// One attempt to take the lock whatever else there is; as the strand awake, if `woken`. The error
    /// is the state that stood in the way, which is held, or of another generation.
    pub(crate) fn take(&self, generation: u32, woken: bool) -> Result<(), u32> {
        let mut seen = self.state.load(Ordering::Relaxed);
        loop {
            let handed = woken && seen & HANDED != 0;
            if !handed && seen & (LOCKED | DEAD | crate::word::GENERATIONS) != generation {
                return Err(seen);
            }
            let taken = (seen | LOCKED) & if woken { !(WOKEN | HANDED | WANT) } else { !0 };
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
