//! raddle's futures.

use std::ops::ControlFlow;
use std::thread;
use std::time::Duration;

use raddle::{Failure, FailureKind, Future, Promise};

use crate::exec::{Env, item, run as run_node};
use crate::ir::{Frail, Futures, Node};
use crate::oracle::link;
use crate::rng::mix;

fn got<T>(result: Result<T, Failure>) -> T {
    result.unwrap_or_else(|failure| failure.resume())
}

fn sum(values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(0, u64::wrapping_add)
}

pub(super) fn run(kind: Futures, count: u32, inner: &'static Node, env: Env, x: u64) -> u64 {
    let caller = env;
    let env = env.away();
    let task = move |index: u32| move || item(inner, env, x, u64::from(index));
    let spawn = |index: u32| raddle::spawn(task(index));
    let all = || (0..count).map(spawn).collect::<Vec<Future<u64>>>();
    match kind {
        Futures::Forward => each(all()),
        Futures::Backward => each(all().into_iter().rev().collect()),
        Futures::Collect => sum(got(raddle::collect(all()).wait())),
        Futures::JoinAll => {
            let shared: Vec<_> = all().into_iter().map(Future::shared).collect();
            got(raddle::join_all(shared.iter().map(|shared| shared.future())).wait());
            sum(shared.into_iter().map(|shared| got(shared.wait())))
        }
        Futures::WaitAll => all_of(raddle::wait_all(all())),
        Futures::Completed => {
            all_of(raddle::as_completed(all()).map(|(_, result)| result).collect())
        }
        Futures::Any => {
            let mut futures = all();
            let mut results = Vec::new();
            while !futures.is_empty() {
                results.push(raddle::wait_any(&mut futures).1);
            }
            all_of(results)
        }
        Futures::Ops => each((0..count).map(|i| ops(spawn(i), caller)).collect()),
        Futures::Zip => {
            let zero = Future::ready(0);
            let zipped = (0..count)
                .map(spawn)
                .fold(zero, |a: Future<u64>, b| a.zip_with(b, |a, b| a.wrapping_add(b)));
            got(zipped.wait())
        }
        Futures::Promised => {
            let promised = |index| {
                let (promise, future) = Promise::new();
                rayon::spawn(move || promise.set(task(index)()));
                future
            };
            each((0..count).map(promised).collect())
        }
        Futures::FromOutside => {
            from_outside((0..count).map(|i| mix(x, u64::from(i))).collect(), inner)
        }
        Futures::Long => {
            let (promise, mut future) = Promise::new();
            for _ in 0..count {
                future = future.map(link);
            }
            let first = raddle::spawn(move || run_node(inner, env, x));
            promise.link(first);
            got(future.wait())
        }
        Futures::Shared => {
            let shared = raddle::spawn(move || run_node(inner, env, x)).shared();
            let consumers: Vec<_> = (0..count).map(|_| shared.future()).collect();
            drop(shared);
            each(consumers)
        }
        Futures::Window => sum(got(raddle::window(0..count, 3, spawn_of(inner, env, x)).wait())),
        Futures::TailLoop => got(in_turn(count, inner, env, x).wait()),
        Futures::Async => {
            let turns = async move {
                let mut sum = 0_u64;
                for index in 0..count {
                    sum = sum.wrapping_add(spawn_of(inner, env, x)(index).await?);
                }
                Ok::<u64, Failure>(sum)
            };
            got(got(Future::from_async(turns).wait()))
        }
        Futures::Timeout => {
            let limited = |future: Future<u64>| match future.wait_timeout(Duration::from_secs(600))
            {
                Ok(result) => got(result),
                Err(_) => panic!("ten minutes are over"),
            };
            sum(all().into_iter().map(limited))
        }
    }
}

fn spawn_of(
    inner: &'static Node,
    env: Env,
    x: u64,
) -> impl FnMut(u32) -> Future<u64> + Send + Copy {
    move |index| raddle::spawn(move || item(inner, env, x, u64::from(index)))
}

/// Waits for all, then fails as the first did that failed.
fn each(futures: Vec<Future<u64>>) -> u64 {
    all_of(futures.into_iter().map(Future::wait).collect())
}

fn all_of(results: Vec<Result<u64, Failure>>) -> u64 {
    sum(results.into_iter().map(got))
}

fn ops(future: Future<u64>, caller: Env) -> Future<u64> {
    let once = future.map(move |v| {
        caller.check_continuation("a continuation");
        mix(v, 1)
    });
    once.flat_map(move |v| {
        caller.check_continuation("a continuation with a task");
        raddle::spawn(move || {
            caller.away().check("a task of a continuation");
            mix(v, 2)
        })
    })
}

fn in_turn(count: u32, inner: &'static Node, env: Env, x: u64) -> Future<u64> {
    let mut spawn = spawn_of(inner, env, x);
    raddle::tail_loop((0_u32, 0_u64), move |(index, sum)| {
        if index == count {
            return Future::ready(ControlFlow::Break(sum));
        }
        spawn(index).map(move |v| ControlFlow::Continue((index + 1, sum.wrapping_add(v))))
    })
}

/// By a thread of the system; what is made is that of leaves.
fn from_outside(numbers: Vec<u64>, inner: &'static Node) -> u64 {
    debug_assert!(matches!(inner, Node::Leaf(_)));
    let (promises, futures): (Vec<_>, Vec<_>) = numbers.iter().map(|_| Promise::new()).unzip();
    let setter = thread::spawn(move || {
        for (promise, x) in promises.into_iter().zip(numbers) {
            promise.set(crate::oracle::leaf(x));
        }
    });
    let value = each(futures);
    setter.join().unwrap();
    value
}

pub(super) fn frail(kind: Frail, count: u32, inner: &'static Node, env: Env, x: u64) {
    let env = env.away();
    let task = move |index: u32| {
        let token = env.world.token();
        move || {
            let value = item(inner, env, x, u64::from(index));
            drop(token);
            value
        }
    };
    let futures: Vec<_> = (0..count).map(|i| raddle::spawn(task(i))).collect();
    let check = |result: Result<u64, Failure>| {
        let Err(failure) = result else { return };
        let kind = failure.kind();
        if !matches!(kind, FailureKind::Killed | FailureKind::Interrupted | FailureKind::TimedOut) {
            env.world.complain(format!("a task that was ended is {failure:?}"));
        }
    };
    match kind {
        Frail::Kill => {
            for future in futures.iter().rev().step_by(2) {
                future.kill();
            }
            futures.into_iter().for_each(|future| check(future.wait()));
        }
        Frail::Interrupt => {
            futures.iter().for_each(|future| future.interrupt("enough"));
            futures.into_iter().for_each(|future| check(future.wait()));
        }
        Frail::Within => {
            let limit = Duration::from_micros(mix(x, 8) % 200);
            let limited: Vec<_> = futures.into_iter().map(|future| future.within(limit)).collect();
            limited.into_iter().for_each(|future| check(future.wait()));
        }
        Frail::CancelOnDrop => {
            for (index, future) in futures.into_iter().enumerate() {
                let future = future.cancel_on_drop();
                if index % 2 == 0 {
                    check(future.wait());
                }
            }
        }
    }
}
