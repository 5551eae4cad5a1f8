//! Random graphs of operations, completed, interrupted, killed and dropped in random order, against a plain model.
//!
//! After each step the calls of closures with what they were given and the interrupts heard, in their order, the
//! futures that are done and what promises say of interrupts are those of the model; in the end the results are, and
//! nothing is left over.

mod gated;
mod model;
mod steps;
mod terms;

use std::sync::{Arc, Mutex};
use std::time::Duration;

use proptest::prelude::*;
use raddle_core::{
    Failure, Future, Killed, Pool, Promise, Shared, SharedPromise, as_completed, collect, first,
    select, window,
};

use self::gated::Gate;
use self::model::Model;
use self::steps::{Closure, Name, Step, Value, Verb, outcome, steps};
use self::terms::{BROKEN, CYCLE, Does, Event, Handle, How, Op, fold, mix};
use crate::support::quiet;

type Made = Future<Value>;

/// Fewer than completions nest before some are put off, which changes the order.
const MOST_NESTED: usize = 10;

#[derive(Default)]
struct World {
    model: Model,
    log: Arc<Mutex<Vec<Event>>>,
    share: Arc<()>,
    futures: Vec<(Made, Handle)>,
    promises: Vec<(Promise<Value>, usize)>,
    /// Shared futures that may have more consumers.
    shared: Vec<(Shared<Value>, usize)>,
    /// Promises whose handlers do not count any more: they were linked.
    linked: Arc<Mutex<Vec<usize>>>,
    gates: Vec<Gate>,
    nested: usize,
}

impl World {
    fn closure(&self, id: usize, how: How) -> Closure {
        Closure { id, how, log: self.log.clone(), share: self.share.clone() }
    }

    fn add(&mut self, future: Made, handle: Handle) {
        self.futures.push((future, handle));
    }

    fn pick(&mut self, index: usize) -> Option<(Made, Handle)> {
        let count = self.futures.len();
        (count > 0).then(|| self.futures.remove(index % count))
    }

