use std::sync::{Arc, mpsc};
use std::thread;
use std::time::Instant;

use super::*;

/// What a thread of which only the number is in use may run on: how many processors.
fn processors() -> usize {
    sys::affinity(0).map_or(1, |set| set.len())
}

/// Has a thread do something before and after the moment in which another one, which calls this, does something to it.
fn meets<T: Send + 'static, U>(
    before: impl FnOnce(&WakeAffinity) + Send + 'static,
    waker: impl FnOnce(&WakeAffinity) -> U,
    after: impl FnOnce(&WakeAffinity) -> T + Send + 'static,
) -> (U, T) {
    let elsewhere = Arc::new(WakeAffinity::new());
    let (ready, wait) = mpsc::channel();
    let (go, told) = mpsc::channel::<()>();
    let sleeper = thread::spawn({
        let elsewhere = Arc::clone(&elsewhere);
        move || {
            elsewhere.adopt();
            before(&elsewhere);
            ready.send(()).unwrap();
            told.recv().unwrap();
            after(&elsewhere)
        }
    });
    wait.recv().unwrap();
    let of_waker = waker(&elsewhere);
    go.send(()).unwrap();
    (of_waker, sleeper.join().unwrap())
}

/// As `meets`, where the thread is confined.
fn confined<T: Send + 'static>(
    before: impl FnOnce(&WakeAffinity) + Send + 'static,
    after: impl FnOnce(&WakeAffinity) -> T + Send + 'static,
) -> T {
    meets(before, WakeAffinity::confine, after).1
}

#[test]
fn a_confined_thread_gets_its_affinity_back() {
    let all = processors();
    let (confined, processors_then, after) = confined(WakeAffinity::lie_down, |elsewhere| {
        let (confined, then) = (elsewhere.is_confined(), processors());
        elsewhere.release();
        assert!(!elsewhere.is_confined());
        (confined, then, processors())
    });
    // On a single processor there is nothing to take away.
    assert_eq!((confined, processors_then), (all > 1, (all - 1).max(1)));
    assert_eq!(after, all);
}

#[test]
fn a_thread_that_avoids_its_processor_may_come_back() {
    let all = processors();
    let elsewhere = WakeAffinity::new();
    elsewhere.adopt();
    let here = processor().unwrap();
    elsewhere.avoid(here);
    assert!(all == 1 || processors() == all);
}

#[test]
fn a_thread_says_where_it_is_unless_it_sleeps() {
    let thread = WakeAffinity::new();
    // More than once, as a thread may be moved any moment.
    let is_here = |says: fn(&WakeAffinity)| {
        (0..1000).any(|_| {
            says(&thread);
            thread.is_on(processor().unwrap())
        })
    };
    assert!(!is_here(|_| ()));
    assert!(is_here(WakeAffinity::note_here));
    assert!(!is_here(WakeAffinity::note_away));
    assert!(is_here(WakeAffinity::note_here));
    assert!(!is_here(WakeAffinity::lie_down));
    assert!(is_here(WakeAffinity::release));
}

/// Two that did so, by the same record, wrote to it at the same time.
#[test]
fn a_thread_that_avoids_its_processor_has_the_record_for_itself() {
    let (elsewhere, seen) = (WakeAffinity::new(), crate::atomic::AtomicBool::new(false));
    thread::scope(|s| {
        s.spawn(|| {
            elsewhere.adopt();
            let begun = Instant::now();
            while !seen.load(Ordering::Relaxed) && begun.elapsed() < Duration::from_secs(20) {
                elsewhere.avoid(processor().unwrap());
            }
            seen.store(true, Ordering::Relaxed);
        });
        // Where that has once taken long, nobody does so any more.
        while elsewhere.state.load(Ordering::Relaxed) != BUSY && !HOGGED.load(Ordering::Relaxed) {
            assert!(!seen.load(Ordering::Relaxed), "nobody else may know");
        }
        seen.store(true, Ordering::Relaxed);
    });
    elsewhere.avoid(processor().unwrap()); // any thread's turn
    assert_eq!(elsewhere.state.load(Ordering::Relaxed), 0);
}

/// What a cpuset, a container's share, takes and gives back is not in the way of what a thread was allowed once: it is allowed all.
#[test]
fn a_thread_that_may_run_on_all_may_run_on_what_comes_later() {
    if processors() < 2 {
        return;
    }
    let (known, _) = confined(WakeAffinity::lie_down, |elsewhere| {
        elsewhere.release();
        elsewhere.saved.with(|saved| {
            // SAFETY: nobody else is there any more.
            let Saved { allowed, known, all, .. } = unsafe { *saved };
            (known.equals(&allowed) && all, processors())
        })
    });
    // Unless the whole test was given a part of what there is.
    let before = sys::affinity(0).unwrap();
    assert!(sys::set_affinity(0, &sys::Set::all()));
    let is_all = sys::affinity(0).unwrap().equals(&before);
    assert!(sys::set_affinity(0, &before));
    assert_eq!(known, is_all);
}

