//! As much of Rust's grammar as it takes to see which paths a file names.

use std::iter::Peekable;
use std::str::CharIndices;

/// A path that a file names, without what it starts from.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Named {
    pub(super) line: usize,
    pub(super) path: Vec<String>,
}

/// The text with blanks for comments, strings, and what is there for tests only. Lines stay where they are.
pub(super) fn code(text: &str) -> String {
    without_tests(&without_comments(text))
}

fn without_comments(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = comment(rest).or_else(|| literal(rest, out.chars().last()));
        match len {
            Some(len) => out.extend(rest[..len].chars().map(blank)),
            None => out.push(first),
        }
        rest = &rest[len.unwrap_or(first.len_utf8())..];
    }
    out
}

fn blank(c: char) -> char {
    if c == '\n' { c } else { ' ' }
}

/// The length of a comment that the text begins with.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find('\n').unwrap_or(text.len()));
    }
    if !text.starts_with("/*") {
        return None;
    }
    let (mut depth, mut at) = (0, 0);
    while at < text.len() {
        if text[at..].starts_with("/*") {
            (depth, at) = (depth + 1, at + 2);
        } else if text[at..].starts_with("*/") {
            (depth, at) = (depth - 1, at + 2);
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += text[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    Some(text.len())
}

/// The length of a string or character that the text begins with.
fn literal(text: &str, before: Option<char>) -> Option<usize> {
    if !before.is_some_and(is_word) {
        if let Some(raw) = text.strip_prefix("br").or_else(|| text.strip_prefix('r')) {
            let hashes = raw.len() - raw.trim_start_matches('#').len();
            if raw[hashes..].starts_with('"') {
                let start = text.len() - raw.len() + hashes + 1;
                let end = format!("\"{}", "#".repeat(hashes));
                return Some(
                    text[start..].find(&end).map_or(text.len(), |i| start + i + end.len()),
                );
            }
        }
    }
    if text.starts_with('"') {
        return Some(quoted(text, '"'));
    }
    // A lifetime has no second quote: `'a`, against `'a'` and `'\n'`.
    let is_char = text.starts_with("'\\") || {
        let mut chars = text.chars();
        chars.next() == Some('\'') && chars.next().is_some() && chars.next() == Some('\'')
    };
    is_char.then(|| quoted(text, '\''))
}

fn quoted(text: &str, quote: char) -> usize {
    let mut chars = text.char_indices().skip(1);
    while let Some((at, c)) = chars.next() {
        if c == '\\' {
            chars.next();
        } else if c == quote {
            return at + 1;
        }
    }
    text.len()
}

/// Blanks for each item behind `#[cfg(test)]`, or `#[cfg(all(test, ..))]`.
fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(at) =
        ["#[cfg(test)]", "#[cfg(all(test,"].iter().filter_map(|a| rest.find(a)).min()
    {
        let end = at + item_len(&rest[at..]);
        out += &rest[..at];
        out.extend(rest[at..end].chars().map(blank));
        rest = &rest[end..];
    }
    out + rest
}

/// How long an item is: to its semicolon, or to the end of its braces.
fn item_len(code: &str) -> usize {
    let mut depth = 0;
    for (at, c) in code.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth -= 1,
            _ => {}
        }
        if depth <= 0 && (c == '}' || c == ';') {
            return at + 1;
        }
    }
    code.len()
}

/// All paths that start from `root`, such as `crate` or `std`, each of a `use` by itself.
pub(super) fn paths(code: &str, root: &str) -> Vec<Named> {
    let start = format!("{root}::");
    let mut all = Vec::new();
    for (at, _) in code.match_indices(&start) {
        let before = code[..at].chars().last();
        // Neither the end of a longer name, nor `$crate`, nor further down in a path.
        if before.is_some_and(|c| is_word(c) || c == '$') || code[..at].ends_with("::") {
            continue;
        }
        let from = at + start.len();
        let mut tree = Tree { code, base: from, chars: code[from..].char_indices().peekable() };
        tree.read(&mut Vec::new(), &mut all);
    }
    all
}

