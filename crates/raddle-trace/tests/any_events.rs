//! Whatever events a file holds, they are analysed and shown, in time and memory that grow with their number.

use proptest::prelude::*;
use raddle_trace::EventKind::*;
use raddle_trace::{ClockPair, Event, EventKind, Lane, Subject, Trace, WhatIf};

fn trace(end: u64) -> Trace {
    let mut trace =
        Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: end, nanos: end.max(1) });
    trace.threads = 2;
    trace.names = vec!["sort".into()];
    trace.places = vec!["src/main.rs:10:5".into(), "src/sort.rs:52:9".into()];
    trace.facts = vec![("level".into(), "tasks".into())];
    trace
}

fn event(tsc: u64, kind: EventKind, subject: Subject, task: u32) -> Event {
    Event { flags: subject as u8, ..Event::new(tsc, kind, task) }
}

/// Everything that is told of a trace.
fn tell_all(trace: &Trace) {
    for region in trace.phases() {
        let sum: std::time::Duration = region.parts().iter().map(|part| part.1).sum();
        assert_eq!(sum, region.total);
    }
    _ = (trace.workers(), trace.wakes(), trace.lengths(), trace.advice());
    _ = (trace.summary(), trace.perfetto(), trace.doctor().to_string(), trace.time_by_name());
    let page = trace.html();
    let (_, data) = page.split_once("const DATA = ").unwrap();
    let (data, _) = data.split_once(";\n").unwrap();
    assert!(serde_json::from_str::<serde_json::Value>(data).is_ok(), "{data}");
    assert!(serde_json::from_str::<serde_json::Value>(&trace.chrome_json()).is_ok());
    for supposed in [vec![], vec![WhatIf::parse("sort=0.5").unwrap()]] {
        _ = trace.scale(&supposed).map(|scale| (scale.text(), scale.verdict()));
    }
    _ = trace.profile().diff(&trace.profile()).to_string();
}

/// Kinds that graphs are made of, more often than the others.
fn kind() -> impl Strategy<Value = EventKind> {
    let structure = [
        Submit, Fork, Exec, Executed, Join, Joined, Wait, Waited, Steal, TouchBegin, TouchEnd,
        Resolve, ScopeBegin, ScopeEnd, Member, LockWait, LockHad, Strand,
    ];
    prop_oneof![
        3 => prop::sample::select(structure.to_vec()),
        1 => prop::sample::select(EventKind::ALL.to_vec()),
    ]
}

fn subject() -> impl Strategy<Value = Subject> {
    prop::sample::select(vec![Subject::Any, Subject::Fork, Subject::Task, Subject::Region])
}

/// Moments of all sizes.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![
        2 => 0_u64..1_000,
        1 => any::<u64>(),
        1 => prop::sample::select(vec![0, 1, 1 << 32, 1 << 62, u64::MAX - 1, u64::MAX]),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(500) })]

    /// Of few tasks on few lanes, so that they meet: one is begun here and there, or ended where it has not begun.
    #[test]
    fn of_any_order(
        events in prop::collection::vec((0_usize..3, kind(), subject(), 0_u32..4, 0_u16..4, 0_u64..900), 0..60),
    ) {
        let mut trace = trace(90_000);
        trace.lanes = ["a", "b", "c"].map(|name| Lane::new(name, Vec::new())).into();
        let mut now = 0;
        for (lane, kind, subject, task, aux, step) in events {
            now += step;
            trace.lanes[lane].events.push(Event { aux, ..event(now, kind, subject, task) });
        }
        // So much good work that some that comes from nowhere is let pass.
        for task in 100..1_000 {
            now += 10;
            trace.lanes[0].events.push(event(now, Fork, Subject::Fork, task));
            trace.lanes[0].events.push(event(now + 3, Exec, Subject::Fork, task));
            trace.lanes[0].events.push(event(now + 7, Executed, Subject::Fork, task));
        }
        tell_all(&trace);
    }

    /// At any time, by clocks that are as they are.
    #[test]
    fn of_any_time(
        events in prop::collection::vec((0_usize..3, kind(), subject(), 0_u32..3, 0_u16..4, time()), 0..60),
        clock in [time(), time(), time(), time()],
        threads in 0_u32..3,
    ) {
        let [start, since, end, until] = clock;
        let pair = |tsc, nanos| ClockPair { tsc, nanos };
        let mut trace = Trace { start: pair(start, since), end: pair(end, until), threads, ..trace(1) };
        trace.lanes = ["a", "b", "c"].map(|name| Lane::new(name, Vec::new())).into();
        for (lane, kind, subject, task, aux, tsc) in events {
            trace.lanes[lane].events.push(Event { aux, ..event(tsc, kind, subject, task) });
        }
        tell_all(&trace);
    }
}

/// The thief and the owner both run a fork, of which the owner's run makes it vanish.
#[test]
fn a_fork_that_runs_twice() {
    let mut trace = trace(10_000);
    let region = |tsc, kind| event(tsc, kind, Subject::Region, 1);
    let mut owner = vec![region(0, Submit), region(0, Exec)];
    for task in 10..210 {
        let tsc = u64::from(task) * 10;
        owner.push(event(tsc, Fork, Subject::Fork, task));
        owner.push(event(tsc + 2, Exec, Subject::Fork, task));
        owner.push(event(tsc + 4, Executed, Subject::Fork, task));
    }
    owner.push(event(3000, Fork, Subject::Fork, 7));
    owner.push(event(3020, Exec, Subject::Fork, 7));
    owner.push(event(3030, Executed, Subject::Fork, 7));
    owner.push(region(3100, Executed));
    trace.lanes.push(Lane::new("owner", owner));
    let thief =
        [(3010, Exec), (3025, Executed)].map(|(tsc, kind)| event(tsc, kind, Subject::Fork, 7));
    trace.lanes.push(Lane::new("thief", thief.to_vec()));
    tell_all(&trace);
}

