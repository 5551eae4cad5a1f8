//! The readers-writer lock.

mod claim;
mod core;
mod guards;
mod lock;
mod look;
mod queue;

#[cfg(not(raddle_loom))]
mod raw;

#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) use queue::{Waiter, forget_waiters, lock_all};

pub use guards::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
pub use lock::RwLock;
#[cfg(not(raddle_loom))]
pub use raw::RawRwLock;
