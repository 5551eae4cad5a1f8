//! A ring of recorded events: one thread writes, any thread takes a copy while it does.
//!
//! ```text
//!   head: the number of the next event; event n lies in cell n % len
//!   writer:  fence(Release); write both words of cell head; head + 1 (Release)
//!   reader:  head (Acquire); copy cells; fence(Acquire); head again
//! ```
//!
//! # Invariants
//!
//! - **RE1** One thread at a time writes, and writers follow each other by something that synchronises:
//!   the thread that runs as the worker, or whoever holds the lock of the lane for threads from outside.
//! - **RE2** Both words of an event are whole if, after they were read, `head` has not come within one of
//!   a lap beyond it. For if the reader saw a word of event `n + len`, then by the fences it sees the
//!   `head` that was stored before that write, which is `n + len` or more.
//! - **RE3** Where nothing is overwritten `limit` is at most `len` beyond the first event that nobody has taken by `drain`,
//!   and only `drain` raises it, after it has read.

use std::collections::TryReserveError;

use raddle_sync::atomic::{AtomicU64, Ordering, fence};

/// See the module.
#[derive(Debug)]
pub(crate) struct Record {
    cells: Box<[[AtomicU64; 2]]>,
    head: AtomicU64,
    /// Events that were not written because the ring was full and keeps its oldest.
    refused: AtomicU64,
    /// The head that may not be reached: what lies so far behind it has not been saved (RE3).
    limit: AtomicU64,
}

/// A copy of what a ring held at one moment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    /// The number of the first event that was copied: those before it are lost.
    pub(crate) first: u64,
    pub(crate) events: Vec<[u64; 2]>,
    /// Events that came when the ring was full.
    pub(crate) refused: u64,
}

impl Record {
    /// Room for `len` events, a power of two, if there is memory. All of it is touched here, so that writing never has to
    /// wait for some.
    pub(crate) fn new(len: usize, overwrite: bool) -> Result<Record, TryReserveError> {
        assert!(len.is_power_of_two());
        let mut cells = Vec::new();
        cells.try_reserve_exact(len)?;
        cells.extend((0..len).map(|_| [AtomicU64::new(0), AtomicU64::new(0)]));
        Ok(Record {
            cells: cells.into_boxed_slice(),
            head: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            limit: AtomicU64::new(if overwrite { u64::MAX } else { len as u64 }),
        })
    }

    /// Writes an event (RE1), or counts it if there is no room.
    #[inline]
    pub(crate) fn push(&self, event: [u64; 2]) {
        if !self.try_push(event) {
            let refused = self.refused.load(Ordering::Relaxed);
            self.refused.store(refused + 1, Ordering::Relaxed);
        }
    }

    /// Writes an event (RE1), if there is room.
    #[inline]
    pub(crate) fn try_push(&self, event: [u64; 2]) -> bool {
        // ORD: the writer's own word (RE1), here and below.
        let head = self.head.load(Ordering::Relaxed);
        // ORD: Acquire pairs with the Release in `drain`: what was there has been read.
        if head >= self.limit.load(Ordering::Acquire) {
            return false;
        }
        // ORD: pairs with the Acquire fence in `copy`: whoever sees the words sees the head before them (RE2).
        fence(Ordering::Release);
        let cell = &self.cells[head as usize & (self.cells.len() - 1)];
        cell[0].store(event[0], Ordering::Relaxed);
        cell[1].store(event[1], Ordering::Relaxed);
        // ORD: pairs with the Acquire in `copy`: whoever sees the head sees the words.
        self.head.store(head + 1, Ordering::Release);
        true
    }

