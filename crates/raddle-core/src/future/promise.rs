//! [`Promise`]: the right to complete a future.

use std::error::Error;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::future::Killed;
use crate::future::failure::{Failure, FailureKind};
use crate::future::handle::Future;
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::{self, Hear, InterruptNode, Interrupts};
use crate::future::link;
use crate::future::node::{self, Ends, NodeRef, Root};
use crate::future::state::State;
use crate::future::walk;
use crate::panics::discard;

/// Who produces the value of a promise that is made by [`Promise::with_producer`]: it answers interrupts and kills.
///
/// Both are called as the handler of [`Promise::with_interrupt`] is, one at a time.
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not produce the value of a promise",
    label = "does not answer interrupts and kills",
    note = "implement `raddle::Producer` for it, or give a closure that is to hear of interrupts to `Promise::with_interrupt`"
)]
pub trait Producer: Send + 'static {
    /// The value is not wanted any more: see [`Future::interrupt`].
    fn interrupt(&mut self, why: Interrupt);

    /// Whatever produces the value is to stop; its future has failed, or is about to. Says what came of it: whether it had
    /// started.
    fn kill(&mut self) -> Killed;
}

/// What a thread that is about to wait for a value can do to have it sooner: what would be done by another thread, which would have
/// to wake it.
#[doc(hidden)]
pub trait Helper: Send + Sync + 'static {
    /// Called holding nothing, by a thread that works for no pool. It may block, but no longer than until the promise is completed,
    /// by whomever; if it returns before, the thread waits as others do.
    fn help(self: Arc<Self>);
}

fn heard_by(mut producer: impl Producer) -> Hear {
    Box::new(move |interrupt| match interrupt.is_kill() {
        true => producer.kill(),
        false => {
            producer.interrupt(interrupt);
            Killed::BeforeStart
        }
    })
}

/// The right, and the duty, to complete a [`Future`], once.
///
/// Completing runs what waits for the future: continuations on this thread, before the call returns (unless
/// completions are nested deep, see [`Future`]), and blocked threads are woken. A promise that is dropped without
/// being completed makes its future fail with [`Broken`](FailureKind::Broken).
///
/// Completing a promise runs continuations, hence code of others: not under a lock that they
/// may want. Either release it before, or have those who follow use [`Future::on`].
///
/// A promise for a word takes 16 bytes, for which glibc takes 32. Creating it is one allocation, completing it one atomic
/// read-modify-write, or none if a continuation is attached.
///
/// What is freed goes to a cache: each thread keeps up to 512 free blocks of each size (of 16 to 128 bytes) for its next
/// promises, operations and tasks, and all threads share 8 MiB more. So what is made and freed at a rate seldom asks the
/// allocator, and what was alive at once at some time stays with the process up to that much; a thread gives its share back
/// when it ends.
///
/// ```
/// use raddle::Promise;
///
/// let (promise, future) = Promise::new();
/// let answer = future.map(|n: u32| n * 2);
/// std::thread::spawn(move || promise.set(21));
/// assert_eq!(answer.wait().unwrap(), 42);
/// ```
///
/// A promise of one type is not one of another, be it shorter-lived, because who has the future takes the value for what
/// was promised:
///
/// ```compile_fail,E0308
/// use raddle::Promise;
///
/// type Any = for<'a> fn(&'a str);
/// type Static = fn(&'static str);
/// fn narrow(promise: Promise<Any>) -> Promise<Static> {
///     promise
/// }
/// ```
pub struct Promise<T> {
    root: NonNull<Root<T>>,
    /// Values go in here and come out at the other end.
    _invariant: PhantomData<fn(T) -> T>,
}

// SAFETY: the root is shared with the consumer as `future::state` says; the value crosses threads.
unsafe impl<T: Send> Send for Promise<T> {}
// SAFETY: a shared promise only tells of interrupts.
unsafe impl<T: Send> Sync for Promise<T> {}

