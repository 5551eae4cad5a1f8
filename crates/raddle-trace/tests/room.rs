//! A program of its own, as what counts is the most memory that the process ever had.
#![cfg(target_os = "linux")]

use raddle_trace::{ClockPair, Event, EventKind, EventKind::*, Lane, Subject, Trace};

/// The most bytes that were ever in use.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

#[test]
fn what_is_said_of_many_regions_takes_less_room_than_they_do() {
    const MANY: u32 = 500_000;
    let event = |at: u64, kind: EventKind, task| Event {
        flags: Subject::Region as u8,
        ..Event::new(at, kind, task)
    };
    let mut events = Vec::with_capacity(4 * MANY as usize);
    for task in 0..MANY {
        let at = 1_000 * u64::from(task);
        events.extend([
            event(at, Submit, task),
            event(at + 50, Exec, task),
            event(at + 800, Executed, task),
            event(at + 900, Waited, task),
        ]);
    }
    let end = 1_000 * u64::from(MANY);
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: end, nanos: end });
    trace.facts = vec![("level".into(), "phase".into())];
    trace.lanes = vec![Lane::new("guest 0", events)];
    let size = (trace.len() * Event::SIZE) as u64;
    let before = most();
    let text = trace.summary();
    let more = most() - before;
    assert!(text.contains("500000 regions") && text.contains("and 499988 shorter ones"), "{text}");
    assert!(
        text.contains("\nmedian                 0.1      0.0      0.8      0.0      0.1"),
        "{text}"
    );
    // They were all kept, each with what was said of it: eight times as much.
    assert!(more < size * 5 / 4, "{more} bytes for {size}");
    let total: u128 = trace.regions().map(|region| region.total.as_nanos()).sum();
    assert_eq!(total, 900 * u128::from(MANY));
    let more = most() - before;
    assert!(more < size * 5 / 4, "{more} bytes for {size}");
}
