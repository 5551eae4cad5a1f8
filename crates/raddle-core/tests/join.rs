//! Fork/join as users see it.
#![allow(missing_docs)]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use raddle_core::{Pool, Worker, join, scope};

fn fib(worker: &Worker, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = worker.join(|w| fib(w, n - 1), |w| fib(w, n - 2));
    a + b
}

fn ambient_fib(n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = join(|| ambient_fib(n - 1), || ambient_fib(n - 2));
    a + b
}

/// The two forms by turns.
fn mixed_fib(worker: &Worker, n: u64) -> u64 {
    if n < 2 {
        return n;
    }
    let (a, b) = worker.join(
        |_| {
            if n % 3 == 0 { ambient_fib(n - 1) } else { join(|| ambient_fib(n - 1), || ()).0 }
        },
        |w| mixed_fib(w, n - 2),
    );
    a + b
}

#[test]
fn both_forms_on_pools_of_all_sizes() {
    for threads in [1, 2, 3, 4, 16, 70] {
        let pool = Pool::new(threads).unwrap();
        for _ in 0..10 {
            assert_eq!(pool.run(|w| fib(w, 22)), 17711);
            assert_eq!(pool.run(|_| ambient_fib(18)), 2584);
            assert_eq!(pool.run(|w| mixed_fib(w, 18)), 2584);
        }
    }
    assert_eq!(ambient_fib(20), 6765);
}

#[test]
fn a_fork_is_stolen_while_its_owner_runs_a_leaf() {
    let pool = Pool::new(2).unwrap();
    for _ in 0..50 {
        let started = AtomicBool::new(false);
        // The first half ends only once somebody else has begun the second.
        pool.run(|w| {
            w.join(
                |_| {
                    while !started.load(Ordering::Relaxed) {
                        thread::yield_now();
                    }
                },
                |_| started.store(true, Ordering::Relaxed),
            )
        });
    }
}

#[test]
fn every_fork_below_a_leaf_is_stolen() {
    let pool = Pool::new(4).unwrap();
    for _ in 0..20 {
        let started = AtomicUsize::new(0);
        pool.run(|w| nest(w, 3, &started));
        assert_eq!(started.into_inner(), 3);
    }

    fn nest(worker: &Worker, left: usize, started: &AtomicUsize) {
        if left == 0 {
            while started.load(Ordering::Relaxed) < 3 {
                thread::yield_now();
            }
            return;
        }
        worker.join(|w| nest(w, left - 1, started), |_| started.fetch_add(1, Ordering::Relaxed));
    }
}

fn message(result: thread::Result<impl Sized>) -> String {
    let payload = result.err().expect("a panic");
    payload.downcast_ref::<&str>().map(ToString::to_string).expect("a message")
}

#[test]
fn panics_go_on_after_both_halves_are_done() {
    for threads in [1, 2, 16] {
        let pool = Pool::new(threads).unwrap();
        for _ in 0..200 {
            let other = AtomicBool::new(false);
            let in_a = catch_unwind(AssertUnwindSafe(|| {
                pool.run(|w| {
                    w.join(|_| panic!("a"), |_| other.store(true, Ordering::Relaxed));
                });
            }));
            assert_eq!(message(in_a), "a");
            assert!(other.load(Ordering::Relaxed), "b runs all the same");

            let in_b = catch_unwind(AssertUnwindSafe(|| {
                pool.run(|w| {
                    w.join(|_| other.store(false, Ordering::Relaxed), |_| panic!("b"));
                });
            }));
            assert_eq!(message(in_b), "b");
            assert!(!other.load(Ordering::Relaxed));

            let in_both = catch_unwind(AssertUnwindSafe(|| {
                pool.run(|_| join(|| panic!("a"), || panic!("b")));
            }));
            assert_eq!(message(in_both), "a");
        }
        assert_eq!(pool.run(|w| fib(w, 15)), 610, "the pool goes on");
    }
}

