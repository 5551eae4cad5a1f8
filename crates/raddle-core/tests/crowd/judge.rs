//! Whether what was seen of a case is what may happen.
//!
//! For each node the outcomes that it may have come from those of its inputs. Where it was seen what a future ended with
//! (its consumer's closure was called with that, or a thread has taken it), only that one counts from there on: so
//! consumers of a shared future, say, have to agree. Where nothing races there is one outcome only.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering::SeqCst;

use crate::case::{Case, How, Outcome, Winner, fold, mix, number};
use crate::plan::{Become, Ears, Ending, Event, Id, Many, Node, Plan, Step};

const BROKEN: &str = "the promise was dropped without a value";
const EMPTY: &str = "there was nothing to choose from";
const KILLED: &str = "killed";

/// `None`: too many to say.
type Outcomes = Option<BTreeSet<Outcome>>;

/// Of so many combinations of inputs nothing is said.
const MANY: usize = 200;

/// How much could be said: that a test says something.
#[derive(Debug, Default)]
pub(crate) struct Said {
    /// Outcomes that were seen, and of those the ones that could be no other.
    pub(crate) seen: usize,
    pub(crate) sure: usize,
    pub(crate) kills: usize,
    /// Signals that had to arrive.
    pub(crate) arrived: usize,
    /// Closures that had to be called, and those that must not be, since a kill came before.
    pub(crate) called: usize,
    pub(crate) spared: usize,
}

pub(crate) struct Judge<'a> {
    plan: &'a Plan,
    case: &'static Case,
    consumers: Vec<Vec<Id>>,
    outcomes: Vec<Option<Outcomes>>,
    pub(crate) said: Said,
}

fn one(outcome: Outcome) -> Outcomes {
    Some(BTreeSet::from([outcome]))
}

fn union(all: impl IntoIterator<Item = Outcomes>) -> Outcomes {
    all.into_iter().try_fold(BTreeSet::new(), |mut sum, outcomes| {
        sum.extend(outcomes?);
        Some(sum)
    })
}

/// What an operation makes of a result, and whether it calls its closure for that.
fn step(step: Step, how: How, id: Id, given: &Outcome) -> (bool, Outcome) {
    let panics = how == How::Panic;
    let same = given.clone();
    let other = how.give(id, number(given));
    let value = if panics { other.clone() } else { Ok(mix(id, number(given))) };
    match (step, given) {
        (Step::Map, Ok(_)) | (Step::Lift, _) => (true, value),
        (Step::AndThen, Ok(_)) | (Step::MapResult, _) | (Step::Recover, Err(_)) => (true, other),
        (Step::OnComplete | Step::Ensure, _)
        | (Step::OnSuccess, Ok(_))
        | (Step::OnFailure, Err(_)) => (true, same),
        (Step::Filter, Ok(_)) if how == How::Fail => (true, Err(EMPTY.into())),
        (Step::Filter, Ok(_)) => (true, if panics { other } else { same }),
        (Step::MapFailure, Err(_)) if panics => (true, other),
        (Step::MapFailure, Err(_)) => (true, Err(format!("no {id}"))),
        _ => (false, same),
    }
}

fn calls(operation: Become, given: &Outcome) -> bool {
    match operation {
        Become::FlatMap => given.is_ok(),
        Become::Rescue => given.is_err(),
        Become::Transform => true,
        Become::Or => false,
    }
}

