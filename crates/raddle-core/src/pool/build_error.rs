//! [`PoolBuildError`]: what can go wrong when a pool is built.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why a pool could not be built. No thread is left behind. (Of a trace's file that was to be replaced, an empty one is.)
#[derive(Debug)]
#[non_exhaustive]
pub enum PoolBuildError {
    /// A pool needs a thread.
    NoThreads,
    /// More threads than a pool can have.
    TooManyThreads {
        /// How many were asked for.
        asked: usize,
        /// How many there may be.
        most: usize,
    },
    /// The system gave only some of the threads.
    Threads {
        /// How many were asked for.
        asked: usize,
        /// How many were started, and stopped again.
        started: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The system gave no memory for the workers' fork stacks.
    Memory {
        /// How many threads were asked for.
        asked: usize,
        /// What the system said.
        source: io::Error,
    },
    /// There is no memory for what the threads are to record.
    TraceMemory {
        /// For how many events of each thread there was to be room.
        events: usize,
        /// What the system said.
        source: io::Error,
    },
    /// The file for the trace cannot be written.
    Trace {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

impl fmt::Display for PoolBuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            PoolBuildError::NoThreads => {
                f.write_str("a pool needs at least one thread, and 0 were asked for")
            }
            PoolBuildError::TooManyThreads { asked, most } => {
                write!(f, "{asked} threads were asked for, and a pool has at most {most}")
            }
            PoolBuildError::Threads { asked, started, source } => {
                write!(f, "only {started} of {asked} threads could be started: {source}")
            }
            PoolBuildError::Memory { asked, source } => {
                write!(f, "no memory for the fork stacks of {asked} threads: {source}")
            }
            PoolBuildError::TraceMemory { events, source } => {
                write!(f, "no memory to record {events} events of each thread: {source}")
            }
            PoolBuildError::Trace { path, source } => {
                write!(f, "{}: cannot be written: {source}", path.display())
            }
        }
    }
}

impl std::error::Error for PoolBuildError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            PoolBuildError::NoThreads | PoolBuildError::TooManyThreads { .. } => None,
            PoolBuildError::Threads { source, .. }
            | PoolBuildError::Memory { source, .. }
            | PoolBuildError::TraceMemory { source, .. }
            | PoolBuildError::Trace { source, .. } => Some(source),
        }
    }
}
