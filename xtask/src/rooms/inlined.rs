//! What of `raddle-trace` is compiled where it is called: all that is not `#[inline]` would be compiled by everybody who builds raddle.

use super::source::code;

/// What is compiled in the crate itself: what pools call that record, and what is too small to count.
const COMPILED: [&str; 2] = ["event.rs", "file/"];

/// The functions that lack `#[inline]`: line and name. `file` lies in `raddle-trace/src`.
pub(super) fn missing(file: &str, text: &str) -> Vec<(usize, String)> {
    let is_test = file.ends_with("tests.rs") || file.contains("tests/");
    if is_test || COMPILED.iter().any(|kept| file.starts_with(kept)) {
        return Vec::new();
    }
    let code = code(text);
    let lines: Vec<&str> = code.lines().map(str::trim).collect();
    let mut missing = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let Some(name) = function(line) else { continue };
        let rest = lines[at..].iter().flat_map(|line| line.chars());
        let has_body = rest.into_iter().find(|&c| c == '{' || c == ';') == Some('{');
        let mut before = lines[..at].iter().rev().filter(|line| !line.is_empty());
        let is_inline = before
            .by_ref()
            .take_while(|line| line.starts_with("#["))
            .any(|line| *line == "#[inline]");
        if has_body && !is_inline {
            missing.push((at + 1, name.to_owned()));
        }
    }
    missing
}

/// The name of the function that a line begins to define.
fn function(line: &str) -> Option<&str> {
    let (qualifiers, rest) = line.split_once("fn ").filter(|(before, _)| {
        before.split_whitespace().all(|word| word == "const" || word.starts_with("pub"))
    })?;
    (qualifiers.is_empty() || qualifiers.ends_with(' '))
        .then(|| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_be_compiled_by_everybody_is_found() {
        let text = "impl Trace {\n    /// Says it.\n    #[must_use]\n    pub(crate) fn said(\n        &self,\n    ) -> u8 {\n    }\n\n    \
                    #[inline]\n    #[must_use]\n    pub const fn fine() {}\n}\ntrait Says {\n    fn no_body(&self) -> u8;\n}\n\
                    type F = fn (u8);\n#[cfg(test)]\nmod tests {\n    fn test() {}\n}\n";
        assert_eq!(missing("html.rs", text), [(4, "said".to_owned())]);
        assert_eq!(missing("file/read.rs", text), []);
        assert_eq!(missing("scale/tests/span.rs", text), []);
    }
}
