//! Recordings whose clock is a count of their events; for the tests of `compat/programs`, too.

use super::trace::{ClockPair, EventKind, Trace};

/// The recording of one thread as a machine would have made it that has nothing else to do, and on which all that is between
/// two events takes as long: a leaf in which the thread was stopped is as short as the others.
pub(crate) fn at_a_steady_pace(mut trace: Trace) -> Trace {
    for lane in &mut trace.lanes {
        lane.events.retain(|event| event.kind != EventKind::Cpu);
    }
    let mut events: Vec<_> = trace.lanes.iter_mut().flat_map(|lane| &mut lane.events).collect();
    events.sort_by_key(|event| event.tsc);
    let mut now = 0;
    for event in events {
        now += 1;
        event.tsc = now;
    }
    trace.start = ClockPair { tsc: 0, nanos: 0 };
    trace.end = ClockPair { tsc: now, nanos: 1000 * now };
    trace.facts.retain(|(name, _)| name != "event_ns");
    trace
}
