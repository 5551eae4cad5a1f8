//! What pools record, seen through the public interface.

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::trace::{self, TraceLevel};
use raddle_core::{Pool, Worker, join, scope};
use raddle_trace::{EventKind, State, Subject, Trace};

fn pool(level: TraceLevel) -> Pool {
    Pool::builder().threads(2).trace(level).build().unwrap()
}

fn fib(worker: &Worker, n: u32) -> u64 {
    if n < 2 {
        return n.into();
    }
    let (a, b) = worker.join(|w| fib(w, n - 1), |w| fib(w, n - 2));
    a + b
}

fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        std::hint::spin_loop();
    }
}

fn count(trace: &Trace, kind: EventKind) -> usize {
    trace.lanes.iter().flat_map(|lane| &lane.events).filter(|e| e.kind == kind).count()
}

/// The five phases and the rest are the whole, and the rest is next to nothing.
fn assert_adds_up(trace: &Trace) {
    for region in trace.phases() {
        let sum: Duration = region.parts().iter().map(|part| part.1).sum();
        assert_eq!(sum, region.total);
        assert!(region.unattributed * 100 <= region.total, "{region}");
    }
}

#[test]
fn every_fork_is_recorded_at_level_tasks_and_none_that_nobody_steals_at_level_phase() {
    const FORKS: usize = 986; // calls of fib(15) with an argument of 2 or more
    for threads in [1, 2] {
        let pool = Pool::builder().threads(threads).trace(TraceLevel::Tasks).build().unwrap();
        assert_eq!(pool.run(|w| fib(w, 15)), 610);
        let trace = pool.trace();
        assert_eq!(count(&trace, EventKind::Fork), FORKS);
        let ran = |subject| {
            let events = trace.lanes.iter().flat_map(|lane| &lane.events);
            let ran = events.filter(|e| e.subject() == subject);
            let of = |kind| ran.clone().filter(|e| e.kind == kind).count();
            assert_eq!(of(EventKind::Exec), of(EventKind::Executed));
            of(EventKind::Exec)
        };
        assert_eq!((ran(Subject::Fork), ran(Subject::Region)), (FORKS, 1));
        assert_eq!(trace.lengths().nanos.len(), FORKS);
        assert_eq!((trace.lengths().cut, trace.drops()), (0, 0));
        assert_adds_up(&trace);
    }
    let pool = Pool::builder().threads(1).trace(TraceLevel::Phase).build().unwrap();
    pool.run(|w| fib(w, 15));
    let trace = pool.trace();
    let guest = trace.lanes.iter().find(|lane| lane.name == "guest 0").unwrap();
    let kinds: Vec<EventKind> = guest.events.iter().map(|event| event.kind).collect();
    use EventKind::*;
    let kinds: Vec<EventKind> = kinds.into_iter().filter(|&kind| kind != Cpu).collect();
    assert_eq!(kinds, [Submit, Exec, Executed, Waited]);
}

#[test]
fn a_stolen_fork_is_told_by_thief_and_owner() {
    let pool = pool(TraceLevel::Phase);
    let both = Barrier::new(2);
    pool.run(|w| {
        w.join(|_| both.wait(), |_| both.wait()); // so it is stolen
        w.join(|_| (), |_| spin(Duration::from_micros(1)));
    });
    let trace = pool.trace();
    assert_adds_up(&trace);
    let guest = &trace.lanes[2];
    let steal = trace.lanes[0].events.iter().chain(&trace.lanes[1].events);
    let steal = steal.clone().find(|e| e.kind == EventKind::Steal).expect("a steal");
    assert_eq!(usize::from(steal.aux), 2, "from the guest");
    let of_it = |kind| guest.events.iter().find(|e| e.kind == kind && e.key() == steal.key());
    assert!(of_it(EventKind::Join).is_some() && of_it(EventKind::Joined).is_some());
    let region = &trace.phases()[0];
    assert_eq!((region.peak, region.width), (2, 2));
    assert!(trace.edges().iter().any(|edge| edge.kind == raddle_trace::EdgeKind::Steal));
}

