//! The lock with its value.
//!
//! **M1** The value is accessed only through a guard, or through `&mut` or ownership of the mutex; a
//! guard exists only while its mutex's raw lock is held by the strand that made it; or while that is borrowed
//! exclusively by code that takes the lock back, or ends the process (`Core::acquire_back`).

use crate::core::Core;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::const_fn;
use raddle_sync::time::Instant;
use std::fmt;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// A mutual-exclusion lock: four bytes and the value.
///
/// It is not poisoned by a panic, and it is not re-entrant; see the [crate's page](crate).
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
///
/// It is invariant in `T`: through one that holds something short-lived as well, that could be left in one
/// that is to hold only what lives longer.
///
/// ```compile_fail,E0308
/// # use raddle_lock::Mutex;
/// fn narrow(mutex: &Mutex<for<'a> fn(&'a str)>) -> &Mutex<fn(&'static str)> { mutex }
/// ```
pub struct Mutex<T: ?Sized> {
    core: Core,
    value: UnsafeCell<T>,
}

// SAFETY: sending the mutex sends the value, and nothing else in it belongs to a thread.
unsafe impl<T: ?Sized + Send> Send for Mutex<T> {}
// SAFETY: a shared mutex hands the value to one strand at a time (M1), which is to send it there.
unsafe impl<T: ?Sized + Send> Sync for Mutex<T> {}

// There is no poison: what a panic leaves is seen by whoever locks next, who is to expect that of a mutex.
impl<T: ?Sized> UnwindSafe for Mutex<T> {}
impl<T: ?Sized> RefUnwindSafe for Mutex<T> {}

impl<T> Mutex<T> {
    const_fn! {
        /// A free mutex that holds `value`.
        pub const fn new(value: T) -> Mutex<T> {
            Mutex { core: Core::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value; owning the mutex proves that nobody holds it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> Mutex<T> {
    /// Takes the mutex, waiting for it if need be. Costs one read-modify-write together with the
    /// guard's drop if nobody else wants it.
    ///
    /// # Panics
    ///
    /// If this strand holds the mutex already, or the [deadlock hook](crate::set_deadlock_hook) panics.
    ///
    /// ```should_panic
    /// let mutex = raddle_lock::Mutex::new(());
    /// let _guard = mutex.lock();
    /// mutex.lock(); // would hang elsewhere
    /// ```
    #[inline]
    pub fn lock(&self) -> MutexGuard<'_, T> {
        self.core.acquire::<false>();
        self.guard()
    }

    /// Takes the mutex if it is free. Does not wait for whoever holds it: one that is about to be let go of counts as held.
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
        self.core.try_acquire::<false>().then(|| self.guard())
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
        self.core.acquire_until::<false>(Instant::now().checked_add(limit)).then(|| self.guard())
    }

    /// Takes the mutex, waiting until `deadline` at the latest. Fails at once if this strand holds it
    /// already.
    pub fn try_lock_until(&self, deadline: Instant) -> Option<MutexGuard<'_, T>> {
        self.core.acquire_until::<false>(Some(deadline)).then(|| self.guard())
    }

    /// True if somebody holds the mutex at this moment; good for statistics and assertions only.
    pub fn is_locked(&self) -> bool {
        self.core.is_locked()
    }

    /// True if the strand that runs now holds the mutex.
    pub fn is_held(&self) -> bool {
        self.core.is_held()
    }

    /// The value, without locking: `&mut self` proves that nobody holds the mutex.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: `&mut self` excludes every guard (M1), for as long as the result lives.
            unsafe { &mut *value }
        })
    }

    #[inline]
    fn guard(&self) -> MutexGuard<'_, T> {
        MutexGuard { mutex: self, not_send: PhantomData }
    }
}

impl<T: Default> Default for Mutex<T> {
    fn default() -> Mutex<T> {
        Mutex::new(T::default())
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
            Some(guard) => f.debug_struct("Mutex").field("data", &&*guard).finish(),
            None => f.write_str("Mutex { data: <locked> }"),
        }
    }
}

