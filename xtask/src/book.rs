//! The book: every page is in its table of contents, every link leads somewhere, every example is a test. mdBook draws it, and
//! is installed for that where it can be had.

use crate::release::installed;
use crate::steps::{Outcome, outcome, root, target_dir};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Other documents whose links are checked too.
const DOCUMENTS: &[&str] = &[
    "README.md",
    "COMPARE.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "ARCHITECTURE.md",
    "bench/README.md",
    "docs/from-rayon.md",
    "crates/raddle/src/names.md",
    "crates/raddle-core/src/places.md",
    "crates/raddle-remote/src/one_machine.md",
    "crates/raddle-trace/FORMAT.md",
];

pub(crate) fn book() -> Outcome {
    let mut faults = Vec::new();
    let pages = pages(&root().join("book/src"));
    faults.extend(contents(&pages));
    for page in pages.iter().cloned().chain(DOCUMENTS.iter().map(|name| root().join(name))) {
        match fs::read_to_string(&page) {
            Ok(text) => faults.extend(links(&page, &text)),
            Err(error) => faults.push(format!("{}: {error}", page.display())),
        }
    }
    faults.extend(tests(&pages));
    for fault in &faults {
        eprintln!("xtask: {fault}");
    }
    println!("{} pages, {} faults", pages.len(), faults.len());
    let drawn = match installed("mdbook") {
        None => Outcome::ToolMissing(
            "no mdbook, and it cannot be installed: the book is checked, not drawn",
        ),
        Some(mdbook) => outcome(
            Command::new(mdbook)
                .args(["build", "book", "-d"])
                .arg(target_dir("book"))
                .current_dir(root()),
        ),
    };
    if faults.is_empty() { drawn } else { Outcome::Failed }
}

fn pages(directory: &Path) -> Vec<PathBuf> {
    let mut pages: Vec<PathBuf> = fs::read_dir(directory)
        .into_iter()
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .collect();
    pages.sort();
    pages
}

/// What the table of contents leaves out.
fn contents(pages: &[PathBuf]) -> Vec<String> {
    let summary = root().join("book/src/SUMMARY.md");
    let text = fs::read_to_string(&summary).unwrap_or_default();
    let listed: BTreeSet<String> = targets(&text).into_iter().map(|(_, target)| target).collect();
    let names = pages.iter().filter_map(|page| page.file_name()?.to_str());
    let missing = names.filter(|name| *name != "SUMMARY.md" && !listed.contains(*name));
    missing.map(|name| format!("{name} is not in book/src/SUMMARY.md")).collect()
}

/// Links of a page that lead nowhere in this repository.
fn links(page: &Path, text: &str) -> Vec<String> {
    let directory = page.parent().unwrap_or(Path::new("."));
    let mut faults = Vec::new();
    for (line, target) in targets(text) {
        // A path of Rust, in a page that rustdoc shows, is rustdoc's to check.
        if ["://", "::"].iter().any(|part| target.contains(part)) || target.starts_with("mailto:") {
            continue;
        }
        let (file, anchor) = target.split_once('#').unwrap_or((&target, ""));
        let path = if file.is_empty() { page.to_owned() } else { directory.join(file) };
        let fault = if !path.exists() {
            "leads nowhere"
        } else if !anchor.is_empty() && path.is_file() && !anchors(&path).contains(anchor) {
            "has no such heading"
        } else {
            continue;
        };
        faults.push(format!("{}:{line}: {target} {fault}", page.display()));
    }
    faults
}

/// The targets of `[text](target)`, each with its line, outside code.
fn targets(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut code = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            code = !code;
        }
        if code {
            continue;
        }
        // Every other piece between backticks is code.
        for plain in line.split('`').step_by(2) {
            let mut rest = plain;
            while let Some((_, after)) = rest.split_once("](") {
                let Some((target, after)) = after.split_once(')') else { break };
                found.push((number + 1, target.to_owned()));
                rest = after;
            }
        }
        // A link whose text is code is split by the backticks above.
        for piece in line.split("`](").skip(1) {
            if let Some((target, _)) = piece.split_once(')') {
                found.push((number + 1, target.to_owned()));
            }
        }
    }
    found.sort();
    found.dedup();
    found
}

/// The headings of a page, as links name them.
fn anchors(page: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(page).unwrap_or_default();
    let headings = text.lines().filter(|line| line.starts_with('#'));
    headings.map(|heading| slug(heading.trim_start_matches('#'))).collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

/// Pages with examples that no test runs: `crates/raddle/src/lib.rs` names those that are.
fn tests(pages: &[PathBuf]) -> Vec<String> {
    let tested = fs::read_to_string(root().join("crates/raddle/src/lib.rs")).unwrap_or_default();
    let has_code = |page: &&PathBuf| {
        fs::read_to_string(page)
            .is_ok_and(|text| text.lines().any(|line| line.starts_with("```rust")))
    };
    let names = pages.iter().filter(has_code).filter_map(|page| page.file_name()?.to_str());
    let untested = names.filter(|name| !tested.contains(&format!("book/src/{name}")));
    untested.map(|name| format!("{name} has examples that crates/raddle does not test")).collect()
}

#[cfg(test)]
mod tests_of_the_checker {
    use super::*;

    #[test]
    fn links_are_found_and_code_is_not() {
        let text = "[a](x.md) and `[b](y)` and [`c`](z#d)\n```\n[e](f)\n```\n";
        let found: Vec<String> = targets(text).into_iter().map(|(_, target)| target).collect();
        assert_eq!(found, ["x.md", "z#d"]);
    }

    #[test]
    fn headings_are_named_as_in_links() {
        assert_eq!(slug(" Two at a time: `join`"), "two-at-a-time-join");
    }
}
