//! Models of a pool's end, with real rings and parkers: it comes when all is done, and not before.
//!
//! The workers here are woken for nothing but the end: what is queued is in the ring of a worker that is awake, and which another may
//! steal from. So an end that nobody sees is a deadlock, which loom reports; and whoever sees it looks at what all tasks have
//! done. The steps are those of `pool::search` and `pool::end`. Explored with two or three preemptions.
//!
//! What each fails without: the count before the entry can be found, and from outside; `settle` after all that the entry does; the Release of
//! `settle` and the Acquire of its sum; that sum before the other; the fence of `look`, by whoever ends the pool, falls asleep, or
//! was refused a thread; the look of each; Release and Acquire of `ended`; the tokens, by whoever ends the pool and by the last that keeps it
//! open, after `ended` is stored; the fences between `ended` and `open`, the look at `open`, and its Acquire. What they cannot show: the fence of `open` itself, which is
//! for those that strand places meanwhile (S4).

use std::sync::Arc;

use raddle_sync::atomic::{AtomicUsize, Ordering};
use raddle_sync::cell::UnsafeCell;
use raddle_sync::parker::Parker;
use raddle_sync::thread;

use crate::balance::{End, Entries};
use crate::models::{Tally, check, idle_tasks, parker};
use crate::queue::{NOBODY, Ring, Task};

/// A pool, as far as its end goes.
struct Pool {
    end: End,
    workers: Vec<Worker>,
    tasks: Vec<Job>,
    ran: Tally,
}

struct Worker {
    entries: Entries,
    ring: Ring,
    parker: &'static Parker,
}

/// A task, what it does, and which others it queues, by their numbers.
struct Job {
    entry: Task,
    done: UnsafeCell<bool>,
    queues: &'static [usize],
}

// SAFETY: `done` is written by the task, and read when the pool has ended, which the models check; tasks are leaked.
unsafe impl Send for Pool {}
// SAFETY: as above.
unsafe impl Sync for Pool {}

impl Pool {
    /// So many workers, and a task for each of these, which are the numbers of those that it queues. The first are in the workers' rings,
    /// one each, from outside.
    fn new(workers: usize, first: usize, tasks: &[&'static [usize]]) -> Pool {
        let worker = |_| Worker { entries: Entries::new(), ring: Ring::new(), parker: parker() };
        let job = |&queues: &&'static [usize]| {
            let [entry] = idle_tasks();
            Job { entry, done: UnsafeCell::new(false), queues }
        };
        let pool = Pool {
            end: End::new(),
            workers: (0..workers).map(worker).collect(),
            tasks: tasks.iter().map(job).collect(),
            ran: Tally::default(),
        };
        for (worker, job) in pool.workers.iter().zip(&pool.tasks).take(first) {
            pool.end.queue_outside(1);
            worker.ring.push(job.entry, NOBODY);
        }
        pool
    }

    fn unpark_all(&self) {
        self.workers.iter().for_each(|worker| worker.parker.unpark());
    }

    /// As `Registry::end_if_done`.
    fn end_if_done(&self) {
        if self.end.look(|| self.workers.iter().map(|worker| &worker.entries)) {
            assert_eq!(self.ran.count() as usize, self.tasks.len(), "all tasks are over");
            self.unpark_all();
        }
    }

    /// As `Registry::terminate`, but for its wait.
    fn terminate(&self) {
        self.end.ask();
        self.end_if_done();
    }

    /// What is the pool's end good for: all that tasks have done is to be seen.
    fn see_all(&self) {
        for job in &self.tasks {
            // SAFETY: of a pool that has ended.
            assert!(job.done.with(|done| unsafe { *done }));
        }
    }

    /// As `WorkerMemory::run_task` of what `queue` has queued.
    fn run(&self, me: &Worker, task: Task) {
        let job = self.tasks.iter().find(|job| job.entry == task).expect("one of the model's");
        for &next in job.queues {
            me.entries.queue();
            me.ring.push(self.tasks[next].entry, NOBODY);
        }
        // SAFETY: nobody else runs it.
        job.done.with_mut(|done| unsafe { *done = true });
        self.ran.add();
        me.entries.settle();
    }

    /// The life of a worker, as `WorkerMemory::work`: works until it finds nothing, and sleeps until the pool has ended.
    fn work(&self, me: usize) {
        let me = &self.workers[me];
        let find = || {
            let stolen = || self.workers.iter().find_map(|worker| worker.ring.steal());
            me.ring.pop().or_else(stolen)
        };
        while let Some(task) = find() {
            self.run(me, task);
        }
        self.end_if_done();
        while !self.end.has_ended() {
            me.parker.park();
        }
        self.see_all();
    }
}

/// Parties, each in a thread of its own, against whoever ends the pool, and waits for them.
fn ends(preemptions: usize, pool: fn() -> Pool, parties: &'static [fn(&Pool)]) {
    check(preemptions, move || {
        let pool = Arc::new(pool());
        let parties: Vec<_> = parties
            .iter()
            .map(|&party| {
                let pool = Arc::clone(&pool);
                thread::spawn(move || party(&pool))
            })
            .collect();
        pool.terminate();
        for party in parties {
            party.join().unwrap();
        }
        assert!(pool.end.is_over());
        pool.see_all();
    });
}

