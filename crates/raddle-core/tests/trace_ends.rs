//! What a recording says of when tasks were over, of whose they were, and where nothing can be recorded.

use std::hint::spin_loop;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::trace::TraceLevel;
use raddle_core::{Pool, PoolBuildError, par};
use raddle_trace::{Event, EventKind, Subject, Trace};

fn pool(level: TraceLevel) -> Pool {
    Pool::builder().threads(2).trace(level).trace_capacity(1 << 17).build().unwrap()
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        spin_loop();
    }
}

/// The events of a kind, in the order of time.
fn all(trace: &Trace, kind: EventKind) -> Vec<Event> {
    let events = trace.lanes.iter().flat_map(|lane| &lane.events);
    let mut events: Vec<Event> = events.filter(|e| e.kind == kind).copied().collect();
    events.sort_by_key(|event| event.tsc);
    events
}

#[test]
fn a_scope_ends_after_the_last_of_its_tasks() {
    const ROUNDS: usize = 3_000;
    let pool = pool(TraceLevel::Tasks);
    for _ in 0..ROUNDS {
        let began = AtomicBool::new(false);
        pool.scope(|s| {
            s.spawn(|_| {
                began.store(true, Ordering::Release);
                spin(Duration::from_micros(2));
            });
            // Until another thread has it, or may not be coming.
            let start = Instant::now();
            while !began.load(Ordering::Acquire) && start.elapsed() < Duration::from_millis(1) {
                spin_loop();
            }
        });
    }
    let trace = pool.trace();
    let mut over = all(&trace, EventKind::Executed);
    over.retain(|event| event.subject() == Subject::Task);
    let ends = all(&trace, EventKind::ScopeEnd);
    assert_eq!((over.len(), ends.len()), (ROUNDS, ROUNDS));
    let late = over.iter().zip(&ends).filter(|(over, end)| over.tsc > end.tsc).count();
    assert_eq!(late, 0, "tasks that were over after their scope");
}

#[test]
fn a_call_ends_before_its_caller_goes_on() {
    let pool = pool(TraceLevel::Phase);
    // More callers than places, so that some block until a worker has called.
    for _ in 0..200 {
        thread::scope(|s| {
            let call = || pool.run(|_| spin(Duration::from_micros(20)));
            (0..6).for_each(|_| _ = s.spawn(call));
        });
    }
    let trace = pool.trace();
    let over = all(&trace, EventKind::Executed);
    let mut calls = 0;
    for lane in &trace.lanes {
        let mut submitted = None;
        for event in lane.events.iter().filter(|e| e.subject() == Subject::Task) {
            match event.kind {
                EventKind::Submit => submitted = Some(*event),
                EventKind::Waited => {
                    let Some(from) = submitted.take().filter(|s| s.key() == event.key()) else {
                        continue;
                    };
                    let meanwhile = from.tsc..=event.tsc;
                    let is_its = |e: &&Event| e.key() == event.key() && meanwhile.contains(&e.tsc);
                    assert!(over.iter().any(|e| is_its(&e)), "{event:?} since {from:?}");
                    calls += 1;
                }
                _ => {}
            }
        }
    }
    println!("{calls} calls");
}

#[test]
fn whose_a_task_of_a_scope_is_is_recorded_at_every_level() {
    for level in [TraceLevel::Phase, TraceLevel::Tasks] {
        let pool = pool(level);
        pool.scope(|s| (0..8).for_each(|_| s.spawn(|_| ())));
        let trace = pool.trace();
        let (begun, of) = (all(&trace, EventKind::ScopeBegin), all(&trace, EventKind::Member));
        assert_eq!((begun.len(), of.len()), (1, 8));
        assert!(of.iter().all(|event| event.task == begun[0].task));
        let over = all(&trace, EventKind::Executed);
        assert_eq!(over.iter().filter(|e| e.subject() == Subject::Task).count(), 8, "once each");
    }
}

/// Whoever calls a broadcast goes on after all its calls, as after a scope.
#[test]
fn a_broadcast_ends_after_the_last_of_its_calls() {
    for level in [TraceLevel::Phase, TraceLevel::Tasks] {
        let pool = pool(level);
        pool.broadcast(|_| spin(Duration::from_micros(20)));
        let trace = pool.trace();
        let (begun, of) = (all(&trace, EventKind::ScopeBegin), all(&trace, EventKind::Member));
        let ended = all(&trace, EventKind::ScopeEnd);
        assert_eq!((begun.len(), of.len(), ended.len()), (1, 2, 1));
        assert!(of.iter().chain(&ended).all(|event| event.task == begun[0].task));
        let over = all(&trace, EventKind::Executed);
        assert!(over.len() == 2 && over.iter().all(|event| event.tsc <= ended[0].tsc));
    }
}

