//! The word of the counts, read.

use super::NAPPER;

/// A look at both counts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counts(pub(super) u64);

impl Counts {
    /// Searchers that are awake.
    pub(crate) fn searching(self) -> usize {
        self.0 as u16 as usize
    }

    /// The searcher that naps (S5).
    pub(crate) fn napper(self) -> Option<usize> {
        ((self.0 >> NAPPER) as u16 as usize).checked_sub(1)
    }

    pub(super) fn naps(self) -> bool {
        self.napper().is_some()
    }

    /// Places that nobody works in.
    pub(crate) fn free(self) -> usize {
        self.idle().max(0) as usize + self.searching() + usize::from(self.naps())
    }

    /// As `free`; below zero: so many threads more than places work.
    pub(crate) fn free_or_less(self) -> i64 {
        self.idle() + self.searching() as i64 + i64::from(self.naps())
    }

    /// Free places; below zero: so many threads more than places work.
    pub(crate) fn idle(self) -> i64 {
        self.0 as i64 >> 32
    }

    /// New work needs a wake: nobody is there to find it (S1).
    pub(crate) fn need_wake(self) -> bool {
        !self.naps() && self.need_wake_now()
    }

    /// As `need_wake`, of work that is not to wait for the end of a nap (S5).
    pub(crate) fn need_wake_now(self) -> bool {
        self.searching() == 0 && (self.idle() > 0 || self.naps())
    }

    /// Somebody would take work if there were some.
    pub(crate) fn interested(self) -> bool {
        self.searching() > 0 || self.idle() > 0 || self.naps()
    }

    /// As `interested`, unless the only one who would is at `rest`: it looks for itself, and for those who sleep meanwhile (S5).
    pub(crate) fn asks(self, rest: bool) -> bool {
        self.interested() && !(rest && self.naps() && self.searching() == 0)
    }

    /// More threads work than there are places.
    pub(crate) fn in_debt(self) -> bool {
        self.idle() < 0
    }
}
