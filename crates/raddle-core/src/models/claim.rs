//! Models of one spawned task and its parties: the queue that holds it, whoever waits for it, kills
//! it, or drops its future. One party gets the closure, one completes, one frees, and nobody
//! touches the task afterwards.
//!
//! Two parties are explored with four preemptions, three with two.

use std::sync::Arc;

use raddle_sync::thread;

use crate::models::check;
use crate::models::task::{Record, Task};
use crate::queue::Injector;
use crate::spawn::running::List;

/// A task in an injector, and the list of the worker that takes it from there.
struct Stage {
    task: Arc<Task>,
    injector: Injector,
    running: List,
}

type Party = fn(&Stage);

/// Each party on a thread of its own; what is left in the queue is run at the end.
fn race(preemptions: usize, parties: &'static [Party]) {
    check(preemptions, move || {
        let record = Record::default();
        let stage = Arc::new(Stage {
            task: Task::new(&record),
            injector: Injector::new(),
            running: List::new(),
        });
        stage.injector.push([stage.task.header()]);
        let (first, others) = parties.split_first().expect("somebody");
        let others: Vec<_> = others
            .iter()
            .map(|&party| {
                let stage = Arc::clone(&stage);
                thread::spawn(move || party(&stage))
            })
            .collect();
        first(&stage);
        for other in others {
            other.join().unwrap();
        }
        worker(&stage);
        record.assert_done();
    });
}

// --- parties: the queue ---

fn worker(stage: &Stage) {
    for task in stage.injector.take::<1>().into_iter().flat_map(|batch| batch.into_iter()) {
        // SAFETY: the stage keeps it.
        unsafe { Task::of(task) }.run(&stage.running);
    }
}

/// `kill_all`: what is queued is killed and goes back, what runs is killed.
fn kills_all(stage: &Stage) {
    let batch = stage.injector.take::<1>();
    let queued: Vec<_> = batch.into_iter().flat_map(|batch| batch.into_iter()).collect();
    for &task in &queued {
        // SAFETY: the stage keeps it.
        unsafe { Task::of(task) }.kill_queued();
    }
    Task::kill_running(&stage.running);
    stage.injector.push(queued);
}

fn kills_running(stage: &Stage) {
    Task::kill_running(&stage.running);
}

// --- parties: the consumer ---

fn drops(stage: &Stage) {
    stage.task.abandon();
}

/// The future was dropped before the task was found.
fn drops_and_works(stage: &Stage) {
    stage.task.abandon();
    worker(stage);
}

/// What the closure holds goes when the handle has gone.
fn kills_and_drops(stage: &Stage) {
    let unstarted = stage.task.kill();
    stage.task.abandon();
    if unstarted {
        stage.task.discard_killed();
    }
}

fn waits(stage: &Stage) {
    stage.task.wait();
}

fn helps_and_waits(stage: &Stage) {
    stage.task.run_here(&stage.injector, &List::new());
    stage.task.wait();
}

/// Runs it as `helps_and_waits` does, where a killer sees it.
fn helps_in_the_open_and_waits(stage: &Stage) {
    stage.task.run_here(&stage.injector, &stage.running);
    stage.task.wait();
}

fn interrupts_and_drops(stage: &Stage) {
    stage.task.interrupt();
    stage.task.abandon();
}

/// As a visitor that comes by way of a continuation, which then takes the result.
fn interrupts_what_is_let_go(stage: &Stage) {
    let pinned = stage.task.pin();
    stage.task.abandon();
    if pinned {
        stage.task.interrupt_pinned();
    }
}

/// The same, who only looks.
fn looks_at_what_is_let_go(stage: &Stage) {
    let pinned = stage.task.pin();
    stage.task.abandon();
    if pinned {
        stage.task.look();
        stage.task.unpin();
    }
}

fn interrupts_and_waits(stage: &Stage) {
    stage.task.interrupt();
    stage.task.wait();
}

// --- two parties ---

#[test]
fn a_start_against_a_drop() {
    race(4, &[worker, drops]);
}

#[test]
fn a_start_against_a_kill_and_a_drop() {
    race(4, &[worker, kills_and_drops]);
}

#[test]
fn a_start_against_a_wait() {
    race(4, &[worker, waits]);
}

#[test]
fn a_start_against_a_waiter_who_helps() {
    race(4, &[worker, helps_and_waits]);
}

#[test]
fn a_killer_of_all_against_a_drop() {
    race(4, &[kills_all, drops]);
}

#[test]
fn a_killer_of_all_against_a_kill() {
    race(4, &[kills_all, kills_and_drops]);
}

#[test]
fn a_killer_of_all_against_a_waiter_who_helps() {
    race(3, &[kills_all, helps_in_the_open_and_waits]);
}

#[test]
fn a_start_against_an_interrupt_and_a_drop() {
    race(4, &[worker, interrupts_and_drops]);
}

#[test]
fn a_start_against_an_interrupt_of_what_is_let_go() {
    race(4, &[worker, interrupts_what_is_let_go]);
}

#[test]
fn a_start_of_what_was_let_go_against_a_killer_of_what_runs() {
    race(4, &[drops_and_works, kills_running]);
}

#[test]
fn a_start_against_a_look_at_what_is_let_go() {
    race(4, &[worker, looks_at_what_is_let_go]);
}

#[test]
fn a_start_against_an_interrupt_and_a_wait() {
    race(4, &[worker, interrupts_and_waits]);
}

#[test]
fn a_killer_of_all_against_an_interrupt_of_what_is_let_go() {
    race(4, &[kills_all, interrupts_what_is_let_go]);
}

// --- three ---

#[test]
fn a_start_against_a_killer_of_what_runs_and_a_drop() {
    race(2, &[worker, kills_running, drops]);
}

#[test]
fn a_start_against_a_killer_of_what_runs_and_a_kill() {
    race(2, &[worker, kills_running, kills_and_drops]);
}

#[test]
fn a_start_against_a_killer_of_what_runs_and_a_wait() {
    race(2, &[worker, kills_running, waits]);
}

#[test]
fn a_start_against_a_killer_of_all_and_a_waiter_who_helps() {
    race(2, &[worker, kills_all, helps_and_waits]);
}

#[test]
fn a_start_against_a_killer_of_all_and_an_interrupt_of_what_is_let_go() {
    race(2, &[worker, kills_all, interrupts_what_is_let_go]);
}
