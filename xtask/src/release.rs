//! What has to hold before a version is given out: packages, licences, promises kept, old compilers, other systems.

use crate::sanitize::works;
use crate::steps::{Outcome, cargo, outcome, root, target_dir, worst};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The oldest Rust that the crates are built with: `rust-version` of the workspace.
fn oldest() -> Option<String> {
    let manifest = std::fs::read_to_string(root().join("Cargo.toml")).ok()?;
    let line = manifest.lines().find(|line| line.starts_with("rust-version"))?;
    let version = line.split('"').nth(1)?;
    // rustup's names have three parts.
    Some(if version.matches('.').count() == 1 { format!("{version}.0") } else { version.into() })
}

/// Other systems, and what is built there: where there are no threads, what needs none.
const TARGETS: &[(&str, &[&str])] = &[
    ("aarch64-unknown-linux-gnu", ALL),
    ("x86_64-pc-windows-gnu", ALL),
    ("aarch64-apple-darwin", ALL),
    ("wasm32-unknown-unknown", &["raddle-lock", "raddle-sync", "raddle-trace"]),
];
/// The mdBook that `ci` builds.
const MDBOOK: &str = "0.5.4";
/// Where pointers are too small: the pool refuses these, in plain words.
const REFUSED: &str = "i686-unknown-linux-gnu";
const REFUSAL: &str = "raddle-core needs 64-bit pointers";
const ALL: &[&str] =
    &["raddle", "raddle-core", "raddle-lock", "raddle-remote", "raddle-sync", "raddle-trace"];
const LIBRARIES: &[&str] = &["raddle", "raddle-core", "raddle-lock", "raddle-sync", "raddle-trace"];
/// The drop-in for rayon-core, which is a workspace of its own.
const DROP_IN: [&str; 2] = ["--manifest-path", "compat/rayon-core/Cargo.toml"];

/// Every crate as it would be published, built from its package.
pub(crate) fn publish() -> Outcome {
    outcome(packages().arg("--target-dir").arg(target_dir("publish")))
}

/// The same without building them: files, metadata and dependencies.
pub(crate) fn publish_quick() -> Outcome {
    outcome(packages().args(["--no-verify", "--quiet"]))
}

/// They need each other, so they are packed together: cargo finds those that are not published yet.
fn packages() -> Command {
    let mut command = cargo();
    command.args(["publish", "--dry-run", "--workspace", "--allow-dirty"]);
    command
}

/// Licences, sources and duplicates of all dependencies.
pub(crate) fn deny() -> Outcome {
    let Some(tool) = tool("cargo-deny") else {
        return Outcome::ToolMissing("cargo-deny (cargo xtask tools)");
    };
    let check = |what: &[&str]| {
        outcome(
            Command::new(&tool).args(["--all-features", "check"]).args(what).current_dir(root()),
        )
    };
    check(&["licenses", "bans", "sources"])
}

/// Whether what the last version promised is still there.
pub(crate) fn semver() -> Outcome {
    let Some(tool) = tool("cargo-semver-checks") else {
        return Outcome::ToolMissing("cargo-semver-checks (cargo xtask tools)");
    };
    let tagged = Command::new("git")
        .args(["describe", "--tags", "--abbrev=0", "--match", "v*"])
        .current_dir(root())
        .output();
    let tag = tagged.ok().filter(|output| output.status.success());
    let Some(tag) = tag.and_then(|output| String::from_utf8(output.stdout).ok()) else {
        println!("there is no version yet to compare with: no tag v*");
        return Outcome::Passed;
    };
    let mut command = Command::new(tool);
    command.args(["semver-checks", "check-release", "--baseline-rev", tag.trim()]);
    outcome(command.args(LIBRARIES.iter().flat_map(|name| ["-p", name])).current_dir(root()))
}

/// The crates with the oldest Rust that they promise to work with.
pub(crate) fn msrv() -> Outcome {
    let Some(oldest) = oldest() else {
        eprintln!("xtask: Cargo.toml has no rust-version");
        return Outcome::Failed;
    };
    let is_there = || works(Command::new("rustup").args(["run", &oldest, "rustc", "--version"]));
    let install = ["toolchain", "install", &oldest, "--profile", "minimal", "--no-self-update"];
    if !(is_there() || rustup(&install) && is_there()) {
        return Outcome::ToolMissing(
            "the oldest Rust (rustup toolchain install 1.85.0 --profile minimal)",
        );
    }
    let check = |what: &[&str]| {
        let mut command = Command::new("rustup");
        command.current_dir(root()).args(["run", &oldest, "cargo", "check"]).args(what);
        outcome(command.arg("--target-dir").arg(target_dir("msrv")))
    };
    let mut packages = vec!["-p", "raddle-cli"];
    packages.extend(LIBRARIES.iter().flat_map(|name| ["-p", name]));
    worst(vec![check(&packages), check(&DROP_IN)])
}