/// What follows `crate::`, in a `use` or elsewhere.
struct Tree<'a> {
    code: &'a str,
    base: usize,
    chars: Peekable<CharIndices<'a>>,
}

impl Tree<'_> {
    fn read(&mut self, path: &mut Vec<String>, all: &mut Vec<Named>) {
        let depth = path.len();
        self.blanks();
        let line = self.line();
        if self.take('{') {
            loop {
                self.blanks();
                if self.take('}') || self.chars.peek().is_none() {
                    break;
                }
                let before = self.position();
                self.read(path, all);
                self.blanks();
                self.take(',');
                if self.position() == before {
                    break;
                }
            }
            return;
        }
        let word = self.word();
        if word.is_empty() {
            all.push(Named { line, path: path.clone() });
            self.take('*');
            return;
        }
        path.push(word);
        if self.take(':') && self.take(':') {
            self.read(path, all);
        } else {
            all.push(Named { line, path: path.clone() });
            self.rename();
        }
        path.truncate(depth);
    }

    /// Skips `as name`.
    fn rename(&mut self) {
        let rest = &self.code[self.position()..];
        if rest.trim_start().starts_with("as ") {
            self.blanks();
            self.word();
            self.blanks();
            self.word();
        }
    }

    fn position(&mut self) -> usize {
        self.chars.peek().map_or(self.code.len(), |&(at, _)| self.base + at)
    }

    fn line(&mut self) -> usize {
        let position = self.position();
        line_of(self.code, position)
    }

    fn take(&mut self, wanted: char) -> bool {
        self.chars.next_if(|&(_, c)| c == wanted).is_some()
    }

    fn blanks(&mut self) {
        while self.chars.next_if(|&(_, c)| c.is_whitespace()).is_some() {}
    }

    fn word(&mut self) -> String {
        std::iter::from_fn(|| self.chars.next_if(|&(_, c)| is_word(c)).map(|(_, c)| c)).collect()
    }
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn line_of(text: &str, at: usize) -> usize {
    1 + text[..at].matches('\n').count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(text: &str) -> Vec<(usize, String)> {
        let all = paths(&code(text), "crate");
        all.into_iter().map(|named| (named.line, named.path.join("::"))).collect()
    }

    #[test]
    fn every_path_of_a_use_is_seen_with_its_line() {
        let text = "use crate::a::{b, c::{self, D as E},\n    f::*};\nuse crate::{g,\nh};\n";
        let seen = ["a::b", "a::c::self", "a::c::D", "a::f", "g", "h"];
        let lines = [1, 1, 1, 2, 3, 4];
        let expected: Vec<_> = lines.into_iter().zip(seen.map(String::from)).collect();
        assert_eq!(named(text), expected);
    }

    #[test]
    fn paths_in_expressions_and_types_are_seen() {
        let text = "fn f(x: &crate::a::B<u8>) -> u8 { crate::c::d(x) }";
        assert_eq!(named(text), [(1, "a::B".into()), (1, "c::d".into())]);
    }

    #[test]
    fn comments_strings_and_tests_are_not() {
        let text = concat!(
            "//! crate::a\n/* crate::a /* */ crate::b */\n",
            "const S: &str = \"crate::a \\\" crate::b\"; const R: &str = r#\"\" crate::c\"#;\n",
            "const C: char = '\"'; fn f<'a>(x: &'a str) {}\n",
            "#[cfg(test)]\nmod tests { use crate::d; fn g() {} }\n",
            "#[cfg(test)]\nuse crate::e;\n",
            "#[cfg(all(test, unix))]\nuse crate::e;\n",
            "macro_rules! m { () => { $crate::f } }\n",
            "use crate::g;",
        );
        assert_eq!(named(text), [(12, "g".into())]);
    }
}
