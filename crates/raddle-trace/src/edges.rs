//! What led from one lane to another: steals, wakes and results.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::event::{Event, EventKind, Subject};
use crate::hash::Seeded;
use crate::trace::Trace;

/// Why something on one lane followed from something on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EdgeKind {
    /// A task was handed over from the lane that submitted or forked it to the one that ran it.
    Steal,
    /// A worker woke another.
    Wake,
    /// A task's end let the one go on that waited for it.
    Result,
}

impl EdgeKind {
    /// Its name in pictures.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            EdgeKind::Steal => "steal",
            EdgeKind::Wake => "wake",
            EdgeKind::Result => "result",
        }
    }
}

/// One step from lane to lane. `to` is never before `from`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Why.
    pub kind: EdgeKind,
    /// Lane and time stamp where it starts.
    pub from: (usize, u64),
    /// Lane and time stamp where it ends.
    pub to: (usize, u64),
    /// The end was stamped before the start, by another processor's clock, and was moved up to it.
    pub clamped: bool,
}

impl Edge {
    #[inline]
    fn new(kind: EdgeKind, from: (usize, u64), to: (usize, u64)) -> Edge {
        Edge { kind, from, to: (to.0, to.1.max(from.1)), clamped: to.1 < from.1 }
    }

    /// Its lanes, and the nanoseconds where it starts and ends, for programs that look for the slice in which a moment lies. A
    /// result starts in the task that has it: when that ends, another slice has begun.
    #[inline]
    pub(crate) fn ends(&self, trace: &Trace) -> [(usize, u64); 2] {
        let [mut from, to] = [self.from, self.to].map(|(lane, tsc)| (lane, trace.offset(tsc)));
        if self.kind == EdgeKind::Result {
            from.1 = from.1.saturating_sub(1);
        }
        [from, to]
    }
}

/// How far clocks of two processors may disagree before events stop being paired: a microsecond or so.
const SKEW: u64 = 5_000;

impl Trace {
    /// Steals, wakes and results that led from one lane to another, in no particular order. Costs a pass
    /// over all events and a search for each edge.
    #[inline]
    pub fn edges(&self) -> Vec<Edge> {
        let mut edges = Vec::new();
        self.each_edge(|edge| edges.push(edge));
        edges
    }

    /// Calls `each` with all of them, in their order.
    #[inline]
    pub(crate) fn each_edge(&self, mut each: impl FnMut(Edge)) {
        let index = Index::new(self);
        self.wake_edges(&index, |edge, _| each(edge));
        self.other_edges(&index, each);
    }

    /// Steals and results.
    #[inline]
    fn other_edges(&self, index: &Index, mut each: impl FnMut(Edge)) {
        for (number, lane) in self.lanes.iter().enumerate() {
            for (at, event) in lane.events.iter().enumerate() {
                match event.kind {
                    EventKind::Steal => {
                        // The task begins next; until then it was in the victim's hands.
                        let exec = lane.events[at..].iter().take(8);
                        let exec = exec.clone().find(|e| e.kind == EventKind::Exec);
                        let Some(exec) = exec else { continue };
                        let victim = usize::from(event.aux);
                        if victim != number && victim < self.lanes.len() {
                            let from = (victim, event.tsc);
                            each(Edge::new(EdgeKind::Steal, from, (number, exec.tsc)));
                        }
                    }
                    EventKind::Joined if event.subject() == Subject::Fork => {
                        if let Some(from) = index.executed(event).filter(|from| from.0 != number) {
                            each(Edge::new(EdgeKind::Result, from, (number, event.tsc)));
                        }
                    }
                    _ => {}
                }
            }
        }
    }

    /// How long wakes took, and what they cost who woke. Of several wakes of one sleeper only the first
    /// counts: the others find it awake, or on its way.
    #[inline]
    pub fn wakes(&self) -> Wakes {
        let index = Index::new(self);
        let mut wakes = Wakes::default();
        self.wake_edges(&index, |edge, cost| {
            wakes.latency.push(self.between(edge.from.1, edge.to.1));
            wakes.cost.push(cost);
            wakes.clamped += usize::from(edge.clamped);
        });
        self.other_edges(&index, |edge| wakes.clamped += usize::from(edge.clamped));
        wakes.latency.sort_unstable();
        wakes.cost.sort_unstable();
        wakes
    }

    /// Calls `each` with the wakes in the order of time, and what each cost.
    #[inline]
    fn wake_edges(&self, index: &Index, mut each: impl FnMut(Edge, u64)) {
        let mut unparks: Vec<(u64, u32, u32)> = Vec::new();
        for (lane, number) in self.lanes.iter().zip(0..=u32::MAX) {
            let of = lane.events.iter().zip(0..=u32::MAX);
            let of = of.filter(|(event, _)| event.kind == EventKind::Unpark);
            unparks.extend(of.map(|(event, at)| (event.tsc, number, at)));
        }
        unparks.sort_unstable();
        let mut last = HashMap::new();
        for (tsc, number, at) in unparks {
            let event = &self.lanes[number as usize].events[at as usize];
            let sleeper = usize::from(event.aux);
            let Some(woken) = index.woken(sleeper, tsc) else { continue };
            if last.insert(sleeper, woken) != Some(woken) {
                let edge = Edge::new(EdgeKind::Wake, (number as usize, tsc), (sleeper, woken));
                each(edge, self.between(tsc, tsc.saturating_add(u64::from(event.task))));
            }
        }
    }
}

