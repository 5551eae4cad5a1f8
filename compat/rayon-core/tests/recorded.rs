//! What `RADDLE_TRACE` leaves of a program, whatever ends it.

#![cfg(target_os = "linux")]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use raddle_trace::{EventKind, Trace};

/// What a child is to do.
const CHILD: &str = "RADDLE_TEST_CHILD_RECORDED";

fn fib(n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = rayon_core::join(|| fib(n - 1), || fib(n - 2));
    a + b
}

/// How many forks `fib(n)` has.
fn forks_of(n: u32) -> usize {
    (0..n).fold((0, 1), |(a, b), _| (b, a + b)).1 - 1
}

fn pool(threads: usize) -> rayon_core::ThreadPool {
    rayon_core::ThreadPoolBuilder::new().num_threads(threads).build().unwrap()
}

/// Not a test by itself: what the tests below run in processes of their own.
#[test]
fn child() {
    let Ok(what) = std::env::var(CHILD) else { return };
    let file = PathBuf::from(std::env::var_os("RADDLE_TRACE").unwrap());
    // One that hangs ends, too, and does not fill the disk meanwhile.
    // SAFETY: a number; nobody here waits for this signal.
    unsafe { libc::alarm(60) };
    match &*what {
        "exits" => _ = pool(1).install(|| fib(29)),
        "has small files" => {
            let most = libc::rlimit { rlim_cur: 1 << 20, rlim_max: 1 << 20 };
            // SAFETY: what this process may do.
            assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_FSIZE, &most) }, 0);
            pool(2).install(|| fib(24));
            println!("output");
        }
        "uses no pool" => {}
        "works on" => loop {
            rayon_core::join(|| fib(10), || ());
        },
        "aborts" => {
            // As one that crashes, which does not know how far its trace has come.
            while seen(&file) < 1000 {
                rayon_core::join(|| fib(10), || ());
            }
            std::process::abort();
        }
        "aborts when a pool has gone" => {
            pool(2).install(|| fib(10));
            rayon_core::join(|| fib(10), || ());
            while Trace::load(&file).is_err() {
                yield_now();
            }
            std::process::abort();
        }
        "exits while it works" | "exits in its pool" => {
            let (send, receive) = std::sync::mpsc::channel();
            // One on each thread, and not one spawned after the other: a wait in the first would start the second, which does not end.
            rayon_core::spawn_broadcast(move |_| {
                fib(10);
                send.send(()).unwrap();
                loop {
                    fib(10);
                }
            });
            receive.iter().take(2).for_each(drop);
            if what == "exits in its pool" {
                pool(1).install(|| std::process::exit(0));
            }
        }
        "waits" => {
            rayon_core::join(|| fib(10), || ());
            println!("it waits");
            _ = std::io::stdin().read(&mut [0]);
            rayon_core::join(|| fib(10), || ());
        }
        "two pools" => {
            rayon_core::join(|| fib(10), || ());
            pool(2).install(|| fib(10));
            println!("output");
        }
        "forks" => {
            rayon_core::join(|| fib(10), || ());
            // SAFETY: what the child uses no other thread holds.
            let child = unsafe { libc::fork() };
            if child == 0 {
                pool(1).install(|| fib(12));
                std::process::exit(0);
            }
            println!("the child is {child}");
            let mut status = 0;
            // SAFETY: our child, and room for what it says.
            let ended = unsafe { libc::waitpid(child, &mut status, 0) };
            assert!(ended == child && libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0);
            rayon_core::join(|| fib(10), || ());
        }
        "becomes others" => {
            works_for_a_while();
            pool(2).install(|| fib(10));
            // Once more than there are names without a number.
            let left: u32 =
                std::env::var("RADDLE_TEST_LEFT").map_or(2, |left| left.parse().unwrap());
            let end = match left {
                2 => String::new(),
                1 => format!(".process-{}", std::process::id()),
                _ => format!(".process-{}-2", std::process::id()),
            };
            let mine = file.with_file_name(format!("trace{end}"));
            while Trace::load(&mine).is_err() {
                yield_now();
            }
            let next = if left == 0 { "two pools" } else { what.as_str() };
            let left = left.saturating_sub(1).to_string();
            let error = command(next, &file).env("RADDLE_TEST_LEFT", left).exec();
            unreachable!("{error}");
        }
        "has another first" => {
            works_for_a_while();
            ends_well("two pools", &file);
            pool(2).install(|| fib(12));
        }
        other => unreachable!("{other}"),
    }
    std::process::exit(0);
}

