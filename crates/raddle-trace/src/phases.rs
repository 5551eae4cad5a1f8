//! Where a region's time went: five phases and the rest.
//!
//! A region is what one `SUBMIT` starts; its task is the region's *root*. Six boundaries make the five
//! phases:
//!
//! | boundary | event | the phase that ends there |
//! |---|---|---|
//! | submit | the `SUBMIT` | |
//! | first exec | the root's first `EXEC` | first hand-off |
//! | peak begins | the first instant with as many active lanes as ever | ramp-up |
//! | peak ends | the last such instant | full parallelism |
//! | root done | the root's `RESOLVE`, else its last `EXECUTED` | catch-up |
//! | resumed | the submitter's `WAITED`, `JOINED` or `TOUCH_END` for the root | result hand-off |
//!
//! A lane is *active* while the innermost interval open on it is an `EXEC`. Whichever region its task
//! belongs to: where regions overlap, each sees the other's work as activity.

use crate::event::{Event, EventKind};
use crate::trace::{Lane, Trace};
use std::fmt;
use std::time::Duration;

/// The five phases of one region, what no phase accounts for, and how parallel it became.
///
/// The five and `unattributed` add up to `total`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The region's root task.
    pub task: u32,
    /// From the submission to the root's first execution.
    pub first_handoff: Duration,
    /// From there to the first instant at peak parallelism.
    pub ramp_up: Duration,
    /// From there to the last instant at peak parallelism.
    pub full_parallelism: Duration,
    /// From there until the root is done.
    pub catch_up: Duration,
    /// From there until the submitter goes on; zero if it does not wait.
    pub result_handoff: Duration,
    /// What is left because the events that would bound a phase are not in the trace.
    pub unattributed: Duration,
    /// From the submission until the submitter goes on; without that, until the root is done;
    /// without that, until the trace ends.
    pub total: Duration,
    /// The most lanes that were active at once.
    pub peak: usize,
    /// The lanes of the trace, the submitter's among them.
    pub lanes: usize,
    /// How many boundaries came out before the one they follow, clocks of processors being what they
    /// are, and were moved up to it.
    pub clamped: usize,
}

impl Trace {
    /// The phases of each region, in the order of submission. Costs a sort of all events,
    /// and a pass over them for each region.
    ///
    /// See the [crate] for an example.
    pub fn phases(&self) -> Vec<Phases> {
        let changes = activity(&self.lanes);
        let mut regions: Vec<(&Lane, &Event)> = self
            .lanes
            .iter()
            .flat_map(|lane| lane.events.iter().map(move |event| (lane, event)))
            .filter(|(_, event)| event.kind == EventKind::Submit)
            .collect();
        regions.sort_by_key(|(_, submit)| submit.tsc);
        regions.into_iter().map(|(lane, submit)| self.region(lane, submit, &changes)).collect()
    }

