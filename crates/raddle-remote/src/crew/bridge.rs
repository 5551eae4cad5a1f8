//! The bridge: a Python process that this one starts and that passes frames on to slots, on a cluster of Ray or, as loopback,
//! on this machine.
//!
//! A slot holds one worker at a time. To a crew it is a worker like others, whose frames come wrapped: `task` of the outer
//! header is the worker's number. The bridge's program is `slot.py` and `bridge.py`; it comes along in this one.

use std::collections::HashMap;
use std::io::{ErrorKind, IoSlice};
use std::net::{TcpStream, ToSocketAddrs};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::conduit::{Conduit, ENDED, Io, SOCKET, STDERR, Tail};
use super::hear::MOST_READS;
use super::outbox::Part;
use super::task::Completion;
use super::{Crew, launch};
use crate::error::{RemoteError, Status};
use crate::frame::{Frames, Header, Kind, Payload, ROOM, whole};
use crate::init;
use crate::message::Build;
use crate::os::{self, poll, process, socket};
use crate::plan::{Engine, Output, Plan, Settings, Stream};

const PROGRAM: &str = concat!(include_str!("slot.py"), "\n\n", include_str!("bridge.py"));

pub(crate) struct Bridge {
    pub(super) conduit: Arc<Conduit>,
    /// What has come of each worker: looked at by whoever has the conduit's turn.
    workers: Mutex<HashMap<u64, Heard>>,
}

/// What has come of a worker, and was not taken yet.
struct Heard {
    frames: Frames,
    tail: Tail,
}

/// A worker that is reached through a bridge; through no other once that is lost.
#[derive(Clone)]
pub(crate) struct Remote {
    worker: u64,
    bridge: Arc<Bridge>,
}

pub(super) fn engine(what: impl std::fmt::Display) -> RemoteError {
    RemoteError::Engine(what.to_string())
}

impl Bridge {
    /// Starts a bridge and waits until it has reached the engine; says how many slots there are, too. `begun` is shown what leads
    /// to the process: whoever shuts its socket ends the wait.
    pub(super) fn start(
        plan: &Plan,
        build: &Build,
        number: u64,
        begun: impl FnOnce(&Arc<Conduit>),
    ) -> Result<(Bridge, usize), RemoteError> {
        let settings = &plan.settings;
        let arguments = init::arguments().ok_or(RemoteError::NotInitialised)?;
        let deadline = Instant::now().checked_add(settings.start_timeout);
        if let Engine::Ray(address) = &settings.engine {
            probe(address, deadline)?;
        }
        let (ours, theirs) = socket::pair()?;
        let python = settings.python.as_deref().unwrap_or("python3");
        let mut command = Command::new(python);
        command.args(["-c", PROGRAM]).process_group(0).stdin(Stdio::from(theirs));
        let is_here = matches!(settings.engine, Engine::Loopback(_));
        // What the bridge itself says goes the same way then, and is no part of errors.
        if !(is_here && settings.output == Output::Inherit) {
            command.stdout(Stdio::null()).stderr(Stdio::piped());
        }
        let mut child =
            command.spawn().map_err(|error| engine(format!("cannot start {python}: {error}")))?;
        // It has a copy of the bridge's end of the socket, of which nobody would see then that it is closed.
        drop(command);
        let pid = child.id();
        let stderr = child.stderr.take().map(OwnedFd::from);
        let limit = (settings.max_frame + (1 << 20)).min(u64::from(u32::MAX));
        let told = config(settings, build, arguments);
        let conduit = process::open(pid).and_then(|process| {
            Conduit::new(number, pid, process, ours, None, None, stderr, limit)
        });
        let conduit = Arc::new(conduit.inspect_err(|_| launch::end(child))?);
        begun(&conduit);
        let told = whole(Kind::Start, 0, &told);
        match up(&conduit, &told, deadline, settings.start_timeout) {
            Ok(width) => Ok((Bridge { conduit, workers: Mutex::default() }, width)),
            Err(error) => {
                // Nobody else knows the number of the process.
                conduit.kill();
                let ended = poll::poll([(conduit.process.as_raw_fd(), libc::POLLIN)], None);
                drop(ended.map(|_| process::reap(&conduit.process)));
                Err(error)
            }
        }
    }

