//! `raddle trace`: shows what was recorded; and `--trace`, which records it.

use std::io;
use std::path::{Path, PathBuf};

use raddle::trace::{Damage, LoadError, Trace, TraceLevel};

use serde_json::{Map, Value, json};

use crate::args::TraceCommand;
use crate::error::{Error, reason};
use crate::files::Files;
use crate::input::is_standard;
use crate::output::Output;
use crate::report::{self, Report};
use crate::timing::phases_json;

/// Shows a trace that lies in a file.
pub(crate) fn run(command: &TraceCommand, json: bool) -> Result<(), Error> {
    let (shown, output, text): (_, _, fn(&Trace) -> String) = match command {
        TraceCommand::Summary(shown) => (shown, None, Trace::summary),
        TraceCommand::Html(drawn) => (&drawn.shown, Some(&drawn.output), Trace::html),
        TraceCommand::Chrome(drawn) => (&drawn.shown, Some(&drawn.output), Trace::chrome_json),
    };
    if json && !matches!(command, TraceCommand::Summary(_)) {
        return Err(Error::usage(
            "--json is for `raddle trace summary`; chrome writes JSON anyway",
        ));
    }
    let files = Files::of(Some(&shown.file));
    let output = output.map(|path| Output::prepare("the output", path, &files)).transpose()?;
    let (trace, damage) = load(&shown.file, shown.damaged)?;
    if json {
        return report::print_json(&summary_json(&shown.file, &trace, damage.as_ref()));
    }
    if let Some(damage) = damage {
        eprintln!("raddle: {}: {damage}; what comes before is shown", shown.file.display());
    }
    match output {
        None => report::print(&text(&trace)),
        Some(output) => output.write(|to| to.write_all(text(&trace).as_bytes())),
    }
}

fn load(file: &Path, damaged: bool) -> Result<(Trace, Option<Damage>), Error> {
    let loaded = match (is_standard(file), damaged) {
        (true, true) => Trace::read_damaged(io::stdin().lock()),
        (true, false) => Trace::read(io::stdin().lock()).map(|trace| (trace, None)),
        (false, true) => Trace::load_damaged(file),
        (false, false) => Trace::load(file).map(|trace| (trace, None)),
    };
    loaded.map_err(|error| match error {
        LoadError::Io(error) => Error::input(file, reason(&error)),
        LoadError::Damaged(_) if !damaged => {
            Error::input(file, format!("{error} (--damaged shows what comes before)"))
        }
        error => Error::input(file, error.to_string()),
    })
}

/// What `trace summary` says, for programs.
fn summary_json(file: &Path, trace: &Trace, damage: Option<&Damage>) -> Value {
    let regions: Vec<Value> = trace
        .phases()
        .iter()
        .map(|region| {
            let mut facts = Map::from_iter([
                ("name".to_owned(), json!(region.name)),
                ("task".to_owned(), json!(region.task)),
                ("lane".to_owned(), json!(region.lane)),
                ("start_us".to_owned(), json!(region.start.as_nanos() as f64 / 1e3)),
            ]);
            facts.extend(phases_json(region));
            facts.into()
        })
        .collect();
    let lane = |lane: &raddle::trace::Lane| json!({ "name": lane.name, "events": lane.events.len(), "dropped": lane.dropped });
    json!({
        "schema": "raddle-trace-summary-1",
        "file": file.display().to_string(),
        "damage": damage.map(ToString::to_string),
        "events": trace.len(),
        "dropped": trace.drops(),
        "lanes": trace.lanes.iter().map(lane).collect::<Vec<_>>(),
        "regions": regions,
    })
}

/// Where `--trace` writes, and how much it records.
#[derive(Debug)]
pub(crate) struct Recording {
    output: Output,
    level: TraceLevel,
}

impl Recording {
    /// Finds out at the start whether the file can be written at the end.
    pub(crate) fn prepare(
        path: Option<&PathBuf>,
        level: Option<Level>,
        files: &Files,
    ) -> Result<Option<Recording>, Error> {
        let Some(path) = path else {
            return match level {
                None => Ok(None),
                Some(_) => Err(Error::usage("--trace-level needs --trace FILE")),
            };
        };
        if is_standard(path) {
            return Err(Error::usage("--trace needs a file; standard output is for the report"));
        }
        let level = match level.unwrap_or_default() {
            Level::Phase => TraceLevel::Phase,
            Level::Tasks => TraceLevel::Tasks,
        };
        Ok(Some(Recording { output: Output::prepare("the trace", path, files)?, level }))
    }

    pub(crate) fn level(&self) -> TraceLevel {
        self.level
    }

    /// Writes what was recorded, and has the report say so, or why not.
    pub(crate) fn tell(&self, trace: &Trace, report: &mut Report) {
        let name = self.output.name();
        let (events, dropped) = (trace.len(), trace.drops());
        match self.output.write(|to| trace.write(to)) {
            Ok(()) => {
                let told = format!("{name}, {events} events, {dropped} dropped");
                report.told("trace", name, told);
            }
            Err(error) => {
                report.datum("trace", Value::Null);
                report.fail(error);
            }
        }
        report.datum("trace_events", events);
        report.datum("trace_dropped", dropped);
    }
}

/// How much is recorded.
#[derive(Clone, Copy, Debug, Default, clap::ValueEnum)]
pub(crate) enum Level {
    /// What changes hands: regions, steals, sleeps and wakes
    #[default]
    Phase,
    /// Every fork and task as well
    Tasks,
}
