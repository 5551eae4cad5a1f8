//! Shared ownership and blocking: [`Arc`], [`Mutex`], [`Condvar`].
//!
//! These are thin wrappers over the seam's primitives, for cold paths. They ignore poison: what a
//! lock of this crate's users protects is put right before anything that can panic is called, or
//! not at all, so a poisoned lock would only turn one panic into many. Code that runs a user's
//! closure never does so under one of these locks.

use crate::const_fn;
use std::fmt;
use std::sync::{PoisonError, TryLockError};
use std::time::Duration;

#[cfg(raddle_loom)]
use loom::sync as blocking;
#[cfg(raddle_shuttle)]
use shuttle::sync as blocking;
#[cfg(not(raddle_model))]
use std::sync as blocking;

pub use blocking::{Arc, MutexGuard};

/// A mutual-exclusion lock whose [`lock`](Mutex::lock) gives the guard directly.
///
/// ```
/// use raddle_sync::sync::Mutex;
/// static TOTAL: Mutex<u32> = Mutex::new(0);
/// *TOTAL.lock() += 2;
/// assert_eq!(*TOTAL.lock(), 2);
/// ```
///
/// It is invariant in `T`:
///
/// ```compile_fail,E0308
/// # use raddle_sync::sync::Mutex;
/// fn narrow(mutex: &Mutex<for<'a> fn(&'a str)>) -> &Mutex<fn(&'static str)> { mutex }
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized>(blocking::Mutex<T>);

impl<T> Mutex<T> {
    const_fn! {
        /// An unlocked mutex that holds `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex(blocking::Mutex::new(value))
        }
    }

    /// The value; owning the mutex proves that nobody holds it.
    pub fn into_inner(self) -> T {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Blocks until the mutex is free and takes it. Not re-entrant: locking twice on one thread
    /// hangs or panics.
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the mutex if it is free.
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        match self.0.try_lock() {
            Ok(guard) => Some(guard),
            Err(TryLockError::Poisoned(error)) => Some(error.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }

    /// The value, without locking: `&mut self` proves that nobody holds the mutex.
    #[inline]
    pub fn get_mut(&mut self) -> &mut T {
        self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_tuple("Mutex").field(&&*guard).finish(),
            None => f.write_str("Mutex(<locked>)"),
        }
    }
}

/// A condition variable for the guards of [`Mutex`].
///
/// ```
/// use raddle_sync::sync::{Condvar, Mutex};
/// use std::time::Duration;
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// let (guard, timed_out) = changed.wait_timeout(ready.lock(), Duration::from_millis(1));
/// assert!(timed_out || !*guard);
/// ```
#[derive(Default)]
pub struct Condvar(blocking::Condvar);

impl Condvar {
    const_fn! {
        /// A condition variable nobody waits on.
        pub const fn new() -> Condvar {
            Condvar(blocking::Condvar::new())
        }
    }

    /// Releases the mutex, waits for a notification, takes the mutex again. May return without a
    /// notification: re-check the condition.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.0.wait(guard).unwrap_or_else(PoisonError::into_inner)
    }

    /// As [`wait`](Condvar::wait), for at most `limit`; the flag is true if the time ran out.
    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        limit: Duration,
    ) -> (MutexGuard<'a, T>, bool) {
        let (guard, result) =
            self.0.wait_timeout(guard, limit).unwrap_or_else(PoisonError::into_inner);
        (guard, result.timed_out())
    }

    /// Wakes one waiter, if there is one.
    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    /// Wakes every waiter.
    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}

impl fmt::Debug for Condvar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Condvar")
    }
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    #[test]
    fn a_panic_under_the_lock_does_not_poison_it() {
        let lock = Arc::new(Mutex::new(1));
        let inner = Arc::clone(&lock);
        let result = crate::thread::spawn(move || {
            let _guard = inner.lock();
            panic!("on purpose");
        })
        .join();
        assert!(result.is_err());
        assert_eq!(*lock.lock(), 1);
        assert_eq!(lock.try_lock().as_deref(), Some(&1));
    }

    #[test]
    fn try_lock_fails_while_held() {
        let lock = Mutex::new(());
        let guard = lock.lock();
        assert!(lock.try_lock().is_none());
        assert_eq!(format!("{lock:?}"), "Mutex(<locked>)");
        drop(guard);
        assert!(lock.try_lock().is_some());
    }
}
