//! Hand-made traces with known answers. One tick is one nanosecond.

use super::*;
use crate::event::EventKind::*;
use crate::trace::ClockPair;

fn trace(lanes: &[&[(u64, EventKind, u32)]]) -> Trace {
    let mut trace =
        Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 1000, nanos: 1000 });
    for (number, events) in lanes.iter().enumerate() {
        let events = events.iter().map(|&(tsc, kind, task)| Event::new(tsc, kind, task)).collect();
        trace.lanes.push(Lane::new(format!("lane {number}"), events));
    }
    trace
}

/// The five phases, the rest, the total, the peak and the clamped boundaries, as numbers.
fn numbers(phases: &Phases) -> ([u128; 7], usize, usize) {
    let times = [
        phases.first_handoff,
        phases.ramp_up,
        phases.full_parallelism,
        phases.catch_up,
        phases.result_handoff,
        phases.unattributed,
        phases.total,
    ];
    (times.map(|time| time.as_nanos()), phases.peak, phases.clamped)
}

fn only(trace: &Trace) -> ([u128; 7], usize, usize) {
    let phases = trace.phases();
    assert_eq!(phases.len(), 1);
    numbers(&phases[0])
}

#[test]
fn a_region_of_the_wake_up_study() {
    // In its order of magnitude: 60 us of hand-off, 240 of ramp-up, 20, 15 and 10.
    let trace = trace(&[
        &[(0, Submit, 1), (345, Waited, 1)],
        &[(60, Exec, 1), (330, Wait, 1), (334, Waited, 1), (335, Executed, 1), (335, Resolve, 1)],
        &[(180, Exec, 2), (320, Executed, 2)],
        &[(300, Exec, 3), (325, Executed, 3)],
    ]);
    assert_eq!(only(&trace), ([60, 240, 20, 15, 10, 0, 345], 3, 0));
    let text = trace.phases()[0].to_string();
    assert!(text.contains("ramp-up                   0.2 us\n"), "{text}");
    assert!(text.ends_with("peak 3 of 4"), "{text}");
}

#[test]
fn full_parallelism_spans_dips() {
    let trace = trace(&[
        &[(10, Submit, 1), (10, Exec, 1), (90, Executed, 1), (95, Joined, 1)],
        &[(20, Exec, 2), (30, Executed, 2), (60, Exec, 3), (80, Executed, 3)],
    ]);
    assert_eq!(only(&trace), ([0, 10, 60, 10, 5, 0, 85], 2, 0));
}

#[test]
fn waiting_is_not_active_but_helping_is() {
    let trace = trace(&[
        &[
            (0, Submit, 1),
            (0, Exec, 1),
            (20, Join, 2),
            (20, Wait, 2),
            (40, Exec, 3), // helps while it waits
            (60, Executed, 3),
            (70, Waited, 2),
            (70, Joined, 2),
            (100, Executed, 1),
        ],
        &[(30, Exec, 2), (70, Executed, 2)],
    ]);
    // Both are active from 40 to 60 only; at 70 one stops as the other goes on.
    assert_eq!(only(&trace), ([0, 40, 20, 40, 0, 0, 100], 2, 0));
}

#[test]
fn clocks_that_disagree_are_clamped_and_counted() {
    let trace = trace(&[
        &[(50, Submit, 1), (80, TouchEnd, 1)],
        &[(40, Exec, 1), (90, Executed, 1), (90, Resolve, 1)],
    ]);
    assert_eq!(only(&trace), ([0, 0, 40, 0, 0, 0, 40], 1, 2));
}

#[test]
fn missing_events_leave_time_unattributed() {
    // The root never ran: killed, say, while it waited in the queue; the trace ends at 1000.
    assert_eq!(only(&trace(&[&[(100, Submit, 1)]])), ([0, 0, 0, 0, 0, 900, 900], 0, 0));
    // Its execution was lost, its result was not.
    let no_exec = trace(&[&[(100, Submit, 1), (300, Waited, 1)], &[(290, Resolve, 1)]]);
    assert_eq!(only(&no_exec), ([0, 0, 0, 0, 10, 190, 200], 0, 0));
    // Its end was lost: the peak is known, what follows it is not.
    let no_end = trace(&[
        &[(0, Submit, 1), (90, Waited, 1)],
        &[(10, Exec, 1), (60, Wait, 2)],
        &[(20, Exec, 2), (50, Executed, 2)],
    ]);
    assert_eq!(only(&no_end), ([10, 10, 30, 0, 0, 40, 90], 2, 0));
}

#[test]
fn ends_without_beginnings_end_nothing() {
    let trace = trace(&[&[
        (5, Executed, 9), // its beginning was overwritten
        (10, Submit, 1),
        (10, Exec, 1),
        (20, Wait, 2), // its end was overwritten
        (50, Executed, 1),
    ]]);
    assert_eq!(only(&trace), ([0, 0, 10, 30, 0, 0, 40], 1, 0));
}

#[test]
fn regions_come_in_the_order_of_submission() {
    let trace = trace(&[
        &[(300, Submit, 2), (310, Exec, 2), (320, Executed, 2)],
        &[(100, Submit, 1), (105, Exec, 1), (120, Executed, 1), (121, Waited, 1)],
    ]);
    let phases = trace.phases();
    assert_eq!(phases.iter().map(|p| p.task).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(numbers(&phases[0]), ([5, 0, 15, 0, 1, 0, 21], 1, 0));
    assert_eq!(numbers(&phases[1]), ([10, 0, 10, 0, 0, 0, 20], 1, 0));
    assert!(Trace::new(trace.start, trace.end).phases().is_empty());
}

#[test]
fn numbers_that_come_back_are_other_regions() {
    let trace = trace(&[
        &[(10, Submit, 1), (20, Waited, 1), (110, Submit, 1), (125, Waited, 1)],
        &[(12, Exec, 1), (18, Executed, 1), (113, Exec, 1), (121, Executed, 1)],
    ]);
    let phases = trace.phases();
    assert_eq!(phases.iter().map(|p| p.start.as_nanos()).collect::<Vec<_>>(), [10, 110]);
    assert_eq!(numbers(&phases[0]), ([2, 0, 6, 0, 2, 0, 10], 1, 0));
    assert_eq!(numbers(&phases[1]), ([3, 0, 8, 0, 4, 0, 15], 1, 0));
}
