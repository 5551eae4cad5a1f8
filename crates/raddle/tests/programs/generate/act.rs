//! What a strand may do when it is its turn.

use super::sim::{Ambient, bit};
use super::{Act, Generator, MOST_DEPTH, MOST_STRANDS};
use crate::ir::{
    Call, Form, From, Grip, Kind, LockKind, Op, Place, PromiseKind, Settled, Statement, Strand,
    Value,
};
use crate::options::Choice;
use crate::rng::Rng;

impl Generator {
    /// Tries to do something; what is not possible is left.
    pub(super) fn act(&mut self, strand: Strand, act: Act) {
        let full = self.sim.running.len() >= MOST_STRANDS;
        let deep = self.sim.running[strand].depth >= MOST_DEPTH;
        match act {
            Act::Formula => {
                let floor = self.sim.running[strand].floor;
                let (formula, locks) = self.formula_for(strand, floor);
                self.sim.say(strand, Statement::Formula(formula));
                self.sim.absorb(strand, locks);
            }
            Act::Spawn | Act::Async | Act::Thread if !full => self.detach(strand, act),
            Act::Join if !full && !deep => self.join(strand),
            Act::Run if !full && !deep => {
                let place = self.place(strand, true);
                let child = self.within(strand, Form::Call, place);
                self.sim.say(strand, Statement::Run { place, child });
                self.sim.suspend(strand, 1);
            }
            Act::Scope if !full && !deep => {
                let place = self.elsewhere(strand);
                let body = self.within(strand, Form::Body, place);
                let scope = self.sim.open_scope(strand, self.sim.running[body].ambient);
                self.sim.running[body].scopes.insert(0, scope);
                self.sim.say(strand, Statement::Scope { place, scope, body });
                self.sim.suspend(strand, 1);
            }
            Act::ScopeSpawn if !full => self.scope_spawn(strand),
            Act::ScopeMany => self.scope_many(strand),
            Act::Hold if !full && !deep => self.hold(strand),
            Act::Promise => self.promise(strand),
            Act::Settle => {
                if let Some(promise) = self.rng.pick(&self.sim.promises(strand)).copied() {
                    self.settle(strand, promise);
                }
            }
            Act::Wait => {
                if let Some(future) = self.ripe(strand) {
                    self.wait(strand, future);
                }
            }
            Act::WaitAll => self.wait_all(strand),
            Act::WaitAny => self.wait_any(strand),
            Act::WaitRef => self.wait_ref(strand),
            Act::Share => {
                if let Some(value) = self.any_future(strand) {
                    self.consume(strand, value);
                    let out = self.sim.derived(Op::Same, vec![value]);
                    self.sim.running[strand].sees.push(out);
                    self.sim.say(strand, Statement::Share { value, out });
                }
            }
            Act::Again => {
                if let Some(shared) = self.rng.pick(&self.sim.running[strand].sees).copied() {
                    let out = self.sim.derived(Op::Same, vec![shared]);
                    self.own(strand, out);
                    self.sim.say(strand, Statement::Again { shared, out });
                }
            }
            Act::Derive => self.derive(strand),
            Act::Combine => self.combine(strand),
            Act::Drop => {
                if let Some(value) = self.any_future(strand) {
                    self.consume(strand, value);
                    self.sim.say(strand, Statement::Drop { value });
                }
            }
            Act::Kill | Act::Interrupt => {
                let mut futures = self.sim.futures(strand);
                futures.retain(|future| self.sim.known[*future].killable);
                if let Some(value) = self.rng.pick(&futures).copied() {
                    self.sim.say(
                        strand,
                        match act {
                            Act::Kill => Statement::Kill { value },
                            _ => Statement::Interrupt { value },
                        },
                    );
                }
            }
            Act::NewPool => self.new_pool(strand),
            Act::Yield => {
                self.sim.say(strand, Statement::Yield);
                let frail = self.sim.running[strand].frail;
                if frail && self.sim.running[strand].form == Form::Task {
                    self.sim.say(strand, Statement::AskKilled);
                }
            }
            Act::Close if strand != 0 => self.close(strand),
            _ => {}
        }
    }

