//! What each operation does: from how one future ended to how the next one does, or to the next one.
//!
//! What is said of them to users is in `ops`; who calls them is in `then` and `flat_map`.

use std::error::Error;
use std::panic::{self, AssertUnwindSafe};

use crate::future::failure::{Failure, FailureKind};
use crate::future::flat_map::ThenFuture;
use crate::future::handle::Future;
use crate::future::then::Then;
use crate::panics::discard;

/// Calls `f`, which is there for its effect: a panic has been reported and goes no further.
#[inline]
fn aside(f: impl FnOnce()) {
    if let Err(payload) = panic::catch_unwind(AssertUnwindSafe(f)) {
        discard(payload);
    }
}

/// Drops a closure that the result passes by; a panic of its `Drop` does not change the result.
#[inline]
fn pass<F, R>(closure: F, result: R) -> R {
    discard(closure);
    result
}

pub(super) struct Map<F>(pub(super) F);

impl<T: Send + 'static, U: Send + 'static, F> Then<T> for Map<F>
where
    F: FnOnce(T) -> U + Send + 'static,
{
    type Out = U;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<U, Failure> {
        match result {
            Ok(value) => Ok((self.0)(value)),
            Err(failure) => Err(pass(self.0, failure)),
        }
    }
}

/// An operation without effect, which a combination needs.
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

pub(super) struct AndThen<F>(pub(super) F);

impl<T: Send + 'static, U: Send + 'static, E, F> Then<T> for AndThen<F>
where
    E: Into<Box<dyn Error + Send + Sync>>,
    F: FnOnce(T) -> Result<U, E> + Send + 'static,
{
    type Out = U;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<U, Failure> {
        match result {
            Ok(value) => (self.0)(value).map_err(Failure::new),
            Err(failure) => Err(pass(self.0, failure)),
        }
    }
}

pub(super) struct Filter<F>(pub(super) F);

impl<T: Send + 'static, F> Then<T> for Filter<F>
where
    F: FnOnce(&T) -> bool + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Ok(value) => match (self.0)(&value) {
                true => Ok(value),
                false => Err(Failure::plain(FailureKind::Empty)),
            },
            Err(failure) => Err(pass(self.0, failure)),
        }
    }
}

pub(super) struct MapResult<F>(pub(super) F);

impl<T: Send + 'static, U: Send + 'static, F> Then<T> for MapResult<F>
where
    F: FnOnce(Result<T, Failure>) -> Result<U, Failure> + Send + 'static,
{
    type Out = U;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<U, Failure> {
        (self.0)(result)
    }
}

pub(super) struct Recover<F>(pub(super) F);

impl<T: Send + 'static, F> Then<T> for Recover<F>
where
    F: FnOnce(Failure) -> Result<T, Failure> + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Ok(value) => Ok(pass(self.0, value)),
            Err(failure) => (self.0)(failure),
        }
    }
}

pub(super) struct MapFailure<F>(pub(super) F);

impl<T: Send + 'static, F> Then<T> for MapFailure<F>
where
    F: FnOnce(Failure) -> Failure + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match result {
            Ok(value) => Ok(pass(self.0, value)),
            Err(failure) => Err((self.0)(failure)),
        }
    }
}

pub(super) struct OnSuccess<F>(pub(super) F);

impl<T: Send + 'static, F> Then<T> for OnSuccess<F>
where
    F: FnOnce(&T) + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match &result {
            Ok(value) => aside(|| (self.0)(value)),
            Err(_) => discard(self.0),
        }
        result
    }
}

pub(super) struct OnFailure<F>(pub(super) F);

impl<T: Send + 'static, F> Then<T> for OnFailure<F>
where
    F: FnOnce(&Failure) + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<T, Failure> {
        match &result {
            Ok(_) => discard(self.0),
            Err(failure) => aside(|| (self.0)(failure)),
        }
        result
    }
}

pub(super) struct OnComplete<F>(pub(super) F);

impl<T: Send + 'static, F> Then<T> for OnComplete<F>
where
    F: FnOnce(&Result<T, Failure>) + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<T, Failure> {
        aside(|| (self.0)(&result));
        result
    }
}

pub(super) struct Ensure<F>(pub(super) F);

impl<T: Send + 'static, F> Then<T> for Ensure<F>
where
    F: FnOnce() + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Result<T, Failure> {
        aside(self.0);
        result
    }
}

pub(super) struct FlatMap<F>(pub(super) F);

impl<T: Send + 'static, U: Send + 'static, F> ThenFuture<T> for FlatMap<F>
where
    F: FnOnce(T) -> Future<U> + Send + 'static,
{
    type Out = U;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Future<U> {
        match result {
            Ok(value) => (self.0)(value),
            Err(failure) => Future::failed(pass(self.0, failure)),
        }
    }
}

/// The fallback, which is on its way.
pub(super) struct Or<T>(pub(super) Future<T>);

impl<T: Send + 'static> ThenFuture<T> for Or<T> {
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Future<T> {
        match result {
            Ok(value) => Future::ready(pass(self.0, value)),
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

pub(super) struct Transform<F>(pub(super) F);

impl<T: Send + 'static, U: Send + 'static, F> ThenFuture<T> for Transform<F>
where
    F: FnOnce(Result<T, Failure>) -> Future<U> + Send + 'static,
{
    type Out = U;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Future<U> {
        (self.0)(result)
    }
}

pub(super) struct Rescue<F>(pub(super) F);

impl<T: Send + 'static, F> ThenFuture<T> for Rescue<F>
where
    F: FnOnce(Failure) -> Future<T> + Send + 'static,
{
    type Out = T;

    #[inline]
    fn call(self, result: Result<T, Failure>) -> Future<T> {
        match result {
            Ok(value) => Future::ready(pass(self.0, value)),
            Err(failure) => (self.0)(failure),
        }
    }
}
