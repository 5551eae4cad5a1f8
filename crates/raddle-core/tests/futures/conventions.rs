//! What Rust expects of futures, promises and failures.

use std::error::Error;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Duration;

use anyhow::Context;
use raddle_core::{
    Failure, FailureKind, Future, Interrupt, Killed, Pool, Producer, Promise, Retry, SharedPromise,
    StaticFailure, collect, collect_map, retry, scope_local, spawn, window,
};
use raddle_sync::parker;

use crate::support::{blow, in_time, kind};

#[derive(Debug, PartialEq)]
struct Torn(u64);

impl fmt::Display for Torn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "torn {} times", self.0)
    }
}

impl Error for Torn {}

/// No error itself, though it converts into one.
struct NotTorn(u64);

impl From<NotTorn> for Box<dyn Error + Send + Sync> {
    fn from(NotTorn(n): NotTorn) -> Self {
        Box::new(Torn(n))
    }
}

fn failed(f: impl FnOnce(Promise<()>)) -> Failure {
    let (promise, future) = Promise::new();
    f(promise);
    future.wait().unwrap_err()
}

#[test]
fn failures_are_made_of_whatever_converts_into_a_boxed_error() {
    let boxed: Box<dyn Error + Send + Sync> = Torn(1).into();
    let local = String::from("a text that goes");
    let failures = [
        (failed(|p| p.fail("no yarn")), "no yarn"),
        (failed(|p| p.fail(local.as_str())), "a text that goes"),
        (failed(|p| p.fail(String::from("no yarn"))), "no yarn"),
        (failed(|p| p.fail(Torn(1))), "torn 1 times"),
        (failed(|p| p.fail(NotTorn(1))), "torn 1 times"),
        (failed(|p| p.fail(boxed)), "torn 1 times"),
        (Future::<()>::failed("no yarn").wait().unwrap_err(), "no yarn"),
        (Future::<()>::from_result(Err("no yarn")).wait().unwrap_err(), "no yarn"),
        (Future::ready(1).and_then(|_| Err::<(), _>("no yarn")).wait().unwrap_err(), "no yarn"),
        (Future::ready(Err::<(), _>("no yarn")).lower().wait().unwrap_err(), "no yarn"),
        ("no yarn".into(), "no yarn"),
    ];
    for (failure, text) in failures {
        assert_eq!((failure.kind(), failure.to_string().as_str()), (FailureKind::Error, text));
        let source = Error::source(&failure).expect("it was made of an error");
        assert_eq!(source.to_string(), text);
    }
}

#[test]
fn a_failure_that_is_failed_with_stays_what_it_is() {
    let kept = [Failure::timed_out(), Failure::broken(), Failure::panicked(Box::new(7_u8))];
    for failure in kept {
        let before = failure.kind();
        assert_eq!(failed(|p| p.fail(failure.clone())).kind(), before);
        let boxed: Box<dyn Error + Send + Sync> = failure.clone().into();
        assert_eq!(failed(|p| p.fail(boxed)).kind(), before);
        assert_eq!(kind(Future::<()>::failed(failure).wait()), before);
    }
    let interrupt = failed(|p| p.fail(Interrupt::from("stop")));
    assert_eq!(
        (interrupt.kind(), interrupt.to_string().as_str()),
        (FailureKind::Interrupted, "interrupted: stop")
    );
}

#[test]
fn what_a_failure_was_made_of_is_found_again() {
    assert_eq!(failed(|p| p.fail(Torn(3))).downcast_ref(), Some(&Torn(3)));
    assert_eq!(failed(|p| p.fail(Torn(3))).downcast::<Torn>().unwrap(), Torn(3));
    assert_eq!(
        failed(|p| p.fail(Torn(3))).downcast::<u64>().unwrap_err().kind(),
        FailureKind::Error
    );
    // What is in the box is not of the type that was converted.
    assert!(failed(|p| p.fail(NotTorn(3))).downcast::<NotTorn>().is_err());
    let boxed: Box<dyn Error + Send + Sync> = Torn(3).into();
    let failure = failed(|p| p.fail(boxed));
    assert_eq!(failure.source().unwrap().downcast_ref(), Some(&Torn(3)));
    let boxed = failure.downcast::<Box<dyn Error + Send + Sync>>().unwrap();
    assert_eq!(*boxed.downcast::<Torn>().unwrap(), Torn(3));
    assert_eq!(Failure::panicked(Box::new(7_u8)).downcast::<u8>().unwrap(), 7);
}

