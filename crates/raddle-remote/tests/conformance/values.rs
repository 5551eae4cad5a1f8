//! What comes back.

use std::sync::mpsc;
use std::thread;

use raddle::remote::Env;
use raddle::{collect, wait_any};

use crate::support::{Gates, LONG, On, Where, pass, result, value};

struct Loom;

impl Loom {
    fn width(threads: u32) -> u32 {
        threads * 2
    }
}

fn twice<T: Clone>(value: T) -> (T, T) {
    (value.clone(), value)
}

pub fn functions_methods_instances_and_closures(on: &On) {
    let env = on.env();
    assert_eq!(value(env.spawn(u32::count_ones, 7)), 3);
    assert_eq!(value(env.spawn(Loom::width, 4)), 8);
    assert_eq!(value(env.spawn(twice::<String>, "a".into())), ("a".into(), "a".into()));
    assert_eq!(value(env.spawn(twice::<()>, ())), ((), ()));
    assert_eq!(value(env.spawn(|x| x + 1, 41)), 42);
    assert_eq!(
        value(env.spawn(|(a, b): (i8, Option<f64>)| b.map(|b| b * f64::from(a)), (2, Some(1.5)))),
        Some(3.0)
    );
}

pub fn maps_keep_the_order(on: &On) {
    let env = on.env();
    for len in [0_u64, 1, 2, 7, 8, 9, 100] {
        let squares = value(env.map(|n: u64| n * n, 0..len));
        assert_eq!(squares, (0..len).map(|n| n * n).collect::<Vec<_>>());
    }
}

pub fn errors_are_values(on: &On) {
    let env = on.env();
    let parse = |text: String| text.parse::<i32>().map_err(|error| error.to_string());
    assert_eq!(value(env.spawn(parse, "12".into())), Ok(12));
    let error = value(env.spawn(parse, "x".into())).unwrap_err();
    assert!(error.contains("invalid digit"));
}

pub fn many_at_once(on: &On) {
    let env = on.env();
    let futures: Vec<_> = (0..300_u32).map(|n| env.spawn(|n| n + 1, n)).collect();
    let sum: u32 = value(collect(futures)).into_iter().sum();
    assert_eq!(sum, (1..=300).sum());
}

/// As the stress test of the Lisp libraries: 100 rounds of 100 futures.
pub fn rounds_of_futures(on: &On) {
    let env = on.env();
    for round in 0..u64::from(on.count(&[Where::Ray], 10, 100)) {
        let futures: Vec<_> = (0..100_u64).map(|n| env.spawn(|(a, b)| a * b, (round, n))).collect();
        let sum: u64 = futures.into_iter().map(value).sum();
        assert_eq!(sum, round * 4950);
    }
}

pub fn the_first_of_several(on: &On) {
    let env = on.env();
    let gates = Gates::new();
    gates.open("go 1");
    let spawn =
        |n: u32| env.spawn(pass, (gates.at(&format!("here {n}")), gates.at(&format!("go {n}"))));
    if !on.is_concurrent() {
        gates.open("go 0");
    }
    let mut futures = vec![spawn(0), spawn(1)];
    let (index, first) = wait_any(&mut futures);
    assert!(first.is_ok());
    assert_eq!((index, futures.len()), (usize::from(on.is_concurrent()), 1));
    gates.open("go 0");
    let (index, last) = wait_any(&mut futures);
    assert!(last.is_ok());
    assert_eq!((index, futures.len()), (0, 0));
}

pub fn threads_that_spawn_at_once(on: &On) {
    let env = on.env();
    thread::scope(|scope| {
        let spawn = |n: u64| {
            let env = &env;
            thread::Builder::new()
                .stack_size(128 << 10)
                .spawn_scoped(scope, move || value(env.spawn(|n| n * 3, n)))
                .unwrap()
        };
        let threads: Vec<_> = (0..200).map(spawn).collect();
        for (n, thread) in (0..).zip(threads) {
            assert_eq!(thread.join().unwrap(), n * 3);
        }
    });
}

/// What follows a future may wait for others, as many of them as there are.
pub fn continuations_may_wait(on: &On) {
    let env = on.env();
    let chained = |n: u32| {
        let then: Env = env.clone();
        env.spawn(|n| n + 1, n).map(move |n: u32| {
            let then_again = then.clone();
            let next = then.spawn(|n| n + 1, n);
            next.map(move |n| result(then_again.spawn(|n| n + 1, n)).unwrap()).wait().unwrap()
        })
    };
    let futures: Vec<_> = (0..20).map(chained).collect();
    for (n, future) in (0..).zip(futures) {
        assert_eq!(value(future), n + 3);
    }
}

pub fn workers_are_counted(on: &On) {
    let env = on.env();
    let gates = Gates::new();
    if !on.is_concurrent() {
        assert_eq!((env.workers(), env.free_workers()), (1, 1));
        return;
    }
    assert_eq!((env.workers(), env.free_workers()), (2, 2));
    let spawn = |n: u32| env.spawn(pass, (gates.at(&format!("here {n}")), gates.at("go")));
    let first = spawn(0);
    gates.wait("here 0");
    assert_eq!(env.free_workers(), 1);
    let second = spawn(1);
    gates.wait("here 1");
    assert_eq!(env.free_workers(), 0);
    gates.open("go");
    value(first);
    value(second);
    crate::support::until(|| env.free_workers() == 2);
    assert_eq!(on.alone().workers(), 1);
}

/// A thread that waits may hear the answer itself; for one who waits in another way, or elsewhere, somebody else has to.
pub fn waits_of_all_kinds(on: &On) {
    for env in [on.alone(), on.env()] {
        for n in 0..on.count(&[Where::Loopback, Where::Ray], 30, 300) {
            let future = env.spawn(|n| n + 1, n);
            let next = match n % 6 {
                // Two in a row: the second may be answered before it is waited for.
                0 | 1 => value(future),
                2 => match future.wait_timeout(LONG) {
                    Ok(result) => result.unwrap(),
                    Err(_) => panic!("no answer"),
                },
                3 => {
                    let (send, sent) = mpsc::channel();
                    future.map(move |next| send.send(next).unwrap()).detach();
                    sent.recv_timeout(LONG).unwrap()
                }
                4 => thread::spawn(move || value(future)).join().unwrap(),
                _ => {
                    let two = env.spawn(|n| n + 2, n);
                    value(two) - 2 + value(future) - n
                }
            };
            assert_eq!(next, n + 1);
        }
    }
}
