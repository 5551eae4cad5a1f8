//! `cargo xtask ray`: the conformance suite on a real head of Ray, which this starts and ends.
//!
//! The head has bounded memory, listens with a token, and keeps its files in a directory of its own. Ray and the Python libraries
//! of the table of peers are installed into `target/python` the first time.

use std::fs;
use std::io::Read;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::steps::{Outcome, cargo, outcome, target_dir};

const PORT: &str = "6397";

pub(crate) fn ray() -> Outcome {
    let Some(python) = python() else {
        return Outcome::ToolMissing("python3 with venv, and PyPI for `pip install ray`");
    };
    let Some(token) = token() else { return Outcome::Failed };
    let Some(head) = Head::start(&python, &token) else { return Outcome::Failed };
    let address = format!("127.0.0.1:{PORT}");
    let run = |args: &[&str]| {
        let mut command = cargo();
        command.args(["test", "-p", "raddle-remote"]).args(args);
        command.env("RADDLE_TEST_RAY", &address).env("RADDLE_TEST_PYTHON", &python);
        outcome(command.env("RAY_AUTH_MODE", "token").env("RAY_AUTH_TOKEN", &token))
    };
    // One at a time: each takes two actors.
    let suite = run(&["--test", "conformance", "--", "ray::", "--test-threads=1"]);
    let hosts = run(&["--test", "hosts", "--", "ray"]);
    drop(head);
    if (suite, hosts) == (Outcome::Passed, Outcome::Passed) {
        Outcome::Passed
    } else {
        Outcome::Failed
    }
}

/// What clients of the head must know.
fn token() -> Option<String> {
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
struct Head {
    process: Child,
    files: PathBuf,
}

impl Head {
    fn start(python: &std::path::Path, token: &str) -> Option<Head> {
        // The paths of its sockets are limited to 107 bytes.
        let files = PathBuf::from(format!("/tmp/raddle-ray-{}", std::process::id()));
        let process = Command::new(python.with_file_name("ray"))
            .args(["start", "--head", "--block", "--disable-usage-stats", "--num-cpus=8"])
            .args(["--node-ip-address=127.0.0.1", "--include-dashboard=false"])
            .arg(format!("--port={PORT}"))
            .args(["--memory=1000000000", "--object-store-memory=500000000"])
            .arg(format!("--temp-dir={}", files.display()))
            .env("RAY_AUTH_MODE", "token")
            .env("RAY_AUTH_TOKEN", token)
            .stdout(Stdio::null())
            .spawn()
            .ok()?;
        let head = Head { process, files };
        let start = Instant::now();
        while TcpStream::connect(format!("127.0.0.1:{PORT}")).is_err() {
            if start.elapsed() > Duration::from_secs(120) {
                eprintln!("xtask: the head of Ray does not listen");
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Some(head)
    }
}

impl Drop for Head {
    /// SIGTERM to `ray start --block` ends all that it has started, and nothing else.
    fn drop(&mut self) {
        let pid = self.process.id().to_string();
        let _ = outcome(Command::new("kill").args(["-TERM", &pid]));
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.files);
    }
}
