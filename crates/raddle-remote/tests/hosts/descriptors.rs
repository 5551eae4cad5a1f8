//! Where there are no descriptors left, and so no workers to be had; and where one takes nothing for a while.

use std::fs;
use std::io::Read;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use raddle::remote::{Env, Plan};

use crate::support::{LONG, belongings, directory, processes, said, say, until};

/// With so many descriptors at most, those that are open included.
fn with_descriptors<R>(most: u64, f: impl FnOnce() -> R) -> R {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: room for one.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) };
    let low = libc::rlimit { rlim_cur: most, ..limit };
    // SAFETY: the limit is read.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const low) };
    let result = f();
    // SAFETY: as above.
    unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit) };
    result
}

fn waits((here, gate): (String, String)) {
    say(&here, &std::process::id().to_string());
    until(|| fs::exists(&gate).unwrap());
}

/// Where no worker can be started tasks wait for those that there are.
pub(crate) fn without_descriptors_tasks_wait() {
    let path = directory("descriptors");
    let env = processes(2);
    let gate = format!("{path}/go");
    let here = format!("{path}/here");
    let busy = env.spawn(waits, (here.clone(), gate.clone()));
    said(&here);
    let queued: Vec<_> = with_descriptors(belongings().0 as u64, || {
        (0..5).map(|n| env.spawn(|n: u32| n + 1, n)).collect()
    });
    assert!(queued.iter().all(|future| !future.is_done()));
    say(&gate, "");
    busy.wait().unwrap();
    for (n, future) in (1..).zip(queued) {
        assert_eq!(future.wait().unwrap(), n);
    }
    let (_, _, children) = belongings();
    assert!(children <= 2, "{children}");
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// And also for one that leaves when it is done: nobody tries for ever to start another meanwhile.
pub(crate) fn without_descriptors_the_old_workers_go_on() {
    let path = directory("old-workers");
    let at = |name: &str| format!("{path}/{name}");
    let env = processes(1);
    let old = env.spawn(waits, (at("old"), at("go")));
    said(&at("old"));
    env.reset();
    let new = env.spawn(waits, (at("new"), at("never")));
    let pid: libc::pid_t = said(&at("new")).parse().unwrap();
    let queued = env.spawn(|n: u32| n + 1, 1);
    say(&at("ready"), "");
    with_descriptors(3, || {
        new.kill();
        // SAFETY: no signal is sent.
        until(|| unsafe { libc::kill(pid, 0) } != 0);
        // The only way to open the gate without a descriptor.
        fs::rename(at("ready"), at("go")).unwrap();
        old.wait_timeout(LONG).expect("an end").unwrap();
        // Now there is nobody to wait for.
        queued.wait_timeout(LONG).expect("an end").unwrap_err();
    });
    assert_eq!(env.spawn(|n: u32| n + 1, 2).wait().unwrap(), 3);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// Waits before it is ready, and may end then.
fn starts_late() {
    let gate = std::env::var("RADDLE_TEST_GATE").unwrap();
    until(|| fs::exists(&gate).unwrap());
    if fs::read_to_string(&gate).unwrap() == "end" {
        std::process::exit(3);
    }
}

/// What is queued also waits for a worker that is about to be ready; until that cannot be had either.
pub(crate) fn without_descriptors_tasks_wait_for_workers_that_start() {
    let path = directory("starting");
    let (gate, text) = (format!("{path}/go"), format!("{path}/text"));
    for end in [false, true] {
        let plan = Plan::processes(4).start_timeout(LONG).env("RADDLE_TEST_GATE", &gate);
        let env = Env::new(plan.on_worker_start(starts_late)).unwrap();
        say(&text, if end { "end" } else { "" });
        let first = env.spawn(|n: u32| n + 1, 0);
        with_descriptors(3, || {
            let others: Vec<_> = (1..8).map(|n| env.spawn(|n: u32| n + 1, n)).collect();
            assert!(others.iter().all(|future| !future.is_done()));
            // As above.
            fs::rename(&text, &gate).unwrap();
            for (n, future) in (1..).zip(std::iter::once(first).chain(others)) {
                let result = future.wait_timeout(LONG).expect("an end");
                assert_eq!(result.ok(), (!end).then_some(n));
            }
        });
        drop(env);
        fs::remove_file(&gate).unwrap();
    }
    fs::remove_dir_all(path).unwrap();
}

/// Whoever spawns a task may hold a lock that is wanted by what follows others, which fail for want of workers.
pub(crate) fn what_follows_others_is_called_elsewhere() {
    let path = directory("elsewhere");
    let at = |name: &str| format!("{path}/{name}");
    let (printed, go) = (at("printed"), at("go"));
    // As long as this lasts nobody sees that the worker has gone.
    let plan = Plan::processes(1).start_timeout(LONG).on_output(move |_, _, _| {
        say(&printed, "");
        until(|| fs::exists(&go).unwrap());
    });
    let env = Env::new(plan).unwrap();
    let old = env.spawn(
        |()| -> () {
            println!("warp");
            loop {
                std::thread::park();
            }
        },
        (),
    );
    said(&at("printed"));
    let lock = Arc::new(Mutex::new(()));
    let wanted = Arc::clone(&lock);
    let first = env.spawn(|n: u32| n + 1, 0);
    let first = first.lift().map(move |result| (result.is_err(), wanted.lock().is_ok()));
    let held = lock.lock().unwrap();
    let second = with_descriptors(3, || {
        old.kill();
        env.spawn(|n: u32| n + 1, 1)
    });
    drop(held);
    assert_eq!(first.wait_timeout(LONG).expect("an end").unwrap(), (true, true));
    assert!(second.wait_timeout(LONG).expect("an end").is_err());
    say(&at("go"), "");
    assert_eq!(env.spawn(|n: u32| n + 1, 2).wait().unwrap(), 3);
    drop(env);
    fs::remove_dir_all(path).unwrap();
}

/// How much of a processor this process has had.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: room for a time.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// Standard output is a socket that somebody has made nonblocking and that is full: who waits for room sleeps.
pub(crate) fn output_waits_for_room() {
    const LEN: usize = 3 << 20;
    let env = Env::new(Plan::processes(1).start_timeout(LONG)).unwrap();
    assert_eq!(env.spawn(|n| n + 1, 1).wait().unwrap(), 2);
    let (mut reads, full) = UnixStream::pair().unwrap();
    full.set_nonblocking(true).unwrap();
    // SAFETY: takes and returns numbers.
    let before = unsafe { libc::dup(1) };
    // SAFETY: as above.
    unsafe { libc::dup2(full.as_raw_fd(), 1) };
    let writes = env.spawn(|len: usize| print!("{}", "x".repeat(len)), LEN);
    std::thread::sleep(Duration::from_millis(200));
    let start = processor_time();
    std::thread::sleep(Duration::from_millis(500));
    let spent = processor_time() - start;
    let mut all = vec![0; LEN];
    reads.read_exact(&mut all).unwrap();
    writes.wait().unwrap();
    // SAFETY: as above.
    unsafe { libc::dup2(before, 1) };
    assert!(all.iter().all(|&byte| byte == b'x'));
    assert!(spent < Duration::from_millis(100), "{spent:?} of a processor in 500 ms");
}
