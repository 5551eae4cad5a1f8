//! Waiting for a notification without a lock of one's own kind: for [`Mutex`](crate::Mutex).
//!
//! The word counts those who wait. They lie in a queue under the condition's address, in one of some
//! buckets that all conditions share.
//!
//! **C1** The word and the queue are changed under the bucket's lock.
//! **C2** A waiter is in the queue before it releases the mutex. A notifier that has held the mutex since
//! then sees the word not 0; so the look at the word alone, which costs no lock, loses nobody.
//! **C3** A notifier that holds the waiters' mutex does not wake them, who could only wait for the mutex, but puts them into
//! the mutex's queue. One that does not hold it wakes the first, who does that when it has the mutex. So there is
//! one more awake at a time.

use crate::core::{Core, keeping_guards};
use crate::linger::linger;
use crate::mutex::MutexGuard;
use crate::queue::{List, Node, WAITING, WAKE};
use crate::stats::{Count, count};
use crate::wait_result::WaitResult;
use raddle_sync::atomic::{AtomicU32, Ordering};
use raddle_sync::const_fn;
use raddle_sync::sync::{Mutex, MutexGuard as BucketGuard};
use raddle_sync::time::Instant;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// A condition variable of four bytes, for the guards of [`Mutex`](crate::Mutex).
///
/// A strand that waits gives its processor away some thirty times before it sleeps, 15 us or so, if notifications have come
/// that soon before; else one wait in eight does.
///
/// ```
/// use raddle_lock::{Condvar, Mutex};
///
/// let (ready, changed) = (Mutex::new(false), Condvar::new());
/// std::thread::scope(|s| {
///     s.spawn(|| {
///         *ready.lock() = true;
///         changed.notify_one();
///     });
///     let mut guard = ready.lock();
///     changed.wait_while(&mut guard, |ready| !*ready);
///     assert!(*guard);
/// });
/// assert_eq!(size_of::<Condvar>(), 4);
/// ```
pub struct Condvar {
    waiting: AtomicU32,
}

/// Waiters of a few conditions, each with its condition, oldest first.
#[repr(align(64))]
struct Bucket(Mutex<VecDeque<Waiter>>);

pub(crate) struct Waiter {
    condition: *const Condvar,
    node: *const Node,
    /// The mutex that it has released.
    mutex: *const Core,
}

// SAFETY: a node in a bucket is alive, and its parts that others touch are meant for that (Q2, Q3). The condition and
// the mutex are borrowed by the waiter.
unsafe impl Send for Waiter {}

const BUCKETS: usize = if cfg!(raddle_model) { 1 } else { 256 };

#[cfg(not(raddle_model))]
static BUCKET: [Bucket; BUCKETS] = [const { Bucket(Mutex::new(VecDeque::new())) }; BUCKETS];

#[cfg(raddle_model)]
raddle_sync::lazy_static! {
    static BUCKET: [Bucket; BUCKETS] = std::array::from_fn(|_| Bucket(Mutex::new(VecDeque::new())));
}

/// Locks all buckets.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn lock_all() -> Vec<BucketGuard<'static, VecDeque<Waiter>>> {
    BUCKET.iter().map(|bucket| bucket.0.lock()).collect()
}

/// In the child of a fork, where nobody waits.
#[cfg(all(unix, not(any(miri, raddle_model))))]
pub(crate) fn forget_waiters(bucket: &mut VecDeque<Waiter>) {
    for waiter in bucket.drain(..) {
        // SAFETY: borrowed by the waiter, who waited until the fork.
        let condition = unsafe { &*waiter.condition };
        condition.waiting.store(0, Ordering::Relaxed); // C1
    }
}

/// Ends the waits of some that have been taken out of their bucket, and want the same mutex (C3).
fn notify(mutex: *const Core, mut nodes: List) {
    // SAFETY: borrowed by the waiters, who stay until they are signalled (Q2).
    let mutex = unsafe { &*mutex };
    if mutex.is_held() {
        return mutex.queue_for(nodes);
    }
    if let Some(first) = nodes.pop_front() {
        // SAFETY: not signalled, so alive (Q2).
        unsafe { &*first }.others.set(nodes);
        Node::signal(first, WAKE).unpark();
    }
}

