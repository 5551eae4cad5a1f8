//! Broadcasts: letters for threads that work, wait, sleep, leave, or have letters of others to open.

use std::sync::Arc;

use super::*;

fn indices(pool: &Pool) -> Vec<usize> {
    pool.broadcast(|thread| thread.index())
}

#[test]
fn a_broadcast_beside_tasks() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        let futures = [(); 2].map(|()| {
            let tally = tally.clone();
            pool.spawn(move || tasks(&tally, 2))
        });
        assert_eq!(indices(&pool), [0, 1]);
        for future in futures {
            future.wait().unwrap();
        }
        assert_eq!(tally.count(), 4);
    });
}

#[test]
fn a_broadcast_beside_threads_that_leave() {
    check(|| {
        let (pool, tally) = (small(2), Tally::default());
        let ours = tally.clone();
        drop(pool.spawn(move || tasks(&ours, 2)));
        assert_eq!(indices(&pool), [0, 1]);
        drop(pool);
        assert_eq!(tally.count(), 2);
    });
}

/// A thread that waits opens its mail at once: what it waits for may come only after.
#[test]
fn a_broadcast_that_a_waiting_task_waits_for() {
    check(|| {
        let pool = pool(1);
        let (promise, future) = Promise::new();
        let waits = pool.spawn(move || future.wait().unwrap());
        assert_eq!(indices(&pool), [0]);
        promise.set(());
        waits.wait().unwrap();
    });
}

/// Its own thread is among those that it waits for.
#[test]
fn broadcasts_by_tasks_beside_each_other() {
    check(|| {
        let pool = Arc::new(pool(2));
        let futures = [(); 2].map(|()| {
            let own = Arc::clone(&pool);
            pool.spawn(move || indices(&own))
        });
        for future in futures {
            assert_eq!(future.wait().unwrap(), [0, 1]);
        }
    });
}

/// Calls of one closure wait for each other, so all threads open the letters of two broadcasts in one order.
#[test]
fn broadcasts_whose_calls_meet() {
    check(|| {
        let pool = Arc::new(pool(2));
        let other = Arc::clone(&pool);
        let meets = |pool: &Pool| {
            let tally = Tally::default();
            pool.broadcast(|_| meet(&tally, 2));
        };
        let thread = thread::spawn(move || meets(&other));
        meets(&pool);
        thread.join().unwrap();
    });
}

/// Each waits for threads of the other's pool, which wait for its own.
#[test]
fn tasks_of_two_pools_that_broadcast_to_each_other() {
    check(|| {
        let pools = [Arc::new(pool(1)), Arc::new(pool(1))];
        let futures = [(0, 1), (1, 0)].map(|(from, to)| {
            let to = Arc::clone(&pools[to]);
            pools[from].spawn(move || indices(&to))
        });
        for future in futures {
            assert_eq!(future.wait().unwrap(), [0]);
        }
    });
}

/// As above, from within broadcasts.
#[test]
fn broadcasts_of_two_pools_within_each_other() {
    check(|| {
        let (a, b) = (Arc::new(pool(1)), Arc::new(pool(2)));
        let (to_a, to_b) = (Arc::clone(&a), Arc::clone(&b));
        let thread = thread::spawn(move || to_b.broadcast(|_| indices(&to_a)));
        assert_eq!(a.broadcast(|_| indices(&b)), [[0, 1]]);
        assert_eq!(thread.join().unwrap(), [[0], [0]]);
    });
}

/// While a guest has the only place, and waits for what the broadcast's closure does.
#[test]
fn a_broadcast_beside_a_guest_that_waits_for_it() {
    check(|| {
        let pool = Arc::new(pool(1));
        let (promise, future) = Promise::new();
        let promise = std::sync::Mutex::new(Some(promise));
        let other = Arc::clone(&pool);
        let thread = thread::spawn(move || {
            other.broadcast(|_| promise.lock().unwrap().take().unwrap().set(7));
        });
        assert_eq!(pool.run(|_| future.wait().unwrap()), 7);
        thread.join().unwrap();
    });
}

#[test]
fn a_broadcast_while_threads_are_refused() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        thread::refuse(50);
        let ours = tally.clone();
        let task = pool.spawn(move || tasks(&ours, 2));
        assert_eq!(indices(&pool), [0, 1]);
        task.wait().unwrap();
        assert_eq!(tally.count(), 2);
    });
}
