//! [`window`]: many futures, a few at a time.

use std::collections::BTreeMap;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Arc, Weak};

use raddle_sync::sync::Mutex;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now};
use crate::future::interrupt::Interrupt;
use crate::future::interrupt_node::Interrupts;
use crate::future::promise::{Pledge, Promise};
use crate::future::shared::this_thread;
use crate::future::upstream::{Inputs, Visitor};
use crate::future::wait::{Part, host};
use crate::future::walk;
use crate::future::watch::{Watch, Watched};
use crate::local::{self, Snapshot};
use crate::panics::{Apart, Discarding, discard, discard_all};

/// Calls `f` with each item, so that at most `n` of the futures that it returns are on their way at once, and collects the
/// values, in the order of the items; or fails with the first failure, and calls `f` no more.
///
/// The first calls are made here, the others on the threads that complete the futures, one at a time, with the scope
/// locals of the code that called this. A panic of `f`, or of the iterator, makes the future fail. Interrupts go to all
/// futures that are on their way. (One that waits for itself, through a [`Shared`](crate::Shared), waits for ever: what `f` will
/// return next is not known.) One allocation for each of these, and a few more.
///
/// If the future is dropped, or what [`unit`](Future::unit) and the like have made of it, then `f` is not called for the rest of
/// the items: whoever wants it to be keeps the future, or attaches something that is to happen then.
///
/// # Panics
///
/// If `n` is 0.
///
/// ```
/// use raddle::{spawn, window};
///
/// let squares = window(1..=100_u64, 4, |n| spawn(move || n * n));
/// assert_eq!(squares.wait()?.into_iter().sum::<u64>(), 338_350);
/// # Ok::<(), raddle::Failure>(())
/// ```
#[doc(alias = "buffered")]
#[doc(alias = "traverse_limit")]
#[doc(alias = "buffer_unordered")]
#[track_caller]
pub fn window<I, T: Send + 'static>(
    items: I,
    n: usize,
    f: impl FnMut(I::Item) -> Future<T> + Send + 'static,
) -> Future<Vec<T>>
where
    I: IntoIterator,
    I::IntoIter: Send + 'static,
{
    assert!(n > 0, "a window of 0 lets nothing through");
    let (mut items, mut f) = (Apart::new(items.into_iter()), Apart::new(f));
    let next: Next<T> = Box::new(move || items.get().next().map(f.get()));
    let window = Arc::new_cyclic(|weak: &Weak<Window<T>>| {
        let inputs: Weak<dyn Inputs> = weak.clone();
        let (promise, future) = Promise::with_hearing(Interrupts::with_inputs(inputs));
        Window {
            context: Snapshot::capture(),
            state: Mutex::new(State {
                next: Some(next),
                caller: None,
                free: n,
                more: true,
                values: Vec::new(),
                missing: 0,
                inputs: BTreeMap::new(),
                promise: Some(Pledge::of(promise)),
                heard: None,
                future: Some(future),
            }),
        }
    });
    let future = window.state.lock().future.take();
    window.pump();
    future.unwrap_or_else(|| unreachable!("it was put there"))
}

/// Gives the next future, if there is one more.
type Next<T> = Box<dyn FnMut() -> Option<Future<T>> + Send>;

struct Window<T> {
    context: Snapshot,
    state: Mutex<State<T>>,
}

struct State<T> {
    /// Away while it is called; gone when it is over.
    next: Option<Next<T>>,
    /// Which thread calls it meanwhile.
    caller: Option<usize>,
    /// How many more may be on their way.
    free: usize,
    /// Whether there may be more items.
    more: bool,
    values: Vec<Option<T>>,
    /// So many of the values are not there yet.
    missing: usize,
    inputs: BTreeMap<usize, Watched<T>>,
    /// Gone when it is over.
    promise: Option<Pledge<Vec<T>>>,
    /// What it had heard when it ended: for what is being called for meanwhile.
    heard: Option<Interrupt>,
    /// For who makes it.
    future: Option<Future<Vec<T>>>,
}

