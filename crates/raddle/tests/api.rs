//! One program that says every name the library promises, as a user would: that they are there, take what they should, and
//! give what they should.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::Duration;

use raddle::lock::{
    Condvar, LazyLock, Mutex, MutexGuard, ObjectHeader, OnceLock, ReentrantLock, RwLock,
};
use raddle::trace::{Trace, TraceLevel};
use raddle::{
    CancelOnDrop, Failure, FailureKind, Future, Interrupt, Killed, Pool, PoolBuildError,
    PoolBuilder, Producer, Promise, Scope, Shared, SharedPromise, Snapshot, Waits, Worker, par,
    scope_local,
};

const SHORT: Duration = Duration::from_millis(5);
const LONG: Duration = Duration::from_secs(60);

type Fallible<T> = Result<T, Box<dyn Error + Send + Sync>>;

#[test]
fn fork_and_join() {
    fn fib(worker: &Worker, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        let (a, b) = worker.join(|w| fib(w, n - 1), |w| fib(w, n - 2));
        a + b
    }
    let (a, b): (i32, &str) = raddle::join(|| 1, || "b");
    assert_eq!((a, b), (1, "b"));
    let mut parts = [0; 4];
    let sum = raddle::scope(|s: &Scope<'_>| {
        for part in &mut parts {
            s.spawn(move |s| {
                s.spawn(move |_| *part = 1);
            });
        }
        7
    });
    assert_eq!((sum, parts), (7, [1; 4]));
    let spawned: Future<i32> = raddle::spawn(|| 5);
    assert_eq!(spawned.wait().unwrap(), 5);
    assert!(Pool::global().num_threads() > 0);

    let none: Result<Pool, PoolBuildError> = Pool::new(0);
    assert!(!none.unwrap_err().to_string().is_empty());
    let builder: PoolBuilder = Pool::builder()
        .threads(2)
        .thread_name("weaver")
        .stack_size(1 << 20)
        .keep_alive(Duration::from_millis(50))
        .waits(Waits::Substitute)
        .max_spare_threads(8)
        .spin_for(Duration::from_micros(10))
        .on_thread_start(|| ())
        .on_thread_exit(|| ())
        .before_start(|_| ())
        .after_finish(|_, _| ())
        .trace(TraceLevel::Phase);
    let pool = builder.build().unwrap();
    assert_eq!(pool.run(|w| fib(w, 15)), 610);
    assert_eq!(pool.spawn(|| 3).wait().unwrap(), 3);
    assert_eq!(pool.join(|| 1, || 2), (1, 2));
    assert_eq!(pool.scope(|_| 4), 4);
    assert_eq!(pool.kill_all(), 0);
    let (inside, threads, index) = pool.run(|_| {
        (
            Pool::current().is_some(),
            raddle::current_num_threads(),
            raddle::current_worker_index().is_some(),
        )
    });
    assert_eq!((inside, threads, index), (true, 2, true));
    assert_eq!(raddle::blocking(|| 6), 6);
    assert_eq!(pool.run(|_| raddle::broadcast(|context| context.index())).len(), 2);
    raddle::yield_now();
    let _host = Pool::builder().threads(1).waits(Waits::Host).build().unwrap();

    let trace: Trace = pool.trace();
    let file = std::env::temp_dir().join(format!("raddle-api-{}.trace", std::process::id()));
    trace.save(&file).unwrap();
    let loaded = Trace::load(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let _ = loaded.phases();
    assert!(loaded.html().contains("<html"));
    assert!(loaded.chrome_json().starts_with(['{', '[']));
    assert!(!loaded.summary().to_string().is_empty());
}