    fn own(&mut self, strand: Strand, value: Value) {
        self.sim.running[strand].owns.push(value);
    }

    fn any_future(&mut self, strand: Strand) -> Option<Value> {
        self.rng.pick(&self.sim.futures(strand)).copied()
    }

    /// Here, in one of the program's pools, or in one of the strand's own.
    pub(super) fn place(&mut self, strand: Strand, run: bool) -> Place {
        let own = self.sim.own_pools(strand);
        if !own.is_empty() && self.rng.chance(60) {
            return Place::Own(own[self.rng.below(own.len())]);
        }
        if !self.features.has(Choice::Pools) || self.rng.chance(if run { 15 } else { 50 }) {
            return Place::Here;
        }
        Place::Pool(self.rng.below(self.sim.program.pools.len()))
    }

    /// Here, as a rule.
    fn elsewhere(&mut self, strand: Strand) -> Place {
        if self.rng.chance(30) { self.place(strand, false) } else { Place::Here }
    }

    fn ambient(&self, strand: Strand, place: Place, run: bool) -> Ambient {
        match place {
            // By the global pool's `run`.
            Place::Here if run => Ambient::Outside,
            Place::Here => self.sim.running[strand].ambient,
            Place::Pool(pool) => Ambient::Pool(pool),
            Place::Own(pool) => Ambient::Own(pool),
        }
    }

    /// A strand that this one waits for within a statement.
    fn within(&mut self, strand: Strand, form: Form, place: Place) -> Strand {
        let ambient = self.ambient(strand, place, form == Form::Call);
        let frail = self.sim.running[strand].frail;
        let child = self.sim.strand(Some(strand), form, ambient, frail);
        self.hand_down(strand, child, 50);
        child
    }

    /// Gives a share of what the strand owns to a new one.
    fn hand_down(&mut self, strand: Strand, child: Strand, percent: usize) {
        for value in self.sim.running[strand].owns.clone() {
            let origin = &self.sim.program.values[value];
            let bound = match origin.from {
                From::Pool => true,
                // It must be kept.
                From::Settled(_) => self.sim.running[child].frail && !origin.frail,
                _ => false,
            };
            if !bound && self.rng.chance(percent) {
                self.sim.give(strand, child, value);
            }
        }
    }

    fn detach(&mut self, strand: Strand, act: Act) {
        let mut place = self.place(strand, false);
        let own = matches!(self.sim.running[strand].ambient, Ambient::Own(_));
        // An async task does not keep a pool.
        if act == Act::Async && (own || matches!(place, Place::Own(_))) {
            place = Place::Pool(self.rng.below(self.sim.program.pools.len()));
        }
        let ambient = match act {
            Act::Thread => Ambient::Outside,
            _ => self.ambient(strand, place, false),
        };
        let perish = self.features.has(Choice::Kill) || self.features.has(Choice::Interrupt);
        let frail =
            self.sim.running[strand].frail || (perish && act != Act::Thread && self.rng.chance(10));
        let form = match act {
            Act::Async => Form::Async,
            Act::Thread => Form::Thread,
            _ => Form::Task,
        };
        let child = self.sim.strand(Some(strand), form, ambient, frail);
        self.hand_down(strand, child, 30);
        let out = self.sim.result(child);
        self.own(strand, out);
        self.sim.say(
            strand,
            match act {
                Act::Async => Statement::Async { place, child, out },
                Act::Thread => Statement::Thread { child, out },
                _ => Statement::Spawn { place, child, out },
            },
        );
    }

    fn join(&mut self, strand: Strand) {
        let place = self.elsewhere(strand);
        let first = self.within(strand, Form::Half, place);
        let second = self.within(strand, Form::Half, place);
        let by_worker = self.rng.chance(70);
        self.sim.say(strand, Statement::Join { place, by_worker, first, second });
        self.sim.suspend(strand, 2);
    }

