//! Turns for others: a thread that waits, and always finds something of its own to run meanwhile, never blocks and so never gives its
//! place away. What it waits for may be what lies beneath, or beside it. So every so often it takes the oldest of its own instead of
//! the newest; and where what is oldest has lain there for long, it gives its place to another thread for a moment, as
//! [`yield_now`](crate::yield_now) does. And a thread that works, and always has tasks, now and then takes a fork that has lain
//! beneath another's leaf for long.

use std::cell::Cell;
use std::time::Duration;

use raddle_sync::time::Instant;

use crate::pool::find_work::FAIRNESS;
use crate::pool::worker_memory::WorkerMemory;

/// What has not moved for so long has its turn: a hundred times as long as a turn lasts.
const PATIENCE: Duration = Duration::from_millis(10);
/// The same, so many times as long, of what lies with others, who may be about to see to it.
const SELDOM: u32 = 10;

/// What a thread has run while it waited, and what lay in the queues meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    ran: Cell<u32>,
    /// The oldest outside of the pool's threads, in this one's ring, and among its forks.
    oldest: [Cell<Option<Oldest>>; 3],
    /// A private fork of another thread, and anything of another's.
    hidden: Cell<Option<Oldest>>,
    elsewhere: Cell<Option<Oldest>>,
}

/// Where something lies, and since when it is known to.
type Oldest = (usize, Instant);

impl WorkerMemory {
    /// Counts one more task that was run while the thread waits. True: the oldest comes next.
    #[inline]
    pub(crate) fn counts_inline(&self) -> bool {
        let ran = self.owned.turns.ran.get().wrapping_add(1);
        self.owned.turns.ran.set(ran);
        // There programs rely on rayon's order.
        ran % FAIRNESS == 0 && !self.registry().is_seated()
    }

    /// Whether others are to have a turn. To be asked where the oldest would come next.
    #[cold]
    pub(crate) fn others_starve(&self) -> bool {
        let outside = self.registry().injector.first();
        let oldest = [
            (outside != 0).then_some(outside),
            self.ring.has_work().then(|| self.ring.oldest()),
            self.fork.oldest(),
        ];
        let now = Instant::now();
        let elsewhere = self.left_lying(&self.owned.turns.elsewhere, SELDOM * PATIENCE, |memory| {
            memory.fork.oldest().or_else(|| memory.ring.has_work().then(|| memory.ring.oldest()))
        });
        let mut starve = elsewhere.is_some();
        for (oldest, known) in oldest.into_iter().zip(&self.owned.turns.oldest) {
            let before = known.get();
            let since = match (oldest, before) {
                (Some(place), Some((same, since))) if place == same => since,
                _ => now,
            };
            let late = now - since >= PATIENCE;
            starve |= late;
            known.set(oldest.map(|place| (place, if late { now } else { since })));
        }
        starve
    }

    /// Whose oldest fork is to be taken from beneath its leaf, though that costs a heavy fence.
    pub(super) fn hidden_fork(&self) -> Option<usize> {
        self.left_lying(&self.owned.turns.hidden, PATIENCE, |memory| {
            memory.fork.oldest().filter(|_| !memory.fork.has_public())
        })
    }

    /// With whom something lies that lay there when this was asked last, long ago: by what is the oldest of its kind there.
    fn left_lying(
        &self,
        known: &Cell<Option<Oldest>>,
        patience: Duration,
        oldest: impl Fn(&WorkerMemory) -> Option<usize>,
    ) -> Option<usize> {
        let (now, before) = (Instant::now(), known.get());
        if before.is_some_and(|(_, since)| now - since < patience) {
            return None;
        }
        let lies_at = |victim: usize| {
            let memory = self.registry().memories.get(victim)?;
            Some(std::ptr::from_ref(memory).addr().wrapping_add(oldest(memory)?))
        };
        // Nothing lies at 0.
        known.set(Some((self.others().find_map(lies_at).unwrap_or(0), now)));
        let (same, _) = before?;
        self.others().find(|&victim| lies_at(victim) == Some(same))
    }
}
