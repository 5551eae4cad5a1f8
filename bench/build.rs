//! Hands to the program what it cannot know by itself: the compiler, the flags, and the versions of the peers.

use std::{env, fs, process::Command};

/// Whose versions a reader of figures wants to know.
const PEERS: &[&str] = &[
    "chili",
    "forkunion",
    "forte",
    "futures",
    "mimalloc",
    "paralight",
    "parking_lot",
    "rayon",
    "rayon-core",
    "spin",
    "tokio",
    "tracing",
    "usync",
];

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=../Cargo.lock");
    println!("cargo:rerun-if-env-changed=BENCH_PLACEMENT");
    let rustc = env::var("RUSTC").unwrap_or_else(|_| "rustc".into());
    let version = Command::new(rustc)
        .arg("--version")
        .output()
        .ok()
        .and_then(|output| String::from_utf8(output.stdout).ok())
        .unwrap_or_else(|| "rustc, version unknown".into());
    println!("cargo:rustc-env=BENCH_RUSTC={}", version.trim());
    println!("cargo:rustc-env=BENCH_PEERS={}", peers());
    println!("cargo:rustc-env=BENCH_BUILD={}", build());
}

/// `NAME VERSION` of each peer, as the lock file has them.
fn peers() -> String {
    let lock = fs::read_to_string("../Cargo.lock").unwrap_or_default();
    let mut found = Vec::new();
    for package in lock.split("[[package]]") {
        let field = |name: &str| {
            let line = package.lines().find(|line| line.starts_with(&format!("{name} = ")))?;
            line.split('"').nth(1)
        };
        let named = field("name").zip(field("version"));
        if let Some((name, version)) = named.filter(|(name, _)| PEERS.contains(name)) {
            found.push(format!("{name} {version}"));
        }
    }
    found.join(",")
}

/// How this program is built: profile, target, flags of the compiler.
fn build() -> String {
    let variable = |name: &str| env::var(name).unwrap_or_default();
    let mut build = format!(
        "{}, opt-level {}, {}",
        variable("PROFILE"),
        variable("OPT_LEVEL"),
        variable("TARGET")
    );
    let flags = variable("CARGO_ENCODED_RUSTFLAGS").replace('\u{1f}', " ");
    if !flags.is_empty() {
        build += &format!(", {flags}");
    }
    let placement = variable("BENCH_PLACEMENT");
    if !placement.is_empty() {
        build += &format!(", placement {placement}");
    }
    build
}
