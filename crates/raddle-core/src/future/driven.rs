//! From async Rust: futures that a pool drives.

use std::any::Any;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{self, Poll, Wake, Waker};
use std::thread;

use raddle_sync::sync::Mutex;

use crate::future::failure::{Failure, FailureKind};
use crate::future::handle::{Future, Now, Pending};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{Interrupts, hear};
use crate::future::promise::Promise;
use crate::future::upstream::{Inputs, Visitor};
use crate::future::walk;
use crate::local::{self, Frame, Snapshot};
use crate::panics::{contain, discard};
use crate::pool::{Pool, PoolRef, Suspended, Worker};
use crate::spawn::claim::Claim;
use crate::spawn::hooks::{Outcome, Unfinished};

impl<T: Send + 'static> Future<T> {
    /// The future of an async one, which the pool polls: on a thread of a pool that is its pool, from outside
    /// the global one.
    ///
    /// It is polled with the scope locals of the code that called this, first as soon as a worker is free, then
    /// whenever it was woken. (So what it awaits of other runtimes, timers of tokio say, needs that runtime to be
    /// entered.) An interrupt drops the async future, and so does [`kill`](Future::kill), whatever a poll that is running comes
    /// to; dropping the raddle future detaches, as always. A panic in a poll makes it fail, and so does it if nobody is left who
    /// could wake it. (One that awaits itself, through a [`Shared`](crate::Shared), waits for ever: what an async future will await
    /// next is not known.) [`Pool::kill_all`] ends it, and so does the end of the pool, where it waits for
    /// what comes from outside once the pool is being dropped: with the failure `Killed`. (Such are dropped one after the other, so
    /// what is dropped must not wait for another of them. And only when all tasks are over: one that waits for such a future keeps the
    /// pool's drop waiting until what comes from outside ends both.)
    ///
    /// Hooks of the pool are called once: [`before_start`](crate::PoolBuilder::before_start) before the first poll, and
    /// [`after_finish`](crate::PoolBuilder::after_finish) when it is over and the async future has been dropped, perhaps on another
    /// thread. Five allocations for the async future, and one for each poll.
    ///
    /// ```
    /// use raddle::{Future, spawn};
    ///
    /// let future = Future::from_async(async {
    ///     let word = spawn(|| "warp").await.unwrap();
    ///     word.len()
    /// });
    /// assert_eq!(future.wait().unwrap(), 4);
    /// ```
    #[doc(alias = "spawn_async")]
    pub fn from_async(future: impl std::future::Future<Output = T> + Send + 'static) -> Future<T> {
        match Worker::here() {
            Some(region) => Driven::start(region.registry().gate.home(), future),
            None => Driven::start(Pool::global().registry().gate.home(), future),
        }
    }
}

impl Pool {
    /// As [`Future::from_async`], on this pool.
    pub fn spawn_async<T: Send + 'static>(
        &self,
        future: impl std::future::Future<Output = T> + Send + 'static,
    ) -> Future<T> {
        Driven::start(self.registry().gate.home(), future)
    }
}

/// An async future that a pool drives.
struct Driven<F, T>
where
    F: Send + 'static,
    T: Send + 'static,
{
    home: PoolRef,
    /// As which the pool knows it.
    number: u64,
    state: Mutex<Drive<F, T>>,
}

struct Drive<F, T> {
    /// Away while it is polled; gone when it is over.
    work: Option<Work<F, T>>,
    /// The next poll, queued or running.
    turn: Option<Pending<()>>,
    /// Somebody is about to queue the next poll, and to look again whether it is due.
    queueing: bool,
    /// How many polls have ended.
    polls: u64,
    /// It was woken since the poll began, or is to be polled at the end of it.
    woken: bool,
    over: bool,
    interrupted: Option<Interrupt>,
    /// The latest signal on its way to the handler: with what it ends if the next poll hears of it first.
    heard: Option<Interrupt>,
}

struct Work<F, T> {
    future: Pin<Box<F>>,
    /// What is bound where it was made. Gone with it: wakers may stay for long.
    context: Snapshot,
    promise: Promise<T>,
    /// The hook that hears of its end, once it has started.
    unfinished: Option<Unfinished>,
}

