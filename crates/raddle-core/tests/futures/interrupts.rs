//! The way of interrupts.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use raddle_core::{
    Failure, FailureKind, Future, Interrupt, Killed, Pool, Promise, collect, collect_results,
    first, interrupted, join_all, scope_local, select, tail_loop, traverse,
};

use crate::support::{Bomb, Counted, blow, kind};

scope_local! { static WHO: &'static str; }

fn text(signal: Option<Interrupt>) -> Option<String> {
    signal.map(|signal| signal.to_string())
}

pub(crate) type Op = fn(Future<u32>) -> Future<u32>;

pub(crate) const OPS: &[(&str, Op)] = &[
    ("map", |f| f.map(|n| n)),
    ("and_then", |f| f.and_then(Ok::<_, Failure>)),
    ("flat_map", |f| f.flat_map(Future::ready)),
    ("flatten", |f| f.map(Future::ready).flatten()),
    ("filter", |f| f.filter(|_| true)),
    ("transform", |f| f.transform(Future::from_result)),
    ("map_result", |f| f.map_result(|r| r)),
    ("recover", |f| f.recover(Err)),
    ("rescue", |f| f.rescue(Future::failed)),
    ("or", |f| f.or(Future::ready(1))),
    ("map_failure", |f| f.map_failure(|e| e)),
    ("lift", |f| f.lift().lower()),
    ("on_success", |f| f.on_success(|_| ())),
    ("on_failure", |f| f.on_failure(|_| ())),
    ("on_complete", |f| f.on_complete(|_| ())),
    ("ensure", |f| f.ensure(|| ())),
    ("zip", |f| f.zip(Future::ready(1)).map(|(n, _)| n)),
    ("zip_with", |f| Future::<u32>::never().zip_with(f, |a, b| a + b)),
    ("collect", |f| collect([Future::never(), f]).map(|all| all[0])),
    ("collect_results", |f| collect_results([f]).map(|_| 1)),
    ("join_all", |f| join_all([f, Future::never()]).map(|()| 1)),
    ("traverse", |f| traverse([f], |f| f).map(|all| all[0])),
    ("first", |f| first([Future::never(), f])),
    ("select", |f| select([f, Future::never()]).and_then(|(winner, ..)| winner)),
    ("shared", |f| f.shared().future()),
    ("within", |f| f.within(Duration::from_secs(3600))),
    ("interrupt_after", |f| f.interrupt_after(Duration::from_secs(3600))),
    // An interrupt ends the delay; if its time came just then, it would be the timer's thread that goes on.
    ("delayed", |f| f.delayed(Duration::from_secs(3600))),
    ("link", |f| {
        let (promise, future) = Promise::new();
        promise.link(f);
        future
    }),
    ("flat_map to it", |f| {
        let (promise, future) = Promise::new();
        let next = future.flat_map(move |()| f);
        promise.set(());
        next
    }),
    ("flat_map to it, from ready", |f| Future::ready(()).flat_map(move |()| f)),
    ("tail_loop", |f| {
        let mut once = Some(f);
        tail_loop((), move |()| once.take().unwrap().map(std::ops::ControlFlow::<u32, ()>::Break))
    }),
];

#[test]
fn an_interrupt_goes_through_every_operation() {
    for (name, op) in OPS {
        let (promise, future) = Promise::new();
        let next = op(future);
        next.interrupt("stop");
        assert_eq!(text(promise.interrupted()).as_deref(), Some("stop"), "{name}");
        assert!(!next.is_done(), "{name}: to interrupt is not to complete");
    }
}

#[test]
fn an_interrupt_goes_through_every_two_operations_to_a_handler() {
    for (one, op) in OPS {
        for (two, other) in OPS {
            let (heard, hears) = mpsc::channel();
            let (promise, future) = Promise::with_interrupt(move |why| heard.send(why).unwrap());
            let next = other(op(future));
            next.interrupt("first");
            next.interrupt("second");
            let all: Vec<_> = hears.try_iter().map(|why| why.to_string()).collect();
            assert_eq!(all, ["first", "second"], "{one}, {two}");
            assert_eq!(text(promise.interrupted()).as_deref(), Some("second"), "{one}, {two}");
        }
    }
}

#[test]
fn a_masked_future_lets_none_through() {
    for (name, op) in OPS {
        let (promise, future) = Promise::new();
        let next = op(future.masked());
        next.interrupt("stop");
        assert!(promise.interrupted().is_none(), "{name}");
        let (promise, future) = Promise::new();
        let next = op(future).masked();
        next.interrupt("stop");
        assert!(promise.interrupted().is_none(), "{name}");
    }
}

#[test]
fn an_interruptible_future_fails_at_once() {
    for (name, op) in OPS {
        let (promise, future) = Promise::<u32>::new();
        let next = op(future).interruptible().map(|n| n + 1);
        next.interrupt("enough");
        let failure = next.wait().unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Interrupted, "{name}");
        assert_eq!(failure.to_string(), "interrupted: enough", "{name}");
        assert!(promise.interrupted().is_none(), "{name}");
        promise.set(1);
    }
}

