//! The steps, and how a step runs cargo.

use crate::{
    arm, book, compare, light, locks, miri, modes, page, peers, predict, ray, rayon, release,
    rooms, sanitize,
};
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// One check.
pub(crate) struct Step {
    pub(crate) name: &'static str,
    pub(crate) what: &'static str,
    pub(crate) run: fn() -> Outcome,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Passed,
    Failed,
    /// What is missing, and how to get it. Counts as a failure of a step that was asked for alone: it was not checked, or
    /// not all of it.
    ToolMissing(&'static str),
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Passed => f.write_str("ok"),
            Outcome::Failed => f.write_str("FAILED"),
            Outcome::ToolMissing(what) => write!(f, "NOT RUN: {what}"),
        }
    }
}

/// What `ci` runs.
pub(crate) const CI: &[Step] = &[
    Step { name: "test", what: "unit, integration and documentation tests", run: test },
    Step { name: "features", what: "locks with their features, and fences", run: locks::features },
    Step { name: "release", what: "programs that once hung, in release", run: release_tests },
    Step { name: "programs", what: "30,000 programs at random that must end", run: programs },
    Step { name: "fmt", what: "the code is formatted", run: fmt },
    Step { name: "clippy", what: "no warnings, from the compiler or clippy", run: clippy },
    Step {
        name: "rooms",
        what: "arrows run down, atomics by the seam, files short, `unsafe` where it is said",
        run: rooms::rooms,
    },
    Step { name: "docs", what: "the documentation builds without warnings", run: docs },
    Step { name: "book", what: "the book is whole: contents, links, examples", run: book::book },
    COMPARE_CHECK,
    Step { name: "light", what: "few crates and a fast build for users", run: light::light },
    Step { name: "package", what: "every crate can be packed", run: release::publish_quick },
    Step { name: "msrv", what: "the crates with the oldest Rust", run: release::msrv },
    Step { name: "targets", what: "the crates for other systems", run: release::targets },
    Step { name: "loom", what: "small models, explored systematically", run: loom },
    Step { name: "shuttle", what: "larger models, at random", run: shuttle },
    RAYON_QUICK,
    Step { name: "page", what: "pages of traces in a headless browser", run: page::page },
    MIRI_QUICK,
    Step { name: "bench", what: "every benchmark runs, briefly", run: bench },
];

/// What takes long, is measured, or needs a tool that not everybody has.
pub(crate) const EXTRA: &[Step] = &[
    Step { name: "modes", what: "plans of processes in programs of any build", run: modes::modes },
    Step { name: "remote", what: "tests of `raddle::remote` in full counts", run: remote_tests },
    Step { name: "asan", what: "tests under AddressSanitizer (nightly)", run: sanitize::asan },
    Step { name: "valgrind", what: "tests under valgrind", run: sanitize::valgrind },
    Step { name: "locks", what: "locks and their limits under stress", run: locks::locks },
    Step { name: "soak", what: "programs at random for an hour, or so many minutes", run: soak },
    Step { name: "miri", what: "tests under Miri, with several seeds (nightly)", run: miri::miri },
    Step { name: "rayon", what: "rayon's suites on raddle, 1, 2 and 8 threads", run: rayon::rayon },
    Step { name: "demo", what: "benchmarks of rayon-demo beside rayon", run: rayon::demo::demo },
    Step { name: "calls", what: "calls into pools beside rayon's", run: rayon::calls::calls },
    Step { name: "ray", what: "the suite of `raddle::remote` on a head of Ray", run: ray::ray },
    Step { name: "peers", what: "plans beside pools of Python", run: peers::peers },
    Step {
        name: "predict",
        what: "what `trace scale` expects of 2 processors, and what they give",
        run: predict::predict,
    },
    Step { name: "arm", what: "tests on aarch64, emulated by qemu", run: arm::arm },
    Step {
        name: "compare",
        what: "README's, COMPARE's and places.md's tables, and plots",
        run: compare::compare,
    },
    Step { name: "publish", what: "every crate as it would be published", run: release::publish },
    Step { name: "deny", what: "licences and sources of what we use", run: release::deny },
    Step { name: "semver", what: "what the last version promised is there", run: release::semver },
    Step {
        name: "tools",
        what: "installs mdBook, cargo-deny, cargo-semver-checks",
        run: release::tools,
    },
];

/// `compare --check`
pub(crate) const COMPARE_CHECK: Step = Step {
    name: "figures",
    what: "tables and plots are as their figures say",
    run: compare::check,
};

/// `miri --quick`
pub(crate) const MIRI_QUICK: Step = Step {
    name: "miri",
    what: "fewer tests under Miri, with one seed (nightly)",
    run: miri::quick,
};

/// `ray --quick`
pub(crate) const RAY_QUICK: Step = Step {
    name: "ray",
    what: "the suite of `raddle::remote` on a head of Ray, fewer rounds",
    run: ray::quick,
};

/// `rayon --quick`
pub(crate) const RAYON_QUICK: Step = Step {
    name: "rayon-core",
    what: "rayon-core's suites on raddle, 2 threads",
    run: rayon::quick,
};

/// The crates with models, and with `unsafe`.
pub(crate) const CONCURRENT: &[&str] = &["raddle-sync", "raddle-lock", "raddle-core"];

fn test() -> Outcome {
    outcome(cargo().args(["test", "--workspace"]))
}