/// Access to a locked [`Mutex`]'s value; dropping it unlocks.
///
/// It stays on its thread, because the lock belongs to the strand that runs there:
/// ```compile_fail,E0277
/// let mutex = raddle_lock::Mutex::new(0);
/// let guard = mutex.lock();
/// std::thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
/// ```
///
/// It is invariant in `T`, as `&mut T` is:
/// ```compile_fail,E0308
/// # use raddle_lock::MutexGuard;
/// fn narrow(guard: MutexGuard<'_, for<'a> fn(&'a str)>) -> MutexGuard<'_, fn(&'static str)> { guard }
/// ```
#[must_use = "dropping the guard unlocks the mutex"]
pub struct MutexGuard<'a, T: ?Sized> {
    mutex: &'a Mutex<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for MutexGuard<'_, T> {}

impl<'a, T: ?Sized> MutexGuard<'a, T> {
    /// The mutex that is locked.
    pub fn mutex(this: &Self) -> &'a Mutex<T>
    where
        T: Send, // Others may have the guard's address, and then would have the mutex, too.
    {
        this.mutex
    }

    /// A guard of a part of the value.
    ///
    /// ```
    /// use raddle_lock::{Mutex, MutexGuard};
    /// let pair = Mutex::new((1, "one"));
    /// let mut number = MutexGuard::map(pair.lock(), |pair| &mut pair.0);
    /// *number = 2;
    /// drop(number);
    /// assert_eq!(*pair.lock(), (2, "one"));
    /// ```
    pub fn map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedMutexGuard<'a, U> {
        match Self::try_map(this, |value| Some(part(value))) {
            Ok(part) => part,
            Err(_) => unreachable!("there is a part"),
        }
    }

    /// A guard of a part of the value, or the guard itself if there is no such part.
    ///
    /// ```
    /// use raddle_lock::{Mutex, MutexGuard};
    /// let words = Mutex::new(vec!["warp"]);
    /// *MutexGuard::try_map(words.lock(), |words| words.first_mut()).unwrap() = "weft";
    /// let whole = MutexGuard::try_map(words.lock(), |words| words.get_mut(7)).unwrap_err();
    /// assert_eq!(*whole, ["weft"]);
    /// ```
    pub fn try_map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedMutexGuard<'a, U>, Self> {
        // If `part` panics the guard is dropped.
        let Some(part) = part(&mut this).map(std::ptr::from_mut) else {
            return Err(this);
        };
        let core = &this.mutex.core;
        std::mem::forget(this);
        Ok(MappedMutexGuard { core, part, not_send: PhantomData })
    }

    /// Unlocks, and hands the mutex to whoever has waited longest, if somebody does. Others than they
    /// cannot take it in between. Costs a switch to another thread where a plain drop need not.
    pub fn unlock_fair(this: Self) {
        this.mutex.core.release_fair::<false>();
        std::mem::forget(this);
    }

    /// Lets whoever has waited longest have the mutex, if somebody waits, and takes it again.
    ///
    /// # Panics
    ///
    /// If somebody waits and the guard is not one of the strand that runs, but of one beneath it on the same thread.
    pub fn bump(this: &mut Self) {
        if this.mutex.core.is_wanted() {
            this.mutex.core.assert_held();
            this.mutex.core.release_fair::<false>();
            this.mutex.core.acquire_back();
        }
    }

    /// Runs `f` with the mutex unlocked, and locks it again, also if `f` panics.
    ///
    /// Ends the process if `f` has locked the mutex and kept it locked, by handing the guard out or forgetting it:
    /// this strand would wait for itself.
    ///
    /// # Panics
    ///
    /// If `f` does; and before anything is unlocked, if the guard is not one of the strand that runs, but of one beneath
    /// it on the same thread.
    ///
    /// ```
    /// use raddle_lock::{Mutex, MutexGuard};
    /// let mutex = Mutex::new(0);
    /// let mut guard = mutex.lock();
    /// MutexGuard::unlocked(&mut guard, || *mutex.lock() = 1);
    /// assert_eq!(*guard, 1);
    /// ```
    pub fn unlocked<R>(this: &mut Self, f: impl FnOnce() -> R) -> R {
        struct Relock<'a>(&'a Core);
        impl Drop for Relock<'_> {
            fn drop(&mut self) {
                self.0.acquire_back();
            }
        }
        this.mutex.core.assert_held();
        this.mutex.core.release::<false>();
        let _relock = Relock(&this.mutex.core);
        f()
    }

    pub(crate) fn core(this: &Self) -> &'a Core {
        &this.mutex.core
    }
}

