//! How each worker spent its time.

use std::time::Duration;

use crate::event::EventKind;
use crate::scale::Processor;
use crate::states::{Follower, State};
use crate::trace::{Lane, Trace};

/// How one lane spent the time of a trace, and what it did how often.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Times {
    /// Which lane of the trace.
    pub lane: usize,
    /// Running tasks.
    pub busy: Duration,
    /// Getting work, or handing it over.
    pub stealing: Duration,
    /// Looking for work in vain.
    pub spinning: Duration,
    /// Awake, but waiting for a task that runs elsewhere.
    pub waiting: Duration,
    /// Asleep.
    pub parked: Duration,
    /// Not in the pool.
    pub absent: Duration,
    /// Of `busy`: without a processor, as far as it was recorded.
    pub lost: Duration,
    /// Asleep for locks, part of `waiting`.
    pub locked: Duration,
    /// Tasks and forks that began to run.
    pub tasks: u64,
    /// Tasks and forks taken from others.
    pub steals: u64,
    /// How often it fell asleep.
    pub parks: u64,
    /// How often it woke another.
    pub wakes: u64,
}

impl Trace {
    /// How each lane with events spent its time. The times of a lane add up to that of the trace.
    #[inline]
    pub fn workers(&self) -> Vec<Times> {
        let lanes = self.lanes.iter().enumerate().filter(|(_, lane)| lane.does_something());
        lanes.map(|(number, _)| self.times(number)).collect()
    }

    #[inline]
    fn times(&self, number: usize) -> Times {
        let lane = &self.lanes[number];
        let spent = self.spent(lane);
        let (lost, locked) = self.lost_and_locked(lane);
        let of = |state: State| Duration::from_nanos(self.span_of(spent[state as usize]));
        let mut counts = [0_u64; 256];
        lane.events.iter().for_each(|event| counts[event.kind as usize] += 1);
        let count = |kind: EventKind| counts[kind as usize];
        let busy = of(State::Executing);
        Times {
            lane: number,
            busy,
            stealing: of(State::Stealing),
            spinning: of(State::Spinning),
            waiting: of(State::Waiting) + of(State::Joining) + of(State::JoinWaiting),
            parked: of(State::Parked),
            absent: of(State::Absent),
            // What lies before the trace's start is no time of its.
            lost: lost.min(busy),
            locked,
            tasks: count(EventKind::Exec),
            steals: count(EventKind::Steal),
            parks: count(EventKind::Park),
            wakes: count(EventKind::Unpark),
        }
    }

    /// For how many ticks a lane was in each state.
    #[inline]
    pub(crate) fn spent(&self, lane: &Lane) -> [u64; State::ALL.len()] {
        let mut spent = [0_u64; State::ALL.len()];
        let (mut since, mut state) = (self.start.tsc, State::Absent);
        for segment in lane.segments() {
            // A stamp before the last one's counts as that.
            let from = segment.from.max(since);
            spent[state as usize] += from - since;
            (since, state) = (from, segment.state);
        }
        spent[state as usize] += self.end.tsc.saturating_sub(since);
        spent
    }

    #[inline]
    fn lost_and_locked(&self, lane: &Lane) -> (Duration, Duration) {
        let known = |kind| lane.events.iter().any(|event| event.kind == kind);
        if !known(EventKind::Cpu) && !known(EventKind::LockWait) {
            return (Duration::ZERO, Duration::ZERO);
        }
        let mut processor = Processor::of(lane, self.tick());
        let mut follower = Follower::new();
        let (mut lost, mut locked, mut since, mut asleep) = (0.0, 0, 0, 0);
        for event in &lane.events {
            if follower.state() == State::Executing {
                let ticks = event.tsc.saturating_sub(since) as f64;
                lost += ticks * (1.0 - processor.part(event));
            }
            follower.step(event);
            since = event.tsc.max(since);
            match event.kind {
                EventKind::LockWait => asleep = event.tsc,
                EventKind::LockHad if asleep > 0 => {
                    let time = self.between(std::mem::take(&mut asleep), event.tsc);
                    locked = u64::saturating_add(locked, time);
                }
                _ => {}
            }
        }
        (Duration::from_nanos((lost * self.tick()) as u64), Duration::from_nanos(locked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind::*};
    use crate::trace::ClockPair;

    #[test]
    fn a_lane_s_times_add_up_to_the_trace_s() {
        let mut trace =
            Trace::new(ClockPair { tsc: 100, nanos: 0 }, ClockPair { tsc: 1100, nanos: 2000 });
        let event = |tsc, kind| Event::new(tsc, kind, 1);
        trace.lanes.push(Lane::new("idle", Vec::new()));
        trace.lanes.push(Lane::new(
            "worker",
            vec![
                event(110, WorkerSpawn),
                event(120, Park),
                event(150, Unparked),
                event(160, Ask),
                event(165, Steal),
                event(170, Exec),
                event(200, Wait),
                event(190, Waited), // clocks that disagree
                event(300, Executed),
                event(310, Search),
            ],
        ));
        let times = trace.workers();
        assert_eq!(times.len(), 1);
        let Times { busy, stealing, spinning, waiting, parked, absent, .. } = times[0];
        let nanos = [busy, stealing, spinning, waiting, parked, absent].map(|t| t.as_nanos());
        assert_eq!(nanos, [260, 40, 1620, 0, 60, 20]);
        assert_eq!(nanos.iter().sum::<u128>(), 2000);
        let Times { lane, tasks, steals, parks, wakes, .. } = times[0];
        assert_eq!((lane, tasks, steals, parks, wakes), (1, 1, 1, 1, 0));
    }

    #[test]
    fn no_more_is_lost_than_there_was() {
        let clock = [1000, 2000].map(|tsc| ClockPair { tsc, nanos: 1_000 * tsc });
        let mut trace = Trace::new(clock[0], clock[1]);
        let cpu = |tsc| Event { aux: 1, ..Event::new(tsc, Cpu, 0) };
        // All of it before the start, by the clock.
        let events = vec![Event::new(0, Exec, 1), cpu(1), cpu(900), Event::new(901, Executed, 1)];
        trace.lanes.push(Lane::new("worker", events));
        let Times { busy, lost, .. } = trace.workers()[0];
        assert_eq!((busy, lost), (Duration::ZERO, Duration::ZERO));
        assert!(!trace.summary().contains("inf"), "{}", trace.summary());
    }
}
