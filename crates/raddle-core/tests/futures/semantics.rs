//! What operations mean, where the property test in `graph` does not say it already.

use std::sync::{Arc, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::{
    Failure, FailureKind, Future, Pool, Promise, as_completed, collect, collect_results, first,
    fold, join_all, scope_local, select, spawn, times, traverse, traverse_sequentially, wait_all,
    wait_any, while_do,
};

use crate::support::{blow, in_time, kind, on_small_stack};

scope_local! { static WHO: &'static str; }

fn cut<T: Send + 'static>() -> Future<T> {
    Future::failed(Failure::message("cut"))
}

// --- joins ---

/// A value that is there already may take long to drop.
#[test]
fn a_join_fails_before_it_drops_what_has_come() {
    struct Slow(mpsc::Receiver<()>);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.recv().unwrap();
        }
    }
    in_time("a value that waits for the failure", || {
        let ((slow, one), (failing, other)) = (Promise::new(), Promise::new());
        let all = collect([one, other]);
        let (go, gone) = mpsc::channel();
        slow.set(Slow(gone));
        let failing = thread::spawn(move || failing.fail(Failure::message("cut")));
        assert_eq!(kind(all.wait()), FailureKind::Error);
        go.send(()).unwrap();
        failing.join().unwrap();
    });
}

#[test]
fn joins_fail_fast_at_every_size() {
    for size in 2..9 {
        for bad in 0..size {
            type Join = fn(Vec<Future<u32>>) -> Future<()>;
            let joins: [(&str, Join); 5] = [
                ("collect", |f| collect(f).unit()),
                ("join_all", |f| join_all(f)),
                ("traverse", |f| traverse(f, |f| f).unit()),
                ("fold", |f| fold(f, 0, |a, b| a + b).unit()),
                ("zips", |f| {
                    f.into_iter().map(Future::unit).reduce(|a, b| a.zip(b).unit()).unwrap()
                }),
            ];
            for (name, join) in joins {
                let (mut promises, futures): (Vec<_>, Vec<_>) =
                    (0..size).map(|_| Promise::<u32>::new()).unzip();
                let all = join(futures);
                promises.remove(bad).fail(Failure::message("cut"));
                assert!(all.is_done(), "{name} {bad}/{size}: at once");
                assert_eq!(all.wait().unwrap_err().to_string(), "cut", "{name}");
                promises.into_iter().for_each(|promise| promise.set(1));
                // And when it has failed beforehand.
                let futures = (0..size).map(|n| if n == bad { cut() } else { Future::never() });
                assert_eq!(kind(join(futures.collect()).wait()), FailureKind::Error, "{name}");
            }
        }
    }
}

#[test]
fn the_first_failure_is_the_one() {
    let ((a, one), (b, other)) = (Promise::<u32>::new(), Promise::<u32>::new());
    let all = collect([one, other]);
    b.fail(Failure::message("b"));
    a.fail(Failure::message("a"));
    assert_eq!(all.wait().unwrap_err().to_string(), "b");
}

#[test]
fn values_are_in_the_order_of_the_futures() {
    for size in [0, 1, 2, 3, 10] {
        let (promises, futures): (Vec<_>, Vec<_>) = (0..size).map(|_| Promise::new()).unzip();
        let all = collect(futures);
        promises.into_iter().enumerate().rev().for_each(|(n, promise)| promise.set(n));
        assert_eq!(all.wait().unwrap(), (0..size).collect::<Vec<_>>());
    }
    assert_eq!(Future::ready(1).zip(spawn(|| "two")).wait().unwrap(), (1, "two"));
    let text = fold((0..4).map(|n| spawn(move || n)), String::new(), |s, n| s + &n.to_string());
    assert_eq!(text.wait().unwrap(), "0123");
}

#[test]
fn results_are_collected_whatever_they_are() {
    let (promise, future) = Promise::<u32>::new();
    let all = collect_results([cut(), Future::ready(1), future]);
    drop(promise);
    let kinds: Vec<_> =
        all.wait().unwrap().into_iter().map(|r| r.map_err(|failure| failure.kind())).collect();
    assert_eq!(kinds, [Err(FailureKind::Error), Ok(1), Err(FailureKind::Broken)]);
}

#[test]
fn empty_joins_are_done() {
    assert!(collect(Vec::<Future<u32>>::new()).wait().unwrap().is_empty());
    assert!(collect_results(Vec::<Future<u32>>::new()).wait().unwrap().is_empty());
    join_all(Vec::<Future<u32>>::new()).wait().unwrap();
    assert_eq!(fold(Vec::<Future<u32>>::new(), 5, |a, b| a + b).wait().unwrap(), 5);
}

