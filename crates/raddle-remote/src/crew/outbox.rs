//! What is on its way to a worker: sent at once as far as the socket takes it, the rest when there is room.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};

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
}

impl Outbox {
    /// Sends these after what is there; true if from now on somebody has to tell when there is room. An error is none of the
    /// caller's: it shows at the other end of the socket.
    pub(crate) fn send(&self, to: &OwnedFd, parts: impl IntoIterator<Item = Part>) -> bool {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        queue.parts.extend(parts);
        if queue.waits {
            return false;
        }
        queue.drain(to);
        queue.waits = !queue.parts.is_empty();
        queue.waits
    }

    /// There may be room; true if from now on nobody needs to tell.
    pub(crate) fn resume(&self, to: &OwnedFd) -> bool {
        let mut queue = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if !queue.waits {
            return false;
        }
        queue.drain(to);
        queue.waits = !queue.parts.is_empty();
        !queue.waits
    }
}

impl Queue {
    fn drain(&mut self, to: &OwnedFd) {
        if drain(&mut self.parts, to).is_err() {
            self.parts.clear();
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
