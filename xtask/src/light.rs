//! What a program takes on that depends on `raddle`: how many crates, and how long they build.

use crate::steps::{Outcome, cargo, target_dir};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::{Duration, Instant};

/// The most crates, `raddle` itself among them.
const MOST_CRATES: usize = 8;
/// The most time for a clean build ..
const MOST_TIME: Duration = Duration::from_secs(4);
/// .. or, on a machine that is slow or busy, the most beside rayon, which takes 3 s where 4 s are allowed.
const MOST_RATIO: f64 = 4.0 / 3.0;
/// Builds of each, in turn; the fastest counts.
const ROUNDS: usize = 3;

pub(crate) fn light() -> Outcome {
    let (Some(ours), Some(theirs)) = (crates("raddle"), crates("rayon")) else {
        return Outcome::Failed;
    };
    println!("raddle: {} crates ({}); rayon: {}", ours.len(), list(&ours), theirs.len());
    let mut best = [Duration::MAX; 2];
    for _ in 0..ROUNDS {
        for (package, best) in ["raddle", "rayon"].into_iter().zip(&mut best) {
            match clean_build(package) {
                Some(time) => *best = time.min(*best),
                None => return Outcome::Failed,
            }
        }
        if best[0] <= MOST_TIME {
            break;
        }
    }
    let [raddle, rayon] = best.map(|time| time.as_secs_f64());
    println!("clean builds: raddle {raddle:.1} s, rayon {rayon:.1} s, {:.2}x", raddle / rayon);
    let light = ours.len() <= MOST_CRATES;
    if !light {
        eprintln!("xtask: raddle brings {} crates, and {MOST_CRATES} are allowed", ours.len());
    }
    let fast = best[0] <= MOST_TIME || raddle / rayon <= MOST_RATIO;
    if !fast {
        eprintln!("xtask: a clean build may take {MOST_TIME:?}, or {MOST_RATIO:.2}x rayon's");
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

/// How long a package and all it needs take to build, downloads left out.
fn clean_build(package: &str) -> Option<Duration> {
    let target = target_dir("light");
    _ = std::fs::remove_dir_all(&target);
    let mut build = cargo();
    build.args(["build", "--quiet", "-p", package, "--target-dir"]).arg(&target);
    // Whatever wraps the compiler elsewhere would be measured too.
    build.env_remove("RUSTC_WRAPPER").env("CARGO_INCREMENTAL", "0");
    let start = Instant::now();
    let built = build.status().is_ok_and(|status| status.success());
    let time = start.elapsed();
    _ = std::fs::remove_dir_all(&target);
    built.then_some(time)
}
