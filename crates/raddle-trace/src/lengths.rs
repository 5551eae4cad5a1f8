//! How long tasks are.

use std::time::Duration;

use crate::event::{EventKind, Subject};
use crate::nest::{Keyed, Nest};
use crate::trace::Trace;

/// How long the recorded tasks ran, tasks that they ran while they waited included.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lengths {
    /// In ascending order, in nanoseconds.
    pub nanos: Vec<u64>,
    /// Tasks of which only one end is in the trace.
    pub cut: usize,
}

impl Lengths {
    /// How many tasks were shorter than each power of ten from 100 ns on, not counted before; the last
    /// one counts the rest.
    ///
    /// ```
    /// use raddle_trace::Lengths;
    /// let lengths = Lengths { nanos: vec![99, 100, 5_000], cut: 0 };
    /// assert_eq!(lengths.decades(), [1, 1, 1, 0, 0, 0]);
    /// ```
    #[inline]
    pub fn decades(&self) -> [usize; 6] {
        let mut decades = [0; 6];
        for &nanos in &self.nanos {
            let class = nanos.checked_ilog10().map_or(0, |log| log.saturating_sub(1).min(5));
            decades[class as usize] += 1;
        }
        decades
    }

    /// The median length.
    #[inline]
    pub fn median(&self) -> Duration {
        crate::Wakes::median(&self.nanos)
    }
}

/// A task that runs, and since when.
struct Running((Subject, u32), u64);

impl Keyed for Running {
    type Key = (Subject, u32);
    #[inline]
    fn key(&self) -> Self::Key {
        self.0
    }
}

impl Trace {
    /// How long tasks ran that came from others; at level [`Tasks`](crate::TraceLevel::Tasks) all of them.
    /// Regions' roots are not tasks.
    #[inline]
    pub fn lengths(&self) -> Lengths {
        let mut lengths = Lengths::default();
        let tick = self.tick();
        for lane in &self.lanes {
            let mut open: Nest<Running> = Nest::default();
            for event in &lane.events {
                match event.kind {
                    EventKind::Exec => open.push(Running(event.key(), event.tsc)),
                    EventKind::Executed => {
                        let Some(depth) = open.innermost(event.key()) else {
                            lengths.cut += 1;
                            continue;
                        };
                        lengths.cut += open.len() - depth - 1;
                        let since = open[depth].1;
                        open.truncate(depth);
                        if event.subject() != Subject::Region {
                            let ticks = event.tsc.saturating_sub(since) as f64;
                            lengths.nanos.push((ticks * tick).round() as u64);
                        }
                    }
                    _ => {}
                }
            }
            lengths.cut += open.len();
        }
        lengths.nanos.sort_unstable();
        lengths
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind::*, Subject};
    use crate::trace::{ClockPair, Lane};

    #[test]
    fn nested_tasks_count_for_themselves_and_roots_do_not() {
        let mut trace =
            Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 99, nanos: 990 });
        let root = |tsc, kind| Event { flags: Subject::Region as u8, ..Event::new(tsc, kind, 1) };
        let events = vec![
            Event::new(0, Executed, 5), // its beginning is lost
            root(1, Exec),
            Event::new(2, Exec, 1),
            Event::new(3, Exec, 2),
            Event::new(7, Executed, 2),
            Event::new(9, Executed, 1),
            Event::new(10, Exec, 3), // its end is lost
            root(20, Executed),
            Event::new(30, Exec, 4), // its end is yet to come
        ];
        trace.lanes.push(Lane::new("", events));
        assert_eq!(trace.lengths(), Lengths { nanos: vec![40, 70], cut: 3 });
        assert_eq!(trace.lengths().median(), Duration::from_nanos(70));
    }
}
