//! `cargo xtask modes`: a small program of `raddle::remote`, built in each way that changes what lies where in it, and run on
//! processes.
//!
//! A call is two offsets in the program's file: what a linker may move, merge or leave out is what might break it.

use crate::steps::{Outcome, cargo, outcome, target_dir};
use std::path::Path;
use std::process::Command;

struct Mode {
    name: &'static str,
    /// For cargo: how the profile is changed.
    profile: &'static [(&'static str, &'static str)],
    /// For the compiler.
    flags: &'static str,
    /// What the file must be, so that it is known to have been built so.
    pie: bool,
    stripped: bool,
}

/// Where there is no other process an abort or an exit would be the program's own.
const PLAN: &str = "processes:2";

const LTO: &[(&str, &str)] = &[
    ("CARGO_PROFILE_RELEASE_LTO", "fat"),
    ("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "1"),
    ("CARGO_PROFILE_RELEASE_STRIP", "true"),
];
const ABORT: &[(&str, &str)] = &[("CARGO_PROFILE_RELEASE_PANIC", "abort")];
const ALL: &[(&str, &str)] = &[LTO[0], LTO[1], LTO[2], ABORT[0]];
const STATIC: &str = "-C relocation-model=static";

const MODES: &[Mode] = &[
    Mode { name: "release", profile: &[], flags: "", pie: true, stripped: false },
    Mode { name: "lto", profile: LTO, flags: "", pie: true, stripped: true },
    Mode { name: "non-pie", profile: &[], flags: STATIC, pie: false, stripped: false },
    Mode { name: "abort", profile: ABORT, flags: "", pie: true, stripped: false },
    Mode { name: "all", profile: ALL, flags: STATIC, pie: false, stripped: true },
];

pub(crate) fn modes() -> Outcome {
    if !cfg!(target_os = "linux") {
        return Outcome::ToolMissing("Linux, for plans of processes");
    }
    let Some(host) = host() else {
        eprintln!("xtask: rustc does not say for what it compiles");
        return Outcome::Failed;
    };
    let mut all = Outcome::Passed;
    for mode in MODES {
        if let Err(why) = run(mode, &host) {
            eprintln!("xtask: {}: {why}", mode.name);
            all = Outcome::Failed;
        }
    }
    all
}

/// What programs are compiled for here. It is named to cargo, which then gives flags to the program only, not to macros.
fn host() -> Option<String> {
    let output = Command::new("rustc").arg("-vV").output().ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    text.lines().find_map(|line| Some(line.strip_prefix("host: ")?.to_owned()))
}

fn run(mode: &Mode, host: &str) -> Result<(), String> {
    // One for each: cargo builds for one set of flags in one directory.
    let target = target_dir("modes").join(mode.name);
    let mut build = cargo();
    build.args(["build", "--quiet", "--release", "-p", "raddle-remote", "--example", "modes"]);
    build.args(["--target", host]).arg("--target-dir").arg(&target).env("RUSTFLAGS", mode.flags);
    build.envs(mode.profile.iter().copied());
    if outcome(&mut build) != Outcome::Passed {
        return Err("it does not build".to_owned());
    }
    let program = target.join(host).join("release/examples/modes");
    let found = kind(&program)?;
    if found != (mode.pie, mode.stripped) {
        return Err(format!("it is not built so: (pie, stripped) is {found:?}"));
    }
    // With a backtrace, a worker's last words are not what it was torn by.
    let ran = Command::new(&program).env("RADDLE_PLAN", PLAN).env("RUST_BACKTRACE", "0").output();
    let ran = ran.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&ran.stdout).trim().to_owned();
    if !ran.status.success() || said != format!("ok {PLAN}") {
        let error = String::from_utf8_lossy(&ran.stderr);
        return Err(format!("it ended with {}: {said}\n{error}", ran.status));
    }
    println!("{}: {said}", mode.name);
    Ok(())
}

/// Whether a program can be loaded anywhere, and has no names in it.
fn kind(program: &Path) -> Result<(bool, bool), String> {
    let file = std::fs::read(program).map_err(|error| error.to_string())?;
    let number = |at: usize, len: usize| -> Result<usize, String> {
        let bytes = file.get(at..at + len).ok_or("it is no program")?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| number << 8 | usize::from(byte)))
    };
    // `e_type`: ET_DYN is 3. Section headers: where, how long each, how many; of each the type, and SHT_SYMTAB is 2.
    let pie = number(16, 2)? == 3;
    let (start, size, count) = (number(40, 8)?, number(58, 2)?, number(60, 2)?);
    let types: Result<Vec<usize>, String> =
        (0..count).map(|index| number(start + index * size + 4, 4)).collect();
    Ok((pie, !types?.contains(&2)))
}
