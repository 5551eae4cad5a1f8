//! [`Failure`]: why a future has no value, in one word.

mod fixed;
mod known;

use std::any::{Any, TypeId};
use std::borrow::Cow;
use std::error::Error;
use std::fmt;
use std::mem::ManuallyDrop;
use std::panic;
use std::ptr::NonNull;
use std::sync::Arc;

use self::fixed::Message;
pub use self::fixed::StaticFailure;
use crate::drops;
use crate::future::interrupt::Interrupt;
use crate::panics::Apart;

type Boxed = Box<dyn Error + Send + Sync>;

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
/// One word in size. It is an [`Error`], and is made by [`Failure::new`] from whatever converts into a boxed one: errors,
/// texts, boxes, and those of `anyhow`. Errors of std (but such as hold a value of yours), texts and boxes convert with `?` and
/// `into()`, too. (As it is an error itself, Rust leaves no room for all other errors to do so: of those, say
/// `.map_err(Failure::new)?`, or implement `From` for your own.)
///
/// ```
/// use raddle::{FailureKind, spawn};
///
/// let failure = spawn(|| -> u32 { panic!("out of wool") }).wait().unwrap_err();
/// assert_eq!(failure.kind(), FailureKind::Panicked);
/// assert_eq!(failure.to_string(), "panicked: out of wool");
/// assert_eq!(failure.downcast::<&str>().unwrap(), "out of wool");
/// ```
///
/// An error of your own, with `?`:
///
/// ```
/// use raddle::Failure;
///
/// struct Torn(u32);
///
/// impl From<Torn> for Failure {
///     fn from(Torn(times): Torn) -> Failure {
///         Failure::message(format!("torn {times} times"))
///     }
/// }
///
/// fn mended(times: u32) -> Result<u32, Failure> {
///     let thread = if times < 3 { Ok(times) } else { Err(Torn(times)) };
///     Ok(thread?)
/// }
/// assert_eq!(mended(3).unwrap_err().to_string(), "torn 3 times");
/// ```
///
/// Cloning shares what came with it. Of failures within failures, those more than 32 deep are dropped when the outermost has been, by
/// the same thread: what is dropped there must not wait for one that is further in.
// Points to one of `PLAIN`, to a `StaticFailure`, or to the inside of an `Arc`: failures of a plain kind cost nothing, and one
// word is all a failure may take.
pub struct Failure(NonNull<Inner>);

#[derive(Debug)]
enum Inner {
    /// Never in an `Arc`, as those of [`StaticFailure`].
    Plain(FailureKind),
    Static(&'static (dyn Error + Send + Sync), fn() -> TypeId),
    StaticText(Message),
    Panicked(Panicked),
    Interrupted(Interrupt),
    /// The error, and its type if that is known.
    Error(Boxed, Option<TypeId>),
}

/// A panic's payload, and where it was, if that was told.
struct Panicked {
    payload: Box<dyn Any + Send>,
    place: Option<Box<str>>,
}

// It says what went wrong already: to catch a panic beside it makes nothing worse.
impl std::panic::UnwindSafe for Failure {}
impl std::panic::RefUnwindSafe for Failure {}

// SAFETY: a panic's payload need not be `Sync`, and no method gives a reference to one that is not:
// `downcast_ref` asks for `Sync`, and the message is read from `&str` and `String` only.
unsafe impl Sync for Panicked {}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(message(&self.payload).unwrap_or("panic"))
    }
}

static PLAIN: [Inner; 8] = [
    Inner::Plain(FailureKind::Panicked),
    Inner::Plain(FailureKind::Interrupted),
    Inner::Plain(FailureKind::Killed),
    Inner::Plain(FailureKind::TimedOut),
    Inner::Plain(FailureKind::Broken),
    Inner::Plain(FailureKind::Empty),
    Inner::Plain(FailureKind::Cycle),
    Inner::Plain(FailureKind::Error),
];

// SAFETY: what it shares is.
unsafe impl Send for Failure {}
// SAFETY: as above.
unsafe impl Sync for Failure {}

const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Inner>();
    assert!(size_of::<Failure>() == size_of::<usize>());
    assert!(size_of::<Option<Failure>>() == size_of::<usize>());
};

impl Failure {
    #[inline]
    pub(crate) fn plain(kind: FailureKind) -> Failure {
        Failure(NonNull::from(&PLAIN[kind as usize]))
    }

    fn shared(inner: Inner) -> Failure {
        let inner = Arc::into_raw(Arc::new(inner)).cast_mut();
        // SAFETY: never null.
        Failure(unsafe { NonNull::new_unchecked(inner) })
    }

