//! What is not of the run as it was recorded: what is supposed, what began before or outside, and what was still to come.

use super::*;

/// Eight threads: 3 ms of one alone, then 400 us of each at once.
fn serial_then_all() -> Trace {
    let mut script = Script::new();
    script.region(0, |s| {
        s.spend(3_000_000);
        (1..8).for_each(|fork| s.note(Fork, Subject::Fork, fork, 2));
        s.spend(400_000);
        for fork in (1..8).rev() {
            s.spend(10).note(Join, Subject::Fork, fork, 0);
            s.note(Joined, Subject::Fork, fork, 2);
        }
    });
    let mut trace = Trace { threads: 8, ..script.trace() };
    for fork in 1..8 {
        let mut thief = Script { now: 3_000_500, ..Script::new() };
        thief.note(Exec, Subject::Fork, fork, 0);
        thief.spend(399_000).note(Executed, Subject::Fork, fork, 0);
        trace.lanes.push(Lane::new("raddle", thief.events));
    }
    trace
}

#[test]
fn what_is_supposed_is_not_held_against_what_was_measured() {
    let trace = serial_then_all();
    told(Bound::Serial, &["A serial part of 3.0 ms"], &trace);
    assert!(trace.scale(&[]).unwrap().text().contains("◆ 1.8x measured on 8"));
    for factor in ["0", "0.05", "0.3"] {
        let what = WhatIf::parse(&format!("before tree.rs:52={factor}")).unwrap();
        let scale = trace.scale(&[what]).unwrap();
        assert!(scale.bound_by() != Bound::Waits, "{factor}: {}", scale.verdict());
        assert_eq!(scale.measured, []);
        assert!(!scale.text().contains('◆'), "{}", scale.text());
    }
    let locked = one_region(1, |s| {
        s.tree(8, 50_000);
        s.note(LockWait, Subject::Any, 1, 0);
        s.spend(300_000);
        s.note(LockHad, Subject::Any, 1, 0);
    });
    let scale = locked.scale(&[WhatIf::parse("tree.rs=0.5").unwrap()]).unwrap();
    assert!(scale.bound_by() != Bound::Waits, "{}", scale.verdict());
}

/// Two threads that have run tasks all the time, which a third one has spawned from outside.
fn spawned() -> Trace {
    let mut outside = Script::new();
    let mut workers = [(); 2].map(|()| Script { now: 70_000, ..Script::new() });
    for task in 0..64 {
        outside.spend(1_000).note(Fork, Subject::Task, task, 3);
        let worker = &mut workers[task as usize % 2];
        worker.note(Exec, Subject::Task, task, 0);
        worker.spend(999_900).note(Executed, Subject::Task, task, 0);
        worker.spend(100);
    }
    let [one, two] = workers;
    let mut trace = Trace { threads: 2, ..one.trace() };
    trace.lanes.push(Lane::new("raddle-1", two.events));
    trace.lanes.push(Lane::new("outside (main)", outside.events));
    trace
}

#[test]
fn what_was_spawned_from_outside_took_the_time_that_it_ran() {
    let mut trace = spawned();
    let advice = trace.advice()[0].to_string();
    assert!(advice.contains("as tasks were spawned from outside: hand work over"), "{advice}");
    for regions in 0..2 {
        let scale = trace.scale(&[]).unwrap();
        let measured = scale.measured[0].speedup;
        assert!((1.98..=2.0).contains(&measured), "{regions}: {measured}");
        assert!(scale.bound_by() != Bound::Waits, "{}", scale.verdict());
        // And then a small region.
        let mut guest = Script { now: trace.end.tsc, ..Script::new() };
        guest.region(0, |s| _ = s.spend(10_000));
        trace.lanes.push(Lane::new("guest 0", guest.events));
        (trace.end.tsc, trace.end.nanos) = (guest.now, guest.now);
    }
}

#[test]
fn what_still_runs_at_the_end_has_run_until_then() {
    let mut owner = Script::new();
    owner.note(Submit, Subject::Region, 1, 0);
    owner.note(Exec, Subject::Region, 1, 1);
    owner.spend(20_000).note(Fork, Subject::Fork, 5, 2);
    let mut thief = Script { now: 25_000, ..Script::new() };
    thief.note(Exec, Subject::Fork, 5, 0);
    let mut trace = Trace { threads: 2, ..owner.trace() };
    (trace.end.tsc, trace.end.nanos) = (10_000_000, 10_000_000);
    trace.lanes.push(Lane::new("raddle-0", thief.events));
    let scale = trace.scale(&[]).unwrap();
    assert_eq!(micros(&scale), (10_000 + 9_975, 10_000));
    assert!(scale.notes[0].starts_with("2 threads still ran tasks when"), "{:?}", scale.notes);
    assert!(scale.bound_by() != Bound::Waits, "{}", scale.verdict());
    let (_, stretches) = trace.scale_with_span().unwrap();
    assert_eq!(stretches[0], [(0, 10_000_000)]);
    // One that waits does not work.
    trace.lanes[0].events.push(Event::new(30_000, EventKind::Wait, 0));
    assert_eq!(micros(&trace.scale(&[]).unwrap()), (30 + 9_975, 20 + 9_975));
}

#[test]
fn a_wait_for_a_lock_that_began_before_the_recording_is_not_counted() {
    const UP: u64 = 300_000_000_000_000;
    let mut script = Script { now: UP, ..Script::new() };
    script.region(0, |s| s.tree(300, 20_000));
    let mut trace = script.trace();
    (trace.start.tsc, trace.start.nanos) = (UP, UP);
    // Outside of tasks, and in one.
    let had = |tsc| Event { aux: 3, ..Event::new(tsc, LockHad, 0x70) };
    trace.lanes.push(Lane::new("raddle-0", vec![had(UP + 50)]));
    trace.lanes[0].events.insert(2, had(UP));
    let scale = trace.scale(&[]).unwrap();
    assert_eq!((micros(&scale), &*scale.notes), ((6000, 20), &[ONE_THREAD.to_owned()][..]));
    assert!(scale.bound_by() != Bound::Waits, "{}", scale.verdict());
}

#[test]
fn tasks_that_came_from_nowhere_are_told_of_how_many_tasks() {
    let script = |orphans: u32| {
        let mut script = Script::new();
        script.region(0, |s| s.tree(96, 10_000));
        let mut trace = script.trace();
        let mut worker = Script::new();
        for task in 900..900 + orphans {
            worker.note(Exec, Subject::Task, task, 0);
            worker.spend(500).note(Executed, Subject::Task, task, 0);
        }
        trace.lanes.push(Lane::new("raddle-0", worker.events));
        trace.scale(&[]).map(|scale| scale.work)
    };
    assert_eq!(script(5), Err(Refusal::Orphans(5, 101)));
    assert!(script(2).is_ok() && script(0).is_ok());
}
