//! Kills, masks and futures that are never done.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use raddle_core::{
    FailureKind, Future, Killed, Pool, Promise, collect, first, interrupted, killed, select, spawn,
    while_do,
};

use crate::interrupts::{OPS, Op};
use crate::support::{Account, Counted, in_time, kind, scaled};

/// Operations that interrupts do not pass.
const MASKS: &[(&str, Op)] = &[
    ("masked", |f| f.masked()),
    ("masked, map", |f| f.masked().map(|n| n)),
    ("map, masked, map", |f| f.map(|n| n).masked().map(|n| n)),
    ("masked, flat_map", |f| f.masked().flat_map(Future::ready)),
    ("flat_map, masked", |f| f.flat_map(Future::ready).masked()),
    ("masked, collect", |f| collect([f.masked()]).map(|all| all[0])),
    ("masked, shared", |f| f.masked().shared().future()),
    ("flat_map to it, masked", |f| Future::ready(()).flat_map(move |()| f.masked())),
    ("interruptible", |f| f.interruptible()),
    ("interruptible, map", |f| f.interruptible().map(|n| n)),
    ("map, interruptible", |f| f.map(|n| n).interruptible()),
    ("interruptible twice", |f| f.interruptible().interruptible()),
    ("link to masked", |f| {
        let (promise, future) = Promise::new();
        promise.link(f.masked());
        future
    }),
];

/// The others that take one future.
const MORE: &[(&str, Op)] = &[
    ("itself", |f| f),
    ("every second", |f| f.map(|n| n).flat_map(Future::ready).shared().future().map(|n| n)),
];

fn all() -> impl Iterator<Item = (&'static str, Op, bool)> {
    let open = OPS.iter().chain(MORE).map(|&(name, op)| (name, op, false));
    open.chain(MASKS.iter().map(|&(name, op)| (name, op, true)))
}

/// A pool of one that does something else, until told.
pub(crate) fn busy() -> (Pool, mpsc::Sender<()>) {
    let pool = Pool::new(1).unwrap();
    let (go, wait) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    drop(pool.spawn(move || {
        started.send(()).unwrap();
        let _ = wait.recv();
    }));
    starts.recv().unwrap();
    (pool, go)
}

#[test]
fn a_task_that_has_not_started() {
    for (name, op, _) in all() {
        let (pool, go) = busy();
        let ran = Arc::new(AtomicBool::new(false));
        let runs = Arc::clone(&ran);
        let next = op(pool.spawn(move || {
            runs.store(true, SeqCst);
            1
        }));
        assert_eq!(next.kill(), Killed::BeforeStart, "{name}");
        assert_eq!(next.kill(), Killed::TooLate, "{name}");
        assert_eq!(kind(next.wait()), FailureKind::Killed, "{name}");
        drop(go);
        drop(pool);
        assert!(!ran.load(SeqCst), "{name}");
    }
}

/// What a task saw: whether it was interrupted, and killed.
fn running(pool: &Pool) -> (Future<u32>, mpsc::Sender<()>, mpsc::Receiver<(bool, bool)>) {
    let (started, starts) = mpsc::channel();
    let (ask, asked) = mpsc::channel::<()>();
    let (answer, answers) = mpsc::channel();
    let task = pool.spawn(move || {
        started.send(()).unwrap();
        let _ = asked.recv();
        answer.send((interrupted(), killed())).unwrap();
        1
    });
    starts.recv().unwrap();
    (task, ask, answers)
}

#[test]
fn a_task_that_runs() {
    for (name, op, masked) in all() {
        let pool = Pool::new(1).unwrap();
        let (task, ask, answers) = running(&pool);
        let next = op(task);
        assert_eq!(next.kill(), Killed::WhileRunning, "{name}");
        assert_eq!(kind(next.wait()), FailureKind::Killed, "{name}");
        drop(ask);
        assert_eq!(answers.recv().map(|(_, killed)| killed), Ok(true), "{name}");

        let (task, ask, answers) = running(&pool);
        let next = op(task);
        next.interrupt("stop");
        drop(ask);
        assert_eq!(answers.recv().unwrap(), (!masked, false), "{name}");
    }
}

#[test]
fn a_task_that_is_done() {
    for (name, op, _) in all() {
        if ["delayed", "zip_with", "collect", "join_all"].contains(&name) {
            // It waits for something else as well.
            continue;
        }
        for kill in [false, true] {
            let (promise, future) = Promise::new();
            promise.set(1);
            let next = op(future);
            match kill {
                true => assert_eq!(next.kill(), Killed::TooLate, "{name}"),
                false => next.interrupt("stop"),
            }
            assert!(next.wait().is_ok(), "{name}");
        }
    }
}

