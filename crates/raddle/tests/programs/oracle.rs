//! The sequential interpreter: what each value and each strand comes to, found on demand, without a thread.
//!
//! A value that depends on itself would be an illegal program, and is refused by a panic.

use crate::ir::{Formula, From, Kind, Op, Order, Outcome, Program, Settled, Statement};
use crate::rng::mix;

/// What is expected of a run.
#[derive(Debug)]
pub(crate) struct Expected {
    pub(crate) values: Vec<Outcome>,
    pub(crate) main: u64,
    /// How many closures of formulas run, apart from those in frail strands and in calls.
    pub(crate) closures: u64,
}

pub(crate) fn expected(program: &Program) -> Expected {
    let mut oracle = Oracle {
        program,
        values: vec![None; program.values.len()],
        strands: vec![None; program.strands.len()],
        pending: 0,
        closures: 0,
        total: 0,
    };
    for strand in 0..program.strands.len() {
        let _ = oracle.strand(strand);
    }
    let values = (0..program.values.len()).map(|value| oracle.value(value)).collect();
    let main = oracle.strand(0).expect("the main strand does not panic");
    Expected { values, main, closures: oracle.total }
}

struct Oracle<'p> {
    program: &'p Program,
    values: Vec<Option<Outcome>>,
    strands: Vec<Option<Outcome>>,
    /// How deep it has gone; a circle goes deeper than there are things.
    pending: usize,
    /// Of the strand that is looked at.
    closures: u64,
    total: u64,
}

/// What all that take part in a race are made.
pub(crate) const WON: u64 = 0xf125;

/// A result as a number.
pub(crate) fn digest(outcome: &Outcome) -> u64 {
    match outcome {
        Ok(value) => mix(*value, 1),
        Err(kind) => mix(*kind as u64, 2),
    }
}

/// What a scope makes of its body and the sum of its tasks.
pub(crate) fn scoped(body: u64, sum: u64) -> Outcome {
    Ok(mix(body, sum))
}

/// What the formula at this place is given.
pub(crate) fn salt(strand: usize, index: usize) -> u64 {
    mix(strand as u64, index as u64)
}

/// What a call makes of the value that it is given, or of a failure's digest, and its formula.
pub(crate) fn called(call: usize, given: u64, formula: u64) -> u64 {
    mix(mix(given, call as u64), formula)
}

pub(crate) fn of_call(call: usize) -> u64 {
    mix(call as u64, 0xca11)
}

/// One of several, in no order.
pub(crate) fn part(index: usize, value: u64) -> u64 {
    mix(value, index as u64)
}

