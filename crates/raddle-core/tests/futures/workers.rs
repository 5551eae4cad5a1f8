//! Waiting on a worker never starves its pool, be it of one thread.

use std::sync::mpsc;
use std::time::Duration;

use raddle_core::{
    Future, Pool, Promise, as_completed, collect, collect_results, first, join, join_all, scope,
    spawn, tail_loop, times, traverse_sequentially, wait_all, wait_any,
};

use crate::support::{in_time, scaled};

type Wait = fn() -> u64;

/// What a task does: each spawns more, and waits for what it makes of them.
const WAITS: &[(&str, Wait)] = &[
    ("map", || spawn(|| 1).map(|n| n).wait().unwrap()),
    ("many maps", || (0..100).fold(spawn(|| 1), |f, _| f.map(|n| n)).wait().unwrap()),
    ("flat_map", || spawn(|| ()).flat_map(|()| spawn(|| 1)).wait().unwrap()),
    ("flat_maps", || {
        fn down(n: u64) -> Future<u64> {
            spawn(move || n).flat_map(|n| if n == 0 { Future::ready(1) } else { down(n - 1) })
        }
        down(100).wait().unwrap()
    }),
    ("rescue", || {
        spawn(|| -> u64 { panic!("on purpose") }).rescue(|_| spawn(|| 1)).wait().unwrap()
    }),
    ("or", || Future::failed(std::fmt::Error).or(spawn(|| 1)).wait().unwrap()),
    ("collect", || {
        collect((0..10).map(|_| spawn(|| 1_u64))).wait().unwrap().iter().sum::<u64>() / 10
    }),
    ("collect of derived", || {
        let all =
            collect((0..10).map(|_| spawn(|| 1_u64).map(|n| n).flat_map(|n| spawn(move || n))));
        all.wait().unwrap().len() as u64 / 10
    }),
    ("collect of collects", || {
        let inner = || collect((0..3).map(|_| spawn(|| 1_u64))).map(|v| v.len());
        collect((0..3).map(|_| inner())).wait().unwrap().len() as u64 / 3
    }),
    ("collect_results", || collect_results([spawn(|| 1)]).wait().unwrap().remove(0).unwrap()),
    ("join_all", || join_all([spawn(|| 1), spawn(|| 2)]).map(|()| 1).wait().unwrap()),
    ("zip", || spawn(|| 1).zip(spawn(|| 2)).map(|(n, _)| n).wait().unwrap()),
    ("zip of derived", || {
        let derived = || spawn(|| ()).flat_map(|()| spawn(|| 1));
        derived().zip_with(derived(), |a, b| a * b).wait().unwrap()
    }),
    ("wait_all", || wait_all(vec![spawn(|| 1), spawn(|| 1)]).remove(0).unwrap()),
    ("shared", || {
        let shared = spawn(|| 1).shared();
        let (a, b) = (shared.map(|n| n), shared.flat_map(|n| spawn(move || n)));
        a.zip(b).wait().unwrap().0
    }),
    ("masked", || spawn(|| 1).masked().wait().unwrap()),
    ("masked map", || spawn(|| 1).map(|n| n).masked().wait().unwrap()),
    ("masked, then map", || spawn(|| 1).masked().map(|n| n).wait().unwrap()),
    ("masked flat_map", || spawn(|| ()).flat_map(|()| spawn(|| 1)).masked().wait().unwrap()),
    ("flat_map to masked", || {
        Future::ready(()).flat_map(|()| spawn(|| 1).masked()).wait().unwrap()
    }),
    ("interruptible", || spawn(|| 1).interruptible().wait().unwrap()),
    ("link", || {
        let (promise, future) = Promise::new();
        promise.link(spawn(|| 1).map(|n| n));
        future.wait().unwrap()
    }),
    ("link later", || {
        let (promise, future) = Promise::new();
        let linker = spawn(move || promise.link(spawn(|| 1)));
        linker.flat_map(|()| future).wait().unwrap()
    }),
    ("tail_loop", || {
        let turn = |n| {
            spawn(move || {
                if n == 0 {
                    std::ops::ControlFlow::Break(1)
                } else {
                    std::ops::ControlFlow::Continue(n - 1)
                }
            })
        };
        tail_loop(100, turn).wait().unwrap()
    }),
    ("times", || times(10, || spawn(|| ())).map(|()| 1).wait().unwrap()),
    ("traverse_sequentially", || {
        traverse_sequentially(0..10, |_| spawn(|| 1_u64)).wait().unwrap().len() as u64 / 10
    }),
    ("from_async", || Future::from_async(async { 1 }).map(|n| n).wait().unwrap()),
    ("a wait within a wait", || {
        spawn(|| spawn(|| spawn(|| 1).wait().unwrap()).map(|n| n).wait().unwrap())
            .map(|n| n)
            .wait()
            .unwrap()
    }),
    ("waits in a join", || {
        let wait = || spawn(|| 1).map(|n| n).wait().unwrap();
        let (a, b) = join(wait, wait);
        a * b
    }),
    ("waits in a scope", || {
        scope(|s| {
            (0..4).for_each(|_| {
                s.spawn(|_| {
                    spawn(|| 1).flat_map(|n| spawn(move || n)).wait().unwrap();
                })
            })
        });
        1
    }),
    ("a wait in a continuation", || {
        let done = spawn(|| 1).map(|n| n);
        spawn(|| ()).map(move |()| done.map(|n| n).wait().unwrap()).wait().unwrap()
    }),
    ("a wait for what comes with time", || {
        Future::delay(Duration::from_millis(1)).flat_map(|()| spawn(|| 1)).wait().unwrap()
    }),
];

