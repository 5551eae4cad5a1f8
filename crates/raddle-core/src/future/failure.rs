//! [`Failure`]: why a future has no value, in one word.

use std::any::Any;
use std::error::Error;
use std::fmt;
use std::panic;

/// The kind of a [`Failure`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum FailureKind {
    /// A closure panicked; the payload is kept.
    Panicked,
    /// The future was interrupted.
    Interrupted,
    /// The future was killed before it was done.
    Killed,
    /// It took longer than allowed.
    TimedOut,
    /// The promise was dropped without a value.
    Broken,
    /// There was nothing to choose from.
    Empty,
    /// The future waits for itself.
    Cycle,
    /// An error of the user's.
    Error,
}

/// Why a future has no value: a kind, and for panics and errors what came with them.
///
/// One word in size. Any error converts into a failure with `?` or `into()`, and a failure into a
/// boxed error.
///
/// ```
/// use raddle_core::{FailureKind, spawn};
///
/// let failure = spawn(|| -> u32 { panic!("out of wool") }).wait().unwrap_err();
/// assert_eq!(failure.kind(), FailureKind::Panicked);
/// assert_eq!(failure.to_string(), "panicked: out of wool");
/// assert_eq!(failure.downcast::<&str>().unwrap(), "out of wool");
/// ```
// Boxed because it must be one word; failures are rare, values are not.
pub struct Failure(Box<Repr>);

enum Repr {
    Plain(FailureKind),
    Panicked(Box<dyn Any + Send>),
    Error(Box<dyn AnyError>),
}

/// An error that remembers its type also by value.
trait AnyError: Error + Send + Sync + 'static {
    fn as_any(&self) -> &(dyn Any + Send + Sync);
    fn as_error(&self) -> &(dyn Error + 'static);
    fn into_any(self: Box<Self>) -> Box<dyn Any + Send>;
    fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync>;
}

impl<E: Error + Send + Sync + 'static> AnyError for E {
    fn as_any(&self) -> &(dyn Any + Send + Sync) {
        self
    }

    fn as_error(&self) -> &(dyn Error + 'static) {
        self
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any + Send> {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn Error + Send + Sync> {
        self
    }
}

// SAFETY: a panic's payload need not be `Sync`, and no method gives a reference to one that is not:
// `downcast_ref` asks for `Sync`, and the message is read from `&str` and `String` only.
unsafe impl Sync for Failure {}

const _: () = assert!(size_of::<Failure>() == size_of::<usize>());

impl Failure {
    pub(crate) fn plain(kind: FailureKind) -> Failure {
        Failure(Box::new(Repr::Plain(kind)))
    }

    /// A failure of the kind `Panicked` with this payload.
    pub fn panicked(payload: Box<dyn Any + Send>) -> Failure {
        Failure(Box::new(Repr::Panicked(payload)))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> FailureKind {
        match &*self.0 {
            Repr::Plain(kind) => *kind,
            Repr::Panicked(_) => FailureKind::Panicked,
            Repr::Error(_) => FailureKind::Error,
        }
    }

    /// The error or the panic's payload as a `T`, or the failure again if it is something else.
    ///
    /// ```
    /// use raddle_core::{Failure, FailureKind};
    ///
    /// let failure = Failure::from("12a".parse::<u8>().unwrap_err());
    /// assert_eq!(failure.kind(), FailureKind::Error);
    /// let failure = failure.downcast::<String>().unwrap_err();
    /// assert!(failure.downcast::<std::num::ParseIntError>().is_ok());
    /// ```
    pub fn downcast<T: Any>(self) -> Result<T, Failure> {
        match *self.0 {
            Repr::Panicked(payload) if payload.is::<T>() => Ok(unbox(payload)),
            Repr::Error(error) if (*error).as_any().is::<T>() => Ok(unbox(error.into_any())),
            other => Err(Failure(Box::new(other))),
        }
    }

    /// A look at the error, or at the panic's payload, as a `T`.
    pub fn downcast_ref<T: Any + Sync>(&self) -> Option<&T> {
        match &*self.0 {
            Repr::Panicked(payload) => payload.downcast_ref(),
            Repr::Error(error) => (**error).as_any().downcast_ref(),
            Repr::Plain(_) => None,
        }
    }

    /// The error that this failure was made from.
    pub fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            Repr::Error(error) => Some(error.as_error()),
            Repr::Plain(_) | Repr::Panicked(_) => None,
        }
    }

    /// Goes on with the panic that this failure caught; any other kind panics with its message.
    pub fn resume(self) -> ! {
        match *self.0 {
            Repr::Panicked(payload) => panic::resume_unwind(payload),
            other => panic!("{}", Failure(Box::new(other))),
        }
    }
}

fn unbox<T: Any>(value: Box<dyn Any + Send>) -> T {
    match value.downcast() {
        Ok(value) => *value,
        Err(_) => unreachable!("the type was tested"),
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Repr::Plain(kind) => f.write_str(match kind {
                FailureKind::Panicked => "panicked",
                FailureKind::Interrupted => "interrupted",
                FailureKind::Killed => "killed",
                FailureKind::TimedOut => "timed out",
                FailureKind::Broken => "the promise was dropped without a value",
                FailureKind::Empty => "there was nothing to choose from",
                FailureKind::Cycle => "the future waits for itself",
                FailureKind::Error => "failed",
            }),
            Repr::Panicked(payload) => match message(payload) {
                Some(message) => write!(f, "panicked: {message}"),
                None => f.write_str("panicked"),
            },
            Repr::Error(error) => error.fmt(f),
        }
    }
}

/// The message of a panic, if it has one.
fn message(payload: &Box<dyn Any + Send>) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Repr::Error(error) => write!(f, "Failure({error:?})"),
            _ => write!(f, "Failure({self})"),
        }
    }
}

impl<E: Error + Send + Sync + 'static> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(Box::new(Repr::Error(Box::new(error))))
    }
}

impl From<Failure> for Box<dyn Error + Send + Sync> {
    fn from(failure: Failure) -> Self {
        match *failure.0 {
            Repr::Error(error) => error.into_error(),
            other => Failure(Box::new(other)).to_string().into(),
        }
    }
}

impl From<Failure> for Box<dyn Error> {
    fn from(failure: Failure) -> Self {
        Box::<dyn Error + Send + Sync>::from(failure)
    }
}
