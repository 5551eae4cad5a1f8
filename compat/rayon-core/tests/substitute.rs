//! Programs that hang on rayon, or overflow a stack, and end with `RADDLE_WAITS=substitute`: a thread that waits takes on
//! nothing that it does not wait for. The numbers are those of rayon's issues.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Barrier, Mutex, Once, OnceLock, RwLock};
use std::thread;
use std::time::Duration;

use rayon_core::{ThreadPool, ThreadPoolBuilder, join};

fn pool(threads: usize) -> ThreadPool {
    static SET: Once = Once::new();
    // SAFETY: nothing else in this program reads the environment before or beside it.
    SET.call_once(|| unsafe { std::env::set_var("RADDLE_WAITS", "substitute") });
    ThreadPoolBuilder::new().num_threads(threads).stack_size(512 << 10).build().unwrap()
}

/// What takes so long hangs, however busy the machine.
const LIMIT: Duration = Duration::from_secs(300);

/// Runs a program on pools of several sizes.
fn ends(program: impl Fn(&ThreadPool) + Send + Sync + Copy + 'static) {
    for threads in [1, 2, 3, 8] {
        let (done, wait) = channel();
        let runs = thread::spawn(move || {
            program(&pool(threads));
            done.send(()).unwrap();
        });
        match wait.recv_timeout(LIMIT) {
            Err(std::sync::mpsc::RecvTimeoutError::Timeout) => panic!("hangs on {threads} threads"),
            _ => runs.join().unwrap(),
        }
    }
}

/// Calls `leaf` for each number, perhaps in parallel, as an iterator of rayon's does.
fn each(numbers: std::ops::Range<usize>, leaf: &(dyn Fn(usize) + Sync)) {
    match numbers.len() {
        0 => {}
        1 => leaf(numbers.start),
        n => {
            let middle = numbers.start + n / 2;
            join(|| each(numbers.start..middle, leaf), || each(middle..numbers.end, leaf));
        }
    }
}

/// Something parallel, in which others may steal.
fn work() -> usize {
    let sum = AtomicUsize::new(0);
    each(0..16, &|i| {
        thread::yield_now();
        sum.fetch_add(i, SeqCst);
    });
    sum.into_inner()
}

#[test]
fn a_lock_is_held_across_a_join_592() {
    ends(|pool| {
        let lock = Mutex::new(0);
        pool.install(|| {
            each(0..200, &|_| {
                let mut sum = lock.lock().unwrap();
                *sum += work();
            });
        });
        assert_eq!(lock.into_inner().unwrap(), 200 * 120);
    });
}

#[test]
fn a_lock_is_held_across_a_call_into_another_pool_1105() {
    ends(|a| {
        let b = pool(1);
        let lock = Mutex::new(0);
        a.scope(|s| {
            for _ in 0..50 {
                s.spawn(|_| {
                    let mut sum = lock.lock().unwrap();
                    *sum += b.install(work);
                });
            }
        });
        assert_eq!(lock.into_inner().unwrap(), 50 * 120);
    });
}

#[test]
fn a_cell_is_initialised_in_parallel_1251() {
    ends(|pool| {
        for _ in 0..20 {
            let cell = OnceLock::new();
            pool.install(|| each(0..50, &|_| assert_eq!(*cell.get_or_init(work), 120)));
        }
    });
}

#[test]
fn a_reader_waits_for_tasks_beside_a_writer_1205() {
    ends(|pool| {
        let lock = RwLock::new(0);
        pool.install(|| {
            each(0..100, &|i| {
                if i % 8 == 0 {
                    *lock.write().unwrap() += 1;
                } else {
                    let read = lock.read().unwrap();
                    let count = AtomicUsize::new(0);
                    rayon_core::scope(|s| {
                        for _ in 0..8 {
                            s.spawn(|_| _ = count.fetch_add(1, SeqCst));
                        }
                    });
                    assert_eq!(count.into_inner(), 8);
                    drop(read);
                }
            });
        });
        assert_eq!(lock.into_inner().unwrap(), 13);
    });
}

