//! What leads to one process: its sockets, its output, its end; and whose turn it is to read them.
//!
//! | bit | event | who tells |
//! |---|---|---|
//! | [`SOCKET`] | frames have come, or there is room for more | the worker |
//! | [`STDOUT`], [`STDERR`] | output has come | the task |
//! | [`ENDED`] | the process has ended | the kernel, by its descriptor |
//!
//! # Invariants
//!
//! - **C1** One thread at a time has the turn; an event that comes meanwhile is left to it. So nobody waits for whoever
//!   reads, who may call hooks of the user's.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::Crew;
use super::outbox::{Outbox, Part};
use crate::frame::{Frames, Kind, whole};
use crate::os::poll::{self, Bell, Epoll};
use crate::os::{process, socket};

pub(crate) const SOCKET: u32 = 1;
pub(crate) const STDOUT: u32 = 2;
pub(crate) const STDERR: u32 = 4;
pub(crate) const ENDED: u32 = 8;
const TAKEN: u32 = 1 << 31;

/// The key of an event: the process's number, and the bit's.
pub(crate) fn key(number: u64, bit: u32) -> u64 {
    number << 2 | u64::from(bit.trailing_zeros())
}

/// The other way round.
pub(crate) fn of_key(key: u64) -> (u64, u32) {
    (key >> 2, 1 << (key & 3))
}

/// One process, as this one sees it.
pub(crate) struct Conduit {
    pub(crate) number: u64,
    pub(crate) pid: u32,
    pub(crate) process: OwnedFd,
    pub(crate) socket: OwnedFd,
    /// For what a worker takes while it runs a task.
    pub(crate) control: Option<OwnedFd>,
    pub(crate) stdout: Option<OwnedFd>,
    pub(crate) stderr: Option<OwnedFd>,
    outbox: Outbox,
    turn: AtomicU32,
    /// How often the socket was read.
    reads: AtomicU32,
    io: Mutex<Io>,
}

/// There was something in the socket and no output when the socket had been read so often. What was in the socket is the beginning
/// of the next frame: unless it was read meanwhile, nothing was written before that.
#[derive(Clone, Copy, Default)]
pub(crate) struct Quiet(Option<u32>);

/// What whoever has the turn has.
pub(crate) struct Io {
    pub(crate) frames: Frames,
    /// Of standard error.
    pub(crate) tail: Tail,
    /// The socket has been closed at the other end.
    pub(crate) closed: bool,
}

/// The last of what was written.
#[derive(Debug, Default)]
pub(crate) struct Tail(Vec<u8>);

impl Tail {
    const KEPT: usize = 4 << 10;

    pub(crate) fn add(&mut self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(Tail::KEPT)..];
        let gone = (self.0.len() + bytes.len()).saturating_sub(Tail::KEPT);
        self.0.drain(..gone.min(self.0.len()));
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn take(&mut self) -> String {
        let bytes = std::mem::take(&mut self.0);
        String::from_utf8_lossy(&bytes).into_owned()
    }
}

impl Conduit {
    #[allow(clippy::too_many_arguments, reason = "each is a descriptor of its own")]
    pub(crate) fn new(
        number: u64,
        pid: u32,
        process: OwnedFd,
        socket: OwnedFd,
        control: Option<OwnedFd>,
        stdout: Option<OwnedFd>,
        stderr: Option<OwnedFd>,
        limit: u64,
    ) -> io::Result<Conduit> {
        crate::os::set_nonblocking(&socket)?;
        for fd in [&control, &stdout, &stderr].into_iter().flatten() {
            crate::os::set_nonblocking(fd)?;
        }
        let io = Io { frames: Frames::new(limit), tail: Tail::default(), closed: false };
        let (outbox, turn) = (Outbox::default(), AtomicU32::new(0));
        Ok(Conduit {
            number,
            pid,
            process,
            socket,
            control,
            stdout,
            stderr,
            outbox,
            turn,
            reads: AtomicU32::new(0),
            io: Mutex::new(io),
        })
    }

    /// Has events told.
    pub(crate) fn register(&self, epoll: &Epoll) -> io::Result<()> {
        epoll.add(&self.socket, key(self.number, SOCKET))?;
        for (fd, bit) in [(&self.stdout, STDOUT), (&self.stderr, STDERR)] {
            if let Some(fd) = fd {
                epoll.add(fd, key(self.number, bit))?;
            }
        }
        epoll.add(&self.process, key(self.number, ENDED))
    }

    /// An event has come; true if it is the caller's turn to see to it.
    pub(crate) fn tell(&self, bit: u32) -> bool {
        // ORD: AcqRel: with `next`, the turn goes from thread to thread with all that was done in it.
        self.turn.fetch_or(bit | TAKEN, Ordering::AcqRel) & TAKEN == 0
    }

    /// By whoever has the turn: which events there are; none ends the turn.
    pub(crate) fn next(&self) -> Option<u32> {
        // ORD: as in `tell`.
        let bits = self.turn.swap(TAKEN, Ordering::AcqRel) & !TAKEN;
        if bits != 0 {
            return Some(bits);
        }
        // ORD: as in `tell`.
        match self.turn.compare_exchange(TAKEN, 0, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => None,
            Err(_) => self.next(),
        }
    }

