//! Whatever the graph, a thread with a small stack completes, fails, breaks and drops it.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, mpsc};

use raddle_core::{Failure, FailureKind, Future, Promise};

use crate::support::{Counted, kind, on_small_stack};

pub(crate) const MILLION: usize = 1_000_000;

fn chain(source: Future<usize>, length: usize) -> Future<usize> {
    (0..length).fold(source, |future, _| future.map(|n| n + 1))
}

/// How a promise ends.
#[derive(Clone, Copy, Debug)]
pub(crate) enum End {
    Set,
    Fail,
    Break,
}

pub(crate) const ENDS: [End; 3] = [End::Set, End::Fail, End::Break];

pub(crate) fn end<T: Send + 'static>(promise: Promise<T>, end: End, value: T) {
    match end {
        End::Set => promise.set(value),
        End::Fail => promise.fail(Failure::message("cut")),
        End::Break => drop(promise),
    }
}

/// Whether a result is what comes of a promise that ended so, with this value.
pub(crate) fn check(result: Result<usize, Failure>, how: End, value: usize) {
    match how {
        End::Set => assert_eq!(result.unwrap(), value),
        End::Fail => assert_eq!(kind(result), FailureKind::Error),
        End::Break => assert_eq!(kind(result), FailureKind::Broken),
    }
}

// --- straight chains ---

#[test]
fn a_million_maps() {
    on_small_stack(|| {
        for how in ENDS {
            let (promise, future) = Promise::new();
            let last = chain(future, MILLION);
            end(promise, how, 0);
            check(last.wait(), how, MILLION);
        }
    });
}

#[test]
fn a_million_maps_dropped() {
    on_small_stack(|| {
        for how in ENDS {
            let live = Arc::new(AtomicUsize::new(0));
            let (promise, future) = Promise::<usize>::new();
            let last = (0..MILLION).fold(future, |future, _| {
                let counted = Counted::new(&live);
                future.map(move |n| n + usize::from(counted.alive()))
            });
            drop(last);
            end(promise, how, 0);
            assert_eq!(live.load(Ordering::SeqCst), 0, "{how:?}");
        }
    });
}

#[test]
fn a_million_maps_of_a_spawned_task() {
    on_small_stack(|| {
        let (go, wait) = mpsc::channel();
        let source = raddle_core::spawn(move || wait.recv().unwrap());
        let last = chain(source, MILLION);
        go.send(1).unwrap();
        assert_eq!(last.wait().unwrap(), MILLION + 1);
    });
}

#[test]
fn a_million_maps_killed_at_the_end() {
    on_small_stack(|| {
        let (promise, future) = Promise::new();
        let last = chain(future, MILLION);
        last.kill();
        promise.set(0);
        assert_eq!(kind(last.wait()), FailureKind::Killed);
    });
}

#[test]
fn a_million_side_effects() {
    on_small_stack(|| {
        let calls = Arc::new(AtomicUsize::new(0));
        for how in ENDS {
            calls.store(0, Ordering::SeqCst);
            let (promise, future) = Promise::new();
            let last = (0..MILLION).fold(future, |future, _| {
                let calls = Arc::clone(&calls);
                future.ensure(move || {
                    calls.fetch_add(1, Ordering::Relaxed);
                })
            });
            end(promise, how, 7);
            check(last.wait(), how, 7);
            assert_eq!(calls.load(Ordering::SeqCst), MILLION);
        }
    });
}

// --- flat_map ---

#[test]
fn a_million_flat_maps_one_after_the_other() {
    on_small_stack(|| {
        for how in ENDS {
            let (promise, future) = Promise::new();
            let last =
                (0..MILLION).fold(future, |future, _| future.flat_map(|n| Future::ready(n + 1)));
            end(promise, how, 0);
            check(last.wait(), how, MILLION);
        }
    });
}

