//! The side of a worker: a process that another one of this program has started, and that never leaves [`init`](crate::init).
//!
//! | thread | what it does |
//! |---|---|
//! | main | takes frames and runs calls: [`serve`] |
//! | guard | ends all when the driver is gone, and takes interrupts: [`guard`] |
//!
//! # Invariants
//!
//! - **W1** The socket is inherited, and was made by the parent: nobody else can speak to a worker.
//! - **W2** Before code of the user's runs, the token is gone from the environment, and all descriptors but 0, 1, 2 and the
//!   worker's own are closed.
//! - **W3** A worker leads a process group, and what it starts is in it unless it takes pains: so it ends as one.

mod guard;
mod serve;

use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::os::fd::{AsRawFd, OwnedFd};
use std::process::exit;

pub(crate) use self::serve::nested;
use crate::env::Env;
use crate::error::RemoteError;
use crate::frame::{Frames, Header, Kind, Payload, ROOM};
use crate::image::{self, Image};
use crate::message::{Build, Failed, Hello, MAGIC, Ready, VERSION};
use crate::os::{self, poll, process, socket};
use crate::plan::Plan;
use crate::{arg, entry};

/// The variable whose presence makes a process a worker.
pub(crate) const TOKEN: &str = "RADDLE_REMOTE_WORKER";

/// Whether this process was started to be a worker.
pub(crate) fn is_wanted() -> bool {
    env::var_os(TOKEN).is_some()
}

/// What a program exits with that was started as a worker and cannot be one.
const NO_WORKER: i32 = 113;

/// Which build this is, seen as another process's.
pub(crate) fn build(copied: bool) -> std::io::Result<Build> {
    let file = if copied { image::file_hash()? } else { image::file_identity()? };
    Ok(Build { id: Image::get().build_id(), file, copied })
}

/// A worker's end of the sockets.
struct Link {
    socket: OwnedFd,
    frames: Frames,
    /// What came along with frames that were not taken yet.
    fds: Vec<OwnedFd>,
}

impl Link {
    /// Waits for the next frame; none when the driver has gone.
    fn next(&mut self) -> Result<Option<(Header, Payload)>, RemoteError> {
        let wrong = |error: &dyn std::fmt::Display| RemoteError::Protocol(error.to_string());
        loop {
            if let Some(frame) = self.frames.next().map_err(|damage| wrong(&damage))? {
                return Ok(Some(frame));
            }
            let Link { socket, frames, fds } = self;
            // One who waits in `recvmsg` is woken as well when the other end has read what was sent there.
            poll::poll_soon([(socket.as_raw_fd(), libc::POLLIN)]).map_err(|error| wrong(&error))?;
            let read = frames.fill(|to| socket::receive(socket, to, fds));
            if read.map_err(|error| wrong(&error))?.0 == 0 {
                return Ok(None);
            }
        }
    }

    /// The descriptor that came with a frame.
    fn take_fd(&mut self, header: Header) -> Option<OwnedFd> {
        (header.fds == 1 && !self.fds.is_empty()).then(|| self.fds.remove(0))
    }
}

/// What this process does if it [is wanted](is_wanted).
pub(crate) fn main() -> ! {
    // SAFETY: first in `main`, so that no other thread reads the environment. (Of tests: the harness's main thread waits.)
    unsafe { env::remove_var(OsStr::new(TOKEN)) };
    match start() {
        Ok((mut link, hello)) => {
            let limit = hello.max_frame;
            let failed = match serve::serve(&mut link, hello) {
                // The driver has gone. The guard is about to see it, and to do the same.
                Ok(()) => guard::end(),
                Err(error) => error,
            };
            if serve::send_failure(0, failed, limit).is_err() {
                // It has gone, too, in the middle of a frame.
                guard::end();
            }
            exit(NO_WORKER)
        }
        Err(why) => {
            raddle_sync::say(format_args!("this process cannot be a worker: {why}"));
            exit(NO_WORKER)
        }
    }
}

