//! What to do about it.

use std::fmt;
use std::time::Duration;

use crate::edges::Wakes;
use crate::event::{Event, EventKind, Subject};
use crate::overview::Overview;
use crate::trace::{Lane, Trace};
use crate::workers::Times;

/// Something that the trace shows, and what follows from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Advice {
    /// What was seen, with its figures.
    pub finding: String,
    /// What would help.
    pub remedy: String,
}

impl fmt::Display for Advice {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.finding, self.remedy)
    }
}

/// A phase is worth a word from this part of all regions' time on.
const NOTEWORTHY: f64 = 0.25;
/// Parts of the time that are not accounted for, from this on.
const DOUBTFUL: f64 = 0.02;
/// A task that changes hands should be a few times as long as the steal costs, which is a microsecond.
const SHORT: Duration = Duration::from_micros(2);

impl Trace {
    /// What the trace suggests, the weightiest first. Nothing if all is well.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Trace};
    /// let trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 1, nanos: 1 });
    /// assert!(trace.advice()[0].to_string().starts_with("no region was recorded"));
    /// ```
    #[inline]
    pub fn advice(&self) -> Vec<Advice> {
        self.advice_from(&Overview::of(self), &self.workers(), &self.wakes())
    }

    /// The same, from what is known already.
    #[inline]
    pub(crate) fn advice_from(
        &self,
        regions: &Overview,
        workers: &[Times],
        wakes: &Wakes,
    ) -> Vec<Advice> {
        let mut advice = Vec::new();
        let mut say = |finding: String, remedy: &str| {
            advice.push(Advice { finding, remedy: remedy.into() });
        };
        if self.drops() > 0 {
            say(
                crate::summary::lost(self.drops()),
                "the figures are of the rest; record into a file while the pool runs (PoolBuilder::trace_to), or with \
                 more room (--trace-room, PoolBuilder::trace_capacity)",
            );
        }
        let total = regions.total;
        if total.is_zero() {
            let from_outside = |lane: &Lane| {
                let spawns = |e: &Event| e.kind == EventKind::Fork && e.subject() == Subject::Task;
                lane.events.iter().any(spawns)
                    && lane.events.iter().all(|e| e.kind != EventKind::Exec)
            };
            let ran =
                regions.count == 0 && self.drops() == 0 && self.lanes.iter().any(from_outside);
            let (why, remedy) = match ran {
                // There is no thread of the pool's whose time it would be.
                true => (
                    ", as tasks were spawned from outside",
                    "hand work over by Pool::run or a scope, or mark it with trace::region within a task",
                ),
                false => (
                    "",
                    "record while work is handed to the pool, or mark it there with trace::region",
                ),
            };
            say(format!("no region was recorded{why}"), remedy);
            advise_on_the_machine(workers, &mut advice);
            advise_on_steals(workers, &mut advice);
            return advice;
        }
        let parts = regions.parts.map(|sum| sum.as_secs_f64() / total.as_secs_f64());
        let [first_handoff, ramp_up, _, catch_up, result_handoff, unattributed] = parts;
        let percent = |part: f64| format!("{:.0} %", part * 100.0);
        let mean = total / u32::try_from(regions.count).unwrap_or(u32::MAX);
        let wake = Wakes::median(&wakes.latency);

        if first_handoff > NOTEWORTHY {
            say(
                format!("the first hand-off is {} of the regions' time", percent(first_handoff)),
                "submit less often and more at a time, or start regions from inside the pool",
            );
        }
        if ramp_up > NOTEWORTHY {
            let finding = format!("ramp-up is {} of the regions' time", percent(ramp_up));
            if mean < 8 * wake {
                say(
                    format!(
                        "{finding}, a wake takes {:.0} us and a region {:.0}",
                        us(wake),
                        us(mean)
                    ),
                    "tasks are too short, or start it from inside the pool, where workers are awake",
                );
            } else {
                say(finding, "fork earlier: what is forked first should be the largest");
            }
        }
        if catch_up > NOTEWORTHY {
            let lengths = self.lengths();
            let longest = lengths.nanos.last().copied().unwrap_or(0);
            say(
                format!(
                    "catch-up is {} of the regions' time, the longest task {:.0} us",
                    percent(catch_up),
                    longest as f64 / 1e3
                ),
                "the last tasks are too long: split them further, or fork the long ones first",
            );
        }
        if result_handoff > NOTEWORTHY {
            say(
                format!("the result's hand-off is {} of the time", percent(result_handoff)),
                "wait from inside the pool, or for more at a time",
            );
        }
        if unattributed > DOUBTFUL {
            say(
                format!("{} of the time is not accounted for", percent(unattributed)),
                "events that bound a phase are missing; record with more room",
            );
        }
        advise_on_the_machine(workers, &mut advice);
        self.advise_on_the_bound(regions, &mut advice);
        advise_on_steals(workers, &mut advice);
        advice
    }

