//! Futures of several futures of which the first is wanted.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use raddle_sync::sync::Mutex;

use crate::future::failure::{Failure, FailureKind};
use crate::future::handle::{Future, Now};
use crate::future::interrupt_node::Interrupts;
use crate::future::promise::{Pledge, Promise};
use crate::future::upstream::{Inputs, Visitor};
use crate::future::walk;
use crate::future::watch::{Watch, Watched};
use crate::panics::{discard, discard_all};

/// Who won a [`select`]: the result, its place in the list, and the others, in their order.
pub type Selected<T> = (Result<T, Failure>, usize, Vec<Future<T>>);

/// The result of the future that is done first, be it a value or a failure.
///
/// The others are dropped, which leaves nothing with them; what has become another future ([`flat_map`](Future::flat_map) when its closure
/// has returned, [`Promise::link`](crate::Promise::link)) keeps some 200 bytes there until that one is done. Interrupts go to all. An empty race fails with
/// [`Empty`](FailureKind::Empty). One that takes part in itself, through a [`Shared`](crate::Shared), fails with
/// [`Cycle`](FailureKind::Cycle), though another might have won. One allocation for each future, and a few more; if one
/// is done none but the list's, which a vector is already.
///
/// ```
/// use raddle::{Future, first, spawn};
///
/// assert_eq!(first([Future::never(), spawn(|| 2)]).wait().unwrap(), 2);
/// assert!(first(Vec::<Future<u32>>::new()).wait().is_err());
/// ```
#[doc(alias = "firstCompletedOf")]
#[doc(alias = "anyOf")]
#[doc(alias = "race")]
#[doc(alias = "select_all")]
pub fn first<T: Send + 'static>(futures: impl IntoIterator<Item = Future<T>>) -> Future<T> {
    match start(futures, |winner, _, losers| (winner, losers)) {
        Ok(race) => race,
        Err(None) => Future::failed(Failure::plain(FailureKind::Empty)),
        Err(Some((winner, _, losers))) => {
            discard_all(losers);
            Future::from(winner)
        }
    }
}

/// The result of the future that is done first, its index, and the other futures.
///
/// Otherwise as [`first`]. Each call looks at all of them: to take many one by one, see [`as_completed`].
///
/// ```
/// use raddle::{Promise, select};
///
/// let ((one, a), (two, b)) = (Promise::new(), Promise::new());
/// let race = select([a, b]);
/// two.set("weft");
/// let (winner, index, mut rest) = race.wait().unwrap();
/// assert_eq!((winner.unwrap(), index, rest.len()), ("weft", 1, 1));
/// one.set("warp");
/// assert_eq!(rest.remove(0).wait().unwrap(), "warp");
/// ```
#[doc(alias = "selectIndex")]
#[doc(alias = "collectAny")]
#[doc(alias = "select_all")]
pub fn select<T: Send + 'static>(
    futures: impl IntoIterator<Item = Future<T>>,
) -> Future<Selected<T>> {
    match start(futures, |winner, index, others| (Ok((winner, index, others)), Vec::new())) {
        Ok(race) => race,
        Err(None) => Future::failed(Failure::plain(FailureKind::Empty)),
        Err(Some(selected)) => Future::ready(selected),
    }
}

/// A race whose future ends with what `end` makes of the winner. If one is done there is none, and if there is none at all.
fn start<T: Send + 'static, R: Send + 'static>(
    futures: impl IntoIterator<Item = Future<T>>,
    end: End<T, R>,
) -> Result<Future<R>, Option<Selected<T>>> {
    let mut futures: Vec<Future<T>> = futures.into_iter().collect();
    match futures.iter().position(Future::is_done) {
        None if futures.is_empty() => Err(None),
        None => Ok(Race::start(futures, end)),
        Some(index) => match futures.remove(index).now() {
            Now::Done(winner) => Err(Some((winner, index, futures))),
            Now::Pending(_) | Now::Never => unreachable!("it is done"),
        },
    }
}

/// What a race ends with, made of the winner, its place and the others, and those of them that are let go.
type End<T, R> =
    fn(Result<T, Failure>, usize, Vec<Future<T>>) -> (Result<R, Failure>, Vec<Future<T>>);

/// What is known of one input.
enum Input<T> {
    Watched(Watched<T>),
    /// Not watched (yet), or never done.
    Still(Future<T>),
}

impl<T> Input<T> {
    fn release(self) -> Future<T> {
        match self {
            Input::Watched(watched) => watched.release(),
            Input::Still(future) => future,
        }
    }

    /// See [`Watched::told`].
    fn told(self) -> Now<T> {
        match self {
            Input::Watched(watched) => watched.told(),
            Input::Still(future) => future.now(),
        }
    }
}

/// Futures of which the first is wanted.
struct Race<T, R> {
    state: Mutex<State<T, R>>,
    end: End<T, R>,
}

