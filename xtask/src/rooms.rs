//! The rooms of the house: which module may name which, where atomics come from, how long a file may be, what its invariants
//! are called, where `unsafe` lives, and what of `raddle-trace` is compiled only for those who call it.
//!
//! ARCHITECTURE.md draws the floors of `raddle-core`; [`FLOORS`] is that drawing for a program. What breaks a rule
//! today stands in [`UPWARD`], [`ATOMICS`] or [`LONG`] with the reason, so that only what is new fails. So does an
//! entry that is true no longer: it is to be struck out.

mod inlined;
mod letters;
mod source;
mod unsafes;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use self::source::{Named, code, paths};
use crate::steps::{Outcome, root};

/// A floor of `raddle-core`: its modules, by their longest path, and the floors that they may name.
struct Floor {
    name: &'static str,
    modules: &'static [&'static str],
    below: &'static [&'static str],
}

const FLOORS: &[Floor] = &[
    Floor {
        name: "ground",
        modules: &["drops", "ledger", "memory", "panics", "timer"],
        below: &[],
    },
    Floor {
        name: "protocol",
        modules: &[
            "depth",
            "job",
            "fork_stack",
            "queue",
            "latch",
            "count",
            "balance",
            "places",
            "mail",
            "record",
            "spawn::claim",
            "spawn::hooks",
            "spawn::running",
        ],
        below: &["ground"],
    },
    Floor { name: "local", modules: &["local"], below: &["ground", "protocol"] },
    Floor { name: "pool", modules: &["pool"], below: &["ground", "protocol", "local"] },
    Floor { name: "future", modules: &["future"], below: &["ground", "protocol", "local", "pool"] },
    Floor {
        name: "fork",
        modules: &["join", "scope", "trace"],
        below: &["ground", "protocol", "local", "pool"],
    },
    Floor {
        name: "spawn",
        modules: &["spawn"],
        below: &["ground", "protocol", "local", "pool", "future"],
    },
    Floor {
        name: "loops",
        modules: &["par"],
        below: &["ground", "protocol", "local", "pool", "fork"],
    },
    Floor {
        name: "compat",
        modules: &["compat"],
        below: &["ground", "protocol", "local", "pool", "future", "fork", "spawn"],
    },
];

/// What may see all.
const FREE: &[&str] = &["lib", "models"];

/// Something that breaks a rule and is known: the file, what it names, and why.
struct Known {
    file: &'static str,
    names: &'static str,
    why: &'static str,
}

const fn known(file: &'static str, names: &'static str, why: &'static str) -> Known {
    Known { file, names, why }
}

/// Arrows that run up inside `raddle-core/src`.
const UPWARD: &[Known] = &[];

/// Who takes atomics from `std`.
const ATOMICS: &[Known] = &[
    known("raddle-sync/src/seam/std.rs", "std::sync::atomic", "the seam itself"),
    known("raddle-sync/src/fence.rs", "std::sync::atomic::compiler_fence", "models have none"),
    known(
        "raddle-core/src/future/life.rs",
        "std::sync::atomic",
        "watches the model from beside it",
    ),
    known("raddle-sync/src/affinity.rs", "std::sync::atomic", "nobody is moved in models"),
    known("raddle-sync/src/affinity/permitted.rs", "std::sync::atomic", "the same"),
    known("raddle-sync/src/crowd.rs", "std::sync::atomic", "the same"),
    known("raddle-core/src/pool/recorder.rs", "std::sync::atomic", "a hint that models share"),
    known("raddle-lock/src/linger.rs", "std::sync::atomic", "counts, and not in models"),
    known("raddle-lock/src/stats.rs", "std::sync::atomic", "counts across models"),
    known("raddle-core/src/models", "std::sync::atomic", "notes of what a model has seen"),
    known("raddle-core/src/local/block.rs", "std::sync::atomic", "a count that no model looks at"),
    known("raddle-core/src/local/snapshot.rs", "std::sync::atomic", "the same"),
    known("raddle-core/src/local/frame.rs", "std::sync::atomic", "a snapshot that is made once"),
    known(
        "raddle-core/src/local/key.rs",
        "std::sync::atomic",
        "made in a `const`, and never by models",
    ),
];

/// The most lines that a file may have.
const MOST_LINES: usize = 500;

