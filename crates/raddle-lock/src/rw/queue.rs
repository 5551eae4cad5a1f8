//! Those who wait for a readers-writer lock: in one of some buckets, by address, oldest first.

use super::core::{CLAIMED, PARKED, RwCore, UPGRADABLE};
use crate::queue::{HAND_OFF, Node, WAKE};
use crate::stats::{Count, count};
use raddle_sync::atomic::Ordering;
use raddle_sync::parker::Parker;
use raddle_sync::sync::{Mutex, MutexGuard};
use std::collections::VecDeque;

/// What one waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Read,
    Write,
    Upgradable,
    /// Has claimed the lock and waits for readers to leave. One of a lock at most.
    Claimant,
}

pub(crate) struct Waiter {
    lock: *const RwCore,
    node: *const Node,
    /// The strand that waits.
    strand: u32,
    kind: Kind,
    /// Has been woken before, for nothing: is to be handed the lock.
    lost: bool,
}

// SAFETY: a node in a bucket is alive, and its parts that others touch are meant for that (Q2, Q3). The lock is borrowed
// by the waiter.
unsafe impl Send for Waiter {}

#[repr(align(64))]
struct Bucket(Mutex<VecDeque<Waiter>>);

const BUCKETS: usize = if cfg!(raddle_model) { 1 } else { 256 };

#[cfg(not(raddle_model))]
static BUCKET: [Bucket; BUCKETS] = [const { Bucket(Mutex::new(VecDeque::new())) }; BUCKETS];

#[cfg(raddle_model)]
raddle_sync::lazy_static! {
    static BUCKET: [Bucket; BUCKETS] = std::array::from_fn(|_| Bucket(Mutex::new(VecDeque::new())));
}

/// Locks the bucket of a lock.
pub(super) fn bucket(lock: &RwCore) -> Guard {
    let address = lock.address();
    let hash = (address as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
    Guard { lock, list: BUCKET[hash as usize % BUCKETS].0.lock() }
}

/// Locks all buckets.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_all() -> Vec<MutexGuard<'static, VecDeque<Waiter>>> {
    BUCKET.iter().map(|bucket| bucket.0.lock()).collect()
}

/// In the child of a fork, where nobody waits, nor has claimed a lock, sleeping.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn forget_waiters(bucket: &mut VecDeque<Waiter>) {
    for waiter in bucket.drain(..) {
        let gone = if waiter.kind == Kind::Claimant { CLAIMED } else { PARKED };
        // SAFETY: borrowed by the waiter, who waited until the fork.
        let lock = unsafe { &*waiter.lock };
        lock.change(Ordering::Relaxed, |word| word & !gone); // R4
    }
}

/// A locked bucket, as seen from one lock.
pub(super) struct Guard {
    lock: *const RwCore,
    list: MutexGuard<'static, VecDeque<Waiter>>,
}

impl Guard {
    /// Puts one in: last, or first if it was there before.
    pub(super) fn push(&mut self, node: *const Node, strand: u32, kind: Kind, lost: bool) {
        count(Count::Parks);
        let waiter = Waiter { lock: self.lock, node, strand, kind, lost };
        let at = if lost { 0 } else { self.list.len() };
        self.list.insert(at, waiter);
    }

    /// Takes one out; false if it is not there.
    pub(super) fn remove(&mut self, node: &Node) -> bool {
        let at = self.list.iter().position(|waiter| std::ptr::eq(waiter.node, node));
        at.and_then(|at| self.list.remove(at)).is_some()
    }

    /// Ends the sleep of all readers; whom to wake when the bucket is unlocked (Q4). Others still wait.
    pub(super) fn take_readers(&mut self) -> Vec<&'static Parker> {
        self.readers().into_iter().map(|node| Node::signal(node, WAKE)).collect()
    }

    /// Takes all readers out: one pass, however many wait.
    fn readers(&mut self) -> Vec<*const Node> {
        let (lock, mut readers) = (self.lock, Vec::new());
        self.list.retain(|waiter| {
            let reader = std::ptr::eq(waiter.lock, lock) && waiter.kind == Kind::Read;
            if reader {
                readers.push(waiter.node);
            }
            !reader
        });
        readers
    }

    /// Takes out the one at a place.
    fn take(&mut self, at: usize) -> Waiter {
        self.list.remove(at).expect("a place in the list")
    }

    /// The strand that has claimed the lock, if it sleeps.
    pub(super) fn claimant(&self) -> Option<u32> {
        self.find(|kind| kind == Kind::Claimant).map(|at| self.list[at].strand)
    }

    /// Whether nobody is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.find(|kind| kind != Kind::Claimant).is_none()
    }

    fn find(&self, which: impl Fn(Kind) -> bool) -> Option<usize> {
        self.list
            .iter()
            .position(|waiter| std::ptr::eq(waiter.lock, self.lock) && which(waiter.kind))
    }
}