impl<F, T> Driven<F, T>
where
    F: std::future::Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn start(home: PoolRef, future: F) -> Future<T> {
        let driven = Arc::new_cyclic(|driven: &Weak<Self>| Driven {
            home,
            number: home.enlist(driven.clone()),
            state: Mutex::new(Drive {
                work: None,
                turn: None,
                queueing: false,
                polls: 0,
                woken: true,
                over: false,
                interrupted: None,
                heard: None,
            }),
        });
        let inputs: Weak<dyn Inputs> = Arc::<Self>::downgrade(&driven);
        let (promise, result) = {
            let driven = Arc::downgrade(&driven);
            let handler = move |interrupt| {
                if let Some(driven) = driven.upgrade() {
                    let _ = driven.interrupt(interrupt);
                }
            };
            Promise::with_hearing(Interrupts::new(Some(hear(handler)), Some(inputs)))
        };
        let context = Snapshot::capture();
        let work = Work { future: Box::pin(future), context, promise, unfinished: None };
        driven.state.lock().work = Some(work);
        driven.schedule(false);
        result
    }

    /// Queues a poll if one is due and none is queued or running: after all else if it comes `last`.
    fn schedule(self: &Arc<Self>, last: bool) {
        loop {
            let mut state = self.state.lock();
            let queued = state.turn.is_some() || state.queueing;
            if state.over || state.work.is_none() || queued || !state.woken {
                return;
            }
            (state.woken, state.queueing) = (false, true);
            let polls = state.polls;
            drop(state);
            // Not under the lock: what follows tasks is the user's.
            let mut turn = Turn(Some(Arc::clone(self)));
            let poll = move || {
                if let Some(driven) = turn.0.take() {
                    driven.poll()
                }
            };
            let future = match self.home.spawn(poll, last) {
                Ok(future) => future,
                Err(poll) => {
                    // The pool has gone. What its end leads to may wake the next one, and so on.
                    let _ = self.interrupt(self.why_unpolled());
                    drop(poll); // Whose `Turn` has nothing left to do.
                    return;
                }
            };
            let mut state = self.state.lock();
            state.queueing = false;
            if state.polls == polls {
                if let Now::Pending(turn) = future.now() {
                    state.turn = Some(turn);
                }
                return;
            }
            // It has ended already, and may have been woken again.
            drop(state);
            drop(future);
        }
    }

    fn poll(self: Arc<Self>) {
        let mut state = self.state.lock();
        let first = state.polls == 0;
        let Some(mut work) = state.work.take() else { return };
        drop(state);
        let waker = Waker::from(Arc::clone(&self));
        let context = std::mem::take(&mut work.context);
        let polled = panic::catch_unwind(AssertUnwindSafe(|| {
            context.run(|| {
                if first {
                    work.start(self.home)?;
                }
                Ok(work.future.as_mut().poll(&mut task::Context::from_waker(&waker)))
            })
        }));
        work.context = context;
        let end = match polled.and_then(|polled| polled) {
            Ok(Poll::Pending) => None,
            Ok(Poll::Ready(value)) => Some(End { outcome: Outcome::Completed, result: Ok(value) }),
            Err(payload) => Some(End::panicked(payload)),
        };
        // By `kill_all`, which comes to what is suspended later.
        let killed = Frame::current_claim().is_some_and(Claim::is_killed);
        let mut state = self.state.lock();
        let why = state.interrupted.take();
        let turn = state.turn.take();
        state.polls += 1;
        if end.is_none() && why.is_none() && !killed {
            state.work = Some(work);
            drop(state);
            drop(turn);
            // Woken by its own poll, it yields.
            return self.schedule(true);
        }
        state.over = true;
        drop(state);
        drop(turn);
        // As with other tasks: a kill comes before a value, and that before an interrupt.
        let why = if killed { Some(Interrupt::killed()) } else { why };
        let end = match (end, why) {
            (end, Some(why)) if end.is_none() || why.is_kill() => {
                discard(end);
                End::by(why)
            }
            (Some(end), why) => {
                discard(why);
                end
            }
            (None, _) => unreachable!("it goes on"),
        };
        work.end(end);
    }

    /// False: it is over, or being polled.
    fn interrupt(&self, why: Interrupt) -> bool {
        let Some((work, end)) = self.end_by(why) else { return false };
        Ending::begin(work, end);
        true
    }

    /// What ends it if a poll does not take place: what the poll has heard, or else that there is none.
    fn why_unpolled(&self) -> Interrupt {
        let heard = self.state.lock().heard.take();
        heard.unwrap_or_else(Interrupt::killed)
    }

    /// As `interrupt`, now, however deep this thread is: what that leads to does not nest here.
    fn end_now(&self, why: Interrupt) -> bool {
        let Some((work, end)) = self.end_by(why) else { return false };
        contain(|| work.end(end));
        true
    }

    /// None: it is over, or being polled.
    fn end_by(&self, why: Interrupt) -> Option<Ended<F, T>> {
        let mut state = self.state.lock();
        if state.over {
            return None;
        }
        let Some(work) = state.work.take() else {
            // It is being polled.
            let before = state.interrupted.replace(why);
            drop(state);
            discard(before);
            return None;
        };
        state.over = true;
        drop(state);
        Some((work, End::by(why)))
    }
}

