//! `raddle trace`: shows what was recorded; and `--trace`, which records it.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use raddle::PoolBuilder;
use raddle::trace::{Change, Damage, Diff, LoadError, Scale, Trace, TraceLevel};
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use crate::args::{Common, DiffArgs, DrawnArgs, ScaleArgs, ShownArgs, TraceCommand};
use crate::error::{Error, one_line, reason};
use crate::files::{Files, outlives_standard_output};
use crate::input::is_standard;
use crate::output::Output;
use crate::report::{self, Report, count, micros};
use crate::timing::phases_json;

/// Shows a trace that lies in a file.
pub(crate) fn run(command: &TraceCommand, json: bool) -> Result<(), Error> {
    match command {
        TraceCommand::Summary(shown) => {
            let loaded = load(shown)?;
            if json {
                report::print_json(&Summary { file: &shown.file, loaded: &loaded })
            } else {
                report::print(&loaded.trace.summary())
            }
        }
        TraceCommand::Scale(args) => scale(args, json),
        TraceCommand::Doctor(shown) => {
            let Loaded { trace, damage } = load(shown)?;
            let found = trace.doctor();
            if json {
                tell(&json!({
                    "schema": "raddle-trace-doctor-1",
                    "findings": found.lines(),
                    "damage": damage.as_ref().map(ToString::to_string),
                }))
            } else {
                report::print(&found.to_string())
            }
        }
        TraceCommand::Diff(args) => diff(args, json),
        _ if json => Err(Error::usage(
            "--json is for `raddle trace summary`, `scale`, `diff` and `doctor`; chrome writes JSON anyway",
        )),
        TraceCommand::Html(drawn) => draw(drawn, |trace, to| trace.write_html(to)),
        TraceCommand::Chrome(drawn) => draw(drawn, |trace, to| trace.write_chrome_json(to)),
        TraceCommand::Perfetto(drawn) => draw(drawn, |trace, to| trace.write_perfetto(to)),
    }
}

fn tell(value: &Value) -> Result<(), Error> {
    report::print_json(value)
}

/// Written as it is made: it may be several times as large as the recording.
fn draw(
    drawn: &DrawnArgs,
    picture: impl FnOnce(&Trace, &mut dyn Write) -> io::Result<()>,
) -> Result<(), Error> {
    let files = Files::of(Some(&drawn.shown.file))?;
    let output = Output::prepare("the output", &drawn.output, &files)?;
    let Loaded { trace, .. } = load(&drawn.shown)?;
    output.write(|to| picture(&trace, to))
}

/// A trace, and what is wrong with its file, if that is shown all the same.
struct Loaded {
    trace: Trace,
    damage: Option<Damage>,
}

/// Reads a trace, of a file that is cut short what is there.
fn load(shown: &ShownArgs) -> Result<Loaded, Error> {
    let file = &shown.file;
    outlives_standard_output(file)?;
    let loaded = match is_standard(file) {
        true => Trace::read_damaged(io::stdin().lock()),
        false => Trace::load_damaged(file),
    };
    match loaded {
        Ok((_, Some(damage))) if !shown.damaged && !damage.cut => {
            Err(Error::input(file, format!("{damage} (--damaged shows what comes before)")))
        }
        Ok((mut trace, damage)) => {
            if let Some(damage) = &damage {
                // Whatever is said of it is said of a part.
                trace.facts.push(("damage".into(), damage.to_string()));
                let told = format!("{}: {damage}; what comes before is used", one_line(file));
                // Where standard error takes nothing there is no one to tell.
                _ = writeln!(io::stderr(), "raddle: {told}");
            }
            Ok(Loaded { trace, damage })
        }
        Err(LoadError::Io(error)) => Err(Error::input(file, reason(&error))),
        Err(error) => Err(Error::input(file, error.to_string())),
    }
}

/// One of several, for which one flag says whether damaged ones are used.
fn load_one(file: &Path, damaged: bool) -> Result<Trace, Error> {
    load(&ShownArgs { file: file.to_owned(), damaged }).map(|loaded| loaded.trace)
}

/// Of several files one may be standard input.
fn refuse_standard_twice<'a>(files: impl Iterator<Item = &'a PathBuf>) -> Result<(), Error> {
    match files.filter(|file| is_standard(file)).count() {
        0 | 1 => Ok(()),
        _ => Err(Error::usage("standard input can be read once")),
    }
}