/// The libraries for other systems, as far as a compiler can tell.
pub(crate) fn targets() -> Outcome {
    let mut all = Vec::new();
    for (target, packages) in TARGETS {
        if !has_libraries(target) {
            all.push(NOT_INSTALLED);
            continue;
        }
        let named: Vec<&str> = packages.iter().flat_map(|name| ["-p", name]).collect();
        let checked = outcome(check_for(target).args(named));
        println!("{target}: {}: {checked}", packages.join(", "));
        all.push(checked);
        if *packages == ALL {
            let checked = outcome(check_for(target).args(DROP_IN));
            println!("{target}: rayon-core: {checked}");
            all.push(checked);
        }
    }
    all.push(refused());
    worst(all)
}

/// What a 32-bit program's author reads first: not what fails somewhere within.
fn refused() -> Outcome {
    if !has_libraries(REFUSED) {
        return NOT_INSTALLED;
    }
    let mut command = check_for(REFUSED);
    let output = command.args(DROP_IN).env("CARGO_TERM_COLOR", "never").output();
    let said = output.map(|output| String::from_utf8_lossy(&output.stderr).into_owned());
    let said = said.unwrap_or_else(|error| error.to_string());
    let first = said.lines().find(|line| line.starts_with("error"));
    let plain = first.is_some_and(|why| why.contains(REFUSAL));
    let checked = if plain { Outcome::Passed } else { Outcome::Failed };
    println!("{REFUSED} is refused: {checked}");
    if !plain {
        println!("it is to say first that {REFUSAL}: {said}");
    }
    checked
}

const NOT_INSTALLED: Outcome =
    Outcome::ToolMissing("Rust for systems that are named above (rustup target add)");

/// Whether the compiler has the libraries of a system, which are installed if they can be had. If not, says so.
fn has_libraries(target: &str) -> bool {
    let has = || {
        let libraries = Command::new("rustc")
            .args(["--print", "target-libdir", "--target", target])
            .output()
            .map(|output| PathBuf::from(String::from_utf8_lossy(&output.stdout).trim()));
        libraries.is_ok_and(|directory| directory.is_dir())
    };
    let has = has() || rustup(&["target", "add", target]) && has();
    if !has {
        println!("{target}: NOT CHECKED (rustup target add {target})");
    }
    has
}

/// Installs a part of Rust that is missing, where that can be had.
fn rustup(args: &[&str]) -> bool {
    println!("not installed yet: rustup {}", args.join(" "));
    Command::new("rustup").args(args).status().is_ok_and(|status| status.success())
}

fn check_for(target: &str) -> Command {
    let mut command = cargo();
    command.args(["check", "--target", target]).arg("--target-dir").arg(target_dir("targets"));
    command
}

/// Installs what the checks need besides Rust, into `target/tools`: mdBook, cargo-deny, cargo-semver-checks.
pub(crate) fn tools() -> Outcome {
    let installed = ["mdbook", "cargo-deny", "cargo-semver-checks"].map(installed);
    if installed.iter().all(Option::is_some) { Outcome::Passed } else { Outcome::Failed }
}

/// A program, built into `target/tools` if there is none.
pub(crate) fn installed(name: &str) -> Option<PathBuf> {
    tool(name).or_else(|| {
        println!("not installed yet: cargo install {name}");
        let mut install = cargo();
        install.args(["install", "--quiet", "--locked", name, "--root"]).arg(target_dir("tools"));
        if name == "mdbook" {
            // It is to draw a few pages, not to serve them: a build of a minute suffices. What `ci` uses is of a known version.
            install.args([
                "--version",
                MDBOOK,
                "--debug",
                "--no-default-features",
                "--features",
                "search",
            ]);
        }
        outcome(&mut install);
        tool(name)
    })
}

/// A program of `target/tools`, or else of the system.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    [target_dir("tools").join("bin").join(file), Path::new(name).to_owned()]
        .into_iter()
        .find(|program| works(Command::new(program).arg("--version")))
}
