//! Nothing is left: no descriptor, no thread, no child.

use std::cell::Cell;
use std::fs;
use std::time::{Duration, Instant};

use raddle::remote::{Env, Plan};

use crate::support::{LONG, belongings, directory, listed, processes, said, say, settled, until};

/// No more belongings after than before, once the first time has made what stays for good.
#[track_caller]
fn leaves_nothing(what: impl Fn()) {
    keeps_a_bell();
    what();
    let before = settled();
    what();
    what();
    // The exit of a thread takes a moment after it was joined; a child that was reaped is gone.
    comes_down_to((before.0, before.1, 0));
}

/// Waits until this process has no more descriptors, threads and children than these.
#[track_caller]
fn comes_down_to(most: (usize, usize, usize)) {
    let since = Instant::now();
    loop {
        let has = belongings();
        if has.0 <= most.0 && has.1 <= most.1 && has.2 <= most.2 {
            return;
        }
        assert!(since.elapsed() < LONG, "{has:?}, more than {most:?}: {}", listed());
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// A thread that waits for a task may help, and who has helped once keeps a bell for the next time. Whether a wait finds something to
/// help with is a matter of who comes first. So one is had that does.
fn keeps_a_bell() {
    let env = processes(1);
    env.spawn(|()| (), ()).wait().unwrap();
    // The worker is there: it has the task at once, and this thread has nothing to wait for but that.
    let go = format!("{}/go", directory("bell"));
    let waits = env.spawn(|go: String| _ = said(&go), go.clone());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // One is the environment's own.
            until(|| listed().matches("[eventfd]").count() > 1);
            say(&go, "");
        });
        waits.wait().unwrap();
    });
    fs::remove_dir_all(directory("bell")).unwrap();
}

/// What stays of it is a thread's, once for all, and no environment's.
pub(crate) fn who_helps_late_leaves_nothing() {
    let is_first = Cell::new(true);
    leaves_nothing(|| {
        if !is_first.replace(false) {
            return keeps_a_bell();
        }
        // No worker is there yet, and so nothing to help with.
        processes(1).spawn(|()| (), ()).wait().unwrap();
    });
}

pub(crate) fn a_thousand_resets_leave_nothing() {
    let env = processes(2);
    assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    let before = belongings();
    let mut old = Vec::new();
    for round in 0..1000 {
        old.push((round, env.spawn(|n| n + 1, round)));
        env.reset();
    }
    for (round, future) in old {
        assert_eq!(future.wait().unwrap(), round + 1);
    }
    env.reset();
    env.spawn(|()| (), ()).wait().unwrap();
    // As many workers as at first, or one more or less. Threads of the reactor go after a while.
    comes_down_to((before.0 + 16, before.1 + 2, 2));
    drop(env);
    leaves_nothing(|| {
        let env = processes(2);
        for round in 0..20 {
            env.spawn(|n| n + 1, round).wait().unwrap();
            env.reset();
        }
    });
}

pub(crate) fn a_hundred_rounds_leave_nothing() {
    leaves_nothing(|| {
        let env = processes(2);
        for round in 0..100_u64 {
            let futures: Vec<_> =
                (0..100_u64).map(|n| env.spawn(|(a, b)| a * b, (round, n))).collect();
            let sum: u64 = futures.into_iter().map(|future| future.wait().unwrap()).sum();
            assert_eq!(sum, round * 4950);
        }
    });
    leaves_nothing(|| {
        let env = Env::new(Plan::loopback(2).start_timeout(LONG)).unwrap();
        assert_eq!(env.map(|n: u32| n, 0..100).wait().unwrap().len(), 100);
        env.reset();
        env.spawn(|()| (), ()).wait().unwrap();
    });
}

