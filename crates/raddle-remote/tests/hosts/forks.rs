//! Hosts that fork: workers stay those of the process that has started them.

use std::fs;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use raddle::Future;
use raddle::remote::{Env, Plan, RemoteError, Shared, progress};

use crate::support::{LONG, directory, processes, said, say, until};

/// Runs `f` in the child of a fork, and waits for its end; whether it has not panicked.
fn in_child(f: impl FnOnce()) -> bool {
    // SAFETY: the child calls a function, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        let ended = panic::catch_unwind(AssertUnwindSafe(f));
        // SAFETY: ends the process.
        unsafe { libc::_exit(i32::from(ended.is_err())) };
    }
    let mut status = 0;
    // SAFETY: our child, and room for a status.
    until(|| unsafe { libc::waitpid(child, &raw mut status, libc::WNOHANG) } == child);
    status == 0
}

fn waits((here, gate): (String, String)) -> u32 {
    say(&here, "");
    until(|| fs::exists(&gate).unwrap());
    7
}

/// What a copy of an environment does, one of whose tasks runs.
fn is_of_no_use(env: Env, runs: &Future<u32>) {
    for _ in 0..10 {
        let failure = env.spawn(|n: u32| n, 300).wait().unwrap_err();
        assert!(matches!(failure.downcast_ref(), Some(RemoteError::Engine(_))), "{failure}");
    }
    assert!(env.map(|n: u32| n, [300, 301]).wait().is_err());
    assert_eq!((env.workers(), env.free_workers()), (1, 0));
    runs.interrupt("by a copy");
    // The copy of the future ends; the task does not.
    runs.kill();
    assert_eq!(env.kill_all(), 0);
    env.reset();
    assert!(env.shutdown(LONG));
}

/// The child of a fork neither speaks to them nor ends them: it is told so, at once.
pub(crate) fn a_child_of_the_host_has_none_of_its_workers() {
    for plan in [Plan::processes(1), Plan::loopback(1)] {
        let path = directory("forks");
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        let shared = env.share(vec![7; 4]).unwrap();
        let sum = |numbers: Shared<Vec<u32>>| numbers.iter().sum::<u32>();
        assert_eq!(env.spawn(sum, shared.clone()).wait().unwrap(), 28);
        // The worker is idle: who speaks to it first is answered.
        let own = env.clone();
        assert!(in_child(move || drop(own.spawn(|n: u32| n, 300))));
        for n in 0..10 {
            assert_eq!(env.spawn(|n: u32| n, n).wait().unwrap(), n);
        }
        let (here, gate) = (format!("{path}/here"), format!("{path}/go"));
        let runs = env.spawn(waits, (here.clone(), gate.clone()));
        said(&here);
        let (own, copy) = (env.clone(), shared.clone());
        assert!(in_child(|| {
            drop(copy);
            is_of_no_use(own, &runs);
        }));
        say(&gate, "");
        assert_eq!(runs.wait().unwrap(), 7);
        assert_eq!(env.spawn(sum, shared).wait().unwrap(), 28);
        drop(env);
        fs::remove_dir_all(path).unwrap();
    }
}

