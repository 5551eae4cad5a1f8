//! What a pool counts about waits, the numbers of its places, and the order in which callers have them.
#![allow(missing_docs)]

use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use raddle_core::{Pool, Promise, Worker, blocking, current_worker_index, scope, spawn};

/// Longer than any of this takes; what lasts that long hangs.
const LONG: Duration = Duration::from_secs(300);

/// Calls `f` on a thread of its own, so that what hangs fails.
fn ends(f: impl FnOnce() + Send + 'static) {
    let (send, receive) = mpsc::channel();
    let thread = thread::spawn(move || {
        f();
        send.send(()).unwrap();
    });
    match receive.recv_timeout(LONG) {
        Ok(()) => {}
        Err(RecvTimeoutError::Timeout) => panic!("hangs"),
        Err(RecvTimeoutError::Disconnected) => resume_unwind(thread.join().unwrap_err()),
    }
}

fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// By a task that this thread does not help, as it does not know that it waits for one.
fn in_task<R: Send + 'static>(pool: &Pool, f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, receive) = mpsc::channel();
    drop(pool.spawn(move || send.send(f()).unwrap()));
    receive.recv().unwrap()
}

/// A task that waits for a promise, and has begun to when this returns; the receiver is told when it has gone on.
fn waiter(pool: &Pool, then: impl FnOnce() + Send + 'static) -> (Promise<()>, mpsc::Receiver<()>) {
    let (promise, future) = Promise::new();
    let (start, started) = mpsc::channel();
    let (end, ended) = mpsc::channel();
    drop(pool.spawn(move || {
        start.send(()).unwrap();
        future.wait().unwrap();
        then();
        end.send(()).unwrap();
    }));
    started.recv().unwrap();
    (promise, ended)
}

// --- counters ---

/// Each round's wait gives the only place away: to a thread that is started for the first, then parked, and used again.
#[test]
fn a_spare_thread_is_used_again() {
    const ROUNDS: u64 = 100;
    ends(|| {
        let pool = Pool::new(1).unwrap();
        for _ in 0..ROUNDS {
            let (promise, ended) = waiter(&pool, || ());
            drop(pool.spawn(move || promise.set(())));
            ended.recv().unwrap();
        }
        let stats = pool.stats();
        assert!(stats.given >= ROUNDS, "{stats:?}");
        assert_eq!((stats.spare_threads, stats.hosted, stats.refused), (1, 0, 0), "{stats:?}");
    });
}

/// One more than one for each that waits, started for the first that do, and none for those that come later.
#[test]
fn as_many_spare_threads_as_wait_at_once_are_used_again() {
    const WAITERS: u64 = 4;
    ends(|| {
        let pool = Pool::new(1).unwrap();
        for _ in 0..30 {
            let (promises, ends): (Vec<_>, Vec<_>) =
                (0..WAITERS).map(|_| waiter(&pool, || ())).unzip();
            drop(pool.spawn(move || promises.into_iter().for_each(|promise| promise.set(()))));
            ends.into_iter().for_each(|end| end.recv().unwrap());
        }
        let stats = pool.stats();
        assert!(stats.given >= 30 * WAITERS, "{stats:?}");
        assert_eq!((stats.spare_threads, stats.hosted), (WAITERS, 0), "{stats:?}");
    });
}

/// Whoever blocks gives its place, once however often it says so, also if nobody takes it.
#[test]
fn each_call_that_blocks_gives_one_place() {
    ends(|| {
        let pool = Pool::new(1).unwrap();
        assert_eq!(pool.stats().given, 0);
        in_task(&pool, || (0..10).for_each(|_| blocking(|| ())));
        let stats = pool.stats();
        assert_eq!((stats.given, stats.surplus, stats.spare_threads), (10, 0, 0));
        in_task(&pool, || blocking(|| blocking(|| ())));
        assert_eq!(pool.stats().given, 11);
        pool.run(|_| blocking(|| ()));
        assert_eq!(pool.stats().given, 12);
        // Outside of the pool it is nobody's.
        blocking(|| ());
        assert_eq!(pool.stats().given, 12);
    });
}

