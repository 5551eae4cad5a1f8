//! `raddle trace`: shows what was recorded; and `--trace`, which records it.

use std::fs;
use std::path::{Path, PathBuf};

use raddle::PoolBuilder;
use raddle::trace::{Damage, LoadError, Scale, Trace, TraceLevel};
use serde_json::{Value, json};

use crate::args::{Common, DiffArgs, DrawnArgs, ScaleArgs, ShownArgs, TraceCommand};
use crate::error::{Error, reason};
use crate::output::Output;
use crate::report;

/// Shows a trace that lies in a file.
pub(crate) fn run(command: &TraceCommand, json: bool) -> Result<(), Error> {
    match command {
        TraceCommand::Summary(shown) => {
            let trace = load(shown)?;
            if json { tell(&summary(&trace)) } else { report::print(&trace.summary()) }
        }
        TraceCommand::Scale(args) => scale(args, json),
        TraceCommand::Doctor(shown) => {
            let found = load(shown)?.doctor();
            if json {
                tell(&json!({ "findings": found.lines() }))
            } else {
                report::print(&found.to_string())
            }
        }
        TraceCommand::Diff(args) => diff(args),
        TraceCommand::Html(drawn) => draw(drawn, |trace| trace.html().into_bytes()),
        TraceCommand::Chrome(drawn) => draw(drawn, |trace| trace.chrome_json().into_bytes()),
        TraceCommand::Perfetto(drawn) => draw(drawn, Trace::perfetto),
    }
}

fn tell(value: &Value) -> Result<(), Error> {
    report::print(&format!("{value:#}\n"))
}

fn draw(drawn: &DrawnArgs, picture: impl FnOnce(&Trace) -> Vec<u8>) -> Result<(), Error> {
    let file = &drawn.shown.file;
    if is_same(file, &drawn.output) {
        return Err(Error::input(file, "is the trace itself: --output would destroy it"));
    }
    let output = Output::prepare(&drawn.output)?;
    let picture = picture(&load(&drawn.shown)?);
    output.write(|to| to.write_all(&picture))
}

/// Whether two paths lead to one file, also through links.
fn is_same(one: &Path, other: &Path) -> bool {
    let Ok((real, other_real)) =
        fs::canonicalize(one).and_then(|a| Ok((a, fs::canonicalize(other)?)))
    else {
        return one == other;
    };
    #[cfg(unix)]
    {
        use std::os::unix::fs::MetadataExt;
        let number = |path| fs::metadata(path).map(|found| (found.dev(), found.ino()));
        if let (Ok(a), Ok(b)) = (number(&real), number(&other_real)) {
            return a == b;
        }
    }
    real == other_real
}

/// Reads a trace, of a file that is cut short what is there.
fn load(shown: &ShownArgs) -> Result<Trace, Error> {
    let file = &shown.file;
    let refused = |damage: &Damage| {
        Error::input(file, format!("{damage} (--damaged shows what comes before)"))
    };
    match Trace::load_damaged(file) {
        Ok((trace, None)) => Ok(trace),
        Ok((_, Some(damage))) if !shown.damaged && !damage.cut => Err(refused(&damage)),
        Ok((trace, Some(damage))) => {
            eprintln!("raddle: {}: {damage}; what comes before is shown", file.display());
            Ok(trace)
        }
        Err(LoadError::Io(error)) => Err(Error::input(file, reason(&error))),
        Err(LoadError::Damaged(damage)) if !shown.damaged => Err(refused(&damage)),
        Err(error) => Err(Error::input(file, error.to_string())),
    }
}

fn load_whole(file: &Path) -> Result<Trace, Error> {
    load(&ShownArgs { file: file.to_owned(), damaged: false })
}

fn scale(args: &ScaleArgs, json: bool) -> Result<(), Error> {
    let file = &args.shown.file;
    let refused = |file: &Path, why: raddle::trace::Refusal| Error::input(file, why.to_string());
    let trace = load(&args.shown)?;
    let mut scale = trace.scale(&args.what_if).map_err(|why| refused(file, why))?;
    for more in &args.measured {
        let other = load_whole(more)?.scale(&[]).map_err(|why| refused(more, why))?;
        scale.measured.extend(other.measured);
    }
    if json { tell(&scaled(&scale)) } else { report::print(&scale.text()) }
}

