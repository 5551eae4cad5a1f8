//! What recording costs, and what hand-offs do.

use super::build::Grain;
use super::label::WhatIf;
use super::simulate::Costs;
use crate::edges::Wakes;
use crate::event::EventKind;
use crate::states::State;
use crate::trace::{Lane, Trace};

/// What an event costs, where the recording does not say: nanoseconds.
const EVENT: f64 = 8.0;
/// A fork that is recorded costs more than its events: it leaves the fast path. At most so many events' worth.
const MOST_EVENTS: f64 = 4.0;
/// So many stretches between events are looked at.
const SAMPLE: usize = 1 << 18;
/// So many pieces forks become at least, if there are as many.
pub(super) const PIECES: f64 = 100_000.0;
/// What a steal and a wake cost where too few were recorded.
const STEAL: f64 = 1_000.0;
const WAKE: f64 = 20_000.0;
const ROUSE: f64 = 5_000.0;

/// What recording takes of each stretch between two events, in nanoseconds: the shortest stretches of a run with many
/// tasks are nothing else.
#[inline]
pub(super) fn of_an_event(trace: &Trace) -> f64 {
    let least = trace.fact("event_ns").and_then(|text| text.parse::<f64>().ok());
    let least = least.filter(|ns| ns.is_finite() && *ns >= 0.0);
    let Some(least) = least else {
        // Made by hand: a stretch is as long as it says.
        return 0.0;
    };
    let least = if least > 0.0 { least } else { EVENT };
    let of_task = |kind| matches!(kind, EventKind::Fork | EventKind::Exec | EventKind::Executed);
    let mut stretches: Vec<u64> = Vec::new();
    for lane in &trace.lanes {
        let pairs = lane.events.windows(2).filter(|pair| pair.iter().all(|e| of_task(e.kind)));
        let room = SAMPLE.saturating_sub(stretches.len());
        stretches.extend(pairs.take(room).map(|pair| pair[1].tsc.saturating_sub(pair[0].tsc)));
    }
    if stretches.len() < 1000 {
        return least;
    }
    let at = stretches.len() / 100;
    let (_, &mut short, _) = stretches.select_nth_unstable(at);
    (trace.span_of(short) as f64).clamp(least, MOST_EVENTS * least)
}

/// What hand-offs cost, and of which of both that was assumed.
pub(super) struct HandOffs {
    pub(super) costs: Costs,
    pub(super) steal_is_assumed: bool,
    pub(super) wake_is_assumed: bool,
}

/// What was measured of hand-offs, or what is usual.
#[inline]
pub(super) fn of_hand_offs(trace: &Trace) -> HandOffs {
    let mut steals = Vec::new();
    for lane in &trace.lanes {
        for pair in lane.events.windows(2) {
            if pair[1].kind == EventKind::Steal && pair[0].kind == EventKind::Ask {
                steals.push(trace.between(pair[0].tsc, pair[1].tsc));
            }
        }
    }
    steals.sort_unstable();
    let wakes = trace.wakes();
    let median = |times: &[u64], usual: f64, (least, most): (f64, f64)| {
        if is_too_few(times) {
            usual
        } else {
            (Wakes::median(times).as_nanos() as f64).clamp(least, most)
        }
    };
    let costs = Costs {
        steal: median(&steals, STEAL, (200.0, 20_000.0)),
        wake: median(&wakes.latency, WAKE, (1_000.0, 500_000.0)),
        rouse: median(&wakes.cost, ROUSE, (200.0, 100_000.0)),
    };
    let [steal_is_assumed, wake_is_assumed] =
        [&steals, &wakes.latency].map(|times| is_too_few(times));
    HandOffs { costs, steal_is_assumed, wake_is_assumed }
}

/// Whether these say less than what is usual.
#[inline]
fn is_too_few(times: &[u64]) -> bool {
    times.len() < 8
}

/// What becomes one piece: what is worth no hand-off; and forks that are so small a part of all that millions of them would take
/// more room than the recording.
#[inline]
pub(super) fn grain(trace: &Trace, steal: f64, supposed: &[WhatIf]) -> Grain {
    let tasks = 2.0 * steal;
    // So much shorter than it was all may be, if no more than one of them is of the same work.
    let shorter = supposed.iter().fold(1.0_f64, |least, what| least.min(what.factor));
    let executed = |lane: &Lane| trace.spent(lane)[State::Executing as usize] as f64;
    let executed = trace.lanes.iter().map(executed).sum::<f64>() * trace.tick();
    Grain { forks: tasks.max(executed * shorter / PIECES), tasks, steal }
}
