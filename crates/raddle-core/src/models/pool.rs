//! The pool itself, at random: small programs that all of it has a part in, from the gate to the parkers.
//!
//! Whether a time limit expires, and in some models whether the system refuses a thread, is chosen at random too; the
//! clock goes on by a step whenever it is read. A program that hangs is a deadlock, which shuttle reports; so is
//! a thread that is left over. Nodes of futures are counted as in `models::future`.
//!
//! Some hundred schedules each; as many as `RADDLE_SHUTTLE` says if it is set.
//!
//! | file         | what the pool meets                                                       |
//! |--------------|---------------------------------------------------------------------------|
//! | here         | nested scopes, joins, tasks that meet, ends, pools within pools             |
//! | `ends`       | its drop, while a task waits that then spawns                               |
//! | `guests`     | guests, also of two pools within each other, beside tasks that queue more     |
//! | `waits`      | waits with a limit, waits for a race, and calls that block elsewhere          |
//! | `kills`      | kills and interrupts of tasks that wait                                     |
//! | `broadcasts` | letters to its threads, beside tasks and other letters                        |
//! | `locks`      | locks that its tasks contend for, and hold while they wait                    |
//! | `refused`    | too few threads for tasks that wait for each other                            |
//! | `relief`     | its cap of spare threads, while all that there are wait for what is queued    |
//! | `timers`     | futures that the timer ends, also where it gets no thread                     |
//! | `yields`     | tasks that yield until another has been run                                 |
//!
//! The timer's clock is that of the models: each timeout is over at any time, in their order. At the end of a program the
//! timer's threads leave (`timer::end`).

mod broadcasts;
mod ends;
mod guests;
mod kills;
mod locks;
mod refused;
mod relief;
mod timers;
mod waits;
mod yields;

use std::time::Duration;

use raddle_sync::{hint, thread};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

use crate::ledger;
use crate::models::Tally;
use crate::timer;
use crate::{Future, Pool, Promise, Waits, Worker, join, scope};

/// Explores a program.
fn check(program: fn()) {
    let schedules = std::env::var("RADDLE_SHUTTLE").ok().and_then(|many| many.parse().ok());
    let mut config = shuttle::Config::new();
    config.stack_size = 1 << 18;
    let model = move || {
        ledger::open();
        thread::refuse(0);
        program();
        timer::end();
        ledger::close();
    };
    let half = schedules.unwrap_or(300) / 2;
    shuttle::Runner::new(RandomScheduler::new(half), config.clone()).run(model);
    // Few changes at the worst moments.
    shuttle::Runner::new(PctScheduler::new(4, half), config).run(model);
}

fn pool(threads: usize) -> Pool {
    Pool::new(threads).expect("the pool can be built")
}

/// A pool whose threads soon leave, and are not replaced while they wait.
fn small(threads: usize) -> Pool {
    let builder = Pool::builder().threads(threads).max_spare_threads(0);
    builder.keep_alive(Duration::from_millis(1)).build().expect("the pool can be built")
}

fn tasks(tally: &Tally, count: u32) {
    scope(|scope| {
        for _ in 0..count {
            scope.spawn(|_| tally.add());
        }
    });
}

fn nested_scopes_in(pool: Pool) {
    let tally = Tally::default();
    pool.run(|_| {
        scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|_| tasks(&tally, 2));
            }
        });
    });
    drop(pool);
    assert_eq!(tally.count(), 4);
}

#[test]
fn nested_scopes() {
    check(|| nested_scopes_in(pool(2)));
}

#[test]
fn nested_scopes_without_spare_threads() {
    check(|| nested_scopes_in(small(1)));
}

#[test]
fn nested_scopes_in_a_pool_of_hosts() {
    check(|| nested_scopes_in(Pool::builder().threads(2).waits(Waits::Host).build().unwrap()));
}

#[test]
fn nested_scopes_while_threads_are_refused() {
    check(|| {
        let pool = pool(2);
        thread::refuse(50);
        nested_scopes_in(pool);
    });
}

fn fib(worker: &Worker, n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = worker.join(|worker| fib(worker, n - 1), |worker| fib(worker, n - 2));
    a + b
}

#[test]
fn joins() {
    check(|| assert_eq!(pool(2).run(|worker| fib(worker, 4)), 3));
}

#[test]
fn joins_of_two_guests() {
    check(|| {
        let pool = std::sync::Arc::new(pool(1));
        let other = std::sync::Arc::clone(&pool);
        let thread = thread::spawn(move || other.run(|worker| fib(worker, 3)));
        assert_eq!(pool.run(|worker| fib(worker, 3)), 2);
        assert_eq!(thread.join().unwrap(), 2);
    });
}

/// Goes on until so many have been counted.
fn until(tally: &Tally, count: u32) {
    while tally.count() < count {
        hint::spin_loop();
    }
}

/// Goes on until so many have come here.
fn meet(tally: &Tally, count: u32) {
    tally.add();
    until(tally, count);
}

