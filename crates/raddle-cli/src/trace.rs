//! `raddle trace`: shows what was recorded; and `--trace`, which records it.

use std::path::{Path, PathBuf};

use raddle::trace::{Damage, LoadError, Trace, TraceLevel};

use crate::args::TraceCommand;
use crate::error::{Error, reason};
use crate::output::Output;
use crate::report;

/// Shows a trace that lies in a file.
pub(crate) fn run(command: &TraceCommand) -> Result<(), Error> {
    let (shown, output, text): (_, _, fn(&Trace) -> String) = match command {
        TraceCommand::Summary(shown) => (shown, None, Trace::summary),
        TraceCommand::Html(drawn) => (&drawn.shown, Some(&drawn.output), Trace::html),
        TraceCommand::Chrome(drawn) => (&drawn.shown, Some(&drawn.output), Trace::chrome_json),
    };
    let output = output.map(|path| Output::prepare(path)).transpose()?;
    let (trace, damage) = load(&shown.file, shown.damaged)?;
    if let Some(damage) = damage {
        eprintln!("raddle: {}: {damage}; what comes before is shown", shown.file.display());
    }
    match output {
        None => report::print(&text(&trace)),
        Some(output) => output.write(|to| to.write_all(text(&trace).as_bytes())),
    }
}

fn load(file: &Path, damaged: bool) -> Result<(Trace, Option<Damage>), Error> {
    let loaded = if damaged {
        Trace::load_damaged(file)
    } else {
        Trace::load(file).map(|trace| (trace, None))
    };
    loaded.map_err(|error| match error {
        LoadError::Io(error) => Error::input(file, reason(&error)),
        LoadError::Damaged(_) if !damaged => {
            Error::input(file, format!("{error} (--damaged shows what comes before)"))
        }
        error => Error::input(file, error.to_string()),
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
    ) -> Result<Option<Recording>, Error> {
        let Some(path) = path else {
            return match level {
                None => Ok(None),
                Some(_) => Err(Error::usage("--trace-level needs --trace FILE")),
            };
        };
        if path.as_os_str() == "-" {
            return Err(Error::usage("--trace needs a file; standard output is for the report"));
        }
        let level = match level.unwrap_or_default() {
            Level::Phase => TraceLevel::Phase,
            Level::Tasks => TraceLevel::Tasks,
        };
        Ok(Some(Recording { output: Output::prepare(path)?, level }))
    }

    pub(crate) fn level(&self) -> TraceLevel {
        self.level
    }

    /// Writes what was recorded, and returns what the report says of it.
    pub(crate) fn write(self, trace: &Trace) -> Result<String, Error> {
        let name = self.output.name();
        self.output.write(|to| trace.write(to))?;
        Ok(format!("{name}, {} events, {} dropped", trace.len(), trace.drops()))
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
