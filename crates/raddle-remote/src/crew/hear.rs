//! What workers say, and what their end means.

use std::io::ErrorKind;
use std::sync::Arc;
use std::time::{Duration, Instant};

use raddle_core::Failure;

use super::bridge::Bridge;
use super::conduit::{self, Conduit, ENDED, Io, Quiet, SOCKET, STDERR, STDOUT};
use super::dispatch::{MOST_FAILED, Move};
use super::task::{Completion, Phase, Task};
use super::worker::{Link, Stage, Worker};
use super::{Crew, State, reactor};
use crate::arg::decode;
use crate::context::Progress;
use crate::error::{Death, RemoteError, Status};
use crate::frame::{Header, Kind, Payload};
use crate::message::{Failed, Panicked, Ready};
use crate::os::{self, process};
use crate::plan::{Output, Stream, call_hook};

/// So often output is read before something else is looked at; more than a pipe holds.
pub(super) const MOST_READS: usize = 64;
/// So often a thread looks at what has come meanwhile.
const MOST_TURNS: usize = 16;

/// How long a process may live on that has closed its socket.
const LINGER: Duration = Duration::from_millis(200);

impl Crew {
    /// Something has happened to what has this key.
    pub(super) fn service(&self, key: u64, after: &mut Vec<Completion>) {
        if key == reactor::TIMER {
            self.reactor.woken();
            return self.tick(after);
        }
        let (number, bit) = conduit::of_key(key);
        let state = self.state();
        let link = state.workers.get(&number).and_then(|worker| worker.link());
        let bridge = state.way.bridge().filter(|bridge| bridge.conduit.number == number).cloned();
        drop(state);
        let conduit = match (&link, &bridge) {
            (Some(Link::Process(conduit)), _) => conduit,
            (_, Some(bridge)) => &bridge.conduit,
            // It has gone.
            _ => return,
        };
        self.serve(conduit, bridge.as_deref(), bit, Quiet::default(), after);
    }

    /// The same, where it is known what the key stands for.
    pub(super) fn serve(
        &self,
        conduit: &Conduit,
        bridge: Option<&Bridge>,
        bit: u32,
        mut quiet: Quiet,
        after: &mut Vec<Completion>,
    ) {
        if !conduit.tell(bit) {
            return;
        }
        let mut left = 0;
        for _ in 0..MOST_TURNS {
            let Some(bits) = conduit.next() else { return };
            let mut io = conduit.io();
            left = match bridge {
                Some(bridge) => self.hear_bridge(bridge, &mut io, bits, after),
                None => {
                    self.hear_process(conduit, &mut io, bits, std::mem::take(&mut quiet), after)
                }
            };
            if left != 0 {
                break;
            }
        }
        // Somebody who does not cease: others come first, and what is to be completed.
        conduit.leave(&self.reactor.epoll, left);
    }

    /// Returns the bits of which there is more.
    fn hear_process(
        &self,
        conduit: &Conduit,
        io: &mut Io,
        bits: u32,
        quiet: Quiet,
        after: &mut Vec<Completion>,
    ) -> u32 {
        let ended = bits & ENDED != 0;
        let mut left = 0;
        if bits & SOCKET != 0 || ended {
            conduit.resume(&self.reactor.epoll);
            // Of one that has ended, all.
            let most = if ended { usize::MAX } else { MOST_READS };
            left |= self.read_socket(conduit, io, most, quiet, after);
        }
        if bits & (STDOUT | STDERR) != 0 || ended {
            left |= self.read_output(conduit, io);
        }
        if ended {
            self.ended(conduit, io, after);
        }
        left
    }

