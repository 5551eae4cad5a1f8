//! What is on its way to a worker: sent at once as far as the socket takes it, the rest when there is room.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::os::socket;

/// Bytes that somebody has, and a descriptor that goes with the first of them.
pub(crate) struct Part {
    bytes: Arc<dyn AsRef<[u8]> + Send + Sync>,
    sent: usize,
    fd: Option<OwnedFd>,
}

impl Part {
    pub(crate) fn new(bytes: Arc<dyn AsRef<[u8]> + Send + Sync>) -> Part {
        Part { bytes, sent: 0, fd: None }
    }

    pub(crate) fn of(bytes: Vec<u8>) -> Part {
        Part::new(Arc::new(bytes))
    }

    pub(crate) fn with(self, fd: OwnedFd) -> Part {
        Part { fd: Some(fd), ..self }
    }

    pub(crate) fn len(&self) -> usize {
        self.rest().len()
    }

    fn rest(&self) -> &[u8] {
        &(*self.bytes).as_ref()[self.sent..]
    }
}

#[derive(Default)]
pub(crate) struct Outbox(Mutex<Queue>);

#[derive(Default)]
struct Queue {
    parts: VecDeque<Part>,
    /// Somebody tells when there is room.
    waits: bool,
    /// Nobody is told of what comes by the socket.
    muted: bool,
}

impl Outbox {
    /// Sends these after what is there. An error is none of the caller's: it shows at the other end of the socket.
    ///
    /// `watch` is called if from now on somebody has to tell when there is room, or nobody needs to any more; under the lock, so
    /// that the last call is what holds.
    pub(crate) fn send(
        &self,
        to: &OwnedFd,
        parts: impl IntoIterator<Item = Part>,
        watch: impl FnOnce(bool),
    ) {
        let mut queue = self.queue();
        queue.parts.extend(parts);
        if !queue.waits {
            queue.drain(to, watch);
        }
    }

    /// There may be room.
    pub(crate) fn resume(&self, to: &OwnedFd, watch: impl FnOnce(bool)) {
        let mut queue = self.queue();
        if queue.waits {
            queue.drain(to, watch);
        }
    }

    /// Calls `watch` with what holds.
    pub(crate) fn again(&self, watch: impl FnOnce(bool)) {
        let mut queue = self.queue();
        queue.muted = false;
        watch(queue.waits);
    }

    /// Calls `mute`, if that is not done and nobody waits for room: it has that told as well.
    pub(crate) fn mute(&self, mute: impl FnOnce()) {
        let mut queue = self.queue();
        if !queue.muted && !queue.waits {
            queue.muted = true;
            mute();
        }
    }

    /// Calls `watch` with what holds, if it is muted.
    pub(crate) fn unmute(&self, watch: impl FnOnce(bool)) {
        let mut queue = self.queue();
        if std::mem::take(&mut queue.muted) {
            watch(queue.waits);
        }
    }

    pub(crate) fn is_muted(&self) -> bool {
        self.queue().muted
    }

    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Queue {
    fn drain(&mut self, to: &OwnedFd, watch: impl FnOnce(bool)) {
        if let Err(error) = drain(&mut self.parts, to) {
            self.parts.clear();
            // If it is not that the other end has gone: half a frame, or a call, has got lost, so no more is said there, which both ends see.
            if !matches!(error.kind(), io::ErrorKind::BrokenPipe | io::ErrorKind::ConnectionReset) {
                socket::say_no_more(to);
            }
        }
        let waits = !self.parts.is_empty();
        if std::mem::replace(&mut self.waits, waits) != waits {
            self.muted = false;
            watch(waits);
        }
    }
}

/// Sends what there is room for.
fn drain(queue: &mut VecDeque<Part>, to: &OwnedFd) -> io::Result<()> {
    while let Some(first) = queue.front() {
        let fd = first.fd.as_ref().map(AsFd::as_fd);
        let mut slices = [IoSlice::new(&[]); 8];
        let mut used = 0;
        for (index, part) in queue.iter().enumerate().take(slices.len()) {
            // A descriptor goes with the first byte of a message.
            if index > 0 && part.fd.is_some() {
                break;
            }
            slices[index] = IoSlice::new(part.rest());
            used += 1;
        }
        let sent = match socket::send(to, &slices[..used], fd, false) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
            sent => sent?,
        };
        advance(queue, sent);
    }
    Ok(())
}

fn advance(queue: &mut VecDeque<Part>, mut sent: usize) {
    while let Some(part) = queue.front_mut() {
        part.fd = None;
        let rest = part.rest().len();
        if sent < rest {
            part.sent += sent;
            return;
        }
        sent -= rest;
        queue.pop_front();
        if sent == 0 && queue.front().is_none_or(|part| part.fd.is_some()) {
            return;
        }
    }
}
