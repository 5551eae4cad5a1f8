//! Futures whose results, wakers and handlers are awkward: dropped with a panic, used up by a poll, never done, dropped
//! where something is locked, owning the next of a million.
#![allow(missing_docs)]

use std::any::Any;
use std::cell::{Cell, RefCell};
use std::future::Future as _;
use std::panic::{self, AssertUnwindSafe};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Wake, Waker};
use std::thread;
use std::time::Duration;

use raddle_core::{
    Failure, FailureKind, Future, Pool, Promise, ScopeLocal, Shared, as_completed, collect, first,
    select, window,
};

mod kills;
mod mail;
mod relief;
mod waits;

/// Long enough for what hangs.
const LONG: Duration = Duration::from_secs(300);
/// Long enough to be done if it ever is, when everything that leads there has happened.
const SHORT: Duration = Duration::from_millis(5);

/// Runs `f` on a thread of its own, with a small stack, and fails if it does not come back.
fn in_time(f: impl FnOnce() + Send + 'static) {
    let (sender, result) = mpsc::channel();
    let run = move || sender.send(panic::catch_unwind(AssertUnwindSafe(f)));
    thread::Builder::new().stack_size(512 << 10).spawn(run).unwrap();
    match result.recv_timeout(LONG) {
        Ok(Ok(())) => {}
        Ok(Err(payload)) => panic::resume_unwind(payload),
        Err(why) => panic!("hangs: {why}"),
    }
}

/// A pool of one whose thread is at something else until the sender goes.
fn busy() -> (Pool, mpsc::Sender<()>) {
    let pool = Pool::new(1).unwrap();
    let (go, goes) = mpsc::channel::<()>();
    let (started, starts) = mpsc::channel();
    drop(pool.spawn(move || {
        started.send(()).unwrap();
        let _ = goes.recv();
    }));
    starts.recv().unwrap();
    (pool, go)
}

/// A future whose result a poll has given away.
fn taken<T: Send + 'static>(value: T) -> Future<T> {
    let mut future = Future::ready(value);
    assert!(Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())).is_ready());
    future
}

/// Its drop panics.
#[derive(Clone)]
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        if !thread::panicking() {
            panic!("boom");
        }
    }
}

/// Nothing that this thread puts off is lost: a chain so long that some of it is.
fn assert_as_good_as_new() {
    let (first, mut last) = Promise::<u32>::new();
    for _ in 0..100_000 {
        let (promise, future) = Promise::new();
        drop(last.map(move |n| promise.set(n)));
        last = future;
    }
    first.set(7);
    assert_eq!(last.wait().unwrap(), 7);
}

#[test]
fn a_future_that_a_poll_has_emptied_is_a_failure_for_who_follows() {
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        let (promise, future) = Promise::<()>::new();
        let inner = future.flat_map(|()| taken(1));
        promise.set(());
        assert_eq!(inner.wait().unwrap_err().kind(), FailureKind::Error);
        // In a task's walk, where a panic would end the process.
        assert!(pool.spawn(|| ()).flat_map(|()| taken(1)).wait().is_err());
        assert!(pool.spawn(|| -> u32 { panic!("no") }).or(taken(1)).wait().is_err());
        let (promise, future) = Promise::<u32>::new();
        promise.link(taken(1));
        assert!(future.wait().is_err());
        assert!(window([1, 2], 1, taken::<u32>).wait().is_err());
        assert!(collect([taken(1), Future::ready(2)]).wait().is_err());
        assert_as_good_as_new();
    });
}

#[test]
fn values_that_panic_as_they_are_dropped_end_no_process_and_hold_nothing_up() {
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        // Two that are there already when another fails: on a worker.
        let (gate, open) = Promise::<()>::new();
        let fails = open.on(&pool).map(|()| -> Bomb { panic!("no") });
        let all = collect([Future::ready(Bomb), pool.spawn(|| Bomb), fails, Future::ready(Bomb)]);
        gate.set(());
        let Err(failure) = all.wait() else { panic!("one fails") };
        assert_eq!(failure.kind(), FailureKind::Panicked);
        // The last that holds the result is the source, on a worker.
        let (gate, open) = Promise::<()>::new();
        let consumer = open.on(&pool).map(|()| Bomb).shared().future().map(std::mem::forget);
        gate.set(());
        consumer.wait().unwrap();
        // Nobody wants them any more: here.
        let (promise, future) = Promise::<Bomb>::new();
        drop(collect([Future::ready(Bomb), future, Future::ready(Bomb)]));
        drop(promise);
        let (promise, future) = Promise::<Bomb>::new();
        drop(window([0, 1, 2], 3, {
            let mut late = Some(future);
            move |n| if n == 1 { late.take().unwrap() } else { Future::ready(Bomb) }
        }));
        drop(promise);
        let (promise, future) = Promise::<Bomb>::new();
        let mut results = as_completed([Future::ready(Bomb), future, Future::ready(Bomb)]);
        std::mem::forget(results.next());
        drop(results);
        drop(promise);
        // Two that are there when one fails that is there as well.
        assert!(
            collect([Future::ready(Bomb), Future::ready(Bomb), Future::failed("no")])
                .wait()
                .is_err()
        );
        assert_as_good_as_new();
        assert_eq!(pool.spawn(|| 1).wait().unwrap(), 1);
    });
}

