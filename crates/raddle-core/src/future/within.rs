//! Futures that end when another one does, or before: `within`, `interruptible` and their like.

use raddle_sync::time::Instant;
use std::sync::{Arc, Weak};
use std::time::Duration;

use raddle_sync::sync::Mutex;

use crate::future::delay;
use crate::future::failure::Failure;
use crate::future::handle::{Future, Now, Pending};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{Interrupts, hear};
use crate::future::promise::Promise;
use crate::future::upstream::{Inputs, Visitor};
use crate::future::walk;
use crate::future::watch::{Watch, Watched};
use crate::timer::Timeout;

/// A future, and a promise that is to end as it does, or otherwise.
struct Within<T>(Mutex<Option<Ways<T>>>);

struct Ways<T> {
    source: Option<Watched<T>>,
    promise: Promise<T>,
    timeout: Option<Timeout>,
}

impl<T: Send + 'static> Within<T> {
    /// The within of a future that is not done; `prepare` is called before anybody can be told. If that fails, so does the future,
    /// as when the time is over, and what produces the value may be told so.
    fn take(
        future: Future<T>,
        make: impl FnOnce(&Arc<Within<T>>) -> (Promise<T>, Future<T>),
        prepare: impl FnOnce(&Arc<Within<T>>) -> Result<Option<Timeout>, Failure>,
        interrupt: bool,
    ) -> Future<T> {
        let source = match future.now() {
            Now::Done(result) => return Future::from(result),
            Now::Pending(pending) => Some(pending),
            Now::Never => None,
        };
        let within = Arc::new(Within(Mutex::new(None)));
        let (promise, future) = make(&within);
        // Locked, so that whoever comes early waits.
        let mut place = within.0.lock();
        let timeout = match prepare(&within) {
            Ok(timeout) => timeout,
            Err(failure) => {
                drop(place);
                end_early(source, promise, failure, interrupt);
                return future;
            }
        };
        match source.map(|source| Watched::new(source, within.clone(), 0)).transpose() {
            Ok(source) => *place = Some(Ways { source, promise, timeout }),
            Err(result) => {
                drop(place);
                drop(timeout);
                promise.complete(result);
            }
        }
        future
    }

    /// The source ends otherwise: it is let go, and what produces its value may be told so.
    fn leave(&self, failure: Failure, interrupt: bool) {
        let ways = self.0.lock().take();
        let Some(Ways { source, promise, .. }) = ways else { return };
        end_early(source.map(Watched::detached), promise, failure, interrupt);
    }
}

/// The promise fails, and the source is let go: what that holds goes when it is known, as it may take long. What produces the value may
/// be told so.
fn end_early<T: Send + 'static>(
    source: Option<Pending<T>>,
    promise: Promise<T>,
    failure: Failure,
    interrupt: bool,
) {
    let told = source.as_ref().filter(|_| interrupt).map(|source| {
        let signal = Interrupt::from(failure.clone());
        (source.visitor_of(&signal).finish(), signal)
    });
    // It is over before the handlers are. What follows may wait for what one of them does, and one for what follows.
    let let_go = || {
        if let Some((found, signal)) = told {
            found.interrupt(&signal);
        }
        drop(source);
    };
    walk::let_go_after(let_go, || promise.fail(failure));
}

impl<T: Send + 'static> Watch for Within<T> {
    fn told(self: Arc<Self>, _: usize) {
        let ways = self.0.lock().take();
        let Some(ways) = ways else { return };
        drop(ways.timeout);
        match ways.source.map(|source| source.told()) {
            Some(Now::Done(result)) => ways.promise.complete(result),
            _ => unreachable!("told that it is done"),
        }
    }
}

impl<T: Send + 'static> Inputs for Within<T> {
    fn visit(&self, _: usize, visitor: &mut Visitor) {
        let ways = self.0.lock();
        let Some(Ways { source: Some(source), timeout, .. }) = &*ways else { return };
        // The time may be over sooner.
        if timeout.is_some() && visitor.is_for_wait() {
            return;
        }
        source.pending().visit(visitor);
    }

    fn abandoned(&self, _: usize) {
        let ways = self.0.lock().take();
        drop(ways);
    }
}