/// A promise, its handler, and what is made of its future.
#[test]
fn a_promise_hears_of_kills_through_masks() {
    for (name, op, masked) in all() {
        for handler in [false, true] {
            let (hear, hears) = mpsc::channel();
            let (promise, future) = match handler {
                true => Promise::with_interrupt(move |why| hear.send(why).unwrap()),
                false => Promise::new(),
            };
            let next = op(future);
            next.interrupt("stop");
            assert_eq!(promise.interrupted().is_none(), masked, "{name}");
            if next.is_done() {
                // `interruptible`: let go.
                continue;
            }
            next.kill();
            let why = promise.interrupted().unwrap_or_else(|| panic!("{name}"));
            assert_eq!(why.cause().map(|why| why.kind()), Some(FailureKind::Killed), "{name}");
            assert_eq!(
                hears.try_iter().count(),
                usize::from(handler) * (2 - usize::from(masked)),
                "{name}"
            );
            promise.set(1);
        }
    }
}

/// A kill finds the closure of `flat_map` running, which returns a task that runs.
#[test]
fn a_kill_while_a_closure_runs_goes_on_to_what_it_returns() {
    type Then = fn(Future<u32>) -> Future<u32>;
    let afters: [(&str, Then); 5] = [
        ("itself", |f| f),
        ("map", |f| f.map(|n| n)),
        ("masked", |f| f.masked()),
        ("masked map", |f| f.masked().map(|n| n)),
        ("flat_map", |f| f.flat_map(Future::ready)),
    ];
    for (name, after) in afters {
        let pool = Pool::new(1).unwrap();
        let (task, ask, answers) = running(&pool);
        let (promise, future) = Promise::<()>::new();
        let (started, starts) = mpsc::channel();
        let (go, wait) = mpsc::channel::<()>();
        let next = after(future.flat_map(move |()| {
            started.send(()).unwrap();
            let _ = wait.recv();
            task
        }));
        let setter = std::thread::spawn(move || promise.set(()));
        starts.recv().unwrap();
        next.kill();
        // It does not take the place of the kill.
        next.interrupt("late");
        drop(next);
        drop(go);
        setter.join().unwrap();
        drop(ask);
        assert_eq!(answers.recv().map(|(_, killed)| killed), Ok(true), "{name}");
    }
}

/// The fallback of `or` hears of it when its turn comes, or would have come.
#[test]
fn a_kill_goes_on_to_the_fallback() {
    for kill in [false, true] {
        let pool = Pool::new(1).unwrap();
        let (task, ask, answers) = running(&pool);
        let (promise, future) = Promise::<u32>::new();
        let either = future.or(task);
        match kill {
            true => assert_eq!(either.kill(), Killed::BeforeStart),
            false => either.interrupt("stop"),
        }
        promise.fail("no");
        drop(ask);
        assert_eq!(answers.recv().unwrap(), (!kill, kill));
        assert_eq!(either.wait().is_err(), kill);
    }
}

/// What an interrupt hurries, a kill ends: a loop would go on at once, and again.
#[test]
fn a_kill_ends_a_loop_whose_turns_are_delayed() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counts = Arc::clone(&calls);
    let go_on = move || counts.fetch_add(1, SeqCst) < 1000;
    let (promise, first) = Promise::<()>::new();
    let mut first = Some(first);
    let turns = while_do(go_on, move || match first.take() {
        Some(first) => first,
        None => Future::ready(()).delayed(Duration::from_secs(3600)),
    });
    promise.set(());
    assert_eq!(turns.kill(), Killed::BeforeStart);
    assert_eq!(calls.load(SeqCst), 2);
}

// --- never ---

type Becomes = fn(Future<u32>) -> Future<u32>;

