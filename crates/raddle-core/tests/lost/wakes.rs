//! Who wakes how many, where there are many threads.

use raddle_core::trace::TraceLevel;
use raddle_trace::{EventKind, Lane, State};

use super::*;

/// What a thief does, and when it is to call the other.
type Forks = fn(&Worker, &(dyn Fn() + Sync));

/// How many a thief has woken by the time `forks` calls its leaf, in a pool that slept when the region began.
fn wakes_of_a_thief(threads: usize, spread: usize, forks: Forks) -> usize {
    // As on a machine with a processor for each.
    let policy =
        Policy { spread, processors: Some(threads), drowsy: Duration::ZERO, ..Policy::default() };
    let pool = Pool::builder().threads(threads).policy(policy).trace(TraceLevel::Phase);
    let pool = pool.build().unwrap();
    pool.broadcast(|_| ());
    let parked = |lane: &Lane| lane.segments().last().map(|s| s.state) == Some(State::Parked);
    while pool.trace().lanes.iter().filter(|lane| parked(lane)).count() < threads {
        thread::yield_now();
    }
    let woken = AtomicUsize::new(usize::MAX);
    pool.run(|worker| {
        let stolen = |worker: &Worker| {
            let leaf = || {
                let (trace, me) = (pool.trace(), thread::current());
                let mine = trace.lanes.iter().find(|lane| Some(lane.name.as_str()) == me.name());
                let events = &mine.expect("the lane of this thread").events;
                let since = events.iter().rposition(|e| e.kind == EventKind::Steal).unwrap();
                let wakes = events[since..].iter().filter(|e| e.kind == EventKind::Unpark);
                woken.store(wakes.count(), Ordering::SeqCst);
            };
            forks(worker, &leaf);
        };
        let waits = || {
            while woken.load(Ordering::SeqCst) == usize::MAX {
                thread::yield_now();
            }
        };
        worker.join(|_| waits(), stolen);
    });
    woken.into_inner()
}

#[test]
fn a_thief_has_one_more_woken_with_each_of_its_first_forks() {
    ends("a region of threads that wake each other", || {
        // One that has been woken may have found nothing and be asleep again: then there is another without it, too.
        let forks: Forks = |worker, leaf| {
            worker.join(|w| w.join(|w| w.join(|_| leaf(), |_| ()), |_| ()), |_| ());
        };
        let of_five = |spread| (0..5).map(|_| wakes_of_a_thief(9, spread, forks)).sum::<usize>();
        let (few, many) = (of_five(0), of_five(3));
        assert!(many >= 15 && few + 5 <= many, "{few} without, {many} with");
    });
}

/// Three of all that the job forks, not three at a time.
#[test]
fn a_loop_of_small_joins_in_a_stolen_job_wakes_three() {
    // Enough that each of its forks would find somebody asleep.
    const THREADS: usize = 40;
    ends("a region whose thief has many small forks", || {
        let forks: Forks = |worker, leaf| {
            (0..1000).for_each(|_| _ = worker.join(|_| (), |_| ()));
            leaf();
        };
        let of_five =
            |spread| (0..5).map(|_| wakes_of_a_thief(THREADS, spread, forks)).sum::<usize>();
        let (few, many) = (of_five(0), of_five(3));
        // Who finds nothing lies down and may be woken again by one of those three, and by what is forked while it looks.
        eprintln!("{few} {many}");
        assert!(many >= 5 && many <= few + 5 * 6, "{few} without, {many} with");
    });
}
