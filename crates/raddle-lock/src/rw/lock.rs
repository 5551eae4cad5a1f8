//! The readers-writer lock with its value.
//!
//! **RW1** The value is accessed through guards, or through `&mut` or ownership of the lock. A guard that writes exists only
//! while no other does, one that reads while none writes.

use super::core::RwCore;
use super::guards::{RwLockReadGuard, RwLockUpgradableReadGuard, RwLockWriteGuard};
use crate::core::Patience;
use raddle_sync::cell::UnsafeCell;
use raddle_sync::const_fn;
use raddle_sync::time::Instant;
use std::fmt;
use std::time::Duration;

/// A lock of four bytes, and the value, that many may read at once or one may write.
///
/// ```
/// use raddle_lock::RwLock;
///
/// let names = RwLock::new(vec!["warp"]);
/// {
///     let (one, other) = (names.read(), names.read());
///     assert_eq!(one.len() + other.len(), 2);
/// }
/// names.write().push("weft");
/// assert_eq!(*names.read(), ["warp", "weft"]);
/// assert_eq!(size_of::<RwLock<u32>>(), 8);
/// ```
///
/// # What it costs
///
/// It is for what is read often and written seldom. Readers are counted in the word at first, a read-modify-write to come in
/// and one to leave. A thread that has been counted 64 to 4,096 times, the oftener the dearer the barrier below has proved to
/// be, in whichever locks, has the readers of the next one *published*: each writes the lock's address into memory of its
/// own, without a read-modify-write, and readers on different processors don't touch the same memory. That takes a nanosecond
/// or two. A strand is published in four locks at most at a time. The next writer then pays: a barrier
/// on all processors, 0.2 to 20 us, and a look at the memory of each strand that there ever was at a time. From then on
/// readers are counted again. A writer costs two read-modify-writes besides. Where there is no such barrier readers are always
/// counted.
///
/// # Who comes first
///
/// A writer that waits for readers to leave lets no other strand in, but for [`read_recursive`](RwLock::read_recursive). Whoever
/// was woken once and found the lock taken is handed it by the next unlock, or by the next writer that gives up: neither
/// writers nor readers starve.
///
/// A strand that reads the lock may read it again. Where a writer waits in between, that is only sure to go on
/// with [`read_recursive`](RwLock::read_recursive). A strand that writes and would wait to write, or to read, without a time limit gets a panic, and
/// so does one that is published as a reader and would wait to write. One that is counted as a reader, may write later or has no
/// id hangs there. With a limit it fails, to write at once, as far as is known that it has the lock.
///
/// Guards that read, upgradable ones too, are not counted among what a strand holds, as that would cost each read more than it
/// does. So where a thread pool spares threads that hold a lock from taking on unrelated work, a reader is not spared.
///
/// A read guard that is forgotten leaves the lock read for ever; and a lock that is moved after that may leave another, which
/// comes to lie at the same place, read for ever as well. The end of its strand is not reported, and whoever gets the strand's
/// name may be taken for the reader: it gets a panic if it wants to write, and reads ahead of a writer that waits.
///
/// A panic does not poison it; see the [crate's page](crate). It is invariant in `T`:
///
/// ```compile_fail,E0308
/// # use raddle_lock::RwLock;
/// fn narrow(lock: &RwLock<for<'a> fn(&'a str)>) -> &RwLock<fn(&'static str)> { lock }
/// ```
pub struct RwLock<T: ?Sized> {
    pub(super) core: RwCore,
    pub(super) value: UnsafeCell<T>,
}

// SAFETY: sending the lock sends the value, and nothing else in it belongs to a thread.
unsafe impl<T: ?Sized + Send> Send for RwLock<T> {}
// SAFETY: a shared lock gives several strands shared access at a time, and one exclusive access (RW1).
unsafe impl<T: ?Sized + Send + Sync> Sync for RwLock<T> {}