/// Raised before `flat_map` knows its inner future: remembered, and delivered to that.
#[test]
fn an_early_interrupt_reaches_the_inner_future() {
    for (name, op) in OPS {
        let (outer, future) = Promise::<()>::new();
        let (inner, source) = Promise::<u32>::new();
        let source = Mutex::new(Some(op(source)));
        let next = future.flat_map(move |()| source.lock().unwrap().take().unwrap());
        next.interrupt("early");
        assert_eq!(text(outer.interrupted()).as_deref(), Some("early"), "{name}");
        assert!(inner.interrupted().is_none(), "{name}");
        outer.set(());
        assert_eq!(text(inner.interrupted()).as_deref(), Some("early"), "{name}");
        next.interrupt("late");
        assert_eq!(text(inner.interrupted()).as_deref(), Some("late"), "{name}");
    }
}

#[test]
fn the_latest_early_interrupt_wins() {
    let (outer, future) = Promise::<()>::new();
    let heard = Arc::new(Mutex::new(vec![]));
    let hears = Arc::clone(&heard);
    let (inner, source) = Promise::<u32>::with_interrupt(move |why| {
        hears.lock().unwrap().push(why.to_string());
    });
    let next = future.flat_map(move |()| source);
    next.interrupt("one");
    next.interrupt("two");
    outer.set(());
    assert_eq!(*heard.lock().unwrap(), ["two"]);
    drop(inner);
    next.interrupt("three");
    assert_eq!(heard.lock().unwrap().len(), 1, "not after it is done");
}

#[test]
fn an_early_interrupt_follows_a_recursion() {
    fn down(mut futures: Vec<Future<()>>) -> Future<()> {
        match futures.pop() {
            Some(future) => future.flat_map(move |()| down(futures)),
            None => Future::ready(()),
        }
    }
    let (promises, futures): (Vec<_>, Vec<_>) = (0..100).map(|_| Promise::new()).unzip();
    let last = down(futures).map(|()| ());
    for (n, promise) in promises.into_iter().rev().enumerate() {
        if n > 0 {
            let before = (n - 1).to_string();
            assert_eq!(text(promise.interrupted()), Some(before), "the last one is passed on");
        }
        last.interrupt(n.to_string());
        assert_eq!(text(promise.interrupted()), Some(n.to_string()));
        promise.set(());
    }
    last.wait().unwrap();
}

/// A promise that was interrupted is linked: the signal goes on.
#[test]
fn an_early_interrupt_reaches_what_is_linked_later() {
    for (name, op) in OPS {
        let (outer, future) = Promise::<u32>::new();
        let (inner, source) = Promise::<u32>::new();
        let next = future.map(|n| n);
        next.interrupt("early");
        outer.link(op(source));
        assert_eq!(text(inner.interrupted()).as_deref(), Some("early"), "{name}");
        next.interrupt("late");
        assert_eq!(text(inner.interrupted()).as_deref(), Some("late"), "{name}");
    }
}

#[test]
fn an_interrupt_reaches_all_inputs() {
    type Combine = fn(Vec<Future<u32>>) -> Future<u32>;
    let all: [(&str, Combine); 6] = [
        ("collect", |f| collect(f).map(|all| all[0])),
        ("collect_results", |f| collect_results(f).map(|_| 1)),
        ("join_all", |f| join_all(f).map(|()| 1)),
        ("first", |f| first(f)),
        ("select", |f| select(f).map(|_| 1)),
        ("zips", |f| f.into_iter().reduce(|a, b| a.zip_with(b, |a, b| a + b)).unwrap()),
    ];
    for (name, combine) in all {
        for size in [1, 2, 3, 4, 17] {
            let (promises, futures): (Vec<_>, Vec<_>) = (0..size).map(|_| Promise::new()).unzip();
            let next = combine(futures);
            next.interrupt("stop");
            for promise in &promises {
                assert_eq!(text(promise.interrupted()).as_deref(), Some("stop"), "{name} {size}");
            }
        }
    }
}