    fn read_socket(
        &self,
        conduit: &Conduit,
        io: &mut Io,
        most: usize,
        quiet: Quiet,
        after: &mut Vec<Completion>,
    ) -> u32 {
        let number = conduit.number;
        // Of the first frame.
        let mut quiet = conduit.is_quiet(quiet);
        let mut left = 0;
        for _ in 0..most {
            if io.closed {
                return left;
            }
            let more = match io.frames.fill(|to| os::read(&conduit.socket, to)) {
                Err(error) if error.kind() == ErrorKind::WouldBlock => return left,
                Err(_) | Ok((0, _)) => {
                    io.closed = true;
                    self.closed(number);
                    return left;
                }
                Ok((_, more)) => more,
            };
            conduit.has_read();
            loop {
                match io.frames.next() {
                    Ok(None) => break,
                    Ok(Some((header, payload))) => {
                        let quiet = std::mem::take(&mut quiet);
                        if matches!(
                            header.kind,
                            Kind::Done | Kind::Panicked | Kind::Failed | Kind::Ready
                        ) {
                            // What the task has written is there before its answer is.
                            if !quiet && conduit.has_output() {
                                left |= self.read_output(conduit, io);
                            }
                        }
                        if matches!(header.kind, Kind::Ready) {
                            io.tail.take();
                        }
                        let moves = self.hear(number, header, payload, after);
                        if matches!(header.kind, Kind::Done | Kind::Panicked | Kind::Failed) {
                            io.tail.take();
                        }
                        self.carry_out(moves, after);
                    }
                    Err(damage) => {
                        io.closed = true;
                        let moves = self.misbehaves(number, damage.to_string(), after);
                        self.carry_out(moves, after);
                        return left;
                    }
                }
            }
            if !more {
                return left;
            }
        }
        left | SOCKET
    }

    /// Reads what was written, until there is no more; of somebody who does not cease, some.
    fn read_output(&self, conduit: &Conduit, io: &mut Io) -> u32 {
        let mut left = 0;
        // Not on the stack: the thread may be anybody's who waits.
        let mut buffer = vec![0; 32 << 10];
        for (fd, stream, bit) in
            [(&conduit.stdout, Stream::Stdout, STDOUT), (&conduit.stderr, Stream::Stderr, STDERR)]
        {
            let Some(fd) = fd else { continue };
            left |= bit;
            for _ in 0..MOST_READS {
                let Ok(read @ 1..) = os::read(fd, &mut buffer) else {
                    left &= !bit;
                    break;
                };
                let bytes = &buffer[..read];
                if stream == Stream::Stderr {
                    io.tail.add(bytes);
                }
                self.output(conduit.number, stream, bytes);
            }
        }
        left
    }

    /// A worker has written something.
    pub(super) fn output(&self, worker: u64, stream: Stream, bytes: &[u8]) {
        if self.plan.settings.output == Output::Discard {
            return;
        }
        let state = self.state();
        let task = match state.workers.get(&worker).map(|worker| &worker.stage) {
            // What is said before it is ready is kept in case that it never will be.
            None | Some(Stage::Starting) => return,
            Some(Stage::Busy { task, .. }) => Some(Arc::clone(task)),
            Some(_) => None,
        };
        drop(state);
        self.stand_in();
        match (&self.plan.hooks.on_output, task) {
            (Some(hook), Some(task)) => call_hook(|| hook(&task.info(), stream, bytes)),
            (Some(_), None) => {}
            // By the descriptor: whoever has std's lock may be waiting for this very task.
            (None, _) => os::write_all(if stream == Stream::Stdout { 1 } else { 2 }, bytes),
        }
    }

    /// A worker has sent a frame.
    pub(super) fn hear(
        &self,
        worker: u64,
        header: Header,
        payload: Payload,
        after: &mut Vec<Completion>,
    ) -> Vec<Move> {
        let garbled = |error: RemoteError| format!("{:?}: {error}", header.kind);
        match header.kind {
            Kind::Ready => match decode(&payload) {
                Ok(ready) => self.ready(worker, ready),
                Err(error) => self.misbehaves(worker, garbled(error), after),
            },
            Kind::Done => self.answered(worker, header.task, Ok(payload), after),
            Kind::Panicked => match decode(&payload) {
                Ok(panicked) => {
                    self.answered(worker, header.task, Err(failure_of(panicked)), after)
                }
                Err(error) => self.misbehaves(worker, garbled(error), after),
            },
            Kind::Failed => match decode::<Failed>(&payload) {
                Ok(failed) => self.failed(worker, header.task, failed.into(), after),
                Err(error) => self.misbehaves(worker, garbled(error), after),
            },
            Kind::Progress => match decode(&payload) {
                Ok(progress) => {
                    self.progress(worker, header.task, progress);
                    Vec::new()
                }
                Err(error) => self.misbehaves(worker, garbled(error), after),
            },
            Kind::Bye => Vec::new(),
            other => self.misbehaves(worker, format!("it sent {other:?}"), after),
        }
    }

