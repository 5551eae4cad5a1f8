//! Models of a scope's count and of purses: nobody goes on before all is over, and nobody uses the count after that.
//! Under models a purse draws two shares at a time. With five preemptions.

use std::sync::Arc;

use raddle_sync::thread;

use crate::count::{Count, Purse};
use crate::models::{Memory, Tally, check, parker};
use crate::queue::NOBODY;

/// A scope, whose memory is freed when it returns.
struct Scope {
    count: Count,
    memory: Memory,
    over: Tally,
}

/// A task that is not over.
struct Task(Arc<Scope>);

impl Scope {
    /// By the body, or a task.
    fn spawn(self: &Arc<Self>, purse: &Purse) -> Task {
        self.memory.touch();
        purse.spend(&self.count);
        Task(Arc::clone(self))
    }
}

impl Task {
    /// Runs the task, which does `what`, with this worker's purse.
    fn run(self, purse: &Purse, what: impl FnOnce(&Arc<Scope>)) {
        purse.turn_to(self.0.count.tag());
        what(&self.0);
        self.0.memory.touch();
        self.0.over.add();
        // SAFETY: its own.
        unsafe { purse.earn(&raw const self.0.count) };
    }
}

impl Task {
    /// As `run`, on top of something that has nothing to do with the scope.
    fn run_without(self) {
        self.0.memory.touch();
        self.0.over.add();
        // SAFETY: its own.
        unsafe { Purse::new().earn(&raw const self.0.count) };
    }
}

/// A body that spawns two tasks: one that another worker runs as `stolen` says, and one that the opener runs while it
/// waits. So many are over then.
fn scope(tasks: u32, stolen: fn(Task, &Purse)) {
    check(5, move || {
        let (memory, over) = (Memory::new(Tally::default()), Tally::default());
        let scope = Arc::new(Scope { count: Count::new(parker()), memory, over });
        let purse = Purse::new();
        let outer = purse.open(scope.count.tag());
        let first = scope.spawn(&purse);
        let thief = thread::spawn(move || {
            let purse = Purse::new();
            stolen(first, &purse);
            purse.turn_to(NOBODY);
        });
        let second = scope.spawn(&purse);
        let left = purse.close(outer);
        assert!(!scope.count.close(left), "one is not over");
        let outer = purse.open(NOBODY);
        second.run(&purse, |_| ());
        purse.turn_to(NOBODY);
        assert_eq!(purse.close(outer), 0, "it is given back before the wait");
        scope.count.latch().wait();
        assert_eq!(scope.over.count(), tasks, "all are over");
        scope.memory.free();
        thief.join().unwrap();
    });
}

#[test]
fn a_task_on_either_worker() {
    scope(2, |task, purse| task.run(purse, |_| ()));
}

#[test]
fn a_stolen_task_that_spawns_two_and_runs_them() {
    scope(4, |task, purse| {
        let mut spawned = Vec::new();
        task.run(purse, |scope| spawned.extend([scope.spawn(purse), scope.spawn(purse)]));
        spawned.into_iter().for_each(|task| task.run(purse, |_| ()));
    });
}

#[test]
fn a_stolen_task_that_spawns_one_for_a_worker_without_a_purse() {
    scope(3, |task, purse| {
        let mut spawned = None;
        task.run(purse, |scope| spawned = Some(scope.spawn(purse)));
        let spawned = spawned.expect("it has run");
        let other = thread::spawn(move || spawned.run_without());
        purse.turn_to(NOBODY);
        other.join().unwrap();
    });
}

/// The opener comes last, or not.
#[test]
fn a_close_against_the_only_task() {
    check(5, || {
        let (memory, over) = (Memory::new(Tally::default()), Tally::default());
        let scope = Arc::new(Scope { count: Count::new(parker()), memory, over });
        let purse = Purse::new();
        let outer = purse.open(scope.count.tag());
        let task = scope.spawn(&purse);
        let thief = thread::spawn(move || {
            let purse = Purse::new();
            task.run(&purse, |_| ());
            purse.turn_to(NOBODY);
        });
        if !scope.count.close(purse.close(outer)) {
            scope.count.latch().wait();
        }
        assert_eq!(scope.over.count(), 1, "all are over");
        scope.memory.free();
        thief.join().unwrap();
    });
}
