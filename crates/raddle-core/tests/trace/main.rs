//! What pools record, seen through the public interface.

mod places;
mod spans;

use std::sync::Barrier;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use raddle_core::trace::{self, TraceLevel};
use raddle_core::{Pool, Promise, Worker, join, scope};
use raddle_trace::{EventKind, Refusal, State, Subject, Trace};

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

/// Works for so much processor time, whatever others take of the machine meanwhile.
fn spin(time: Duration) {
    let used = || {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: writes the time that is handed in.
        assert_eq!(unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time) }, 0);
        Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
    };
    let end = used() + time;
    while used() < end {}
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

/// On a pool of one, whose own thread, that has just been started, may take a fork until it has seen that there is no place for it.
fn fib_alone(worker: &Worker) -> u64 {
    while worker.should_fork() {
        thread::yield_now();
    }
    fib(worker, 15)
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
    pool.run(fib_alone);
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

/// Until a worker sleeps, and has been seen to.
fn until_asleep(pool: &Pool) {
    let last = |lane: &raddle_trace::Lane| lane.segments().last().map(|s| s.state);
    while !pool.trace().lanes[..2].iter().any(|lane| last(lane) == Some(State::Parked)) {
        thread::yield_now();
    }
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
            until_asleep(&pool);
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
    // A worker may have begun a note before, and lost its processor; but each only one.
    let mut before = pool.trace();
    for tries in 0.. {
        assert_eq!(pool.run(|w| fib(w, 12)), 144);
        let after = pool.trace();
        if after.lanes == before.lanes {
            break;
        }
        assert!(tries < 100, "what is recorded is not what was");
        before = after;
    }
    assert!(count(&before, EventKind::Fork) > 0, "what was recorded stays");
    assert_eq!(sums.into_inner() % 610, 0);
}

/// What threads of no pool do is recorded by the pools that record now.
#[test]
fn a_pool_that_is_switched_off_hears_of_no_thread_from_outside() {
    const NAME: &str = "who waits outside";
    let [on, off] = [(); 2].map(|()| pool(TraceLevel::Tasks));
    off.set_trace(TraceLevel::Phase);
    let waits = |pool: &Pool| {
        let trace = pool.trace();
        let lanes = trace.lanes.iter().filter(|lane| lane.name.contains(NAME));
        lanes.flat_map(|lane| &lane.events).filter(|e| e.kind == EventKind::TouchBegin).count()
    };
    let wait = || {
        let waits = || assert!(Promise::<()>::new().1.wait_timeout(Duration::ZERO).is_err());
        thread::Builder::new().name(NAME.into()).spawn(waits).unwrap().join().unwrap();
    };
    wait();
    assert_eq!((waits(&on), waits(&off)), (1, 1), "once each");
    off.set_trace(TraceLevel::Off);
    wait();
    assert_eq!((waits(&on), waits(&off)), (2, 1));
    off.set_trace(TraceLevel::Tasks);
    wait();
    assert_eq!((waits(&on), waits(&off)), (3, 2));
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
        pool.run(fib_alone);
        let trace = pool.trace();
        let guest = trace.lanes.iter().find(|lane| lane.name == "guest 0").unwrap();
        let events = guest.events.len() as u64;
        let of = |kind| guest.events.iter().filter(|e| e.kind == kind).count() as u64;
        // Beside the forks there are samples of processor time, at the most one after each event, and a note where some are
        // missing.
        let (noted, told) = (of(EventKind::Drop), guest.dropped + events - of(EventKind::Drop));
        let recorded = 986 * 3 + 4;
        assert!((recorded..=2 * recorded).contains(&told), "{told}");
        let forks = events - 4 - noted - of(EventKind::Strand);
        assert_eq!((forks, noted), if overwrites { (127, 1) } else { (128, 0) });
        // The region is there all the same.
        assert_eq!(guest.events[0].kind, EventKind::Submit);
        assert_eq!(trace.phases().len(), 1);
        // Its end may be followed by a sample.
        let last = guest.events.iter().rfind(|e| e.kind != EventKind::Cpu).unwrap();
        assert_eq!(last.kind, EventKind::Waited);
        assert!(trace.summary().contains(&format!("{} dropped", guest.dropped)));
    }
}

