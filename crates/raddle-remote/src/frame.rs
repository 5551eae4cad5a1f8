//! Frames: what goes over the socket between a driver and a worker.
//!
//! A header of 16 bytes, little-endian, and a payload:
//!
//! | bytes | what |
//! |---|---|
//! | 0..4 | `len`: how long the payload is |
//! | 4 | the [`Kind`] |
//! | 5 | flags: none yet |
//! | 6..8 | `fds`: how many descriptors came along |
//! | 8..16 | `task`: which attempt at which task it is about, a number that is never used again |
//!
//! # Invariants
//!
//! - **R1** A length is compared with the limit before memory is taken for it, and memory is taken as bytes come, not as
//!   the length says.

use std::io;
use std::ops::Deref;

/// How long a header is.
pub(crate) const HEADER: usize = 16;
/// What there is in a frame at most besides what [`Plan::max_frame`](crate::Plan::max_frame) limits.
pub(crate) const ROOM: u64 = 2 << 10;
/// So much is read at once, of a long frame: what a socket holds by default, and some.
const CHUNK: usize = 256 << 10;
/// So much is read at once otherwise: most frames are short.
const SMALL: usize = 4 << 10;

/// What a frame says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    // To a worker.
    Hello = 1,
    Call = 2,
    Interrupt = 3,
    Share = 4,
    Unshare = 5,
    Bye = 6,
    // And back, as BYE is.
    Ready = 16,
    Done = 17,
    Panicked = 18,
    Failed = 19,
    Progress = 20,
    Out = 21,
    // Between driver and bridge, where `task` names the worker.
    Start = 32,
    Data = 33,
    Kill = 34,
    Control = 35,
    Gone = 36,
    Up = 37,
    Error = 38,
}

impl Kind {
    fn of(byte: u8) -> Option<Kind> {
        use Kind::*;
        const ALL: [Kind; 19] = [
            Hello, Call, Interrupt, Share, Unshare, Bye, Ready, Done, Panicked, Failed, Progress,
            Out, Start, Data, Kill, Control, Gone, Up, Error,
        ];
        ALL.into_iter().find(|&kind| kind as u8 == byte)
    }
}

/// The first 16 bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) len: u32,
    pub(crate) kind: Kind,
    pub(crate) fds: u16,
    pub(crate) task: u64,
}

impl Header {
    pub(crate) fn new(kind: Kind, task: u64, len: usize) -> Header {
        // Longer ones are refused before: see `check`.
        Header { len: len as u32, kind, fds: 0, task }
    }

    pub(crate) fn bytes(self) -> [u8; HEADER] {
        let mut bytes = [0; HEADER];
        bytes[0..4].copy_from_slice(&self.len.to_le_bytes());
        bytes[4] = self.kind as u8;
        bytes[6..8].copy_from_slice(&self.fds.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.task.to_le_bytes());
        bytes
    }

    pub(crate) fn parse(bytes: &[u8; HEADER], limit: u64) -> Result<Header, Damage> {
        let [l0, l1, l2, l3, kind, flags, f0, f1, task @ ..] = *bytes;
        let len = u32::from_le_bytes([l0, l1, l2, l3]);
        let kind = Kind::of(kind).ok_or(Damage::Kind(kind))?;
        if flags != 0 {
            return Err(Damage::Flags(flags));
        }
        if u64::from(len) > limit {
            return Err(Damage::Length { len, limit });
        }
        let fds = u16::from_le_bytes([f0, f1]);
        Ok(Header { len, kind, fds, task: u64::from_le_bytes(task) })
    }
}

/// What is wrong with what came.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Damage {
    #[error("there is no frame of kind {0}")]
    Kind(u8),
    #[error("unknown flags {0:#x}")]
    Flags(u8),
    #[error("a frame of {len} bytes, where {limit} are allowed")]
    Length { len: u32, limit: u64 },
}

