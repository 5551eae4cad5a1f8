//! Hosts that see to their children in ways of their own.

use std::os::unix::process::ExitStatusExt;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use raddle::remote::{Env, Plan, RemoteError, Status};

use crate::support::{LONG, directory, is_alive, processes, said, say, until};

fn dies(_: ()) {
    std::process::abort();
}

fn status_of(failure: &raddle::Failure) -> Status {
    match failure.downcast_ref() {
        Some(RemoteError::Died(death)) => death.status,
        other => panic!("{other:?}"),
    }
}

/// The kernel reaps children when this is ignored: nobody learns how they ended.
pub(crate) fn ignored_children_still_resolve() {
    // SAFETY: no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let env = processes(2);
    for _ in 0..5 {
        assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
        let failure = env.spawn(dies, ()).wait().unwrap_err();
        assert_eq!(status_of(&failure), Status::Unknown);
        let spins = env.spawn(
            |()| -> () {
                loop {
                    std::hint::spin_loop()
                }
            },
            (),
        );
        spins.kill();
    }
    env.reset();
    assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    drop(env);
    // The bridge does not inherit the choice.
    let env = Env::new(Plan::loopback(1).start_timeout(LONG)).unwrap();
    let failure = env.spawn(dies, ()).wait().unwrap_err();
    assert_eq!(status_of(&failure), Status::Signalled(libc::SIGABRT));
}

/// Starts a child that would outlive it, and ends.
fn dies_with_a_child(path: String) {
    let child = Command::new("sleep").arg("1000").spawn().unwrap();
    say(&path, &child.id().to_string());
    std::process::abort();
}

/// What a worker has started goes with it, though nobody can say any more which worker that was.
pub(crate) fn grandchildren_of_ignored_children_go_too() {
    // SAFETY: no handler.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_IGN) };
    let env = processes(1);
    let path = directory("ignored");
    for round in 0..5 {
        let gate = format!("{path}/{round}");
        let failure = env.spawn(dies_with_a_child, gate.clone()).wait().unwrap_err();
        assert_eq!(status_of(&failure), Status::Unknown);
        until(|| !is_alive(&said(&gate)));
    }
    std::fs::remove_dir_all(path).unwrap();
}

/// Joins the group of its parent, where a signal to its own does not find it, and never ends.
fn leaves_its_group(path: String) {
    // SAFETY: it returns a number.
    let parent = unsafe { libc::getppid() };
    // SAFETY: as above.
    let group = unsafe { libc::getpgid(parent) };
    // SAFETY: takes and returns numbers.
    assert_eq!(unsafe { libc::setpgid(0, group) }, 0);
    say(&path, &std::process::id().to_string());
    loop {
        std::thread::park();
    }
}

pub(crate) fn a_worker_that_has_left_its_group_is_killed() {
    let path = directory("group");
    let env = processes(1);
    let gate = format!("{path}/here");
    let task = env.spawn(leaves_its_group, gate.clone());
    let pid = said(&gate);
    task.kill();
    until(|| !is_alive(&pid));
    assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    drop(env);
    std::fs::remove_dir_all(path).unwrap();
}

/// Another part of the program waits for any child.
pub(crate) fn a_stolen_status_is_unknown() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let thief = std::thread::spawn(|| {
        while !STOP.load(Ordering::Relaxed) {
            // SAFETY: takes no status.
            unsafe { libc::waitpid(-1, std::ptr::null_mut(), libc::WNOHANG) };
        }
    });
    let env = processes(2);
    for _ in 0..20 {
        let failure = env.spawn(dies, ()).wait().unwrap_err();
        // Whoever was first.
        assert!(matches!(status_of(&failure), Status::Unknown | Status::Signalled(libc::SIGABRT)));
        assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    }
    drop(env);
    STOP.store(true, Ordering::Relaxed);
    thief.join().unwrap();
}

