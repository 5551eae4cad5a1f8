//! Tasks that yield until a queued one has been run (`yield_now`): in their place, in another's, or on top of them.
//!
//! What these fail without: that whoever yields gives its place away; that where nobody can come it hosts, once the pool stands still; and,
//! where more than one yields, relief.

use super::*;
use crate::yield_now;

/// It yields until the other has been run.
fn yields(tally: &Tally) {
    while tally.count() == 0 {
        yield_now();
    }
}

/// What it yields to is queued behind it.
fn a_task_in(pool: &Pool) {
    let tally = Tally::default();
    let ours = tally.clone();
    let waits = pool.spawn(move || yields(&ours));
    let adds = pool.spawn(move || tally.add());
    waits.wait().unwrap();
    adds.wait().unwrap();
}

#[test]
fn a_task_that_yields_to_another_on_one_thread() {
    check(|| a_task_in(&pool(1)));
}

#[test]
fn a_task_that_yields_to_another() {
    check(|| a_task_in(&pool(2)));
}

/// What it yields to lies in its own thread's ring.
fn a_task_and_its_own_in(pool: &Pool) {
    let tally = Tally::default();
    let waits = pool.spawn(move || {
        let ours = tally.clone();
        let adds = crate::spawn(move || ours.add());
        yields(&tally);
        adds
    });
    waits.wait().unwrap().wait().unwrap();
}

#[test]
fn a_task_that_yields_to_what_it_spawns_on_one_thread() {
    check(|| a_task_and_its_own_in(&pool(1)));
}

#[test]
fn a_task_that_yields_to_what_it_spawns() {
    check(|| a_task_and_its_own_in(&pool(2)));
}

#[test]
fn a_guest_that_yields_to_a_task_on_one_thread() {
    check(|| {
        let (pool, tally) = (pool(1), Tally::default());
        let ours = tally.clone();
        drop(pool.spawn(move || ours.add()));
        pool.run(|_| yields(&tally));
    });
}

/// Nobody comes in its stead: once the pool stands still it runs the other on top of its stack.
#[test]
fn a_task_that_yields_to_another_on_one_thread_without_spare_threads() {
    check(|| a_task_in(&small(1)));
}

#[test]
fn a_task_that_yields_to_another_without_spare_threads() {
    check(|| a_task_in(&small(2)));
}

#[test]
fn a_task_that_yields_to_what_it_spawns_without_spare_threads() {
    check(|| a_task_and_its_own_in(&small(1)));
}

#[test]
fn a_task_that_yields_in_a_pool_of_hosts() {
    check(|| a_task_in(&Pool::builder().threads(1).waits(Waits::Host).build().unwrap()));
}

#[test]
fn a_task_that_yields_to_another_where_threads_are_refused() {
    check(|| {
        let pool = small(1);
        thread::refuse(50);
        a_task_in(&pool);
    });
}

/// Two yield to a third, with one thread in their stead: more than there may be at work.
#[test]
fn two_tasks_that_yield_to_a_third_with_one_spare_thread() {
    check(|| {
        let pool = Pool::builder().threads(1).max_spare_threads(1).build().unwrap();
        let tally = Tally::default();
        let waits = [(); 2].map(|()| {
            let tally = tally.clone();
            pool.spawn(move || yields(&tally))
        });
        let adds = pool.spawn(move || tally.add());
        for future in waits {
            future.wait().unwrap();
        }
        adds.wait().unwrap();
    });
}