    /// Has the bridge end itself and all that it holds; it is waited for.
    pub(super) fn stop(&self, crew: &Crew) {
        // At the end of its input it goes, whatever it is doing.
        socket::shut(&self.conduit.socket);
        let ended = [(self.conduit.process.as_raw_fd(), libc::POLLIN)];
        if !poll::poll(ended, Some(Duration::from_secs(5))).is_ok_and(|[events]| events != 0) {
            return self.end(crew);
        }
        let state = crew.state();
        process::reap(&self.conduit.process);
        drop(state);
    }

    /// Kills it, if it is there, and what is in its group, and waits for its end.
    pub(super) fn end(&self, crew: &Crew) {
        // M2
        let state = crew.state();
        self.conduit.kill();
        drop(state);
        self.conduit.outlive(crew);
    }
}

/// What the bridge is told at first: texts, each ended by a zero.
fn config(settings: &Settings, build: &Build, arguments: &[&str]) -> Vec<u8> {
    let mut told = Vec::new();
    let mut tell = |key: &str, value: &str| {
        told.extend_from_slice(key.as_bytes());
        told.push(b'=');
        told.extend(value.bytes().filter(|&byte| byte != 0));
        told.push(0);
    };
    match &settings.engine {
        Engine::Ray(address) => tell("address", address),
        Engine::Loopback(slots) => tell("loopback", &slots.to_string()),
        _ => {}
    }
    if let Some(workers) = settings.workers {
        tell("workers", &workers.to_string());
    }
    tell("program", &format!("/proc/{}/exe", std::process::id()));
    // Names of files in memory have 249 bytes at most.
    let id: String = build.id.iter().take(64).map(|byte| format!("{byte:02x}")).collect();
    tell("build", &format!("raddle-{:016x}-{id}", build.file));
    let name = std::env::args_os().next().unwrap_or_else(|| "raddle".into());
    tell("arg", &name.to_string_lossy());
    for argument in arguments {
        tell("arg", argument);
    }
    for (key, value) in &settings.env {
        tell("env", &format!("{key}={value}"));
    }
    for (name, amount) in &settings.resources {
        tell("resource", &format!("{name}={amount}"));
    }
    if settings.output == Output::Inherit {
        tell("inherit", "1");
    }
    tell("token", crate::worker::TOKEN);
    told
}

/// Whether anybody listens there: Ray itself tries for minutes.
fn probe(address: &str, deadline: Option<Instant>) -> Result<(), RemoteError> {
    let (host, port) = match address.rsplit_once(':') {
        Some(parts) => parts,
        None if address == "auto" => return Ok(()),
        None => return Err(engine(format!("'{address}' is neither auto nor HOST:PORT"))),
    };
    let port: u16 =
        port.parse().map_err(|_| engine(format!("'{address}' is neither auto nor HOST:PORT")))?;
    let found =
        (host, port).to_socket_addrs().map_err(|error| engine(format!("{host}: {error}")))?;
    let mut last = engine(format!("{host} has no address"));
    for one in found {
        match TcpStream::connect_timeout(&one, left(deadline).max(Duration::from_millis(1))) {
            Ok(_) => return Ok(()),
            Err(error) => last = engine(format!("nobody answers at {address}: {error}")),
        }
    }
    Err(last)
}

/// How long it is until then; where that is never, long.
fn left(deadline: Option<Instant>) -> Duration {
    deadline.map_or(Duration::from_secs(1 << 20), |deadline| {
        deadline.saturating_duration_since(Instant::now())
    })
}

