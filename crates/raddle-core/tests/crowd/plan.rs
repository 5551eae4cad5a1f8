//! What a case is: a graph, and who does what to it, in an order in which nobody would have to wait for ever.

use crate::case::How;

/// A node of the graph, by its place in the plan.
pub(crate) type Id = usize;

/// No plan has more nodes.
pub(crate) const NODES: usize = 40;

/// Who hears of a promise's interrupts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ears {
    None,
    /// A handler that notes them.
    Notes,
    /// A handler that ends the promise, which several threads have.
    Answers,
}

/// Operations on one future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Map,
    AndThen,
    MapResult,
    Recover,
    OnSuccess,
    OnFailure,
    OnComplete,
    Ensure,
    Filter,
    MapFailure,
    /// `lift` with a closure behind it.
    Lift,
    LiftAndLower,
    Interruptible,
    Masked,
    /// To the pool.
    On,
    /// Awaited by an async future that the pool drives.
    Async,
}

/// Operations whose closure returns a future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Become {
    FlatMap,
    Rescue,
    Transform,
    Or,
}

/// Operations on several futures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Many {
    Zip,
    Collect,
    Results,
    JoinAll,
    First,
    /// Beside a future that is never done.
    FirstOrNever,
    /// The first of the losers.
    Select,
    Window(usize),
    InTurn,
}

#[derive(Clone, Debug)]
pub(crate) enum Node {
    Promise(Ears),
    Ready(How),
    Task(How),
    Step(Step, How, Id),
    Become(Become, How, Id, Id),
    Many(Many, Vec<Id>),
    Shared(Id),
    /// One more consumer of a shared future.
    Consumer(Id),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Set,
    Fail,
    Drop,
    Link(Id),
    /// By a task of the pool.
    InTask,
}

/// How a thread waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Wait,
    /// Again and again, for a short time.
    Timeout,
    /// By reference first.
    Ref,
    Await,
}

#[derive(Clone, Debug)]
pub(crate) enum Event {
    Make(Id),
    Complete(Id, Ending),
    /// The promise's handle goes, which somebody has completed.
    Part(Id),
    Interrupt(Id),
    Kill(Id),
    Look(Id),
    Wait(Id, Way),
    AsCompleted(Vec<Id>),
    /// Takes the result if it is there.
    Peek(Id),
    Drop(Id),
}

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) threads: usize,
    /// Whether the order of the events is noted, which keeps threads from each other a little.
    pub(crate) stamped: bool,
    pub(crate) nodes: Vec<Node>,
    /// With whose they are; `None`: before the threads start.
    pub(crate) events: Vec<(Option<usize>, Event)>,
}

/// Numbers from a seed.
#[derive(Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % n as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, these: &[T]) -> T {
        these[self.below(these.len())]
    }

    fn how(&mut self) -> How {
        match self.below(12) {
            0 => How::Panic,
            1 | 2 => How::Fail,
            _ => How::Value,
        }
    }

    fn take<T>(&mut self, from: &mut Vec<T>) -> T {
        let index = self.below(from.len());
        from.swap_remove(index)
    }
}

impl Plan {
    /// What a promise came to.
    pub(crate) fn endings(&self, promise: Id) -> impl Iterator<Item = (usize, Ending)> {
        self.events.iter().enumerate().filter_map(move |(index, (_, event))| match event {
            &Event::Complete(id, ending) if id == promise => Some((index, ending)),
            _ => None,
        })
    }

    /// What a node waits for, or may.
    pub(crate) fn inputs(&self, id: Id) -> Vec<Id> {
        match &self.nodes[id] {
            Node::Promise(_) => self
                .endings(id)
                .filter_map(|(_, ending)| match ending {
                    Ending::Link(next) => Some(next),
                    _ => None,
                })
                .collect(),
            Node::Ready(_) | Node::Task(_) => Vec::new(),
            &Node::Step(_, _, source) | &Node::Shared(source) | &Node::Consumer(source) => {
                vec![source]
            }
            &Node::Become(_, _, source, inner) => vec![source, inner],
            Node::Many(_, inputs) => inputs.clone(),
        }
    }
}

/// A plan in the making.
struct Maker {
    chance: Chance,
    plan: Plan,
    /// Futures that nobody has consumed, with whose they are.
    open: Vec<(Id, usize)>,
    /// Promises that nobody has completed.
    promises: Vec<(Id, usize)>,
    /// Shared futures and promises of several, whose handles are to go.
    several: Vec<Id>,
}