#[test]
fn a_task_that_queues_another_against_the_end() {
    ends(3, || Pool::new(1, 1, &[&[1], &[]]), &[|pool| pool.work(0)]);
}

/// The thief may have settled the second before the first is settled, or fall asleep after its owner.
#[test]
fn a_task_whose_task_is_stolen_against_the_end() {
    ends(3, || Pool::new(2, 1, &[&[1], &[]]), &[|pool| pool.work(0), |pool| pool.work(1)]);
}

/// What was stolen queues something itself, which its first owner may steal.
#[test]
fn tasks_in_a_row_against_the_end() {
    let pool = || Pool::new(2, 1, &[&[1], &[2], &[]]);
    ends(2, pool, &[|pool| pool.work(0), |pool| pool.work(1)]);
}

/// Each sees that it is done only if it sees what the other has settled.
#[test]
fn two_that_fall_asleep_against_the_end() {
    ends(3, || Pool::new(2, 2, &[&[], &[]]), &[|pool| pool.work(0), |pool| pool.work(1)]);
}

// --- hooks ---

/// A hook was counted for a thread that the system then refuses, as `Registry::start` does.
#[test]
fn a_thread_that_is_refused_against_the_end() {
    fn pool() -> Pool {
        let pool = Pool::new(1, 1, &[&[]]);
        pool.end.queue_outside(1);
        pool
    }
    fn refused(pool: &Pool) {
        pool.end.take_back();
        pool.end_if_done();
    }
    ends(3, pool, &[|pool| pool.work(0), refused]);
}

/// An exit hook as `WorkerMemory::call_exit_hook` calls it.
fn calls_exit_hook(pool: &Pool) {
    let me = &pool.workers[0];
    me.entries.queue();
    pool.end.open();
    me.entries.settle();
    pool.end_if_done();
    if pool.end.close() {
        pool.unpark_all();
    }
}

/// Whoever has come late, for what a hook may wait for, sleeps until nobody keeps the pool open.
fn comes_late(pool: &Pool) {
    while !pool.end.is_over() {
        pool.workers[1].parker.park();
    }
}

/// What runs when all is counted already, and may wait for others, keeps the pool open for those that came late.
#[test]
fn a_late_thread_against_what_runs_late() {
    fn pool() -> Pool {
        let pool = Pool::new(2, 0, &[&[]]);
        pool.end.ask();
        assert!(pool.end.look(|| pool.workers.iter().map(|worker| &worker.entries)));
        assert!(pool.end.open());
        pool
    }
    fn runs_late(pool: &Pool) {
        // SAFETY: nobody else runs it.
        pool.tasks[0].done.with_mut(|done| unsafe { *done = true });
        if pool.end.close() {
            pool.unpark_all();
        }
    }
    fn waits(pool: &Pool) {
        comes_late(pool);
        pool.see_all();
    }
    ends(3, pool, &[runs_late, waits]);
}

/// The hook may be over before the pool has ended, or end it.
#[test]
fn an_exit_hook_and_a_late_thread_against_the_end() {
    ends(3, || Pool::new(2, 0, &[]), &[calls_exit_hook, comes_late]);
}

/// As above, with the end that another thread brings about: it may be seen by one of the two and not by the other.
#[test]
fn an_exit_hook_and_a_late_thread_against_a_task() {
    let pool = || {
        let pool = Pool::new(2, 1, &[&[]]);
        pool.end.ask();
        pool
    };
    fn works(pool: &Pool) {
        while let Some(task) = pool.workers[1].ring.pop().or_else(|| pool.workers[0].ring.steal()) {
            pool.run(&pool.workers[1], task);
        }
        pool.end_if_done();
        comes_late(pool);
    }
    ends(3, pool, &[calls_exit_hook, works]);
}

/// What is queued from outside, by threads that keep the pool they have left: seen by whoever ends it, or refused.
#[test]
fn two_from_outside_against_the_end() {
    struct Door {
        end: End,
        queued: AtomicUsize,
    }
    /// As `CurrentPool::spawn` of a thread that has left.
    fn queues(door: &Door) {
        if door.end.open_from_outside() {
            door.queued.fetch_add(1, Ordering::SeqCst);
            let _ = door.end.close();
        }
    }
    check(2, || {
        let door = Arc::new(Door { end: End::new(), queued: AtomicUsize::new(0) });
        let outside = [(); 2].map(|()| {
            let door = Arc::clone(&door);
            thread::spawn(move || queues(&door))
        });
        // As `finish`.
        door.end.ask();
        assert!(door.end.look(std::iter::empty));
        loop {
            let found = door.queued.swap(0, Ordering::SeqCst) > 0;
            let shut = !found && door.end.is_over() && door.end.shut();
            if shut && door.queued.load(Ordering::SeqCst) == 0 {
                break;
            }
            thread::yield_now();
        }
        for outside in outside {
            outside.join().unwrap();
        }
        assert_eq!(door.queued.load(Ordering::SeqCst), 0, "queued when nobody looks any more");
    });
}