#[test]
fn panics_at_random_places_leave_no_job_behind() {
    fn tree(worker: &Worker, seed: u64, depth: u32, live: &AtomicUsize) -> u64 {
        struct Live<'a>(&'a AtomicUsize);
        impl Drop for Live<'_> {
            fn drop(&mut self) {
                self.0.fetch_sub(1, Ordering::Relaxed);
            }
        }
        live.fetch_add(1, Ordering::Relaxed);
        let _live = Live(live);
        if depth == 0 {
            assert!(seed % 97 != 0, "unlucky");
            return seed;
        }
        let next = |i: u64| (seed ^ i).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 7;
        let (a, b) = worker.join(
            |w| tree(w, next(1), depth - 1, live),
            |w| {
                if seed % 2 == 0 {
                    tree(w, next(2), depth - 1, live)
                } else {
                    // By the ambient form in between.
                    join(|| 1, || Pool::global().run(|w| tree(w, next(3), depth - 1, live))).1
                }
            },
        );
        a ^ b
    }
    let pool = Pool::new(4).unwrap();
    let live = AtomicUsize::new(0);
    let mut panicked = 0;
    for seed in 0..300 {
        let result = catch_unwind(AssertUnwindSafe(|| pool.run(|w| tree(w, seed, 5, &live))));
        panicked += usize::from(result.is_err());
        assert_eq!(live.load(Ordering::Relaxed), 0, "all halves are over when a region ends");
    }
    assert!((10..290).contains(&panicked), "{panicked}");
    assert_eq!(pool.run(|w| fib(w, 15)), 610);
}

#[test]
fn a_panic_is_caught_between_forks() {
    let pool = Pool::new(2).unwrap();
    let total = pool.run(|w| {
        let (a, b) = w.join(
            |_| {
                let caught = catch_unwind(|| join(|| join(|| panic!("deep"), || ()), || ()));
                assert!(caught.is_err());
                ambient_fib(12)
            },
            |w| fib(w, 12),
        );
        // The head is where it was.
        a + b + ambient_fib(10) + fib(w, 10)
    });
    assert_eq!(total, 144 + 144 + 55 + 55);
}

#[test]
fn forks_a_hundred_thousand_deep() {
    fn deep(worker: &Worker, left: usize) -> usize {
        if left == 0 {
            return 0;
        }
        let (a, b) = worker.join(|w| deep(w, left - 1), |_| 1);
        a + b
    }
    fn ambient(left: usize) -> usize {
        if left == 0 {
            return 0;
        }
        let (a, b) = join(|| ambient(left - 1), || 1);
        a + b
    }
    for threads in [1, 2, 16] {
        let pool = Pool::new(threads).unwrap();
        let run = || {
            assert_eq!(pool.run(|w| deep(w, 100_000)), 100_000);
            assert_eq!(pool.run(|_| ambient(100_000)), 100_000);
        };
        // Debug frames are large.
        thread::scope(|s| {
            thread::Builder::new().stack_size(512 << 20).spawn_scoped(s, run).unwrap();
        });
    }
}

#[test]
fn deeper_than_the_fork_stack() {
    fn deep(worker: &Worker, left: usize) -> usize {
        if left == 0 {
            return 0;
        }
        let (a, b) = worker.join(|w| deep(w, left - 1), |_| 1);
        a + b
    }
    let pool = Pool::new(2).unwrap();
    thread::scope(|s| {
        let run = || assert_eq!(pool.run(|w| deep(w, 300_000)), 300_000);
        thread::Builder::new().stack_size(1 << 30).spawn_scoped(s, run).unwrap();
    });
}

#[test]
fn a_pool_within_a_pool() {
    let outer = Pool::new(2).unwrap();
    let inner = Pool::new(3).unwrap();
    for _ in 0..20 {
        let sum = outer.run(|w| {
            let (a, b) = w.join(
                |w| inner.run(|v| fib(v, 15) + outer.run(|u| fib(u, 10))) + fib(w, 15),
                |_| inner.run(|_| ambient_fib(15)) + ambient_fib(10),
            );
            a + b
        });
        assert_eq!(sum, 610 + 55 + 610 + 610 + 55);
    }
}

