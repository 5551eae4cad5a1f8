//! Runs work on one thread and on all of them, in turn, several times, and holds the results against each other.

use std::thread;
use std::time::{Duration, Instant};

use raddle::trace::{Phases, Trace, TraceLevel};
use raddle::{Pool, Worker};
use serde_json::{Map, Value};

use crate::args::Common;
use crate::error::Error;
use crate::files::Files;
use crate::machine::{BUSY, Watch};
use crate::progress::Progress;
use crate::report::{Report, count, duration, micros};
use crate::trace::Recording;

/// How often work is done unless the user says otherwise ..
const RUNS: usize = 5;
/// .. as long as no more than this has passed when a run would begin.
const PATIENCE: Duration = Duration::from_secs(10);
/// A time of which the greater part may be how long a pool's threads take to start.
const SHORT: f64 = 1e-3;

/// What came out, and how long it took.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    threads: usize,
    /// Where else than on threads of this process.
    plan: Option<String>,
    /// The seconds of each run.
    all: Vec<f64>,
    one: Vec<f64>,
    /// How many processors other programs used meanwhile.
    others: Option<f64>,
    phases: Option<Phases>,
    recorded: Option<(Recording, Trace)>,
}

/// How a workload is to be run.
#[derive(Debug)]
pub(crate) struct Setup {
    threads: usize,
    /// None: [`RUNS`], or fewer.
    runs: Option<usize>,
    recording: Option<Recording>,
}

impl Setup {
    pub(crate) fn new(common: &Common, files: &Files) -> Result<Setup, Error> {
        let threads = threads(common.threads)?;
        common.check_retries()?;
        if common.runs == Some(0) {
            return Err(Error::usage("--runs must be at least 1"));
        }
        let recording = Recording::prepare(common, files)?;
        Ok(Setup { threads, runs: common.runs, recording })
    }

    /// Whether another run is to follow so many.
    fn goes_on(&self, runs: usize, start: Instant) -> bool {
        match self.runs {
            Some(wanted) => runs < wanted,
            None => runs < RUNS && start.elapsed() < PATIENCE,
        }
    }
}

impl<T> Timed<T> {
    /// Adds the times to a report, and writes the trace, if there is to be one.
    pub(crate) fn tell(&self, report: &mut Report) {
        let (one, all) = (Spread::of(&self.one), Spread::of(&self.all));
        let speedup = one.median / all.median;
        report.told("seconds_one_thread", one.median, one.to_string());
        let threads = match &self.plan {
            None => count(self.threads, "thread"),
            Some(plan) => plan.clone(),
        };
        report.told("seconds", all.median, format!("{all} on {threads}"));
        report.told("speedup", speedup, speedup_in_words(&self.one, &self.all));
        report.datum("threads", self.threads);
        if let Some(plan) = &self.plan {
            report.datum("plan", plan.as_str());
        }
        report.datum("runs", self.all.len());
        report.datum("seconds_one_thread_of_each_run", self.one.clone());
        report.datum("seconds_of_each_run", self.all.clone());
        report.datum("processors_used_by_others", self.others);
        if self.all.len() > 1 {
            report.remark(format!(
                "medians of {} runs, with the fastest and the slowest",
                self.all.len()
            ));
        }
        if let Some(warning) = warning(self.others) {
            report.remark(warning);
        }
        if let Some((recording, trace)) = &self.recorded {
            if recording.level() == TraceLevel::Tasks {
                report.remark("all runs were recorded at level tasks, which makes forks slower");
            }
            recording.tell(trace, report);
        }
        if let Some(phases) = &self.phases {
            tell_phases(phases, self.threads, report);
        }
    }
}

/// What is to be said of other programs that used so many processors.
fn warning(others: Option<f64>) -> Option<String> {
    let others = others.filter(|others| *others >= BUSY)?;
    Some(format!("the machine is busy: other programs used {others:.1} processors meanwhile"))
}

