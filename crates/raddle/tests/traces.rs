//! What locks do to traces: locks and pools know nothing of each other.

use std::time::Duration;

use raddle::lock::Mutex;
use raddle::trace::{EventKind, TraceLevel};
use raddle::{Pool, Worker};

#[test]
fn a_wait_for_a_lock_is_told_with_who_holds_it() {
    let pool = Pool::builder().threads(2).trace(TraceLevel::Phase).build().unwrap();
    let lock = Mutex::new(());
    let held = std::sync::Barrier::new(2);
    let waits = || {
        let trace = pool.trace();
        let events = trace.lanes.iter().flat_map(|lane| &lane.events);
        events.filter(|event| event.kind == EventKind::LockWait).count()
    };
    let mut told = String::new();
    pool.run(|worker: &Worker| {
        worker.join(
            |_| {
                let _guard = lock.lock();
                held.wait();
                // Until the other sleeps, which a trace says.
                while waits() == 0 {
                    std::thread::yield_now();
                }
                told = pool.trace().doctor().to_string();
            },
            |_| {
                held.wait();
                drop(lock.lock());
            },
        );
    });
    assert!(told.contains("for the lock") && told.contains("held by strand"), "{told}");
    let trace = pool.trace();
    let (mut sleeps, mut ends) = (0, 0);
    for event in trace.lanes.iter().flat_map(|lane| &lane.events) {
        sleeps += u32::from(event.kind == EventKind::LockWait);
        ends += u32::from(event.kind == EventKind::LockHad);
        assert!(event.kind != EventKind::LockWait || event.aux != 0, "its holder is known");
    }
    assert!(sleeps > 0 && sleeps == ends, "{sleeps} {ends}");
    let locked: Duration = trace.workers().iter().map(|worker| worker.locked).sum();
    assert!(!locked.is_zero());
}

/// Meanwhile its thread may have been elsewhere, and another here.
#[test]
fn each_stay_says_as_which_strand_it_holds_locks() {
    let pool = Pool::builder().threads(2).trace(TraceLevel::Phase).build().unwrap();
    let lock = Mutex::new(());
    drop(lock.lock());
    (0..3).for_each(|_| pool.run(|_| ()));
    let trace = pool.trace();
    let (mut stays, mut said) = (0, false);
    for event in trace.lanes.iter().flat_map(|lane| &lane.events) {
        match event.kind {
            EventKind::Exec => said = false,
            EventKind::Strand => said = true,
            EventKind::Executed => {
                assert!(said, "{event:?}");
                stays += 1;
            }
            _ => {}
        }
    }
    assert_eq!(stays, 3);
}
