//! Locks of four bytes.
//!
//! ```
//! use raddle_lock::Mutex;
//!
//! static NAMES: Mutex<Vec<&str>> = Mutex::new(Vec::new());
//!
//! NAMES.lock().push("weft");
//! assert_eq!(*NAMES.lock(), ["weft"]);
//! ```
//!
//! [`Mutex`] is the lock to use; [`RawThinLock`] is the same lock for those who build on the traits
//! of `lock_api`. Neither needs a pool, neither allocates, and both know their owner:
//!
//! - **The owner is a strand, not a thread** ([`raddle_sync::strand`]). Foreign work that runs on a
//!   thread while the work beneath it waits is another strand, and waits for its turn like any other.
//! - **Locking again on the same strand panics** with a clear message. Other locks hang there.
//!
//! # No poisoning
//!
//! A panic while a lock is held releases it and leaves the value as it was at that moment, as in
//! `parking_lot`. Whether a half-made change matters is known where the change is made, and there it
//! can be put right; a flag that every later user has to unwrap turns one failed task into the failure
//! of all that share the lock, without telling any of them what is wrong. A task's panic is already
//! reported where its result is asked for.
//!
//! # What it costs, and what it does not do yet
//!
//! This is the plain form: one compare-exchange to lock and one swap to unlock, two atomic
//! read-modify-writes for each uncontended pair, as `std` and `parking_lot` have. Contended, it spins
//! for a few microseconds unless somebody already sleeps, and then sleeps on a futex. It is unfair: a
//! running thread may take the lock ahead of one that sleeps.

mod mutex;
mod raw;

pub use mutex::{Mutex, MutexGuard};
pub use raw::RawThinLock;