    /// Whether it points to the inside of an `Arc`. Otherwise there is nothing to drop.
    #[inline]
    pub(crate) fn is_counted(&self) -> bool {
        !matches!(self.inner(), Inner::Plain(_) | Inner::Static(..) | Inner::StaticText(_))
    }

    /// This share goes.
    fn let_go(&mut self) {
        let free: unsafe fn(NonNull<()>) = |share| {
            // SAFETY: from `shared`, and a share that is used no more.
            unsafe { Arc::decrement_strong_count(share.cast::<Inner>().as_ptr()) };
        };
        // An error may have a failure itself.
        // SAFETY: once, whenever.
        unsafe { drops::nested(self.0.cast(), free) };
    }

    #[inline]
    fn inner(&self) -> &Inner {
        // SAFETY: static, or kept by this share.
        unsafe { self.0.as_ref() }
    }

    /// What is inside, if this failure is the only one to share it.
    fn into_inner(self) -> Result<Inner, Failure> {
        if let Inner::Plain(kind) = *self.inner() {
            return Ok(Inner::Plain(kind));
        }
        if !self.is_counted() {
            return Err(self);
        }
        let raw = ManuallyDrop::new(self).0.as_ptr().cast_const();
        // SAFETY: counted, so from `shared`; this share is used up.
        let inner = unsafe { Arc::from_raw(raw) };
        Arc::try_unwrap(inner).map_err(|inner| {
            let raw = Arc::into_raw(inner).cast_mut();
            // SAFETY: never null.
            Failure(unsafe { NonNull::new_unchecked(raw) })
        })
    }

    /// A failure of the kind `Error` that was made from this; a `Failure` stays what it is, and an [`Interrupt`] makes one of
    /// the kind `Interrupted`.
    ///
    /// One allocation beside the box of the error, if that is not one already, and what is in it: three for a text. None for a
    /// `Failure`.
    ///
    /// ```
    /// use raddle::{Failure, FailureKind};
    ///
    /// assert_eq!(Failure::new("no yarn").to_string(), "no yarn");
    /// assert_eq!(Failure::new(std::fmt::Error).kind(), FailureKind::Error);
    /// assert_eq!(Failure::new(Failure::timed_out()).kind(), FailureKind::TimedOut);
    /// ```
    pub fn new<E: Into<Boxed>>(error: E) -> Failure {
        if known::id_of::<E>() == TypeId::of::<Failure>() {
            let error = ManuallyDrop::new(error);
            // SAFETY: it is one, and used up.
            return unsafe { std::mem::transmute_copy::<ManuallyDrop<E>, Failure>(&error) };
        }
        let known = known::is_error::<E>().then(known::id_of::<E>);
        let error = match error.into().downcast::<Failure>() {
            Ok(failure) => return *failure,
            Err(error) => error,
        };
        match error.downcast::<Interrupt>() {
            Ok(interrupt) => Failure::from(*interrupt),
            Err(error) => Failure::shared(Inner::Error(error, known)),
        }
    }

    /// A failure of the kind `Panicked` with this payload.
    pub fn panicked(payload: Box<dyn Any + Send>) -> Failure {
        Failure::shared(Inner::Panicked(Panicked { payload, place: None }))
    }

    /// The failure of a panic elsewhere, in another process say, of which the message and the place in the source are known.
    ///
    /// ```
    /// let failure = raddle::Failure::panicked_at("out of wool", "src/loom.rs:7:5");
    /// assert_eq!(failure.to_string(), "panicked: out of wool, at src/loom.rs:7:5");
    /// assert_eq!(failure.place(), Some("src/loom.rs:7:5"));
    /// ```
    pub fn panicked_at(message: impl Into<String>, place: impl Into<Box<str>>) -> Failure {
        let payload: Box<dyn Any + Send> = Box::new(message.into());
        Failure::shared(Inner::Panicked(Panicked { payload, place: Some(place.into()) }))
    }

    /// Where in the source a panic was, if the failure is of one and that is known.
    pub fn place(&self) -> Option<&str> {
        match self.inner() {
            Inner::Panicked(panicked) => panicked.place.as_deref(),
            _ => None,
        }
    }

    pub(crate) fn interrupted(interrupt: Interrupt) -> Failure {
        Failure::shared(Inner::Interrupted(interrupt))
    }

    /// A failure of the kind `TimedOut`.
    pub fn timed_out() -> Failure {
        Failure::plain(FailureKind::TimedOut)
    }

