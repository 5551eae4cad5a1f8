//! Futures of several futures that are all wanted.

use std::sync::{Arc, Weak};

use raddle_sync::sync::Mutex;

use crate::future::failure::Failure;
use crate::future::handle::{Future, Now};
use crate::future::interrupt_node::Interrupts;
use crate::future::promise::{Pledge, Promise};
use crate::future::upstream::{Inputs, Visitor};
use crate::future::wait::{Part, host};
use crate::future::walk;
use crate::future::watch::{Watch, Watched};
use crate::panics::{Apart, Discarding, Rest, discard, discard_all};

/// The values of all futures, in their order; or the first failure, at once.
///
/// Interrupts go to all that are not done. The losers of a failure go on; their results are
/// dropped. One allocation for each future that is not done, and a few more; none but the vector's if all are done.
///
/// ```
/// use raddle::{collect, spawn};
///
/// let squares = collect((0..4_u64).map(|n| spawn(move || n * n)));
/// assert_eq!(squares.wait().unwrap(), [0, 1, 4, 9]);
/// ```
#[doc(alias = "sequence")]
#[doc(alias = "allOf")]
#[doc(alias = "when_all_succeed")]
#[doc(alias = "try_join_all")]
pub fn collect<T: Send + 'static>(futures: impl IntoIterator<Item = Future<T>>) -> Future<Vec<T>> {
    gather(futures, |result| result)
}

/// Done when all futures are; or fails with the first failure, at once.
///
/// As [`collect`], without the values.
///
/// ```
/// use raddle::{join_all, spawn};
///
/// let () = join_all([spawn(|| 1), spawn(|| 2)]).wait().unwrap();
/// ```
#[doc(alias = "wait_for_all_futures")]
#[doc(alias = "try_join_all")]
pub fn join_all<T: Send + 'static>(futures: impl IntoIterator<Item = Future<T>>) -> Future<()> {
    collect(futures).adapt(|values| values.map(discard_all))
}

/// The results of all futures, in their order. Never fails.
///
/// Otherwise as [`collect`].
///
/// ```
/// use raddle::{Future, collect_results};
///
/// let results = collect_results([Future::ready(1), Future::failed(std::fmt::Error)]);
/// let good = results.wait().unwrap().into_iter().filter(Result::is_ok).count();
/// assert_eq!(good, 1);
/// ```
#[doc(alias = "collectToTry")]
#[doc(alias = "when_all")]
#[doc(alias = "join_all")]
pub fn collect_results<T: Send + 'static>(
    futures: impl IntoIterator<Item = Future<T>>,
) -> Future<Vec<Result<T, Failure>>> {
    gather(futures, Ok)
}

/// The values of all futures of a map, by their keys; or the first failure, at once.
///
/// Otherwise as [`collect`].
///
/// ```
/// use std::collections::BTreeMap;
/// use raddle::{collect_map, spawn};
///
/// let lengths = ["warp", "selvage"].map(|word| (word, spawn(move || word.len())));
/// let lengths: BTreeMap<_, _> = collect_map(lengths).wait()?;
/// assert_eq!(lengths["selvage"], 7);
/// # Ok::<(), raddle::Failure>(())
/// ```
pub fn collect_map<K, T, M>(futures: impl IntoIterator<Item = (K, Future<T>)>) -> Future<M>
where
    K: Send + 'static,
    T: Send + 'static,
    M: FromIterator<(K, T)> + Send + 'static,
{
    let (keys, futures): (Vec<K>, Vec<Future<T>>) = futures.into_iter().unzip();
    let mut keys = Discarding(keys);
    collect(futures).adapt(move |values| {
        let mut values = Rest(values?.into_iter());
        let mut keys = Rest(std::mem::take(&mut keys.0).into_iter());
        Ok(keys.0.by_ref().zip(values.0.by_ref()).collect())
    })
}

