//! Formulas at random.

use super::Generator;
use super::sim::{Locks, bit, clear_of};
use crate::ir::{Formula, Manner, Means, Op, Order, Place, Strand, Value};
use crate::options::Choice;

/// What a formula may do where it is.
#[derive(Clone)]
struct Leave {
    floor: Option<usize>,
    /// Shared futures that it may wait for.
    awaits: Vec<Value>,
    depth: usize,
    class: Class,
}

/// What kinds of formulas there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    All,
    /// Such as wait for nothing but what they have started themselves, in their pool. Whatever a waiting thread takes on
    /// is then younger than what lies beneath, and so is what it waits for: nobody waits in a circle.
    Tree,
    /// So too, and no future is in it, which could be killed.
    Forks,
}

/// Numbers of some kinds of formulas.
const OWN_POOL: usize = 16;
const CATCH: usize = 17;
const KILL_ALL: usize = 19;

/// A floor above all locks.
const NO_LOCKS: Option<usize> = Some(63);

impl Generator {
    /// A formula for a strand, where no lock up to `floor` may be taken, and the locks it takes.
    pub(super) fn formula_for(&mut self, strand: Strand, floor: Option<usize>) -> (Formula, Locks) {
        let leave = Leave { floor, awaits: self.awaits(strand), depth: 0, class: Class::All };
        self.some_formula(&leave)
    }

    /// One for a call on values of which nothing is done, or perhaps something is.
    pub(super) fn formula_for_call(&mut self, strand: Strand, untouched: bool) -> Formula {
        if self.rng.chance(50) {
            return Formula::Work(self.rng.sized(50) as u32);
        }
        let awaits = if untouched { self.awaits(strand) } else { Vec::new() };
        self.some_formula(&Leave { floor: NO_LOCKS, awaits, depth: 0, class: Class::All }).0
    }

    fn some_formula(&mut self, leave: &Leave) -> (Formula, Locks) {
        let budget = self.rng.sized(600).min(self.closures);
        let mut locks = 0;
        let mut formula = self.formula(budget, leave, &mut locks);
        let deaf = formula.deaf();
        if deaf > self.deaf {
            formula = Formula::Work(self.rng.sized(100) as u32);
        } else {
            self.deaf -= deaf;
        }
        self.closures = self.closures.saturating_sub(formula.closures());
        (formula, locks)
    }

    /// Shared futures that are done in the made-up run.
    fn awaits(&mut self, strand: Strand) -> Vec<Value> {
        let mut sees = self.sim.running[strand].sees.clone();
        sees.retain(|value| !self.sim.program.values[*value].frail && self.sim.done(*value));
        sees
    }