    fn step(&mut self, id: usize, (verb, a, b, c): Step) -> Option<()> {
        match verb {
            Verb::Promise { hears } => self.make_promise(id, hears),
            Verb::Ready(how) => {
                let how = if how == How::Panic { How::Fail } else { how };
                let result = how.give(id, 0);
                let value = result.clone().map(|n| Value(n, self.share.clone()));
                let handle = self.model.done(result);
                self.add(Future::from_result(value.map_err(Failure::message)), handle);
            }
            Verb::Task(how) | Verb::Async(how) => {
                let f = self.closure(id, how);
                let future = match verb {
                    Verb::Task(_) => Pool::global().spawn(move || f.call(Ok(0))).lower(),
                    _ => Pool::global().spawn_async(async move { f.call(Ok(0)) }).lower(),
                };
                future.wait_ref();
                let handle = self.model.done(how.give(id, 0));
                self.model.log.push(Event::Called(id, Ok(0)));
                self.add(future, handle);
            }
            Verb::Close(how) => {
                let f = self.closure(id, how);
                let (gate, future) = Gate::close(&mut self.model, f);
                self.add(future, gate.handle());
                self.gates.push(gate);
            }
            Verb::Open if !self.gates.is_empty() => {
                self.gates.remove(a % self.gates.len()).open(self);
            }
            Verb::Open => {}
            Verb::Op(name @ (Name::FlatMap | Name::Rescue | Name::Transform | Name::Or), how) => {
                let (source, inner) = (self.pick(a)?, self.pick(b));
                let Some(inner) = inner else {
                    self.futures.push(source);
                    return Some(());
                };
                self.becoming(id, name, how, source, inner);
            }
            Verb::Op(name, how) => {
                let source = self.pick(a)?;
                self.operation(id, name, how, source);
            }
            Verb::Sets => self.setting(id, a, b)?,
            Verb::Zip | Verb::Collect | Verb::Window(_) | Verb::First | Verb::Select => {
                if self.futures.len() < 3 || self.nested >= MOST_NESTED {
                    return None;
                }
                self.nested += 1;
                let inputs = [self.pick(a)?, self.pick(b)?, self.pick(c)?];
                self.combination(id, verb, inputs);
            }
            Verb::Share | Verb::Keep if self.nested < MOST_NESTED => {
                self.nested += 1;
                let (future, handle) = self.pick(a)?;
                let (shared, hub) = (future.shared(), self.model.share(handle));
                if let Verb::Keep = verb {
                    self.shared.push((shared, hub));
                } else {
                    for _ in 0..2 {
                        let handle = self.model.consumer(hub);
                        self.add(shared.future(), handle);
                    }
                    self.model.close(hub);
                }
            }
            Verb::Share | Verb::Keep => {}
            Verb::Consume if !self.shared.is_empty() => {
                let (shared, hub) = &self.shared[a % self.shared.len()];
                let future = (shared.future(), self.model.consumer(*hub));
                self.futures.push(future);
            }
            Verb::Leave if !self.shared.is_empty() => {
                let (shared, hub) = self.shared.remove(a % self.shared.len());
                drop(shared);
                self.model.close(hub);
            }
            Verb::Consume | Verb::Leave => {}
            Verb::Mask => {
                let (future, handle) = self.pick(a)?;
                self.add(future.masked(), Handle { masked: true, ..handle });
            }
            Verb::Interruptible if self.nested < MOST_NESTED => {
                self.nested += 1;
                let (future, handle) = self.pick(a)?;
                let handle = self.model.interruptible(handle);
                self.add(future.interruptible(), handle);
            }
            Verb::Interruptible => {}
            Verb::Set(how) => {
                let (promise, node) = self.pick_promise(a)?;
                match how {
                    How::Value => promise.set(Value(mix(id, 0), self.share.clone())),
                    How::Fail => promise.fail(Failure::message(format!("no {id}"))),
                    How::Panic => drop(promise),
                }
                let broken = how == How::Panic;
                self.model
                    .complete(node, if broken { Err(BROKEN.into()) } else { how.give(id, 0) });
            }
            Verb::Try(how) => {
                let (promise, node) = self.pick_promise(a)?;
                let several = SharedPromise::from(promise);
                let how = if how == How::Panic { How::Fail } else { how };
                let result = how.give(id, 0);
                let value = || Value(mix(id, 0), self.share.clone());
                let again = several.clone();
                assert!(match &result {
                    Ok(_) => several.try_set(value()),
                    Err(text) => several.try_fail(text.clone()),
                });
                assert!(!again.try_set(value()) && again.is_completed());
                self.model.complete(node, result);
            }
            Verb::Link => self.link(a, b)?,
            Verb::Interrupt | Verb::Kill => {
                let (future, handle) = self.pick(a)?;
                if let Verb::Kill = verb {
                    let killed =
                        if self.model.kill(handle) { Killed::BeforeStart } else { Killed::TooLate };
                    assert_eq!(future.kill(), killed);
                } else {
                    future.interrupt(format!("stop {id}"));
                    self.model.interrupt(handle, &format!("stop {id}"));
                }
                self.add(future, handle);
            }
            Verb::Drop => {
                let (future, handle) = self.pick(a)?;
                drop(future);
                self.model.drop_handle(handle);
            }
            Verb::Take => {
                let (future, handle) = self.pick(a)?;
                match future.wait_timeout(Duration::ZERO) {
                    Ok(result) => {
                        assert_eq!(Some(&outcome(&result)), self.model.outcome(handle));
                        self.model.drop_handle(handle);
                    }
                    Err(future) => self.add(future, handle),
                }
            }
            Verb::AsCompleted => {
                let is_done = |(future, _): &(Made, Handle)| future.is_done();
                let mut handles = Vec::new();
                let mut futures = Vec::new();
                while let Some(place) = self.futures.iter().position(is_done) {
                    let (future, handle) = self.futures.remove(place);
                    handles.push(handle);
                    futures.push(future);
                    if futures.len() == 2 {
                        break;
                    }
                }
                for (turn, (place, result)) in as_completed(futures).enumerate() {
                    assert_eq!(turn, place, "all are done, so they come in their order");
                    assert_eq!(Some(&outcome(&result)), self.model.outcome(handles[place]));
                    self.model.drop_handle(handles[place]);
                }
            }
        }
        Some(())
    }