/// Tells the bridge what it needs, and waits until it says how many slots there are. It may never read that, which is long where there
/// are many variables.
fn up(
    conduit: &Conduit,
    mut told: &[u8],
    deadline: Option<Instant>,
    limit: Duration,
) -> Result<usize, RemoteError> {
    let mut io = conduit.io();
    let mut stderr = conduit.stderr.as_ref().map_or(-1, AsRawFd::as_raw_fd);
    loop {
        let left = left(deadline);
        if left.is_zero() {
            return Err(engine(format!("no answer within {limit:?}{}", said(conduit, &mut io))));
        }
        let room = if told.is_empty() { 0 } else { libc::POLLOUT };
        let events = poll::poll(
            [
                (conduit.socket.as_raw_fd(), libc::POLLIN | room),
                (conduit.process.as_raw_fd(), libc::POLLIN),
                (stderr, libc::POLLIN),
            ],
            Some(left + Duration::from_millis(1)),
        )?;
        if !told.is_empty() {
            match socket::send(&conduit.socket, &[IoSlice::new(told)], None, false) {
                Ok(sent) => told = &told[sent..],
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // It has gone, as is seen below, where it may have said why.
                Err(_) => told = &[],
            }
        }
        // Who says much waits until that is read.
        read_tail(conduit, &mut io);
        if events[2] & libc::POLLIN == 0 && events[2] != 0 {
            stderr = -1;
        }
        match io.frames.fill(|to| os::read(&conduit.socket, to)) {
            Err(error) if error.kind() == ErrorKind::WouldBlock && events[1] == 0 => {}
            Err(_) | Ok((0, _)) => {
                return Err(engine(format!("the bridge ended{}", said(conduit, &mut io))));
            }
            Ok(_) => {}
        }
        if let Some((header, payload)) = io.frames.next().map_err(engine)? {
            let text = String::from_utf8_lossy(&payload);
            match header.kind {
                Kind::Up => match text.parse() {
                    Ok(width @ 1..) => return Ok(width),
                    _ => return Err(engine("it has no room for a worker")),
                },
                Kind::Error => return Err(engine(text)),
                other => return Err(engine(format!("the bridge sent {other:?}"))),
            }
        }
    }
}

/// What the bridge has said last, for a message.
fn said(conduit: &Conduit, io: &mut Io) -> String {
    read_tail(conduit, io);
    let tail = io.tail.take();
    match tail.trim_end().rsplit('\n').next() {
        Some(last) if !last.is_empty() => format!("; it said: {last}"),
        _ => String::new(),
    }
}

/// Takes what is there; of somebody who does not cease, some: then there may be more.
fn read_tail(conduit: &Conduit, io: &mut Io) -> bool {
    let Some(stderr) = &conduit.stderr else { return false };
    let mut buffer = [0; 4096];
    for _ in 0..MOST_READS {
        let Ok(read @ 1..) = os::read(stderr, &mut buffer) else { return false };
        io.tail.add(&buffer[..read]);
    }
    true
}

impl Remote {
    pub(super) fn start(crew: &Crew, bridge: &Arc<Bridge>, worker: u64, hello: &[u8]) -> Remote {
        let frames = Frames::new(crew.plan.settings.max_frame + ROOM);
        bridge.workers().insert(worker, Heard { frames, tail: Tail::default() });
        let remote = Remote { worker, bridge: Arc::clone(bridge) };
        remote.tell(crew, Kind::Start, hello);
        remote
    }

    fn tell(&self, crew: &Crew, kind: Kind, payload: &[u8]) {
        let frame = Part::of(whole(kind, self.worker, payload));
        self.bridge.conduit.send(&crew.reactor.epoll, [frame]);
    }

    pub(super) fn send(&self, crew: &Crew, parts: impl IntoIterator<Item = Part>) {
        let parts: Vec<Part> = parts.into_iter().collect();
        let len = parts.iter().map(Part::len).sum();
        let head = Part::of(Header::new(Kind::Data, self.worker, len).bytes().to_vec());
        self.bridge.conduit.send(&crew.reactor.epoll, std::iter::once(head).chain(parts));
    }

    pub(super) fn kill(&self, crew: &Crew) {
        self.tell(crew, Kind::Kill, &[]);
    }

    pub(super) fn interrupt(&self, crew: &Crew, attempt: u64) {
        self.tell(crew, Kind::Control, &whole(Kind::Interrupt, attempt, &[]));
    }
}

