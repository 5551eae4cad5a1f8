//! Why a pool could not be built.

use std::error::Error;
use std::fmt;
use std::io;

const GLOBAL: &str = "The global thread pool has already been initialized.";
const CURRENT: &str = "The current thread is already part of another thread pool.";

/// Why a pool could not be built.
#[derive(Debug)]
pub struct ThreadPoolBuildError {
    kind: Kind,
}

// Named as in the original: its Debug is what `unwrap` shows.
#[derive(Debug)]
enum Kind {
    GlobalPoolAlreadyInitialized,
    CurrentThreadAlreadyInPool,
    IOError(io::Error),
}

impl ThreadPoolBuildError {
    pub(crate) const GLOBAL_EXISTS: ThreadPoolBuildError =
        ThreadPoolBuildError { kind: Kind::GlobalPoolAlreadyInitialized };
    pub(crate) const IN_POOL: ThreadPoolBuildError =
        ThreadPoolBuildError { kind: Kind::CurrentThreadAlreadyInPool };
}

impl From<io::Error> for ThreadPoolBuildError {
    fn from(error: io::Error) -> ThreadPoolBuildError {
        ThreadPoolBuildError { kind: Kind::IOError(error) }
    }
}

impl fmt::Display for ThreadPoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.kind {
            // The words of the original: programs show them, and some compare them.
            Kind::GlobalPoolAlreadyInitialized => f.pad(GLOBAL),
            Kind::CurrentThreadAlreadyInPool => f.pad(CURRENT),
            Kind::IOError(error) => error.fmt(f),
        }
    }
}

impl Error for ThreadPoolBuildError {
    #[allow(deprecated, reason = "the original has it")]
    fn description(&self) -> &str {
        match &self.kind {
            Kind::GlobalPoolAlreadyInitialized => GLOBAL,
            Kind::CurrentThreadAlreadyInPool => CURRENT,
            Kind::IOError(error) => error.description(),
        }
    }

    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &self.kind {
            Kind::IOError(error) => Some(error),
            Kind::GlobalPoolAlreadyInitialized | Kind::CurrentThreadAlreadyInPool => None,
        }
    }
}
