//! Locks that were waited for.

use super::*;

const MILLI: u64 = 1_000_000;

/// Tasks of 1 ms and then 2 ms with one lock, by two threads in turn. The first to have it is seen as `holder` by the second.
fn by_turns(tasks: u32, holder: u16) -> Trace {
    let mut outside = Script::new();
    let mut workers = [(); 2].map(|()| Script { now: 10_000, ..Script::new() });
    let mut free = 10_000;
    for task in 0..tasks {
        outside.spend(1_000).note(Fork, Subject::Task, task, 3);
        let number = task as usize % 2;
        let (me, other) = (number as u16 + 1, 2 - number as u16);
        let worker = &mut workers[number];
        worker.note(Exec, Subject::Task, task, 0);
        worker.spend(MILLI);
        if task == 0 {
            worker.note(Strand, Subject::Any, 0, me);
        }
        if free > worker.now {
            worker.note(Strand, Subject::Any, 0, me);
            worker.note(LockWait, Subject::Any, 70, if holder == 0 { 0 } else { other });
            worker.now = free;
            worker.note(LockHad, Subject::Any, 70, me);
        }
        worker.spend(2 * MILLI);
        free = worker.now;
        worker.note(Executed, Subject::Task, task, 0);
    }
    let [one, two] = workers;
    let mut trace = Trace { threads: 2, ..two.trace() };
    trace.lanes.insert(0, Lane::new("raddle-0", one.events));
    trace.lanes.push(Lane::new("outside (main)", outside.events));
    trace
}

fn millis(scale: &Scale) -> (u128, u128) {
    (scale.work.as_millis(), scale.span.as_millis())
}

#[test]
fn who_has_a_lock_is_before_who_gets_it() {
    for tasks in [2, 8, 9] {
        let scale = by_turns(tasks, 1).scale(&[]).unwrap();
        let n = u128::from(tasks);
        assert_eq!(millis(&scale), (3 * n, 1 + 2 * n), "{}", scale.text());
        assert!(scale.predicted(64).unwrap() < 1.5, "{}", scale.text());
    }
    told(Bound::Waits, &["Waits for locks bound this run"], &by_turns(8, 1));
}

/// A condition is nobody's, and whoever waits for one has not been held up by who waited before.
#[test]
fn who_waits_for_what_nobody_has_comes_after_nobody() {
    let scale = by_turns(8, 0).scale(&[]).unwrap();
    assert_eq!(millis(&scale), (24, 3), "{}", scale.text());
}

/// The lock's holder goes on to something else meanwhile, in the same task or in another.
#[test]
fn what_is_done_after_a_lock_is_not_before_who_gets_it() {
    for another in [false, true] {
        let mut holder = Script { now: 10_000, ..Script::new() };
        holder.note(Exec, Subject::Task, 0, 0);
        holder.note(Strand, Subject::Any, 0, 1);
        holder.spend(2 * MILLI);
        if another {
            holder.note(Executed, Subject::Task, 0, 0);
            holder.note(Exec, Subject::Task, 2, 0);
        }
        holder.spend(6 * MILLI);
        holder.note(Executed, Subject::Task, if another { 2 } else { 0 }, 0);
        let mut waiter = Script { now: 10_000, ..Script::new() };
        waiter.note(Exec, Subject::Task, 1, 0);
        waiter.spend(MILLI).note(LockWait, Subject::Any, 70, 1);
        waiter.spend(MILLI).note(LockHad, Subject::Any, 70, 2);
        waiter.spend(5 * MILLI).note(Executed, Subject::Task, 1, 0);
        let mut outside = Script::new();
        (0..3).for_each(|task| outside.spend(10).note(Fork, Subject::Task, task, 3));
        let mut trace = Trace { threads: 2, ..holder.trace() };
        trace.lanes.push(Lane::new("raddle-1", waiter.events));
        trace.lanes.push(Lane::new("outside (main)", outside.events));
        let scale = trace.scale(&[]).unwrap();
        let span = if another { 7 } else { 8 };
        assert_eq!(millis(&scale), (14, span), "{another}: {}", scale.text());
    }
}

/// It told that sixteen tasks with a lock in them scale to sixteen, and not that it could not know.
#[test]
fn one_thread_s_recording_says_that_it_shows_no_locks() {
    const NOTE: &str = "Note: One thread waits for no lock: record on two or more";
    let mut script = Script::new();
    script.region(0, |s| s.tree(16, MILLI));
    let mut trace = script.trace();
    let text = trace.scale(&[]).unwrap().text();
    assert!(text.contains(NOTE), "{text}");
    assert!(text.lines().count() <= 23 && text.lines().all(|line| line.chars().count() <= 80));
    trace.threads = 2;
    let text = trace.scale(&[]).unwrap().text();
    assert!(!text.contains("lock"), "{text}");
    // With one thread and a spare one somebody may have waited.
    let mut trace = by_turns(8, 1);
    trace.threads = 1;
    let text = trace.scale(&[]).unwrap().text();
    assert!(!text.contains(NOTE) && text.contains("of waiting for locks are no work"), "{text}");
}
