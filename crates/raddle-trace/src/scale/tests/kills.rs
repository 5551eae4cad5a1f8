//! Kills: what was killed before it began is neither work nor waited for, and what runs goes on while its future is done.

use super::*;

/// A region that spawns three tasks after 2, 3 and 4 us, kills the second before it begins, and waits for the others: for the third
/// first, of `third` microseconds, which it kills before if `is_killed`.
fn region(third: u64, is_killed: bool) -> Trace {
    const MICRO: u64 = 1_000;
    let mut owner = Script::new();
    owner.region(0, |s| {
        s.spend(MICRO);
        for task in 1..=3 {
            s.spend(MICRO).note(Fork, Subject::Task, task, 3);
        }
        s.spend(MICRO).note(Kill, Subject::Task, 2, 0);
        s.note(Resolve, Subject::Any, 72, 0);
        s.spend(15 * MICRO);
        if is_killed {
            s.note(Kill, Subject::Task, 3, 0);
            s.note(Resolve, Subject::Any, 73, 0);
        }
        for (future, end) in [(73, if is_killed { 20 } else { 8 + third }), (71, 80)] {
            s.note(TouchBegin, Subject::Any, future, 0);
            s.now = s.now.max(end * MICRO);
            s.note(TouchEnd, Subject::Any, future, 0);
            s.spend(5 * MICRO);
        }
    });
    let ran = |task: u32, from: u64, time: u64, resolves: bool| {
        let mut worker = Script { now: from * MICRO, ..Script::new() };
        worker.note(Exec, Subject::Task, task, 0);
        worker.spend(time * MICRO);
        if resolves {
            worker.note(Resolve, Subject::Any, 70 + task, 0);
        }
        worker.note(Executed, Subject::Task, task, 0);
        worker.events
    };
    let mut trace = Trace { threads: 3, ..owner.trace() };
    trace.lanes.push(Lane::new("raddle-0", ran(1, 6, 40, true)));
    trace.lanes.push(Lane::new("raddle-1", ran(3, 7, third, !is_killed)));
    trace
}

#[test]
fn nobody_waits_for_what_was_killed_and_what_ran_of_it_is_work() {
    for (third, is_killed, span, of_region) in [
        // The wait for the first task bounds, or else what the killed one still did.
        (30, true, 2 + 40 + 5, 2 + 40 + 5),
        (60, true, 4 + 60, 2 + 40 + 5),
        (60, false, 4 + 60 + 5 + 5, 4 + 60 + 5 + 5),
    ] {
        let scale = region(third, is_killed).scale(&[]).unwrap();
        let work = 5 + 15 + 5 + 5 + 40 + u128::from(third);
        assert_eq!(micros(&scale), (work, span), "{third} {is_killed}: {}", scale.text());
        assert_eq!(scale.regions[0].span.as_micros(), of_region, "{third} {is_killed}");
        assert_eq!(scale.notes, [""; 0]);
    }
}

/// A task's number is given to another once it is dead.
#[test]
fn what_has_the_number_of_one_that_was_killed_is_another() {
    let mut script = Script::new();
    script.region(0, |s| {
        for _ in 0..50 {
            s.spend(1_000).note(Fork, Subject::Task, 8, 3);
            s.note(Kill, Subject::Task, 8, 0);
        }
        s.spend(1_000).note(Fork, Subject::Task, 8, 3);
        s.note(TouchBegin, Subject::Any, 78, 0);
        s.note(Exec, Subject::Task, 8, 0);
        s.spend(100_000).note(Resolve, Subject::Any, 78, 0);
        s.note(Executed, Subject::Task, 8, 0);
        s.note(TouchEnd, Subject::Any, 78, 0);
    });
    let trace = script.trace();
    assert_eq!(micros(&trace.scale(&[]).unwrap()), (151, 151));
    let tasks = trace.graph(below(0.0), &[]).unwrap().tasks;
    assert_eq!(tasks, 2, "the region and the one that ran");
}
