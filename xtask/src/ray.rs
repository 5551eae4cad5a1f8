//! `cargo xtask ray`: the conformance suite on a real head of Ray, which this starts and ends.
//!
//! The head has bounded memory, listens with a token, and keeps its files in a directory of its own. Ray and the Python libraries
//! of the table of peers are installed into `target/python` the first time.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::steps::{Outcome, cargo, outcome, target_dir, worst};

const PORT: &str = "6397";

pub(crate) fn ray() -> Outcome {
    run(true)
}

/// Fewer rounds of what takes seconds on a cluster.
pub(crate) fn quick() -> Outcome {
    run(false)
}

fn run(full: bool) -> Outcome {
    let Some(python) = python() else {
        return Outcome::ToolMissing("python3 with venv, and PyPI for `pip install ray`");
    };
    let Some(token) = token() else { return Outcome::Failed };
    let Some(head) = Head::start(&python, &token) else { return Outcome::Failed };
    let test = |args: &[&str]| {
        let mut command = cargo();
        command.args(["test", "-p", "raddle-remote"]).args(args);
        head.tell(&mut command, &python, &token);
        if full {
            command.env("RADDLE_TEST_FULL", "1");
        }
        // What fails on purpose is said in a line each.
        command.env("RUST_BACKTRACE", "0");
        outcome(&mut command)
    };
    // One at a time: each takes two actors.
    let suite = test(&["--test", "conformance", "--", "ray::", "--ignored", "--test-threads=1"]);
    let hosts = test(&["--test", "hosts", "--", "_ray"]);
    // The program, whose user says where it runs, by the Python that is found first. It compares with what it computes itself.
    let mut program = cargo();
    program.args(["run", "--quiet", "-p", "raddle-cli", "--", "run", "knn", "--plan", "ray:auto"]);
    head.tell(&mut program, &python, &token);
    let path = std::env::var("PATH").unwrap_or_default();
    let first = python.parent().map(|first| first.display().to_string()).unwrap_or_default();
    let program = outcome(program.env("PATH", format!("{first}:{path}")));
    drop(head);
    worst(vec![suite, hosts, program])
}