fn start() -> Result<(Link, Hello), String> {
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let maker = socket::maker(&0).map_err(|_| {
        format!("{TOKEN} is set, but standard input is no socket; it is for raddle's own use")
    })?;
    if maker != std::os::unix::process::parent_id() as i32 {
        return Err("the socket is not the parent's".to_owned());
    }
    let socket = os::high_copy(0).map_err(|error| wrong(&error))?;
    let null = File::open("/dev/null").map_err(|error| wrong(&error))?;
    os::copy_to(&null, 0).map_err(|error| wrong(&error))?;
    drop(null);
    os::close_others(&mut [socket.as_raw_fd()]);
    process::default_signals();
    let parent = process::open(maker as u32).map_err(|error| wrong(&error))?;
    let mut link = Link { socket, frames: Frames::new(1 << 20), fds: Vec::new() };
    let (header, payload) =
        link.next().map_err(|error| wrong(&error))?.ok_or("the parent has gone")?;
    let control = link.take_fd(header).ok_or("the second socket is missing")?;
    serve::open(&link.socket).map_err(|error| wrong(&error))?;
    let hello = match greet(header, &payload) {
        Ok(hello) => hello,
        Err(failed) => {
            // How much the driver takes is not known: no more than it does in any case.
            let _ = serve::send_failure(0, failed, ROOM / 2);
            exit(NO_WORKER)
        }
    };
    link.frames = Frames::new(hello.max_frame + ROOM);
    // W3, where it is not the driver who ends it.
    if hello.mourner && process::leads_group() {
        process::leave_mourner().map_err(|error| wrong(&error))?;
    }
    guard::start(&link.socket, control, parent).map_err(|error| wrong(&error))?;
    prepare(&hello).unwrap_or_else(|failed| {
        let _ = serve::send_failure(0, failed, hello.max_frame);
        exit(NO_WORKER)
    });
    Ok((link, hello))
}

/// Whether the driver is one to work for.
fn greet(header: Header, payload: &[u8]) -> Result<Hello, Failed> {
    let hello: Hello = match arg::decode(payload) {
        Ok(hello) if header.kind == Kind::Hello => hello,
        _ => return Err(Failed::BuildMismatch("another version of its protocol".to_owned())),
    };
    if (hello.magic, hello.version) != (MAGIC, VERSION) {
        return Err(Failed::BuildMismatch(format!("its protocol is not version {VERSION}")));
    }
    let own = build(hello.build.copied).map_err(|error| Failed::Start(error.to_string()))?;
    if own != hello.build {
        let hex = |id: &[u8]| id.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        let (one, other) = (hex(&hello.build.id), hex(&own.id));
        return Err(Failed::BuildMismatch(if one == other {
            format!("its build id is {other} too, but the file differs")
        } else {
            format!("its build id is {other}, not {one}")
        }));
    }
    Ok(hello)
}

fn prepare(hello: &Hello) -> Result<(), Failed> {
    if let Some(limit) = hello.memory_limit {
        process::limit_memory(limit).map_err(|error| Failed::Start(error.to_string()))?;
    }
    crate::init::set_done();
    serve::record_panics();
    let nested = Env::new(Plan::from(hello.nested.clone()));
    let nested = nested.map_err(|error| Failed::Start(format!("the nested plan: {error}")))?;
    serve::set_nested(nested);
    if let Some(hook) = hello.on_start {
        let called = std::panic::catch_unwind(|| entry::run_hook(hook));
        match called {
            Ok(Ok(())) => {}
            Ok(Err(error)) => return Err(Failed::Protocol(error.to_string())),
            Err(_) => return Err(Failed::Start("on_worker_start panicked".to_owned())),
        }
    }
    let ready = Ready { pid: std::process::id(), host: process::host() };
    serve::send(Kind::Ready, 0, &ready).map_err(|error| Failed::Start(error.to_string()))
}