    /// The failure of a promise that is dropped without a value.
    pub fn broken() -> Failure {
        Failure::plain(FailureKind::Broken)
    }

    /// A failure of the kind `Killed`: for whoever produces a value and is told to stop by other means than
    /// [`Future::kill`](crate::Future::kill).
    pub fn killed() -> Failure {
        Failure::plain(FailureKind::Killed)
    }

    pub(crate) fn cycle() -> Failure {
        Failure::plain(FailureKind::Cycle)
    }

    /// A failure of the kind `Error` that says just this.
    ///
    /// ```
    /// let failure = raddle::Failure::message("the loom is broken");
    /// assert_eq!(failure.to_string(), "the loom is broken");
    /// ```
    pub fn message(text: impl Into<Cow<'static, str>>) -> Failure {
        Failure::new(Message::new(text.into()))
    }

    /// What kind of failure this is.
    pub fn kind(&self) -> FailureKind {
        match self.inner() {
            Inner::Plain(kind) => *kind,
            Inner::Panicked(_) => FailureKind::Panicked,
            Inner::Interrupted(_) => FailureKind::Interrupted,
            Inner::Error(..) | Inner::Static(..) | Inner::StaticText(_) => FailureKind::Error,
        }
    }

    /// The error, the panic's payload or the [`Interrupt`] as a `T`; or the failure again if it is
    /// something else, or has clones, which share it.
    ///
    /// What was a box when the failure was made is given back as one, `Box<dyn Error + Send + Sync>`: see also
    /// [`source`](Failure::source).
    ///
    /// ```
    /// use raddle::{Failure, FailureKind};
    ///
    /// let failure = Failure::from("12a".parse::<u8>().unwrap_err());
    /// assert_eq!(failure.kind(), FailureKind::Error);
    /// let failure = failure.downcast::<String>().unwrap_err();
    /// assert!(failure.downcast::<std::num::ParseIntError>().is_ok());
    /// ```
    pub fn downcast<T: Any>(self) -> Result<T, Failure> {
        let fits = match self.inner() {
            Inner::Plain(_) | Inner::Static(..) | Inner::StaticText(_) => false,
            Inner::Panicked(Panicked { payload, .. }) => payload.is::<T>(),
            Inner::Interrupted(_) => TypeId::of::<T>() == TypeId::of::<Interrupt>(),
            Inner::Error(_, known) => {
                *known == Some(TypeId::of::<T>()) || TypeId::of::<T>() == TypeId::of::<Boxed>()
            }
        };
        if !fits {
            return Err(self);
        }
        match self.into_inner()? {
            Inner::Plain(_) | Inner::Static(..) | Inner::StaticText(_) => unreachable!("it fits"),
            Inner::Panicked(Panicked { payload, .. }) => Ok(unbox(payload)),
            Inner::Interrupted(interrupt) => Ok(unbox(Box::new(interrupt))),
            Inner::Error(error, _) if TypeId::of::<T>() == TypeId::of::<Boxed>() => {
                Ok(unbox(Box::new(error)))
            }
            Inner::Error(error, _) => {
                let error = Box::into_raw(error).cast::<T>();
                // SAFETY: the type was tested, and what is in the box is of the type that is known.
                Ok(*unsafe { Box::from_raw(error) })
            }
        }
    }

    /// A look at the error, at the panic's payload or at the [`Interrupt`], as a `T`.
    pub fn downcast_ref<T: Any + Sync>(&self) -> Option<&T> {
        match self.inner() {
            Inner::Plain(_) | Inner::StaticText(_) => None,
            Inner::Static(error, known) => (known() == TypeId::of::<T>()).then(|| {
                let error = (&raw const **error).cast::<T>();
                // SAFETY: what it leads to is of the type that is known.
                unsafe { &*error }
            }),
            Inner::Panicked(Panicked { payload, .. }) => payload.downcast_ref(),
            Inner::Interrupted(interrupt) => (interrupt as &dyn Any).downcast_ref(),
            Inner::Error(error, _) if TypeId::of::<T>() == TypeId::of::<Boxed>() => {
                (error as &(dyn Any + Send + Sync)).downcast_ref()
            }
            Inner::Error(error, known) => (*known == Some(TypeId::of::<T>())).then(|| {
                let error = (&raw const **error).cast::<T>();
                // SAFETY: what is in the box is of the type that is known.
                unsafe { &*error }
            }),
        }
    }

    /// The error that this failure was made from.
    pub fn source(&self) -> Option<&(dyn Error + 'static)> {
        match self.inner() {
            Inner::Error(error, _) => Some(&**error),
            Inner::Static(error, _) => Some(*error),
            Inner::StaticText(text) => Some(text),
            _ => None,
        }
    }