fn forks(trace: &Trace) -> usize {
    let events = trace.lanes.iter().flat_map(|lane| &lane.events);
    events.filter(|event| event.kind == EventKind::Fork).count()
}

/// How many forks are in a file that is being written.
fn seen(file: &Path) -> usize {
    Trace::load_damaged(file).map_or(0, |(trace, _)| forks(&trace))
}

/// A folder of this test's, which goes with it.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let folder = std::env::temp_dir().join(format!("{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Folder(folder)
    }

    fn file(&self) -> PathBuf {
        self.0.join("trace")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        _ = std::fs::remove_dir_all(&self.0);
    }
}

fn command(what: &str, file: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "child", "--nocapture"]).env(CHILD, what).env("RADDLE_TRACE", file);
    command.env_remove("RADDLE_TRACE_LEVEL").env_remove("RADDLE_TRACE_ROOM");
    command.env("RAYON_NUM_THREADS", "2");
    command
}

fn start(what: &str, file: &Path) -> Child {
    let mut command = command(what, file);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// The system counts the start of a process in hundredths of a second.
fn works_for_a_while() {
    let since = Instant::now();
    while since.elapsed() < Duration::from_millis(50) {
        fib_of_one(20);
    }
}

fn fib_of_one(n: u32) -> u64 {
    if n < 2 { n.into() } else { fib_of_one(n - 1) + fib_of_one(n - 2) }
}

/// It would write without end, whatever becomes of the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
    }
}

fn ends(what: &str, file: &Path) -> Output {
    start(what, file).wait_with_output().unwrap()
}

fn ends_well(what: &str, file: &Path) -> Output {
    let output = ends(what, file);
    assert!(output.status.success(), "{output:?}");
    output
}

#[test]
fn a_program_that_exits_leaves_all_that_it_did() {
    let folder = Folder::new("raddle-recorded-exits");
    ends_well("exits", &folder.file());
    let trace = Trace::load(folder.file()).unwrap();
    assert_eq!((trace.drops(), forks(&trace)), (0, forks_of(29)));
    let most = trace.lanes.iter().map(|lane| lane.events.len()).max();
    assert!(most > Some(1 << 20), "{most:?}");
}

/// Its threads go on meanwhile: what they do then is not in the file, which is whole.
#[test]
fn one_whose_threads_work_when_it_exits_leaves_a_whole_file() {
    for what in ["exits while it works", "exits in its pool"] {
        let folder = Folder::new("raddle-recorded-works");
        ends_well(what, &folder.file());
        let trace = Trace::load(folder.file()).unwrap();
        assert!(forks(&trace) >= 2 * forks_of(10) && trace.drops() == 0, "{what}");
        // In their order, whichever was first to do something.
        let own = trace.lanes.iter().filter(|lane| lane.name.starts_with("rayon-"));
        assert_eq!(own.map(|lane| &*lane.name).collect::<Vec<_>>(), ["rayon-0", "rayon-1"]);
        assert_eq!(folder.0.join("trace.2").exists(), what == "exits in its pool");
    }
}

#[test]
fn one_that_is_killed_leaves_what_it_had_done() {
    let folder = Folder::new("raddle-recorded-killed");
    let mut child = Killed(start("works on", &folder.file()));
    while seen(&folder.file()) < 1000 {
        assert_eq!(child.0.try_wait().unwrap(), None);
    }
    child.0.kill().unwrap();
    assert_eq!(child.0.wait().unwrap().signal(), Some(libc::SIGKILL));
    let (trace, damage) = Trace::load_damaged(folder.file()).unwrap();
    assert!(damage.is_some_and(|damage| damage.cut));
    assert!(forks(&trace) >= 1000 && trace.drops() == 0);
    assert!(!trace.summary().is_empty());
}

#[test]
fn one_that_aborts_leaves_what_it_had_done() {
    let folder = Folder::new("raddle-recorded-aborts");
    let output = ends("aborts", &folder.file());
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    let (trace, damage) = Trace::load_damaged(folder.file()).unwrap();
    assert!(damage.is_some_and(|damage| damage.cut));
    assert!(forks(&trace) >= 1000 && trace.drops() == 0);
}

#[test]
fn the_file_of_a_pool_that_has_gone_is_whole_whatever_becomes_of_the_program() {
    let folder = Folder::new("raddle-recorded-gone");
    let output = ends("aborts when a pool has gone", &folder.file());
    assert_eq!(output.status.signal(), Some(libc::SIGABRT), "{output:?}");
    assert_eq!(forks(&Trace::load(folder.file()).unwrap()), forks_of(10));
    assert!(Trace::load_damaged(folder.0.join("trace.2")).is_ok());
}