/// A child of the host is neither reaped nor signalled, whatever happens to workers.
pub(crate) fn children_of_the_host_are_left_alone() {
    let mut long = Command::new("sleep").arg("1000").spawn().unwrap();
    let mut short = Command::new("sh").args(["-c", "exit 7"]).spawn().unwrap();
    let env = processes(2);
    for _ in 0..10 {
        assert!(env.spawn(dies, ()).wait().is_err());
        let spins = env.spawn(
            |()| -> () {
                loop {
                    std::hint::spin_loop()
                }
            },
            (),
        );
        spins.kill();
        env.reset();
    }
    env.spawn(|()| (), ()).wait().unwrap();
    drop(env);
    until(|| {
        std::fs::read_to_string(format!("/proc/{}/stat", short.id())).unwrap().contains(") Z ")
    });
    assert_eq!(short.wait().unwrap().code(), Some(7));
    assert!(long.try_wait().unwrap().is_none());
    long.kill().unwrap();
    assert_eq!(long.wait().unwrap().signal(), Some(libc::SIGKILL));
}

fn set_of(signal: i32) -> libc::sigset_t {
    // SAFETY: all zero is a set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: a set.
    unsafe { libc::sigemptyset(&raw mut set) };
    // SAFETY: as above.
    unsafe { libc::sigaddset(&raw mut set, signal) };
    set
}

/// In the calling thread.
fn block(signal: i32) {
    let set = set_of(signal);
    // SAFETY: a set, and none to be given back.
    unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()) };
}

fn raises(signal: i32) {
    // SAFETY: takes a number.
    unsafe { libc::raise(signal) };
}

/// Whichever thread starts a worker, and whatever that does not want to hear: the worker does.
pub(crate) fn what_the_host_blocks_its_workers_do_not() {
    block(libc::SIGTERM);
    for plan in [Plan::processes(1), Plan::loopback(1)] {
        let env = Env::new(plan.start_timeout(LONG)).unwrap();
        let failure = env.spawn(raises, libc::SIGTERM).wait().unwrap_err();
        assert_eq!(status_of(&failure), Status::Signalled(libc::SIGTERM));
    }
}

/// As programs do that have one thread.
fn waits_for_a_signal(signal: i32) -> i32 {
    block(signal);
    let own = std::process::id() as libc::pid_t;
    // SAFETY: takes numbers.
    unsafe { libc::kill(own, signal) };
    let (set, mut got) = (set_of(signal), 0);
    // SAFETY: a set, and room for a number.
    assert_eq!(unsafe { libc::sigwait(&raw const set, &raw mut got) }, 0);
    got
}

/// What a task blocks no other thread of its worker takes.
pub(crate) fn signals_of_a_task_are_its_own() {
    let env = processes(1);
    let pid = env.spawn(|()| std::process::id(), ()).wait().unwrap();
    for _ in 0..5 {
        let got = env.spawn(waits_for_a_signal, libc::SIGUSR1).wait();
        assert_eq!(got.unwrap(), libc::SIGUSR1);
    }
    assert_eq!(env.spawn(|()| std::process::id(), ()).wait().unwrap(), pid);
}

/// Time goes on for who waits, however often a signal comes.
pub(crate) fn limits_hold_while_signals_come() {
    extern "C" fn nothing(_: i32) {}
    // SAFETY: a handler that does nothing.
    unsafe { libc::signal(libc::SIGALRM, nothing as *const () as libc::sighandler_t) };
    let path = directory("alarms");
    let python = format!("{path}/python");
    std::fs::write(&python, "#!/bin/sh\nexec sleep 1000\n").unwrap();
    let mode = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(&python, mode).unwrap();
    let often = libc::timeval { tv_sec: 0, tv_usec: 2000 };
    let often = libc::itimerval { it_interval: often, it_value: often };
    // SAFETY: a time, and none to be given back.
    unsafe { libc::setitimer(libc::ITIMER_REAL, &raw const often, std::ptr::null_mut()) };
    let plan = Plan::loopback(1).python(&python).start_timeout(Duration::from_millis(100));
    let refused = Env::new(plan).unwrap_err();
    assert!(refused.to_string().contains("no answer within 100ms"), "{refused}");
    std::fs::remove_dir_all(path).unwrap();
}