/// Calls `f` with so many bytes less on the stack.
#[inline(never)]
fn beneath<const BYTES: usize>(f: impl FnOnce()) {
    let filler = std::hint::black_box([0_u8; BYTES]);
    f();
    std::hint::black_box(filler);
}

#[test]
fn what_is_stolen_does_not_pile_up_on_a_stack_854() {
    ends(|a| {
        let b = pool(1);
        let count = AtomicUsize::new(0);
        a.scope(|s| {
            for _ in 0..1000 {
                s.spawn(|_| {
                    // A thread that took on the next task while it waits here would be through its stack after 64.
                    beneath::<{ 32 << 10 }>(|| b.install(|| _ = count.fetch_add(1, SeqCst)));
                });
            }
        });
        assert_eq!(count.into_inner(), 1000);
    });
}

#[test]
fn indices_are_in_bounds_and_each_one_thread_s_at_a_time() {
    ends(|pool| {
        let threads = pool.current_num_threads();
        let taken: Vec<_> = (0..threads).map(|_| AtomicBool::new(false)).collect();
        pool.install(|| {
            each(0..200, &|_| {
                // None where more threads go on from a wait than the pool has: for as long as they all work.
                let Some(index) = rayon_core::current_thread_index() else { return };
                assert!(!taken[index].swap(true, SeqCst));
                std::hint::spin_loop();
                taken[index].store(false, SeqCst);
                work();
            });
        });
    });
}

#[test]
fn handlers_are_called_by_the_pool_s_own_threads() {
    ends(|pool| {
        let threads = pool.current_num_threads();
        let (send, calls) = channel();
        let exits = send.clone();
        let pool = ThreadPoolBuilder::new()
            .num_threads(threads)
            .start_handler(move |index| send.send((index, "starts")).unwrap())
            .exit_handler(move |index| exits.send((index, "exits")).unwrap())
            .build()
            .unwrap();
        // So many wait at once that spare threads come.
        pool.scope(|s| {
            let lock = &*Box::leak(Box::new(Mutex::new(0)));
            (0..50).for_each(|_| s.spawn(|_| *lock.lock().unwrap() += work()));
        });
        drop(pool);
        let mut calls: Vec<_> = calls.iter().collect();
        calls.sort_unstable();
        let all = (0..threads).flat_map(|index| [(index, "exits"), (index, "starts")]);
        assert_eq!(calls, all.collect::<Vec<_>>());
    });
}

#[test]
fn tasks_meet_while_others_wait() {
    ends(|pool| {
        let threads = pool.current_num_threads();
        for _ in 0..20 {
            let meet = Barrier::new(threads);
            pool.scope(|s| {
                for _ in 0..threads {
                    s.spawn(|_| _ = meet.wait());
                }
            });
            assert_eq!(pool.broadcast(|thread| thread.index()), (0..threads).collect::<Vec<_>>());
        }
    });
}

/// What each thread has to call may wait, and lies in line with more of its kind.
#[test]
fn broadcasts_that_wait_do_not_pile_up_on_a_stack() {
    ends(|pool| {
        let (done, wait) = channel();
        for _ in 0..5_000 {
            let done = done.clone();
            pool.spawn_broadcast(move |_| {
                rayon_core::scope(|s| s.spawn(|_| thread::yield_now()));
                done.send(()).unwrap();
            });
        }
        drop(done);
        assert_eq!(wait.iter().count(), 5_000 * pool.current_num_threads());
    });
}

/// Each yields its place to others, who would begin the next one rather than do what the first polls for.
#[test]
fn what_many_tasks_poll_for_comes_to_pass() {
    ends(|pool| {
        pool.install(|| {
            each(0..1_000, &|i| {
                let future = raddle_core::spawn(move || i);
                while !future.is_done() {
                    raddle_core::yield_now();
                }
                assert_eq!(future.wait().unwrap(), i);
            });
        });
    });
}