    fn make_promise(&mut self, id: usize, hears: bool) {
        let (log, linked) = (self.log.clone(), self.linked.clone());
        let (promise, future) = match hears {
            true => Promise::with_interrupt(move |why| {
                if !linked.lock().unwrap().contains(&id) {
                    log.lock().unwrap().push(Event::Heard(id, why.to_string()));
                }
            }),
            false => Promise::new(),
        };
        let node = self.model.promise(hears.then_some(id));
        self.promises.push((promise, node));
        self.add(future, Handle { node, masked: false });
    }

    fn pick_promise(&mut self, index: usize) -> Option<(Promise<Value>, usize)> {
        let count = self.promises.len();
        (count > 0).then(|| self.promises.remove(index % count))
    }

    /// Operations whose closure returns a value, or nothing.
    fn operation(&mut self, id: usize, name: Name, how: How, (future, handle): (Made, Handle)) {
        let how = match (name, how) {
            (Name::Map | Name::Lift, How::Fail) => How::Value,
            _ => how,
        };
        let f = self.closure(id, how);
        let (give, keep) = (Does::Give(how), Does::Keep(None));
        // Called for a value, called for a failure, and then.
        let (on_value, on_failure, does, future) = match name {
            Name::Map => (true, false, give, future.map(move |v| f.map(v.0))),
            Name::AndThen => (true, false, give, future.and_then(move |v| f.call(Ok(v.0)))),
            Name::MapResult => (true, true, give, future.map_result(move |r| f.call(outcome(&r)))),
            Name::Recover => {
                (false, true, give, future.recover(move |e| f.call(Err(e.to_string()))))
            }
            Name::OnSuccess => (true, false, keep, future.on_success(move |v| f.note(Ok(v.0)))),
            Name::OnFailure => {
                (false, true, keep, future.on_failure(move |e| f.note(Err(e.to_string()))))
            }
            Name::Filter => {
                let filter = move |v: &Value| {
                    f.note(Ok(v.0));
                    f.keeps()
                };
                (true, false, Does::Filter(how), future.filter(filter))
            }
            Name::MapFailure => {
                let refail = move |e: Failure| f.refail(Err(e.to_string()));
                (false, true, Does::Refail(how), future.map_failure(refail))
            }
            Name::Lift => {
                let lifted = future.lift();
                (
                    true,
                    true,
                    give,
                    lifted.map(move |r| f.call(outcome(&r)).expect("it does not fail")),
                )
            }
            Name::LiftAndLower => (false, false, Does::Adapt, future.lift().lower()),
            Name::Ensure => (true, true, Does::Ensure, future.ensure(move || f.note(Ok(0)))),
            Name::OnComplete => (true, true, keep, future.on_complete(move |r| f.note(outcome(r)))),
            Name::FlatMap | Name::Rescue | Name::Transform | Name::Or => {
                unreachable!("{name:?} is made by `becoming`")
            }
        };
        let handle = self.model.then(handle, Op { id, on_value, on_failure, does });
        self.add(future, handle);
    }

    /// Operations whose closure returns a future.
    fn becoming(
        &mut self,
        id: usize,
        name: Name,
        how: How,
        (future, handle): (Made, Handle),
        (next, inner): (Made, Handle),
    ) {
        let f = self.closure(id, how);
        let does = Does::Become(inner, how);
        let (on_value, on_failure, does, future) = match name {
            Name::FlatMap => {
                (true, false, does, future.flat_map(move |v| f.become_of(Ok(v.0), next)))
            }
            Name::Rescue => {
                let rescue = move |e: Failure| f.become_of(Err(e.to_string()), next);
                (false, true, does, future.rescue(rescue))
            }
            Name::Transform => {
                (true, true, does, future.transform(move |r| f.become_of(outcome(&r), next)))
            }
            _ => (false, true, Does::Fallback(inner), future.or(next)),
        };
        let handle = self.model.then(handle, Op { id, on_value, on_failure, does });
        self.add(future, handle);
    }

