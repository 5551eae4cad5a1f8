//! How much of the time a lane had a processor.

use crate::event::{Event, EventKind};
use crate::states::{Follower, State};
use crate::trace::Lane;

/// A thread that lacked a processor for less of its time, or for less than so many nanoseconds, did not: that is the
/// clock's coarseness.
const COARSE: (f64, f64) = (0.02, 1_500.0);

/// After so many nanoseconds of processor time samples begin anew.
const AGAIN: f64 = 4_294_967_296.0 * 1e2;

/// Until when a lane had which part of a processor.
///
/// A sample is a call to the system, and that is where a thread often loses its processor: the event of the sample comes as late
/// as the thread goes on. So the time before it is told apart from that of the tasks before.
#[derive(Debug, Default)]
pub(crate) struct Processor {
    parts: Vec<Sample>,
    at: usize,
}

#[derive(Debug)]
struct Sample {
    tsc: u64,
    /// Of the time since the last sample.
    part: f64,
    /// Of the time since the last event.
    within: f64,
}

impl Processor {
    #[inline]
    pub(crate) fn of(lane: &Lane, tick: f64) -> Processor {
        let mut parts = Vec::new();
        let mut follower = Follower::new();
        // The thread of the last sample, its time, and how long it has worked since, and recorded.
        let mut last: Option<(u16, u32)> = None;
        let (mut worked, mut recorded, mut since, mut state) = (0.0, 0.0, 0, State::Absent);
        for event in &lane.events {
            let time = event.tsc.saturating_sub(since) as f64 * tick;
            let mut within = 0.0;
            if matches!(state, State::Executing | State::Joining) {
                match event.kind {
                    EventKind::Cpu => within = time,
                    EventKind::Save => recorded += time,
                    _ => worked += time,
                }
            }
            since = event.tsc.max(since);
            follower.step(event);
            state = follower.state();
            if event.kind != EventKind::Cpu {
                continue;
            }
            let mut sample = Sample { tsc: event.tsc, part: 1.0, within: 1.0 };
            if let Some((_, before)) = last.filter(|last| last.0 == event.aux) {
                let had = f64::from(event.task.wrapping_sub(before)) * 1e2;
                let all = worked + recorded + within;
                // A long task has had that much once, or as often more as there was time for.
                let times = ((all * (1.0 + COARSE.0) - had) / AGAIN).floor().max(0.0);
                let had = had + times * AGAIN;
                let lacked = all - had;
                if lacked > COARSE.1 && lacked > COARSE.0 * all {
                    // Whoever lacked a processor within the sample, or where a ring was saved, had it before.
                    let before = (lacked - within - recorded).max(0.0);
                    let part = |of: f64, lacked: f64| {
                        if of > 0.0 { (1.0 - lacked / of).clamp(0.0, 1.0) } else { 1.0 }
                    };
                    sample.part = part(worked, before);
                    sample.within = part(within, lacked);
                }
            }
            parts.push(sample);
            last = Some((event.aux, event.task));
            (worked, recorded) = (0.0, 0.0);
        }
        Processor { parts, at: 0 }
    }

    /// The part of the time between `event` and the one before it, which is not before the last that was asked for.
    #[inline]
    pub(crate) fn part(&mut self, event: &Event) -> f64 {
        while self.parts.get(self.at).is_some_and(|sample| sample.tsc < event.tsc) {
            self.at += 1;
        }
        match self.parts.get(self.at) {
            Some(sample) if event.kind == EventKind::Cpu => sample.within,
            Some(sample) => sample.part,
            None => 1.0,
        }
    }
}
