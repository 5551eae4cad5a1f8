//! [`Looks`]: whether a pool stands still.

use std::cell::Cell;

/// How a thread sees whether its pool stands still.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    /// How much had ended at the last look.
    progress: Cell<usize>,
    /// At how many looks before it had been as much.
    still: Cell<u32>,
    /// How many there have been in a row.
    all: Cell<u32>,
    /// For how many the next one counts; 0: for itself.
    weight: Cell<u32>,
}

impl Looks {
    pub(crate) fn look(&self, progress: usize) -> &Looks {
        let still = self.progress.replace(progress) == progress;
        let count = self.weight.take().max(1);
        self.still.set(if still { self.still.get().saturating_add(count) } else { 0 });
        self.all.set(self.all.get().saturating_add(count));
        self
    }

    /// It has waited for so many times as long as between most looks: the next counts for as many.
    pub(crate) fn weigh(&self, turns: u32) {
        self.weight.set(turns);
    }

    /// Whether nothing had ended at so `many` looks, or there have been so many in `all`.
    pub(crate) fn is_still(&self, many: u32, all: u32) -> bool {
        self.still.get() >= many || self.all.get() >= all
    }

    pub(crate) fn begin_anew(&self) {
        self.still.set(0);
        self.all.set(0);
        self.weight.set(0);
    }

    /// Another piece of work begins, which has not looked yet. Costs a load where the last has not either.
    #[inline]
    pub(crate) fn forget(&self) {
        if self.all.get() != 0 {
            self.begin_anew();
        }
    }

    /// As if there had been so many looks already.
    pub(crate) fn go_on(&self, all: u32) {
        self.all.set(all);
    }

    /// Calls `f`, another piece of work that has looks of its own.
    pub(crate) fn apart<R>(&self, f: impl FnOnce() -> R) -> R {
        let (progress, still, all) = (self.progress.get(), self.still.take(), self.all.take());
        let result = f();
        self.progress.set(progress);
        self.still.set(still);
        self.all.set(all);
        result
    }
}