#[test]
fn regions_of_all_kinds_have_phases_that_add_up() {
    let pool = pool(TraceLevel::Phase);
    for round in 0..200_u32 {
        match round % 5 {
            0 => pool.run(|w| _ = fib(w, 12)),
            1 => pool.run(|w| _ = w.join(|_| spin(Duration::from_micros(20)), |_| ())),
            2 => pool.run(|_| scope(|s| (0..8).for_each(|_| s.spawn(|_| ())))),
            3 => pool.run(|_| {
                let _region = trace::region("inside");
                join(|| (), || spin(Duration::from_micros(20)));
            }),
            // More callers than places.
            _ => thread::scope(|s| {
                (0..4).for_each(|_| _ = s.spawn(|| pool.run(|_| spin(Duration::from_micros(50)))));
            }),
        }
        if round % 7 == 0 {
            thread::sleep(Duration::from_millis(1)); // for workers to fall asleep
        }
    }
    let trace = pool.trace();
    assert_eq!(trace.drops(), 0);
    let regions = trace.phases();
    assert_eq!(regions.len(), 200 / 5 * (3 + 2 + 4));
    assert_eq!(regions.iter().filter(|r| r.name.as_deref() == Some("inside")).count(), 40);
    assert_adds_up(&trace);
    let span = Duration::from_nanos(trace.end.nanos - trace.start.nanos);
    for times in trace.workers() {
        let sum = times.busy + times.stealing + times.spinning + times.waiting + times.parked;
        let sum = sum + times.absent;
        assert!(sum.abs_diff(span) < span / 100, "{times:?} of {span:?}");
    }
}

#[test]
fn a_panic_ends_its_region_and_its_forks() {
    let pool = pool(TraceLevel::Tasks);
    let torn = || -> () { std::panic::resume_unwind(Box::new("torn")) };
    let fails = |call: &dyn Fn()| {
        assert!(std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)).is_err());
    };
    fails(&|| pool.run(|w| _ = w.join(|_| (), |_| torn())));
    fails(&|| pool.run(|w| _ = w.join(|_| torn(), |_| ())));
    let trace = pool.trace();
    assert_adds_up(&trace);
    assert_eq!(trace.lengths().cut, 0, "all that begins ends");
    assert_eq!(trace.phases().len(), 2);
    assert_eq!(pool.run(|w| fib(w, 10)), 55);
}