    /// Why not all workers were busy.
    #[inline]
    fn advise_on_the_bound(&self, regions: &Overview, advice: &mut Vec<Advice>) {
        let (average, width) = (regions.average, regions.width);
        if width < 2 || average > 0.75 * width as f64 {
            return;
        }
        let finding = format!("{average:.2} of {width} workers were busy on average");
        let remedy = match self.scale(&[]) {
            Ok(scale) if scale.bound() < 1.5 * width as f64 => scale.verdict(),
            Ok(_) => "there is enough to do side by side, so look at the phases".into(),
            Err(_) => "fork more and earlier, or use fewer threads; a recording at level tasks says what bounds it \
                       (raddle trace scale)"
                .into(),
        };
        advice.push(Advice { finding, remedy });
    }
}

/// Executing is not running: threads may lack a processor, or sleep for a lock.
#[inline]
fn advise_on_the_machine(workers: &[Times], advice: &mut Vec<Advice>) {
    let sum = |of: fn(&Times) -> Duration| workers.iter().map(of).sum::<Duration>().as_secs_f64();
    let busy = sum(|worker| worker.busy);
    let lost = sum(|worker| worker.lost);
    if lost > 0.1 * busy {
        advice.push(Advice {
                finding: format!(
                    "for {:.0} % of the time that tasks ran their threads had no processor",
                    100.0 * lost / busy
                ),
                remedy: "something else used the machine, or tasks sleep; what sleeps belongs in `blocking()`".into(),
            });
    }
    let locked = sum(|worker| worker.locked);
    if locked > 0.1 * (busy + locked) {
        advice.push(Advice {
            finding: format!(
                "threads slept for locks for {:.0} us, and tasks ran for {:.0}",
                locked * 1e6,
                busy * 1e6
            ),
            remedy: "hold locks for shorter, or have one for each part of what they guard".into(),
        });
    }
}

