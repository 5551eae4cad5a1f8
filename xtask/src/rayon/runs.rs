//! Runs of suites, and what libtest says of them.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::steps::cargo;

/// Longer than any suite takes once it is built, in seconds: one that takes so long hangs.
const LIMIT: &str = "1800";
/// The same for documentation, whose examples are built as they are run.
const LIMIT_OF_EXAMPLES: &str = "7200";

/// Something that cargo tests.
pub(super) struct Suite {
    name: &'static str,
    folder: PathBuf,
    args: &'static [&'static str],
    /// How many tests there are to pass: fewer are a suite that has not been run as a whole.
    tests: usize,
    /// Needs features of the compiler that are not stable.
    unstable: bool,
}

impl Suite {
    pub(super) fn new(
        name: &'static str,
        folder: &Path,
        args: &'static [&'static str],
        tests: usize,
    ) -> Suite {
        Suite { name, folder: folder.to_path_buf(), args, tests, unstable: false }
    }

    pub(super) fn unstable(self) -> Suite {
        Suite { unstable: true, ..self }
    }

    fn is_documentation(&self) -> bool {
        self.args == ["--doc"]
    }

    /// What cargo is to do, added to a command that begins with cargo.
    fn add_to<'a>(&self, command: &'a mut Command, target: &Path) -> &'a mut Command {
        command.args(["test", "--quiet"]).args(self.args).current_dir(&self.folder);
        if self.unstable {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
        // What is built once needs nothing to be built faster the next time: gigabytes.
        command.env("CARGO_INCREMENTAL", "0").arg("--target-dir").arg(target)
    }

    /// Builds and runs it with a global pool of so many threads.
    fn run(&self, threads: usize, target: &Path) -> io::Result<Run> {
        let mut build = cargo();
        let documentation = self.is_documentation();
        if !documentation && !self.add_to(&mut build, target).arg("--no-run").status()?.success() {
            return Ok(Run::default());
        }
        let mut command = Command::new("timeout");
        command.arg(if documentation { LIMIT_OF_EXAMPLES } else { LIMIT }).arg(build.get_program());
        self.add_to(&mut command, target).env("RAYON_NUM_THREADS", threads.to_string());
        let since = Instant::now();
        let output = command.stderr(Stdio::inherit()).output()?;
        let time = since.elapsed();
        let text = String::from_utf8_lossy(&output.stdout);
        let counts = count(&text);
        let all = counts.failed == 0 && counts.passed >= self.tests.max(1);
        let well = output.status.success() && all;
        if !well {
            println!("{text}");
            println!("{}: {}, {} tests are to pass", self.name, output.status, self.tests);
        }
        Ok(Run { counts, well, time })
    }
}

/// Tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    counts: Counts,
    well: bool,
    time: Duration,
}

/// All runs of a suite with so many threads.
pub(super) struct Runs {
    suite: &'static str,
    threads: usize,
    all: Vec<Run>,
}

impl Runs {
    pub(super) fn well(&self) -> bool {
        self.all.iter().all(|run| run.well)
    }
}

impl fmt::Display for Runs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = self.all.iter().map(|run| run.counts.passed).min().unwrap_or(0);
        let failed: usize = self.all.iter().map(|run| run.counts.failed).sum();
        let ignored = self.all.iter().map(|run| run.counts.ignored).max().unwrap_or(0);
        let longest = self.all.iter().map(|run| run.time).max().unwrap_or_default().as_secs_f64();
        let well = self.all.iter().filter(|run| run.well).count();
        let verdict = if self.well() { "ok" } else { "FAILED" };
        write!(
            f,
            "{:<40} {} threads: {least:>4} passed {failed:>3} failed {ignored:>2} ignored \
             {longest:>6.1} s  {well} of {} runs {verdict}",
            self.suite,
            self.threads,
            self.all.len()
        )
    }
}

/// Runs suites so many times in a row, with each number of threads.
pub(super) fn run_all(
    suites: &[Suite],
    threads: &[usize],
    repeat: usize,
    target: &Path,
) -> io::Result<Vec<Runs>> {
    // Examples are built anew each time, which takes minutes: last.
    let (examples, tests): (Vec<&Suite>, Vec<&Suite>) =
        suites.iter().partition(|suite| suite.is_documentation());
    let all: Vec<(&Suite, usize)> = [tests, examples]
        .iter()
        .flat_map(|suites| {
            threads.iter().flat_map(|&threads| suites.iter().map(move |suite| (*suite, threads)))
        })
        .collect();
    let mut runs: Vec<Runs> = all
        .iter()
        .map(|&(suite, threads)| Runs { suite: suite.name, threads, all: Vec::new() })
        .collect();
    for _ in 0..repeat {
        for (&(suite, threads), runs) in all.iter().zip(&mut runs) {
            runs.all.push(suite.run(threads, target)?);
            println!("{runs}");
        }
    }
    Ok(runs)
}

/// Adds up lines as `test result: ok. 3 passed; 0 failed; 1 ignored; ..`.
fn count(text: &str) -> Counts {
    let mut counts = Counts::default();
    for line in text.lines() {
        let Some(at) = line.find("test result: ") else { continue };
        let words: Vec<&str> =
            line[at..].split([' ', ';']).filter(|word| !word.is_empty()).collect();
        for pair in words.windows(2) {
            let Ok(number) = pair[0].parse::<usize>() else { continue };
            match pair[1] {
                "passed" => counts.passed += number,
                "failed" => counts.failed += number,
                "ignored" => counts.ignored += number,
                _ => {}
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_added_up() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured\nx\n\
                    test result: FAILED. 2 passed; 1 failed; 0 ignored; 0 measured";
        assert_eq!(count(text), Counts { passed: 5, failed: 1, ignored: 1 });
    }

    #[test]
    fn one_run_that_fails_is_told() {
        let run = |passed, failed, well| {
            let counts = Counts { passed, failed, ignored: 1 };
            Run { counts, well, time: Duration::from_secs(2) }
        };
        let all = vec![run(7, 0, true), run(5, 2, false), run(7, 0, true)];
        let runs = Runs { suite: "one", threads: 2, all };
        let told = runs.to_string();
        assert!(told.contains("2 threads:    5 passed   2 failed  1 ignored"), "{told}");
        assert!(told.ends_with("2.0 s  2 of 3 runs FAILED") && !runs.well(), "{told}");
    }
}
