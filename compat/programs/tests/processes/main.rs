//! Programs in processes of their own, each with a time limit.

mod futures;
mod issues;
mod traces;

use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// What takes so long hangs, however busy the machine.
const LIMIT: Duration = Duration::from_secs(300);

/// `rayon-programs NAME` with a global pool of so many threads.
fn program(name: &str, threads: usize) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rayon-programs"));
    command.arg(name).env("RAYON_NUM_THREADS", threads.to_string());
    command
}

/// Runs a process to its end.
fn run(command: &mut Command) -> ExitStatus {
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    let since = Instant::now();
    while since.elapsed() < LIMIT {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        thread::sleep(Duration::from_millis(10));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    panic!("{command:?} hangs");
}

fn ends_well(command: &mut Command) {
    let status = run(command);
    assert!(status.success(), "{command:?}: {status}");
}
