//! `cargo xtask compare`: README's and COMPARE's tables, those of the page on sleeping, and all plots, from files of figures.
//!
//! | command | does |
//! |---|---|
//! | `compare --measure` | builds and runs `raddle-bench all --json`, and its fork tables again with other placements of the code, into `bench/figures.json`; then writes everything |
//! | `compare` | writes the tables and plots from `bench/figures.json` |
//! | `compare --check` | fails if they differ from what would be written: part of `ci` |

mod figures;
mod pairs;
mod plot;
mod simulated;
mod text;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::rayon::{self, calls, demo};
use crate::steps::{Outcome, cargo, root, target_dir};
use figures::Figures;
pub(crate) use text::filled;

const FIGURES: &str = "bench/figures.json";
/// How often the program is linked anew, its functions in another order each time.
const PLACEMENTS: u32 = 4;

/// Writes the tables and plots.
pub(crate) fn compare() -> Outcome {
    ended(documents().and_then(|documents| {
        for (path, content) in documents {
            let path = root().join(path);
            let failed = |error| format!("{}: {error}", path.display());
            fs::create_dir_all(path.parent().expect("a file's directory")).map_err(failed)?;
            fs::write(&path, content).map_err(failed)?;
        }
        Ok(())
    }))
}

/// Whether they are as they would be written.
pub(crate) fn check() -> Outcome {
    ended(documents().and_then(|documents| {
        let stale = |(path, content): &(PathBuf, String)| {
            fs::read_to_string(root().join(path)).map_or(true, |found| found != *content)
        };
        match documents.iter().find(|document| stale(document)) {
            None => Ok(()),
            Some((path, _)) => Err(format!(
                "{} is not what {FIGURES} says: run cargo xtask compare",
                path.display()
            )),
        }
    }))
}

/// Takes the figures, then writes. `seconds` bounds each table of the long run.
pub(crate) fn measure(seconds: &str) -> Outcome {
    match take(seconds) {
        Ok(()) => compare(),
        Err(error) => ended(Err(error)),
    }
}

fn ended(result: Result<(), String>) -> Outcome {
    match result {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            eprintln!("xtask: {error}");
            Outcome::Failed
        }
    }
}

/// What is to lie where.
fn documents() -> Result<Vec<(PathBuf, String)>, String> {
    let read = |path: &str| {
        fs::read_to_string(root().join(path)).map_err(|error| format!("{path}: {error}"))
    };
    let figures = Figures::read(&read(FIGURES)?)?;
    pairs::all_known(&figures)?;
    let mut documents: Vec<(PathBuf, String)> = Vec::new();
    for (path, make) in text::DOCUMENTS {
        let mut parts = make(&figures)?;
        if *path == "COMPARE.md" {
            let calls = read(calls::FIGURES)?;
            parts.push(("rayon-calls", calls::table(&calls)?));
            // Taken where there is a clone of rayon's repository.
            let demo = root().join(demo::FIGURES).exists().then(|| read(demo::FIGURES));
            let demo = demo.transpose()?;
            if let Some(demo) = &demo {
                parts.push(("rayon-demo", demo::table(demo)?));
            }
            parts.push(("rayon-losses", rayon::losses(&calls, demo.as_deref())?));
        }
        documents.push((path.into(), text::filled(path, &read(path)?, &parts)?));
    }
    for (name, make) in plot::PLOTS {
        documents.push((format!("docs/plots/{name}.svg").into(), make(&figures)?));
    }
    Ok(documents)
}

fn take(seconds: &str) -> Result<(), String> {
    let target = target_dir("release");
    let program = target.join("raddle-bench");
    build(None)?;
    let mut all = bench(&program, &["all", "--max-seconds", seconds])?;
    let mut placements = Vec::new();
    for placement in 1..=PLACEMENTS {
        if !cfg!(target_os = "linux") {
            eprintln!("xtask: other placements need the linker of Linux, and are left out");
            break;
        }
        build(Some(placement))?;
        placements.push(bench(&program, &["join", "--rounds", "7", "--max-seconds", seconds])?);
    }
    build(None)?;
    all["placements"] = placements.into();
    let path = root().join(FIGURES);
    fs::write(&path, figures::pretty(&all)).map_err(|error| format!("{}: {error}", path.display()))
}

/// The program, with its functions in another order if a placement is given.
fn build(placement: Option<u32>) -> Result<(), String> {
    let mut command = cargo();
    command.args(["rustc", "--release", "-p", "raddle-bench", "--bin", "raddle-bench"]);
    command.args(["--features", "fork-union", "--"]);
    if let Some(seed) = placement {
        // Understood by lld, which is what rustc links with on x86-64.
        command.arg(format!("-Clink-arg=-Wl,--shuffle-sections=.text*={seed}"));
        command.env("BENCH_PLACEMENT", seed.to_string());
    }
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        _ => Err("raddle-bench cannot be built".into()),
    }
}

fn bench(program: &Path, args: &[&str]) -> Result<Value, String> {
    eprintln!("xtask: raddle-bench {}", args.join(" "));
    let output = Command::new(program).args(args).arg("--json").current_dir(root()).output();
    let output = output.map_err(|error| format!("{}: {error}", program.display()))?;
    eprint!("{}", String::from_utf8_lossy(&output.stderr));
    if !output.status.success() {
        return Err(format!("raddle-bench ended with {}", output.status));
    }
    let mut figures: Value = serde_json::from_slice(&output.stdout)
        .map_err(|error| format!("what raddle-bench prints is no JSON: {error}"))?;
    // They follow from the rows.
    for table in figures["tables"].as_array_mut().into_iter().flatten() {
        table["ratios"] = json!([]);
    }
    Ok(figures)
}
