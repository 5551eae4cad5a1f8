//! Scope locals: who inherits what, and when values go.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc;
use std::thread;

use raddle_core::{
    FailureKind, Future, Pool, Promise, ScopeLocal, Snapshot, join, scope, scope_local, spawn,
    times,
};
use raddle_sync::parker;

scope_local! {
    static NAME: String;
    static NUMBER: u32;
    static OTHER: u32;
}

fn name() -> Option<String> {
    NAME.get()
}

/// A pool of one thread, and a guard for its being busy until that is dropped.
fn busy_pool() -> (Pool, mpsc::Sender<()>) {
    let pool = Pool::new(1).unwrap();
    let (release, released) = mpsc::channel::<()>();
    let (started, start) = mpsc::channel();
    drop(pool.spawn(move || {
        started.send(()).unwrap();
        released.recv().unwrap_err();
    }));
    start.recv().unwrap();
    (pool, release)
}

#[test]
fn bindings_hold_for_the_call() {
    assert_eq!((NUMBER.get(), NUMBER.is_bound()), (None, false));
    let seen = NUMBER.bind(1).run(|| {
        let inner = NUMBER.bind(2).bind_also(&NAME, "ada".into()).run(|| (NUMBER.get(), name()));
        (inner, NUMBER.get(), name())
    });
    assert_eq!(seen, ((Some(2), Some("ada".into())), Some(1), None));
    assert_eq!(NUMBER.get(), None);
    let text = String::from("grace");
    assert_eq!(
        NAME.bind_ref(&text).bind_ref_also(&NUMBER, &3).run(|| (name(), NUMBER.get())).1,
        Some(3)
    );
    assert_eq!(NUMBER.bind(1).bind_also(&NUMBER, 2).run(|| NUMBER.get()), Some(2));
    assert_eq!(NUMBER.try_with(|n| *n), None);
}

#[test]
fn reading_what_is_not_bound_says_what() {
    let panic = catch_unwind(|| OTHER.with(|n| *n)).unwrap_err();
    let text = panic.downcast_ref::<String>().unwrap();
    assert!(text.contains("`OTHER`") && text.contains("not bound"), "{text}");
}

#[test]
fn a_panic_ends_bindings() {
    NUMBER.bind(1).run(|| {
        let panic = catch_unwind(|| NUMBER.bind(2).run(|| panic!("within")));
        assert!(panic.is_err());
        assert_eq!(NUMBER.get(), Some(1));
        let snapshot = NUMBER.bind(3).run(Snapshot::capture);
        assert!(catch_unwind(AssertUnwindSafe(|| snapshot.run(|| panic!("within")))).is_err());
        assert_eq!(NUMBER.get(), Some(1));
    });
    assert_eq!(NUMBER.get(), None);
}

/// Whoever waits cannot run these: they are run by the other thread, as the barrier shows.
#[test]
fn stolen_forks_and_tasks_inherit_everything() {
    let pool = Pool::new(2).unwrap();
    let both = std::sync::Barrier::new(2);
    let meet = || {
        both.wait();
        (NUMBER.get(), name())
    };
    let expected = (Some(7), Some("ada".to_string()));
    let text = String::from("ada");
    NAME.bind_ref(&text).bind_also(&NUMBER, 7).run(|| {
        pool.run(|worker| {
            let (a, b) = worker.join(|_| meet(), |_| meet());
            assert_eq!((&a, &b), (&expected, &expected));
            let (a, b) = join(meet, meet);
            assert_eq!((&a, &b), (&expected, &expected));
            let (sender, seen) = mpsc::channel();
            scope(|s| {
                let (here, nested) = (sender.clone(), sender);
                s.spawn(move |_| here.send(meet()).unwrap());
                s.spawn(|s| s.spawn(move |_| nested.send(meet()).unwrap()));
            });
            assert!(seen.iter().eq([expected.clone(), expected.clone()]));
        });
    });
    assert_eq!(pool.run(|worker| worker.join(|_| NUMBER.get(), |_| name())), (None, None));
}

