//! Threads that wait for what they can bring about themselves.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{
    FailureKind, Future, Helper, Interrupt, Killed, Pool, Producer, Promise, collect,
};

use crate::support::{in_time, kind};

struct Silent;

impl Producer for Silent {
    fn interrupt(&mut self, _: Interrupt) {}

    fn kill(&mut self) -> Killed {
        Killed::TooLate
    }
}

/// What a thread that waits asks for help: it says which thread has called, and keeps the promise if it has it.
struct Helps(mpsc::Sender<thread::ThreadId>, Mutex<Option<Promise<u32>>>);

impl Helper for Helps {
    fn help(self: Arc<Helps>) {
        self.0.send(thread::current().id()).unwrap();
        let promise = self.1.lock().unwrap().take();
        if let Some(promise) = promise {
            promise.set(1);
        }
    }
}

/// A promise with a helper, its future, and a channel that says which threads have called that. If it `keeps` the promise, the helper has it.
fn helped(keeps: bool) -> (Option<Promise<u32>>, Future<u32>, mpsc::Receiver<thread::ThreadId>) {
    let (send, called) = mpsc::channel();
    let helps = Arc::new(Helps(send, Mutex::new(None)));
    let (promise, future) = Promise::with_helper(Silent, Arc::clone(&helps) as _);
    let mut promise = Some(promise);
    if keeps {
        *helps.1.lock().unwrap() = promise.take();
    }
    (promise, future, called)
}

#[test]
fn a_thread_that_waits_is_helped() {
    let me = thread::current().id();
    let (_, future, called) = helped(true);
    assert_eq!(future.wait().unwrap(), 1);
    assert_eq!(called.try_iter().collect::<Vec<_>>(), [me]);
    // What follows runs here, and may wait for the same.
    let (_, inner, called) = helped(true);
    let (_, outer, also) = helped(true);
    let sum = outer.map(move |n| n + inner.wait().unwrap());
    assert_eq!(sum.wait().unwrap(), 2);
    assert_eq!((called.recv().unwrap(), also.recv().unwrap()), (me, me));
}

/// Who helps returns when that promise is completed, which may be long after the wait is over.
#[test]
fn what_may_end_otherwise_is_not_helped() {
    in_time("helped with something else", || {
        // Fails with the second, whatever the first comes to.
        let (_first, first, called) = helped(false);
        let (second, failing) = Promise::new();
        let waits = thread::spawn(move || collect([first, failing]).wait());
        second.fail("at once");
        waits.join().unwrap().unwrap_err();
        assert_eq!(called.try_iter().count(), 0);

        // Is killed, while the other wants the first.
        let (_first, first, called) = helped(false);
        let shared = first.shared();
        let (mine, _other) = (Arc::new(shared.future()), shared.future());
        let waits = thread::spawn({
            let mine = Arc::clone(&mine);
            move || mine.wait_ref()
        });
        mine.kill();
        waits.join().unwrap();
        assert_eq!(called.try_iter().count(), 0);
    });
}

/// What follows does not run as whoever waits: what that holds is not its.
#[test]
fn what_is_completed_by_who_helps_holds_nothing() {
    let (_, future, _called) = helped(true);
    let me = raddle_sync::strand::current();
    let follows = future.map(move |_| raddle_sync::strand::current() != me);
    assert!(follows.wait().unwrap());
}

#[test]
fn help_may_be_of_no_use() {
    in_time("helped in vain", || {
        let (promise, future, called) = helped(false);
        let waits = thread::spawn(move || future.wait().unwrap());
        assert_eq!(called.recv().unwrap(), waits.thread().id());
        promise.unwrap().set(7);
        assert_eq!(waits.join().unwrap(), 7);
    });
}

/// It might take too long, or keep a worker from its work.
#[test]
fn who_has_a_limit_or_a_pool_is_not_helped() {
    let (_, future, called) = helped(true);
    let future = future.wait_timeout(Duration::from_millis(1)).unwrap_err();
    assert_eq!(called.try_iter().count(), 0);
    let late = future.within(Duration::from_millis(1));
    assert_eq!(kind(late.wait()), FailureKind::TimedOut);
    assert_eq!(called.try_iter().count(), 0);
    let pool = Pool::new(1).unwrap();
    let (promise, future, called) = helped(false);
    let waits = pool.spawn(move || future.wait().unwrap());
    promise.unwrap().set(3);
    assert_eq!(waits.wait().unwrap(), 3);
    assert_eq!(called.try_iter().count(), 0);
}