/// Is not done, and when it is dropped nothing is left of what it counts.
fn assert_never<T: Send + 'static>(what: &str, made: impl FnOnce(Arc<()>) -> Future<T>) {
    let counted = Arc::new(());
    let future = made(Arc::clone(&counted));
    let Err(future) = future.wait_timeout(SHORT) else { panic!("{what} is done") };
    drop(future);
    let mut left = 0;
    while Arc::strong_count(&counted) > 1 {
        left += 1;
        assert!(left < 60_000, "{what} leaves something");
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn what_is_made_of_never_is_never_done() {
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        let with = |counted: Arc<()>, n: u32| {
            drop(counted);
            n
        };
        assert_never("first", |c| first([Future::<u32>::never()]).map(move |n| with(c, n)));
        assert_never("select", |c| select([Future::<()>::never()]).map(move |_| with(c, 1)));
        assert_never("collect", |c| {
            let all = collect([Future::never(), pool.spawn(|| 1)]);
            all.map(move |all| with(c, all[0]))
        });
        assert_never("zip", |c| {
            pool.spawn(|| 1).zip(Future::<u32>::never()).map(move |(n, _)| with(c, n))
        });
        assert_never("window", |c| {
            window([1, 2], 2, |n| if n == 1 { Future::never() } else { Future::ready(n) })
                .map(move |all| with(c, all[0]))
        });
        assert_never("on", |c| Future::<u32>::never().on(&pool).map(move |n| with(c, n)));
        assert_never("shared", |c| {
            Future::<u32>::never().shared().future().map(move |n| with(c, n))
        });
    });
}

#[test]
fn what_is_made_of_what_becomes_never_leaves_nothing() {
    fn check<T: Send + 'static>(
        what: &str,
        make: impl FnOnce(Future<u32>, Arc<()>) -> Future<T>,
    ) -> Arc<()> {
        let counted = Arc::new(());
        let (promise, future) = Promise::<u32>::new();
        drop(make(future, Arc::clone(&counted)));
        assert_eq!(Arc::strong_count(&counted), 2, "{what}");
        promise.link(Future::never());
        assert_eq!(Arc::strong_count(&counted), 1, "{what} leaves something");
        counted
    }
    in_time(|| {
        let pool = Pool::new(1).unwrap();
        check("collect", |f, c| collect([f, Future::ready(1)]).map(move |_| drop(c)));
        check("first", |f, c| first([f, Future::never()]).map(move |_| drop(c)));
        check("shared", |f, c| f.shared().map(move |_| drop(c)));
        check("on", |f, c| f.on(&pool).map(move |_| drop(c)));
        check("window", |f, c| {
            let mut f = Some(f);
            window([1], 1, move |_| f.take().unwrap()).map(move |_| drop(c))
        });
        check("all of them", |f, c| {
            let shared = f.shared();
            let both = collect([shared.future().on(&pool), shared.future()]);
            first([both]).map(move |_| drop(c))
        });
        // Watched only after it has become that.
        let counted = Arc::new(());
        let held = Arc::clone(&counted);
        let (promise, future) = Promise::<u32>::new();
        let future = future.map(|n| n);
        promise.link(Future::never());
        drop(collect([future, Future::ready(1)]).map(move |_| drop(held)));
        assert_eq!(Arc::strong_count(&counted), 1);
        // Nobody is left who could wake it.
        let (promise, future) = Promise::<u32>::new();
        let (polled, is_polled) = mpsc::channel();
        let asynchronous = pool.spawn_async(async move {
            let mut future = future;
            std::future::poll_fn(|cx| {
                let state = Pin::new(&mut future).poll(cx);
                polled.send(()).unwrap();
                state
            })
            .await
        });
        is_polled.recv().unwrap();
        promise.link(Future::never());
        assert_eq!(asynchronous.wait().unwrap_err().kind(), FailureKind::Broken);
        // Polled only afterwards, and polled again.
        let (promise, future) = Promise::<u32>::new();
        promise.link(Future::never());
        let asynchronous = pool.spawn_async(async move {
            let mut future = future;
            let mut polls = 0;
            std::future::poll_fn(|cx| {
                polls += 1;
                if polls < 3 {
                    cx.waker().wake_by_ref();
                }
                Pin::new(&mut future).poll(cx)
            })
            .await
        });
        assert_eq!(asynchronous.wait().unwrap_err().kind(), FailureKind::Broken);
        // Shared only afterwards.
        let counted = Arc::new(());
        let held = Arc::clone(&counted);
        let (promise, future) = Promise::<u32>::new();
        let future = future.map(|n| n);
        promise.link(Future::never());
        let shared = future.shared();
        let also = shared.clone();
        drop(shared.map(move |_| drop((also, held))));
        drop(shared);
        assert_eq!(Arc::strong_count(&counted), 1);
    });
}

