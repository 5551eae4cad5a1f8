//! The interpreter with a thread of the system for each task. It has no pools, no queues and no waits that run something:
//! a program that hangs here is illegal. Formulas, which are structured, run in a row; locks are those of `std`, and
//! readers exclude each other: nobody may count on another one who reads.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::ir::{Formula, From, Program, Settled, Statement, Strand, Value};
use crate::rng::Rng;

/// Whether it ends in time, and how long it took.
pub(crate) fn ends(program: Program, limit: Duration) -> Option<Duration> {
    let start = Instant::now();
    let model = Arc::new(Model {
        locks: (0..program.locks.len()).map(|_| Mutex::new(())).collect(),
        state: Mutex::default(),
        changed: Condvar::new(),
        program,
    });
    model.begin(0, &[]);
    let mut state = model.state.lock().unwrap();
    while state.live > 0 {
        let left = limit.checked_sub(start.elapsed())?;
        state = model.changed.wait_timeout(state, left).unwrap().0;
    }
    Some(start.elapsed())
}

struct Model {
    program: Program,
    locks: Vec<Mutex<()>>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// Strands over, promises settled.
    over: HashSet<Strand>,
    settled: HashSet<Value>,
    /// How many strands are on the way, in all, and in each scope and pool of a strand's own.
    live: usize,
    scopes: HashMap<usize, usize>,
    pools: HashMap<Value, usize>,
}

impl Model {
    /// Starts a thread for a strand that runs in such pools.
    fn begin(self: &Arc<Self>, strand: Strand, pools: &[Value]) {
        let pools = pools.to_vec();
        let mut state = self.state.lock().unwrap();
        state.live += 1;
        pools.iter().for_each(|pool| *state.pools.entry(*pool).or_default() += 1);
        drop(state);
        let model = self.clone();
        thread::spawn(move || {
            model.strand(strand, &pools);
            model.change(|state| {
                state.live -= 1;
                state.over.insert(strand);
                pools.iter().for_each(|pool| *state.pools.get_mut(pool).unwrap() -= 1);
            });
        });
    }

    fn change(&self, f: impl FnOnce(&mut State)) {
        f(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn wait_until(&self, mut done: impl FnMut(&State) -> bool) {
        let mut state = self.state.lock().unwrap();
        while !done(&state) {
            state = self.changed.wait(state).unwrap();
        }
    }

    fn strand(self: &Arc<Self>, strand: Strand, pools: &[Value]) {
        let mut rng = Rng::new(strand as u64);
        for statement in &self.program.strands[strand].statements {
            if rng.chance(10) {
                thread::yield_now();
            }
            self.statement(statement, pools);
        }
        self.settled(&self.program.strands[strand].breaks);
    }

    fn statement(self: &Arc<Self>, statement: &Statement, pools: &[Value]) {
        match statement {
            Statement::Formula(formula) => self.formula(formula),
            Statement::Spawn { place, child, .. } => match place {
                crate::ir::Place::Own(pool) => self.begin(*child, &[*pool]),
                crate::ir::Place::Here => self.begin(*child, pools),
                crate::ir::Place::Pool(_) => self.begin(*child, &[]),
            },
            Statement::Async { child, .. } | Statement::Thread { child, .. } => {
                self.begin(*child, &[]);
            }
            Statement::Join { first, second, .. } => {
                self.begin(*first, pools);
                self.begin(*second, pools);
                self.over(*first);
                self.over(*second);
            }
            Statement::Run { child, .. } => {
                self.begin(*child, pools);
                self.over(*child);
            }
            Statement::Scope { scope, body, .. } => {
                self.begin(*body, pools);
                self.over(*body);
                for task in &self.program.scopes[*scope].strands {
                    self.over(*task);
                }
                let none = |state: &State| state.scopes.get(scope).is_none_or(|left| *left == 0);
                self.wait_until(none);
            }
            Statement::ScopeSpawn { child, .. } => self.begin(*child, pools),
            Statement::ScopeMany { scope, many, .. } => {
                let model = self.clone();
                let (scope, many) = (*scope, *many);
                self.change(|state| {
                    state.live += 1;
                    *state.scopes.entry(scope).or_default() += 1;
                });
                thread::spawn(move || {
                    let (count, formula) = &model.program.scopes[scope].many[many];
                    (0..*count).for_each(|_| model.formula(formula));
                    model.change(|state| {
                        state.live -= 1;
                        *state.scopes.get_mut(&scope).unwrap() -= 1;
                    });
                });
            }
            Statement::Hold { lock, child, .. } => {
                let held = self.locks[*lock].lock().unwrap();
                self.begin(*child, pools);
                self.over(*child);
                drop(held);
            }
            Statement::Settle { promise } => self.settled(&[*promise]),
            Statement::Broken { promises } => self.settled(promises),
            Statement::Wait { value, .. } => self.value(*value),
            Statement::WaitAll { values, .. } => {
                values.iter().for_each(|value| self.value(*value));
            }
            Statement::WaitAny { values, count, .. } => self.wait_until(|state| {
                values.iter().filter(|value| self.done(state, **value)).count() >= *count
            }),
            Statement::WaitRef { value, .. } => self.value(*value),
            Statement::Drop { value } => {
                // Only pools are counted.
                self.wait_until(|state| {
                    state.pools.get(value).is_none_or(|visitors| *visitors == 0)
                });
            }
            _ => {}
        }
    }

    fn settled(&self, promises: &[Value]) {
        self.change(|state| state.settled.extend(promises));
    }

    fn over(&self, strand: Strand) {
        self.wait_until(|state| state.over.contains(&strand));
    }

    fn value(&self, value: Value) {
        self.wait_until(|state| self.done(state, value));
    }

    /// Whether a value is there: all that it is made of, or of a race any.
    fn done(&self, state: &State, value: Value) -> bool {
        let done = |input: &Value| self.done(state, *input);
        match &self.program.values[value].from {
            From::Strand(strand) => state.over.contains(strand),
            From::Promise(promise) => done(promise),
            From::Settled(settled) => {
                let linked = if let Settled::Link(to) = settled { done(to) } else { true };
                linked && state.settled.contains(&value)
            }
            From::Derived(op, inputs) if op.by_any() => inputs.iter().any(done),
            From::Derived(_, inputs) => inputs.iter().all(done),
            From::Pool => true,
        }
    }

    fn formula(&self, formula: &Formula) {
        let times = |count: usize, task: &Formula| (0..count).for_each(|_| self.formula(task));
        match formula {
            Formula::Work(_) | Formula::Tree { .. } => {}
            Formula::Join(both) | Formula::JoinIn { halves: both, .. } => {
                self.formula(&both.0);
                self.formula(&both.1);
            }
            Formula::Scope { count, task, .. }
            | Formula::Spawns { count, task, .. }
            | Formula::Relay { count, task, .. }
            | Formula::Promised { count, task, .. }
            | Formula::Turns { count, task, .. }
            | Formula::OwnPool { count, task, .. }
            | Formula::KillAll { count, task, .. }
            | Formula::Async { turns: count, task, .. } => times(*count, task),
            Formula::Shares { task, .. } | Formula::On { task, .. } => self.formula(task),
            Formula::Run { inner, .. } | Formula::Catch(inner) => self.formula(inner),
            Formula::Hold { lock, inner, .. } => {
                let held = self.locks[*lock].lock().unwrap();
                self.formula(inner);
                drop(held);
            }
            Formula::Await(value) => self.value(*value),
        }
    }
}
