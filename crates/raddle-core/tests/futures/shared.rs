//! Shared futures: what their consumers see of each other, and graphs of them.

use std::cell::Cell;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{FailureKind, Future, Killed, Pool, Promise, Shared, collect, spawn};

use crate::support::{Counted, in_time, kind};

// --- consumers among themselves ---

#[test]
fn a_continuation_that_waits_for_the_same_shared_future() {
    in_time("the same", || {
        let (promise, future) = Promise::<u32>::new();
        let shared = future.shared();
        let again = shared.clone();
        let sum = shared.map(move |n| {
            assert!(again.is_done());
            n + again.wait().unwrap()
        });
        promise.set(1);
        assert_eq!(sum.wait().unwrap(), 2);
    });
}

#[test]
fn a_continuation_that_waits_for_a_later_consumer() {
    in_time("a sibling", || {
        let (promise, future) = Promise::<u32>::new();
        let shared = future.shared();
        let one = shared.future();
        let (two, three) = (shared.map(|n| n + 1), shared.map(|n| n + 2));
        let sum = one.map(move |n| n + two.wait().unwrap() + three.wait().unwrap());
        promise.set(1);
        assert_eq!(sum.wait().unwrap(), 6);
    });
}

#[test]
fn a_thread_that_wants_the_result_while_a_consumer_is_told() {
    in_time("another thread", || {
        let (promise, future) = Promise::<u32>::new();
        let shared = future.shared();
        let (sender, got) = mpsc::channel();
        let (start, started) = mpsc::channel();
        drop(shared.map(move |_| {
            start.send(()).unwrap();
            assert_eq!(got.recv().unwrap(), 1);
        }));
        let other = thread::spawn(move || {
            started.recv().unwrap();
            sender.send(shared.wait().unwrap()).unwrap();
        });
        promise.set(1);
        other.join().unwrap();
    });
}

#[test]
fn consumers_are_told_in_their_order() {
    let (promise, future) = Promise::<u32>::new();
    let shared = future.shared();
    let (sender, order) = mpsc::channel();
    for n in 0..100_u32 {
        let sender = sender.clone();
        drop(shared.map(move |_| sender.send(n).unwrap()));
    }
    promise.set(1);
    assert_eq!(order.try_iter().collect::<Vec<_>>(), (0..100).collect::<Vec<_>>());
}

// --- clones ---

static CURIOUS: OnceLock<Shared<Curious>> = OnceLock::new();

/// Looks at the shared future while it is cloned for that, and has itself cloned once more.
struct Curious {
    deep: Cell<bool>,
}

impl Clone for Curious {
    fn clone(&self) -> Curious {
        if let (Some(shared), false) = (CURIOUS.get(), self.deep.replace(true)) {
            assert!(shared.is_done());
            assert!(shared.future().wait().is_ok());
            self.deep.set(false);
        }
        Curious { deep: Cell::new(false) }
    }
}

#[test]
fn a_clone_that_looks_at_what_it_is_cloned_for() {
    in_time("a clone that looks", || {
        let shared = Future::ready(Curious { deep: Cell::new(false) }).shared();
        assert!(CURIOUS.set(shared.clone()).is_ok());
        assert!(shared.wait().is_ok());
    });
}

/// Counts its clones, as something that is not `Sync` may do.
struct Counts(Cell<u32>);

impl Clone for Counts {
    fn clone(&self) -> Counts {
        let count = self.0.get() + 1;
        thread::yield_now();
        self.0.set(count);
        Counts(Cell::new(count))
    }
}

#[test]
fn clones_of_what_is_not_sync_are_made_one_at_a_time() {
    const THREADS: u32 = 4;
    const EACH: u32 = 200;
    let shared = Future::ready(Counts(Cell::new(0))).shared();
    let start = Barrier::new(THREADS as usize);
    thread::scope(|s| {
        for _ in 0..THREADS {
            s.spawn(|| {
                start.wait();
                (0..EACH).for_each(|_| drop(shared.future()));
            });
        }
    });
    assert_eq!(shared.wait().unwrap().0.get(), THREADS * EACH + 1);
}

// --- graphs ---