#[test]
fn the_rest_of_a_list_is_not_dropped_under_its_lock() {
    /// Owns the promise of another.
    struct Owner(#[expect(dead_code, reason = "for its drop")] Option<Promise<Owner>>);
    in_time(|| {
        let (mut promises, mut futures) = (Vec::new(), Vec::new());
        for _ in 0..3 {
            let (promise, future) = Promise::<Owner>::new();
            promises.push(promise);
            futures.push(future);
        }
        let (c, b, a) = (promises.pop().unwrap(), promises.pop().unwrap(), promises.pop().unwrap());
        let mut promises = Some((a, b, c));
        let mut futures = futures.into_iter();
        // They end when all have been looked at, and none is attached to.
        let list = std::iter::from_fn(move || {
            futures.next().or_else(|| {
                if let Some((a, b, c)) = promises.take() {
                    b.fail("no");
                    c.set(Owner(Some(a)));
                }
                None
            })
        });
        assert_eq!(collect(list).wait().err().unwrap().to_string(), "no");
    });
}

/// A waker that owns something.
struct Owning(#[expect(dead_code, reason = "for its drop")] Mutex<Box<dyn Any + Send>>);

impl Wake for Owning {
    fn wake(self: Arc<Self>) {}
}

#[test]
fn what_a_poll_has_left_is_not_dropped_under_a_lock() {
    in_time(|| {
        for complete in [false, true] {
            let (a, first_future) = Promise::<u32>::new();
            let (b, mut second) = Promise::<u32>::new();
            {
                let owning: Box<dyn Any + Send> = Box::new(a);
                let waker = Waker::from(Arc::new(Owning(Mutex::new(owning))));
                assert!(Pin::new(&mut second).poll(&mut Context::from_waker(&waker)).is_pending());
            }
            if complete {
                let mut ends = as_completed([first_future, second]);
                assert_eq!(ends.next().unwrap().1.unwrap_err().kind(), FailureKind::Broken);
            } else {
                let raced = first([first_future, second]);
                assert_eq!(raced.wait().unwrap_err().kind(), FailureKind::Broken);
            }
            drop(b);
        }
    });
}

#[test]
fn a_waker_that_panics_as_it_is_dropped_holds_nothing_up() {
    in_time(|| {
        let (never_set, mut polled) = Promise::<u32>::new();
        {
            let owning: Box<dyn Any + Send> = Box::new(Bomb);
            let waker = Waker::from(Arc::new(Owning(Mutex::new(owning))));
            assert!(Pin::new(&mut polled).poll(&mut Context::from_waker(&waker)).is_pending());
        }
        let (promise, future) = Promise::<()>::new();
        let inner = future.flat_map(move |()| polled);
        promise.set(());
        never_set.set(1);
        assert_eq!(inner.wait().unwrap(), 1);
        assert_as_good_as_new();
    });
}

#[test]
fn a_signal_that_was_kept_back_is_not_dropped_under_the_lock() {
    struct Owner(#[expect(dead_code, reason = "for its drop")] Shared<u32>);
    impl std::fmt::Debug for Owner {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("Owner")
        }
    }
    impl std::fmt::Display for Owner {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("owner")
        }
    }
    impl std::error::Error for Owner {}
    in_time(|| {
        for done in [true, false] {
            let (promise, future) = Promise::<u32>::new();
            let shared = future.shared();
            let (one, other) = (shared.future(), shared.future());
            one.interrupt(Failure::new(Owner(shared)));
            drop(one);
            if done {
                promise.set(1);
                assert_eq!(other.wait().unwrap(), 1);
            } else {
                drop(other);
                drop(promise);
            }
        }
    });
}

#[test]
fn a_handler_that_is_replaced_is_not_dropped_under_the_lock() {
    static CONTEXT: ScopeLocal<Arc<Interrupter>> = ScopeLocal::new("context");
    /// Interrupts a future as it is dropped.
    struct Interrupter(Mutex<Option<Future<u32>>>);
    impl Drop for Interrupter {
        fn drop(&mut self) {
            if let Some(future) = &*self.0.lock().unwrap() {
                future.interrupt("dropped");
            }
        }
    }
    in_time(|| {
        let (promise, future) = Promise::<u32>::new();
        let interrupter = Arc::new(Interrupter(Mutex::new(Some(future))));
        CONTEXT.bind(interrupter).run(|| promise.on_interrupt(|_| ()));
        let heard = Arc::new(AtomicUsize::new(0));
        let hears = Arc::clone(&heard);
        promise.on_interrupt(move |_| _ = hears.fetch_add(1, Ordering::SeqCst));
        assert_eq!(heard.load(Ordering::SeqCst), 1);
    });
}

#[test]
fn a_list_of_shared_futures_is_dropped_without_recursion() {
    #[derive(Clone)]
    struct Cell(#[expect(dead_code, reason = "for its drop")] Option<Shared<Cell>>);
    in_time(|| {
        let mut list = Future::ready(Cell(None)).shared();
        for _ in 0..300_000 {
            list = Future::ready(Cell(Some(list))).shared();
        }
        drop(list);
        // The same, as they come.
        let mut list = Future::ready(Cell(None)).shared();
        for _ in 0..1_000 {
            let (promise, future) = Promise::new();
            let next = future.shared();
            promise.set(Cell(Some(list)));
            list = next;
        }
        drop(list);
    });
}

#[test]
fn a_thread_that_ends_recurses_no_deeper_than_any_other() {
    struct AtEnd(RefCell<Option<Promise<u32>>>);
    impl Drop for AtEnd {
        fn drop(&mut self) {
            self.0.take().unwrap().set(1);
        }
    }
    thread_local! {
        static AT_END: AtEnd = const { AtEnd(RefCell::new(None)) };
        static USED: Cell<bool> = const { Cell::new(false) };
    }
    in_time(|| {
        let (set, is_set) = mpsc::channel();
        let thread = thread::Builder::new().stack_size(512 << 10).spawn(move || {
            // Registered before anything of the library's, so dropped after that.
            AT_END.with(|_| ());
            USED.set(true);
            assert_as_good_as_new();
            let (first, mut last) = Promise::<u32>::new();
            for _ in 0..300_000 {
                let (promise, future) = Promise::new();
                drop(last.map(move |n| promise.set(n)));
                last = future;
            }
            drop(last.map(move |n| set.send(n).unwrap()));
            AT_END.with(|end| *end.0.borrow_mut() = Some(first));
        });
        thread.unwrap().join().unwrap();
        assert_eq!(is_set.recv_timeout(LONG).unwrap(), 1);
    });
}

#[test]
fn a_wide_window_takes_no_longer_for_each() {
    in_time(|| {
        const MANY: usize = 400_000;
        let mut promises = Vec::new();
        let (sender, made) = mpsc::channel();
        let all = window(0..MANY, MANY, move |_| {
            let (promise, future) = Promise::new();
            sender.send(promise).unwrap();
            future
        });
        promises.extend(made.try_iter());
        assert_eq!(promises.len(), MANY);
        for (n, promise) in promises.into_iter().enumerate() {
            promise.set(n);
        }
        assert_eq!(all.wait().unwrap().len(), MANY);
    });
}

#[test]
fn a_waker_whose_clone_panics_takes_no_result() {
    use std::task::RawWakerVTable;
    const TABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("no clones"), |_| (), |_| (), |_| ());
    let (promise, mut future) = Promise::new();
    {
        // SAFETY: the functions use no data.
        let waker = unsafe { Waker::new(std::ptr::null(), &TABLE) };
        let poll = AssertUnwindSafe(|| {
            Pin::new(&mut future).poll(&mut Context::from_waker(&waker)).is_ready()
        });
        assert!(panic::catch_unwind(poll).is_err());
    }
    promise.set(3);
    assert_eq!(future.wait().unwrap(), 3);
}