    fn level(&mut self, strand: Strand) -> Option<usize> {
        let levels = self.sim.running[strand].scopes.len();
        if levels == 0 { None } else { Some(self.rng.sized(levels) - 1) }
    }

    fn scope_spawn(&mut self, strand: Strand) {
        let Some(level) = self.level(strand) else { return };
        let scope = self.sim.running[strand].scopes[level];
        let child = self.sim.scope_task(strand, level);
        self.hand_down(strand, child, 30);
        self.sim.say(strand, Statement::ScopeSpawn { level, scope, child });
    }

    fn scope_many(&mut self, strand: Strand) {
        let Some(level) = self.level(strand) else { return };
        let scope = self.sim.running[strand].scopes[level];
        let floor = self.sim.scopes[scope].floor;
        let (each, locks) = self.formula_for(strand, floor);
        let deaf = each.deaf();
        let most = (self.closures / each.closures().max(1)).min(self.deaf / deaf.max(1));
        let count = self.rng.sized(500).min(most) + 1;
        self.deaf -= (count - 1) * deaf;
        self.closures = self.closures.saturating_sub(count * each.closures());
        let many = &mut self.sim.program.scopes[scope].many;
        many.push((count, each));
        let many = many.len() - 1;
        self.sim.scopes[scope].locks |= locks;
        self.sim.say(strand, Statement::ScopeMany { level, scope, many });
    }

    fn hold(&mut self, strand: Strand) {
        let lowest = self.sim.running[strand].floor.map_or(0, |floor| floor + 1);
        let Some((lock, grip)) = self.lock(lowest) else { return };
        self.sim.absorb(strand, bit(lock));
        let child = self.within(strand, Form::Held, Place::Here);
        self.sim.running[child].floor = Some(lock);
        if grip == Grip::Upgrade {
            // It is wanted once more, before what is left comes out.
            self.sim.needs_again(strand, bit(lock));
        }
        self.sim.say(strand, Statement::Hold { lock, grip, child });
        self.sim.suspend(strand, 1);
    }

    /// A lock from `lowest` on, and a way to hold it.
    pub(super) fn lock(&mut self, lowest: usize) -> Option<(usize, Grip)> {
        let last = self.sim.program.locks.len() - 1;
        if lowest > last {
            return None;
        }
        let lock = self.rng.between(lowest, last);
        let one_of = |rng: &mut Rng, grips: &[Grip]| grips[rng.below(grips.len())];
        let grip = match self.sim.program.locks[lock] {
            LockKind::Std => Grip::Alone,
            LockKind::Mutex if self.rng.chance(90) => Grip::Alone,
            LockKind::Mutex => Grip::Timed,
            LockKind::ReadWrite => {
                let writes = [Grip::Alone, Grip::Timed, Grip::Upgrade, Grip::Downgrade];
                let reads = [Grip::Read, Grip::ReadAgain];
                let grips = if self.rng.chance(40) { &writes[..] } else { &reads };
                one_of(&mut self.rng, grips)
            }
            LockKind::Reentrant if self.rng.chance(90) => Grip::Deep(self.rng.sized(300)),
            LockKind::Reentrant => Grip::Timed,
        };
        Some((lock, grip))
    }

    fn promise(&mut self, strand: Strand) {
        let perish = self.features.has(Choice::Interrupt);
        let frail = self.sim.running[strand].frail;
        let kind = match self.rng.below(10) {
            0 if perish => PromiseKind::Handled,
            1 if perish && !frail => PromiseKind::Trigger,
            2..=3 => PromiseKind::Shared,
            _ => PromiseKind::Plain,
        };
        let settled = match kind {
            PromiseKind::Trigger => Settled::To(Err(Kind::Interrupted)),
            _ => Settled::Not,
        };
        let frail = frail || kind == PromiseKind::Handled;
        let promise = self.sim.value(From::Settled(settled), frail);
        let future = self.sim.value(From::Promise(promise), frail);
        self.own(strand, promise);
        self.own(strand, future);
        self.sim.say(strand, Statement::Promise { promise, future, kind });
    }

