//! Labels of invariants, `**X1**` in the header of a module: each stands once in its crate, and whoever cites one finds it there.

use std::collections::BTreeMap;

/// What is wrong with the labels of a crate, of which these are the files, by path: file, line, and what.
pub(super) fn wrong<'a>(files: &[(&'a str, &str)]) -> Vec<(&'a str, usize, String)> {
    let mut defined: BTreeMap<&str, &str> = BTreeMap::new();
    let mut wrong = Vec::new();
    for &(path, text) in files {
        for (line, label) in definitions(text) {
            if let Some(first) = defined.insert(label, path) {
                wrong.push((path, line, format!("`{label}` is an invariant of {first}, too")));
            }
        }
    }
    // Where no invariants are numbered these are other things.
    if defined.is_empty() {
        return wrong;
    }
    for &(path, text) in files {
        for (line, label) in citations(text) {
            if !defined.contains_key(label) {
                wrong.push((
                    path,
                    line,
                    format!("no header of this crate has an invariant `{label}`"),
                ));
            }
        }
    }
    wrong
}

fn definitions(text: &str) -> impl Iterator<Item = (usize, &str)> {
    (1..).zip(text.lines()).filter_map(|(number, line)| {
        let line = line.trim_start();
        let doc = line.strip_prefix("//!").or_else(|| line.strip_prefix("///"))?.trim_start();
        let (label, _) =
            doc.strip_prefix("- ").unwrap_or(doc).strip_prefix("**")?.split_once("**")?;
        is_label(label).then_some((number, label))
    })
}

/// All labels in comments that begin with `SAFETY` or `ORD`; in others those that begin a parenthesis.
fn citations(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut argues = false;
    for (number, line) in (1..).zip(text.lines()) {
        let Some(at) = line.find("//") else {
            argues = false;
            continue;
        };
        let (code, comment) = line.split_at(at);
        argues &= code.trim().is_empty();
        argues |= comment.contains("SAFETY:") || comment.contains("ORD:");
        if argues {
            all.extend(comment.split(not_in_word).map(|word| (number, word)));
        } else {
            let inner = comment.split('(').skip(1);
            all.extend(inner.filter_map(|inner| Some((number, inner.split(not_in_word).next()?))));
        }
    }
    all.retain(|(_, word)| is_label(word));
    all
}

fn not_in_word(c: char) -> bool {
    !c.is_alphanumeric() && c != '_'
}

/// One or two letters and a number: `X1`, `XY12`.
fn is_label(word: &str) -> bool {
    let number = word.trim_start_matches(|c: char| c.is_ascii_uppercase());
    matches!(word.len() - number.len(), 1..=2)
        && matches!(number.len(), 1..=2)
        && number.chars().all(|c| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "//! - **X1** It is so.\n//!   (Y1 in `other`.)\n//! **X2** And so.\n";

    fn found(files: &[(&str, &str)]) -> Vec<(String, usize)> {
        wrong(files).into_iter().map(|(path, line, _)| (path.into(), line)).collect()
    }

    #[test]
    fn a_label_stands_once() {
        let other = "//! **Y1** It is not.\n";
        assert_eq!(found(&[("a.rs", HEADER), ("b.rs", other)]), []);
        let twice = "\n/// - **X2** It is not.\nstruct S;\n//! **Y1** Nor is that.\n";
        assert_eq!(found(&[("a.rs", HEADER), ("b.rs", twice)]), [("b.rs".into(), 2)]);
    }

    #[test]
    fn what_is_cited_is_there() {
        let header = "//! **X1** It is so.\n";
        let text = concat!(
            "// SAFETY: X1, and by X3\n// or X4.\nf();\n// X5 is a street.\n",
            "g(); // ORD: `Relaxed`: see X6.\n",
            "h(); // X7, or for once (X8).\n",
            "/// As above (X1, whatever X9 is).\n",
        );
        let lines: Vec<_> = found(&[("a.rs", header), ("b.rs", text)]);
        assert_eq!(lines, [1, 2, 5, 6].map(|line| ("b.rs".into(), line)));
        // Where nothing is numbered.
        assert_eq!(found(&[("b.rs", text)]), []);
    }

    #[test]
    fn words_are_no_labels() {
        let words = ["X1", "AB12", "x1", "X", "ABC1", "X123", "E0277", "12", "U8x", ""];
        assert_eq!(
            words.map(is_label),
            [true, true, false, false, false, false, false, false, false, false]
        );
    }
}