    fn formula(&mut self, budget: usize, leave: &Leave, locks: &mut Locks) -> Formula {
        let mut awaits = leave.awaits.clone();
        awaits.retain(|value| clear_of(self.sim.known[*value].locks, leave.floor));
        if !awaits.is_empty() && self.rng.chance(20) {
            let value = awaits[self.rng.below(awaits.len())];
            *locks |= self.sim.known[value].locks;
            return Formula::Await(value);
        }
        if budget < 2 || leave.depth > 10 {
            return self.leaf(leave, locks);
        }
        let mut deeper = Leave { depth: leave.depth + 1, ..leave.clone() };
        let tree = leave.class != Class::All;
        let place = if tree { Place::Here } else { self.formula_place() };
        let pool = self.rng.below(self.sim.program.pools.len());
        let count = self.rng.sized(budget.min(500));
        let choice = self.rng.below(if leave.class == Class::Forks { 6 } else { 20 });
        let choice = if tree && choice >= 8 { CATCH } else { choice };
        let manner = if choice == OWN_POOL { self.manner(leave) } else { Manner::Usual };
        if manner == Manner::Host || choice == KILL_ALL {
            deeper.class = if choice == KILL_ALL { Class::Forks } else { Class::Tree };
            deeper.awaits.clear();
        }
        let mut task = |this: &mut Self, count: usize| {
            Box::new(this.formula(budget / count.max(1) / 2, &deeper, locks))
        };
        let has = |choice| self.features.has(choice);
        match choice {
            0..=1 if has(Choice::Join) => {
                let halves = Box::new((*task(self, 2), *task(self, 2)));
                match place {
                    Place::Pool(pool) if self.rng.chance(50) => Formula::JoinIn { pool, halves },
                    _ => Formula::Join(halves),
                }
            }
            2..=3 if has(Choice::Join) => {
                let place = if self.features.has(Choice::Run) { place } else { Place::Here };
                Formula::Tree { place, depth: self.rng.between(1, budget.ilog2() as usize) as u32 }
            }
            4..=5 if has(Choice::Scope) => {
                let chained = self.rng.chance(25);
                Formula::Scope { place, count, chained, task: task(self, count) }
            }
            6..=7 if has(Choice::Spawn) => {
                let orders = [
                    Order::Forward,
                    Order::Backward,
                    Order::Mixed,
                    Order::Collect,
                    Order::JoinAll,
                    Order::Completed,
                    Order::Any,
                ];
                let order = orders[self.rng.below(orders.len())];
                // Each time it waits for any it looks at all.
                let count = if order == Order::Any { count.min(30) } else { count };
                Formula::Spawns { place, count, order, task: task(self, count) }
            }
            8 if has(Choice::Relay) => {
                let count = count.min(60);
                Formula::Relay { place, count, task: task(self, count) }
            }
            9 if has(Choice::Promise) => {
                let setters_first = self.rng.chance(50);
                // Each of the waiters may want a thread; beyond some hundreds there are none.
                let count = count.min(100);
                let means = match self.rng.below(8) {
                    0 if self.features.has(Choice::Blocking) => Means::Blocking,
                    1 if self.features.has(Choice::Blocking) => Means::Channel,
                    2..=3 => Means::Rivals(self.rng.between(1, 4)),
                    _ => Means::Promise,
                };
                let task = task(self, count);
                Formula::Promised { place, means, count, setters_first, task }
            }
            18 if has(Choice::Condition) => {
                let last_first = self.rng.chance(50);
                let count = count.min(60);
                Formula::Turns { place, count, last_first, task: task(self, count) }
            }
            10 if has(Choice::Shared) => Formula::Shares { place, count, task: task(self, 1) },
            11..=12 if has(Choice::Run) => Formula::Run { pool, inner: task(self, 1) },
            13 if has(Choice::Lock) => self.held(budget, &deeper, locks),
            14 if has(Choice::Async) => {
                let turns = count.min(10);
                Formula::Async { pool, turns, task: task(self, turns) }
            }
            15 if has(Choice::On) => Formula::On { pool, task: task(self, 1) },
            OWN_POOL if has(Choice::OwnPool) => {
                let threads = self.rng.between(1, self.threads);
                Formula::OwnPool { manner, threads, count, task: task(self, count) }
            }
            KILL_ALL if has(Choice::OwnPool) && has(Choice::Kill) => {
                let (threads, at_once) = (self.rng.between(1, self.threads), self.rng.chance(50));
                Formula::KillAll { threads, at_once, count, task: task(self, count) }
            }
            CATCH if has(Choice::Panic) => Formula::Catch(task(self, 1)),
            _ => self.leaf(leave, locks),
        }
    }

    /// A broadcast waits for all threads of its pool, as a lock's holder may not.
    fn manner(&mut self, leave: &Leave) -> Manner {
        match self.rng.below(4) {
            0..=1 if self.features.has(Choice::Host) => Manner::Host,
            2 if self.features.has(Choice::Broadcast) && leave.floor.is_none() => Manner::Broadcast,
            _ => Manner::Usual,
        }
    }

    fn formula_place(&mut self) -> Place {
        if self.features.has(Choice::Pools) && self.rng.chance(40) {
            return Place::Pool(self.rng.below(self.sim.program.pools.len()));
        }
        Place::Here
    }

