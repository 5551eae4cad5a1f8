//! `cargo xtask rayon`: rayon's own suites, of the packages as they were published, on `compat/rayon-core`.
//!
//! Cargo fetches the packages. rayon is copied and patched as a user would patch a workspace. Of rayon-core the tests
//! are taken: its unit tests reach for its insides in a few places, for which there are helpers in `rayon/suite.rs`, and
//! two that look at its registry are replaced by two that look at threads that end. With 1, 2 and 8 threads.
//!
//! rayon-demo is not published: `RAYON_REPOSITORY` may name a clone of rayon's repository, for its tests.

pub(crate) mod demo;
mod docs;
mod lock;
mod packages;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use self::packages::{Packages, copy_package, patched};
use crate::steps::{Outcome, cargo, root, target_dir};

/// The versions whose suites are run.
const RAYON: &str = "1.12.0";
const RAYON_CORE: &str = "1.13.0";
/// How many threads the global pool has.
const THREADS: &[usize] = &[1, 2, 8];
/// Longer than any suite takes once it is built, in seconds: one that takes so long hangs.
const LIMIT: &str = "1800";
/// The same for documentation, whose examples are built as they are run.
const LIMIT_OF_EXAMPLES: &str = "7200";

/// Something that cargo tests.
struct Suite {
    name: &'static str,
    folder: PathBuf,
    args: &'static [&'static str],
    /// Needs features of the compiler that are not stable.
    unstable: bool,
}

impl Suite {
    fn new(name: &'static str, folder: &Path, args: &'static [&'static str]) -> Suite {
        Suite { name, folder: folder.to_path_buf(), args, unstable: false }
    }
}

/// Tests passed and failed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Counts {
    passed: usize,
    failed: usize,
    ignored: usize,
}

/// The step.
pub(crate) fn rayon() -> Outcome {
    finish(run_all(THREADS, false))
}

/// The part of it that runs in CI: rayon-core's tests and our own, with two threads.
pub(crate) fn quick() -> Outcome {
    finish(run_all(&[2], true))
}

fn finish(result: io::Result<bool>) -> Outcome {
    match result {
        Ok(true) => Outcome::Passed,
        Ok(false) => Outcome::Failed,
        Err(error) => {
            eprintln!("xtask: rayon's suites: {error}");
            Outcome::Failed
        }
    }
}

/// `compat/rayon-core`.
fn ours() -> PathBuf {
    root().join("compat/rayon-core")
}

fn run_all(threads: &[usize], quick: bool) -> io::Result<bool> {
    let folder = target_dir("rayon");
    fs::create_dir_all(&folder)?;
    let packages = Packages::fetch(&folder.join("fetch"), RAYON, RAYON_CORE)?;
    let core = core_suite(&folder.join("core-suite"), &packages.rayon_core)?;
    let ours = ours();
    // rayon-core's integration tests as they are, beside the unit tests.
    let mut suites = vec![
        Suite::new("raddle's own, unit and integration", &ours, &["--lib", "--tests"]),
        Suite::new("rayon-core, unit", &core, &["--lib"]),
        Suite::new("rayon-core, integration", &core, &["--test", "*"]),
        Suite::new("rayon-core, documentation", &core, &["--doc"]),
    ];
    if quick {
        suites.pop();
    } else {
        let rayon = rayon_suite(&folder.join("rayon"), &packages.rayon)?;
        suites.push(Suite::new("raddle's own, documentation", &ours, &["--doc"]));
        suites.push(Suite::new("rayon, unit", &rayon, &["--lib"]));
        suites.push(Suite::new("rayon, integration", &rayon, &["--test", "*"]));
        suites.push(Suite::new("rayon, documentation", &rayon, &["--doc"]));
        if let Some(clone) = std::env::var_os("RAYON_REPOSITORY") {
            let demo = demo_suite(&folder.join("repository"), Path::new(&clone))?;
            let args = &["-p", "rayon-demo"];
            suites.push(Suite { unstable: true, ..Suite::new("rayon-demo", &demo, args) });
        }
    }
    let foreign = lock::foreign(&folder.join("lock"), RAYON, &ours)?;
    let mut all_well = foreign.is_empty();
    if !all_well {
        eprintln!("xtask: the drop-in brings into a program's lock: {}", foreign.join(", "));
    }
    let mut lines = Vec::new();
    // Examples are built anew each time, which takes minutes: last.
    let (examples, tests): (Vec<&Suite>, Vec<&Suite>) =
        suites.iter().partition(|suite| suite.args == ["--doc"]);
    let mut each = |suites: &[&Suite]| -> io::Result<()> {
        for &threads in threads {
            for suite in suites {
                let start = Instant::now();
                let (counts, well) = run(suite, threads, &folder)?;
                all_well &= well;
                let verdict = if well { "ok" } else { "FAILED" };
                let Counts { passed, failed, ignored } = counts;
                let line = format!(
                    "{:<36} {threads} threads: {passed:>4} passed {failed:>3} failed {ignored:>2} ignored \
                     {:>6.1} s  {verdict}",
                    suite.name,
                    start.elapsed().as_secs_f64()
                );
                println!("{line}");
                lines.push(line);
            }
        }
        Ok(())
    };
    [tests, examples].iter().try_for_each(|suites| each(suites))?;
    println!("\nrayon {RAYON}, rayon-core {RAYON_CORE}, RADDLE_WAITS={}", waits());
    lines.iter().for_each(|line| println!("{line}"));
    Ok(all_well)
}

