//! Turns for others: a thread that waits, and always finds something of its own to run meanwhile, never blocks and so never gives its
//! place away. What it waits for may be what lies beneath, or beside it. So every so often it takes the oldest of its own instead of
//! the newest; and where what is oldest has lain there for long, it gives its place to another thread for a moment, as
//! [`yield_now`](crate::yield_now) does.

use std::cell::Cell;
use std::time::Duration;

use raddle_sync::time::Instant;

use crate::pool::find_work::FAIRNESS;
use crate::pool::worker_memory::WorkerMemory;

/// What has not moved for so long has its turn: a hundred times as long as a turn lasts.
const PATIENCE: Duration = Duration::from_millis(10);
/// For how long a thread gives its place away: about a wake.
const TURN: Duration = Duration::from_micros(100);

/// What a thread has run while it waited, and what lay in the queues meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    ran: Cell<u32>,
    oldest: Cell<Oldest>,
    /// Since when these have been the oldest.
    since: Cell<Option<Instant>>,
}

/// What is oldest outside of the pool's threads, in this one's ring, and among its forks.
type Oldest = (usize, Option<usize>, Option<usize>);

impl WorkerMemory {
    /// Counts one more task that was run while the thread waits. True: the oldest comes next.
    #[inline]
    pub(crate) fn counts_inline(&self) -> bool {
        let ran = self.owned.turns.ran.get().wrapping_add(1);
        self.owned.turns.ran.set(ran);
        ran % FAIRNESS == 0
    }

    /// Whether others are to have a turn. To be asked where the oldest would come next.
    #[cold]
    pub(crate) fn others_starve(&self) -> bool {
        let registry = self.registry();
        // Programs rely on rayon's order.
        if registry.is_seated() {
            return false;
        }
        let turns = &self.owned.turns;
        let mine = self.ring.has_work().then(|| self.ring.oldest());
        let oldest = (registry.injector.first(), mine, self.fork.oldest());
        let now = Instant::now();
        if oldest == Oldest::default() || turns.oldest.replace(oldest) != oldest {
            turns.since.set(Some(now));
            return false;
        }
        let starve = turns.since.get().is_some_and(|since| now - since >= PATIENCE);
        if starve {
            turns.since.set(Some(now));
        }
        starve
    }

    /// Lets another thread work in this one's place for a moment, or where it would wait so runs some of the work itself.
    #[cold]
    pub(crate) fn give_turn(&self) {
        if !self.host_once() {
            self.nap_a_turn();
        }
    }

    /// As `give_turn`, and runs nothing.
    pub(crate) fn nap_a_turn(&self) {
        self.parker().nap(TURN);
    }
}
