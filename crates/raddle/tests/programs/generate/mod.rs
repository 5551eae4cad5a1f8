//! Writes programs that cannot deadlock.
//!
//! A program is written by making up a run of it ([`sim`]): strands take turns in random order, and each statement is
//! appended when it happens. A wait is only written when what is waited for is done in the made-up run. So there is an
//! order of all that happens in which nobody waits in vain; as waits have no other effect than to wait, whatever is the
//! first in that order and has not happened yet can happen, in every run: none gets stuck.
//!
//! A wait for any of several is written when as many are done in the made-up run as it waits for. In other runs those may be
//! others, so all come to the same, or it isn't said which they were.
//!
//! Locks are another matter, because who is first is not said. They are taken in the order of their numbers; and while one
//! is held nothing is waited for that may need it, or one before it. What a value may need is tracked, from the creation
//! of its task or promise on: the locks taken by that task, by those it has waited for, and by whoever held the promise
//! in the meantime. Of all locks that are held at a standstill take the last: its holder waits neither for a later one
//! nor for what needs any up to it, so something can happen, and it is none.
//!
//! Those who read a lock count as its holders, and nobody counts on another one who reads it at the same time.
//!
//! Threads that wait for what raddle doesn't see take on nothing, so there are only so many ([`DEAF`]). Those that wait for locks
//! are not counted: while one does, there are more threads than there should be rather than that one that waits for something
//! else takes on what may want that lock too. (Where it takes that on before anybody waits for the lock, and whoever has that
//! waits for what lies beneath, that is the end: the case that is left.)
//!
//! What may not happen at all, because something was killed or interrupted before, is *frail*: nobody counts on it.
//!
//! An operation's closure runs on any thread, perhaps on one that holds locks and is needed for something else. So it takes no
//! locks, and waits for nothing but what it starts itself and what was done, in the made-up run, before any input was.

mod act;
mod formula;
mod sim;
mod wait;

use crate::ir::{Form, LockKind, Program, Settled, Statement, Strand, Value};
use crate::options::{Choice, Features};
use crate::rng::Rng;
use sim::Sim;

pub(crate) struct Generator {
    rng: Rng,
    sim: Sim,
    features: Features,
    /// How often each kind of statement is tried; another mixture for each program.
    weights: Vec<usize>,
    /// How often the turn goes to the youngest strand, to the oldest, or to any.
    turns: [usize; 3],
    /// How many closures formulas may have yet.
    closures: usize,
    /// How many more threads may wait for what raddle doesn't see.
    deaf: usize,
    threads: usize,
}

/// What a strand may be tried to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Formula,
    Spawn,
    Async,
    Thread,
    Join,
    Run,
    Scope,
    ScopeSpawn,
    ScopeMany,
    Hold,
    Promise,
    Settle,
    Wait,
    WaitAll,
    WaitAny,
    WaitRef,
    Share,
    Again,
    Derive,
    Combine,
    Drop,
    Kill,
    Interrupt,
    NewPool,
    Yield,
    Close,
}

/// How often, and what may be switched off for it.
const ACTS: &[(Act, usize, Choice)] = &[
    (Act::Formula, 8, Choice::Formula),
    (Act::Spawn, 16, Choice::Spawn),
    (Act::Async, 4, Choice::Async),
    (Act::Thread, 2, Choice::Thread),
    (Act::Join, 8, Choice::Join),
    (Act::Run, 5, Choice::Run),
    (Act::Scope, 6, Choice::Scope),
    (Act::ScopeSpawn, 10, Choice::Scope),
    (Act::ScopeMany, 3, Choice::Scope),
    (Act::Hold, 5, Choice::Lock),
    (Act::Promise, 8, Choice::Promise),
    (Act::Settle, 6, Choice::Promise),
    (Act::Wait, 16, Choice::Wait),
    (Act::WaitAll, 3, Choice::Wait),
    (Act::WaitAny, 8, Choice::Race),
    (Act::WaitRef, 8, Choice::WaitRef),
    (Act::Share, 4, Choice::Shared),
    (Act::Again, 6, Choice::Shared),
    (Act::Derive, 12, Choice::Ops),
    (Act::Combine, 5, Choice::Ops),
    (Act::Drop, 2, Choice::Drop),
    (Act::Kill, 2, Choice::Kill),
    (Act::Interrupt, 2, Choice::Interrupt),
    (Act::NewPool, 2, Choice::OwnPool),
    (Act::Yield, 1, Choice::Yield),
    (Act::Close, 6, Choice::Always),
];

/// Well below the 256 spare threads that pools have of themselves.
const DEAF: usize = 150;
const MOST_STRANDS: usize = 300;
const MOST_DEPTH: usize = 30;

