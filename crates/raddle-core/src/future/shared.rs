//! [`Shared`]: a future with several consumers.

mod consumers;

use std::fmt;
use std::panic::{self, AssertUnwindSafe};
use std::ptr;
use std::sync::Arc;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::sync::Mutex;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::Interrupts;
use crate::future::promise::{Pledge, Promise};
use crate::future::shared::consumers::Consumers;
use crate::future::upstream::{Inputs, Purpose, Visitor};
use crate::future::wait::Part;
use crate::future::wait::host::{self, blocking};
use crate::future::walk;
use crate::future::watch::{Watch, Watched};
use crate::local;
use crate::panics::{discard, discard_all};

/// A future that any number may consume, each with a clone of the result. Made by [`Future::shared`].
///
/// Every call of [`future`](Shared::future) gives a consumer's own future. What it costs is two allocations, the
/// list's, and a lock. One that is dropped, or loses a race, leaves nothing behind. (If another future has become this one, by
/// [`flat_map`](Future::flat_map) or [`Promise::link`](crate::Promise::link), and that is dropped, this stays until the result is there.)
///
/// A consumer that leaves stops nobody else: an interrupt, or a kill, of its future goes on to the source, which all
/// share, only when every other consumer has been interrupted or killed, or dropped its future. (One who has made
/// something of its future and dropped that still consumes: the closure is to be called. A `Shared` that has no consumer
/// wants nothing.) Clones are made one after the other, in the order of the consumers; whoever asks for one meanwhile, by
/// [`future`](Shared::future), waits for its turn, except on the thread that makes one. So a `Clone` hangs that waits for a later
/// one, or for what asks for one on another thread: half of a [`join`](crate::join), say. So do two, of two shared futures, each of
/// which asks for one of the other's.
///
/// For recursion whose results are kept, make each of the others by `map`, [`zip_with`](Future::zip_with) or
/// [`flat_map`](Future::flat_map): that blocks no thread, and a million of them are no matter. Tasks that *wait* for each other's results
/// have a thread each while they do, of which a pool has not many more than
/// [`max_spare_threads`](crate::PoolBuilder::max_spare_threads).
///
/// ```
/// use raddle::spawn;
///
/// let shared = spawn(|| 20).shared();
/// let (a, b) = (shared.future().map(|n| n + 1), shared.map(|n| n + 2));
/// assert_eq!((a.wait().unwrap(), b.wait().unwrap()), (21, 22));
/// ```
pub struct Shared<T>(Arc<Handle<T>>);

/// What all clones of a [`Shared`] hold. When they are gone, so is the source as soon as it has no consumer.
struct Handle<T> {
    /// There until it is dropped.
    source: Option<Arc<Source<T>>>,
    /// Drops the source, if not at once: its result may own the next one.
    let_go: fn(Arc<Source<T>>),
}

struct Source<T>(Mutex<State<T>>);

enum State<T> {
    Waiting {
        source: Option<Watched<T>>,
        consumers: Consumers<T>,
        /// How many of them have not been interrupted.
        wanting: usize,
        /// The latest signal, kept back for the sake of those.
        signal: Option<Interrupt>,
        /// Whether there may be more consumers.
        open: bool,
    },
    /// The result, and those who have not been told yet.
    Done(Arc<Kept<T>>, Consumers<T>),
    /// There will be no result.
    Never,
}

/// As which the source tells that it is done.
const SOURCE: usize = 0;
/// The first consumer's key.
const FIRST: usize = 1;

/// The result, of which there are to be clones.
///
/// # Invariants
///
/// - **SH1** It is used by one thread at a time, whose turn it is: `T` need not be `Sync`.
struct Kept<T> {
    result: Result<T, Failure>,
    turn: Mutex<()>,
    /// Whose turn it is.
    thread: AtomicUsize,
}

// SAFETY: SH1.
unsafe impl<T: Send> Sync for Kept<T> {}

raddle_sync::thread_local! {
    /// Its address is the thread's name.
    static ME: u8 = const { 0 };
}

/// The name of the thread that asks; no other that there is has it.
pub(super) fn this_thread() -> usize {
    ME.with(ptr::from_ref).addr()
}

impl<T> Kept<T> {
    fn new(result: Result<T, Failure>) -> Arc<Kept<T>> {
        Arc::new(Kept { result, turn: Mutex::new(()), thread: AtomicUsize::new(0) })
    }
}

impl<T: Clone> Kept<T> {
    /// A clone; if that panics, the failure. Nothing else is locked meanwhile, and a `Clone` that asks for another clone
    /// on this thread gets it.
    fn copy(&self) -> Result<T, Failure> {
        let copy = || {
            panic::catch_unwind(AssertUnwindSafe(|| self.result.clone()))
                .unwrap_or_else(|payload| Err(Failure::panicked(payload)))
        };
        let me = this_thread();
        // ORD: only this thread writes this name.
        if self.thread.load(Ordering::Relaxed) == me {
            return copy();
        }
        // Whoever has its turn is in the user's code, and may wait there for what only others can do in this thread's place.
        let turn = self.turn.try_lock().unwrap_or_else(|| blocking(|| self.turn.lock()));
        self.thread.store(me, Ordering::Relaxed);
        let copy = copy();
        self.thread.store(0, Ordering::Relaxed);
        drop(turn);
        copy
    }
}

