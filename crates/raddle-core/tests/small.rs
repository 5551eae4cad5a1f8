//! All that a pool does, each once and small: what checkers run that slow a program down a thousand times.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;

use raddle_core::{
    FailureKind, Pool, Promise, Waits, Worker, blocking, collect, first, join, par, scope,
    scope_local, spawn,
};

scope_local! { static NAME: String; }

fn fib(worker: &Worker, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = worker.join(|w| fib(w, n - 1), |w| fib(w, n - 2));
    a + b
}

/// A pool that comes and goes with its test, so that Miri sees all of its memory again.
fn pool(threads: usize) -> Pool {
    Pool::new(threads).unwrap()
}

fn until(flag: &AtomicBool) {
    while !flag.load(SeqCst) {
        thread::yield_now();
    }
}

#[test]
fn forks_are_joined() {
    for threads in [1, 2] {
        let pool = pool(threads);
        assert_eq!(pool.run(|w| fib(w, 5)), 5);
        assert_eq!(pool.join(|| join(|| 1, || "b"), || String::from("c")), ((1, "b"), "c".into()));
    }
}

#[test]
fn a_fork_is_stolen() {
    let pool = pool(2);
    let stolen = &AtomicBool::new(false);
    pool.join(|| until(stolen), || stolen.store(true, SeqCst));
}

/// The second half waits within the first's thief, and the first's owner helps it.
#[test]
fn a_thief_s_forks_are_taken_by_whom_it_robbed() {
    let pool = pool(2);
    let [taken, helped] = [const { AtomicBool::new(false) }; 2];
    pool.join(
        || until(&taken),
        || {
            taken.store(true, SeqCst);
            join(|| until(&helped), || helped.store(true, SeqCst));
        },
    );
}

#[test]
fn panics_arrive() {
    let pool = pool(2);
    let stolen = &AtomicBool::new(false);
    let caught = catch_unwind(|| {
        pool.join(
            || {
                until(stolen);
                panic!("the first")
            },
            || {
                stolen.store(true, SeqCst);
                panic!("the second")
            },
        )
    });
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "the first");
    let caught = catch_unwind(|| pool.scope(|s| s.spawn(|_| panic!("a task"))));
    assert_eq!(*caught.unwrap_err().downcast::<&str>().unwrap(), "a task");
    let failed = pool.spawn(|| -> u8 { panic!("spawned") }).wait().unwrap_err();
    assert_eq!(failed.kind(), FailureKind::Panicked);
}

#[test]
fn scopes_borrow_and_nest() {
    for threads in [1, 2] {
        let pool = pool(threads);
        let mut rows = [[0_u8; 2]; 2];
        let told = AtomicUsize::new(0);
        pool.scope(|s| {
            for row in &mut rows {
                s.spawn(|s| {
                    for cell in row {
                        s.spawn(|_| *cell = 1);
                    }
                    scope(|s| s.spawn(|_| _ = told.fetch_add(1, SeqCst)));
                });
            }
        });
        assert_eq!((rows, told.into_inner()), ([[1; 2]; 2], 2));
    }
}

#[test]
fn tasks_wait_for_tasks() {
    for threads in [1, 2] {
        let pool = pool(threads);
        let deep = pool.spawn(|| spawn(|| spawn(|| 3).wait().unwrap() + 1).wait().unwrap() + 1);
        let all = pool.run(|_| collect([spawn(|| 1), spawn(|| 2)]));
        assert_eq!((deep.wait().unwrap(), all.wait().unwrap()), (5, vec![1, 2]));
    }
}

/// On one thread, which gives its place to another that the pool starts for this.
#[test]
fn a_promise_is_kept_by_a_task_that_is_queued() {
    for waits in [Waits::Substitute, Waits::Host] {
        let pool = Pool::builder().threads(1).waits(waits).build().unwrap();
        let seen = pool.spawn(|| {
            let (promise, future) = Promise::new();
            spawn(move || promise.set(7)).detach();
            future.wait().unwrap()
        });
        assert_eq!(seen.wait().unwrap(), 7);
        assert_eq!(pool.run(|_| blocking(|| 8)), 8);
    }
}