/// What it has forked meanwhile may need somebody; nothing of the kind does not.
#[test]
fn whoever_blocks_within_a_call_that_blocks_wakes_nobody_without_work() {
    ends(|| {
        let pool = Pool::new(1).unwrap();
        in_task(&pool, || blocking(|| (0..10).for_each(|_| blocking(|| ()))));
        let stats = pool.stats();
        assert_eq!((stats.given, stats.surplus, stats.spare_threads), (1, 0, 0));
    });
}

/// Surplus is whoever goes on while others have all places, and nobody whose place is free.
#[test]
fn a_wait_is_surplus_if_it_ends_while_another_works_in_its_place() {
    ends(|| {
        let pool = Pool::new(1).unwrap();
        let (promise, ended) = waiter(&pool, || ());
        until(|| pool.stats().given == 1);
        promise.set(());
        ended.recv().unwrap();
        assert_eq!((pool.stats().given, pool.stats().surplus), (1, 0));

        let goes_on = Arc::<AtomicBool>::default();
        let sets = Arc::clone(&goes_on);
        let (promise, ended) = waiter(&pool, move || sets.store(true, Ordering::SeqCst));
        // It keeps the place until the other goes on without.
        in_task(&pool, move || {
            promise.set(());
            until(|| goes_on.load(Ordering::SeqCst));
        });
        ended.recv().unwrap();
        let stats = pool.stats();
        assert!(stats.given >= 2 && stats.surplus >= 1, "{stats:?}");
        assert!(stats.surplus < stats.given, "{stats:?}");
    });
}

// --- callers ---

/// Each caller is a task of a pool of its own: when that has given its place away, the call is in the queue.
#[test]
fn calls_that_have_to_queue_are_served_in_the_order_in_which_they_came() {
    const CALLERS: usize = 6;
    for threads in [1, 2] {
        ends(move || {
            let pool = Arc::new(Pool::new(threads).unwrap());
            let leave: Vec<_> = (0..threads).map(|_| Arc::<AtomicBool>::default()).collect();
            let guests: Vec<_> = leave
                .iter()
                .map(|leave| {
                    let (pool, leave) = (Arc::clone(&pool), Arc::clone(leave));
                    let (enter, entered) = mpsc::channel();
                    let guest = thread::spawn(move || {
                        pool.run(|_| {
                            enter.send(()).unwrap();
                            until(|| leave.load(Ordering::SeqCst));
                        });
                    });
                    entered.recv().unwrap();
                    guest
                })
                .collect();
            let served = Arc::new(Mutex::new(Vec::new()));
            let callers: Vec<_> = (0..CALLERS)
                .map(|number| {
                    let own = Pool::new(1).unwrap();
                    let (pool, served) = (Arc::clone(&pool), Arc::clone(&served));
                    let serves = Arc::clone(&served);
                    drop(own.spawn(move || pool.run(|_| serves.lock().unwrap().push(number))));
                    // A thread of the pool that is awake yet may have served it.
                    until(|| own.stats().given == 1 || served.lock().unwrap().len() > number);
                    own
                })
                .collect();
            // Into one place, so that one is served after the other.
            leave[0].store(true, Ordering::SeqCst);
            // Each ends when its call is over.
            drop(callers);
            leave.iter().for_each(|leave| leave.store(true, Ordering::SeqCst));
            guests.into_iter().for_each(|guest| guest.join().unwrap());
            assert_eq!(*served.lock().unwrap(), Vec::from_iter(0..CALLERS));
        });
    }
}

// --- workers ---

fn fib(worker: &Worker, n: u32) -> u32 {
    if n < 2 {
        return n;
    }
    let (a, b) = worker.join(|worker| fib(worker, n - 1), |worker| fib(worker, n - 2));
    a + b
}

/// How many threads the pool has whose worker this thread is, and that it works.
fn threads_here() -> Option<usize> {
    Worker::with(|worker| {
        assert_eq!(fib(worker, 12), 144);
        worker.num_threads()
    })
}

