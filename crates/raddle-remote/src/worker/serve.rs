//! The main thread of a worker: takes calls, and answers.

use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use serde::Serialize;

use super::{Link, guard};
use crate::arg::encode_after;
use crate::context::{Report, Running, TaskInfo};
use crate::env::Env;
use crate::error::RemoteError;
use crate::frame::{HEADER, Header, Kind, ROOM};
use crate::message::{Failed, Hello, Order, Panicked};
use crate::os::{Mapped, process, socket};
use crate::shared;

/// Where answers go: of the main thread, and progress from any.
static ANSWERS: OnceLock<Mutex<OwnedFd>> = OnceLock::new();
/// For what tasks spawn.
static NESTED: OnceLock<Env> = OnceLock::new();
/// The latest panic: its message, and where it was.
static PANIC: Mutex<Option<Panicked>> = Mutex::new(None);

pub(super) fn open(socket: &OwnedFd) -> io::Result<()> {
    let _ = ANSWERS.set(Mutex::new(socket.try_clone()?));
    Ok(())
}

pub(super) fn set_nested(env: Env) {
    let _ = NESTED.set(env);
}

/// The environment for what tasks spawn, if this is a worker.
pub(crate) fn nested() -> Option<Env> {
    NESTED.get().cloned()
}

/// Has panics noted, besides what is done about them.
pub(super) fn record_panics() {
    let before = panic::take_hook();
    panic::set_hook(Box::new(move |info| {
        let message = text_of(info.payload());
        let place = info.location().map(ToString::to_string);
        *PANIC.lock().unwrap_or_else(PoisonError::into_inner) = Some(Panicked { message, place });
        before(info);
    }));
}

/// Sends a frame whose first 16 bytes are room for the header.
fn send_frame(kind: Kind, task: u64, mut bytes: Vec<u8>) -> io::Result<()> {
    let header = Header::new(kind, task, bytes.len() - HEADER);
    bytes[..HEADER].copy_from_slice(&header.bytes());
    let answers = ANSWERS.get().ok_or(io::ErrorKind::NotConnected)?;
    let socket = answers.lock().unwrap_or_else(PoisonError::into_inner);
    socket::send_all(&*socket, &[&bytes])
}

pub(super) fn send(kind: Kind, task: u64, what: &impl Serialize) -> io::Result<()> {
    let bytes = encode_after(vec![0; HEADER], what).map_err(io::Error::other)?;
    send_frame(kind, task, bytes)
}

/// Says what has failed, in a frame that is not too long.
pub(super) fn send_failure(task: u64, failed: impl Into<Failed>, limit: u64) -> io::Result<()> {
    let mut failed = failed.into();
    match &mut failed {
        Failed::Decode { type_name, reason } | Failed::Encode { type_name, reason } => {
            cut(type_name, NAME);
            cut(reason, limit);
        }
        Failed::BuildMismatch(text) | Failed::Protocol(text) | Failed::Start(text) => {
            cut(text, limit);
        }
        Failed::TooLarge { .. } => {}
    }
    send(Kind::Failed, task, &failed)
}

/// Of the name of a type or a place no more is told.
const NAME: u64 = ROOM / 2;

/// Leaves so many bytes of a text at most.
fn cut(text: &mut String, most: u64) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    if text.len() > most {
        let end = (0..=most).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
        text.truncate(end);
    }
}

impl From<RemoteError> for Failed {
    fn from(error: RemoteError) -> Failed {
        match error {
            RemoteError::Decode { type_name, reason } => Failed::Decode { type_name, reason },
            RemoteError::Encode { type_name, reason } => Failed::Encode { type_name, reason },
            RemoteError::TooLarge { len, limit } => Failed::TooLarge { len, limit },
            RemoteError::BuildMismatch(text) => Failed::BuildMismatch(text),
            RemoteError::Protocol(text) => Failed::Protocol(text),
            other => Failed::Start(other.to_string()),
        }
    }
}

