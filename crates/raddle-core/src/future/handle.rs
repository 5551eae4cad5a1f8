//! [`Future`], the consumer's handle.

use raddle_sync::atomic::{AtomicBool, Ordering};
use std::fmt;
use std::marker::PhantomData;
use std::time::Duration;

use crate::depth;
#[cfg(not(raddle_loom))]
use crate::future::awaiting::Awaited;
use crate::future::failure::Failure;
use crate::future::interrupt::Interrupt;
use crate::future::node::Ends;
use crate::future::{Assist, Killed, wait, walk};

/// A value of type `T` that will be there, or the [`Failure`] why not.
///
/// [`spawn`](crate::spawn) makes one, and [`Promise`](crate::Promise). Its operations make new futures of it,
/// which begin at once to wait for it: nothing has to be polled. Their closures run on the thread that
/// completes it, or at once if it is done.
///
/// Dropping a future detaches: what produces it goes on, its result is dropped. (The global pool is
/// never dropped, so when `main` returns, what it still had to do is lost; other pools finish what was spawned
/// when they are dropped.)
///
/// ```
/// use raddle::{Future, spawn};
///
/// let sum = spawn(|| 6 * 7).map(|n| n + 1).flat_map(|n| spawn(move || n * 2));
/// assert_eq!(sum.wait()?, 86);
/// # Ok::<(), raddle::Failure>(())
/// ```
#[doc(alias = "JoinHandle")]
#[doc(alias = "RemoteHandle")]
#[must_use = "dropping a future drops its value; what produces it goes on all the same"]
pub struct Future<T>(pub(crate) Repr<T>);

// All that is in it is a word, if the value is, and nothing that may change under a shared reference: so the compiler takes
// it for a pair, which travels in two registers.
pub(crate) enum Repr<T> {
    Ready(T),
    Failed(Failure),
    Pending(Pending<T>),
    /// Nobody produces it, so there is no node that somebody would have to free.
    Never(Box<Never>),
    /// It has been polled.
    #[cfg(not(raddle_loom))]
    Awaited(Box<Awaited<T>>),
    /// A poll has given the result away.
    #[cfg(not(raddle_loom))]
    Taken,
}

/// Whether a future that is never done has been killed, which is how it ends all the same.
#[derive(Default)]
pub(crate) struct Never(AtomicBool);

impl Never {
    fn is_killed(&self) -> bool {
        // ORD: nothing comes with it.
        self.0.load(Ordering::Relaxed)
    }

    fn kill(&self) -> Killed {
        // ORD: as above.
        match self.0.swap(true, Ordering::Relaxed) {
            true => Killed::TooLate,
            false => Killed::BeforeStart,
        }
    }
}

/// What a future is at the moment.
pub(crate) enum Now<T> {
    Done(Result<T, Failure>),
    Pending(Pending<T>),
    Never,
}

/// The consumer's share of a node.
pub(crate) struct Pending<T> {
    pub(super) ends: Ends,
    pub(super) _value: PhantomData<T>,
}

const _: () = assert!(size_of::<Future<usize>>() == 2 * size_of::<usize>());

// SAFETY: values are made on one thread and used on another; `&Future` gives no reference to one.
unsafe impl<T: Send> Send for Future<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for Future<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Pending<T> {}

impl<T> Future<T> {
    /// The future of a new node.
    ///
    /// # Safety
    ///
    /// The node is that of a future of `T` and has no other consumer; the cell is alive as long as it is not done
    /// (V1 in `upstream`).
    #[inline]
    pub(crate) unsafe fn pending(ends: Ends) -> Future<T> {
        Future(Repr::Pending(Pending { ends, _value: PhantomData }))
    }

    /// The result if it is there, else what to attach to. Does not unwind.
    #[inline]
    pub(crate) fn now(self) -> Now<T> {
        match self.0 {
            Repr::Ready(value) => Now::Done(Ok(value)),
            Repr::Failed(failure) => Now::Done(Err(failure)),
            Repr::Pending(pending) => match pending.outcome() {
                Some(outcome) => Now::Done(pending.take_seen(outcome)),
                None => Now::Pending(pending),
            },
            rare => Future(rare).now_rarely(),
        }
    }

