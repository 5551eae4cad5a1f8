//! The checks that run the tests under another tool: AddressSanitizer and valgrind.

use crate::steps::{CONCURRENT, Outcome, cargo, outcome, root, target_dir};
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const ASAN_TARGET: &str = "x86_64-unknown-linux-gnu";

/// Library and integration tests under AddressSanitizer, and with it its leak checker.
pub(crate) fn asan() -> Outcome {
    let mut command = match asan_test() {
        Ok(command) => command,
        Err(missing) => return missing,
    };
    command.args(["--lib", "--tests"]);
    command.args(CONCURRENT.iter().flat_map(|package| ["-p", package]));
    outcome(&mut command)
}

/// A `cargo test` under AddressSanitizer, to which packages and tests are to be added; or what it needs.
pub(crate) fn asan_test() -> Result<Command, Outcome> {
    // By name and not by `$CARGO`, because only rustup's proxy understands `+nightly`.
    let nightly = || {
        let mut command = Command::new("cargo");
        command.arg("+nightly").current_dir(root());
        command
    };
    if !works(nightly().arg("--version")) {
        let what = "the nightly toolchain (rustup toolchain install nightly)";
        return Err(Outcome::ToolMissing(what));
    }
    let mut command = nightly();
    command.args(["test", "--target", ASAN_TARGET]);
    command.arg("--target-dir").arg(target_dir("asan"));
    command.env("RADDLE_STRESS", asked("RADDLE_STRESS", "0.05"));
    // They are quick: as many as without the tool.
    command.env("RADDLE_CROWD", asked("RADDLE_CROWD", "20000"));
    let suppressions = root().join("xtask/lsan.supp");
    // How deep a thread is, is measured by where its locals are: not on a stack of ASan's own.
    command.env("ASAN_OPTIONS", "detect_stack_use_after_return=0");
    command.env("LSAN_OPTIONS", format!("suppressions={}", suppressions.display()));
    command.env("RUSTFLAGS", "-Zsanitizer=address --cfg raddle_plain_memory");
    Ok(command)
}

/// Library and integration tests under valgrind's memory checker.
pub(crate) fn valgrind() -> Outcome {
    if !works(Command::new("valgrind").arg("--version")) {
        return Outcome::ToolMissing("valgrind (apt-get install valgrind)");
    }
    let Some(programs) = test_programs() else {
        return Outcome::Failed;
    };
    let mut all = Outcome::Passed;
    for program in programs {
        println!("-- {}", program.display());
        let mut command = Command::new("valgrind");
        // Fair scheduling, because valgrind runs one thread at a time and tests spin for each other.
        command.args(["--quiet", "--error-exitcode=9", "--fair-sched=yes"]);
        // One test at a time, or each would wait for the turns of the others' threads too.
        command.arg(program).arg("--test-threads=1");
        command.env("RADDLE_STRESS", asked("RADDLE_STRESS", "0.001"));
        // A minute, also on a busy machine.
        command.env("RADDLE_CROWD", asked("RADDLE_CROWD", "5000"));
        if outcome(&mut command) != Outcome::Passed {
            all = Outcome::Failed;
        }
    }
    all
}

/// How long the long tests of futures are, of what is usual, or how many graphs a crowd plays: what the environment says, or
/// what this tool allows.
fn asked(variable: &str, usual: &str) -> OsString {
    std::env::var_os(variable).unwrap_or_else(|| usual.into())
}

/// Builds the test programs; `None` if that fails.
fn test_programs() -> Option<Vec<PathBuf>> {
    let mut command = cargo();
    command.args(["test", "--no-run", "--lib", "--tests", "--message-format=json"]);
    command.args(CONCURRENT.iter().flat_map(|package| ["-p", package]));
    command.arg("--target-dir").arg(target_dir("valgrind"));
    // The allocator's memory for each node of a future, so that the tool sees them all.
    command.env("RUSTFLAGS", "--cfg raddle_plain_memory");
    let output = command.stderr(Stdio::inherit()).output().ok()?;
    let messages = String::from_utf8_lossy(&output.stdout);
    output
        .status
        .success()
        .then(|| messages.lines().filter_map(executable).map(PathBuf::from).collect())
}

/// The path in a cargo message's `"executable":"PATH"`, which no other message has. Paths with
/// characters that JSON escapes are beyond it.
fn executable(message: &str) -> Option<&str> {
    let (_, rest) = message.split_once("\"executable\":\"")?;
    rest.split_once('"').map(|(path, _)| path)
}

/// True if the command can be run and succeeds; its output is dropped.
pub(crate) fn works(command: &mut Command) -> bool {
    let command = command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

#[cfg(test)]
mod tests {
    use super::executable;

    #[test]
    fn finds_the_executable_in_a_message() {
        let artifact =
            r#"{"reason":"compiler-artifact","executable":"/t/debug/deps/a-1","fresh":true}"#;
        assert_eq!(executable(artifact), Some("/t/debug/deps/a-1"));
        assert_eq!(executable(r#"{"reason":"compiler-artifact","executable":null}"#), None);
        assert_eq!(executable(r#"{"reason":"build-finished","success":true}"#), None);
    }
}
