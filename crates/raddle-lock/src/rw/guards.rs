//! Guards of a readers-writer lock.

use super::core::{Cell, RwCore};
use super::lock::RwLock;
use crate::core::Patience;
use raddle_sync::time::Instant;
use std::fmt;
use std::marker::PhantomData;
use std::mem;
use std::ops::{Deref, DerefMut};
use std::time::Duration;

/// Shared access to a [`RwLock`]'s value; dropping it leaves the lock.
///
/// ```compile_fail,E0277
/// let lock = raddle_lock::RwLock::new(0);
/// let guard = lock.read();
/// std::thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
/// ```
#[must_use = "dropping the guard unlocks"]
pub struct RwLockReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    cell: Cell,
    not_send: PhantomData<*const ()>,
}

/// Exclusive access to a [`RwLock`]'s value; dropping it leaves the lock.
///
/// ```compile_fail,E0308
/// # use raddle_lock::RwLockWriteGuard as Guard;
/// fn narrow(guard: Guard<'_, for<'a> fn(&'a str)>) -> Guard<'_, fn(&'static str)> { guard }
/// ```
#[must_use = "dropping the guard unlocks"]
pub struct RwLockWriteGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

/// Shared access to a [`RwLock`]'s value, which may become exclusive; dropping it leaves the lock.
#[must_use = "dropping the guard unlocks"]
pub struct RwLockUpgradableReadGuard<'a, T: ?Sized> {
    lock: &'a RwLock<T>,
    not_send: PhantomData<*const ()>,
}

/// Shared access to a part of a [`RwLock`]'s value.
#[must_use = "dropping the guard unlocks"]
pub struct MappedRwLockReadGuard<'a, U: ?Sized> {
    core: &'a RwCore,
    cell: Cell,
    part: *const U,
    not_send: PhantomData<&'a U>,
}

/// Exclusive access to a part of a [`RwLock`]'s value.
///
/// ```compile_fail,E0308
/// # use raddle_lock::MappedRwLockWriteGuard as Guard;
/// fn narrow(part: Guard<'_, for<'a> fn(&'a str)>) -> Guard<'_, fn(&'static str)> { part }
/// ```
#[must_use = "dropping the guard unlocks"]
pub struct MappedRwLockWriteGuard<'a, U: ?Sized> {
    core: &'a RwCore,
    part: *mut U,
    not_send: PhantomData<&'a mut U>,
}

// SAFETY: a shared guard gives shared access to the value and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for RwLockReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockWriteGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<T: ?Sized + Sync> Sync for RwLockUpgradableReadGuard<'_, T> {}
// SAFETY: as above.
unsafe impl<U: ?Sized + Sync> Sync for MappedRwLockReadGuard<'_, U> {}
// SAFETY: as above.
unsafe impl<U: ?Sized + Sync> Sync for MappedRwLockWriteGuard<'_, U> {}

impl<'a, T: ?Sized> RwLockReadGuard<'a, T> {
    #[inline(always)]
    pub(super) fn new(lock: &'a RwLock<T>, cell: Cell) -> Self {
        RwLockReadGuard { lock, cell, not_send: PhantomData }
    }

    /// The lock that is read.
    pub fn rwlock(this: &Self) -> &'a RwLock<T>
    where
        T: Send, // As for `MutexGuard::mutex`.
    {
        this.lock
    }

    /// A guard of a part of the value.
    ///
    /// ```
    /// use raddle_lock::{RwLock, RwLockReadGuard};
    /// let pair = RwLock::new((1, "one"));
    /// assert_eq!(*RwLockReadGuard::map(pair.read(), |pair| &pair.1), "one");
    /// ```
    pub fn map<U: ?Sized>(this: Self, part: impl FnOnce(&T) -> &U) -> MappedRwLockReadGuard<'a, U> {
        match Self::try_map(this, |value| Some(part(value))) {
            Ok(part) => part,
            Err(_) => unreachable!("there is a part"),
        }
    }

    /// A guard of a part of the value, or the guard itself if there is no such part.
    pub fn try_map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&T) -> Option<&U>,
    ) -> Result<MappedRwLockReadGuard<'a, U>, Self> {
        let Some(part) = part(&this).map(std::ptr::from_ref) else {
            return Err(this);
        };
        let (core, cell) = (&this.lock.core, this.cell);
        mem::forget(this);
        Ok(MappedRwLockReadGuard { core, cell, part, not_send: PhantomData })
    }
}

impl<'a, T: ?Sized> RwLockWriteGuard<'a, T> {
    #[inline(always)]
    pub(super) fn new(lock: &'a RwLock<T>) -> Self {
        RwLockWriteGuard { lock, not_send: PhantomData }
    }

    /// The lock that is written.
    pub fn rwlock(this: &Self) -> &'a RwLock<T>
    where
        T: Send, // As for `MutexGuard::mutex`.
    {
        this.lock
    }

