//! The same work under another plan, and what plans there are.

use std::fs;
use std::process::Stdio;
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

#[test]
fn a_killed_worker_is_survived() {
    let room = Room::new("killed-worker");
    let line = "run kmeans --k 16 --max-iter 12 --plan processes:2 --retries 3 --json";
    let mut command = room.start(line);
    let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = child.spawn().unwrap();
    let start = Instant::now();
    let mut killed = 0;
    // Whenever there is one, busy mostly.
    while killed < 2 && child.try_wait().unwrap().is_none() {
        assert!(start.elapsed() < Duration::from_secs(120));
        if let Some(worker) = children(child.id()).first() {
            let status = std::process::Command::new("kill").args(["-KILL", worker]).status();
            killed += u32::from(status.unwrap().success());
            std::thread::sleep(Duration::from_millis(100));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    let ended: Ended = child.wait_with_output().unwrap().into();
    assert!(killed > 0);
    assert_eq!(ended.json()["plan"], "processes:2");
}
