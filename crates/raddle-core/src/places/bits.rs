//! Sets of workers.

use raddle_sync::atomic::{AtomicU64, Ordering};
use raddle_sync::padded::CachePadded;

/// A set of workers.
#[derive(Debug)]
pub(crate) struct Bits(Box<[CachePadded<AtomicU64>]>);

impl Bits {
    pub(crate) fn new(workers: usize) -> Bits {
        let words = workers.div_ceil(64);
        Bits((0..words).map(|_| CachePadded::new(AtomicU64::new(0))).collect())
    }

    fn bit(&self, worker: usize) -> (&AtomicU64, u64) {
        (&self.0[worker / 64], 1 << (worker % 64))
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
        for (index, word) in self.0.iter().enumerate() {
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
        let workers = self.0.len() * 64;
        let from = from.min(workers);
        let mut unfit = None;
        // The word looked at last, and its index.
        let mut last = (usize::MAX, 0);
        let fit = (0..from).rev().chain((from..workers).rev()).find(|&worker| {
            let (word, bit) = self.bit(worker);
            if last.0 != worker / 64 {
                // ORD: a hint; `take` decides.
                last = (worker / 64, word.load(Ordering::Relaxed));
            }
            if last.1 & bit == 0 {
                return false;
            }
            if !fits(worker) {
                unfit.get_or_insert(worker);
                return false;
            }
            self.take(worker)
        });
        fit.or_else(|| unfit.filter(|&worker| self.take(worker)))
    }

    pub(crate) fn has(&self, worker: usize) -> bool {
        let (word, bit) = self.bit(worker);
        // ORD: Acquire pairs with whoever took the bit.
        word.load(Ordering::Acquire) & bit != 0
    }

    pub(super) fn any(&self) -> bool {
        // ORD: SeqCst: S4.
        self.0.iter().any(|word| word.load(Ordering::SeqCst) != 0)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }
}
