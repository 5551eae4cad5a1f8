//! A whole trace: the clock, and one list of events per thread.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::activity::Activity;
use crate::event::Event;

/// One moment on two clocks: the ticks that events are stamped with, and nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockPair {
    /// Ticks of the clock that stamps events.
    pub tsc: u64,
    /// Nanoseconds since any fixed moment.
    pub nanos: u64,
}

/// The events of one thread: a worker, or a thread outside that submits to the pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lane {
    /// What to call it in tables and pictures.
    pub name: String,
    /// What happened there, in order.
    pub events: Vec<Event>,
    /// How many events were lost because the thread's buffer was full.
    pub dropped: u64,
    /// The number of the first event here, counted from the thread's first: those before it were
    /// overwritten.
    pub first: u64,
}

impl Lane {
    /// A lane that lost nothing.
    #[inline]
    pub fn new(name: impl Into<String>, events: Vec<Event>) -> Lane {
        Lane { name: name.into(), events, dropped: 0, first: 0 }
    }

    /// Whether there is more than that a pool began and ended, or samples.
    #[inline]
    pub(crate) fn does_something(&self) -> bool {
        use crate::EventKind::{Cpu, EnvBegin, EnvEnd, Strand};
        self.events.iter().any(|e| !matches!(e.kind, Cpu | EnvBegin | EnvEnd | Strand))
    }
}

/// How much a pool records.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum TraceLevel {
    /// Nothing.
    #[default]
    Off,
    /// Regions, steals, sleeps and wakes, and the tasks and forks that change hands. Nothing for a fork
    /// that nobody steals.
    Phase,
    /// Every fork and every task as well.
    Tasks,
}

/// What was recorded between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Both clocks when recording began.
    pub start: ClockPair,
    /// Both clocks when it ended.
    pub end: ClockPair,
    /// One list of events per thread. Events name workers by their place here.
    pub lanes: Vec<Lane>,
    /// How many threads may work at once; 0: not known.
    pub threads: u32,
    /// The names of regions: a `SUBMIT` with `aux` n is of name n - 1.
    pub names: Vec<String>,
    /// Places in the source, as `file:line:column`: an event with place n is of `places[n - 1]`.
    pub places: Vec<String>,
    /// What else is known of the recording, by name: `level` (`phase` or `tasks`), `event_ns` (what recording an event
    /// costs), `processors`; and `damage` (what is wrong with the file that this is a part of), which is in no file.
    pub facts: Vec<(String, String)>,
}

impl Trace {
    /// A trace without lanes.
    #[inline]
    pub fn new(start: ClockPair, end: ClockPair) -> Trace {
        Trace {
            start,
            end,
            lanes: Vec::new(),
            threads: 0,
            names: Vec::new(),
            places: Vec::new(),
            facts: Vec::new(),
        }
    }

    /// What is known of the recording by this name: see [`Trace::facts`]. Of several the last, as more may be known later.
    #[inline]
    pub fn fact(&self, name: &str) -> Option<&str> {
        self.facts.iter().rfind(|fact| fact.0 == name).map(|fact| fact.1.as_str())
    }

    /// How much was recorded. If the trace does not say, it is told by whether there are forks in it.
    #[inline]
    pub fn level(&self) -> TraceLevel {
        match self.fact("level") {
            Some("tasks") => TraceLevel::Tasks,
            Some(_) => TraceLevel::Phase,
            None => {
                let mut events = self.lanes.iter().flat_map(|lane| &lane.events);
                let forks = events.any(|e| e.kind == crate::EventKind::Fork);
                if forks { TraceLevel::Tasks } else { TraceLevel::Phase }
            }
        }
    }

    /// A place in the source by its number in events, without its column: `src/sort.rs:52`.
    #[inline]
    pub(crate) fn place(&self, number: u16) -> Option<&str> {
        let place = self.places.get(usize::from(number).checked_sub(1)?)?;
        Some(place.rsplit_once(':').map_or(place, |(line, _)| line))
    }

    /// How many threads could have worked at once: as many as the pool has, and more if guests, who work at once, found all
    /// of them at work; as there are lanes if that is not known.
    #[inline]
    pub fn width(&self) -> usize {
        let works = |lane: &&Lane| lane.events.iter().any(|e| e.kind == crate::EventKind::Exec);
        let threads = self.threads as usize;
        if threads > 0 && self.lanes.iter().filter(works).count() <= threads {
            return threads;
        }
        self.width_by(|| Activity::of(&self.lanes).width())
    }

    /// The same, where it is known how many did.
    #[inline]
    pub(crate) fn width_by(&self, did: impl FnOnce() -> usize) -> usize {
        match self.threads as usize {
            0 => self.lanes.len(),
            threads => threads.max(did()),
        }
    }

    /// How many events there are on all lanes.
    #[inline]
    pub fn len(&self) -> usize {
        self.lanes.iter().map(|lane| lane.events.len()).sum()
    }