impl<T: ?Sized> Deref for MutexGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.mutex.value.with(|value| {
            // SAFETY: this guard holds the lock (M1); it is borrowed for as long as the result lives,
            // so nothing writes meanwhile.
            unsafe { &*value }
        })
    }
}

impl<T: ?Sized> DerefMut for MutexGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.mutex.value.with_mut(|value| {
            // SAFETY: this guard holds the lock (M1); it is borrowed exclusively for as long as the
            // result lives.
            unsafe { &mut *value }
        })
    }
}

impl<T: ?Sized> Drop for MutexGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.mutex.core.release::<false>();
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

/// Access to a part of a locked [`Mutex`]'s value, made by [`MutexGuard::map`]; dropping it unlocks.
///
/// It is invariant in `U`, as `&mut U` is:
/// ```compile_fail,E0308
/// # use raddle_lock::MappedMutexGuard as Guard;
/// fn narrow(part: Guard<'_, for<'a> fn(&'a str)>) -> Guard<'_, fn(&'static str)> { part }
/// ```
///
/// Nor does it leave its thread:
/// ```compile_fail,E0277
/// # use raddle_lock::{Mutex, MutexGuard};
/// let pair = Mutex::new((1, 2));
/// let part = MutexGuard::map(pair.lock(), |pair| &mut pair.0);
/// std::thread::scope(|s| s.spawn(move || drop(part)).join().unwrap());
/// ```
#[must_use = "dropping the guard unlocks the mutex"]
pub struct MappedMutexGuard<'a, U: ?Sized> {
    core: &'a Core,
    part: *mut U,
    not_send: PhantomData<&'a mut U>,
}

// SAFETY: a shared guard gives shared access to the part and nothing else.
unsafe impl<U: ?Sized + Sync> Sync for MappedMutexGuard<'_, U> {}

impl<'a, U: ?Sized> MappedMutexGuard<'a, U> {
    /// A guard of a part of the part.
    pub fn map<V: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut U) -> &mut V,
    ) -> MappedMutexGuard<'a, V> {
        match Self::try_map(this, |value| Some(part(value))) {
            Ok(part) => part,
            Err(_) => unreachable!("there is a part"),
        }
    }

    /// A guard of a part of the part, or the guard itself if there is no such part.
    pub fn try_map<V: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut U) -> Option<&mut V>,
    ) -> Result<MappedMutexGuard<'a, V>, Self> {
        let Some(part) = part(&mut this).map(std::ptr::from_mut) else {
            return Err(this);
        };
        let core = this.core;
        std::mem::forget(this);
        Ok(MappedMutexGuard { core, part, not_send: PhantomData })
    }
}

impl<U: ?Sized> Deref for MappedMutexGuard<'_, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: a part of the value of a mutex that this guard has locked (M1).
        unsafe { &*self.part }
    }
}

impl<U: ?Sized> DerefMut for MappedMutexGuard<'_, U> {
    #[inline]
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: a part of the value of a mutex that this guard has locked (M1).
        unsafe { &mut *self.part }
    }
}

impl<U: ?Sized> Drop for MappedMutexGuard<'_, U> {
    #[inline]
    fn drop(&mut self) {
        self.core.release::<false>();
    }
}

impl<U: ?Sized + fmt::Debug> fmt::Debug for MappedMutexGuard<'_, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<U: ?Sized + fmt::Display> fmt::Display for MappedMutexGuard<'_, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