    fn ready(&self, worker: u64, ready: Ready) -> Vec<Move> {
        let mut state = self.state();
        let Some(one) = state.workers.get_mut(&worker) else { return Vec::new() };
        if !matches!(one.stage, Stage::Starting) {
            return Vec::new();
        }
        (one.pid, one.host) = (ready.pid, ready.host);
        one.stage = Stage::Idle;
        if one.outgoing {
            return self.retire(one).into_iter().collect();
        }
        one.deadline = self.reactor.wake_in(self.plan.settings.idle_timeout);
        state.failed_starts = 0;
        state.idle.push(worker);
        let moves = self.dispatch(&mut state);
        self.tell(&state);
        moves
    }

    fn failed(
        &self,
        worker: u64,
        task: u64,
        error: RemoteError,
        after: &mut Vec<Completion>,
    ) -> Vec<Move> {
        if task != 0 {
            return self.answered(worker, task, Err(Failure::new(error)), after);
        }
        // It ends by itself.
        let mut state = self.state();
        if let Some(one) = state.workers.get_mut(&worker) {
            match &one.stage {
                Stage::Starting => one.why = Some(error),
                Stage::Busy { task, .. } => {
                    after.extend(Completion::new(task, Err(Failure::new(error))));
                    one.kill(self);
                }
                _ => {}
            }
        }
        Vec::new()
    }

    fn progress(&self, worker: u64, attempt: u64, progress: Progress) {
        let Some(hook) = &self.plan.hooks.on_progress else { return };
        let state = self.state();
        let task = match state.workers.get(&worker).map(|worker| &worker.stage) {
            Some(Stage::Busy { task, attempt: current, .. }) if *current == attempt => {
                Arc::clone(task)
            }
            _ => return,
        };
        drop(state);
        self.stand_in();
        call_hook(|| hook(&task.info(), progress));
    }

    /// A worker sends what it must not: it is ended, and its task with it.
    pub(super) fn misbehaves(
        &self,
        worker: u64,
        why: String,
        after: &mut Vec<Completion>,
    ) -> Vec<Move> {
        let error = RemoteError::Protocol(why);
        let mut state = self.state();
        let Some(one) = state.workers.get_mut(&worker) else { return Vec::new() };
        match &one.stage {
            Stage::Busy { task, .. } => {
                after.extend(Completion::new(task, Err(Failure::new(error))));
                one.kill(self);
            }
            Stage::Starting => {
                one.why = Some(error);
                one.end(self);
            }
            _ => one.kill(self),
        }
        Vec::new()
    }

    /// A worker has closed its end of the socket; mostly because it ends.
    fn closed(&self, worker: u64) {
        let mut state = self.state();
        if let Some(one) = state.workers.get_mut(&worker) {
            (one.closed, one.deadline) = (true, self.reactor.wake_in(LINGER));
        }
    }

    /// A process has ended.
    fn ended(&self, conduit: &Conduit, io: &mut Io, after: &mut Vec<Completion>) {
        let mut state = self.state();
        // What it has left behind. As long as it is not reaped, its number is that of its group.
        conduit.kill();
        let Some(status) = process::reap(&conduit.process) else { return };
        let moves = self.gone(&mut state, conduit.number, status, io.tail.take(), after);
        drop(state);
        self.carry_out(moves, after);
    }