    /// `ensure` with a closure that sets a promise.
    fn setting(&mut self, id: usize, a: usize, b: usize) -> Option<()> {
        if self.nested >= MOST_NESTED || self.futures.is_empty() {
            return None;
        }
        let (promise, node) = self.pick_promise(a)?;
        let (future, handle) = self.pick(b)?;
        // Nobody would ever complete it.
        if self.model.waits_for(handle.node, node, true) {
            self.add(future, handle);
            self.promises.push((promise, node));
            return None;
        }
        self.nested += 1;
        let f = self.closure(id, How::Value);
        let set = move |result: &Result<Value, Failure>| {
            f.note(outcome(result));
            promise.set(Value(mix(id, 0), f.share.clone()));
        };
        let does = Does::Keep(Some(node));
        let future = future.on_complete(set);
        let handle = self.model.then(handle, Op { id, on_value: true, on_failure: true, does });
        self.add(future, handle);
        Some(())
    }

    fn combination(&mut self, id: usize, verb: Verb, inputs: [(Made, Handle); 3]) {
        let f = self.closure(id, How::Value);
        let [(x, hx), (y, hy), (z, hz)] = inputs;
        let map = Op { id, on_value: true, on_failure: false, does: Does::Give(How::Value) };
        let (future, handle) = match verb {
            Verb::Zip => {
                self.add(z, hz);
                let both = self.model.both([hx, hy]);
                let future = x.zip(y).map(move |(x, y)| f.map(fold([x.0, y.0])));
                (future, self.model.then(both, map))
            }
            Verb::Collect => {
                let all = self.model.all(vec![hx, hy, hz]);
                let values = move |v: Vec<Value>| f.map(fold(v.iter().map(|v| v.0)));
                (collect([x, y, z]).map(values), self.model.then(all, map))
            }
            Verb::Window(width) => {
                let all = self.model.window(vec![hx, hy, hz], width);
                let values = move |v: Vec<Value>| f.map(fold(v.iter().map(|v| v.0)));
                let future = window(vec![x, y, z], width, |future| future);
                (future.map(values), self.model.then(all, map))
            }
            Verb::First => (first([x, y, z]), self.model.race(vec![hx, hy, hz], false)),
            _ => {
                let race = self.model.race(vec![hx, hy, hz], true);
                let future = select([x, y, z]).flat_map(move |(winner, _, mut rest)| {
                    f.note(outcome(&winner));
                    rest.remove(0)
                });
                let op = Op { on_failure: true, does: Does::Rest, ..map };
                (future, self.model.then(race, op))
            }
        };
        self.add(future, handle);
    }

    fn link(&mut self, a: usize, b: usize) -> Option<()> {
        if self.futures.is_empty() {
            return None;
        }
        let (promise, node) = self.pick_promise(a)?;
        let (future, handle) = self.pick(b)?;
        let waits = |later| self.model.waits_for(handle.node, node, later);
        if waits(false) {
            promise.link(future);
            self.model.drop_handle(handle);
            self.model.complete(node, Err(CYCLE.into()));
        } else if waits(true) || self.model.outcome(Handle { node, masked: false }).is_some() {
            // A cycle to be, which nothing would end; or killed, when it is not said who hears of that.
            self.add(future, handle);
            self.promises.push((promise, node));
        } else {
            self.linked.lock().unwrap().extend(self.model.deafen(node));
            promise.link(future);
            self.model.link(node, handle);
        }
        Some(())
    }

    /// Both sides have come to the same. False: it is not said what they come to.
    #[must_use]
    fn check(&mut self) -> bool {
        if self.model.unsaid {
            return false;
        }
        let (mut real, mut model) =
            (std::mem::take(&mut *self.log.lock().unwrap()), std::mem::take(&mut self.model.log));
        // Which of several promises hears first is not said, nor whether before or after what is called in the same step; nor, of several
        // futures that a signal ends, which ends first, with what follows it.
        let ended = std::mem::take(&mut self.model.ended_by_signal);
        for log in [&mut real, &mut model] {
            let is_heard = |event: &Event| matches!(event, Event::Heard(..));
            if ended {
                log.sort();
            } else {
                log.sort_by_key(is_heard);
                let calls = log.partition_point(|event| !is_heard(event));
                log[calls..].sort();
            }
        }
        assert_eq!(real, model);
        for (future, handle) in &self.futures {
            assert_eq!(future.is_done(), self.model.outcome(*handle).is_some(), "{handle:?}");
        }
        for (promise, node) in &self.promises {
            let interrupted = promise.interrupted().map(|why| why.to_string());
            if let Some(expected) = self.model.interrupted(*node) {
                assert_eq!(interrupted.as_deref(), expected, "promise {node}");
            }
        }
        true
    }
}