/// More ways lead up from the last one than there are atoms.
#[test]
fn a_memoised_recursion() {
    fn fibonacci(n: usize, source: Future<u64>) -> Shared<u64> {
        let first = source.shared();
        let mut all = vec![first.clone(), first];
        for i in 2..=n {
            let both = all[i - 1].future().zip_with(all[i - 2].future(), u64::wrapping_add);
            all.push(both.shared());
        }
        all.remove(n)
    }
    in_time("a memoised recursion", || {
        for wait in [true, false] {
            let (promise, source) = Promise::new();
            let top = fibonacci(1_000, source);
            assert!(top.future().wait_timeout(Duration::ZERO).is_err());
            let future = top.future();
            future.interrupt("stop");
            assert_eq!(promise.interrupted().unwrap().to_string(), "stop");
            let (outer, linked) = Promise::new();
            let linked = linked.map(|n: u64| n);
            outer.link(future);
            drop(top);
            if wait {
                let waiting = thread::spawn(move || linked.wait().unwrap());
                promise.set(1);
                assert_ne!(waiting.join().unwrap(), 0);
            } else {
                linked.kill();
                drop(linked);
                assert!(promise.is_abandoned() || promise.interrupted().is_some());
            }
        }
        let pool = Pool::new(1).unwrap();
        let top = pool.run(|_| fibonacci(60, spawn(|| 1)).wait().unwrap());
        assert_eq!(top, 2_504_730_781_961);
    });
}

type Knot = fn(Future<()>, Arc<OnceLock<Shared<u32>>>) -> Future<u32>;

/// Futures that become one that waits for them.
const KNOTS: &[(&str, Knot)] = &[
    ("flat_map", |f, own| f.flat_map(move |()| own.get().unwrap().future())),
    ("flat_map, map", |f, own| {
        f.flat_map(move |()| own.get().unwrap().map(|n| n + 1)).map(|n| n + 1)
    }),
    ("flat_map of a collect", |f, own| {
        f.flat_map(move |()| collect([own.get().unwrap().future()])).map(|all| all[0])
    }),
    ("a shared one of it", |f, own| {
        let shared = f.flat_map(move |()| own.get().unwrap().future()).shared();
        shared.zip_with(&shared)
    }),
    ("flat_map to a flat_map", |f, own| {
        f.flat_map(move |()| {
            let delay = Future::delay(Duration::from_millis(1)).masked();
            delay.flat_map(move |()| own.get().unwrap().future())
        })
    }),
    ("a promise that is linked later", |f, own| {
        let (promise, future) = Promise::new();
        let made = future.map(|n| n);
        drop(f.map(move |()| promise.link(own.get().unwrap().future())));
        made
    }),
    ("a promise that is linked before", |f, own| {
        let (promise, future) = Promise::new();
        let made = future.map(|n| n);
        promise.link(f.flat_map(move |()| own.get().unwrap().future()));
        made
    }),
];

trait ZipWith {
    fn zip_with(&self, other: &Shared<u32>) -> Future<u32>;
}

impl ZipWith for Shared<u32> {
    fn zip_with(&self, other: &Shared<u32>) -> Future<u32> {
        self.future().zip_with(other.future(), |a, b| a + b)
    }
}

#[test]
fn a_future_that_waits_for_itself_through_a_shared_one_is_a_cycle() {
    for (name, knot) in KNOTS {
        in_time(name, move || {
            for (early, late) in [(false, false), (true, false), (false, true)] {
                let (promise, future) = Promise::<()>::new();
                let place = Arc::new(OnceLock::new());
                let shared = knot(future, Arc::clone(&place)).shared();
                place.set(shared.clone()).ok().unwrap();
                if early {
                    shared.future().interrupt("stop");
                }
                promise.set(());
                if late {
                    shared.future().interrupt("stop");
                }
                assert_eq!(kind(shared.wait()), FailureKind::Cycle, "{name}");
            }
        });
    }
}

/// Ways that meet are no cycle.
#[test]
fn futures_that_become_shared_ones_that_do_not_wait_for_them() {
    let (promise, source) = Promise::<u32>::new();
    let source = source.shared();
    let (go, gone) = Promise::<()>::new();
    let gone = gone.shared();
    let mut last = source.clone();
    for _ in 0..20 {
        let (one, other) = (last.clone(), last.clone());
        let both = gone.flat_map(move |()| one.future().zip_with(other.future(), |a, b| a.max(b)));
        last = both.map(|n| n + 1).shared();
    }
    let seen = Arc::new(AtomicBool::new(false));
    let sees = Arc::clone(&seen);
    let last = last.map(move |n| {
        sees.store(true, Ordering::SeqCst);
        n
    });
    go.set(());
    assert!(!seen.load(Ordering::SeqCst));
    promise.set(1);
    assert_eq!(last.wait().unwrap(), 21);
}

// --- interest ---

