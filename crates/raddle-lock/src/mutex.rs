//! The lock with its value.
//!
//! **I1** The value is accessed only through a guard, or through `&mut` or ownership of the mutex; a
//! guard exists only while its mutex's raw lock is held by the strand that made it.

use crate::raw::RawThinLock;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::const_fn;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::time::{Duration, Instant};

/// A mutual-exclusion lock: four bytes and the value.
///
/// ```
/// use raddle_lock::Mutex;
/// use std::thread;
///
/// let total = Mutex::new(0);
/// thread::scope(|s| {
///     for n in 1..=4 {
///         let total = &total;
///         s.spawn(move || *total.lock() += n);
///     }
/// });
/// assert_eq!(total.into_inner(), 10);
/// assert_eq!(size_of::<Mutex<u32>>(), 8);
/// ```
#[derive(Default)]
pub struct Mutex<T: ?Sized> {
    raw: RawThinLock,
    value: UnsafeCell<T>,
}

// SAFETY: sending the mutex sends the value, and nothing else in it belongs to a thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: a shared mutex hands the value to one strand at a time (I1), which is to send it there.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// A free mutex that holds `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex { raw: RawThinLock::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value; owning the mutex proves that nobody holds it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the mutex, waiting for it if need be. Costs two read-modify-writes together with the
    /// guard's drop if nobody else wants it.
    ///
    /// # Panics
    ///
    /// If this strand holds the mutex already. (Not detected while all 65,535 strand ids are taken.)
    ///
    /// ```should_panic
    /// let mutex = raddle_lock::Mutex::new(());
    /// let _guard = mutex.lock();
    /// mutex.lock(); // would hang elsewhere
    /// ```
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.raw.acquire();
        self.guard()
    }

    /// Takes the mutex if it is free. Never waits, never panics.
    ///
    /// ```
    /// let mutex = raddle_lock::Mutex::new(1);
    /// let guard = mutex.lock();
    /// assert!(mutex.try_lock().is_none());
    /// drop(guard);
    /// assert_eq!(*mutex.try_lock().unwrap(), 1);
    /// ```
    #[inline]
    pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
        self.raw.try_acquire().then(|| self.guard())
    }

    /// Takes the mutex, waiting for at most `limit`. Fails at once if this strand holds it already.
    ///
    /// ```
    /// use std::time::Duration;
    /// let mutex = raddle_lock::Mutex::new(1);
    /// assert_eq!(*mutex.try_lock_for(Duration::from_secs(1)).unwrap(), 1);
    /// ```
    pub fn try_lock_for(&self, limit: Duration) -> Option<MutexGuard<'_, T>> {
        // A limit too far away to express is no limit.
        self.raw.acquire_until(Instant::now().checked_add(limit)).then(|| self.guard())
    }

    /// Takes the mutex, waiting until `deadline` at the latest. Fails at once if this strand holds it
    /// already.
    pub fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, T>> {
        self.raw.acquire_until(Some(deadline)).then(|| self.guard())
    }

    /// True if somebody holds the mutex at this moment; good for statistics and assertions only.
    pub fn is_locked(&self) -> bool {
        self.raw.is_taken()
    }

    /// The value, without locking: `&mut self` proves that nobody holds the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: `&mut self` excludes every guard (I1), for as long as the result lives.
            unsafe { &mut *value }
        })
    }

    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, not_send: PhantomData }
    }
}

impl<T> From<T> for Mutex<T> {
    fn from(value: T) -> Mutex<T> {
        Mutex::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for Mutex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_struct("Mutex").field("value", &&*guard).finish(),
            None => f.write_str("Mutex { <locked> }"),
        }
    }
}

/// Access to a locked [`Mutex`]'s value; dropping it unlocks.
///
/// It stays on its thread, because the lock belongs to the strand that runs there:
/// ```compile_fail
/// let mutex = raddle_lock::Mutex::new(0);
/// let guard = mutex.lock();
/// std::thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
/// ```
#[must_use = "dropping the guard unlocks the mutex"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.mutex.value.with(|value| {
            // SAFETY: this guard holds the lock (I1); it is borrowed for as long as the result lives,
            // so nothing writes meanwhile.
            unsafe { &*value }
        })
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.mutex.value.with_mut(|value| {
            // SAFETY: this guard holds the lock (I1); it is borrowed exclusively for as long as the
            // result lives.
            unsafe { &mut *value }
        })
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.raw.release();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for MutexGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
