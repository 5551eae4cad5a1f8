//! Where `unsafe` lives: the files that have it, and the table of them in ARCHITECTURE.md.

use std::collections::BTreeSet;

use super::source::code;

/// The table's heading.
const HEADING: &str = "## Where `unsafe` lives, and why";

/// What is wrong: a file and why. `sources` are paths and texts.
pub(super) fn wrong(page: &str, sources: &[(&str, &str)]) -> Vec<(String, String)> {
    let entries = entries(page);
    let mut wrong = Vec::new();
    let mut used = BTreeSet::new();
    for (path, _) in sources.iter().filter(|(path, text)| !is_test(path) && has_unsafe(text)) {
        let covers =
            |entry: &&String| entry == path || entry.ends_with('/') && path.starts_with(*entry);
        let found: Vec<&String> = entries.iter().filter(covers).collect();
        if found.is_empty() {
            let what = format!("is `unsafe`, and not in the table '{}'", &HEADING[3..]);
            wrong.push(((*path).to_owned(), what));
        }
        used.extend(found);
    }
    let stale = entries.iter().filter(|entry| !used.contains(entry));
    wrong.extend(stale.map(|entry| ("ARCHITECTURE.md".into(), format!("{entry} has no `unsafe`"))));
    wrong
}

/// The paths that the table has: files, and folders, which end in a slash.
fn entries(page: &str) -> Vec<String> {
    let table = page.split_once(HEADING).map_or("", |(_, rest)| rest);
    let rows = table.lines().skip_while(|line| !line.starts_with('|'));
    let mut entries = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')).skip(2) {
        let cell = row.split('|').nth(1).unwrap_or("");
        let mut folder = String::new();
        // Every other piece stands between backticks; what a colon follows is a crate.
        let pieces: Vec<&str> = cell.split('`').collect();
        for pair in pieces[1..].chunks(2) {
            match pair {
                [name, after] if after.starts_with(':') => {
                    let crates = if name.starts_with("raddle") { "crates/" } else { "" };
                    folder = format!("{crates}{name}/src/");
                }
                [name, _] => entries.push(format!("{folder}{name}")),
                _ => {}
            }
        }
    }
    entries
}

fn is_test(path: &str) -> bool {
    path.ends_with("/tests.rs") || path.contains("/tests/")
}

fn has_unsafe(text: &str) -> bool {
    let code = code(text);
    let mut words = code.split(|c: char| !c.is_alphanumeric() && c != '_');
    words.any(|word| word == "unsafe")
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "## Where `unsafe` lives, and why\n\n| where | why |\n|---|---|\n\
        | `raddle-a`: `b.rs`, `c/`; `raddle-d`: `e.rs` | `f.rs` |\n| `bench`: `g.rs` | |\n\n| `h` | |\n";

    #[test]
    fn files_are_in_the_table_and_the_table_has_no_others() {
        assert_eq!(
            entries(PAGE),
            [
                "crates/raddle-a/src/b.rs",
                "crates/raddle-a/src/c/",
                "crates/raddle-d/src/e.rs",
                "bench/src/g.rs",
            ]
        );
        let is = "fn f() { unsafe { g() } }";
        let all = [
            ("crates/raddle-a/src/b.rs", is),
            ("crates/raddle-a/src/c/d.rs", is),
            ("crates/raddle-d/src/e.rs", "unsafe impl Send for A {}"),
            ("crates/raddle-d/src/tests.rs", is),
            ("crates/raddle-d/src/f.rs", "// unsafe\nfn unsafe_code() {}"),
            ("bench/src/g.rs", is),
        ];
        assert_eq!(wrong(PAGE, &all), []);
        let new = [("crates/raddle-a/src/x.rs", is)];
        let told = wrong(PAGE, &[&all[1..], &new].concat());
        let files: Vec<&str> = told.iter().map(|(file, _)| file.as_str()).collect();
        assert_eq!(files, ["crates/raddle-a/src/x.rs", "ARCHITECTURE.md"]);
        assert!(told[1].1.contains("raddle-a/src/b.rs"), "{told:?}");
    }
}