struct State<T, R> {
    inputs: Vec<Input<T>>,
    /// Gone when it is over.
    promise: Option<Pledge<R>>,
}

impl<T, R> Drop for State<T, R> {
    fn drop(&mut self) {
        discard_all(std::mem::take(&mut self.inputs));
    }
}

/// The end, to be brought about when nothing is locked.
struct Over<T, R> {
    promise: Promise<R>,
    winner: Result<T, Failure>,
    index: usize,
    inputs: Vec<Input<T>>,
    end: End<T, R>,
}

impl<T: Send + 'static, R: Send + 'static> Over<T, R> {
    fn end(self) {
        let rest = self.inputs.into_iter().map(Input::release).collect();
        let (result, losers) = (self.end)(self.winner, self.index, rest);
        if losers.is_empty() {
            return self.promise.complete(result);
        }
        // They may take long to drop, if they hold what has come already.
        walk::let_go_after(|| discard_all(losers), || self.promise.complete(result));
    }
}

impl<T: Send + 'static, R: Send + 'static> Race<T, R> {
    fn start(futures: Vec<Future<T>>, end: End<T, R>) -> Future<R> {
        let state = Mutex::new(State { inputs: Vec::new(), promise: None });
        let race = Arc::new(Race { state, end });
        let weak = Arc::downgrade(&race);
        let (promise, future) = Promise::with_hearing(Interrupts::with_inputs(weak));
        let mut winner = None;
        // What a poll has left there is users', so not under the lock.
        let futures: Vec<Now<T>> = futures.into_iter().map(Future::now).collect();
        // Locked, so that whoever is told finds all of them.
        let mut state = race.state.lock();
        for (index, future) in futures.into_iter().enumerate() {
            let input = match future {
                Now::Never => Ok(Input::Still(Future::never())),
                Now::Done(result) => Err(result),
                Now::Pending(pending) if winner.is_some() => {
                    Ok(Input::Still(Future::from_pending(pending)))
                }
                Now::Pending(pending) => {
                    Watched::new(pending, race.clone(), index).map(Input::Watched)
                }
            };
            match input {
                Ok(input) => state.inputs.push(input),
                Err(result) if winner.is_none() => winner = Some((index, result)),
                Err(result) => state.inputs.push(Input::Still(Future::from(result))),
            }
        }
        match winner {
            None => state.promise = Some(Pledge::of(promise)),
            Some((index, winner)) => {
                let inputs = std::mem::take(&mut state.inputs);
                drop(state);
                Over { promise, winner, index, inputs, end }.end();
            }
        }
        future
    }
}

