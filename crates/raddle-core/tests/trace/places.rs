//! Where in the source something is forked.

use std::hint::black_box;
use std::time::{Duration, Instant};

use raddle_core::trace::TraceLevel;
use raddle_core::{Pool, par};
use raddle_trace::{EventKind, Subject};

use crate::pool;

/// Loops and sorts are at their callers' lines, whether they are called in a pool or from outside.
#[test]
fn loops_have_the_lines_of_their_callers() {
    let mut items = vec![1_u64; 5000];
    let here = |line: u32| format!("tests/trace/places.rs:{line}:");
    let pool = pool(TraceLevel::Tasks);
    let lines = pool.run(|_| {
        let work = |n: &mut u64| (0..500).for_each(|i| *n = black_box(*n ^ i));
        par::for_each(&mut items, work);
        let first = line!() - 1;
        par::inclusive_scan(&mut items, |a, b| (0..500).fold(a ^ b, |n, i| black_box(n ^ i)));
        items.iter_mut().zip(0..).for_each(|(n, i)| *n = i * 7919 % 5000);
        par::sort(&mut items);
        par::sort_unstable_by_key(&mut items, |n| n ^ 0x2a5);
        [first, first + 2, first + 4, first + 5]
    });
    let trace = pool.trace();
    for line in lines {
        let found = trace.places.iter().any(|place| place.contains(&here(line)));
        assert!(found, "line {line} in {:?}", trace.places);
    }
    assert!(!trace.places.iter().any(|place| place.contains("src/par/")), "{:?}", trace.places);
}

#[test]
fn who_helps_a_task_that_it_waits_for_is_at_no_line_of_ours() {
    let start = Instant::now();
    loop {
        let pool = Pool::builder().threads(1).trace(TraceLevel::Phase).build().unwrap();
        assert_eq!(pool.spawn(|| 7).wait().unwrap(), 7);
        let trace = pool.trace();
        let ours = |place: &&String| place.contains("src/pool");
        assert_eq!(trace.places.iter().find(ours), None);
        let helped = |lane: &&raddle_trace::Lane| lane.name.starts_with("guest");
        if trace.lanes.iter().filter(helped).any(|lane| !lane.events.is_empty()) {
            break;
        }
        // The pool's own thread was faster.
        assert!(start.elapsed() < Duration::from_secs(60), "nobody ever helps");
    }
}

/// In a pool and from outside, and each of its calls is.
#[test]
fn a_broadcast_is_at_the_line_of_its_caller() {
    let pool = pool(TraceLevel::Tasks);
    pool.broadcast(|_| ());
    let first = line!() - 1;
    pool.run(|_| raddle_core::broadcast(|_| ()));
    let trace = pool.trace();
    let places = trace
        .lanes
        .iter()
        .flat_map(|lane| &lane.events)
        .filter(|event| event.kind == EventKind::Fork && event.subject() == Subject::Task);
    let mut lines: Vec<&str> = places
        .map(|event| trace.places[usize::from(event.aux) - 1].as_str())
        .map(|place| place.rsplit("places.rs:").next().unwrap_or(place))
        .map(|line| line.split(':').next().unwrap_or(line))
        .collect();
    lines.sort_unstable();
    let (first, second) = (first.to_string(), (first + 2).to_string());
    assert_eq!(lines, [&first, &first, &second, &second]);
}
