//! A program of its own, as what counts is the most memory that the process ever had.
#![cfg(target_os = "linux")]

use std::io::{self, Write};

use raddle_trace::{ClockPair, Event, EventKind, EventKind::*, Lane, Subject, Trace};

/// The most bytes that were ever in use.
fn most() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    1024 * line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap()
}

/// Keeps nothing but a sum.
#[derive(Default)]
struct Sum(u64, usize);

impl Write for Sum {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let add = |sum: u64, byte: &u8| sum.wrapping_mul(31).wrapping_add(u64::from(*byte));
        *self = Sum(bytes.iter().fold(self.0, add), self.1 + bytes.len());
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn sum(write: impl FnOnce(&mut Sum) -> io::Result<()>) -> (u64, usize) {
    let mut sum = Sum::default();
    write(&mut sum).unwrap();
    (sum.0, sum.1)
}

/// Of forks of which each fourth one was stolen; at level phase, as at level tasks a page tells the span.
#[test]
fn pictures_that_are_written_take_less_room_than_what_they_are_of() {
    const MANY: u32 = 500_000;
    let fork = |tsc: u64, kind: EventKind, aux, task| {
        let flags = Event::fork_flags(Subject::Fork, 1);
        Event { aux, flags, ..Event::new(tsc, kind, task) }
    };
    let (mut owner, mut thief) = (Vec::new(), Vec::new());
    for task in 0..MANY {
        let at = 5_000 * u64::from(task);
        owner.push(fork(at, Fork, 1, task));
        if task % 4 > 0 {
            owner.extend([fork(at + 600, Exec, 1, task), fork(at + 4_400, Executed, 0, task)]);
            continue;
        }
        owner.extend([fork(at + 4_000, Join, 0, task), fork(at + 4_500, Joined, 1, task)]);
        thief.extend([
            fork(at + 500, Steal, 0, task),
            fork(at + 600, Exec, 1, task),
            fork(at + 4_400, Executed, 0, task),
        ]);
    }
    owner.shrink_to_fit();
    thief.shrink_to_fit();
    let end = 5_000 * u64::from(MANY);
    let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: end, nanos: end });
    trace.facts = vec![("level".into(), "phase".into())];
    trace.places = vec!["a.rs:1:2".into()];
    trace.lanes = vec![Lane::new("raddle-0", owner), Lane::new("raddle-1", thief)];
    let size = (trace.len() * Event::SIZE) as u64;
    let before = most();
    let more = |what: &str| {
        let more = most() - before;
        assert!(more < size * 5 / 4, "{what}: {more} bytes for {size}");
    };
    let perfetto = sum(|to| trace.write_perfetto(to));
    more("perfetto");
    let chrome = sum(|to| trace.write_chrome_json(to));
    more("chrome");
    let html = sum(|to| trace.write_html(to));
    more("html");
    assert_eq!(perfetto, sum(|to| to.write_all(&trace.perfetto())));
    assert_eq!(chrome, sum(|to| to.write_all(trace.chrome_json().as_bytes())));
    assert_eq!(html, sum(|to| to.write_all(trace.html().as_bytes())));
    assert!(chrome.1 as u64 > 5 * size, "{} of {size}", chrome.1);
}
