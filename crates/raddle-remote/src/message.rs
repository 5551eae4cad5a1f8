//! What is in frames, by kind.

use serde::{Deserialize, Serialize};

use crate::entry::Call;
use crate::error::RemoteError;
use crate::plan::Settings;
use crate::seed::Seed;

/// The version of the protocol.
pub(crate) const VERSION: u32 = 1;
/// The first that a worker is told.
pub(crate) const MAGIC: u64 = 0x6f6c_6c65_6820_6472;

/// HELLO: who it is that asks, and what a worker needs to know.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Hello {
    pub(crate) magic: u64,
    pub(crate) version: u32,
    pub(crate) build: Build,
    /// The worker's index.
    pub(crate) worker: usize,
    /// The plan of environments within its tasks.
    pub(crate) nested: Settings,
    pub(crate) memory_limit: Option<u64>,
    pub(crate) max_frame: u64,
    pub(crate) on_start: Option<i64>,
    /// Whoever ends it may not know what it has started: it sees to that itself.
    pub(crate) mourner: bool,
}

/// Which build of which program it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Build {
    /// The linker's note.
    pub(crate) id: Vec<u8>,
    /// A number for the file.
    pub(crate) file: u64,
    /// Whether that is one for what is in the file, not for where it lies: it was copied.
    pub(crate) copied: bool,
}

/// READY
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) pid: u32,
    pub(crate) host: String,
}

/// CALL, before the arguments.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Order {
    pub(crate) call: Call,
    pub(crate) id: u64,
    pub(crate) attempt: u32,
    pub(crate) name: Option<String>,
    pub(crate) seed: Seed,
}

/// PANICKED
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Panicked {
    pub(crate) message: Option<String>,
    pub(crate) place: Option<String>,
}

/// FAILED
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Failed {
    Decode { type_name: String, reason: String },
    Encode { type_name: String, reason: String },
    BuildMismatch(String),
    TooLarge { len: u64, limit: u64 },
    Protocol(String),
    Start(String),
}

impl From<Failed> for RemoteError {
    fn from(failed: Failed) -> RemoteError {
        match failed {
            Failed::Decode { type_name, reason } => RemoteError::Decode { type_name, reason },
            Failed::Encode { type_name, reason } => RemoteError::Encode { type_name, reason },
            Failed::TooLarge { len, limit } => RemoteError::TooLarge { len, limit },
            Failed::BuildMismatch(text) => RemoteError::BuildMismatch(text),
            Failed::Protocol(text) => RemoteError::Protocol(text),
            Failed::Start(text) => RemoteError::Start(text),
        }
    }
}