/// In a file, too: what runs then is not taken to have run until the pool was dropped.
#[test]
fn a_file_ends_when_recording_is_switched_off() {
    let path = std::env::temp_dir().join(format!("raddle-ends-{}.trace", std::process::id()));
    let builder = Pool::builder().threads(1).trace(TraceLevel::Tasks).trace_to(&path);
    let pool = builder.build().unwrap();
    pool.run(|_| pool.set_trace(TraceLevel::Off));
    // A thread may have begun a note before.
    let end = || pool.trace().end;
    let began = Instant::now();
    while end() != end() {
        assert!(began.elapsed() < Duration::from_secs(60), "it goes on");
    }
    let off = end();
    drop(pool);
    let trace = Trace::load(&path).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(trace.end.tsc <= off.tsc, "{:?} after {off:?}", trace.end);
}

/// What an event costs, above all, which is to be taken from the work.
#[test]
fn how_it_was_recorded_is_known_when_that_has_been_switched_off() {
    let pool = Pool::new(1).unwrap();
    for (level, name) in [(TraceLevel::Tasks, "tasks"), (TraceLevel::Phase, "phase")] {
        pool.set_trace(level);
        pool.run(|worker| worker.join(|_| (), |_| ()));
        pool.set_trace(TraceLevel::Off);
        let trace = pool.trace();
        assert_eq!(trace.fact("level"), Some(name));
        assert!(trace.fact("event_ns").is_some());
    }
}

/// More than there are addresses for.
#[cfg(target_pointer_width = "64")]
#[test]
fn a_recording_that_fits_in_no_memory_is_no_pool() {
    let build =
        |level| Pool::builder().threads(4096).trace(level).trace_capacity(usize::MAX).build();
    let error = build(TraceLevel::Phase).unwrap_err();
    assert!(
        matches!(error, PoolBuildError::TraceMemory { events: 1_073_741_824, .. }),
        "{error:?}"
    );
    assert!(error.to_string().starts_with("no memory to record 1073741824 events of each thread"));
}

/// A recording of one thread, of whom nobody asks for work, tells what more would find.
#[test]
fn a_loop_is_forked_as_far_as_it_is_worth_it_where_forks_are_recorded() {
    let build = || Pool::builder().threads(1).trace(TraceLevel::Tasks).build().unwrap();
    let pool = build();
    let forks = |items: usize, each: Duration| {
        let before = all(&pool.trace(), EventKind::Fork).len();
        pool.run(|_| par::for_each(&mut vec![(); items], |()| spin(each)));
        all(&pool.trace(), EventKind::Fork).len() - before
    };
    for items in [40, 400] {
        let forks = forks(items, Duration::from_micros(100));
        // All but the first, which tells what they are worth.
        assert!((items - 4..items).contains(&forks), "{forks} of {items}");
    }
    // Whatever the first of these takes, to come into memory. Those in which the thread loses its processor seem to be long ones: on
    // a busy machine now and then too many.
    let few = || {
        let pool = build();
        // Its own thread, that has just been started, asks for forks until it has seen that there is no place for it.
        pool.run(|worker| {
            while worker.should_fork() {
                std::thread::yield_now();
            }
        });
        let squares = pool.run(|_| par::map_collect(0..1_000_000_u64, |i| i * i));
        let forks = all(&pool.trace(), EventKind::Fork).len();
        forks < squares.len() / 50
    };
    let often = (0..50).filter(|_| few()).take(5).count();
    assert_eq!(often, 5, "too many forks nearly each time");
}

#[test]
fn the_file_of_a_pool_that_was_never_recorded_is_whole() {
    let name = format!("raddle-never-recorded-{}", std::process::id());
    let path = std::env::temp_dir().join(name);
    let pool = Pool::builder().threads(1).trace_to(&path).build().unwrap();
    pool.run(|_| ());
    drop(pool);
    let trace = Trace::load(&path).map(|trace| (trace.len(), trace.threads));
    std::fs::remove_file(&path).unwrap();
    assert_eq!(trace.unwrap(), (0, 1));
}