/// All steps, and what is left to do then. False: it is not said what comes of them.
fn play(world: &mut World, steps: Vec<Step>) -> bool {
    let count = steps.len();
    for (id, step) in steps.into_iter().enumerate() {
        world.step(id, step);
        if !world.check() {
            return false;
        }
    }
    for id in count.. {
        if world.promises.is_empty() {
            break;
        }
        world.step(id, (Verb::Set(How::Panic), 0, 0, 0));
        if !world.check() {
            return false;
        }
    }
    while let Some(gate) = world.gates.pop() {
        gate.open(world);
        if !world.check() {
            return false;
        }
    }
    true
}

fn run(steps: Vec<Step>) {
    let mut world = World::default();
    if !play(&mut world, steps) {
        // Whoever waits for them is not to be left behind.
        while let Some(gate) = world.gates.pop() {
            gate.open(&mut world);
        }
        return;
    }
    for (shared, hub) in std::mem::take(&mut world.shared) {
        drop(shared);
        world.model.close(hub);
    }
    for (future, handle) in std::mem::take(&mut world.futures) {
        let expected = world.model.outcome(handle).expect("all promises are completed").clone();
        assert_eq!(outcome(&future.wait()), expected);
    }
    assert_eq!(Arc::strong_count(&world.share), 1, "something was left over");
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: crate::support::scaled(60_000) as u32,
        failure_persistence: None,
        max_shrink_iters: 20_000,
        ..ProptestConfig::default()
    })]

    #[test]
    fn random_graphs_are_as_the_model_says(steps in steps()) {
        quiet();
        run(steps);
    }
}

/// Two selects share an input, and one of them a promise that is linked to the other's: what the signal ends first is not said.
#[test]
fn two_async_futures_that_one_signal_ends() {
    use self::steps::Name;
    quiet();
    let value = How::Value;
    run(vec![
        (Verb::Close(value), 0, 0, 0),
        (Verb::Close(value), 0, 0, 0),
        (Verb::Promise { hears: false }, 0, 0, 0),
        (Verb::Promise { hears: false }, 0, 0, 0),
        (Verb::Promise { hears: false }, 0, 0, 0),
        (Verb::Op(Name::OnSuccess, value), 15, 0, 0),
        (Verb::Promise { hears: false }, 0, 0, 0),
        (Verb::Op(Name::Rescue, value), 22, 1, 0),
        (Verb::Drop, 6, 0, 0),
        (Verb::Op(Name::OnSuccess, value), 0, 0, 0),
        (Verb::Promise { hears: false }, 0, 0, 0),
        (Verb::Link, 17, 13, 0),
        (Verb::Mask, 29, 0, 0),
        (Verb::Close(value), 0, 0, 0),
        (Verb::Select, 2, 4, 10),
        (Verb::Select, 1, 29, 0),
        (Verb::Interrupt, 0, 0, 0),
    ]);
}

/// What is dropped as a closure goes that was not called lets a signal go on to what is about to be done: with its value or by the signal.
#[test]
fn a_signal_that_goes_on_beside_a_value() {
    use self::steps::Name;
    quiet();
    let value = How::Value;
    run(vec![
        (Verb::Promise { hears: false }, 0, 0, 0),
        (Verb::Close(value), 0, 0, 0),
        (Verb::Interrupt, 44, 0, 0),
        (Verb::Op(Name::OnSuccess, value), 20, 0, 0),
        (Verb::Share, 11, 0, 0),
        (Verb::Interrupt, 16, 0, 0),
        (Verb::Op(Name::OnSuccess, value), 34, 0, 0),
        (Verb::Interrupt, 31, 0, 0),
        (Verb::Op(Name::OnSuccess, value), 54, 0, 0),
        (Verb::Op(Name::Rescue, value), 16, 43, 0),
        (Verb::Interruptible, 14, 0, 0),
        (Verb::Share, 1, 0, 0),
        (Verb::Op(Name::Or, value), 39, 0, 0),
        (Verb::Op(Name::FlatMap, value), 30, 0, 0),
        (Verb::Op(Name::OnSuccess, value), 0, 0, 0),
        (Verb::Interrupt, 0, 0, 0),
    ]);
}