/// `f(n) = pending.flat_map(|_| f(n - 1).map(..))`: not in tail position, so a million nodes hang together.
#[test]
fn a_million_flat_maps_one_inside_the_other() {
    fn nest(
        sources: Arc<Vec<std::sync::Mutex<Option<Future<usize>>>>>,
        at: usize,
    ) -> Future<usize> {
        let Some(slot) = sources.get(at) else { return Future::ready(0) };
        let source = slot.lock().unwrap().take().unwrap();
        source.flat_map(move |one| nest(sources, at + 1).map(move |n| n + one))
    }
    on_small_stack(|| {
        for how in ENDS {
            let (promises, futures): (Vec<_>, Vec<_>) =
                (0..MILLION).map(|_| Promise::new()).unzip();
            let sources = futures.into_iter().map(|f| std::sync::Mutex::new(Some(f))).collect();
            let last = nest(Arc::new(sources), 0);
            let mut promises = promises.into_iter();
            promises.by_ref().take(MILLION - 1).for_each(|promise| promise.set(1));
            end(promises.next().unwrap(), how, 1);
            check(last.wait(), how, MILLION);
        }
    });
}

#[test]
fn a_million_flat_maps_one_inside_the_other_on_constants() {
    fn nest(at: usize) -> Future<usize> {
        if at == 0 {
            return Future::ready(0);
        }
        Future::ready(at).flat_map(|at| nest(at - 1).map(|n| n + 1))
    }
    on_small_stack(|| assert_eq!(nest(MILLION).wait().unwrap(), MILLION));
}

#[test]
fn a_million_nested_flat_maps_dropped() {
    on_small_stack(|| {
        for how in ENDS {
            let live = Arc::new(AtomicUsize::new(0));
            let (promise, future) = Promise::<usize>::new();
            let last = (0..MILLION).fold(future, |inner, _| {
                let counted = Counted::new(&live);
                let (set, outer) = Promise::new();
                let joint = outer.flat_map(move |()| {
                    let _counted = &counted;
                    inner
                });
                set.set(());
                joint
            });
            drop(last);
            end(promise, how, 0);
            assert_eq!(live.load(Ordering::SeqCst), 0, "{how:?}");
        }
    });
}

/// Closures that hold futures whose closures hold futures ..
#[test]
fn a_million_closures_that_hold_futures_dropped() {
    on_small_stack(|| {
        for how in ENDS {
            let (first, future) = Promise::<usize>::new();
            let mut promises = vec![];
            let last = (0..MILLION).fold(future, |inner, _| {
                let (promise, outer) = Promise::<usize>::new();
                promises.push(promise);
                outer.flat_map(move |_| inner)
            });
            drop(last);
            // From the one that holds all others to the one that holds nobody.
            promises.into_iter().rev().for_each(|promise| end(promise, how, 0));
            end(first, how, 0);
        }
    });
}

// --- side branches ---

/// The continuation of each promise completes the next promise.
#[test]
fn a_million_promises_each_set_by_the_one_before() {
    on_small_stack(|| {
        for how in ENDS {
            let (first, mut future) = Promise::<usize>::new();
            for _ in 0..MILLION {
                let (promise, next) = Promise::new();
                drop(future.map_result(move |result| {
                    promise.complete(result.map(|n| n + 1));
                    Ok(())
                }));
                future = next;
            }
            end(first, how, 0);
            check(future.wait(), how, MILLION);
        }
    });
}

/// A closure that is not called drops its promise, which breaks the next, whose closure ..
#[test]
fn a_million_promises_each_broken_by_the_one_before() {
    on_small_stack(|| {
        let (first, mut future) = Promise::<usize>::new();
        for _ in 0..MILLION {
            let (promise, next) = Promise::new();
            drop(future.map(move |n: usize| promise.set(n)));
            future = next;
        }
        drop(first);
        assert_eq!(kind(future.wait()), FailureKind::Broken);
    });
}