/// How much faster it is on all threads, and between which speed-ups the runs lie.
fn speedup_in_words(one: &[f64], all: &[f64]) -> String {
    let (median_one, median_all) = (Spread::of(one).median, Spread::of(all).median);
    if median_one.max(median_all) < SHORT {
        return "too short to tell".into();
    }
    let speedup = median_one / median_all;
    let each: Vec<f64> = one.iter().zip(all).map(|(one, all)| one / all).collect();
    let Spread { least, most, count, .. } = Spread::of(&each);
    let range = if count > 1 { format!(" ({least:.2} to {most:.2})") } else { String::new() };
    format!("{speedup:.2}x{range}")
}

fn tell_phases(phases: &Phases, threads: usize, report: &mut Report) {
    let part = |index: usize| {
        let (name, time) = phases.parts()[index];
        format!("{name} {}", duration(time.as_secs_f64()))
    };
    report.told("phases", phases_json(phases), format!("{}, {}", part(0), part(1)));
    report.line("busy", busy(phases, threads));
    let mut rest = format!("{}, {}", part(3), part(4));
    if !phases.unattributed.is_zero() {
        rest = format!("{rest}, {}", part(5));
    }
    report.line("after_the_peak", rest);
}

/// How many threads were busy of as many as there were to be: on average, and the most of them. For a while there may be more, as
/// whoever has waited goes on at once, though another has its place.
fn busy(phases: &Phases, threads: usize) -> String {
    let (mut sum, mut all) = (0.0, 0.0);
    for (busy, time) in phases.levels.iter().map(Duration::as_secs_f64).enumerate() {
        sum += busy.min(threads) as f64 * time;
        all += time;
    }
    let average = if all > 0.0 { sum / all } else { 0.0 };
    let (peak, full) = (phases.peak, duration(phases.at_peak().as_secs_f64()));
    format!("{average:.2} of {}, {peak} at once for {full}", count(threads, "thread"))
}

/// A region's phases as programs read them: `ramp_up_us` and so on.
pub(crate) fn phases_json(phases: &Phases) -> Map<String, Value> {
    let parts = phases.parts().into_iter().chain([("total", phases.total)]);
    let key = |name: &str| format!("{}_us", name.replace([' ', '-'], "_"));
    let mut json: Map<String, Value> =
        parts.map(|(name, time)| (key(name), micros(time).into())).collect();
    json.insert("peak".into(), phases.peak.into());
    json.insert("width".into(), phases.width.into());
    json
}

/// The median of some times, and how far they lie apart.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Spread {
    least: f64,
    median: f64,
    most: f64,
    count: usize,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let count = sorted.len();
        let median = (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0;
        Spread { least: sorted[0], median, most: sorted[count - 1], count }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&duration(self.median))?;
        if self.count > 1 {
            write!(f, " ({} to {})", duration(self.least), duration(self.most))?;
        }
        Ok(())
    }
}

