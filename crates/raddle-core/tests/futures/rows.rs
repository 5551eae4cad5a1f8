//! Rows of links, of handlers, of waits and of signals: a thread with a small stack gets to their end, and looks at each a few times.

use std::future::Future as _;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;
#[cfg(not(unix))]
use std::time::Instant;

use raddle_core::{CancelOnDrop, Failure, FailureKind, Future, Killed, Promise};

use crate::stack::{ENDS, MILLION, check, end};
use crate::support::{in_time, kind, on_small_stack, scaled};

#[test]
fn a_million_promises_linked_each_to_the_next() {
    on_small_stack(|| {
        for (how, forwards) in ENDS.into_iter().flat_map(|how| [(how, true), (how, false)]) {
            let (promises, mut futures): (Vec<_>, Vec<_>) =
                (0..MILLION).map(|_| Promise::new()).unzip();
            let (last, source) = Promise::new();
            let result = futures.remove(0);
            futures.push(source);
            let links = promises.into_iter().zip(futures);
            if forwards {
                links.for_each(|(promise, next)| promise.link(next));
            } else {
                links.rev().for_each(|(promise, next)| promise.link(next));
            }
            result.interrupt("once through all");
            let heard = last.interrupted().map(|signal| signal.to_string());
            assert_eq!(heard.as_deref(), Some("once through all"));
            end(last, how, 3);
            check(result.wait(), how, 3);
        }
    });
}

#[test]
fn a_million_links_and_maps() {
    on_small_stack(|| {
        for how in ENDS {
            let (source, future) = Promise::new();
            let last = (0..MILLION / 2).fold(future, |future, _| {
                let (promise, next) = Promise::new();
                promise.link(future.map(|n: usize| n + 1));
                next
            });
            end(source, how, 0);
            check(last.wait(), how, MILLION / 2);
        }
    });
}

#[test]
fn an_interrupt_through_a_million_flat_maps() {
    on_small_stack(|| {
        let (source, future) = Promise::<usize>::new();
        let last = (0..MILLION).fold(future, |future, _| future.flat_map(|n| Future::ready(n + 1)));
        last.interrupt("stop");
        assert_eq!(source.interrupted().unwrap().to_string(), "stop");
        source.set(0);
        assert_eq!(last.wait().unwrap(), MILLION);
    });
}

/// Handlers that pass interrupts on to the next promise.
#[test]
fn a_million_handlers_that_interrupt() {
    on_small_stack(|| {
        for kills in [false, true] {
            let (source, mut future) = Promise::<usize>::new();
            let mut promises = Vec::new();
            for _ in 0..MILLION {
                let inner = future;
                let (promise, next) = Promise::with_interrupt(move |why| {
                    if kills {
                        inner.kill();
                    } else {
                        inner.interrupt(Failure::from(why));
                    }
                });
                promises.push(promise);
                future = next;
            }
            if kills {
                assert_eq!(future.kill(), Killed::BeforeStart);
            } else {
                future.interrupt("stop");
            }
            assert!(source.interrupted().is_some());
        }
    });
}

/// Handlers that own the promise before.
#[test]
fn a_million_handlers_that_own_promises() {
    on_small_stack(|| {
        for how in ENDS {
            let mut futures = Vec::new();
            let (mut promise, future) = Promise::<usize>::new();
            futures.push(future);
            for _ in 0..MILLION {
                let owned = promise;
                let (next, future) = Promise::with_interrupt(move |_| {
                    let _ = owned.interrupted();
                });
                futures.push(future);
                promise = next;
            }
            end(promise, how, 1);
            check(futures.pop().unwrap().wait(), how, 1);
            assert_eq!(kind(futures.remove(0).wait()), FailureKind::Broken);
        }
    });
}

/// Each promise becomes what was made of the next one's future, which cannot be compressed; in any order.
#[test]
fn links_do_not_look_through_the_whole_row() {
    in_time("a row of links", || {
        for order in 0..3 {
            let length = 300_000;
            let (promises, mut futures): (Vec<_>, Vec<_>) = (0..length)
                .map(|_| {
                    let (promise, future) = Promise::<usize>::new();
                    (Some(promise), Some(future.map(|n| n)))
                })
                .unzip();
            let mut promises: Vec<Option<Promise<usize>>> = promises;
            let mut links: Vec<usize> = (1..length).collect();
            match order {
                0 => {}
                1 => links.reverse(),
                _ => {
                    let mut seed = 1_u64;
                    for i in (1..links.len()).rev() {
                        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                        links.swap(i, (seed >> 33) as usize % (i + 1));
                    }
                }
            }
            for n in links {
                promises[n - 1].take().unwrap().link(futures[n].take().unwrap());
            }
            promises[length - 1].take().unwrap().set(1);
            assert_eq!(futures[0].take().unwrap().wait().unwrap(), 1);
        }
    });
}

/// Of this thread, if the system tells; a machine that others use has less for it, and a test is not to tell them apart.
fn processor_time() -> Duration {
    #[cfg(unix)]
    {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: a valid place for the time.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    }
    #[cfg(not(unix))]
    {
        static FIRST: std::sync::LazyLock<Instant> = std::sync::LazyLock::new(Instant::now);
        FIRST.elapsed()
    }
}

/// The time for so many promises, each linked to what was made of the one before, with a shared future of each.
fn links_behind_shared_ones(length: usize) -> Duration {
    let (first, future) = Promise::<usize>::new();
    let mut last = future.shared();
    let start = processor_time();
    for _ in 0..length {
        let (promise, future) = Promise::new();
        let next = future.shared();
        promise.link(last.map(|n| n + 1));
        last = next;
    }
    let time = processor_time() - start;
    first.set(0);
    assert_eq!(last.wait().unwrap(), length);
    time
}

