//! What `places` asks of a pool's workers.

use crate::places::Crew;
use crate::pool::builder::Waits;
use crate::pool::registry::{Registry, Waker};

/// The pool's workers as `places` knows them, woken by such a thread.
pub(crate) struct WokenBy<'a> {
    pub(super) registry: &'a Registry,
    pub(super) waker: Waker,
}

impl Crew for WokenBy<'_> {
    fn sees_work(&self) -> bool {
        self.registry.visible_work() > 0
    }

    fn look_around(&self) -> bool {
        self.registry.look_around()
    }

    fn rouse(&self, worker: usize) {
        let registry = self.registry;
        registry.note_wake_of(worker, || registry.rouse(worker, self.waker));
    }

    fn may_start(&self) -> bool {
        self.registry.may_start()
    }

    fn start(&self) -> bool {
        self.registry.start_one()
    }

    fn rouse_host(&self, worker: usize) {
        let registry = self.registry;
        if registry.config.waits == Waits::Substitute {
            registry.stats.host();
        }
        registry.note_wake_of(worker, || match registry.is_guest(worker) {
            true => registry.memories[worker].parker().unpark(),
            false => registry.rouse(worker, self.waker),
        });
    }

    fn prefers_hosts(&self) -> bool {
        self.registry.config.waits == Waits::Host
    }
}