/// How long wakes took, in nanoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wakes {
    /// From the wake's beginning until the sleeper ran, in ascending order.
    pub latency: Vec<u64>,
    /// How long the one who woke was busy with it, in ascending order.
    pub cost: Vec<u64>,
    /// Edges of any kind whose end was stamped before their start.
    pub clamped: usize,
}

impl Wakes {
    /// The median of ascending times.
    #[inline]
    pub fn median(times: &[u64]) -> Duration {
        Wakes::quantile(times, 0.5)
    }

    /// A quantile of ascending times: the nearest one; zero if there are none.
    #[inline]
    pub fn quantile(times: &[u64], part: f64) -> Duration {
        let last = times.len().saturating_sub(1);
        let index = (last as f64 * part.clamp(0.0, 1.0)).round() as usize;
        Duration::from_nanos(times.get(index).copied().unwrap_or(0))
    }
}

type Key = (Subject, u32);

/// Where to find what an edge ends with.
pub(crate) struct Index {
    /// Of each lane: when it woke up.
    woken: Vec<Vec<u64>>,
    /// When and where each stolen fork was done, in order.
    executed: Vec<(Key, u64, u32)>,
    skew: u64,
}

impl Index {
    #[inline]
    pub(crate) fn new(trace: &Trace) -> Index {
        let mut stolen = HashSet::with_hasher(Seeded::default());
        let mut woken = Vec::new();
        for lane in &trace.lanes {
            // Of forks: a task that was spawned is not waited for by its number.
            let is_stolen = |e: &&Event| (e.kind, e.subject()) == (EventKind::Steal, Subject::Fork);
            let of = lane.events.iter().filter(is_stolen);
            stolen.extend(of.map(Event::key));
            let of = lane.events.iter().filter(|e| e.kind == EventKind::Unparked);
            woken.push(of.map(|e| e.tsc).collect());
        }
        let is_end = |e: &&Event| e.kind == EventKind::Executed && stolen.contains(&e.key());
        let mut executed = Vec::with_capacity(stolen.len());
        for (lane, number) in trace.lanes.iter().zip(0..=u32::MAX).filter(|_| !stolen.is_empty()) {
            let of = lane.events.iter().filter(is_end);
            executed.extend(of.map(|event| (event.key(), event.tsc, number)));
        }
        executed.sort_unstable();
        let span = trace.end.nanos.saturating_sub(trace.start.nanos).max(1);
        let ticks = trace.end.tsc.saturating_sub(trace.start.tsc);
        let skew = u128::from(SKEW) * u128::from(ticks) / u128::from(span);
        Index { woken, executed, skew: u64::try_from(skew).unwrap_or(SKEW) }
    }

    /// When `lane` woke up after it was told to at `tsc`.
    #[inline]
    pub(crate) fn woken(&self, lane: usize, tsc: u64) -> Option<u64> {
        let times = self.woken.get(lane)?;
        let at = times.partition_point(|&t| t.saturating_add(self.skew) < tsc);
        times.get(at).copied()
    }

    /// Where and when the stolen fork was done that `event` waited for: the last time before it.
    #[inline]
    pub(crate) fn executed(&self, event: &Event) -> Option<(usize, u64)> {
        let latest = (event.key(), event.tsc.saturating_add(self.skew), u32::MAX);
        let after = self.executed.partition_point(|end| *end <= latest);
        let (_, tsc, lane) =
            *self.executed.get(after.checked_sub(1)?).filter(|end| end.0 == event.key())?;
        Some((lane as usize, tsc))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind::*;
    use crate::trace::{ClockPair, Lane};

    fn fork(tsc: u64, kind: EventKind, aux: u16) -> Event {
        Event { tsc, kind, flags: Subject::Fork as u8, aux, task: 9 }
    }

    #[test]
    fn a_steal_a_wake_and_a_result() {
        let mut trace =
            Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 100_000, nanos: 100_000 });
        let wake = Event { aux: 1, ..Event::new(1_000, Unpark, 700) };
        let again = Event { aux: 1, ..Event::new(2_000, Unpark, 30) };
        let joins = vec![wake, again, fork(60_000, Join, 0), fork(62_000, Joined, 0)];
        trace.lanes.push(Lane::new("a", joins));
        trace.lanes.push(Lane::new(
            "b",
            vec![
                Event::new(20_000, Unparked, 0),
                fork(30_000, Steal, 0),
                fork(31_000, Exec, 0),
                fork(62_500, Executed, 0), // stamped late
            ],
        ));
        let edge = |kind, from, to, clamped| Edge { kind, from, to, clamped };
        let expected = [
            edge(EdgeKind::Wake, (0, 1_000), (1, 20_000), false),
            edge(EdgeKind::Result, (1, 62_500), (0, 62_500), true),
            edge(EdgeKind::Steal, (0, 30_000), (1, 31_000), false),
        ];
        assert_eq!(trace.edges(), expected);
        let wakes = trace.wakes();
        assert_eq!((wakes.latency, wakes.cost, wakes.clamped), (vec![19_000], vec![700], 1));
    }

    #[test]
    fn quantiles_are_the_nearest_times() {
        assert_eq!(Wakes::median(&[]), Duration::ZERO);
        assert_eq!(Wakes::median(&[1, 5, 100]), Duration::from_nanos(5));
        assert_eq!(Wakes::quantile(&[1, 5, 100], 0.9), Duration::from_nanos(100));
    }
}
