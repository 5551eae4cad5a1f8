//! The readers-writer lock for the traits of `lock_api`.

use super::core::RwCore;
use crate::core::{Patience, keeping_guards};
use crate::slot::HOLDS;
use lock_api::GuardNoSend;
use raddle_sync::strand::{self, Local};
use raddle_sync::time::Instant;
use std::fmt;
use std::time::Duration;

/// A four-byte readers-writer lock without a value, for `lock_api::RwLock` and its kin.
///
/// Most callers want [`RwLock`](crate::RwLock), which is the same lock, and whose guards know where they are published.
///
/// ```
/// type RwLock<T> = lock_api::RwLock<raddle_lock::RawRwLock, T>;
/// static TOTAL: RwLock<u32> = RwLock::new(0);
/// *TOTAL.write() += 1;
/// assert_eq!(*TOTAL.read() + *TOTAL.read_recursive(), 2);
/// assert_eq!(size_of::<raddle_lock::RawRwLock>(), 4);
/// ```
///
/// Where waiting would hang, as the strand has the lock already, locking ends the process, as far as that is known: see
/// [`RwLock`](crate::RwLock), and [`RawThinLock`](crate::RawThinLock). `upgrade` panics instead. `bump` of a writer's guard by a strand above the guard's
/// panics; that of a reader's hands nothing on where a strand beneath is published as a reader, too. A read that is counted nobody
/// knows: a thread that has one besides that which it bumps waits for a writer that waits for it, as with `parking_lot`.
pub struct RawRwLock {
    core: RwCore,
}

impl fmt::Debug for RawRwLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawRwLock").field("locked", &self.core.is_locked()).finish()
    }
}

impl RawRwLock {
    /// A strand that is published must not end unnoticed: its id would go to another, with what is published under it.
    /// A read that is counted bears nobody's name, so nobody holds it.
    #[inline]
    fn read(&self, again: bool, patience: Patience) -> bool {
        if self.core.publish::<HOLDS>().is_some() {
            strand::with_local(Local::hold);
            return true;
        }
        self.core.read_slow(again, patience).is_ok()
    }

    #[inline]
    fn end_read(&self) {
        if let Some(name) = self.core.end_read_somewhere() {
            // SAFETY: nothing is published any more for what was held (R7).
            strand::with_local(|local| unsafe { local.unhold_of(name) });
        }
    }
}

// SAFETY: the lock is exclusive to one writer, or open to readers only: `HELD` is set when there is no reader left, and
// readers come in only where it is not set (R1 to R3). `GuardNoSend` keeps guards on the thread of the strand.
unsafe impl lock_api::RawRwLock for RawRwLock {
    const INIT: RawRwLock = RawRwLock { core: RwCore::new() };

    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock_shared(&self) {
        keeping_guards(|| self.read(false, Patience::Back));
    }

    #[inline]
    fn try_lock_shared(&self) -> bool {
        self.read(false, Patience::Try)
    }

    #[inline]
    unsafe fn unlock_shared(&self) {
        self.end_read();
    }

    #[inline]
    fn lock_exclusive(&self) {
        if !self.core.write_now() {
            keeping_guards(|| self.core.write_slow(Patience::Back));
        }
    }

    #[inline]
    fn try_lock_exclusive(&self) -> bool {
        self.core.write_now() || self.core.write_slow(Patience::Try)
    }

    #[inline]
    unsafe fn unlock_exclusive(&self) {
        self.core.end_write(false);
    }

    fn is_locked(&self) -> bool {
        self.core.is_locked()
    }

    fn is_locked_exclusive(&self) -> bool {
        self.core.is_written()
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockFair for RawRwLock {
    unsafe fn unlock_shared_fair(&self) {
        self.end_read(); // A writer that waits has claimed the lock, and nobody overtakes it.
    }

    unsafe fn unlock_exclusive_fair(&self) {
        self.core.end_write(true);
    }

    unsafe fn bump_shared(&self) {
        // Whose guard it is is not known where a strand beneath has the lock as well, for which whoever wants it would wait. To
        // hand it on is no duty.
        if self.core.is_wanted() && !self.core.is_held_beneath() {
            self.end_read();
            // Counted, and so nobody's, whichever strand runs.
            keeping_guards(|| self.core.read_slow(false, Patience::Back).is_ok());
        }
    }

    unsafe fn bump_exclusive(&self) {
        if self.core.is_wanted() {
            self.core.assert_written_here();
            self.core.end_write(true);
            keeping_guards(|| self.core.write_slow(Patience::Back));
        }
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockRecursive for RawRwLock {
    fn lock_shared_recursive(&self) {
        keeping_guards(|| self.read(true, Patience::Back));
    }

    fn try_lock_shared_recursive(&self) -> bool {
        self.read(true, Patience::Try)
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockDowngrade for RawRwLock {
    unsafe fn downgrade(&self) {
        self.core.downgrade();
    }
}

// SAFETY: as above.
unsafe impl lock_api::RawRwLockTimed for RawRwLock {
    type Duration = Duration;
    type Instant = Instant;

    fn try_lock_shared_for(&self, limit: Duration) -> bool {
        self.read(false, Patience::at_most(limit))
    }

    fn try_lock_shared_until(&self, deadline: Instant) -> bool {
        self.read(false, Patience::Until(Some(deadline)))
    }

    fn try_lock_exclusive_for(&self, limit: Duration) -> bool {
        self.core.write_now() || self.core.write_slow(Patience::at_most(limit))
    }

    fn try_lock_exclusive_until(&self, deadline: Instant) -> bool {
        self.core.write_now() || self.core.write_slow(Patience::Until(Some(deadline)))
    }
}

// SAFETY: as above; `UPGRADABLE` is one strand's at a time, and keeps writers out.
unsafe impl lock_api::RawRwLockUpgrade for RawRwLock {
    fn lock_upgradable(&self) {
        keeping_guards(|| self.core.read_upgradable(Patience::Back));
    }

    fn try_lock_upgradable(&self) -> bool {
        self.core.read_upgradable(Patience::Try)
    }

    unsafe fn unlock_upgradable(&self) {
        self.core.end_upgradable(0);
    }

    unsafe fn upgrade(&self) {
        self.core.upgrade(Patience::Until(None));
    }

    unsafe fn try_upgrade(&self) -> bool {
        self.core.upgrade(Patience::Try)
    }
}
