//! Models of the queues. The ring has two slots under models. Two threads: explored completely, three:
//! with three preemptions.

use std::sync::Arc;

use raddle_sync::thread;

use crate::models::{check, idle_tasks};
use crate::queue::{Injector, NOBODY, Ring, Tag, Task};

/// The tasks of a model, and what each thread got of them.
struct Got(Vec<Task>);

// SAFETY: the tasks are leaked.
unsafe impl Send for Got {}

impl FromIterator<Task> for Got {
    fn from_iter<I: IntoIterator<Item = Task>>(tasks: I) -> Got {
        Got(tasks.into_iter().collect())
    }
}

fn assert_each_once(tasks: &[Task], got: Vec<Got>) {
    let mut got: Vec<Task> = got.into_iter().flat_map(|got| got.0).collect();
    let mut tasks = tasks.to_vec();
    got.sort();
    tasks.sort();
    assert_eq!(got, tasks, "each task once");
}

/// An owner against thieves, each of which tries `tries` times; what is left is the owner's.
fn ring<const N: usize>(
    preemptions: usize,
    owner: fn(&Ring, [Task; N]) -> Got,
    thieves: usize,
    tries: usize,
) {
    check(preemptions, move || {
        let ring = Arc::new(Ring::new());
        let tasks = idle_tasks::<N>();
        let thieves: Vec<_> = (0..thieves)
            .map(|_| {
                let ring = Arc::clone(&ring);
                thread::spawn(move || (0..tries).filter_map(|_| ring.steal()).collect::<Got>())
            })
            .collect();
        let mut got = vec![owner(&ring, tasks)];
        got.extend(thieves.into_iter().map(|thief| thief.join().unwrap()));
        got.push(std::iter::from_fn(|| ring.pop()).collect());
        assert!(!ring.has_work());
        assert_each_once(&tasks, got);
    });
}

fn pushes_and_pops_one(ring: &Ring, [a]: [Task; 1]) -> Got {
    ring.push(a, NOBODY);
    ring.pop().into_iter().collect()
}

fn pushes_two_and_pops_one(ring: &Ring, [a, b]: [Task; 2]) -> Got {
    ring.push(a, NOBODY);
    ring.push(b, NOBODY);
    ring.pop().into_iter().collect()
}

#[test]
fn a_pop_against_a_steal_of_the_last_task() {
    ring(10, pushes_and_pops_one, 1, 1);
}

#[test]
fn a_pop_above_a_steal() {
    ring(10, pushes_two_and_pops_one, 1, 1);
}

#[test]
fn a_pop_against_two_steals() {
    ring(10, pushes_two_and_pops_one, 1, 2);
}

#[test]
fn a_pop_against_two_thieves() {
    ring(3, pushes_two_and_pops_one, 2, 1);
}

#[test]
fn a_slot_used_again_against_a_steal() {
    ring(
        4,
        |ring, [a, b, c]: [Task; 3]| {
            ring.push(a, NOBODY);
            ring.push(b, NOBODY);
            let first = ring.pop();
            ring.push(c, NOBODY);
            first.into_iter().chain(ring.pop()).collect()
        },
        1,
        2,
    );
}

/// The third task does not fit, and the ring moves to a larger buffer.
fn pushes_three(ring: &Ring, [a, b, c]: [Task; 3]) -> Got {
    ring.push(a, NOBODY);
    ring.push(b, NOBODY);
    ring.push(c, NOBODY);
    Got(Vec::new())
}

#[test]
fn a_ring_that_grows_against_two_steals() {
    ring(4, pushes_three, 1, 2);
}

#[test]
fn a_ring_that_grows_against_two_thieves() {
    ring(3, pushes_three, 2, 1);
}

/// A thief that has an old buffer in hand, whose slot was used before and is used again in the new one.
#[test]
fn a_ring_that_has_gone_round_and_grows_against_two_steals() {
    ring(
        3,
        |ring, [a, b, c, d]: [Task; 4]| {
            ring.push(a, NOBODY);
            let first = ring.pop();
            ring.push(b, NOBODY);
            ring.push(c, NOBODY);
            ring.push(d, NOBODY);
            first.into_iter().chain(ring.pop()).collect()
        },
        1,
        2,
    );
}

