//! Who wakes how many, where there are many threads.

use raddle_core::trace::TraceLevel;
use raddle_trace::{EventKind, Lane, State};

use super::*;

const THREADS: usize = 9;

/// How many a thief has woken by the time it has forked three times, in a pool that slept when the region began.
fn wakes_of_a_thief(spread: usize) -> usize {
    // As on a machine with a processor for each.
    let policy =
        Policy { spread, processors: Some(THREADS), drowsy: Duration::ZERO, ..Policy::default() };
    let pool = Pool::builder().threads(THREADS).policy(policy).trace(TraceLevel::Phase);
    let pool = pool.build().unwrap();
    pool.broadcast(|_| ());
    let parked = |lane: &Lane| lane.segments().last().map(|s| s.state) == Some(State::Parked);
    while pool.trace().lanes.iter().filter(|lane| parked(lane)).count() < THREADS {
        thread::yield_now();
    }
    let woken = AtomicUsize::new(usize::MAX);
    pool.run(|worker| {
        let forks = |worker: &Worker| {
            let leaf = || {
                let (trace, me) = (pool.trace(), thread::current());
                let mine = trace.lanes.iter().find(|lane| Some(lane.name.as_str()) == me.name());
                let events = &mine.expect("the lane of this thread").events;
                let since = events.iter().rposition(|e| e.kind == EventKind::Steal).unwrap();
                let wakes = events[since..].iter().filter(|e| e.kind == EventKind::Unpark);
                woken.store(wakes.count(), Ordering::SeqCst);
            };
            worker.join(|w| w.join(|w| w.join(|_| leaf(), |_| ()), |_| ()), |_| ());
        };
        let waits = || {
            while woken.load(Ordering::SeqCst) == usize::MAX {
                thread::yield_now();
            }
        };
        worker.join(|_| waits(), forks);
    });
    woken.into_inner()
}

#[test]
fn a_thief_has_one_more_woken_with_each_of_its_first_forks() {
    ends("a region of threads that wake each other", || {
        // One that has been woken may have found nothing and be asleep again: then there is another without it, too.
        let of_five = |spread| (0..5).map(|_| wakes_of_a_thief(spread)).sum::<usize>();
        let (few, many) = (of_five(0), of_five(3));
        assert!(many >= 15 && few + 5 <= many, "{few} without, {many} with");
    });
}