#[test]
fn panics_in_the_closures_of_joins_are_failures() {
    let future = || Future::ready(1);
    assert_eq!(kind(traverse([1], |_| -> Future<u32> { blow() }).wait()), FailureKind::Panicked);
    assert_eq!(kind(fold([future()], 1, |_, _| blow()).wait()), FailureKind::Panicked);
    let panicked = future().zip_with(future(), |_, _| -> u32 { blow() }).wait();
    assert_eq!(kind(panicked), FailureKind::Panicked);
    assert_eq!(kind(times(2, || -> Future<u32> { blow() }).wait()), FailureKind::Panicked);
    assert_eq!(kind(while_do(blow, || Future::ready(1)).wait()), FailureKind::Panicked);
    let each = traverse_sequentially([1], |_| -> Future<u32> { blow() });
    assert_eq!(kind(each.wait()), FailureKind::Panicked);
}

// --- races ---

#[test]
fn the_first_wins_be_it_a_value_or_a_failure() {
    for size in 1..6 {
        for winner in 0..size {
            let (mut promises, futures): (Vec<_>, Vec<_>) =
                (0..size).map(|_| Promise::new()).unzip();
            let race = select(futures);
            promises.remove(winner).set(winner);
            let (value, index, rest) = race.wait().unwrap();
            assert_eq!((value.unwrap(), index, rest.len()), (winner, winner, size - 1));
            // The others are theirs who have them: in order, and alive.
            for (n, promise) in promises.into_iter().enumerate() {
                promise.set(n);
            }
            let rest: Vec<_> = rest.into_iter().map(|future| future.wait().unwrap()).collect();
            assert_eq!(rest, (0..size - 1).collect::<Vec<_>>());
        }
    }
    let (promise, future) = Promise::<u32>::new();
    let race = first([future, Future::never()]);
    promise.fail(Failure::message("cut"));
    assert_eq!(race.wait().unwrap_err().to_string(), "cut");
}

#[test]
fn an_empty_race_is_a_clear_failure() {
    let none = Vec::<Future<u32>>::new;
    assert_eq!(kind(first(none()).wait()), FailureKind::Empty);
    assert_eq!(kind(select(none()).map(|_| ()).wait()), FailureKind::Empty);
    assert_eq!(kind(wait_any(&mut none()).1), FailureKind::Empty);
    assert!(wait_all(none()).is_empty());
    assert!(as_completed(none()).next().is_none());
    let text = first(none()).wait().unwrap_err().to_string();
    assert_eq!(text, "there was nothing to choose from");
}

#[test]
fn results_come_as_they_are_done() {
    let (promises, futures): (Vec<_>, Vec<_>) = (0..4).map(|_| Promise::new()).unzip();
    let mut results = as_completed(futures);
    for (n, promise) in promises.into_iter().enumerate().rev() {
        promise.set(n);
        let (index, result) = results.next().unwrap();
        assert_eq!((index, result.unwrap()), (n, n));
    }
    assert!(results.next().is_none());
}

// --- linking, breaking, cycles ---

#[test]
fn a_broken_promise_breaks_what_follows() {
    let (promise, future) = Promise::<u32>::new();
    let next = future.map(|n| n + 1).flat_map(Future::ready).zip(Future::ready(1));
    drop(promise);
    let failure = next.wait().unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Broken);
    assert_eq!(failure.to_string(), "the promise was dropped without a value");
}

#[test]
fn a_panic_breaks_the_promises_of_its_closure() {
    let (promise, future) = Promise::<u32>::new();
    let (go, gone) = Promise::<()>::new();
    let panicked = gone.map(move |()| {
        let _promise = promise;
        blow::<()>()
    });
    go.set(());
    assert_eq!(kind(future.wait()), FailureKind::Broken);
    assert_eq!(kind(panicked.wait()), FailureKind::Panicked);
}

#[test]
fn a_promise_linked_to_its_own_future_is_a_cycle() {
    let ways: [fn(Future<u32>) -> Future<u32>; 8] = [
        |f| f,
        |f| f.map(|n| n + 1),
        |f| f.flat_map(Future::ready).map(|n| n + 1).ensure(|| ()),
        |f| f.zip(Future::never()).map(|(n, ())| n),
        |f| first([Future::never(), f]),
        |f| f.shared().future(),
        |f| f.within(Duration::from_secs(3600)),
        |f| {
            let (promise, future) = Promise::new();
            promise.link(f);
            future
        },
    ];
    for (n, way) in ways.into_iter().enumerate() {
        let (promise, future) = Promise::<u32>::new();
        let (sender, result) = mpsc::channel();
        let next = way(future);
        // Whoever follows is told, if there is a place for that.
        if n == 0 {
            promise.link(next);
            continue;
        }
        let shared = next.shared();
        drop(shared.future().on_complete(move |result| {
            sender.send(result.as_ref().unwrap_err().kind()).unwrap();
        }));
        promise.link(shared.future());
        assert_eq!(result.recv().unwrap(), FailureKind::Cycle, "way {n}");
    }
}