// --- tags ---

const MINE: Tag = 8;

/// A wait's own task is taken by whoever waits, and nobody else's with it.
fn tagged(owner: fn(&Ring, [Task; 3]) -> Got, tries: usize) {
    check(3, move || {
        let ring = Arc::new(Ring::new());
        let tasks = idle_tasks::<3>();
        let mine = Got(vec![tasks[1]]);
        let thief = {
            let ring = Arc::clone(&ring);
            thread::spawn(move || {
                let mine = mine;
                let stolen = (0..tries).filter_map(|_| ring.steal_tagged(MINE)).collect::<Got>();
                assert!(stolen.0.iter().all(|task| mine.0.contains(task)), "only what is tagged");
                stolen
            })
        };
        let mut got = vec![owner(&ring, tasks)];
        got.push(thief.join().unwrap());
        got.push(std::iter::from_fn(|| ring.pop()).collect());
        assert_each_once(&tasks, got);
    });
}

#[test]
fn a_tagged_steal_against_pops_and_growth() {
    tagged(
        |ring, [a, b, c]| {
            ring.push(a, NOBODY);
            let first = ring.pop();
            ring.push(b, MINE);
            ring.push(c, NOBODY);
            first.into_iter().chain(ring.pop()).collect()
        },
        1,
    );
}

#[test]
fn a_tagged_steal_against_growth() {
    tagged(
        |ring, [a, b, c]| {
            ring.push(b, MINE);
            ring.push(a, NOBODY);
            ring.push(c, NOBODY);
            Got(Vec::new())
        },
        2,
    );
}

#[test]
fn a_tagged_pop_against_a_tagged_steal() {
    tagged(
        |ring, [a, b, c]| {
            ring.push(b, MINE);
            ring.push(a, NOBODY);
            assert_eq!(ring.pop_tagged(MINE), Err(true), "another's lies on top");
            let other = ring.pop();
            let mine = ring.pop_tagged(MINE);
            ring.push(c, NOBODY);
            other.into_iter().chain(mine).collect()
        },
        1,
    );
}

#[test]
fn a_pop_of_one_particular_task_against_a_steal() {
    ring(
        4,
        |ring, [a, b]: [Task; 2]| {
            ring.push(a, NOBODY);
            ring.push(b, NOBODY);
            let newest = ring.pop_if(b).then_some(b);
            // The other may be the newest now, or gone; its slot is stale then.
            let other = ring.pop_if(a).then_some(a);
            newest.into_iter().chain(other).collect()
        },
        1,
        2,
    );
}

// --- the injector ---

fn drain(injector: &Injector) -> Got {
    let one = || injector.take::<1>().and_then(|batch| batch.into_iter().next());
    std::iter::from_fn(one).collect()
}

/// A waiter takes its task out, or a worker does.
#[test]
fn a_remove_against_a_take() {
    check(10, || {
        let injector = Arc::new(Injector::new());
        let tasks = idle_tasks::<3>();
        injector.push(tasks);
        let taker = {
            let injector = Arc::clone(&injector);
            thread::spawn(move || {
                let batch = injector.take::<2>();
                batch.into_iter().flat_map(|batch| batch.into_iter()).collect::<Got>()
            })
        };
        // SAFETY: leaked, and in no other injector.
        let removed = unsafe { injector.remove(tasks[1]) };
        let mut got = vec![taker.join().unwrap()];
        got.push(removed.then_some(tasks[1]).into_iter().collect());
        got.push(drain(&injector));
        assert_eq!(injector.len(), 0);
        assert_each_once(&tasks, got);
    });
}

#[test]
fn a_remove_against_a_push() {
    check(10, || {
        let injector = Arc::new(Injector::new());
        let [first, second] = idle_tasks();
        injector.push([first]);
        let pushed = Got(vec![second]);
        let pusher = {
            let injector = Arc::clone(&injector);
            thread::spawn(move || injector.push(pushed.0))
        };
        // SAFETY: leaked, and in no other injector.
        assert!(unsafe { injector.remove(first) });
        // SAFETY: as above; removed already.
        assert!(!unsafe { injector.remove(first) });
        pusher.join().unwrap();
        assert_each_once(&[second], vec![drain(&injector)]);
    });
}