/// Wakes the one that waits for readers to leave, if it sleeps.
#[cold]
#[inline(never)]
pub(super) fn wake_claimant(core: &RwCore) {
    let mut bucket = bucket(core);
    let Some(at) = bucket.find(|kind| kind == Kind::Claimant) else {
        return;
    };
    let waiter = bucket.take(at);
    let parker = Node::signal(waiter.node, WAKE);
    drop(bucket); // Q4
    parker.unpark();
}

/// Takes the bits `gone` away from the word, and wakes the first of those who wait: a writer, if it can come in, or else
/// all readers and the first of the others. Hands over to whom was woken before for nothing, or if that is to be `fair`.
///
/// `gone` is nothing, or what keeps all others from `HELD` and `CLAIMED` until it is gone.
#[cold]
#[inline(never)]
pub(super) fn wake(core: &RwCore, gone: u32, fair: bool) {
    let mut bucket = bucket(core);
    let mut nodes = Vec::new();
    let mut handed = 0;
    let mut signal = WAKE;
    if let Some(at) = bucket.find(|kind| kind != Kind::Claimant) {
        let Waiter { kind, lost, .. } = bucket.list[at];
        let hand = gone != 0 && (fair || lost);
        if hand {
            count(Count::HandOffs);
            signal = HAND_OFF;
        }
        let upgradable = core.word.load(Ordering::Relaxed) & UPGRADABLE & !gone != 0;
        let alone = kind == Kind::Write && !upgradable;
        if !alone {
            nodes.extend(bucket.readers().into_iter().map(|node| (node, signal)));
            handed += if hand { nodes.len() as u32 } else { 0 };
        }
        // Readers do not wake those who wait for writers only, so one of them comes along.
        if let Some(at) = bucket.find(|kind| matches!(kind, Kind::Write | Kind::Upgradable)) {
            let hand = hand && kind != Kind::Read;
            let waiter = bucket.take(at);
            handed += match waiter.kind {
                _ if !hand => 0,
                Kind::Write => CLAIMED,
                _ => UPGRADABLE,
            };
            nodes.push((waiter.node, if hand { HAND_OFF } else { WAKE }));
        }
    }
    let empty = if bucket.is_empty() { PARKED } else { 0 };
    // ORD: Release pairs with the Acquires of those who come in.
    core.change(Ordering::Release, |word| (word & !(gone | empty)) + handed);
    // The word first: those who are handed the lock let go of it without asking for the bucket.
    let parkers: Vec<&'static Parker> =
        nodes.into_iter().map(|(node, signal)| Node::signal(node, signal)).collect();
    drop(bucket); // Q4
    parkers.into_iter().for_each(Parker::unpark);
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::super::core::HELD;
    use super::*;
    use crate::core::Patience;
    use raddle_sync::time::Instant;
    use std::thread;
    use std::time::Duration;

    /// A writer, and behind it a reader, wait for one that has claimed the lock; then `next` makes that one a reader that
    /// may write later. The reader is to come in beside it.
    fn beside_an_upgradable_reader(next: impl FnOnce(&RwCore)) {
        let core = RwCore::new();
        core.word.store(CLAIMED, Ordering::Relaxed);
        let asleep = |wanted| {
            while bucket(&core).list.iter().filter(|w| std::ptr::eq(w.lock, &core)).count() < wanted
            {
                thread::yield_now();
            }
        };
        thread::scope(|s| {
            s.spawn(|| {
                assert!(core.write_slow(Patience::Until(None)));
                core.end_write(false);
            });
            asleep(1);
            let reader = s.spawn(|| {
                let long = Instant::now() + Duration::from_secs(60);
                core.read_slow(false, Patience::Until(Some(long))).map(|cell| core.end_read(cell))
            });
            asleep(2);
            next(&core);
            let read = reader.join().unwrap();
            let word = core.word.load(Ordering::Relaxed);
            core.end_upgradable(0);
            assert_eq!(read, Ok(()));
            assert_eq!(word & (UPGRADABLE | HELD | CLAIMED), UPGRADABLE);
        });
        assert!(!core.is_locked());
    }

    #[test]
    fn readers_come_in_if_an_upgrade_fails_that_a_writer_waits_for() {
        beside_an_upgradable_reader(|core| {
            core.change(Ordering::Release, |word| (word & !CLAIMED) | UPGRADABLE);
            wake(core, 0, false);
        });
    }

    #[test]
    fn a_writer_woken_in_vain_wakes_the_readers() {
        beside_an_upgradable_reader(|core| {
            let mut bucket = bucket(core);
            let at = bucket.find(|kind| kind == Kind::Write).unwrap();
            let writer = bucket.take(at).node;
            // The lock becomes free, and somebody else comes first.
            core.change(Ordering::Release, |word| (word & !CLAIMED) | UPGRADABLE);
            let parker = Node::signal(writer, WAKE);
            drop(bucket);
            parker.unpark();
        });
    }
}
