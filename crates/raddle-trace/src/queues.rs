//! How long the workers' queues were.

use crate::event::{EventKind, Subject};
use crate::trace::Trace;

/// Lines of a trace with more events have at most so many points.
const MOST_EVENTS: usize = 1_000_000;
const POINTS: u64 = 200_000;

/// Of each lane: from when on its queue was how long. Lanes without forks and tasks have none: level
/// `Phase` does not record those. Of long traces the longest of each moment.
#[inline]
pub(crate) fn queues(trace: &Trace) -> Vec<Vec<(u64, u16)>> {
    let moment = match trace.len() {
        0..MOST_EVENTS => 0,
        _ => trace.end.tsc.saturating_sub(trace.start.tsc) / POINTS,
    };
    let mut lines: Vec<Line> = trace.lanes.iter().map(|_| Line::default()).collect();
    let mut stolen = vec![None; trace.lanes.len()];
    trace.in_order(|number, event| match event.kind {
        EventKind::Fork => {
            let line = &mut lines[number];
            let length = match event.length() {
                63 => line.now.unwrap_or(0).saturating_add(1).max(63),
                length => length.into(),
            };
            line.set(event.tsc, length, moment);
        }
        EventKind::Steal => {
            stolen[number] = Some(event.key());
            if let Some(victim) = lines.get_mut(usize::from(event.aux)) {
                victim.less(event.tsc, moment);
            }
        }
        EventKind::Exec
            if stolen[number].take() != Some(event.key())
                && matches!(event.subject(), Subject::Fork | Subject::Task) =>
        {
            lines[number].less(event.tsc, moment);
        }
        // Whoever sleeps, or has left, has nothing queued.
        EventKind::Park | EventKind::WorkerDie => lines[number].end(event.tsc),
        EventKind::Waited if event.subject() == Subject::Region => {
            lines[number].end(event.tsc);
        }
        _ => {}
    });
    lines.into_iter().map(|line| line.points).collect()
}

#[derive(Debug, Default)]
struct Line {
    points: Vec<(u64, u16)>,
    /// What it was before the first fork is not known.
    now: Option<u16>,
}

impl Line {
    #[inline]
    fn set(&mut self, tsc: u64, length: u16, moment: u64) {
        let before = self.now.replace(length);
        match self.points.last_mut() {
            Some(last) if tsc.saturating_sub(last.0) < moment => last.1 = last.1.max(length),
            _ if before == Some(length) => {}
            _ => self.points.push((tsc, length)),
        }
    }

    #[inline]
    fn less(&mut self, tsc: u64, moment: u64) {
        if let Some(now) = self.now {
            self.set(tsc, now.saturating_sub(1), moment);
        }
    }

    #[inline]
    fn end(&mut self, tsc: u64) {
        if self.now.is_some_and(|now| now > 0) {
            self.now = Some(0);
            match self.points.last() {
                Some(last) if tsc <= last.0 => {}
                _ => self.points.push((tsc, 0)),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind::*};
    use crate::trace::{ClockPair, Lane};

    #[test]
    fn forks_lengthen_a_queue_and_whoever_takes_them_shortens_it() {
        let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9 });
        let event = |tsc, kind, aux: u16, task| match kind {
            Fork => Event {
                tsc,
                kind,
                flags: Event::fork_flags(Subject::Fork, aux.into()),
                aux: 0,
                task,
            },
            _ => Event { tsc, kind, flags: Subject::Fork as u8, aux, task },
        };
        trace.lanes.push(Lane::new(
            "",
            vec![event(1, Fork, 1, 1), event(2, Fork, 2, 2), event(5, Exec, 0, 2)],
        ));
        trace.lanes.push(Lane::new("", vec![event(3, Steal, 0, 1), event(4, Exec, 0, 1)]));
        assert_eq!(queues(&trace), [vec![(1, 1), (2, 2), (3, 1), (5, 0)], vec![]]);
    }
}
