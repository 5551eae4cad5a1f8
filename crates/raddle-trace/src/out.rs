//! Where pictures are written: in pieces, as a whole one may be several times as large as the file that it is of.

use std::fmt;
use std::io::{self, Write};

/// So much is handed on at once.
const PIECE: usize = 1 << 16;

/// Text or bytes on their way. After a failure the rest goes nowhere, and [`Out::finish`] tells of it.
pub(crate) struct Out<'a> {
    piece: Vec<u8>,
    to: &'a mut dyn Write,
    state: io::Result<()>,
}

impl Out<'_> {
    #[inline]
    pub(crate) fn new(to: &mut dyn Write) -> Out<'_> {
        Out { piece: Vec::with_capacity(2 * PIECE), to, state: Ok(()) }
    }

    #[inline]
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.piece.extend_from_slice(bytes);
        if self.piece.len() >= PIECE {
            self.hand_on();
        }
    }

    #[inline]
    pub(crate) fn push_str(&mut self, text: &str) {
        self.bytes(text.as_bytes());
    }

    #[inline]
    pub(crate) fn push(&mut self, c: char) {
        self.push_str(c.encode_utf8(&mut [0; 4]));
    }

    /// Whether what is written goes nowhere.
    #[inline]
    pub(crate) fn has_failed(&self) -> bool {
        self.state.is_err()
    }

    #[inline]
    fn hand_on(&mut self) {
        if self.state.is_ok() {
            self.state = self.to.write_all(&self.piece);
        }
        self.piece.clear();
    }

    /// Hands on what is left, and has whoever takes it do so, too.
    #[inline]
    pub(crate) fn finish(mut self) -> io::Result<()> {
        self.hand_on();
        self.state?;
        self.to.flush()
    }
}

impl fmt::Write for Out<'_> {
    #[inline]
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.push_str(text);
        Ok(())
    }
}

impl fmt::Debug for Out<'_> {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Out with {} bytes", self.piece.len())
    }
}

/// Hands on to `to` all that `write` writes.
#[inline]
pub(crate) fn written(mut to: impl Write, write: impl FnOnce(&mut Out<'_>)) -> io::Result<()> {
    let mut out = Out::new(&mut to);
    write(&mut out);
    out.finish()
}

/// The same, kept.
#[inline]
pub(crate) fn kept(mut bytes: Vec<u8>, write: impl FnOnce(&mut Out<'_>)) -> Vec<u8> {
    // Memory takes everything.
    let _ = written(&mut bytes, write);
    bytes
}

/// The same, where that is text.
#[inline]
pub(crate) fn kept_text(room: usize, write: impl FnOnce(&mut Out<'_>)) -> String {
    match String::from_utf8(kept(Vec::with_capacity(room), write)) {
        Ok(text) => text,
        Err(_) => unreachable!("pieces of text are text"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_arrives_in_its_order() {
        let line = |n: usize| format!("{n} é\n");
        let text = kept_text(0, |out| (0..30_000).for_each(|n| out.push_str(&line(n))));
        assert!(text.len() > 3 * PIECE);
        assert_eq!(text, (0..30_000).map(line).collect::<String>());
    }

    #[test]
    fn after_a_failure_nothing_more_is_written() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                self.0 += 1;
                if self.0 < 3 { Ok(bytes.len()) } else { Err(io::ErrorKind::StorageFull.into()) }
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        let mut full = Full(0);
        let mut out = Out::new(&mut full);
        (0..10).for_each(|_| out.bytes(&[7; PIECE]));
        assert!(out.has_failed());
        assert_eq!(out.finish().unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(full.0, 3);
    }

    #[test]
    fn what_fails_last_of_all_is_told() {
        struct Holds;
        impl Write for Holds {
            fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
                Ok(bytes.len())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::StorageFull.into())
            }
        }
        let told = Out::new(&mut Holds).finish();
        assert_eq!(told.unwrap_err().kind(), io::ErrorKind::StorageFull);
    }
}
