//! Locks of four bytes.
//!
//! ```
//! use raddle_lock::Mutex;
//! static NAMES: Mutex<Vec<&str>> = Mutex::new(Vec::new());
//! NAMES.lock().push("weft");
//! assert_eq!(*NAMES.lock(), ["weft"]);
//! ```

mod condvar;
mod core;
mod deadlock;
mod entry;
mod fat;
mod header;
mod monitor;
mod mutex;
mod pending;
mod queue;
mod raw;
mod reentrant;
mod slot;
mod spin;
mod stats;
mod table;
mod wait_result;
mod word;

pub use condvar::Condvar;
pub use deadlock::{Deadlock, DeadlockHook, Wait, set_deadlock_hook};
pub use header::{HeaderGuard, ObjectHeader};
pub use mutex::{MappedMutexGuard, Mutex, MutexGuard};
pub use raddle_sync::strand::{AbandonHook, Abandoned, set_abandon_hook};
pub use raw::RawThinLock;
pub use reentrant::{ReentrantLock, ReentrantLockGuard};
pub use stats::{LockStats, stats};
pub use wait_result::WaitResult;