    /// A worker is no more: what becomes of its task, and of its place.
    pub(super) fn gone(
        &self,
        state: &mut State,
        worker: u64,
        status: Status,
        tail: String,
        after: &mut Vec<Completion>,
    ) -> Vec<Move> {
        let Some(one) = state.workers.remove(&worker) else { return Vec::new() };
        state.idle.retain(|idle| *idle != worker);
        self.tell(state);
        let mut moves = Vec::new();
        let warm = matches!(one.stage, Stage::Busy { .. } | Stage::Dying) && !one.outgoing;
        match one.stage {
            Stage::Starting => {
                let why = one.why.unwrap_or_else(|| {
                    let said = tail.trim_end();
                    let said = if said.is_empty() { "" } else { &format!("; it said: {said}") };
                    RemoteError::Start(format!("it {status} before it was ready{said}"))
                });
                // One that was not wanted any more has not failed.
                if !one.outgoing {
                    self.start_failed(state, why, after);
                }
            }
            Stage::Busy { task, since, .. } => {
                let attempts = task.course().attempt;
                let tries_again = attempts <= task.request.retries;
                let interrupted = task.course().interrupted.take();
                if let Some(why) = interrupted.filter(|_| tries_again) {
                    // As while it is queued.
                    after.extend(Completion::new(&task, Err(Failure::from(why))));
                } else if tries_again {
                    task.course().phase = Phase::Queued;
                    state.queued += 1;
                    state.queue.push_front(task);
                } else {
                    let death = Death {
                        status,
                        task: task.id,
                        worker: one.index,
                        pid: one.pid,
                        host: one.host,
                        ran: since.elapsed(),
                        attempts,
                        stderr_tail: tail,
                    };
                    let failure = Failure::new(RemoteError::Died(death));
                    after.extend(Completion::new(&task, Err(failure)));
                }
            }
            Stage::Idle | Stage::Dying | Stage::Retiring => {}
        }
        let live = state.workers.values().filter(|worker| worker.counts()).count();
        if warm && !state.closing && state.way.leads() && live < self.width {
            moves.push(self.hire(state));
        }
        moves.extend(self.dispatch(state));
        moves
    }

    /// A worker could not be started. After three in a row the queue fails, if it would wait for ever.
    pub(super) fn start_failed(
        &self,
        state: &mut State,
        why: RemoteError,
        after: &mut Vec<Completion>,
    ) {
        state.failed_starts += 1;
        let hopeless = matches!(why, RemoteError::BuildMismatch(_) | RemoteError::Engine(_));
        let others = state.workers.values().any(Worker::is_worth_waiting_for);
        if state.failed_starts < MOST_FAILED && !hopeless || others {
            return;
        }
        state.failed_starts = 0;
        self.fail_queue(state, &why, after);
    }

    pub(super) fn fail_queue(
        &self,
        state: &mut State,
        why: &RemoteError,
        after: &mut Vec<Completion>,
    ) {
        state.queued = 0;
        let failed = |task: Arc<Task>| Completion::new(&task, Err(Failure::new(why.clone())));
        after.extend(state.queue.drain(..).filter_map(failed));
    }

    /// A time has come.
    fn tick(&self, after: &mut Vec<Completion>) {
        self.forget_all();
        after.extend(self.take_unresolved());
        let now = Instant::now();
        let mut state = self.state();
        let late = |worker: &&mut Worker| worker.deadline.is_some_and(|deadline| deadline <= now);
        let (mut moves, mut hopeless) = (Vec::new(), Vec::new());
        for worker in state.workers.values_mut().filter(late) {
            worker.deadline = None;
            match &worker.stage {
                _ if worker.closed => worker.end(self),
                Stage::Starting => {
                    let limit = self.plan.settings.start_timeout;
                    let why = RemoteError::Start(format!("it was not ready within {limit:?}"));
                    worker.why.get_or_insert(why);
                    worker.end(self);
                    if matches!(worker.link, Some(Link::Remote(_))) {
                        hopeless.push(worker.number);
                    }
                }
                Stage::Busy { task, .. } => {
                    after.extend(Completion::new(task, Err(Failure::timed_out())));
                    worker.kill(self);
                }
                Stage::Idle => moves.extend(self.retire(worker)),
                Stage::Retiring => worker.end(self),
                Stage::Dying => {}
            }
        }
        for worker in hopeless {
            // Nobody may be left to say that it has gone.
            let lost = self.gone(&mut state, worker, Status::Lost, String::new(), after);
            moves.extend(lost);
        }
        let next = state.workers.values().filter_map(|worker| worker.deadline).min();
        drop(state);
        if let Some(next) = next {
            self.reactor.wake_at(next);
        }
        self.carry_out(moves, after);
    }
}

fn failure_of(panicked: Panicked) -> Failure {
    let message = panicked.message.unwrap_or_else(|| "a panic without a text".to_owned());
    match panicked.place {
        Some(place) => Failure::panicked_at(message, place),
        None => Failure::panicked(Box::new(message)),
    }
}