    /// Apart, as what may call itself is not inlined.
    #[cold]
    #[inline(never)]
    fn now_rarely(self) -> Now<T> {
        match self.0 {
            Repr::Never(never) if never.is_killed() => Now::Done(Err(Failure::killed())),
            Repr::Never(_) => Now::Never,
            #[cfg(not(raddle_loom))]
            Repr::Awaited(awaited) => awaited.release().now(),
            #[cfg(not(raddle_loom))]
            Repr::Taken => Now::Done(Err(Failure::message("its result was taken by a poll"))),
            Repr::Ready(_) | Repr::Failed(_) | Repr::Pending(_) => unreachable!("seen to by `now`"),
        }
    }

    /// Drops it: what it holds goes when all is over that runs here, or is another thread's if that waits. From within an operation.
    pub(crate) fn drop_later(self)
    where
        T: Send + 'static,
    {
        match self.now() {
            Now::Done(Ok(value)) => walk::drop_later(value),
            Now::Done(Err(failure)) if failure.is_counted() => walk::drop_later(failure),
            Now::Pending(pending) => depth::at_limit(|| drop(pending)),
            Now::Done(Err(_)) | Now::Never => {}
        }
    }

    /// Its node, if there is one.
    pub(crate) fn as_pending(&self) -> Option<&Pending<T>> {
        match &self.0 {
            Repr::Pending(pending) => Some(pending),
            #[cfg(not(raddle_loom))]
            Repr::Awaited(awaited) => Some(awaited.pending()),
            _ => None,
        }
    }

    pub(crate) fn from_pending(pending: Pending<T>) -> Future<T> {
        Future(Repr::Pending(pending))
    }

    /// Whether the result is there: [`wait`](Future::wait) would not block.
    #[doc(alias = "isDefined")]
    #[doc(alias = "isCompleted")]
    #[doc(alias = "poll")]
    #[doc(alias = "is_finished")]
    pub fn is_done(&self) -> bool {
        match &self.0 {
            Repr::Never(never) => never.is_killed(),
            _ => self.as_pending().is_none_or(|pending| pending.outcome().is_some()),
        }
    }

    /// Blocks until the result is there, and returns it.
    ///
    /// Tasks behind the future that have not been started are run by the waiting thread, if it is of their
    /// pool or may come in as a guest (for which the pool must not have been given a stack size of its
    /// own). If there is nothing of the kind, a thread of a pool gives its place to another one until the future is done: see
    /// [`PoolBuilder::max_spare_threads`](crate::PoolBuilder::max_spare_threads). What is behind a time limit or a race is left
    /// to other threads, as it may be over sooner than the task. So is all when the thread unwinds and this is within a `Drop`,
    /// if there may be other threads; in a pool of [`Waits::Host`](crate::Waits) a thread takes on anything then, too.
    ///
    /// A task that the waiting thread runs itself has to end before the wait does, also if the future is killed meanwhile, or
    /// another of several ([`collect`](crate::collect), [`zip`](Future::zip)) fails. So a task must not wait for what its
    /// waiter does after the wait: such a program ends at best if something fails. Nor must what follows such a task, at another
    /// consumer of a [`Shared`](crate::Shared) say, which runs there as well.
    ///
    /// # Errors
    ///
    /// The future's failure; `Cycle` if this very thread is running the task that is waited for, or the closure of an operation
    /// ([`map`](Future::map), ..) that the future is made of: not behind a time limit or a race. (Without spare threads left, that
    /// may be because the thread took on this wait while it waited: see [`Waits`](crate::Waits).)
    #[doc(alias = "touch")]
    #[doc(alias = "get")]
    #[doc(alias = "join")]
    #[doc(alias = "await")]
    #[doc(alias = "Await.result")]
    #[doc(alias = "block_on")]
    #[inline]
    pub fn wait(self) -> Result<T, Failure> {
        match self.0 {
            Repr::Ready(value) => Ok(value),
            Repr::Failed(failure) => Err(failure),
            Repr::Pending(pending) => pending.wait(),
            rare => match Future(rare).now_rarely() {
                Now::Done(result) => result,
                Now::Pending(pending) => pending.wait(),
                Now::Never => wait::forever(),
            },
        }
    }

