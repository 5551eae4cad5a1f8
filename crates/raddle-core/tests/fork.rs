//! A child after `fork()`. A test program of its own, with a single test: a process forks as a whole.
#![allow(missing_docs)]
#![cfg(all(target_os = "linux", not(any(miri, raddle_model))))]

use raddle_core::compat::{Settings, Team, scope_spawn_each, with_here};
use raddle_core::trace::TraceLevel;
use raddle_core::{Future, Pool, Promise, blocking, spawn};
use raddle_trace::{EventKind, Trace};
use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::panic::{AssertUnwindSafe, Location, catch_unwind, set_hook};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::{Duration, Instant};

const LONG: Duration = Duration::from_secs(300);

/// Runs `f` in a child, which is to end in time; whether it says so.
fn in_child(f: impl FnOnce() -> bool) -> bool {
    // SAFETY: no other thread holds anything at the moment that the child uses.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let right = catch_unwind(AssertUnwindSafe(f)).unwrap_or(false);
        // SAFETY: ends the process.
        unsafe { libc::_exit((!right).into()) };
    }
    let since = Instant::now();
    let mut status = 0;
    loop {
        // SAFETY: our child.
        if unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child {
            return libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0;
        }
        if since.elapsed() > LONG {
            // SAFETY: our child.
            unsafe { libc::kill(child, libc::SIGKILL) };
            panic!("the child hangs");
        }
        thread::sleep(Duration::from_millis(1));
    }
}

fn panics(f: impl FnOnce()) -> bool {
    catch_unwind(AssertUnwindSafe(f)).is_err()
}

/// On which processors the threads of this process may run.
fn processors() -> BTreeSet<String> {
    let threads = read_dir("/proc/self/task").unwrap();
    // One may have gone meanwhile.
    let all = threads.filter_map(|thread| read_to_string(thread.ok()?.path().join("status")).ok());
    all.filter_map(|status| {
        Some(status.lines().find(|line| line.starts_with("Cpus_allowed:"))?.to_owned())
    })
    .collect()
}

#[test]
fn a_child_is_told_that_the_threads_are_elsewhere_and_has_its_own() {
    let everywhere = processors();
    let pool = Pool::new(2).unwrap();
    assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1]);
    // The timer has a thread, and something to do that is not the child's.
    static RAN: AtomicBool = AtomicBool::new(false);
    let parents = Future::delay(Duration::from_secs(2)).map(|()| RAN.store(true, Ordering::SeqCst));
    Future::delay(Duration::from_millis(1)).wait().unwrap();

    assert!(in_children_of_a_recording());
    a_file_is_the_parent_s();
    assert!(in_child(|| panics(|| drop(pool.broadcast(|thread| thread.index())))));
    assert!(in_child(|| panics(|| pool.run(|_| ()))));
    assert!(in_child(|| panics(|| drop(pool.spawn(|| ())))));
    assert!(in_child(|| {
        let captured = Arc::new(());
        let held = Arc::clone(&captured);
        panics(|| drop(pool.spawn(move || drop(held)))) && Arc::strong_count(&captured) == 1
    }));
    assert!(in_child(|| {
        let (started, ran) = (Instant::now(), RAN.load(Ordering::SeqCst));
        Future::delay(Duration::from_secs(3)).wait().unwrap();
        started.elapsed() < LONG / 2 && ran == RAN.load(Ordering::SeqCst)
    }));
    assert!(in_child(|| {
        let own = Pool::new(2).unwrap();
        own.run(|_| spawn(|| 7).wait().unwrap()) == 7
            && own.broadcast(|thread| thread.index()) == [0, 1]
    }));

    Future::delay(Duration::from_millis(1)).wait().unwrap();
    parents.wait().unwrap();
    assert!(RAN.load(Ordering::SeqCst));
    assert_eq!(pool.broadcast(|thread| thread.index()), [0, 1]);

    // What is queued is the parent's to run, though a task that forks has the child block.
    static QUEUED: AtomicBool = AtomicBool::new(false);
    let alone = Pool::new(1).unwrap();
    let (tell, told) = mpsc::channel();
    drop(alone.spawn(move || {
        let queued = spawn(|| QUEUED.store(true, Ordering::SeqCst));
        let left_alone = in_child(|| {
            // Another thread would have been started by then.
            let threads = blocking(|| read_dir("/proc/self/task").unwrap().count());
            threads == 1 && !QUEUED.load(Ordering::SeqCst)
        });
        queued.wait().unwrap();
        tell.send(left_alone).unwrap();
    }));
    // Not by a wait, which might take the task on and leave the thread of the pool to the other.
    assert!(told.recv().unwrap());

    // Whatever other threads are at when the process forks, but for their start (below).
    let over = AtomicBool::new(false);
    let until_over = |f: fn()| {
        while !over.load(Ordering::SeqCst) {
            f();
        }
    };
    thread::scope(|s| {
        let runs = Arc::new(Barrier::new(2));
        let has_run = Arc::clone(&runs);
        s.spawn(|| {
            let runs = runs;
            runs.wait();
            until_over(|| drop(Future::delay(Duration::from_secs(1_000))));
        });
        has_run.wait();
        for _ in 0..200 {
            assert!(in_child(|| {
                Future::delay(Duration::from_millis(1)).wait().unwrap();
                Pool::new(1).unwrap().run(|_| true)
            }));
        }
        over.store(true, Ordering::SeqCst);
    });

    // Also if they start threads: the child starts none then, as the standard library may hold a lock for those.
    over.store(false, Ordering::SeqCst);
    thread::scope(|s| {
        s.spawn(|| until_over(|| drop(Pool::new(1).unwrap())));
        let is_told = || {
            // To look up a backtrace takes long.
            set_hook(Box::new(|_| ()));
            panics(|| drop(pool.spawn(|| ())))
        };
        let told = (0..200).all(|_| in_child(is_told));
        over.store(true, Ordering::SeqCst);
        assert!(told);
    });

    // Also if others are at its gate.
    let over = &AtomicBool::new(false);
    thread::scope(|s| {
        for _ in 0..2 {
            s.spawn(|| {
                while !over.load(Ordering::SeqCst) {
                    pool.run(|_| ());
                }
            });
        }
        let is_told = || {
            set_hook(Box::new(|_| ()));
            panics(|| pool.run(|_| ()))
        };
        let told = (0..200).all(|_| in_child(is_told));
        over.store(true, Ordering::SeqCst);
        assert!(told);
    });

    // Woken off others' processors, by this process alone, they may run everywhere again.
    let since = Instant::now();
    while processors() != everywhere {
        assert!(since.elapsed() < LONG, "{:?}", processors());
        thread::yield_now();
    }

    // The one thread that a pool has is the one that forks: the child has all of it.
    let only = || {
        let team = Team::new(Settings::default()).unwrap();
        team.seat_here();
        in_child(|| {
            let (ran, place) = (Arc::new(AtomicUsize::new(0)), Location::caller());
            let runs = {
                let ran = Arc::clone(&ran);
                move || _ = ran.fetch_add(1, Ordering::SeqCst)
            };
            with_here(|here| {
                let here = here.unwrap();
                here.spawn(place, runs.clone());
                here.spawn_each(Location::caller(), move |_| runs());
                while here.yield_now() {}
                here.scope(place, |s| {
                    scope_spawn_each(s, Location::caller(), |_, _| {
                        _ = ran.fetch_add(1, Ordering::SeqCst)
                    })
                });
                let all = here.broadcast(Location::caller(), |_| 1);
                ran.load(Ordering::SeqCst) == 3 && all == [1]
            })
        })
    };
    assert!(thread::scope(|s| s.spawn(only).join().unwrap()));
    // A guest is beside them.
    let one = Pool::new(1).unwrap();
    let guest = || {
        set_hook(Box::new(|_| ()));
        panics(|| _ = one.broadcast(|_| ()))
    };
    assert!(one.run(|_| in_child(guest)));
}