#[test]
fn within_says_nothing_and_interrupt_after_does() {
    let (promise, future) = Promise::<u32>::new();
    let late = future.map(|n| n).within(Duration::from_millis(1));
    assert_eq!(kind(late.wait()), FailureKind::TimedOut);
    assert!(promise.interrupted().is_none());
    let (promise, future) = Promise::<u32>::new();
    let late = future.map(|n| n).interrupt_after(Duration::from_millis(1));
    assert_eq!(kind(late.wait()), FailureKind::TimedOut);
    assert_eq!(text(promise.interrupted()).as_deref(), Some("timed out"));
    // In time: neither.
    let (promise, future) = Promise::<u32>::new();
    let timely = future.interrupt_after(Duration::from_secs(3600));
    promise.set(3);
    assert_eq!(timely.wait().unwrap(), 3);
}

/// The race that a handler loses or wins is decided by the handler itself.
#[test]
fn a_handler_may_complete_its_own_promise() {
    let place = Arc::new(Mutex::new(None::<Promise<u32>>));
    let mine = Arc::clone(&place);
    let (promise, future) = Promise::with_interrupt(move |why| {
        if let Some(promise) = mine.lock().unwrap().take() {
            promise.fail(why);
        }
    });
    *place.lock().unwrap() = Some(promise);
    let next = future.map(|n| n + 1).flat_map(Future::ready);
    next.interrupt("stop");
    next.interrupt("again");
    assert_eq!(next.wait().unwrap_err().to_string(), "interrupted: stop");
}

#[test]
fn a_handler_that_completes_its_promise_and_panics_as_it_goes() {
    let dropped = Arc::new(AtomicUsize::new(0));
    for early in [true, false] {
        let bomb = Bomb::new(&dropped);
        let place = Arc::new(Mutex::new(None::<Promise<u32>>));
        let mine = Arc::clone(&place);
        let (promise, future) = Promise::with_interrupt(move |why| {
            let _bomb = &bomb;
            mine.lock().unwrap().take().unwrap().fail(why);
        });
        *place.lock().unwrap() = Some(promise);
        let (outer, outside) = Promise::<()>::new();
        let next = outside.flat_map(move |()| future).map(|n| n + 1);
        if early {
            next.interrupt("stop");
            outer.set(());
        } else {
            outer.set(());
            next.interrupt("stop");
        }
        assert_eq!(next.wait().unwrap_err().to_string(), "interrupted: stop");
        // The thread nests as before.
        let (promise, future) = Promise::new();
        let after = future.map(|n: u32| n);
        promise.set(1);
        assert!(after.is_done());
    }
    assert_eq!(dropped.load(Ordering::SeqCst), 2);
}

#[test]
fn a_handler_that_panics_is_called_again() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&calls);
    let (promise, future) = Promise::<u32>::with_interrupt(move |_| {
        counts.fetch_add(1, Ordering::SeqCst);
        blow()
    });
    future.interrupt("one");
    future.interrupt("two");
    assert_eq!(calls.load(Ordering::SeqCst), 2);
    promise.set(1);
    assert_eq!(future.wait().unwrap(), 1);
}

#[test]
fn a_handler_that_interrupts_is_not_called_within_itself() {
    let calls = Arc::new(Mutex::new(vec![]));
    let place = Arc::new(Mutex::new(None::<raddle_core::Shared<u32>>));
    let (mine, counts) = (Arc::clone(&place), Arc::clone(&calls));
    let (promise, future) = Promise::<u32>::with_interrupt(move |why| {
        let seen = {
            let mut seen = counts.lock().unwrap();
            seen.push(format!("{why} in"));
            seen.len()
        };
        let shared = mine.lock().unwrap().clone().unwrap();
        if seen < 5 {
            shared.future().interrupt(seen.to_string());
        }
        counts.lock().unwrap().push(format!("{why} out"));
    });
    let shared = future.shared();
    *place.lock().unwrap() = Some(shared.clone());
    shared.future().interrupt("0");
    assert_eq!(
        *calls.lock().unwrap(),
        ["0 in", "0 out", "1 in", "1 out", "3 in", "3 out"],
        "one after the other"
    );
    place.lock().unwrap().take();
    drop(promise);
}

#[test]
fn a_handler_sees_the_locals_of_who_made_the_promise() {
    let (heard, hears) = mpsc::channel();
    let (promise, future) = WHO
        .bind("maker")
        .run(|| Promise::<u32>::with_interrupt(move |_| heard.send(WHO.get()).unwrap()));
    WHO.bind("breaker").run(|| future.interrupt("stop"));
    assert_eq!(hears.recv().unwrap(), Some("maker"));
    drop(promise);
}

