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
use std::sync::{Arc, Condvar, LazyLock, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use raddle_sync::thread;

use crate::future::failure::Failure;
use crate::future::handle::Future;
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::Interrupts;
use crate::future::promise::Promise;
use crate::future::upstream::{Inputs, Visitor};
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

/// Calls `action` at that time, on the timer's thread.
pub(crate) fn at(
    deadline: Instant,
    action: impl FnOnce() + Send + 'static,
) -> Result<Timeout, Failure> {
    let mut timer = lock();
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
    // So that this thread's waits are told.
    crate::pool::init_blocking();
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

impl Future<()> {
    /// Done after so long. An interrupt makes it fail at once, and frees the timer; so does dropping it.
    ///
    /// Continuations run on the timer's thread, which all share: to do more than a little there, go
    /// [`on`](Future::on) a pool. (One that waits for a future does not hold up the others.)
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use raddle::Future;
    ///
    /// let start = Instant::now();
    /// Future::delay(Duration::from_millis(2)).wait().unwrap();
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// ```
    #[doc(alias = "sleep")]
    pub fn delay(time: Duration) -> Future<()> {
        let Some(deadline) = Instant::now().checked_add(time) else { return Future::never() };
        // The timer keeps the delay.
        let delay = Arc::new(Delay::default());
        let inputs: Weak<dyn Inputs> = Arc::<Delay>::downgrade(&delay);
        let weak = Arc::downgrade(&delay);
        let handler = move |interrupt: Interrupt| {
            if let Some(delay) = weak.upgrade() {
                delay.end(Err(interrupt.into()));
            }
        };
        let (promise, future) =
            Promise::with_hearing(Interrupts::new(Some(Box::new(handler)), Some(inputs)));
        let mut place = delay.lock();
        let kept = Arc::clone(&delay);
        match at(deadline, move || kept.end(Ok(()))) {
            Ok(timeout) => *place = Some((promise, timeout)),
            Err(failure) => promise.fail(failure),
        }
        drop(place);
        future
    }
}

/// A promise and the timeout that keeps it.
#[derive(Default)]
struct Delay(Mutex<Option<(Promise<()>, Timeout)>>);

impl Delay {
    fn lock(&self) -> MutexGuard<'_, Option<(Promise<()>, Timeout)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, result: Result<(), Failure>) {
        let parts = self.lock().take();
        if let Some((promise, timeout)) = parts {
            drop(timeout);
            promise.complete(result);
        }
    }
}

impl Inputs for Delay {
    fn visit(&self, _: &mut Visitor) {}

    /// Nobody waits for it: no use in going on.
    fn abandoned(&self) {
        let parts = self.lock().take();
        drop(parts);
    }
}

impl<T: Send + 'static> Future<T> {
    /// The same future, but not before so long from now.
    ///
    /// An interrupt ends the delay, and goes on to this future.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use raddle::Future;
    ///
    /// let start = Instant::now();
    /// assert_eq!(Future::ready(1).delayed(Duration::from_millis(2)).wait().unwrap(), 1);
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// ```
    #[doc(alias = "delayedExecutor")]
    pub fn delayed(self, time: Duration) -> Future<T> {
        Future::delay(time).transform(move |_| self)
    }
}
