//! Waits that always find something of their own to run: what lies beneath it, or beside it, has its turn all the same.

use std::future::poll_fn;
use std::task::Poll;

use raddle_core::policy::Policy;
use raddle_core::{Future, Scope, join, scope, spawn, while_do};

use super::*;

/// As many such waits as the pool has threads, each with what ends it queued beneath, and each in a task.
fn each_ends(what: &'static str, waits: fn(&Arc<AtomicBool>)) {
    for threads in [1, 2] {
        ends(what, move || {
            let pool = Pool::new(threads).unwrap();
            let tasks = (0..threads).map(|_| {
                pool.spawn(move || {
                    let flag = Arc::new(AtomicBool::new(false));
                    let raised = Arc::clone(&flag);
                    drop(spawn(move || raised.store(true, Ordering::SeqCst)));
                    waits(&flag);
                })
            });
            for task in tasks.collect::<Vec<_>>() {
                task.wait().unwrap();
            }
        });
    }
}

fn polls<'s>(s: &Scope<'s>, flag: &'s AtomicBool) {
    if !flag.load(Ordering::SeqCst) {
        s.spawn(move |s| polls(s, flag));
    }
}

#[test]
fn a_task_of_a_scope_beneath_one_that_spawns_itself_again() {
    ends("a scope's oldest task", || {
        let (pool, flag) = (Pool::new(1).unwrap(), &AtomicBool::new(false));
        pool.scope(|s| {
            s.spawn(move |_| flag.store(true, Ordering::SeqCst));
            s.spawn(move |s| polls(s, flag));
        });
    });
}

#[test]
fn a_task_beneath_a_scope_whose_task_spawns_itself_again() {
    each_ends("a task beneath a scope", |flag| {
        let flag: &AtomicBool = flag;
        scope(|s| s.spawn(move |s| polls(s, flag)));
    });
}

#[test]
fn a_task_beside_a_future_that_is_polled_again_and_again() {
    each_ends("a task beside an async one", |flag| {
        let flag = Arc::clone(flag);
        let polled = Future::from_async(poll_fn(move |context| {
            if flag.load(Ordering::SeqCst) {
                return Poll::Ready(());
            }
            context.waker().wake_by_ref();
            Poll::Pending
        }));
        polled.wait().unwrap();
    });
}

#[test]
fn a_task_beside_a_loop_of_futures() {
    each_ends("a task beside a loop of futures", |flag| {
        let flag = Arc::clone(flag);
        while_do(move || !flag.load(Ordering::SeqCst), || spawn(|| ())).wait().unwrap();
    });
}

#[test]
fn a_task_beside_a_loop_of_waits() {
    each_ends("a task beside a loop of waits", |flag| {
        while !flag.load(Ordering::SeqCst) {
            spawn(|| ()).wait().unwrap();
        }
    });
}

#[test]
fn the_other_half_of_a_join_beside_a_loop_of_waits() {
    ends("a fork beneath a loop of waits", || {
        let (pool, flag) = (Pool::new(1).unwrap(), AtomicBool::new(false));
        pool.run(|_| {
            let waits = || {
                while !flag.load(Ordering::SeqCst) {
                    spawn(|| ()).wait().unwrap();
                }
            };
            join(waits, || flag.store(true, Ordering::SeqCst));
        });
    });
}

/// What lies beside the scope's own tasks is never what has moved last.
#[test]
fn the_other_half_of_a_join_beside_a_scope_whose_task_spawns_itself_again() {
    ends("a fork beneath a scope", || {
        let (pool, flag) = (Pool::new(1).unwrap(), &AtomicBool::new(false));
        for _ in 0..5 {
            flag.store(false, Ordering::SeqCst);
            pool.run(|_| {
                let waits = || scope(|s| s.spawn(move |s| polls(s, flag)));
                join(waits, || flag.store(true, Ordering::SeqCst));
            });
        }
    });
}

#[test]
fn a_task_from_outside_beside_a_scope_whose_task_spawns_itself_again() {
    ends("a task from outside", || {
        let pool = Pool::new(1).unwrap();
        for _ in 0..5 {
            let flag = Arc::new(AtomicBool::new(false));
            let (raised, (tell, told)) = (Arc::clone(&flag), mpsc::channel());
            let task = pool.spawn(move || {
                tell.send(()).unwrap();
                let flag: &AtomicBool = &flag;
                scope(|s| s.spawn(move |s| polls(s, flag)));
            });
            told.recv().unwrap();
            drop(pool.spawn(move || raised.store(true, Ordering::SeqCst)));
            task.wait().unwrap();
        }
    });
}

/// Whoever waits for the thief finds a fork of the thief's each time, before it would sleep.
#[test]
fn a_task_beneath_a_join_whose_thief_forks_again_and_again() {
    let spins = Policy { spin: 200_000, ..Policy::default() };
    let pool = Pool::builder().threads(2).policy(spins).build().unwrap();
    ends_on(pool, "a task beneath a join", || {
        let (started, done) = (flag(), flag());
        let first = || {
            until(&started);
            let done = Arc::clone(&done);
            drop(spawn(move || raise(&done)));
        };
        let second = || {
            raise(&started);
            while !done.load(Ordering::SeqCst) {
                join(moment, moment);
            }
        };
        join(first, second);
    });
}

/// Long enough to be worth a thief's while.
fn moment() {
    (0..1_000).for_each(|_| std::hint::spin_loop());
}

/// The other thread has always a task of its own, and so asks for nothing.
#[test]
fn the_other_half_of_a_join_beside_a_task_that_spawns_itself_again() {
    let (pool, done) = (Pool::new(2).unwrap(), flag());
    spawns_itself(&pool, &done);
    ends_on(pool, "a fork beneath a long leaf", move || {
        // Whoever has asked has had its answer.
        (0..10_000).for_each(|_| _ = join(|| (), || ()));
        join(|| until(&done), || raise(&done));
    });
}

/// The other thread waits, and has always a task of what it waits for.
#[test]
fn the_other_half_of_a_join_beside_another_thread_s_scope_whose_task_spawns_itself_again() {
    let (pool, done) = (Pool::new(2).unwrap(), flag());
    let others = Arc::clone(&done);
    drop(pool.spawn(move || {
        let others: &AtomicBool = &others;
        scope(|s| s.spawn(move |s| polls(s, others)));
    }));
    ends_on(pool, "a fork beneath a long leaf, beside a scope", move || {
        (0..10_000).for_each(|_| _ = join(|| (), || ()));
        join(|| until(&done), || raise(&done));
    });
}

fn spawns_itself(pool: &Pool, done: &Arc<AtomicBool>) {
    fn again(done: Arc<AtomicBool>) {
        if !done.load(Ordering::SeqCst) {
            drop(spawn(move || again(done)));
        }
    }
    let done = Arc::clone(done);
    drop(pool.spawn(move || again(done)));
}
