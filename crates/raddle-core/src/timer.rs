//! The timer: one thread, started on first use, that does things when it is time.
//!
//! What it does may be to run a continuation that waits. All other timers would wait with it, and it may be for one of
//! them. So before the thread blocks there ([`about_to_block`]) it starts another in its place, and leaves when it is
//! through with that one thing.
//!
//! Timeouts are in a tree by time, so that adding and cancelling one are logarithmic and a cancelled one is gone
//! at once. A million of them take some hundred bytes each and no processor time while they wait.

use raddle_sync::time::Instant;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};

use raddle_sync::{fork, thread};

use crate::panics::discard;

type Action = Box<dyn FnOnce() + Send>;

/// When, and which of those of the same time.
type Key = (Instant, u64);

#[derive(Default)]
struct Timer {
    timeouts: BTreeMap<Key, Action>,
    next: u64,
    /// How many threads there are: one that does all, and those that are blocked.
    threads: usize,
    /// The process they are of: see `raddle_sync::fork`.
    generation: u32,
}

/// So many threads at most; then things are late.
const MOST_THREADS: usize = 256;

thread_local! {
    /// All timers wait for what this thread is at.
    static HOLDS_UP: Cell<bool> = const { Cell::new(false) };
}

static TIMER: LazyLock<(Mutex<Timer>, Condvar)> = LazyLock::new(Default::default);

fn lock() -> MutexGuard<'static, Timer> {
    // Nothing is left half done under the lock.
    TIMER.0.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Something to be done, unless this is dropped before.
#[derive(Debug)]
pub(crate) struct Timeout(Key);

impl Drop for Timeout {
    fn drop(&mut self) {
        let action = lock().timeouts.remove(&self.0);
        // What it holds is the user's.
        discard(action);
    }
}

impl Timeout {
    /// It is done in any case.
    pub(crate) fn detach(self) {
        std::mem::forget(self);
    }
}

/// Calls `action` at that time, on the timer's thread.
pub(crate) fn at(deadline: Instant, action: impl FnOnce() + Send + 'static) -> io::Result<Timeout> {
    let mut timer = lock();
    timer.adopt();
    if timer.threads == 0 {
        timer.start()?;
    }
    let key = (deadline, timer.next);
    timer.next += 1;
    timer.timeouts.insert(key, Box::new(action));
    let first = timer.timeouts.first_key_value().is_some_and(|(&first, _)| first == key);
    drop(timer);
    if first {
        TIMER.1.notify_one();
    }
    Ok(Timeout(key))
}

impl Timer {
    /// In the child of a fork, the threads and what they had to do are the parent's.
    fn adopt(&mut self) {
        fork::init();
        if self.generation != fork::generation() {
            self.generation = fork::generation();
            self.threads = 0;
            std::mem::forget(std::mem::take(&mut self.timeouts));
        }
    }

    /// One more thread.
    fn start(&mut self) -> io::Result<()> {
        thread::Builder::new().name("raddle-timer".into()).spawn(run)?;
        self.threads += 1;
        Ok(())
    }
}

/// To be called by a thread before it blocks, whichever it is.
#[inline]
pub(crate) fn about_to_block() {
    if HOLDS_UP.get() {
        make_way();
    }
}

#[cold]
fn make_way() {
    let mut timer = lock();
    if timer.threads < MOST_THREADS && timer.start().is_ok() {
        HOLDS_UP.set(false);
    }
}

/// The life of the timer's thread.
fn run() {
    let mut timer = lock();
    loop {
        let now = Instant::now();
        match timer.timeouts.first_entry() {
            None => timer = TIMER.1.wait(timer).unwrap_or_else(PoisonError::into_inner),
            Some(first) if first.key().0 <= now => {
                let action = first.remove();
                drop(timer);
                HOLDS_UP.set(true);
                discard(std::panic::catch_unwind(std::panic::AssertUnwindSafe(action)).err());
                timer = lock();
                if !HOLDS_UP.replace(false) {
                    // There is another in its place.
                    timer.threads -= 1;
                    return;
                }
            }
            Some(first) => {
                let left = first.key().0 - now;
                timer = TIMER.1.wait_timeout(timer, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}
