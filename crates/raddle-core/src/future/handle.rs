//! [`Future`], the consumer's handle.

use raddle_sync::atomic::{AtomicBool, Ordering};
use raddle_sync::time::Instant;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::time::Duration;

#[cfg(not(raddle_loom))]
use crate::future::awaiting::Awaited;
use crate::future::failure::Failure;
use crate::future::interrupt::Interrupt;
use crate::future::node::{self, NodeRef};
use crate::future::state::{Abandoned, Kill, Outcome, Refused};
use crate::future::upstream::{Inputs, Purpose, Visitor};
use crate::future::{Assist, Killed, Waiter, interrupt_node::InterruptNode, wait, walk};

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
#[must_use = "dropping a future drops its value; what produces it goes on all the same"]
pub struct Future<T>(pub(crate) Repr<T>);

pub(crate) enum Repr<T> {
    Ready(T),
    Failed(Failure),
    Pending(Pending<T>),
    /// Nobody produces it, so there is no node that somebody would have to free.
    Never(Never),
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
    node: NodeRef,
    /// Where interrupts go: see `upstream`.
    cell: Option<NodeRef>,
    _value: PhantomData<T>,
}

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
    /// The node is that of a future of `T` and has no other consumer; `cell` is alive as long as it is not done
    /// (V1 in `upstream`).
    #[inline]
    pub(crate) unsafe fn pending(node: NodeRef, cell: Option<NodeRef>) -> Future<T> {
        Future(Repr::Pending(Pending { node, cell, _value: PhantomData }))
    }

    /// The result if it is there, else what to attach to.
    #[inline]
    pub(crate) fn now(self) -> Now<T> {
        if let Repr::Pending(pending) = self.0 {
            // Not worth a jump table.
            return match pending.take() {
                Ok(result) => Now::Done(result),
                Err(pending) => Now::Pending(pending),
            };
        }
        match self.0 {
            Repr::Ready(value) => Now::Done(Ok(value)),
            Repr::Failed(failure) => Now::Done(Err(failure)),
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
            Repr::Taken => panic!("its result was taken by a poll"),
            Repr::Ready(_) | Repr::Failed(_) | Repr::Pending(_) => unreachable!("seen to by `now`"),
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
    /// to other threads, as it may be over sooner than the task.
    ///
    /// A task that the waiting thread runs itself has to end before the wait does, also if the future is killed meanwhile, or
    /// another of several ([`collect`](crate::collect), [`zip`](Future::zip)) fails. So a task must not wait for what its
    /// waiter does after the wait: such a program ends at best if something fails.
    ///
    /// # Errors
    ///
    /// The future's failure; `Cycle` if this very thread is running the task that is waited for. (Without spare threads left, that
    /// may be because the thread took on this wait while it waited: see [`Waits`](crate::Waits).)
    #[doc(alias = "touch")]
    #[doc(alias = "get")]
    #[doc(alias = "join")]
    #[doc(alias = "await")]
    #[doc(alias = "Await.result")]
    pub fn wait(self) -> Result<T, Failure> {
        let _touch = wait::Touch::begin(&self);
        match self.now() {
            Now::Done(result) => result,
            Now::Pending(pending) => pending.wait(),
            Now::Never => wait::forever(),
        }
    }

    /// As [`wait`](Future::wait), for so long at most.
    ///
    /// It runs nothing meanwhile that might take longer, and leaves that to other threads.
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
        let _touch = wait::Touch::begin(&self);
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
        let _touch = wait::Touch::begin(self);
        match &self.0 {
            Repr::Never(never) => {
                while !never.is_killed() {
                    wait::idle(wait::LOOK);
                }
            }
            _ => {
                let cycle = self
                    .as_pending()
                    .is_some_and(|pending| pending.block(None, Waiter::Patient) == Assist::Cycle);
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
    /// Handlers run on this thread before the call returns, unless another thread is running them just now, or calls
    /// are nested deep.
    #[doc(alias = "raise")]
    #[doc(alias = "cancel")]
    pub fn interrupt(&self, interrupt: impl Into<Interrupt>) {
        if let Some(pending) = self.as_pending() {
            pending.interrupt(&interrupt.into());
        }
    }

    /// Kills what produces the value: the future fails with `Killed` at once, unless it is done.
    ///
    /// A task that has not started never does, and what its closure holds is dropped here. One that
    /// runs goes on until it asks [`killed`](crate::killed) and returns; its result is dropped. That goes for all
    /// tasks behind the future; promises behind it are interrupted, and their [producers](crate::Producer) killed. The
    /// closure of the operation that made this future is not run any more, unless it is running.
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
    /// `WhileRunning` if a task behind the future runs; the closure of an operation counts as a part of what
    /// follows it, which has not started.
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
                pending.cell = pending.cell.map(NodeRef::masked);
                Future(Repr::Pending(pending))
            }
            #[cfg(not(raddle_loom))]
            Repr::Awaited(awaited) => awaited.release().masked(),
            done => Future(done),
        }
    }
}