fn stop(future: &Future<u32>, how: &str) {
    match how {
        "interrupt" => future.interrupt("stop"),
        _ => assert_eq!(future.kill(), Killed::BeforeStart),
    }
}

/// Whoever leaves, by an interrupt, a kill or a drop, stops nobody else; the last to leave stops the source.
#[test]
fn a_consumer_that_leaves_stops_nobody_else() {
    for how in ["interrupt", "kill"] {
        let (promise, source) = Promise::<u32>::new();
        let shared = source.shared();
        let (one, two, three) = (shared.future(), shared.future(), shared.future());
        stop(&one, how);
        one.interrupt("again");
        assert!(promise.interrupted().is_none(), "{how}");
        drop(two);
        assert!(promise.interrupted().is_none(), "{how}");
        promise.set(1);
        assert_eq!(three.wait().unwrap(), 1, "{how}");

        let (promise, source) = Promise::<u32>::new();
        let shared = source.shared();
        let (one, two) = (shared.future(), shared.map(|n| n).masked());
        stop(&one, how);
        stop(&two, "interrupt");
        assert!(promise.interrupted().is_none(), "{how}: the other is masked");
        stop(&two, "kill");
        assert!(promise.interrupted().is_some(), "{how}");

        let (promise, source) = Promise::<u32>::new();
        let shared = source.shared();
        let (one, two) = (shared.future(), shared.future());
        stop(&one, how);
        drop(two);
        assert!(promise.interrupted().is_some(), "{how}: who is left does not want it");

        let (promise, source) = Promise::<u32>::new();
        let shared = source.shared();
        let (one, two) = (shared.future(), shared.future());
        stop(&one, how);
        drop(one);
        assert!(promise.interrupted().is_none(), "{how}: it has gone, the other has not");
        let (one, late) = (shared.future(), shared.future());
        stop(&one, how);
        stop(&two, how);
        assert!(promise.interrupted().is_none(), "{how}: one has come since");
        stop(&late, how);
        assert!(promise.interrupted().is_some(), "{how}");
    }
}

/// Each layer needs the one beneath twice: all of them, or none.
#[test]
fn layers_of_shared_futures_are_interrupted_from_above() {
    for how in ["interrupt", "kill"] {
        let (promise, source) = Promise::<u32>::new();
        let mut last = source.shared();
        let mut middle = None;
        for layer in 0..40 {
            last = last.zip_with(&last).shared();
            if layer == 20 {
                middle = Some(last.future());
            }
        }
        let top = last.future();
        drop(last);
        stop(&top, how);
        assert!(promise.interrupted().is_none(), "{how}");
        drop(middle);
        assert!(promise.interrupted().is_some(), "{how}");
    }
}

/// More paths to one task than any count of them could hold, and it ends while its visitor has it.
#[test]
fn a_task_that_is_met_on_every_path() {
    for how in ["interrupt", "kill"] {
        in_time("paths", move || {
            let pool = Pool::new(1).unwrap();
            let live = Arc::<AtomicUsize>::default();
            let held = Counted::new(&live);
            let ((start, started), (go, told)) = (mpsc::channel(), mpsc::channel());
            let task = pool.spawn(move || {
                start.send(()).unwrap();
                told.recv().unwrap();
                u32::from(held.alive())
            });
            started.recv().unwrap();
            let source = task.shared();
            let mut last = source.clone();
            for _ in 0..64 {
                last = last.future().zip_with(last.future(), |a, b| a & b).shared();
            }
            let again = source.clone();
            // All that lies upstream has been found when it is called.
            let (_promise, other) = Promise::<u32>::with_interrupt(move |_| {
                let _ = go.send(());
                while !again.is_done() {
                    thread::yield_now();
                }
            });
            let top = last.future().zip_with(other, |a, b| a & b);
            drop(last);
            stop(&top, how);
            match source.wait() {
                Ok(n) => assert_eq!(n, 1),
                Err(failure) => assert_eq!((failure.kind(), how), (FailureKind::Killed, "kill")),
            }
            drop((top, pool));
            assert_eq!(live.load(Ordering::SeqCst), 0);
        });
    }
}

/// It goes on for ever, also when all handles have gone.
#[test]
fn a_shared_future_that_is_never_done() {
    let consumer = Future::<u32>::never().shared().future();
    assert!(!consumer.is_done());
    let (promise, future) = Promise::<()>::new();
    let consumer = future.flat_map(|()| Future::<u32>::never()).shared().future();
    promise.set(());
    assert!(consumer.wait_timeout(Duration::ZERO).is_err());
}
