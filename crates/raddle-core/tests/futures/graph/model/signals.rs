//! Futures that are given up: dropped, killed, interrupted.

use super::super::terms::{BROKEN, Does, Event, Handle, KILLED, Op, Outcome};
use super::{Kind, Model, Node, Taker};

impl Model {
    // --- giving up ---

    /// A closure goes without having been called.
    pub(super) fn discard(&mut self, op: &Op) {
        self.dropping += 1;
        self.let_go(op);
        self.dropping -= 1;
    }

    fn let_go(&mut self, op: &Op) {
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

    /// None of them has anybody to tell any more if another one, as it goes, ends it.
    pub(super) fn drop_all(&mut self, handles: Vec<Handle>) {
        self.leave_all(&handles);
        self.abandon_all(handles);
    }

    /// As `drop_all`, around the end of what had them: that is known before what they hold goes.
    pub(super) fn complete_and_drop(
        &mut self,
        node: usize,
        outcome: Outcome,
        handles: Vec<Handle>,
    ) {
        self.leave_all(&handles);
        self.complete(node, outcome);
        self.dropping += 1;
        self.abandon_all(handles);
        self.dropping -= 1;
    }

    fn leave_all(&mut self, handles: &[Handle]) {
        for handle in handles {
            self.nodes[handle.node].taker = Taker::Gone;
        }
    }

    fn abandon_all(&mut self, handles: Vec<Handle>) {
        handles.into_iter().for_each(|handle| self.abandon(handle.node));
    }

    pub(super) fn abandon(&mut self, node: usize) {
        if let Kind::Step { op: Some(Op { does: Does::Adapt, .. }), source } = self.nodes[node].kind
        {
            return self.abandon(source.node);
        }
        if let Kind::Share { hub } = self.nodes[node].kind {
            self.leave_hub(hub, node);
        }
        let inputs = match &mut self.nodes[node].kind {
            Kind::All { inputs, .. } | Kind::Race { inputs, .. } => std::mem::take(inputs),
            Kind::Window(window) => window.take(),
            Kind::Interruptible { source } => source.take().into_iter().collect(),
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
        self.drop_all(inputs);
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
                let ended = std::mem::take(&mut self.ended_by_signal);
                self.interrupt(source, &signal);
                self.unsaid |= self.dropping > 0 && self.ended_by_signal;
                self.ended_by_signal |= ended;
            }
        }
    }

    /// Whether it was not done.
    pub(crate) fn kill(&mut self, handle: Handle) -> bool {
        if self.nodes[handle.node].done.is_some() {
            return false;
        }
        let hearers = self.find(handle, KILLED);
        self.nodes[handle.node].done = Some(Err(KILLED.into()));
        self.hear(hearers, KILLED);
        self.abandon(handle.node);
        true
    }

    // --- interrupts ---

    pub(crate) fn interrupt(&mut self, handle: Handle, signal: &str) {
        let hearers = self.find(handle, signal);
        self.hear(hearers, signal);
    }

    /// Whether an operation or a link has its result, or had.
    fn is_over(&self, node: usize) -> bool {
        let Node { done, taker, .. } = &self.nodes[node];
        let Taker::Node(to, _) = *taker else { return false };
        done.is_some() && matches!(self.nodes[to].kind, Kind::Step { .. } | Kind::Root { .. })
    }

    /// Those on the way hear of it, when all have been found.
    fn hear(&mut self, hearers: Vec<usize>, signal: &str) {
        // What a failure says that was an interrupt.
        let text = match signal {
            KILLED => KILLED.into(),
            _ => format!("interrupted: {signal}"),
        };
        for node in hearers {
            // One that was heard before may have ended it.
            if let Some(id) = self.nodes[node].handler.filter(|_| !self.is_over(node)) {
                self.log.push(Event::Heard(id, signal.into()));
            }
            let kind = &self.nodes[node].kind;
            self.ended_by_signal |= matches!(kind, Kind::Interruptible { .. } | Kind::Async);
            match &mut self.nodes[node].kind {
                Kind::Interruptible { source } => {
                    let source = source.take().into_iter().collect();
                    self.complete_and_drop(node, Err(text.clone()), source);
                }
                Kind::Async => self.complete(node, Err(text.clone())),
                _ => {}
            }
        }
    }

    /// Those who hear of it, in their order: where there are several ways on, that is seen to when one has come to its end.
    fn find(&mut self, handle: Handle, signal: &str) -> Vec<usize> {
        let (mut hearers, mut forks) = (Vec::new(), Vec::new());
        self.visit(handle, signal, &mut hearers, &mut forks);
        while let Some(node) = forks.pop() {
            if let Kind::Share { hub } = self.nodes[node].kind {
                self.remember(node, signal);
                // Not as long as another consumer wants it.
                let Kind::Hub { consumers, .. } = &self.nodes[hub].kind else { continue };
                if consumers.iter().any(|&consumer| self.nodes[consumer].signal.is_none()) {
                    self.nodes[hub].signal = Some(signal.into());
                    continue;
                }
                self.nodes[hub].signal = None;
            }
            for upstream in self.upstream(node) {
                self.visit(upstream, signal, &mut hearers, &mut forks);
            }
        }
        hearers
    }

    /// No other takes the place of a kill; one that comes again is not heard again. False: so it is.
    fn remember(&mut self, node: usize, signal: &str) -> bool {
        let remembered = &mut self.nodes[node].signal;
        let is_new = ![KILLED, signal].map(Some).contains(&remembered.as_deref());
        if is_new {
            *remembered = Some(signal.into());
        }
        is_new
    }

    fn visit(
        &mut self,
        handle: Handle,
        signal: &str,
        hearers: &mut Vec<usize>,
        forks: &mut Vec<usize>,
    ) {
        let node = &self.nodes[handle.node];
        if handle.masked && signal != KILLED || node.done.is_some() && !node.passing {
            return;
        }
        if let Kind::Share { .. } = node.kind {
            // It wants the result until its turn comes.
            return forks.push(handle.node);
        }
        let is_new = self.remember(handle.node, signal);
        let node = &self.nodes[handle.node];
        let ends = matches!(node.kind, Kind::Interruptible { .. } | Kind::Async);
        // Its promise is no more there to hear it, though it is on the way.
        let hears = node.handler.is_some() && !node.passing;
        if is_new && (hears || ends) {
            hearers.push(handle.node);
        }
        match node.kind {
            Kind::Interruptible { .. } if signal != KILLED => {}
            Kind::Root { .. } | Kind::Step { .. } | Kind::Async => {
                for upstream in self.upstream(handle.node) {
                    self.visit(upstream, signal, hearers, forks);
                }
            }
            _ => forks.push(handle.node),
        }
    }

    pub(super) fn upstream(&self, node: usize) -> Vec<Handle> {
        match &self.nodes[node].kind {
            Kind::Root { linked, .. } => linked.iter().copied().collect(),
            Kind::Step { source, .. } | Kind::Hub { source, .. } => vec![*source],
            Kind::All { inputs, .. } | Kind::Race { inputs, .. } => inputs.clone(),
            Kind::Window(window) => window.on_way.values().copied().collect(),
            Kind::Interruptible { source } => source.iter().copied().collect(),
            Kind::Async => Vec::new(),
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
}