#[test]
fn links_behind_shared_ones_do_not_look_through_the_whole_row() {
    let (few, many) = (2_000, 64_000);
    let shortest = |length, times| (0..times).map(|_| links_behind_shared_ones(length)).min();
    let (short, long) = (shortest(few, 5).unwrap(), shortest(many, 2).unwrap());
    // 32 times as many: 32 times as long, or a thousand times.
    assert!(long < 300 * short.max(Duration::from_micros(100)), "{short:?}, then {long:?}");
}

/// Waits inside continuations of waits: what was put off is run by who waits.
#[test]
fn a_wait_within_deep_completions_runs_what_was_put_off() {
    in_time("waits within completions", || {
        on_small_stack(|| {
            // Past where the stack has room for more: there the walk of `inner` is put off when it is set.
            let waits = scaled(5_000);
            let (first, mut future) = Promise::<usize>::new();
            for _ in 0..waits {
                let (promise, next) = Promise::new();
                let (inner, other) = Promise::<usize>::new();
                drop(future.map(move |n| {
                    let other = other.map(|n| n + 1);
                    inner.set(n);
                    promise.set(other.wait().unwrap());
                }));
                future = next;
            }
            first.set(0);
            assert_eq!(future.wait().unwrap(), waits);
        })
    });
}

/// Who waits runs what it has put off itself, not what others want done after it.
#[test]
fn a_wait_does_not_run_what_waits_for_the_waiting_one() {
    /// A chain of promises, each set by the continuation of the one before.
    fn relay(length: usize) -> (Promise<()>, Future<()>) {
        let (first, mut future) = Promise::new();
        for _ in 0..length {
            let (promise, next) = Promise::new();
            drop(future.map(move |()| promise.set(())));
            future = next;
        }
        (first, future)
    }

    in_time("a wait above others", || {
        on_small_stack(|| {
            // From where nothing is put off to where everything is.
            for depth in (0..40).chain((40..2_000).step_by(20)) {
                let ((one, mine), (other, yours)) = (Promise::new(), Promise::new());
                let waits = mine.map(|()| {
                    let (first, end) = relay(2_000);
                    first.set(());
                    end.wait().unwrap();
                    1
                });
                let waits_for_that = yours.map(move |()| waits.wait().unwrap() + 1);
                let (first, end) = relay(depth);
                let both = end.map(move |()| {
                    one.set(());
                    other.set(());
                });
                first.set(());
                both.wait().unwrap();
                assert_eq!(waits_for_that.wait().unwrap(), 2);
            }
        })
    });
}

/// A signal that nobody has heard owns the next future, whose signal owns the next ..
#[test]
fn signals_that_own_what_they_were_raised_on() {
    #[derive(Debug)]
    struct Holds(Option<Future<()>>);
    impl std::fmt::Display for Holds {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "holds one: {}", self.0.is_some())
        }
    }
    impl std::error::Error for Holds {}

    on_small_stack(|| {
        let mut next = None;
        for _ in 0..scaled(100_000) {
            let (promise, future) = Promise::<()>::new();
            let linked = future.flat_map(|()| Future::ready(()));
            linked.interrupt(Failure::new(Holds(next.take())));
            promise.set(());
            next = Some(linked);
        }
        drop(next);
    });
}

/// The same where each was raised before: it is replaced by that of the drop, and goes, and with it the next.
#[test]
fn signals_that_are_replaced_by_drops() {
    #[derive(Debug)]
    struct Owns(Option<CancelOnDrop<()>>);
    impl std::fmt::Display for Owns {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            write!(f, "owns one: {}", self.0.is_some())
        }
    }
    impl std::error::Error for Owns {}

    on_small_stack(|| {
        let (mut next, mut promises) = (None, Vec::new());
        for _ in 0..scaled(100_000) {
            let (promise, future) = Promise::<()>::new();
            future.interrupt(Failure::new(Owns(next.take())));
            promises.push(promise);
            next = Some(future.cancel_on_drop());
        }
        drop(next);
        assert!(promises.iter().all(|promise| promise.interrupted().is_some()));
    });
}

/// What a waker would wake owns a future that has been polled, whose waker ..
#[test]
fn wakers_that_own_what_was_polled() {
    struct Owns(#[expect(dead_code, reason = "dropped")] Option<Future<()>>);
    impl Wake for Owns {
        fn wake(self: Arc<Self>) {}
    }

    fn row() -> (Vec<Promise<()>>, Future<()>) {
        let (first, mut last) = Promise::new();
        let mut promises = vec![first];
        for _ in 0..scaled(100_000) {
            let waker = Waker::from(Arc::new(Owns(Some(last))));
            let (promise, mut next) = Promise::<()>::new();
            let polled = Pin::new(&mut next).poll(&mut Context::from_waker(&waker));
            assert!(polled.is_pending());
            promises.push(promise);
            last = next;
        }
        (promises, last)
    }

    on_small_stack(|| {
        // As it is dropped, or taken over, or replaced, or never to be woken.
        let (_promises, last) = row();
        drop(last);
        let (_promises, last) = row();
        drop(last.map(|()| ()));
        let (_promises, mut last) = row();
        assert!(Pin::new(&mut last).poll(&mut Context::from_waker(Waker::noop())).is_pending());
        let (mut promises, last) = row();
        promises.pop().unwrap().link(Future::never());
        assert!(!last.is_done());
    });
}
