//! How soon more workers take part: as raddle's pools wake them.

use super::*;

impl Script {
    /// A scope with so many tasks, spawned one after the other and run here.
    fn scope(&mut self, tasks: u32, each: u64) {
        let first = self.next;
        self.next += tasks;
        self.note(ScopeBegin, Subject::Any, 9, 0);
        (0..tasks).for_each(|task| self.note(Fork, Subject::Task, first + task, 3));
        self.note(Wait, Subject::Any, 0, 0);
        for task in (0..tasks).rev() {
            self.note(Exec, Subject::Task, first + task, 0);
            self.note(Member, Subject::Any, 9, 0);
            self.spend(each);
            self.note(Executed, Subject::Task, first + task, 0);
        }
        self.note(Waited, Subject::Any, 0, 0);
        self.note(ScopeEnd, Subject::Any, 9, 3);
    }
}

/// Of a run of `knn`: 344 ms in 624 leaves.
const LEAVES: u64 = 624;
const LEAF: u64 = 551_000;

/// What is foretold on so many processors, and the least of it: as many leaves one after the other as if all workers had been there
/// from the beginning, and twice as many workers after each time in which one comes and wakes two.
fn by_doubling(scale: &Scale, processors: u64) -> (f64, f64) {
    let Costs { steal, wake, rouse } = scale.costs;
    let doubling = wake + steal + 2.0 * rouse;
    let rounds = LEAVES.div_ceil(processors);
    let ramp = doubling * (processors as f64).log2();
    let least = (LEAVES * LEAF) as f64 / ((rounds * LEAF) as f64 + ramp);
    (scale.predicted(processors as usize).unwrap(), least)
}

#[test]
fn forks_wake_at_least_twice_as_many_each_time() {
    let scale = scaled(|s| s.tree(LEAVES, LEAF));
    // Whoever comes takes a fork, wakes two, and goes on to fork. That makes 0.2 ms until 128 work, and 0.3 ms until 1,024 do.
    // They would be woken one after the other in 2.7 ms and in 22 ms.
    for processors in [64, 128, 1024] {
        let (predicted, least) = by_doubling(&scale, processors);
        assert!(least < predicted, "{processors}: {predicted}, at least {least}");
    }
}

#[test]
fn tasks_in_one_queue_wake_two_each_time() {
    let scale = scaled(|s| s.scope(LEAVES as u32, LEAF));
    // Whoever comes takes one, and wakes two; but no more than half of those who work are to search.
    for processors in [64, 128, 1024] {
        let (predicted, least) = by_doubling(&scale, processors);
        assert!(0.95 * least < predicted, "{processors}: {predicted}, at least {least}");
    }
}

type Body = fn(&mut Script);

/// Of a millisecond and more.
const BODIES: [Body; 7] = [
    |s| s.tree(128, 50_000),
    |s| s.tree(64, 50_000),
    |s| s.tree(77, 600_000),
    |s| s.tree(LEAVES, LEAF),
    |s| s.scope(LEAVES as u32, LEAF),
    |s| s.spend(3_000_000).tree(64, 50_000),
    |s| s.join(2, |s| s.tree(64, 50_000), |s| _ = s.spend(5_000_000)),
];

#[test]
fn more_processors_are_hardly_ever_slower_and_never_faster_than_there_is_to_do() {
    for (number, body) in BODIES.into_iter().enumerate() {
        let trace = one_region(1, body);
        let (scale, built) = (trace.scale(&[]).unwrap(), trace.graph(below(0.0), &[]).unwrap());
        let plan = Plan::new(&built.graph, |_| 1.0);
        let work = scale.work.as_nanos() as f64;
        let mut before = 0.0;
        for point in &scale.points {
            let speedup = work / plan.run(point.processors, scale.costs);
            assert!(speedup <= point.most + 1e-9, "{number}: {point:?} {speedup}");
            // Where there are not enough tasks for all, more are woken in vain.
            assert!(speedup >= before * 0.95, "{number}: {point:?} after {before}");
            before = speedup;
        }
    }
}

/// Recordings on two processors and on four bear these out: what is said of more must not change them.
#[test]
fn small_pools_wake_one_at_a_time() {
    let expected = [
        (1.99, 3.87),
        (1.97, 3.76),
        (1.97, 3.85),
        (2.00, 4.00),
        (2.00, 3.99),
        (1.34, 1.61),
        (1.64, 1.64),
    ];
    for (body, (two, four)) in BODIES.into_iter().zip(expected) {
        let scale = scaled(body);
        for (processors, expected) in [(2, two), (4, four)] {
            let predicted: f64 = scale.predicted(processors).unwrap();
            assert!((predicted / expected - 1.0).abs() < 0.02, "{predicted}, not {expected}");
        }
    }
}
