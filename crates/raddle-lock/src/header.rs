//! What the runtimes of object languages put before each object: a lock, a condition and a hash.

use crate::core::Core;
use crate::wait_result::WaitResult;
use crate::word;
use raddle_sync::atomic::Ordering;
use raddle_sync::const_fn;
use raddle_sync::time::Instant;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;
use std::time::Duration;

/// Four bytes that make an object a monitor: a re-entrant lock, a place to wait for notifications, and
/// an identity hash. After .NET's object header and its thin locks (dotnet/runtime #79519).
///
/// A header is thin as long as it can be and then *fat*, with an entry in a process-wide table: while
/// somebody sleeps for the lock or waits on it, while it is locked and has a hash, and while its owner has taken it
/// more than once and does the same with two others. It becomes thin again at the unlock that finds no such reason any more.
/// Only a header with a hash that is locked again and again stays fat, to be locked faster.
///
/// ```
/// use raddle_lock::ObjectHeader;
///
/// struct Account { header: ObjectHeader, balance: std::cell::Cell<i64> }
///
/// let account = Account { header: ObjectHeader::new(), balance: 0.into() };
/// let hash = account.header.identity_hash();
/// {
///     let _guard = account.header.lock();
///     let _again = account.header.lock();
///     account.balance.set(1);
/// }
/// assert!(!account.header.is_locked());
/// assert_eq!(account.header.identity_hash(), hash);
/// assert_eq!(size_of::<ObjectHeader>(), 4);
/// ```
pub struct ObjectHeader {
    core: Core,
}

impl ObjectHeader {
    const_fn! {
        /// A free header without a hash.
        pub const fn new() -> ObjectHeader {
            ObjectHeader { core: Core::new() }
        }
    }

