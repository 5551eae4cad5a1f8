//! Delays and time limits, many of them.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{FailureKind, Future, Promise, collect, first, spawn, while_do};

const LONG: Duration = Duration::from_secs(3600);

/// Counts those that live.
struct Live(Arc<AtomicUsize>);

impl Live {
    fn new(count: &Arc<AtomicUsize>) -> Live {
        count.fetch_add(1, Ordering::SeqCst);
        Live(Arc::clone(count))
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// A million timeouts wait, one that is due meanwhile is not late for that, and they are cancelled.
#[test]
fn a_million_timeouts() {
    let start = Instant::now();
    let delays: Vec<_> = (0..1_000_000_u64)
        .map(|n| Future::delay(LONG + Duration::from_micros(n * 7919 % 1_000_000)))
        .collect();
    let due = Instant::now();
    Future::delay(Duration::from_millis(5)).wait().unwrap();
    assert!(due.elapsed() >= Duration::from_millis(5));
    // Late by a moment, as it may be on a machine that others use, and not by the hour of the others.
    assert!(due.elapsed() < Duration::from_secs(60), "late by {:?}", due.elapsed());
    drop(delays);
    // Seconds, and on a slow machine a minute; what looks through all of them for each takes hours.
    assert!(start.elapsed() < Duration::from_secs(600), "{:?}", start.elapsed());
}

#[test]
fn delays_end_in_order() {
    const CHILD: &str = "RADDLE_TEST_ALONE";
    if std::env::var_os(CHILD).is_none() {
        // Alone in its process: where continuations of another test block all threads that timers may have, what follows a delay
        // is handed to a pool, which knows no order.
        let child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "delays_end_in_order"])
            .env(CHILD, "1")
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&child.stdout);
        return assert!(child.status.success() && said.contains("1 passed"), "{said}");
    }
    loop {
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let made = Instant::now();
        let delays: Vec<_> = [40_u64, 10, 30, 20]
            .map(|ms| {
                let order = Arc::clone(&order);
                let delay = Future::delay(Duration::from_millis(ms));
                delay.map(move |()| order.lock().unwrap().push(ms))
            })
            .into();
        // They are due 10 ms apart if all were made at once: again if this thread lost its processor meanwhile.
        let in_time = made.elapsed() < Duration::from_millis(8);
        collect(delays).wait().unwrap();
        if in_time {
            assert_eq!(*order.lock().unwrap(), [10, 20, 30, 40]);
            return;
        }
    }
}