impl Oracle<'_> {
    fn strand(&mut self, strand: usize) -> Outcome {
        if let Some(known) = self.strands[strand] {
            return known;
        }
        self.deeper();
        let outer = std::mem::take(&mut self.closures);
        let code = &self.program.strands[strand];
        let mut acc = strand as u64;
        for (index, statement) in code.statements.iter().enumerate() {
            if let Some(part) = self.statement(strand, index, statement) {
                acc = mix(acc, part);
            }
        }
        let outcome = if code.panics { Err(Kind::Panicked) } else { Ok(acc) };
        self.total += if code.frail { 0 } else { self.closures };
        self.closures = outer;
        self.pending -= 1;
        self.strands[strand] = Some(outcome);
        outcome
    }

    fn deeper(&mut self) {
        self.pending += 1;
        let most = self.values.len() + self.strands.len() + 1;
        assert!(self.pending <= most, "seed {}: a value waits for itself", self.program.seed);
    }

    fn statement(&mut self, strand: usize, index: usize, statement: &Statement) -> Option<u64> {
        Some(match statement {
            Statement::Formula(formula) => self.formula(formula, salt(strand, index)),
            Statement::Join { first, second, .. } => {
                let both = (self.strand(*first), self.strand(*second));
                digest(&both.0.and_then(|a| both.1.map(|b| mix(a, b))))
            }
            Statement::Run { child, .. } | Statement::Hold { child, .. } => {
                digest(&self.strand(*child))
            }
            Statement::Scope { scope, body, .. } => {
                let sum = self.scope(*scope);
                let body = self.strand(*body);
                digest(&sum.and_then(|sum| body.and_then(|body| scoped(body, sum))))
            }
            Statement::Wait { value, .. } if self.program.values[*value].frail => return None,
            Statement::Wait { value, .. } => digest(&self.value(*value)),
            // Which of them it were is not said.
            Statement::WaitAny { values, count, .. } if *count < values.len() => *count as u64,
            Statement::WaitAll { values, .. } | Statement::WaitAny { values, .. } => {
                let mut sum = 0_u64;
                for (index, value) in values.iter().enumerate() {
                    if !self.program.values[*value].frail {
                        sum = sum.wrapping_add(part(index, digest(&self.value(*value))));
                    }
                }
                sum
            }
            _ => return None,
        })
    }

    /// The sum of a scope's tasks.
    fn scope(&mut self, scope: usize) -> Outcome {
        let tasks = &self.program.scopes[scope];
        let mut sum = Ok(0_u64);
        for strand in &tasks.strands {
            let one = self.strand(*strand);
            sum = sum.and_then(|sum| one.map(|one| sum.wrapping_add(one)));
        }
        for (many, (count, formula)) in tasks.many.iter().enumerate() {
            for index in 0..*count {
                let one = self.formula(formula, salt(scope, many << 20 | index));
                sum = sum.map(|sum| sum.wrapping_add(part(index, one)));
                self.closures += 1;
            }
        }
        sum
    }

    fn value(&mut self, value: usize) -> Outcome {
        if let Some(known) = self.values[value] {
            return known;
        }
        self.deeper();
        let outcome = match &self.program.values[value].from {
            From::Strand(strand) => self.strand(*strand),
            From::Promise(promise) => self.value(*promise),
            From::Settled(Settled::To(outcome)) => *outcome,
            From::Settled(Settled::Link(to)) => self.value(*to),
            From::Settled(Settled::Not) => panic!("a promise is never settled"),
            From::Pool => Ok(0),
            // Of those that lose some may even depend on whoever waits for the race.
            From::Derived(op, _) if op.by_any() => Ok(WON),
            From::Derived(op, inputs) => {
                let inputs: Vec<Outcome> = inputs.iter().map(|input| self.value(*input)).collect();
                self.derived(op, &inputs)
            }
        };
        self.pending -= 1;
        self.values[value] = Some(outcome);
        outcome
    }

    fn derived(&mut self, op: &Op, inputs: &[Outcome]) -> Outcome {
        let before = self.closures;
        let mut call = |call: usize| {
            let formula = self.formula(&self.program.calls[call].formula, of_call(call));
            move |given: u64| called(call, given, formula)
        };
        let first = inputs[0];
        let outcome = match *op {
            Op::Map(n) | Op::FlatReady(n) | Op::FlatSpawn(n, _) => first.map(call(n)),
            Op::Fail(_) => first.and(Err(Kind::Error)),
            Op::MapPanics(_) => first.and(Err(Kind::Panicked)),
            Op::FlatInput(n) => {
                let call = call(n);
                first.and_then(|given| inputs[1].map(|second| call(mix(given, second))))
            }
            Op::Recover(n) | Op::Rescue(n) => match first {
                Ok(value) => Ok(value),
                failed => Ok(call(n)(digest(&failed))),
            },
            Op::Transform(n) => Ok(call(n)(digest(&first))),
            Op::Zip => normal(first.and_then(|a| inputs[1].map(|b| mix(a, b)))),
            Op::Collect => normal(values(inputs)),
            Op::JoinAll => normal(values(inputs).map(|_| 7)),
            Op::CollectResults => Ok(inputs.iter().fold(0, |acc, one| mix(acc, digest(one)))),
            Op::Or => first.or(inputs[1]),
            Op::First | Op::Select => unreachable!("their inputs don't matter"),
            Op::Same
            | Op::Against(_)
            | Op::Alone
            | Op::OnComplete(_)
            | Op::Ensure(_)
            | Op::Within
            | Op::InterruptAfter
            | Op::Delayed(_)
            | Op::Masked
            | Op::On(_) => first,
        };
        // A call is made once at most, which is checked apart.
        self.closures = before;
        outcome
    }

    fn formula(&mut self, formula: &Formula, given: u64) -> u64 {
        match formula {
            Formula::Work(turns) => mix(given, u64::from(*turns)),
            Formula::Join(both) | Formula::JoinIn { halves: both, .. } => {
                self.closures += 2;
                let first = self.formula(&both.0, mix(given, 1));
                mix(first, self.formula(&both.1, mix(given, 2)))
            }
            Formula::Tree { depth, .. } => {
                self.closures += 1 << depth;
                tree(given, *depth)
            }
            Formula::Scope { count, task, .. } => self.sum(*count, task, given, true),
            Formula::Spawns { count, order, task, .. } => {
                self.sum(*count, task, given, *order != Order::JoinAll)
            }
            Formula::Relay { count, task, .. } => {
                let mut acc = 0;
                for index in 0..*count {
                    acc = mix(acc, self.task(task, given, index));
                }
                acc
            }
            Formula::Turns { count, task, .. } => self.sum(*count, task, given, true),
            Formula::Promised { count, means, task, .. } => {
                let mut sum = 0_u64;
                for index in 0..*count {
                    self.closures += means.setters() as u64;
                    let set = mix(given, !(index as u64));
                    let one = mix(set, self.task(task, given, index));
                    sum = sum.wrapping_add(part(index, one));
                }
                sum
            }
            Formula::Shares { count, task, .. } => {
                let shared = self.task(task, given, 0);
                self.closures += *count as u64;
                (0..*count).fold(0, |sum, index| sum.wrapping_add(part(index, shared)))
            }
            Formula::Run { inner, .. } | Formula::Hold { inner, .. } => self.formula(inner, given),
            Formula::Async { turns, task, .. } => {
                let mut acc = given;
                for turn in 0..*turns {
                    acc = mix(acc, self.task(task, given, turn));
                }
                acc
            }
            Formula::On { task, .. } => mix(self.task(task, given, 0), 3),
            Formula::OwnPool { count, task, .. } => {
                let mut sum = 0_u64;
                for index in 0..*count {
                    let one = self.task(task, given, index);
                    if index % 2 == 0 {
                        sum = sum.wrapping_add(part(index, one));
                    }
                }
                sum
            }
            Formula::KillAll { .. } => mix(given, 0xdead),
            Formula::Await(value) => digest(&self.value(*value)),
            Formula::Catch(inner) => {
                self.closures += 1;
                self.formula(inner, given);
                mix(given, 0xca7c4)
            }
        }
    }

    /// A task of a formula.
    fn task(&mut self, task: &Formula, given: u64, index: usize) -> u64 {
        self.closures += 1;
        self.formula(task, mix(given, index as u64))
    }

    fn sum(&mut self, count: usize, task: &Formula, given: u64, wanted: bool) -> u64 {
        let mut sum = 0_u64;
        for index in 0..count {
            let one = self.task(task, given, index);
            if wanted {
                sum = sum.wrapping_add(part(index, one));
            }
        }
        sum
    }
}

/// Which of several failures comes first is not said: they are made equal.
fn normal(outcome: Outcome) -> Outcome {
    outcome.map_err(|_| Kind::Error)
}

fn values(inputs: &[Outcome]) -> Outcome {
    inputs.iter().try_fold(0, |acc, one| one.map(|one| mix(acc, one)))
}

/// A tree of forks.
pub(crate) fn tree(given: u64, depth: u32) -> u64 {
    match depth.checked_sub(1) {
        None => mix(given, 7),
        Some(depth) => mix(tree(mix(given, 1), depth), tree(mix(given, 2), depth)),
    }
}