#[test]
fn one_that_uses_no_pool_leaves_no_file() {
    let folder = Folder::new("raddle-recorded-nothing");
    ends_well("uses no pool", &folder.file());
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
}

#[test]
fn of_two_processes_each_has_a_file() {
    let folder = Folder::new("raddle-recorded-two");
    let mut first = start("waits", &folder.file());
    let mut told = BufReader::new(first.stdout.take().unwrap()).lines().map_while(Result::ok);
    assert!(told.any(|line| line.contains("it waits")));
    let second = start("two pools", &folder.file());
    let own = format!("trace.process-{}", second.id());
    let output = second.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && said.contains(&own), "{said}");
    assert_eq!(said.matches("RADDLE_TRACE").count(), 1, "{said}");
    drop(first.stdin.take());
    assert!(first.wait().unwrap().success());
    // One fork for each join that the program calls itself.
    let all = |name: &str| forks(&Trace::load(folder.0.join(name)).unwrap());
    assert_eq!(all("trace"), 2 * (forks_of(10) + 1));
    assert_eq!((all(&own), all(&format!("{own}.2"))), (forks_of(10) + 1, forks_of(10)));
    // The next one has it again.
    ends_well("two pools", &folder.file());
    assert_eq!((all("trace"), all("trace.2")), (forks_of(10) + 1, forks_of(10)));
}

#[test]
fn a_child_of_a_fork_has_a_file_of_its_own() {
    let folder = Folder::new("raddle-recorded-fork");
    let output = ends_well("forks", &folder.file());
    let told = String::from_utf8_lossy(&output.stdout);
    let child = told.lines().find_map(|line| line.split("the child is ").nth(1)).unwrap();
    let all = |name: &str| forks(&Trace::load(folder.0.join(name)).unwrap());
    assert_eq!(all("trace"), 2 * (forks_of(10) + 1));
    assert_eq!(all(&format!("trace.process-{child}")), forks_of(12));
}

#[test]
fn what_a_process_was_before_keeps_its_file() {
    let folder = Folder::new("raddle-recorded-exec");
    let child = start("becomes others", &folder.file());
    let own = format!("trace.process-{}", child.id());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let all = |name: &str| forks(&Trace::load(folder.0.join(name)).unwrap());
    assert_eq!(
        (all("trace"), all(&own), all(&format!("{own}-2"))),
        (forks_of(10), forks_of(10), forks_of(10))
    );
    let last = format!("{own}-3");
    assert_eq!((all(&last), all(&format!("{last}.2"))), (forks_of(10) + 1, forks_of(10)));
    assert!(String::from_utf8_lossy(&output.stderr).contains(&last), "{output:?}");
    // What an earlier run has left is in nobody's way.
    ends_well("two pools", &folder.file());
    assert_eq!((all("trace"), all("trace.2")), (forks_of(10) + 1, forks_of(10)));
}

#[test]
fn a_child_that_has_ended_keeps_its_file() {
    let folder = Folder::new("raddle-recorded-child");
    let child = start("has another first", &folder.file());
    let own = format!("trace.process-{}", child.id());
    assert!(child.wait_with_output().unwrap().status.success());
    let all = |name: &str| forks(&Trace::load(folder.0.join(name)).unwrap());
    assert_eq!(
        (all("trace"), all("trace.2"), all(&own)),
        (forks_of(10) + 1, forks_of(10), forks_of(12))
    );
}

#[test]
fn a_file_that_cannot_be_written_is_no_harm() {
    let folder = Folder::new("raddle-recorded-unwritten");
    // One that takes nothing, and one that cannot be made.
    std::os::unix::fs::symlink("/dev/full", folder.file()).unwrap();
    for file in [folder.file(), folder.0.join("nowhere/at/all")] {
        let output = ends_well("two pools", &file);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(said.contains(&*file.to_string_lossy()), "{said}");
        assert_eq!(said.matches("raddle: ").count(), 1, "{said}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("output"));
    }
}

#[test]
fn a_limit_of_files_ends_the_recording_and_not_the_program() {
    let folder = Folder::new("raddle-recorded-small");
    let output = ends_well("has small files", &folder.file());
    assert!(String::from_utf8_lossy(&output.stdout).contains("output"));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written any further"));
    let (trace, damage) = Trace::load_damaged(folder.file()).unwrap();
    assert!(damage.is_some() && forks(&trace) > 0);
}