    /// Code that starts nothing; in one of five cases while it holds a lock.
    fn leaf(&mut self, leave: &Leave, locks: &mut Locks) -> Formula {
        if self.features.has(Choice::Lock) && self.rng.chance(20) {
            return self.held(0, leave, locks);
        }
        let turns = if self.rng.chance(2) { 20_000 } else { 200 };
        Formula::Work(self.rng.sized(turns) as u32)
    }

    fn held(&mut self, budget: usize, leave: &Leave, locks: &mut Locks) -> Formula {
        let lowest = leave.floor.map_or(0, |floor| floor + 1);
        let Some((lock, grip)) = self.lock(lowest) else {
            return Formula::Work(self.rng.sized(100) as u32);
        };
        *locks |= bit(lock);
        let inside = Leave { floor: Some(lock), ..leave.clone() };
        let inner = if budget == 0 || !self.features.has(Choice::Hold) {
            Formula::Work(self.rng.sized(100) as u32)
        } else {
            self.formula(budget, &inside, locks)
        };
        Formula::Hold { lock, grip, inner: Box::new(inner) }
    }
}

impl Formula {
    /// About how many closures it has.
    pub(crate) fn closures(&self) -> usize {
        1 + match self {
            Formula::Work(_) | Formula::Await(_) => 0,
            Formula::Join(both) | Formula::JoinIn { halves: both, .. } => {
                both.0.closures() + both.1.closures()
            }
            Formula::Tree { depth, .. } => 1 << depth,
            Formula::Scope { count, task, .. }
            | Formula::Spawns { count, task, .. }
            | Formula::Relay { count, task, .. }
            | Formula::Turns { count, task, .. }
            | Formula::Async { turns: count, task, .. }
            | Formula::OwnPool { count, task, .. }
            | Formula::KillAll { count, task, .. } => count * task.closures(),
            Formula::Promised { count, means, task, .. } => {
                count * (1 + means.setters() + task.closures())
            }
            Formula::Shares { count, task, .. } => count + task.closures(),
            Formula::Run { inner, .. } | Formula::Hold { inner, .. } | Formula::Catch(inner) => {
                inner.closures()
            }
            Formula::On { task, .. } => task.closures(),
        }
    }
}

impl Formula {
    /// How many threads at most may wait in it for what raddle doesn't see: they do nothing else, and of threads there is an
    /// end.
    pub(super) fn deaf(&self) -> usize {
        match self {
            Formula::Work(_) | Formula::Await(_) | Formula::Tree { .. } => 0,
            Formula::Join(both) | Formula::JoinIn { halves: both, .. } => {
                both.0.deaf() + both.1.deaf()
            }
            Formula::Turns { count, task, .. } => count * (1 + task.deaf()),
            Formula::Promised { means: Means::Blocking | Means::Channel, count, task, .. } => {
                count * (1 + task.deaf())
            }
            Formula::Scope { count, task, .. }
            | Formula::Spawns { count, task, .. }
            | Formula::Relay { count, task, .. }
            | Formula::Promised { count, task, .. }
            | Formula::OwnPool { count, task, .. }
            | Formula::KillAll { count, task, .. } => count * task.deaf(),
            Formula::Shares { task, .. }
            | Formula::Async { task, .. }
            | Formula::On { task, .. }
            | Formula::Run { inner: task, .. }
            | Formula::Hold { inner: task, .. }
            | Formula::Catch(task) => task.deaf(),
        }
    }
}

impl Op {
    /// The call that it makes.
    pub(super) fn calls(&self) -> Option<usize> {
        match *self {
            Op::Map(call)
            | Op::Fail(call)
            | Op::MapPanics(call)
            | Op::FlatReady(call)
            | Op::FlatSpawn(call, _)
            | Op::FlatInput(call)
            | Op::Recover(call)
            | Op::Rescue(call)
            | Op::Transform(call)
            | Op::OnComplete(call)
            | Op::Ensure(call) => Some(call),
            _ => None,
        }
    }
}