    fn region(&self, submitter: &Lane, submit: &Event, changes: &[(u64, i32)]) -> Phases {
        use EventKind::{Exec, Executed, Joined, Resolve, TouchEnd, Waited};
        let root = submit.task;
        let all = || self.lanes.iter().flat_map(|lane| &lane.events).filter(|e| e.task == root);
        let of = |kind| all().filter(move |e| e.kind == kind).map(|e| e.tsc);
        let mut clamped = 0;
        let mut not_before = |tsc: u64, bound: u64| {
            clamped += usize::from(tsc < bound);
            tsc.max(bound)
        };

        let first_exec = of(Exec).min().map(|tsc| not_before(tsc, submit.tsc));
        let done = of(Resolve).min().or_else(|| of(Executed).max());
        let done = done.map(|tsc| not_before(tsc, first_exec.unwrap_or(submit.tsc)));
        let resumed = submitter
            .events
            .iter()
            .find(|e| {
                e.task == root
                    && e.tsc >= submit.tsc
                    && matches!(e.kind, Waited | Joined | TouchEnd)
            })
            .map(|e| not_before(e.tsc, done.unwrap_or(submit.tsc)));
        let end = resumed.or(done).unwrap_or_else(|| self.end.tsc.max(submit.tsc));
        let window = (first_exec.unwrap_or(end), done.unwrap_or(end));
        let (peak, peak_begin, peak_end) = peak_within(changes, window);

        let between = |from: Option<u64>, to: Option<u64>| match (from, to) {
            (Some(from), Some(to)) => {
                Duration::from_nanos(self.nanos(to).saturating_sub(self.nanos(from)))
            }
            _ => Duration::ZERO,
        };
        let first_handoff = between(Some(submit.tsc), first_exec);
        let ramp_up = between(first_exec, peak_begin);
        let full_parallelism = between(peak_begin, peak_end);
        // Nothing was active, yet the root is done: all of it is catching up.
        let catch_up = between(peak_end.or(first_exec), done);
        let result_handoff = between(done, resumed);
        let total = between(Some(submit.tsc), Some(end));
        let attributed = first_handoff + ramp_up + full_parallelism + catch_up + result_handoff;
        Phases {
            task: root,
            first_handoff,
            ramp_up,
            full_parallelism,
            catch_up,
            result_handoff,
            unattributed: total.saturating_sub(attributed),
            total,
            peak,
            lanes: self.lanes.len(),
            clamped,
        }
    }
}

/// When a lane became active (+1) or stopped (-1), over all lanes, in order; at one instant the stops
/// come first, so that a hand-over from lane to lane does not count as both.
fn activity(lanes: &[Lane]) -> Vec<(u64, i32)> {
    let mut changes = Vec::new();
    for lane in lanes {
        let mut open: Vec<EventKind> = Vec::new();
        for event in &lane.events {
            let was_active = open.last() == Some(&EventKind::Exec);
            match event.kind {
                EventKind::Exec
                | EventKind::Join
                | EventKind::Wait
                | EventKind::Park
                | EventKind::TouchBegin => open.push(event.kind),
                kind => {
                    // An end without its beginning, which was lost, ends nothing; intervals inside it
                    // whose ends were lost end with it.
                    let begin = kind.opened_by();
                    if let Some(depth) = open.iter().rposition(|&k| Some(k) == begin) {
                        open.truncate(depth);
                    }
                }
            }
            let is_active = open.last() == Some(&EventKind::Exec);
            if is_active != was_active {
                changes.push((event.tsc, if is_active { 1 } else { -1 }));
            }
        }
    }
    changes.sort_unstable();
    changes
}

/// The most lanes active at once within `from..to`, and the first and last instant of that.
fn peak_within(
    changes: &[(u64, i32)],
    (from, to): (u64, u64),
) -> (usize, Option<u64>, Option<u64>) {
    let (mut peak, mut first, mut last) = (0, None, None);
    let mut active = 0;
    for (index, &(tsc, delta)) in changes.iter().enumerate() {
        active += delta;
        let begin = tsc.max(from);
        let end = changes.get(index + 1).map_or(to, |next| next.0).min(to);
        if begin < end && active > 0 && active >= peak {
            if active > peak {
                (peak, first) = (active, Some(begin));
            }
            last = Some(end);
        }
    }
    (usize::try_from(peak).unwrap_or(0), first, last)
}

impl fmt::Display for Phases {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, time) in [
            ("first hand-off", self.first_handoff),
            ("ramp-up", self.ramp_up),
            ("full parallelism", self.full_parallelism),
            ("catch-up", self.catch_up),
            ("result hand-off", self.result_handoff),
            ("unattributed", self.unattributed),
            ("total", self.total),
        ] {
            writeln!(f, "{name:<16} {:>12.1} us", time.as_nanos() as f64 / 1e3)?;
        }
        write!(f, "peak {} of {}", self.peak, self.lanes)?;
        if self.clamped > 0 {
            write!(f, ", {} boundaries clamped", self.clamped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