impl<T: Send + 'static> Promise<T> {
    /// A promise and its future.
    #[doc(alias = "create")]
    #[doc(alias = "apply")]
    #[allow(clippy::new_ret_no_self, reason = "a promise comes with its future")]
    #[inline]
    pub fn new() -> (Promise<T>, Future<T>) {
        Self::with_state(State::new())
    }

    /// A promise and its future; `handler` is called when the future is interrupted, or one made of it.
    ///
    /// It is called on the thread that interrupts, or on another if one of the same interrupt that is called before it waits for
    /// something of raddle's; with the scope locals of the code that called this; once for each interrupt, but one that comes
    /// while the handler runs is left to the thread that runs it, and replaces those that wait. The same [`Interrupt`] again, or by
    /// a second way, is heard once. Once the promise is completed no more interrupts come, but one that is under way may still
    /// arrive. Once it is linked they go to the future that it was linked to; whether the
    /// handler is called as well is not said. To interrupt does not complete the future: that
    /// is for the handler to bring about. Two or three more allocations.
    ///
    /// ```
    /// use std::sync::mpsc;
    /// use raddle::Promise;
    ///
    /// let (stop, stopped) = mpsc::channel();
    /// let (promise, future) = Promise::<u32>::with_interrupt(move |why| stop.send(why).unwrap());
    /// let derived = future.map(|n| n + 1);
    /// derived.interrupt("not needed any more");
    /// promise.fail(stopped.recv().unwrap());
    /// assert_eq!(derived.wait().unwrap_err().to_string(), "interrupted: not needed any more");
    /// ```
    #[doc(alias = "setInterruptHandler")]
    pub fn with_interrupt(
        handler: impl FnMut(Interrupt) + Send + 'static,
    ) -> (Promise<T>, Future<T>) {
        Self::with_hearing(Interrupts::new(Some(interrupt_node::hear(handler)), None))
    }

    /// A promise and its future, whose interrupts and kills `producer` answers.
    ///
    /// Otherwise as [`with_interrupt`](Promise::with_interrupt). [`Future::kill`] returns [`Killed::WhileRunning`] if the producer answers
    /// so, and otherwise [`Killed::BeforeStart`]; also where calls are nested so deep that it is asked later.
    ///
    /// ```
    /// use raddle::{Interrupt, Killed, Producer, Promise};
    ///
    /// struct Child(std::process::Child);
    ///
    /// impl Producer for Child {
    ///     fn interrupt(&mut self, _: Interrupt) {}
    ///     fn kill(&mut self) -> Killed {
    ///         let _ = self.0.kill();
    ///         Killed::WhileRunning
    ///     }
    /// }
    ///
    /// let child = std::process::Command::new("sleep").arg("60").spawn()?;
    /// let (promise, future) = Promise::<u32>::with_producer(Child(child));
    /// assert_eq!(future.kill(), Killed::WhileRunning);
    /// drop(promise);
    /// # Ok::<(), std::io::Error>(())
    /// ```
    pub fn with_producer(producer: impl Producer) -> (Promise<T>, Future<T>) {
        Self::with_hearing(Interrupts::new(Some(heard_by(producer)), None))
    }

    /// As [`with_producer`](Promise::with_producer); a thread that waits, and works for no pool, asks `helper` first.
    #[doc(hidden)]
    pub fn with_helper(
        producer: impl Producer,
        helper: Arc<dyn Helper>,
    ) -> (Promise<T>, Future<T>) {
        Self::with_hearing(Interrupts::helped(heard_by(producer), helper))
    }

    /// Has `handler` called when the future is interrupted, or one made of it, in the place of the handler before; at once if
    /// it has been.
    ///
    /// Otherwise as [`with_interrupt`](Promise::with_interrupt).
    ///
    /// ```
    /// use raddle::Promise;
    ///
    /// let (promise, future) = Promise::<()>::new();
    /// future.interrupt("stop");
    /// let (sender, heard) = std::sync::mpsc::channel();
    /// promise.on_interrupt(move |why| sender.send(why.to_string()).unwrap());
    /// assert_eq!(heard.recv().unwrap(), "stop");
    /// ```
    #[doc(alias = "setInterruptHandler")]
    pub fn on_interrupt(&self, handler: impl FnMut(Interrupt) + Send + 'static) {
        let root = NodeRef::root(self.root);
        // SAFETY: the producer keeps the root alive.
        let state = unsafe { root.state() };
        if state.is_dropped() && state.interrupt_node().is_none() {
            // Nobody is left who would interrupt, nor has anybody.
            return;
        }
        // SAFETY: by the producer.
        let interrupt_node = unsafe { InterruptNode::of(root) };
        // SAFETY: it is the producer's (F4).
        let interrupts = unsafe { InterruptNode::interrupts(interrupt_node) };
        discard(interrupts.set(interrupt_node::hear(handler)));
        interrupts.run();
    }

    pub(crate) fn with_hearing(interrupts: Interrupts) -> (Promise<T>, Future<T>) {
        Self::with_state(State::with_interrupt_node(interrupts.into_node()))
    }

    #[inline]
    fn with_state(state: State<node::Head>) -> (Promise<T>, Future<T>) {
        let root = Root::allocate(state);
        let node = NodeRef::root(root);
        // SAFETY: a new root of such a future.
        (Promise { root, _invariant: PhantomData }, unsafe { Future::pending(Ends::of(node)) })
    }

    /// Completes the future with a value.
    #[doc(alias = "setValue")]
    #[doc(alias = "success")]
    #[inline]
    pub fn set(self, value: T) {
        self.complete(Ok(value));
    }

    /// Completes the future with a failure: an error, a text, an [`Interrupt`], or a [`Failure`], which keeps its kind.
    ///
    /// ```
    /// use raddle::{FailureKind, Promise};
    ///
    /// let (promise, future) = Promise::<u32>::new();
    /// promise.fail(std::io::Error::other("no yarn"));
    /// let failure = future.wait().unwrap_err();
    /// assert_eq!((failure.kind(), failure.to_string()), (FailureKind::Error, "no yarn".into()));
    /// ```
    #[doc(alias = "setException")]
    #[doc(alias = "failure")]
    pub fn fail(self, failure: impl Into<Box<dyn Error + Send + Sync>>) {
        self.complete(Err(Failure::new(failure)));
    }

    /// Completes the future with a value or a failure.
    ///
    /// ```
    /// use raddle::Promise;
    ///
    /// let (promise, future) = Promise::new();
    /// promise.complete("12".parse::<u32>().map_err(Into::into));
    /// assert_eq!(future.wait().unwrap(), 12);
    /// ```
    #[doc(alias = "update")]
    #[doc(alias = "setResult")]
    #[inline]
    pub fn complete(self, result: Result<T, Failure>) {
        let node = self.into_node();
        // SAFETY: this is the producer, and used up.
        walk::start(unsafe { node::conclude(node, result) });
    }

    /// Makes the promise's future become another one: it ends as that ends, and interrupts go there.
    ///
    /// A chain of links is compressed as it forms. Two allocations at most.
    ///
    /// If the other future waits for this very promise, both fail with [`Cycle`](FailureKind::Cycle).
    ///
    /// ```
    /// use raddle::Promise;
    ///
    /// let ((outer, future), (inner, source)) = (Promise::new(), Promise::new());
    /// outer.link(source.map(|n: u32| n + 1));
    /// inner.set(1);
    /// assert_eq!(future.wait().unwrap(), 2);
    /// ```
    #[doc(alias = "become")]
    #[doc(alias = "completeWith")]
    #[doc(alias = "proxyTo")]
    pub fn link(self, future: Future<T>) {
        let root = ManuallyDrop::new(self).root;
        // SAFETY: this is the producer, and used up.
        unsafe { link::link(root, future) };
    }

    /// The latest interrupt that has come from the future or one made of it.
    ///
    /// ```
    /// use raddle::Promise;
    ///
    /// let (promise, future) = Promise::<()>::new();
    /// assert!(promise.interrupted().is_none());
    /// future.interrupt("stop");
    /// assert_eq!(promise.interrupted().unwrap().to_string(), "stop");
    /// ```
    #[doc(alias = "isInterrupted")]
    pub fn interrupted(&self) -> Option<Interrupt> {
        // SAFETY: the producer keeps the root alive.
        let state = unsafe { &self.root.as_ref().state };
        let heard = state.interrupt_node().and_then(|interrupt_node| {
            // SAFETY: it is the producer's (F4).
            unsafe { InterruptNode::look(interrupt_node, |heard| heard.signal.clone()) }
        });
        heard.or_else(|| state.is_killed().then(Interrupt::killed))
    }

    /// Whether the future has been killed: a hint.
    pub(crate) fn is_killed(&self) -> bool {
        // SAFETY: the producer keeps the root alive.
        unsafe { self.root.as_ref() }.state.is_killed()
    }

    /// Whether the future was dropped before anything was made of it: nobody will see the value.
    pub fn is_abandoned(&self) -> bool {
        // SAFETY: the producer keeps the root alive.
        unsafe { self.root.as_ref() }.state.is_dropped()
    }
}

