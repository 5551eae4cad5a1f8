//! The readers-writer lock.

mod core;
mod guards;
mod lock;
mod queue;

#[cfg(not(raddle_loom))]
mod raw;

pub use guards::{
    MappedRwLockReadGuard, MappedRwLockWriteGuard, RwLockReadGuard, RwLockUpgradableReadGuard,
    RwLockWriteGuard,
};
pub use lock::RwLock;
#[cfg(not(raddle_loom))]
pub use raw::RawRwLock;
