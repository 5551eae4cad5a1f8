//! Turns for others: a thread that waits, and always finds something of its own to run meanwhile, never blocks and so never gives its
//! place away. What it waits for may be what lies beneath, or beside it. So every so often it takes the oldest of its own instead of
//! the newest; and where what is oldest has lain there for long, it gives its place to another thread for a moment, as
//! [`yield_now`](crate::yield_now) does. And a thread that works, and always has tasks, now and then takes a fork that has lain
//! beneath another's leaf for long.

use std::cell::Cell;
use std::time::Duration;

use raddle_sync::atomic::Ordering;
use raddle_sync::time::Instant;

use crate::pool::clock;
use crate::pool::find_work::FAIRNESS;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;

/// What has not moved for so long has its turn: a hundred times as long as a turn lasts.
const PATIENCE: Duration = Duration::from_millis(10);
/// The same, so many times as long, of what lies with others, who may be about to see to it.
const SELDOM: u32 = 10;
/// For how long a thread gives its place away: about a wake.
const TURN: Duration = Duration::from_micros(100);

/// Who yields again so soon, in nanoseconds, may do nothing else ..
const AGAIN: u64 = 1_000_000;
/// .. and does not, unless it has had a processor for so long since.
const WORKS: u64 = 50_000;
/// With so many for each processor that do, their naps are all that it keeps up with.
const CROWD: usize = 64;
/// The longest that it leaves its place to those that yield as well.
const MOST: u64 = if cfg!(raddle_model) { 0 } else { 100_000_000 };
/// In place of a time: it naps ..
pub(crate) const NAPS: u64 = u64::MAX;
/// .. and has worked before.
pub(crate) const NAPS_AND_WORKS: u64 = u64::MAX - 1;

/// Why a thread gives its turn away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is to look again whether something has come: it may do nothing else.
    Yields,
    /// It has run much while it waited.
    Waits,
}

/// What a thread has run while it waited, and what lay in the queues meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    ran: Cell<u32>,
    /// The oldest outside of the pool's threads, in this one's ring, and among its forks.
    oldest: [Cell<Option<Oldest>>; 3],
    /// A private fork of another thread, and anything of another's.
    hidden: Cell<Option<Oldest>>,
    elsewhere: Cell<Option<Oldest>>,
    /// When the last nap was over, by the pool's clock.
    napped: Cell<u64>,
    /// The thread's processor time then, where the system says.
    had: Cell<Option<u32>>,
    /// What it is to be taken for while it naps: 0 where it does not.
    naps: Cell<u64>,
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

    /// Lets another thread work in this one's place for a moment, or where it would wait so runs some of the work itself.
    #[cold]
    pub(crate) fn give_turn(&self, why: Why) {
        if !self.host_once() {
            self.nap_a_turn(why);
        }
    }

    /// As `give_turn`, and runs nothing. It is as many turns long as there are threads that do so for each place, or in a crowd for each
    /// processor: hundreds that looked again after one each would do nothing else.
    pub(crate) fn nap_a_turn(&self, why: Why) {
        let registry = self.registry();
        let naps = |naps| Worker::occupied().for_each(|memory| memory.owned.turns.naps.set(naps));
        // ORD: a count, for how long a nap is.
        let others = registry.yielding.fetch_add(1, Ordering::Relaxed);
        let processors = registry.processors.max(1);
        let crowd = others / processors >= CROWD;
        let places = if crowd { registry.threads().min(processors) } else { registry.threads() };
        let turns = u32::try_from(1 + others / places).unwrap_or(u32::MAX);
        let own = &self.owned.turns;
        let began = registry.now();
        let since = began.saturating_sub(own.napped.get());
        let had = own.had.get().zip(clock::thread_time());
        let known = if own.napped.get() == 0 { 0 } else { since };
        let worked = had.map_or(known, |(then, now)| u64::from(now.wrapping_sub(then)) * 100);
        // Who does so again and again, and nothing else. In a crowd it may have been without a processor for long, and a wake takes longer.
        let soon = since < AGAIN || crowd && had.is_some();
        let works =
            if crowd { (WORKS * u64::from(turns) / CROWD as u64).min(AGAIN) } else { WORKS };
        let polls = why == Why::Yields && soon && (had.is_none() || worked < works);
        naps(if polls { NAPS } else { NAPS_AND_WORKS });
        let share = (worked * (others as u64 + 1) / registry.threads() as u64).min(MOST);
        let roused = loop {
            let roused = self.parker().nap(TURN * turns);
            // Who works in turn with others has no place of its own before each of them has had one.
            let goes_on = registry.places.counts().in_debt() && registry.now() - began < share;
            if roused || !goes_on {
                break roused;
            }
        };
        naps(0);
        own.napped.set(registry.now());
        own.had.set(clock::thread_time());
        self.owned.looks.weigh(if roused { 1 } else { turns });
        registry.yielding.fetch_sub(1, Ordering::Relaxed);
    }

    /// The thread gives its place away: a hint, for whoever wonders whether the pool stands still.
    pub(crate) fn note_nap(&self) {
        // ORD: as said.
        self.polls.store(self.owned.turns.naps.get(), Ordering::Relaxed);
    }

    /// It is about to have one again.
    pub(crate) fn note_look(&self) {
        let until =
            if self.owned.turns.naps.get() == NAPS { self.registry().now() + AGAIN } else { 0 };
        // ORD: as above.
        self.polls.store(until, Ordering::Relaxed);
    }
}