/// At full size, and where the optimiser may move what only debug builds keep in order.
fn release_tests() -> Outcome {
    let core = [
        "awkward", "counts", "defects", "endings", "fork", "futures", "lost", "pool", "small",
        "timers", "waits",
    ];
    let of = |package, tests: &[&str]| {
        let mut command = cargo();
        command.args(["test", "--release", "-p", package]);
        outcome(command.args(tests.iter().flat_map(|test| ["--test", test])))
    };
    let all = [of("raddle-core", &core), of("raddle-sync", &["fork"]), of("raddle", &["locks"])];
    all.into_iter().find(|outcome| *outcome != Outcome::Passed).unwrap_or(Outcome::Passed)
}

/// What `test` does fewer rounds of; optimised.
fn remote_tests() -> Outcome {
    let mut command = cargo();
    command.args(["test", "--release", "-p", "raddle-remote", "--test", "conformance"]);
    command.args(["--test", "hosts"]).env("RADDLE_TEST_FULL", "1");
    outcome(&mut command)
}

fn programs() -> Outcome {
    outcome(random_programs().args(["--seeds", "0..30000"]))
}

fn soak() -> Outcome {
    soak_for("60")
}

/// Programs of other seeds each time, for so many minutes; several at once, so that threads are put off anywhere.
pub(crate) fn soak_for(minutes: &str) -> Outcome {
    let mut command = random_programs();
    command.args(["--random", "--minutes", minutes, "--limit-seconds", "20"]);
    outcome(command.args(["--oversubscribe", "6", "--failures", "100"]))
}

/// The program of `crates/raddle/tests/programs`, to which options may be added.
fn random_programs() -> Command {
    let mut command = cargo();
    command.args(["test", "--release", "-p", "raddle", "--test", "programs", "--"]);
    command
}

fn fmt() -> Outcome {
    everywhere(|cargo| cargo.args(["fmt", "--all", "--check"]))
}

fn clippy() -> Outcome {
    everywhere(|cargo| {
        cargo.args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"])
    })
}

fn docs() -> Outcome {
    everywhere(|cargo| {
        cargo.args(["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings")
    })
}

/// In the workspace, and in those of the drop-in for rayon-core and of programs on it.
fn everywhere(set: impl Fn(&mut Command) -> &mut Command) -> Outcome {
    let in_folder = |folder: Option<&str>| {
        let mut command = cargo();
        if let Some(folder) = folder {
            command.current_dir(root().join(folder));
            command.env("CARGO_TARGET_DIR", target_dir("rayon").join("target"));
        }
        outcome(set(&mut command))
    };
    worst([None, Some("compat/rayon-core"), Some("compat/programs")].map(in_folder).into())
}

fn loom() -> Outcome {
    models("loom")
}

fn shuttle() -> Outcome {
    models("shuttle")
}

fn bench() -> Outcome {
    outcome(cargo().args(["run", "--release", "-p", "raddle-bench", "--", "all", "--smoke"]))
}

/// Tests the concurrent crates on a model checker's seam: the models in their libraries, and in
/// `tests/CHECKER.rs` where there is one. A crate without models fails: a `cfg` has lost them.
fn models(checker: &str) -> Outcome {
    let mut all = Outcome::Passed;
    for package in CONCURRENT {
        let mut command = cargo();
        command.args(["test", "--release", "-p", package, "--lib"]);
        if root().join(format!("crates/{package}/tests/{checker}.rs")).exists() {
            command.args(["--test", checker]);
        }
        command.arg("--target-dir").arg(target_dir(checker));
        // Replaces flags from outside: they must not reach the model, nor rebuild it each time.
        command.env("RUSTFLAGS", format!("--cfg raddle_model --cfg raddle_{checker}"));
        command.env("SHUTTLE_SILENCE_WARNINGS", "1");
        if outcome(&mut command) != Outcome::Passed {
            all = Outcome::Failed;
        }
        if !has_tests(command.args(["--", "--list"])) {
            eprintln!("xtask: {package} has no models for {checker}");
            all = Outcome::Failed;
        }
    }
    all
}

/// Whether a command that lists tests lists any.
fn has_tests(list: &mut Command) -> bool {
    list.stderr(Stdio::null()).output().is_ok_and(|output| {
        String::from_utf8_lossy(&output.stdout).lines().any(|line| line.ends_with(": test"))
    })
}

/// The workspace's root.
pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("xtask lies in the root").to_path_buf()
}

/// A build directory of its own for builds with other flags, so that none throws out another's.
pub(crate) fn target_dir(name: &str) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), PathBuf::from)
        .join(name)
}

/// The cargo that runs this program, in the workspace's root.
pub(crate) fn cargo() -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.current_dir(root());
    command
}

/// A failure, if there is one, or else what is missing, if something is.
pub(crate) fn worst(all: Vec<Outcome>) -> Outcome {
    let failed = all.contains(&Outcome::Failed);
    let missing = all.into_iter().find(|outcome| *outcome != Outcome::Passed);
    if failed { Outcome::Failed } else { missing.unwrap_or(Outcome::Passed) }
}

/// Runs a command to its end, with its output going where this program's goes.
pub(crate) fn outcome(command: &mut Command) -> Outcome {
    match command.status() {
        Ok(status) if status.success() => Outcome::Passed,
        Ok(_) => Outcome::Failed,
        Err(error) => {
            eprintln!("xtask: cannot run {}: {error}", command.get_program().to_string_lossy());
            Outcome::Failed
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Failed, Passed, ToolMissing};
    use super::worst;

    #[test]
    fn one_that_fails_is_a_failure() {
        assert_eq!(worst(vec![Passed, Passed]), Passed);
        assert_eq!(worst(vec![Passed, ToolMissing("it")]), ToolMissing("it"));
        assert_eq!(worst(vec![ToolMissing("it"), Failed, Passed]), Failed);
    }
}