#[test]
fn detached_tasks_inherit_what_is_owned() {
    let pool = Pool::new(2).unwrap();
    let text = String::from("ada");
    let future = NAME.bind_ref(&text).bind_also(&NUMBER, 7).run(|| {
        pool.spawn(|| {
            let nested = spawn(|| (NUMBER.get(), name()));
            assert_eq!(nested.wait().unwrap(), (Some(7), None));
            (NUMBER.get(), name())
        })
    });
    assert_eq!(future.wait().unwrap(), (Some(7), None));
    let refused = NAME.bind_ref(&text).run(|| pool.spawn(|| NAME.with(String::len)));
    let failure = refused.wait().unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Panicked);
    assert!(failure.to_string().contains("`NAME`"), "{failure}");
}

#[test]
fn continuations_see_what_was_bound_when_they_were_attached() {
    let (promise, future) = Promise::new();
    let seen = || Vec::from([NUMBER.get(), OTHER.get()]);
    let future = NUMBER.bind(1).run(|| future.map(move |()| seen()));
    let future = NUMBER.bind(2).run(|| {
        future.flat_map(move |mut all: Vec<_>| {
            all.extend(seen());
            let (later, inner) = Promise::new();
            spawn(move || later.set(())).wait().unwrap();
            OTHER.bind(5).run(|| {
                inner.map(move |()| {
                    all.extend(seen());
                    all
                })
            })
        })
    });
    let future = future.and_then(move |mut all: Vec<_>| {
        all.extend(seen());
        Ok::<_, raddle_core::Failure>(all)
    });
    let future = OTHER.bind(3).run(|| {
        future.transform(move |all| {
            let mut all = all.unwrap();
            all.extend(seen());
            Future::ready(all)
        })
    });
    OTHER.bind(9).run(|| {
        promise.set(());
        assert_eq!(seen(), [None, Some(9)]);
    });
    let all = [Some(1), None, Some(2), None, Some(2), Some(5), None, None, None, Some(3)];
    assert_eq!(future.wait().unwrap(), all);
}

#[test]
fn handlers_and_moves_to_other_pools_inherit() {
    let pool = Pool::new(1).unwrap();
    let (sender, heard) = mpsc::channel();
    let (promise, future) = NUMBER
        .bind(4)
        .run(|| Promise::<u32>::with_interrupt(move |_| sender.send(NUMBER.get()).unwrap()));
    let moved = NUMBER.bind(5).run(|| future.on(&pool).map(|n| (n, NUMBER.get(), OTHER.get())));
    OTHER.bind(6).run(|| {
        moved.interrupt("enough");
        assert_eq!(heard.recv().unwrap(), Some(4));
        promise.set(1);
        assert_eq!(moved.wait().unwrap(), (1, Some(5), None));
    });
}

#[test]
fn threads_inherit_by_snapshots() {
    let text = String::from("ada");
    let snapshot = NAME.bind_ref(&text).bind_also(&NUMBER, 7).run(Snapshot::capture);
    thread::spawn(move || {
        OTHER.bind(1).run(|| {
            assert_eq!(snapshot.run(|| (NUMBER.get(), name(), OTHER.get())), (Some(7), None, None));
            assert_eq!((NUMBER.get(), OTHER.get()), (None, Some(1)));
            assert_eq!(Snapshot::default().run(|| OTHER.get()), None);
        });
    })
    .join()
    .unwrap();
}

/// Inheriting replaces: nothing of the thread that runs a task is seen by it.
#[test]
fn whoever_waits_keeps_his_bindings_to_himself() {
    let (pool, release) = busy_pool();
    pool.run(|_| {
        let plain = spawn(|| (NUMBER.get(), OTHER.get()));
        let bound = NUMBER.bind(1).run(|| spawn(|| (NUMBER.get(), OTHER.get())));
        let (promise, source) = Promise::new();
        let attached = source.map(|()| (NUMBER.get(), OTHER.get()));
        OTHER.bind(2).run(|| {
            // Run here: the only thread is busy.
            assert_eq!(plain.wait().unwrap(), (None, None));
            assert_eq!(bound.wait().unwrap(), (Some(1), None));
            promise.set(());
            assert_eq!(attached.wait().unwrap(), (None, None));
            assert_eq!((NUMBER.get(), OTHER.get()), (None, Some(2)));
        });
        // A task of nobody's, run by who waits for a scope.
        let (sender, seen) = mpsc::channel();
        scope(|s| {
            OTHER
                .bind(3)
                .run(|| s.spawn(move |_| sender.send((NUMBER.get(), OTHER.get())).unwrap()));
            NUMBER.bind(4).run(|| scope(|_| ()));
        });
        assert_eq!(seen.recv().unwrap(), (None, Some(3)));
        assert_eq!((NUMBER.get(), OTHER.get()), (None, None));
    });
    drop(release);
}

