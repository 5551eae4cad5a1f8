//! Kills and interrupts.

use std::process::Command;
use std::time::{Duration, Instant};

use raddle::remote::Env;
use raddle::{FailureKind, Killed, interrupted};

use crate::support::{
    Gates, LONG, On, Where, failure, is_alive, note, open, pass, passes_and_notes, result, spin,
    until, value,
};

pub fn queued_tasks_never_start(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.alone();
    let gates = Gates::new();
    let busy = env.spawn(pass, (gates.at("here"), gates.at("go")));
    gates.wait("here");
    let queued: Vec<_> =
        (0..10).map(|_| env.spawn(|path: String| note(&path), gates.at("ran"))).collect();
    for (n, future) in queued.into_iter().enumerate() {
        if n % 2 == 0 {
            assert_eq!(future.kill(), Killed::BeforeStart);
            assert_eq!(failure(future).kind(), FailureKind::Killed);
        } else {
            future.detach();
        }
    }
    let last = env.spawn(|n| n + 1, 1);
    let before = gates.said("here");
    gates.open("go");
    let ran_on = value(busy);
    assert_eq!(ran_on.to_string(), before);
    assert_eq!(value(last), 2);
    until(|| gates.lines("ran") == 5);
    if on.is_apart() {
        // The worker that it would have run on is the same.
        assert_eq!(value(env.spawn(|()| std::process::id(), ())), ran_on);
    }
    drop(env);
    assert_eq!(gates.lines("ran"), 5);
}

pub fn running_tasks_end(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.env();
    for _ in 0..3 {
        let gates = Gates::new();
        let future = env.spawn(spin, gates.at("here"));
        let pid = gates.said("here");
        assert_eq!(future.kill(), Killed::WhileRunning);
        assert_eq!(failure(future).kind(), FailureKind::Killed);
        if on.is_apart() {
            until(|| !is_alive(&pid));
        }
        assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
    }
}

pub fn what_is_done_stays_done(on: &On) {
    let env = on.alone();
    let future = env.spawn(|n| n + 1, 1);
    future.wait_ref();
    let before = value(env.spawn(|()| std::process::id(), ()));
    assert_eq!(future.kill(), Killed::TooLate);
    assert_eq!(value(future), 2);
    assert_eq!(value(env.spawn(|()| std::process::id(), ())), before);
}

pub fn twice_is_too_late(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.env();
    let gates = Gates::new();
    let future = env.spawn(spin, gates.at("here"));
    gates.wait("here");
    assert_eq!(future.kill(), Killed::WhileRunning);
    assert_eq!(future.kill(), Killed::TooLate);
    // The next one on that worker is none of the kill's.
    let next: Vec<_> = (0..4).map(|n| env.spawn(|n| n + 1, n)).collect();
    assert_eq!(future.kill(), Killed::TooLate);
    assert_eq!(failure(future).kind(), FailureKind::Killed);
    assert_eq!(next.into_iter().map(value).collect::<Vec<_>>(), [1, 2, 3, 4]);
}

/// Whichever comes first: the task's value or the kill. No task after it suffers.
pub fn kills_race_with_completion(on: &On) {
    let env = on.env();
    let rounds = on.count(&[Where::Ray], 15, 150);
    for round in 0..rounds {
        let spun = |turns: u32| {
            (0..turns).for_each(|turn| {
                std::hint::black_box(turn);
            });
            turns
        };
        let future = env.spawn(spun, round * 40);
        let neighbour = env.spawn(|n| n + 1, round);
        (0..round % 13 * 200).for_each(|turn| {
            std::hint::black_box(turn);
        });
        let killed = future.kill();
        match result(future) {
            Ok(turns) => assert_eq!((turns, killed), (round * 40, Killed::TooLate)),
            Err(failure) => {
                assert_eq!(failure.kind(), FailureKind::Killed);
                assert_ne!(killed, Killed::TooLate);
            }
        }
        assert_eq!(value(neighbour), round + 1);
    }
}

