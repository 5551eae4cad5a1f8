//! Why a pool could not be built.

use std::error::Error;
use std::fmt;
use std::io;

/// Why a pool could not be built.
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    GlobalExists,
    InPool,
    Io(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) const GLOBAL_EXISTS: ThreadPoolBuildError =
        ThreadPoolBuildError { kind: Kind::GlobalExists };
    pub(crate) const IN_POOL: ThreadPoolBuildError = ThreadPoolBuildError { kind: Kind::InPool };
}

impl From<io::Error> for ThreadPoolBuildError {
    fn from(error: io::Error) -> ThreadPoolBuildError {
        ThreadPoolBuildError { kind: Kind::Io(error) }
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            // The words of the original: programs show them, and some compare them.
            Kind::GlobalExists => f.pad("The global thread pool has already been initialized."),
            Kind::InPool => f.pad("The current thread is already part of another thread pool."),
            Kind::Io(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::Io(error) => Some(error),
            Kind::GlobalExists | Kind::InPool => None,
        }
    }
}