/// What clients of the head must know.
pub(crate) fn token() -> Option<String> {
    let mut bytes = [0; 16];
    fs::File::open("/dev/urandom").and_then(|mut random| random.read_exact(&mut bytes)).ok()?;
    Some(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// The Python that has Ray; made on first use.
pub(crate) fn python() -> Option<PathBuf> {
    let home = target_dir("python");
    let python = home.join("bin/python");
    let has_all = || {
        let mut command = Command::new(&python);
        command.args(["-c", "import ray, loky"]).stderr(Stdio::null());
        outcome(&mut command) == Outcome::Passed
    };
    if python.exists() && has_all() {
        return Some(python);
    }
    let made = outcome(Command::new("python3").args(["-m", "venv"]).arg(&home));
    let packages = ["install", "--quiet", "ray>=2.52", "loky"];
    if made != Outcome::Passed
        || outcome(Command::new(home.join("bin/pip")).args(packages)) != Outcome::Passed
    {
        return None;
    }
    has_all().then_some(python)
}

/// A head of Ray on this machine.
pub(crate) struct Head {
    process: Child,
    files: PathBuf,
    watch: Arc<Watch>,
    watching: Option<JoinHandle<()>>,
}

/// More than this and the head is ended: its own limits are of what it keeps for others, not of what it is.
const MOST_MEMORY: u64 = 6 << 30;

/// How much memory the head and all that it has started have.
#[derive(Default)]
struct Watch {
    over: AtomicBool,
    most: AtomicU64,
}

impl Head {
    /// Tells a command where it is, and how to be let in.
    pub(crate) fn tell(&self, command: &mut Command, python: &Path, token: &str) {
        command.env("RADDLE_TEST_RAY", format!("127.0.0.1:{PORT}"));
        command.env("RADDLE_TEST_PYTHON", python);
        command.env("RAY_AUTH_MODE", "token").env("RAY_AUTH_TOKEN", token);
    }

    pub(crate) fn start(python: &Path, token: &str) -> Option<Head> {
        // The paths of its sockets are limited to 107 bytes.
        let files = PathBuf::from(format!("/tmp/raddle-ray-{}", std::process::id()));
        // Four actors: two workers, and two more while a reset replaces them.
        let process = Command::new(python.with_file_name("ray"))
            .args(["start", "--head", "--block", "--disable-usage-stats", "--num-cpus=4"])
            .args(["--node-ip-address=127.0.0.1", "--include-dashboard=false"])
            .arg(format!("--port={PORT}"))
            .args(["--memory=1000000000", "--object-store-memory=500000000"])
            .arg(format!("--temp-dir={}", files.display()))
            .env("RAY_AUTH_MODE", "token")
            .env("RAY_AUTH_TOKEN", token)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let (watch, pid) = (Arc::new(Watch::default()), process.id());
        let watching = Arc::clone(&watch);
        let watching = thread::spawn(move || watching.run(pid));
        let mut head = Head { process, files, watch, watching: Some(watching) };
        let start = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{PORT}")).is_err() {
            let ended = head.process.try_wait().is_ok_and(|ended| ended.is_some());
            if ended || start.elapsed() > Duration::from_secs(120) {
                eprintln!("xtask: the head of Ray does not listen");
                return None;
            }
            thread::sleep(Duration::from_millis(100));
        }
        Some(head)
    }
}

impl Drop for Head {
    /// SIGTERM to `ray start --block` ends all that it has started, and nothing else.
    fn drop(&mut self) {
        let started = descendants(self.process.id());
        end(self.process.id());
        let _ = self.process.wait();
        // ORD: a flag, and a number that is read when its writer has ended.
        self.watch.over.store(true, Ordering::Relaxed);
        let _ = self.watching.take().map(JoinHandle::join);
        let left = |started: &[u32]| started.iter().filter(|&&pid| memory(pid).is_some()).count();
        let start = Instant::now();
        while left(&started) > 0 && start.elapsed() < Duration::from_secs(10) {
            thread::sleep(Duration::from_millis(100));
        }
        // ORD: as above.
        let most = self.watch.most.load(Ordering::Relaxed) >> 20;
        let (count, left) = (started.len(), left(&started));
        println!(
            "xtask: the head had {most} MiB at most; of {count} processes at its end {left} are left"
        );
        let _ = fs::remove_dir_all(&self.files);
    }
}

impl Watch {
    fn run(&self, head: u32) {
        // ORD: as in `Head::drop`.
        while !self.over.load(Ordering::Relaxed) {
            let sum: u64 = descendants(head).into_iter().filter_map(memory).sum();
            self.most.fetch_max(sum, Ordering::Relaxed);
            if sum > MOST_MEMORY {
                eprintln!("xtask: the head of Ray has {} MiB, and is ended", sum >> 20);
                end(head);
            }
            thread::sleep(Duration::from_millis(500));
        }
    }
}

fn end(pid: u32) {
    let _ = outcome(Command::new("kill").args(["-TERM", &pid.to_string()]));
}

/// A process and all that it and its children have started, as far as they are there.
fn descendants(pid: u32) -> Vec<u32> {
    let mut all = vec![pid];
    let mut next = 0;
    while let Some(pid) = all.get(next) {
        let tasks = fs::read_dir(format!("/proc/{pid}/task"));
        for task in tasks.into_iter().flatten().flatten() {
            let children = fs::read_to_string(task.path().join("children")).unwrap_or_default();
            all.extend(children.split_whitespace().filter_map(|child| child.parse::<u32>().ok()));
        }
        next += 1;
    }
    all
}

/// How many bytes a process has for itself; none if it is not there.
fn memory(pid: u32) -> Option<u64> {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    line.split_whitespace().next()?.parse::<u64>().ok().map(|kibibytes| kibibytes << 10)
}