/// The program of a seed; `size` is the number of statements, more or less.
pub(crate) fn generate(
    seed: u64,
    threads: usize,
    size: Option<usize>,
    features: Features,
) -> Program {
    let mut rng = Rng::new(seed);
    let usual = 3 + rng.sized(180);
    let mut weights = Vec::new();
    for &(act, usual, choice) in ACTS {
        let factor = if act == Act::Close || rng.chance(50) { 2 } else { [0, 1, 6][rng.below(3)] };
        weights.push(if features.has(choice) { usual * factor } else { 0 });
    }
    let program = Program {
        seed,
        pools: (0..rng.between(1, 3)).map(|_| rng.between(1, threads)).collect(),
        locks: (0..rng.between(1, 4)).map(|_| lock_kind(&mut rng, features)).collect(),
        strands: Vec::new(),
        values: Vec::new(),
        scopes: Vec::new(),
        calls: Vec::new(),
    };
    let turns = [rng.sized(8), rng.sized(8), rng.sized(8)];
    let closures = if rng.chance(3) { 10_000 } else { rng.sized(2000) };
    let mut generator = Generator {
        rng,
        sim: Sim::new(program),
        features,
        weights,
        turns,
        closures,
        deaf: DEAF,
        threads,
    };
    for _ in 0..size.unwrap_or(usual) {
        if generator.sim.ready.is_empty() {
            break;
        }
        let strand = generator.turn();
        let act = ACTS[generator.rng.weighted(generator.weights.iter().copied())].0;
        generator.act(strand, act);
    }
    generator.end();
    generator.sim.program
}

fn lock_kind(rng: &mut Rng, features: Features) -> LockKind {
    match rng.below(6) {
        0..=1 if features.has(Choice::ReadWrite) => LockKind::ReadWrite,
        2 if features.has(Choice::Reentrant) => LockKind::Reentrant,
        3 if features.has(Choice::Blocking) => LockKind::Std,
        _ => LockKind::Mutex,
    }
}

impl Generator {
    /// Whose turn it is.
    fn turn(&mut self) -> Strand {
        let ready = &self.sim.ready;
        match self.rng.weighted(self.turns.iter().copied()) {
            0 => ready[ready.len() - 1],
            1 => ready[0],
            _ => ready[self.rng.below(ready.len())],
        }
    }

    /// All strands come to their ends.
    fn end(&mut self) {
        let mut patience = 3 * self.sim.running.len();
        while !self.sim.ready.is_empty() {
            let strand = self.sim.ready[self.rng.below(self.sim.ready.len())];
            let main = self.sim.running[strand].form == Form::Main;
            patience = patience.saturating_sub(1);
            if main && self.sim.ready.len() > 1 && patience > 0 && self.rng.chance(80) {
                continue;
            }
            self.conclude(strand, patience > 0);
        }
    }

    /// Settles what the strand has promised, waits for most of what it has, and closes it; or leaves the rest to its next turn.
    fn conclude(&mut self, strand: Strand, patient: bool) {
        for promise in self.sim.promises(strand) {
            if self.rng.chance(80) {
                self.settle(strand, promise);
            }
        }
        if self.features.has(Choice::Race) && self.rng.chance(15) {
            self.wait_any(strand);
        }
        if self.features.has(Choice::WaitRef) && self.rng.chance(15) {
            self.wait_ref(strand);
        }
        for future in self.sim.futures(strand) {
            if self.sim.may_wait(strand, future) {
                if self.rng.chance(75) {
                    self.wait(strand, future);
                }
            } else if patient && self.rng.chance(70) {
                return;
            }
        }
        self.close(strand);
    }

    /// The strand ends, unless it has a pool with strands in it.
    fn close(&mut self, strand: Strand) {
        for pool in self.sim.own_pools(strand) {
            if !self.drop_pool(strand, pool) {
                return;
            }
        }
        let form = self.sim.running[strand].form;
        let may_panic = !matches!(form, Form::Main | Form::Thread);
        let panics = may_panic && self.features.has(Choice::Panic) && self.rng.chance(4);
        self.sim.close(strand, panics);
    }

    /// Drops a pool of the strand's, if the made-up run has nothing left to do there.
    fn drop_pool(&mut self, strand: Strand, pool: Value) -> bool {
        if self.sim.known[pool].visitors > 0 {
            return false;
        }
        self.sim.say(strand, Statement::Drop { value: pool });
        self.sim.running[strand].owns.retain(|owned| *owned != pool);
        self.sim.absorb(strand, self.sim.known[pool].locks);
        true
    }

    /// The strand does not own it any more.
    fn consume(&mut self, strand: Strand, value: Value) {
        self.sim.running[strand].owns.retain(|owned| *owned != value);
    }

    fn settle(&mut self, strand: Strand, promise: Value) {
        let settled = self.settled(strand, promise);
        self.sim.say(strand, Statement::Settle { promise });
        if let Settled::Link(to) = settled {
            self.consume(strand, to);
        }
        self.consume(strand, promise);
        self.sim.settle(promise, settled);
    }
}
