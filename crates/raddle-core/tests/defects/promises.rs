//! Tasks that wait for what tasks of their own bring, however that comes about.

use std::sync::OnceLock;

use raddle_core::{Future, Promise, collect, first, select, spawn, wait_any};

use super::*;

/// Of one thread: the tests below wait for what goes on there, within it.
fn own() -> &'static Pool {
    static OWN: OnceLock<Pool> = OnceLock::new();
    OWN.get_or_init(|| Pool::new(1).unwrap())
}

const WAITS: [(&str, fn()); 12] = [
    ("a promise that one's task sets", || {
        let (promise, future) = Promise::new();
        drop(spawn(move || promise.set(1)));
        assert_eq!(future.wait().unwrap(), 1);
    }),
    ("a promise that a map sets, which is kept", || {
        let (promise, future) = Promise::new();
        let kept = spawn(|| 1).map(move |n| promise.set(n));
        assert_eq!(future.wait().unwrap(), 1);
        kept.wait().unwrap();
    }),
    ("a promise that a map sets, which is kept and lies beneath others", || {
        let (promise, future) = Promise::new();
        let kept = spawn(|| 1).map(move |n| promise.set(n));
        let others: Vec<_> = (0..300).map(|_| spawn(|| ())).collect();
        assert_eq!(future.wait().unwrap(), 1);
        kept.wait().unwrap();
        others.into_iter().for_each(|other| other.wait().unwrap());
    }),
    ("a promise that on_success sets", || {
        let (promise, future) = Promise::new();
        drop(spawn(|| 1).on_success(move |&n| promise.set(n)));
        assert_eq!(future.wait().unwrap(), 1);
    }),
    ("a promise that on_complete sets, which is kept", || {
        let (promise, future) = Promise::new();
        let kept = spawn(|| 1).on_complete(move |result| promise.set(*result.as_ref().unwrap()));
        assert_eq!(future.wait().unwrap(), 1);
        assert_eq!(kept.wait().unwrap(), 1);
    }),
    ("the first of such a promise and one that is never set", || {
        let (promise, future) = Promise::new();
        drop(spawn(move || promise.set(1)));
        assert_eq!(first([never(), future, never()]).wait().unwrap(), 1);
    }),
    ("select of the same", || {
        let (promise, future) = Promise::new();
        drop(spawn(move || promise.set(1)));
        assert_eq!(select([future, never()]).wait().unwrap().0.unwrap(), 1);
    }),
    ("wait_any of the same", || {
        let (promise, future) = Promise::new();
        drop(spawn(move || promise.set(1)));
        assert_eq!(wait_any(&mut vec![never(), future]).1.unwrap(), 1);
    }),
    ("all of several", || {
        let (promises, futures): (Vec<_>, Vec<_>) = (0..300).map(|_| Promise::<u32>::new()).unzip();
        promises.into_iter().for_each(|promise| drop(spawn(move || promise.set(1))));
        assert_eq!(collect(futures).wait().unwrap().len(), 300);
    }),
    ("a promise that is linked by one's task", || {
        let (promise, future) = Promise::new();
        drop(spawn(move || promise.link(spawn(|| 1))));
        assert_eq!(future.wait().unwrap(), 1);
    }),
    ("what goes on in one's own pool", || {
        assert_eq!(own().spawn(|| 1).on(own()).map(|n| n).wait().unwrap(), 1);
    }),
    ("a promise that what goes on in one's own pool sets", || {
        let (promise, future) = Promise::new();
        let kept = spawn(|| 1).on(own()).map(move |n| promise.set(n));
        assert_eq!(future.on(own()).wait().unwrap(), 1);
        kept.wait().unwrap();
    }),
];

fn never() -> Future<u32> {
    Future::never()
}

#[test]
fn a_task_waits_for_what_its_own_bring() {
    for (name, wait) in WAITS {
        // In that very pool.
        ends(name, move || {
            let (send, receive) = mpsc::channel();
            drop(own().spawn(move || {
                wait();
                send.send(()).unwrap();
            }));
            receive.recv().unwrap();
        });
        ends_on(Pool::new(1).unwrap(), name, wait);
        // As a guest.
        ends(name, move || Pool::new(1).unwrap().run(|_| wait()));
    }
}

/// All threads have such a task at the same time.
#[test]
fn as_many_such_tasks_as_threads() {
    for (name, wait) in WAITS {
        for threads in [2, 4] {
            ends(name, move || {
                let pool = Pool::new(threads).unwrap();
                let meet = Arc::new(std::sync::Barrier::new(threads));
                let (send, receive) = mpsc::channel();
                for _ in 0..threads {
                    let (meet, send) = (Arc::clone(&meet), send.clone());
                    drop(pool.spawn(move || {
                        meet.wait();
                        wait();
                        send.send(()).unwrap();
                    }));
                }
                drop(send);
                assert_eq!(receive.iter().count(), threads);
            });
        }
    }
}
