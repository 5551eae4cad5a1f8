//! [`SharedPromise`]: a promise that several may complete, of whom the first does.

use std::error::Error;
use std::fmt;

use raddle_sync::sync::{Arc, Mutex};

use crate::future::failure::Failure;
use crate::future::handle::Future;
use crate::future::interrupt::Interrupt;
use crate::future::promise::Promise;

/// A promise that any number may try to complete: the first does, and the others are told so.
///
/// When the last clone is dropped and nobody has completed it, the future fails with
/// [`Broken`](crate::FailureKind::Broken). Two allocations, and a lock to complete it, which is not held while what follows
/// runs.
///
/// ```
/// use raddle::{SharedPromise, spawn};
///
/// let (promise, fastest) = SharedPromise::new();
/// for way in ["by sea", "by land"] {
///     let promise = promise.clone();
///     spawn(move || promise.try_set(way)).detach();
/// }
/// assert!(fastest.wait().unwrap().starts_with("by "));
/// assert!(!promise.try_set("by air"));
/// ```
#[doc(alias = "updateIfEmpty")]
#[doc(alias = "tryComplete")]
pub struct SharedPromise<T>(Arc<Mutex<Option<Promise<T>>>>);

impl<T: Send + 'static> SharedPromise<T> {
    /// A promise and its future.
    #[allow(clippy::new_ret_no_self, reason = "a promise comes with its future")]
    pub fn new() -> (SharedPromise<T>, Future<T>) {
        let (promise, future) = Promise::new();
        (promise.into(), future)
    }

    /// Completes the future with a value, unless somebody has completed it.
    #[doc(alias = "trySuccess")]
    #[doc(alias = "setValueIfEmpty")]
    pub fn try_set(&self, value: T) -> bool {
        self.try_complete(Ok(value))
    }

    /// Completes the future with a failure, unless somebody has completed it: see [`Promise::fail`].
    #[doc(alias = "tryFailure")]
    pub fn try_fail(&self, failure: impl Into<Box<dyn Error + Send + Sync>>) -> bool {
        self.try_complete(Err(Failure::new(failure)))
    }

    /// Completes the future with a value or a failure, unless somebody has completed it.
    pub fn try_complete(&self, result: Result<T, Failure>) -> bool {
        let promise = self.0.lock().take();
        match promise {
            Some(promise) => {
                promise.complete(result);
                true
            }
            None => false,
        }
    }

    /// Makes the future become another one, unless somebody has completed it: see [`Promise::link`].
    #[doc(alias = "becomeIfEmpty")]
    pub fn try_link(&self, future: Future<T>) -> bool {
        let promise = self.0.lock().take();
        match promise {
            Some(promise) => {
                promise.link(future);
                true
            }
            None => false,
        }
    }

    /// Whether somebody has completed the future, or is about to.
    pub fn is_completed(&self) -> bool {
        self.0.lock().is_none()
    }

    /// The latest interrupt that has come from the future, as long as it has not been completed: see
    /// [`Promise::interrupted`].
    pub fn interrupted(&self) -> Option<Interrupt> {
        self.0.lock().as_ref().and_then(Promise::interrupted)
    }
}

impl<T: Send + 'static> From<Promise<T>> for SharedPromise<T> {
    fn from(promise: Promise<T>) -> SharedPromise<T> {
        SharedPromise(Arc::new(Mutex::new(Some(promise))))
    }
}

impl<T> Clone for SharedPromise<T> {
    fn clone(&self) -> SharedPromise<T> {
        SharedPromise(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for SharedPromise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedPromise").finish_non_exhaustive()
    }
}
