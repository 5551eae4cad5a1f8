//! Forks that take something along, which is loaded before a thief may have them (I7).

use raddle_sync::atomic::Ordering;

use super::{ForkStack, SLOW, Slot};

impl ForkStack {
    /// From now on every push takes its slow path, in which it is [loaded](ForkStack::load), and every pop, in which that
    /// is [undone](ForkStack::unload). `from` is the first slot whose fork is to be. False: a thief has that fork.
    pub(crate) fn follow(&self, from: &Slot) -> bool {
        let from = self.index_of(from);
        // ORD: the owner's own.
        self.followed.store(SLOW, Ordering::Relaxed);
        // ORD: as an escalation that does not see it is spoilt by the compare-exchange below (I2).
        self.loaded.store(from, Ordering::Relaxed);
        // What was public from there on is so no more.
        let private = self.settle(|span| (span.tail, span.split)) <= from;
        if !private {
            // ORD: as above: nothing is private below.
            self.loaded.store(from + 1, Ordering::Relaxed);
        }
        private
    }

    /// Whether forks are loaded.
    pub(crate) fn is_followed(&self) -> bool {
        // ORD: the owner's own.
        self.followed.load(Ordering::Relaxed) != 0
    }

    /// The fork in this slot, pushed last, is loaded.
    pub(crate) fn load(&self, slot: &Slot) {
        // ORD: Release pairs with the Acquire in `escalate_alone`: the load.
        self.loaded.store(self.index_of(slot) + 1, Ordering::Release);
        self.light(); // I4, I7: before the look at `limit` in `must_settle`
    }

    /// The fork in this slot is about to be over: before the owner's last look at `limit` or its change of `span`.
    pub(crate) fn unload(&self, slot: &Slot) {
        if self.is_followed() {
            // Not raised: one below it may be about to be loaded.
            // ORD: I4, I7: a thief that does not see it is seen, or its compare-exchange is spoilt.
            let loaded = self.loaded.load(Ordering::Relaxed).min(self.index_of(slot));
            self.loaded.store(loaded, Ordering::Relaxed);
            self.light();
        }
    }
}
