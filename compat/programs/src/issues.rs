//! Programs of rayon's issues, called by their numbers.
//!
//! In each a thread holds something, or has little room, while it waits for an iterator, a scope or a call. What it takes on
//! meanwhile by rayon's rule wants the same, or takes more room.

use std::hint::{self, black_box};
use std::sync::{Mutex, OnceLock, RwLock};
use std::thread;

use rayon::prelude::*;
use rayon::{ThreadPool, ThreadPoolBuilder};

use crate::Program;

/// The programs.
pub const OF_ISSUES: &[Program] = &[
    ("592", a_lock_is_held_across_an_iterator),
    ("854", tasks_with_iterators_pile_up_on_a_stack),
    ("1105", a_lock_is_held_across_a_call_into_another_pool),
    ("1142", a_bridged_iterator_is_parallel_itself),
    ("1174", a_lock_is_held_across_a_scope_of_another_pool),
    ("1205", a_reader_waits_for_an_iterator_beside_a_writer),
    ("1251", cells_are_initialised_by_iterators),
];

/// Something parallel, in which others may steal; 120.
fn work() -> usize {
    work_that_yields(1)
}

/// So many of the sixteen items give their processor away. On a busy machine it is milliseconds until they have it again.
fn work_that_yields(items: usize) -> usize {
    let item = |i| {
        if i < items {
            thread::yield_now();
        }
        // Long enough for a thief to have taken some when the others are done.
        (0..250).for_each(|_| hint::spin_loop());
        i
    };
    (0..16).into_par_iter().with_max_len(1).map(item).sum()
}

/// Some, so that not all threads but one block for the same one, and none is there to steal from that.
const LOCKS: usize = 5;
/// So many that rayon's threads hang in one of them, nearly always.
const ROUNDS: usize = 10;

fn pool(threads: usize) -> ThreadPool {
    ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

fn a_lock_is_held_across_an_iterator() {
    let locks = [const { Mutex::new(0) }; LOCKS];
    for _ in 0..ROUNDS {
        (0..500).into_par_iter().for_each(|i| {
            let mut sum = locks[i % LOCKS].lock().unwrap();
            *sum += work();
        });
    }
    let sums = locks.map(|lock| lock.into_inner().unwrap());
    assert_eq!(sums, [ROUNDS * 500 / LOCKS * 120; LOCKS]);
}

fn a_lock_is_held_across_a_call_into_another_pool() {
    let (other, lock) = (pool(1), Mutex::new(0));
    (0..100).into_par_iter().with_max_len(1).for_each(|_| {
        let mut sum = lock.lock().unwrap();
        *sum += other.install(work);
    });
    assert_eq!(lock.into_inner().unwrap(), 100 * 120);
}

fn a_lock_is_held_across_a_scope_of_another_pool() {
    let (driver, lock) = (pool(2), Mutex::new(0));
    (0..100).into_par_iter().with_max_len(1).for_each(|_| {
        let mut sum = lock.lock().unwrap();
        let halves = [const { OnceLock::new() }; 2];
        driver.scope(|s| halves.iter().for_each(|half| s.spawn(|_| half.set(work()).unwrap())));
        *sum += halves.iter().map(|half| half.get().unwrap()).sum::<usize>();
    });
    assert_eq!(lock.into_inner().unwrap(), 100 * 240);
}

fn a_reader_waits_for_an_iterator_beside_a_writer() {
    let locks = [const { RwLock::new(0) }; LOCKS];
    for _ in 0..ROUNDS {
        (0..500).into_par_iter().for_each(|i| {
            let lock = &locks[i % LOCKS];
            if i % 7 == 0 {
                *lock.write().unwrap() += 1;
            } else {
                let read = lock.read().unwrap();
                assert_eq!(work(), 120);
                drop(read);
            }
        });
    }
    let writes: usize = locks.into_iter().map(|lock| lock.into_inner().unwrap()).sum();
    assert_eq!(writes, ROUNDS * 500_usize.div_ceil(7));
}

/// What a bridge is made of is asked for the next item under a lock.
fn a_bridged_iterator_is_parallel_itself() {
    for _ in 0..ROUNDS {
        (0..500).into_par_iter().for_each(|_| {
            let sum: usize = (0..2).map(|_| work()).par_bridge().sum();
            assert_eq!(sum, 2 * 120);
        });
    }
}

fn cells_are_initialised_by_iterators() {
    for _ in 0..10 * ROUNDS {
        let cells = [const { OnceLock::new() }; 50];
        (0..500).into_par_iter().for_each(|i| assert_eq!(*cells[i % 50].get_or_init(work), 120));
    }
}

/// Calls `f` with so many bytes less on the stack.
#[inline(never)]
fn beneath<const BYTES: usize>(f: impl FnOnce()) {
    let filler = black_box([0_u8; BYTES]);
    f();
    black_box(filler);
}

fn tasks_with_iterators_pile_up_on_a_stack() {
    let done = Mutex::new(0);
    rayon::scope(|s| {
        for _ in 0..1000 {
            s.spawn(|_| {
                beneath::<{ 32 << 10 }>(|| assert_eq!(work_that_yields(16), 120));
                *done.lock().unwrap() += 1;
            });
        }
    });
    assert_eq!(done.into_inner().unwrap(), 1000);
}
