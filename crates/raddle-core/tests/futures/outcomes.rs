//! How a future ends is known before what has come of no use is dropped: that may take long, or wait for what follows. And what
//! follows may wait for what that brings about.

use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{Failure, FailureKind, Future, Promise, collect, first, window};

use crate::kills::busy;
use crate::support::{in_time, kind};

/// As it is dropped, waits until it is told to go.
struct Slow(mpsc::Receiver<()>);

impl Drop for Slow {
    fn drop(&mut self) {
        let _ = self.0.recv();
    }
}

fn slow() -> (mpsc::Sender<()>, Slow) {
    let (go, gone) = mpsc::channel();
    (go, Slow(gone))
}

/// A join for which one value has come, and whoever will not bring the other.
fn join<T: Send + 'static>(value: T) -> (Promise<T>, Future<Vec<T>>) {
    let (promise, pending) = Promise::new();
    (promise, collect([Future::ready(value), pending]))
}

const SOON: Duration = Duration::from_millis(1);

/// A name, and what takes the place of a future so that it ends before that.
type Limit = (&'static str, fn(Future<Vec<Slow>>) -> Future<Vec<Slow>>);

const LIMITS: [Limit; 2] =
    [("within", |all| all.within(SOON)), ("interrupt_after", |all| all.interrupt_after(SOON))];

#[test]
fn a_time_limit_is_not_late_for_what_it_lets_go() {
    for (name, limit) in LIMITS {
        in_time(name, move || {
            let (go, value) = slow();
            let (promise, all) = join(value);
            assert_eq!(kind(limit(all).wait()), FailureKind::TimedOut, "{name}");
            go.send(()).unwrap();
            drop(promise);
        });
    }
}

#[test]
fn what_is_interruptible_fails_at_once() {
    in_time("an interrupt", || {
        let (go, value) = slow();
        let (promise, all) = join(value);
        let future = Arc::new(all.interruptible());
        let interrupted = Arc::clone(&future);
        let interrupts = thread::spawn(move || interrupted.interrupt("stop"));
        future.wait_ref();
        go.send(()).unwrap();
        interrupts.join().unwrap();
        drop(promise);
    });
}

#[test]
fn a_join_of_joins_fails_at_once() {
    in_time("a zip of zips", || {
        let (go, value) = slow();
        let ((slow, one), (kept, two)) = (Promise::new(), Promise::<u32>::new());
        let (failing, other) = Promise::<u32>::new();
        let all = one.zip(two).zip(other);
        slow.set(value);
        let failing = thread::spawn(move || failing.fail(Failure::message("cut")));
        assert_eq!(kind(all.wait()), FailureKind::Error);
        go.send(()).unwrap();
        failing.join().unwrap();
        drop(kept);
    });
}

#[test]
fn a_window_fails_at_once() {
    in_time("a window", || {
        let ((go, value), (also, held)) = (slow(), slow());
        let (failing, other) = Promise::<Slow>::new();
        let mut futures = vec![Future::ready(value), other].into_iter();
        let all = window(0..2, 2, move |_| {
            let _held = &held;
            futures.next().unwrap()
        });
        let failing = thread::spawn(move || failing.fail(Failure::message("cut")));
        assert_eq!(kind(all.wait()), FailureKind::Error);
        go.send(()).unwrap();
        also.send(()).unwrap();
        failing.join().unwrap();
    });
}

#[test]
fn a_race_is_over_before_the_losers_go() {
    in_time("a race", || {
        let (go, value) = slow();
        let (promise, loses) = join(value);
        let (win, winner) = Promise::new();
        let race = first([loses, winner]);
        let wins = thread::spawn(move || win.set(Vec::new()));
        assert!(race.wait().unwrap().is_empty());
        go.send(()).unwrap();
        wins.join().unwrap();
        drop(promise);
    });
}

/// A fallback that is on its way, and one that is done.
#[test]
fn a_value_comes_before_the_fallback_goes() {
    for done in [false, true] {
        in_time("a fallback", move || {
            let (go, value) = slow();
            let (promise, fallback) = join(value);
            let fallback = if done {
                let (go, also) = slow();
                promise.set(also);
                // That one may go.
                drop(go);
                fallback
            } else {
                std::mem::forget(promise);
                fallback
            };
            let (source, future) = Promise::new();
            let either = future.or(fallback);
            let sets = thread::spawn(move || source.set(Vec::new()));
            assert!(either.wait().unwrap().is_empty());
            go.send(()).unwrap();
            sets.join().unwrap();
        });
    }
}

// --- tasks that have not started ---

/// A name, and how a task is kept from starting.
type End<T> = (&'static str, fn(&Future<T>));

fn ends<T>() -> [End<T>; 2] {
    let kill = |future: &Future<T>| {
        future.kill();
    };
    [("a kill", kill), ("an interrupt", |future| future.interrupt("stop"))]
}

#[test]
fn a_task_has_failed_before_its_closure_goes() {
    for (name, end) in ends() {
        in_time(name, move || {
            let ((pool, free), (go, value)) = (busy(), slow());
            let future = Arc::new(pool.spawn(move || drop(value)));
            let ended = Arc::clone(&future);
            let ends = thread::spawn(move || end(&ended));
            // Not by a wait, which might run it.
            while !future.is_done() {
                thread::yield_now();
            }
            go.send(()).unwrap();
            ends.join().unwrap();
            drop(free);
        });
    }
}

// --- what follows waits for what goes ---

/// Waits until the promise is gone.
fn until_gone<T: Send + 'static>(after: Future<T>, gone: Future<()>) -> Future<T> {
    after.map_result(move |result| {
        assert_eq!(kind(gone.wait()), FailureKind::Broken);
        result
    })
}

#[test]
fn what_follows_a_task_waits_for_what_its_closure_holds() {
    for (name, end) in ends() {
        in_time(name, move || {
            let ((pool, free), (held, gone)) = (busy(), Promise::<()>::new());
            let (_promise, other) = Promise::<u32>::new();
            let task = until_gone(pool.spawn(move || held.set(())), gone);
            let (tell, told) = mpsc::channel();
            let both = other.zip(task.ensure(move || tell.send(()).unwrap()));
            end(&both);
            told.recv().unwrap();
            drop(free);
        });
    }
}

#[test]
fn what_follows_waits_for_what_is_let_go() {
    type Value = Option<Promise<()>>;
    type Make = (&'static str, fn(Future<Vec<Value>>, Future<Vec<Value>>) -> Future<Vec<Value>>);
    let makes: [Make; 4] = [
        ("within", |all, _| all.within(SOON)),
        ("first", |all, other| first([all, other])),
        ("or", |all, other| other.or(all)),
        ("collect", |all, other| {
            collect([all, other]).map(|all| all.into_iter().flatten().collect())
        }),
    ];
    for (name, make) in makes {
        in_time(name, move || {
            let (held, gone) = Promise::new();
            let (_promise, all) = join(Some(held));
            let (ends, other) = Promise::new();
            let future = until_gone(make(all, other), gone);
            match name {
                "collect" => ends.fail(Failure::message("cut")),
                _ => ends.set(Vec::new()),
            }
            assert_eq!(future.wait().is_ok(), ["first", "or"].contains(&name), "{name}");
        });
    }
}
