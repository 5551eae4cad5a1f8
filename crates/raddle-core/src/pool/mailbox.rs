//! How a thread comes to open its mail (see `mail`), which nobody else opens, so that whoever it waits for may wait for that.
//!
//! | the thread                                    | opens its mail                                              |
//! |-----------------------------------------------|-------------------------------------------------------------|
//! | is idle, or waits                             | at once                                                     |
//! | yields                                        | at once, unless it holds a lock or is within `blocking`     |
//! | waits in what a yield has taken on            | as it yields; within `blocking` once nothing has ended for 10 ms; in a broadcast at once |
//! | waits with a time limit                       | once it has lain for 10 ms, over however many waits, unless it holds a lock |
//! | waits, and has little stack                   | once nothing has ended for 10 ms, or with a limit once it has lain for 20 |
//! | waits for the end of a pool that it drops     | once it has lain for a second, unless it holds a lock       |
//! | waits or yields in another pool, as its guest | as it would in its own; it looks each 10 ms                 |
//!
//! (The locks are raddle's own. Others are not seen.)

use std::cell::Cell;
use std::time::Duration;

use raddle_sync::time::Instant;
use raddle_sync::{stack, strand};

use crate::pool::find_work::{Work, tagged};
use crate::pool::policy::LAST_ROOM;
use crate::pool::relief::STILL;
use crate::pool::vain;
use crate::pool::wait::Goal;
use crate::pool::worker::Worker;
use crate::pool::worker_memory::WorkerMemory;

impl Goal<'_> {
    /// So long it leaves mail; none: not at all.
    fn leaves_mail_for(self) -> Option<Duration> {
        match self {
            Goal::Alone(_) => Some(100 * STILL),
            _ => self.is_limited().then_some(STILL),
        }
    }

    /// Whether it leaves mail for good, as that may want what the thread holds.
    fn is_locked(self) -> bool {
        self.leaves_mail_for().is_some() && strand::with_local(strand::Local::thread_holds)
    }
}

/// What a worker does with its mail.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    /// It holds a lock beneath what it has taken on, or is within `blocking`: mail is for later.
    pub(crate) leaves: Cell<bool>,
    /// Since when waits with a limit have left what is there.
    since: Cell<Option<Instant>>,
}

/// Opens mail of the calling thread, which yields. False: there is none, or it may want what is held beneath.
pub(super) fn open_at_yield() -> bool {
    let opens =
        |memory: &&WorkerMemory| memory.has_mail() && memory.holds_place() && memory.has_room();
    let open = |memory: &WorkerMemory| {
        !strand::with_local(strand::Local::thread_holds) && memory.open_as_current()
    };
    Worker::occupied().find(opens).is_some_and(open)
}

impl WorkerMemory {
    /// A task for this very thread, unless it leaves those for later.
    #[inline]
    pub(crate) fn open_mail(&self) -> Option<Work> {
        if self.owned.mailbox.leaves.get() { None } else { self.mail_of_now_or_later() }
    }

    /// As `open_mail`, also what the thread leaves for later.
    pub(super) fn mail_of_now_or_later(&self) -> Option<Work> {
        let opened = self.mail.open()?;
        if !self.has_mail() {
            self.owned.mailbox.since.set(None);
        }
        Some(tagged(opened))
    }

    pub(crate) fn has_mail(&self) -> bool {
        self.mail.is_there()
    }

    /// Whether mail is sent to it: it is one of the threads that the pool was built with.
    pub(super) fn has_mailbox(&self) -> bool {
        self.index < self.registry().threads()
    }

    /// What a wait finds that takes on nothing else.
    pub(super) fn find_mail(&self, goal: Goal<'_>) -> Option<Work> {
        if self.has_room() {
            let opened = self.opens_mail(goal).then(|| self.open_mail())?;
            if opened.is_some() {
                return opened;
            }
        }
        // Waits as short as one likes may be all that the thread does.
        let age = if goal.is_limited() { self.mail_has_lain()? } else { return None };
        let opens = age >= 2 * STILL && stack::remaining() > LAST_ROOM && !goal.is_locked();
        opens.then(|| self.mail_of_now_or_later())?
    }

    /// Whether a wait for this goal opens the mail that has come.
    pub(super) fn opens_mail(&self, goal: Goal<'_>) -> bool {
        match goal.leaves_mail_for() {
            Some(time) => self.mail_has_lain().is_some_and(|age| age >= time) && !goal.is_locked(),
            None => self.has_mail(),
        }
    }

    /// Whether no lock is held beneath what is to leave the mail for later.
    pub(super) fn leaves_no_lock(&self) -> bool {
        !self.owned.mailbox.leaves.get() || !strand::with_local(strand::Local::thread_holds)
    }

    /// For how long the mail has lain that has come, as far as waits have seen that leave it; none: there is none.
    fn mail_has_lain(&self) -> Option<Duration> {
        let since = &self.owned.mailbox.since;
        if !self.has_mail() {
            since.set(None);
            return None;
        }
        let now = Instant::now();
        let began = since.get().unwrap_or(now);
        since.set(Some(began));
        Some(now.saturating_duration_since(began))
    }

    /// After how long a wait for this goal is to look at its mail again; none: it is woken for that.
    pub(super) fn looks_at_mail_after(&self, goal: Goal<'_>) -> Option<Duration> {
        if self.beneath().next().is_some() {
            return Some(STILL);
        }
        let left = goal.leaves_mail_for()?.saturating_sub(self.mail_has_lain()?);
        // What is there may not be for now.
        Some(if left.is_zero() { STILL } else { left })
    }

    /// Opens mail of a pool's thread in whose work it is this worker. False: none.
    pub(super) fn open_beneath(&self, goal: Goal<'_>) -> bool {
        let opens = |memory: &&WorkerMemory| memory.opens_mail(goal);
        self.beneath().find(opens).is_some_and(|memory| vain::apart(|| memory.open_as_current()))
    }

    /// As `open_mail`, and runs it, on a thread that is this worker, if only beneath another.
    fn open_as_current(&self) -> bool {
        let is_current = Worker::here().is_some_and(|here| std::ptr::eq(here, self));
        let _current = (!is_current).then(|| self.base().head().enter());
        self.take_on(|_| self.open_mail())
    }

    /// The workers that are threads of their pools and that this thread is, beneath or above, if it has the stack for their mail.
    fn beneath(&self) -> impl Iterator<Item = &WorkerMemory> {
        let others = Worker::occupied().filter(|memory| !std::ptr::eq(*memory, self));
        others
            .filter(|memory| memory.has_mailbox())
            .filter(|_| self.has_room() || stack::remaining() > LAST_ROOM)
    }
}
