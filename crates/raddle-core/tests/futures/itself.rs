//! Closures that wait for what waits for them, and what only looks so.

use std::hint::black_box;
use std::sync::{Arc, OnceLock, mpsc};
use std::thread;
use std::time::Duration;

use raddle_core::{
    Failure, FailureKind, Future, Pool, Promise, Shared, collect, first, join, window,
};

use crate::support::{in_time, kind};

/// The future in whose making a closure waits for it, as soon as it is there.
#[derive(Clone)]
struct Own {
    place: Arc<OnceLock<Shared<u32>>>,
    seen: mpsc::Sender<FailureKind>,
}

impl Own {
    /// By a closure: 7 if that comes back with a failure, which the test sees.
    fn wait(&self) -> u32 {
        self.wait_for(self.get().future())
    }

    fn wait_for(&self, future: Future<u32>) -> u32 {
        self.seen.send(kind(future.wait())).unwrap();
        7
    }

    fn get(&self) -> Shared<u32> {
        self.place.get().unwrap().clone()
    }
}

type Knot = fn(Future<u32>, Own) -> Future<u32>;

const KNOTS: [(&str, Knot); 19] = [
    ("map", |f, own| f.map(move |_| own.wait())),
    ("at the head of a chain", |f, own| f.map(move |_| own.wait()).map(|n| n).map(|n| n)),
    ("in the midst of a chain", |f, own| {
        f.map(|n| n).map(|n| n).map(move |_| own.wait()).map(|n| n).map(|n| n)
    }),
    ("at the end of a chain", |f, own| f.map(|n| n).map(|n| n).map(move |_| own.wait())),
    ("flat_map", |f, own| f.flat_map(move |_| Future::ready(own.wait()))),
    ("flat_map in a chain", |f, own| {
        f.map(|n| n).flat_map(move |_| Future::ready(own.wait())).map(|n| n)
    }),
    ("behind a flat_map", |f, own| f.flat_map(Future::ready).map(move |_| own.wait())),
    ("behind many", |mut f, own| {
        for _ in 0..100 {
            f = f.flat_map(Future::ready).map(|n| n);
        }
        f.map(move |_| own.wait()).flat_map(Future::ready)
    }),
    ("behind a linked one", |f, own| {
        let (promise, inner) = Promise::new();
        let linked = Future::ready(()).flat_map(|()| inner);
        drop(f.map(move |n| promise.set(n)));
        linked.map(move |_| own.wait())
    }),
    ("a failure's", |f, own| {
        f.and_then(|_| Err::<u32, _>("no")).rescue(move |_| Future::ready(own.wait()))
    }),
    ("one part of several", |f, own| {
        let (other, part) = Promise::new();
        other.set(1);
        f.map(move |_| own.wait()).zip_with(part, |a, b| a.max(b))
    }),
    ("one of many", |f, own| {
        collect([f.map(move |_| own.wait()), Future::ready(1)]).map(|all| all[0])
    }),
    ("what a window calls", |f, own| {
        let mut f = Some(f);
        let next = move |_| f.take().unwrap_or_else(|| Future::ready(own.wait()));
        window(0..2, 1, next).map(|all| all[1])
    }),
    ("a consumer of a shared one", |f, own| f.shared().future().map(move |_| own.wait())),
    ("what is made of it", |f, own| {
        f.map(move |_| {
            let made = own.get().future().map(|n| n + 1).flat_map(|n| Future::ready(n + 1));
            own.wait_for(made)
        })
    }),
    ("and of others", |f, own| {
        f.map(move |_| {
            let (_kept, never) = Promise::<u32>::new();
            let made = own.get().future().zip_with(never, |a, b| a + b);
            own.wait_for(made)
        })
    }),
    ("a promise that becomes it", |f, own| {
        let (promise, future) = Promise::new();
        promise.link(f.map(move |_| own.wait()));
        future
    }),
    ("within another closure", |f, own| {
        let (inner, next) = Promise::new();
        let made = f.map(move |n| {
            inner.set(n);
            n
        });
        drop(next.map(move |_| own.wait()));
        made
    }),
    ("deep in closures", |f, own| {
        let (outer, mut next) = Promise::new();
        for _ in 0..20 {
            let (promise, following) = Promise::new();
            drop(next.map(move |n| promise.set(n)));
            next = following;
        }
        drop(next.map(move |_| own.wait()));
        f.map(move |n| {
            outer.set(n);
            n
        })
    }),
];

