//! A worker's state, and the link to it.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use super::Crew;
use super::bridge::Remote;
use super::conduit::Conduit;
use super::outbox::Part;
use super::task::Task;
use crate::error::RemoteError;
use crate::frame::{Header, Kind, whole};
use crate::shared;

/// See the table in `crew`.
pub(crate) enum Stage {
    Starting,
    Idle,
    Busy { task: Arc<Task>, attempt: u64, since: Instant },
    Dying,
    Retiring,
}

pub(crate) struct Worker {
    pub(crate) number: u64,
    /// From 0, lower than the crew's width; those of a worker that has to go may be another's already.
    pub(crate) index: usize,
    pub(crate) stage: Stage,
    /// None until the process has been started.
    pub(crate) link: Option<Link>,
    pub(crate) host: String,
    pub(crate) pid: u32,
    /// How many tasks it has had.
    pub(crate) tasks: u32,
    /// It has to go once it is free, and does not count any more.
    pub(crate) outgoing: bool,
    /// Which shared values it has.
    pub(crate) shared: HashSet<u64>,
    /// Its end of the socket is closed: it is about to end, or has lost its mind.
    pub(crate) closed: bool,
    /// Why it is not ready, if that is known.
    pub(crate) why: Option<RemoteError>,
    /// When it has to be ready, done or gone, or has been idle for long enough.
    pub(crate) deadline: Option<Instant>,
}

impl Worker {
    pub(crate) fn new(number: u64, index: usize, deadline: Option<Instant>) -> Worker {
        Worker {
            number,
            index,
            stage: Stage::Starting,
            link: None,
            host: String::new(),
            pid: 0,
            tasks: 0,
            outgoing: false,
            shared: HashSet::new(),
            closed: false,
            why: None,
            deadline,
        }
    }

    pub(crate) fn is_busy(&self) -> bool {
        matches!(self.stage, Stage::Busy { .. })
    }

    /// Whether it will take tasks.
    pub(crate) fn counts(&self) -> bool {
        !self.outgoing && !self.closed && !matches!(self.stage, Stage::Dying | Stage::Retiring)
    }

    /// Whether what is queued may wait for it: it has a task, or takes some, or is about to. One whose process is yet to be started
    /// may be the very one that cannot be.
    pub(crate) fn is_worth_waiting_for(&self) -> bool {
        self.is_busy() || self.counts() && self.link.is_some() && self.why.is_none()
    }

    /// Whether it can be given a task.
    pub(crate) fn is_free(&self) -> bool {
        matches!(self.stage, Stage::Idle) && self.counts() && self.link.is_some()
    }

    /// Whether it has to go, and is a process by now. (A slot of a cluster may take long to become one, and goes with the
    /// bridge.)
    pub(crate) fn is_leaving(&self) -> bool {
        match self.stage {
            Stage::Retiring | Stage::Dying => true,
            Stage::Starting => self.outgoing && !matches!(self.link, Some(Link::Remote(_))),
            Stage::Busy { .. } | Stage::Idle => self.outgoing,
        }
    }

    pub(crate) fn link(&self) -> Option<Link> {
        self.link.clone()
    }

    /// By whoever has the crew's lock (M2).
    pub(crate) fn kill(&mut self, crew: &Crew) {
        self.stage = Stage::Dying;
        self.end(crew);
    }

    /// The same, where its stage says what its end means.
    pub(crate) fn end(&self, crew: &Crew) {
        match &self.link {
            Some(Link::Process(conduit)) => conduit.kill(),
            Some(Link::Remote(remote)) => remote.kill(crew),
            // It is seen when the process has been started.
            None => {}
        }
    }
}

/// How a worker is reached.
#[derive(Clone)]
pub(crate) enum Link {
    Process(Arc<Conduit>),
    /// Through the bridge.
    Remote(Remote),
}

impl Link {
    pub(crate) fn send(&self, crew: &Crew, parts: impl IntoIterator<Item = Part>) {
        match self {
            Link::Process(conduit) => conduit.send(&crew.reactor.epoll, parts),
            Link::Remote(remote) => remote.send(crew, parts),
        }
    }

    /// A call: its header and what describes it, and the arguments.
    pub(crate) fn call(&self, crew: &Crew, task: &Arc<Task>, attempt: u64, order: &[u8]) {
        let len = order.len() + task.request.args.len();
        let mut head = Header::new(Kind::Call, attempt, len).bytes().to_vec();
        head.extend_from_slice(order);
        if task.request.args.len() <= 512 {
            head.extend_from_slice(&task.request.args);
            self.send(crew, [Part::of(head)]);
        } else {
            self.send(crew, [Part::of(head), Part::new(Arc::clone(task) as _)]);
        }
    }

    pub(crate) fn share(&self, crew: &Crew, data: &Arc<shared::Data>) {
        if let (Link::Process(_), Some(memory)) = (self, data.memory()) {
            if let Ok(memory) = memory.try_clone() {
                let mut header = Header::new(Kind::Share, data.id, 8);
                header.fds = 1;
                let mut bytes = header.bytes().to_vec();
                bytes.extend_from_slice(&(data.slice().len() as u64).to_le_bytes());
                return self.send(crew, [Part::of(bytes).with(memory)]);
            }
        }
        let header = Header::new(Kind::Share, data.id, data.slice().len());
        self.send(crew, [Part::of(header.bytes().to_vec()), Part::new(Arc::clone(data) as _)]);
    }

    pub(crate) fn unshare(&self, crew: &Crew, id: u64) {
        self.send(crew, [Part::of(whole(Kind::Unshare, id, &[]))]);
    }

    pub(crate) fn bye(&self, crew: &Crew) {
        if let Link::Process(conduit) = self {
            // Whatever it says from now on, it is heard to leave.
            conduit.unmute(&crew.reactor.epoll);
        }
        self.send(crew, [Part::of(whole(Kind::Bye, 0, &[]))]);
    }

    pub(crate) fn interrupt(&self, crew: &Crew, attempt: u64) {
        match self {
            Link::Process(conduit) => conduit.interrupt(attempt),
            Link::Remote(remote) => remote.interrupt(crew, attempt),
        }
    }
}