/// Ways to become a future that is never done.
const BECOMES: &[(&str, Becomes)] = &[
    ("flat_map", |f| f.flat_map(|_| Future::never())),
    ("flat_map, map", |f| f.flat_map(|_| Future::never()).map(|n: u32| n + 1)),
    ("flat_map, flat_map, map", |f| {
        f.flat_map(|_| Future::never()).flat_map(Future::<u32>::ready).map(|n| n + 1)
    }),
    ("flat_map to it", |f| {
        Future::ready(1).map(|n| n + 1).flat_map(move |_| f.flat_map(|_| Future::never()))
    }),
    ("flat_map of a link", |f| {
        let (promise, future) = Promise::new();
        drop(f.map(move |_| promise.link(Future::never())));
        future.map(|n: u32| n)
    }),
    ("a link before", |f| {
        let (promise, future) = Promise::new();
        promise.link(f.flat_map(|_| Future::never()));
        future.map(|n: u32| n)
    }),
    ("a promise with a handler", |f| {
        let (promise, future) = Promise::with_interrupt(|_| ());
        drop(f.map(move |_| promise.link(Future::never())));
        future
    }),
];

type Use = fn(Future<u32>) -> Box<dyn Send>;

/// What may be done with it, before or after it has become that.
const USES: &[(&str, Use)] = &[
    ("kept", |f| Box::new(f)),
    ("map", |f| Box::new(f.map(|n| n))),
    ("flat_map", |f| Box::new(f.flat_map(Future::ready))),
    ("interrupted", |f| {
        f.interrupt("stop");
        Box::new(f)
    }),
    ("killed", |f| {
        f.kill();
        Box::new(f)
    }),
    ("waited for", |f| Box::new(f.wait_timeout(Duration::ZERO).map(|_| ()).unwrap_err())),
    ("select", |f| Box::new(select([f, Promise::new().1]))),
    ("collect", |f| Box::new(collect([f, Future::ready(1)]))),
    ("first", |f| Box::new(first([f, Future::never()]))),
    ("shared", |f| Box::new(f.shared())),
    ("a shared one of it", |f| Box::new(f.shared().future())),
    ("within", |f| Box::new(f.within(Duration::from_secs(3600)))),
    ("interruptible", |f| Box::new(f.interruptible())),
];

/// Whatever is made of it, and whenever it is dropped, nothing stays.
#[test]
fn what_becomes_never_leaves_nothing() {
    for &(becomes, make) in BECOMES {
        for &(used, uses) in USES {
            for order in ["use, set, drop", "set, use, drop", "use, drop, set"] {
                let account = Account::open();
                let round = || {
                    let live = Arc::new(Default::default());
                    let counted = Counted::new(&live);
                    let (promise, source) = Promise::new();
                    let future = make(source).map(move |n| n + u32::from(counted.alive()));
                    match order {
                        "use, set, drop" => {
                            let user = uses(future);
                            promise.set(1);
                            drop(user);
                        }
                        "set, use, drop" => {
                            promise.set(1);
                            drop(uses(future));
                        }
                        _ => {
                            drop(uses(future));
                            promise.set(1);
                        }
                    }
                    assert_eq!(live.load(SeqCst), 0, "{becomes}, {used}, {order}");
                };
                round();
                let before = account.live();
                for _ in 0..1_000 {
                    round();
                }
                let left = account.live() - before;
                assert!(left < 8_000, "{becomes}, {used}, {order}: {left} bytes of 1,000");
                Account::enter(None);
            }
        }
    }
}

#[test]
fn what_becomes_never_is_pending_until_it_is_killed() {
    for &(becomes, make) in BECOMES {
        let (promise, source) = Promise::new();
        let future = make(source);
        promise.set(1);
        assert!(!future.is_done(), "{becomes}");
        let future = future.wait_timeout(Duration::from_millis(1)).unwrap_err();
        assert_eq!(future.kill(), Killed::BeforeStart, "{becomes}");
        assert_eq!(future.kill(), Killed::TooLate, "{becomes}");
        assert_eq!(kind(future.wait()), FailureKind::Killed, "{becomes}");
    }
    let never = Future::<u32>::never();
    assert_eq!((never.kill(), never.kill()), (Killed::BeforeStart, Killed::TooLate));
    assert!(never.is_done());
    assert_eq!(kind(never.map(|n| n).wait()), FailureKind::Killed);
}

/// It becomes never just when somebody uses it.
#[test]
fn what_becomes_never_meanwhile() {
    in_time("never, meanwhile", || {
        for _ in 0..scaled(300) {
            for &(_, make) in BECOMES {
                for &(_, uses) in USES {
                    let (promise, source) = Promise::new();
                    let future = make(source);
                    let (sender, receiver) = mpsc::channel();
                    drop(spawn(move || {
                        promise.set(1);
                        sender.send(())
                    }));
                    drop(uses(future));
                    receiver.recv().unwrap();
                }
            }
        }
    });
}