#[test]
fn a_future_whose_closure_returns_what_waits_for_it_is_a_cycle() {
    let ways: [fn(Future<u32>) -> Future<u32>; 5] = [
        |f| f,
        |f| f.map(|n| n + 1),
        |f| (0..5).fold(f, |f, _| f.map(|n| n + 1)),
        |f| f.flat_map(Future::ready).ensure(|| ()),
        |f| {
            let (promise, future) = Promise::new();
            promise.link(f);
            future
        },
    ];
    for (n, way) in ways.into_iter().enumerate() {
        let (promise, future) = Promise::<()>::new();
        let place = Arc::new(Mutex::new(None));
        let inner = Arc::clone(&place);
        let (send, result) = mpsc::channel();
        let last = way(future.flat_map(move |()| inner.lock().unwrap().take().unwrap()));
        *place.lock().unwrap() = Some(last.on_complete(move |result| {
            send.send(result.as_ref().unwrap_err().kind()).unwrap();
        }));
        promise.set(());
        assert_eq!(result.recv_timeout(Duration::from_secs(60)), Ok(FailureKind::Cycle), "way {n}");
    }
}

#[test]
fn promises_linked_in_a_ring_are_a_cycle() {
    for size in [2, 3, 10] {
        let (promises, futures): (Vec<_>, Vec<_>) =
            (0..size).map(|_| Promise::<u32>::new()).unzip();
        let kinds = Arc::new(Mutex::new(vec![]));
        let mut futures: Vec<_> = futures
            .into_iter()
            .map(|future| {
                let kinds = Arc::clone(&kinds);
                future.on_complete(move |result| {
                    kinds.lock().unwrap().push(result.as_ref().unwrap_err().kind());
                })
            })
            .collect();
        futures.rotate_left(1);
        promises.into_iter().zip(futures).for_each(|(promise, next)| promise.link(next));
        assert_eq!(*kinds.lock().unwrap(), vec![FailureKind::Cycle; size]);
    }
}

#[test]
fn a_task_that_waits_for_itself_is_a_cycle() {
    for threads in [1, 2] {
        let pool = Pool::new(threads).unwrap();
        for derived in [false, true] {
            let (sender, own) = mpsc::channel::<Future<u32>>();
            let task = pool.spawn(move || own.recv().unwrap().wait().map_err(|f| f.kind()));
            let (answer, answered) = mpsc::channel();
            let task = task.map(move |result| {
                answer.send(result).unwrap();
                0
            });
            sender.send(if derived { task.map(|n| n + 1) } else { task }).unwrap();
            assert_eq!(answered.recv().unwrap(), Err(FailureKind::Cycle));
        }
    }
}

#[test]
fn a_link_to_what_is_done_is_done() {
    let (promise, future) = Promise::new();
    promise.link(Future::ready(1));
    assert_eq!(future.wait().unwrap(), 1);
    let (promise, future) = Promise::<u32>::new();
    promise.link(cut());
    assert_eq!(kind(future.wait()), FailureKind::Error);
    let (promise, future) = Promise::<u32>::new();
    let (inner, source) = Promise::new();
    inner.set(2);
    promise.link(source);
    assert_eq!(future.wait().unwrap(), 2);
}

// --- locals ---