/// Files that are longer, and why.
const LONG: &[Known] = &[];

/// The crates that take their atomics from the seam.
const ON_THE_SEAM: [&str; 3] = ["raddle-core", "raddle-lock", "raddle-sync"];
/// Where sources lie whose length counts.
const SOURCES: [&str; 11] = [
    "compat/programs/src",
    "compat/rayon-core/src",
    "crates/raddle/src",
    "crates/raddle-cli/src",
    "crates/raddle-core/src",
    "crates/raddle-lock/src",
    "crates/raddle-remote/src",
    "crates/raddle-sync/src",
    "crates/raddle-trace/src",
    "bench/src",
    "xtask/src",
];

/// Something that breaks a rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Violation {
    file: String,
    line: usize,
    what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.file, self.line, self.what)
    }
}

/// A file: its path from the root, and its text.
struct Source {
    path: String,
    text: String,
}

/// What has been found, and which of the known entries were needed for it.
#[derive(Default)]
struct Findings {
    violations: BTreeSet<Violation>,
    used: BTreeSet<(&'static str, &'static str)>,
}

impl Findings {
    fn add(&mut self, source: &Source, line: usize, what: String) {
        self.violations.insert(Violation { file: source.path.clone(), line, what });
    }

    /// Whether this is known.
    fn excuses(&mut self, table: &'static [Known], file: &str, names: &str) -> bool {
        let fits =
            |known: &&Known| within(file, known.file, "/") && within(names, known.names, "::");
        let Some(known) = table.iter().find(fits) else { return false };
        self.used.insert((known.file, known.names));
        true
    }

    fn check(&mut self, source: &Source) {
        let code = code(&source.text);
        let short = source.path.strip_prefix("crates/").unwrap_or(&source.path);
        if let Some(file) = short.strip_prefix("raddle-core/src/") {
            self.check_arrows(source, file, &code);
        }
        if let Some(file) = short.strip_prefix("raddle-trace/src/") {
            for (line, name) in inlined::missing(file, &source.text) {
                let what = format!("`{name}` is not `#[inline]`: every program would compile it");
                self.add(source, line, what);
            }
        }
        if ON_THE_SEAM.iter().any(|name| within(short, name, "/")) {
            self.check_atomics(source, short, &code);
        }
        let lines = source.text.lines().count();
        if lines > MOST_LINES && !self.excuses(LONG, short, "") {
            self.add(source, lines, format!("{lines} lines, and {MOST_LINES} are the most"));
        }
    }

    /// `file` lies in `raddle-core/src`.
    fn check_arrows(&mut self, source: &Source, file: &str, code: &str) {
        let here = module_of(file);
        if FREE.contains(&here[0].as_str()) {
            return;
        }
        let Some(floor) = floor_of(&here) else {
            let what = format!("`{}` is on no floor: give it one in xtask/src/rooms.rs", here[0]);
            return self.add(source, 1, what);
        };
        for Named { line, path } in from_root(code, &here) {
            let target = path.join("::");
            let Some(to) = floor_of(&path) else {
                let what = format!("`crate::{target}` is on no floor: name it by its module");
                self.add(source, line, what);
                continue;
            };
            let allowed = to.name == floor.name || floor.below.contains(&to.name);
            if !allowed && !self.excuses(UPWARD, file, &target) {
                let what = format!("`{}` may not name `crate::{target}`", floor.name);
                self.add(source, line, format!("{what}, on the floor `{}`", to.name));
            }
        }
    }

    fn check_atomics(&mut self, source: &Source, short: &str, code: &str) {
        for root in ["std", "core"] {
            for Named { line, path } in paths(code, root) {
                // Whichever of the two it is.
                let target = format!("std::{}", path.join("::"));
                if within(&target, "std::sync::atomic", "::")
                    && !self.excuses(ATOMICS, short, &target)
                {
                    self.add(source, line, "an atomic past the seam, `raddle_sync::atomic`".into());
                }
            }
        }
    }

    /// Labels of invariants, crate by crate.
    fn check_letters(&mut self, sources: &[Source]) {
        let mut crates: BTreeMap<&str, Vec<(&str, &str)>> = BTreeMap::new();
        for Source { path, text } in sources {
            let name = path.split_once("/src/").map_or("", |(name, _)| name);
            crates.entry(name).or_default().push((path, text));
        }
        for (file, line, what) in crates.values().flat_map(|files| letters::wrong(files)) {
            self.violations.insert(Violation { file: file.into(), line, what });
        }
    }

