//! What a process has, and whether another is there.

use std::fs;
use std::time::{Duration, Instant};

use raddle::remote::{Env, Plan};

pub(crate) const LONG: Duration = Duration::from_secs(100);

pub(crate) fn processes(count: usize) -> Env {
    Env::new(Plan::processes(count).start_timeout(LONG)).unwrap()
}

#[track_caller]
pub(crate) fn until(mut is_so: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_so() {
        assert!(start.elapsed() < LONG, "not so within {LONG:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Whether a process is there, and is no zombie.
pub(crate) fn is_alive(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|rest| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

/// How many descriptors, threads and children (zombies too) this process has.
pub(crate) fn belongings() -> (usize, usize, usize) {
    let count = |path: &str| fs::read_dir(path).unwrap().count();
    let children = fs::read_dir("/proc/self/task").unwrap().map(|task| {
        let path = task.unwrap().path().join("children");
        fs::read_to_string(path).unwrap_or_default().split_whitespace().count()
    });
    (count("/proc/self/fd"), count("/proc/self/task"), children.sum())
}

/// The names of threads, and what descriptors are of.
pub(crate) fn listed() -> String {
    let entries = |path: &str| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path());
    let threads = entries("/proc/self/task")
        .map(|task| fs::read_to_string(task.join("comm")).unwrap_or_default().trim().to_owned());
    let files = entries("/proc/self/fd").map(|fd| {
        fs::read_link(fd).map_or_else(|error| error.to_string(), |to| to.display().to_string())
    });
    threads.chain(files).collect::<Vec<_>>().join(", ")
}

/// What this process has when nothing goes any more: threads that were joined are on the list for a moment, and what ends
/// an environment may be at work. Two tenths of a second without a change, and without a child.
pub(crate) fn settled() -> (usize, usize, usize) {
    let (mut last, mut same) = (belongings(), 0);
    until(|| {
        let now = belongings();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        same >= 200 && now.2 == 0
    });
    last
}

/// A directory of its own.
pub(crate) fn directory(name: &str) -> String {
    let path = std::env::temp_dir().join(format!("raddle-{name}-{}", std::process::id()));
    fs::create_dir_all(&path).unwrap();
    path.to_str().unwrap().to_owned()
}

/// What a file says, once it is there.
pub(crate) fn said(path: &str) -> String {
    until(|| fs::exists(path).unwrap());
    fs::read_to_string(path).unwrap()
}

pub(crate) fn say(path: &str, text: &str) {
    fs::write(format!("{path}.new"), text).unwrap();
    fs::rename(format!("{path}.new"), path).unwrap();
}
