//! Models of the bottom row, of futures, and of the pool: each test is a race, and every party does what the pool makes it do.
//!
//! Under loom a model is explored systematically, all reorderings that the language allows
//! included; under shuttle larger mixes run at random, sequentially consistent.
//!
//! | file      | what races                                                               |
//! |-----------|--------------------------------------------------------------------------|
//! | `fork_stack`   | an owner's forks against thieves that steal, ask and escalate               |
//! | `places`  | producers against holders that sleep, block, host, leave, and resume          |
//! | `latch`   | the setter against the waiter, and against the end of the latch             |
//! | `queue`   | ring: owner against thieves; injector: takers against removers              |
//! | `future`  | promises, futures, interrupts and what moves them                          |
//! | `count`   | the tasks of a scope that end against its owner, who waits                 |
//! | `balance` | workers that run dry, and hooks, against the pool's end                    |
//! | `mail`    | senders against a worker that parks, leaves, or is being started           |
//! | `claim`   | queue, waiter, killer and consumer of one task                             |
//! | `record`  | a ring of events: its writer against a reader                              |
//! | `running` | a worker's list of tasks against killers                                   |
//! | `gate`    | guests and visitors of a pool against its end, and the next one's            |
//! | `help`    | a victim that falls asleep against its thief, who forks (W1)                 |
//! | `pool`    | the pool itself, with all that is above it (shuttle)                      |
//! | `mix`     | one task among many parties (shuttle)                                    |
//!
//! `task` holds what models of tasks share: the parts of a task that join the protocols together, line by line as in
//! `spawn::task`.
//!
//! # What the models cannot say
//!
//! - Loom's light fence is a full one; that a compiler fence will do is argued in
//!   `raddle_sync::fence`. A full fence also synchronises with every other, so an ordering that is
//!   missing right next to one goes unnoticed.
//! - A token that comes from nowhere is modelled where it matters, a time limit only under shuttle.
//! - Models of three threads are explored with two to four preemptions at most.

#[cfg(raddle_loom)]
mod balance;
#[cfg(raddle_loom)]
mod claim;
#[cfg(raddle_loom)]
mod count;
#[cfg(raddle_loom)]
mod fork_stack;
mod future;
#[cfg(raddle_loom)]
pub(crate) mod gate;
#[cfg(raddle_loom)]
mod help;
#[cfg(raddle_loom)]
mod latch;
#[cfg(raddle_loom)]
mod mail;
#[cfg(raddle_shuttle)]
mod mix;
#[cfg(raddle_loom)]
mod places;
#[cfg(raddle_shuttle)]
mod pool;
#[cfg(raddle_loom)]
mod queue;
#[cfg(raddle_loom)]
mod record;
#[cfg(raddle_loom)]
mod running;
mod task;

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use raddle_sync::cell::UnsafeCell;
use raddle_sync::parker::Parker;

use crate::job::{TaskHeader, TaskVTable};
use crate::queue::Task;

/// Runs each party in a thread of its own, and the last one in the model's; until all are over.
#[cfg(raddle_loom)]
fn together<P: Send + Sync + 'static>(pool: &Arc<P>, parties: &'static [fn(&P)]) {
    let (last, others) = parties.split_last().unwrap();
    let others: Vec<_> = others
        .iter()
        .map(|&party| {
            let pool = Arc::clone(pool);
            raddle_sync::thread::spawn(move || party(&pool))
        })
        .collect();
    last(pool);
    for other in others {
        other.join().unwrap();
    }
}

/// Explores a model with so many preemptions at most.
#[cfg(raddle_loom)]
fn check(preemptions: usize, model: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound = Some(preemptions);
    builder.max_branches = 10_000;
    builder.check(model);
}

/// Counts what happened, beside the model: no operation of it is a step of the model's.
#[derive(Clone, Debug, Default)]
struct Tally(Arc<AtomicU32>);

impl Tally {
    fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn count(&self) -> u32 {
        self.0.load(Ordering::Relaxed)
    }
}

/// Memory that is freed in name only, so that loom can tell a use after the free.
#[derive(Debug)]
struct Memory {
    cell: UnsafeCell<()>,
    freed: Tally,
}

impl Memory {
    fn new(freed: Tally) -> Memory {
        Memory { cell: UnsafeCell::new(()), freed }
    }

    /// Before every use: it happens before the free.
    fn touch(&self) {
        self.cell.with(|_| ());
        assert_eq!(self.freed.count(), 0, "used after it was freed");
    }

    /// After all uses, once.
    fn free(&self) {
        self.cell.with_mut(|_| ());
        self.freed.add();
        assert_eq!(self.freed.count(), 1, "freed twice");
    }
}

/// Tasks that only lie about in queues, leaked.
fn idle_tasks<const N: usize>() -> [Task; N] {
    const IDLE: &TaskVTable = &TaskVTable::plain(|_, _| unreachable!("not run"));
    std::array::from_fn(|_| Task::from(Box::leak(Box::new(TaskHeader::new(IDLE)))))
}

/// A parker of a model's thread. Leaked, as parkers are immortal.
fn parker() -> &'static Parker {
    Box::leak(Box::default())
}