    /// A guard of a part of the value.
    ///
    /// ```
    /// use raddle_lock::{RwLock, RwLockWriteGuard};
    /// let pair = RwLock::new((1, "one"));
    /// *RwLockWriteGuard::map(pair.write(), |pair| &mut pair.0) = 2;
    /// assert_eq!(*pair.read(), (2, "one"));
    /// ```
    pub fn map<U: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut T) -> &mut U,
    ) -> MappedRwLockWriteGuard<'a, U> {
        match Self::try_map(this, |value| Some(part(value))) {
            Ok(part) => part,
            Err(_) => unreachable!("there is a part"),
        }
    }

    /// A guard of a part of the value, or the guard itself if there is no such part.
    pub fn try_map<U: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut T) -> Option<&mut U>,
    ) -> Result<MappedRwLockWriteGuard<'a, U>, Self> {
        let Some(part) = part(&mut this).map(std::ptr::from_mut) else {
            return Err(this);
        };
        let core = &this.lock.core;
        mem::forget(this);
        Ok(MappedRwLockWriteGuard { core, part, not_send: PhantomData })
    }

    /// Reads on, and lets other readers in, unless a writer has waited longer than they. No writer comes in between.
    ///
    /// ```
    /// use raddle_lock::{RwLock, RwLockWriteGuard};
    /// let lock = RwLock::new(1);
    /// let mut guard = lock.write();
    /// *guard = 2;
    /// let guard = RwLockWriteGuard::downgrade(guard);
    /// assert_eq!(*guard + *lock.read(), 4);
    /// ```
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let lock = this.lock;
        mem::forget(this);
        lock.core.downgrade();
        RwLockReadGuard::new(lock, None)
    }

    /// Unlocks, and hands the lock to whoever has waited longest, if somebody does.
    pub fn unlock_fair(this: Self) {
        this.lock.core.end_write(true);
        mem::forget(this);
    }
}

impl<'a, T: ?Sized> RwLockUpgradableReadGuard<'a, T> {
    pub(super) fn new(lock: &'a RwLock<T>) -> Self {
        RwLockUpgradableReadGuard { lock, not_send: PhantomData }
    }

    /// Waits for the other readers to leave, and writes. Nobody writes in between.
    ///
    /// # Panics
    ///
    /// If this strand reads the lock as well, as far as that is known: it would wait for itself; see [`RwLock`]. If the hook for
    /// deadlocks does; the guard is dropped then.
    pub fn upgrade(this: Self) -> RwLockWriteGuard<'a, T> {
        let lock = this.lock;
        // If the hook for deadlocks panics the guard is dropped.
        let _upgraded = lock.core.upgrade(Patience::Until(None));
        mem::forget(this);
        RwLockWriteGuard::new(lock)
    }

    /// Writes if nobody else reads; else gives the guard back. As [`RwLock::try_write`] it may fail beside a reader that is just
    /// leaving, or tries to come in.
    pub fn try_upgrade(this: Self) -> Result<RwLockWriteGuard<'a, T>, Self> {
        Self::upgrade_within(this, Patience::Try)
    }

    /// As [`upgrade`](Self::upgrade), waiting for at most `limit`; else gives the guard back. At once, if this strand reads the lock
    /// as well, as far as that is known.
    pub fn try_upgrade_for(this: Self, limit: Duration) -> Result<RwLockWriteGuard<'a, T>, Self> {
        Self::upgrade_within(this, Patience::at_most(limit))
    }

    /// As [`upgrade`](Self::upgrade), waiting until `deadline` at the latest; else gives the guard back. At once where
    /// [`try_upgrade_for`](Self::try_upgrade_for) does.
    pub fn try_upgrade_until(
        this: Self,
        deadline: Instant,
    ) -> Result<RwLockWriteGuard<'a, T>, Self> {
        Self::upgrade_within(this, Patience::Until(Some(deadline)))
    }

    fn upgrade_within(this: Self, patience: Patience) -> Result<RwLockWriteGuard<'a, T>, Self> {
        if !this.lock.core.upgrade(patience) {
            return Err(this);
        }
        let lock = this.lock;
        mem::forget(this);
        Ok(RwLockWriteGuard::new(lock))
    }

    /// Reads on as one that does not write later.
    pub fn downgrade(this: Self) -> RwLockReadGuard<'a, T> {
        let lock = this.lock;
        mem::forget(this);
        lock.core.end_upgradable(1);
        RwLockReadGuard::new(lock, None)
    }
}

