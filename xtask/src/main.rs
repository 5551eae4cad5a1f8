//! `cargo xtask ci`: the one front door to raddle's checks. (CI runs `.ci/run`: the tests by themselves, then `ci --no-test`.)
//!
//! Each step is also a command of its own, `cargo xtask loom` say. What takes long, and most of what needs a
//! tool beyond the Rust toolchain, as `asan`, `valgrind`, `miri` and `arm` do, are commands only. `msrv`, `targets` and `book` install
//! what they lack.

mod arm;
mod book;
mod compare;
mod light;
mod locks;
mod miri;
mod modes;
mod page;
mod peers;
mod predict;
mod ray;
mod rayon;
mod release;
mod rooms;
mod sanitize;
mod steps;

use std::process::ExitCode;
use std::time::{Duration, Instant};
use steps::{CI, EXTRA, Outcome, Step};

/// The environment variable that has `ci` run `ray --quick` as well, if it is 1.
const RAY: &str = "RADDLE_CI_RAY";

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args.as_slice() {
        ["ci"] => run(&ci(|_| true)),
        ["ci", "--no-test"] => run(&ci(|step| step.name != "test")),
        ["help" | "--help" | "-h"] => {
            print!("{}", usage());
            ExitCode::SUCCESS
        }
        ["soak", "--minutes", minutes] => match minutes.parse::<f64>() {
            Ok(_) => ended(steps::soak_for(minutes)),
            Err(_) => refuse(&format!("'{minutes}' is no number of minutes")),
        },
        ["ray", "--quick"] => run(&[&steps::RAY_QUICK]),
        ["miri", "--quick"] => run(&[&steps::MIRI_QUICK]),
        ["page", "--accept"] => ended(page::accept()),
        ["compare", "--check"] => run(&[&steps::COMPARE_CHECK]),
        ["compare", "--measure"] => ended(compare::measure("120")),
        ["compare", "--measure", "--max-seconds", seconds] => match seconds.parse::<f64>() {
            Ok(_) => ended(compare::measure(seconds)),
            Err(_) => refuse(&format!("'{seconds}' is no number of seconds")),
        },
        ["rayon", options @ ..] => match rayon::Options::parse(options) {
            Ok(options) => ended(rayon::run(options)),
            Err(why) => refuse(&why),
        },
        [name] => match named(name) {
            Some(step) => run(&[step]),
            None => refuse(&format!("unknown command '{name}'")),
        },
        [] => refuse("a command is missing"),
        [_, rest @ ..] => refuse(&format!("unexpected '{}'", rest.join(" "))),
    }
}

/// The steps of `ci`, and Ray if the switch is set.
fn ci(wanted: impl Fn(&Step) -> bool) -> Vec<&'static Step> {
    let ray = std::env::var_os(RAY).is_some_and(|set| set == "1").then_some(&steps::RAY_QUICK);
    CI.iter().filter(|step| wanted(step)).chain(ray).collect()
}

/// A step by its name: where `ci` has a part of it alone, the whole.
fn named(name: &str) -> Option<&'static Step> {
    EXTRA.iter().chain(CI).find(|step| step.name == name)
}

fn usage() -> String {
    let mut text = String::from(
        "usage: cargo xtask ci [--no-test]   every step marked *, in this order\n       \
                cargo xtask soak --minutes N\n       \
                cargo xtask compare --measure [--max-seconds S] | --check\n       \
                cargo xtask page --accept\n       \
                cargo xtask rayon [--quick] [--no-doc] [--repeat N]\n       \
                cargo xtask STEP             one of:\n\n",
    );
    for (mark, steps) in [("*", CI), (" ", EXTRA)] {
        for step in steps {
            text += &format!("  {mark} {:<9} {}\n", step.name, step.what);
        }
    }
    text += "\nmiri --quick: fewer tests, one seed; rayon --quick: what ci runs of it\n";
    text += &format!(
        "ray --quick: fewer rounds of what takes seconds there; {RAY}=1: `ci` runs it, too\n"
    );
    text += "rayon --repeat: all of it N times in a row; --no-doc: without documentation\n";
    text += "page --accept: pictures of pages are good as they are now\n";
    text += "compare --measure: takes the figures first, S seconds for each table at most (120)\n";
    text
}

fn refuse(why: &str) -> ExitCode {
    eprint!("xtask: {why}\n\n{}", usage());
    ExitCode::from(2)
}

fn ended(outcome: Outcome) -> ExitCode {
    println!("{outcome}");
    if outcome == Outcome::Passed { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Runs every step, also after one has failed: the more is known the better.
fn run(steps: &[&Step]) -> ExitCode {
    let mut done: Vec<(&Step, Outcome, Duration)> = Vec::new();
    for step in steps {
        println!("== {}: {}", step.name, step.what);
        let start = Instant::now();
        let outcome = (step.run)();
        done.push((step, outcome, start.elapsed()));
    }
    println!();
    for (step, outcome, time) in &done {
        println!("{:<9} {:>7.1} s  {outcome}", step.name, time.as_secs_f64());
    }
    if let Some(skipped) = skipped(done.iter().map(|(step, outcome, _)| (step.name, outcome))) {
        println!("\n{skipped}");
    }
    // Asked for alone, a step has to run; among others one whose tool is not to be had is named, above.
    let alone = steps.len() == 1;
    let well = |outcome: &Outcome| match outcome {
        Outcome::Passed => true,
        Outcome::ToolMissing(_) => !alone,
        Outcome::Failed => false,
    };
    if done.iter().all(|(_, outcome, _)| well(outcome)) {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// What was not checked, or not all of it, for want of a tool: said last, so that nobody takes silence for success.
fn skipped<'a>(done: impl Iterator<Item = (&'a str, &'a Outcome)>) -> Option<String> {
    let names: Vec<&str> = done
        .filter(|(_, outcome)| matches!(outcome, Outcome::ToolMissing(_)))
        .map(|(name, _)| name)
        .collect();
    let count = names.len();
    let steps = if count == 1 { "step" } else { "steps" };
    (count > 0)
        .then(|| format!("SKIPPED, wholly or in part: {count} {steps}: {}", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::Outcome::{Failed, Passed, ToolMissing};
    use super::skipped;

    #[test]
    fn what_was_skipped_is_listed_last() {
        assert_eq!(skipped([("fmt", &Passed), ("loom", &Failed)].into_iter()), None);
        let missing = ToolMissing("it");
        let told = skipped([("page", &missing), ("fmt", &Passed), ("book", &missing)].into_iter());
        assert_eq!(told.unwrap(), "SKIPPED, wholly or in part: 2 steps: page, book");
    }
}