#[test]
fn handlers_are_dropped_with_their_promises() {
    let live = Arc::new(AtomicUsize::new(0));
    for case in 0..5 {
        let counted = Counted::new(&live);
        let (promise, future) = Promise::<u32>::with_interrupt(move |_| {
            let _counted = &counted;
        });
        match case {
            0 => {
                promise.set(1);
                drop(future);
            }
            1 => drop((promise, future)),
            2 => drop((future, promise)),
            3 => {
                let next = future.map(|n| n);
                next.interrupt("stop");
                promise.set(1);
                drop(next);
            }
            _ => {
                future.kill();
                drop(future);
                promise.set(1);
            }
        }
        assert_eq!(live.load(Ordering::SeqCst), 0, "case {case}");
    }
}

#[test]
fn an_interrupt_carries_its_cause() {
    let (promise, future) = Promise::<u32>::new();
    future.map(|n| n).interrupt(Failure::timed_out());
    let signal = promise.interrupted().unwrap();
    assert_eq!(signal.cause().unwrap().kind(), FailureKind::TimedOut);
}

#[test]
fn an_interrupt_with_a_payload_whose_drop_panics_strands_nobody() {
    let dropped = Arc::new(AtomicUsize::new(0));
    let (outer, future) = Promise::<()>::new();
    let (inner, source) = Promise::<u32>::new();
    let next = future.flat_map(move |()| source).map(|n| n + 1);
    let signal = Interrupt::from(Failure::panicked(Box::new(Bomb::new(&dropped))));
    next.interrupt(signal);
    outer.set(());
    inner.set(1);
    assert_eq!(next.wait().unwrap(), 2);
    assert_eq!(dropped.load(Ordering::SeqCst), 1);
    let (promise, future) = Promise::new();
    let after = future.map(|n: u32| n);
    promise.set(1);
    assert!(after.is_done());
}

// --- tasks ---

#[test]
fn a_task_that_has_not_started_never_does() {
    for (name, op) in OPS {
        let pool = Pool::new(1).unwrap();
        let (go, wait) = mpsc::channel::<()>();
        let (started, starts) = mpsc::channel();
        let busy = pool.spawn(move || {
            started.send(()).unwrap();
            wait.recv().unwrap();
        });
        starts.recv().unwrap();
        let ran = Arc::new(AtomicUsize::new(0));
        let runs = Arc::clone(&ran);
        let next = op(pool.spawn(move || {
            runs.fetch_add(1, Ordering::SeqCst);
            1
        }));
        next.interrupt("not needed");
        if *name != "or" && *name != "collect_results" && *name != "zip_with" {
            assert_eq!(next.wait().unwrap_err().to_string(), "interrupted: not needed", "{name}");
        }
        go.send(()).unwrap();
        busy.wait().unwrap();
        drop(pool);
        assert_eq!(ran.load(Ordering::SeqCst), 0, "{name}");
    }
}

#[test]
fn a_task_that_runs_can_ask() {
    for (name, op) in OPS {
        let pool = Pool::new(1).unwrap();
        let (started, starts) = mpsc::channel();
        let (done, over) = mpsc::channel();
        let next = op(pool.spawn(move || {
            started.send(()).unwrap();
            while !interrupted() {
                std::hint::spin_loop();
            }
            done.send(()).unwrap();
            1
        }));
        starts.recv().unwrap();
        next.interrupt("enough");
        over.recv().unwrap_or_else(|_| panic!("{name}"));
    }
}

// --- kills ---

#[test]
fn a_kill_interrupts_upstream_and_fails_here() {
    for (name, op) in OPS {
        let (promise, future) = Promise::<u32>::new();
        let next = op(future);
        assert_eq!(next.kill(), Killed::BeforeStart, "{name}");
        assert_eq!(next.kill(), Killed::TooLate, "{name}");
        assert!(next.is_done(), "{name}");
        let cause =
            promise.interrupted().unwrap_or_else(|| panic!("{name}")).cause().map(Failure::kind);
        assert_eq!(cause, Some(FailureKind::Killed), "{name}");
        assert_eq!(kind(next.wait()), FailureKind::Killed, "{name}");
        promise.set(1);
    }
}

#[test]
fn what_was_killed_is_not_called() {
    let called = Arc::new(AtomicUsize::new(0));
    let live = Arc::new(AtomicUsize::new(0));
    let (calls, counted) = (Arc::clone(&called), Counted::new(&live));
    let (promise, future) = Promise::<u32>::new();
    let next = future.map(move |n| {
        calls.fetch_add(usize::from(counted.alive()), Ordering::SeqCst);
        n
    });
    next.kill();
    let after = next.map(|n| n + 1);
    assert_eq!(kind(after.wait()), FailureKind::Killed);
    promise.set(1);
    assert_eq!(called.load(Ordering::SeqCst), 0);
    assert_eq!(live.load(Ordering::SeqCst), 0);
}
