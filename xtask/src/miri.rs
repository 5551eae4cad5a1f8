//! The tests under Miri, which finds undefined behaviour, data races and stale reads that the language allows: code
//! runs on its abstract machine, with memory as weak as that, in an order that a seed decides.
//!
//! There it is slow, some thousand times. So tests shrink themselves by `cfg!(miri)`, the list says which run, and a
//! few that take long even so are skipped.

use crate::sanitize::works;
use crate::steps::{Outcome, outcome, root, target_dir};
use std::process::Command;

/// Programs of tests of one package.
struct Suite {
    package: &'static str,
    /// What cargo builds: `--lib`, `--test NAME`.
    targets: &'static [&'static str],
    /// Parts of names of tests; none: all.
    only: &'static [&'static str],
    /// Parts of names of tests that are left out.
    skip: &'static [&'static str],
    /// Whether it runs with more than one seed: worth while where threads meet.
    races: bool,
    /// Whether a quick run has it.
    quick: bool,
    /// Whether threads and memory may be left at the end.
    leaks: bool,
}

const SUITES: &[Suite] = &[
    Suite {
        package: "raddle-sync",
        targets: &["--lib", "--test", "fence", "--test", "portable_fence"],
        only: &[],
        // A thousand parkers take long; and one that is never given back counts as a leak.
        skip: &["a_lease_given_back", "current_stays_one_parker"],
        races: true,
        quick: true,
        // What strands hold that have ended is kept: guards may turn up.
        leaks: true,
    },
    Suite {
        package: "raddle-lock",
        targets: &["--lib", "--test", "header"],
        only: &[],
        skip: &[],
        races: true,
        quick: false,
        leaks: false,
    },
    Suite {
        package: "raddle-lock",
        targets: &["--test", "mutex", "--test", "stress", "--test", "inflation"],
        only: &[],
        skip: &[],
        races: true,
        quick: false,
        leaks: false,
    },
    Suite {
        package: "raddle-lock",
        targets: &["--test", "abandoned", "--test", "allocation"],
        only: &[],
        skip: &[],
        races: false,
        quick: false,
        leaks: false,
    },
    // All that pools do, small.
    Suite {
        package: "raddle-core",
        targets: &["--test", "small"],
        only: &[],
        skip: &[],
        races: true,
        quick: true,
        leaks: false,
    },
    Suite {
        package: "raddle-core",
        targets: &["--lib"],
        only: &[],
        skip: &[],
        races: false,
        quick: false,
        leaks: false,
    },
    // What tasks inherit.
    Suite {
        package: "raddle-core",
        targets: &["--test", "follow", "--test", "interrupted_twice", "--test", "locals"],
        only: &[],
        // Long.
        skip: &["a_loop_under_a_binding_makes"],
        races: true,
        quick: false,
        // Pools have threads for ever.
        leaks: true,
    },
    Suite {
        package: "raddle-core",
        targets: &["--test", "futures"],
        only: &["panics::", "drops::"],
        // The second has a pool, the first takes long. In the third the compiler loses a value that is returned while
        // what the function holds panics as it is dropped.
        skip: &["as_good_as_new", "a_spawned_task_whose", "strands_nobody"],
        races: false,
        // To compile these tests takes minutes.
        quick: false,
        leaks: false,
    },
    Suite {
        package: "raddle-core",
        targets: &["--test", "futures"],
        only: &["semantics::", "itself::"],
        // These have a pool.
        skip: &[
            "a_task_that_waits_for_itself",
            "values_are_in_the_order",
            "one_that_follows_a_task",
            "what_is_beside_it",
        ],
        races: true,
        quick: false,
        // Timers have a thread for ever.
        leaks: true,
    },
];

/// Seeds of a suite in which threads meet.
const SEEDS: u32 = 8;

/// A seed to run again, alone.
const SEED: &str = "RADDLE_MIRI_SEED";

/// All suites.
pub(crate) fn miri() -> Outcome {
    run(SUITES.iter().collect(), SEEDS)
}

/// The quick ones, with one seed each.
pub(crate) fn quick() -> Outcome {
    run(SUITES.iter().filter(|suite| suite.quick).collect(), 1)
}

fn run(suites: Vec<&Suite>, seeds: u32) -> Outcome {
    if !(is_there() || install() && is_there()) {
        return Outcome::ToolMissing(
            "Miri (rustup component add miri rust-src --toolchain nightly)",
        );
    }
    let only = std::env::var(SEED).ok().and_then(|seed| seed.parse().ok());
    let mut all = Outcome::Passed;
    for suite in suites {
        let seeds = only.map_or(0..if suite.races { seeds } else { 1 }, |seed| seed..seed + 1);
        for seed in seeds {
            println!("-- {} {} (seed {seed})", suite.package, suite.targets.join(" "));
            if outcome(&mut suite.command(seed)) != Outcome::Passed {
                eprintln!("xtask: to see it again: {SEED}={seed} cargo xtask miri");
                all = Outcome::Failed;
            }
        }
    }
    all
}

fn is_there() -> bool {
    works(Command::new("cargo").args(["+nightly", "miri", "--version"]))
}

/// A part of the nightly toolchain.
fn install() -> bool {
    let parts = ["component", "add", "miri", "rust-src", "--toolchain", "nightly"];
    works(Command::new("rustup").args(parts))
}

impl Suite {
    fn command(&self, seed: u32) -> Command {
        // By name and not by `$CARGO`, because only rustup's proxy understands `+nightly`.
        let mut command = Command::new("cargo");
        command.args(["+nightly", "miri", "test", "--no-fail-fast", "-p", self.package]);
        command.current_dir(root()).args(self.targets);
        command.arg("--target-dir").arg(target_dir("miri"));
        command.arg("--").args(self.only);
        // One test at a time: a failure names its test, and a seed means the same order again.
        command.arg("--test-threads=1");
        command.args(self.skip.iter().flat_map(|name| ["--skip", name]));
        // The allocator's memory for each node of a future, so that Miri sees them all.
        command.env("RUSTFLAGS", "--cfg raddle_plain_memory");
        // A pointer in a word of a context comes back from the number that it was made.
        let flags = format!(
            "-Zmiri-permissive-provenance -Zmiri-isolation-error=warn-nobacktrace \
             -Zmiri-env-forward=RADDLE_STRESS -Zmiri-seed={seed}{}",
            if self.leaks { " -Zmiri-ignore-leaks" } else { "" }
        );
        command.env("MIRIFLAGS", flags);
        // Time and files are Miri's own, so that a seed decides everything.
        command.env("RUST_BACKTRACE", "0").env("RADDLE_STRESS", "0.0001");
        command
    }
}
