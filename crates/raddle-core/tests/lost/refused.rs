//! A system that refuses threads, or to write.

use std::process::{Command, Output, Stdio};

use super::*;

/// Whether this process is the one that the test is about: limits are the process's, and so is stderr.
fn in_process_of_its_own(test: &str, stderr: impl Into<Stdio>) -> bool {
    output_of_its_process(test, stderr).is_none()
}

/// What the process has written that the test is about. None: it is this one.
fn output_of_its_process(test: &str, stderr: impl Into<Stdio>) -> Option<Output> {
    const CHILD: &str = "RADDLE_TEST_CHILD";
    if std::env::var_os(CHILD).is_some() {
        return None;
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args(["--exact", &format!("refused::{test}"), "--nocapture"]).env(CHILD, "1");
    let output = child.stderr(stderr).output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("1 passed"), "{}\n{told}", output.status);
    Some(output)
}

/// The address space of this process.
fn address_space() -> u64 {
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    // SAFETY: a plain call.
    let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) } as u64;
    pages * page
}

/// The address space that the process may have beyond what it has.
fn limit_memory(more: Option<u64>) {
    limit_memory_to(more.map(|more| address_space() + more));
}

fn limit_memory_to(most: Option<u64>) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: with a struct of this frame's.
    assert_eq!(unsafe { libc::getrlimit(libc::RLIMIT_AS, &mut limit) }, 0);
    limit.rlim_cur = most.unwrap_or(limit.rlim_max);
    // SAFETY: with a struct of this frame's.
    assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
}

/// A broadcast waits for a thread that the system does not give; the one that is there is woken all the same.
#[test]
fn who_waits_for_the_system_keeps_nobody_from_being_woken() {
    let name = "who_waits_for_the_system_keeps_nobody_from_being_woken";
    if !in_process_of_its_own(name, Stdio::inherit()) {
        return;
    }
    ends("a task beside a broadcast that waits for a thread", || {
        let stack = 256 << 20;
        let pool = Pool::builder().threads(2).stack_size(stack).keep_alive(10 * MOMENT);
        let pool = &pool.build().unwrap();
        let (go, gate) = mpsc::channel::<()>();
        drop(pool.spawn(move || gate.recv()));
        while pool.live_threads() > 1 {
            thread::yield_now();
        }
        limit_memory(Some(stack as u64 / 2));
        thread::scope(|threads| {
            let broadcast = threads.spawn(|| pool.broadcast(|thread| thread.index()));
            while pool.stats().refused == 0 {
                thread::yield_now();
            }
            go.send(()).unwrap();
            // The thread falls asleep.
            thread::sleep(MOMENT);
            let task = pool.spawn(|| ());
            // If it has left, nobody is there.
            while !task.is_done() && pool.live_threads() > 0 {
                thread::yield_now();
            }
            limit_memory(None);
            assert_eq!(broadcast.join().unwrap(), [0, 1]);
        });
    });
}

/// What there is to say about threads that are refused cannot be said.
#[test]
fn nothing_hangs_where_stderr_cannot_be_written() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    if !in_process_of_its_own("nothing_hangs_where_stderr_cannot_be_written", full) {
        return;
    }
    ends("what is queued where all threads wait", || {
        let pool = one_thread().max_spare_threads(1).build().unwrap();
        let (promise, future) = Promise::new();
        let future = future.shared();
        let waits = [(); 2].map(|()| {
            let future = future.clone();
            pool.spawn(move || future.wait().unwrap())
        });
        drop(pool.spawn(move || promise.set(())));
        waits.into_iter().for_each(|wait| wait.wait().unwrap());
    });
    ends("forks where threads are refused", || {
        let pool = nobody(Pool::builder().threads(2).stack_size(STACK));
        limit_memory(Some(STACK as u64 / 2));
        assert_eq!(pool.run(|worker| worker.join(|_| 1, |_| 2)), (1, 2));
        limit_memory(None);
    });
}

