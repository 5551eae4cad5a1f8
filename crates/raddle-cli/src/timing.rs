//! Runs work twice, on one thread and on all of them, and holds the results against each other.

use std::thread;
use std::time::{Duration, Instant};

use raddle::trace::{Phases, TraceLevel};
use raddle::{Pool, Worker};
use serde_json::{Map, Value};

use crate::args::Common;
use crate::error::Error;
use crate::progress::Progress;
use crate::report::{Report, count, duration};
use crate::trace::Recording;

/// What came out, and how long it took.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    threads: usize,
    /// Where else than on threads of this process.
    plan: Option<String>,
    seconds: f64,
    seconds_one_thread: f64,
    recorded: Recorded,
}

/// What a report says of the trace.
#[derive(Debug)]
struct Recorded {
    written: Option<String>,
    phases: Option<Phases>,
}

/// How a workload is to be run.
#[derive(Debug)]
pub(crate) struct Setup {
    threads: usize,
    recording: Option<Recording>,
}

impl Setup {
    pub(crate) fn new(common: &Common) -> Result<Setup, Error> {
        let recording = Recording::prepare(common.trace.as_ref(), common.trace_level)?;
        Ok(Setup { threads: threads(common.threads)?, recording })
    }
}

impl<T> Timed<T> {
    /// Adds the times to a report.
    pub(crate) fn tell(&self, report: &mut Report) {
        let speedup = self.seconds_one_thread / self.seconds;
        report.told(
            "seconds_one_thread",
            self.seconds_one_thread,
            duration(self.seconds_one_thread),
        );
        let place = match &self.plan {
            None => count(self.threads, "thread"),
            Some(plan) => plan.clone(),
        };
        let on = format!("{} on {place}", duration(self.seconds));
        report.told("seconds", self.seconds, on);
        report.told("speedup", speedup, format!("{speedup:.2}x"));
        report.datum("threads", self.threads);
        if let Some(plan) = &self.plan {
            report.datum("plan", plan.as_str());
        }
        let Recorded { written, phases } = &self.recorded;
        if let Some(written) = written {
            report.fact("trace", written.as_str());
        }
        if let Some(phases) = phases {
            let us = |time: Duration| time.as_nanos() as f64 / 1e3;
            let part = |index: usize| {
                let (name, time) = phases.parts()[index];
                format!("{name} {}", duration(time.as_secs_f64()))
            };
            let json: Map<String, Value> = phases
                .parts()
                .into_iter()
                .chain([("total", phases.total)])
                .map(|(name, time)| (format!("{name} us"), us(time).into()))
                .chain([("peak".to_owned(), phases.peak.into())])
                .collect();
            let (most, width) = (phases.peak, phases.width);
            report.told("phases", json, format!("{}, {}", part(0), part(1)));
            let full = duration(phases.full_parallelism.as_secs_f64());
            report.line("peak", format!("{most} of {width} workers at once, for {full}"));
            let mut rest = format!("{}, {}", part(3), part(4));
            if !phases.unattributed.is_zero() {
                rest = format!("{rest}, {}", part(5));
            }
            report.line("after_the_peak", rest);
        }
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
    recording_pool(threads, TraceLevel::Off, 0)
}

/// A pool that records so many events on all of its threads.
fn recording_pool(threads: usize, level: TraceLevel, events: usize) -> Result<Pool, Error> {
    let capacity = (events / threads.max(1)).max(4096);
    let builder = Pool::builder().threads(threads).trace(level).trace_capacity(capacity);
    builder.build().map_err(|error| Error::usage(format!("--threads {threads}: {error}")))
}

/// Does the work on one thread, then on `threads`, and insists that the results are the same.
///
/// With one thread there is nothing to compare with, and the work is done once. `steps` is how
/// often the work says [`Progress::step`], if it can be known.
pub(crate) fn compare<T: Send>(
    setup: Setup,
    steps: Option<u64>,
    work: impl Fn(&Worker, &Progress) -> T + Sync,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Timed<T>, Error> {
    let Setup { threads, recording } = setup;
    // For the phases that the report tells, level `Phase` costs next to nothing.
    let level = recording.as_ref().map_or(TraceLevel::Phase, Recording::level);
    let keeps = recording.is_some();
    let mut trace = None;
    let mut timed = |threads: usize, level: TraceLevel| -> Result<(T, f64), Error> {
        let pool = recording_pool(threads, level, if keeps { 1 << 20 } else { 1 << 15 })?;
        let what = count(threads, "thread");
        let progress = match steps {
            Some(steps) => Progress::bar(&what, steps),
            None => Progress::line(&what),
        };
        let start = Instant::now();
        let value = pool.run(|worker| work(worker, &progress));
        let seconds = start.elapsed().as_secs_f64();
        if level != TraceLevel::Off {
            trace = Some(pool.trace());
        }
        Ok((value, seconds))
    };
    let first = if threads == 1 && recording.is_some() { level } else { TraceLevel::Off };
    let (value, seconds_one_thread) = timed(1, first)?;
    let mut seconds = seconds_one_thread;
    if threads > 1 {
        let (other, time) = timed(threads, level)?;
        if !same(&value, &other) {
            let message = format!("internal error: {threads} threads and 1 thread disagree");
            return Err(Error::failure(message));
        }
        seconds = time;
    }
    let phases = trace
        .as_ref()
        .and_then(|trace| trace.phases().into_iter().max_by_key(|region| region.total));
    let written = match (recording, &trace) {
        (Some(recording), Some(trace)) => Some(recording.write(trace)?),
        _ => None,
    };
    let recorded = Recorded { written, phases };
    Ok(Timed { value, threads, plan: None, seconds, seconds_one_thread, recorded })
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
    let start = Instant::now();
    let here = pool.run(|worker| {
        let what = count(1, "thread");
        let progress = match steps {
            Some(steps) => Progress::bar(&what, steps),
            None => Progress::line(&what),
        };
        work(worker, &progress)
    });
    let seconds_one_thread = start.elapsed().as_secs_f64();
    let start = Instant::now();
    let value = pool.run(far)?;
    let seconds = start.elapsed().as_secs_f64();
    if !same(&here, &value) {
        let message = format!("internal error: {plan} and 1 thread disagree");
        return Err(Error::failure(message));
    }
    let recorded = Recorded { written: None, phases: None };
    Ok(Timed { value, threads: workers, plan: Some(plan), seconds, seconds_one_thread, recorded })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn runs_once_on_one_thread_and_twice_on_more() {
        for (threads, runs) in [(1, 1), (2, 2)] {
            let calls = AtomicUsize::new(0);
            let work = |_: &Worker, _: &Progress| {
                calls.fetch_add(1, Ordering::Relaxed);
                7
            };
            let timed =
                compare(Setup { threads, recording: None }, None, work, |a, b| a == b).unwrap();
            assert_eq!((timed.value, calls.into_inner()), (7, runs));
        }
    }

    #[test]
    fn results_that_differ_are_an_error() {
        let calls = AtomicUsize::new(0);
        let work = |_: &Worker, _: &Progress| calls.fetch_add(1, Ordering::Relaxed);
        let error =
            compare(Setup { threads: 2, recording: None }, None, work, |a, b| a == b).unwrap_err();
        assert!(error.to_string().contains("internal error"), "{error}");
    }
}