#[test]
fn sleeping_workers_are_parked_and_woken_ones_are_told_by_whom() {
    let pool = pool(TraceLevel::Phase);
    // The guest may have the place of the one that sleeps, and then nobody is woken.
    for round in 0.. {
        assert!(round < 10_000, "nobody has ever been woken");
        until_asleep(&pool);
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

#[test]
fn kills_results_and_lock_waits_are_recorded() {
    let pool = Pool::builder().threads(2).trace(TraceLevel::Tasks).build().unwrap();
    let gate = std::sync::Arc::new(Barrier::new(3));
    let blockers = [0, 1].map(|_| {
        let gate = std::sync::Arc::clone(&gate);
        pool.spawn(move || (0..2).for_each(|_| _ = gate.wait()))
    });
    gate.wait(); // both have begun, so there is no thread for the others
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
    match whole.scale(&[]) {
        Ok(scale) => assert!(scale.bound() > 2.0),
        // Others have used the machine meanwhile, and it says so.
        Err(refusal) => assert!(matches!(refusal, Refusal::Preempted(_)), "{refusal}"),
    }
    std::fs::remove_file(&path).unwrap();
    let error = build().trace_to("/nonexistent/dir/t").build().unwrap_err().to_string();
    assert!(error.starts_with("/nonexistent/dir/t: cannot be written: "), "{error}");
}

/// What runs when recording is switched off is not taken to have run until somebody asks for the trace.
#[test]
fn a_recording_ends_when_it_is_switched_off() {
    let pool = pool(TraceLevel::Tasks);
    pool.run(|_| ());
    let before = pool.trace().end.tsc;
    pool.set_trace(TraceLevel::Off);
    let off = pool.trace().end.tsc;
    assert!(before <= off && pool.trace().end.tsc == off);
    pool.set_trace(TraceLevel::Tasks);
    assert!(pool.trace().end.tsc > off);
}

/// The letters of a broadcast come from somewhere.
#[test]
fn each_call_of_a_broadcast_is_forked() {
    let pool = pool(TraceLevel::Tasks);
    pool.broadcast(|_| ());
    let trace = pool.trace();
    let of = |kind| {
        let events = trace.lanes.iter().flat_map(|lane| &lane.events);
        let mut keys: Vec<u32> = events.filter(|e| e.kind == kind).map(|e| e.task).collect();
        keys.sort_unstable();
        keys
    };
    assert_eq!(of(EventKind::Fork).len(), 2);
    assert_eq!(of(EventKind::Fork), of(EventKind::Exec));
    assert_eq!(of(EventKind::Fork), of(EventKind::Executed));
}

#[test]
fn what_a_waiter_takes_from_who_dequeued_it_runs_once() {
    // Whoever had found that it was yet to be run recorded that it runs, and then the waiter was first.
    let build = Pool::builder().threads(2).trace(TraceLevel::Tasks).trace_capacity(1 << 20);
    let pool = build.build().unwrap();
    let busy = |micros| {
        let end = Instant::now() + Duration::from_micros(micros);
        while Instant::now() < end {}
    };
    const MANY: usize = 60_000;
    pool.run(|_| {
        for _ in 0..MANY {
            let future = pool.spawn(move || busy(2));
            busy(3);
            future.wait().unwrap();
        }
    });
    let trace = pool.trace();
    assert_eq!(trace.drops(), 0);
    for kind in [EventKind::Exec, EventKind::Executed] {
        let events = trace.lanes.iter().flat_map(|lane| &lane.events);
        let tasks = events.filter(|e| e.kind == kind && e.subject() == Subject::Task);
        assert_eq!(tasks.count(), MANY);
    }
}

#[test]
fn two_pools_do_not_record_into_one_file() {
    let path = std::env::temp_dir().join(format!("raddle-core-two-{}.trace", std::process::id()));
    let link = path.with_extension("link");
    let build = |path| Pool::builder().threads(1).trace(TraceLevel::Phase).trace_to(path).build();
    // It leads to the file before that is there.
    #[cfg(unix)]
    std::os::unix::fs::symlink(&path, &link).unwrap();
    let first = build(if cfg!(unix) { &link } else { &path }).unwrap();
    first.run(|_| ());
    for path in [&path, &link].into_iter().filter(|path| path.exists()) {
        // It had the other's chunks between its own, and nobody could read it.
        let refused = build(path).unwrap_err().to_string();
        assert!(refused.contains("another pool records into it"), "{refused}");
    }
    drop(first);
    assert_eq!(Trace::load(&path).unwrap().phases().len(), 1);
    drop(build(&path).unwrap());
    _ = std::fs::remove_file(&link);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn of_a_recording_whose_level_changed_the_least_counts() {
    let path = std::env::temp_dir().join(format!("raddle-core-least-{}.trace", std::process::id()));
    for (from, to) in
        [(TraceLevel::Tasks, TraceLevel::Phase), (TraceLevel::Phase, TraceLevel::Tasks)]
    {
        let pool = Pool::builder().threads(1).trace(from).trace_to(&path).build().unwrap();
        let halves = || pool.run(|w| w.join(|_| spin(Duration::from_micros(50)), |_| ()));
        halves();
        pool.set_trace(TraceLevel::Off);
        pool.set_trace(to);
        halves();
        drop(pool);
        // Half of it lacks forks: what would be told of that has no span.
        let trace = Trace::load(&path).unwrap();
        assert_eq!(trace.level(), TraceLevel::Phase);
        assert_eq!(trace.scale(&[]).unwrap_err(), Refusal::Level);
    }
    std::fs::remove_file(&path).unwrap();
    let pool = pool(TraceLevel::Off);
    pool.set_trace(TraceLevel::Tasks);
    pool.run(|w| fib(w, 5));
    assert_eq!(pool.trace().level(), TraceLevel::Tasks);
}

/// A chain of wakes would take as many times as long as there are threads.
#[test]
fn tasks_that_lie_in_one_queue_have_two_woken_at_a_time() {
    const THREADS: usize = 32;
    let woken_by_one = || {
        let pool = Pool::builder().threads(THREADS).trace(TraceLevel::Tasks).build().unwrap();
        until_asleep(&pool);
        let all = Barrier::new(THREADS);
        pool.scope(|s| (0..THREADS).for_each(|_| s.spawn(|_| _ = all.wait())));
        let trace = pool.trace();
        let wakes = |lane: &raddle_trace::Lane| {
            lane.events.iter().filter(|event| event.kind == EventKind::Unpark).count()
        };
        trace.lanes.iter().filter(|lane| wakes(lane) > 1).count()
    };
    // Not all at once: then half of them search already.
    let all = thread::spawn(move || (0..20).any(|_| woken_by_one() > THREADS / 8));
    let begun = Instant::now();
    while !all.is_finished() {
        assert!(begun.elapsed() < Duration::from_secs(100), "not all come");
        thread::sleep(Duration::from_millis(1));
    }
    assert!(all.join().unwrap(), "each wakes one");
}