/// Each of these took minutes or gigabytes.
#[test]
fn many_are_told_in_time_that_grows_with_them() {
    const MANY: u32 = 50_000;
    // Ends of what has not begun, where much is open.
    let mut ends = trace(1 << 20);
    let begun = (0..MANY).map(|task| event(task.into(), Exec, Subject::Task, task));
    let ended =
        (0..MANY).map(|task| event((MANY + task).into(), Executed, Subject::Task, MANY + task));
    ends.lanes.push(Lane::new("a", begun.chain(ended).collect()));
    tell_all(&ends);
    // Regions in each other.
    let mut nested = trace(1 << 20);
    let region = |tsc: u32, kind, task| event(tsc.into(), kind, Subject::Region, task);
    let begun = (0..MANY).flat_map(|n| [region(4 * n, Submit, n), region(4 * n, Exec, n)]);
    let ended = (0..MANY).rev().flat_map(|n| {
        let tsc = 8 * MANY - 4 * n;
        [region(tsc, Executed, n), region(tsc, Waited, n)]
    });
    nested.lanes.push(Lane::new("a", begun.chain(ended).collect()));
    tell_all(&nested);
    // Lanes that wait for each other in a row.
    let mut row = trace(1 << 20);
    for lane in 0..5_000_u16 {
        let strand = Event { aux: lane + 1, ..Event::new(0, Strand, 0) };
        let waits = Event { aux: lane + 2, ..Event::new(2, LockWait, 7) };
        row.lanes.push(Lane::new("", vec![strand, Event::new(1, Exec, 1), waits]));
    }
    assert!(row.doctor().circle().is_empty());
    // Regions that do not end.
    let mut open = trace(1 << 20);
    let begun = (0..2 * MANY).map(|n| region(n, Submit, n)).collect();
    open.lanes.push(Lane::new("a", begun));
    assert!(open.perfetto().len() > 2 * MANY as usize);
    // Lanes that wait for futures, beside very many tasks.
    let mut tasks = trace(1 << 20);
    let begun = (0..2 * MANY).map(|task| event(1, Exec, Subject::Task, task)).collect();
    tasks.lanes.push(Lane::new("a", begun));
    let waits = || Lane::new("", vec![event(1, TouchBegin, Subject::Any, 1)]);
    tasks.lanes.extend((0..MANY / 2).map(|_| waits()));
    let told = tasks.doctor();
    assert!(told.lines().iter().skip(1).all(|line| line.contains("which perhaps a has")));
}

/// How many lanes were active is told of each region: of thousands of both that was gigabytes.
#[test]
fn many_regions_beside_many_lanes_take_room_that_grows_with_them() {
    const MANY: u32 = 3_000;
    let mut trace = Trace { threads: 0, ..trace(1 << 20) };
    let runs = |task| Lane::new("", vec![event(1, Exec, Subject::Task, task)]);
    trace.lanes.extend((0..MANY).map(runs));
    let begun = (0..MANY).map(|n| event(u64::from(2 + n), Submit, Subject::Region, n));
    trace.lanes[0].events.extend(begun);
    let regions = trace.phases();
    let numbers: usize = regions.iter().map(|region| region.levels.len()).sum();
    assert!(numbers < 3 << 20, "{numbers}");
    for region in [&regions[0], &regions[MANY as usize - 1]] {
        assert_eq!(region.levels.iter().sum::<std::time::Duration>(), region.total);
        assert_eq!((region.average().round(), region.peak), (3000.0, 0));
    }
}

/// What fits in no number is the largest one, and no infinity, which JSON does not have.
#[test]
fn times_that_are_too_long_are_as_long_as_can_be() {
    let mut trace = trace(1);
    trace.end = ClockPair { tsc: 1, nanos: u64::MAX };
    let ran = |task| {
        let at = |tsc, kind| event(tsc, kind, Subject::Region, task);
        Lane::new("", vec![at(0, Submit), at(0, Exec), at(u64::MAX, Executed)])
    };
    trace.lanes = vec![ran(1), ran(2)];
    tell_all(&trace);
    let scale = trace.scale(&[]).unwrap();
    assert!(scale.points.iter().all(|point| point.speedup.is_finite() && point.least.is_finite()));
    let supposed = WhatIf { name: "main.rs:10".into(), factor: 1e300 };
    trace.lanes = vec![ran(1)];
    trace.lanes[0].events[1].aux = 1;
    let refused = trace.scale(&[supposed.clone(), supposed]).unwrap_err();
    assert!(matches!(refused, raddle_trace::Refusal::Supposed(_)), "{refused}");
}

#[test]
fn years_between_events_take_no_more_room_than_moments() {
    let mut trace = trace(u64::MAX);
    let years = |n: u64| event(n << 48, if n % 2 == 0 { Park } else { Unparked }, Subject::Any, 0);
    trace.lanes.push(Lane::new("a", (0..60_000).map(years).collect()));
    assert!(trace.html().len() < 2 << 20);
}
