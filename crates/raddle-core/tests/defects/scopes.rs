//! Scopes whose tasks, or the tasks beside them, open scopes: each wait takes on its own tasks only, and nothing that is
//! queued waits for what lies beneath.

use std::sync::mpsc::{Sender, channel};

use raddle_core::{Pool, scope, spawn};
use raddle_sync::stack;

use super::*;

/// How one step makes the next, and a task that its scope waits for.
type Step = fn(u32, Over);

/// Whom the last step tells, and how much stack each has at least, since none lies on top of another.
#[derive(Clone)]
struct Over(Sender<()>, usize);

/// More than a thread takes from its start to a step.
const TAKEN: usize = 32 << 10;

fn then(step: Step, left: u32, over: Over) {
    assert!(stack::remaining() >= over.1, "{left} before the last lies on others");
    if left == 0 {
        over.0.send(()).unwrap();
    } else {
        step(left - 1, over);
    }
}

/// A task of the scope beneath one that nobody waits for.
fn detached_last(left: u32, over: Over) {
    scope(|s| {
        s.spawn(|_| ());
        drop(spawn(move || then(detached_last, left, over)));
    });
}

/// The other way round.
fn detached_first(left: u32, over: Over) {
    scope(|s| {
        drop(spawn(move || then(detached_first, left, over)));
        s.spawn(|_| ());
    });
}

/// By a task of the scope.
fn detached_within(left: u32, over: Over) {
    scope(|s| s.spawn(|_| drop(spawn(move || then(detached_within, left, over)))));
}

/// By a task of a scope in a task of the scope.
fn detached_far_within(left: u32, over: Over) {
    scope(|s| {
        s.spawn(|_| {
            scope(|s| {
                s.spawn(|s| {
                    s.spawn(|_| ());
                    drop(spawn(move || then(detached_far_within, left, over)));
                });
            });
        });
        s.spawn(|_| ());
    });
}

const STEPS: [(&str, Step); 4] = [
    ("spawned last", detached_last),
    ("spawned first", detached_first),
    ("spawned by a task of the scope", detached_within),
    ("spawned by a task of a scope's task", detached_far_within),
];

/// So many at a time as there are threads, each deeper than a ring is long.
#[test]
fn scopes_beside_detached_tasks_that_open_scopes() {
    for (name, step) in STEPS {
        for threads in [1, 2, 4] {
            ends(name, move || {
                let pool = Pool::new(threads).unwrap();
                for _ in 0..sized(100) {
                    let (send, receive) = channel();
                    for _ in 0..threads {
                        let send = send.clone();
                        drop(pool.spawn(move || {
                            then(step, 1000, Over(send, stack::remaining() - TAKEN));
                        }));
                    }
                    drop(send);
                    assert_eq!(receive.iter().count(), threads);
                }
            });
        }
    }
}

/// Each step is over soon after it has spawned the next: none lies on top of another.
#[test]
fn a_long_row_of_scopes_on_a_small_stack() {
    for (name, step) in STEPS {
        for threads in [1, 2] {
            ends(name, move || {
                let pool = Pool::builder().threads(threads).stack_size(256 << 10).build().unwrap();
                let (send, receive) = channel();
                let first = pool.spawn(move || {
                    let over = Over(send, stack::remaining() - TAKEN);
                    then(step, sized(100_000) as u32, over);
                });
                receive.recv().unwrap();
                first.wait().unwrap();
                // No scope waits for the steps after it.
                assert!(pool.live_threads() <= threads + 256, "{}", pool.live_threads());
            });
        }
    }
}

/// The tasks of scopes, which may not be killed, are not held back while continuations of the killed are called.
#[test]
fn a_scope_in_a_pool_whose_tasks_are_all_killed() {
    ends("a scope's task beside a continuation of a killed one", || {
        let pool = &Pool::new(1).unwrap();
        let [queued, go, ran] = &[(); 3].map(|()| flag());
        let told = [queued, go, ran].map(Arc::clone);
        let scoped = pool.spawn(move || {
            let [queued, go, ran] = told;
            scope(|s| {
                s.spawn(|_| raise(&ran));
                raise(&queued);
                until(&go);
            });
        });
        until(queued);
        let (go, ran) = (Arc::clone(go), Arc::clone(ran));
        let killed = pool.spawn(|| ()).on_failure(move |_| {
            raise(&go);
            until(&ran);
        });
        // What runs has been killed, too; its scope is over all the same.
        assert!(pool.kill_all() > 0);
        assert!(killed.wait().is_err());
        assert!(scoped.wait().is_err());
        assert_eq!(pool.spawn(|| 1).wait().unwrap(), 1);
    });
}
