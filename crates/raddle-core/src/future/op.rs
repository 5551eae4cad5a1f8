//! What an operation does: from how one future ended to how the next one does, or to the next one.
//!
//! What each is to users is in `ops`; who calls them is in `then` and `flat_map`.

use std::panic::{self, AssertUnwindSafe};

use crate::future::failure::Failure;
use crate::future::flat_map::ThenFuture;
use crate::future::handle::Future;
use crate::future::then::Then;
use crate::panics::discard;

/// Calls `f`, which is there for its effect: a panic has been reported and goes no further.
#[inline]
pub(super) fn aside(f: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// Drops a closure that the result passes by; a panic of its `Drop` does not change the result.
#[inline]
pub(super) fn pass<F, R>(closure: F, result: R) -> R {
    discard(closure);
    result
}

/// An operation that is a closure.
pub(super) struct Op<F>(pub(super) F);

impl<T: Send + 'static, U: Send + 'static, F> Then<T> for Op<F>
where
    F: FnOnce(Result<T, Failure>) -> Result<U, Failure> + Send + 'static,
{
    type Out = U;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<U, Failure> {
        (self.0)(result)
    }
}

impl<T: Send + 'static, U: Send + 'static, F> ThenFuture<T> for Op<F>
where
    F: FnOnce(Result<T, Failure>) -> Future<U> + Send + 'static,
{
    type Out = U;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Future<U> {
        (self.0)(result)
    }
}

/// A closure without effect, which a combination needs.
pub(super) struct Adapt<F>(pub(super) F);

impl<T: Send + 'static, U: Send + 'static, F> Then<T> for Adapt<F>
where
    F: FnOnce(Result<T, Failure>) -> Result<U, Failure> + Send + 'static,
{
    type Out = U;

    const ADAPTS: bool = true;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<U, Failure> {
        (self.0)(result)
    }
}

/// The fallback, which is on its way.
pub(super) struct Or<T>(pub(super) Future<T>);

impl<T: Send + 'static> ThenFuture<T> for Or<T> {
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Future<T> {
        match result {
            Ok(value) => {
                // It may take long to drop, if it holds what has come already.
                self.0.drop_later();
                Future::ready(value)
            }
            Err(failure) => {
                discard(failure);
                self.0
            }
        }
    }

    fn killed(self) {
        self.0.kill();
        discard(self.0);
    }
}
