//! Where a region's time went: five phases and the rest.
//!
//! A region is what one `SUBMIT` starts; its task is the region's *root*. Six boundaries make the five
//! phases:
//!
//! | boundary | event | the phase that ends there |
//! |---|---|---|
//! | submit | the `SUBMIT` | |
//! | first exec | the root's first `EXEC` | first hand-off |
//! | peak begins | the first instant with as many active lanes as the pool has threads, or as ever | ramp-up |
//! | peak ends | the last such instant | full parallelism |
//! | root done | the root's `RESOLVE`, else its last `EXECUTED` | catch-up |
//! | resumed | the submitter's `WAITED`, `JOINED` or `TOUCH_END` for the root | result hand-off |
//!
//! A lane is *active* while the innermost interval open on it is an `EXEC` ([`State::Executing`](crate::State::Executing)). Whichever region its task
//! belongs to: where regions overlap, each sees the other's work as activity.

use std::fmt;
use std::time::Duration;

use crate::activity::Activity;
use crate::event::Event;
use crate::trace::Trace;

/// The five phases of one region, what no phase accounts for, and how parallel it became.
///
/// The five and `unattributed` add up to `total`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Phases {
    /// The region's root task.
    pub task: u32,
    /// The region's name, if it was given one.
    pub name: Option<String>,
    /// The lane that submitted it.
    pub lane: usize,
    /// When it was submitted, from the start of the trace.
    pub start: Duration,
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
    /// The most lanes that were active at once, or the pool's threads if that is less: guests may come in addition.
    pub peak: usize,
    /// How many could have been: [`Trace::width`].
    pub width: usize,
    /// For how long each number of lanes was active, from none up to the most. All together are the total. Where a trace has so
    /// many regions and lanes that these would fill the memory, the last one counts for larger numbers, too.
    pub levels: Vec<Duration>,
    /// For how long all lanes together were active.
    pub(crate) busy: Duration,
    /// For how long as many as the peak were, or more.
    pub(crate) at_peak: Duration,
    /// How many boundaries came out before the one they follow, clocks of processors being what they
    /// are, and were moved up to it.
    pub clamped: usize,
}

impl Phases {
    /// The five phases and the rest, with their names.
    #[inline]
    pub fn parts(&self) -> [(&'static str, Duration); 6] {
        [
            ("first hand-off", self.first_handoff),
            ("ramp-up", self.ramp_up),
            ("full parallelism", self.full_parallelism),
            ("catch-up", self.catch_up),
            ("result hand-off", self.result_handoff),
            ("unattributed", self.unattributed),
        ]
    }

    /// How many lanes were active on average.
    ///
    /// ```
    /// # use raddle_trace::{ClockPair, Event, EventKind::*, Lane, Trace};
    /// # let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 100, nanos: 100 });
    /// # let root = vec![Event::new(0, Submit, 1), Event::new(0, Exec, 1), Event::new(100, Executed, 1)];
    /// # trace.lanes = vec![Lane::new("", root), Lane::new("", vec![Event::new(40, Exec, 2), Event::new(90, Executed, 2)])];
    /// let region = &trace.phases()[0]; // one lane for all of 100 ns, another for 50
    /// assert_eq!(region.average(), 1.5);
    /// assert_eq!(region.at_peak().as_nanos(), 50);
    /// ```
    #[inline]
    pub fn average(&self) -> f64 {
        let all: f64 = self.levels.iter().map(Duration::as_secs_f64).sum();
        if all > 0.0 { self.busy.as_secs_f64() / all } else { 0.0 }
    }

    /// For how long as many lanes were active as the peak, or more: all such times together, not from the first to the last.
    #[inline]
    pub fn at_peak(&self) -> Duration {
        self.at_peak
    }
}

/// Where there is no room to tell more numbers of lanes apart.
const FEW: usize = 16;

/// What the trace says about one region.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Found {
    pub(crate) lane: usize,
    pub(crate) submit: Event,
    pub(crate) first_exec: Option<u64>,
    pub(crate) done: Option<u64>,
    pub(crate) resumed: Option<u64>,
}

