//! A thief that gets nothing but small forks leaves their owner alone for a while: it comes again when there is something better. And
//! one that goes to work again and again has another look on for the rest.

use super::*;

/// For so long there is nothing better: whoever looks for work rests by then, and naps.
const LONG_ENOUGH: Duration = Duration::from_millis(3);

/// Forks that are over before anybody could have them.
fn small_joins(worker: &Worker) {
    let since = Instant::now();
    while since.elapsed() < LONG_ENOUGH {
        for _ in 0..1000 {
            worker.join(|_| (), |_| ());
        }
    }
}

fn await_flag(flag: &AtomicBool) {
    while !flag.load(Ordering::SeqCst) {
        thread::yield_now();
    }
}

/// The second half has to run elsewhere, as the first one waits for it without the pool's knowing.
fn join_of_two_threads(worker: &Worker) {
    let flag = AtomicBool::new(false);
    worker.join(|_| await_flag(&flag), |_| flag.store(true, Ordering::SeqCst));
}

fn pool(threads: usize, waits: Waits) -> Pool {
    Pool::builder().threads(threads).waits(waits).build().unwrap()
}

#[test]
fn a_fork_that_is_worth_it_is_stolen_from_among_small_ones() {
    for (threads, waits) in [(2, Waits::Substitute), (2, Waits::Host), (5, Waits::Substitute)] {
        ends("large forks among small ones", move || {
            let pool = pool(threads, waits);
            pool.run(|worker| {
                for _ in 0..20 {
                    small_joins(worker);
                    join_of_two_threads(worker);
                }
            });
        });
    }
}

#[test]
fn a_task_ends_the_rest() {
    ends("tasks among small forks", || {
        let pool = pool(2, Waits::Substitute);
        pool.run(|worker| {
            for _ in 0..20 {
                small_joins(worker);
                let flag = Arc::new(AtomicBool::new(false));
                let sets = Arc::clone(&flag);
                let task = spawn(move || sets.store(true, Ordering::SeqCst));
                // Without helping.
                await_flag(&flag);
                task.wait().unwrap();
            }
        });
    });
}

#[test]
fn mail_and_the_pool_s_end_come_while_a_thread_rests() {
    for _ in 0..20 {
        ends("a broadcast, and the end, among small forks", || {
            let pool = pool(3, Waits::Substitute);
            let ran = pool.run(|worker| {
                small_joins(worker);
                broadcast(|_| ()).len()
            });
            assert_eq!(ran, 3);
            pool.run(small_joins);
            drop(pool);
        });
    }
}

/// Two threads, and one of them waits for the other, which forks: nobody else may come.
#[test]
fn whoever_waits_helps_again_once_it_is_worth_it() {
    for waits in [Waits::Substitute, Waits::Host] {
        ends("a thief that forks for whoever waits for it", move || {
            let pool = Pool::builder().threads(2).max_spare_threads(0).waits(waits);
            let pool = pool.build().unwrap();
            pool.run(|worker| {
                for _ in 0..20 {
                    let taken = AtomicBool::new(false);
                    worker.join(
                        |_| await_flag(&taken),
                        |thief| {
                            taken.store(true, Ordering::SeqCst);
                            small_joins(thief);
                            join_of_two_threads(thief);
                        },
                    );
                }
            });
        });
    }
}

/// Forks that are worth it, one at a time: whoever steals one leaves two that sleep, and nobody who looks on for them.
#[test]
fn a_thief_that_comes_again_and_again_has_another_look_on() {
    const JOINS: usize = 20_000;
    ends("a loop of joins of some microseconds", || {
        let pool = pool(4, Waits::Substitute);
        let spin = |time| {
            let began = Instant::now();
            while began.elapsed() < Duration::from_micros(time) {
                std::hint::spin_loop();
            }
        };
        let few = (0..5).any(|_| {
            let (began, looks) = (Instant::now(), pool.stats().looks);
            let stolen = AtomicUsize::new(0);
            pool.run(|worker| {
                for _ in 0..JOINS {
                    let here = thread::current().id();
                    worker.join(
                        |_| spin(4),
                        |_| {
                            stolen.fetch_add(
                                usize::from(thread::current().id() != here),
                                Ordering::Relaxed,
                            );
                            spin(3);
                        },
                    );
                }
            });
            let (stolen, looks) = (stolen.into_inner() as u64, pool.stats().looks - looks);
            // Where the threads hardly had a processor, this says nothing.
            let slow = stolen < 1_000 || began.elapsed() > Duration::from_micros(100 * stolen);
            slow || looks < stolen / 2
        });
        assert!(few, "each thief looks for all others");
    });
}
