//! The program as its users meet it.

mod bad_input;
#[cfg(unix)]
mod hangs;
mod harm;
mod measuring;
mod output;
mod pipes;
mod plans;
mod schema;
mod shell;
mod traces;
mod workloads;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{self, Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How the program is told about a file, in a directory that goes away with the test.
struct Room(PathBuf);

impl Room {
    /// One that nobody else has, whatever it is called: tests run beside each other, also those of several processes.
    fn new(name: &str) -> Room {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let name = format!("{name}-{}-{}", process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        Room(path)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn file(&self, name: &str, content: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, content).unwrap();
        path
    }

    fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> =
            entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    /// Runs the program in here: paths on the command line are names of files of this room. A workload runs once
    /// unless the line says otherwise, as most tests are about what comes out.
    fn raddle(&self, line: &str) -> Ended {
        let once = line.contains("run ") && !line.contains("--runs") && !line.contains("--plan");
        let line = if once { format!("{line} --runs 1") } else { line.to_owned() };
        self.start(&line).stdin(Stdio::null()).output().unwrap().into()
    }

    /// The same with something on standard input.
    fn fed(&self, line: &str, input: &[u8]) -> Ended {
        let mut child = self
            .start(line)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // It reads everything before it writes anything: no deadlock.
        child.stdin.take().unwrap().write_all(input).unwrap();
        child.wait_with_output().unwrap().into()
    }

    /// Records a run until `trace scale` has something to tell that fits; gives what it tells, as JSON. It refuses while others
    /// have the machine, which for a short run is a matter of luck.
    #[track_caller]
    fn scaled(
        &self,
        run: &str,
        trace: &str,
        fits: impl Fn(&serde_json::Value) -> bool,
    ) -> serde_json::Value {
        let start = Instant::now();
        loop {
            self.raddle(&format!("run {run} --trace {trace} --trace-level tasks")).well();
            let told = self.raddle(&format!("trace scale {trace} --json"));
            let told = match told.code {
                Some(0) => told.json(),
                _ => told.refused().into(),
            };
            if told.is_object() && fits(&told) {
                return told;
            }
            let busy = |why: &str| why.contains("something else used the machine");
            assert!(told.as_str().is_none_or(busy), "{told}");
            assert!(start.elapsed() < Duration::from_secs(600), "nothing that fits: {told}");
        }
    }

    fn start(&self, line: &str) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_raddle"));
        command.args(line.split_whitespace()).current_dir(&self.0);
        command
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        _ = fs::remove_dir_all(&self.0);
    }
}

/// A program that has run.
struct Ended {
    code: Option<i32>,
    stdout: Vec<u8>,
    stderr: String,
}

impl std::fmt::Debug for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ended { code, stdout, stderr } = self;
        let stdout = String::from_utf8_lossy(stdout);
        write!(f, "exit code {code:?}\n-- standard output\n{stdout}\n-- standard error\n{stderr}")
    }
}

impl From<Output> for Ended {
    fn from(output: Output) -> Ended {
        let stderr = String::from_utf8(output.stderr).unwrap();
        Ended { code: output.status.code(), stdout: output.stdout, stderr }
    }
}

impl Ended {
    /// It did what it was asked for, and standard error, which is no terminal, shows nothing of it.
    #[track_caller]
    fn well(self) -> String {
        assert_eq!((self.code, self.stderr.as_str()), (Some(0), ""), "{self:?}");
        String::from_utf8(self.stdout).unwrap()
    }

    /// It printed one JSON object.
    #[track_caller]
    fn json(self) -> serde_json::Value {
        let value: serde_json::Value = serde_json::from_str(&self.well()).unwrap();
        assert!(value.is_object(), "{value}");
        value
    }

    /// It refused, in one line, and printed nothing else.
    #[track_caller]
    fn refused(self) -> String {
        assert_eq!((self.code, self.stdout.as_slice()), (Some(2), b"".as_slice()), "{self:?}");
        let message = self.stderr.strip_prefix("raddle: ").expect("our own message");
        let message = message.strip_suffix('\n').expect("a whole line");
        assert!(!message.contains('\n'), "{message}");
        message.to_owned()
    }
}

/// The table that the repository keeps for tests.
fn digits() -> String {
    data("digits.csv")
}

fn data(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name)).unwrap()
}