impl<'a, U: ?Sized> MappedRwLockReadGuard<'a, U> {
    /// A guard of a part of the part.
    pub fn map<V: ?Sized>(this: Self, part: impl FnOnce(&U) -> &V) -> MappedRwLockReadGuard<'a, V> {
        match Self::try_map(this, |value| Some(part(value))) {
            Ok(part) => part,
            Err(_) => unreachable!("there is a part"),
        }
    }

    /// A guard of a part of the part, or the guard itself if there is no such part.
    pub fn try_map<V: ?Sized>(
        this: Self,
        part: impl FnOnce(&U) -> Option<&V>,
    ) -> Result<MappedRwLockReadGuard<'a, V>, Self> {
        let Some(part) = part(&this).map(std::ptr::from_ref) else {
            return Err(this);
        };
        let (core, cell) = (this.core, this.cell);
        mem::forget(this);
        Ok(MappedRwLockReadGuard { core, cell, part, not_send: PhantomData })
    }
}

impl<'a, U: ?Sized> MappedRwLockWriteGuard<'a, U> {
    /// A guard of a part of the part.
    ///
    /// ```
    /// use raddle_lock::{MappedRwLockWriteGuard, RwLock, RwLockWriteGuard};
    /// let pair = RwLock::new((1, vec![2, 3]));
    /// let list = RwLockWriteGuard::map(pair.write(), |pair| &mut pair.1);
    /// *MappedRwLockWriteGuard::map(list, |list| &mut list[0]) = 5;
    /// assert_eq!(pair.read().1, [5, 3]);
    /// ```
    pub fn map<V: ?Sized>(
        this: Self,
        part: impl FnOnce(&mut U) -> &mut V,
    ) -> MappedRwLockWriteGuard<'a, V> {
        match Self::try_map(this, |value| Some(part(value))) {
            Ok(part) => part,
            Err(_) => unreachable!("there is a part"),
        }
    }

    /// A guard of a part of the part, or the guard itself if there is no such part.
    pub fn try_map<V: ?Sized>(
        mut this: Self,
        part: impl FnOnce(&mut U) -> Option<&mut V>,
    ) -> Result<MappedRwLockWriteGuard<'a, V>, Self> {
        let Some(part) = part(&mut this).map(std::ptr::from_mut) else {
            return Err(this);
        };
        let core = this.core;
        mem::forget(this);
        Ok(MappedRwLockWriteGuard { core, part, not_send: PhantomData })
    }
}

impl<T: ?Sized> Drop for RwLockReadGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.core.end_read(self.cell);
    }
}

impl<T: ?Sized> Drop for RwLockWriteGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.core.end_write(false);
    }
}

impl<T: ?Sized> Drop for RwLockUpgradableReadGuard<'_, T> {
    fn drop(&mut self) {
        self.lock.core.end_upgradable(0);
    }
}

impl<U: ?Sized> Drop for MappedRwLockReadGuard<'_, U> {
    #[inline]
    fn drop(&mut self) {
        self.core.end_read(self.cell);
    }
}

impl<U: ?Sized> Drop for MappedRwLockWriteGuard<'_, U> {
    #[inline]
    fn drop(&mut self) {
        self.core.end_write(false);
    }
}

macro_rules! gives_access {
    ($($guard:ident)*) => { $(
        impl<T: ?Sized> Deref for $guard<'_, T> {
            type Target = T;

            #[inline]
            fn deref(&self) -> &T {
                self.lock.value.with(|value| {
                    // SAFETY: this guard keeps writers out, or is the only one (RW1 of `lock.rs`), and is borrowed
                    // for as long as the result lives.
                    unsafe { &*value }
                })
            }
        }
    )* };
}

gives_access! { RwLockReadGuard RwLockWriteGuard RwLockUpgradableReadGuard }

impl<T: ?Sized> DerefMut for RwLockWriteGuard<'_, T> {
    #[inline]
    fn deref_mut(&mut self) -> &mut T {
        self.lock.value.with_mut(|value| {
            // SAFETY: this guard is the only one (RW1 of `lock.rs`), and borrowed exclusively.
            unsafe { &mut *value }
        })
    }
}

impl<U: ?Sized> Deref for MappedRwLockReadGuard<'_, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: a part of the value of a lock that this guard keeps writers out of.
        unsafe { &*self.part }
    }
}

impl<U: ?Sized> Deref for MappedRwLockWriteGuard<'_, U> {
    type Target = U;

    #[inline]
    fn deref(&self) -> &U {
        // SAFETY: a part of the value of a lock that this guard has for itself.
        unsafe { &*self.part }
    }
}

impl<U: ?Sized> DerefMut for MappedRwLockWriteGuard<'_, U> {
    #[inline]
    fn deref_mut(&mut self) -> &mut U {
        // SAFETY: as above, and the guard is borrowed exclusively.
        unsafe { &mut *self.part }
    }
}

macro_rules! shows_its_value {
    ($($guard:ident)*) => { $(
        impl<T: ?Sized + fmt::Debug> fmt::Debug for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Debug::fmt(&**self, f)
            }
        }

        impl<T: ?Sized + fmt::Display> fmt::Display for $guard<'_, T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&**self, f)
            }
        }
    )* };
}

shows_its_value! {
    RwLockReadGuard RwLockWriteGuard RwLockUpgradableReadGuard MappedRwLockReadGuard MappedRwLockWriteGuard
}
