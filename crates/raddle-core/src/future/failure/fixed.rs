//! Failures in statics, and texts as errors.

use std::any::TypeId;
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::ptr::NonNull;

use super::{Failure, Inner};

/// A failure in a static, for what fails often: a [`Failure`] made from it costs nothing, nor do its clones.
///
/// ```
/// use raddle::{Failure, Future, StaticFailure};
///
/// static BUSY: StaticFailure = StaticFailure::message("too busy");
///
/// fn admit(waiting: usize) -> Result<(), Failure> {
///     if waiting < 100 { Ok(()) } else { Err(BUSY.failure()) }
/// }
/// assert_eq!(Future::from(admit(200)).wait().unwrap_err().to_string(), "too busy");
/// ```
#[derive(Debug)]
pub struct StaticFailure(Inner);

impl StaticFailure {
    /// Made from an error.
    ///
    /// ```
    /// use raddle::StaticFailure;
    ///
    /// static TORN: StaticFailure = StaticFailure::new(&std::fmt::Error);
    /// assert!(TORN.failure().downcast_ref::<std::fmt::Error>().is_some());
    /// ```
    pub const fn new<E: Error + Send + Sync + 'static>(error: &'static E) -> StaticFailure {
        StaticFailure(Inner::Static(error, TypeId::of::<E>))
    }

    /// One that says just this.
    pub const fn message(text: &'static str) -> StaticFailure {
        StaticFailure(Inner::StaticText(Message::new(Cow::Borrowed(text))))
    }

    /// The failure, of the kind [`Error`](crate::FailureKind::Error). It counts as one that others share.
    #[inline]
    pub fn failure(&'static self) -> Failure {
        Failure(NonNull::from(&self.0))
    }
}

/// A text as an error.
#[derive(Debug)]
pub(super) struct Message(Cow<'static, str>);

impl Message {
    pub(super) const fn new(text: Cow<'static, str>) -> Message {
        Message(text)
    }
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error for Message {}