#[test]
fn queued_calls_run_in_their_callers_context() {
    let pool = Pool::new(1).unwrap();
    let (inside, entered) = mpsc::channel();
    let (caller, over) = (parker::current(), AtomicBool::new(false));
    let seen = thread::scope(|threads| {
        let (pool, over) = (&pool, &over);
        threads.spawn(move || {
            pool.run(|_| {
                inside.send(()).unwrap();
                // Has the only place until the other call has come, and was queued: or run, by a thread that had just been started
                // and was about to make way.
                while !caller.is_parked() && !over.load(Ordering::SeqCst) {
                    thread::yield_now();
                }
            })
        });
        entered.recv().unwrap();
        let text = String::from("ada");
        let seen = NAME
            .bind_ref(&text)
            .bind_also(&NUMBER, 8)
            .run(|| pool.run(|_| (thread::current().id(), NUMBER.get(), name())));
        over.store(true, Ordering::SeqCst);
        seen
    });
    assert_eq!((seen.1, seen.2), (Some(8), Some("ada".to_string())));
    assert_ne!(seen.0, thread::current().id());
}

#[test]
fn a_scopes_tasks_see_what_was_bound_where_they_were_spawned() {
    let seen = || (NUMBER.get(), OTHER.get(), name());
    let (outer, inner) = (String::from("outer"), String::from("inner"));
    let pool = Pool::new(2).unwrap();
    let (sender, receiver) = mpsc::channel();
    let tell = |which: usize| {
        let sender = sender.clone();
        move |_: &raddle_core::Scope<'_>| sender.send((which, seen())).unwrap()
    };
    pool.run(|_| {
        NUMBER.bind(1).bind_ref_also(&NAME, &outer).run(|| {
            scope(|s| {
                s.spawn(tell(0));
                // The same borrow, and it is the scope's as well.
                OTHER.bind(2).run(|| s.spawn(tell(1)));
                NUMBER.bind(3).run(|| {
                    s.spawn(|s| {
                        tell(2)(s);
                        s.spawn(tell(3));
                        OTHER.bind(4).run(|| s.spawn(tell(4)));
                        // Detached, so without the borrow.
                        let detached = spawn(move || (NUMBER.get(), OTHER.get(), name()));
                        assert_eq!(detached.wait().unwrap(), (Some(3), None, None));
                    })
                });
                // Another borrow may be over before the task is.
                NAME.bind_ref(&inner).run(|| s.spawn(tell(5)));
                NAME.bind("owned".into()).run(|| s.spawn(tell(6)));
                // A thread that sees nothing.
                thread::scope(|threads| {
                    threads.spawn(|| s.spawn(tell(7)));
                    threads.spawn(|| OTHER.bind(8).run(|| s.spawn(tell(8))));
                });
            })
        })
    });
    drop(sender);
    let mut all: Vec<_> = receiver.iter().collect();
    all.sort();
    let outer = Some("outer".to_string());
    let expected = [
        (Some(1), None, outer.clone()),
        (Some(1), Some(2), outer.clone()),
        (Some(3), None, outer.clone()),
        (Some(3), None, outer.clone()),
        (Some(3), Some(4), outer.clone()),
        (Some(1), None, None),
        (Some(1), None, Some("owned".to_string())),
        (None, None, None),
        (None, Some(8), None),
    ];
    assert!(all.into_iter().eq(expected.into_iter().enumerate()));
}

static MANY: [ScopeLocal<usize>; 64] = [const { ScopeLocal::new("MANY") }; 64];