fn scaled(scale: &Scale) -> Value {
    let us = |time: std::time::Duration| time.as_nanos() as f64 / 1e3;
    json!({
        "work_us": us(scale.work),
        "span_us": us(scale.span),
        "burdened_span_us": us(scale.burdened),
        "bound": scale.bound(),
        "steal_us": scale.costs.steal / 1e3,
        "wake_us": scale.costs.wake / 1e3,
        "verdict": scale.verdict(),
        "points": scale.points.iter().map(|point| json!({
            "processors": point.processors,
            "speedup": point.speedup,
            "least": point.least,
            "most": point.most,
        })).collect::<Vec<_>>(),
        "measured": scale.measured.iter().map(|measured| json!({
            "processors": measured.processors,
            "speedup": measured.speedup,
        })).collect::<Vec<_>>(),
        "places": scale.places.iter().map(|place| json!({
            "name": place.name,
            "on_span_us": us(place.on_span),
            "work_us": us(place.work),
            "bound_without": place.without,
        })).collect::<Vec<_>>(),
        "regions": scale.regions.iter().map(|region| json!({
            "name": region.name,
            "took_us": us(region.took),
            "work_us": us(region.work),
            "span_us": us(region.span),
        })).collect::<Vec<_>>(),
        "what_if": scale.supposed.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": scale.notes,
    })
}

fn summary(trace: &Trace) -> Value {
    let us = |time: std::time::Duration| time.as_nanos() as f64 / 1e3;
    json!({
        "events": trace.len(),
        "dropped": trace.drops(),
        "threads": trace.width(),
        "regions": trace.phases().iter().map(|region| json!({
            "name": region.name,
            "task": region.task,
            "start_us": us(region.start),
            "first_handoff_us": us(region.first_handoff),
            "ramp_up_us": us(region.ramp_up),
            "full_parallelism_us": us(region.full_parallelism),
            "catch_up_us": us(region.catch_up),
            "result_handoff_us": us(region.result_handoff),
            "unattributed_us": us(region.unattributed),
            "total_us": us(region.total),
            "busy_average": region.average(),
            "busy_most": region.peak,
            "busy_for_us": region.levels.iter().copied().map(us).collect::<Vec<_>>(),
        })).collect::<Vec<_>>(),
        "workers": trace.workers().iter().map(|worker| json!({
            "name": trace.lanes[worker.lane].name,
            "busy_us": us(worker.busy),
            "without_processor_us": us(worker.lost),
            "stealing_us": us(worker.stealing),
            "spinning_us": us(worker.spinning),
            "waiting_us": us(worker.waiting),
            "locked_us": us(worker.locked),
            "parked_us": us(worker.parked),
            "absent_us": us(worker.absent),
            "tasks": worker.tasks,
            "steals": worker.steals,
            "wakes": worker.wakes,
        })).collect::<Vec<_>>(),
        "advice": trace.advice().iter().map(ToString::to_string).collect::<Vec<_>>(),
    })
}

fn diff(args: &DiffArgs) -> Result<(), Error> {
    let (before, after) = (load_whole(&args.before)?, load_whole(&args.after)?);
    report::print(&before.diff(&after))
}

/// Where `--trace` writes, and how much it records.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    level: TraceLevel,
    room: usize,
}

impl Recording {
    /// Finds out at the start whether the file can be written.
    pub(crate) fn prepare(common: &Common) -> Result<Option<Recording>, Error> {
        let Some(path) = &common.trace else {
            return match (common.trace_level, common.trace_room) {
                (None, None) => Ok(None),
                (Some(_), _) => Err(Error::usage("--trace-level needs --trace FILE")),
                (None, Some(_)) => Err(Error::usage("--trace-room needs --trace FILE")),
            };
        };
        if path.as_os_str() == "-" {
            return Err(Error::usage("--trace needs a file; standard output is for the report"));
        }
        let level = match common.trace_level.unwrap_or_default() {
            Level::Phase => TraceLevel::Phase,
            Level::Tasks => TraceLevel::Tasks,
        };
        // Asked now; made when the run begins.
        drop(Output::prepare(path)?);
        Ok(Some(Recording {
            path: path.clone(),
            level,
            room: common.trace_room.unwrap_or(1 << 16),
        }))
    }

    pub(crate) fn level(&self) -> TraceLevel {
        self.level
    }

    /// Has a pool record into the file while it runs, so that one which is killed leaves a trace.
    pub(crate) fn prepare_pool(&self, builder: PoolBuilder) -> PoolBuilder {
        builder.trace_to(&self.path).trace_capacity(self.room)
    }

    /// What the report says of it.
    pub(crate) fn written(&self, trace: &Trace) -> String {
        format!("{}, {} events, {} dropped", self.path.display(), trace.len(), trace.drops())
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
