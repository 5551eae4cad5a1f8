//! A whole trace: the clock, and one list of events per thread.

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
}

impl Lane {
    /// A lane that lost nothing.
    pub fn new(name: impl Into<String>, events: Vec<Event>) -> Lane {
        Lane { name: name.into(), events, dropped: 0 }
    }
}

/// What was recorded between two moments.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Both clocks when recording began.
    pub start: ClockPair,
    /// Both clocks when it ended.
    pub end: ClockPair,
    /// One list of events per thread.
    pub lanes: Vec<Lane>,
}

impl Trace {
    /// A trace without lanes.
    pub fn new(start: ClockPair, end: ClockPair) -> Trace {
        Trace { start, end, lanes: Vec::new() }
    }

    /// How many events were lost on all lanes. Conclusions from a trace that lost some are conclusions
    /// about the rest.
    pub fn drops(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.dropped).sum()
    }

    /// The nanoseconds that go with a time stamp, on the line through the two clock pairs. Stamps
    /// before the start count as the start; if the pairs are no line, a tick is a nanosecond.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Trace};
    /// let trace = Trace::new(ClockPair { tsc: 0, nanos: 5 }, ClockPair { tsc: 300, nanos: 105 });
    /// assert_eq!(trace.nanos(150), 55);
    /// ```
    pub fn nanos(&self, tsc: u64) -> u64 {
        let ticks = u128::from(tsc.saturating_sub(self.start.tsc));
        let span_ticks = u128::from(self.end.tsc.saturating_sub(self.start.tsc));
        let span_nanos = u128::from(self.end.nanos.saturating_sub(self.start.nanos));
        let nanos = (ticks * span_nanos).checked_div(span_ticks).unwrap_or(ticks);
        self.start.nanos.saturating_add(u64::try_from(nanos).unwrap_or(u64::MAX))
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
    fn drops_add_up() {
        let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 1, nanos: 1 });
        assert_eq!(trace.drops(), 0);
        for dropped in [2, 40] {
            trace.lanes.push(Lane { dropped, ..Lane::new("worker", Vec::new()) });
        }
        assert_eq!(trace.drops(), 42);
    }
}
