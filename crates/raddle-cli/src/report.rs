//! What a run has to say: facts, told to people line by line or to programs as one JSON object.
//!
//! `schema/` has a schema for each object; names of facts are for programs to rely on.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::time::Duration;

use serde::{Serialize, Serializer};
use serde_json::Value;

use crate::error::{Error, without_breaks};

/// A title, facts in the order they are told, and remarks for people.
#[derive(Debug)]
pub(crate) struct Report {
    title: String,
    facts: Vec<Fact>,
    remarks: Vec<String>,
    failures: Vec<Error>,
}

#[derive(Debug)]
struct Fact {
    name: &'static str,
    /// None: for people alone.
    value: Option<Value>,
    /// How people read it; what the title says already is not said again.
    text: Option<String>,
}

impl Report {
    pub(crate) fn new(title: String) -> Report {
        Report { title, facts: Vec::new(), remarks: Vec::new(), failures: Vec::new() }
    }

    /// What it all comes to, said first.
    pub(crate) fn headline(&mut self, result: &str) {
        _ = write!(self.title, ": {result}");
    }

    /// A fact for programs alone.
    pub(crate) fn datum(&mut self, name: &'static str, value: impl Into<Value>) {
        self.facts.push(Fact { name, value: Some(value.into()), text: None });
    }

    /// A fact whose value speaks for itself.
    pub(crate) fn fact(&mut self, name: &'static str, value: impl Into<Value>) {
        let value = value.into();
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        self.facts.push(Fact { name, value: Some(value), text: Some(text) });
    }

    /// A fact that people read in other words than programs.
    pub(crate) fn told(&mut self, name: &'static str, value: impl Into<Value>, text: String) {
        self.facts.push(Fact { name, value: Some(value.into()), text: Some(text) });
    }

    /// A fact for people alone, who read what programs have in another.
    pub(crate) fn line(&mut self, name: &'static str, text: String) {
        self.facts.push(Fact { name, value: None, text: Some(text) });
    }

    pub(crate) fn remark(&mut self, remark: impl Into<String>) {
        self.remarks.push(remark.into());
    }

    /// Something could not be done, which does not keep the rest from being told.
    pub(crate) fn fail(&mut self, error: Error) {
        self.failures.push(error);
    }

    fn text(&self) -> String {
        // Names of files are in it, which are one line here whatever they hold.
        let mut text = format!("{}\n", without_breaks(&self.title));
        for Fact { name, text: told, .. } in &self.facts {
            if let Some(told) = told {
                let (name, told) = (name.replace('_', " "), without_breaks(told));
                _ = writeln!(text, "  {name:<20} {told}");
            }
        }
        for remark in &self.remarks {
            _ = writeln!(text, "  ({remark})");
        }
        text
    }

    /// Prints the report where results go, or beside them when standard output carries data; then fails if anything has.
    pub(crate) fn print(mut self, json: bool, to_stderr: bool) -> Result<(), Error> {
        let errors: Vec<String> = self.failures.iter().map(Error::to_string).collect();
        self.datum("errors", errors);
        let told = if json {
            print_json(&self)
        } else if to_stderr {
            // What was asked for has been written; a closed standard error spoils nothing.
            _ = io::stderr().write_all(self.text().as_bytes());
            Ok(())
        } else {
            print(&self.text())
        };
        self.failures.into_iter().next().map_or(told, Err)
    }

    /// Nobody is there to be told the rest; what has failed before is still worth an error.
    pub(crate) fn unheard(self, closed: Error) -> Error {
        self.failures.into_iter().next().unwrap_or(closed)
    }
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let facts = self.facts.iter();
        serializer.collect_map(facts.filter_map(|fact| Some((fact.name, fact.value.as_ref()?))))
    }
}

/// One JSON object and a newline, written as it is made: of a trace it may be longer than the memory.
pub(crate) fn print_json(object: &impl Serialize) -> Result<(), Error> {
    let mut out = io::BufWriter::new(io::stdout().lock());
    serde_json::to_writer_pretty(&mut out, object)
        .map_err(io::Error::from)
        .and_then(|()| out.write_all(b"\n"))
        .and_then(|()| out.flush())
        .map_err(|e| Error::stdout(&e))
}

/// Writes to standard output, and fails where `print!` would panic.
pub(crate) fn print(text: &str) -> Result<(), Error> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| Error::stdout(&e))
}

/// A time as people read it: three digits and the unit that suits them.
pub(crate) fn duration(seconds: f64) -> String {
    let (value, unit) = match seconds {
        s if s >= 0.9995 => (s, "s"),
        s if s >= 0.999_5e-3 => (s * 1e3, "ms"),
        s if s >= 0.999_5e-6 => (s * 1e6, "us"),
        s => (s * 1e9, "ns"),
    };
    let digits = match value {
        v if v >= 99.95 => 0,
        v if v >= 9.995 => 1,
        _ => 2,
    };
    format!("{value:.digits$} {unit}")
}

/// A time as programs read it, in fields that end in `_us`.
pub(crate) fn micros(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

/// `1 row`, `2 rows`.
pub(crate) fn count(number: usize, thing: &str) -> String {
    format!("{number} {thing}{}", if number == 1 { "" } else { "s" })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_a_unit() {
        let told = [0.0, 1.84e-9, 20e-6, 0.99999e-3, 0.1234, 0.9999, 9.999, 123.4].map(duration);
        let expected =
            ["0.00 ns", "1.84 ns", "20.0 us", "1.00 ms", "123 ms", "1.00 s", "10.0 s", "123 s"];
        assert_eq!(told, expected);
    }

    #[test]
    fn programs_get_every_fact_and_people_what_the_title_leaves_out() {
        let mut report = Report::new("fib(3)".into());
        report.headline("small");
        report.datum("n", 3);
        report.fact("result", 2);
        report.told("seconds_one_thread", 0.5, duration(0.5));
        report.remark("done");
        assert_eq!(
            report.text(),
            "fib(3): small\n  result               2\n  seconds one thread   500 ms\n  (done)\n"
        );
        let json = serde_json::to_string(&report).unwrap();
        assert_eq!(json, r#"{"n":3,"result":2,"seconds_one_thread":0.5}"#);
    }
}