    /// Ends the turn, though there is more to be seen to: of these, and of what was told meanwhile. It is told once more.
    pub(crate) fn leave(&self, epoll: &Epoll, bits: u32) {
        // ORD: as in `tell`.
        let bits = bits | self.turn.swap(0, Ordering::AcqRel);
        if bits & SOCKET != 0 {
            self.outbox.again(|waits| self.watch(epoll, waits));
        }
        for (fd, bit) in [
            (self.stdout.as_ref(), STDOUT),
            (self.stderr.as_ref(), STDERR),
            (Some(&self.process), ENDED),
        ] {
            if let Some(fd) = fd.filter(|_| bits & bit != 0) {
                let _ = epoll.want_room(fd, key(self.number, bit), false);
            }
        }
    }

    /// By whoever has the turn.
    pub(crate) fn io(&self) -> MutexGuard<'_, Io> {
        self.io.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn send(&self, epoll: &Epoll, parts: impl IntoIterator<Item = Part>) {
        self.outbox.send(&self.socket, parts, |waits| self.watch(epoll, waits));
    }

    /// Whether there is output to be read, of both kinds: mostly there is none, and to ask once costs less than to try twice.
    pub(crate) fn has_output(&self) -> bool {
        if self.stdout.is_none() && self.stderr.is_none() {
            return false;
        }
        let fd = |fd: &Option<OwnedFd>| (fd.as_ref().map_or(-1, AsRawFd::as_raw_fd), libc::POLLIN);
        let events = poll::poll([fd(&self.stdout), fd(&self.stderr)], Some(Duration::ZERO));
        events.map_or(true, |events| events != [0, 0])
    }

    /// There may be room for what is left to send.
    pub(crate) fn resume(&self, epoll: &Epoll) {
        self.outbox.resume(&self.socket, |waits| self.watch(epoll, waits));
    }

    fn watch(&self, epoll: &Epoll, waits: bool) {
        let _ = epoll.want_room(&self.socket, key(self.number, SOCKET), waits);
    }

    /// Waits until something has come by the socket; none if the bell is rung before.
    pub(crate) fn wait(&self, bell: &Bell) -> Option<Quiet> {
        let fd = |fd: &Option<OwnedFd>| fd.as_ref().map_or(-1, AsRawFd::as_raw_fd);
        let mut outputs = [fd(&self.stdout), fd(&self.stderr)];
        loop {
            // ORD: see `Quiet`.
            let reads = self.reads.load(Ordering::Relaxed);
            // The system looks at them in this order: what was written before an answer is seen with that, or before.
            let fds = [self.socket.as_raw_fd(), outputs[0], outputs[1], bell.fd().as_raw_fd()];
            let events = poll::poll_soon(fds.map(|fd| (fd, libc::POLLIN))).ok()?;
            match events {
                [0, _, _, 0] => {
                    // Output is the reactor's. It may be a while until that has read it.
                    outputs = [-1, -1];
                }
                [0, ..] => return None,
                [_, 0, 0, _] if outputs == [fd(&self.stdout), fd(&self.stderr)] => {
                    return Some(Quiet(Some(reads)));
                }
                _ => return Some(Quiet::default()),
            }
        }
    }

    /// Whether there is no output that belongs before the frame that is to come next, as far as that is known: by whoever has the
    /// turn.
    pub(crate) fn is_quiet(&self, quiet: Quiet) -> bool {
        // ORD: whoever has read since had the turn before.
        quiet.0 == Some(self.reads.load(Ordering::Relaxed))
    }

    /// Something was read from the socket, by whoever has the turn.
    pub(crate) fn has_read(&self) {
        // ORD: as in `is_quiet`.
        self.reads.fetch_add(1, Ordering::Relaxed);
    }

    /// Has nobody told of what comes by the socket, until `unmute`; of its end they are. (Unless there is something left to send.)
    pub(crate) fn mute(&self, epoll: &Epoll) {
        self.outbox.mute(|| _ = epoll.want_nothing(&self.socket, key(self.number, SOCKET)));
    }

    /// What has come meanwhile and was not read is told.
    pub(crate) fn unmute(&self, epoll: &Epoll) {
        self.outbox.unmute(|waits| self.watch(epoll, waits));
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.outbox.is_muted()
    }

    pub(crate) fn interrupt(&self, attempt: u64) {
        if let Some(control) = &self.control {
            // Sixteen bytes: if there is no room for them, so many have been sent that nobody reads.
            let frame = whole(Kind::Interrupt, attempt, &[]);
            let _ = socket::send(control, &[io::IoSlice::new(&frame)], None, false);
        }
    }

    /// Waits for the end of a process that was killed and of which nobody else hears.
    pub(crate) fn outlive(&self, crew: &Crew) {
        let _ = poll::poll([(self.process.as_raw_fd(), libc::POLLIN)], None);
        // M2
        let _state = crew.state();
        process::reap(&self.process);
    }

    /// Ends the process, and what it has started. Not once we have reaped it: by whoever has the lock under which that is done.
    pub(crate) fn kill(&self) {
        process::end_group(&self.process, self.pid);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tail_is_the_end_of_all() {
        let mut tail = Tail::default();
        let mut all = Vec::new();
        for (index, len) in [1, 5000, 3, 4095, 4096, 0, 17].into_iter().enumerate() {
            let more = vec![b'a' + index as u8; len];
            tail.add(&more);
            all.extend(more);
            assert_eq!(tail.0, all[all.len().saturating_sub(Tail::KEPT)..]);
        }
    }

    #[test]
    fn keys_are_told_apart() {
        for (number, bit) in [(1, SOCKET), (7, STDOUT), (u64::MAX >> 2, ENDED)] {
            assert_eq!(of_key(key(number, bit)), (number, bit));
        }
    }
}
