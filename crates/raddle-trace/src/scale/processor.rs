//! How much of the time a lane had a processor.

use crate::event::EventKind;
use crate::states::{Follower, State};
use crate::trace::Lane;

/// A thread that lacked a processor for less of its time, or for less than so many nanoseconds, did not: that is the
/// clock's coarseness.
const COARSE: (f64, f64) = (0.02, 1_500.0);

/// Until when a lane had which part of a processor.
#[derive(Debug, Default)]
pub(crate) struct Processor {
    parts: Vec<(u64, f64)>,
    at: usize,
}

impl Processor {
    pub(crate) fn of(lane: &Lane, tick: f64) -> Processor {
        let mut parts = Vec::new();
        let mut follower = Follower::new();
        // The thread of the last sample, its time, and how long it has worked since.
        let mut last: Option<(u16, u32)> = None;
        let (mut worked, mut since, mut state) = (0.0, 0, State::Absent);
        for event in &lane.events {
            let time = event.tsc.saturating_sub(since) as f64 * tick;
            if matches!(state, State::Executing | State::Joining) {
                worked += time;
            }
            since = event.tsc.max(since);
            follower.step(event);
            state = follower.state();
            if event.kind != EventKind::Cpu {
                continue;
            }
            if let Some((_, before)) = last.filter(|last| last.0 == event.aux) {
                let had = f64::from(event.task.wrapping_sub(before)) * 1e2;
                let lacked = worked - had;
                let is_lost = lacked > COARSE.1 && lacked > COARSE.0 * worked;
                parts.push((event.tsc, if is_lost { had / worked } else { 1.0 }));
            } else {
                parts.push((event.tsc, 1.0));
            }
            last = Some((event.aux, event.task));
            worked = 0.0;
        }
        Processor { parts, at: 0 }
    }

    /// The part at a time that is not before the last that was asked for.
    pub(crate) fn part(&mut self, tsc: u64) -> f64 {
        while self.parts.get(self.at).is_some_and(|part| part.0 < tsc) {
            self.at += 1;
        }
        self.parts.get(self.at).map_or(1.0, |part| part.1)
    }
}