    /// Goes on with the panic that this failure caught; any other kind panics with its message.
    ///
    /// If the failure has clones, the panic goes on with its message, if it had one, in the place of the payload.
    #[track_caller]
    pub fn resume(self) -> ! {
        match self.into_inner() {
            Ok(Inner::Panicked(Panicked { payload, .. })) => panic::resume_unwind(payload),
            Ok(inner) => panic!("{}", Apart::new(inner).get()),
            Err(shared) => match Apart::new(shared).get().inner() {
                Inner::Panicked(Panicked { payload, .. }) => {
                    let text = message(payload).unwrap_or("a panic that others share").to_owned();
                    panic::resume_unwind(Box::new(text))
                }
                inner => panic!("{inner}"),
            },
        }
    }
}

impl Clone for Failure {
    #[inline]
    fn clone(&self) -> Failure {
        if self.is_counted() {
            // SAFETY: from `shared`; this one is a share.
            unsafe { Arc::increment_strong_count(self.0.as_ptr().cast_const()) };
        }
        Failure(self.0)
    }
}

impl Drop for Failure {
    #[inline]
    fn drop(&mut self) {
        if self.is_counted() {
            self.let_go();
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
        self.inner().fmt(f)
    }
}

impl fmt::Display for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Inner::Plain(kind) => f.write_str(match kind {
                FailureKind::Panicked => "panicked",
                FailureKind::Interrupted => "interrupted",
                FailureKind::Killed => "killed",
                FailureKind::TimedOut => "timed out",
                FailureKind::Broken => "the promise was dropped without a value",
                FailureKind::Empty => "there was nothing to choose from",
                FailureKind::Cycle => "the future waits for itself",
                FailureKind::Error => "failed",
            }),
            Inner::Panicked(Panicked { payload, place }) => {
                f.write_str("panicked")?;
                if let Some(message) = message(payload) {
                    write!(f, ": {message}")?;
                }
                place.as_ref().map_or(Ok(()), |place| write!(f, ", at {place}"))
            }
            Inner::Interrupted(interrupt) => write!(f, "interrupted: {interrupt}"),
            Inner::Error(error, _) => error.fmt(f),
            Inner::Static(error, _) => error.fmt(f),
            Inner::StaticText(text) => text.fmt(f),
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
        match self.inner() {
            Inner::Error(error, _) => write!(f, "Failure({error:?})"),
            Inner::Static(error, _) => write!(f, "Failure({error:?})"),
            inner => write!(f, "Failure({inner})"),
        }
    }
}

impl Error for Failure {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        Failure::source(self)
    }
}

/// One error that is known to be one: what [`Failure::new`] has to find out by asking is not compiled for each, nor is one that nobody uses.
fn of_error<E: Error + Send + Sync + 'static>(error: E) -> Failure {
    Failure::shared(Inner::Error(Box::new(error), Some(TypeId::of::<E>())))
}

macro_rules! from {
    ($make:path: $($error:ty),* $(,)?) => { $(impl From<$error> for Failure {
        #[inline]
        fn from(error: $error) -> Failure {
            $make(error)
        }
    })* };
}

from!(Failure::new: Boxed, &str, String, Cow<'static, str>);

from! { of_error:
    std::io::Error, fmt::Error, std::num::ParseIntError, std::num::ParseFloatError, std::num::TryFromIntError,
    std::str::ParseBoolError, std::str::Utf8Error, std::string::FromUtf8Error, std::char::ParseCharError,
    std::array::TryFromSliceError, std::net::AddrParseError, std::env::VarError, std::sync::mpsc::RecvError,
    std::sync::mpsc::TryRecvError, std::sync::mpsc::RecvTimeoutError, std::time::SystemTimeError,
    std::cell::BorrowError, std::cell::BorrowMutError, std::thread::AccessError, std::alloc::LayoutError,
    std::ffi::NulError, std::ffi::IntoStringError, std::ffi::FromVecWithNulError, std::ffi::FromBytesWithNulError,
    std::ffi::FromBytesUntilNulError, std::string::FromUtf16Error, std::char::DecodeUtf16Error,
    std::char::CharTryFromError, std::char::TryFromCharError, std::time::TryFromFloatSecsError,
    std::path::StripPrefixError, std::env::JoinPathsError, std::collections::TryReserveError,
}

#[cfg(not(raddle_loom))]
from!(of_error: crate::pool::PoolBuildError);
