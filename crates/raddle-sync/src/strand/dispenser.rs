//! Hands out small ids and takes them back, without locks.
//!
//! A bitmap in two levels. A bit of a *leaf* word is one id, set while it is taken. A bit of a *full*
//! word says that a leaf has no clear bit left, so that a search of 65,535 ids reads at most 16
//! full-words and one leaf.
//!
//! **D1** A leaf's bit is set by the one taker whose compare-exchange set it and cleared by the one
//! give-back that follows: no id is held twice.
//! **D2** A full-bit is a hint. It may be clear beside a full leaf (a search that finds one repairs
//! it) but does not stay set beside a leaf with room. Whoever fills a leaf sets its bit and *then* looks
//! at the leaf again; who makes room clears the leaf's bit and *then* the full-bit. Both change the
//! full-word by read-modify-writes, so one of them comes first:
//! the filler's, and then the other clears it; or the other's, and then the filler's reads from it,
//! with Acquire from Release, and so sees the room when it looks again, and clears it itself.

use super::StrandId;
use crate::atomic::{AtomicU64, Ordering};
use std::fmt;
use std::num::NonZeroU16;

/// Bits of each word that are used; few under models, so that a handful of ids has two levels.
const BITS: usize = if cfg!(raddle_model) { 2 } else { 64 };
const ALL: u64 = u64::MAX >> (64 - BITS);

/// A dispenser of the ids `1..=limit`. [`current`](super::current) uses one of 65,535 for the whole
/// process; models run small ones.
///
/// ```
/// use raddle_sync::strand::Dispenser;
/// let dispenser = Dispenser::new(2);
/// let (a, b) = (dispenser.take().unwrap(), dispenser.take().unwrap());
/// assert_ne!(a, b);
/// assert!(dispenser.take().is_none());
/// dispenser.give_back(a);
/// assert_eq!(dispenser.take(), Some(a));
/// ```
pub struct Dispenser {
    limit: u16,
    leaves: Box<[AtomicU64]>,
    full: Box<[AtomicU64]>,
}

impl Dispenser {
    /// A dispenser of `limit` ids, all free. Costs `limit / 8` bytes.
    pub fn new(limit: u16) -> Dispenser {
        let leaves = usize::from(limit).div_ceil(BITS);
        let full = leaves.div_ceil(BITS);
        Dispenser { limit, leaves: bitmap(leaves, usize::from(limit)), full: bitmap(full, leaves) }
    }

    /// A free id, the smallest that the search comes across; `None` if all are taken.
    ///
    /// Lock-free. While another thread is between filling a word and looking at it again, an id
    /// given back in that moment may be missed: `None` means "none now", not "none ever".
    pub fn take(&self) -> Option<StrandId> {
        for (index, full) in self.full.iter().enumerate() {
            // ORD: `Relaxed`: a hint (D2); the leaf decides.
            let mut seen = full.load(Ordering::Relaxed);
            while let Some(bit) = first_clear(seen) {
                let leaf = index * BITS + bit;
                if let Some(id) = self.take_from(leaf) {
                    return Some(id);
                }
                self.mark_full(leaf);
                seen |= 1 << bit;
            }
        }
        None
    }

    fn take_from(&self, leaf: usize) -> Option<StrandId> {
        let word = &self.leaves[leaf];
        let mut seen = word.load(Ordering::Relaxed);
        while let Some(bit) = first_clear(seen) {
            let taken = seen | 1 << bit;
            // ORD: Acquire pairs with the Release in `give_back`: what the id's last holder did
            // happens before what its next one does.
            match word.compare_exchange_weak(seen, taken, Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => {
                    if taken == ALL {
                        self.mark_full(leaf);
                    }
                    let number = u16::try_from(leaf * BITS + bit + 1).expect("limit is a u16");
                    return NonZeroU16::new(number).map(StrandId);
                }
                Err(now) => seen = now,
            }
        }
        None
    }

    /// The filler's half of D2.
    fn mark_full(&self, leaf: usize) {
        let (word, mask) = (&self.full[leaf / BITS], 1 << (leaf % BITS));
        // ORD: Acquire pairs with the Release in `mark_room` (D2).
        word.fetch_or(mask, Ordering::AcqRel);
        if self.leaves[leaf].load(Ordering::Relaxed) != ALL {
            self.mark_room(leaf);
        }
    }

