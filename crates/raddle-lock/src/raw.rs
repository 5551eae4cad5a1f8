//! The lock for the traits of `lock_api`.

use crate::core::Core;
use raddle_sync::const_fn;
use std::fmt;

/// A four-byte mutual-exclusion lock without a value, for `lock_api::Mutex` and its kin.
///
/// Most callers want [`Mutex`](crate::Mutex), which is the same lock. It belongs to the strand that took
/// it; the guards of `lock_api` stay on their thread.
///
/// ```
/// type Mutex<T> = lock_api::Mutex<raddle_lock::RawThinLock, T>;
/// static TOTAL: Mutex<u32> = Mutex::new(0);
/// *TOTAL.lock() += 1;
/// assert_eq!(*TOTAL.lock(), 1);
/// assert_eq!(size_of::<raddle_lock::RawThinLock>(), 4);
/// ```
///
/// # Panics
///
/// Locking ends the process if the same strand holds the lock already, and a panic of a deadlock hook goes no further: `unlocked` of
/// `lock_api`'s guards locks by the same function, and there must be no guard without the lock. Unlocking what is not held, which is
/// unsafe for that reason, panics or is not noticed. `bump` panics if somebody waits for the lock and this strand does not hold it.
pub struct RawThinLock {
    pub(crate) core: Core,
}

impl RawThinLock {
    const_fn! {
        /// A free lock.
        pub const fn new() -> RawThinLock {
            RawThinLock { core: Core::new() }
        }
    }
}

impl Default for RawThinLock {
    fn default() -> RawThinLock {
        RawThinLock::new()
    }
}

impl fmt::Debug for RawThinLock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RawThinLock").field("locked", &self.core.is_locked()).finish()
    }
}

/// As [`RawThinLock`], but each unlock hands the lock to whoever has waited longest, as `unlock_fair` does.
///
/// No strand gets it ahead of those who sleep, and so each hand-over costs a sleep and a wake. While nobody waits it costs no more.
///
/// ```
/// type FairMutex<T> = lock_api::Mutex<raddle_lock::RawFairThinLock, T>;
/// static TOTAL: FairMutex<u32> = FairMutex::new(0);
/// *TOTAL.lock() += 1;
/// assert_eq!(*TOTAL.lock(), 1);
/// assert_eq!(size_of::<raddle_lock::RawFairThinLock>(), 4);
/// ```
///
/// # Panics
///
/// As for [`RawThinLock`].
#[cfg(not(raddle_loom))]
#[derive(Debug, Default)]
pub struct RawFairThinLock {
    lock: RawThinLock,
}

#[cfg(not(raddle_loom))]
impl RawFairThinLock {
    /// A free lock.
    pub const fn new() -> RawFairThinLock {
        RawFairThinLock { lock: RawThinLock::new() }
    }
}

// Loom's words cannot be built in a `const`, which `INIT` must be.
#[cfg(not(raddle_loom))]
mod api {
    use super::{RawFairThinLock, RawThinLock};
    use lock_api::{GuardNoSend, RawMutex, RawMutexFair, RawMutexTimed};
    use raddle_sync::time::Instant;
    use std::time::Duration;

    // SAFETY: the lock is exclusive: `FREE` becomes an owner's name by one compare-exchange, and only the
    // owner makes it `FREE` again, as a fat lock's `LOCKED` is set and cleared. `GuardNoSend` keeps the
    // guard on the thread of the strand that locked.
    unsafe impl RawMutex for RawThinLock {
        const INIT: RawThinLock = RawThinLock::new();

        type GuardMarker = GuardNoSend;

        #[inline]
        fn lock(&self) {
            // `lock_api` takes a lock back by this, beside a guard.
            self.core.acquire_back();
        }

        #[inline]
        fn try_lock(&self) -> bool {
            self.core.try_acquire::<false>()
        }

        #[inline]
        unsafe fn unlock(&self) {
            self.core.release::<false>();
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.core.is_locked()
        }
    }

    // SAFETY: as above.
    unsafe impl RawMutexFair for RawThinLock {
        unsafe fn unlock_fair(&self) {
            self.core.release_fair::<false>();
        }

        unsafe fn bump(&self) {
            if self.core.is_wanted() {
                self.core.assert_held();
                self.core.release_fair::<false>();
                self.core.acquire_back();
            }
        }
    }

    // SAFETY: as above.
    unsafe impl RawMutexTimed for RawThinLock {
        type Duration = Duration;
        type Instant = Instant;

        fn try_lock_for(&self, limit: Duration) -> bool {
            // A limit too far away to express is no limit.
            self.core.acquire_until::<false>(Instant::now().checked_add(limit))
        }

        fn try_lock_until(&self, deadline: Instant) -> bool {
            self.core.acquire_until::<false>(Some(deadline))
        }
    }

    // SAFETY: as above.
    unsafe impl RawMutex for RawFairThinLock {
        const INIT: RawFairThinLock = RawFairThinLock::new();

        type GuardMarker = GuardNoSend;

        #[inline]
        fn lock(&self) {
            self.lock.lock();
        }

        #[inline]
        fn try_lock(&self) -> bool {
            self.lock.try_lock()
        }

        #[inline]
        unsafe fn unlock(&self) {
            // SAFETY: contract.
            unsafe { self.lock.unlock_fair() };
        }

        #[inline]
        fn is_locked(&self) -> bool {
            self.lock.is_locked()
        }
    }

    // SAFETY: as above.
    unsafe impl RawMutexFair for RawFairThinLock {
        unsafe fn unlock_fair(&self) {
            // SAFETY: contract.
            unsafe { self.lock.unlock_fair() };
        }

        unsafe fn bump(&self) {
            // SAFETY: contract.
            unsafe { self.lock.bump() };
        }
    }

    // SAFETY: as above.
    unsafe impl RawMutexTimed for RawFairThinLock {
        type Duration = Duration;
        type Instant = Instant;

        fn try_lock_for(&self, limit: Duration) -> bool {
            self.lock.try_lock_for(limit)
        }

        fn try_lock_until(&self, deadline: Instant) -> bool {
            self.lock.try_lock_until(deadline)
        }
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;
    use crate::queue::{HAND_OFF, WAKE};
    use crate::watched::queued;

    #[test]
    fn a_fair_lock_goes_to_the_one_that_waits() {
        let (plain, fair) = (
            lock_api::Mutex::<RawThinLock, _>::new(()),
            lock_api::Mutex::<RawFairThinLock, _>::new(()),
        );
        // SAFETY: only looks.
        let plain_raw = unsafe { plain.raw() };
        // SAFETY: as above.
        let fair_raw = unsafe { fair.raw() };
        let guards = (plain.lock(), fair.lock());
        assert_eq!(queued(&plain_raw.core, |_| drop(guards.0)), WAKE);
        assert_eq!(queued(&fair_raw.lock.core, |_| drop(guards.1)), HAND_OFF);
        assert!(!plain.is_locked() && !fair.is_locked());
    }
}