/// Calls `f` with each item, and collects the futures that it returns: all of them run at the same time.
///
/// A panic of `f` makes the future fail.
///
/// ```
/// use raddle::{spawn, traverse};
///
/// let lengths = traverse(["warp", "and", "weft"], |word| spawn(move || word.len()));
/// assert_eq!(lengths.wait().unwrap(), [4, 3, 4]);
/// ```
pub fn traverse<A, T: Send + 'static>(
    items: impl IntoIterator<Item = A>,
    f: impl FnMut(A) -> Future<T>,
) -> Future<Vec<T>> {
    let futures = || {
        let mut all = Discarding(Vec::new());
        all.0.extend(items.into_iter().map(f));
        std::mem::take(&mut all.0)
    };
    match Future::run(futures).now() {
        Now::Done(Ok(futures)) => collect(futures),
        Now::Done(Err(failure)) => Future::failed(failure),
        Now::Pending(_) | Now::Never => unreachable!("it has run"),
    }
}

/// Folds the values in the order of the futures, when all are there; or fails with the first failure, at once.
///
/// ```
/// use raddle::{fold, spawn};
///
/// let sum = fold((1..=4_u64).map(|n| spawn(move || n)), 0, |sum, n| sum + n);
/// assert_eq!(sum.wait().unwrap(), 10);
/// ```
#[doc(alias = "reduce")]
pub fn fold<A: Send + 'static, T: Send + 'static>(
    futures: impl IntoIterator<Item = Future<T>>,
    start: A,
    f: impl FnMut(A, T) -> A + Send + 'static,
) -> Future<A> {
    let (start, mut f) = (Apart::new(start), Apart::new(f));
    collect(futures).map(move |values| {
        let mut values = Rest(values.into_iter());
        values.0.by_ref().fold(start.take(), f.get())
    })
}

/// What is known of one input.
enum Input<T, U> {
    Waiting(Option<Watched<T>>),
    Done(U),
}

/// Futures of which all are wanted, and what has come of them.
struct All<T, U> {
    state: Mutex<State<T, U>>,
    /// What is kept of a result, or why that is the end.
    keep: fn(Result<T, Failure>) -> Result<U, Failure>,
}

struct State<T, U> {
    inputs: Vec<Input<T, U>>,
    missing: usize,
    /// Gone when it is over.
    promise: Option<Pledge<Vec<U>>>,
}

impl<T, U> Drop for State<T, U> {
    fn drop(&mut self) {
        discard_all(std::mem::take(&mut self.inputs));
    }
}

fn gather<T: Send + 'static, U: Send + 'static>(
    futures: impl IntoIterator<Item = Future<T>>,
    keep: fn(Result<T, Failure>) -> Result<U, Failure>,
) -> Future<Vec<U>> {
    let mut inputs = Vec::new();
    let mut pending = Vec::new();
    for (index, future) in futures.into_iter().enumerate() {
        inputs.push(match future.now() {
            Now::Done(result) => match keep(result) {
                Ok(kept) => Input::Done(kept),
                Err(failure) => {
                    discard_all(inputs);
                    discard_all(pending);
                    return Future::failed(failure);
                }
            },
            Now::Pending(future) => {
                pending.push((index, future));
                Input::Waiting(None)
            }
            Now::Never => Input::Waiting(None),
        });
    }
    let missing = inputs.iter().filter(|input| matches!(input, Input::Waiting(_))).count();
    if missing == 0 {
        return Future::ready(values(inputs));
    }
    if pending.is_empty() {
        return Future::never();
    }
    let all = Arc::new(All { state: Mutex::new(State { inputs, missing, promise: None }), keep });
    let weak: Weak<All<T, U>> = Arc::downgrade(&all);
    let (promise, future) = Promise::with_hearing(Interrupts::with_inputs(weak));
    // Locked, so that whoever is told finds all of them.
    let mut state = all.state.lock();
    state.promise = Some(Pledge::of(promise));
    let mut over = None;
    let mut pending = pending.into_iter();
    for (index, future) in pending.by_ref() {
        match Watched::new(future, all.clone(), index) {
            Ok(watched) => state.inputs[index] = Input::Waiting(Some(watched)),
            Err(result) => over = all.put(&mut state, index, result).or(over),
        }
        if over.is_some() {
            break;
        }
    }
    drop(state);
    discard_all(pending);
    if let Some(over) = over {
        over.end();
    }
    future
}

fn values<T, U>(inputs: Vec<Input<T, U>>) -> Vec<U> {
    inputs
        .into_iter()
        .filter_map(|input| match input {
            Input::Done(kept) => Some(kept),
            Input::Waiting(_) => None,
        })
        .collect()
}

