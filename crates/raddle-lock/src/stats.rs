//! Counters of what locks do beside the fast path.

/// What [`stats`] returns: counts over the whole process, since it started.
///
/// They are read one after the other while others count, so sums may be off by what happens meanwhile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockStats {
    /// Locks that became fat.
    pub inflations: u64,
    /// Locks that became thin again, and fat locks that were dropped.
    pub deflations: u64,
    /// Locks that are fat now.
    pub fat_live: u64,
    /// Times that a strand went to sleep, for a lock or for a notification.
    pub parks: u64,
    /// Locks handed directly to whoever had waited longest, by an unlock that was due to be fair or
    /// asked to be.
    pub hand_offs: u64,
    /// Process-wide memory barriers issued to sleep on a thin lock, or to write where reads were published.
    pub barriers: u64,
    /// Times that unlocking was switched between the cheap way and the one without barriers.
    pub switches: u64,
}

/// Which counter.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Count {
    Inflations,
    Deflations,
    Parks,
    HandOffs,
    Barriers,
    Switches,
}

// Under loom a count is neither explored nor asked for.
#[cfg(raddle_loom)]
mod counters {
    use super::Count;

    pub(crate) fn count(_what: Count) {}

    pub(super) fn total(_what: Count) -> u64 {
        0
    }
}

#[cfg(not(raddle_loom))]
mod counters {
    use super::Count;
    use raddle_sync::strand::{self, Local};
    // Not those of the seam: they count across all models that run in a process.
    use std::sync::atomic::{AtomicU64, Ordering};

    const COUNTERS: usize = 6;
    const SHARDS: usize = 16;

    /// One of several sets, so that processors do not fight over one cache line.
    #[repr(align(128))]
    struct Shard([AtomicU64; COUNTERS]);

    static COUNTS: [Shard; SHARDS] =
        [const { Shard([const { AtomicU64::new(0) }; COUNTERS]) }; SHARDS];

    pub(crate) fn count(what: Count) {
        let shard = strand::with_local(Local::token_or_zero) as usize % SHARDS;
        COUNTS[shard].0[what as usize].fetch_add(1, Ordering::Relaxed);
    }

    pub(super) fn total(what: Count) -> u64 {
        COUNTS.iter().map(|shard| shard.0[what as usize].load(Ordering::Relaxed)).sum()
    }
}

pub(crate) use counters::count;
use counters::total;

/// What locks have done beside the fast path, since the process started. Costs a hundred loads; the
/// counters cost an uncontended lock nothing.
///
/// ```
/// let before = raddle_lock::stats();
/// let mutex = raddle_lock::Mutex::new(0);
/// *mutex.lock() += 1;
/// assert_eq!(raddle_lock::stats().inflations, before.inflations);
/// ```
pub fn stats() -> LockStats {
    // In this order, so that no lock is seen to deflate that was not seen to inflate.
    let deflations = total(Count::Deflations);
    let inflations = total(Count::Inflations);
    LockStats {
        inflations,
        deflations,
        // The loads are relaxed, so that one may be seen to deflate all the same.
        fat_live: inflations.saturating_sub(deflations),
        parks: total(Count::Parks),
        hand_offs: total(Count::HandOffs),
        barriers: total(Count::Barriers),
        switches: total(Count::Switches),
    }
}