/// The threads a run is to use: all of the machine unless the user says otherwise.
pub(crate) fn threads(wanted: Option<usize>) -> Result<usize, Error> {
    match wanted {
        Some(0) => Err(Error::usage("--threads must be at least 1")),
        Some(threads) => Ok(threads),
        None => Ok(thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// A pool of that many threads.
pub(crate) fn pool(threads: usize) -> Result<Pool, Error> {
    recording_pool(threads, TraceLevel::Off, None)
}

/// A pool that records, into a file if one is wanted.
fn recording_pool(
    threads: usize,
    level: TraceLevel,
    recording: Option<&Recording>,
) -> Result<Pool, Error> {
    if recording.is_some() {
        // Whatever is in the file is gone once a pool records there: so first it is seen whether there can be one.
        drop(pool(threads)?);
    }
    let builder = Pool::builder().threads(threads).trace(level);
    let builder = match recording {
        Some(recording) => recording.prepare_pool(builder)?,
        None => builder.trace_capacity(((1 << 15) / threads.max(1)).max(4096)),
    };
    builder.build().map_err(|error| match error {
        raddle::PoolBuildError::Trace { .. } => Error::usage(error.to_string()),
        raddle::PoolBuildError::TraceMemory { .. } => {
            Error::usage(format!("--trace-room: {error}"))
        }
        error => Error::usage(format!("--threads {threads}: {error}")),
    })
}

/// Does the work on one thread and on `threads`, in turn, and insists that all results are the same.
///
/// With one thread there is nothing to compare with, and each run does the work once. `steps` is how often the work says
/// [`Progress::step`], if it can be known. What is recorded is the last run.
pub(crate) fn compare<T: Send>(
    setup: Setup,
    steps: Option<u64>,
    work: impl Fn(&Worker, &Progress) -> T + Sync,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Timed<T>, Error> {
    let threads = setup.threads;
    // For the phases that the report tells, level `Phase` costs next to nothing. What is compared is recorded alike, also
    // where only one of both is kept.
    let level = setup.recording.as_ref().map_or(TraceLevel::Phase, Recording::level);
    let timed = |threads: usize, keeps: bool| -> Result<(T, f64, Trace), Error> {
        let recording = setup.recording.as_ref().filter(|_| keeps);
        let pool = recording_pool(threads, level, recording)?;
        let what = count(threads, "thread");
        let progress = match steps {
            Some(steps) => Progress::bar(&what, steps),
            None => Progress::line(&what),
        };
        let start = Instant::now();
        let value = pool.run(|worker| work(worker, &progress));
        let seconds = start.elapsed().as_secs_f64();
        Ok((value, seconds, pool.trace()))
    };
    let agree = |a: &T, b: &T| match same(a, b) {
        true => Ok(()),
        false => Err(Error::failure(format!(
            "internal error: {threads} threads and 1 thread, or two runs, disagree"
        ))),
    };
    let (mut value, mut trace) = (None, None);
    let (mut one, mut all) = (Vec::new(), Vec::new());
    let (start, watch) = (Instant::now(), Watch::start());
    while setup.goes_on(all.len(), start) {
        let alone = threads == 1;
        let (found, seconds, recorded) = timed(1, alone)?;
        match &value {
            Some(first) => agree(first, &found)?,
            None => value = Some(found),
        }
        one.push(seconds);
        if alone {
            // There are no phases to tell of one thread.
            (trace, _) = (setup.recording.is_some().then_some(recorded), all.push(seconds));
            continue;
        }
        let (found, seconds, recorded) = timed(threads, true)?;
        value.iter().try_for_each(|first| agree(first, &found))?;
        all.push(seconds);
        trace = Some(recorded);
    }
    let others = watch.others();
    let longest = |trace: &Trace| trace.phases().into_iter().max_by_key(|region| region.total);
    let phases = trace.as_ref().and_then(longest);
    let recorded = setup.recording.zip(trace);
    let value = value.expect("there is at least one run");
    Ok(Timed { value, threads, plan: None, all, one, others, phases, recorded })
}

/// Does the work on one thread here, then elsewhere, and insists that the results are the same.
pub(crate) fn compare_far<T: Send>(
    plan: String,
    workers: usize,
    steps: Option<u64>,
    work: impl Fn(&Worker, &Progress) -> T + Sync,
    far: impl FnOnce(&Worker) -> Result<T, Error> + Send,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Timed<T>, Error> {
    let pool = pool(1)?;
    let watch = Watch::start();
    let start = Instant::now();
    let here = pool.run(|worker| {
        let what = count(1, "thread");
        let progress = match steps {
            Some(steps) => Progress::bar(&what, steps),
            None => Progress::line(&what),
        };
        work(worker, &progress)
    });
    let one = vec![start.elapsed().as_secs_f64()];
    let others = watch.others();
    let start = Instant::now();
    let value = pool.run(far)?;
    let all = vec![start.elapsed().as_secs_f64()];
    if !same(&here, &value) {
        let message = format!("internal error: {plan} and 1 thread disagree");
        return Err(Error::failure(message));
    }
    let (phases, recorded) = (None, None);
    Ok(Timed { value, threads: workers, plan: Some(plan), all, one, others, phases, recorded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    fn setup(threads: usize, runs: Option<usize>) -> Setup {
        Setup { threads, runs, recording: None }
    }

    #[test]
    fn each_run_is_on_one_thread_and_on_all() {
        for (threads, runs, calls) in
            [(1, Some(1), 1), (2, Some(1), 2), (2, Some(3), 6), (2, None, 10)]
        {
            let counted = AtomicUsize::new(0);
            let work = |_: &Worker, _: &Progress| {
                counted.fetch_add(1, Ordering::Relaxed);
                7
            };
            let timed = compare(setup(threads, runs), None, work, |a, b| a == b).unwrap();
            assert_eq!((timed.value, counted.into_inner()), (7, calls));
            assert_eq!((timed.one.len(), timed.all.len()), (runs.unwrap_or(5), runs.unwrap_or(5)));
        }
    }

    /// A caller and two of the pool's, of which the last one comes while another waits, and is still at work when that goes on.
    #[test]
    fn as_many_are_busy_as_there_are_threads() {
        use raddle::trace::{ClockPair, Event, EventKind::*, Lane};
        let at = |micros: u64| ClockPair { tsc: micros, nanos: 1000 * micros };
        let mut trace = Trace::new(at(0), at(1000));
        trace.threads = 2;
        let caller = [(0, Submit), (0, Exec), (300, Wait), (400, Waited), (1000, Executed)];
        for (task, events) in [
            (1, &caller[..]),
            (2, &[(200, Exec), (900, Executed)]),
            (3, &[(300, Exec), (800, Executed)]),
        ] {
            let events = events.iter().map(|&(tsc, kind)| Event::new(tsc, kind, task));
            trace.lanes.push(Lane::new("", events.collect()));
        }
        let region = &trace.phases()[0];
        assert_eq!((region.width, format!("{:.2}", region.average())), (3, "2.10".into()));
        // One for 200 and for 100 us, two or more for 700.
        assert_eq!(busy(region, 2), "1.70 of 2 threads, 2 at once for 700 us");
    }

    #[test]
    fn results_that_differ_are_an_error() {
        let calls = AtomicUsize::new(0);
        let work = |_: &Worker, _: &Progress| calls.fetch_add(1, Ordering::Relaxed);
        let error = compare(setup(2, Some(1)), None, work, |a, b| a == b).unwrap_err();
        assert!(error.to_string().contains("internal error"), "{error}");
    }

    #[test]
    fn a_speedup_is_told_of_what_takes_its_time() {
        assert_eq!(speedup_in_words(&[0.3, 0.2, 0.1], &[0.1; 3]), "2.00x (1.00 to 3.00)");
        assert_eq!(speedup_in_words(&[0.003], &[0.0005]), "6.00x");
        assert_eq!(speedup_in_words(&[0.0005], &[0.05]), "0.01x");
        assert_eq!(speedup_in_words(&[0.0004, 0.0005], &[0.0001; 2]), "too short to tell");
    }

    #[test]
    fn a_busy_machine_is_told_of() {
        let busy = "the machine is busy: other programs used 1.5 processors meanwhile";
        assert_eq!(warning(Some(1.5)).as_deref(), Some(busy));
        assert_eq!([Some(0.05), None].map(warning), [None, None]);
    }

    #[test]
    fn medians_and_what_lies_around_them() {
        let spread = Spread::of(&[0.003, 0.001, 0.010]);
        assert_eq!(spread.to_string(), "3.00 ms (1.00 ms to 10.0 ms)");
        assert_eq!(Spread::of(&[0.5]).to_string(), "500 ms");
        assert_eq!(Spread::of(&[1.0, 2.0]).median, 1.5);
    }
}