fn scale(args: &ScaleArgs, json: bool) -> Result<(), Error> {
    let file = &args.shown.file;
    refuse_standard_twice(args.measured.iter().chain([file]))?;
    let refused = |file: &Path, why: raddle::trace::Refusal| Error::input(file, why.to_string());
    let Loaded { trace, .. } = load(&args.shown)?;
    let mut scale = trace.scale(&args.what_if).map_err(|why| refused(file, why))?;
    for more in &args.measured {
        let other = load_one(more, args.shown.damaged)?;
        if let Some(damage) = other.fact("damage") {
            scale.notes.push(format!("{} is damaged: {damage}", one_line(more)));
        }
        let other = other.scale(&[]).map_err(|why| refused(more, why))?;
        scale.measured.extend(other.measured);
    }
    if json { tell(&scaled(&scale)) } else { report::print(&scale.text()) }
}

fn scaled(scale: &Scale) -> Value {
    json!({
        "schema": "raddle-trace-scale-1",
        "work_us": micros(scale.work),
        "span_us": micros(scale.span),
        "burdened_span_us": micros(scale.burdened),
        "bound": scale.bound(),
        "steal_us": scale.costs.steal / 1e3,
        "steal_is_assumed": scale.steal_is_assumed,
        "wake_us": scale.costs.wake / 1e3,
        "wake_is_assumed": scale.wake_is_assumed,
        "verdict": scale.verdict(),
        "bound_by": scale.bound_by().name(),
        "with_processor": scale.with_processor,
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
            "on_span_us": micros(place.on_span),
            "work_us": micros(place.work),
            "bound_without": place.without,
        })).collect::<Vec<_>>(),
        "regions": scale.regions.iter().map(|region| json!({
            "name": region.name,
            "took_us": micros(region.took),
            "work_us": micros(region.work),
            "span_us": micros(region.span),
            "burdened_span_us": micros(region.burdened),
        })).collect::<Vec<_>>(),
        "what_if": scale.supposed.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "notes": scale.notes,
    })
}

/// What `trace summary` says, for programs. Regions may be too many to be kept.
struct Summary<'a> {
    file: &'a Path,
    loaded: &'a Loaded,
}

impl Serialize for Summary<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let Loaded { trace, damage } = self.loaded;
        let lanes = trace.lanes.iter().map(
            |lane| json!({ "name": lane.name, "events": lane.events.len(), "dropped": lane.dropped }),
        );
        let worker = |worker: &raddle::trace::Times| {
            json!({
                "name": trace.lanes[worker.lane].name,
                "busy_us": micros(worker.busy),
                "without_processor_us": micros(worker.lost),
                "stealing_us": micros(worker.stealing),
                "spinning_us": micros(worker.spinning),
                "waiting_us": micros(worker.waiting),
                "locked_us": micros(worker.locked),
                "parked_us": micros(worker.parked),
                "absent_us": micros(worker.absent),
                "tasks": worker.tasks,
                "steals": worker.steals,
                "wakes": worker.wakes,
            })
        };
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("schema", "raddle-trace-summary-1")?;
        map.serialize_entry("file", &self.file.display().to_string())?;
        map.serialize_entry("damage", &damage.as_ref().map(ToString::to_string))?;
        map.serialize_entry("events", &trace.len())?;
        map.serialize_entry("dropped", &trace.drops())?;
        map.serialize_entry("lanes", &lanes.collect::<Vec<_>>())?;
        map.serialize_entry("regions", &Regions(trace))?;
        map.serialize_entry("workers", &trace.workers().iter().map(worker).collect::<Vec<_>>())?;
        let advice = trace.advice();
        let advice = advice.iter().map(ToString::to_string);
        map.serialize_entry("advice", &advice.collect::<Vec<_>>())?;
        map.end()
    }
}

struct Regions<'a>(&'a Trace);

impl Serialize for Regions<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.regions().map(|region| {
            let mut facts = Map::from_iter([
                ("name".to_owned(), json!(region.name)),
                ("task".to_owned(), json!(region.task)),
                ("lane".to_owned(), json!(region.lane)),
                ("start_us".to_owned(), json!(micros(region.start))),
                ("busy_average".to_owned(), json!(region.average())),
                (
                    "busy_for_us".to_owned(),
                    region.levels.iter().map(|&time| micros(time)).collect::<Vec<_>>().into(),
                ),
            ]);
            facts.extend(phases_json(&region));
            facts
        }))
    }
}

