//! Waits that end in more than one way: by a limit, by whichever comes first, and those of calls that block elsewhere.

use super::*;
use crate::{Failure, blocking, first};

const LIMIT: Duration = Duration::from_millis(1);

/// Waits for a little while, again and again. The limit may be over at any time, also as the result comes.
fn bit_by_bit<T: Send + 'static>(mut future: Future<T>) -> Result<T, Failure> {
    loop {
        match future.wait_timeout(LIMIT) {
            Ok(result) => return result,
            Err(again) => future = again,
        }
    }
}

#[test]
fn a_wait_with_a_limit_against_the_completion() {
    check(|| {
        let (promise, future) = Promise::new();
        let thread = thread::spawn(move || promise.set(7));
        match future.wait_timeout(LIMIT) {
            Ok(result) => assert_eq!(result.unwrap(), 7),
            Err(late) => assert_eq!(late.wait().unwrap(), 7),
        }
        thread.join().unwrap();
    });
}

/// Nobody wants the result once the limit is over: whoever comes last frees it.
#[test]
fn a_wait_with_a_limit_that_drops_what_is_late() {
    check(|| {
        let pool = pool(1);
        let (promise, future) = Promise::new();
        drop(pool.spawn(move || promise.set(7)));
        pool.run(|_| drop(future.wait_timeout(LIMIT)));
        let task = pool.spawn(|| 8);
        if let Ok(result) = task.wait_timeout(LIMIT) {
            assert_eq!(result.unwrap(), 8);
        }
    });
}

/// The waiting task gives its place away each time, and takes it back each time.
fn a_task_waits_bit_by_bit_in(pool: &Pool) {
    let (promise, future) = Promise::new();
    let waits = pool.spawn(move || bit_by_bit(future).unwrap());
    let sets = pool.spawn(move || promise.set(7));
    assert_eq!(waits.wait().unwrap(), 7);
    sets.wait().unwrap();
}

#[test]
fn a_task_that_waits_with_a_limit_for_another_on_one_thread() {
    check(|| a_task_waits_bit_by_bit_in(&pool(1)));
}

#[test]
fn a_task_that_waits_with_a_limit_for_another() {
    check(|| a_task_waits_bit_by_bit_in(&pool(2)));
}

/// What it waits for it may not run itself: that would not end when the wait is to.
#[test]
fn a_task_that_waits_with_a_limit_for_what_it_has_spawned() {
    check(|| {
        let pool = pool(1);
        let waits = pool.spawn(|| bit_by_bit(crate::spawn(|| 7)).unwrap());
        assert_eq!(waits.wait().unwrap(), 7);
    });
}

#[test]
fn a_guest_that_waits_with_a_limit_beside_its_fork() {
    check(|| {
        let pool = pool(2);
        let (promise, future) = Promise::new();
        let both = pool.run(|worker| {
            worker.join(|_| bit_by_bit(future).unwrap(), |worker| (promise.set(1), fib(worker, 3)))
        });
        assert_eq!(both, (1, ((), 2)));
    });
}

/// What a timer completes, as `within` has it: the value or the end of the time, and the task goes on with either.
fn a_race_in(pool: &Pool) {
    let ((value, future), (timer, late)) = (Promise::new(), Promise::new());
    let time = thread::spawn(move || timer.set(0));
    let sets = pool.spawn(move || value.set(1));
    let waits = pool.spawn(move || first([future, late]).wait().unwrap());
    assert!(waits.wait().unwrap() < 2);
    sets.wait().unwrap();
    time.join().unwrap();
}

#[test]
fn a_task_that_waits_for_a_value_or_the_time_on_one_thread() {
    check(|| a_race_in(&pool(1)));
}

#[test]
fn a_task_that_waits_for_a_value_or_the_time() {
    check(|| a_race_in(&pool(2)));
}

/// As above with a limit besides, so that three end the wait.
#[test]
fn a_task_that_waits_with_a_limit_for_a_value_or_the_time() {
    check(|| {
        let pool = pool(1);
        let ((value, future), (timer, late)) = (Promise::new(), Promise::new());
        let time = thread::spawn(move || timer.set(0));
        drop(pool.spawn(move || value.set(1)));
        let waits = pool.spawn(move || bit_by_bit(first([future, late])).unwrap());
        assert!(bit_by_bit(waits).unwrap() < 2);
        time.join().unwrap();
    });
}

/// A call that blocks where raddle does not see it, for a task that needs the only place.
#[test]
fn a_task_that_blocks_for_a_task_on_one_thread() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let ours = tally.clone();
        let blocks = pool.spawn(move || blocking(|| until(&ours, 1)));
        drop(pool.spawn(move || tally.add()));
        blocks.wait().unwrap();
    });
}

/// The task is in the ring of the very thread that blocks, or is queued while that is away.
#[test]
fn a_task_that_blocks_for_what_it_spawns_on_one_thread() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let ours = tally.clone();
        let blocks = pool.spawn(move || {
            let first = ours.clone();
            drop(crate::spawn(move || first.add()));
            blocking(|| {
                until(&ours, 1);
                let second = ours.clone();
                drop(crate::spawn(move || second.add()));
                until(&ours, 2);
            });
        });
        blocks.wait().unwrap();
        assert_eq!(tally.count(), 2);
    });
}

#[test]
fn a_guest_that_blocks_for_what_it_spawns_on_one_thread() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        pool.run(|_| {
            let ours = tally.clone();
            drop(crate::spawn(move || ours.add()));
            blocking(|| until(&tally, 1));
        });
    });
}

/// A wait within the call, which does not take the place back, and a fork that others are to see.
#[test]
fn a_task_that_waits_and_forks_while_it_blocks() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let (promise, future) = Promise::new();
        let ours = tally.clone();
        let blocks = pool.spawn(move || {
            blocking(|| {
                future.wait().unwrap();
                join(|| until(&ours, 1), || ours.add());
            });
        });
        drop(pool.spawn(move || promise.set(())));
        blocks.wait().unwrap();
        assert_eq!(tally.count(), 1);
    });
}

/// Two that block at once, so that two stand in for them, of whom one is in debt when they go on.
#[test]
fn two_tasks_that_block_for_a_third_on_one_thread() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let blocks = [(); 2].map(|()| {
            let tally = tally.clone();
            pool.spawn(move || blocking(|| until(&tally, 1)))
        });
        let ours = tally.clone();
        drop(pool.spawn(move || ours.add()));
        for future in blocks {
            future.wait().unwrap();
        }
    });
}
