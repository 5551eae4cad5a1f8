//! Futures that are done when it is time. What is not generic is `#[inline]`: compiled by programs that ask for it, and with it half of the
//! timer's tree.

use std::sync::{Arc, Weak};
use std::time::Duration;

use raddle_sync::sync::{Mutex, MutexGuard};
use raddle_sync::time::Instant;

use crate::future::failure::{Failure, FailureKind};
use crate::future::handle::Future;
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{Interrupts, hear};
use crate::future::promise::Promise;
use crate::future::upstream::{Inputs, Visitor};
use crate::future::wait;
use crate::panics::{contain, discard};
use crate::timer::{self, Timeout};

/// Calls `action` at that time, on the timer's thread, which has a stand-in while it waits there.
pub(super) fn at(
    deadline: Instant,
    action: impl FnOnce() + Send + 'static,
) -> Result<Timeout, Failure> {
    crate::pool::init_blocking();
    let action = || {
        if timer::is_last() {
            // What follows may block, and all timers would wait for it.
            wait::host::hand_over(Box::new(|| contain(action)));
        } else {
            action();
        }
    };
    Ok(timer::at(deadline, action)?)
}

impl Future<()> {
    /// Done after so long. An interrupt makes it fail at once, and frees the timer; so does dropping it. (One that is beyond all
    /// clocks has none, and what little it takes stays when it is dropped.)
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
    ///
    /// # Errors
    ///
    /// Where the system refuses the timer its thread: what it says, at once. So it is with all that has a limit or a delay.
    #[doc(alias = "sleep")]
    #[inline]
    pub fn delay(time: Duration) -> Future<()> {
        Delay::start(time).unwrap_or_else(Future::failed)
    }
}

/// A promise and the timeout that keeps it.
#[derive(Default)]
struct Delay(Mutex<Option<(Promise<()>, Timeout)>>);

impl Delay {
    #[inline]
    fn start(time: Duration) -> Result<Future<()>, Failure> {
        let Some(deadline) = Instant::now().checked_add(time) else {
            return Ok(Future::never().interruptible());
        };
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
            Promise::with_hearing(Interrupts::new(Some(hear(handler)), Some(inputs)));
        let mut place = delay.lock();
        let kept = Arc::clone(&delay);
        let timeout = at(deadline, move || kept.end(Ok(())))?;
        *place = Some((promise, timeout));
        drop(place);
        Ok(future)
    }

    #[inline]
    fn lock(&self) -> MutexGuard<'_, Option<(Promise<()>, Timeout)>> {
        self.0.lock()
    }

    #[inline]
    fn end(&self, result: Result<(), Failure>) {
        let parts = self.lock().take();
        if let Some((promise, timeout)) = parts {
            drop(timeout);
            promise.complete(result);
        }
    }
}

impl Inputs for Delay {
    #[inline]
    fn visit(&self, _: usize, _: &mut Visitor) {}

    /// Nobody waits for it: no use in going on.
    #[inline]
    fn abandoned(&self, _: usize) {
        let parts = self.lock().take();
        drop(parts);
    }
}

impl<T: Send + 'static> Future<T> {
    /// The same future, but not before so long from now.
    ///
    /// An interrupt goes to this future, and ends the delay: as nobody waits for the rest of it, a value that comes of it too early is
    /// dropped, and the interrupt is the failure. Fails as [`delay`](Future::delay) does where there is no timer. A dozen allocations.
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
        // Both from the start, so that a kill finds both. What is interrupted may say why itself, so it is waited for; but there is no
        // value before its time: a loop would go on at once, and again.
        let over = match Delay::start(time) {
            Ok(delay) => delay.adapt(|over| match over {
                Err(failure) if failure.kind() == FailureKind::Killed => Err(failure),
                over => Ok(over),
            }),
            Err(failure) => return Future::failed(failure),
        };
        let result = self.adapt(Ok);
        over.zip(result).adapt(|both| {
            let (over, result) = both?;
            match (over, result) {
                (Err(early), Ok(value)) => {
                    discard(value);
                    Err(early)
                }
                (_, result) => result,
            }
        })
    }
}
