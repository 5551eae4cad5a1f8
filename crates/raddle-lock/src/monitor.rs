//! Waiting for notifications, and identity hashes: what else an entry is for.

use crate::core::{Core, Patience, keeping_guards};
use crate::entry::{Entry, LOCKED, PINNED, QUEUED};
use crate::linger::linger;
use crate::pending::Found;
use crate::queue::{List, Node, WAITING};
use crate::table;
use crate::word::{self, FREE, View, view};
use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::strand;
use raddle_sync::time::Instant;

impl Core {
    /// Releases the lock with all its levels, waits for a notification, takes it back. False if the
    /// deadline came first.
    ///
    /// # Panics
    ///
    /// If this strand does not hold the lock.
    pub(crate) fn wait(&self, deadline: Option<Instant>) -> bool {
        assert!(self.is_held(), "waiting on a lock that this strand does not hold");
        let me = strand::token();
        let entry = self.inflate_held();
        let node = Node::new();
        node.for_notice.set(true);
        entry.clean.store(0, Ordering::Relaxed); // E6
        let mut inner = entry.inner.lock();
        inner.notice.push_back(&node);
        // ORD: `Relaxed`: our own release below comes later (E2: now the entry stays).
        entry.update(Ordering::Relaxed, |state| state | PINNED);
        drop(inner);
        let levels = entry.levels.swap(0, Ordering::Relaxed);
        self.release_fat(entry, self.word.load(Ordering::Acquire), false);
        linger(&node, deadline);
        let notified = node.sleep_until(deadline) != WAITING || self.leave_notice(entry, &node);
        // Notified, it has become one of those who want the lock; else it has just made itself one.
        keeping_guards(|| self.wait_turn(entry, &node, me, Patience::Back));
        entry.levels.store(levels, Ordering::Relaxed);
        notified
    }

    /// The deadline of a wait is past: joins those who want the lock, unless a notification has put it
    /// there already (true).
    fn leave_notice(&self, entry: &'static Entry, node: &Node) -> bool {
        let mut inner = entry.inner.lock();
        if !node.for_notice.get() {
            return true;
        }
        let removed = inner.notice.remove(node);
        debug_assert!(removed, "not notified, so still there");
        node.for_notice.set(false);
        let last = inner.notice.is_empty();
        // The lock may be free, and then nobody would look at the queue: lock it for whoever is first.
        let before = entry.update(Ordering::Acquire, |state| {
            let state = if last { state & !PINNED } else { state };
            state | LOCKED | if state & LOCKED != 0 { QUEUED } else { 0 }
        });
        if before & LOCKED != 0 {
            inner.lock.push_back(node);
        } else {
            let _ourselves = Node::signal(node, crate::queue::HAND_OFF);
        }
        false
    }

    /// Notifies one strand that waits, or all. How many there were.
    ///
    /// # Panics
    ///
    /// If this strand does not hold the lock.
    pub(crate) fn notify(&self, all: bool) -> usize {
        assert!(self.is_held(), "notifying on a lock that this strand does not hold");
        let seen = self.word.load(Ordering::Acquire);
        if !word::is_fat(seen) {
            return 0; // E2: where somebody waits the lock stays fat.
        }
        let entry = table::entry(seen & word::INDEX);
        let mut inner = entry.inner.lock();
        let mut notified = 0;
        entry.clean.store(0, Ordering::Relaxed); // E6
        while let Some(node) = inner.notice.pop_front() {
            // SAFETY: in a list until now, and not signalled, so alive (Q2).
            unsafe { &*node }.for_notice.set(false);
            inner.lock.push_back(node); // The unlock wakes it: awake now, it could only wait for that.
            notified += 1;
            if !all {
                break;
            }
        }
        if notified > 0 {
            let last = inner.notice.is_empty();
            entry.update(Ordering::Relaxed, |state| {
                QUEUED | if last { state & !PINNED } else { state }
            });
        }
        notified
    }