/// However often threads are refused and waits take on other work, in however many pools.
#[test]
fn that_threads_are_refused_is_said_once() {
    let output = output_of_its_process("that_threads_are_refused_is_said_once", Stdio::piped());
    if let Some(output) = output {
        let told = String::from_utf8_lossy(&output.stderr);
        let lines: Vec<_> = told.lines().filter(|line| line.starts_with("raddle: ")).collect();
        assert!(lines.len() == 1 && lines[0].contains("the system refuses threads"), "{told}");
        return;
    }
    ends("forks and waits where threads are refused", || {
        for _ in 0..3 {
            let pool = nobody(Pool::builder().threads(2).stack_size(STACK));
            // So that there is memory for a guest.
            pool.run(|_| ());
            limit_memory(Some(STACK as u64 / 2));
            pool.run(|worker| {
                assert_eq!(worker.join(|_| 1, |_| 2), (1, 2));
                let (promise, future) = Promise::new();
                drop(spawn(move || promise.set(1)));
                assert_eq!(future.wait().unwrap(), 1);
            });
            limit_memory(None);
            let stats = pool.stats();
            assert!(stats.refused > 0 && stats.hosted > 0, "{stats:?}");
        }
    });
}

/// Forks, tasks and waits for them go on with the thread there is, and ask the system at ever longer intervals.
#[test]
fn who_is_refused_threads_asks_less_and_less() {
    if !in_process_of_its_own("who_is_refused_threads_asks_less_and_less", Stdio::inherit()) {
        return;
    }
    ends("forks and tasks where threads are refused", || {
        let pool = &nobody(Pool::builder().threads(8).stack_size(STACK));
        // So that there is memory for a guest.
        pool.run(|_| ());
        assert_eq!((pool.stats().refused, pool.live_threads()), (0, 0));
        let work = |time: Duration| {
            let since = Instant::now();
            let mut turns = 0;
            pool.run(|worker| {
                while since.elapsed() < time {
                    (0..100).for_each(|_| assert_eq!(worker.join(|_| 1, |_| 2), (1, 2)));
                    (0..100).for_each(|_| spawn(|| ()).wait().unwrap());
                    turns += 1;
                }
            });
            (since.elapsed(), turns)
        };
        limit_memory(Some(STACK as u64 / 2));
        let (took, turns) = work(5 * MOMENT);
        // After 1 ms, 2 ms more, 4 ms more ..
        let refused = pool.stats().refused;
        let most = u64::from(took.as_millis().ilog2()) + 2;
        assert!((2..=most).contains(&refused), "refused {refused} times in {took:?}");
        // 200 forks and tasks each: an attempt at a thread takes as long as some hundred.
        assert!(turns > 50, "{turns} turns in {took:?}");

        // What only another thread would do, who waits does.
        let hosted = pool.stats().hosted;
        pool.run(|_| {
            let (promise, future) = Promise::new();
            drop(spawn(move || promise.set(1)));
            assert_eq!(future.wait().unwrap(), 1);
        });
        assert!(pool.stats().hosted > hosted, "{:?}", pool.stats());

        // In time it is asked again, and after that the pauses are short.
        limit_memory(None);
        let refused = pool.stats().refused;
        while pool.live_threads() == 0 {
            let _ = work(SOON);
        }
        while pool.live_threads() > 0 {
            thread::yield_now();
        }
        assert_eq!(pool.stats().refused, refused);
        limit_memory(Some(STACK as u64 / 2));
        let (took, _) = work(MOMENT);
        let again = pool.stats().refused - refused;
        assert!(again >= 2, "refused {again} times in {took:?}");
        limit_memory(None);
    });
}

