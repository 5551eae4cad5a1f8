//! Programs without a cycle, in which a thread that waits for a scope or for its thief could come to lie beneath what waits
//! for it. A wait there is no cycle.

use raddle_core::{Failure, Future, Pool, blocking, join, scope};

use super::*;

const ROUNDS: usize = 30;

/// Until the flag is up, on a place that others do not get, or do.
type Until = fn(&AtomicBool);

fn until_blocking(flag: &AtomicBool) {
    blocking(|| until(flag));
}

/// A task that waits for the scope in it, whose task another thread runs until it may end; and when it is about to wait.
struct Scoped {
    future: Future<u32>,
    waits: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

/// Waits for the scope in it, whose task another thread runs until `end`.
fn waits_for_its_scope([stolen, waits, end]: [&AtomicBool; 3], until: Until) {
    scope(|s| {
        s.spawn(|_| {
            raise(stolen);
            until(end);
        });
        until(stolen);
        raise(waits);
    });
}

/// By the thread that runs the task.
fn scoped(pool: &Pool, until: Until) -> Scoped {
    let [stolen, waits, end] = [(); 3].map(|()| flag());
    let told = [&stolen, &waits, &end].map(Arc::clone);
    let future = pool.spawn(move || {
        let [stolen, waits, end] = &told;
        waits_for_its_scope([stolen, waits, end], until);
        7
    });
    Scoped { future, waits, end }
}

/// By a thief, for whom the task's own thread waits.
fn scoped_in_a_stolen_half(pool: &Pool, until: Until) -> Scoped {
    let [forked, stolen, waits, end] = [(); 4].map(|()| flag());
    let told = [&forked, &stolen, &waits, &end].map(Arc::clone);
    let future = pool.spawn(move || {
        let [forked, stolen, waits, end] = &told;
        let waits_for_scope = || {
            raise(forked);
            waits_for_its_scope([stolen, waits, end], until);
        };
        join(|| until(forked), waits_for_scope);
        7
    });
    Scoped { future, waits, end }
}

/// How a task waits for the other; it says when it is about to.
type Waits = fn(Future<u32>, &AtomicBool, Until) -> Result<u32, Failure>;

const WAITS: [(&str, Waits); 4] = [
    ("at once", |future, waits, _| {
        raise(waits);
        future.wait()
    }),
    ("what is made of it", |future, waits, _| {
        raise(waits);
        future.map(|n| n).flat_map(Future::ready).wait()
    }),
    ("in a half that is stolen", |future, waits, until| {
        let stolen = AtomicBool::new(false);
        let wait = || {
            raise(&stolen);
            raise(waits);
            future.wait()
        };
        join(|| until(&stolen), wait).1
    }),
    ("in a scope's task", |future, waits, _| {
        let mut result = None;
        scope(|s| {
            s.spawn(|_| {
                raise(waits);
                result = Some(future.wait());
            });
        });
        result.unwrap()
    }),
];

fn a_wait_is_no_cycle(threads: usize, waited_for: fn(&Pool, Until) -> Scoped, until_there: Until) {
    for (name, wait) in WAITS {
        for round in 0..ROUNDS {
            // Whether others wait, too.
            let shared = round % 2 == 0;
            ends(name, move || {
                let pool = Pool::new(threads).unwrap();
                let Scoped { future, waits, end } = waited_for(&pool, until_there);
                until(&waits);
                let (future, other) = if shared {
                    let shared = future.shared();
                    (shared.future(), Some(shared))
                } else {
                    (future, None)
                };
                let about_to = flag();
                let told = Arc::clone(&about_to);
                let (send, receive) = mpsc::channel();
                drop(pool.spawn(move || send.send(wait(future, &told, until_there)).unwrap()));
                until(&about_to);
                raise(&end);
                assert_eq!(receive.recv().unwrap().unwrap(), 7, "{name}");
                assert!(other.is_none_or(|other| matches!(other.wait(), Ok(7))));
            });
        }
    }
}

/// The scope's task and, for a stolen half, two more keep their places; who waits for the scope does not.
#[test]
fn a_wait_for_one_that_waits_for_its_scope_is_no_cycle() {
    a_wait_is_no_cycle(3, scoped, until);
    a_wait_is_no_cycle(2, scoped, until_blocking);
}

#[test]
fn a_wait_for_one_whose_thief_waits_for_a_scope_is_no_cycle() {
    a_wait_is_no_cycle(3, scoped_in_a_stolen_half, until);
    a_wait_is_no_cycle(2, scoped_in_a_stolen_half, until_blocking);
}

/// As few threads as can be: others come in their stead.
#[test]
fn such_waits_where_spare_threads_come() {
    a_wait_is_no_cycle(1, scoped, until_blocking);
    a_wait_is_no_cycle(1, scoped_in_a_stolen_half, until_blocking);
}
