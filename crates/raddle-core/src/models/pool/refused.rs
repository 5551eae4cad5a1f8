//! Scopes whose tasks wait for each other, where threads that wait are not replaced, or the system refuses threads.
//!
//! Whoever hosts has on top of its stack what it may not wait for. So each task here waits for one that waits for nothing.

use super::*;

/// Tasks of one scope, each of which waits for another that sets.
fn pairs(tally: &Tally, count: usize) {
    scope(|scope| {
        for _ in 0..count {
            let (promise, future) = Promise::new();
            scope.spawn(move |_| tally.add_all(future.wait().unwrap()));
            scope.spawn(move |_| promise.set(1));
        }
    });
}

impl Tally {
    fn add_all(&self, count: u32) {
        (0..count).for_each(|_| self.add());
    }
}

fn pairs_of_a_guest_in(pool: Pool) {
    let tally = Tally::default();
    pool.run(|_| pairs(&tally, 2));
    drop(pool);
    assert_eq!(tally.count(), 2);
}

fn pairs_of_a_task_in(pool: Pool) {
    let tally = Tally::default();
    let ours = tally.clone();
    drop(pool.spawn(move || pairs(&ours, 2)));
    drop(pool);
    assert_eq!(tally.count(), 2);
}

#[test]
fn a_guest_whose_tasks_wait_for_each_other_without_spare_threads() {
    check(|| pairs_of_a_guest_in(small(1)));
}

#[test]
fn a_task_whose_tasks_wait_for_each_other_without_spare_threads() {
    check(|| pairs_of_a_task_in(small(1)));
}

#[test]
fn a_task_whose_tasks_wait_for_each_other_in_two_threads_without_spare_ones() {
    check(|| pairs_of_a_task_in(small(2)));
}

#[test]
fn a_task_whose_tasks_wait_for_each_other_with_one_spare_thread() {
    check(|| pairs_of_a_task_in(Pool::builder().threads(1).max_spare_threads(1).build().unwrap()));
}

#[test]
fn a_task_whose_tasks_wait_for_each_other_while_threads_are_refused() {
    check(|| {
        let pool = pool(2);
        thread::refuse(50);
        pairs_of_a_task_in(pool);
    });
}

/// No thread is to be had any more, and those there are may have left.
#[test]
fn a_guest_whose_tasks_wait_for_each_other_where_all_threads_are_refused() {
    check(|| {
        let pool = small(2);
        thread::refuse(100);
        pairs_of_a_guest_in(pool);
    });
}

#[test]
fn a_task_whose_tasks_wait_for_each_other_where_all_threads_are_refused() {
    check(|| {
        let pool = small(2);
        thread::refuse(100);
        pairs_of_a_task_in(pool);
    });
}

/// Scopes within scopes, whose innermost tasks wait for a sibling.
#[test]
fn nested_scopes_whose_tasks_wait_for_each_other_while_threads_are_refused() {
    check(|| {
        let (pool, tally) = (pool(2), Tally::default());
        thread::refuse(50);
        pool.run(|_| {
            scope(|scope| {
                for _ in 0..2 {
                    scope.spawn(|_| pairs(&tally, 1));
                }
            });
        });
        drop(pool);
        assert_eq!(tally.count(), 2);
    });
}

/// What is set comes from outside, so nothing that is hosted matters to it.
#[test]
fn tasks_that_wait_for_another_thread_without_spare_threads() {
    check(|| {
        let (pool, tally) = (small(1), Tally::default());
        let (promises, futures): (Vec<_>, Vec<_>) = (0..2).map(|_| Promise::<()>::new()).unzip();
        let thread =
            thread::spawn(move || promises.into_iter().for_each(|promise| promise.set(())));
        pool.run(|_| {
            scope(|scope| {
                for future in futures {
                    let tally = &tally;
                    scope.spawn(move |_| {
                        future.wait().unwrap();
                        tasks(tally, 1);
                    });
                }
            });
        });
        thread.join().unwrap();
        assert_eq!(tally.count(), 2);
    });
}
