//! The threads of a crew: they wait for what workers send, and complete futures.
//!
//! What follows a future runs on the thread that completes it, and may wait for another of the same crew. So a thread that
//! is about to complete one first sees to it that another waits for events.
//!
//! # Invariants
//!
//! - **T1** While a thread runs code of the user's there is another that waits, as long as there may be more threads. It holds no lock;
//!   nor a worker's `io`, unless that code is a hook that is called for what the worker says, which must not wait for tasks.

use std::io;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, ThreadId};
use std::time::{Duration, Instant};

use super::Crew;
use crate::os::poll::{Bell, Epoll, Timer};

/// At most so many threads: more are needed only if so many continuations block at once, which [`Env`](crate::Env) says.
const MOST: usize = 1024;
/// A thread that had nothing to do for so long leaves, if it is not the last.
const STAY: Duration = Duration::from_secs(10);

/// The keys of what is no worker's.
pub(crate) const TIMER: u64 = 0;
const STOP: u64 = 1;

pub(crate) struct Reactor {
    pub(crate) epoll: Epoll,
    timer: Timer,
    /// When the timer goes off.
    alarm: Mutex<Option<Instant>>,
    stop: Bell,
    stopped: AtomicBool,
    /// How many threads wait for events.
    waiting: AtomicUsize,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

impl Reactor {
    pub(crate) fn new() -> io::Result<Reactor> {
        let (epoll, timer, stop) = (Epoll::new()?, Timer::new()?, Bell::new()?);
        epoll.add(timer.fd(), TIMER)?;
        epoll.add_level(stop.fd(), STOP)?;
        Ok(Reactor {
            epoll,
            timer,
            alarm: Mutex::new(None),
            stop,
            stopped: AtomicBool::new(false),
            waiting: AtomicUsize::new(0),
            threads: Mutex::default(),
        })
    }

    /// Starts another thread.
    pub(crate) fn start(&self, crew: &Arc<Crew>) -> io::Result<()> {
        let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.retain(|thread| !thread.is_finished());
        // `stop` joins what is in the list.
        if threads.len() >= MOST || self.has_stopped() {
            return Ok(());
        }
        let crew = Arc::clone(crew);
        // It waits, as far as others may count on it.
        // ORD: a count (T1); whoever reads 0 was the last to leave.
        self.waiting.fetch_add(1, Ordering::AcqRel);
        let started = spawn(move || crew.reactor().run(&crew));
        if started.is_err() {
            // ORD: as above.
            self.waiting.fetch_sub(1, Ordering::AcqRel);
        }
        threads.push(started?);
        Ok(())
    }

    /// Has a thread do something for which `stop` waits.
    pub(crate) fn besides(&self, work: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let thread = spawn(work)?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    fn run(&self, crew: &Arc<Crew>) {
        let mut keys = Vec::new();
        loop {
            // Counted as waiting since the end of the last round.
            let waited = self.epoll.wait_soon(&mut keys, STAY);
            if waited.is_err() || keys.contains(&STOP) {
                // Whoever finds that the reactor has stopped sees to it itself (P2).
                crew.complete(crew.take_unresolved());
                return;
            }
            if keys.is_empty() && self.leave() {
                return;
            }
            // ORD: as in `start`.
            self.waiting.fetch_sub(1, Ordering::AcqRel);
            let mut after = Vec::new();
            for &key in &keys {
                crew.service(key, &mut after);
            }
            if !after.is_empty() {
                self.stand_in(crew);
                crew.complete(after);
            }
            // ORD: as above.
            self.waiting.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// Code of the user's is about to be called: sees that there is a thread that waits for events (T1). Where none is to be had
    /// this one has to do.
    pub(crate) fn stand_in(&self, crew: &Arc<Crew>) {
        // ORD: as in `start`: of those that come here at the same time one reads 0.
        if self.waiting.load(Ordering::Acquire) == 0 {
            let _ = self.start(crew);
        }
    }

    /// Whether this thread may leave, for which another has to wait.
    fn leave(&self) -> bool {
        let left = |waiting: usize| (waiting > 1).then(|| waiting - 1);
        // ORD: as in `start`.
        self.waiting.fetch_update(Ordering::AcqRel, Ordering::Acquire, left).is_ok()
    }

    /// Has the timer's event come at this time, or before.
    pub(crate) fn wake_at(&self, time: Instant) {
        let mut alarm = self.alarm.lock().unwrap_or_else(PoisonError::into_inner);
        if alarm.is_none_or(|alarm| time < alarm) {
            *alarm = Some(time);
            let _ = self.timer.set(time.saturating_duration_since(Instant::now()));
        }
    }

    /// The same, in so long; returns when that is, if ever.
    pub(crate) fn wake_in(&self, time: Duration) -> Option<Instant> {
        let time = Instant::now().checked_add(time)?;
        self.wake_at(time);
        Some(time)
    }

    /// The timer's event has come.
    pub(crate) fn woken(&self) {
        let mut ticks = [0; 8];
        let _ = crate::os::read(&self.timer.fd().as_raw_fd(), &mut ticks);
        *self.alarm.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// Whether the caller is one of the threads.
    pub(crate) fn is_mine(&self, thread: ThreadId) -> bool {
        let threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
        threads.iter().any(|mine| mine.thread().id() == thread)
    }

    /// Whether its threads were told to end: what they are to find must be there before, or is found by nobody.
    pub(crate) fn has_stopped(&self) -> bool {
        // ORD: Acquire pairs with the Release in `stop`.
        self.stopped.load(Ordering::Acquire)
    }

    /// Ends the threads, and waits for them.
    pub(crate) fn stop(&self) {
        // ORD: Release pairs with the Acquire in `has_stopped`.
        self.stopped.store(true, Ordering::Release);
        self.stop.ring();
        // The last of them may have one more do something `besides`.
        while let Some(thread) = self.pop() {
            if thread.thread().id() != thread::current().id() {
                let _ = raddle_core::blocking(|| thread.join());
            }
        }
    }

    fn pop(&self) -> Option<JoinHandle<()>> {
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }
}

fn spawn(work: impl FnOnce() + Send + 'static) -> io::Result<JoinHandle<()>> {
    thread::Builder::new().name("raddle-remote".into()).spawn(work)
}