impl<F, T> Suspended for Driven<F, T>
where
    F: std::future::Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn kill(&self) -> bool {
        self.end_now(Interrupt::killed())
    }
}

impl<F, T> Drop for Driven<F, T>
where
    F: Send + 'static,
    T: Send + 'static,
{
    fn drop(&mut self) {
        self.home.discharge(self.number);
        let work = self.state.lock().work.take();
        if let Some(work) = work {
            // Nobody is left who could wake it.
            let result = Err(Failure::plain(FailureKind::Broken));
            Ending::begin(work, End { outcome: Outcome::Broken, result });
        }
    }
}

/// How it ends: as hooks are told, and as who waits for it.
struct End<T> {
    outcome: Outcome,
    result: Result<T, Failure>,
}

impl<T> End<T> {
    fn panicked(payload: Box<dyn Any + Send>) -> End<T> {
        End { outcome: Outcome::Panicked, result: Err(Failure::panicked(payload)) }
    }

    fn by(why: Interrupt) -> End<T> {
        let outcome = if why.is_kill() { Outcome::Killed } else { Outcome::Interrupted };
        End { outcome, result: Err(why.into()) }
    }
}

/// An end that has come: brought about now, or when this thread is less deep.
struct Ending<F, T>(Mutex<Option<Ended<F, T>>>);

type Ended<F, T> = (Work<F, T>, End<T>);

impl<F: Send + 'static, T: Send + 'static> Ending<F, T> {
    /// What it awaits may be another of these, and so on: so it does not nest.
    fn begin(work: Work<F, T>, end: End<T>) {
        walk::abandon((Arc::new(Ending(Mutex::new(Some((work, end))))), 0));
    }
}

impl<F: Send, T: Send + 'static> Inputs for Ending<F, T> {
    fn visit(&self, _: usize, _: &mut Visitor) {}

    fn abandoned(&self, _: usize) {
        let ended = self.0.lock().take();
        if let Some((work, end)) = ended {
            work.end(end);
        }
    }
}

/// A poll to be. Dropped without it, because the pool has gone or its tasks were killed, it is the end.
struct Turn<F, T>(Option<Arc<Driven<F, T>>>)
where
    F: std::future::Future<Output = T> + Send + 'static,
    T: Send + 'static;

impl<F, T> Drop for Turn<F, T>
where
    F: std::future::Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn drop(&mut self) {
        if let Some(driven) = self.0.take() {
            let _ = driven.end_now(driven.why_unpolled());
        }
    }
}

impl<F, T: Send + 'static> Work<F, T> {
    /// Tells the hook, before the first poll; if that panics, there is none.
    fn start(&mut self, home: PoolRef) -> thread::Result<()> {
        let (started, unfinished) = home.starts_async();
        self.unfinished = unfinished;
        started
    }

    /// Drops the async future, and what it has inherited, tells the hook, then completes.
    fn end(self, end: End<T>) {
        let Work { future, context, promise, unfinished } = self;
        context.run(|| discard(future));
        discard(context);
        if let Some(unfinished) = unfinished {
            // Killed while its last poll ran, it may not have heard of it yet.
            let outcome = if promise.is_killed() { Outcome::Killed } else { end.outcome };
            // As after other tasks: nothing is bound, least of all what is for whoever ends it.
            local::outside(|| unfinished.finish(outcome));
        }
        promise.complete(end.result);
    }
}

impl<F, T> Wake for Driven<F, T>
where
    F: std::future::Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    fn wake(self: Arc<Self>) {
        self.state.lock().woken = true;
        self.schedule(false);
    }
}

impl<F, T> Inputs for Driven<F, T>
where
    F: std::future::Future<Output = T> + Send + 'static,
    T: Send + 'static,
{
    /// Whoever waits may run the next poll: nothing else, because what the future awaits only it knows. Interrupts come by the
    /// handler; a poll that runs can ask for them, too.
    fn visit(&self, _: usize, visitor: &mut Visitor) {
        let mut state = self.state.lock();
        // Whoever finds another at the handler goes on to the poll, and may be there before the handler is here.
        if let Some(signal) = visitor.signal().filter(|_| !state.over).cloned() {
            if !state.heard.as_ref().is_some_and(Interrupt::is_kill) {
                visitor.let_go(state.heard.replace(signal));
            }
        }
        if let Some(turn) = &state.turn {
            turn.visit(visitor);
        }
    }
}
