//! The crate `futures`: oneshot channels and its combinators, polled by hand.
//!
//! Nothing happens before such a future is polled. So that the producer has somebody to tell, each
//! is polled once before the value is there, as an executor would do; and once after, for the
//! result. Links of a chain are boxed, or each would have a type of its own.

use std::{
    future::Future,
    task::{Context, Poll, Waker},
};

use futures::{FutureExt, channel::oneshot, future, future::BoxFuture};

use super::{LINKS, ONE, Repeat, repeat, repeat_make};

pub(super) fn operation(name: &str) -> Option<Repeat> {
    Some(match name {
        "newPromise" => repeat_make!(oneshot::channel::<u64>()),
        "value" => repeat_make!(future::ready(ONE)),
        "exception" => repeat_make!(future::err::<u64, oneshot::Canceled>(oneshot::Canceled)),
        "setValue" => repeat!({
            let (sender, receiver) = oneshot::channel();
            sender.send(ONE).expect("a receiver");
            take(receiver).expect("a sender")
        }),
        "mapSatisfied" => repeat!({
            let satisfied = std::hint::black_box(future::ready(ONE));
            take(std::hint::black_box(satisfied.map(|_| ONE)))
        }),
        "mapConst" => repeat!(take(future::ready(ONE).map(|_| ONE))),
        "mapConstN" => repeat!(take(chain(future::ready(ONE).boxed(), |f| f.map(|_| ONE).boxed()))),
        "flatMapConst" => repeat!(take(future::ready(ONE).then(|_| future::ready(ONE)))),
        "flatMapConstN" => repeat!(take(chain(future::ready(ONE).boxed(), |f| {
            f.then(|_| future::ready(ONE)).boxed()
        }))),
        "ensureConst" => repeat!(take(future::ready(ONE).inspect(|_| ()))),
        "ensureConstN" => {
            repeat!(take(chain(future::ready(ONE).boxed(), |f| f.inspect(|_| ()).boxed())))
        }
        "createMap" => repeat_make!({
            let (sender, receiver) = oneshot::channel::<u64>();
            (receiver.map(|_| ONE), sender)
        }),
        "mapPromise" => repeat!(promise(|f| f.map(|_| ONE))),
        "mapPromiseN" | "setValueN" => {
            repeat!(promise(|f| chain(f.boxed(), |f| f.map(|_| ONE).boxed())))
        }
        "flatMapPromise" => repeat!(promise(|f| f.then(|_| future::ready(ONE)))),
        "flatMapPromiseN" => {
            repeat!(promise(|f| chain(f.boxed(), |f| { f.then(|_| future::ready(ONE)).boxed() })))
        }
        "ensurePromise" => repeat!(promise(|f| f.inspect(|_| ()))),
        "ensurePromiseN" => {
            repeat!(promise(|f| chain(f.boxed(), |f| f.inspect(|_| ()).boxed())))
        }
        "recursiveConst" => repeat!(take(descend(LINKS))),
        _ => return None,
    })
}

/// The result of a future that has one.
fn take<F: Future + Unpin>(mut future: F) -> F::Output {
    match future.poll_unpin(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(result) => result,
        Poll::Pending => panic!("a result"),
    }
}

/// Makes a promise, derives a future, waits for it once in vain, sets the promise and takes the
/// result.
fn promise<F: Future<Output = u64> + Unpin>(derive: impl FnOnce(Taken) -> F) -> u64 {
    let (sender, receiver) = oneshot::channel();
    let mut future = derive(receiver.map(sent as fn(_) -> _));
    let pending = future.poll_unpin(&mut Context::from_waker(Waker::noop())).is_pending();
    assert!(pending, "nothing sent yet");
    sender.send(ONE).expect("a receiver");
    take(future)
}

/// A receiver whose sender does send.
type Taken = future::Map<oneshot::Receiver<u64>, fn(Result<u64, oneshot::Canceled>) -> u64>;

fn sent(result: Result<u64, oneshot::Canceled>) -> u64 {
    result.expect("a sender")
}

fn chain(
    mut future: BoxFuture<'static, u64>,
    link: impl Fn(BoxFuture<'static, u64>) -> BoxFuture<'static, u64>,
) -> BoxFuture<'static, u64> {
    for _ in 0..LINKS {
        future = link(future);
    }
    future
}

fn descend(depth: u64) -> BoxFuture<'static, u64> {
    match depth {
        0 => future::ready(ONE).boxed(),
        _ => future::ready(depth - 1).then(descend).boxed(),
    }
}
