//! What futures mean, without threads, memory or laziness: nodes in a list, and plain recursion.

use std::collections::BTreeSet;

use super::terms::{
    BROKEN, Does, EMPTY, Event, Handle, How, KILLED, Op, Outcome, fold, mix, number,
};

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
            Kind::Root { .. } | Kind::Share { .. } => self.complete(node, outcome),
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
                    inputs.into_iter().for_each(|input| self.drop_handle(input));
                    self.complete(node, Err(text));
                }
            },
            Kind::Race { inputs, winner, keeps } => {
                *winner = index;
                let losers = if *keeps { Vec::new() } else { std::mem::take(inputs) };
                losers.into_iter().for_each(|input| self.drop_handle(input));
                self.complete(node, outcome);
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
                rest.into_iter().for_each(|loser| self.drop_handle(loser));
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

    // --- giving up ---

    /// A closure goes without having been called.
    fn discard(&mut self, op: &Op) {
        match op.does {
            Does::Keep(Some(promise)) => self.complete(promise, Err(BROKEN.into())),
            Does::Become(inner, _) | Does::Fallback(inner) => self.drop_handle(inner),
            Does::Keep(None)
            | Does::Ensure
            | Does::Give(_)
            | Does::Filter(_)
            | Does::Refail(_)
            | Does::Rest
            | Does::Adapt => {}
        }
    }

    /// What was made of it goes on without; a combination lets its inputs go.
    pub(crate) fn drop_handle(&mut self, handle: Handle) {
        self.nodes[handle.node].taker = Taker::Gone;
        self.abandon(handle.node);
    }

    fn abandon(&mut self, node: usize) {
        if let Kind::Step { op: Some(Op { does: Does::Adapt, .. }), source } = self.nodes[node].kind
        {
            return self.abandon(source.node);
        }
        if let Kind::Share { hub } = self.nodes[node].kind {
            self.leave_hub(hub, node);
        }
        let inputs = match &mut self.nodes[node].kind {
            Kind::All { inputs, .. } | Kind::Race { inputs, .. } => std::mem::take(inputs),
            &mut Kind::Share { hub } => match &mut self.nodes[hub].kind {
                Kind::Hub { consumers, source, open } => {
                    let before = consumers.len();
                    consumers.retain(|&consumer| consumer != node);
                    let unwanted = before == 1 && consumers.is_empty() && !*open;
                    if unwanted { vec![*source] } else { Vec::new() }
                }
                other => unreachable!("{other:?} is no hub"),
            },
            _ => Vec::new(),
        };
        inputs.into_iter().for_each(|input| self.drop_handle(input));
    }

    /// If those that are left want nothing, a signal that was kept back goes on.
    fn leave_hub(&mut self, hub: usize, node: usize) {
        let Kind::Hub { source, consumers, .. } = &self.nodes[hub].kind else { return };
        let source = *source;
        let was_one = consumers.contains(&node);
        let mut others = consumers.iter().filter(|&&consumer| consumer != node);
        let wanted = others.any(|&consumer| self.nodes[consumer].signal.is_none());
        if was_one && !wanted && self.nodes[hub].done.is_none() {
            if let Some(signal) = self.nodes[hub].signal.take() {
                self.interrupt(source, &signal);
            }
        }
    }

    /// Whether it was not done.
    pub(crate) fn kill(&mut self, handle: Handle) -> bool {
        if self.nodes[handle.node].done.is_some() {
            return false;
        }
        self.interrupt(handle, KILLED);
        self.nodes[handle.node].done = Some(Err(KILLED.into()));
        self.abandon(handle.node);
        true
    }

    // --- interrupts ---

    pub(crate) fn interrupt(&mut self, handle: Handle, signal: &str) {
        let mut hearers = BTreeSet::new();
        self.visit(handle, signal, &mut hearers);
        self.log.extend(hearers.into_iter().map(|id| Event::Heard(id, signal.into())));
    }

    fn visit(&mut self, handle: Handle, signal: &str, hearers: &mut BTreeSet<usize>) {
        let node = &mut self.nodes[handle.node];
        if handle.masked && signal != KILLED || node.done.is_some() && !node.passing {
            return;
        }
        // No other takes the place of a kill; one that comes again is not heard again.
        if ![KILLED, signal].map(Some).contains(&node.signal.as_deref()) {
            node.signal = Some(signal.into());
            hearers.extend(node.handler);
        }
        if let Kind::Share { hub } = node.kind {
            // Not as long as another consumer wants it.
            let Kind::Hub { consumers, .. } = &self.nodes[hub].kind else { return };
            if consumers.iter().any(|&consumer| self.nodes[consumer].signal.is_none()) {
                self.nodes[hub].signal = Some(signal.into());
                return;
            }
            self.nodes[hub].signal = None;
        }
        for upstream in self.upstream(handle.node) {
            self.visit(upstream, signal, hearers);
        }
    }

    fn upstream(&self, node: usize) -> Vec<Handle> {
        match &self.nodes[node].kind {
            Kind::Root { linked, .. } => linked.iter().copied().collect(),
            Kind::Step { source, .. } | Kind::Hub { source, .. } => vec![*source],
            Kind::All { inputs, .. } | Kind::Race { inputs, .. } => inputs.clone(),
            &Kind::Share { hub } => self.upstream(hub),
        }
    }

    /// The promise's handler, which does not count from now on.
    pub(crate) fn deafen(&mut self, promise: usize) -> Option<usize> {
        self.nodes[promise].handler.take()
    }

    /// What the promise says of interrupts; nothing is said of one whose masked future was killed.
    pub(crate) fn interrupted(&self, promise: usize) -> Option<Option<&str>> {
        let node = &self.nodes[promise];
        let killed_masked = node.done.is_some() && node.signal.as_deref() != Some(KILLED);
        (!killed_masked).then_some(node.signal.as_deref())
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
