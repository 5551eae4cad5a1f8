//! Ten million events of forks. A program of its own, as what counts is the most memory that the process ever had.
#![cfg(target_os = "linux")]

use std::fs::read_to_string;
use std::time::Duration;

use raddle_trace::{ClockPair, Event, EventKind, EventKind::*, Lane, Subject, Trace};

const LEAVES: u32 = 3_333_333;
/// Some five times what it takes: of processor time, as the machine may be busy.
const MOST_TIME: Duration = Duration::from_secs(10);

/// The most bytes that were ever in use.
fn most() -> u64 {
    let status = read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

/// How long this thread has had a processor.
fn processor_time() -> Duration {
    let times = read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(times.split_whitespace().next().unwrap().parse().unwrap())
}

/// One thread's, in a region of joins whose leaves take 2 to 8 ns: few of them are worth a hand-off, and the others become pieces.
struct Tree {
    events: Vec<Event>,
    now: u64,
    depth: u32,
}

impl Tree {
    fn note(&mut self, kind: EventKind, subject: Subject, task: u32) {
        let flags = subject as u8;
        self.events.push(Event { flags, aux: 1, ..Event::new(self.now, kind, task) });
    }

    fn grow(&mut self, leaves: u32) {
        if leaves == 1 {
            self.now += 2 << (self.events.len() % 3);
            return;
        }
        self.depth += 1;
        let depth = self.depth;
        self.note(Fork, Subject::Fork, depth);
        self.grow(leaves / 2);
        self.note(Exec, Subject::Fork, depth);
        self.depth -= 1;
        self.grow(leaves - leaves / 2);
        self.note(Executed, Subject::Fork, depth);
    }
}

#[test]
fn ten_million_events_are_told_of_in_seconds_and_a_third_of_their_room() {
    let events = Vec::with_capacity(10_000_000);
    let mut tree = Tree { events, now: 0, depth: 0 };
    let region = |tree: &mut Tree, kind| tree.note(kind, Subject::Region, 1_000);
    [Submit, Exec].into_iter().for_each(|kind| region(&mut tree, kind));
    tree.grow(LEAVES);
    [Executed, Waited].into_iter().for_each(|kind| region(&mut tree, kind));
    let Tree { events, now, .. } = tree;
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: now, nanos: now });
    trace.threads = 2;
    trace.facts = vec![("level".into(), "tasks".into())];
    trace.places = vec!["src/tree.rs:52:9".into()];
    trace.lanes = vec![Lane::new("guest 0", events)];
    let (size, before) = ((trace.len() * Event::SIZE) as u64, most());
    assert_eq!(trace.len(), 10_000_000);

    let start = processor_time();
    let scale = trace.scale(&[]).unwrap();
    let (took, more) = (processor_time() - start, most() - before);
    println!("scale: {took:?}, {more} bytes more for {size}");
    assert!(took < MOST_TIME, "{took:?}");
    assert!(more < size / 3, "{more} bytes for {size}");
    assert_eq!((scale.work.as_nanos(), scale.span.as_nanos()), (u128::from(now), 8));

    let start = processor_time();
    let text = trace.summary();
    let (took, more) = (processor_time() - start, most() - before);
    println!("summary: {took:?}, {more} bytes more for {size}");
    assert!(took < MOST_TIME, "{took:?}");
    assert!(more < size / 3, "{more} bytes for {size}");
    assert!(text.starts_with("10000000 events on 1 lane in "), "{text}");
}