#[test]
fn a_task_of_a_scope_finds_the_worker_of_its_pool() {
    ends(|| {
        let (two, three) = (&Pool::new(2).unwrap(), &Pool::new(3).unwrap());
        let found = &AtomicUsize::new(0);
        two.scope(|outer| {
            for _ in 0..20 {
                outer.spawn(move |_| {
                    assert_eq!(threads_here(), Some(2));
                    three.scope(|inner| {
                        assert_eq!(threads_here(), Some(3));
                        inner.spawn(move |_| {
                            assert_eq!(threads_here(), Some(3));
                            found.fetch_add(1, Ordering::SeqCst);
                        });
                    });
                    assert_eq!(threads_here(), Some(2));
                });
            }
        });
        assert_eq!(found.load(Ordering::SeqCst), 20);
        assert_eq!(threads_here(), None);
    });
}

/// The halves meet, so the fork is there for the pool's other thread.
#[test]
fn a_join_on_the_worker_of_a_task_of_a_scope_is_forked() {
    ends(|| {
        let pool = Pool::new(2).unwrap();
        for _ in 0..20 {
            let meet = &Barrier::new(2);
            pool.scope(|scope| {
                scope.spawn(|_| {
                    let halves =
                        Worker::with(|worker| worker.join(|_| meet.wait(), |_| meet.wait()));
                    let (a, b) = halves.expect("a task runs on a worker");
                    assert_ne!(a.is_leader(), b.is_leader());
                });
            });
        }
    });
}

// --- numbers ---

/// Which numbers tasks have that run, and how often two had the same.
#[derive(Default)]
struct Numbers {
    used: [AtomicBool; 4],
    doubles: AtomicUsize,
}

impl Numbers {
    /// Calls `f` with this thread's number, which nobody else is to have meanwhile.
    fn with<R>(&self, f: impl FnOnce(Option<usize>) -> R) -> R {
        let number = current_worker_index();
        let used = number.map(|number| &self.used[number]);
        if used.is_some_and(|used| used.swap(true, Ordering::SeqCst)) {
            self.doubles.fetch_add(1, Ordering::SeqCst);
        }
        let result = f(number);
        if let Some(used) = used {
            used.store(false, Ordering::SeqCst);
        }
        result
    }
}

/// As many tasks as places, all at work at once: each has a number.
fn all_have_numbers(pool: &Pool, numbers: &Arc<Numbers>) {
    let threads = pool.num_threads();
    let meet = Arc::new(Barrier::new(threads));
    let (send, receive) = mpsc::channel();
    for _ in 0..threads {
        let (numbers, meet, send) = (Arc::clone(numbers), Arc::clone(&meet), send.clone());
        drop(pool.spawn(move || {
            numbers.with(|number| {
                meet.wait();
                send.send(number).unwrap();
            });
        }));
    }
    drop(send);
    let mut all: Vec<_> = receive.iter().collect();
    all.sort_unstable();
    assert_eq!(all, Vec::from_iter((0..threads).map(Some)));
}

/// Those that go on after a wait have none as long as others, who came for their places, have them all.
#[test]
fn no_two_tasks_that_run_have_one_number() {
    for threads in [1, 3] {
        ends(move || {
            let pool = &Pool::new(threads).unwrap();
            let numbers = &Arc::new(Numbers::default());
            let back = Arc::new(AtomicUsize::new(0));
            let (see, seen) = mpsc::channel();
            for _ in 0..10 {
                all_have_numbers(pool, numbers);
                back.store(0, Ordering::SeqCst);
                let (promises, ends): (Vec<_>, Vec<_>) = (0..threads)
                    .map(|_| {
                        let (numbers, back, see) =
                            (Arc::clone(numbers), Arc::clone(&back), see.clone());
                        waiter(pool, move || {
                            numbers.with(|number| see.send(number).unwrap());
                            back.fetch_add(1, Ordering::SeqCst);
                        })
                    })
                    .unzip();
                let meet = Arc::new(Barrier::new(threads));
                for promise in promises {
                    let (numbers, back) = (Arc::clone(numbers), Arc::clone(&back));
                    let meet = Arc::clone(&meet);
                    drop(pool.spawn(move || {
                        numbers.with(|_| {
                            meet.wait();
                            promise.set(());
                            until(|| back.load(Ordering::SeqCst) == threads);
                        });
                    }));
                }
                ends.into_iter().for_each(|end| end.recv().unwrap());
                assert!(seen.iter().take(threads).all(|number: Option<usize>| number.is_none()));
            }
            // What they had they have given back.
            all_have_numbers(pool, numbers);
            assert_eq!(numbers.doubles.load(Ordering::SeqCst), 0, "two had one number");
        });
    }
}