/// In whatever state a worker is: it starts, is warm, was recycled, is replaced.
pub fn kills_at_any_time(on: &On) {
    let rounds = u64::from(on.count(&[Where::Ray], 10, 60));
    let env = Env::new(on.plan().recycle_after(3)).unwrap();
    for round in 0..rounds {
        if round % 5 == 0 {
            env.reset();
        }
        let spinners: Vec<_> = (0..3)
            .map(|n| {
                let task = env.task();
                let spins = |wait: u64| {
                    let start = std::time::Instant::now();
                    while start.elapsed().as_micros() < u128::from(wait) && !raddle::killed() {
                        std::hint::spin_loop();
                    }
                };
                task.spawn(spins, round * 97 % 500 * (n + 1))
            })
            .collect();
        let start = std::time::Instant::now();
        while start.elapsed().as_micros() < u128::from(round * 61 % 3000) {
            std::hint::spin_loop();
        }
        for future in &spinners {
            future.kill();
        }
        for future in spinners {
            if let Err(failure) = result(future) {
                assert_eq!(failure.kind(), FailureKind::Killed, "{failure}");
            }
        }
    }
    let values: Vec<_> = (0..10).map(|n| env.spawn(|n| n + 1, n)).map(value).collect();
    assert_eq!(values, (1..=10).collect::<Vec<_>>());
}

/// Starts a child that would outlive it; says both process ids.
fn with_a_child(path: String) {
    #[expect(clippy::zombie_processes)] // It is to be killed with this process.
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    open(path, &format!("{} {}", std::process::id(), child.id()));
}

fn spins_with_a_child(path: String) {
    with_a_child(path);
    loop {
        std::hint::spin_loop();
    }
}

fn dies_with_a_child(path: String) {
    with_a_child(path);
    std::process::abort();
}

pub fn grandchildren_go_too(on: &On) {
    if !on.is_apart() {
        return;
    }
    let env = on.env();
    let gates = Gates::new();
    let future = env.spawn(spins_with_a_child, gates.at("killed"));
    gates.wait("killed");
    future.kill();
    failure(env.spawn(dies_with_a_child, gates.at("dead")));
    for gate in ["killed", "dead"] {
        for pid in gates.said(gate).split(' ') {
            until(|| !is_alive(pid));
        }
    }
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
}

pub fn all_at_once(on: &On) {
    let env = on.env();
    assert_eq!(env.kill_all(), 0);
    if !on.is_concurrent() {
        return;
    }
    let gates = Gates::new();
    let here = |n: u32| gates.at(&format!("here {n}"));
    let mut futures: Vec<_> = (0..2).map(|n| env.spawn(spin, here(n))).collect();
    gates.wait("here 0");
    gates.wait("here 1");
    futures.extend((2..10).map(|n| env.spawn(spin, here(n))));
    assert_eq!(env.kill_all(), 10);
    for future in futures {
        assert_eq!(failure(future).kind(), FailureKind::Killed);
    }
    assert!(!gates.is_open("here 2"));
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
    assert_eq!(env.kill_all(), 0);
}

/// Of those that are spawned meanwhile, too, and of one that a thread is about to begin.
pub fn none_goes_on_after_the_end(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let spins = |_: u32| {
        while !raddle::killed() {
            std::hint::spin_loop();
        }
    };
    for round in 0..on.count(&[Where::Processes, Where::Loopback, Where::Ray], 10, 1000) {
        let env = on.alone();
        let own = env.clone();
        let spawns =
            std::thread::spawn(move || (0..20).map(|n| own.spawn(spins, n)).collect::<Vec<_>>());
        (0..round * 100 % 20_000).for_each(|_| std::hint::spin_loop());
        env.shutdown(Duration::ZERO);
        for future in spawns.join().unwrap() {
            // Killed, or refused.
            failure(future);
        }
    }
}

fn obeys(path: String) -> String {
    open(path, "");
    while !interrupted() {
        std::hint::spin_loop();
    }
    "stopped".to_owned()
}

pub fn interrupts_are_the_tasks_choice(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.alone();
    let gates = Gates::new();
    let before = value(env.spawn(|()| std::process::id(), ()));
    let future = env.spawn(obeys, gates.at("here"));
    gates.wait("here");
    future.interrupt("enough");
    assert_eq!(value(future), "stopped");
    let ignores = env.spawn(pass, (gates.at("here too"), gates.at("go")));
    gates.wait("here too");
    ignores.interrupt("enough");
    gates.open("go");
    assert_eq!(value(ignores), before);
}

pub fn queued_tasks_are_interrupted(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.alone();
    let gates = Gates::new();
    let busy = env.spawn(pass, (gates.at("here"), gates.at("go")));
    gates.wait("here");
    let queued = env.spawn(|path: String| note(&path), gates.at("ran"));
    queued.interrupt("not needed");
    assert_eq!(failure(queued).kind(), FailureKind::Interrupted);
    gates.open("go");
    value(busy);
    drop::<Env>(env);
    assert!(!gates.is_open("ran"));
}

