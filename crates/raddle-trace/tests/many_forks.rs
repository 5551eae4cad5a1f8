//! Ten million events of forks: what is said of them, and drawn, takes seconds, and no more room than they do. A program of its
//! own, as what counts is the most memory that the process ever had.
#![cfg(target_os = "linux")]

use std::fs::read_to_string;
use std::io::sink;
use std::time::Duration;

use raddle_trace::{ClockPair, Event, EventKind, EventKind::*, Lane, Subject, Trace};

const LEAVES: u32 = 3_333_333;
/// Some three times what the page takes: of processor time, as the machine may be busy.
const MOST_TIME: Duration = Duration::from_secs(20);

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

/// One thread's, in a region of joins.
struct Tree {
    events: Vec<Event>,
    now: u64,
    depth: u32,
    /// How long leaves take: so many nanoseconds, twice and four times as many.
    leaf: u64,
}

impl Tree {
    fn note(&mut self, kind: EventKind, subject: Subject, task: u32) {
        let flags = subject as u8;
        self.events.push(Event { flags, aux: 1, ..Event::new(self.now, kind, task) });
    }

    fn grow(&mut self, leaves: u32) {
        if leaves == 1 {
            self.now += self.leaf << (self.events.len() % 3);
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

    fn trace(leaf: u64) -> Trace {
        let mut tree = Tree { events: Vec::with_capacity(10_000_000), now: 0, depth: 0, leaf };
        let region = |tree: &mut Tree, kind| tree.note(kind, Subject::Region, 1_000);
        [Submit, Exec].into_iter().for_each(|kind| region(&mut tree, kind));
        tree.grow(LEAVES);
        [Executed, Waited].into_iter().for_each(|kind| region(&mut tree, kind));
        let clock = |at| ClockPair { tsc: at, nanos: at };
        let mut trace = Trace::new(clock(0), clock(tree.now));
        trace.threads = 2;
        trace.facts = vec![("level".into(), "tasks".into())];
        trace.places = vec!["src/tree.rs:52:9".into()];
        trace.lanes = vec![Lane::new("guest 0", tree.events)];
        assert_eq!(trace.len(), 10_000_000);
        trace
    }
}

/// What `tells` makes of a trace, which may take so much room beside it.
fn told<T>(what: &str, before: u64, room: u64, tells: impl FnOnce() -> T) -> T {
    let start = processor_time();
    let told = tells();
    let (took, more) = (processor_time() - start, most() - before);
    println!("{what}: {took:?}, {more} bytes more");
    assert!(took < MOST_TIME, "{what}: {took:?}");
    assert!(more < room, "{what}: {more} bytes for {room}");
    told
}

#[test]
fn ten_million_events_are_told_of_in_seconds_and_in_their_room() {
    const SIZE: u64 = 160_000_000;
    // Few are worth a hand-off.
    let trace = Tree::trace(2);
    let before = most();
    let scale = told("scale", before, SIZE / 3, || trace.scale(&[]).unwrap());
    let span = (scale.work.as_nanos(), scale.span.as_nanos());
    assert_eq!(span, (trace.end.nanos.into(), 8));
    let text = told("summary", before, SIZE / 3, || trace.summary());
    assert!(text.starts_with("10000000 events on 1 lane in "), "{text}");
    drop(trace);
    // Each one is.
    let trace = Tree::trace(2_000);
    // What was most so far is forgotten, if the system lets it: else the limits below are less strict.
    let _ = std::fs::write("/proc/self/clear_refs", "5");
    let before = most();
    let scale = told("scale of larger ones", before, SIZE, || trace.scale(&[]).unwrap());
    let span = (scale.work.as_nanos(), scale.span.as_nanos());
    assert_eq!(span, (trace.end.nanos.into(), 8_000));
    told("summary of larger ones", before, SIZE, || trace.summary());
    told("page of larger ones", before, SIZE, || trace.write_html(sink()).unwrap());
}