/// Chains of tasks, in which each waits in the middle for the one before.
#[test]
fn no_two_tasks_of_many_that_wait_have_one_number() {
    ends(|| {
        let pool = Pool::new(4).unwrap();
        let numbers = Arc::new(Numbers::default());
        let chains: Vec<_> = (0..8)
            .map(|_| {
                (0..100).fold(pool.spawn(|| ()), |before, _| {
                    let numbers = Arc::clone(&numbers);
                    pool.spawn(move || {
                        numbers.with(|_| thread::yield_now());
                        before.wait().unwrap();
                        numbers.with(|_| thread::yield_now());
                    })
                })
            })
            .collect();
        for chain in chains {
            until(|| chain.is_done());
            chain.wait().unwrap();
        }
        assert_eq!(numbers.doubles.load(Ordering::SeqCst), 0, "two had one number");
        all_have_numbers(&pool, &numbers);
    });
}

// --- scopes ---

#[test]
fn scopes_of_many_tasks_nested_by_a_guest() {
    const SIDE: usize = 300;
    for threads in [1, 8] {
        ends(move || {
            let pool = Pool::new(threads).unwrap();
            let done = &AtomicUsize::new(0);
            pool.run(|_| {
                scope(|rows| {
                    for _ in 0..SIDE {
                        rows.spawn(|_| {
                            scope(|row| {
                                for _ in 0..SIDE {
                                    row.spawn(|_| {
                                        done.fetch_add(1, Ordering::Relaxed);
                                    });
                                }
                            });
                        });
                    }
                });
            });
            assert_eq!(done.load(Ordering::Relaxed), SIDE * SIDE);
            // What waits for its scope runs its tasks itself: nobody has to host, and alone it hardly ever blocks.
            let stats = pool.stats();
            assert!(stats.hosted == 0 && (threads > 1 || stats.given < 10), "{stats:?}");
            assert_eq!(spawn_in(&pool), 7);
        });
    }
}

/// The pool is as good as new.
fn spawn_in(pool: &Pool) -> u32 {
    pool.run(|_| spawn(|| 7).wait().unwrap())
}

// --- places ---

/// However many waits are over at once, all go on; and nothing else is begun until that has been made up for.
#[test]
fn what_goes_on_after_waits_comes_before_what_has_not_begun() {
    const WAITERS: usize = 8;
    ends(|| {
        let pool = Pool::new(2).unwrap();
        let (promise, future) = Promise::new();
        let future = future.shared();
        let run = Arc::new(AtomicUsize::new(0));
        let all = Arc::new(Barrier::new(WAITERS + 1));
        let (start, started) = mpsc::channel();
        let waiters: Vec<_> = (0..WAITERS)
            .map(|_| {
                let (future, start, run, all) =
                    (future.clone(), start.clone(), Arc::clone(&run), Arc::clone(&all));
                let (go, goes) = mpsc::channel::<()>();
                let (end, ended) = mpsc::channel();
                pool.spawn(move || {
                    start.send(()).unwrap();
                    future.wait().unwrap();
                    run.fetch_add(1, Ordering::SeqCst);
                    all.wait();
                    goes.recv().unwrap();
                    run.fetch_sub(1, Ordering::SeqCst);
                    end.send(()).unwrap();
                })
                .detach();
                (go, ended)
            })
            .collect();
        started.iter().take(WAITERS).for_each(drop);
        promise.set(());
        // All of them run.
        all.wait();
        let (tell, told) = mpsc::channel();
        for _ in 0..20 {
            let (run, tell) = (Arc::clone(&run), tell.clone());
            pool.spawn(move || tell.send(run.load(Ordering::SeqCst)).unwrap()).detach();
        }
        for (go, ended) in waiters {
            go.send(()).unwrap();
            ended.recv().unwrap();
        }
        // Beside each there was at most one of the two places taken.
        assert!(told.iter().take(20).all(|beside| beside <= 1));
    });
}