impl<T: Clone + Send + 'static> Future<T> {
    /// Makes it possible to have several consumers.
    pub fn shared(self) -> Shared<T> {
        let state = |source| State::Waiting {
            source,
            consumers: Consumers::new(FIRST),
            wanting: 0,
            signal: None,
            open: true,
        };
        let done = |result| State::Done(Kept::new(result), Consumers::new(FIRST));
        let source = match self.now() {
            Now::Done(result) => Source(Mutex::new(done(result))),
            Now::Never => Source(Mutex::new(State::Never)),
            Now::Pending(pending) => {
                pending.share();
                let source = Arc::new(Source(Mutex::new(state(None))));
                let mut place = source.0.lock();
                let watched = Watched::new(pending, source.clone(), SOURCE);
                // Nobody tells of what has become that already.
                let never = watched.as_ref().is_ok_and(Watched::is_never);
                let (new, rest) = match watched {
                    Ok(watched) if never => (State::Never, Some(watched)),
                    Ok(watched) => (state(Some(watched)), None),
                    Err(result) => (done(result), None),
                };
                let is_done = matches!(new, State::Done(..));
                *place = new;
                drop(place);
                drop(rest);
                if is_done {
                    host::resolves(Arc::as_ptr(&source), Part::All);
                }
                return Shared(Handle::new(source));
            }
        };
        let source = Arc::new(source);
        host::resolves(Arc::as_ptr(&source), Part::All);
        Shared(Handle::new(source))
    }
}

impl<T: Clone + Send + 'static> Handle<T> {
    fn new(source: Arc<Source<T>>) -> Arc<Handle<T>> {
        Arc::new(Handle { source: Some(source), let_go: |source| walk::let_go_of_source(source) })
    }
}

impl<T> Handle<T> {
    fn source(&self) -> &Arc<Source<T>> {
        self.source.as_ref().unwrap_or_else(|| unreachable!("it is not dropped yet"))
    }
}

impl<T: Clone + Send + 'static> Shared<T> {
    /// One more consumer's future.
    pub fn future(&self) -> Future<T> {
        let source = self.0.source();
        let mut state = source.0.lock();
        match &mut *state {
            State::Done(kept, _) => {
                let kept = Arc::clone(kept);
                drop(state);
                host::seen(Arc::as_ptr(source));
                Future::from(kept.copy())
            }
            State::Never => Future::never(),
            State::Waiting { consumers, wanting, .. } => {
                let inputs = Arc::downgrade(source);
                let interrupts = Interrupts::with_inputs_by(inputs, consumers.next_key());
                let (promise, future) = Promise::with_hearing(interrupts);
                consumers.push(Pledge::of(promise));
                *wanting += 1;
                future
            }
        }
    }

    /// Whether the result is there.
    pub fn is_done(&self) -> bool {
        matches!(&*self.0.source().0.lock(), State::Done(..))
    }

    /// Blocks until the result is there: see [`Future::wait`].
    ///
    /// # Errors
    ///
    /// As there.
    pub fn wait(self) -> Result<T, Failure> {
        self.future().wait()
    }

    /// [`Future::map`] of one more consumer's future.
    pub fn map<U: Send + 'static>(&self, f: impl FnOnce(T) -> U + Send + 'static) -> Future<U> {
        self.future().map(f)
    }

    /// [`Future::flat_map`] of one more consumer's future.
    pub fn flat_map<U: Send + 'static>(
        &self,
        f: impl FnOnce(T) -> Future<U> + Send + 'static,
    ) -> Future<U> {
        self.future().flat_map(f)
    }

    /// [`Future::zip`] of one more consumer's future.
    ///
    /// ```
    /// let ten = raddle::spawn(|| 10).shared();
    /// let pair = ten.zip(ten.map(|n| n + 1));
    /// assert_eq!(pair.wait().unwrap(), (10, 11));
    /// ```
    pub fn zip<U: Send + 'static>(&self, other: Future<U>) -> Future<(T, U)> {
        self.future().zip(other)
    }
}

impl<T: Clone + Send + 'static> From<Shared<T>> for Future<T> {
    fn from(shared: Shared<T>) -> Future<T> {
        shared.future()
    }
}