#[test]
fn question_marks() {
    fn number(text: &str) -> Result<u32, Failure> {
        if text.is_empty() {
            return Err("nothing".into());
        }
        Ok(text.parse::<u32>()?)
    }
    fn boxed() -> Result<u32, Box<dyn Error + Send + Sync>> {
        Ok(Future::<u32>::failed(Failure::timed_out()).wait()?)
    }
    fn converts<E: Into<Failure>>() {}
    converts::<std::string::FromUtf16Error>();
    converts::<std::ffi::FromBytesWithNulError>();
    converts::<std::ffi::FromBytesUntilNulError>();
    converts::<std::ffi::FromVecWithNulError>();
    converts::<std::ffi::IntoStringError>();
    converts::<std::char::CharTryFromError>();
    converts::<std::char::DecodeUtf16Error>();
    converts::<std::char::TryFromCharError>();
    converts::<std::time::TryFromFloatSecsError>();
    converts::<std::path::StripPrefixError>();
    converts::<std::env::JoinPathsError>();
    converts::<std::collections::TryReserveError>();
    assert_eq!(number("12").unwrap(), 12);
    assert!(number("x").unwrap_err().downcast::<std::num::ParseIntError>().is_ok());
    assert_eq!(number("").unwrap_err().to_string(), "nothing");
    assert_eq!(boxed().unwrap_err().downcast::<Failure>().unwrap().kind(), FailureKind::TimedOut);
}

#[test]
fn errors_of_anyhow_go_in_and_come_out() {
    fn area() -> anyhow::Result<u32> {
        let length = spawn(|| 6).wait()?;
        let width = Future::ready("7").and_then(|text| text.parse::<u32>());
        Ok(length * width.wait().context("the width")?)
    }
    fn weft() -> anyhow::Result<u32> {
        Err(Torn(2)).context("the weft")
    }
    fn woven() -> anyhow::Result<u32> {
        Ok(spawn(weft).lower().wait()?)
    }
    assert_eq!(area().unwrap(), 42);
    // In, by all ways.
    let failures = [
        Failure::new(weft().unwrap_err()),
        failed(|p| p.fail(weft().unwrap_err())),
        Future::<()>::failed(weft().unwrap_err()).wait().unwrap_err(),
        Future::from_result(weft()).wait().unwrap_err(),
        Future::ready(()).and_then(|()| weft()).wait().unwrap_err(),
        spawn(weft).lower().wait().unwrap_err(),
    ];
    for failure in failures {
        assert_eq!(
            (failure.kind(), failure.to_string().as_str()),
            (FailureKind::Error, "the weft")
        );
        let cause = failure.source().and_then(Error::source).expect("what it is the context of");
        assert_eq!(cause.downcast_ref(), Some(&Torn(2)));
    }
    // And out.
    let error = woven().unwrap_err();
    assert_eq!(error.to_string(), "the weft");
    assert_eq!(error.downcast_ref::<Failure>().unwrap().kind(), FailureKind::Error);
    assert_eq!(error.root_cause().downcast_ref(), Some(&Torn(2)));
    let late = anyhow::Error::from(Failure::timed_out());
    assert_eq!(late.downcast::<Failure>().unwrap().kind(), FailureKind::TimedOut);
}

// --- drops and looks ---

#[test]
fn drops_detach_and_guards_interrupt() {
    let (promise, future) = Promise::<u32>::new();
    future.map(|n| n + 1).detach();
    assert!(promise.interrupted().is_none());
    let (promise, future) = Promise::<u32>::new();
    drop(future.map(|n| n + 1).cancel_on_drop());
    assert!(promise.interrupted().is_some());
    let (promise, future) = Promise::<u32>::new();
    future.cancel_on_drop().detach();
    assert!(promise.interrupted().is_none());
    let (promise, future) = Promise::<u32>::new();
    let guard = future.cancel_on_drop();
    assert!(!guard.is_done() && !guard.poll_now());
    promise.set(1);
    assert!(guard.is_done());
    assert_eq!(guard.wait().unwrap(), 1);
}

#[test]
fn several_threads_wait_without_consuming() {
    in_time("wait_ref", || {
        let (promise, future) = Promise::<u32>::new();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| future.wait_ref());
            }
            promise.set(3);
        });
        assert_eq!(future.wait().unwrap(), 3);
        let task = spawn(|| 4);
        task.wait_ref();
        task.wait_ref();
        assert_eq!(task.wait().unwrap(), 4);
        let (_promise, future) = Promise::<u32>::new();
        thread::scope(|scope| {
            let (tell, told) = mpsc::channel();
            for tell in [tell.clone(), tell] {
                let future = &future;
                scope.spawn(move || {
                    tell.send(parker::current()).unwrap();
                    future.wait_ref();
                });
            }
            // Both are seen to sleep: one until it is told, the other until it looks again.
            for parker in told.iter().take(2) {
                while !parker.is_parked() {
                    thread::yield_now();
                }
            }
            future.kill();
        });
        let never = Future::<u32>::never();
        thread::scope(|scope| {
            scope.spawn(|| never.wait_ref());
            never.kill();
        });
    });
}

