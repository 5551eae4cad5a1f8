//! The same work under another plan, and what plans there are.

use std::fs;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use super::{Ended, Room, digits};

#[test]
fn every_plan_gives_the_same_to_the_bit() {
    let room = Room::new("plans");
    room.file("digits.csv", digits());
    let kmeans = "run kmeans --input digits.csv --label last --k 10 --max-iter 20 --json";
    let knn = "run knn --input digits.csv --json";
    let quantize = "run quantize --k 4 --max-iter 2 --json";
    for (line, fact) in [(kmeans, "inertia"), (knn, "correct"), (quantize, "inertia")] {
        let here = room.raddle(line).json();
        for plan in ["sequential", "threads:2", "processes:2"] {
            let there = room.raddle(&format!("{line} --plan {plan}")).json();
            assert_eq!(there[fact], here[fact], "{line} --plan {plan}");
            assert_eq!(there["plan"], plan);
        }
    }
}

#[test]
fn plans_that_cannot_be_are_refused() {
    let room = Room::new("no-plans");
    let ended = room.raddle("run kmeans --plan proceses:2");
    assert_eq!(ended.code, Some(2), "{ended:?}");
    assert!(ended.stderr.contains("'proceses:2' is no plan"), "{}", ended.stderr);
    let refused = room.raddle("run fib --plan processes:2").refused();
    assert!(refused.contains("--plan is for kmeans, knn and quantize"), "{refused}");
    let refused = room.raddle("run knn --plan threads:2 --threads 2").refused();
    assert_eq!(refused, "--threads and --plan both say where tasks go");
    let refused = room.raddle("run knn --plan threads:2 --runs 2").refused();
    assert_eq!(refused, "--runs is not for --plan, which runs once");
    let refused = room.raddle("run knn --plan ray:127.0.0.1:1").refused();
    assert!(refused.contains("nobody answers at 127.0.0.1:1"), "{refused}");
}

#[test]
fn plans_say_what_they_would_do() {
    let room = Room::new("told-plans");
    let told = room.raddle("plan sequential threads:3 processes:2 ray:127.0.0.1:1 --json").json();
    let plans = told["plans"].as_array().unwrap();
    let workers: Vec<_> = plans.iter().map(|plan| plan["workers"].as_u64()).collect();
    assert_eq!(workers, [Some(1), Some(3), Some(2), None]);
    assert!(plans[3]["error"].as_str().unwrap().contains("nobody answers"));
    let text = room.raddle("plan processes:2").well();
    assert!(text.contains("build id") && text.contains("2 workers, first answer after"), "{text}");
}

/// The workers of a process, as far as they can be seen.
fn children(pid: u32) -> Vec<String> {
    let Ok(tasks) = fs::read_dir(format!("/proc/{pid}/task")) else { return Vec::new() };
    let of = |task: fs::DirEntry| fs::read_to_string(task.path().join("children"));
    let lists = tasks.filter_map(|task| of(task.ok()?).ok());
    lists.flat_map(|list| list.split_whitespace().map(str::to_owned).collect::<Vec<_>>()).collect()
}

/// For how many ticks of the clock a process has computed.
fn ticks(pid: &str) -> u64 {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let time = stat.rsplit(") ").next().and_then(|rest| rest.split(' ').nth(11));
    time.and_then(|time| time.parse().ok()).unwrap_or(0)
}

/// Kills a worker that is at work: it has computed, and no task is short. False: all was over before.
fn kill_a_worker(child: &mut Child) -> bool {
    while child.try_wait().unwrap().is_none() {
        match children(child.id()).into_iter().find(|worker| ticks(worker) > 2) {
            Some(worker) => {
                // SAFETY: no memory is concerned.
                return unsafe { libc::kill(worker.parse().unwrap(), libc::SIGKILL) } == 0;
            }
            None => std::thread::yield_now(),
        }
    }
    false
}

#[test]
fn a_killed_worker_is_survived() {
    let room = Room::new("killed-worker");
    let line = "run kmeans --k 16 --max-iter 40 --plan processes:2 --json";
    let expected = room.raddle(line).json();
    let start = Instant::now();
    // Again where it is over before a worker is caught.
    let json = loop {
        assert!(start.elapsed() < Duration::from_secs(600), "always over before one was killed");
        let mut command = room.start(&format!("{line} --retries 1"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = child.spawn().unwrap();
        let killed = kill_a_worker(&mut child);
        let ended: Ended = child.wait_with_output().unwrap().into();
        let json = ended.json();
        if killed {
            break json;
        }
    };
    assert_eq!((&json["plan"], &json["inertia"]), (&expected["plan"], &expected["inertia"]));
}

/// What a program writes to a terminal of its own, until it has ended.
#[cfg(target_os = "linux")]
fn on_a_terminal(mut command: std::process::Command) -> String {
    use std::io::Read;
    use std::os::fd::{FromRawFd, OwnedFd};

    let (mut ours, mut theirs) = (0, 0);
    let size = libc::winsize { ws_row: 24, ws_col: 100, ws_xpixel: 0, ws_ypixel: 0 };
    let none = std::ptr::null_mut();
    // SAFETY: room for two descriptors; the size is read.
    let opened = unsafe {
        libc::openpty(&raw mut ours, &raw mut theirs, none, std::ptr::null(), &raw const size)
    };
    assert_eq!(opened, 0, "{}", std::io::Error::last_os_error());
    // SAFETY: new, and nobody else's.
    let ours = unsafe { fs::File::from_raw_fd(ours) };
    // SAFETY: as above.
    let theirs = unsafe { OwnedFd::from_raw_fd(theirs) };
    let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(theirs);
    let mut child = child.spawn().unwrap();
    // Its copy of the other end: without it the terminal ends with the program.
    drop(command);
    let (mut shown, mut some, mut ours) = (Vec::new(), [0; 4096], ours);
    while let Ok(read @ 1..) = ours.read(&mut some) {
        shown.extend_from_slice(&some[..read]);
    }
    assert!(child.wait().unwrap().success());
    String::from_utf8_lossy(&shown).into_owned()
}

/// What workers say of their progress is seen as it comes, and never goes back.
#[cfg(target_os = "linux")]
#[test]
fn a_bar_shows_how_far_workers_are() {
    let room = Room::new("bars");
    room.file("digits.csv", digits());
    let kmeans = "run kmeans --input digits.csv --label last --k 10 --max-iter 60";
    for (line, total) in [("run knn --input digits.csv", 1797), (kmeans, 1797 * 60)] {
        for plan in ["threads:2", "processes:2"] {
            let shown = on_a_terminal(room.start(&format!("{line} --plan {plan}")));
            let mut seen = Vec::new();
            for drawn in shown.split(plan).skip(1) {
                let (_, figures) = drawn.split_once("] ").expect("a bar");
                let figures: Vec<&str> = figures.split(|c| !char::is_numeric(c)).collect();
                assert_eq!(figures[1], total.to_string(), "{drawn}");
                seen.push(figures[0].parse::<u64>().unwrap());
            }
            assert!(seen.is_sorted() && seen.first() == Some(&0), "{plan}: {seen:?}");
            assert!(seen.last().is_some_and(|&last| last > 0 && last <= total), "{plan}: {seen:?}");
        }
    }
}
