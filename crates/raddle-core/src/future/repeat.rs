//! Loops: one future after the other, in constant memory and stack.

use std::ops::ControlFlow;

use crate::future::handle::{Future, Now};
use crate::panics::{Apart, Discarding, discard};

/// Calls `f` with `state`, with the state that its future gives, and so on, until one says
/// [`Break`](ControlFlow::Break).
///
/// A failure, and a panic of `f`, end the loop. Interrupts go to the future of the moment, and to all that `f` returns afterwards: so
/// where failures are made values of, by [`lift`](Future::lift) say, `f` has to end the loop when it sees such a one, or else all turns
/// that are left follow at once. No allocation for a turn whose future is done.
///
/// ```
/// use std::ops::ControlFlow;
/// use raddle::{Future, tail_loop};
///
/// let sum = tail_loop((0_u64, 0_u64), |(n, sum)| Future::ready(match n {
///     1_000 => ControlFlow::Break(sum),
///     n => ControlFlow::Continue((n + 1, sum + n)),
/// }));
/// assert_eq!(sum.wait().unwrap(), 499_500);
/// ```
#[doc(alias = "Tailrec")]
#[doc(alias = "tailRecM")]
pub fn tail_loop<S, T>(
    state: S,
    f: impl FnMut(S) -> Future<ControlFlow<T, S>> + Send + 'static,
) -> Future<T>
where
    S: Send + 'static,
    T: Send + 'static,
{
    let f = Apart::new(f);
    // From within an operation, where panics are caught.
    Future::ready(state).flat_map(|state| turn(state, f))
}

fn turn<S, T, F>(mut state: S, mut f: Apart<F>) -> Future<T>
where
    S: Send + 'static,
    T: Send + 'static,
    F: FnMut(S) -> Future<ControlFlow<T, S>> + Send + 'static,
{
    loop {
        match f.get()(state).now() {
            Now::Done(Ok(ControlFlow::Continue(next))) => state = next,
            Now::Done(Ok(ControlFlow::Break(value))) => return Future::ready(value),
            Now::Done(Err(failure)) => return Future::failed(failure),
            Now::Never => return Future::never(),
            Now::Pending(pending) => {
                return Future::from_pending(pending).flat_map(|flow| match flow {
                    ControlFlow::Continue(state) => turn(state, f),
                    ControlFlow::Break(value) => Future::ready(value),
                });
            }
        }
    }
}

/// As long as `go_on` says so, calls `f` and waits for its future.
///
/// Otherwise as [`tail_loop`].
///
/// ```
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU32, Ordering};
/// use raddle::{spawn, while_do};
///
/// let count = Arc::new(AtomicU32::new(0));
/// let (seen, counted) = (Arc::clone(&count), Arc::clone(&count));
/// let done = while_do(
///     move || seen.load(Ordering::Relaxed) < 3,
///     move || {
///         let counted = Arc::clone(&counted);
///         spawn(move || counted.fetch_add(1, Ordering::Relaxed))
///     },
/// );
/// done.wait().unwrap();
/// assert_eq!(count.load(Ordering::Relaxed), 3);
/// ```
#[doc(alias = "whileDo")]
pub fn while_do<T: Send + 'static>(
    go_on: impl FnMut() -> bool + Send + 'static,
    f: impl FnMut() -> Future<T> + Send + 'static,
) -> Future<()> {
    let (mut go_on, mut f) = (Apart::new(go_on), Apart::new(f));
    tail_loop((), move |()| {
        if go_on.get()() {
            f.get()().map(|value| {
                discard(value);
                ControlFlow::Continue(())
            })
        } else {
            Future::ready(ControlFlow::Break(()))
        }
    })
}

/// Calls `f` so many times, each time when the future before is done.
///
/// Otherwise as [`tail_loop`]. No more often than at a certain rate: what `f` returns is [zipped](Future::zip) with a
/// [`delay`](Future::delay) of the time between two calls. An interrupt makes that fail, which ends the loop.
///
/// ```
/// use raddle::{Future, times};
///
/// let mut turns = 0;
/// let (sender, receiver) = std::sync::mpsc::channel();
/// times(3, move || {
///     turns += 1;
///     Future::ready(sender.send(turns).unwrap())
/// }).wait().unwrap();
/// assert_eq!(receiver.into_iter().collect::<Vec<_>>(), [1, 2, 3]);
/// ```
pub fn times<T: Send + 'static>(
    n: usize,
    f: impl FnMut() -> Future<T> + Send + 'static,
) -> Future<()> {
    let mut left = n;
    while_do(
        move || {
            let go_on = left > 0;
            left = left.saturating_sub(1);
            go_on
        },
        f,
    )
}

/// Calls `f` with each item in turn, when the future before is done, and collects the values.
///
/// Otherwise as [`tail_loop`].
///
/// ```
/// use raddle::{spawn, traverse_sequentially};
///
/// let lengths = traverse_sequentially(["warp", "and"], |word| spawn(move || word.len()));
/// assert_eq!(lengths.wait().unwrap(), [4, 3]);
/// ```
#[doc(alias = "each")]
pub fn traverse_sequentially<I, T: Send + 'static>(
    items: I,
    f: impl FnMut(I::Item) -> Future<T> + Send + 'static,
) -> Future<Vec<T>>
where
    I: IntoIterator,
    I::IntoIter: Send + 'static,
{
    let (mut items, mut f) = (Apart::new(items.into_iter()), Apart::new(f));
    tail_loop(Discarding(Vec::new()), move |mut values: Discarding<T>| match items.get().next() {
        None => Future::ready(ControlFlow::Break(std::mem::take(&mut values.0))),
        Some(item) => f.get()(item).map(|value| {
            values.0.push(value);
            ControlFlow::Continue(values)
        }),
    })
}