    /// Whether there is no event on any lane.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.lanes.iter().all(|lane| lane.events.is_empty())
    }

    /// The name of the region that a `SUBMIT` begins, if it has one.
    #[inline]
    pub(crate) fn name_of(&self, submit: &Event) -> Option<&str> {
        let number = usize::from(submit.aux).checked_sub(1)?;
        self.names.get(number).map(String::as_str)
    }

    /// The time between two stamps; zero if they are the wrong way round.
    #[inline]
    pub(crate) fn between(&self, from: u64, to: u64) -> u64 {
        self.nanos(to).saturating_sub(self.nanos(from))
    }

    /// Calls `each` with all events in the order of time, and the number of each one's lane.
    #[inline]
    pub(crate) fn in_order(&self, mut each: impl FnMut(usize, &Event)) {
        let first = self.lanes.iter().enumerate();
        let first = first.filter_map(|(n, lane)| Some(Reverse((lane.events.first()?.tsc, n, 0))));
        let mut heap: BinaryHeap<Reverse<(u64, usize, usize)>> = first.collect();
        while let Some(Reverse((_, number, mut at))) = heap.pop() {
            let events = &self.lanes[number].events;
            let until = heap.peek().map_or(u64::MAX, |next| next.0.0);
            // As long as this lane's events are the next ones.
            loop {
                each(number, &events[at]);
                at += 1;
                match events.get(at) {
                    Some(next) if next.tsc <= until => {}
                    Some(next) => break heap.push(Reverse((next.tsc, number, at))),
                    None => break,
                }
            }
        }
    }

    /// The nanoseconds of one tick.
    #[inline]
    pub(crate) fn tick(&self) -> f64 {
        let ticks = self.end.tsc.saturating_sub(self.start.tsc);
        let nanos = self.end.nanos.saturating_sub(self.start.nanos);
        if ticks == 0 { 1.0 } else { nanos as f64 / ticks as f64 }
    }

    /// So many ticks in nanoseconds.
    #[inline]
    pub(crate) fn span_of(&self, ticks: u64) -> u64 {
        self.between(self.start.tsc, self.start.tsc.saturating_add(ticks))
    }

    /// Nanoseconds from the start of the trace.
    #[inline]
    pub(crate) fn offset(&self, tsc: u64) -> u64 {
        self.nanos(tsc).saturating_sub(self.start.nanos)
    }

    /// How many events were lost on all lanes. Conclusions from a trace that lost some are conclusions
    /// about the rest.
    #[inline]
    pub fn drops(&self) -> u64 {
        self.lanes.iter().fold(0, |sum, lane| sum.saturating_add(lane.dropped))
    }

    /// The nanoseconds that go with a time stamp, on the line through the two clock pairs. Stamps
    /// before the start count as the start; if the pairs are no line, a tick is a nanosecond.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Trace};
    /// let trace = Trace::new(ClockPair { tsc: 0, nanos: 5 }, ClockPair { tsc: 300, nanos: 105 });
    /// assert_eq!(trace.nanos(150), 55);
    /// ```
    #[inline]
    pub fn nanos(&self, tsc: u64) -> u64 {
        let ticks = tsc.saturating_sub(self.start.tsc);
        let span_ticks = self.end.tsc.saturating_sub(self.start.tsc);
        let span_nanos = self.end.nanos.saturating_sub(self.start.nanos);
        let nanos = match ticks.checked_mul(span_nanos) {
            // As a rule, and much faster.
            Some(product) => product.checked_div(span_ticks).unwrap_or(ticks),
            None => {
                let product = u128::from(ticks) * u128::from(span_nanos);
                let nanos = product.checked_div(span_ticks.into()).unwrap_or(ticks.into());
                u64::try_from(nanos).unwrap_or(u64::MAX)
            }
        };
        self.start.nanos.saturating_add(nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_a_line_through_the_clock_pairs() {
        let trace = Trace::new(
            ClockPair { tsc: 1 << 60, nanos: 1_000 },
            ClockPair { tsc: (1 << 60) + 3_000_000_000, nanos: 1_000_001_000 },
        );
        assert_eq!(trace.nanos(1 << 60), 1_000);
        assert_eq!(trace.nanos((1 << 60) + 3), 1_001);
        assert_eq!(trace.nanos((1 << 60) + 6_000_000_000), 2_000_001_000, "also past the end");
        assert_eq!(trace.nanos(0), 1_000, "clamped before the start");
        let flat = Trace::new(trace.start, trace.start);
        assert_eq!(flat.nanos((1 << 60) + 7), 1_007);
    }

    #[test]
    fn where_it_is_not_known_how_many_threads_there_are_each_lane_counts() {
        let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9 });
        trace.lanes = ["a", "b"].map(|name| Lane::new(name, Vec::new())).into();
        assert_eq!(trace.width(), 2);
        trace.lanes[0].events.push(Event::new(1, crate::EventKind::Exec, 1));
        assert_eq!(trace.width(), 2);
        trace.threads = 1;
        assert_eq!(trace.width(), 1);
    }

    #[test]
    fn drops_add_up() {
        let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 1, nanos: 1 });
        assert_eq!(trace.drops(), 0);
        for dropped in [2, 40] {
            trace.lanes.push(Lane { dropped, ..Lane::new("worker", Vec::new()) });
        }
        assert_eq!(trace.drops(), 42);
    }
}