fn waits() -> String {
    std::env::var("RADDLE_WAITS").unwrap_or_else(|_| "host".into())
}

/// Runs a suite, and counts what libtest says.
fn run(suite: &Suite, threads: usize, folder: &Path) -> io::Result<(Counts, bool)> {
    let test = |command: &mut Command| {
        command.args(["test", "--quiet"]).args(suite.args);
        command.current_dir(&suite.folder);
        command.arg("--target-dir").arg(folder.join("target"));
        if suite.unstable {
            command.env("RUSTC_BOOTSTRAP", "1");
        }
    };
    let mut build = cargo();
    let examples = suite.args == ["--doc"];
    if !examples {
        test(&mut build);
        if !build.arg("--no-run").status()?.success() {
            return Ok((Counts::default(), false));
        }
    }
    let mut command = Command::new("timeout");
    command.arg(if examples { LIMIT_OF_EXAMPLES } else { LIMIT }).arg(build.get_program());
    test(&mut command);
    command.env("RAYON_NUM_THREADS", threads.to_string());
    let output = command.stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let counts = count(&text);
    let well = output.status.success() && counts.failed == 0 && counts.passed > 0;
    if !well {
        println!("{text}");
        println!("{}: {}", suite.name, output.status);
    }
    Ok((counts, well))
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

/// rayon's package as a workspace of its own, patched.
fn rayon_suite(to: &Path, package: &Path) -> io::Result<PathBuf> {
    copy_package(package, to)?;
    let manifest = to.join("Cargo.toml");
    let text = fs::read_to_string(&manifest)?;
    fs::write(&manifest, format!("{text}\n[workspace]\n{}", patched(&ours())))?;
    Ok(to.to_path_buf())
}

/// A clone of rayon's repository without its own rayon-core.
fn demo_suite(to: &Path, clone: &Path) -> io::Result<PathBuf> {
    copy_package(clone, to)?;
    for (file, without) in [("Cargo.toml", "path = \"rayon-core\""), ("rayon-demo/Cargo.toml", "")]
    {
        let manifest = to.join(file);
        let text = fs::read_to_string(&manifest)?;
        let mut text = text
            .replace("members = [\"rayon-demo\", \"rayon-core\"]", "members = [\"rayon-demo\"]");
        if !without.is_empty() {
            text = text.replace(&format!(", {without}"), "") + &patched(&ours());
        }
        fs::write(&manifest, text)?;
    }
    fs::remove_dir_all(to.join("rayon-core")).or_else(missing)?;
    fs::remove_file(to.join("Cargo.lock")).or_else(missing)?;
    Ok(to.to_path_buf())
}

fn missing(error: io::Error) -> io::Result<()> {
    if error.kind() == io::ErrorKind::NotFound { Ok(()) } else { Err(error) }
}

/// A package that has rayon-core's tests, and ours in the place of rayon-core.
fn core_suite(to: &Path, package: &Path) -> io::Result<PathBuf> {
    // Generated files of the last time among the sources would have their documentation tested, too.
    fs::remove_dir_all(to).or_else(missing)?;
    copy_package(package, to)?;
    for module in ["broadcast", "join", "scope", "spawn", "thread_pool"] {
        let folder = to.join("src").join(module);
        let tests = fs::read_to_string(folder.join("test.rs"))?;
        fs::write(folder.join("test.rs"), without_insides(&tests))?;
    }
    let docs = docs::extract(&to.join("src"))?;
    fs::write(to.join("src/docs.rs"), docs)?;
    fs::write(to.join("src/lib.rs"), include_str!("rayon/suite.rs"))?;
    fs::write(to.join("src/stops.rs"), include_str!("rayon/stops.rs"))?;
    fs::remove_file(to.join("build.rs")).or_else(missing)?;
    let manifest = format!(
        "[workspace]\n[package]\nname = \"core-suite\"\nversion = \"0.0.0\"\nedition = \"2021\"\n\
         [dependencies]\nrayon-core = {{ path = {:?} }}\n\
         [dev-dependencies]\nrand = \"0.9\"\nrand_xorshift = \"0.4\"\nscoped-tls = \"1\"\nlibc = \"0.2\"\n\
         crossbeam-utils = \"0.8\"\n\
         [profile.test]\nopt-level = 1\n",
        ours()
    );
    fs::write(to.join("Cargo.toml"), manifest)?;
    fs::remove_file(to.join("Cargo.lock")).or_else(missing)?;
    fs::remove_file(to.join("Cargo.toml.orig")).or_else(missing)?;
    Ok(to.to_path_buf())
}

/// The tests without the two that look at the registry, for which `suite.rs` has others.
fn without_insides(tests: &str) -> String {
    let mut text = tests.to_string();
    for name in ["workers_stop", "sleeper_stop"] {
        let Some(at) = text.find(&format!("fn {name}()")) else { continue };
        let begin = text[..at].rfind("#[test]").unwrap_or(at);
        let end = text[at..].find("\n}\n").map_or(text.len(), |end| at + end + 3);
        text.replace_range(begin..end, "");
    }
    text
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
    fn tests_of_the_registry_are_left_out() {
        let tests = "#[test]\nfn one() {\n}\n#[test]\n#[x]\nfn workers_stop() {\n  a();\n}\n\nfn last() {\n}\n";
        assert_eq!(without_insides(tests), "#[test]\nfn one() {\n}\n\nfn last() {\n}\n");
    }
}