/// Both threads are to come, though one alone finds both tasks.
#[test]
fn tasks_that_meet() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        let futures: [_; 2] = std::array::from_fn(|_| {
            let tally = tally.clone();
            pool.spawn(move || meet(&tally, 2))
        });
        for future in futures {
            // By a thread that helps nobody.
            thread::spawn(move || future.wait()).join().unwrap().unwrap();
        }
    });
}

/// What a worker queues before it is busy for long is for others.
#[test]
fn a_task_that_meets_what_it_spawns() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        drop(pool.spawn(move || {
            let other = tally.clone();
            drop(crate::spawn(move || meet(&other, 2)));
            meet(&tally, 2);
        }));
    });
}

#[test]
fn halves_of_a_join_that_meet() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        pool.run(|worker| worker.join(|_| meet(&tally, 2), |_| meet(&tally, 2)));
    });
}

/// While a guest is away, those who nap may go to sleep: what it forks afterwards wakes one of them.
#[test]
fn halves_that_meet_after_a_wait() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        let (promise, future) = Promise::new();
        let thread = thread::spawn(move || promise.set(()));
        pool.run(|worker| {
            future.wait().unwrap();
            worker.join(|_| meet(&tally, 2), |_| meet(&tally, 2));
        });
        thread.join().unwrap();
    });
}

fn join_that_waits_for_a_promise_in(pool: &Pool) {
    let (promise, future) = Promise::new();
    let spawned = pool.run(|_| {
        let ((), spawned) =
            join(|| assert_eq!(future.wait().unwrap(), 7), || crate::spawn(move || promise.set(7)));
        spawned
    });
    spawned.wait().unwrap();
}

#[test]
fn a_join_that_waits_for_what_a_task_sets() {
    check(|| join_that_waits_for_a_promise_in(&pool(2)));
}

#[test]
fn a_join_that_waits_for_what_a_task_sets_on_one_thread() {
    check(|| join_that_waits_for_a_promise_in(&pool(1)));
}

fn siblings_in(pool: &Pool) {
    let (promise, set) = Promise::new();
    let first: Future<u32> = pool.spawn(move || set.wait().unwrap());
    let second = pool.spawn(move || first.wait().unwrap() + 1);
    let third = pool.spawn(move || promise.set(1));
    assert_eq!(second.wait().unwrap(), 2);
    third.wait().unwrap();
}

#[test]
fn tasks_that_wait_for_siblings() {
    check(|| siblings_in(&pool(1)));
}

#[test]
fn tasks_that_wait_for_siblings_while_threads_are_refused() {
    check(|| {
        let pool = pool(1);
        thread::refuse(30);
        // None waits for what may lie beneath it: where no thread is to be had, waits take on anything.
        let (promise, set) = Promise::new();
        let first: Future<u32> = pool.spawn(move || set.wait().unwrap());
        let second = pool.spawn(move || promise.set(1));
        assert_eq!(first.wait().unwrap(), 1);
        second.wait().unwrap();
    });
}

/// What is spawned is run before the pool has gone.
#[test]
fn a_pool_that_goes_with_tasks_queued() {
    check(|| {
        let tally = Tally::default();
        let pool = pool(2);
        for _ in 0..3 {
            let tally = tally.clone();
            drop(pool.spawn(move || {
                let inner = tally.clone();
                drop(crate::spawn(move || inner.add()));
                tally.add();
            }));
        }
        drop(pool);
        assert_eq!(tally.count(), 6);
    });
}

#[test]
fn a_pool_that_goes_with_tasks_queued_while_threads_are_refused() {
    check(|| {
        let tally = Tally::default();
        let pool = small(1);
        thread::refuse(50);
        for _ in 0..2 {
            let tally = tally.clone();
            drop(pool.spawn(move || tally.add()));
        }
        drop(pool);
        assert_eq!(tally.count(), 2);
    });
}

#[test]
fn pools_within_pools() {
    check(|| {
        let (a, b) = (pool(1), pool(1));
        let sum = a.run(|_| b.run(|_| a.run(|worker| fib(worker, 3))));
        assert_eq!(sum, 2);
    });
}

#[test]
fn tasks_of_two_pools_that_call_each_other() {
    check(|| {
        let (a, b) = (std::sync::Arc::new(pool(1)), std::sync::Arc::new(pool(1)));
        let (to_a, to_b) = (std::sync::Arc::clone(&a), std::sync::Arc::clone(&b));
        let first = a.spawn(move || to_b.run(|_| 1));
        let second = b.spawn(move || to_a.run(|_| 2));
        assert_eq!(first.wait().unwrap() + second.wait().unwrap(), 3);
    });
}

/// Threads that leave while tasks come: each task is run without anybody who waits for it.
#[test]
fn tasks_for_threads_that_leave() {
    check(|| {
        let pool = small(1);
        let futures: [(Promise<()>, Future<()>); 2] = std::array::from_fn(|_| Promise::new());
        for (promise, future) in futures {
            drop(pool.spawn(move || promise.set(())));
            // By a thread that helps nobody.
            thread::spawn(move || future.wait()).join().unwrap().unwrap();
            thread::yield_now();
        }
    });
}
