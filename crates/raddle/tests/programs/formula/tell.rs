//! Tasks that tell each other something.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use raddle::lock::{Condvar, Mutex};
use raddle::{Future, Promise, SharedPromise};

use super::{Context, eval, sum, wait_for};
use crate::ir::{Formula, Means, Order, Place};
use crate::rng::mix;

enum Teller {
    Promise(Promise<u64>),
    Shared(SharedPromise<u64>),
    Channel(Sender<u64>),
}

impl Teller {
    /// Whether it was the first.
    fn tell(self, value: u64) -> bool {
        match self {
            Teller::Promise(promise) => promise.set(value),
            Teller::Shared(promise) => return promise.try_set(value),
            Teller::Channel(sender) => return sender.send(value).is_ok(),
        }
        true
    }
}

enum Told {
    Future(Future<u64>),
    Blocking(Future<u64>),
    Channel(Receiver<u64>),
}

impl Told {
    fn wait(self, context: Context) -> u64 {
        match self {
            Told::Future(future) => context.good("promised", future.wait()),
            Told::Blocking(future) => context.good("promised", raddle::blocking(|| future.wait())),
            Told::Channel(receiver) => raddle::blocking(|| receiver.recv()).unwrap_or_else(|_| {
                context.world.complain("nobody has sent anything".to_owned());
                0
            }),
        }
    }
}

fn pair(means: Means) -> (Vec<Teller>, Told) {
    match means {
        Means::Channel => {
            let (sender, receiver) = mpsc::channel();
            (vec![Teller::Channel(sender)], Told::Channel(receiver))
        }
        Means::Rivals(count) => {
            let (promise, future) = SharedPromise::new();
            ((0..count).map(|_| Teller::Shared(promise.clone())).collect(), Told::Future(future))
        }
        Means::Promise | Means::Blocking => {
            let (promise, future) = Promise::new();
            let told = if means == Means::Promise { Told::Future } else { Told::Blocking };
            (vec![Teller::Promise(promise)], told(future))
        }
    }
}

/// Each of so many tasks waits to be told something, by a task of its own or by several.
pub(super) fn promised(
    context: Context,
    place: Place,
    means: Means,
    count: usize,
    setters_first: bool,
    task: &'static Formula,
    given: u64,
) -> u64 {
    let (tellers, told): (Vec<_>, Vec<_>) = (0..count).map(|_| pair(means)).unzip();
    let setters = |tellers: Vec<Vec<Teller>>| -> Vec<Future<u64>> {
        let all = tellers.into_iter().enumerate();
        let each = all.flat_map(|(index, some)| some.into_iter().map(move |one| (index, one)));
        each.map(|(index, teller)| {
            context.spawn(place, move || teller.tell(mix(given, !(index as u64))).into())
        })
        .collect()
    };
    let waiters = |told: Vec<Told>| -> Vec<Future<u64>> {
        let waiter = |(index, told): (usize, Told)| {
            context.spawn(place, move || {
                let set = told.wait(context);
                mix(set, eval(context, task, mix(given, index as u64), None))
            })
        };
        told.into_iter().enumerate().map(waiter).collect()
    };
    let (setting, waiting);
    if setters_first {
        setting = setters(tellers);
        waiting = waiters(told);
    } else {
        waiting = waiters(told);
        setting = setters(tellers);
    }
    let total = wait_for(context, waiting, Order::Forward);
    if let Means::Rivals(_) = means {
        let won = setting.into_iter().map(|setter| context.good("rivals", setter.wait()));
        let won: u64 = won.sum();
        if won != count as u64 {
            context.world.complain(format!("{won} have set {count} shared promises"));
        }
    }
    total
}

/// So many tasks, each of which waits on a condition until the one before it is over.
pub(super) fn turns(
    context: Context,
    place: Place,
    count: usize,
    last_first: bool,
    task: &'static Formula,
    given: u64,
) -> u64 {
    let turn = Arc::new((Mutex::new(0), Condvar::new()));
    let one = |index: usize| {
        let turn = turn.clone();
        context.spawn(place, move || {
            let (now, changed) = &*turn;
            changed.wait_while(&mut now.lock(), |now| *now != index);
            let value = eval(context, task, mix(given, index as u64), None);
            let mut now = now.lock();
            *now += 1;
            if index % 2 == 0 {
                drop(now);
            }
            changed.notify_all();
            value
        })
    };
    let mut tasks: Vec<Future<u64>>;
    if last_first {
        tasks = (0..count).rev().map(one).collect();
        tasks.reverse();
    } else {
        tasks = (0..count).map(one).collect();
    }
    sum(tasks.into_iter().map(|task| context.good("turns", task.wait())).enumerate())
}