pub fn interrupts_do_not_reach_the_next_task(on: &On) {
    let env = on.alone();
    for round in 0..20 {
        let future = env.spawn(|n: u32| n + 1, round);
        future.interrupt("too late, mostly");
        let next = env.spawn(|()| interrupted(), ());
        assert!(!value(next));
        let _ = result(future);
    }
}

/// On threads a task that was killed goes on until it looks: it needs its gates until then.
fn still_passes(on: &On, gates: &Gates) {
    gates.open("go");
    if !on.is_apart() {
        gates.wait("done");
    }
}

/// A reset is for what comes: whoever ends all that there is ends what came before, too.
pub fn what_came_before_a_reset_counts(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    for end in ["kill", "shut down", "drop"] {
        let (env, gates) = (on.alone(), Gates::new());
        let old = env.spawn(passes_and_notes, (gates.at("here"), gates.at("go"), gates.at("done")));
        gates.wait("here");
        env.reset();
        assert_eq!((env.workers(), env.free_workers()), (1, 1));
        match end {
            "kill" => {
                assert_eq!(env.kill_all(), 1);
                assert_eq!(failure(old).kind(), FailureKind::Killed);
                still_passes(on, &gates);
            }
            "shut down" => {
                let start = Instant::now();
                assert!(!env.shutdown(Duration::from_millis(1)));
                assert!(start.elapsed() < LONG / 2, "a task that heeds nothing is not waited for");
                assert_eq!(failure(old).kind(), FailureKind::Killed);
                still_passes(on, &gates);
            }
            _ => {
                let go = gates.at("go");
                // Later, if the drop waits.
                let opens = std::thread::spawn(move || {
                    std::thread::sleep(Duration::from_millis(50));
                    open(go, "");
                });
                drop(env);
                assert!(gates.is_open("done"), "it waits for what was spawned");
                opens.join().unwrap();
            }
        }
    }
}

fn stops_badly((ran, here): (String, String)) {
    note(&ran);
    obeys(here);
    std::process::abort();
}

/// Who interrupts it does not want it any more; it would not hear of that again.
pub fn what_was_interrupted_is_not_tried_again(on: &On) {
    if !on.is_apart() {
        return;
    }
    let (env, gates) = (on.alone(), Gates::new());
    let future = env.task().retries(3).spawn(stops_badly, (gates.at("ran"), gates.at("here")));
    gates.wait("here");
    future.interrupt("not wanted any more");
    assert_eq!(failure(future).kind(), FailureKind::Interrupted);
    assert_eq!(gates.lines("ran"), 1);
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
}

fn notes_and_spins((ran, here): (String, String)) {
    note(&ran);
    spin(here);
}

pub fn what_was_killed_is_not_tried_again(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.alone();
    let gates = Gates::new();
    let task = env.task().retries(5);
    let killed = task.clone().spawn(notes_and_spins, (gates.at("ran"), gates.at("here")));
    gates.wait("here");
    killed.kill();
    assert_eq!(failure(killed).kind(), FailureKind::Killed);
    let late = task.timeout(Duration::from_millis(300));
    let failed = failure(late.spawn(notes_and_spins, (gates.at("late"), gates.at("late here"))));
    assert_eq!(failed.kind(), FailureKind::TimedOut);
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
    drop(env);
    assert_eq!(gates.lines("ran"), 1);
    assert!(gates.lines("late") <= 1);
}

/// Whoever waits is told, also where it is not by what the worker says.
pub fn kills_while_somebody_waits(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.env();
    for round in 0..on.count(&[Where::Loopback, Where::Ray], 4, 40) {
        let gates = Gates::new();
        let future = env.spawn(spin, gates.at("here"));
        let waits = std::thread::spawn(move || failure(future).kind());
        gates.wait("here");
        if round % 2 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
        // A thread may be at the one before, whose time was over.
        assert!(env.kill_all() >= 1);
        assert_eq!(waits.join().unwrap(), FailureKind::Killed);
        let limit = Duration::from_micros(u64::from(round) * 97);
        let late = env.task().timeout(limit).spawn(spin, gates.at("late"));
        assert_eq!(failure(late).kind(), FailureKind::TimedOut);
        assert_eq!(value(env.spawn(|n| n + 1, round)), round + 1);
    }
}