/// What a guest runs at the end, as there was no thread, has one started: that is waited for.
#[test]
fn the_end_of_a_pool_waits_for_a_thread_that_it_started() {
    let name = "the_end_of_a_pool_waits_for_a_thread_that_it_started";
    if !in_process_of_its_own(name, Stdio::inherit()) {
        return;
    }
    let over = Arc::<AtomicBool>::default();
    let sets = Arc::clone(&over);
    ends("the end of a pool without threads", move || {
        let pool = nobody(Pool::builder().threads(2).stack_size(STACK));
        limit_memory(Some(STACK as u64 / 2));
        drop(pool.spawn(move || {
            limit_memory(None);
            // By now the system is asked again.
            thread::sleep(20 * MOMENT);
            let (started, starts) = mpsc::channel();
            drop(spawn(move || {
                started.send(()).unwrap();
                // Whoever does not wait for this goes on meanwhile.
                thread::sleep(5 * MOMENT);
                sets.store(true, Ordering::SeqCst);
            }));
            // A thread has it.
            starts.recv().unwrap();
        }));
        drop(pool);
    });
    assert!(over.load(Ordering::SeqCst), "the pool's end was not its end");
}

/// Stacks that a limit of half of this has no room for.
const STACK: usize = 256 << 20;

/// Such a pool, whose threads have left.
fn nobody(builder: PoolBuilder) -> Pool {
    let pool = builder.keep_alive(SOON).build().unwrap();
    while pool.live_threads() > 0 {
        thread::yield_now();
    }
    pool
}

/// Also on a small stack.
#[test]
fn a_waiter_helps_where_no_thread_is_to_be_had() {
    if !in_process_of_its_own("a_waiter_helps_where_no_thread_is_to_be_had", Stdio::inherit()) {
        return;
    }
    ends("a waiter that no thread comes to help", || {
        let pool = nobody(one_thread());
        // So that there is memory for a guest.
        pool.run(|_| ());
        let (send, receive) = mpsc::channel::<Future<()>>();
        let waiter = move || receive.recv().unwrap().wait().unwrap();
        let waiter = thread::Builder::new().stack_size(192 << 10).spawn(waiter).unwrap();
        // A thread of the pool has 2 MiB.
        limit_memory(Some(1 << 20));
        send.send(pool.spawn(|| ())).unwrap();
        waiter.join().unwrap();
        limit_memory(None);
    });
}

/// A continuation that waits for a timer on the only thread that timers have: until there is another, and no longer.
#[test]
fn timers_go_on_once_there_is_a_thread_again() {
    if !in_process_of_its_own("timers_go_on_once_there_is_a_thread_again", Stdio::inherit()) {
        return;
    }
    ends("a wait for a timer on the timer's thread", || {
        Future::delay(SOON).wait().unwrap();
        limit_memory(Some(1 << 20));
        let (tell, told) = mpsc::channel();
        let waits = Future::delay(SOON).map(move |()| {
            tell.send(parker::current()).unwrap();
            Future::delay(SOON).wait().unwrap();
        });
        until_parked(told.recv().unwrap());
        limit_memory(None);
        waits.wait().unwrap();
    });
    ends("a scope on the timer's thread", || {
        let pool = Pool::new(1).unwrap();
        limit_memory(Some(1 << 20));
        let (see, seen) = mpsc::channel();
        drop(Future::delay(SOON).map(move |()| {
            pool.scope(|scope| scope.spawn(move |_| Future::delay(SOON).wait().unwrap()));
            see.send(()).unwrap();
        }));
        thread::sleep(2 * MOMENT);
        limit_memory(None);
        drop(Future::delay(SOON));
        seen.recv().unwrap();
    });
}

/// What was spawned is run at the pool's end also where there is no memory for whoever drops it to come in.
#[test]
fn a_pool_ends_where_there_is_no_memory() {
    if !in_process_of_its_own("a_pool_ends_where_there_is_no_memory", Stdio::inherit()) {
        return;
    }
    ends("a pool without threads and memory", || {
        let pool = nobody(one_thread().stack_size(STACK));
        // The thread's stack is given back when the pool ends.
        limit_memory_to(Some(address_space() - STACK as u64 + (1 << 20)));
        let future = pool.spawn(|| 7);
        drop(pool);
        limit_memory(None);
        assert_eq!(future.wait().unwrap(), 7);
    });
}