impl Trace {
    /// The phases of each region, in the order of submission. Costs a sort of all events, and for each
    /// region a look at what changed while it ran.
    ///
    /// See the [crate] for an example.
    #[inline]
    pub fn phases(&self) -> Vec<Phases> {
        self.regions().collect()
    }

    #[inline]
    pub(crate) fn region(
        &self,
        found: Found,
        activity: &Activity,
        width: usize,
        room: usize,
        scratch: &mut Vec<u64>,
    ) -> Phases {
        let submit = found.submit.tsc;
        let mut clamped = 0;
        let mut not_before = |tsc: u64, bound: u64| {
            clamped += usize::from(tsc < bound);
            tsc.max(bound)
        };
        let first_exec = found.first_exec.map(|tsc| not_before(tsc, submit));
        let done = found.done.map(|tsc| not_before(tsc, first_exec.unwrap_or(submit)));
        let begun = done.or(first_exec).unwrap_or(submit);
        let resumed = found.resumed.map(|tsc| not_before(tsc, begun));
        let end = resumed.or(done).unwrap_or_else(|| self.end.tsc.max(begun));
        let window = (first_exec.unwrap_or(end), done.unwrap_or(end));
        let full = if self.threads > 0 { self.threads as usize } else { usize::MAX };
        let active = activity.within(window, full, scratch);
        let (peak, peak_begin, peak_end) = (active.peak, active.first, active.last);
        activity.ticks((submit, end), scratch);
        let ticks = &scratch[..];
        let spent = |ticks: u64| Duration::from_nanos(self.span_of(ticks));
        let most = ticks.iter().rposition(|&time| time > 0).unwrap_or(0).max(peak);
        let kept = if most < room { most } else { most.min(FEW) };
        let above = |from: usize| spent(ticks[from..=most].iter().sum());
        let below = ticks[..kept].iter().map(|&ticks| spent(ticks));
        let levels = below.chain([above(kept)]).collect();
        let at_peak = above(peak);
        let busy: u128 = ticks.iter().zip(0..).map(|(&time, lanes)| lanes * u128::from(time)).sum();
        let busy = spent(u64::try_from(busy).unwrap_or(u64::MAX));

        let [submit, end] = [submit, end].map(|tsc| self.nanos(tsc));
        let [first_exec, peak_begin, peak_end, done, resumed] =
            [first_exec, peak_begin, peak_end, done, resumed]
                .map(|tsc| tsc.map(|tsc| self.nanos(tsc)));
        let between = |from: Option<u64>, to: Option<u64>| match (from, to) {
            (Some(from), Some(to)) => Duration::from_nanos(to.saturating_sub(from)),
            _ => Duration::ZERO,
        };
        let first_handoff = between(Some(submit), first_exec);
        let ramp_up = between(first_exec, peak_begin);
        let full_parallelism = between(peak_begin, peak_end);
        // Nothing was active, yet the root is done: all of it is catching up.
        let catch_up = between(peak_end.or(first_exec), done);
        let result_handoff = between(done, resumed);
        let total = between(Some(submit), Some(end));
        let attributed = first_handoff + ramp_up + full_parallelism + catch_up + result_handoff;
        Phases {
            task: found.submit.task,
            name: self.name_of(&found.submit).map(str::to_owned),
            lane: found.lane,
            start: Duration::from_nanos(submit.saturating_sub(self.start.nanos)),
            first_handoff,
            ramp_up,
            full_parallelism,
            catch_up,
            result_handoff,
            unattributed: total.saturating_sub(attributed),
            total,
            peak,
            width,
            levels,
            busy,
            at_peak,
            clamped,
        }
    }
}

impl fmt::Display for Phases {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, time) in self.parts().into_iter().chain([("total", self.total)]) {
            writeln!(f, "{name:<16} {:>12.1} us", time.as_nanos() as f64 / 1e3)?;
        }
        write!(f, "{:.2} of {} on average, {} for", self.average(), self.width, self.peak)?;
        write!(f, " {:.1} us", self.at_peak().as_nanos() as f64 / 1e3)?;
        if self.clamped > 0 {
            write!(f, ", {} boundaries clamped", self.clamped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
