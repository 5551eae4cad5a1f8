//! `cargo xtask rayon`: rayon's own suites, of the packages as they were published, on `compat/rayon-core`.
//!
//! Cargo fetches the packages. rayon is copied and patched as a user would patch a workspace. Of rayon-core the tests
//! are taken: its unit tests reach for its insides in a few places, for which there are helpers in `rayon/suite.rs`, and
//! two that look at its registry are replaced by two that look at threads that end. With 1, 2 and 8 threads.
//!
//! rayon-demo is not published: `RAYON_REPOSITORY` may name a clone of rayon's repository, for its tests.
//!
//! And what our own tests say of rayon holds of rayon: those of `tests/semantics` pass on its own rayon-core, and the programs
//! of `compat/programs` that end on raddle do not end there.

pub(crate) mod calls;
mod controls;
pub(crate) mod demo;
mod docs;
mod lock;
mod packages;
mod rows;
mod runs;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::packages::{Packages, copy_package, patched};
use self::runs::{Suite, run_all};
use crate::steps::{Outcome, root, target_dir};

/// The versions whose suites are run.
const RAYON: &str = "1.12.0";
const RAYON_CORE: &str = "1.13.0";
/// How many threads the global pool has.
const THREADS: &[usize] = &[1, 2, 8];

/// COMPARE's rows of `calls` and `demo` that lose, by the texts of their files.
pub(crate) fn losses(calls: &str, demo: Option<&str>) -> Result<String, String> {
    let calls = rows::parse(calls)?;
    let demo = demo.map(rows::parse).transpose()?;
    let mut parts = vec![("a call", 1.0, &calls)];
    // Its times are nanoseconds.
    parts.extend(demo.as_ref().map(|demo| ("rayon-demo", 1e-3, demo)));
    Ok(rows::losses(&parts))
}

/// What is to be run, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// With two threads only, rayon-core's and our own.
    quick: bool,
    documentation: bool,
    repeat: usize,
}

impl Options {
    const ALL: Options = Options { quick: false, documentation: true, repeat: 1 };
    const QUICK: Options = Options { quick: true, documentation: false, repeat: 1 };

    /// Reads `--quick`, `--no-doc` and `--repeat N`.
    pub(crate) fn parse(words: &[&str]) -> Result<Options, String> {
        let mut options = Options::ALL;
        let mut words = words.iter();
        while let Some(&word) = words.next() {
            match word {
                "--quick" => options = Options { repeat: options.repeat, ..Options::QUICK },
                "--no-doc" => options.documentation = false,
                "--repeat" => {
                    let number = words.next().and_then(|word| word.parse().ok());
                    let number = number.filter(|number| *number > 0);
                    options.repeat = number.ok_or("--repeat is followed by a number from 1 on")?;
                }
                other => return Err(format!("unexpected '{other}'")),
            }
        }
        Ok(options)
    }
}

/// The step.
pub(crate) fn rayon() -> Outcome {
    run(Options::ALL)
}

/// The part of it that runs in CI: rayon-core's tests and our own, with two threads.
pub(crate) fn quick() -> Outcome {
    run(Options::QUICK)
}

pub(crate) fn run(options: Options) -> Outcome {
    match try_run(options) {
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

/// `compat/programs`.
fn programs() -> PathBuf {
    root().join("compat/programs")
}

fn try_run(options: Options) -> io::Result<bool> {
    let folder = target_dir("rayon");
    fs::create_dir_all(&folder)?;
    let packages = Packages::fetch(&folder.join("fetch"), RAYON, RAYON_CORE)?;
    let foreign = lock::foreign(&folder.join("lock"), RAYON, &ours())?;
    if !foreign.is_empty() {
        eprintln!("xtask: the drop-in brings into a program's lock: {}", foreign.join(", "));
    }
    let with_old_libc = lock::allows_old_libc(&folder.join("lock"))?;
    if !with_old_libc {
        eprintln!("xtask: the drop-in does not compile with an old libc");
    }
    // First: they say whether what follows shows anything.
    let controlled = options.quick || controls::run(&folder)?;
    let threads = if options.quick { &[2] } else { THREADS };
    let suites = suites(&folder, &packages, options)?;
    let runs = run_all(&suites, threads, options.repeat, &folder.join("target"))?;
    println!("\nrayon {RAYON}, rayon-core {RAYON_CORE}, RADDLE_WAITS={}", waits());
    runs.iter().for_each(|runs| println!("{runs}"));
    Ok(foreign.is_empty() && with_old_libc && controlled && runs.iter().all(|runs| runs.well()))
}

/// All that is to be run, and how many tests rayon's have.
fn suites(folder: &Path, packages: &Packages, options: Options) -> io::Result<Vec<Suite>> {
    let core = core_suite(&folder.join("core-suite"), &packages.rayon_core)?;
    let ours = ours();
    // rayon-core's integration tests as they are, beside the unit tests: two of the eleven are children of others.
    let mut suites = vec![
        Suite::new("raddle's own, unit and integration", &ours, &["--lib", "--tests"], 132),
        Suite::new("raddle's own, programs", &programs(), &["--lib", "--tests"], 23),
        Suite::new("rayon-core, unit", &core, &["--lib"], 101),
        Suite::new("rayon-core, integration", &core, &["--test", "*"], 9),
    ];
    if options.documentation {
        suites.push(Suite::new("rayon-core, documentation", &core, &["--doc"], 27));
        suites.push(Suite::new("raddle's own, documentation", &ours, &["--doc"], 15));
    }
    if options.quick {
        return Ok(suites);
    }
    let original = controls::semantics(&folder.join("semantics"), RAYON_CORE)?;
    suites.push(Suite::new("raddle's own, on rayon's rayon-core", &original, &["--tests"], 81));
    let rayon = rayon_suite(&folder.join("rayon"), &packages.rayon)?;
    suites.push(Suite::new("rayon, unit", &rayon, &["--lib"], 217));
    suites.push(Suite::new("rayon, integration", &rayon, &["--test", "*"], 115));
    if options.documentation {
        suites.push(Suite::new("rayon, documentation", &rayon, &["--doc"], 246));
    }
    if let Some(clone) = std::env::var_os("RAYON_REPOSITORY") {
        let demo = demo_suite(&folder.join("repository"), Path::new(&clone))?;
        let args = &["-p", "rayon-demo"];
        suites.push(Suite::new("rayon-demo", &demo, args, 151).unstable());
    }
    Ok(suites)
}

fn waits() -> String {
    std::env::var("RADDLE_WAITS").unwrap_or_else(|_| "host".into())
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
    fn options_are_read() {
        let options = |quick, documentation, repeat| Options { quick, documentation, repeat };
        assert_eq!(Options::parse(&[]), Ok(Options::ALL));
        assert_eq!(Options::parse(&["--repeat", "3", "--quick"]), Ok(options(true, false, 3)));
        assert_eq!(Options::parse(&["--no-doc", "--repeat", "20"]), Ok(options(false, false, 20)));
        for wrong in [&["--repeat"][..], &["--repeat", "0"], &["--repeat", "x"], &["--slow"]] {
            assert!(Options::parse(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn tests_of_the_registry_are_left_out() {
        let tests = "#[test]\nfn one() {\n}\n#[test]\n#[x]\nfn workers_stop() {\n  a();\n}\n\nfn last() {\n}\n";
        assert_eq!(without_insides(tests), "#[test]\nfn one() {\n}\n\nfn last() {\n}\n");
    }
}
