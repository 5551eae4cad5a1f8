//! What futures mean, without threads, memory or laziness: nodes in a list, and plain recursion.

mod signals;

use std::collections::{BTreeMap, VecDeque};

use super::terms::{Does, EMPTY, Event, Handle, How, Op, Outcome, fold, mix, number};

#[derive(Debug)]
enum Kind {
    /// A promise; what it is linked to, or whose closure is to set it.
    Root {
        linked: Option<Handle>,
        setter: Option<usize>,
    },
    /// An operation whose closure has not been called if it is there; then what follows, if that is a future.
    Step {
        op: Option<Op>,
        source: Handle,
    },
    All {
        inputs: Vec<Handle>,
        values: Vec<u64>,
        missing: usize,
    },
    /// With whether the losers are kept.
    Race {
        inputs: Vec<Handle>,
        winner: usize,
        keeps: bool,
    },
    Window(Window),
    /// Ends as its source does, or by a signal.
    Interruptible {
        source: Option<Handle>,
    },
    /// Ends when it is told to, or by a signal.
    Async,
    /// A shared future; its consumers by their order, and whether there may be more.
    Hub {
        source: Handle,
        consumers: Vec<usize>,
        open: bool,
    },
    Share {
        hub: usize,
    },
}

/// Several futures, a few at a time.
#[derive(Debug)]
struct Window {
    /// By their places.
    on_way: BTreeMap<usize, Handle>,
    /// Those that are not called for yet.
    rest: VecDeque<Handle>,
    /// How many more may be on their way.
    free: usize,
    /// One for each that has been called for.
    values: Vec<u64>,
    missing: usize,
}