#[test]
fn recording_is_switched_while_the_pool_works() {
    let pool = Pool::builder().threads(2).trace_capacity(1 << 14).build().unwrap();
    let stop = AtomicBool::new(false);
    let sums = AtomicU64::new(0);
    thread::scope(|s| {
        s.spawn(|| {
            pool.run(|w| {
                while !stop.load(Ordering::Relaxed) {
                    sums.fetch_add(fib(w, 15), Ordering::Relaxed);
                }
            });
        });
        assert!(pool.trace().is_empty());
        for level in [TraceLevel::Tasks, TraceLevel::Phase, TraceLevel::Off, TraceLevel::Tasks] {
            pool.set_trace(level);
            let forks = || count(&pool.trace(), EventKind::Fork);
            if level == TraceLevel::Tasks {
                // The workers take notice while they work.
                while forks() == 0 || pool.trace().drops() == 0 {
                    thread::yield_now();
                }
            }
            for _ in 0..20 {
                // Snapshots of a ring that is being written: whole, or the kinds would not be kinds.
                let trace = pool.trace();
                // Beside the forks there is the frame, and a note of what is lost.
                let most = (1 << 14) + (1 << 11) + 1;
                assert!(trace.lanes.iter().all(|lane| lane.events.len() <= most));
                let sorted = |lane: &raddle_trace::Lane| lane.events.is_sorted_by_key(|e| e.tsc);
                assert!(trace.lanes.iter().all(sorted));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    pool.set_trace(TraceLevel::Off);
    let before = pool.trace();
    assert_eq!(pool.run(|w| fib(w, 12)), 144);
    assert_eq!(pool.trace().lanes, before.lanes, "nothing is recorded, and what was stays");
    assert_eq!(sums.into_inner() % 610, 0);
}

#[test]
fn a_full_ring_keeps_the_newest_or_the_oldest_and_counts_the_rest() {
    for overwrites in [true, false] {
        let pool = Pool::builder()
            .threads(1)
            .trace(TraceLevel::Tasks)
            .trace_capacity(100) // made 128
            .trace_overwrites(overwrites);
        let pool = pool.build().unwrap();
        pool.run(|w| fib(w, 15));
        let trace = pool.trace();
        let guest = trace.lanes.iter().find(|lane| lane.name == "guest 0").unwrap();
        let events = guest.events.len() as u64;
        let of = |kind| guest.events.iter().filter(|e| e.kind == kind).count() as u64;
        // Beside the forks there are samples of processor time, and a note where some are missing.
        let (noted, told) = (of(EventKind::Drop), guest.dropped + events - of(EventKind::Drop));
        assert!((986 * 3 + 4..986 * 3 + 40).contains(&told), "{told}");
        let forks = events - 4 - noted - of(EventKind::Strand);
        assert_eq!((forks, noted), if overwrites { (127, 1) } else { (128, 0) });
        // The region is there all the same.
        assert_eq!(guest.events[0].kind, EventKind::Submit);
        assert_eq!(trace.phases().len(), 1);
        assert_eq!(guest.events[guest.events.len() - 1].kind, EventKind::Waited);
        assert!(trace.summary().contains(&format!("{} dropped", guest.dropped)));
    }
}

#[test]
fn sleeping_workers_are_parked_and_woken_ones_are_told_by_whom() {
    let pool = pool(TraceLevel::Phase);
    // The guest may have the place of the one that sleeps, and then nobody is woken.
    for round in 0.. {
        assert!(round < 10_000, "nobody has ever been woken");
        // Until a worker sleeps, and has been seen to.
        let asleep = |trace: &Trace| {
            let last = |lane: &raddle_trace::Lane| lane.segments().last().map(|s| s.state);
            trace.lanes[..2].iter().any(|lane| last(lane) == Some(State::Parked))
        };
        while !asleep(&pool.trace()) {
            thread::yield_now();
        }
        let both = Barrier::new(2);
        pool.run(|w| _ = w.join(|_| both.wait(), |_| both.wait()));
        if !pool.trace().wakes().latency.is_empty() {
            break;
        }
    }
    let trace = pool.trace();
    assert!(count(&trace, EventKind::Unpark) > 0);
    assert!(trace.workers().iter().any(|worker| worker.parks > 0));
    assert_adds_up(&trace);
}

/// Work and span of what `body` does in a pool of one thread, in microseconds; again until the machine was quiet.
fn scaled(threads: usize, body: impl Fn(&Pool)) -> (f64, f64, raddle_trace::Scale) {
    for _ in 0..200 {
        let pool = Pool::builder().threads(threads).trace(TraceLevel::Tasks).build().unwrap();
        body(&pool);
        let trace = pool.trace();
        let Ok(scale) = trace.scale(&[]) else { continue };
        let us = |time: Duration| time.as_nanos() as f64 / 1e3;
        if scale.notes.is_empty() {
            return (us(scale.work), us(scale.span), scale);
        }
    }
    panic!("the machine is never quiet");
}

fn near(measured: f64, built: f64) -> bool {
    (measured / built - 1.0).abs() < 0.05
}

/// Tries a few times: others use the machine too.
fn eventually_near(
    threads: usize,
    (work, span): (f64, f64),
    body: impl Fn(&Pool),
) -> raddle_trace::Scale {
    let mut seen = Vec::new();
    for _ in 0..400 {
        let (w, s, scale) = scaled(threads, &body);
        if near(w, work) && near(s, span) {
            return scale;
        }
        seen.push((w, s));
    }
    panic!("built with {work} and {span}, and found {seen:?}");
}

fn us(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

fn tree(worker: &Worker, leaves: u32, leaf: Duration) {
    if leaves == 1 {
        return spin(leaf);
    }
    worker.join(|w| tree(w, leaves / 2, leaf), |w| tree(w, leaves - leaves / 2, leaf));
}

#[test]
fn work_and_span_of_forks_are_as_built() {
    for threads in [1, 2] {
        eventually_near(threads, (9600.0, 600.0), |pool| pool.run(|w| tree(w, 16, us(600))));
    }
    let alone = |pool: &Pool| {
        pool.run(|w| {
            spin(us(1000));
            tree(w, 8, us(200));
        });
    };
    let scale = eventually_near(1, (2600.0, 1200.0), alone);
    assert!(scale.places[0].name.contains("before tests/trace.rs:"), "{:?}", scale.places);
    let tail = |pool: &Pool| {
        pool.run(|w| _ = w.join(|w| tree(w, 16, us(50)), |_| spin(us(2000))));
    };
    eventually_near(1, (2800.0, 2000.0), tail);
}

#[test]
fn work_and_span_of_scopes_and_pipelines_are_as_built() {
    let scopes = |pool: &Pool| {
        pool.scope(|s| {
            (0..20).for_each(|_| s.spawn(|_| spin(us(50))));
            s.spawn(|s| {
                spin(us(400));
                s.spawn(|_| spin(us(300)));
            });
        });
    };
    for threads in [1, 2] {
        eventually_near(threads, (1700.0, 700.0), scopes);
    }
    // Three stages, each a task that waits for the one before it.
    let pipeline = |pool: &Pool| {
        pool.run(|_| {
            let one = raddle_core::spawn(|| spin(us(300)));
            let two = raddle_core::spawn(move || {
                spin(us(100));
                one.wait().unwrap();
                spin(us(300));
            });
            let other = raddle_core::spawn(|| spin(us(600)));
            two.wait().unwrap();
            spin(us(200));
            other.wait().unwrap();
        });
    };
    for threads in [1, 2] {
        eventually_near(threads, (1500.0, 800.0), pipeline);
    }
    // From outside, with what follows a task's result.
    let chained = |pool: &Pool| {
        let first = pool.spawn(|| spin(us(400))).map(|()| spin(us(300)));
        let second = pool.spawn(|| spin(us(500)));
        first.wait().unwrap();
        second.wait().unwrap();
    };
    eventually_near(2, (1200.0, 700.0), chained);
}

#[test]
fn kills_results_and_lock_waits_are_recorded() {
    let pool = Pool::builder().threads(2).trace(TraceLevel::Tasks).build().unwrap();
    let gate = std::sync::Arc::new(Barrier::new(3));
    let blockers = [0, 1].map(|_| {
        let gate = std::sync::Arc::clone(&gate);
        pool.spawn(move || _ = gate.wait())
    });
    let killed: Vec<_> = (0..50).map(|_| pool.spawn(|| ())).collect();
    killed.iter().for_each(|future| _ = future.kill());
    gate.wait();
    blockers.into_iter().for_each(|future| future.wait().unwrap());
    drop(killed);
    pool.spawn(|| ()).wait().unwrap();
    let trace = pool.trace();
    assert_eq!(count(&trace, EventKind::Kill), 50);
    assert!(count(&trace, EventKind::Resolve) >= 53);
    assert!(count(&trace, EventKind::TouchEnd) >= 2);
    assert_eq!(count(&trace, EventKind::EnvBegin), 1);
    // What was killed never ran: the others are three.
    let tasks = |kind| {
        let events = trace.lanes.iter().flat_map(|lane| &lane.events);
        events.filter(|e| e.kind == kind && e.subject() == Subject::Task).count()
    };
    assert_eq!(tasks(EventKind::Exec), 3);
}

#[test]
fn what_a_pool_records_into_a_file_is_all_there() {
    let path = std::env::temp_dir().join(format!("raddle-core-{}.trace", std::process::id()));
    let build =
        || Pool::builder().threads(2).trace(TraceLevel::Tasks).trace_to(&path).trace_capacity(256);
    let pool = build().build().unwrap();
    assert_eq!(pool.run(|w| fib(w, 18)), 2584);
    let so_far = pool.trace();
    assert_eq!((so_far.drops(), so_far.phases().len()), (0, 1));
    // As a killed program leaves it: the file has no end, and all of it can be read.
    let (left, damage) = Trace::load_damaged(&path).unwrap();
    assert!(damage.unwrap().cut);
    assert_eq!(count(&left, EventKind::Fork), 4180);
    drop(pool);
    let whole = Trace::load(&path).unwrap();
    assert_eq!((whole.drops(), count(&whole, EventKind::Fork)), (0, 4180));
    assert!(count(&whole, EventKind::Save) > 0, "rings were full meanwhile");
    assert_eq!(count(&whole, EventKind::EnvEnd), 1);
    assert!(whole.scale(&[]).unwrap().bound() > 2.0);
    std::fs::remove_file(&path).unwrap();
    let error = build().trace_to("/nonexistent/dir/t").build().unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/dir/t: cannot be written: "), "{error}");
}