    /// The other half of D2; the caller has seen, or made, room in the leaf.
    fn mark_room(&self, leaf: usize) {
        let (word, mask): (_, u64) = (&self.full[leaf / BITS], 1 << (leaf % BITS));
        // ORD: Release pairs with the Acquire in `mark_full` (D2).
        word.fetch_and(!mask, Ordering::AcqRel);
    }

    /// Makes `id` free again.
    ///
    /// # Panics
    ///
    /// If `id` is not taken, or is not one of this dispenser's.
    pub fn give_back(&self, id: StrandId) {
        assert!(id.get() <= self.limit, "{id:?} is not this dispenser's");
        let index = usize::from(id.get()) - 1;
        let (leaf, mask) = (index / BITS, 1 << (index % BITS));
        // ORD: Release pairs with the Acquire in `take_from`.
        let before = self.leaves[leaf].fetch_and(!mask, Ordering::Release);
        assert!(before & mask != 0, "{id:?} was given back twice");
        if before == ALL {
            self.mark_room(leaf);
        }
    }
}

impl fmt::Debug for Dispenser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dispenser").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// `words` words whose first `used` bits are clear and whose other bits are set.
fn bitmap(words: usize, used: usize) -> Box<[AtomicU64]> {
    (0..words)
        .map(|word| match used - word * BITS {
            rest if rest >= BITS => AtomicU64::new(0),
            rest => AtomicU64::new(ALL & (ALL << rest)),
        })
        .collect()
}

fn first_clear(word: u64) -> Option<usize> {
    let clear = !word & ALL;
    (clear != 0).then(|| clear.trailing_zeros() as usize)
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::thread;
    use std::collections::HashSet;
    use std::sync::Arc;

    #[test]
    fn hands_out_every_id_once_then_none() {
        let limits: &[u16] =
            if cfg!(miri) { &[1, 65] } else { &[1, 3, 63, 64, 65, 4096, 4097, u16::MAX] };
        for &limit in limits {
            let dispenser = Dispenser::new(limit);
            let ids: Vec<u16> =
                std::iter::from_fn(|| dispenser.take()).map(StrandId::get).collect();
            assert!(ids.iter().copied().eq(1..=limit), "limit {limit}");
            let middle = StrandId(NonZeroU16::new(limit / 2 + 1).unwrap());
            dispenser.give_back(middle);
            assert_eq!(dispenser.take(), Some(middle));
            assert_eq!(dispenser.take(), None);
        }
        assert_eq!(Dispenser::new(0).take(), None);
    }

    #[test]
    #[should_panic(expected = "given back twice")]
    fn giving_back_twice_panics() {
        let dispenser = Dispenser::new(3);
        let id = dispenser.take().unwrap();
        dispenser.give_back(id);
        dispenser.give_back(id);
    }

    #[test]
    fn threads_never_share_an_id_and_lose_none() {
        const THREADS: usize = if cfg!(miri) { 3 } else { 4 };
        const ROUNDS: usize = if cfg!(miri) { 12 } else { 3_000 };
        let dispenser = Arc::new(Dispenser::new(130));
        let owners: Arc<Vec<AtomicU64>> = Arc::new((0..131).map(|_| AtomicU64::new(0)).collect());
        let threads: Vec<_> = (0..THREADS)
            .map(|_| {
                let (dispenser, owners) = (Arc::clone(&dispenser), Arc::clone(&owners));
                thread::spawn(move || {
                    for round in 0..ROUNDS {
                        let held: Vec<_> =
                            (0..round % 40).map_while(|_| dispenser.take()).collect();
                        for id in &held {
                            let owner = &owners[usize::from(id.get())];
                            assert_eq!(owner.swap(1, Ordering::Relaxed), 0);
                        }
                        for id in held {
                            owners[usize::from(id.get())].store(0, Ordering::Relaxed);
                            dispenser.give_back(id);
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let all: HashSet<_> = std::iter::from_fn(|| dispenser.take()).collect();
        assert_eq!(all.len(), 130);
    }
}
