//! How long the workers' queues were.

use crate::event::{EventKind, Subject};
use crate::trace::Trace;

enum Change {
    To(u16),
    More,
    Less,
}

/// Of each lane: from when on its queue was how long. Lanes without forks and tasks have none: level
/// `Phase` does not record those.
pub(crate) fn queues(trace: &Trace) -> Vec<Vec<(u64, u16)>> {
    let mut changes = Vec::new();
    for (number, lane) in trace.lanes.iter().enumerate() {
        let mut stolen = None;
        for event in &lane.events {
            match event.kind {
                EventKind::Fork => {
                    let length = event.length();
                    let change = if length < 63 { Change::To(length.into()) } else { Change::More };
                    changes.push((event.tsc, number, change));
                }
                EventKind::Steal => {
                    stolen = Some(event.key());
                    changes.push((event.tsc, usize::from(event.aux), Change::Less));
                }
                EventKind::Exec
                    if stolen.take() != Some(event.key()) && event.subject() == Subject::Fork =>
                {
                    changes.push((event.tsc, number, Change::Less));
                }
                _ => {}
            }
        }
    }
    changes.sort_by_key(|change| change.0);
    let mut queues = vec![Vec::<(u64, u16)>::new(); trace.lanes.len()];
    for (tsc, lane, change) in changes {
        let Some(queue) = queues.get_mut(lane) else { continue };
        let now = match (change, queue.last()) {
            (Change::To(length), _) => length,
            (Change::More, last) => last.map_or(0, |last| last.1).saturating_add(1).max(63),
            (Change::Less, Some(last)) => last.1.saturating_sub(1),
            // What was there before the first fork that was recorded is not known.
            (Change::Less, None) => continue,
        };
        queue.push((tsc, now));
    }
    queues
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
