//! What a strand may wait for.

use super::Generator;
use crate::ir::{Any, Form, How, Statement, Strand, Value};
use crate::options::Choice;

impl Generator {
    /// One of its futures that it may wait for.
    pub(super) fn ripe(&mut self, strand: Strand) -> Option<Value> {
        let mut futures = self.sim.futures(strand);
        futures.retain(|future| self.sim.may_wait(strand, *future));
        self.rng.pick(&futures).copied()
    }

    pub(super) fn wait(&mut self, strand: Strand, value: Value) {
        // What awaits interrupts when it is dropped: not what others count on.
        let drops = self.sim.running[strand].frail && !self.sim.program.values[value].frail;
        let awaits = self.sim.running[strand].form == Form::Async && self.rng.chance(80) && !drops;
        let how = if awaits {
            How::Await
        } else if self.features.has(Choice::Blocking) && self.rng.chance(12) {
            if self.rng.chance(50) { How::Blocking } else { How::Channel }
        } else if self.features.has(Choice::Timeout) && self.rng.chance(10) {
            How::Timeout
        } else {
            How::Wait
        };
        self.sim.say(strand, Statement::Wait { value, how });
        self.consume(strand, value);
        self.sim.absorb(strand, self.sim.known[value].locks);
    }

    pub(super) fn wait_all(&mut self, strand: Strand) {
        let mut values = self.sim.futures(strand);
        values.retain(|future| self.sim.may_wait(strand, *future) && self.rng.chance(70));
        if values.is_empty() {
            return;
        }
        for value in &values {
            self.consume(strand, *value);
            self.sim.absorb(strand, self.sim.known[*value].locks);
        }
        let in_turn = self.rng.chance(50);
        self.sim.say(strand, Statement::WaitAll { values, in_turn });
    }

    /// So many of several as are done in the made-up run: which they are in others is not said.
    pub(super) fn wait_any(&mut self, strand: Strand) {
        let mut values = self.sim.futures(strand);
        values.retain(|_| self.rng.chance(70));
        let mut ripe = values.clone();
        ripe.retain(|future| self.sim.may_wait(strand, *future));
        if ripe.is_empty() {
            return;
        }
        let count = self.rng.between(1, ripe.len());
        for value in &ripe[..count] {
            self.sim.absorb(strand, self.sim.known[*value].locks);
        }
        for value in &values {
            self.consume(strand, *value);
        }
        let by = if self.rng.chance(50) { Any::WaitAny } else { Any::Completed };
        self.sim.say(strand, Statement::WaitAny { values, count, by });
    }

    pub(super) fn wait_ref(&mut self, strand: Strand) {
        let Some(value) = self.ripe(strand) else { return };
        let tasks = if self.rng.chance(50) { 0 } else { self.rng.sized(8) };
        self.sim.say(strand, Statement::WaitRef { value, tasks });
        self.sim.absorb(strand, self.sim.known[value].locks);
    }
}