    /// The table of files that are `unsafe`.
    fn check_unsafe(&mut self, sources: &[Source], page: &str) {
        let all: Vec<(&str, &str)> =
            sources.iter().map(|source| (source.path.as_str(), source.text.as_str())).collect();
        for (file, what) in unsafes::wrong(page, &all) {
            self.violations.insert(Violation { file, line: 1, what });
        }
    }

    /// The entries that nothing needs any more.
    fn check_tables(&mut self) {
        for (name, table) in [("UPWARD", UPWARD), ("ATOMICS", ATOMICS), ("LONG", LONG)] {
            for known in table {
                if !self.used.contains(&(known.file, known.names)) {
                    let what = format!("is so no longer ({}): strike it out of {name}", known.why);
                    let file = format!("xtask/src/rooms.rs ({} {})", known.file, known.names);
                    self.violations.insert(Violation { file, line: 0, what });
                }
            }
        }
    }
}

/// Whether `path` is `whole`, or lies within it; all is within nothing.
fn within(path: &str, whole: &str, separator: &str) -> bool {
    whole.is_empty()
        || path
            .strip_prefix(whole)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with(separator))
}

/// `pool/wait.rs` is `pool::wait`, `pool/mod.rs` is `pool`.
fn module_of(file: &str) -> Vec<String> {
    let file = file.strip_suffix(".rs").unwrap_or(file);
    file.split('/').filter(|&part| part != "mod").map(String::from).collect()
}

/// The floor of a path from the crate's root.
fn floor_of(path: &[String]) -> Option<&'static Floor> {
    let path = path.join("::");
    let fits = |floor: &'static Floor| {
        let modules = floor.modules.iter().filter(|module| within(&path, module, "::"));
        Some((modules.map(|module| module.len()).max()?, floor))
    };
    FLOORS.iter().filter_map(fits).max_by_key(|&(length, _)| length).map(|(_, floor)| floor)
}

/// What a file names from the crate's root, by `crate` or by `super`.
fn from_root(code: &str, here: &[String]) -> Vec<Named> {
    let mut all = paths(code, "crate");
    for Named { line, path } in paths(code, "super") {
        let more = path.iter().take_while(|&part| part == "super").count();
        if more + 1 >= here.len() {
            all.push(Named { line, path: path[more..].to_vec() });
        }
    }
    all
}

fn read(folder: &Path, all: &mut Vec<PathBuf>) -> io::Result<()> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            read(&path, all)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            all.push(path);
        }
    }
    Ok(())
}

fn sources() -> io::Result<Vec<Source>> {
    let root = root();
    let mut files = Vec::new();
    for folder in SOURCES {
        read(&root.join(folder), &mut files)?;
    }
    let source = |file: PathBuf| {
        let path = file.strip_prefix(&root).unwrap_or(&file).to_string_lossy().replace('\\', "/");
        Ok(Source { path, text: fs::read_to_string(&file)? })
    };
    files.into_iter().map(source).collect()
}