impl<T> Pending<T> {
    #[inline]
    pub(crate) fn node(&self) -> NodeRef {
        self.node
    }

    #[inline]
    pub(crate) fn cell(&self) -> Option<NodeRef> {
        self.cell
    }

    #[inline]
    pub(crate) fn outcome(&self) -> Option<Outcome> {
        // SAFETY: the consumer keeps the node alive.
        unsafe { self.node.state() }.outcome()
    }

    /// The result, if it is there.
    #[inline]
    pub(crate) fn take(self) -> Result<Result<T, Failure>, Pending<T>> {
        match self.outcome() {
            Some(outcome) => Ok(self.take_done(outcome)),
            None => Err(self),
        }
    }

    /// Whether nothing but adapters lies between this and the root upstream: to drop it is to drop that.
    pub(crate) fn is_adapted(&self) -> bool {
        // SAFETY: the consumer keeps the node alive.
        match unsafe { self.node.vtable() } {
            Some(vtable) => vtable.adapts,
            None => true,
        }
    }

    /// The combination that this is the future of, if it is one.
    #[inline]
    fn combination(&self) -> Option<Arc<dyn Inputs>> {
        // SAFETY: the consumer keeps the node alive.
        let state = unsafe { self.node.state() };
        if self.is_adapted() && (state.is_heard() || !self.node.is_root()) {
            // SAFETY: this is the consumer.
            return unsafe { Visitor::combination(self.node, self.cell) };
        }
        None
    }

    /// The result of a node that is done.
    #[inline]
    pub(crate) fn take_done(self, outcome: Outcome) -> Result<T, Failure> {
        if outcome == Outcome::Killed {
            // The producer may still be there: going is all there is to do.
            return Err(Failure::killed());
        }
        let node = ManuallyDrop::new(self).node;
        // SAFETY: done, so the slot is full and the consumer's (F1), which is used up.
        let result = unsafe { node.take(outcome) };
        // SAFETY: the slot is empty, and there is nothing downstream.
        unsafe { node.free::<T>() };
        result
    }

    /// What a consumer does to whom nobody could be attached: the result, or none if there will never be one.
    pub(crate) fn refused(self, refused: Refused) -> Option<Result<T, Failure>> {
        match refused {
            Refused::Done(outcome) => Some(self.take_done(outcome)),
            Refused::Never | Refused::Taken => None,
        }
    }

    /// Shows a visitor what is upstream; by a combination that holds this future.
    pub(crate) fn visit(&self, visitor: &mut Visitor) {
        // SAFETY: this is the consumer.
        unsafe { visitor.enter(self.node, self.cell) };
    }

    fn visitor(&self, purpose: Purpose) -> Visitor {
        let mut visitor = Visitor::new(purpose);
        // SAFETY: this is the consumer.
        unsafe { visitor.enter(self.node, self.cell) };
        visitor
    }

    /// There is to be a shared future of this one.
    pub(crate) fn share(&self) {
        self.visitor(Purpose::Share).finish();
    }

    pub(crate) fn interrupt(&self, signal: &Interrupt) {
        self.visitor(Purpose::Interrupt(signal.clone())).finish().interrupt(signal);
    }