/// Values that own promises whose values own promises: each drop completes the next.
#[test]
fn a_million_promises_each_set_by_the_drop_of_the_value_before() {
    struct Relay(Option<(Promise<Relay>, Box<Relay>)>, Arc<AtomicUsize>);

    impl Drop for Relay {
        fn drop(&mut self) {
            self.1.fetch_add(1, Ordering::Relaxed);
            if let Some((promise, value)) = self.0.take() {
                promise.set(*value);
            }
        }
    }

    on_small_stack(|| {
        let drops = Arc::new(AtomicUsize::new(0));
        let value = (0..MILLION).fold(Relay(None, Arc::clone(&drops)), |value, _| {
            let (promise, future) = Promise::new();
            drop(future);
            Relay(Some((promise, Box::new(value))), Arc::clone(&drops))
        });
        drop(value);
        assert_eq!(drops.load(Ordering::SeqCst), MILLION + 1);
    });
}

/// The same of futures that have been killed, and are kept; by values and by failures.
#[test]
fn a_million_killed_ones_each_set_by_the_drop_of_the_value_before() {
    struct Relay(Option<(Promise<Relay>, Box<Relay>)>, bool);

    impl std::fmt::Debug for Relay {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Relay")
        }
    }

    impl std::fmt::Display for Relay {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("relay")
        }
    }

    impl std::error::Error for Relay {}

    impl Drop for Relay {
        fn drop(&mut self) {
            match self.0.take() {
                Some((promise, value)) if self.1 => promise.fail(value),
                Some((promise, value)) => promise.set(*value),
                None => {}
            }
        }
    }

    on_small_stack(|| {
        for fails in [false, true] {
            let mut held = Vec::new();
            let value = (0..MILLION).fold(Relay(None, fails), |value, _| {
                let (promise, future) = Promise::new();
                future.kill();
                held.push(future);
                Relay(Some((promise, Box::new(value))), fails)
            });
            drop(value);
            assert_eq!(kind(held.pop().unwrap().wait()), FailureKind::Killed);
        }
    });
}

/// Values that own futures whose values own futures.
#[test]
fn a_million_futures_each_in_the_value_of_the_next_dropped() {
    struct Nest(#[expect(dead_code, reason = "dropped")] Option<Box<Future<Nest>>>);

    on_small_stack(|| {
        let nested = (0..MILLION).fold(Nest(None), |value, _| {
            let (promise, future) = Promise::new();
            promise.set(value);
            Nest(Some(Box::new(future)))
        });
        drop(nested);
    });
}

/// As above, by failures.
#[test]
fn a_million_futures_each_in_the_failure_of_the_next_dropped() {
    #[derive(Debug)]
    struct Nest(Option<Future<()>>);

    impl std::fmt::Display for Nest {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "nested: {}", self.0.is_some())
        }
    }

    impl std::error::Error for Nest {}

    on_small_stack(|| {
        let nested = (0..MILLION).fold(Nest(None), |error, _| {
            let (promise, future) = Promise::new();
            promise.fail(error);
            Nest(Some(future))
        });
        drop(nested);
    });
}

/// Continuations that complete two promises each: a tree, whose width the queue has to take.
#[test]
fn a_tree_of_promises() {
    on_small_stack(|| {
        let leaves = Arc::new(AtomicUsize::new(0));
        let (root, future) = Promise::<u32>::new();
        let mut level = vec![future];
        for _ in 0..16 {
            level = level
                .into_iter()
                .flat_map(|future| {
                    let ((left, l), (right, r)) = (Promise::new(), Promise::new());
                    drop(future.map(move |n: u32| {
                        left.set(n + 1);
                        right.set(n + 1);
                    }));
                    [l, r]
                })
                .collect();
        }
        for future in level {
            let leaves = Arc::clone(&leaves);
            drop(future.on_success(move |&n| {
                assert_eq!(n, 16);
                leaves.fetch_add(1, Ordering::Relaxed);
            }));
        }
        root.set(0);
        assert_eq!(leaves.load(Ordering::SeqCst), 1 << 16);
    });
}