#[test]
fn futures_cross_threads() {
    let pool = pool(2);
    let (promise, future) = Promise::new();
    let shared = future.map(|x: u8| x + 1).flat_map(|x| spawn(move || x + 1)).shared();
    let two = [shared.clone(), shared].map(|one| {
        let future = one.map(|x| x * 2);
        pool.spawn(|| future.wait().unwrap())
    });
    promise.set(1);
    assert_eq!(two.map(|one| one.wait().unwrap()), [6, 6]);
    let (never, pending) = Promise::<u8>::new();
    assert_eq!(first([pending, pool.spawn(|| 1)]).wait().unwrap(), 1);
    drop(never);
}

#[test]
fn what_runs_and_what_is_queued_is_killed() {
    static RUNS: AtomicBool = AtomicBool::new(false);
    static OVER: AtomicBool = AtomicBool::new(false);
    let pool = pool(1);
    let (breaks, broken) = Promise::<u8>::new();
    let running = pool.spawn(|| {
        RUNS.store(true, SeqCst);
        until(&OVER);
        _ = broken.wait();
    });
    until(&RUNS);
    // The pool's only thread is busy.
    let queued = pool.spawn(|| ());
    assert_eq!(pool.kill_all(), 2);
    for killed in [running, queued] {
        assert_eq!(killed.wait().unwrap_err().kind(), FailureKind::Killed);
    }
    OVER.store(true, SeqCst);
    drop(breaks);
}

#[test]
fn locals_are_inherited() {
    let pool = pool(2);
    let name = || NAME.with(|name| name.clone());
    let seen = NAME.bind("ada".into()).run(|| {
        let later = pool.spawn(name);
        let here = NAME.bind_ref(&"grace".into()).run(|| pool.join(name, name));
        (later.wait().unwrap(), here)
    });
    assert_eq!(seen, ("ada".into(), ("grace".into(), "grace".into())));
}

#[test]
fn a_pool_that_goes_finishes_first() {
    let count = std::sync::Arc::new(AtomicUsize::new(0));
    let pool = pool(2);
    for _ in 0..3 {
        let count = std::sync::Arc::clone(&count);
        pool.spawn(move || _ = count.fetch_add(1, SeqCst)).detach();
    }
    drop(pool);
    assert_eq!(count.load(SeqCst), 3);
}

#[test]
fn pools_call_each_other() {
    let (a, b) = (pool(1), pool(1));
    assert_eq!(a.run(|_| b.run(|_| a.run(|w| fib(w, 3)))), 2);
}

#[test]
fn several_call_from_outside() {
    let pool = &pool(1);
    let sum = AtomicUsize::new(0);
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| sum.fetch_add(pool.run(|w| fib(w, 3)) as usize, SeqCst));
        }
    });
    assert_eq!(sum.into_inner(), 6);
}

#[test]
fn broadcasts_reach_all() {
    let pool = pool(2);
    let mut seen = pool.run(|_| raddle_core::broadcast(|context| context.index()));
    seen.sort_unstable();
    assert_eq!(seen, [0, 1]);
}

#[test]
fn loops_in_parallel() {
    let pool = pool(2);
    pool.run(|_| {
        let mut data: Vec<Box<u32>> = (0..20).rev().map(Box::new).collect();
        par::for_each(&mut data, |x| **x += 1);
        par::sort(&mut data);
        assert!(data.is_sorted());
        let squares = par::map_collect(0..20_u32, |i| Box::new(i * i));
        assert_eq!(*squares[19], 361);
        assert_eq!(par::map_reduce(0..20_u32, || 0, |i| i, |a, b| a + b), 190);
        assert_eq!(par::filter_map(0..20_u32, |i| (i % 2 == 0).then(|| Box::new(i))).len(), 10);
        let dropped = Mutex::new(0);
        struct Counts<'a>(&'a Mutex<usize>);
        impl Drop for Counts<'_> {
            fn drop(&mut self) {
                *self.0.lock().unwrap() += 1;
            }
        }
        let made = AtomicUsize::new(0);
        let panics = || {
            par::map_collect(0..20, |i| {
                assert!(i != 13, "on purpose");
                made.fetch_add(1, SeqCst);
                Counts(&dropped)
            })
        };
        assert!(catch_unwind(AssertUnwindSafe(panics)).is_err());
        assert_eq!(made.into_inner(), dropped.into_inner().unwrap());
    });
}
