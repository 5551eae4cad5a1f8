//! The tests on another processor: aarch64, whose memory is weaker than that of x86, under qemu's emulation.
//!
//! The emulation runs threads side by side and keeps the order of memory of the machine that it runs on, or a
//! stronger one: this shows that the code is portable (fences, system calls, sizes of lines), not that no ordering is
//! missing. For that there are the models and Miri.

use crate::sanitize::works;
use crate::steps::{Outcome, cargo, outcome, target_dir};
use std::path::Path;
use std::process::Command;

const TARGET: &str = "aarch64-unknown-linux-gnu";
const LINKER: &str = "aarch64-linux-gnu-gcc";
const LIBRARIES: &str = "/usr/aarch64-linux-gnu";

/// Which tests of which package.
const SUITES: &[(&str, &[&str])] = &[
    ("raddle-sync", &["--lib", "--tests"]),
    ("raddle-lock", &["--lib", "--tests"]),
    (
        "raddle-core",
        &[
            "--lib", "--test", "awkward", "--test", "defects", "--test", "endings", "--test",
            "join", "--test", "lost", "--test", "pool", "--test", "small", "--test", "tasks",
            "--test", "timers", "--test", "waits",
        ],
    ),
];

/// Tests that start their own program once more, which the system cannot; and one of a thread with a smaller stack than
/// threads have there.
const SKIPPED: &[&str] = &[
    "a_capture_may_do_anything_wherever_it_is_asked",
    "a_guest_with_little_stack_runs_no_task_on_it",
    "a_hook_that_panics",
    "an_idle_pool_uses_no_processor_time",
    "nor_does_that_of",
    "refused::",
    "the_first_unlock_of_a_process",
    "unlocked_does_not_come_back",
];

/// Runs them, one program after the other.
pub(crate) fn arm() -> Outcome {
    if !works(Command::new("qemu-aarch64").arg("--version")) {
        return Outcome::ToolMissing("qemu (apt-get install qemu-user)");
    }
    if !works(Command::new(LINKER).arg("--version")) {
        return Outcome::ToolMissing(
            "a linker for aarch64 (apt-get install gcc-aarch64-linux-gnu)",
        );
    }
    if !Path::new(LIBRARIES).join("lib").exists() {
        return Outcome::ToolMissing(
            "libraries for aarch64 (apt-get install libc6-dev-arm64-cross)",
        );
    }
    if !has_target() {
        return Outcome::ToolMissing(
            "Rust for aarch64 (rustup target add aarch64-unknown-linux-gnu)",
        );
    }
    let mut all = Outcome::Passed;
    for (package, targets) in SUITES {
        let mut command = cargo();
        command.args(["test", "--no-fail-fast", "--target", TARGET, "-p", package]).args(*targets);
        command.arg("--target-dir").arg(target_dir("arm"));
        // Emulated, threads that wait for each other take longer: one test at a time.
        command.args(["--", "--test-threads=1"]);
        command.args(SKIPPED.iter().flat_map(|name| ["--skip", name]));
        command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
        command.env(
            "CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER",
            format!("qemu-aarch64 -L {LIBRARIES}"),
        );
        command.env("RADDLE_STRESS", "0.05");
        if outcome(&mut command) != Outcome::Passed {
            all = Outcome::Failed;
        }
    }
    all
}

/// Whether the toolchain can build for the target.
fn has_target() -> bool {
    let output =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
