//! Sets of workers.

use raddle_sync::atomic::{AtomicU64, Ordering};
use raddle_sync::padded::CachePadded;

/// A set of workers. It is read more than it changes, and there may be thousands: so words lie close together, in lines
/// that are the set's own.
#[derive(Debug)]
pub(crate) struct Bits(Box<[CachePadded<Line>]>);

type Line = [AtomicU64; LINE];

/// Words in a line: as few as will do in models.
const LINE: usize = if cfg!(raddle_model) { 1 } else { 16 };

impl Bits {
    pub(crate) fn new(workers: usize) -> Bits {
        let lines = workers.div_ceil(64 * LINE);
        let line = || std::array::from_fn(|_| AtomicU64::new(0));
        Bits((0..lines).map(|_| CachePadded::new(line())).collect())
    }

    fn word(&self, index: usize) -> &AtomicU64 {
        &self.0[index / LINE][index % LINE]
    }

    fn words(&self) -> impl DoubleEndedIterator<Item = &AtomicU64> + ExactSizeIterator {
        (0..self.0.len() * LINE).map(|index| self.word(index))
    }

    fn bit(&self, worker: usize) -> (&AtomicU64, u64) {
        (self.word(worker / 64), 1 << (worker % 64))
    }

    pub(crate) fn set(&self, worker: usize) {
        let (word, bit) = self.bit(worker);
        // ORD: Release pairs with the Acquire in `take`; SeqCst for S4.
        word.fetch_or(bit, Ordering::SeqCst);
    }

    /// Takes this worker out (S2). False: somebody else has.
    #[must_use]
    pub(crate) fn take(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // ORD: Acquire pairs with the Release in `set`.
        word.fetch_and(!bit, Ordering::AcqRel) & bit != 0
    }

    /// Takes the worker of the lowest index out (S2).
    pub(crate) fn take_lowest(&self) -> Option<usize> {
        for (index, word) in self.words().enumerate() {
            loop {
                // ORD: a hint; `take` decides.
                let bits = word.load(Ordering::Relaxed);
                if bits == 0 {
                    break;
                }
                let worker = index * 64 + bits.trailing_zeros() as usize;
                if self.take(worker) {
                    return Some(worker);
                }
            }
        }
        None
    }

    /// Takes a worker out (S2): the next one below `from` that is there, then from the highest on; one that does not fit only
    /// if there is no other.
    pub(crate) fn take_below(&self, from: usize, fits: impl Fn(usize) -> bool) -> Option<usize> {
        let mut unfit = None;
        let others = self.below(usize::MAX).take_while(|&worker| worker >= from);
        let fit = self.below(from).chain(others).find(|&worker| {
            if !fits(worker) {
                unfit.get_or_insert(worker);
                return false;
            }
            self.take(worker)
        });
        fit.or_else(|| unfit.filter(|&worker| self.take(worker)))
    }

    /// Those below `end` that are there, the highest first: hints.
    fn below(&self, end: usize) -> impl Iterator<Item = usize> {
        let words = self.words().enumerate().take(end.div_ceil(64)).rev();
        words.flat_map(move |(index, word)| {
            let lower = if index == end / 64 { (1 << (end % 64)) - 1 } else { u64::MAX };
            // ORD: a hint; `take` decides.
            let mut bits = word.load(Ordering::Relaxed) & lower;
            std::iter::from_fn(move || {
                let highest = bits.checked_ilog2()?;
                bits -= 1 << highest;
                Some(index * 64 + highest as usize)
            })
        })
    }

    pub(crate) fn has(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // ORD: Acquire pairs with whoever took the bit.
        word.load(Ordering::Acquire) & bit != 0
    }

    pub(super) fn any(&self) -> bool {
        // ORD: SeqCst: S4.
        self.words().any(|word| word.load(Ordering::SeqCst) != 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.words().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::Bits;

    fn of(workers: &[usize]) -> Bits {
        let bits = Bits::new(3000);
        workers.iter().for_each(|&worker| bits.set(worker));
        bits
    }

    #[test]
    fn the_next_below_comes_first_then_the_highest() {
        let bits = of(&[0, 3, 63, 64, 1500, 2999]);
        let order = [64, 63, 3, 0, 2999, 1500].map(Some);
        let mut from = 1500;
        for next in order {
            let taken = bits.take_below(from, |_| true);
            assert_eq!(taken, next);
            from = next.unwrap();
        }
        assert_eq!(bits.take_below(from, |_| true), None);
    }

    #[test]
    fn what_does_not_fit_comes_last() {
        let bits = of(&[5, 70, 71]);
        assert_eq!(bits.take_below(71, |worker| worker == 5), Some(5));
        assert_eq!(bits.take_below(71, |worker| worker == 5), Some(70));
        assert_eq!(bits.take_below(usize::MAX, |_| false), Some(71));
        assert_eq!(bits.len(), 0);
    }

    #[test]
    fn the_lowest_comes_first() {
        let bits = of(&[2048, 65, 64]);
        assert_eq!(
            (0..4).map(|_| bits.take_lowest()).collect::<Vec<_>>(),
            [Some(64), Some(65), Some(2048), None]
        );
    }
}