/// With three processors and more.
#[test]
fn a_thread_that_may_run_on_some_gets_no_more() {
    let all = sys::affinity(0).unwrap();
    let some = all.first(2);
    if all.len() < 3 {
        return;
    }
    let of = some;
    let before = move |elsewhere: &WakeAffinity| {
        assert!(sys::set_affinity(0, &of));
        elsewhere.lie_down();
    };
    // The waker is on one of them, or does not confine it.
    let kept = confined(before, move |elsewhere| {
        elsewhere.release();
        sys::affinity(0).unwrap().equals(&some)
    });
    assert!(kept);
}

#[test]
fn a_thread_that_is_awake_is_not_confined() {
    let all = processors();
    let awake = |elsewhere: &WakeAffinity| {
        elsewhere.lie_down();
        elsewhere.release();
    };
    assert_eq!(confined(awake, |_| processors()), all);
}

#[test]
fn a_thread_with_a_real_time_policy_is_left_alone() {
    let count = confined(
        |elsewhere| {
            let least = libc::sched_param { sched_priority: 1 };
            // SAFETY: reads the parameters.
            if unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &least) } == 0 {
                elsewhere.lie_down();
            } // else the system does not let it be one: it does not lie down, and nobody confines it
        },
        |_| processors(),
    );
    assert_eq!(count, processors());
}

/// It may never come to run where it was woken, so it is the waker that lets it go.
#[test]
fn a_thread_is_confined_no_longer_than_it_takes_to_wake_it() {
    let all = processors();
    // All of it before the thread is told to go on.
    let wakes = |elsewhere: &WakeAffinity| {
        let allowed = || {
            let thread = elsewhere.thread.load(Ordering::Relaxed) as sys::Thread;
            sys::affinity(thread).map_or(1, |set| set.len())
        };
        let mut while_woken = 0;
        elsewhere.wake_in(&Crowd::new(), || while_woken = allowed());
        (while_woken, allowed(), elsewhere.is_confined())
    };
    let (seen, ()) = meets(WakeAffinity::lie_down, wakes, WakeAffinity::release);
    assert_eq!(seen, ((all - 1).max(1), all, false));
}

/// It waits for the end of a time slice there. Regions one soon after the other took up to twelve times as long beside another program as
/// where the system chooses.
#[test]
fn a_thread_is_left_alone_once_one_has_waited_for_its_processor() {
    let crowd = Crowd::new();
    // By the clock of whoever waited, for an hour.
    let sent = now();
    crowd.note_arrival(sent, sent + 3_600_000_000_000);
    let wakes = |elsewhere: &WakeAffinity| {
        let mut while_woken = true;
        elsewhere.wake_in(&crowd, || while_woken = elsewhere.is_confined());
        while_woken
    };
    assert!(!meets(WakeAffinity::lie_down, wakes, WakeAffinity::release).0);
}

#[test]
fn a_thread_that_has_never_lain_down_is_not_confined() {
    assert_eq!(confined(|_| (), |_| processors()), processors());
}

#[test]
fn what_a_confined_thread_starts_may_run_anywhere() {
    let all = processors();
    let (started, lies) = confined(WakeAffinity::lie_down, |elsewhere| {
        let started = elsewhere.upright(|| thread::spawn(processors).join().unwrap());
        let lies = elsewhere.state.load(Ordering::Relaxed) == LYING;
        elsewhere.release();
        (started, lies)
    });
    assert_eq!((started, lies), (all, true));
}

#[test]
fn an_affinity_that_was_set_meanwhile_stays() {
    if processors() < 2 {
        return;
    }
    let kept = confined(WakeAffinity::lie_down, |elsewhere| {
        // The one that it is kept off, which is the waker's.
        let all = sys::affinity(elsewhere.thread.load(Ordering::Relaxed) as sys::Thread);
        let confined = all.unwrap();
        elsewhere.saved.with(|saved| {
            // SAFETY: nobody else is there any more.
            let Saved { allowed, .. } = unsafe { *saved };
            let own = allowed.minus(&confined);
            assert!(sys::set_affinity(0, &own));
            elsewhere.release();
            sys::affinity(0).unwrap().equals(&own)
        })
    });
    assert!(kept);
}

#[test]
fn wakers_and_sleeper_may_meet() {
    const ROUNDS: usize = if cfg!(debug_assertions) { 500 } else { 5_000 };
    let all = processors();
    let elsewhere = Arc::new(WakeAffinity::new());
    let (ready, wait) = mpsc::channel();
    let (go, told) = mpsc::channel::<()>();
    let sleeper = thread::spawn({
        let elsewhere = Arc::clone(&elsewhere);
        move || {
            elsewhere.adopt();
            ready.send(()).unwrap();
            for _ in 0..ROUNDS {
                elsewhere.lie_down();
                thread::yield_now();
                elsewhere.release();
                assert_eq!(processors(), all);
            }
            // Its number is its own as long as the wakers use it.
            told.recv().unwrap();
        }
    });
    wait.recv().unwrap();
    let wakers: Vec<_> = (0..2)
        .map(|_| {
            let elsewhere = Arc::clone(&elsewhere);
            thread::spawn(move || (0..ROUNDS).for_each(|_| elsewhere.wake(|| ())))
        })
        .collect();
    wakers.into_iter().for_each(|waker| waker.join().unwrap());
    go.send(()).unwrap();
    sleeper.join().unwrap();
}
