//! [`Future`], the consumer's handle.

use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::time::{Duration, Instant};

use crate::future::failure::{Failure, FailureKind};
use crate::future::node::{self, Assist, Head, Slot, Waiter};
use crate::future::wait;

/// A value of type `T` that will be there, or the [`Failure`] why not.
///
/// [`spawn`](crate::spawn) makes one. Dropping it detaches: the task still runs, its result is
/// dropped. (The global pool is never dropped, so when `main` returns, what it still had to do is lost;
/// other pools finish what was spawned when they are dropped.)
///
/// ```
/// let future = raddle_core::spawn(|| 6 * 7);
/// assert_eq!(future.wait()?, 42);
/// # Ok::<(), raddle_core::Failure>(())
/// ```
#[must_use = "dropping a future drops its value; the task runs all the same"]
pub struct Future<T>(Repr<T>);

enum Repr<T> {
    Ready(T),
    Failed(Failure),
    Pending(Pending<T>),
}

/// The consumer's share of a node.
struct Pending<T> {
    node: NonNull<Head>,
    _value: PhantomData<T>,
}

// SAFETY: values are made on one thread and used on another; `&Future` gives no reference to one.
unsafe impl<T: Send> Send for Future<T> {}
// SAFETY: as above: what `&Future` offers works on atomics.
unsafe impl<T: Send> Sync for Future<T> {}

/// What [`Future::kill`] came upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Killed {
    /// The task had not started and never will.
    BeforeStart,
    /// The task runs on; the future is resolved. See [`killed`](crate::killed).
    WhileRunning,
    /// Too late: the future has, or is about to have, its result.
    TooLate,
}

impl<T> Future<T> {
    /// A future that has its value: no allocation.
    ///
    /// ```
    /// assert_eq!(raddle_core::Future::ready(1).wait().unwrap(), 1);
    /// ```
    #[doc(alias = "value")]
    pub fn ready(value: T) -> Future<T> {
        Future(Repr::Ready(value))
    }

    /// A future that has failed.
    ///
    /// ```
    /// let future = raddle_core::Future::<()>::failed(std::fmt::Error);
    /// assert!(future.wait().unwrap_err().downcast::<std::fmt::Error>().is_ok());
    /// ```
    #[doc(alias = "exception")]
    pub fn failed(failure: impl Into<Failure>) -> Future<T> {
        Future(Repr::Failed(failure.into()))
    }

    /// A future of the node's value.
    ///
    /// # Safety
    ///
    /// The node is that of a future of `T`, with no consumer yet.
    pub(crate) unsafe fn pending(node: NonNull<Head>) -> Future<T> {
        Future(Repr::Pending(Pending { node, _value: PhantomData }))
    }

    /// Whether the result is there: [`wait`](Future::wait) would not block.
    #[doc(alias = "isDefined")]
    #[doc(alias = "poll")]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Repr::Pending(pending) => pending.head().state.outcome().is_some(),
            Repr::Ready(_) | Repr::Failed(_) => true,
        }
    }

    /// Blocks until the result is there, and returns it.
    ///
    /// A task that has not started is run by the waiting thread, if it is of the task's pool or may
    /// come in as a guest (for which the pool must not have been given a stack size of its own).
    /// A worker runs other work while it waits. So waiting within a pool never starves it.
    ///
    /// # Errors
    ///
    /// The future's failure: `Panicked` if the task panicked, `Killed` if it was killed, `Cycle` if
    /// this very thread is running the task that is waited for.
    #[doc(alias = "touch")]
    #[doc(alias = "get")]
    pub fn wait(self) -> Result<T, Failure> {
        match self.0 {
            Repr::Ready(value) => Ok(value),
            Repr::Failed(failure) => Err(failure),
            Repr::Pending(pending) => pending.wait(),
        }
    }

    /// As [`wait`](Future::wait), for so long at most.
    ///
    /// On a worker it helps as `wait` does, and may be late by the length of the job it is at. From
    /// outside it only waits.
    ///
    /// # Errors
    ///
    /// The future itself, if its result is not there in time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use raddle_core::Future;
    ///
    /// let Ok(result) = Future::ready(7).wait_timeout(Duration::ZERO) else { unreachable!() };
    /// assert_eq!(result.unwrap(), 7);
    /// ```
    pub fn wait_timeout(self, time: Duration) -> Result<Result<T, Failure>, Future<T>> {
        match self.0 {
            Repr::Ready(value) => Ok(Ok(value)),
            Repr::Failed(failure) => Ok(Err(failure)),
            Repr::Pending(pending) => {
                pending.wait_timeout(time).map_err(|pending| Future(Repr::Pending(pending)))
            }
        }
    }

    /// Kills what produces the value: the future fails with `Killed` at once, unless it is done.
    ///
    /// A task that has not started never does, and what its closure holds is dropped here. One that
    /// runs goes on until it asks [`killed`](crate::killed) and returns; its result is dropped.
    ///
    /// ```
    /// use raddle_core::{FailureKind, Future, Killed};
    ///
    /// assert_eq!(Future::ready(1).kill(), Killed::TooLate);
    /// ```
    #[doc(alias = "cancel")]
    #[doc(alias = "abort")]
    pub fn kill(&self) -> Killed {
        match &self.0 {
            Repr::Pending(pending) => {
                let kill = pending.head().vtable.kill;
                // SAFETY: the handle keeps the node alive.
                unsafe { kill(pending.node) }
            }
            Repr::Ready(_) | Repr::Failed(_) => Killed::TooLate,
        }
    }
}