/// More than have slots in frames.
#[test]
fn many_locals_are_inherited_like_few() {
    fn nested(i: usize, borrowed: &[usize], f: &mut dyn FnMut()) {
        match MANY.get(i) {
            None => f(),
            Some(key) if i % 3 == 0 => {
                key.bind_ref(&borrowed[i]).run(|| nested(i + 1, borrowed, f))
            }
            Some(key) => key.bind(i).run(|| nested(i + 1, borrowed, f)),
        }
    }
    let all = || MANY.iter().map(ScopeLocal::get).collect::<Vec<_>>();
    let here: Vec<_> = (0..64).map(Some).collect();
    let there: Vec<_> = (0..64).map(|i| (i % 3 != 0).then_some(i)).collect();
    let borrowed: Vec<usize> = (0..64).collect();
    let mut snapshot = None;
    nested(0, &borrowed, &mut || {
        assert_eq!(all(), here);
        assert_eq!(join(all, all), (here.clone(), here.clone()));
        assert_eq!(spawn(all).wait().unwrap(), there);
        let (promise, future) = Promise::new();
        let future = future.map(move |()| all());
        scope(|s| {
            MANY[62].bind(1).run(|| {
                s.spawn(|_| {
                    let mut here = here.clone();
                    here[62] = Some(1);
                    assert_eq!(all(), here);
                    promise.set(());
                })
            });
        });
        assert_eq!(future.wait().unwrap(), there);
        snapshot = Some(Snapshot::capture());
        MANY[3].bind(0).run(|| assert_eq!(MANY[3].get(), Some(0)));
        MANY[63].bind(0).run(|| assert_eq!(MANY[62].get(), Some(62)));
        assert_eq!(all(), here);
    });
    assert_eq!(all(), [None; 64]);
    let snapshot = snapshot.unwrap();
    assert_eq!(thread::spawn(move || snapshot.run(all)).join().unwrap(), there);
}

/// Counts those alive; looks at the locals when it goes.
#[derive(Debug)]
struct Witness {
    alive: &'static AtomicUsize,
    seen_by_drop: mpsc::Sender<(bool, Option<u32>, Option<u32>)>,
}

scope_local! {
    static WITNESS: Witness;
}