/// The second thread is refused, and the first spawns something as it leaves.
#[test]
fn a_pool_that_cannot_be_built_leaves_nothing_behind() {
    let name = "a_pool_that_cannot_be_built_leaves_nothing_behind";
    if !in_process_of_its_own(name, Stdio::inherit()) {
        return;
    }
    ends("what an exit hook spawns", || {
        let (send, receive) = mpsc::channel::<Future<u32>>();
        let send = Mutex::new(send);
        let builder = Pool::builder().threads(2).stack_size(STACK);
        limit_memory(Some(STACK as u64 * 3 / 2));
        let built = builder.on_thread_exit(move || {
            send.lock().unwrap().send(spawn(|| 7)).unwrap();
        });
        assert!(built.build().is_err());
        limit_memory(None);
        assert_eq!(receive.recv().unwrap().wait().unwrap(), 7);
    });
}

/// A limit that cannot be set is over at once, and who is to be interrupted then is.
#[test]
fn a_limit_for_which_there_is_no_timer_interrupts() {
    let name = "a_limit_for_which_there_is_no_timer_interrupts";
    if !in_process_of_its_own(name, Stdio::inherit()) {
        return;
    }
    ends("a limit without a timer", || {
        let (promise, future) = Promise::<u32>::new();
        // The timer's thread has 2 MiB.
        limit_memory(Some(1 << 20));
        let limited = future.interrupt_after(LONG);
        limit_memory(None);
        let failure = limited.wait().unwrap_err();
        assert_eq!(failure.kind(), FailureKind::Error);
        let why = promise.interrupted().expect("it is interrupted");
        assert_eq!(why.cause().map(ToString::to_string), Some(failure.to_string()));
    });
}

/// The timer gets no thread, so nobody looks whether the pool stands still; and whoever is the last to wait is no host, and asks none.
#[test]
fn a_host_is_asked_where_nobody_looks_and_the_last_to_wait_is_none() {
    let name = "a_host_is_asked_where_nobody_looks_and_the_last_to_wait_is_none";
    if !in_process_of_its_own(name, Stdio::inherit()) {
        return;
    }
    ends("what is queued beside a host", || {
        let pool = one_thread().max_spare_threads(1).build().unwrap();
        let ((promise, future), (begins, begun)) = (Promise::new(), mpsc::channel());
        let hosts = begins.clone();
        let waits = move || {
            hosts.send(()).unwrap();
            future.wait().unwrap()
        };
        let (tell, told) = mpsc::channel();
        drop(pool.spawn(waits).on_complete(move |result| tell.send(result.is_ok()).unwrap()));
        begun.recv().unwrap();
        let (blocks, (go, goes)) = (Arc::<AtomicBool>::default(), mpsc::channel());
        let set = Arc::clone(&blocks);
        drop(pool.spawn(move || {
            begins.send(()).unwrap();
            until(&blocks);
            blocking(|| goes.recv().unwrap());
        }));
        begun.recv().unwrap();
        drop(pool.spawn(move || {
            go.send(()).unwrap();
            promise.set(());
        }));
        // The timer's thread has 2 MiB.
        limit_memory(Some(1 << 20));
        set.store(true, Ordering::SeqCst);
        assert!(told.recv().unwrap());
        limit_memory(None);
    });
}

/// A wait with a limit that others could come for when it began, but for that the system gives no thread.
#[test]
fn a_limited_wait_sees_that_threads_are_refused() {
    if !in_process_of_its_own("a_limited_wait_sees_that_threads_are_refused", Stdio::inherit()) {
        return;
    }
    ends("a limited wait", || {
        let pool = one_thread().build().unwrap();
        let (tell, told) = mpsc::channel();
        drop(pool.spawn(move || {
            // A thread of the pool has 2 MiB.
            limit_memory(Some(1 << 20));
            let since = Instant::now();
            let result = spawn(|| 7).wait_timeout(LONG / 2);
            tell.send((result.is_ok(), since.elapsed())).unwrap();
        }));
        let (done, time) = told.recv().unwrap();
        limit_memory(None);
        assert!(done && time < LONG / 4, "{time:?}");
    });
}