/// Whether children use what they have made themselves, though another thread of their parent's, which is in no pool, may have been
/// about to record what it did.
fn in_children_of_a_recording() -> bool {
    let own_promise = || {
        let (promise, future) = Promise::new();
        promise.set(7);
        future.wait().unwrap() == 7
    };
    let _pool = Pool::builder().threads(1).trace(TraceLevel::Phase).build().unwrap();
    let over = AtomicBool::new(false);
    thread::scope(|s| {
        s.spawn(|| {
            while !over.load(Ordering::Relaxed) {
                assert!(own_promise());
            }
        });
        let right = (0..50).all(|_| in_child(own_promise));
        over.store(true, Ordering::Relaxed);
        right
    })
}

/// A child has the parent's file open, and what the parent has left in memory.
fn a_file_is_the_parent_s() {
    let path = std::env::temp_dir().join(format!("raddle-fork-{}.trace", std::process::id()));
    let file = path.clone();
    let build = move || {
        let builder = Pool::builder().threads(1).trace(TraceLevel::Tasks).trace_capacity(2);
        builder.trace_to(&file).build()
    };
    let pool = build().unwrap();
    let (tell, told) = mpsc::channel();
    let second = build.clone();
    drop(pool.spawn(move || {
        // More than there is room for.
        let joins = || (0..100).all(|_| raddle_core::join(|| true, || true).0);
        let left_alone = joins() && in_child(|| joins() && second().is_err()) && joins();
        tell.send(left_alone).unwrap();
    }));
    assert!(told.recv().unwrap());

    // It does not keep the file from others longer than the parent does.
    let (ours, theirs) = UnixStream::pair().unwrap();
    // SAFETY: no other thread holds anything at the moment that the child uses.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(ours);
        _ = (&theirs).read(&mut [0]);
        // SAFETY: ends the process.
        unsafe { libc::_exit(0) };
    }
    drop(pool);
    let trace = Trace::load(&path);
    let again = build();
    drop(ours);
    // SAFETY: our child, of which nothing is asked.
    unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
    let trace = trace.unwrap();
    let events = trace.lanes.iter().flat_map(|lane| &lane.events);
    let forks = events.filter(|event| event.kind == EventKind::Fork).count();
    // The task itself is queued.
    assert_eq!((trace.drops(), forks), (0, 201));
    drop(again.unwrap());
    std::fs::remove_file(&path).unwrap();
}