    /// As [`wait`](Future::wait), for so long at most.
    ///
    /// It runs nothing meanwhile that might take longer, and leaves that to other threads. But where no other can come
    /// (with [`Waits::Host`](crate::Waits), at the cap of spare threads, where the system refuses threads), and nobody in the pool is seen to
    /// work and nothing ends for 100 ms, in this wait or in several in a row, a thread of the pool runs the tasks that it waits for after all,
    /// and may be late: else threads that all wait like this would do so in vain, for ever if each tries again. (Once one has, others with
    /// more time left than 100 ms do so after 10.) So it may where another calls [`broadcast`](crate::broadcast): it makes its own call
    /// once that has waited for 10 ms, unless it holds a lock of raddle's. With less time than a thread spins for (some 100 us) it is a
    /// look, as [`is_done`](Future::is_done).
    ///
    /// # Errors
    ///
    /// The future itself, if its result is not there in time.
    ///
    /// ```
    /// use std::time::Duration;
    /// use raddle::Future;
    ///
    /// let Ok(result) = Future::ready(7).wait_timeout(Duration::ZERO) else { unreachable!() };
    /// assert_eq!(result.unwrap(), 7);
    /// ```
    pub fn wait_timeout(self, time: Duration) -> Result<Result<T, Failure>, Future<T>> {
        let _touch = wait::Touch::begin(self.as_pending().map(Pending::node));
        match self.now() {
            Now::Done(result) => Ok(result),
            Now::Pending(pending) => pending.wait_timeout(time).map_err(Future::from_pending),
            Now::Never => {
                wait::idle(time);
                Err(Future::never())
            }
        }
    }

    /// Whether the result is there. Runs nothing, and never blocks: [`is_done`](Future::is_done) by the name under which
    /// others have it.
    #[doc(alias = "now_or_never")]
    pub fn poll_now(&self) -> bool {
        self.is_done()
    }

    /// Blocks until the result is there, and leaves it there.
    ///
    /// Waits as [`wait`](Future::wait) does. Several threads may wait for one future so; all but one of them look at it
    /// now and then.
    ///
    /// # Panics
    ///
    /// If this very thread is running the task that is waited for.
    ///
    /// ```
    /// let future = raddle::spawn(|| 6 * 7);
    /// future.wait_ref();
    /// assert!(future.is_done());
    /// assert_eq!(future.wait().unwrap(), 42);
    /// ```
    #[doc(alias = "wait_for_future")]
    #[track_caller]
    pub fn wait_ref(&self) {
        let _touch = wait::Touch::begin(self.as_pending().map(Pending::node));
        match &self.0 {
            Repr::Never(never) => {
                while !never.is_killed() {
                    wait::rest();
                }
            }
            _ => {
                let cycle =
                    self.as_pending().is_some_and(|pending| pending.block() == Assist::Cycle);
                assert!(!cycle, "the future waits for itself");
            }
        }
    }

    /// Asks whoever produces the value to stop: it is not wanted any more. The future is not completed
    /// by that, but by what they do about it.
    ///
    /// The signal goes upstream through all operations, to all inputs of a combination, and into
    /// the future that a [`flat_map`](Future::flat_map) has returned or will return. A promise remembers it
    /// ([`Promise::interrupted`](crate::Promise::interrupted)) and has its handler called. A spawned task that has
    /// not started never does, and fails with the interrupt; one that runs can ask
    /// [`interrupted`](crate::interrupted()). The latest signal wins. On a future that is done
    /// nothing happens.
    ///
    /// Handlers run on this thread before the call returns, unless another thread is running them just now, calls are nested deep, or
    /// one of them waits: then the others run elsewhere.
    #[doc(alias = "raise")]
    #[doc(alias = "cancel")]
    pub fn interrupt(&self, interrupt: impl Into<Interrupt>) {
        if let Some(pending) = self.as_pending() {
            pending.interrupt(&interrupt.into());
        }
    }