impl Drop for Witness {
    fn drop(&mut self) {
        // Its own binding has ended; binding and reading go as ever.
        let bound = NUMBER.bind(11).run(|| spawn(|| NUMBER.get()).wait().unwrap());
        self.seen_by_drop.send((WITNESS.is_bound(), OTHER.get(), bound)).unwrap();
        self.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

#[test]
fn values_go_when_nobody_inherits_them_any_more() {
    static ALIVE: AtomicUsize = AtomicUsize::new(0);
    let (sender, seen) = mpsc::channel();
    let witness = || {
        ALIVE.fetch_add(1, Ordering::Relaxed);
        Witness { alive: &ALIVE, seen_by_drop: sender.clone() }
    };
    let alive = || ALIVE.load(Ordering::Relaxed);
    let at_end = (false, Some(1), Some(11));
    OTHER.bind(1).run(|| {
        // Here, with a panic too.
        WITNESS.bind(witness()).run(|| assert_eq!(alive(), 1));
        assert_eq!((alive(), seen.recv().unwrap()), (0, at_end));
        let panic = catch_unwind(AssertUnwindSafe(|| WITNESS.bind(witness()).run(|| panic!())));
        assert!(panic.is_err());
        assert_eq!((alive(), seen.recv().unwrap()), (0, at_end));
        // With the last snapshot.
        let snapshot = WITNESS.bind(witness()).run(Snapshot::capture);
        let other = snapshot.clone();
        drop(snapshot);
        assert_eq!(alive(), 1);
        assert!(other.run(|| WITNESS.is_bound()));
        drop(other);
        assert_eq!((alive(), seen.recv().unwrap()), (0, at_end));
        // When a task is over, before its future is done.
        let task = WITNESS.bind(witness()).run(|| spawn(|| WITNESS.is_bound()));
        assert!(task.wait().unwrap());
        assert_eq!((alive(), seen.recv().unwrap().0), (0, false));
        // With a continuation that never runs, or has run.
        let (promise, future) = Promise::<()>::new();
        let attached = WITNESS.bind(witness()).run(|| future.map(|()| WITNESS.is_bound()));
        promise.set(());
        assert!(attached.wait().unwrap());
        assert_eq!((alive(), seen.recv().unwrap().0), (0, false));
        let (promise, future) = Promise::<()>::new();
        let attached = WITNESS.bind(witness()).run(|| future.map(|()| WITNESS.is_bound()));
        drop((attached, promise));
        assert_eq!((alive(), seen.recv().unwrap().0), (0, false));
        // When a scope is over.
        WITNESS.bind(witness()).run(|| scope(|s| s.spawn(|_| assert!(WITNESS.is_bound()))));
        assert_eq!((alive(), seen.recv().unwrap()), (0, at_end));
        scope(|s| WITNESS.bind(witness()).run(|| s.spawn(|_| assert!(WITNESS.is_bound()))));
        assert_eq!((alive(), seen.recv().unwrap().0), (0, false));
        // Without having run.
        drop(WITNESS.bind(witness()));
        assert_eq!((alive(), seen.recv().unwrap()), (0, at_end));
    });
    assert!(seen.try_recv().is_err());
}

#[test]
fn a_killed_task_lets_go_of_what_it_inherited() {
    static ALIVE: AtomicUsize = AtomicUsize::new(1);
    let (pool, release) = busy_pool();
    let (sender, seen) = mpsc::channel();
    let witness = Witness { alive: &ALIVE, seen_by_drop: sender };
    let task = WITNESS.bind(witness).run(|| pool.spawn(|| unreachable!("is killed")));
    assert_eq!(ALIVE.load(Ordering::Relaxed), 1);
    task.kill();
    assert_eq!((ALIVE.load(Ordering::Relaxed), seen.recv().unwrap().0), (0, false));
    let _: Result<(), _> = task.wait();
    drop(release);
}

/// A value whose `Drop` panics harms nobody but itself.
#[test]
fn a_drop_that_panics_goes_no_further() {
    struct Panics;
    impl Drop for Panics {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    scope_local! { static PANICS: Panics; }
    // Not before the binding is over, so that the task lets go last.
    let (pool, release) = busy_pool();
    let task = PANICS.bind(Panics).run(|| pool.spawn(|| PANICS.is_bound()));
    drop(release);
    assert!(task.wait().unwrap());
    let (promise, future) = Promise::new();
    let bound = PANICS.bind(Panics).run(|| future.map(|()| PANICS.is_bound()));
    promise.set(());
    assert!(bound.wait().unwrap());
    assert!(catch_unwind(|| PANICS.bind(Panics).run(|| ())).is_err());
    assert!(!PANICS.is_bound());
}

/// Each turn of a loop attaches something in the context that the turn before ran in.
#[test]
fn a_loop_under_a_binding_makes_no_chain_of_contexts() {
    const TURNS: usize = 200_000;
    // What such a chain holds is dropped by a recursion.
    let thread = thread::Builder::new().stack_size(256 << 10).spawn(|| {
        let (send, promises) = mpsc::sync_channel::<Promise<()>>(1);
        let completer = thread::spawn(move || promises.into_iter().for_each(|p| p.set(())));
        NAME.bind("ada".into()).run(|| {
            let turn = move || {
                assert_eq!(name().as_deref(), Some("ada"));
                let (promise, future) = Promise::new();
                send.send(promise).unwrap();
                future
            };
            times(TURNS, turn).wait().unwrap();
        });
        completer.join().unwrap();
    });
    thread.unwrap().join().unwrap();
}

/// Each is bound in a local of the next.
#[test]
fn a_million_snapshots_within_each_other() {
    scope_local! { static BEFORE: Snapshot; }
    let thread = thread::Builder::new().stack_size(256 << 10).spawn(|| {
        let mut last = Snapshot::default();
        for _ in 0..1_000_000 {
            last = BEFORE.bind(last).run(Snapshot::capture);
        }
        drop(last);
    });
    thread.unwrap().join().unwrap();
}
