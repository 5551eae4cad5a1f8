//! What the rig's workers do while they wait.

use raddle_sync::atomic::{Ordering, fence};
use raddle_sync::fence::heavy;
use raddle_sync::{hint, thread};

use crate::deque::{Slot, Thief};
use crate::latch;
use crate::models::rig::{Place, Rig};

impl Rig {
    /// Waits for the thief of `slot`, helping him.
    pub(super) fn help(&self, place: Place<'_>, slot: &Slot) {
        while !latch::is_set(&slot.done) {
            if self.leapfrog(place, slot) {
                continue;
            }
            // `sleep_apart`
            if latch::prepare_sleep(&slot.done) {
                if self.thief_has_work(slot) {
                    hint::spin_loop();
                } else {
                    self.regions[place.me].parker.park();
                }
            }
        }
    }

    fn thief_has_work(&self, slot: &Slot) -> bool {
        let Some(thief) = Thief::unpack(slot.thief.load(Ordering::Relaxed)) else {
            thread::yield_now();
            return true;
        };
        let fork = &self.regions[thief.worker].fork;
        fence(Ordering::SeqCst);
        fork.request();
        heavy();
        fork.has_work_above(thief.floor)
    }

    fn leapfrog(&self, place: Place<'_>, slot: &Slot) -> bool {
        let Some(thief) = Thief::unpack(slot.thief.load(Ordering::Relaxed)) else {
            return false;
        };
        let fork = &self.regions[thief.worker].fork;
        place.steal(thief.worker, thief.floor)
            || (fork.has_work_above(thief.floor) && place.dislodge(thief.worker, thief.floor))
    }

    /// Who waits for something else runs his own forks.
    pub(in crate::models) fn own_fork(&self, me: usize, at: usize) -> bool {
        let region = &self.regions[me];
        if region.fork.has_work() && !region.fork.has_public() {
            region.fork.open(&region.slots[at]);
            self.stay_attentive(me);
        }
        Place { rig: self, me, at }.steal(me, 0)
    }
}
