//! The locks that are compared, behind one trait that leaves nothing of itself in the machine code.

use std::{hint::black_box, sync::PoisonError};

use raddle::lock;

/// A lock without a value, or with one that nobody looks at.
pub(super) trait Lock: Send + Sync + Sized + 'static {
    const NAME: &str;
    type Guard<'a>;
    fn make() -> Self;
    fn take(&self) -> Self::Guard<'_>;
    fn try_take(&self) -> Option<Self::Guard<'_>>;
}

macro_rules! locks {
    ($($name:literal: $kind:ident = $t:ty, $guard:ty, $make:expr;)*) => { $(
        pub(super) struct $kind($t);

        impl Lock for $kind {
            const NAME: &str = $name;
            type Guard<'a> = $guard;

            fn make() -> Self {
                $kind($make)
            }

            #[inline(always)]
            fn take(&self) -> Self::Guard<'_> {
                black_box(&self.0).lock()
            }

            #[inline(always)]
            fn try_take(&self) -> Option<Self::Guard<'_>> {
                black_box(&self.0).try_lock()
            }
        }
    )* };
}

type Raw = lock::RawThinLock;

locks! {
    "raddle Mutex": Mutex = lock::Mutex<()>, lock::MutexGuard<'a, ()>, lock::Mutex::new(());
    "raddle ReentrantLock": Reentrant = lock::ReentrantLock<()>, lock::ReentrantLockGuard<'a, ()>,
        lock::ReentrantLock::new(());
    "raddle ObjectHeader": Header = lock::ObjectHeader, lock::HeaderGuard<'a>,
        lock::ObjectHeader::new();
    "raddle ObjectHeader, fat": Fat = lock::ObjectHeader, lock::HeaderGuard<'a>, fat();
    "raddle RawThinLock in lock_api": LockApi = lock_api::Mutex<Raw, ()>,
        lock_api::MutexGuard<'a, Raw, ()>, lock_api::Mutex::new(());
    "parking_lot": ParkingLot = parking_lot::Mutex<()>, parking_lot::MutexGuard<'a, ()>,
        parking_lot::Mutex::new(());
    "parking_lot ReentrantMutex": ParkingLotReentrant = parking_lot::ReentrantMutex<()>,
        parking_lot::ReentrantMutexGuard<'a, ()>, parking_lot::ReentrantMutex::new(());
    "usync": Usync = usync::Mutex<()>, usync::MutexGuard<'a, ()>, usync::Mutex::new(());
    "spin": Spin = spin::Mutex<()>, spin::MutexGuard<'a, ()>, spin::Mutex::new(());
}

/// std's lock, whose methods return results.
pub(super) struct Std(std::sync::Mutex<()>);

impl Lock for Std {
    const NAME: &str = "std";
    type Guard<'a> = std::sync::MutexGuard<'a, ()>;

    fn make() -> Self {
        Std(std::sync::Mutex::new(()))
    }

    #[inline(always)]
    fn take(&self) -> Self::Guard<'_> {
        black_box(&self.0).lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[inline(always)]
    fn try_take(&self) -> Option<Self::Guard<'_>> {
        black_box(&self.0).try_lock().ok()
    }
}

/// A header that stays fat: it has a hash and has been locked a few times.
fn fat() -> lock::ObjectHeader {
    let header = lock::ObjectHeader::new();
    header.identity_hash();
    (0..8).for_each(|_| drop(header.lock()));
    assert!(header.is_fat());
    header
}