    /// Takes the lock, waiting for it if another strand has it. Costs one read-modify-write together with
    /// the guard's drop if nobody else wants it, none if this strand has it already. A header with a hash takes about a
    /// dozen the first three times, and then one; or a dozen each time, if more than 4,096 such headers are in use.
    #[inline]
    pub fn lock(&self) -> HeaderGuard<'_> {
        self.core.acquire::<true>();
        self.guard()
    }

    /// Takes the lock if it is free or this strand's. Does not wait for whoever holds it, nor for one that is about to let
    /// go of it; locking a header with a hash may allocate.
    #[inline]
    pub fn try_lock(&self) -> Option<HeaderGuard<'_>> {
        self.core.try_acquire::<true>().then(|| self.guard())
    }

    /// Takes the lock, waiting for at most `limit`.
    pub fn try_lock_for(&self, limit: Duration) -> Option<HeaderGuard<'_>> {
        // A limit too far away to express is no limit.
        self.core.acquire_until::<true>(Instant::now().checked_add(limit)).then(|| self.guard())
    }

    /// A number that stays the same for the header's life, wherever it is moved.
    ///
    /// Two headers may have the same, but the numbers are spread evenly over 32 bits, and 268,435,456 are
    /// given out before one comes again, less up to 63 for each thread that has ended. Never blocks on the lock. Costs a load once the header
    /// has a hash and is free.
    ///
    /// A guard that was forgotten ([`std::mem::forget`]) ends this promise, for a header that is moved
    /// afterwards and got its hash from another strand while locked.
    pub fn identity_hash(&self) -> u32 {
        self.core.identity_hash()
    }

    /// True if somebody holds the lock at this moment; good for statistics and assertions only.
    pub fn is_locked(&self) -> bool {
        self.core.is_locked()
    }

    /// True if the strand that runs now holds the lock.
    pub fn is_held(&self) -> bool {
        self.core.is_held()
    }

    /// True if the header is inflated at this moment.
    pub fn is_fat(&self) -> bool {
        word::is_fat(self.core.word.load(Ordering::Relaxed))
    }

    /// Releases the lock, with all the levels at which this strand has it, waits for a notification and
    /// takes the lock back. Never returns without having been notified.
    ///
    /// ```
    /// use raddle_lock::ObjectHeader;
    /// use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    ///
    /// let (header, ready) = (ObjectHeader::new(), AtomicBool::new(false));
    /// std::thread::scope(|s| {
    ///     s.spawn(|| {
    ///         let _guard = header.lock();
    ///         ready.store(true, Relaxed);
    ///         header.notify_one();
    ///     });
    ///     let mut guard = header.lock();
    ///     while !ready.load(Relaxed) {
    ///         header.wait(&mut guard);
    ///     }
    /// });
    /// ```
    ///
    /// # Panics
    ///
    /// If `guard` is another header's, or not one of the strand that runs, but of one beneath it on the same thread.
    pub fn wait(&self, guard: &mut HeaderGuard<'_>) {
        self.check(guard);
        self.core.wait(None);
    }

    /// As [`wait`](ObjectHeader::wait), for at most `limit` and the time it takes to get the lock back. A
    /// notification that races with the end of the time counts.
    ///
    /// # Panics
    ///
    /// If `guard` is another header's, or not one of the strand that runs, but of one beneath it on the same thread.
    pub fn wait_for(&self, guard: &mut HeaderGuard<'_>, limit: Duration) -> WaitResult {
        self.check(guard);
        // A limit too far away to express is no limit.
        WaitResult::new(self.core.wait(Instant::now().checked_add(limit)))
    }

    /// Notifies the strand that has waited longest, if one waits. It goes on when it gets the lock.
    ///
    /// # Panics
    ///
    /// If this strand does not hold the lock.
    ///
    /// ```should_panic
    /// raddle_lock::ObjectHeader::new().notify_one();
    /// ```
    pub fn notify_one(&self) {
        self.core.notify(false);
    }

    /// Notifies all that wait. They go on one after the other, as they get the lock.
    ///
    /// # Panics
    ///
    /// If this strand does not hold the lock.
    pub fn notify_all(&self) {
        self.core.notify(true);
    }

    fn check(&self, guard: &HeaderGuard<'_>) {
        assert!(ptr::eq(self, guard.header), "the guard is another header's");
    }

    #[inline]
    fn guard(&self) -> HeaderGuard<'_> {
        HeaderGuard { header: self, not_send: PhantomData }
    }
}

impl Default for ObjectHeader {
    fn default() -> ObjectHeader {
        ObjectHeader::new()
    }
}

impl fmt::Debug for ObjectHeader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ObjectHeader")
            .field("locked", &self.is_locked())
            .field("fat", &self.is_fat())
            .finish()
    }
}

/// One level of a locked [`ObjectHeader`]; dropping it unlocks that level.
///
/// Guards of several levels may be dropped in any order. They stay on their thread:
/// ```compile_fail,E0277
/// let header = raddle_lock::ObjectHeader::new();
/// let guard = header.lock();
/// std::thread::scope(|s| s.spawn(move || drop(guard)).join().unwrap());
/// ```
#[must_use = "dropping the guard unlocks the header"]
pub struct HeaderGuard<'a> {
    header: &'a ObjectHeader,
    not_send: PhantomData<*const ()>,
}

// SAFETY: there is nothing to be done with a shared guard.
unsafe impl Sync for HeaderGuard<'_> {}

impl<'a> HeaderGuard<'a> {
    /// The header that is locked.
    pub fn header(this: &Self) -> &'a ObjectHeader {
        this.header
    }

    /// Unlocks one level; the last one hands the lock to whoever has waited longest.
    pub fn unlock_fair(this: Self) {
        this.header.core.release_fair::<true>();
        std::mem::forget(this);
    }
}

impl Drop for HeaderGuard<'_> {
    #[inline]
    fn drop(&mut self) {
        self.header.core.release::<true>();
    }
}

impl fmt::Debug for HeaderGuard<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HeaderGuard").finish_non_exhaustive()
    }
}
