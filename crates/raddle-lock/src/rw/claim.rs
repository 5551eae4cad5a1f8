//! From `CLAIMED` to `HELD`: waiting for the readers of a readers-writer lock to leave.

use super::core::{CLAIMED, COUNT, HELD, PARKED, READS, RwCore, SLOTS, UPGRADABLE, name};
use super::queue::{self, Kind};
use crate::core::Patience;
use crate::deadlock::{self, Panic};
use crate::queue::{Node, WAITING};
use crate::slot;
use crate::spin::Spin;
use raddle_sync::atomic::Ordering;
use raddle_sync::strand;
use std::panic::resume_unwind;

impl RwCore {
    /// Makes a writer of the one that may write later; false, as before, if the readers do not leave in time. At once, if it
    /// reads published as well.
    ///
    /// # Panics
    ///
    /// If it reads published as well, and there is no limit.
    pub(crate) fn upgrade(&self, patience: Patience) -> bool {
        let word = self.word.load(Ordering::Relaxed);
        if self.is_read_here(word) {
            assert!(patience.ends(), "{READS}");
            return false;
        }
        if matches!(patience, Patience::Try) && self.is_read(word) {
            return false; // as in `write_slow`
        }
        self.change(Ordering::Relaxed, |word| (word & !UPGRADABLE) | CLAIMED);
        self.drain(patience, UPGRADABLE)
    }

    /// Has claimed the lock: waits for the readers to leave. If that takes too long the claim becomes `instead`.
    pub(super) fn drain(&self, patience: Patience, instead: u32) -> bool {
        let me = name();
        let slots = self.word.load(Ordering::Relaxed) & SLOTS != 0;
        if slots {
            slot::revoke();
        }
        let mut spin = Spin::default();
        let mut slept = Ok(true);
        loop {
            if !(slots && self.is_published()) && self.enter(me) {
                return true;
            }
            if matches!(patience, Patience::Try) {
                break;
            }
            if !spin.spin() {
                slept = self.sleep_for_readers(slots, patience);
                if !matches!(slept, Ok(true)) {
                    break;
                }
            }
        }
        if instead == 0 {
            // Whoever was woken in vain before is handed the lock: so those who claim it again and again, for a short time
            // each, keep nobody out for long.
            queue::wake(self, CLAIMED, false);
        } else {
            // ORD: Release: whoever claims next sees what this one did while it held `UPGRADABLE`.
            let before = self.change(Ordering::Release, |word| (word & !CLAIMED) | instead);
            if before & PARKED != 0 {
                queue::wake(self, 0, false);
            }
        }
        slept.unwrap_or_else(|panic| resume_unwind(panic));
        false
    }

    /// The step from `CLAIMED` to `HELD`; false while readers are counted (R3).
    fn enter(&self, me: u32) -> bool {
        let mut seen = self.word.load(Ordering::Relaxed);
        while seen & COUNT == 0 {
            let held = (seen & PARKED) | HELD | me; // R2
            // ORD: Acquire pairs with the Releases in `end_counted`, and those of writers.
            let (success, failure) = (Ordering::Acquire, Ordering::Relaxed);
            match self.word.compare_exchange(seen, held, success, failure) {
                Ok(_) => {
                    if me != 0 {
                        strand::with_local(strand::Local::hold);
                    }
                    return true;
                }
                Err(now) => seen = now,
            }
        }
        false
    }

    /// Sleeps until a reader has left; false if the deadline comes first. The error is a panic that is to be passed on.
    fn sleep_for_readers(&self, slots: bool, patience: Patience) -> Result<bool, Panic> {
        let node = Node::new();
        let mut bucket = queue::bucket(self);
        // Whoever leaves from here on comes to the bucket (R1).
        if !(slots && self.is_published()) && self.word.load(Ordering::Relaxed) & COUNT == 0 {
            return Ok(true);
        }
        let me = strand::token();
        bucket.push(&node, me, Kind::Claimant, false);
        drop(bucket);
        // A reader that is in a cell though the writer ran no barrier is none of those that it waits for (R2).
        let holders = || if slots { slot::readers(self.address()) } else { Vec::new() };
        let what = deadlock::For { address: self.address(), me, holders: &holders };
        let slept = deadlock::sleep(&what, &node, patience.deadline(), patience);
        if slept.as_ref().is_ok_and(|&signal| signal != WAITING) {
            return Ok(true);
        }
        // Woken at the last moment it has left the queue.
        let left = queue::bucket(self).remove(&node);
        if left {
            return slept.map(|_| false);
        }
        deadlock::discard(slept);
        Ok(true)
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::queue::HAND_OFF;

    /// Else whoever claims again and again, for a short time each, may find the lock free each time before those that it
    /// has kept out come awake.
    #[test]
    fn who_gives_a_claim_up_hands_the_lock_to_one_that_was_woken_in_vain() {
        let core = RwCore::new();
        core.word.store(CLAIMED | PARKED | 1, Ordering::Relaxed);
        let nodes = [Node::new(), Node::new()];
        let mut bucket = queue::bucket(&core);
        bucket.push(&nodes[0], 0, Kind::Read, true);
        bucket.push(&nodes[1], 0, Kind::Write, false);
        drop(bucket);
        assert!(!core.drain(Patience::Try, 0));
        assert_eq!(nodes[0].signalled(), HAND_OFF);
        assert_eq!(nodes[1].signalled(), crate::queue::WAKE);
        assert_eq!(core.word.load(Ordering::Relaxed), 2, "two read, and nobody is parked");
        core.word.store(0, Ordering::Relaxed);
    }
}
