//! [`Interrupt`]: what is said to whoever produces a value that is not wanted any more.

use std::borrow::Cow;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::future::failure::{Failure, FailureKind};
use crate::panics::discard;

/// A request to stop, on its way from a future to what produces its value.
///
/// One word; clones share the reason. Made from a text or from a [`Failure`]. As a failure it is of the kind
/// [`Interrupted`](FailureKind::Interrupted), or the failure that it was made from.
///
/// ```
/// use raddle::{Failure, FailureKind, Interrupt};
///
/// let interrupt = Interrupt::from("the user closed the window");
/// let failure = Failure::from(interrupt);
/// assert_eq!(failure.kind(), FailureKind::Interrupted);
/// assert_eq!(failure.to_string(), "interrupted: the user closed the window");
/// ```
#[derive(Clone)]
pub struct Interrupt(Arc<Reason>);

// Nodes keep three flags beside a pointer to one: see `upstream`.
const _: () = assert!(align_of::<Reason>() >= 8);

#[derive(Debug)]
enum Reason {
    Text(Cow<'static, str>),
    /// Dropped where nothing may unwind.
    Failure(ManuallyDrop<Failure>),
    /// Of [`Future::kill`](crate::Future::kill): the failure `Killed`.
    Kill(ManuallyDrop<Failure>),
}

impl Drop for Reason {
    fn drop(&mut self) {
        if let Reason::Failure(failure) | Reason::Kill(failure) = self {
            // SAFETY: dropped once.
            discard(unsafe { ManuallyDrop::take(failure) });
        }
    }
}

impl Interrupt {
    /// An interrupt for this reason.
    pub fn new(reason: impl Into<Cow<'static, str>>) -> Interrupt {
        Interrupt(Arc::new(Reason::Text(reason.into())))
    }

    /// The failure that the interrupt was made from, if it was.
    pub fn cause(&self) -> Option<&Failure> {
        match &*self.0 {
            Reason::Text(_) => None,
            Reason::Failure(failure) | Reason::Kill(failure) => Some(failure),
        }
    }

    /// Whoever was killed tells those upstream.
    pub(crate) fn killed() -> Interrupt {
        Interrupt(Arc::new(Reason::Kill(ManuallyDrop::new(Failure::plain(FailureKind::Killed)))))
    }

    /// Whether it comes of a kill: masks do not hold it up, and no later signal takes its place.
    pub(crate) fn is_kill(&self) -> bool {
        matches!(*self.0, Reason::Kill(_))
    }

    /// Whether it is this very one.
    pub(crate) fn is(&self, other: &Interrupt) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn into_raw(self) -> *const () {
        Arc::into_raw(self.0).cast()
    }

    /// # Safety
    ///
    /// From `into_raw`, once.
    pub(crate) unsafe fn from_raw(raw: *const ()) -> Interrupt {
        // SAFETY: contract.
        Interrupt(unsafe { Arc::from_raw(raw.cast()) })
    }
}

impl fmt::Display for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Reason::Text(text) => f.write_str(text),
            Reason::Failure(failure) | Reason::Kill(failure) => failure.fmt(f),
        }
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Interrupt({self})")
    }
}

impl std::error::Error for Interrupt {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.cause().map(|cause| cause as _)
    }
}

impl From<&'static str> for Interrupt {
    fn from(reason: &'static str) -> Interrupt {
        Interrupt::new(reason)
    }
}

impl From<String> for Interrupt {
    fn from(reason: String) -> Interrupt {
        Interrupt::new(reason)
    }
}

impl From<Failure> for Interrupt {
    fn from(failure: Failure) -> Interrupt {
        Interrupt(Arc::new(Reason::Failure(ManuallyDrop::new(failure))))
    }
}

impl From<Interrupt> for Failure {
    fn from(interrupt: Interrupt) -> Failure {
        match interrupt.cause() {
            Some(failure) => failure.clone(),
            None => Failure::interrupted(interrupt),
        }
    }
}