impl<T: Send + 'static> Future<T> {
    /// The result if it comes in time, otherwise the failure `TimedOut`.
    ///
    /// The time begins now. What produces the value is let go without a word when it is over; to have it interrupted,
    /// see [`interrupt_after`](Future::interrupt_after). The timer is dropped when the result comes. One that waits for itself,
    /// through a [`Shared`](crate::Shared), fails with [`Cycle`](crate::FailureKind::Cycle) at once, and not when the time is
    /// over. A few allocations.
    ///
    /// ```
    /// use std::time::Duration;
    /// use raddle::{FailureKind, Future};
    ///
    /// let late = Future::<u32>::never().within(Duration::from_millis(1));
    /// assert_eq!(late.wait().unwrap_err().kind(), FailureKind::TimedOut);
    /// assert_eq!(Future::ready(1).within(Duration::ZERO).wait().unwrap(), 1);
    /// ```
    #[doc(alias = "orTimeout")]
    #[doc(alias = "timeout")]
    pub fn within(self, time: Duration) -> Future<T> {
        self.limited(time, false)
    }

    /// As [`within`](Future::within), and when the time is over what produces the value is interrupted.
    ///
    /// It has failed by then: a handler that takes long holds up nobody who waits for this. Handlers run where
    /// continuations of a [`delay`](Future::delay) do, on the thread that all timers share.
    ///
    /// ```
    /// use std::time::Duration;
    /// use raddle::{FailureKind, Promise};
    ///
    /// let (promise, future) = Promise::<u32>::new();
    /// let late = future.interrupt_after(Duration::from_millis(1)).wait().unwrap_err();
    /// assert_eq!(late.kind(), FailureKind::TimedOut);
    /// assert_eq!(promise.interrupted().unwrap().to_string(), "timed out");
    /// ```
    #[doc(alias = "raiseWithin")]
    #[doc(alias = "timeout")]
    pub fn interrupt_after(self, time: Duration) -> Future<T> {
        self.limited(time, true)
    }

    fn limited(self, time: Duration, interrupt: bool) -> Future<T> {
        // A time beyond all clocks is no limit.
        let Some(deadline) = Instant::now().checked_add(time) else { return self };
        Within::take(
            self,
            |within| Promise::with_hearing(Interrupts::with_inputs(Arc::downgrade(within) as _)),
            |within| {
                // The timer keeps it, and it drops the timeout when it is over.
                let within = Arc::clone(within);
                delay::at(deadline, move || within.leave(Failure::timed_out(), interrupt)).map(Some)
            },
            interrupt,
        )
    }

    /// The same future, except that an interrupt makes it fail at once and goes no further: what produces
    /// the value is let go. Kills go on: see [`kill`](Future::kill).
    ///
    /// ```
    /// use raddle::{FailureKind, Promise};
    ///
    /// let (promise, future) = Promise::<u32>::new();
    /// let future = future.interruptible();
    /// future.interrupt("enough");
    /// assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Interrupted);
    /// assert!(promise.interrupted().is_none());
    /// ```
    pub fn interruptible(self) -> Future<T> {
        Within::take(
            self,
            |within| {
                // The handler keeps the within, which drops the promise, and with it the handler, when it is over.
                let masked = Arc::new(Masked(Arc::clone(within)));
                let inputs: Weak<dyn Inputs> = Arc::<Masked<T>>::downgrade(&masked);
                let handler = move |interrupt: Interrupt| masked.0.leave(interrupt.into(), false);
                Promise::with_hearing(Interrupts::new(Some(hear(handler)), Some(inputs)))
            },
            |_| Ok(None),
            false,
        )
    }
}

/// A within that lets interrupts go no further, but kills.
struct Masked<T>(Arc<Within<T>>);

impl<T: Send + 'static> Inputs for Masked<T> {
    fn visit(&self, key: usize, visitor: &mut Visitor) {
        if !visitor.is_masked_out() {
            self.0.visit(key, visitor);
        }
    }

    fn abandoned(&self, key: usize) {
        self.0.abandoned(key);
    }
}