#[test]
fn a_closure_that_waits_for_its_own_future_is_a_cycle() {
    for (name, knot) in KNOTS {
        in_time(name, move || {
            let (seen, sees) = mpsc::channel();
            let own = Own { place: Arc::default(), seen };
            let (promise, future) = Promise::new();
            let shared = knot(future, own.clone()).shared();
            own.place.set(shared.clone()).ok().unwrap();
            promise.set(1);
            assert_eq!(sees.recv().unwrap(), FailureKind::Cycle, "{name}");
            assert!(shared.wait().is_ok(), "{name}");
        });
    }
}

#[test]
fn so_is_one_that_follows_a_task() {
    for (name, knot) in KNOTS {
        in_time(name, move || {
            for threads in [1, 2] {
                let (pool, other) = (Pool::new(threads).unwrap(), Pool::new(1).unwrap());
                for moves in [false, true] {
                    let (seen, sees) = mpsc::channel();
                    let own = Own { place: Arc::default(), seen };
                    let (go, goes) = mpsc::channel::<()>();
                    let task = pool.spawn(move || goes.recv().map_or(0, |()| 1));
                    let task = if moves { task.on(&other) } else { task };
                    let shared = knot(task, own.clone()).shared();
                    own.place.set(shared.clone()).ok().unwrap();
                    go.send(()).unwrap();
                    assert_eq!(sees.recv().unwrap(), FailureKind::Cycle, "{name}");
                    assert!(shared.wait().is_ok(), "{name}");
                }
            }
        });
    }
}

/// What is done has the closure called at once, unless this is deep: then nothing that others know leads there.
#[test]
fn so_is_one_that_is_put_off() {
    /// Deeper than calls nest.
    #[inline(never)]
    fn deep<R>(f: impl FnOnce() -> R) -> R {
        let room = black_box([0_u8; 512 << 10]);
        let result = f();
        black_box(&room);
        result
    }
    let knots: [Knot; 4] = [
        |f, _| f,
        |f, _| f.map(|n| n),
        |f, _| f.flat_map(Future::ready),
        |f, _| f.map(|n| n).flat_map(Future::ready).map(|n| n),
    ];
    for knot in knots {
        in_time("put off", move || {
            let (seen, sees) = mpsc::channel();
            let own = Own { place: Arc::default(), seen };
            let (promise, start) = Promise::<()>::new();
            let made = start.map({
                let own = own.clone();
                move |()| {
                    let waits = own.clone();
                    let wait = move |_| Future::ready(waits.wait());
                    let put_off = deep(|| Future::ready(1).flat_map(wait));
                    assert!(!put_off.is_done());
                    own.place.set(knot(put_off, own.clone()).shared()).ok().unwrap();
                }
            });
            promise.set(());
            made.wait().unwrap();
            assert_eq!(sees.recv().unwrap(), FailureKind::Cycle);
            assert_eq!(own.get().wait().unwrap(), 7);
        });
    }
}

/// What becomes of it does not hang on the closure alone.
#[test]
fn one_that_waits_for_it_with_a_limit_or_for_another_goes_on() {
    type End = fn(Future<u32>) -> Result<u32, Failure>;
    let ends: [(&str, End); 3] = [
        ("within", |own| own.within(Duration::from_millis(5)).wait()),
        ("first", |own| {
            let (promise, other) = Promise::new();
            let late = thread::spawn(move || promise.set(3));
            let result = first([own, other]).wait();
            late.join().unwrap();
            result
        }),
        ("wait_timeout", |own| match own.wait_timeout(Duration::from_millis(5)) {
            Ok(result) => result,
            Err(_) => Ok(3),
        }),
    ];
    for (name, end) in ends {
        in_time(name, move || {
            let place = Arc::new(OnceLock::<Shared<u32>>::new());
            let (promise, future) = Promise::<u32>::new();
            let (seen, sees) = mpsc::channel();
            let shared = future.map({
                let place = Arc::clone(&place);
                move |n| {
                    seen.send(end(place.get().unwrap().future())).unwrap();
                    n
                }
            });
            let shared = shared.shared();
            place.set(shared.clone()).ok().unwrap();
            promise.set(1);
            match sees.recv().unwrap() {
                Ok(n) => assert_eq!(n, 3, "{name}"),
                Err(failure) => assert_eq!(failure.kind(), FailureKind::TimedOut, "{name}"),
            }
            assert_eq!(shared.wait().unwrap(), 1);
        });
    }
}