    pub(crate) fn kill(&self) -> Killed {
        // SAFETY: the consumer keeps the node alive.
        if let Some(kill) = unsafe { self.node.vtable() }.and_then(|vtable| vtable.kill) {
            if let Some(head) = self.node.head() {
                // SAFETY: as above.
                return unsafe { kill(head) };
            }
        }
        let combination = self.combination();
        let found = self.visitor(Purpose::Interrupt(Interrupt::killed())).finish();
        // SAFETY: the consumer keeps the node alive.
        let state = unsafe { self.node.state() };
        // SAFETY: E1: by the consumer.
        match state.kill(|interrupt_node| unsafe { InterruptNode::next(interrupt_node) }) {
            Kill::TooLate => Killed::TooLate,
            Kill::Done(waiter) => {
                if let Some(waiter) = waiter {
                    // SAFETY: F2: found by who completed it.
                    unsafe { walk::wake(waiter) };
                }
                let running = found.kill();
                if let Some(inputs) = combination {
                    walk::abandon(inputs);
                }
                if running { Killed::WhileRunning } else { Killed::BeforeStart }
            }
        }
    }

    // --- waiting ---

    fn wait(self) -> Result<T, Failure> {
        if self.block(None, Waiter::Patient) == Assist::Cycle {
            return Err(Failure::cycle());
        }
        self.take().unwrap_or_else(|_| unreachable!("waited until it was done"))
    }

    fn wait_timeout(self, time: Duration) -> Result<Result<T, Failure>, Pending<T>> {
        let deadline = Instant::now().checked_add(time);
        if self.block(deadline, Waiter::Hurried) == Assist::Cycle {
            return Ok(Err(Failure::cycle()));
        }
        self.take()
    }

    /// Helps, unless there is a deadline, and blocks until it is done, or the time has come.
    fn block(&self, deadline: Option<Instant>, waiter: Waiter) -> Assist {
        let helps = waiter == Waiter::Patient;
        loop {
            // Before it helps: a task that it runs may wait for what this thread has put off, and take long.
            walk::flush();
            if helps && self.assist() == Assist::Cycle {
                return Assist::Cycle;
            }
            // A task that this thread has just run may have been killed, and its killer not be ready yet.
            if self.outcome().is_some() {
                return Assist::Go;
            }
            // SAFETY: this is the consumer.
            unsafe { wait::block(self.node, deadline) };
            let late = || deadline.is_some_and(|deadline| Instant::now() >= deadline);
            if self.outcome().is_some() || late() {
                return Assist::Go;
            }
        }
    }

    /// Offers to run what is behind the future and has not started.
    fn assist(&self) -> Assist {
        if self.outcome().is_some() {
            return Assist::Go;
        }
        // SAFETY: the consumer keeps the node alive.
        let assist = unsafe { self.node.vtable() }.and_then(|vtable| vtable.assist);
        match assist.zip(self.node.head()) {
            // SAFETY: as above.
            Some((assist, head)) => walk::fresh(|| unsafe { assist(head, Waiter::Patient) }),
            None => self.assist_upstream(),
        }
    }

    /// As [`assist`](Pending::assist), for a future that was made of others.
    fn assist_upstream(&self) -> Assist {
        let mut help = Assist::Go;
        loop {
            let mut ran = false;
            for task in self.visitor(Purpose::Gather).finish().tasks {
                match walk::fresh(|| task.assist(Waiter::Patient)) {
                    Assist::Cycle => return Assist::Cycle,
                    Assist::Ran => ran = true,
                    Assist::Go => {}
                }
                if self.outcome().is_some() {
                    return Assist::Ran;
                }
            }
            // What has been run may have brought new ones.
            if !ran {
                return help;
            }
            help = Assist::Ran;
        }
    }
}

impl<T> Drop for Pending<T> {
    fn drop(&mut self) {
        if let Some(inputs) = self.combination() {
            walk::abandon(inputs);
        }
        // SAFETY: the consumer keeps the node alive.
        let state = unsafe { self.node.state() };
        match state.abandon() {
            Abandoned::Left => {}
            // SAFETY: the producer has left, and the slot is empty.
            Abandoned::Never => unsafe { self.node.free::<T>() },
            Abandoned::Done(outcome) => {
                // SAFETY: done, so the slot is the consumer's (F1), who goes.
                unsafe { node::discard_result::<T>(self.node, outcome) };
            }
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