impl<T: Send + 'static> Window<T> {
    /// Calls for futures until enough are on their way, unless somebody is doing that, who will see what has changed.
    fn pump(self: &Arc<Self>) {
        loop {
            let mut next = {
                let mut state = self.state.lock();
                if !state.more || state.free == 0 {
                    return;
                }
                let Some(next) = state.next.take() else { return };
                state.caller = Some(this_thread());
                next
            };
            let called = panic::catch_unwind(AssertUnwindSafe(|| self.context.run(&mut next)));
            let now = match called {
                Ok(future) => future.map(Future::now),
                Err(payload) => Some(Now::Done(Err(Failure::panicked(payload)))),
            };
            let mut state = self.state.lock();
            state.caller = None;
            if state.promise.is_none() {
                let heard = state.heard.take();
                drop(state);
                if let (Some(Now::Pending(pending)), Some(signal)) = (&now, &heard) {
                    pending.interrupt(signal);
                }
                // One by one: two panics at once would end the process.
                discard(next);
                discard(now);
                discard(heard);
                return;
            }
            state.next = Some(next);
            let signal = state.promise.as_ref().and_then(Pledge::interrupted);
            let mut late = None;
            let index = state.values.len();
            let result = match now {
                None => {
                    state.more = false;
                    None
                }
                Some(now) => {
                    state.values.push(None);
                    state.missing += 1;
                    state.free -= 1;
                    match now {
                        Now::Done(result) => Some(result),
                        Now::Never => None,
                        Now::Pending(pending) => match Watched::new(pending, self.clone(), index) {
                            Ok(watched) => {
                                // Those that came before have been told.
                                late = signal
                                    .map(|signal| (watched.pending().visitor_of(&signal), signal));
                                state.inputs.insert(index, watched);
                                None
                            }
                            Err(result) => Some(result),
                        },
                    }
                }
            };
            let over = state.put(index, result);
            drop(state);
            if let Some((visitor, signal)) = late {
                visitor.finish().interrupt(&signal);
            }
            if let Some(over) = over {
                return over.end();
            }
        }
    }
}

/// The end, to be brought about when nothing is locked.
struct Over<T> {
    promise: Promise<Vec<T>>,
    result: Result<Vec<T>, Failure>,
    next: Option<Next<T>>,
    inputs: BTreeMap<usize, Watched<T>>,
    values: Vec<Option<T>>,
}

impl<T: Send + 'static> Over<T> {
    fn end(self) {
        let Over { promise, result, next, inputs, values } = self;
        if result.is_ok() {
            // All has been called, and nothing else is left.
            discard(next);
            return promise.complete(result);
        }
        // Detached before anybody is told. What `f` holds, and the values that are there, may take long to drop.
        let let_go = || {
            discard_all(inputs);
            walk::drop_later(next);
            walk::drop_later(Discarding(values));
        };
        walk::let_go_after(let_go, || promise.complete(result));
    }
}

impl<T> Drop for State<T> {
    fn drop(&mut self) {
        discard(self.next.take());
        discard_all(std::mem::take(&mut self.values));
    }
}

impl<T: Send + 'static> State<T> {
    /// Before the promise goes, if it has not.
    fn note_heard(&mut self) {
        if let (None, Some(promise)) = (&self.next, &self.promise) {
            self.heard = promise.interrupted();
        }
    }

    /// One has come, or there are no more.
    fn put(&mut self, index: usize, result: Option<Result<T, Failure>>) -> Option<Over<T>> {
        let failure = match result {
            Some(Ok(value)) => {
                self.values[index] = Some(value);
                self.missing -= 1;
                self.free += 1;
                None
            }
            Some(Err(failure)) => Some(failure),
            None => None,
        };
        if failure.is_none() && (self.more || self.missing > 0) {
            return None;
        }
        self.note_heard();
        let promise = self.promise.take()?.promise();
        let values = std::mem::take(&mut self.values);
        let (result, values) = match failure {
            Some(failure) => (Err(failure), values),
            None => (Ok(values.into_iter().flatten().collect()), Vec::new()),
        };
        let (next, inputs) = (self.next.take(), std::mem::take(&mut self.inputs));
        Some(Over { promise, result, next, inputs, values })
    }
}

impl<T: Send + 'static> Watch for Window<T> {
    fn told(self: Arc<Self>, index: usize) {
        let watched = self.state.lock().inputs.remove(&index);
        // Not there: it is over.
        let Some(Now::Done(result)) = watched.map(|watched| watched.told()) else {
            return;
        };
        let over = {
            let mut state = self.state.lock();
            if state.promise.is_none() {
                drop(state);
                return discard(result);
            }
            host::resolves(&raw const *self, Part::One);
            state.put(index, Some(result))
        };
        match over {
            Some(over) => {
                host::resolves(&raw const *self, Part::Last);
                over.end()
            }
            // Whoever completed it may have been interrupted, or killed: that is not for what is called here.
            None => local::outside(|| self.pump()),
        }
    }
}

impl<T: Send + 'static> Inputs for Window<T> {
    fn visit(&self, _: usize, visitor: &mut Visitor) {
        let state = self.state.lock();
        // What is being called waits for what is made of it, as the closure of an operation does that a walk is at.
        visitor.found.node |= visitor.is_for_wait() && state.caller == Some(this_thread());
        for watched in state.inputs.values() {
            watched.pending().visit(visitor);
        }
    }

    fn abandoned(&self, _: usize) {
        let mut state = self.state.lock();
        state.note_heard();
        let (promise, next) = (state.promise.take(), state.next.take());
        let (inputs, values) =
            (std::mem::take(&mut state.inputs), std::mem::take(&mut state.values));
        drop(state);
        host::resolves(&raw const *self, Part::Left);
        discard(next);
        discard_all(inputs);
        discard_all(values);
        discard(promise);
    }
}