/// The end, to be brought about when nothing is locked.
struct Over<T, U> {
    promise: Promise<Vec<U>>,
    inputs: Vec<Input<T, U>>,
    failure: Option<Failure>,
}

impl<T: Send + 'static, U: Send + 'static> Over<T, U> {
    fn end(mut self) {
        let Some(failure) = self.failure else { return self.promise.set(values(self.inputs)) };
        // Detached before anybody is told. The values that are there may take long to drop.
        let let_go = || {
            for input in &mut self.inputs {
                if let Input::Waiting(watched) = input {
                    discard(watched.take());
                }
            }
            walk::drop_later(Discarding(self.inputs));
        };
        walk::let_go_after(let_go, || self.promise.fail(failure));
    }
}

impl<T, U> All<T, U> {
    fn put(
        &self,
        state: &mut State<T, U>,
        index: usize,
        result: Result<T, Failure>,
    ) -> Option<Over<T, U>> {
        let failure = match (self.keep)(result) {
            Ok(kept) => {
                *state.inputs.get_mut(index)? = Input::Done(kept);
                state.missing -= 1;
                if state.missing > 0 {
                    return None;
                }
                None
            }
            Err(failure) => Some(failure),
        };
        let inputs = std::mem::take(&mut state.inputs);
        state.promise.take().map(|promise| Over { promise: promise.promise(), inputs, failure })
    }
}

impl<T: Send + 'static, U: Send + 'static> Watch for All<T, U> {
    fn told(self: Arc<Self>, index: usize) {
        let watched = match self.state.lock().inputs.get_mut(index) {
            Some(Input::Waiting(watched)) => watched.take(),
            _ => None,
        };
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
            self.put(&mut state, index, result)
        };
        if let Some(over) = over {
            host::resolves(&raw const *self, Part::Last);
            over.end();
        }
    }
}

impl<T: Send + 'static, U: Send + 'static> Inputs for All<T, U> {
    fn visit(&self, _: usize, visitor: &mut Visitor) {
        let state = self.state.lock();
        visitor.passes(state.inputs.len());
        for input in &state.inputs {
            if let Input::Waiting(Some(watched)) = input {
                watched.pending().visit(visitor);
            }
        }
    }

    fn abandoned(&self, _: usize) {
        let (promise, inputs) = {
            let mut state = self.state.lock();
            (state.promise.take(), std::mem::take(&mut state.inputs))
        };
        host::resolves(&raw const *self, Part::Left);
        discard_all(inputs);
        discard(promise);
    }
}

impl<T: Send + 'static> Future<T> {
    /// The values of both; or the first failure, at once.
    ///
    /// Interrupts go to both. Half a dozen allocations.
    ///
    /// ```
    /// use raddle::spawn;
    ///
    /// assert_eq!(spawn(|| 1).zip(spawn(|| "two")).wait().unwrap(), (1, "two"));
    /// ```
    #[doc(alias = "thenCombine")]
    #[doc(alias = "try_join")]
    pub fn zip<U: Send + 'static>(self, other: Future<U>) -> Future<(T, U)> {
        // Either kind of value, to have them in one list.
        enum Either<T, U> {
            One(T),
            Other(U),
        }
        let one = self.adapt(|one| one.map(Either::One));
        let other = other.adapt(|other| other.map(Either::Other));
        collect([one, other]).adapt(|both| {
            let mut both = both?.into_iter();
            match (both.next(), both.next()) {
                (Some(Either::One(one)), Some(Either::Other(other))) => Ok((one, other)),
                _ => unreachable!("they are in order"),
            }
        })
    }

    /// What `f` makes of the values of both; or the first failure, at once.
    ///
    /// ```
    /// use raddle::spawn;
    ///
    /// assert_eq!(spawn(|| 1).zip_with(spawn(|| 2), |a, b| a + b).wait().unwrap(), 3);
    /// ```
    #[doc(alias = "joinWith")]
    pub fn zip_with<U: Send + 'static, R: Send + 'static>(
        self,
        other: Future<U>,
        f: impl FnOnce(T, U) -> R + Send + 'static,
    ) -> Future<R> {
        self.zip(other).map(move |(one, other)| f(one, other))
    }
}
