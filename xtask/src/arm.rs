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

/// Which tests of which package. (A child of a process with threads, as in core's `fork`, does not go on under the emulation.)
const SUITES: &[(&str, &[&str])] = &[
    ("raddle-sync", &["--lib", "--tests"]),
    ("raddle-lock", &["--lib", "--tests"]),
    (
        "raddle-core",
        &[
            "--lib",
            "--test",
            "awkward",
            "--test",
            "counts",
            "--test",
            "defects",
            "--test",
            "endings",
            "--test",
            "follow",
            "--test",
            "future_allocates_once",
            "--test",
            "futures",
            "--test",
            "interrupted_twice",
            "--test",
            "join",
            "--test",
            "locals",
            "--test",
            "locals_at_random",
            "--test",
            "lost",
            "--test",
            "par",
            "--test",
            "pool",
            "--test",
            "signals",
            "--test",
            "small",
            "--test",
            "spans",
            "--test",
            "tasks",
            "--test",
            "timers",
            "--test",
            "trace",
            "--test",
            "trace_allocates_nothing",
            "--test",
            "waits",
        ],
    ),
    (
        "raddle",
        &[
            "--test",
            "api",
            "--test",
            "deadlock",
            "--test",
            "locks",
            "--test",
            "locks_without_a_pool",
            "--test",
            "service",
            "--test",
            "traces",
            "--test",
            "types",
        ],
    ),
];

/// Programs at random.
const SEEDS: &str = "0..3000";

/// Tests that start their own program once more, which the system cannot, or fork; one of a thread with a smaller stack than
/// threads have there; one of how long things take; and one with more to do than an emulator does in a minute, beside eight
/// threads that spin.
const SKIPPED: &[&str] = &[
    "a_child_has_the_use_of_what_others_do_not_hold",
    "a_capture_may_do_anything_wherever_it_is_asked",
    "a_guest_with_little_stack_runs_no_task_on_it",
    "a_hook_that_panics",
    "an_idle_pool_uses_no_processor_time",
    "memoised_recursion_by_waiting_ends_on_a_busy_machine",
    "nor_does_that_of",
    "one_that_writes_does_not_wait_for_itself_to_read",
    "refused::",
    "the_first_unlock_of_a_process",
    "unlocked_does_not_come_back",
    "work_and_span_of_forks_are_as_built",
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
    let mut run = |command: &mut Command| {
        if outcome(command) != Outcome::Passed {
            all = Outcome::Failed;
        }
    };
    for (package, targets) in SUITES {
        let mut command = emulated(package);
        // Emulated, threads that wait for each other take longer: one test at a time.
        command.args(*targets).args(["--", "--test-threads=1"]);
        run(command.args(SKIPPED.iter().flat_map(|name| ["--skip", name])));
    }
    run(emulated("raddle").args(["--test", "programs", "--", "--here", "--seeds", SEEDS]));
    all
}

/// Tests of a package, to be emulated.
fn emulated(package: &str) -> Command {
    let mut command = cargo();
    command.args(["test", "--no-fail-fast", "--target", TARGET, "-p", package]);
    command.arg("--target-dir").arg(target_dir("arm"));
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", LINKER);
    let runner = format!("qemu-aarch64 -L {LIBRARIES}");
    command.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER", runner);
    command.env("RADDLE_STRESS", "0.05");
    command
}

/// Whether the toolchain can build for the target.
fn has_target() -> bool {
    let output =
        Command::new("rustc").args(["--print", "target-libdir", "--target", TARGET]).output();
    output.is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}