/// What was freed on the way is used again at once.
#[test]
fn what_a_closure_makes_is_not_taken_for_what_it_follows() {
    in_time("new futures", || {
        let (first, mut future) = Promise::<u32>::new();
        for turn in 0..200 {
            let wait = move |n| {
                let (promise, made) = Promise::<u32>::new();
                let made = made.map(|n| n).flat_map(Future::ready).map(|n| n);
                let late = thread::spawn(move || promise.set(1));
                let n = n + made.wait().unwrap();
                late.join().unwrap();
                n
            };
            future = match turn % 4 {
                0 => future.map(wait),
                1 => future.flat_map(move |n| Future::ready(wait(n))),
                2 => {
                    let (promise, next) = Promise::new();
                    promise.link(future.map(wait));
                    next
                }
                _ => future.shared().future().map(wait),
            };
        }
        first.set(0);
        assert_eq!(future.wait().unwrap(), 200);
    });
}

/// Consumers of a shared future, parts of a combination, and what is beside a closure in its pool are others' affair.
#[test]
fn one_that_waits_for_what_is_beside_it_goes_on() {
    in_time("beside", || {
        let (promise, future) = Promise::<u32>::new();
        let shared = future.shared();
        let place = Arc::new(OnceLock::<Shared<u32>>::new());
        let one = shared.future().map({
            let place = Arc::clone(&place);
            move |n| n + place.get().unwrap().clone().wait().unwrap()
        });
        let second = shared.future().map(|n| n + 1).shared();
        place.set(second.clone()).ok().unwrap();
        promise.set(1);
        assert_eq!((one.wait().unwrap(), second.wait().unwrap()), (3, 2));
    });
    in_time("in a pool", || {
        let pool = Arc::new(Pool::new(2).unwrap());
        let (promise, future) = Promise::<u32>::new();
        let future = future.map({
            let pool = Arc::clone(&pool);
            move |n| {
                let more = pool.spawn(move || n + 1).map(|n| n + 1);
                let (a, b) = pool.run(|_| join(|| more.wait().unwrap(), || n));
                a + b
            }
        });
        drop(pool.spawn(move || promise.set(1)));
        assert_eq!(future.wait().unwrap(), 4);
    });
}

/// What has become a future that is never done is freed before what followed it is dropped, and used again at once.
#[test]
fn what_a_drop_makes_is_not_taken_for_what_was_left() {
    struct Drops(mpsc::Sender<Result<u32, Failure>>);

    impl Drop for Drops {
        fn drop(&mut self) {
            for _ in 0..100 {
                let (promise, made) = Promise::<u32>::new();
                let made = made.flat_map(Future::ready);
                let late = thread::spawn(move || promise.set(1));
                self.0.send(made.wait()).unwrap();
                late.join().unwrap();
            }
        }
    }

    type Left = fn(Future<u32>, Drops) -> Future<()>;
    let all: [(&str, Left); 4] = [
        ("shared", |left, drops| left.shared().future().map(move |_| drop(drops))),
        ("collect", |left, drops| collect([left]).map(move |_| drop(drops))),
        ("first", |left, drops| first([left]).map(move |_| drop(drops))),
        ("zip", |left, drops| left.zip(Future::ready(1)).map(move |_| drop(drops))),
    ];
    for (name, make) in all {
        in_time(name, move || {
            let (sender, results) = mpsc::channel();
            let (promise, future) = Promise::<u32>::new();
            drop(make(future.flat_map(|_| Future::never()), Drops(sender)));
            promise.set(1);
            assert!(results.iter().all(|result| result.is_ok_and(|n| n == 1)), "{name}");
        });
    }
}