    /// Gives `take` what nobody has taken yet, with the number of the first, and makes room for as many. One at a time, of
    /// a ring that overwrites nothing.
    #[cfg_attr(raddle_model, allow(dead_code, reason = "no model saves"))]
    pub(crate) fn drain<R>(&self, take: impl FnOnce(u64, Vec<[u64; 2]>) -> R) -> R {
        let len = self.cells.len() as u64;
        // ORD: only who drains writes it.
        let first = self.limit.load(Ordering::Relaxed) - len;
        // ORD: pairs with the Release in `push`.
        let head = self.head.load(Ordering::Acquire);
        let cells = (first..head).map(|number| {
            let cell = &self.cells[(number & (len - 1)) as usize];
            // ORD: before the head (RE3).
            [cell[0].load(Ordering::Relaxed), cell[1].load(Ordering::Relaxed)]
        });
        let result = take(first, cells.collect());
        // ORD: Release pairs with the Acquire in `try_push`: read, and may be overwritten.
        self.limit.store(head + len, Ordering::Release);
        result
    }

    /// How many events were not written because there was no room.
    #[cfg_attr(raddle_model, allow(dead_code, reason = "no model saves"))]
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Copies what is there, while it is being written.
    pub(crate) fn copy(&self) -> Copy {
        let len = self.cells.len() as u64;
        // ORD: pairs with the Release in `push`.
        let head = self.head.load(Ordering::Acquire);
        let mut first = head.saturating_sub(len);
        let mut events: Vec<[u64; 2]> = (first..head)
            .map(|number| {
                let cell = &self.cells[(number & (len - 1)) as usize];
                // ORD: ordered by the fences (RE2).
                [cell[0].load(Ordering::Relaxed), cell[1].load(Ordering::Relaxed)]
            })
            .collect();
        // ORD: pairs with the Release fence in `push`.
        fence(Ordering::Acquire);
        // ORD: ordered by the fence.
        let now = self.head.load(Ordering::Relaxed);
        // ORD: a ring either overwrites or not, from its beginning.
        if self.limit.load(Ordering::Relaxed) == u64::MAX {
            // The cell of event `now - len` may just be being overwritten (RE2).
            let whole = (now + 1).saturating_sub(len);
            let torn = whole.saturating_sub(first).min(events.len() as u64);
            events.drain(..torn as usize);
            first += torn;
        }
        Copy { first, events, refused: self.refused.load(Ordering::Relaxed) }
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn the_newest_or_the_oldest_stay() {
        let newest = Record::new(4, true).unwrap();
        let oldest = Record::new(4, false).unwrap();
        for number in 0..6 {
            newest.push([number, 10 * number]);
            oldest.push([number, 10 * number]);
        }
        // The oldest of four may always be being overwritten.
        let events = vec![[3, 30], [4, 40], [5, 50]];
        assert_eq!(newest.copy(), Copy { first: 3, events, refused: 0 });
        let events = vec![[0, 0], [1, 10], [2, 20], [3, 30]];
        assert_eq!(oldest.copy(), Copy { first: 0, events, refused: 2 });
    }

    #[test]
    fn what_is_drained_makes_room() {
        let record = Record::new(4, false).unwrap();
        (0..4).for_each(|n| assert!(record.try_push([n, n])));
        assert!(!record.try_push([4, 4]));
        assert_eq!(record.drain(|first, events| (first, events.len())), (0, 4));
        assert!(record.try_push([4, 4]));
        assert_eq!(record.drain(|first, events| (first, events)), (4, vec![[4, 4]]));
        assert_eq!(record.drain(|first, events| (first, events.len())), (5, 0));
    }

    #[test]
    fn copies_taken_meanwhile_are_whole_and_without_gaps() {
        const MANY: u64 = if cfg!(miri) { 300 } else { 200_000 };
        let record = Record::new(64, true).unwrap();
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| (0..MANY).for_each(|n| record.push([n, !n])));
            while !writer.is_finished() {
                let copy = record.copy();
                for (offset, event) in copy.events.iter().enumerate() {
                    let number = copy.first + offset as u64;
                    assert_eq!(*event, [number, !number]);
                }
            }
        });
        assert_eq!(record.copy().first, MANY - 63);
    }
}