/// Takes frames until the driver has gone.
pub(super) fn serve(link: &mut Link, hello: Hello) -> Result<(), RemoteError> {
    let own = std::process::id();
    let report: Report = Arc::new(move |info, progress| {
        // A child that the task has forked does not speak for it, nor into the midst of what its parent says; and a thread that is not
        // there may have the lock.
        if std::process::id() == own {
            let _ = send(Kind::Progress, attempt_of(info), &progress);
        }
    });
    while let Some((header, payload)) = link.next()? {
        match header.kind {
            Kind::Call => call(header.task, &payload, &hello, &report, own)?,
            Kind::Share => {
                let bytes = match link.take_fd(header) {
                    Some(fd) => {
                        let len = payload.first_chunk().map_or(0, |len| u64::from_le_bytes(*len));
                        let mapped = Mapped::new(&fd, len as usize);
                        shared::Bytes::Mapped(mapped.map_err(|error| {
                            RemoteError::Protocol(format!("shared memory: {error}"))
                        })?)
                    }
                    None if header.fds != 0 => {
                        let why = "shared memory came without its descriptor";
                        return Err(RemoteError::Protocol(why.to_owned()));
                    }
                    None => shared::Bytes::Own(payload.to_vec()),
                };
                shared::keep(header.task, bytes);
            }
            Kind::Unshare => shared::forget(header.task),
            Kind::Bye => {
                flush();
                let _ = send(Kind::Bye, 0, &());
                std::process::exit(0);
            }
            other => {
                return Err(RemoteError::Protocol(format!("a worker was sent {other:?}")));
            }
        }
    }
    Ok(())
}

/// The attempt that runs, for progress: there is one at a time.
static ATTEMPT: Mutex<(u64, u64)> = Mutex::new((0, 0));

fn attempt_of(info: &TaskInfo) -> u64 {
    let (id, attempt) = *ATTEMPT.lock().unwrap_or_else(PoisonError::into_inner);
    if id == info.id { attempt } else { 0 }
}

/// Runs a call and answers, as the process `own`.
fn call(
    task: u64,
    payload: &[u8],
    hello: &Hello,
    report: &Report,
    own: u32,
) -> Result<(), RemoteError> {
    let unanswered = |error: io::Error| RemoteError::Protocol(format!("cannot answer: {error}"));
    let (order, args): (Order, &[u8]) = match postcard::take_from_bytes(payload) {
        Ok(read) => read,
        Err(error) => return Err(RemoteError::Protocol(format!("a call: {error}"))),
    };
    *ATTEMPT.lock().unwrap_or_else(PoisonError::into_inner) = (order.id, task);
    guard::begin(task);
    let Order { call, id, attempt, name, seed } = order;
    let info = TaskInfo { id, attempt, name, worker: hello.worker };
    let running = Running::new(info, seed, Some(Arc::clone(report)));
    let nested = nested().unwrap_or_else(Env::current);
    let result = panic::catch_unwind(AssertUnwindSafe(|| {
        running.run(nested, || call.run(args, vec![0; HEADER]))
    }));
    if std::process::id() != own {
        // A child that the task has forked came back. The sockets are its parent's, and it has no guard. What it has written goes out,
        // but for what Rust keeps of a line: the lock of that may be of a thread that is not here.
        process::flush_c();
        process::exit_at_once(if result.is_err() { 101 } else { 0 });
    }
    guard::begin(0);
    flush();
    let limit = hello.max_frame;
    let sent = match result {
        Ok(Ok(bytes)) => match (bytes.len() - HEADER) as u64 {
            len if len > limit => send_failure(task, RemoteError::TooLarge { len, limit }, limit),
            _ => send_frame(Kind::Done, task, bytes),
        },
        Ok(Err(error)) => send_failure(task, error, limit),
        Err(payload) => {
            let message = text_of(&*payload);
            // A payload's own drop may panic, and is none of ours.
            std::mem::forget(payload);
            let mut panicked = panicked(message);
            panicked.message.iter_mut().for_each(|message| cut(message, limit));
            panicked.place.iter_mut().for_each(|place| cut(place, NAME));
            send(Kind::Panicked, task, &panicked)
        }
    };
    sent.map_err(unanswered)
}

fn text_of(payload: &dyn std::any::Any) -> Option<String> {
    let text = payload.downcast_ref::<&'static str>().map(|text| (*text).to_owned());
    text.or_else(|| payload.downcast_ref::<String>().cloned())
}

/// A panic as it is told: with its place, if it is the latest that was seen.
fn panicked(message: Option<String>) -> Panicked {
    let seen = PANIC.lock().unwrap_or_else(PoisonError::into_inner).take();
    let place = seen.filter(|seen| seen.message == message).and_then(|seen| seen.place);
    Panicked { message, place }
}

/// Writes out what the task has written, before it is said to be over.
fn flush() {
    let _ = io::stdout().flush();
    process::flush_c();
}
