//! What handlers of interrupts may wait for, and when they are called no more.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use raddle_core::{FailureKind, Future, Interrupt, Killed, Pool, Producer, Promise};

use crate::support::{in_time, kind};

/// A promise whose handler waits for this future.
fn waits_for(done: Future<()>) -> (Promise<u32>, Future<u32>) {
    let mut done = Some(done);
    Promise::with_interrupt(move |_| done.take().unwrap().wait().unwrap())
}

/// What follows may be what the handler waits for.
#[test]
fn a_time_limit_holds_whatever_a_handler_waits_for() {
    in_time("a handler that waits for what follows", || {
        let (follows, done) = Promise::new();
        let (promise, future) = waits_for(done);
        let late = future.interrupt_after(Duration::from_millis(1)).map_result(move |result| {
            follows.set(());
            result
        });
        assert_eq!(kind(late.wait()), FailureKind::TimedOut);
        assert_eq!(promise.interrupted().unwrap().to_string(), "timed out");
    });
}

/// How a signal is sent to all of them.
type Signal = (&'static str, fn(&Future<(u32, u32)>));

const SIGNALS: [Signal; 2] = [
    ("an interrupt", |both| both.interrupt("stop")),
    ("a kill", |both| {
        both.kill();
    }),
];

#[test]
fn a_handler_waits_for_what_a_later_one_does() {
    for (name, send) in SIGNALS {
        for waits_first in [true, false] {
            in_time(name, move || {
                let (done, is_done) = Promise::new();
                let (_one, one) = waits_for(is_done);
                let mut done = Some(done);
                let (_other, other) =
                    Promise::with_interrupt(move |_| done.take().unwrap().set(()));
                send(&if waits_first { one.zip(other) } else { other.zip(one) });
            });
        }
    }
}

/// The task has not been started, and the signal ends it.
#[test]
fn a_handler_waits_for_what_the_end_of_a_task_leads_to() {
    for (name, send) in SIGNALS {
        in_time(name, move || {
            let pool = Pool::new(1).unwrap();
            let (release, released) = mpsc::channel::<()>();
            let (started, start) = mpsc::channel();
            let busy = pool.spawn(move || {
                started.send(()).unwrap();
                released.recv().unwrap_err();
            });
            start.recv().unwrap();
            let (done, is_done) = Promise::new();
            let (_one, one) = waits_for(is_done);
            let task = pool.spawn(|| 1).map_result(move |result| {
                done.set(());
                result
            });
            send(&one.zip(task));
            drop(release);
            busy.wait().unwrap();
        });
    }
}

/// While a handler waits the task may have started: who kills is not told that it has not.
#[test]
fn what_a_kill_comes_to_while_a_handler_waits_is_not_known() {
    in_time("a kill", || {
        let (pool, (end, ends)) = (Pool::new(1).unwrap(), mpsc::channel::<()>());
        // No thread has a place for the task, nor gives one away.
        let busy = pool.spawn(move || _ = ends.recv());
        let (held, gone) = Promise::<()>::new();
        let mut gone = Some(gone);
        let (_one, one) = Promise::<u32>::with_interrupt(move |_| {
            // Another thread sees to the task meanwhile, and drops its closure.
            assert!(gone.take().unwrap().wait().is_err());
        });
        let task = pool.spawn(move || drop(held));
        assert_eq!(one.zip(task).kill(), Killed::WhileRunning);
        drop(end);
        busy.wait().unwrap();
    });
}

/// Calls `late` with what follows a promise, while a closure has its value.
fn while_a_closure_has_the_value(
    (promise, future): (Promise<u32>, Future<u32>),
    late: impl FnOnce(&Future<u32>),
) {
    let (begin, begun) = mpsc::channel();
    let (end, ends) = mpsc::channel::<()>();
    let next = future.map(move |n| {
        begin.send(()).unwrap();
        let _ = ends.recv();
        n
    });
    let sets = thread::spawn(move || promise.set(1));
    begun.recv().unwrap();
    late(&next);
    drop(end);
    sets.join().unwrap();
}

/// The promise has been completed, so it is not for its handler any more.
#[test]
fn an_interrupt_of_what_follows_a_promise_that_is_done() {
    let (hear, heard) = mpsc::channel();
    let made = Promise::with_interrupt(move |why| hear.send(why).unwrap());
    while_a_closure_has_the_value(made, |next| next.interrupt("late"));
    assert_eq!(heard.iter().count(), 0);
}

#[test]
fn a_kill_of_what_follows_a_promise_that_is_done() {
    struct Request(mpsc::Sender<()>);
    impl Producer for Request {
        fn interrupt(&mut self, _: Interrupt) {
            self.0.send(()).unwrap();
        }
        fn kill(&mut self) -> Killed {
            self.0.send(()).unwrap();
            Killed::WhileRunning
        }
    }
    let (hear, heard) = mpsc::channel();
    let made = Promise::with_producer(Request(hear));
    while_a_closure_has_the_value(made, |next| assert_eq!(next.kill(), Killed::BeforeStart));
    assert_eq!(heard.iter().count(), 0);
}