impl Bridge {
    fn workers(&self) -> std::sync::MutexGuard<'_, HashMap<u64, Heard>> {
        self.workers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Crew {
    /// The bridge has something to say, by whoever has its turn. Returns the bits of which there is more.
    pub(super) fn hear_bridge(
        &self,
        bridge: &Bridge,
        io: &mut Io,
        bits: u32,
        after: &mut Vec<Completion>,
    ) -> u32 {
        let conduit = &bridge.conduit;
        let mut left = 0;
        if bits & (SOCKET | ENDED) != 0 {
            conduit.resume(&self.reactor.epoll);
            let mut reads = 0;
            while !io.closed {
                if reads == MOST_READS {
                    left = SOCKET;
                    break;
                }
                reads += 1;
                let more = match io.frames.fill(|to| os::read(&conduit.socket, to)) {
                    Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                    Err(_) | Ok((0, _)) => {
                        io.closed = true;
                        break;
                    }
                    Ok((_, more)) => more,
                };
                loop {
                    match io.frames.next() {
                        Ok(None) => break,
                        Ok(Some((header, payload))) => self.pass_on(bridge, header, payload, after),
                        Err(damage) => {
                            io.closed = true;
                            io.tail.add(damage.to_string().as_bytes());
                            break;
                        }
                    }
                }
                if !more {
                    break;
                }
            }
        }
        if bits & (STDERR | ENDED) != 0 && read_tail(conduit, io) {
            left |= STDERR;
        }
        if io.closed || bits & ENDED != 0 {
            let said = said(conduit, io);
            self.lose(bridge, engine(format!("the bridge is gone{said}")), after);
        }
        left
    }

    /// What the bridge says of a worker.
    fn pass_on(
        &self,
        bridge: &Bridge,
        header: Header,
        payload: Payload,
        after: &mut Vec<Completion>,
    ) {
        let worker = header.task;
        match header.kind {
            Kind::Data => {
                if let Some(heard) = bridge.workers().get_mut(&worker) {
                    heard.frames.feed(&payload);
                }
                loop {
                    let next = bridge.workers().get_mut(&worker).map(|heard| {
                        let next = heard.frames.next();
                        if matches!(&next, Ok(Some((header, _))) if header.kind == Kind::Ready) {
                            heard.tail.take();
                        }
                        next
                    });
                    let moves = match next {
                        None | Some(Ok(None)) => break,
                        Some(Ok(Some((header, payload)))) => {
                            let answers =
                                matches!(header.kind, Kind::Done | Kind::Panicked | Kind::Failed);
                            let moves = self.hear(worker, header, payload, after);
                            if answers && header.task != 0 {
                                if let Some(heard) = bridge.workers().get_mut(&worker) {
                                    heard.tail.take();
                                }
                            }
                            moves
                        }
                        Some(Err(damage)) => {
                            bridge.workers().remove(&worker);
                            self.misbehaves(worker, damage.to_string(), after)
                        }
                    };
                    self.carry_out(moves, after);
                }
            }
            Kind::Out => {
                let Some((&stream, bytes)) = payload.split_first() else { return };
                let stream = if stream == 2 { Stream::Stderr } else { Stream::Stdout };
                if stream == Stream::Stderr {
                    if let Some(heard) = bridge.workers().get_mut(&worker) {
                        heard.tail.add(bytes);
                    }
                }
                self.output(worker, stream, bytes);
            }
            Kind::Error => {
                let text = String::from_utf8_lossy(&payload).into_owned();
                let mut state = self.state();
                if let Some(one) = state.workers.get_mut(&worker) {
                    one.why.get_or_insert(RemoteError::Start(text));
                }
            }
            Kind::Gone => {
                let heard = bridge.workers().remove(&worker);
                let tail = heard.map(|mut heard| heard.tail.take()).unwrap_or_default();
                let mut state = self.state();
                let moves = self.gone(&mut state, worker, status(&payload), tail, after);
                drop(state);
                self.carry_out(moves, after);
            }
            _ => {}
        }
    }
}

/// How the bridge says that a worker has ended: a letter, and a number.
fn status(payload: &[u8]) -> Status {
    let text = String::from_utf8_lossy(payload);
    let number = text.get(1..).and_then(|number| number.parse().ok());
    match (text.as_bytes().first(), number) {
        (Some(b'e'), Some(code)) => Status::Exited(code),
        (Some(b's'), Some(signal)) => Status::Signalled(signal),
        (Some(b'l'), _) => Status::Lost,
        _ => Status::Unknown,
    }
}
