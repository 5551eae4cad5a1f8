//! Names in a trace are anybody's: none of them tells a terminal what to do, or makes two lines of one.

use raddle_trace::EventKind::*;
use raddle_trace::{ClockPair, Event, EventKind, Lane, Subject, Trace, WhatIf};

const EVIL: &str = "src/\x1b]0;owned\x07\u{9b}31mm.rs\n:10:5";

fn event(tsc: u64, kind: EventKind, subject: Subject, task: u32) -> Event {
    Event { flags: subject as u8, aux: 1, ..Event::new(tsc * 1_000_000, kind, task) }
}

/// A region with another in it, of the same name; at the end it has given its fork away and waits.
fn trace() -> Trace {
    let end = ClockPair { tsc: 9_000_000, nanos: 9_000_000 };
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, end);
    trace.threads = 2;
    (trace.names, trace.places) = (vec![EVIL.into()], vec![EVIL.into()]);
    let region = |tsc, kind, task| event(tsc, kind, Subject::Region, task);
    let fork = |tsc, kind| event(tsc, kind, Subject::Fork, 7);
    let events = vec![
        region(0, Submit, 1),
        region(0, Exec, 1),
        region(1, Submit, 2),
        region(1, Exec, 2),
        region(5, Executed, 2),
        region(5, Waited, 2),
        fork(6, Fork),
        fork(7, Join),
    ];
    trace.lanes.push(Lane::new(EVIL, events));
    trace.lanes.push(Lane::new(EVIL, vec![fork(7, Exec)]));
    trace
}

#[test]
fn what_is_told_is_clean() {
    let trace = trace();
    let clean = |text: &str, lines: usize| {
        let bad = text.chars().find(|c| c.is_control() && *c != '\n');
        assert_eq!(bad, None, "{text:?}");
        assert!(text.lines().count() <= lines, "{text}");
    };
    let scale = trace.scale(&[]).unwrap();
    assert!(scale.verdict().contains("m.rs?:10"), "{}", scale.verdict());
    clean(&scale.verdict(), 1);
    clean(&scale.text(), 23);
    scale.notes.iter().for_each(|note| clean(note, 1));
    let why = trace.scale(&[WhatIf { name: EVIL.repeat(2), factor: 1.0 }]).unwrap_err();
    clean(&why.to_string(), 1);
    let found = trace.doctor();
    assert!(found.lines().iter().any(|line| line.contains("the fork at")), "{found}");
    found.lines().iter().for_each(|line| clean(line, 1));
    trace.advice().iter().for_each(|advice| clean(&advice.to_string(), 1));
    clean(&trace.summary(), 40);
    clean(&trace.profile().diff(&trace.profile()).to_string(), 60);
}
