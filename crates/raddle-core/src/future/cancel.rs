//! [`CancelOnDrop`]: a future that is interrupted when it is dropped.

use std::fmt;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::pin::Pin;
use std::task::{self, Poll};

use crate::future::failure::Failure;
use crate::future::handle::Future;
use crate::future::interrupt::Interrupt;

/// A future whose source is interrupted when this is dropped before it is done, be it awaited or not. Made by
/// [`Future::cancel_on_drop`].
#[doc(alias = "AbortOnDropHandle")]
#[must_use = "dropping it interrupts what produces the value"]
pub struct CancelOnDrop<T>(ManuallyDrop<Future<T>>);

impl<T> Future<T> {
    /// Lets go of the future: what produces its value goes on, and its result is dropped. That is what dropping it does, too;
    /// this says so.
    ///
    /// ```
    /// raddle::spawn(|| println!("on its own")).detach();
    /// ```
    #[doc(alias = "forget")]
    pub fn detach(self) {
        drop(self);
    }

    /// The same future, which is [interrupted](Future::interrupt) when it is dropped before it is done. Costs nothing.
    ///
    /// This is the one rule: dropping a future detaches, also if it has been polled; dropping what this returns
    /// interrupts, also if it has not. For an operation on it, take it out by [`into_inner`](CancelOnDrop::into_inner).
    ///
    /// ```
    /// use raddle::Promise;
    ///
    /// let (promise, future) = Promise::<u32>::new();
    /// drop(future.map(|n| n + 1).cancel_on_drop());
    /// assert!(promise.interrupted().is_some());
    /// ```
    #[doc(alias = "abort_on_drop")]
    pub fn cancel_on_drop(self) -> CancelOnDrop<T> {
        CancelOnDrop(ManuallyDrop::new(self))
    }
}

impl<T> CancelOnDrop<T> {
    /// The future itself, which detaches when it is dropped.
    #[doc(alias = "disarm")]
    pub fn into_inner(self) -> Future<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: taken once: `self` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }

    /// As [`into_inner`](CancelOnDrop::into_inner), and lets go of it.
    pub fn detach(self) {
        self.into_inner().detach();
    }

    /// Blocks until the result is there: see [`Future::wait`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait(self) -> Result<T, Failure> {
        self.into_inner().wait()
    }
}

/// For what needs no more than a look: [`is_done`](Future::is_done), [`interrupt`](Future::interrupt),
/// [`wait_ref`](Future::wait_ref) and so on.
impl<T> Deref for CancelOnDrop<T> {
    type Target = Future<T>;

    fn deref(&self) -> &Future<T> {
        &self.0
    }
}

impl<T> From<CancelOnDrop<T>> for Future<T> {
    fn from(guard: CancelOnDrop<T>) -> Future<T> {
        guard.into_inner()
    }
}

impl<T> std::future::Future for CancelOnDrop<T> {
    type Output = Result<T, Failure>;

    #[track_caller]
    fn poll(mut self: Pin<&mut Self>, cx: &mut task::Context<'_>) -> Poll<Self::Output> {
        Pin::new(&mut *self.0).poll(cx)
    }
}

impl<T> Drop for CancelOnDrop<T> {
    fn drop(&mut self) {
        if !self.0.is_done() {
            self.0.interrupt(Interrupt::from("its future was dropped"));
        }
        // SAFETY: taken once.
        drop(unsafe { ManuallyDrop::take(&mut self.0) });
    }
}

impl<T> fmt::Debug for CancelOnDrop<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("CancelOnDrop").field(&*self.0).finish()
    }
}
