//! Waits that always find something of their own to run: what lies beneath it, or beside it, has its turn all the same.

use std::future::poll_fn;
use std::task::Poll;

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