/// What a continuation of a delay holds goes with the delay.
#[test]
fn a_delay_that_is_dropped_or_interrupted_is_gone() {
    let count = Arc::new(AtomicUsize::new(0));
    let live = || {
        let live = Live::new(&count);
        move |()| drop(live)
    };
    let delay = Future::delay(LONG).map(live());
    delay.interrupt("enough");
    assert_eq!(delay.wait().unwrap_err().kind(), FailureKind::Interrupted);
    drop(Future::delay(LONG));
    let loser = first([Future::delay(LONG), Future::delay(Duration::ZERO)]).map(live());
    loser.wait().unwrap();
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn a_limit_is_cancelled_by_the_result() {
    let count = Arc::new(AtomicUsize::new(0));
    for interrupting in [false, true] {
        let (promise, future) = Promise::new();
        let future = if interrupting { future.interrupt_after(LONG) } else { future.within(LONG) };
        let live = Live::new(&count);
        let future = future.map(move |n: u32| {
            drop(live);
            n
        });
        promise.set(1);
        assert_eq!(future.wait().unwrap(), 1);
    }
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

/// Results against limits at the same moment, many times: always one of the two.
#[test]
fn results_race_limits() {
    for n in 0..300_u64 {
        let (promise, future) = Promise::new();
        let limit = Duration::from_micros(n % 50 * 10);
        let future = if n % 2 == 0 { future.within(limit) } else { future.interrupt_after(limit) };
        let setter = thread::spawn(move || promise.set(n));
        match future.wait() {
            Ok(value) => assert_eq!(value, n),
            Err(failure) => assert_eq!(failure.kind(), FailureKind::TimedOut),
        }
        setter.join().unwrap();
    }
}

/// A panic in a continuation leaves the timer's thread alone.
#[test]
fn the_timer_survives_panics() {
    let torn = Future::delay(Duration::from_millis(1)).map(|()| panic!("torn"));
    assert_eq!(torn.wait().unwrap_err().kind(), FailureKind::Panicked);
    Future::delay(Duration::from_millis(1)).wait().unwrap();
}

/// Each waits on the timer's thread: for a timer, for what a later continuation sets, and for a task. More of them than the timer
/// may have threads.
#[test]
fn continuations_of_timers_that_wait() {
    const COUNT: u64 = 400;
    let (sender, result) = mpsc::channel();
    let (promise, last) = Promise::new();
    drop(last.on_complete(move |result| sender.send(result.clone().unwrap()).unwrap()));
    let mut promise = promise;
    for n in 0..COUNT {
        let (next, set_later) = Promise::<u64>::new();
        drop(Future::delay(Duration::from_millis(1)).map(move |()| {
            let (_never, answer) = Promise::<()>::new();
            assert!(answer.within(Duration::from_millis(1)).wait().is_err());
            let sum = set_later.wait().unwrap();
            promise.set(spawn(move || sum + n).wait().unwrap());
        }));
        promise = next;
    }
    drop(Future::delay(Duration::from_millis(2)).map(move |()| promise.set(0)));
    let sum = result.recv_timeout(Duration::from_secs(60)).expect("no timer fires any more");
    assert_eq!(sum, COUNT * (COUNT - 1) / 2);
}

#[test]
fn a_time_beyond_all_clocks_never_comes() {
    assert!(Future::delay(Duration::MAX).wait_timeout(Duration::from_millis(5)).is_err());
    let interrupted = |future: Future<()>| {
        future.interrupt("stop");
        future.wait_timeout(Duration::from_secs(60)).expect("an interrupt ends it")
    };
    let failure = interrupted(Future::delay(Duration::MAX)).unwrap_err();
    assert_eq!(failure.to_string(), "interrupted: stop");
    let failure = interrupted(Future::ready(()).delayed(Duration::MAX)).unwrap_err();
    assert_eq!(failure.to_string(), "interrupted: stop");
    assert_eq!(Future::ready(1).within(Duration::MAX).wait().unwrap(), 1);
    let (promise, future) = Promise::new();
    let future = future.interrupt_after(Duration::MAX);
    promise.set(2);
    assert_eq!(future.wait().unwrap(), 2);
}

/// No turn follows at once on one whose delay was interrupted: an endless loop would never come back.
#[test]
fn an_interrupt_ends_an_endless_loop_of_delayed_turns() {
    let turns: [fn() -> Future<()>; 3] =
        [|| Future::ready(()), || spawn(|| ()), || spawn(|| ()).masked()];
    for turn in turns {
        let calls = Arc::new(AtomicUsize::new(0));
        let counts = Arc::clone(&calls);
        let heart = while_do(
            || true,
            move || {
                counts.fetch_add(1, Ordering::SeqCst);
                turn().delayed(LONG)
            },
        );
        heart.interrupt("stop");
        let failure = heart.wait_timeout(Duration::from_secs(60)).expect("it ends").unwrap_err();
        assert_eq!(failure.to_string(), "interrupted: stop");
        assert_eq!(calls.load(Ordering::SeqCst), 1);
    }
}

#[test]
fn what_is_delayed_says_why_itself_if_it_is_interrupted() {
    let (promise, work) = Promise::<u32>::new();
    let delayed = work.delayed(LONG);
    delayed.interrupt("stop");
    assert!(!delayed.is_done());
    promise.fail("cleaned up");
    let failure = delayed.wait_timeout(Duration::from_secs(60)).expect("it ends").unwrap_err();
    assert_eq!(failure.to_string(), "cleaned up");
}
