//! What a program takes on that depends on `raddle`: how many crates, and how long they build.
//!
//! Where the time goes, of 12 s of processors on two busy ones (2026-11-29; 16 before, rayon 4): `raddle-core` 6.3 (a third of it types and
//! borrows, the rest debug code), `raddle-lock` 1.6, `raddle-trace` 1.6 (5.3 before it was `#[inline]`), `libc` 1.2 with its build script,
//! `raddle-sync` 0.7. By the clock nearly all is the one crate `raddle-core`, whose front end and generation of LLVM's code run on one
//! thread, and the chain before it, `libc` and `raddle-sync`. Its debug code is some 110,000 statements in 8,000 functions, and no function of a
//! name has more than 3 %: closures given to thread-locals 4 %, `Vec` 6, iterators 10, a tree 4, recording 10.
//!
//! What was not done: declarations of one's own for `libc` are some 28 functions, 45 constants and 6 structures that differ over
//! platforms, for a third of a second; `par` in the facade would be compiled beside the core's debug code, but it has unsafe code; and what a pool
//! calls when it records cannot be left to those who record, unless by a table of functions.

use crate::steps::{Outcome, cargo, target_dir};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Instant;

/// The most crates, `raddle` itself among them.
const MOST_CRATES: usize = 8;
/// The most processor time for a clean build, beside rayon's. It is what it has come to, so that it gets no worse: 11.8 to 12.3 s
/// beside 3.8 to 4.2 s were measured on two busy cores, 2.8 to 3.2 times as much; an eighth more is for machines that differ.
const MOST_RATIO: f64 = 3.6;
/// The aim, by the clock: 4 s ..
const AIM_SECONDS: f64 = 4.0;
/// .. where rayon takes 3 s.
const AIM: f64 = 4.0 / 3.0;
/// Builds of each, in turn; the cheapest counts.
const ROUNDS: usize = 5;

pub(crate) fn light() -> Outcome {
    let (Some(ours), Some(theirs)) = (crates("raddle"), crates("rayon")) else {
        return Outcome::Failed;
    };
    println!("raddle: {} crates ({}); rayon: {}", ours.len(), list(&ours), theirs.len());
    let mut best = [Cost { clock: f64::INFINITY, processor: f64::INFINITY }; 2];
    let mut ratio = f64::INFINITY;
    for _ in 0..ROUNDS {
        for (package, best) in ["raddle", "rayon"].into_iter().zip(&mut best) {
            match clean_build(package) {
                Some(cost) => *best = best.min(cost),
                None => return Outcome::Failed,
            }
        }
        ratio = best[0].processor / best[1].processor;
        if ratio <= MOST_RATIO {
            break;
        }
    }
    let [raddle, rayon] = best;
    println!(
        "clean builds: raddle {:.1} s of processors, rayon {:.1} s, {ratio:.2}x and at most {MOST_RATIO:.2}x",
        raddle.processor, rayon.processor
    );
    println!(
        "by the clock: raddle {:.1} s, rayon {:.1} s, {:.2}x; the aim is {AIM_SECONDS:.0} s, {AIM:.2}x",
        raddle.clock,
        rayon.clock,
        raddle.clock / rayon.clock
    );
    let light = ours.len() <= MOST_CRATES;
    if !light {
        eprintln!("xtask: raddle brings {} crates, and {MOST_CRATES} are allowed", ours.len());
    }
    let fast = ratio <= MOST_RATIO;
    if !fast {
        eprintln!("xtask: a clean build may take {MOST_RATIO:.2}x the processor time of rayon's");
    }
    if light && fast { Outcome::Passed } else { Outcome::Failed }
}

/// The crates that a package is built from on this machine.
fn crates(package: &str) -> Option<BTreeSet<String>> {
    let mut tree = cargo();
    tree.args(["tree", "--edges", "normal", "--prefix", "none", "--format", "{p}", "-p", package]);
    let output =
        tree.stderr(Stdio::inherit()).output().ok().filter(|tree| tree.status.success())?;
    let name = |line: &str| line.split_whitespace().next().map(str::to_owned);
    Some(String::from_utf8_lossy(&output.stdout).lines().filter_map(name).collect())
}

fn list(crates: &BTreeSet<String>) -> String {
    crates.iter().map(String::as_str).collect::<Vec<_>>().join(", ")
}

/// Seconds.
#[derive(Clone, Copy, Debug)]
struct Cost {
    clock: f64,
    /// That of all processors, which other programs hardly change.
    processor: f64,
}

impl Cost {
    fn min(self, other: Cost) -> Cost {
        Cost { clock: self.clock.min(other.clock), processor: self.processor.min(other.processor) }
    }
}

/// Seconds of processors that children which have ended took, and theirs; none where the system doesn't tell.
fn of_children() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // After the name of the program, which may contain anything: state and 12 fields, then user and system, in hundredths.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(13).take(2);
    let ticks: Option<u64> = fields.map(|field| field.parse::<u64>().ok()).sum();
    Some(ticks? as f64 / 100.0)
}

/// What it costs to build a package and all it needs, downloads left out.
fn clean_build(package: &str) -> Option<Cost> {
    let target = target_dir("light");
    _ = std::fs::remove_dir_all(&target);
    let mut build = cargo();
    build.args(["build", "--quiet", "-p", package, "--target-dir"]).arg(&target);
    // Whatever wraps the compiler elsewhere would be measured too.
    build.env_remove("RUSTC_WRAPPER").env("CARGO_INCREMENTAL", "0");
    let (start, before) = (Instant::now(), of_children());
    let built = build.status().is_ok_and(|status| status.success());
    let clock = start.elapsed().as_secs_f64();
    // By the clock where nothing else is told.
    let processor = before.and_then(|before| Some(of_children()? - before)).unwrap_or(clock);
    _ = std::fs::remove_dir_all(&target);
    built.then_some(Cost { clock, processor })
}