// --- promises ---

#[test]
fn the_first_of_many_completes() {
    for _ in 0..100 {
        let (promise, future) = SharedPromise::new();
        let won = AtomicUsize::new(0);
        thread::scope(|scope| {
            for n in 0..3_usize {
                let (promise, won) = (promise.clone(), &won);
                scope.spawn(move || {
                    let first = match n {
                        0 => promise.try_fail("no"),
                        _ => promise.try_set(n),
                    };
                    won.fetch_add(usize::from(first), SeqCst);
                });
            }
        });
        assert_eq!(won.load(SeqCst), 1);
        assert!(promise.is_completed() && future.is_done());
    }
    let (promise, future) = SharedPromise::<u32>::new();
    drop((promise.clone(), promise));
    assert_eq!(kind(future.wait()), FailureKind::Broken);
    let (promise, future) = SharedPromise::<u32>::new();
    future.interrupt("stop");
    assert!(promise.interrupted().is_some());
    assert!(promise.try_link(Future::ready(1)));
    assert!(!promise.try_complete(Ok(2)));
    assert_eq!(future.wait().unwrap(), 1);
}

struct Remote(mpsc::Sender<String>, Killed);

impl Producer for Remote {
    fn interrupt(&mut self, why: Interrupt) {
        self.0.send(why.to_string()).unwrap();
    }

    fn kill(&mut self) -> Killed {
        self.0.send("kill".into()).unwrap();
        self.1
    }
}

#[test]
fn a_producer_answers() {
    for answer in [Killed::BeforeStart, Killed::WhileRunning] {
        let (send, heard) = mpsc::channel();
        let (promise, future) = Promise::<u32>::with_producer(Remote(send, answer));
        let future = future.map(|n| n + 1).masked().flat_map(Future::ready);
        future.interrupt("masked");
        assert_eq!(future.kill(), answer);
        assert_eq!(future.kill(), Killed::TooLate);
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["kill"]);
        drop(promise);
        let (send, heard) = mpsc::channel();
        let (promise, future) = Promise::<u32>::with_producer(Remote(send, answer));
        future.interrupt("stop");
        assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["stop"]);
        promise.set(1);
        assert_eq!(future.kill(), Killed::TooLate);
        assert!(heard.try_iter().next().is_none());
    }
}

#[test]
fn handlers_set_later() {
    let (promise, future) = Promise::<u32>::new();
    let next = future.map(|n| n);
    let (send, heard) = mpsc::channel();
    let handler = |name: &'static str| {
        let send = send.clone();
        move |why: Interrupt| send.send(format!("{name}: {why}")).unwrap()
    };
    promise.on_interrupt(handler("one"));
    next.interrupt("a");
    promise.on_interrupt(handler("two"));
    next.interrupt("b");
    assert_eq!(heard.try_iter().collect::<Vec<_>>(), ["one: a", "two: a", "two: b"]);
    drop(next);
    promise.on_interrupt(handler("three"));
    promise.set(1);
}

// --- many ---

