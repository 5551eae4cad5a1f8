//! Something comes to follow tasks while threads sleep, work and wait: their next forks are told as ever. What follows does so until the
//! process ends, so each test runs in one of its own.

use std::cell::Cell;
use std::process::Command;
use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::compat::{Settings, Team, with_here};
use raddle_core::policy::Policy;
use raddle_core::trace::TraceLevel;
use raddle_core::{Follow, Pool, follow, join};
use raddle_trace::State;

thread_local! {
    static REQUEST: Cell<u32> = const { Cell::new(0) };
}

struct Request;

struct Back(u32);

impl Follow for Request {
    type State = u32;
    type Guard = Back;

    fn capture(&self) -> Option<u32> {
        Some(REQUEST.get()).filter(|&request| request != 0)
    }

    fn enter(&self, state: Option<&u32>) -> Back {
        Back(REQUEST.replace(state.copied().unwrap_or(0)))
    }
}

impl Drop for Back {
    fn drop(&mut self) {
        REQUEST.set(self.0);
    }
}

/// Runs a test in a process of its own, for a minute at most.
fn alone(test: &str, f: impl FnOnce()) {
    const ALONE: &str = "RADDLE_FOLLOW_ALONE";
    if std::env::var_os(ALONE).is_some() {
        return f();
    }
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture"])
        .env(ALONE, "1")
        .spawn()
        .unwrap();
    let start = Instant::now();
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        if start.elapsed() > Duration::from_secs(60) {
            child.kill().unwrap();
            panic!("it hangs");
        }
        thread::sleep(Duration::from_millis(5));
    };
    assert!(status.success());
}

/// Both halves of a join, which wait for each other: the request that each sees.
fn meet() -> (u32, u32) {
    let came = AtomicBool::new(false);
    let waits = || {
        while !came.load(Ordering::SeqCst) {
            std::hint::spin_loop();
        }
        REQUEST.get()
    };
    let comes = || {
        came.store(true, Ordering::SeqCst);
        REQUEST.get()
    };
    join(waits, comes)
}

/// A pool of two whose threads sleep for good.
fn asleep() -> Pool {
    let policy = Policy { drowsy: Duration::ZERO, ..Policy::default() };
    let pool = Pool::builder().threads(2).policy(policy).trace(TraceLevel::Phase).build().unwrap();
    pool.broadcast(|_| ());
    let parked = |pool: &Pool| {
        let lanes = pool.trace().lanes;
        let last = |lane: &raddle_trace::Lane| lane.segments().last().map(|s| s.state);
        lanes.iter().filter(|lane| last(lane) == Some(State::Parked)).count()
    };
    while parked(&pool) < 2 {
        thread::yield_now();
    }
    pool
}

#[test]
fn in_a_guest_s_region() {
    alone("in_a_guest_s_region", || {
        Pool::new(2).unwrap().run(|_| {
            follow(Request);
            REQUEST.set(5);
            assert_eq!(meet(), (5, 5));
        });
    });
}

#[test]
fn while_all_threads_sleep() {
    alone("while_all_threads_sleep", || {
        let pool = asleep();
        follow(Request);
        REQUEST.set(5);
        assert_eq!(pool.spawn(meet).wait().unwrap(), (5, 5));
        REQUEST.set(0);
        assert_eq!(pool.run(|_| meet()), (0, 0));
    });
}

/// Another thread's doing. What the task forks from then on takes along what it sees.
#[test]
fn in_the_middle_of_a_task() {
    alone("in_the_middle_of_a_task", || {
        let pool = asleep();
        let (begun, follows) = (Barrier::new(2), Barrier::new(2));
        let (send, receive) = mpsc::channel();
        thread::scope(|s| {
            s.spawn(|| {
                pool.run(|worker| {
                    let task = || {
                        begun.wait();
                        follows.wait();
                        REQUEST.set(5);
                        // The first one may be pushed before the request is seen.
                        send.send([meet(), meet(), meet()]).unwrap();
                        REQUEST.set(0);
                    };
                    worker.join(|_| task(), |_| ());
                });
            });
            begun.wait();
            follow(Request);
            follows.wait();
        });
        let seen = receive.recv().unwrap();
        assert_eq!(seen[1..], [(5, 5); 2], "{seen:?}");
    });
}

/// A pool's task runs a region of another pool, in which something comes to follow: back in the first, it does.
#[test]
fn in_a_region_within_another_pool_s() {
    alone("in_a_region_within_another_pool_s", || {
        let (outer, inner) = (asleep(), Pool::new(2).unwrap());
        outer.run(|_| {
            inner.run(|_| follow(Request));
            REQUEST.set(5);
            assert_eq!(meet(), (5, 5));
            REQUEST.set(0);
        });
    });
}

/// As above, where it comes while a fork of the outer pool is stolen: what the owner was told by a request its pop overwrites.
#[test]
fn in_a_half_whose_other_half_is_stolen() {
    alone("in_a_half_whose_other_half_is_stolen", || {
        let (outer, inner) = (asleep(), Pool::new(2).unwrap());
        outer.run(|worker| {
            let (stolen, done) = (AtomicBool::new(false), AtomicBool::new(false));
            let until = |flag: &AtomicBool| {
                while !flag.load(Ordering::SeqCst) {
                    std::hint::spin_loop();
                }
            };
            let follows = || {
                until(&stolen);
                inner.run(|_| follow(Request));
                done.store(true, Ordering::SeqCst);
            };
            let is_stolen = || {
                stolen.store(true, Ordering::SeqCst);
                until(&done);
            };
            worker.join(|_| follows(), |_| is_stolen());
            REQUEST.set(5);
            assert_eq!(meet(), (5, 5));
            REQUEST.set(0);
        });
    });
}

/// The thread that makes a pool is one of its threads, and has never taken anything on.
#[test]
fn on_a_seat_for_good() {
    alone("on_a_seat_for_good", || {
        follow(Request);
        let team = Team::new(Settings { threads: 2, ..Settings::default() }).unwrap();
        team.seat_here();
        let seat = team.seat(1);
        thread::spawn(move || seat.run());
        REQUEST.set(5);
        assert!(with_here(|here| here.is_some()));
        assert_eq!(meet(), (5, 5));
    });
}
