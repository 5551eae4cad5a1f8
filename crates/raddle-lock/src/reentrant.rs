//! The lock that its owner may take again, with its value.
//!
//! **RE1** The value is accessed, shared, only through guards, or through `&mut` or ownership of the lock.
//! Guards exist only while the strand that made them holds the lock, at as many levels.

use crate::core::Core;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::const_fn;
use raddle_sync::time::Instant;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::time::Duration;

/// A lock of four bytes, and the value, that the strand which holds it may take again.
///
/// Guards give `&T`, since there may be several: put a `Cell` or a `RefCell` inside to change it.
///
/// ```
/// use raddle_lock::ReentrantLock;
/// use std::cell::Cell;
///
/// static DEPTH: ReentrantLock<Cell<u32>> = ReentrantLock::new(Cell::new(0));
///
/// fn descend(levels: u32) {
///     let depth = DEPTH.lock();
///     depth.set(depth.get() + 1);
///     if levels > 1 {
///         descend(levels - 1); // a mutex would panic
///     }
/// }
/// descend(100);
/// assert_eq!(DEPTH.lock().get(), 100);
/// ```
///
/// Work that a thread takes on while it waits is another strand and does not come in:
///
/// ```
/// let lock = raddle_lock::ReentrantLock::new(());
/// let _guard = lock.lock();
/// let _foreign = raddle_sync::strand::enter_foreign();
/// assert!(lock.try_lock().is_none());
/// ```
///
/// It is invariant in `T`, for what is inside may be a cell:
///
/// ```compile_fail,E0308
/// # use raddle_lock::ReentrantLock;
/// fn narrow(lock: &ReentrantLock<for<'a> fn(&'a str)>) -> &ReentrantLock<fn(&'static str)> { lock }
/// ```
pub struct ReentrantLock<T: ?Sized> {
    core: Core,
    value: UnsafeCell<T>,
}

// SAFETY: sending the lock sends the value, and nothing else in it belongs to a thread.
unsafe impl<T: ?Sized + Send> Send for ReentrantLock<T> {}
// SAFETY: a shared lock gives one strand at a time access to the value (RE1), all of it on one thread.
unsafe impl<T: ?Sized + Send> Sync for ReentrantLock<T> {}

// Guards give shared access only: what is inside says whether a panic may be seen in it.
impl<T: ?Sized + UnwindSafe> UnwindSafe for ReentrantLock<T> {}
impl<T: ?Sized + RefUnwindSafe> RefUnwindSafe for ReentrantLock<T> {}

impl<T> ReentrantLock<T> {
    const_fn! {
        /// A free lock that holds `value`.
        pub const fn new(value: T) -> ReentrantLock<T> {
            ReentrantLock { core: Core::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value; owning the lock proves that nobody holds it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> ReentrantLock<T> {
    /// Takes the lock, waiting for it if another strand has it. Costs one read-modify-write together with
    /// the guard's drop if nobody else wants it, and none if this strand has it.
    #[inline]
    pub fn lock(&self) -> ReentrantLockGuard<'_, T> {
        self.core.acquire::<true>();
        self.guard()
    }

    /// Takes the lock if it is free or this strand's. Does not wait for whoever holds it: one that is about to be let go of
    /// counts as held.
    #[inline]
    pub fn try_lock(&self) -> Option<ReentrantLockGuard<'_, T>> {
        self.core.try_acquire::<true>().then(|| self.guard())
    }

    /// Takes the lock, waiting for at most `limit`.
    pub fn try_lock_for(&self, limit: Duration) -> Option<ReentrantLockGuard<'_, T>> {
        // A limit too far away to express is no limit.
        self.core.acquire_until::<true>(Instant::now().checked_add(limit)).then(|| self.guard())
    }

    /// Takes the lock, waiting until `deadline` at the latest.
    pub fn try_lock_until(&self, deadline: Instant) -> Option<ReentrantLockGuard<'_, T>> {
        self.core.acquire_until::<true>(Some(deadline)).then(|| self.guard())
    }

    /// True if somebody holds the lock at this moment; good for statistics and assertions only.
    pub fn is_locked(&self) -> bool {
        self.core.is_locked()
    }

    /// True if the strand that runs now holds the lock.
    pub fn is_held(&self) -> bool {
        self.core.is_held()
    }

    /// The value, without locking: `&mut self` proves that nobody holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: `&mut self` excludes every guard (RE1), for as long as the result lives.
            unsafe { &mut *value }
        })
    }

    #[inline]
    fn guard(&self) -> ReentrantLockGuard<'_, T> {
        ReentrantLockGuard { lock: self, not_send: PhantomData }
    }
}

impl<T: Default> Default for ReentrantLock<T> {
    fn default() -> ReentrantLock<T> {
        ReentrantLock::new(T::default())
    }
}

impl<T> From<T> for ReentrantLock<T> {
    fn from(value: T) -> ReentrantLock<T> {
        ReentrantLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_lock() {
            Some(guard) => f.debug_struct("ReentrantLock").field("data", &&*guard).finish(),
            None => f.write_str("ReentrantLock { data: <locked> }"),
        }
    }
}

/// Shared access to a locked [`ReentrantLock`]'s value; dropping it unlocks one level.
///
/// Guards of several levels may be dropped in any order. They stay on their thread:
/// ```compile_fail,E0277
/// let lock = raddle_lock::ReentrantLock::new(0);
/// let guard = lock.lock();
/// std::thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
/// ```
///
/// They are invariant in `T`, as the lock is that they refer to:
/// ```compile_fail,E0308
/// # use raddle_lock::ReentrantLockGuard as Guard;
/// fn narrow(guard: Guard<'_, for<'a> fn(&'a str)>) -> Guard<'_, fn(&'static str)> { guard }
/// ```
#[must_use = "dropping the guard unlocks the lock"]
pub struct ReentrantLockGuard<'a, T: ?Sized> {
    lock: &'a ReentrantLock<T>,
    not_send: PhantomData<*const ()>,
}

// SAFETY: a shared guard gives shared access to the value and nothing else.
unsafe impl<T: ?Sized + Sync> Sync for ReentrantLockGuard<'_, T> {}

impl<T: ?Sized> ReentrantLockGuard<'_, T> {
    /// Unlocks one level; the last one hands the lock to whoever has waited longest.
    pub fn unlock_fair(this: Self) {
        this.lock.core.release_fair::<true>();
        std::mem::forget(this);
    }
}

impl<T: ?Sized> Deref for ReentrantLockGuard<'_, T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        self.lock.value.with(|value| {
            // SAFETY: this guard's strand holds the lock, and nobody has the value exclusively (RE1).
            unsafe { &*value }
        })
    }
}

impl<T: ?Sized> Drop for ReentrantLockGuard<'_, T> {
    #[inline]
    fn drop(&mut self) {
        self.lock.core.release::<true>();
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for ReentrantLockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

impl<T: ?Sized + fmt::Display> fmt::Display for ReentrantLockGuard<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&**self, f)
    }
}