#[test]
fn continuations_see_the_locals_of_who_attached_them() {
    type Attach = fn(Future<u32>, mpsc::Sender<Option<&'static str>>) -> Future<u32>;
    let ways: [(&str, Attach); 12] = [
        ("map", |f, s| {
            f.map(move |n| {
                s.send(WHO.get()).unwrap();
                n
            })
        }),
        ("flat_map", |f, s| {
            f.flat_map(move |n| {
                s.send(WHO.get()).unwrap();
                Future::ready(n)
            })
        }),
        ("transform", |f, s| {
            f.transform(move |r| {
                s.send(WHO.get()).unwrap();
                Future::from_result(r)
            })
        }),
        ("ensure", |f, s| f.ensure(move || s.send(WHO.get()).unwrap())),
        ("on_success", |f, s| f.on_success(move |_| s.send(WHO.get()).unwrap())),
        ("filter", |f, s| f.filter(move |_| s.send(WHO.get()).is_ok())),
        ("zip_with", |f, s| {
            f.zip_with(Future::ready(1), move |n, _| {
                s.send(WHO.get()).unwrap();
                n
            })
        }),
        ("fold", |f, s| {
            fold([f], 0, move |_, n| {
                s.send(WHO.get()).unwrap();
                n
            })
        }),
        ("shared", |f, s| {
            f.shared().map(move |n| {
                s.send(WHO.get()).unwrap();
                n
            })
        }),
        ("first", |f, s| {
            first([f, Future::never()]).map(move |n| {
                s.send(WHO.get()).unwrap();
                n
            })
        }),
        ("within", |f, s| {
            f.within(Duration::from_secs(3600)).map(move |n| {
                s.send(WHO.get()).unwrap();
                n
            })
        }),
        ("linked", |f, s| {
            let (promise, future) = Promise::new();
            promise.link(f);
            future.map(move |n| {
                s.send(WHO.get()).unwrap();
                n
            })
        }),
    ];
    for (name, attach) in ways {
        let (promise, future) = WHO.bind("maker").run(Promise::new);
        let (sender, seen) = mpsc::channel();
        let next = WHO.bind("attacher").run(|| attach(future, sender.clone()));
        WHO.bind("setter").run(|| promise.set(1));
        assert_eq!(seen.recv().unwrap(), Some("attacher"), "{name}");
        next.wait().unwrap();
        // Attached where nothing is bound: nothing.
        let (promise, future) = WHO.bind("maker").run(Promise::new);
        let next = attach(future, sender);
        WHO.bind("setter").run(|| promise.set(1));
        assert_eq!(seen.recv().unwrap(), None, "{name}");
        next.wait().unwrap();
    }
}

/// What was put off, because completions were nested too deep, sees no other locals than otherwise.
#[test]
fn what_is_put_off_sees_its_own_locals() {
    on_small_stack(|| {
        let seen = Arc::new(Mutex::new(vec![]));
        let (first, mut future) = Promise::new();
        for n in 0..200 {
            let (promise, next) = Promise::new();
            let sees = Arc::clone(&seen);
            let attach = move || {
                drop(future.flat_map(move |()| {
                    sees.lock().unwrap().push(WHO.get());
                    promise.set(());
                    Future::ready(())
                }));
            };
            if n % 2 == 0 {
                WHO.bind("even").run(attach)
            } else {
                attach()
            }
            future = next;
        }
        WHO.bind("setter").run(|| first.set(()));
        let expected: Vec<_> = (0..200).map(|n| (n % 2 == 0).then_some("even")).collect();
        assert_eq!(*seen.lock().unwrap(), expected);
    });
}

// --- time ---

#[test]
fn time_limits() {
    let never = || Future::<u32>::never();
    assert_eq!(kind(never().within(Duration::ZERO).wait()), FailureKind::TimedOut);
    assert_eq!(kind(never().interrupt_after(Duration::ZERO).wait()), FailureKind::TimedOut);
    assert!(never().within(Duration::MAX).wait_timeout(Duration::from_millis(1)).is_err());
    let start = Instant::now();
    assert_eq!(Future::ready(1).delayed(Duration::from_millis(5)).wait().unwrap(), 1);
    assert!(start.elapsed() >= Duration::from_millis(5));
    Future::delay(Duration::ZERO).wait().unwrap();
    // Nothing waits for a timer that is not needed any more.
    drop(Future::delay(Duration::from_secs(3600)));
    drop(never().within(Duration::from_secs(3600)));
}

#[test]
fn a_wait_that_times_out_gives_the_future_back() {
    let (promise, future) = Promise::new();
    let future = future.map(|n: u32| n + 1).wait_timeout(Duration::from_millis(1)).unwrap_err();
    promise.set(1);
    let Ok(result) = future.wait_timeout(Duration::ZERO) else { panic!("it is done") };
    assert_eq!(result.unwrap(), 2);
}

// --- order ---

/// A continuation runs before the call that completes returns, and what it completes runs within it.
#[test]
fn completing_runs_continuations_depth_first() {
    let log = Arc::new(Mutex::new(vec![]));
    let note = |text: &'static str| {
        let log = Arc::clone(&log);
        move || log.lock().unwrap().push(text)
    };
    let ((one, a), (two, b)) = (Promise::<u32>::new(), Promise::<u32>::new());
    let after_b = b.ensure(note("b")).ensure(note("after b"));
    let (begin, end) = (note("begin a"), note("end a"));
    let after_a = a
        .map(move |n| {
            begin();
            two.set(n);
            end();
        })
        .ensure(note("after a"));
    one.set(1);
    note("set")();
    assert_eq!(*log.lock().unwrap(), ["begin a", "b", "after b", "end a", "after a", "set"]);
    assert!(after_a.is_done() && after_b.is_done());
}