    /// Puts strands that wait elsewhere into this lock's queue. The caller holds the lock.
    pub(crate) fn queue_for(&self, mut nodes: List) {
        if nodes.is_empty() {
            return;
        }
        let entry = self.inflate_held();
        let mut inner = entry.inner.lock();
        entry.clean.store(0, Ordering::Relaxed); // E6
        while let Some(node) = nodes.pop_front() {
            // SAFETY: not signalled, so alive (Q2).
            unsafe { &*node }.moved.set(Some(entry));
            inner.lock.push_back(node);
        }
        entry.update(Ordering::Relaxed, |state| state | QUEUED);
    }

    /// Takes the lock as one that [`queue_for`](Core::queue_for) has put into its queue.
    pub(crate) fn resume(&self, entry: &'static Entry, node: &Node) {
        let name = strand::keep_name();
        self.wait_turn(entry, node, name.token(), Patience::Back);
        // SAFETY: just taken.
        strand::with_local(|local| unsafe { local.hold_slow(self.address()) });
    }

    /// The hash of the lock, made on the first call.
    pub(crate) fn identity_hash(&self) -> u32 {
        let me = strand::token();
        loop {
            let seen = self.word.load(Ordering::Acquire);
            match view(seen) {
                View::Hashed => return word::identity(seen),
                View::Free => {
                    let hashed = fresh();
                    let relaxed = Ordering::Relaxed;
                    // ORD: Release: it continues the release of the free word that it replaces.
                    let order = Ordering::AcqRel;
                    if self.word.compare_exchange(seen, hashed, order, relaxed).is_ok() {
                        return word::identity(hashed);
                    }
                }
                View::Thin { owner } | View::Aside { owner, .. } if owner == me => {
                    return hash_of(self.inflate_held());
                }
                View::Thin { owner } => {
                    if let Found::Entry(hash) = self.with_pending(owner, None, hash_of) {
                        return hash; // The owner will find it when it releases (P2).
                    }
                }
                View::Aside { .. } => {
                    if let Some(hash) = self.with_aside(hash_of) {
                        return hash; // Its next holder is fat, and never sets it aside again.
                    }
                }
                View::Fat => {
                    let entry = table::entry(seen & word::INDEX);
                    let inner = entry.inner.lock();
                    // Whoever gives the entry back changes the word under `inner`, and reads the hash
                    // there.
                    if self.word.load(Ordering::Acquire) == seen {
                        let restore = restore_with_hash(entry);
                        drop(inner);
                        return word::identity(restore);
                    }
                }
            }
        }
    }
}

/// The hash in an entry that cannot be given back now, made if there is none.
fn hash_of(entry: &'static Entry) -> u32 {
    let _inner = entry.inner.lock();
    word::identity(restore_with_hash(entry))
}

fn restore_with_hash(entry: &Entry) -> u32 {
    let restore = entry.restore.load(Ordering::Relaxed);
    if restore != FREE {
        return restore;
    }
    let hashed = fresh();
    entry.restore.store(hashed, Ordering::Relaxed);
    hashed
}

raddle_sync::lazy_static! {
    /// The next number for a hash.
    static NEXT: AtomicU32 = AtomicU32::new(0);
}

/// Makes what is made on first use.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn force_statics() {
    NEXT.load(Ordering::Relaxed);
}

/// A hashed word with a new hash: numbers in order, which [`word::identity`] spreads.
fn fresh() -> u32 {
    // One line for all processors, but each takes 64 numbers at a time.
    raddle_sync::thread_local! {
        static MINE: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
    }
    const BATCH: u32 = 64;
    let number = MINE.with(|mine| {
        let mut next = mine.get();
        if next % BATCH == 0 {
            next = NEXT.fetch_add(BATCH, Ordering::Relaxed);
        }
        mine.set(next.wrapping_add(1)); // As `NEXT` does, after four billion.
        next
    });
    word::hashed(number)
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    /// A program with overflow checks panicked at the last number.
    #[test]
    fn the_numbers_of_hashes_come_round() {
        std::thread::spawn(|| {
            // The first one here is a batch's; whichever that is, the numbers go on.
            NEXT.store(0_u32.wrapping_sub(64), Ordering::Relaxed);
            let hashes: Vec<u32> = (0..130).map(|_| fresh()).collect();
            let distinct: std::collections::HashSet<_> = hashes.iter().collect();
            assert_eq!(distinct.len(), hashes.len());
        })
        .join()
        .unwrap();
    }
}
