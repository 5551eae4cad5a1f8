//! Hand-made traces with known answers. One tick is one nanosecond.

use super::*;
use crate::event::EventKind::*;
use crate::event::{Event, EventKind};
use crate::trace::{ClockPair, Lane};

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
    assert!(text.ends_with("1.26 of 4 on average, 3 for 0.0 us"), "{text}");
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

#[test]
fn peaks_are_counted_for_as_long_as_they_last_and_not_from_the_first_to_the_last() {
    // Two at once for 10 at the beginning and for 10 at the end of 1000.
    let trace = trace(&[
        &[(0, Submit, 1), (0, Exec, 1), (1000, Executed, 1), (1000, Waited, 1)],
        &[(0, Exec, 2), (10, Executed, 2), (990, Exec, 3), (1000, Executed, 3)],
    ]);
    let region = &trace.phases()[0];
    assert_eq!(region.full_parallelism.as_nanos(), 1000, "the study's phase reaches over dips");
    assert_eq!(region.at_peak().as_nanos(), 20);
    assert_eq!(region.levels.iter().map(|l| l.as_nanos()).collect::<Vec<_>>(), [0, 980, 20]);
    assert!((region.average() - 1.02).abs() < 1e-9);
}

#[test]
fn fifty_thousand_nested_regions_take_no_more_than_their_number() {
    const DEPTH: u32 = 50_000;
    let region = |tsc: u64, kind, task| Event {
        flags: crate::Subject::Region as u8,
        ..Event::new(tsc, kind, task)
    };
    let mut events = vec![Event::new(0, Wait, 9), Event::new(0, Exec, 9)];
    for task in 0..DEPTH {
        let tsc = u64::from(task) * 2;
        events.extend([region(tsc, Submit, task), region(tsc, Exec, task)]);
    }
    for task in (0..DEPTH).rev() {
        let tsc = u64::from(4 * DEPTH - task);
        events.extend([region(tsc, Executed, task), region(tsc, Waited, task)]);
    }
    let mut trace = trace(&[]);
    trace.end = ClockPair { tsc: 4 * u64::from(DEPTH), nanos: 4 * u64::from(DEPTH) };
    trace.lanes.push(Lane::new("raddle-0", events));
    let start = std::time::Instant::now();
    assert_eq!(trace.phases().len(), DEPTH as usize);
    assert!(trace.summary().contains("50000 regions"));
    assert!(trace.scale(&[]).is_ok());
    // It was 44 s, and is 0.2 s; a machine may be very busy.
    assert!(start.elapsed() < std::time::Duration::from_secs(20), "{:?}", start.elapsed());
}

#[test]
fn a_guest_beyond_the_threads_counts_and_is_not_waited_for() {
    // Two threads from 100 to 900, and a guest of the pool's that works from 500 to 700 besides.
    let lanes: &[&[(u64, EventKind, u32)]] = &[
        &[(0, Submit, 1), (0, Exec, 1), (1000, Executed, 1), (1000, Waited, 1)],
        &[(100, Exec, 2), (900, Executed, 2)],
        &[(500, Submit, 3), (500, Exec, 3), (700, Executed, 3), (700, Waited, 3)],
    ];
    let guest = Trace { threads: 2, ..trace(lanes) };
    let region = &guest.phases()[0];
    assert_eq!(numbers(region), ([0, 100, 800, 100, 0, 0, 1000], 2, 0));
    assert_eq!((guest.width(), region.width, region.average()), (3, 3, 2.0));
    assert_eq!(region.at_peak().as_nanos(), 800);
    // Clocks of processors that disagree by a little make no third thread.
    let mut skewed = guest.clone();
    skewed.lanes[2].events = vec![Event::new(895, Exec, 3), Event::new(990, Executed, 3)];
    assert_eq!((skewed.width(), skewed.phases()[0].width), (2, 2));
}

/// Recording may be switched off in the midst of a region, which a thread notices when it has gone on.
#[test]
fn a_region_that_begins_after_the_trace_has_ended_takes_no_time_that_is_not_there() {
    let trace = trace(&[&[(990, Submit, 1), (1040, Exec, 1)]]);
    assert_eq!(only(&trace), ([50, 0, 0, 0, 0, 0, 50], 0, 0));
}
