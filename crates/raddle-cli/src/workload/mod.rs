//! The work that `raddle run` does.

pub(crate) mod fib;
pub(crate) mod kmeans;
pub(crate) mod knn;
pub(crate) mod quantize;
pub(crate) mod sort;

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::args::{Common, Workload};
use crate::error::Error;
use crate::files::Files;
use crate::input::is_standard;
use crate::output::Output;
use crate::report::Report;

/// Runs a workload and prints its report.
pub(crate) fn run(workload: &Workload, common: &Common) -> Result<(), Error> {
    match workload {
        Workload::Kmeans(args) => kmeans::run(args, common),
        Workload::Knn(args) => knn::run(args, common),
        Workload::Quantize(args) => quantize::run(args, common),
        Workload::Sort(args) => sort::run(args, common),
        Workload::Fib(args) => fib::run(args, common),
    }
}

/// A report that starts with what was worked on: the user's data, or what was made up in their place.
fn report(workload: &'static str, input: Option<&Path>, what: &str) -> Report {
    let mut report = match input {
        Some(path) if is_standard(path) => {
            Report::new(format!("{workload} of standard input, {what}"))
        }
        Some(path) => Report::new(format!("{workload} of {}, {what}", path.display())),
        None => Report::new(format!("{workload} of made-up data, {what}")),
    };
    begin(&mut report, workload);
    report.datum("input", input.map(|path| path.display().to_string()));
    if input.is_none() {
        report.datum("generated", what);
        report.remark("made up, the same each time; give your own: FILE, or - for standard input");
    }
    report
}

/// What every object begins with.
fn begin(report: &mut Report, workload: &'static str) {
    report.datum("schema", "raddle-run-1");
    report.datum("workload", workload);
}

/// Finds out at the start whether the output can be written at the end.
fn output(path: Option<&PathBuf>, common: &Common, files: &Files) -> Result<Option<Output>, Error> {
    let prepare = |path: &PathBuf| Output::prepare("the output", path, files);
    let output = path.map(prepare).transpose()?;
    if common.json && output.as_ref().is_some_and(Output::is_stdout) {
        return Err(Error::usage("--json and --output - both want standard output"));
    }
    Ok(output)
}

/// Writes the output, if there is to be one, and prints the report where it is not in the way: also if writing failed.
fn finish(
    mut report: Report,
    output: Option<Output>,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    json: bool,
) -> Result<(), Error> {
    let Some(output) = output else {
        report.datum("output", Value::Null);
        return report.print(json, false);
    };
    let to_stderr = output.is_stdout();
    let name = output.name();
    match output.write(write) {
        Ok(()) => report.fact("output", name),
        Err(error) if error.is_closed() => return Err(report.unheard(error)),
        Err(error) => {
            report.datum("output", Value::Null);
            report.fail(error);
        }
    }
    report.print(json, to_stderr)
}

/// Checks `--k` against the number of things there are to choose from.
fn check_k(k: usize, most: usize, input: Option<&Path>, things: &str) -> Result<(), Error> {
    if k == 0 {
        return Err(Error::usage("--k must be at least 1"));
    }
    if k > most {
        let message = format!("--k is {k}, but there are only {things}");
        return Err(match input {
            Some(path) => Error::input(path, message),
            None => Error::usage(message),
        });
    }
    Ok(())
}
