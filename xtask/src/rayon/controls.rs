//! What our tests say of rayon, tried on rayon itself: the published packages, without the patch.
//!
//! A test that a program ends shows nothing if it ends anyway. So the programs of rayon's issues are built with rayon's own
//! rayon-core, where each has to hang, or overflow a stack.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use super::packages::copy_package;
use super::{RAYON, missing, ours, programs};
use crate::steps::{cargo, target_dir};

/// So many threads that the programs meet what they hang by in most runs.
const THREADS: &str = "16";
/// How often a program is run until it hangs: one does so in two runs of three, on a quiet machine.
const TRIES: usize = 10;
/// The program that overflows a stack.
const OVERFLOWS: &str = "854";
/// A program that sleeps so long, with all threads at all looks, hangs.
const STILL: Duration = Duration::from_secs(3);
/// Much longer than the programs take where they end: a program that takes so long hangs, where nobody says who sleeps.
const LIMIT: Duration = Duration::from_secs(120);
/// How often a program may be recorded until others leave it the processors that `scale` wants.
const RECORDINGS: usize = 100;

/// Runs the programs on rayon, where they must not end, and records one on raddle as its user does.
pub(super) fn run(folder: &Path) -> io::Result<bool> {
    let target = folder.join("target-of-rayon");
    let original = program(&original(&folder.join("programs"))?, &target, false)?;
    let mut all_well = true;
    for name in names(&original)? {
        let run = || watch(Command::new(&original).arg(&name).env("RAYON_NUM_THREADS", THREADS));
        let shows = |end: &End| match end {
            End::Hung => name != OVERFLOWS,
            End::Ended { status, said } => {
                name == OVERFLOWS && !status.success() && said.contains("overflow")
            }
        };
        let mut end = run()?;
        for _ in 1..TRIES {
            if !shows(&end) {
                end = run()?;
            }
        }
        let well = shows(&end);
        all_well &= well;
        let verdict = if well { "as rayon's issue says" } else { "FAILED: it shows nothing" };
        println!("program {name} on rayon's own rayon-core: {end}, {verdict}");
    }
    Ok(scales(folder)? && all_well)
}

/// A package with the programs, and with rayon as it is published.
pub(super) fn original(to: &Path) -> io::Result<PathBuf> {
    copy_package(&programs().join("src"), &to.join("src"))?;
    let manifest = format!(
        "[workspace]\n[package]\nname = \"rayon-programs\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dependencies]\nrayon = \"={RAYON}\"\n[profile.dev]\nopt-level = 1\n"
    );
    fs::write(to.join("Cargo.toml"), manifest)?;
    Ok(to.to_path_buf())
}

/// A package with our tests of rayon's rules, and with rayon-core as it is published.
pub(super) fn semantics(to: &Path, version: &str) -> io::Result<PathBuf> {
    fs::remove_dir_all(to.join("tests")).or_else(missing)?;
    copy_package(&ours().join("tests/semantics"), &to.join("tests/semantics"))?;
    fs::create_dir_all(to.join("src"))?;
    fs::write(to.join("src/lib.rs"), "")?;
    let manifest = format!(
        "[workspace]\n[package]\nname = \"semantics\"\nversion = \"0.0.0\"\nedition = \"2024\"\n\
         [dev-dependencies]\nrayon-core = \"={version}\"\nstacker = \"0.1\"\n\
         [profile.test]\nopt-level = 1\n"
    );
    fs::write(to.join("Cargo.toml"), manifest)?;
    Ok(to.to_path_buf())
}

/// The programs of a package, built, for `speed` or to be watched.
pub(super) fn program(package: &Path, target: &Path, speed: bool) -> io::Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--quiet", "--target-dir"]).arg(target).current_dir(package);
    command.args(speed.then_some("--release"));
    if !command.status()?.success() {
        return Err(io::Error::other(format!("{} cannot be built", package.display())));
    }
    Ok(target.join(if speed { "release" } else { "debug" }).join("rayon-programs"))
}

/// What the programs of rayon's issues are called.
fn names(program: &Path) -> io::Result<Vec<String>> {
    let output = Command::new(program).arg("--issues").output()?;
    let names: Vec<_> = String::from_utf8_lossy(&output.stdout).lines().map(Into::into).collect();
    if names.is_empty() { Err(io::Error::other("there are no programs")) } else { Ok(names) }
}

/// What became of a process.
enum End {
    Ended { status: ExitStatus, said: String },
    Hung,
}

impl std::fmt::Display for End {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            End::Ended { status, .. } => write!(f, "{status}"),
            End::Hung => f.write_str("hangs"),
        }
    }
}

/// Runs a process until it ends or hangs.
fn watch(command: &mut Command) -> io::Result<End> {
    let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?;
    let begun = Instant::now();
    let mut still = begun;
    loop {
        thread::sleep(Duration::from_millis(20));
        if child.try_wait()?.is_some() {
            let output = child.wait_with_output()?;
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            return Ok(End::Ended { status: output.status, said });
        }
        if !all_sleep(child.id()) {
            still = Instant::now();
        }
        if still.elapsed() > STILL || begun.elapsed() > LIMIT {
            child.kill()?;
            child.wait()?;
            return Ok(End::Hung);
        }
    }
}

/// Whether no thread of a process runs, or would if it had a processor; false where the system does not tell.
fn all_sleep(process: u32) -> bool {
    let Ok(threads) = fs::read_dir(format!("/proc/{process}/task")) else { return false };
    let mut stats = threads.flatten().map(|thread| fs::read_to_string(thread.path().join("stat")));
    stats.all(|stat| stat.is_ok_and(|stat| sleeps(&stat)))
}

/// What follows the name, which may have brackets, is the state.
fn sleeps(stat: &str) -> bool {
    stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('S'))
}

/// `RADDLE_TRACE=FILE program`, and `raddle trace scale FILE`.
fn scales(folder: &Path) -> io::Result<bool> {
    let program = program(&programs(), &folder.join("target"), false)?;
    if !cargo().args(["build", "--quiet", "-p", "raddle-cli"]).status()?.success() {
        return Err(io::Error::other("raddle-cli cannot be built"));
    }
    let raddle = target_dir("debug").join("raddle");
    let file = folder.join("program.trace");
    for _ in 0..RECORDINGS {
        let mut recorded = Command::new(&program);
        recorded.arg("leaves").env("RADDLE_TRACE", &file).env_remove("RADDLE_TRACE_LEVEL");
        if !recorded.env("RAYON_NUM_THREADS", "2").stdout(Stdio::null()).status()?.success() {
            return Ok(false);
        }
        let output = Command::new(&raddle).args(["trace", "scale"]).arg(&file).output()?;
        if output.status.success() {
            println!("{}", String::from_utf8_lossy(&output.stdout));
            return Ok(true);
        }
        println!("{}", String::from_utf8_lossy(&output.stderr));
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_ends_is_told_from_one_that_hangs() {
        let shell = |script: &str| watch(Command::new("sh").args(["-c", script])).unwrap();
        let End::Ended { status, said } = shell("echo overflow >&2; exit 3") else {
            panic!("it ended")
        };
        assert_eq!((status.code(), &*said), (Some(3), "overflow\n"));
        if Path::new("/proc/self/task").exists() {
            assert!(matches!(shell("exec sleep 1000"), End::Hung));
        }
        assert!(sleeps("7 (a ) R) S 1 2") && !sleeps("7 (S) R 1 2"));
    }
}