impl Condvar {
    const_fn! {
        /// A condition variable nobody waits on.
        pub const fn new() -> Condvar {
            Condvar { waiting: AtomicU32::new(0) }
        }
    }

    /// Releases the mutex, waits for a notification, takes the mutex again. Never returns without having
    /// been notified; but others may have had the mutex since, so look at what you wait for again, or
    /// use [`wait_while`](Condvar::wait_while).
    ///
    /// # Panics
    ///
    /// If the guard is not one of the strand that runs, but of one beneath it on the same thread; so do all waits.
    pub fn wait<T: ?Sized>(&self, guard: &mut MutexGuard<'_, T>) {
        let _never_times_out = self.sleep(MutexGuard::core(guard), None);
    }

    /// Waits as long as `condition` is true of the value.
    pub fn wait_while<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
    ) {
        while condition(guard) {
            self.wait(guard);
        }
    }

    /// As [`wait`](Condvar::wait), for at most `limit` and the time it takes to get the mutex back. A
    /// notification that races with the end of the time counts.
    ///
    /// ```
    /// use raddle_lock::{Condvar, Mutex};
    /// use std::time::Duration;
    /// let mutex = Mutex::new(());
    /// let result = Condvar::new().wait_for(&mut mutex.lock(), Duration::from_millis(1));
    /// assert!(result.timed_out());
    /// ```
    pub fn wait_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        limit: Duration,
    ) -> WaitResult {
        // A limit too far away to express is no limit.
        self.sleep(MutexGuard::core(guard), Instant::now().checked_add(limit))
    }

    /// As [`wait`](Condvar::wait), until `deadline` at the latest.
    pub fn wait_until<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        deadline: Instant,
    ) -> WaitResult {
        self.sleep(MutexGuard::core(guard), Some(deadline))
    }

    /// Waits as long as `condition` is true of the value, for at most `limit` in all. Timed out means
    /// that the condition was still true then.
    pub fn wait_while_for<T: ?Sized>(
        &self,
        guard: &mut MutexGuard<'_, T>,
        mut condition: impl FnMut(&mut T) -> bool,
        limit: Duration,
    ) -> WaitResult {
        let deadline = Instant::now().checked_add(limit);
        while condition(guard) {
            if self.sleep(MutexGuard::core(guard), deadline).timed_out() {
                return WaitResult::new(!condition(guard));
            }
        }
        WaitResult::new(true)
    }

    /// Wakes the strand that has waited longest; false if none waits. Costs a load if none does.
    pub fn notify_one(&self) -> bool {
        // ORD: `Relaxed`: the mutex orders it (C2).
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut bucket = self.bucket();
        let Some(at) = bucket.iter().position(|waiter| std::ptr::eq(waiter.condition, self)) else {
            return false;
        };
        let waiter = bucket.remove(at).expect("where it was found");
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        drop(bucket);
        let mut node = List::new();
        node.push_back(waiter.node);
        notify(waiter.mutex, node);
        true
    }

    /// Wakes all that wait; how many there were. Costs a load if there are none. They go on one after the other, as
    /// they get the mutex: first the one that began to wait last, as it may not have gone to sleep yet, then the others in
    /// order.
    pub fn notify_all(&self) -> usize {
        // ORD: `Relaxed`: the mutex orders it (C2).
        if self.waiting.load(Ordering::Relaxed) == 0 {
            return 0;
        }
        let mut bucket = self.bucket();
        let (woken, others) =
            bucket.drain(..).partition(|waiter| std::ptr::eq(waiter.condition, self));
        *bucket = others;
        let mut woken: VecDeque<Waiter> = woken;
        self.waiting.store(0, Ordering::Relaxed); // C1
        drop(bucket);
        let count = woken.len();
        woken.rotate_right(count.min(1)); // The last one may not have gone to sleep yet.
        // One mutex, mostly.
        while let Some(mutex) = woken.front().map(|waiter| waiter.mutex) {
            let mut nodes = List::new();
            woken.retain(|waiter| {
                let other = !std::ptr::eq(waiter.mutex, mutex);
                if !other {
                    nodes.push_back(waiter.node);
                }
                other
            });
            notify(mutex, nodes);
        }
        count
    }

    fn sleep(&self, mutex: &Core, deadline: Option<Instant>) -> WaitResult {
        mutex.assert_held();
        let node = Node::new();
        let mut bucket = self.bucket();
        bucket.push_back(Waiter { condition: self, node: &node, mutex });
        self.waiting.fetch_add(1, Ordering::Relaxed);
        drop(bucket);
        mutex.release::<false>();
        count(Count::Parks);
        linger(&node, deadline);
        let notified = node.sleep_until(deadline) != WAITING || !self.leave(&node);
        match node.moved.get() {
            Some(entry) => keeping_guards(|| mutex.resume(entry, &node)),
            None => mutex.acquire_back(),
        }
        mutex.queue_for(node.others.take());
        WaitResult::new(notified)
    }

    /// Takes a waiter out whose time is over; false if it has been notified.
    fn leave(&self, node: &Node) -> bool {
        let mut bucket = self.bucket();
        let Some(at) = bucket.iter().position(|waiter| std::ptr::eq(waiter.node, node)) else {
            drop(bucket);
            // Taken out by a notifier, who is about to signal: until then the node must stay.
            node.sleep_until(None);
            return false;
        };
        bucket.remove(at);
        self.waiting.fetch_sub(1, Ordering::Relaxed);
        true
    }

    fn bucket(&self) -> BucketGuard<'static, VecDeque<Waiter>> {
        let address = std::ptr::from_ref(self).addr();
        let hash = (address as u64 >> 2).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32;
        BUCKET[hash as usize % BUCKETS].0.lock()
    }
}

