//! The timer: one thread, started on first use, that does things when it is time.
//!
//! Timeouts are in a tree by time, so that adding and cancelling one are logarithmic and a cancelled one is gone
//! at once. A million of them take some hundred bytes each and no processor time while they wait.

use std::collections::BTreeMap;
use std::sync::{Condvar, LazyLock, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::future::failure::Failure;
use crate::future::handle::Future;
use crate::future::promise::Promise;
use crate::panics::discard;

type Action = Box<dyn FnOnce() + Send>;

/// When, and which of those of the same time.
type Key = (Instant, u64);

#[derive(Default)]
struct Timer {
    timeouts: BTreeMap<Key, Action>,
    next: u64,
    running: bool,
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
    if !timer.running {
        thread::Builder::new().name("raddle-timer".into()).spawn(run).map_err(Failure::from)?;
        timer.running = true;
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
                discard(std::panic::catch_unwind(std::panic::AssertUnwindSafe(action)).err());
                timer = lock();
            }
            Some(first) => {
                let left = first.key().0 - now;
                timer = TIMER.1.wait_timeout(timer, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
    }
}

impl Future<()> {
    /// Done after so long. An interrupt makes it fail at once, and frees the timer.
    ///
    /// Continuations run on the timer's thread, which all share: to do more than a little there, go
    /// [`on`](Future::on) a pool.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use raddle_core::Future;
    ///
    /// let start = Instant::now();
    /// Future::delay(Duration::from_millis(2)).wait().unwrap();
    /// assert!(start.elapsed() >= Duration::from_millis(2));
    /// ```
    #[doc(alias = "sleep")]
    pub fn delay(time: Duration) -> Future<()> {
        let Some(deadline) = Instant::now().checked_add(time) else { return Future::never() };
        let shared = std::sync::Arc::new(Mutex::new((None, None)));
        let place = std::sync::Arc::clone(&shared);
        let take = move || {
            let mut place = place.lock().unwrap_or_else(PoisonError::into_inner);
            (place.0.take(), place.1.take())
        };
        let again = take.clone();
        let (promise, future) = Promise::with_interrupt(move |interrupt| {
            let (promise, timeout): (Option<Promise<()>>, Option<Timeout>) = again();
            drop(timeout);
            if let Some(promise) = promise {
                promise.fail(interrupt);
            }
        });
        let mut place = shared.lock().unwrap_or_else(PoisonError::into_inner);
        let timeout = at(deadline, move || {
            if let (Some(promise), _) = take() {
                promise.set(());
            }
        });
        match timeout {
            Ok(timeout) => *place = (Some(promise), Some(timeout)),
            Err(failure) => promise.fail(failure),
        }
        drop(place);
        future
    }
}

impl<T: Send + 'static> Future<T> {
    /// The same future, but not before so long from now.
    ///
    /// An interrupt ends the delay, and goes on to this future.
    ///
    /// ```
    /// use std::time::{Duration, Instant};
    /// use raddle_core::Future;
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
