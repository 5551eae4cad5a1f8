//! How much of the time a lane had a processor.

use crate::event::EventKind;
use crate::states::{Follower, State};
use crate::trace::Lane;

/// A thread that had a processor for less of its time than this was preempted; what is above is the clock's
/// coarseness, and counts as all of it.
const ALL: f64 = 0.98;
/// Times between two samples that are shorter tell nothing.
const SHORT: f64 = 20_000.0;

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
            if let Some((thread, micros)) = last.filter(|last| last.0 == event.aux) {
                let had = f64::from(event.task.wrapping_sub(micros)) * 1e3;
                let part = if worked > SHORT { (had / worked).min(1.0) } else { 1.0 };
                parts.push((event.tsc, if part >= ALL { 1.0 } else { part }));
                let _ = thread;
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