#[test]
fn promises() {
    let (promise, future): (Promise<i32>, Future<i32>) = Promise::new();
    assert!(!future.is_done());
    assert!(promise.interrupted().is_none());
    promise.set(1);
    assert_eq!(future.wait().unwrap(), 1);

    let (promise, future) = Promise::<i32>::with_interrupt(|_: Interrupt| ());
    future.interrupt("enough");
    let why: Option<Interrupt> = promise.interrupted();
    assert!(why.is_some());
    promise.fail("a text");
    assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Error);

    let (promise, future) = Promise::<i32>::new();
    promise.fail(Failure::from(std::io::Error::other("an error")));
    let failure = future.wait().unwrap_err();
    assert!(failure.downcast_ref::<std::io::Error>().is_some());
    let _: &dyn Error = &failure;

    let (promise, future) = Promise::new();
    promise.complete(Ok(1));
    assert_eq!(future.wait().unwrap(), 1);
    let (promise, future) = Promise::new();
    promise.link(Future::ready(2));
    assert_eq!(future.wait().unwrap(), 2);
    let (promise, future) = Promise::<()>::new();
    drop(promise);
    assert_eq!(future.wait().unwrap_err().kind(), FailureKind::Broken);

    let (shared, future) = SharedPromise::<i32>::new();
    assert!(shared.clone().try_set(1));
    assert!(!shared.try_fail("late") && !shared.try_complete(Ok(2)));
    assert_eq!(future.wait().unwrap(), 1);

    struct Nobody;
    impl Producer for Nobody {
        fn interrupt(&mut self, _: Interrupt) {}
        fn kill(&mut self) -> Killed {
            Killed::BeforeStart
        }
    }
    let (promise, future) = Promise::<i32>::with_producer(Nobody);
    future.interrupt("no");
    promise.set(1);
    assert_eq!(future.wait().unwrap(), 1);
}

#[test]
fn operations() {
    let one = || Future::ready(1);
    let bad = || Future::<i32>::failed("bad");
    let ok = |future: Future<i32>| future.wait().unwrap();
    assert_eq!(ok(Future::from_result(Ok::<_, std::io::Error>(1))), 1);
    assert_eq!(ok(Future::run(|| 1)), 1);
    Future::delay(SHORT).wait().unwrap();
    drop(Future::<i32>::never());
    assert_eq!(one().wait_timeout(LONG).unwrap().unwrap(), 1);
    assert!(Future::<i32>::never().wait_timeout(SHORT).is_err());
    assert_eq!(ok(one().map(|x| x + 1)), 2);
    assert_eq!(ok(one().and_then(|x| Ok::<_, std::fmt::Error>(x + 1))), 2);
    assert_eq!(ok(one().flat_map(|x| Future::ready(x + 1))), 2);
    assert_eq!(ok(Future::ready(one()).flatten()), 1);
    assert_eq!(one().filter(|x| *x > 1).wait().unwrap_err().kind(), FailureKind::Empty);
    one().unit().wait().unwrap();
    assert_eq!(ok(one().transform(|r: Result<i32, Failure>| Future::ready(r.unwrap()))), 1);
    assert_eq!(ok(bad().recover(|_: Failure| Ok(3))), 3);
    assert_eq!(ok(bad().rescue(|_: Failure| Future::ready(3))), 3);
    assert_eq!(ok(bad().or(Future::ready(4))), 4);
    assert_eq!(one().zip(Future::ready("z")).wait().unwrap(), (1, "z"));
    assert_eq!(ok(one().zip_with(one(), |a, b| a + b)), 2);
    assert_eq!(ok(one().on_success(|_: &i32| ()).on_failure(|_: &Failure| ())), 1);
    assert_eq!(ok(one().on_complete(|_: &Result<i32, Failure>| ()).ensure(|| ())), 1);
    assert_eq!(ok(one().on(Pool::global())), 1);
    let shared: Shared<i32> = one().shared();
    drop(shared);
    assert_eq!(ok(one().within(LONG)), 1);
    let late = Future::<i32>::never().within(SHORT).wait().unwrap_err();
    assert_eq!(late.kind(), FailureKind::TimedOut);
    let stopped = Future::<i32>::never().interrupt_after(SHORT).wait().unwrap_err();
    assert_eq!(stopped.kind(), FailureKind::TimedOut);
    assert_eq!(ok(one().delayed(SHORT)), 1);
    assert_eq!(ok(one().masked().interruptible()), 1);
    let killed: Killed = Future::<i32>::never().kill();
    let _ = format!("{killed:?}");
    one().detach();
    let guarded: CancelOnDrop<i32> = one().cancel_on_drop();
    drop(guarded);
    one().wait_ref();
    assert!(one().poll_now());
    assert!(!raddle::killed());

    async fn awaited() -> Result<i32, Failure> {
        let here = Future::ready(1).await?;
        Ok(here + Future::ready(2).shared().await?)
    }
    assert_eq!(Future::from_async(awaited()).wait().unwrap().unwrap(), 3);

    let failure = raddle::spawn(|| -> i32 { panic!("on purpose") }).wait().unwrap_err();
    assert_eq!(failure.kind(), FailureKind::Panicked);
    assert!(std::panic::catch_unwind(|| failure.resume()).is_err());
    assert_eq!(size_of::<Failure>(), size_of::<usize>());
}