impl<T: Clone + Send + 'static> Watch for Source<T> {
    fn told(self: Arc<Self>, index: usize) {
        if index == SOURCE {
            self.source_is_done();
        } else {
            self.tell(index);
        }
    }

    fn left(self: Arc<Self>) {
        let (before, consumers) = {
            let mut state = self.0.lock();
            let State::Waiting { consumers, .. } = &mut *state else { return };
            let consumers = consumers.take();
            (std::mem::replace(&mut *state, State::Never), consumers)
        };
        discard(before);
        discard_all(consumers.into_promises());
    }

    fn leads_on(&self) -> bool {
        match &*self.0.lock() {
            State::Waiting { consumers, .. } => !consumers.is_empty(),
            State::Done(..) | State::Never => true,
        }
    }
}

impl<T: Clone + Send + 'static> Source<T> {
    fn source_is_done(self: Arc<Self>) {
        let source = match &mut *self.0.lock() {
            State::Waiting { source, .. } => source.take(),
            State::Done(..) | State::Never => None,
        };
        let Some(Now::Done(result)) = source.map(|source| source.told()) else { return };
        host::resolves(Arc::as_ptr(&self), Part::All);
        // There for all to see before the first consumer is told: its continuation may look.
        let kept = Kept::new(result);
        let (before, keys): (State<T>, Vec<usize>) = {
            let mut state = self.0.lock();
            let State::Waiting { consumers, .. } = &mut *state else { return };
            let consumers = consumers.take();
            let keys = consumers.keys();
            (std::mem::replace(&mut *state, State::Done(kept, consumers)), keys)
        };
        // A signal that was kept back is users'.
        discard(before);
        let this: Arc<dyn Watch> = self;
        walk::tell_each(&this, &keys);
    }

    /// Gives a consumer its clone.
    fn tell(&self, key: usize) {
        let consumer = match &mut *self.0.lock() {
            State::Done(kept, consumers) => consumers.remove(key).zip(Some(Arc::clone(kept))),
            State::Waiting { .. } | State::Never => None,
        };
        if let Some(((promise, _), kept)) = consumer {
            // `clone` is the users', and nothing of whoever completes.
            promise.promise().complete(local::outside(|| kept.copy()));
        }
    }
}

impl<T: Clone + Send + 'static> Inputs for Source<T> {
    /// Somebody comes upstream by this consumer.
    fn visit(&self, key: usize, visitor: &mut Visitor) {
        // Upstream of this one all is shared: V4.
        if matches!(visitor.purpose, Purpose::Share) {
            return;
        }
        let mut state = self.0.lock();
        let State::Waiting { source: Some(future), consumers, wanting, signal, .. } = &mut *state
        else {
            return;
        };
        if let Some(new) = visitor.signal() {
            let Some(wanted) = consumers.give_up(key) else { return };
            *wanting -= usize::from(wanted);
            // What is kept back for the sake of others goes on in the place of what was.
            let kept_back = (*wanting > 0).then(|| new.clone());
            let goes_on = kept_back.is_none();
            visitor.let_go(std::mem::replace(signal, kept_back));
            if !goes_on {
                return;
            }
        }
        // All consumers lead there.
        if visitor.is_new(self) {
            future.pending().visit(visitor);
        }
    }

    fn abandoned(&self, key: usize) {
        self.leave(key);
    }
}

impl<T> Source<T> {
    /// The future of this consumer has been dropped.
    fn leave(&self, key: usize) {
        let (mut visited, mut kept_back) = (None, None);
        let consumer = match &mut *self.0.lock() {
            State::Waiting { source, consumers, wanting, signal, .. } => {
                let consumer = consumers.remove(key);
                *wanting -= usize::from(consumer.as_ref().is_some_and(|&(_, wanted)| wanted));
                // Those that are left have been interrupted, or killed.
                if *wanting == 0 {
                    kept_back = signal.take();
                    visited = source.as_ref().zip(kept_back.clone()).map(|(source, signal)| {
                        let mut visitor = Visitor::new(Purpose::Interrupt(signal));
                        source.pending().visit(&mut visitor);
                        visitor
                    });
                }
                consumer
            }
            State::Done(_, consumers) => consumers.remove(key),
            State::Never => None,
        };
        drop(consumer);
        if let (Some(visitor), Some(signal)) = (visited, &kept_back) {
            visitor.finish().interrupt(signal);
        }
        discard(kept_back);
        self.let_go();
    }

    /// Lets go of the future that nobody waits for any more, nor will.
    fn let_go(&self) {
        let unwanted = match &mut *self.0.lock() {
            State::Waiting { source, consumers, open: false, .. } if consumers.is_empty() => {
                source.take()
            }
            _ => None,
        };
        drop(unwanted);
    }
}

impl<T> Drop for Handle<T> {
    fn drop(&mut self) {
        let Some(source) = self.source.take() else { return };
        if let State::Waiting { open, .. } = &mut *source.0.lock() {
            *open = false;
        }
        source.let_go();
        (self.let_go)(source);
    }
}

impl<T> Clone for Shared<T> {
    fn clone(&self) -> Shared<T> {
        Shared(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Shared<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}