impl<'a> Judge<'a> {
    pub(crate) fn new(plan: &'a Plan, case: &'static Case) -> Judge<'a> {
        let mut consumers = vec![Vec::new(); plan.nodes.len()];
        for id in 0..plan.nodes.len() {
            plan.inputs(id).into_iter().for_each(|input| consumers[input].push(id));
        }
        let outcomes = vec![None; plan.nodes.len()];
        Judge { plan, case, consumers, outcomes, said: Said::default() }
    }

    pub(crate) fn judge(&mut self) {
        for id in 0..self.plan.nodes.len() {
            self.outcomes(id);
        }
        for id in 0..self.plan.nodes.len() {
            self.calls(id);
            self.heard(id);
        }
        if self.plan.stamped {
            let events = self.plan.events.iter().enumerate();
            for (index, (_, event)) in events {
                if let Event::Interrupt(id) | Event::Kill(id) = *event {
                    self.arrives(index, id);
                }
            }
        }
    }

    // --- how futures end ---

    /// What was seen of how this one ended.
    fn seen(&self, id: Id) -> Option<Outcome> {
        if let Node::Shared(_) = self.plan.nodes[id] {
            let alive = |&&consumer: &&Id| self.kills(consumer) == 0;
            return self.consumers[id].iter().filter(alive).find_map(|&id| self.seen(id));
        }
        let ended = self.case.notes[id].ended.lock().unwrap().clone();
        ended.or_else(|| {
            let &consumer = self.consumers[id].first()?;
            let takes = match self.plan.nodes[consumer] {
                Node::Step(step, ..) => step != Step::Ensure,
                Node::Become(_, _, source, _) => source == id,
                _ => false,
            };
            takes.then(|| self.case.notes[consumer].given.lock().unwrap().clone()).flatten()
        })
    }

    fn kills(&self, id: Id) -> usize {
        self.case.notes[id].kills.load(SeqCst)
    }

    fn outcomes(&mut self, id: Id) -> Outcomes {
        if let Some(outcomes) = &self.outcomes[id] {
            return outcomes.clone();
        }
        let may = match self.kills(id) {
            0 => self.made(id),
            1 => {
                self.made(id);
                self.said.kills += 1;
                one(Err(KILLED.into()))
            }
            more => {
                self.case.fault(format!("{more} kills of {id} were in time"));
                None
            }
        };
        let outcomes = match (self.seen(id), may) {
            (Some(seen), Some(may)) => {
                self.said.seen += 1;
                self.said.sure += usize::from(may.len() == 1);
                if !may.contains(&seen) {
                    self.case.fault(format!("{id} ended with {seen:?}, and may with {may:?}"));
                }
                one(seen)
            }
            (Some(seen), None) => one(seen),
            (None, may) => may,
        };
        self.outcomes[id] = Some(outcomes.clone());
        outcomes
    }

    /// What may come of its inputs, and of signals.
    fn made(&mut self, id: Id) -> Outcomes {
        match self.plan.nodes[id].clone() {
            Node::Promise(_) => self.promise(id),
            Node::Ready(how) => one(how.give(id, 0)),
            Node::Task(how) => self.or_signals(id, one(how.give(id, 0))),
            Node::Step(operation, how, source) => {
                let given = self.outcomes(source)?;
                let same = given.iter().map(|given| step(operation, how, id, given).1).collect();
                match operation {
                    Step::Interruptible | Step::Async => self.or_signals(id, Some(same)),
                    _ => Some(same),
                }
            }
            Node::Become(operation, how, source, inner) => {
                let (given, inner) = (self.outcomes(source), self.outcomes(inner));
                union(given?.into_iter().map(|given| match (operation, &given) {
                    (Become::Or, Err(_)) => inner.clone(),
                    _ if !calls(operation, &given) => one(given),
                    _ if how == How::Value => inner.clone(),
                    _ => one(how.give(id, 0)),
                }))
            }
            Node::Many(many, inputs) => {
                let inputs: Vec<_> = inputs.iter().map(|&input| self.outcomes(input)).collect();
                self.many(id, many, inputs)
            }
            Node::Shared(source) | Node::Consumer(source) => self.outcomes(source),
        }
    }

    fn promise(&mut self, id: Id) -> Outcomes {
        let won = self.case.notes[id].won.lock().unwrap().clone();
        let [winner] = &won[..] else {
            self.case.fault(format!("{id} was completed by {won:?}"));
            return None;
        };
        let &event = match winner {
            Winner::Heard(text) => return one(Err(text.clone())),
            Winner::Event(event) => event,
        };
        let Event::Complete(_, ending) = self.plan.events[event].1 else { return None };
        match ending {
            Ending::Set | Ending::InTask => one(Ok(mix(id, event as u64))),
            Ending::Fail => one(Err(format!("no {id}"))),
            Ending::Drop => one(Err(BROKEN.into())),
            Ending::Link(next) => self.outcomes(next),
        }
    }

    fn many(&mut self, id: Id, many: Many, inputs: Vec<Outcomes>) -> Outcomes {
        match many {
            Many::First | Many::FirstOrNever | Many::Select => return union(inputs),
            _ => {}
        }
        let inputs = inputs.into_iter().collect::<Option<Vec<_>>>()?;
        let rows = inputs.iter().map(BTreeSet::len).product::<usize>();
        if rows > MANY {
            return None;
        }
        let mut all = BTreeSet::new();
        for row in 0..rows {
            let mut rest = row;
            let mut place = |input: &BTreeSet<Outcome>| {
                let index = rest % input.len();
                rest /= input.len();
                input.iter().nth(index).cloned().expect("there are so many")
            };
            let results: Vec<Outcome> = inputs.iter().map(&mut place).collect();
            let sum = fold(results.iter().map(number));
            let failures: Vec<Outcome> = results.into_iter().filter(Result::is_err).collect();
            match many {
                Many::JoinAll if failures.is_empty() => all.extend([Ok(mix(id, 0))]),
                Many::Results => all.extend([Ok(mix(id, sum))]),
                _ if failures.is_empty() => all.extend([Ok(mix(id, sum))]),
                Many::InTurn => all.extend(failures.into_iter().next()),
                _ => all.extend(failures),
            }
        }
        Some(all)
    }

    // --- who hears ---

    /// Nodes whose interrupts may come here, and those whose kills may.
    fn signallers(&self, id: Id) -> (BTreeSet<Id>, BTreeSet<Id>) {
        let (mut interrupts, mut kills) = (BTreeSet::new(), BTreeSet::new());
        let mut todo = vec![(id, true)];
        while let Some((id, passes)) = todo.pop() {
            let new = kills.insert(id);
            if !(passes && interrupts.insert(id) || new) {
                continue;
            }
            for &consumer in &self.consumers[id] {
                let stops = match self.plan.nodes[consumer] {
                    Node::Step(step, ..) => matches!(step, Step::Masked | Step::Interruptible),
                    _ => false,
                };
                todo.push((consumer, passes && !stops));
            }
        }
        (interrupts, kills)
    }

    /// Signals that may come here, by their texts.
    fn signals(&self, id: Id) -> BTreeSet<String> {
        let (interrupts, kills) = self.signallers(id);
        let events = self.plan.events.iter().enumerate();
        let text = |(index, (_, event)): (usize, &(_, Event))| match event {
            Event::Interrupt(id) if interrupts.contains(id) => Some(format!("stop {index}")),
            Event::Kill(id) if kills.contains(id) => Some(KILLED.into()),
            _ => None,
        };
        events.filter_map(text).collect()
    }

    fn or_signals(&self, id: Id, outcomes: Outcomes) -> Outcomes {
        let signals = self.signals(id).into_iter().map(Err);
        union([outcomes, Some(signals.collect())])
    }

    fn heard(&self, id: Id) {
        let notes = &self.case.notes[id];
        let mut heard = notes.heard.lock().unwrap().clone();
        heard.extend(notes.asked.lock().unwrap().clone().and_then(|(_, asked)| asked));
        let may = if heard.is_empty() { BTreeSet::new() } else { self.signals(id) };
        if let Some(signal) = heard.iter().find(|&signal| !may.contains(signal)) {
            self.case.fault(format!("{id} has heard {signal:?}, and may {may:?}"));
        }
    }

    // --- which closures are called ---

    /// Whether it has a closure, and that is called for this.
    fn is_called(&self, id: Id, given: &Outcome) -> bool {
        match self.plan.nodes[id] {
            Node::Step(operation, how, _) => step(operation, how, id, given).0,
            Node::Become(operation, ..) => calls(operation, given),
            _ => false,
        }
    }

    /// Whether a kill came to this one: to its own handle, or to one that may be the same future by now.
    fn may_be_killed(&self, id: Id) -> bool {
        let is_same = |consumer: Id| match &self.plan.nodes[consumer] {
            &Node::Become(_, _, _, inner) => inner == id,
            Node::Step(Step::Masked, ..) | Node::Many(Many::Select, _) => true,
            _ => false,
        };
        let mut same = self.consumers[id].iter().filter(|&&consumer| is_same(consumer));
        self.kills(id) > 0 || same.any(|&consumer| self.may_be_killed(consumer))
    }

    /// A closure is called if its source ended so that it has to be, whoever has dropped what.
    fn calls(&mut self, id: Id) {
        let calls = self.case.notes[id].calls.load(SeqCst);
        let given = self.case.notes[id].given.lock().unwrap().clone();
        let sources = match &self.plan.nodes[id] {
            &Node::Step(_, _, source) | &Node::Become(_, _, source, _) => self.outcomes(source),
            Node::Task(_) if self.signals(id).is_empty() => one(Ok(0)),
            _ => None,
        };
        if let (Some(given), Some(sources)) = (&given, &sources) {
            let is_ensure = matches!(self.plan.nodes[id], Node::Step(Step::Ensure, ..));
            if !is_ensure && !sources.contains(given) {
                self.case.fault(format!("{id} is called with {given:?}, which may be {sources:?}"));
            }
        }
        let Some(sources) = sources else { return };
        let is_task = matches!(self.plan.nodes[id], Node::Task(_));
        let wants = |given: &Outcome| is_task || self.is_called(id, given);
        if !self.may_be_killed(id) && sources.iter().all(wants) {
            self.said.called += 1;
            if calls != 1 {
                self.case.fault(format!("the closure of {id} is called {calls} times, not once"));
            }
        } else if calls > 0 && !sources.iter().any(wants) {
            self.case.fault(format!("the closure of {id} is called for {sources:?}"));
        }
    }

    // --- signals that have to arrive ---

    /// When an event began and ended.
    fn span(&self, event: usize) -> Option<(usize, usize)> {
        let spans = self.case.spans.lock().unwrap();
        spans.iter().find(|span| span.0 == event).map(|&(_, begin, end)| (begin, end))
    }

    /// When it was made of that, or became that.
    fn span_of(&self, id: Id, from: Id) -> Option<(usize, usize)> {
        let is = |event: &Event| match (&self.plan.nodes[id], event) {
            (Node::Promise(_), &Event::Complete(promise, Ending::Link(next))) => {
                promise == id && next == from
            }
            (Node::Promise(_), _) => false,
            (_, &Event::Make(made)) => made == id,
            _ => false,
        };
        self.span(self.plan.events.iter().position(|(_, event)| is(event))?)
    }

    /// A signal is at a promise that is completed later, if the way was there, or became so by links before that.
    fn arrives(&mut self, event: usize, to: Id) {
        let Some((begin, end)) = self.span(event) else { return };
        let is_kill = matches!(self.plan.events[event].1, Event::Kill(_));
        if is_kill != (self.kills(to) > 0) {
            return;
        }
        let (mut id, mut latest) = (to, begin);
        loop {
            let source = match self.plan.nodes[id] {
                Node::Promise(Ears::None | Ears::Notes) => {
                    self.has_arrived(event, to, id, latest.max(end));
                    let linked = self.plan.endings(id).find_map(|(_, ending)| match ending {
                        Ending::Link(next) => Some(next),
                        _ => None,
                    });
                    let Some(next) = linked else { return };
                    let Some((_, by)) = self.span_of(id, next) else { return };
                    latest = latest.max(by);
                    next
                }
                Node::Step(Step::Interruptible | Step::On | Step::Async, ..) => return,
                Node::Step(Step::Masked, ..) if !is_kill => return,
                Node::Step(_, _, source) | Node::Become(_, _, source, _) => {
                    match self.span_of(id, source) {
                        Some((_, made)) if made < latest => source,
                        _ => return,
                    }
                }
                _ => return,
            };
            // Killed, it was done when the next one was made of it.
            if self.kills(source) > 0 {
                return;
            }
            id = source;
        }
    }

    /// As `arrives`, at this promise, if it is completed after `from`.
    fn has_arrived(&mut self, event: usize, to: Id, promise: Id, from: usize) {
        let notes = &self.case.notes[promise];
        let Some((when, asked)) = notes.asked.lock().unwrap().clone() else { return };
        if when < from {
            return;
        }
        self.said.arrived += 1;
        let is_kill = matches!(self.plan.events[event].1, Event::Kill(_));
        match asked {
            None => self.case.fault(format!("{promise} has not heard of event {event}")),
            Some(text) if is_kill && text != KILLED => {
                self.case.fault(format!("{promise} has heard {text:?} after the kill {event}"))
            }
            Some(_) => {}
        }
        let hears = matches!(self.plan.nodes[promise], Node::Promise(Ears::Notes));
        if hears && notes.heard.lock().unwrap().is_empty() {
            self.case.fault(format!("the handler of {promise} is not called"));
        }
        if is_kill && to != promise {
            self.said.spared += 1;
            if self.case.notes[to].calls.load(SeqCst) > 0 {
                self.case.fault(format!("the closure of {to} was killed, and called"));
            }
        }
    }
}