/// A whole frame in one piece, for what is short.
pub(crate) fn whole(kind: Kind, task: u64, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(HEADER + payload.len());
    bytes.extend_from_slice(&Header::new(kind, task, payload.len()).bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A payload, where it was received.
#[derive(Debug)]
pub(crate) struct Payload {
    bytes: Vec<u8>,
    start: usize,
}

impl Deref for Payload {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[self.start..]
    }
}

/// Puts frames together from what comes.
#[derive(Debug)]
pub(crate) struct Frames {
    /// What has come and was not taken yet: from `start` on.
    bytes: Vec<u8>,
    start: usize,
    limit: u64,
}

impl Frames {
    /// Refuses frames whose payload is longer than that.
    pub(crate) fn new(limit: u64) -> Frames {
        Frames { bytes: Vec::new(), start: 0, limit }
    }

    /// Adds bytes.
    pub(crate) fn feed(&mut self, bytes: &[u8]) {
        self.compact();
        self.bytes.extend_from_slice(bytes);
    }

    /// Adds what one call of `read` gives; returns how much that was and whether it could have been more.
    pub(crate) fn fill(
        &mut self,
        read: impl FnOnce(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<(usize, bool)> {
        self.compact();
        let len = self.bytes.len();
        // R1. What is read into is made zero before: more would be so in vain.
        let room = self.missing().clamp(SMALL, CHUNK);
        self.bytes.resize(len + room, 0);
        let read = read(&mut self.bytes[len..]);
        self.bytes.truncate(len + read.as_ref().map_or(0, |read| *read));
        read.map(|read| (read, read == room))
    }

    /// How much is missing of the frame that has begun.
    fn missing(&self) -> usize {
        match self.header() {
            Ok(Some(header)) => (HEADER + header.len as usize).saturating_sub(self.rest().len()),
            _ => 0,
        }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.start..]
    }

    fn header(&self) -> Result<Option<Header>, Damage> {
        match self.rest().first_chunk() {
            Some(bytes) => Header::parse(bytes, self.limit).map(Some),
            None => Ok(None),
        }
    }

    fn compact(&mut self) {
        if self.start == self.bytes.len() {
            self.bytes.clear();
        } else {
            self.bytes.drain(..self.start);
        }
        self.start = 0;
    }

    /// Takes the next frame, if all of it is there. After an error nothing that follows means anything.
    pub(crate) fn next(&mut self) -> Result<Option<(Header, Payload)>, Damage> {
        let Some(header) = self.header()? else { return Ok(None) };
        let start = self.start + HEADER;
        let end = start + header.len as usize;
        if end > self.bytes.len() {
            return Ok(None);
        }
        let payload = if end == self.bytes.len() && end - start > CHUNK {
            self.start = 0;
            Payload { bytes: std::mem::take(&mut self.bytes), start }
        } else {
            self.start = end;
            Payload { bytes: self.bytes[start..end].to_vec(), start: 0 }
        };
        Ok(Some((header, payload)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(frames: &mut Frames) -> Result<Vec<(Kind, u64, Vec<u8>)>, Damage> {
        let mut found = Vec::new();
        while let Some((header, payload)) = frames.next()? {
            found.push((header.kind, header.task, payload.to_vec()));
        }
        Ok(found)
    }

    #[test]
    fn a_length_that_lies_takes_no_memory() {
        let mut frames = Frames::new(u64::from(u32::MAX));
        frames.feed(&Header::new(Kind::Done, 1, u32::MAX as usize).bytes());
        frames.feed(&[0; 100]);
        assert!(all(&mut frames).unwrap().is_empty());
        let mut read = 0;
        for _ in 0..10 {
            let (more, _) = frames
                .fill(|to| {
                    to.fill(1);
                    Ok(to.len())
                })
                .unwrap();
            read += more;
        }
        assert!(frames.bytes.capacity() < 8 * (read + CHUNK), "{}", frames.bytes.capacity());
    }

    #[test]
    fn what_is_longer_than_allowed_is_refused_before_it_is_there() {
        let mut frames = Frames::new(1000);
        frames.feed(&Header::new(Kind::Done, 1, 1001).bytes());
        assert_eq!(frames.next().unwrap_err(), Damage::Length { len: 1001, limit: 1000 });
    }

    fn some_frame() -> impl Strategy<Value = (Kind, u64, Vec<u8>)> {
        let kind =
            prop_oneof![Just(Kind::Call), Just(Kind::Done), Just(Kind::Out), Just(Kind::Bye)];
        (
            kind,
            any::<u64>(),
            prop_oneof![
                9 => proptest::collection::vec(any::<u8>(), 0..300),
                1 => (0..200_000_usize).prop_map(|len| vec![7; len]),
            ],
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        #[test]
        fn frames_come_as_they_went_in_whatever_pieces(
            sent in proptest::collection::vec(some_frame(), 0..8),
            cuts in proptest::collection::vec(1_usize..5000, 1..50),
        ) {
            let mut wire = Vec::new();
            for (kind, task, payload) in &sent {
                wire.extend(whole(*kind, *task, payload));
            }
            let mut frames = Frames::new(1 << 20);
            let (mut got, mut rest, mut cuts) = (Vec::new(), &wire[..], cuts.iter().cycle());
            while !rest.is_empty() {
                let (now, later) = rest.split_at(rest.len().min(*cuts.next().unwrap()));
                rest = later;
                if now.len() % 2 == 0 {
                    frames.feed(now);
                } else {
                    let mut left = now;
                    while !left.is_empty() {
                        frames.fill(|to| io::Read::read(&mut left, to)).unwrap();
                    }
                }
                got.extend(all(&mut frames).unwrap());
            }
            prop_assert_eq!(got, sent);
            prop_assert!(frames.rest().is_empty());
        }

        #[test]
        fn random_bytes_are_an_error_or_wait_for_more(bytes in proptest::collection::vec(any::<u8>(), 0..500)) {
            let mut frames = Frames::new(1 << 16);
            frames.feed(&bytes);
            let _ = all(&mut frames);
            prop_assert!(frames.bytes.capacity() < 4096);
        }
    }
}
