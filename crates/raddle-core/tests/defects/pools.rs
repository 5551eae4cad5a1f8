//! Pools that call each other: who is blocked in one holds no place in another, and finds itself in each that it has entered.

use raddle_core::{Promise, join, scope, spawn};

use super::*;

/// What is done in a pool from within another, however far down.
type Call = fn(&Pool);

const CALLS: [(&str, Call); 9] = [
    ("a call", |pool| pool.run(|_| ())),
    ("a call that forks", |pool| assert_eq!(pool.run(|worker| worker.join(|_| 1, |_| 2)), (1, 2))),
    ("a wait for a task", |pool| pool.spawn(|| ()).wait().unwrap()),
    ("a wait for a map", |pool| pool.spawn(|| ()).map(|()| ()).wait().unwrap()),
    ("a wait for what goes on there", |pool| {
        let (promise, future) = Promise::<()>::new();
        let next = future.on(pool).map(|()| ());
        promise.set(());
        next.wait().unwrap();
    }),
    ("a wait for a promise that a task sets", |pool| {
        let (promise, future) = Promise::<()>::new();
        drop(pool.spawn(move || promise.set(())));
        future.wait().unwrap();
    }),
    ("a scope", |pool| pool.scope(|s| (0..300).for_each(|_| s.spawn(|_| ())))),
    ("a scope within a call", |pool| pool.run(|_| scope(|s| s.spawn(|_| ())))),
    ("a task that waits for its own", |pool| {
        pool.spawn(|| spawn(|| join(|| (), || ())).wait().unwrap()).wait().unwrap();
    }),
];

/// The guest of the one is blocked within the other, for what a thread of the other does in the one.
#[test]
fn a_guest_that_is_blocked_in_another_pool_leaves_its_place() {
    for (name, call) in CALLS {
        for threads in [1, 2] {
            ends(name, move || {
                let (a, b) = (&Pool::new(threads).unwrap(), &Pool::new(2).unwrap());
                let stolen = &AtomicBool::new(false);
                let calls = || {
                    raise(stolen);
                    call(a);
                };
                // In a stolen half, by another thread of the second pool.
                a.run(|_| b.run(|worker| worker.join(|_| until(stolen), |_| calls())));
                // In a task of it.
                let taken = &AtomicBool::new(false);
                a.run(|_| {
                    b.scope(|s| {
                        s.spawn(|_| {
                            raise(taken);
                            call(a);
                        });
                        until(taken);
                    });
                });
            });
        }
    }
}

/// On one thread, through both again and again.
#[test]
fn a_thread_that_enters_two_pools_by_turns() {
    fn enter(outer: &Pool, inner: &Pool, depth: usize, call: Call) {
        if depth == 0 {
            return call(inner);
        }
        outer.run(|_| enter(inner, outer, depth - 1, call));
    }
    for (name, call) in CALLS {
        for threads in [1, 2] {
            for depth in [1, 2, 3, 4, 5, 300] {
                ends(name, move || {
                    let (a, b) = (Pool::new(threads).unwrap(), Pool::new(threads).unwrap());
                    enter(&a, &b, depth, call);
                    // And from a thread of one of them.
                    thread::scope(|outside| {
                        let task = || a.scope(|s| s.spawn(|_| enter(&b, &a, depth, call)));
                        outside.spawn(task).join().unwrap();
                    });
                });
            }
        }
    }
}