impl Window {
    /// All that it holds, in the order in which it lets them go.
    fn take(&mut self) -> Vec<Handle> {
        let on_way = std::mem::take(&mut self.on_way).into_values();
        self.rest.drain(..).chain(on_way).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Taker {
    Handle,
    Gone,
    /// As the input with this index.
    Node(usize, usize),
}

#[derive(Debug)]
struct Node {
    kind: Kind,
    done: Option<Outcome>,
    /// It is being completed by who runs what follows: interrupts still pass.
    passing: bool,
    taker: Taker,
    signal: Option<String>,
    /// The step whose handler hears of interrupts.
    handler: Option<usize>,
}

#[derive(Debug, Default)]
pub(crate) struct Model {
    nodes: Vec<Node>,
    pub(crate) log: Vec<Event>,
    /// Since it was last looked at.
    pub(crate) ended_by_signal: bool,
    /// Something is done, and what nobody needs for it any more goes.
    dropping: usize,
    /// As that went, it let a signal go on that ended something: whether before or after what else comes of the same completion is not
    /// said.
    pub(crate) unsaid: bool,
}

impl Model {
    fn add(&mut self, kind: Kind) -> usize {
        let (done, passing, signal) = (None, false, None);
        let (taker, handler) = (Taker::Handle, None);
        self.nodes.push(Node { kind, done, passing, taker, signal, handler });
        self.nodes.len() - 1
    }

    fn handle(node: usize) -> Handle {
        Handle { node, masked: false }
    }

    // --- making ---

    pub(crate) fn promise(&mut self, handler: Option<usize>) -> usize {
        let node = self.add(Kind::Root { linked: None, setter: None });
        self.nodes[node].handler = handler;
        node
    }

    pub(crate) fn done(&mut self, outcome: Outcome) -> Handle {
        let node = self.promise(None);
        self.nodes[node].done = Some(outcome);
        Self::handle(node)
    }

    pub(crate) fn then(&mut self, source: Handle, op: Op) -> Handle {
        let setter = if let Does::Keep(promise) = op.does { promise } else { None };
        let node = self.add(Kind::Step { op: Some(op), source });
        if let Some(Kind::Root { setter, .. }) = setter.map(|p| &mut self.nodes[p].kind) {
            *setter = Some(node);
        }
        let now = self.outcome(source).is_some();
        self.attach(source, node, 0);
        match self.nodes[node].kind {
            // The closure has been called already, and what it returned is the future.
            Kind::Step { op: None, source: next } if now && self.nodes[node].done.is_none() => {
                self.nodes[next.node].taker = Taker::Handle;
                next
            }
            _ => Self::handle(node),
        }
    }

    pub(crate) fn all(&mut self, inputs: Vec<Handle>) -> Handle {
        let values = vec![0; inputs.len()];
        let kind = Kind::All { inputs: inputs.clone(), missing: values.len(), values };
        self.combine(kind, inputs)
    }

    pub(crate) fn both(&mut self, inputs: [Handle; 2]) -> Handle {
        let op = Op { id: 0, on_value: false, on_failure: false, does: Does::Adapt };
        let inputs = inputs.map(|input| match self.outcome(input) {
            None => self.then(input, op.clone()),
            Some(_) => input,
        });
        self.all(inputs.into())
    }

    pub(crate) fn race(&mut self, inputs: Vec<Handle>, keeps: bool) -> Handle {
        self.combine(Kind::Race { inputs: inputs.clone(), winner: 0, keeps }, inputs)
    }

    fn combine(&mut self, kind: Kind, inputs: Vec<Handle>) -> Handle {
        let node = self.add(kind);
        for (index, input) in inputs.into_iter().enumerate() {
            if self.nodes[node].done.is_none() {
                self.attach(input, node, index);
            }
        }
        Self::handle(node)
    }

    /// At most `free` of them are on their way at once.
    pub(crate) fn window(&mut self, inputs: Vec<Handle>, free: usize) -> Handle {
        let (on_way, values, missing) = (BTreeMap::new(), Vec::new(), inputs.len());
        let window = Window { on_way, rest: inputs.into(), free, values, missing };
        let node = self.add(Kind::Window(window));
        self.pump(node);
        Self::handle(node)
    }

    /// Calls for the next ones.
    fn pump(&mut self, node: usize) {
        while let Kind::Window(window) = &mut self.nodes[node].kind {
            if window.free == 0 {
                return;
            }
            let Some(next) = window.rest.pop_front() else { return };
            let index = window.values.len();
            window.values.push(0);
            window.free -= 1;
            let pends = self.nodes[next.node].done.is_none();
            if let (Kind::Window(window), true) = (&mut self.nodes[node].kind, pends) {
                window.on_way.insert(index, next);
            }
            self.attach(next, node, index);
            // Those that came before have been told.
            if let (Some(signal), true) = (self.nodes[node].signal.clone(), pends) {
                self.interrupt(next, &signal);
            }
        }
    }

    pub(crate) fn interruptible(&mut self, source: Handle) -> Handle {
        if let Some(outcome) = self.outcome(source).cloned() {
            self.nodes[source.node].taker = Taker::Gone;
            return self.done(outcome);
        }
        let node = self.add(Kind::Interruptible { source: Some(source) });
        self.attach(source, node, 0);
        Self::handle(node)
    }

    /// An async future that waits for something else.
    pub(crate) fn asynchronous(&mut self) -> usize {
        self.add(Kind::Async)
    }

    /// A shared future, which may have consumers until it is closed.
    pub(crate) fn share(&mut self, source: Handle) -> usize {
        let hub = self.add(Kind::Hub { source, consumers: Vec::new(), open: true });
        self.attach(source, hub, 0);
        hub
    }

    /// One more consumer.
    pub(crate) fn consumer(&mut self, hub: usize) -> Handle {
        if let Some(outcome) = self.nodes[hub].done.clone() {
            return self.done(outcome);
        }
        let node = self.add(Kind::Share { hub });
        if let Kind::Hub { consumers, .. } = &mut self.nodes[hub].kind {
            consumers.push(node);
        }
        Self::handle(node)
    }

    /// No more consumers; without any the source is let go.
    pub(crate) fn close(&mut self, hub: usize) {
        let unwanted = match &mut self.nodes[hub].kind {
            Kind::Hub { source, consumers, open } => {
                *open = false;
                consumers.is_empty().then_some(*source)
            }
            other => unreachable!("{other:?} is no hub"),
        };
        if let (Some(source), None) = (unwanted, &self.nodes[hub].done) {
            self.drop_handle(source);
        }
    }

    fn attach(&mut self, source: Handle, node: usize, index: usize) {
        let from = &mut self.nodes[source.node];
        let Some(outcome) = from.done.clone() else {
            from.taker = Taker::Node(node, index);
            return;
        };
        // Its result is taken; if it was killed, it has a producer yet.
        from.taker = Taker::Gone;
        self.told(node, index, outcome);
    }

    // --- completing ---

    pub(crate) fn complete(&mut self, node: usize, outcome: Outcome) {
        if self.nodes[node].done.is_some() {
            return;
        }
        self.nodes[node].done = Some(outcome.clone());
        if let Taker::Node(to, index) = self.nodes[node].taker {
            let kind = &self.nodes[to].kind;
            self.nodes[node].passing = matches!(kind, Kind::Step { .. } | Kind::Root { .. });
            self.told(to, index, outcome);
            self.nodes[node].passing = false;
        }
    }

    /// The input `index` of `node` is done.
    fn told(&mut self, node: usize, index: usize, outcome: Outcome) {
        let over = self.nodes[node].done.is_some();
        match &mut self.nodes[node].kind {
            Kind::Root { .. } | Kind::Share { .. } | Kind::Async => self.complete(node, outcome),
            Kind::Interruptible { source } => {
                *source = None;
                self.complete(node, outcome);
            }
            Kind::Window(window) => match outcome {
                Ok(n) => {
                    window.on_way.remove(&index);
                    window.values[index] = n;
                    window.missing -= 1;
                    window.free += 1;
                    if window.missing == 0 {
                        let value = fold(window.values.iter().copied());
                        self.complete(node, Ok(value));
                    } else {
                        self.pump(node);
                    }
                }
                Err(text) => {
                    window.on_way.remove(&index);
                    let inputs = window.take();
                    self.complete_and_drop(node, Err(text), inputs);
                }
            },
            Kind::Step { op, source } => match (op.take(), *source) {
                (None, _) => self.complete(node, outcome),
                (Some(op), source) if over => {
                    // A fallback is killed, too.
                    if let Does::Fallback(inner) = op.does {
                        self.kill(inner);
                    }
                    self.discard(&op);
                    // The losers of a race are in its result.
                    self.abandon(source.node);
                }
                (Some(op), source) => self.call(node, &op, source, outcome),
            },
            Kind::All { inputs, values, missing } => match outcome {
                Ok(n) => {
                    values[index] = n;
                    *missing -= 1;
                    if *missing == 0 {
                        let value = fold(values.iter().copied());
                        self.complete(node, Ok(value));
                    }
                }
                Err(text) => {
                    let inputs = std::mem::take(inputs);
                    self.complete_and_drop(node, Err(text), inputs);
                }
            },
            Kind::Race { inputs, winner, keeps } => {
                *winner = index;
                let losers = if *keeps { Vec::new() } else { std::mem::take(inputs) };
                self.complete_and_drop(node, outcome, losers);
            }
            Kind::Hub { consumers, .. } => {
                let consumers = std::mem::take(consumers);
                self.nodes[node].done = Some(outcome.clone());
                consumers.into_iter().for_each(|to| self.complete(to, outcome.clone()));
            }
        }
    }

    fn call(&mut self, node: usize, op: &Op, source: Handle, outcome: Outcome) {
        if !(if outcome.is_ok() { op.on_value } else { op.on_failure }) {
            if let Does::Fallback(inner) = op.does {
                return self.complete_and_drop(node, outcome, vec![inner]);
            }
            self.discard(op);
            return self.complete(node, outcome);
        }
        match op.does {
            Does::Fallback(_) => {}
            Does::Ensure => self.log.push(Event::Called(op.id, Ok(0))),
            _ => self.log.push(Event::Called(op.id, outcome.clone())),
        }
        let next = match &op.does {
            Does::Give(how) => return self.complete(node, how.give(op.id, number(&outcome))),
            Does::Ensure => return self.complete(node, outcome),
            Does::Filter(how) => {
                let kept = match how {
                    How::Value => outcome,
                    How::Fail => Err(EMPTY.into()),
                    How::Panic => how.give(op.id, 0),
                };
                return self.complete(node, kept);
            }
            Does::Refail(How::Panic) => return self.complete(node, How::Panic.give(op.id, 0)),
            Does::Refail(_) => return self.complete(node, How::Fail.give(op.id, 0)),
            Does::Keep(promise) => {
                let value = Ok(mix(op.id, 0));
                promise.iter().for_each(|&promise| self.complete(promise, value.clone()));
                return self.complete(node, outcome);
            }
            Does::Become(next, How::Value) | Does::Fallback(next) => *next,
            Does::Become(next, how) => {
                self.drop_handle(*next);
                return self.complete(node, how.give(op.id, 0));
            }
            Does::Adapt => unreachable!("it is not called"),
            Does::Rest => {
                let Kind::Race { inputs, winner, .. } = &mut self.nodes[source.node].kind else {
                    unreachable!("it follows a race")
                };
                let mut rest = std::mem::take(inputs);
                rest.remove(*winner);
                let next = rest.remove(0);
                self.drop_all(rest);
                next
            }
        };
        self.link(node, next);
    }

    /// A promise or an operation becomes another future.
    pub(crate) fn link(&mut self, node: usize, next: Handle) {
        if let Some(outcome) = self.nodes[next.node].done.clone() {
            self.drop_handle(next);
            return self.complete(node, outcome);
        }
        if self.nodes[node].taker == Taker::Gone {
            // What was asked before it went holds.
            if let Some(signal) = self.nodes[node].signal.clone() {
                self.interrupt(next, &signal);
            }
            return self.drop_handle(next);
        }
        match &mut self.nodes[node].kind {
            Kind::Root { linked, .. } => *linked = Some(next),
            Kind::Step { source, .. } => *source = next,
            other => unreachable!("{other:?} does not become a future"),
        }
        self.nodes[next.node].taker = Taker::Node(node, 0);
        // A signal that came early.
        if let Some(signal) = self.nodes[node].signal.clone() {
            self.interrupt(next, &signal);
        }
    }

    // --- questions ---

    pub(crate) fn outcome(&self, handle: Handle) -> Option<&Outcome> {
        self.nodes[handle.node].done.as_ref()
    }

    /// Whether the future waits for the promise: now, or perhaps `later`, by what closures hold.
    pub(crate) fn waits_for(&self, from: usize, promise: usize, later: bool) -> bool {
        let node = &self.nodes[from];
        // What a closure holds goes when its turn comes, also if it was killed.
        let holds = later && matches!(node.kind, Kind::Step { op: Some(_), .. });
        if from == promise || node.done.is_some() && !holds {
            return from == promise;
        }
        let mut next: Vec<usize> = self.upstream(from).iter().map(|handle| handle.node).collect();
        match &node.kind {
            Kind::Root { setter, .. } if later => next.extend(setter),
            Kind::Window(window) if later => {
                next.extend(window.rest.iter().map(|handle| handle.node));
            }
            Kind::Step { op: Some(Op { does: Does::Become(inner, _), .. }), .. }
            | Kind::Step { op: Some(Op { does: Does::Fallback(inner), .. }), .. }
                if later =>
            {
                next.push(inner.node)
            }
            _ => {}
        }
        next.into_iter().any(|next| self.waits_for(next, promise, later))
    }
}
