//! Workers come and go.

use std::collections::HashSet;
use std::sync::mpsc;
use std::time::Duration;

use raddle::remote::{Env, RemoteError};

use crate::support::{Gates, LONG, On, Where, failure, is_alive, note, pass, spin, until, value};

fn id(_: u32) -> u32 {
    std::process::id()
}

pub fn recycling_strands_nothing(on: &On) {
    let env = Env::new(on.plan().recycle_after(3)).unwrap();
    let count = on.count(&[Where::Ray], 12, 60);
    let futures: Vec<_> = (0..count).map(|n| env.spawn(id, n)).collect();
    let workers: HashSet<u32> = futures.into_iter().map(value).collect();
    if on.is_apart() {
        assert!(workers.len() >= count as usize / 3, "{} workers", workers.len());
    }
    for n in 0..7 {
        value(env.spawn(id, n));
    }
}

pub fn resets_leave_old_futures(on: &On) {
    let env = on.env();
    let gates = Gates::new();
    if !on.is_concurrent() {
        gates.open("go");
    }
    let running = env.spawn(pass, (gates.at("here"), gates.at("go")));
    gates.wait("here");
    let other = env.spawn(id, 0);
    let queued: Vec<_> = (0..5_u32).map(|n| env.spawn(|n| n + 1, n)).collect();
    let before = value(other);
    env.reset();
    let after = value(env.spawn(id, 0));
    assert_eq!(after != before, on.is_apart());
    for (n, future) in (0..).zip(queued) {
        assert_eq!(value(future), n + 1);
    }
    gates.open("go");
    assert!(value(running) > 0);
    // Those that come after are all on new workers.
    let now: HashSet<u32> = (0..10).map(|n| value(env.spawn(id, n))).collect();
    assert!(!on.is_apart() || !now.contains(&before));
}

pub fn many_resets(on: &On) {
    let env = on.env();
    for round in 0..on.count(&[Where::Loopback, Where::Ray], 30, 1000) {
        let future = env.spawn(|n| n + 1, round);
        env.reset();
        assert_eq!(value(future), round + 1);
    }
}

pub fn idle_workers_leave(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = Env::new(on.plan().idle_timeout(Duration::from_millis(50))).unwrap();
    let pid = value(env.spawn(id, 0)).to_string();
    // Where that is elsewhere, it cannot be seen; here it can.
    until(|| !is_alive(&pid));
    assert!(value(env.spawn(id, 0)) > 0);
}

pub fn the_last_drop_finishes_all(on: &On) {
    let gates = Gates::new();
    let env = on.env();
    let also = env.clone();
    let futures: Vec<_> =
        (0..20).map(|_| env.spawn(|path: String| note(&path), gates.at("ran"))).collect();
    let pid = value(env.spawn(id, 0)).to_string();
    drop(env);
    futures.into_iter().for_each(raddle::Future::detach);
    drop(also);
    assert_eq!(gates.lines("ran"), 20);
    if on.is_apart() {
        assert!(!is_alive(&pid), "{pid} is there when the environment is not");
    }
}

pub fn shutdown_says_whether_all_was_done(on: &On) {
    let env = on.env();
    let future = env.spawn(|n| n + 1, 1);
    assert!(env.shutdown(LONG));
    assert_eq!(value(future), 2);
    if !on.is_concurrent() {
        return;
    }
    let gates = Gates::new();
    let env = on.alone();
    let (spins, waits) = (env.spawn(spin, gates.at("here")), env.spawn(id, 0));
    let pid = gates.said("here");
    assert!(!env.shutdown(Duration::from_millis(10)));
    assert_eq!(failure(spins).kind(), raddle::FailureKind::Killed);
    assert_eq!(failure(waits).kind(), raddle::FailureKind::Killed);
    if on.is_apart() {
        assert!(!is_alive(&pid));
    }
}

/// What follows a task may take longer than that is waited for: the task is over.
pub fn shutdown_kills_nothing_that_is_over(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.alone();
    let (here, is_here) = mpsc::channel();
    let (go, gone) = mpsc::channel::<()>();
    let follows = env.spawn(id, 0).map(move |pid| {
        here.send(pid).unwrap();
        gone.recv().unwrap();
    });
    let pid = is_here.recv().unwrap().to_string();
    let opens = std::thread::spawn(move || {
        // That is after it was seen that there is nothing to kill.
        until(|| !is_alive(&pid));
        go.send(()).unwrap();
    });
    assert!(env.shutdown(Duration::ZERO));
    opens.join().unwrap();
    value(follows);
}

pub fn environments_that_were_shut_down_refuse(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.env();
    assert!(env.clone().shutdown(LONG));
    for then_reset in [false, true] {
        if then_reset {
            env.reset();
        }
        let failed = failure(env.spawn(id, 0));
        assert!(matches!(failed.downcast_ref(), Some(RemoteError::Engine(_))), "{failed}");
    }
}

/// The last to have it is a closure that the environment itself runs.
pub fn dropped_by_what_follows_a_future(on: &On) {
    let env = on.env();
    let gates = Gates::new();
    if !on.is_concurrent() {
        gates.open("go");
    }
    let future = env.spawn(pass, (gates.at("here"), gates.at("go")));
    gates.wait("here");
    let pid = gates.said("here");
    let last = future.map(move |pid| {
        drop(env);
        pid
    });
    gates.open("go");
    assert_eq!(value(last).to_string(), pid);
    if on.is_apart() {
        until(|| !is_alive(&pid));
    }
}

/// The same, on the thread that kills.
pub fn dropped_by_what_follows_a_kill(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    let gates = Gates::new();
    let future = env.spawn(spin, gates.at("here"));
    let pid = gates.said("here");
    let last = future.recover(move |failure| {
        drop(env);
        Err(failure)
    });
    last.kill();
    assert_eq!(failure(last).kind(), raddle::FailureKind::Killed);
    until(|| !is_alive(&pid));
}

pub fn shut_down_by_what_follows_a_future(on: &On) {
    let env = on.env();
    let gates = Gates::new();
    if !on.is_concurrent() {
        gates.open("go");
    }
    let future = env.spawn(pass, (gates.at("here"), gates.at("go")));
    let pid = gates.said("here");
    let last = future.map(move |_| env.shutdown(LONG));
    gates.open("go");
    let _ = value(last);
    if on.is_apart() {
        until(|| !is_alive(&pid));
    }
}

pub fn what_was_spawned_under_it_is_finished(on: &On) {
    let gates = Gates::new();
    let env = on.env();
    env.run(|| {
        for _ in 0..10 {
            raddle::remote::spawn(|path: String| note(&path), gates.at("ran")).detach();
        }
        raddle::remote::map(|path: String| note(&path), vec![gates.at("ran"); 10]).detach();
    });
    drop(env);
    assert_eq!(gates.lines("ran"), 20);
}

pub fn limits_may_be_the_longest(on: &On) {
    let plan = on.plan().start_timeout(Duration::MAX).idle_timeout(Duration::MAX);
    let env = Env::new(plan).unwrap();
    let task = env.task().timeout(Duration::MAX);
    assert_eq!(value(task.spawn(|n| n + 1, 1)), 2);
    env.reset();
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
    assert!(env.shutdown(Duration::MAX));
    // Processes are started when they are needed; there may be as many as can be counted.
    if on.which == crate::support::Where::Processes {
        let env = Env::new(on.plan().workers(usize::MAX)).unwrap();
        assert_eq!(value(env.map(|n| n + 1, [1, 2])), [2, 3]);
    }
}