pub(crate) fn deaths_leave_nothing() {
    leaves_nothing(|| {
        let env = processes(2);
        for _ in 0..10 {
            assert!(env.spawn(|()| -> () { std::process::exit(1) }, ()).wait().is_err());
            let spins = env.spawn(
                |()| -> () {
                    loop {
                        std::hint::spin_loop()
                    }
                },
                (),
            );
            spins.kill();
            assert!(
                env.task()
                    .timeout(Duration::from_millis(1))
                    .spawn(
                        |()| -> () {
                            loop {
                                std::hint::spin_loop()
                            }
                        },
                        ()
                    )
                    .wait()
                    .is_err()
            );
        }
        env.spawn(|()| (), ()).wait().unwrap();
    });
}

/// How much memory this process has for itself.
fn resident() -> usize {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("RssAnon:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() << 10
}

/// What is killed, or interrupted, before its turn goes at once and not when a worker is free.
pub(crate) fn killed_tasks_leave_the_queue() {
    let path = directory("queue");
    let (here, go) = (format!("{path}/here"), format!("{path}/go"));
    let env = processes(1);
    let busy = |(here, go): (String, String)| {
        say(&here, "");
        said(&go);
    };
    let busy = env.spawn(busy, (here.clone(), go.clone()));
    said(&here);
    let before = resident();
    let first = env.spawn(|n| n + 1, 1);
    for n in 0..200 {
        let queued = env.spawn(|text: String| text.len(), "x".repeat(2 << 20));
        if n % 2 == 0 {
            queued.kill();
        } else {
            queued.interrupt("not needed");
        }
        queued.wait().unwrap_err();
    }
    let after = resident();
    assert!(after < before + (100 << 20), "{before} bytes before, {after} after");
    say(&go, "");
    busy.wait().unwrap();
    assert_eq!(first.wait().unwrap(), 2);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// Ended by what follows a future, on a thread of its own making.
pub(crate) fn continuations_that_end_it_leave_nothing() {
    leaves_nothing(|| {
        let env = processes(2);
        let ends = env.clone().spawn(|n| n + 1, 1).map(move |_| drop(env));
        ends.wait().unwrap();
        until(|| belongings().2 == 0);
        let env = processes(2);
        let ends = env.clone().spawn(|n| n + 1, 1).map(move |_| env.shutdown(LONG));
        assert!(ends.wait().unwrap());
        until(|| belongings().2 == 0);
    });
}

/// From nothing to the first answer of a worker, at best of some times.
fn fastest_start() -> Duration {
    let start = |_| {
        let start = Instant::now();
        let env = processes(1);
        env.spawn(|()| (), ()).wait().unwrap();
        start.elapsed()
    };
    (0..40).map(start).min().unwrap()
}

/// Bytes that a large host takes: 4 GiB, or as much as the machine can spare, and a container may have.
fn large() -> usize {
    let info = fs::read_to_string("/proc/meminfo").unwrap();
    let free = info.lines().find(|line| line.starts_with("MemAvailable:")).unwrap();
    let free: usize = free.split_whitespace().nth(1).unwrap().parse().unwrap();
    // How much of a container's memory others have taken for good nobody tells: a quarter is spared.
    let limits = ["/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"];
    let limits = limits.iter().filter_map(|path| fs::read_to_string(path).ok());
    let limits = limits.filter_map(|limit| limit.trim().parse::<usize>().ok());
    let most = limits.min().unwrap_or(usize::MAX) / 4;
    ((free << 10) / 2).min(most).min(4 << 30)
}

/// How large this process is makes no difference: no page table is copied.
pub(crate) fn a_large_host_starts_workers_as_fast() {
    let len = large();
    // A machine that is busy with something else may be so in one of the two alone: one round in calm shows it.
    let round = |_| {
        let small = fastest_start();
        let mut memory = vec![0_u8; len];
        memory.chunks_mut(4096).for_each(|page| page[0] = 1);
        let large = fastest_start();
        std::hint::black_box(&memory);
        drop(memory);
        let small = small.min(fastest_start());
        let mib = len >> 20;
        println!("from nothing to an answer: {small:.1?}, with {mib} MiB touched {large:.1?}");
        large < small * 2
    };
    assert!((0..30).any(round), "slower with {len} bytes than without, thirty times");
}