impl<T: Send + 'static, R: Send + 'static> Watch for Race<T, R> {
    fn told(self: Arc<Self>, index: usize) {
        let (promise, mut inputs) = {
            let mut state = self.state.lock();
            // Gone: it is over.
            let Some(promise) = state.promise.take() else { return };
            (promise.promise(), std::mem::take(&mut state.inputs))
        };
        match inputs.remove(index).told() {
            Now::Done(winner) => Over { promise, winner, index, inputs, end: self.end }.end(),
            Now::Pending(_) | Now::Never => unreachable!("told that it is done"),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Inputs for Race<T, R> {
    fn visit(&self, _: usize, visitor: &mut Visitor) {
        // The others may win.
        if visitor.is_for_wait() {
            return;
        }
        for input in &self.state.lock().inputs {
            if let Input::Watched(watched) = input {
                watched.pending().visit(visitor);
            }
        }
    }

    fn abandoned(&self, _: usize) {
        let (promise, inputs) = {
            let mut state = self.state.lock();
            (state.promise.take(), std::mem::take(&mut state.inputs))
        };
        discard_all(inputs);
        discard(promise);
    }
}

/// Blocks until one of the futures is done, takes it out of the list and returns its index and result.
///
/// Waits as [`Future::wait`] does. Of an empty list the result is the failure `Empty`, and the index 0. Each call looks at all of
/// them: to take many one by one, see [`as_completed`].
///
/// ```
/// use raddle::{spawn, wait_any};
///
/// let mut futures: Vec<_> = (0..3).map(|n| spawn(move || n * 10)).collect();
/// let mut sum = 0;
/// while !futures.is_empty() {
///     sum += wait_any(&mut futures).1.unwrap();
/// }
/// assert_eq!(sum, 30);
/// ```
#[doc(alias = "wait_for_any_future")]
pub fn wait_any<T: Send + 'static>(futures: &mut Vec<Future<T>>) -> (usize, Result<T, Failure>) {
    match select(std::mem::take(futures)).wait() {
        Ok((winner, index, rest)) => {
            *futures = rest;
            (index, winner)
        }
        Err(failure) => (0, Err(failure)),
    }
}

/// Blocks until all futures are done and returns their results, in order.
///
/// Waits as [`Future::wait`] does.
///
/// ```
/// use raddle::{spawn, wait_all};
///
/// let results = wait_all(vec![spawn(|| 1), spawn(|| 2)]);
/// assert_eq!(results.into_iter().map(Result::unwrap).sum::<i32>(), 3);
/// ```
#[doc(alias = "wait_for_all_futures")]
pub fn wait_all<T>(futures: Vec<Future<T>>) -> Vec<Result<T, Failure>> {
    futures.into_iter().map(Future::wait).collect()
}

/// The results of the futures as they come: an iterator that blocks until the next is done and gives its index in the
/// list and its result.
///
/// It waits as [`Future::wait`] does for a race: what is behind the futures is left to other threads. One allocation for each
/// future that is not done.
///
/// ```
/// use raddle::{Promise, as_completed};
///
/// let ((one, a), (two, b)) = (Promise::new(), Promise::new());
/// two.set("weft");
/// let mut results = as_completed([a, b]);
/// assert_eq!(results.next().map(|(index, word)| (index, word.unwrap())), Some((1, "weft")));
/// one.set("warp");
/// assert_eq!(results.next().map(|(index, word)| (index, word.unwrap())), Some((0, "warp")));
/// assert!(results.next().is_none());
/// ```
#[doc(alias = "FuturesUnordered")]
#[doc(alias = "JoinSet")]
pub fn as_completed<T: Send + 'static>(
    futures: impl IntoIterator<Item = Future<T>>,
) -> AsCompleted<T> {
    let arrivals = Arc::new(Arrivals(Mutex::new(Arrived {
        inputs: Vec::new(),
        done: VecDeque::new(),
        awaited: None,
        left: false,
    })));
    // Users' code, so not under the lock.
    let futures: Vec<Now<T>> = futures.into_iter().map(Future::now).collect();
    let mut arrived = arrivals.0.lock();
    let mut left = 0;
    for (index, future) in futures.into_iter().enumerate() {
        left += 1;
        let input = match future {
            Now::Never => Some(Input::Still(Future::never())),
            Now::Done(result) => {
                arrived.done.push_back((index, result));
                None
            }
            Now::Pending(pending) => match Watched::new(pending, arrivals.clone(), index) {
                Ok(watched) => Some(Input::Watched(watched)),
                Err(result) => {
                    arrived.done.push_back((index, result));
                    None
                }
            },
        };
        arrived.inputs.push(input);
    }
    drop(arrived);
    AsCompleted { arrivals, left }
}

/// The iterator of [`as_completed`].
pub struct AsCompleted<T> {
    arrivals: Arc<Arrivals<T>>,
    left: usize,
}

struct Arrivals<T>(Mutex<Arrived<T>>);

struct Arrived<T> {
    inputs: Vec<Option<Input<T>>>,
    done: VecDeque<(usize, Result<T, Failure>)>,
    /// Who waits for the next.
    awaited: Option<Promise<()>>,
    /// Nobody will.
    left: bool,
}

impl<T: Send + 'static> Iterator for AsCompleted<T> {
    type Item = (usize, Result<T, Failure>);

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        loop {
            let next = {
                let mut arrived = self.arrivals.0.lock();
                if let Some(result) = arrived.done.pop_front() {
                    return Some(result);
                }
                let weak = Arc::downgrade(&self.arrivals);
                let (promise, next) = Promise::with_hearing(Interrupts::with_inputs(weak));
                arrived.awaited = Some(promise);
                next
            };
            if let Err(failure) = next.wait() {
                // All that is left waits for this thread.
                return Some((0, Err(failure)));
            }
        }
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<T: Send + 'static> ExactSizeIterator for AsCompleted<T> {}

impl<T: Send + 'static> Watch for Arrivals<T> {
    fn told(self: Arc<Self>, index: usize) {
        let input = self.0.lock().inputs.get_mut(index).and_then(Option::take);
        let Some(Now::Done(result)) = input.map(|input| input.told()) else { return };
        let awaited = {
            let mut arrived = self.0.lock();
            if arrived.left {
                drop(arrived);
                return discard(result);
            }
            arrived.done.push_back((index, result));
            arrived.awaited.take()
        };
        if let Some(promise) = awaited {
            promise.set(());
        }
    }
}

impl<T: Send + 'static> Inputs for Arrivals<T> {
    fn visit(&self, _: usize, visitor: &mut Visitor) {
        // As in a race.
        if visitor.is_for_wait() {
            return;
        }
        for input in self.0.lock().inputs.iter().flatten() {
            if let Input::Watched(watched) = input {
                watched.pending().visit(visitor);
            }
        }
    }
}

impl<T> Drop for AsCompleted<T> {
    fn drop(&mut self) {
        let (inputs, done) = {
            let mut arrived = self.arrivals.0.lock();
            arrived.left = true;
            (std::mem::take(&mut arrived.inputs), std::mem::take(&mut arrived.done))
        };
        discard_all(inputs);
        discard_all(done);
    }
}

impl<T> fmt::Debug for AsCompleted<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsCompleted").field("left", &self.left).finish_non_exhaustive()
    }
}
