//! What follows tasks, and hooks: code of the program's that waits, kills and ends things where it is called.

use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use raddle::FailureKind;
use raddle::remote::{Env, progress};

use crate::support::{
    Gates, LONG, On, Where, failure, note, open, pass, passes_and_notes, spin, value, wait,
};

/// Each for one that was over at the same time, and whose turn comes later: more of them than threads that would be cheap.
pub fn what_follows_one_waits_for_others(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let env = on.alone();
    for links in [5, 150] {
        let gates = Gates::new();
        let busy = env.spawn(spin, gates.at("here"));
        gates.wait("here");
        let mut futures: Vec<_> = (0..links).map(|n| env.spawn(|n: u32| n + 1, n)).collect();
        let last = futures.pop().unwrap();
        let chain = futures.into_iter().rev().fold(last.lift(), |next, future| {
            future.lift().map(move |result| {
                value(next)?;
                result
            })
        });
        let chain = busy.lift().map(move |_| value(chain));
        assert_eq!(env.kill_all(), links as usize + 1);
        assert_eq!(value(chain).unwrap_err().kind(), FailureKind::Killed);
        assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
    }
}

fn says_and_spins(here: String) {
    progress(1, 2);
    spin(here);
}

pub fn a_hook_kills_all(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let cell: Arc<Mutex<Option<Env>>> = Arc::default();
    let theirs = Arc::clone(&cell);
    let gates = Gates::new();
    let go = gates.at("go");
    let plan = on.plan().workers(1).on_progress(move |_, _| {
        wait(go.clone());
        let env = theirs.lock().unwrap().take();
        if let Some(env) = env {
            assert_eq!(env.kill_all(), 2);
        }
    });
    let env = Env::new(plan).unwrap();
    *cell.lock().unwrap() = Some(env.clone());
    let first = env.spawn(says_and_spins, gates.at("here"));
    let second = env.spawn(|n| n + 1, 1);
    let first = first.lift().map(move |result| (result.is_err(), failure(second).kind()));
    gates.open("go");
    assert_eq!(value(first), (true, FailureKind::Killed));
}

/// What is queued needs the thread that calls what follows, on threads.
pub fn the_end_comes_from_what_follows(on: &On) {
    let env = on.alone();
    let gates = Gates::new();
    if !on.is_concurrent() {
        gates.open("go");
    }
    let first = env.spawn(pass, (gates.at("here"), gates.at("go")));
    let second = env.spawn(|n| n + 1, 1);
    let first = first.map(move |_| env.shutdown(Duration::MAX));
    gates.open("go");
    value(first);
    assert_eq!(value(second), 2);
}

fn heeds(path: String) {
    while !raddle::killed() {
        std::hint::spin_loop();
    }
    note(&path);
}

/// On threads what follows may wait for the task that is too late: it was told before.
pub fn what_follows_a_limit_waits_for_the_task(on: &On) {
    if on.which != Where::Threads {
        return;
    }
    let env = on.alone();
    let gates = Gates::new();
    let late = env.task().timeout(Duration::from_millis(20)).spawn(heeds, gates.at("heeded"));
    let path = gates.at("heeded");
    let late = late.lift().map(move |result| {
        wait(path);
        result.unwrap_err().kind()
    });
    assert_eq!(value(late), FailureKind::TimedOut);
    // However soon: also before all is there that leads to the task.
    let rounds = 300;
    for round in 0..rounds {
        let limit = Duration::from_nanos(round % 50 * 100);
        let late = env.task().timeout(limit).spawn(heeds, gates.at("soon"));
        assert_eq!(failure(late).kind(), FailureKind::TimedOut);
    }
    // None has kept its thread.
    assert!(env.shutdown(LONG));
}

/// The end of one may be waited for by what follows another that ends at the same time, on whichever workers they are.
pub fn what_follows_waits_for_what_came_before_a_reset(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    for end in ["kill", "shut down"] {
        let (env, gates) = (on.alone(), Gates::new());
        let old = env.spawn(spin, gates.at("old"));
        gates.wait("old");
        env.reset();
        let new = env.spawn(spin, gates.at("new"));
        gates.wait("new");
        let last = new.lift().map(move |_| failure(old).kind());
        match end {
            "kill" => assert_eq!(env.kill_all(), 2),
            _ => assert!(!env.shutdown(Duration::from_millis(1))),
        }
        assert_eq!(value(last), FailureKind::Killed);
    }
}

/// Whoever kills does not wait for a task that does not heed it, though what follows has ended the environment.
pub fn kills_wait_for_nobody(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let (env, gates) = (on.alone(), Gates::new());
    let (here, go, done) = (gates.at("here"), gates.at("go"), gates.at("done"));
    let runs = env.spawn(passes_and_notes, (here, go.clone(), done));
    gates.wait("here");
    let own = env.clone();
    let last = runs.lift().map(move |_| own.shutdown(Duration::ZERO));
    // In any case, so that it ends.
    let (returned, returns) = mpsc::channel();
    let opens = std::thread::spawn(move || {
        let _ = returns.recv_timeout(Duration::from_secs(20));
        open(go, "");
    });
    assert_eq!(env.kill_all(), 1);
    assert!(!gates.is_open("go"), "it waits for a task that heeds nothing");
    let _ = returned.send(());
    let _ = value(last);
    opens.join().unwrap();
    if !on.is_apart() {
        gates.wait("done");
    }
}

/// What follows the tasks that there were may take as long as it likes, and wait for whoever resets.
pub fn resets_wait_for_nothing_that_follows(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    let (env, gates) = (on.alone(), Gates::new());
    let (here, is_here) = mpsc::channel();
    let (go, gone) = mpsc::channel();
    let task = env.spawn(pass, (gates.at("here"), gates.at("go")));
    let follows = task.map(move |_| {
        here.send(()).unwrap();
        gone.recv_timeout(Duration::from_secs(20)).is_ok()
    });
    gates.open("go");
    is_here.recv().unwrap();
    env.reset();
    let _ = go.send(());
    assert!(value(follows), "it waits for what follows a task");
    assert_eq!(value(env.spawn(|n| n + 1, 1)), 2);
}

/// What follows a task ends the environment; what follows another, on workers that came later, waits for that.
pub fn the_end_comes_from_what_follows_an_old_task(on: &On) {
    if !on.is_concurrent() {
        return;
    }
    for end in ["drop", "shut down"] {
        let (env, gates) = (on.alone(), Gates::new());
        let task = |name: &str| (gates.at(name), gates.at(&format!("go {name}")));
        let old = env.spawn(pass, task("old"));
        gates.wait("old");
        env.reset();
        let new = env.spawn(pass, task("new"));
        gates.wait("new");
        let (follows, both_follow) = mpsc::channel();
        let ended = old.map(move |_| {
            both_follow.recv().unwrap();
            match end {
                "drop" => drop(env),
                _ => _ = env.shutdown(LONG),
            }
        });
        let last = new.map(move |_| {
            follows.send(()).unwrap();
            value(ended);
        });
        gates.open("go old");
        gates.open("go new");
        value(last);
    }
}
