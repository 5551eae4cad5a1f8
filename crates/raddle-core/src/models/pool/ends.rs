//! Pools that are dropped while a task waits, and spawns only then: all that it spawns is run before the pool has gone.

use super::*;

/// Waits for the tasks of its scope, then spawns another that does so, as often as said.
fn waits_and_spawns(tally: Tally, left: u32) {
    tasks(&tally, 2);
    if left > 0 {
        let next = tally.clone();
        drop(crate::spawn(move || waits_and_spawns(next, left - 1)));
    }
    tally.add();
}

fn dropped_while_a_task_waits(pool: Pool) {
    let tally = Tally::default();
    let ours = tally.clone();
    drop(pool.spawn(move || waits_and_spawns(ours, 1)));
    drop(pool);
    assert_eq!(tally.count(), 6);
}

#[test]
fn a_pool_of_one_dropped_while_a_task_waits() {
    check(|| dropped_while_a_task_waits(pool(1)));
}

#[test]
fn a_pool_of_two_dropped_while_a_task_waits() {
    check(|| dropped_while_a_task_waits(pool(2)));
}

#[test]
fn a_pool_whose_threads_leave_dropped_while_a_task_waits() {
    check(|| dropped_while_a_task_waits(small(2)));
}

#[test]
fn a_pool_of_hosts_dropped_while_a_task_waits() {
    check(|| {
        let hosts = Pool::builder().threads(2).waits(Waits::Host).build();
        dropped_while_a_task_waits(hosts.unwrap());
    });
}

#[test]
fn a_pool_dropped_while_a_task_waits_and_threads_are_refused() {
    check(|| {
        let pool = small(2);
        thread::refuse(50);
        dropped_while_a_task_waits(pool);
    });
}

/// The wait gives the only place away, and ends by what comes from outside while the pool is dropped.
#[test]
fn a_pool_dropped_while_a_task_waits_for_another_thread() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let (promise, future) = Promise::new();
        let ours = tally.clone();
        drop(pool.spawn(move || {
            future.wait().unwrap();
            waits_and_spawns(ours, 0);
        }));
        let thread = thread::spawn(move || promise.set(()));
        drop(pool);
        assert_eq!(tally.count(), 3);
        thread.join().unwrap();
    });
}

/// What it then spawns needs a thread beside its own, after all others had nothing to do.
#[test]
fn a_pool_dropped_while_a_task_waits_that_blocks_for_what_it_spawns() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let ours = tally.clone();
        drop(pool.spawn(move || {
            tasks(&ours, 2);
            let next = ours.clone();
            drop(crate::spawn(move || next.add()));
            crate::blocking(|| until(&ours, 3));
        }));
        drop(pool);
        assert_eq!(tally.count(), 3);
    });
}

/// The thread that drops one pool works for another, and gives its place there to what the first one's tasks wait for.
#[test]
fn a_pool_dropped_by_a_task_of_another_that_its_tasks_wait_for() {
    check(|| {
        let (outer, inner) = (pool(1), pool(1));
        let (promise, future) = Promise::new();
        drop(inner.spawn(move || future.wait().unwrap()));
        let drops = outer.spawn(move || drop(inner));
        drop(outer.spawn(move || promise.set(())));
        drops.wait().unwrap();
    });
}