scope_local! { static WHO: &'static str; }

#[test]
fn a_window_lets_so_many_through() {
    in_time("windows", || {
        for n in [1, 3, 100] {
            let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
            let (running, peak) = (Arc::clone(&now), Arc::clone(&most));
            let pool = Pool::new(4).unwrap();
            let all = WHO.bind("ada").run(|| {
                window(0..200_usize, n, move |i| {
                    assert_eq!(WHO.get(), Some("ada"));
                    peak.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    let running = Arc::clone(&running);
                    let task = pool.spawn(move || i * 2).ensure(move || {
                        running.fetch_sub(1, SeqCst);
                    });
                    if i % 7 == 0 { Future::ready(()).flat_map(move |()| task) } else { task }
                })
            });
            let all = all.wait().unwrap();
            assert!(all.into_iter().eq((0..200).map(|i| i * 2)), "{n}");
            assert!((1..=n).contains(&most.load(SeqCst)), "{n}");
        }
    });
    assert!(window(0..0, 1, |_| Future::<u32>::never()).wait().unwrap().is_empty());
    // Futures that are done: no recursion.
    assert_eq!(window(0..1_000_000, 2, Future::ready).wait().unwrap().len(), 1_000_000);
}

#[test]
fn a_window_ends_with_the_first_failure() {
    let called = Arc::new(AtomicUsize::new(0));
    let calls = Arc::clone(&called);
    let (promises, kept) = mpsc::channel();
    let all = window(0..100, 3, move |i| {
        calls.fetch_add(1, SeqCst);
        let (promise, future) = Promise::<u32>::new();
        promises.send((i, promise)).unwrap();
        future
    });
    let mut first: Vec<_> = kept.try_iter().collect();
    assert_eq!(first.len(), 3);
    all.interrupt("stop");
    assert!(first.iter().all(|(_, promise)| promise.interrupted().is_some()));
    first.remove(0).1.set(1);
    assert_eq!(called.load(SeqCst), 4);
    let (_, fourth) = kept.try_recv().unwrap();
    assert_eq!(fourth.interrupted().unwrap().to_string(), "stop", "it comes after the interrupt");
    first.remove(0).1.fail("torn");
    assert_eq!(all.wait().unwrap_err().to_string(), "torn");
    assert_eq!(called.load(SeqCst), 4);
    drop(first);
    assert_eq!(kind(window(0..3, 1, |_| blow::<Future<()>>()).wait()), FailureKind::Panicked);
    // Dropped, it lets go of all.
    let (promises, kept) = mpsc::channel();
    drop(window(0..100, 3, move |_| {
        let (promise, future) = Promise::<u32>::new();
        promises.send(promise).unwrap();
        future
    }));
    assert!(kept.iter().all(|promise| promise.is_abandoned()));
}

#[test]
fn maps_and_retries() {
    let map = collect_map([("a", spawn(|| 1)), ("b", Future::ready(2))]);
    let map: std::collections::HashMap<_, _> = map.wait().unwrap();
    assert_eq!((map["a"], map["b"]), (1, 2));
    let tries = Arc::new(AtomicUsize::new(0));
    let tried = Arc::clone(&tries);
    let result = retry(3, Duration::ZERO, move || {
        tried.fetch_add(1, SeqCst);
        Future::<u32>::failed("no")
    });
    assert_eq!(result.wait().unwrap_err().to_string(), "no");
    assert_eq!(tries.load(SeqCst), 3);
    let pausing = retry(2, Duration::from_secs(3600), || Future::<u32>::failed("no"));
    pausing.interrupt("stop");
    assert_eq!(kind(pausing.wait()), FailureKind::Interrupted);
    // Pauses that would be hours, and failures that are not worth one.
    let mut turns = 0;
    let capped = Retry::new(6, Duration::from_millis(1)).max_pause(Duration::from_millis(1));
    let result = capped.when(|failure| failure.to_string() != "4").run(move || {
        turns += 1;
        Future::<u32>::failed(turns.to_string())
    });
    assert_eq!(result.wait().unwrap_err().to_string(), "4");
    let capped = Retry::new(3, Duration::MAX).max_pause(Duration::ZERO);
    assert_eq!(capped.run(|| Future::<u32>::failed("no")).wait().unwrap_err().to_string(), "no");
    let shy = Retry::new(3, Duration::MAX).when(|_| blow());
    assert_eq!(kind(shy.run(|| Future::<u32>::failed("no")).wait()), FailureKind::Panicked);
}

/// A failure in a static is an error like others, that cannot be taken out, and whose clones are not counted.
#[test]
fn failures_in_statics() {
    static TORN: StaticFailure = StaticFailure::new(&std::fmt::Error);
    static BUSY: StaticFailure = StaticFailure::message("too busy");

    let (promise, future) = Promise::<u32>::new();
    promise.fail(TORN.failure());
    let failure = future.map(|n| n + 1).wait().unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Error);
    assert!(failure.downcast_ref::<std::fmt::Error>().is_some());
    assert!(failure.downcast_ref::<String>().is_none());
    assert!(failure.source().is_some_and(|error| error.is::<std::fmt::Error>()));
    let failure = failure.clone().downcast::<std::fmt::Error>().unwrap_err();
    assert_eq!(failure.to_string(), std::fmt::Error.to_string());
    assert_eq!(format!("{failure:?}"), "Failure(Error)");

    let futures = [Future::<u32>::failed(BUSY.failure()), Future::failed(BUSY.failure())];
    let failure = collect(futures).wait().unwrap_err();
    assert_eq!(failure.to_string(), "too busy");
    assert_eq!(format!("{failure:?}"), "Failure(too busy)");
    assert_eq!(failure.source().map(ToString::to_string).as_deref(), Some("too busy"));
    assert!(failure.downcast_ref::<&str>().is_none());
    let panic = std::panic::catch_unwind(|| failure.resume()).unwrap_err();
    assert_eq!(panic.downcast_ref::<String>().map(String::as_str), Some("too busy"));
}