/// The promise of a combination. If that goes before its end has come, nothing is left that would bring it about, because what it
/// waits for is never done: so is its future.
pub(crate) struct Pledge<T>(ManuallyDrop<Promise<T>>);

impl<T> Pledge<T> {
    pub(crate) fn of(promise: Promise<T>) -> Pledge<T> {
        Pledge(ManuallyDrop::new(promise))
    }

    /// The promise, which is to be kept now.
    pub(crate) fn promise(self) -> Promise<T> {
        let mut this = ManuallyDrop::new(self);
        // SAFETY: once, `self` is not dropped.
        unsafe { ManuallyDrop::take(&mut this.0) }
    }
}

impl<T: Send + 'static> Pledge<T> {
    pub(crate) fn interrupted(&self) -> Option<Interrupt> {
        self.0.interrupted()
    }
}

impl<T> Drop for Pledge<T> {
    fn drop(&mut self) {
        // SAFETY: once.
        let promise = unsafe { ManuallyDrop::take(&mut self.0) };
        // SAFETY: this is the producer, and used up.
        unsafe { walk::forsake::<T>(promise.into_node()) };
    }
}

impl<T> Promise<T> {
    fn into_node(self) -> NodeRef {
        NodeRef::root(ManuallyDrop::new(self).root)
    }
}

impl<T> Drop for Promise<T> {
    fn drop(&mut self) {
        let node = NodeRef::root(self.root);
        let broken = Err(Failure::plain(FailureKind::Broken));
        // SAFETY: this is the producer, and used up.
        walk::start(unsafe { node::conclude::<T>(node, broken) });
    }
}

// A panic leaves no promise half done.
impl<T> std::panic::UnwindSafe for Promise<T> {}
impl<T> std::panic::RefUnwindSafe for Promise<T> {}

impl<T> fmt::Debug for Promise<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Promise").finish_non_exhaustive()
    }
}