impl<T: ?Sized> std::panic::UnwindSafe for RwLock<T> {}
impl<T: ?Sized> std::panic::RefUnwindSafe for RwLock<T> {}

impl<T> RwLock<T> {
    const_fn! {
        /// A free lock that holds `value`.
        pub const fn new(value: T) -> RwLock<T> {
            RwLock { core: RwCore::new(), value: UnsafeCell::new(value) }
        }
    }

    /// The value; owning the lock proves that nobody holds it.
    pub fn into_inner(self) -> T {
        self.value.into_inner()
    }
}

impl<T: ?Sized> RwLock<T> {
    /// Comes in to read, waiting for a writer if need be. Costs a nanosecond or two together with the guard's drop where
    /// the lock is read often, two read-modify-writes otherwise.
    ///
    /// # Panics
    ///
    /// If this strand writes; see [`RwLock`].
    #[inline]
    pub fn read(&self) -> RwLockReadGuard<'_, T> {
        match self.read_within(false, Patience::Until(None)) {
            Some(guard) => guard,
            None => unreachable!("there was all the time in the world"),
        }
    }

    /// Comes in to read if that needs no waiting. It may fail on a lock that nobody writes, while another strand is about to come
    /// in to write, or tries to.
    #[inline]
    pub fn try_read(&self) -> Option<RwLockReadGuard<'_, T>> {
        self.read_within(false, Patience::Try)
    }

    /// Comes in to read, waiting for at most `limit`.
    pub fn try_read_for(&self, limit: Duration) -> Option<RwLockReadGuard<'_, T>> {
        self.read_within(false, Patience::at_most(limit))
    }

    /// Comes in to read, waiting until `deadline` at the latest.
    pub fn try_read_until(&self, deadline: Instant) -> Option<RwLockReadGuard<'_, T>> {
        self.read_within(false, Patience::Until(Some(deadline)))
    }

    /// As [`read`](RwLock::read), also ahead of a writer that waits for readers to leave. Strands that read all the time in this
    /// way starve the writers.
    ///
    /// # Panics
    ///
    /// As [`read`](RwLock::read).
    ///
    /// ```
    /// let lock = raddle_lock::RwLock::new(1);
    /// let outer = lock.read();
    /// assert_eq!(*outer + *lock.read_recursive(), 2);
    /// ```
    #[inline]
    pub fn read_recursive(&self) -> RwLockReadGuard<'_, T> {
        match self.read_within(true, Patience::Until(None)) {
            Some(guard) => guard,
            None => unreachable!("there was all the time in the world"),
        }
    }

    #[inline(always)]
    fn read_within(&self, again: bool, patience: Patience) -> Option<RwLockReadGuard<'_, T>> {
        if let Some(cell) = self.core.publish::<0>() {
            return Some(RwLockReadGuard::new(self, Some(cell)));
        }
        match self.core.read_slow(again, patience) {
            Ok(cell) => Some(RwLockReadGuard::new(self, cell)),
            Err(()) => None,
        }
    }

    /// Comes in to write, waiting for all others to leave.
    ///
    /// # Panics
    ///
    /// If this strand has the lock already, as far as that is known; see [`RwLock`].
    ///
    /// ```should_panic
    /// let lock = raddle_lock::RwLock::new(());
    /// let _guard = lock.write();
    /// lock.write(); // would hang elsewhere
    /// ```
    #[inline]
    pub fn write(&self) -> RwLockWriteGuard<'_, T> {
        let _written = self.write_within(Patience::Until(None));
        RwLockWriteGuard::new(self)
    }

    /// Comes in to write if that needs no waiting for anybody. It may fail on a free lock while another strand comes in or tries
    /// to. It may take a barrier, unless somebody reads, and keeps new readers out for that long.
    #[inline]
    pub fn try_write(&self) -> Option<RwLockWriteGuard<'_, T>> {
        self.write_within(Patience::Try).then(|| RwLockWriteGuard::new(self))
    }

    /// Comes in to write, waiting for at most `limit`. Fails at once if this strand has the lock already, as far as that is known;
    /// see [`RwLock`].
    pub fn try_write_for(&self, limit: Duration) -> Option<RwLockWriteGuard<'_, T>> {
        self.write_within(Patience::at_most(limit)).then(|| RwLockWriteGuard::new(self))
    }

    /// Comes in to write, waiting until `deadline` at the latest. Fails at once where [`try_write_for`](RwLock::try_write_for) does.
    pub fn try_write_until(&self, deadline: Instant) -> Option<RwLockWriteGuard<'_, T>> {
        self.write_within(Patience::Until(Some(deadline))).then(|| RwLockWriteGuard::new(self))
    }

    #[inline(always)]
    fn write_within(&self, patience: Patience) -> bool {
        self.core.write_now() || self.core.write_slow(patience)
    }

    /// Comes in as the one reader that may become a writer, beside others that only read.
    ///
    /// ```
    /// use raddle_lock::{RwLock, RwLockUpgradableReadGuard};
    /// let lock = RwLock::new(vec![1]);
    /// let guard = lock.upgradable_read();
    /// if !guard.contains(&2) {
    ///     let mut guard = RwLockUpgradableReadGuard::upgrade(guard);
    ///     guard.push(2);
    /// }
    /// assert_eq!(*lock.read(), [1, 2]);
    /// ```
    ///
    /// # Panics
    ///
    /// As [`read`](RwLock::read).
    pub fn upgradable_read(&self) -> RwLockUpgradableReadGuard<'_, T> {
        let _came_in = self.core.read_upgradable(Patience::Until(None));
        RwLockUpgradableReadGuard::new(self)
    }

    /// As [`upgradable_read`](RwLock::upgradable_read), if that needs no waiting.
    pub fn try_upgradable_read(&self) -> Option<RwLockUpgradableReadGuard<'_, T>> {
        self.core.read_upgradable(Patience::Try).then(|| RwLockUpgradableReadGuard::new(self))
    }

    /// Comes in as the one reader that may write later, waiting for at most `limit`.
    pub fn try_upgradable_read_for(
        &self,
        limit: Duration,
    ) -> Option<RwLockUpgradableReadGuard<'_, T>> {
        self.core
            .read_upgradable(Patience::at_most(limit))
            .then(|| RwLockUpgradableReadGuard::new(self))
    }

    /// Comes in as the one reader that may write later, waiting until `deadline` at the latest.
    pub fn try_upgradable_read_until(
        &self,
        deadline: Instant,
    ) -> Option<RwLockUpgradableReadGuard<'_, T>> {
        let came_in = self.core.read_upgradable(Patience::Until(Some(deadline)));
        came_in.then(|| RwLockUpgradableReadGuard::new(self))
    }

    /// True if somebody holds the lock at this moment; good for statistics and assertions only.
    pub fn is_locked(&self) -> bool {
        self.core.is_locked()
    }

    /// True if a writer holds the lock at this moment; good for statistics and assertions only.
    pub fn is_written(&self) -> bool {
        self.core.is_written()
    }

    /// The value, without locking: `&mut self` proves that nobody holds the lock.
    pub fn get_mut(&mut self) -> &mut T {
        self.value.with_mut(|value| {
            // SAFETY: `&mut self` excludes every guard (RW1), for as long as the result lives.
            unsafe { &mut *value }
        })
    }
}

impl<T: Default> Default for RwLock<T> {
    fn default() -> RwLock<T> {
        RwLock::new(T::default())
    }
}

impl<T> From<T> for RwLock<T> {
    fn from(value: T) -> RwLock<T> {
        RwLock::new(value)
    }
}

impl<T: ?Sized + fmt::Debug> fmt::Debug for RwLock<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.try_read() {
            Some(guard) => f.debug_struct("RwLock").field("data", &&*guard).finish(),
            None => f.write_str("RwLock { data: <locked> }"),
        }
    }
}