/// Those of threads, too, of which the child has none.
pub(crate) fn a_child_of_the_host_has_none_of_its_threads() {
    let path = directory("threads");
    let env = Env::new(Plan::threads(1)).unwrap();
    let (here, gate) = (format!("{path}/here"), format!("{path}/go"));
    let runs = env.spawn(waits, (here.clone(), gate.clone()));
    said(&here);
    let copy = env.clone();
    assert!(in_child(move || {
        assert!(panic::catch_unwind(|| copy.spawn(|n: u32| n, 300)).is_err());
        assert_eq!((copy.workers(), copy.free_workers(), copy.kill_all()), (1, 0, 0));
        copy.reset();
        assert!(copy.shutdown(Duration::MAX));
    }));
    say(&gate, "");
    assert_eq!(runs.wait().unwrap(), 7);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// Nor does a child wait for a lock that another thread of the parent had just then.
pub(crate) fn a_child_of_a_busy_host_waits_for_nobody() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let env = Env::new(Plan::threads(1)).unwrap();
    let busy: Vec<_> = [true, false]
        .map(|spawns| {
            let env = env.clone();
            std::thread::spawn(move || {
                while !STOP.load(Ordering::Relaxed) {
                    match spawns {
                        true => env.spawn(|n: u32| n, 300).detach(),
                        false => _ = env.free_workers(),
                    }
                }
            })
        })
        .into();
    for round in 0..400 {
        let copy = env.clone();
        assert!(in_child(move || match round % 2 {
            0 => {
                panic::set_hook(Box::new(|_| ()));
                assert!(panic::catch_unwind(|| copy.spawn(|n: u32| n, 300)).is_err());
            }
            _ => {
                // The last ones that this child has: the parent's threads have the others.
                // SAFETY: no other thread is here to use them.
                let others = [(); 3].map(|()| unsafe { std::ptr::read(&raw const copy) });
                drop((others, copy));
            }
        }));
    }
    STOP.store(true, Ordering::Relaxed);
    busy.into_iter().for_each(|thread| thread.join().unwrap());
    assert_eq!(env.spawn(|n: u32| n, 300).wait().unwrap(), 300);
}

/// Forks a child that panics or comes back, and waits for its end; how that was.
fn forks_in_a_task(panics: bool) -> i32 {
    // SAFETY: the child does nothing but what is said.
    let child = unsafe { libc::fork() };
    if child == 0 {
        progress(2, 2);
        assert!(!panics, "in the child");
        return -1;
    }
    progress(1, 2);
    let mut status = 0;
    // SAFETY: our child, and room for a status.
    assert_eq!(unsafe { libc::waitpid(child, &raw mut status, 0) }, child);
    libc::WEXITSTATUS(status)
}

/// The child of a task is no worker, and does not speak for one.
pub(crate) fn a_child_of_a_task_is_no_worker() {
    for plan in [Plan::processes(1), Plan::loopback(1)] {
        let said = Arc::new(AtomicU64::new(0));
        let all = Arc::clone(&said);
        let plan = plan.on_progress(move |_, now| _ = all.fetch_add(now.done, Ordering::Relaxed));
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        let pid = env.spawn(|()| std::process::id(), ()).wait().unwrap();
        for (panics, status) in [(true, 101), (false, 0), (true, 101)] {
            let task = env.task().timeout(LONG).spawn(forks_in_a_task, panics);
            assert_eq!(task.wait().unwrap(), status);
            for n in 0..5 {
                assert_eq!(env.spawn(|n: u32| n + 1, n).wait().unwrap(), n + 1);
            }
        }
        assert_eq!(env.spawn(|()| std::process::id(), ()).wait().unwrap(), pid);
        assert_eq!(said.load(Ordering::Relaxed), 3, "of each task, what it says itself");
    }
}

/// The child has shared values of its own, and those from before, whatever other threads were at.
pub(crate) fn a_child_of_the_host_shares_values() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let env = Env::new(Plan::sequential()).unwrap();
    let own = env.clone();
    let others = std::thread::spawn(move || {
        while !STOP.load(Ordering::Relaxed) {
            drop(own.share(7).unwrap());
        }
    });
    let shared = env.share(vec![1, 2, 3]).unwrap();
    for _ in 0..300 {
        let copy = env.share(8).unwrap();
        assert!(in_child(|| {
            drop(copy);
            assert_eq!(*env.share(9).unwrap(), 9);
        }));
    }
    assert!(in_child(|| {
        let same = |shared: Shared<Vec<u32>>| shared;
        let back = processes(1).spawn(same, shared.clone()).wait().unwrap();
        assert!(std::ptr::eq(&*back, &*shared));
    }));
    // Encoded by the parent, with what is in it.
    let outer = env.share(vec![shared.clone()]).unwrap();
    let first = |outer: Shared<Vec<Shared<Vec<u32>>>>| outer[0].clone();
    assert_eq!(*processes(1).spawn(first, outer.clone()).wait().unwrap(), [1, 2, 3]);
    assert!(in_child(|| {
        let back = processes(1).spawn(first, outer.clone()).wait().unwrap();
        assert_eq!(*back, [1, 2, 3]);
    }));
    STOP.store(true, Ordering::Relaxed);
    others.join().unwrap();
}
