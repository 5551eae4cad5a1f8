//! Threads that yield: each gives its place away for a moment, once or again and again. Who does so again and again, and nothing else,
//! polls for what a queued task will do. It works no more than a sleeper does, and [`relief`](super::relief) is to know it from one
//! that works in turn with others.

use std::cell::Cell;
use std::time::Duration;

use raddle_sync::atomic::{AtomicU64, Ordering};

use crate::pool::clock;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;

/// For how long a thread gives its place away, at least: about a wake.
const TURN: Duration = Duration::from_micros(100);
/// Who yields again so soon, in nanoseconds, may do nothing else ..
const AGAIN: u64 = 1_000_000;
/// .. and does not, unless it has had a processor for so long since.
const WORKS: u64 = 50_000;
/// With so many for each processor that do, their naps are all that it keeps up with.
const CROWD: usize = 64;
/// The longest that one which has worked leaves its place to those that yield as well.
const MOST: u64 = if cfg!(raddle_model) { 0 } else { 100_000_000 };

/// Why a thread gives its turn away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Why {
    /// It is to look again whether something has come: it may do nothing else.
    Yields,
    /// It has run much while it waited.
    Waits,
}

/// What a thread that yields is taken for. Others read it as a hint.
#[derive(Debug, Default)]
pub(crate) struct Poller(AtomicU64);

/// What others see of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    /// It does not yield, or has not for long.
    Other,
    /// It has its place, and has done nothing but yield for long.
    Polls,
    /// The same, and has just given its place away.
    Naps,
    /// It has given its place away, and has worked before.
    NapsAndWorks,
}

impl Poller {
    /// In place of a time: it naps ..
    const NAPS: u64 = u64::MAX;
    /// .. and has worked before.
    const NAPS_AND_WORKS: u64 = u64::MAX - 1;

    /// What it is, at a time by the pool's clock.
    pub(crate) fn seen(&self, now: u64) -> Seen {
        // ORD: a hint.
        match self.0.load(Ordering::Relaxed) {
            Self::NAPS => Seen::Naps,
            Self::NAPS_AND_WORKS => Seen::NapsAndWorks,
            until if until > now => Seen::Polls,
            _ => Seen::Other,
        }
    }

    /// One of the two above, until when it is taken to do nothing else, or 0.
    fn set(&self, is: u64) {
        // ORD: as above.
        self.0.store(is, Ordering::Relaxed);
    }
}

/// What a thread knows of its own naps.
#[derive(Debug, Default)]
pub(crate) struct Yields {
    /// When the last one was over, by the pool's clock.
    napped: Cell<Option<u64>>,
    /// The thread's processor time then, where the system says.
    had: Cell<Option<u32>>,
    /// What it is to be taken for while it naps: see `Poller`, and 0 where it does not.
    naps: Cell<u64>,
}

/// Who naps, and where.
#[derive(Clone, Copy, Debug)]
struct Crowd {
    others: usize,
    threads: usize,
    processors: usize,
}

/// A thread since its last nap, in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Since {
    /// So long it has been ..
    clock: u64,
    /// .. and so long it had a processor, where the system says.
    processor: Option<u64>,
}

/// What a nap is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Nap {
    /// It is so many turns long ..
    turns: u32,
    /// .. and again, for so many nanoseconds, while others want the place.
    share: u64,
    /// Nothing was done since the last one.
    polls: bool,
}

impl Crowd {
    /// It is as many turns long as there are threads that nap for each place, or in a crowd for each processor: hundreds that looked
    /// again after one each would do nothing else.
    fn nap(self, why: Why, since: Option<Since>) -> Nap {
        let Crowd { others, threads, processors } = self;
        let is_crowd = others / processors >= CROWD;
        let places = if is_crowd { threads.min(processors) } else { threads };
        let turns = u32::try_from(1 + others / places).unwrap_or(u32::MAX);
        let Some(since) = since else {
            return Nap { turns, share: 0, polls: false };
        };
        let worked = since.processor.unwrap_or(since.clock);
        let told = since.processor.is_some();
        // In a crowd it may have been without a processor for long, and a wake takes longer.
        let soon = since.clock < AGAIN || is_crowd && told;
        let works =
            if is_crowd { (WORKS * u64::from(turns) / CROWD as u64).min(AGAIN) } else { WORKS };
        let polls = why == Why::Yields && soon && (!told || worked < works);
        let share = worked.saturating_mul(others as u64 + 1) / threads as u64;
        Nap { turns, share: share.min(MOST), polls }
    }
}

impl WorkerMemory {
    /// Lets another thread work in this one's place for a moment, or where it would wait so runs some of the work itself.
    #[cold]
    pub(crate) fn give_turn(&self, why: Why) {
        if !self.host_once() {
            self.nap_a_turn(why);
        }
    }

    /// As `give_turn`, and runs nothing.
    pub(crate) fn nap_a_turn(&self, why: Why) {
        let registry = self.registry();
        let own = &self.owned.yields;
        let is = |naps| Worker::occupied().for_each(|memory| memory.owned.yields.naps.set(naps));
        // ORD: a count, for how long a nap is.
        let others = registry.yielding.fetch_add(1, Ordering::Relaxed);
        let began = registry.now();
        let nap =
            Crowd { others, threads: registry.threads(), processors: registry.processors.max(1) }
                .nap(why, own.since(began));
        is(if nap.polls { Poller::NAPS } else { Poller::NAPS_AND_WORKS });
        let roused = loop {
            let roused = self.parker().nap(TURN * nap.turns);
            // Who works in turn with others has no place of its own before each of them has had one.
            let goes_on = registry.places.counts().in_debt() && registry.now() - began < nap.share;
            if roused || !goes_on {
                break roused;
            }
        };
        is(0);
        own.napped.set(Some(registry.now()));
        own.had.set(clock::thread_time());
        self.owned.looks.weigh(if roused { 1 } else { nap.turns });
        registry.yielding.fetch_sub(1, Ordering::Relaxed);
    }

    /// The thread gives its place away: a hint, for whoever wonders whether the pool stands still.
    pub(crate) fn note_nap(&self) {
        self.poller.set(self.owned.yields.naps.get());
    }

    /// It is about to have one again.
    pub(crate) fn note_look(&self) {
        let napped = self.owned.yields.naps.get() == Poller::NAPS;
        self.poller.set(if napped { self.registry().now() + AGAIN } else { 0 });
    }
}

impl Yields {
    fn since(&self, now: u64) -> Option<Since> {
        let napped = self.napped.get()?;
        let had = self.had.get().zip(clock::thread_time());
        let processor = had.map(|(then, now)| u64::from(now.wrapping_sub(then)) * 100);
        Some(Since { clock: now.saturating_sub(napped), processor })
    }
}

// Of a model's naps none is longer than another.
#[cfg(all(test, not(raddle_model)))]
mod tests;