/// Waits that run nothing themselves: there is a limit, a race, or what nobody knows of between.
const LEFT_TO_OTHERS: &[(&str, Wait)] = &[
    ("first", || first([Future::never(), spawn(|| 1), spawn(|| 1)]).wait().unwrap()),
    ("wait_any", || wait_any(&mut vec![spawn(|| 1).map(|n| n), Future::never()]).1.unwrap()),
    ("as_completed", || {
        as_completed((0..3).map(|_| spawn(|| 1_u64))).map(|(_, n)| n.unwrap()).sum::<u64>() / 3
    }),
    ("within", || spawn(|| 1).within(Duration::from_secs(3600)).wait().unwrap()),
    ("from_async that awaits", || {
        Future::from_async(async { spawn(|| 1).await.unwrap() }).wait().unwrap()
    }),
    ("from_async that awaits twice", || {
        let both = async {
            let one = spawn(|| 1).await.unwrap();
            one * spawn(|| 1).map(|n| n).await.unwrap()
        };
        Future::from_async(both).map(|n| n).wait().unwrap()
    }),
];

#[test]
fn waits_that_are_left_to_others() {
    for (name, wait) in LEFT_TO_OTHERS {
        in_time(name, move || {
            for threads in [1, 2, 16] {
                let pool = Pool::new(threads).unwrap();
                let all = (0..scaled(40)).map(|_| pool.spawn(*wait)).collect::<Vec<_>>();
                assert!(wait_all(all).into_iter().all(|n| n.unwrap() == 1), "{name}");
                assert_eq!(pool.run(|_| wait()), 1, "a guest: {name}");
            }
        });
    }
}

#[test]
fn on_a_pool_of_one() {
    for (name, wait) in WAITS {
        in_time(name, move || {
            let pool = Pool::new(1).unwrap();
            assert_eq!(pool.spawn(*wait).wait().unwrap(), 1, "a task: {name}");
            assert_eq!(pool.run(|_| wait()), 1, "a guest: {name}");
            let (sender, result) = mpsc::channel();
            drop(pool.spawn(move || sender.send(wait()).unwrap()));
            assert_eq!(result.recv().unwrap(), 1, "a thread of the pool: {name}");
        });
    }
}

#[test]
fn on_pools_of_more() {
    for (name, wait) in WAITS {
        in_time(name, move || {
            for threads in [2, 16] {
                let pool = Pool::new(threads).unwrap();
                let all = (0..scaled(40)).map(|_| pool.spawn(*wait)).collect::<Vec<_>>();
                assert!(wait_all(all).into_iter().all(|n| n.unwrap() == 1), "{name}");
            }
        });
    }
}

/// All kinds at once, so that each meets the others' tasks in its queues.
#[test]
fn all_at_once() {
    for threads in [1, 2, 16] {
        in_time("all at once", move || {
            let pool = Pool::new(threads).unwrap();
            for _ in 0..scaled(10) {
                let all = WAITS.iter().map(|(_, wait)| pool.spawn(*wait)).collect::<Vec<_>>();
                assert!(wait_all(all).into_iter().all(|n| n.unwrap() == 1));
            }
        });
    }
}
