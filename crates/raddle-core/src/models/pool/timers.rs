//! Futures that the timer ends: while somebody sleeps for them, as others end them, and where the timer gets no thread.
//!
//! What these fail without: that a new first timeout is told; that nothing is done before its time; that the timer's thread has
//! another come before it blocks, and asks again where it was refused one; that whoever gets no timer hears of it.

use raddle_sync::time::Instant;

use super::*;
use crate::{Failure, FailureKind};

const SOON: Duration = Duration::from_millis(1);
const LATER: Duration = Duration::from_millis(20);

/// What an operation with a time limit may end with where the timer may be refused a thread.
fn is_over<T>(result: Result<T, Failure>, refused: bool) {
    if let Err(failure) = result {
        let kind = failure.kind();
        assert!(
            kind == FailureKind::TimedOut || refused && kind == FailureKind::Error,
            "{failure}"
        );
    }
}

#[test]
fn a_delay_that_ends_while_a_guest_sleeps() {
    check(|| pool(1).run(|_| Future::delay(SOON).wait().unwrap()));
}

/// Neither by what is queued nor by anybody else.
#[test]
fn a_limit_that_ends_while_a_task_sleeps() {
    check(|| {
        let waits = pool(1).spawn(|| Future::<()>::never().within(SOON).wait());
        let late = waits.wait().unwrap().unwrap_err();
        assert_eq!(late.kind(), FailureKind::TimedOut);
    });
}

/// Whoever comes last of the timer and the task lets the other's part go.
fn a_limit_against_a_task_in(pool: &Pool, refused: bool) {
    let (promise, future) = Promise::new();
    let sets = pool.spawn(move || promise.set(()));
    let waits = pool.spawn(move || future.within(SOON).wait());
    is_over(waits.wait().unwrap(), refused);
    sets.wait().unwrap();
}

#[test]
fn a_limit_against_the_task_that_sets_on_one_thread() {
    check(|| a_limit_against_a_task_in(&pool(1), false));
}

#[test]
fn a_limit_against_the_task_that_sets() {
    check(|| a_limit_against_a_task_in(&pool(2), false));
}

/// The sooner is set last, while the timer sleeps for the other. Neither comes before its time.
#[test]
fn two_delays_of_which_the_sooner_is_set_last() {
    check(|| {
        let since = Instant::now();
        let ends = |time| Future::delay(time).map(move |()| assert!(since.elapsed() >= time));
        let (later, sooner) = (ends(LATER), ends(SOON));
        sooner.wait().unwrap();
        later.wait().unwrap();
    });
}

/// A delay that is let go of as it ends.
#[test]
fn a_delay_that_is_interrupted_as_it_ends() {
    check(|| {
        let delay = Future::delay(SOON);
        delay.interrupt("enough");
        if let Err(failure) = delay.wait() {
            assert_eq!(failure.kind(), FailureKind::Interrupted);
        }
        drop(Future::delay(SOON));
    });
}

/// A continuation on the timer's thread waits for another delay: another thread comes in its place.
#[test]
fn a_delay_that_what_follows_another_waits_for() {
    check(|| {
        let later = Future::delay(LATER);
        Future::delay(SOON).map(|()| later.wait().unwrap()).wait().unwrap();
    });
}

/// Without the timer there is no limit, and the operation fails at once; the pool goes on.
#[test]
fn a_limit_whose_timer_is_refused_its_thread() {
    check(|| {
        let pool = pool(1);
        pool.spawn(|| ()).wait().unwrap();
        thread::refuse(100);
        let late = pool.run(|_| Future::<()>::never().within(SOON).wait().unwrap_err());
        assert_eq!(late.kind(), FailureKind::Error);
        thread::refuse(0);
        is_over(pool.run(|_| Future::<()>::never().within(SOON).wait()), false);
    });
}

#[test]
fn a_limit_against_the_task_that_sets_while_threads_are_refused() {
    check(|| {
        let pool = pool(1);
        thread::refuse(50);
        a_limit_against_a_task_in(&pool, true);
    });
}

/// The timer's thread is held up by what waits for another timeout, and the one to stand in for it is refused, for a while.
#[test]
fn a_delay_that_what_follows_another_waits_for_while_threads_are_refused() {
    check(|| {
        let later = Future::delay(LATER);
        thread::refuse(80);
        Future::delay(SOON).map(|()| later.wait().unwrap()).wait().unwrap();
    });
}