/// The step.
pub(crate) fn rooms() -> Outcome {
    let sources = match sources() {
        Ok(sources) => sources,
        Err(error) => {
            eprintln!("xtask: cannot read the sources: {error}");
            return Outcome::Failed;
        }
    };
    let mut findings = Findings::default();
    sources.iter().for_each(|source| findings.check(source));
    findings.check_letters(&sources);
    match fs::read_to_string(root().join("ARCHITECTURE.md")) {
        Ok(page) => findings.check_unsafe(&sources, &page),
        Err(error) => {
            eprintln!("xtask: ARCHITECTURE.md: {error}");
            return Outcome::Failed;
        }
    }
    findings.check_tables();
    findings.violations.iter().for_each(|violation| eprintln!("{violation}"));
    if findings.violations.is_empty() { Outcome::Passed } else { Outcome::Failed }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Findings::default();
        findings.check(&Source { path: path.into(), text: text.into() });
        findings.violations.iter().map(Violation::to_string).collect()
    }

    #[test]
    fn an_arrow_that_runs_up_is_found() {
        let file = "crates/raddle-core/src/queue.rs";
        let [one] = &found(file, "use crate::job::Task;\nuse crate::pool::Pool;\n")[..] else {
            panic!("one arrow runs up")
        };
        assert!(one.starts_with("crates/raddle-core/src/queue.rs:2: "), "{one}");
        assert!(one.contains("`crate::pool::Pool`"), "{one}");
    }

    #[test]
    fn by_super_too() {
        let file = "crates/raddle-core/src/local/key.rs";
        assert_eq!(found(file, "use super::super::pool;").len(), 1);
        assert_eq!(found(file, "use super::frame::Frame;").len(), 0);
        assert_eq!(found("crates/raddle-core/src/latch.rs", "use super::pool;").len(), 1);
    }

    #[test]
    fn neighbours_are_apart() {
        assert_eq!(found("crates/raddle-core/src/join.rs", "use crate::future::Future;").len(), 1);
        assert_eq!(found("crates/raddle-core/src/future/on.rs", "use crate::join::join;").len(), 1);
    }

    #[test]
    fn what_is_known_is_known_of_that_file_and_module_only() {
        let text = "use std::sync::atomic::AtomicUsize;";
        assert_eq!(found("crates/raddle-core/src/local/block.rs", text).len(), 0);
        assert_eq!(found("crates/raddle-core/src/queue.rs", text).len(), 1);
        let other = "use crate::scope::Scope;";
        assert_eq!(found("crates/raddle-core/src/local/block.rs", other).len(), 1);
    }

    #[test]
    fn a_protocol_within_a_floor_above_may_be_named() {
        let file = "crates/raddle-core/src/local/frame.rs";
        assert_eq!(found(file, "use crate::spawn::claim::Claim;").len(), 0);
        assert_eq!(found(file, "use crate::spawn::task::Task;").len(), 1);
    }

    #[test]
    fn names_by_way_of_the_root_and_new_modules_are_found() {
        assert_eq!(found("crates/raddle-core/src/join.rs", "use crate::Pool;").len(), 1);
        assert_eq!(found("crates/raddle-core/src/attic.rs", "").len(), 1);
        assert_eq!(found("crates/raddle-core/src/models/rig.rs", "use crate::Pool;").len(), 0);
    }

    #[test]
    fn atomics_past_the_seam_are_found() {
        let text = "use std::sync::{Arc, atomic::AtomicU8};\n#[cfg(test)]\nuse core::sync::atomic;";
        assert_eq!(found("crates/raddle-lock/src/word.rs", text).len(), 1);
        assert_eq!(found("crates/raddle-cli/src/word.rs", text).len(), 0);
        assert_eq!(found("crates/raddle-lock/src/word.rs", "use core::sync::atomic::*;").len(), 1);
    }

    #[test]
    fn long_files_are_found() {
        let found = found("crates/raddle-trace/src/event.rs", &"\n".repeat(501));
        assert_eq!(
            found,
            ["crates/raddle-trace/src/event.rs:501: 501 lines, and 500 are the most"]
        );
    }

    #[test]
    fn labels_are_the_crates() {
        let source = |path: &str, text: &str| Source { path: path.into(), text: text.into() };
        let (header, cites) = ("//! **X1** It is so.\n", "// SAFETY: X1.\n");
        let mut findings = Findings::default();
        findings.check_letters(&[
            source("crates/raddle-core/src/latch.rs", header),
            source("crates/raddle-lock/src/word.rs", header),
            source("crates/raddle-lock/src/rw/core.rs", cites),
        ]);
        assert!(findings.violations.is_empty());
        findings.check_letters(&[
            source("crates/raddle-sync/src/spin.rs", "//! **Y1** It is so.\n"),
            source("crates/raddle-sync/src/fork.rs", cites),
        ]);
        let found: Vec<_> = findings.violations.iter().map(Violation::to_string).collect();
        let what = "no header of this crate has an invariant `X1`";
        assert_eq!(found, [format!("crates/raddle-sync/src/fork.rs:1: {what}")]);
    }

    #[test]
    fn entries_that_are_true_no_longer_are_found() {
        let mut findings = Findings::default();
        findings.check_tables();
        assert_eq!(findings.violations.len(), UPWARD.len() + ATOMICS.len() + LONG.len());
    }
}