/// The plan of a seed.
pub(crate) fn plan(seed: u64) -> Plan {
    let mut chance = Chance(seed);
    let threads = 2 + chance.below(3);
    let stamped = chance.one_in(2);
    let (nodes, events) = (Vec::new(), Vec::new());
    let plan = Plan { seed, threads, stamped, nodes, events };
    let mut maker =
        Maker { chance, plan, open: Vec::new(), promises: Vec::new(), several: Vec::new() };
    for _ in 0..maker.chance.below(14) {
        maker.make(true);
    }
    for _ in 0..2 + maker.chance.below(24) {
        maker.step();
    }
    maker.finish();
    maker.plan
}

impl Maker {
    fn add(&mut self, node: Node, thread: usize, before: bool) -> Id {
        let id = self.plan.nodes.len();
        match node {
            Node::Shared(_) => self.several.push(id),
            _ => self.open.push((id, thread)),
        }
        if let Node::Promise(ears) = node {
            let keeper = self.chance.below(self.plan.threads);
            self.promises.push((id, keeper));
            if ears == Ears::Answers {
                self.several.push(id);
            }
        }
        self.plan.nodes.push(node);
        self.plan.events.push(((!before).then_some(thread), Event::Make(id)));
        id
    }

    /// Mostly the thread whose it is.
    fn thread(&mut self, owner: usize) -> usize {
        if self.chance.one_in(4) { self.chance.below(self.plan.threads) } else { owner }
    }

    fn take(&mut self) -> (Id, usize) {
        let (id, owner) = self.chance.take(&mut self.open);
        (id, self.thread(owner))
    }

    fn make(&mut self, before: bool) {
        // What the last steps want.
        if self.plan.nodes.len() + 2 > NODES {
            return;
        }
        let mut thread = self.chance.below(self.plan.threads);
        let how = self.chance.how();
        let kind = self.chance.below(20);
        let node = match kind {
            0..=5 => Node::Promise(match self.chance.below(5) {
                0 => Ears::Answers,
                1 | 2 => Ears::Notes,
                _ => Ears::None,
            }),
            6 => match self.chance.below(3) {
                0 => Node::Ready(if how == How::Panic { How::Fail } else { how }),
                _ => Node::Task(how),
            },
            7..=11 if !self.open.is_empty() => {
                use Step::*;
                let step = self.chance.of(&[
                    Map,
                    Map,
                    AndThen,
                    MapResult,
                    Recover,
                    OnSuccess,
                    OnFailure,
                    OnComplete,
                    Ensure,
                    Filter,
                    MapFailure,
                    Lift,
                    LiftAndLower,
                    Interruptible,
                    Masked,
                    On,
                    Async,
                ]);
                let (source, by) = self.take();
                thread = by;
                Node::Step(step, how, source)
            }
            12..=14 if self.open.len() > 1 => {
                let operation = self.chance.of(&[
                    Become::FlatMap,
                    Become::Rescue,
                    Become::Transform,
                    Become::Or,
                ]);
                let ((source, by), (inner, _)) = (self.take(), self.take());
                thread = by;
                Node::Become(operation, how, source, inner)
            }
            15..=16 if self.open.len() > 2 => {
                use Many::*;
                let many = self.chance.of(&[
                    Zip,
                    Collect,
                    Results,
                    JoinAll,
                    First,
                    FirstOrNever,
                    Select,
                    Window(1),
                    Window(2),
                    InTurn,
                ]);
                let count = if many == Zip { 2 } else { 2 + self.chance.below(2) };
                let inputs: Vec<_> = (0..count).map(|_| self.take()).collect();
                thread = inputs[0].1;
                Node::Many(many, inputs.into_iter().map(|(id, _)| id).collect())
            }
            17 if !self.open.is_empty() => {
                let (source, by) = self.take();
                thread = by;
                Node::Shared(source)
            }
            _ => {
                let is_shared = |&&id: &&Id| matches!(self.plan.nodes[id], Node::Shared(_));
                let all: Vec<Id> = self.several.iter().filter(is_shared).copied().collect();
                if all.is_empty() {
                    return;
                }
                Node::Consumer(self.chance.of(&all))
            }
        };
        self.add(node, thread, before);
    }