    /// What a promise is to be completed with.
    pub(super) fn settled(&mut self, strand: Strand, promise: Value) -> Settled {
        if let From::Settled(trigger @ Settled::To(_)) = self.sim.program.values[promise].from {
            return trigger;
        }
        let frail = self.sim.program.values[promise].frail;
        let mut linkable = self.sim.futures(strand);
        linkable.retain(|to| {
            let fits = match frail {
                true => self.sim.known[*to].killable,
                false => !self.sim.program.values[*to].frail,
            };
            fits && !self.sim.comes_from(*to, promise)
        });
        match self.rng.below(10) {
            0 => Settled::To(Err(Kind::Error)),
            1 => Settled::To(Err(Kind::Broken)),
            2..=4 if !linkable.is_empty() => {
                Settled::Link(linkable[self.rng.below(linkable.len())])
            }
            _ => Settled::To(Ok(self.rng.next())),
        }
    }

    fn derive(&mut self, strand: Strand) {
        let Some(source) = self.any_future(strand) else { return };
        self.consume(strand, source);
        let second = self.any_future(strand);
        let pool = self.rng.below(self.sim.program.pools.len());
        let timed = self.features.has(Choice::Timer);
        let mut inputs = vec![source];
        let call = self.sim.program.calls.len();
        let races = self.features.has(Choice::Race);
        let op = match self.rng.below(26) {
            0..=4 => Op::Map(call),
            5 => Op::Fail(call),
            6 if self.features.has(Choice::Panic) => Op::MapPanics(call),
            7 => Op::FlatReady(call),
            8..=9 => Op::FlatSpawn(call, pool),
            10..=11 if second.is_some() => {
                inputs.extend(second);
                Op::FlatInput(call)
            }
            12 => Op::Recover(call),
            13 => Op::Rescue(call),
            14 => Op::Transform(call),
            15 => Op::OnComplete(call),
            16 => Op::Ensure(call),
            17 if timed => Op::Within,
            18 if timed => Op::InterruptAfter,
            19 if timed => Op::Delayed(self.rng.sized(1500) as u64),
            20 => Op::Masked,
            21 if second.is_some() => {
                inputs.extend(second);
                Op::Or
            }
            22..=23 if races => Op::Against(pool),
            24 if races => Op::Alone,
            _ if self.features.has(Choice::On) => Op::On(pool),
            _ => Op::Map(call),
        };
        let untouched = inputs.iter().all(|input| self.sim.untouched(*input));
        if op.calls().is_some() {
            let formula = self.formula_for_call(strand, untouched);
            self.sim.program.calls.push(Call { formula });
        }
        for input in &inputs {
            self.consume(strand, *input);
        }
        let out = self.sim.derived(op, inputs);
        self.own(strand, out);
        self.sim.say(strand, Statement::Derive { out });
    }

    fn combine(&mut self, strand: Strand) {
        let mut inputs = self.sim.futures(strand);
        inputs.retain(|_| self.rng.chance(60));
        if inputs.is_empty() {
            return;
        }
        let races = self.features.has(Choice::Race);
        let op = match self.rng.below(6) {
            0 if inputs.len() > 1 => {
                inputs.truncate(2);
                Op::Zip
            }
            1 => Op::JoinAll,
            2 => Op::CollectResults,
            3 if races => Op::First,
            4 if races => Op::Select,
            _ => Op::Collect,
        };
        for input in &inputs {
            self.consume(strand, *input);
        }
        let out = self.sim.derived(op, inputs);
        self.own(strand, out);
        self.sim.say(strand, Statement::Derive { out });
    }

    /// A pool, or the end of one.
    fn new_pool(&mut self, strand: Strand) {
        if let Some(pool) = self.sim.own_pools(strand).first() {
            self.drop_pool(strand, *pool);
            return;
        }
        // To drop it is to wait for all that has been spawned there.
        if self.sim.running[strand].floor.is_some() {
            return;
        }
        let out = self.sim.value(From::Pool, false);
        self.own(strand, out);
        let threads = self.rng.between(1, self.threads);
        self.sim.say(strand, Statement::NewPool { out, threads });
    }
}
