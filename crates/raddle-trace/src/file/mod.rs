//! Traces as files. The format is specified in `FORMAT.md`, beside this crate's manifest; a file is a
//! header and chunks, each complete in itself and with a checksum, so that all that was written before a
//! crash can be read after it.
//!
//! ```
//! use raddle_trace::{ClockPair, Event, EventKind, Lane, Trace};
//!
//! let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9 });
//! trace.lanes.push(Lane::new("worker 0", vec![Event::new(5, EventKind::Park, 0)]));
//! let mut file = Vec::new();
//! trace.write(&mut file)?;
//! assert_eq!(Trace::read(&file[..])?, trace);
//!
//! // Cut short, it is an error that says where, and what came before can be had all the same.
//! let cut = &file[..file.len() - 20];
//! let error = Trace::read(cut).unwrap_err();
//! assert!(error.to_string().starts_with("byte 140: "), "{error}");
//! let (saved, damage) = Trace::read_damaged(cut)?;
//! assert_eq!((saved, damage.is_some()), (trace, true));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod crc;
mod read;
mod write;

use std::fmt;
use std::io;

pub use write::{Ring, Writer};

/// What a file begins with.
pub const MAGIC: [u8; 8] = *b"RADDLETR";
/// The version that this program writes, and the newest that it reads.
pub const VERSION: u32 = 2;
/// The most bytes in the payload of a chunk.
pub const MOST_PAYLOAD: u32 = 1 << 22;
/// The most lanes and the most names: both are numbered by 16 bits in events.
pub const MOST_LANES: u32 = 1 << 16;

/// The fact that is no file's: what is wrong with the one that was read.
pub(crate) const DAMAGE: &str = "damage";

/// The kinds of chunks.
pub(crate) mod chunk {
    pub(crate) const CLOCK: u32 = 1;
    pub(crate) const NAME: u32 = 2;
    pub(crate) const LANE: u32 = 3;
    pub(crate) const EVENTS: u32 = 4;
    pub(crate) const END: u32 = 5;
    pub(crate) const PLACE: u32 = 6;
    pub(crate) const FACT: u32 = 7;
    pub(crate) const HEADER: usize = 12;

    /// The checksum of a chunk: of its kind, its length and its payload.
    pub(crate) fn checksum(kind: u32, payload: &[u8]) -> u32 {
        let length = payload.len() as u32;
        super::crc::crc32(&[&kind.to_le_bytes(), &length.to_le_bytes(), payload])
    }
}

/// What is wrong with a file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// The byte, counted from 0, from which on the file is of no use.
    pub offset: u64,
    /// What is wrong there.
    pub what: String,
    /// Nothing is wrong but that the file is not whole: its writer was cut off, or still writes.
    pub cut: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "byte {}: {}", self.offset, self.what)
    }
}

/// Why a trace could not be read.
#[derive(Debug)]
#[non_exhaustive]
pub enum LoadError {
    /// The system could not read the file.
    Io(io::Error),
    /// The file is no trace, or of a version that this program does not know: nothing in it is of use.
    Foreign(Damage),
    /// The file is cut short or damaged. What comes before can be had from [`Trace::load_damaged`].
    ///
    /// [`Trace::load_damaged`]: crate::Trace::load_damaged
    Damaged(Damage),
}

impl fmt::Display for LoadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LoadError::Io(error) => error.fmt(f),
            LoadError::Foreign(damage) | LoadError::Damaged(damage) => damage.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            LoadError::Io(error) => Some(error),
            _ => None,
        }
    }
}

impl From<io::Error> for LoadError {
    fn from(error: io::Error) -> LoadError {
        LoadError::Io(error)
    }
}

#[cfg(test)]
mod tests;