    fn event(&mut self, thread: usize, event: Event) {
        self.plan.events.push((Some(thread), event));
    }

    fn step(&mut self) {
        let anybody = self.chance.below(self.plan.threads);
        match self.chance.below(16) {
            0..=7 => self.make(false),
            8..=10 if !self.promises.is_empty() => self.complete(),
            11..=13 if !self.open.is_empty() => {
                let (id, _) = self.chance.of(&self.open);
                let event = match self.chance.below(6) {
                    0 => Event::Kill(id),
                    1 => Event::Look(id),
                    _ => Event::Interrupt(id),
                };
                self.event(anybody, event);
            }
            _ if !self.open.is_empty() => self.consume(),
            _ => {}
        }
    }

    fn complete(&mut self) {
        let index = self.chance.below(self.promises.len());
        let (promise, keeper) = self.promises[index];
        let by_several = matches!(self.plan.nodes[promise], Node::Promise(Ears::Answers));
        let mut ending = self.chance.of(&[
            Ending::Set,
            Ending::Set,
            Ending::Set,
            Ending::Fail,
            Ending::Drop,
            Ending::InTask,
            Ending::Link(0),
            Ending::Link(0),
        ]);
        if by_several && self.plan.endings(promise).next().is_some() {
            // Who waits already knows of what it may become.
            ending = Ending::Set;
        }
        if let Ending::Link(_) = ending {
            let links = |&(id, _): &(Id, usize)| !self.reaches(id, promise);
            // Mostly to a promise, so that there are chains of links, which are made shorter as they come to be.
            let is_promise = |&(id, _): &(Id, usize)| {
                matches!(self.plan.nodes[id], Node::Promise(_)) && self.is_pending(id)
            };
            let first = self.open.iter().position(|it| links(it) && is_promise(it));
            ending = match first.or_else(|| self.open.iter().position(links)) {
                Some(place) => Ending::Link(self.open.swap_remove(place).0),
                None => Ending::Set,
            };
        }
        if by_several && matches!(ending, Ending::Drop | Ending::InTask) {
            ending = Ending::Fail;
        }
        // One of several may come too late, and all that come may be the first.
        if !by_several || self.chance.one_in(2) {
            self.promises.swap_remove(index);
        }
        let thread = if by_several { self.chance.below(self.plan.threads) } else { keeper };
        self.event(thread, Event::Complete(promise, ending));
    }

    fn consume(&mut self) {
        let (id, thread) = self.take();
        let event = match self.chance.below(6) {
            0 => Event::Drop(id),
            1 => Event::Peek(id),
            _ if self.is_pending(id) => {
                let owner = self.chance.below(self.plan.threads);
                return self.open.push((id, owner));
            }
            2 if self.open.iter().any(|&(id, _)| !self.is_pending(id)) => {
                let place = self.open.iter().position(|&(id, _)| !self.is_pending(id));
                let (other, _) = self.open.swap_remove(place.expect("there is one"));
                Event::AsCompleted(vec![id, other])
            }
            _ => {
                let way =
                    self.chance.of(&[Way::Wait, Way::Wait, Way::Timeout, Way::Ref, Way::Await]);
                Event::Wait(id, way)
            }
        };
        self.event(thread, event);
    }

    fn finish(&mut self) {
        while !(self.promises.is_empty() && self.open.is_empty()) {
            if !self.promises.is_empty() && (self.open.is_empty() || self.chance.one_in(2)) {
                self.complete();
            } else {
                self.consume();
            }
        }
        for id in std::mem::take(&mut self.several) {
            let thread = self.chance.below(self.plan.threads);
            self.event(thread, Event::Part(id));
        }
    }

    /// Whether it waits for that, or may come to.
    fn reaches(&self, from: Id, to: Id) -> bool {
        let (mut seen, mut todo) = ([false; NODES], vec![from]);
        while let Some(id) = todo.pop() {
            if !std::mem::replace(&mut seen[id], true) {
                todo.extend(self.plan.inputs(id));
            }
        }
        seen[to]
    }

    /// Whether it may wait for a promise that nobody has completed so far.
    fn is_pending(&self, id: Id) -> bool {
        let is_open = |&(promise, _): &(Id, usize)| {
            self.plan.endings(promise).next().is_none() && self.reaches(id, promise)
        };
        self.promises.iter().any(is_open)
    }
}