#[inline]
fn advise_on_steals(workers: &[Times], advice: &mut Vec<Advice>) {
    let steals: u64 = workers.iter().map(|worker| worker.steals).sum();
    let busy: Duration = workers.iter().map(|worker| worker.busy).sum();
    let stealing: Duration = workers.iter().map(|w| w.stealing + w.spinning).sum();
    let per_steal = busy / u32::try_from(steals.max(1)).unwrap_or(u32::MAX);
    if steals >= 16 && per_steal < SHORT {
        advice.push(Advice {
            finding: format!("a steal for every {:.1} us of work", us(per_steal)),
            remedy: "what is forked first should be the larger part of the work".into(),
        });
    }
    if stealing > busy && steals > 0 {
        advice.push(Advice {
            finding: format!(
                "workers looked for work for {:.0} us and worked for {:.0}",
                us(stealing),
                us(busy)
            ),
            remedy: "use fewer threads, or hand over more work at a time".into(),
        });
    }
}
#[inline]
fn us(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind::*};
    use crate::trace::{ClockPair, Lane};

    fn advice(lanes: &[&[(u64, crate::EventKind, u32)]]) -> Vec<String> {
        let mut trace =
            Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 1000, nanos: 1_000_000 });
        for events in lanes {
            // All wakes are of lane 1.
            let event = |&(t, kind, task)| Event { aux: 1, ..Event::new(t, kind, task) };
            let events = events.iter().map(event).collect();
            trace.lanes.push(Lane::new("", events));
        }
        trace.advice().iter().map(Advice::to_string).collect()
    }

    #[test]
    fn a_slow_ramp_up_of_a_short_region() {
        let told = advice(&[
            &[(0, Submit, 1), (0, Exec, 1), (0, Unpark, 1), (100, Executed, 1), (100, Waited, 1)],
            &[(0, Park, 0), (60, Unparked, 0), (60, Exec, 2), (99, Executed, 2)],
        ]);
        assert_eq!(
            told[..1],
            [
                "ramp-up is 60 % of the regions' time, a wake takes 60 us and a region 100: tasks are too \
              short, or start it from inside the pool, where workers are awake"
            ]
        );
    }

    #[test]
    fn a_long_tail() {
        let told = advice(&[
            &[(0, Submit, 1), (0, Exec, 1), (100, Executed, 1), (100, Waited, 1)],
            &[(0, Exec, 2), (50, Executed, 2)],
        ]);
        assert!(told[0].starts_with("catch-up is 50 %"), "{told:?}");
    }

    #[test]
    fn all_is_well() {
        let told = advice(&[
            &[(0, Submit, 1), (0, Exec, 1), (100, Executed, 1), (100, Waited, 1)],
            &[(1, Exec, 2), (99, Executed, 2)],
        ]);
        assert_eq!(told, [""; 0]);
    }

    #[test]
    fn too_little_to_do() {
        let told = advice(&[
            &[(0, Submit, 1), (0, Exec, 1), (100, Executed, 1), (100, Waited, 1)],
            &[(1, Park, 2)],
        ]);
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("1.00 of 2 workers were busy on average: "), "{told:?}");
        assert!(told[0].contains("at most 1.0x"), "{told:?}");
    }
    /// The tasks of one lane, of 800 us: their thread has a processor for so many of them, and then sleeps for a lock for some.
    fn executing(with_processor: u32, locked: u64) -> Vec<String> {
        let pair = |micros| ClockPair { tsc: micros, nanos: 1000 * micros };
        let mut trace = Trace::new(pair(0), pair(800 + locked));
        let cpu = |tsc, tenths| Event { aux: 1, ..Event::new(tsc, Cpu, tenths) };
        trace.lanes.push(Lane::new(
            "",
            vec![
                Event::new(0, Submit, 1),
                Event::new(0, Exec, 1),
                cpu(0, 500),
                cpu(800, 500 + 10 * with_processor),
                Event::new(800, LockWait, 7),
                Event::new(800 + locked, LockHad, 7),
                cpu(800 + locked, 500 + 10 * with_processor),
                Event::new(800 + locked, Executed, 1),
            ],
        ));
        trace.threads = 1;
        trace.advice().iter().map(Advice::to_string).collect()
    }

    #[test]
    fn executing_is_not_running() {
        assert_eq!(executing(800, 0), [""; 0]);
        assert_eq!(executing(730, 80), [""; 0], "a tenth is nothing");
        assert_eq!(
            executing(200, 0),
            [
                "for 75 % of the time that tasks ran their threads had no processor: something else used the machine, \
                 or tasks sleep; what sleeps belongs in `blocking()`"
            ]
        );
        let told = executing(800, 200);
        assert_eq!(
            told,
            [
                "threads slept for locks for 200 us, and tasks ran for 800: hold locks for shorter, or have one for \
                 each part of what they guard"
            ]
        );
        assert_eq!(executing(200, 200).len(), 2);
    }
}
