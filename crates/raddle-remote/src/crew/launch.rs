//! How a worker's process is started: this very file again, by a way that costs the same however large this process is.
//!
//! `/proc/self/exe` is the file that runs, also when another one has its name by now. There is no `pre_exec`, and the group
//! is set by an attribute, so that std uses `posix_spawn`: it copies no page tables. The socket is standard input, which
//! needs no descriptor to be left open.

use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use super::Crew;
use super::bridge::Remote;
use super::conduit::Conduit;
use super::dispatch::Move;
use super::task::Completion;
use super::worker::{Link, Stage};
use crate::arg::encode;
use crate::entry;
use crate::error::RemoteError;
use crate::frame::{HEADER, Header, Kind, ROOM};
use crate::init;
use crate::message::{Hello, MAGIC, VERSION};
use crate::os::{process, socket};
use crate::plan::{Engine, Output};
use crate::worker::TOKEN;

impl Crew {
    /// Starts the process of a worker that was hired.
    pub(super) fn start(
        &self,
        worker: u64,
        index: usize,
        after: &mut Vec<Completion>,
    ) -> Vec<Move> {
        let begun = self.hello(index).and_then(|hello| match &self.plan.settings.engine {
            Engine::Processes(_) => Ok((Some(Arc::new(self.launch(worker, &hello)?)), hello)),
            _ => Ok((None, hello)),
        });
        let mut state = self.state();
        let bridge = state.way.bridge().cloned();
        // Lost meanwhile, with the bridge.
        let Some(one) = state.workers.get_mut(&worker) else { return Vec::new() };
        let begun = match begun {
            // From here on what it says finds it, and its link: both under the lock.
            Ok((Some(conduit), _)) => match conduit.register(&self.reactor.epoll) {
                Ok(()) => {
                    one.pid = conduit.pid;
                    Ok(Link::Process(conduit))
                }
                // Nobody would hear of its end.
                Err(error) => {
                    conduit.kill();
                    drop(state);
                    conduit.outlive(self);
                    state = self.state();
                    Err(error.into())
                }
            },
            Ok((None, hello)) => match bridge {
                Some(bridge) => Ok(Link::Remote(Remote::start(self, &bridge, worker, &hello))),
                // Its turn has come so late that the crew is at its end.
                None => {
                    state.workers.remove(&worker);
                    self.tell(&state);
                    return Vec::new();
                }
            },
            Err(why) => Err(why),
        };
        let Some(one) = state.workers.get_mut(&worker) else { return Vec::new() };
        match begun {
            Ok(link) => {
                one.link = Some(link);
                // Given up meanwhile.
                if matches!(one.stage, Stage::Dying) || one.outgoing || one.why.is_some() {
                    one.end(self);
                }
                // A slot that is to go is waited for no more.
                self.tell(&state);
                Vec::new()
            }
            Err(why) => {
                let outgoing = one.outgoing;
                state.workers.remove(&worker);
                self.tell(&state);
                if !outgoing {
                    self.start_failed(&mut state, why, after);
                }
                self.dispatch(&mut state)
            }
        }
    }

    fn hello(&self, index: usize) -> Result<Vec<u8>, RemoteError> {
        let settings = &self.plan.settings;
        let hello = encode(&Hello {
            magic: MAGIC,
            version: VERSION,
            build: self.build.clone(),
            worker: index,
            nested: settings.nested(),
            memory_limit: settings.memory_limit,
            max_frame: settings.max_frame,
            on_start: self.plan.on_worker_start.map(entry::hook_offset).transpose()?,
            mourner: self.build.copied || !process::signals_groups(),
        })?;
        let mut header = Header::new(Kind::Hello, 0, hello.len());
        header.fds = 1;
        let mut bytes = Vec::with_capacity(HEADER + hello.len());
        bytes.extend_from_slice(&header.bytes());
        bytes.extend_from_slice(&hello);
        Ok(bytes)
    }

    fn launch(&self, worker: u64, hello: &[u8]) -> Result<Conduit, RemoteError> {
        let settings = &self.plan.settings;
        let arguments = init::arguments().ok_or(RemoteError::NotInitialised)?;
        let (ours, theirs) = socket::pair()?;
        let (control, their_control) = socket::pair()?;
        // It waits in the socket until the process reads. The socket's buffer is larger.
        send_hello(&ours, hello, their_control)?;
        let mut command = Command::new("/proc/self/exe");
        if let Some(name) = std::env::args_os().next() {
            command.arg0(name);
        }
        command.args(arguments).env(TOKEN, "1").process_group(0).stdin(Stdio::from(theirs));
        command.envs(settings.env.iter().map(|(key, value)| (key, value)));
        if settings.output != Output::Inherit {
            command.stdout(Stdio::piped()).stderr(Stdio::piped());
        }
        let mut child = command.spawn()?;
        let pid = child.id();
        let stdout = child.stdout.take().map(OwnedFd::from);
        let stderr = child.stderr.take().map(OwnedFd::from);
        let limit = settings.max_frame + ROOM;
        let conduit = process::open(pid).and_then(|process| {
            Conduit::new(worker, pid, process, ours, Some(control), stdout, stderr, limit)
        });
        Ok(conduit.inspect_err(|_| end(child))?)
    }
}

/// Ends a process to which nothing leads, and waits for it.
pub(super) fn end(mut child: Child) {
    let _ = child.kill();
    let _ = child.wait();
}

fn send_hello(to: &OwnedFd, hello: &[u8], control: OwnedFd) -> io::Result<()> {
    let sent = socket::send(to, &[IoSlice::new(hello)], Some(control.as_fd()), false)?;
    match sent == hello.len() {
        true => Ok(()),
        false => Err(io::Error::other("the plan is too long to be sent")),
    }
}