impl Default for Condvar {
    fn default() -> Condvar {
        Condvar::new()
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
    use crate::Mutex as Lock;
    use raddle_sync::strand;
    use std::{ptr, thread};

    /// C3: of those that are notified without their mutex one comes awake, and the others sleep on.
    #[test]
    fn all_that_are_notified_come_awake_one_by_one() {
        const WAITERS: usize = if cfg!(miri) { 3 } else { 10 };
        let (mutex, condition) = (Lock::new(0), Condvar::new());
        thread::scope(|s| {
            for _ in 0..WAITERS {
                s.spawn(|| {
                    let mut guard = mutex.lock();
                    condition.wait(&mut guard);
                    *guard += 1;
                });
            }
            while condition.waiting.load(Ordering::Relaxed) < WAITERS as u32 {
                thread::yield_now();
            }
            let mut guard = mutex.lock();
            let waiters = |bucket: &VecDeque<Waiter>| {
                let ours = bucket.iter().filter(|waiter| ptr::eq(waiter.condition, &condition));
                ours.map(|waiter| waiter.node).collect::<Vec<_>>()
            };
            let nodes = waiters(&condition.bucket());
            {
                // Another one than holds the mutex.
                let _other = strand::enter_foreign();
                assert_eq!(condition.notify_all(), WAITERS);
            }
            let awake = |&&node: &&*const Node| {
                // SAFETY: none comes back from its wait before the mutex is free.
                let node = unsafe { &*node };
                node.signalled() != WAITING
            };
            assert_eq!(nodes.iter().filter(awake).count(), 1);
            // The first wants the mutex, and would by now have woken the others, if it were so.
            while !MutexGuard::core(&guard).is_wanted() {
                thread::yield_now();
            }
            assert_eq!(nodes.iter().filter(awake).count(), 1);
            *guard += 1;
        });
        assert_eq!(mutex.into_inner(), WAITERS + 1);
    }
}
