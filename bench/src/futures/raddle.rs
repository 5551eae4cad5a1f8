//! raddle's futures.

use std::{
    hint::black_box,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
};

use raddle::{Failure, Future, Promise, StaticFailure};

use super::{ALIVE, LINKS, MOVED, ONE, Repeat, repeat, repeat_make};

pub(super) fn operation(name: &str) -> Option<Repeat> {
    Some(match name {
        "newPromise" => repeat_make!(Promise::<u64>::new()),
        "value" => repeat_make!(Future::ready(ONE)),
        // As on the JVM, where the exception is `static final`.
        "exception" => {
            static FAILURE: StaticFailure = StaticFailure::new(&std::fmt::Error);
            repeat_make!(Future::<u64>::from(Err(FAILURE.failure())))
        }
        // The failure is there already, and counted.
        "exceptionShared" => |n| {
            let failure = Failure::new(std::fmt::Error);
            repeat_make!(Future::<u64>::from(Err(failure.clone())))(n)
        },
        "setValue" => repeat!({
            let (promise, future) = Promise::new();
            promise.set(ONE);
            take(future)
        }),
        "mapSatisfied" => repeat!({
            let satisfied = black_box(Future::ready(ONE));
            take(black_box(satisfied.map(|_| ONE)))
        }),
        "mapConst" => repeat!(take(Future::ready(ONE).map(|_| ONE))),
        "mapConstN" => repeat!(take(chain(Future::ready(ONE), |f| f.map(|_| ONE)))),
        "flatMapConst" => repeat!(take(Future::ready(ONE).flat_map(|_| Future::ready(ONE)))),
        "flatMapConstN" => {
            repeat!(take(chain(Future::ready(ONE), |f| f.flat_map(|_| Future::ready(ONE)))))
        }
        "ensureConst" => repeat!(take(Future::ready(ONE).ensure(|| ()))),
        "ensureConstN" => repeat!(take(chain(Future::ready(ONE), |f| f.ensure(|| ())))),
        // The future is dropped first: so its nodes go with the promise, and nobody is told.
        "createMap" => repeat_make!({
            let (promise, future) = Promise::<u64>::new();
            (future.map(|_| ONE), promise)
        }),
        "mapPromise" => repeat!(promise(|f| f.map(|_| ONE))),
        "mapPromiseN" | "setValueN" => repeat!(promise(|f| chain(f, |f| f.map(|_| ONE)))),
        "mapPromise10" => repeat!(promise(|f| links(10, f, |f| f.map(|_| ONE)))),
        "mapPromise300" => repeat!(promise(|f| links(300, f, |f| f.map(|_| ONE)))),
        "mapPromise1000" => repeat!(promise(|f| links(1_000, f, |f| f.map(|_| ONE)))),
        "mapPromise10000" => repeat!(promise(|f| links(10_000, f, |f| f.map(|_| ONE)))),
        "aliveAtOnce" => repeat!({
            let (promises, futures): (Vec<_>, Vec<_>) = (0..ALIVE).map(|_| mapped()).unzip();
            promises.into_iter().for_each(|promise| promise.set(ONE));
            futures.into_iter().map(take).sum::<u64>() / ALIVE
        }),
        "setElsewhere" => repeat!({
            let (promises, futures): (Vec<_>, Vec<_>) = (0..MOVED).map(|_| mapped()).unzip();
            SETTER.with(|setter| setter.set_all(promises));
            futures.into_iter().map(take).sum::<u64>() / MOVED
        }),
        "flatMapPromise" => repeat!(promise(|f| f.flat_map(|_| Future::ready(ONE)))),
        "flatMapPromiseN" => {
            repeat!(promise(|f| chain(f, |f| f.flat_map(|_| Future::ready(ONE)))))
        }
        "ensurePromise" => repeat!(promise(|f| f.ensure(|| ()))),
        "ensurePromiseN" => repeat!(promise(|f| chain(f, |f| f.ensure(|| ())))),
        "recursiveConst" => repeat!(take(descend(LINKS))),
        _ => return None,
    })
}

fn take(future: Future<u64>) -> u64 {
    future.wait().expect("no failure")
}

/// Makes a promise, derives a future, sets the promise and takes the result.
fn promise(derive: impl FnOnce(Future<u64>) -> Future<u64>) -> u64 {
    let (promise, future) = Promise::new();
    let future = derive(future);
    promise.set(ONE);
    take(future)
}

fn chain(future: Future<u64>, link: impl Fn(Future<u64>) -> Future<u64>) -> Future<u64> {
    links(LINKS, future, link)
}

fn links(
    count: u64,
    mut future: Future<u64>,
    link: impl Fn(Future<u64>) -> Future<u64>,
) -> Future<u64> {
    for _ in 0..count {
        future = link(future);
    }
    future
}

fn mapped() -> (Promise<u64>, Future<u64>) {
    let (promise, future) = Promise::new();
    (promise, future.map(|_| ONE))
}

/// A thread that sets promises.
struct Setter {
    promises: SyncSender<Vec<Promise<u64>>>,
    set: Receiver<()>,
}

thread_local! {
    static SETTER: Setter = {
        let ((promises, theirs), (done, set)) = (sync_channel::<Vec<Promise<u64>>>(1), sync_channel(1));
        thread::spawn(move || {
            for promises in theirs {
                promises.into_iter().for_each(|promise| promise.set(ONE));
                let _ = done.send(());
            }
        });
        Setter { promises, set }
    };
}

impl Setter {
    fn set_all(&self, promises: Vec<Promise<u64>>) {
        self.promises.send(promises).expect("the thread runs");
        self.set.recv().expect("the thread runs");
    }
}

fn descend(depth: u64) -> Future<u64> {
    match depth {
        0 => Future::ready(ONE),
        _ => Future::ready(depth - 1).flat_map(descend),
    }
}
