//! One task among many parties, at random. Sequentially consistent, so these are about the steps and not about
//! the orderings.

use std::sync::Arc;

use raddle_sync::thread;

use crate::models::task::{Record, Task};
use crate::queue::Injector;
use crate::spawn::running::List;

const ITERATIONS: usize = 20_000;

fn check(model: impl Fn() + Send + Sync + 'static) {
    shuttle::check_random(model, ITERATIONS);
}

/// A task among its parties, one thread each; what is left in the queue is run at the end.
fn parties(parties: &'static [fn(&Arc<Task>, &Injector, &List)]) {
    check(move || {
        let record = Record::default();
        let stage = Arc::new((Task::new(&record), Injector::new(), List::new()));
        stage.1.push([stage.0.header()]);
        let threads: Vec<_> = parties
            .iter()
            .map(|&party| {
                let stage = Arc::clone(&stage);
                thread::spawn(move || party(&stage.0, &stage.1, &stage.2))
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        works(&stage.0, &stage.1, &stage.2);
        record.assert_done();
    });
}

fn works(_: &Arc<Task>, injector: &Injector, list: &List) {
    for task in injector.take::<1>().into_iter().flat_map(|batch| batch.into_iter()) {
        // SAFETY: the stage keeps it.
        unsafe { Task::of(task) }.run(list);
    }
}

fn kills_all(_: &Arc<Task>, injector: &Injector, list: &List) {
    let batch = injector.take::<1>();
    let queued: Vec<_> = batch.into_iter().flat_map(|batch| batch.into_iter()).collect();
    for &task in &queued {
        // SAFETY: the stage keeps it.
        unsafe { Task::of(task) }.kill_queued();
    }
    Task::kill_running(list);
    injector.push(queued);
}

#[test]
fn a_task_its_worker_two_killers_and_a_drop() {
    parties(&[works, kills_all, kills_all, |task, _, _| task.abandon()]);
}

#[test]
fn a_task_its_worker_two_killers_and_a_waiter() {
    parties(&[works, kills_all, kills_all, |task, _, _| task.wait()]);
}

#[test]
fn a_task_two_killers_and_a_waiter_who_helps() {
    parties(&[kills_all, kills_all, |task, injector, list| {
        task.run_here(injector, list);
        task.wait();
    }]);
}

#[test]
fn a_task_its_worker_a_killer_and_a_consumer_who_kills() {
    parties(&[works, kills_all, |task, _, _| {
        let unstarted = task.kill();
        task.abandon();
        if unstarted {
            task.discard_killed();
        }
    }]);
}

#[test]
fn a_task_its_worker_a_killer_and_a_consumer_who_interrupts() {
    parties(&[works, kills_all, |task, _, _| {
        let pinned = task.pin();
        task.abandon();
        if pinned {
            task.interrupt_pinned();
        }
    }]);
}