    /// Kills what produces the value: the future fails with `Killed` at once, unless it is done.
    ///
    /// A task that has not started never does, and what its closure holds is dropped when its future has failed: here, on another
    /// thread if what follows that waits, or soon if calls are nested deep. One that runs goes on until it asks [`killed`](crate::killed) and returns; its result is dropped. That goes for all
    /// tasks behind the future; promises behind it are interrupted, and their [producers](crate::Producer) killed. The
    /// closure of the operation that made this future is not run any more, unless it is running; where a promise is behind it, what
    /// it holds is kept until that is done or gone.
    ///
    /// # Interrupts, kills and masks
    ///
    /// Both go upstream through all operations, at once as far as there is something, and into what
    /// [`flat_map`](Future::flat_map) and [links](crate::Promise::link) lead to later. What differs:
    ///
    /// | | an interrupt | a kill |
    /// |---|---|---|
    /// | this future | is done when its source is | fails with `Killed` at once |
    /// | a task that has not started | never does, and fails with the interrupt | never does, and fails with `Killed` |
    /// | a task that runs | [`interrupted`](crate::interrupted()) | [`killed`](crate::killed) |
    /// | a task that waits for another future | goes on waiting, also when a `within` has given up on it; it may ask between calls of [`wait_timeout`](Future::wait_timeout) | the same |
    /// | a promise | its handler; [`Promise::interrupted`](crate::Promise::interrupted) | the same, with `Killed` as the cause; its producer's `kill` |
    /// | what is [`masked`](Future::masked) | ends there | goes on |
    /// | what is [`interruptible`](Future::interruptible) | ends there, which fails | goes on |
    /// | a [`Shared`](crate::Shared) | goes on when no consumer is left that wants it | the same |
    /// | the fallback of [`or`](Future::or) | when the other has ended | the same |
    /// | what is done | nothing | nothing; `TooLate` |
    /// | what is [`never`](Future::never) done | nothing | fails with `Killed` |
    /// | afterwards | the latest one counts | no interrupt takes its place |
    ///
    /// So a mask keeps a request to stop from those who should not hear of it, and a kill is no request. It returns
    /// `WhileRunning` if a task behind the future runs, or may: handlers come first, and while one of them waits what is left, tasks
    /// too, is killed by another thread. The closure of an operation counts as a part of what follows it, which has not started.
    ///
    /// ```
    /// use raddle::{FailureKind, Future, Killed, Promise};
    ///
    /// assert_eq!(Future::ready(1).kill(), Killed::TooLate);
    ///
    /// let (promise, future) = Promise::<u32>::new();
    /// let next = future.map(|n| n + 1);
    /// assert_eq!(next.kill(), Killed::BeforeStart);
    /// assert_eq!(next.wait().unwrap_err().kind(), FailureKind::Killed);
    /// promise.set(1);
    /// ```
    #[doc(alias = "abort")]
    pub fn kill(&self) -> Killed {
        match &self.0 {
            Repr::Never(never) => never.kill(),
            _ => self.as_pending().map_or(Killed::TooLate, Pending::kill),
        }
    }

    /// The same future, masked: interrupts of it, and of what is made of it, go no further. Kills do: see
    /// [`kill`](Future::kill).
    ///
    /// Costs nothing.
    ///
    /// ```
    /// use raddle::Promise;
    ///
    /// let (promise, future) = Promise::<()>::new();
    /// future.masked().interrupt("stop");
    /// assert!(promise.interrupted().is_none());
    /// ```
    #[doc(alias = "uninterruptible")]
    pub fn masked(self) -> Future<T> {
        match self.0 {
            Repr::Pending(mut pending) => {
                pending.ends = pending.ends.masked();
                Future(Repr::Pending(pending))
            }
            #[cfg(not(raddle_loom))]
            Repr::Awaited(awaited) => awaited.release().masked(),
            done => Future(done),
        }
    }
}

// A panic leaves no future half done.
impl<T> std::panic::UnwindSafe for Future<T> {}
impl<T> std::panic::RefUnwindSafe for Future<T> {}

impl<T> From<Result<T, Failure>> for Future<T> {
    #[inline]
    fn from(result: Result<T, Failure>) -> Future<T> {
        match result {
            Ok(value) => Future(Repr::Ready(value)),
            Err(failure) => Future(Repr::Failed(failure)),
        }
    }
}

impl<T> fmt::Debug for Future<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match &self.0 {
            Repr::Ready(_) => "ready",
            Repr::Failed(_) => "failed",
            _ if self.is_done() => "done",
            _ => "pending",
        };
        f.debug_tuple("Future").field(&format_args!("{state}")).finish()
    }
}
