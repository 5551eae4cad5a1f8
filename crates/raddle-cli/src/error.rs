//! What can go wrong, as one line on standard error and an exit code.

use std::fmt;
use std::io;
use std::path::Path;
use std::process::ExitCode;

/// An error the user sees: where it is, what it is, and whose fault it is.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{place}{message}")]
pub(crate) struct Error {
    blame: Blame,
    place: Place,
    message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// What the user asked for or handed in cannot be used: exit code 2.
    Input,
    /// Something failed while doing what was asked: exit code 1.
    Failure,
    /// Whoever read standard output has gone away. Nobody is left to tell.
    Closed,
}

/// `FILE:LINE:COLUMN: `, as far as it is known.
#[derive(Debug, Clone, Default)]
struct Place {
    file: Option<String>,
    cell: Option<(u64, usize)>,
}

impl Error {
    /// The command line asks for something that cannot be.
    pub(crate) fn usage(message: impl Into<String>) -> Error {
        Error { blame: Blame::Input, place: Place::default(), message: message.into() }
    }

    /// What the parser of the command line has to say, in one line.
    pub(crate) fn command_line(error: &clap::Error) -> Error {
        let text = error.to_string();
        let first = text.split("\n\n").next().unwrap_or_default();
        let words: Vec<&str> = first.split_whitespace().collect();
        let message = words.join(" ");
        let message = message.strip_prefix("error: ").unwrap_or(&message);
        Error::usage(format!("{message} (see raddle --help)"))
    }

    /// A file as a whole cannot be used.
    pub(crate) fn input(file: &Path, message: impl Into<String>) -> Error {
        Error { place: Place { file: Some(one_line(file)), cell: None }, ..Error::usage(message) }
    }

    /// One field of a table cannot be used; line and column count from one.
    pub(crate) fn cell(file: &Path, line: u64, column: usize, message: String) -> Error {
        let place = Place { file: Some(one_line(file)), cell: Some((line, column)) };
        Error { place, ..Error::usage(message) }
    }

    /// A failure that is not the user's doing.
    pub(crate) fn failure(message: impl Into<String>) -> Error {
        Error { blame: Blame::Failure, ..Error::usage(message) }
    }

    /// A file that could be used until now, and then could not.
    pub(crate) fn file_failure(file: &Path, message: impl Into<String>) -> Error {
        Error { blame: Blame::Failure, ..Error::input(file, message) }
    }

    /// Standard output took no more.
    pub(crate) fn stdout(error: &io::Error) -> Error {
        let blame = match error.kind() {
            io::ErrorKind::BrokenPipe => Blame::Closed,
            _ => Blame::Failure,
        };
        Error { blame, ..Error::usage(format!("standard output: {}", reason(error))) }
    }

    /// Whether there is nobody left to read.
    pub(crate) fn is_closed(&self) -> bool {
        self.blame == Blame::Closed
    }

    /// Tells the user, in one line, and says how the program ends.
    pub(crate) fn report(&self) -> ExitCode {
        use io::Write;
        match self.blame {
            Blame::Closed => return ExitCode::SUCCESS,
            // Standard error may be closed too: then there is no one to tell.
            // In one line, whatever the names in it hold.
            _ => _ = writeln!(io::stderr(), "raddle: {}", without_breaks(&self.to_string())),
        }
        ExitCode::from(if self.blame == Blame::Input { 2 } else { 1 })
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, self.cell) {
            (Some(file), Some((line, column))) => write!(f, "{file}:{line}:{column}: "),
            (Some(file), None) => write!(f, "{file}: "),
            _ => Ok(()),
        }
    }
}

/// Why the system refused, in its own words but without its number.
pub(crate) fn reason(error: &io::Error) -> String {
    let text = error.to_string();
    text.split(" (os error").next().unwrap_or_default().to_lowercase()
}

/// A piece of the user's data, quoted, short enough to fit the line it is shown in.
pub(crate) fn quoted(text: &str) -> String {
    const LONGEST: usize = 32;
    let short: String = text.chars().take(LONGEST).flat_map(char::escape_debug).collect();
    let more = if text.chars().nth(LONGEST).is_some() { ".." } else { "" };
    format!("\"{short}{more}\"")
}

/// What a file that is read is called in a message.
pub(crate) fn one_line(path: &Path) -> String {
    if path.as_os_str() == "-" {
        return "standard input".into();
    }
    without_breaks(&path.display().to_string())
}

/// Names may hold line breaks and what tells a terminal what to do; messages may not.
pub(crate) fn without_breaks(text: &str) -> String {
    let mut line = String::new();
    for c in text.chars() {
        if c.is_control() { line.extend(c.escape_default()) } else { line.push(c) }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_place_as_far_as_it_is_known() {
        let file = Path::new("a.csv");
        assert_eq!(Error::usage("no").to_string(), "no");
        assert_eq!(Error::input(file, "no").to_string(), "a.csv: no");
        assert_eq!(Error::cell(file, 3, 2, "no".into()).to_string(), "a.csv:3:2: no");
    }

    #[test]
    fn stays_on_one_line() {
        assert_eq!(Error::input(Path::new("a\nb"), "no").to_string(), "a\\nb: no");
        assert_eq!(quoted("x\n\"y\""), r#""x\n\"y\"""#);
        assert_eq!(quoted(&"é".repeat(40)), format!("\"{}..\"", "é".repeat(32)));
    }

    #[test]
    fn leaves_out_the_number_of_the_system_error() {
        assert_eq!(reason(&io::Error::from_raw_os_error(2)), "no such file or directory");
    }
}