/// One recording is let go before the other is read: each may be large.
fn diff(args: &DiffArgs, json: bool) -> Result<(), Error> {
    refuse_standard_twice([&args.before, &args.after].into_iter())?;
    let profile = |file: &Path| {
        let trace = load_one(file, args.damaged)?;
        Ok::<_, Error>((trace.profile(), trace.fact("damage").map(str::to_owned)))
    };
    let (before, damage_before) = profile(&args.before)?;
    let (after, damage_after) = profile(&args.after)?;
    let diff = before.diff(&after);
    match json {
        true => tell(&differing(args, &diff, [damage_before, damage_after])),
        false => report::print(&diff.to_string()),
    }
}

/// What `trace diff` says, for programs: every row, of which people see the first ten.
fn differing(args: &DiffArgs, diff: &Diff, [before, after]: [Option<String>; 2]) -> Value {
    let rows = |changes: &[Change]| {
        let row = |change: &Change| {
            json!({
                "name": change.name,
                "before_us": micros(change.before),
                "after_us": micros(change.after),
                "more_us": change.more_nanos() as f64 / 1e3,
                "ratio": change.ratio(),
            })
        };
        changes.iter().map(row).collect::<Vec<_>>()
    };
    json!({
        "schema": "raddle-trace-diff-1",
        "before": args.before.display().to_string(),
        "after": args.after.display().to_string(),
        "damage": { "before": before, "after": after },
        "regions": rows(&diff.regions),
        "phases": rows(&diff.phases),
        "places": rows(&diff.places),
        "run": diff.run.as_ref().ok().map(|run| rows(run)),
        "not_compared": diff.run.as_ref().err().map(ToString::to_string),
    })
}

/// Where `--trace` writes, and how much it records.
#[derive(Debug)]
pub(crate) struct Recording {
    path: PathBuf,
    output: Output,
    level: TraceLevel,
    room: usize,
}

impl Recording {
    /// Finds out at the start whether the file can be written, and that it is no other file of the run.
    pub(crate) fn prepare(common: &Common, files: &Files) -> Result<Option<Recording>, Error> {
        let Some(path) = &common.trace else {
            return match (common.trace_level, common.trace_room) {
                (None, None) => Ok(None),
                (Some(_), _) => Err(Error::usage("--trace-level needs --trace FILE")),
                (None, Some(_)) => Err(Error::usage("--trace-room needs --trace FILE")),
            };
        };
        let standard = || Error::usage("--trace needs a file; standard output is for the report");
        if is_standard(path) {
            return Err(standard());
        }
        let level = match common.trace_level.unwrap_or_default() {
            Level::Phase => TraceLevel::Phase,
            Level::Tasks => TraceLevel::Tasks,
        };
        let output = Output::prepare("the trace", path, files)?;
        if output.is_stdout() {
            return Err(standard());
        }
        if common.trace_room == Some(0) {
            return Err(Error::usage("--trace-room must be at least 1"));
        }
        let room = common.trace_room.unwrap_or(1 << 16);
        Ok(Some(Recording { path: path.clone(), output, level, room }))
    }

    pub(crate) fn level(&self) -> TraceLevel {
        self.level
    }

    /// Has a pool record into the file while it runs, so that one which is killed leaves a trace. A device or a pipe is
    /// written when it has run.
    pub(crate) fn prepare_pool(&self, builder: PoolBuilder) -> Result<PoolBuilder, Error> {
        let builder = builder.trace_capacity(self.room);
        if !self.output.is_file() {
            return Ok(builder);
        }
        self.output.check_again()?;
        Ok(builder.trace_to(&self.path))
    }

    /// Whether all of it is in the file, to which the pool has written as long as there was room.
    fn check(&self) -> Result<(), Error> {
        let why = match Trace::load_damaged(&self.path) {
            Ok((_, None)) => return Ok(()),
            Ok((_, Some(damage))) => damage.to_string(),
            Err(error) => error.to_string(),
        };
        Err(Error::file_failure(&self.path, format!("cannot be written: {why}")))
    }

    /// Has the report say what was recorded.
    pub(crate) fn tell(&self, trace: &Trace, report: &mut Report) {
        let name = self.output.name();
        let (events, dropped) = (trace.len(), trace.drops());
        let written = match self.output.is_file() {
            true => self.check(),
            false => self.output.write(|to| trace.write(to)),
        };
        match written {
            Ok(()) => {
                let told = format!("{name}, {}, {dropped} dropped", count(events, "event"));
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
