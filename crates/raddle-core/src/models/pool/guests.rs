//! Guests beside tasks: what is queued while a guest works wakes the pool's threads.

use std::sync::Arc;

use super::*;

/// A guest that keeps its place, while a task queues another.
#[test]
fn a_task_that_queues_more_beside_a_guest() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        let ours = tally.clone();
        drop(pool.spawn(move || {
            let next = ours.clone();
            drop(crate::spawn(move || next.add()));
            ours.add();
        }));
        pool.run(|_| until(&tally, 2));
    });
}

/// Both threads look for work, or fall asleep, or make room for the guest as the task comes.
#[test]
fn a_task_from_outside_beside_threads_that_fall_asleep_and_a_guest() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        for round in 0..2 {
            for _ in 0..2 {
                let tally = tally.clone();
                drop(pool.spawn(move || meet(&tally, 3 * round + 2)));
            }
            until(&tally, 3 * round + 2);
            let tally = tally.clone();
            let ours = tally.clone();
            drop(pool.spawn(move || ours.add()));
            pool.run(|_| until(&tally, 3 * round + 3));
        }
    });
}

/// As above, with threads that leave instead.
#[test]
fn a_task_from_outside_beside_threads_that_leave_and_a_guest() {
    check(|| {
        let (pool, tally) = (small(2), Tally::default());
        for round in 0..2 {
            let ours = tally.clone();
            drop(pool.spawn(move || {
                let next = ours.clone();
                drop(crate::spawn(move || next.add()));
                ours.add();
            }));
            pool.run(|_| until(&tally, 2 * round + 2));
        }
    });
}

/// On a pool of one the guest has the place, and what it waits for is the task's child.
#[test]
fn a_guest_that_waits_for_the_child_of_a_task_on_one_thread() {
    check(|| {
        let pool = pool(1);
        let (promise, future) = Promise::new();
        drop(pool.spawn(move || drop(crate::spawn(move || promise.set(7)))));
        assert_eq!(pool.run(|_| future.wait().unwrap()), 7);
    });
}

/// Two guests, of which one has to queue, and a task that queues more.
#[test]
fn two_guests_and_a_task_that_queues_more_on_one_thread() {
    check(|| {
        let (pool, tally) = (Arc::new(pool(1)), Tally::default());
        let ours = tally.clone();
        drop(pool.spawn(move || {
            let next = ours.clone();
            drop(crate::spawn(move || next.add()));
            ours.add();
        }));
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || other.run(|worker| fib(worker, 3)));
        assert_eq!(pool.run(|worker| fib(worker, 3)), 2);
        assert_eq!(thread.join().unwrap(), 2);
        drop(pool);
        assert_eq!(tally.count(), 2);
    });
}

fn two_of_one() -> [Arc<Pool>; 2] {
    [Arc::new(pool(1)), Arc::new(pool(1))]
}

/// What it waits for is queued in the outer pool, whose place it holds beneath.
#[test]
fn a_guest_two_pools_deep_that_waits_for_a_task() {
    check(|| {
        let (a, b) = (pool(1), pool(1));
        let (promise, future) = Promise::new();
        let seven = a.run(|_| {
            b.run(|_| {
                a.run(|_| {
                    drop(crate::spawn(move || promise.set(7)));
                    future.wait().unwrap()
                })
            })
        });
        assert_eq!(seven, 7);
    });
}

/// Its wait gives back the places that it holds in both, and in both there is something to do before it is over.
#[test]
fn a_task_two_pools_deep_that_waits_for_tasks_of_both() {
    check(|| {
        let [a, b] = two_of_one();
        let ((first, one), (second, two)) = (Promise::new(), Promise::new());
        let (to_a, to_b) = (Arc::clone(&a), Arc::clone(&b));
        let deep =
            a.spawn(move || to_b.run(|_| to_a.run(|_| one.wait().unwrap() + two.wait().unwrap())));
        drop(b.spawn(move || first.set(1)));
        drop(a.spawn(move || second.set(2)));
        assert_eq!(deep.wait().unwrap(), 3);
    });
}

/// Each goes through the other's pool back into its own, and there waits for the tasks of a scope.
#[test]
fn tasks_of_two_pools_that_each_wait_two_pools_deep() {
    check(|| {
        let (pools, tally) = (two_of_one(), Tally::default());
        let deep = [(0, 1), (1, 0)].map(|(own, other)| {
            let (own, other) = (Arc::clone(&pools[own]), Arc::clone(&pools[other]));
            let (back, tally) = (Arc::clone(&own), tally.clone());
            own.spawn(move || other.run(|_| back.run(|_| tasks(&tally, 2))))
        });
        for future in deep {
            future.wait().unwrap();
        }
        assert_eq!(tally.count(), 4);
    });
}

/// A guest from outside goes the same way while a task of the inner pool goes the other.
#[test]
fn a_guest_and_a_task_that_go_through_two_pools() {
    check(|| {
        let [a, b] = two_of_one();
        let (to_a, to_b) = (Arc::clone(&a), Arc::clone(&b));
        let task = b.spawn(move || to_a.run(|_| to_b.run(|worker| fib(worker, 3))));
        let guest = a.run(|_| b.run(|_| a.run(|worker| fib(worker, 3))));
        assert_eq!(guest + task.wait().unwrap(), 4);
    });
}
