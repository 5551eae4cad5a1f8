//! Threads that have no place, or are to give it back.

use super::*;

#[test]
fn threads_that_are_in_debt_open_their_mail() {
    ends("a broadcast beside two regions", || {
        let pool = Arc::new(Pool::new(2).unwrap());
        let (go, meet) = (Arc::<AtomicBool>::default(), Arc::new(Barrier::new(3)));
        let guests = [0, 1].map(|_| {
            let (pool, go, meet) = (Arc::clone(&pool), Arc::clone(&go), Arc::clone(&meet));
            thread::spawn(move || {
                pool.run(|_| {
                    meet.wait();
                    until(&go);
                });
            })
        });
        meet.wait();
        assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1]);
        go.store(true, Ordering::SeqCst);
        guests.into_iter().for_each(|guest| guest.join().unwrap());
    });
}

/// Now and then who was woken is quick enough by chance: not so often.
const ROUNDS: usize = 300;

/// About as long as a wake takes, several times.
fn work() {
    let since = Instant::now();
    while since.elapsed() < Duration::from_micros(200) {}
}

#[test]
fn guests_that_come_at_once_leave_time_for_a_task() {
    ends("a task beside guests", || {
        let pool = one_thread().build().unwrap();
        for _ in 0..ROUNDS {
            // The thread falls asleep: should it not, the round shows less. A trace would tell, and take its time.
            thread::sleep(SOON);
            let task = pool.spawn(|| ());
            while !task.is_done() {
                pool.run(|_| work());
            }
        }
    });
}

/// One guest after the other, until the future is done: how many.
fn guests_until(pool: &Pool, done: &Future<()>) -> usize {
    let mut guests = 0;
    while !done.is_done() {
        pool.run(|_| (0..5).for_each(|_| work()));
        guests += 1;
    }
    guests
}

/// A task begins beside guests that come at once, and has a promise set: by what lies in the thread's ring, or on its stack, as
/// the thread goes in debt. Whoever is woken for that need not be quicker than all guests.
fn leaves_time_for(what: fn(Promise<()>)) {
    for busy in [false, true] {
        let guests = ends("what a thread has beside guests", move || {
            let pool = one_thread().build().unwrap();
            let done = Arc::<AtomicBool>::default();
            if busy {
                polls_itself(&pool, Arc::clone(&done));
            }
            let guests = [(); ROUNDS / 4].map(|()| {
                let (runs, running) = mpsc::channel();
                let (promise, future) = Promise::new();
                drop(pool.spawn(move || {
                    runs.send(()).unwrap();
                    (0..3).for_each(|_| work());
                    what(promise);
                }));
                running.recv().unwrap();
                guests_until(&pool, &future)
            });
            done.store(true, Ordering::SeqCst);
            guests
        });
        // The thread may have been without a processor now and then.
        let late = guests.iter().filter(|&&guests| guests >= ROUNDS).count();
        assert!(late <= guests.len() / 10, "so many came first: {guests:?}");
    }
}

#[test]
fn guests_that_come_at_once_leave_time_for_what_a_task_leaves_behind() {
    leaves_time_for(|promise| drop(spawn(move || promise.set(()))));
}

#[test]
fn guests_that_come_at_once_leave_time_for_what_a_task_waits_for() {
    leaves_time_for(|promise| {
        let (inner, future) = Promise::new();
        spawn_and_wait(inner, future);
        promise.set(());
    });
}

#[test]
fn guests_that_come_at_once_leave_time_for_a_fork() {
    leaves_time_for(|promise| {
        let (inner, future) = Promise::new();
        join(|| future.wait().unwrap(), || inner.set(()));
        promise.set(());
    });
}

#[test]
fn a_thread_that_never_blocks_for_long_leaves_time_for_a_task() {
    ends("a task beside one that polls for it", || {
        let pool = one_thread().build().unwrap();
        in_task(&pool, || {
            for _ in 0..ROUNDS {
                let task = spawn(|| ());
                while !task.is_done() {
                    work();
                    blocking(|| ());
                }
            }
        });
    });
}

#[test]
fn a_fork_within_blocking_is_seen_after_a_nap() {
    let stolen = ends("a task that forks within `blocking`", || {
        let policy = Policy { drowsy: 4 * MOMENT, ..Policy::default() };
        let pool = Pool::builder().threads(2).policy(policy).build().unwrap();
        let meet = Arc::new(Barrier::new(2));
        let other = Arc::clone(&meet);
        drop(pool.spawn(move || {
            other.wait();
            other.wait();
        }));
        let (send, receive) = mpsc::channel();
        drop(pool.spawn(move || {
            meet.wait();
            // Nobody wants them, so those that follow are private.
            (0..4).for_each(|_| _ = join(|| (), || ()));
            meet.wait();
            // The other thread naps.
            thread::sleep(MOMENT);
            blocking(|| {
                // It sleeps for good.
                thread::sleep(8 * MOMENT);
                let stolen = AtomicBool::new(false);
                let looks_on = || {
                    let since = Instant::now();
                    while !stolen.load(Ordering::SeqCst) && since.elapsed() < LONG / 2 {
                        thread::yield_now();
                    }
                    stolen.load(Ordering::SeqCst)
                };
                let (stolen, ()) = join(looks_on, || stolen.store(true, Ordering::SeqCst));
                send.send(stolen).unwrap();
            });
        }));
        receive.recv().unwrap()
    });
    assert!(stolen, "nobody has come for the fork");
}

#[test]
fn nobody_waits_for_an_index_that_does_not_come() {
    let (within, least, at_exit) = ends("a team that asks for its indices", || {
        let (send, receive) = mpsc::channel();
        let index = || with_here(|here| here.and_then(|here| here.index()));
        let on_exit = move |_| send.send(index()).unwrap();
        let settings = Settings {
            waits: Waits::Substitute,
            on_exit: Some(Box::new(on_exit)),
            ..Settings::default()
        };
        let team = Team::new(settings).unwrap();
        let seat = team.seat(0);
        let thread = thread::spawn(move || seat.run());
        let (within, least) = team.call(move || {
            let ask = |_| {
                let since = Instant::now();
                (index(), since.elapsed())
            };
            let answers = blocking(|| [(); 50].map(ask));
            let least = answers.iter().map(|answer| answer.1).min().unwrap();
            (answers.iter().find_map(|answer| answer.0), least)
        });
        team.end();
        thread.join().unwrap();
        (within, least, receive.recv().unwrap())
    });
    assert_eq!((within, at_exit), (None, Some(0)));
    assert!(least < Duration::from_millis(10), "an answer takes {least:?} at least");
}