#[test]
fn join_in_scope_in_run() {
    let pool = Pool::new(3).unwrap();
    let total = AtomicUsize::new(0);
    pool.run(|w| {
        scope(|s| {
            for _ in 0..50 {
                s.spawn(|s| {
                    let (a, b) = join(|| ambient_fib(10), || ambient_fib(11));
                    total.fetch_add((a + b) as usize, Ordering::Relaxed);
                    s.spawn(|_| {
                        total.fetch_add(ambient_fib(5) as usize, Ordering::Relaxed);
                    });
                });
            }
            assert_eq!(fib(w, 10), 55);
        });
    });
    assert_eq!(total.into_inner(), 50 * (55 + 89 + 5));
}

#[test]
fn two_hundred_threads_at_once() {
    for threads in [1, 2, 4] {
        let pool = Pool::new(threads).unwrap();
        thread::scope(|s| {
            for _ in 0..200 {
                s.spawn(|| {
                    for _ in 0..5 {
                        assert_eq!(pool.run(|w| fib(w, 12)), 144);
                    }
                });
            }
        });
    }
}

#[test]
fn a_queued_call_hands_its_panic_back() {
    let pool = Pool::new(1).unwrap();
    let (inside, entered) = mpsc::channel();
    let (go, wait) = mpsc::channel::<()>();
    thread::scope(|s| {
        let pool = &pool;
        s.spawn(move || {
            pool.run(move |_| {
                inside.send(()).unwrap();
                wait.recv().unwrap();
            });
        });
        entered.recv().unwrap();
        // The only place is taken, so this one is queued; it may begin once the guest has gone.
        let queued = s.spawn(|| pool.run(|_| panic!("queued")));
        go.send(()).unwrap();
        assert_eq!(message(queued.join()), "queued");
    });
    assert_eq!(pool.run(|w| fib(w, 10)), 55);
}

/// On a pool of one: the pool's own thread has seen that there is no place for it.
fn until_nobody_asks(worker: &Worker) {
    while worker.should_fork() {
        thread::yield_now();
    }
}

#[test]
fn a_guest_of_a_pool_of_one_works_alone() {
    let pool = Pool::new(1).unwrap();
    let me = thread::current().id();
    pool.run(until_nobody_asks);
    for _ in 0..100 {
        pool.run(|w| {
            for _ in 0..50 {
                let (a, b) = w.join(|_| thread::current().id(), |_| thread::current().id());
                assert_eq!((a, b), (me, me));
            }
        });
    }
}

#[test]
fn borrowed_results_and_unequal_types() {
    let text = String::from("weft");
    let (slice, owned) = join(|| &text[1..], || text.clone() + "!");
    assert_eq!((slice, owned.as_str()), ("eft", "weft!"));
}

#[test]
fn a_fork_pays_where_somebody_has_nothing_to_do_and_no_fork_to_take() {
    // Alone there is nobody.
    let alone = Pool::new(1).expect("a pool");
    alone.run(until_nobody_asks);
    let pool = Pool::new(2).expect("a pool");
    pool.run(|worker| {
        let gate = Barrier::new(2);
        assert!(worker.should_fork(), "the other thread is idle");
        worker.join(
            |w| {
                gate.wait();
                // The other thread is busy until it has met this one again.
                until_nobody_asks(w);
                gate.wait();
            },
            |_| {
                gate.wait();
                gate.wait();
            },
        );
    });
}

#[test]
fn a_loop_that_asks_shares_with_a_thread_that_comes_late() {
    // The thief forks nothing while its victim works; once that waits for it, it is asked for half of what is left, and each
    // half meets the other.
    let pool = Pool::new(2).expect("a pool");
    pool.run(|worker| {
        let gate = Barrier::new(2);
        worker.join(
            |_| gate.wait(),
            |w| {
                gate.wait();
                while !w.should_fork() {
                    std::hint::spin_loop();
                }
                w.join(|_| gate.wait(), |_| gate.wait());
            },
        );
    });
}