#[test]
fn many_futures() -> Fallible<()> {
    let both = || vec![Future::ready(1), Future::ready(2)];
    assert_eq!(raddle::collect(both()).wait()?, [1, 2]);
    raddle::join_all(both()).wait()?;
    assert_eq!(raddle::collect_results(both()).wait()?.len(), 2);
    assert!(raddle::first(both()).wait()? > 0);
    let chosen = raddle::select(both()).wait()?;
    let _ = format!("{chosen:?}");
    assert_eq!(raddle::traverse([1, 2], |x| Future::ready(x * 2)).wait()?, [2, 4]);
    assert_eq!(raddle::fold(both(), 0, |sum, x| sum + x).wait()?, 3);
    assert_eq!(raddle::window(vec![1, 2, 3], 2, Future::ready).wait()?, [1, 2, 3]);
    let mut left = both();
    let (index, first) = raddle::wait_any(&mut left);
    assert_eq!((index < 2, first.is_ok(), left.len()), (true, true, 1));
    assert_eq!(raddle::wait_all(both()).len(), 2);
    assert_eq!(raddle::as_completed(both()).count(), 2);
    let sum = raddle::tail_loop(3, |left| {
        Future::ready(if left == 0 {
            ControlFlow::Break("done")
        } else {
            ControlFlow::Continue(left - 1)
        })
    });
    assert_eq!(sum.wait()?, "done");
    raddle::times(3, || Future::ready(())).wait()?;
    let mut rounds = 0..3;
    raddle::while_do(move || rounds.next().is_some(), || Future::ready(())).wait()?;
    Ok(())
}

scope_local! { static NAME: String; static NUMBER: u32; }

#[test]
fn scope_locals() {
    let name = String::from("ada");
    let seen = NAME.bind(name.clone()).bind_also(&NUMBER, 7).run(|| {
        assert_eq!(NUMBER.get(), Some(7));
        let snapshot = Snapshot::capture();
        NAME.bind_ref(&"grace".to_owned()).run(|| {
            assert_eq!(NAME.with(|n| n.len()), 5);
            snapshot.run(|| NAME.try_with(|n| n.clone()))
        })
    });
    assert_eq!((seen, NAME.is_bound()), (Some(name), false));
}

#[test]
fn locks() {
    static HEADER: ObjectHeader = ObjectHeader::new();
    let hash = HEADER.identity_hash();
    let mut guard = HEADER.lock();
    assert!(HEADER.is_locked() && HEADER.is_held());
    let _ = HEADER.wait_for(&mut guard, SHORT);
    HEADER.notify_one();
    HEADER.notify_all();
    drop(guard);
    assert!(HEADER.try_lock().is_some());
    assert!(HEADER.try_lock_for(SHORT).is_some());
    let _ = HEADER.is_fat();
    assert_eq!((HEADER.identity_hash(), size_of::<ObjectHeader>()), (hash, 4));

    let mutex = Mutex::new(1);
    let guard: MutexGuard<'_, i32> = mutex.lock();
    drop(guard);
    let condvar = Condvar::new();
    condvar.notify_all();
    let reentrant = ReentrantLock::new(1);
    assert_eq!(*reentrant.lock() + *reentrant.lock(), 2);
    let values = RwLock::new(1);
    *values.write() += 1;
    assert_eq!(*values.read(), 2);
    static ONCE: OnceLock<i32> = OnceLock::new();
    static LAZY: LazyLock<i32> = LazyLock::new(|| 2);
    assert_eq!(*ONCE.get_or_init(|| 1) + *LAZY, 3);
    let stats = raddle::lock::stats();
    let _ = (stats.inflations, stats.deflations, stats.fat_live, stats.parks);
}

#[test]
fn parallel_loops() {
    let mut items = vec![3, 1, 2];
    par::for_each(&mut items, |x| *x *= 2);
    par::sort(&mut items);
    par::sort_unstable(&mut items);
    par::sort_by_key(&mut items, |x| *x);
    assert_eq!(items, [2, 4, 6]);
    assert_eq!(par::map_collect(0..3, |i| i * i), [0, 1, 4]);
    assert_eq!(par::map_reduce(0..4, || 0, |i| i, |a, b| a + b), 6);
    assert_eq!(par::find_any(0..4, |i| i == 2), Some(2));
    par::chunks_mut(&mut items, 2, |chunk| chunk.reverse());
    par::zip(&mut items, &[1, 1, 1], |a, b| *a += b);
    assert_eq!(items, [5, 3, 7]);
}