impl<T> Pending<T> {
    fn head(&self) -> &Head {
        // SAFETY: the consumer keeps the node alive.
        unsafe { self.node.as_ref() }
    }

    fn assist(&self, waiter: Waiter) -> Assist {
        if self.head().state.outcome().is_some() {
            return Assist::Go;
        }
        let assist = self.head().vtable.assist;
        // SAFETY: the consumer keeps the node alive.
        unsafe { assist(self.node, waiter) }
    }

    fn wait(self) -> Result<T, Failure> {
        if self.assist(Waiter::Patient) == Assist::Cycle {
            return Err(Failure::plain(FailureKind::Cycle));
        }
        self.block(None);
        self.take().unwrap_or_else(|_| unreachable!("waited until it was done"))
    }

    fn wait_timeout(self, time: Duration) -> Result<Result<T, Failure>, Pending<T>> {
        let deadline = Instant::now().checked_add(time);
        if self.assist(Waiter::Hurried) == Assist::Cycle {
            return Ok(Err(Failure::plain(FailureKind::Cycle)));
        }
        self.block(deadline);
        self.take()
    }

    /// Blocks until it is done, if it is not: a task that this thread has just run may have been
    /// killed, and its killer not be ready yet.
    fn block(&self, deadline: Option<Instant>) {
        if self.head().state.outcome().is_none() {
            // SAFETY: this is the consumer.
            unsafe { wait::block(self.node, deadline) };
        }
    }

    /// The result, if it is there.
    fn take(self) -> Result<Result<T, Failure>, Pending<T>> {
        let Some(outcome) = self.head().state.outcome() else {
            return Err(self);
        };
        let node = ManuallyDrop::new(self).node;
        let free = {
            // SAFETY: this is the consumer.
            unsafe { node.as_ref() }.vtable.free
        };
        // SAFETY: N1.
        let slot = unsafe { node::slot::<T>(node) };
        // SAFETY: done, so it is full and the consumer's (F1), who is used up.
        let result = unsafe { Slot::take(slot, outcome) };
        // SAFETY: the slot is empty.
        unsafe { free(node) };
        Ok(result)
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some(outcome) = self.head().state.abandon() {
            let vtable = self.head().vtable;
            let node = self.node;
            // Frees the node also if the value's `Drop` panics.
            let _free = Free(node);
            // SAFETY: done, so the slot is full and the consumer's (F1).
            unsafe { (vtable.drop_slot)(node, outcome) };
        }
    }
}

/// Frees a node whose slot is empty.
struct Free(NonNull<Head>);

impl Drop for Free {
    fn drop(&mut self) {
        // SAFETY: made by the consumer of a done node, who is going.
        let free = unsafe { self.0.as_ref() }.vtable.free;
        // SAFETY: as above.
        unsafe { free(self.0) };
    }
}

impl<T> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.0 {
            Repr::Ready(_) => "ready",
            Repr::Failed(_) => "failed",
            Repr::Pending(_) if self.is_done() => "done",
            Repr::Pending(_) => "pending",
        };
        f.debug_tuple("Future").field(&format_args!("{state}")).finish()
    }
}
