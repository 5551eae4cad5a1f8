//! A graph run by workers that steal, on any number of processors.
//!
//! Each worker has a stack of what is ready: it goes on with what follows the node that it has run, puts the rest on the
//! stack, and takes from there when there is nothing to follow. One without work takes the oldest of another's, which
//! costs a hand-off. At the start only the first worker is awake; each that gets work has the next one woken, as
//! raddle's do, and a wake takes its time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::graph::{EdgeKind, Graph, Node};

/// What it costs that work changes hands, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// To take work from another worker.
    pub steal: f64,
    /// Until a sleeping worker is awake.
    pub wake: f64,
}

/// The successors of each node, and how many predecessors each has.
pub(crate) struct Plan {
    start: Vec<u32>,
    to: Vec<u32>,
    before: Vec<u32>,
    work: Vec<f64>,
}

impl Plan {
    pub(crate) fn new(graph: &Graph, factor: impl Fn(&Node) -> f64) -> Plan {
        let count = graph.nodes.len();
        let mut start = vec![0_u32; count + 1];
        let mut before = vec![0; count];
        for &(from, to, _) in &graph.edges {
            start[from as usize + 1] += 1;
            before[to as usize] += 1;
        }
        for at in 0..count {
            start[at + 1] += start[at];
        }
        let mut next = start.clone();
        let mut to = vec![0; graph.edges.len()];
        // What the same worker goes on with comes first.
        for kinds in [true, false] {
            for &(from, target, kind) in &graph.edges {
                if (kind == EdgeKind::Child) != kinds {
                    to[next[from as usize] as usize] = target;
                    next[from as usize] += 1;
                }
            }
        }
        let work = graph.nodes.iter().map(|node| f64::from(node.work) * factor(node)).collect();
        Plan { start, to, before, work }
    }

    /// How long it takes on so many processors, in nanoseconds.
    pub(crate) fn run(&self, processors: usize, costs: Costs) -> f64 {
        let mut left = self.before.clone();
        let mut machine = Machine::new(processors.max(1), costs);
        for (node, &before) in left.iter().enumerate() {
            if before == 0 {
                machine.push(0, node as u32);
            }
        }
        machine.idle.push(0);
        machine.hand_out(0.0, &self.work);
        let mut end = 0.0_f64;
        while let Some(Reverse(Event { time, worker, node, .. })) = machine.events.pop() {
            let Some(node) = node else {
                machine.waking = false;
                machine.idle.push(worker);
                machine.hand_out(time, &self.work);
                continue;
            };
            end = end.max(time);
            let mut own = None;
            let range = self.start[node as usize] as usize..self.start[node as usize + 1] as usize;
            for &next in &self.to[range] {
                left[next as usize] -= 1;
                if left[next as usize] == 0 {
                    match own {
                        None => own = Some(next),
                        Some(_) => machine.push(worker, next),
                    }
                }
            }
            match own.or_else(|| machine.pop(worker)) {
                Some(next) => machine.begin(time, worker, next, &self.work),
                None => machine.idle.push(worker),
            }
            machine.hand_out(time, &self.work);
        }
        end
    }
}

/// A worker is done with a node, or awake if there is none.
#[derive(PartialEq)]
struct Event {
    time: f64,
    number: u64,
    worker: u32,
    node: Option<u32>,
}

impl Eq for Event {}

impl PartialOrd for Event {
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        self.time.total_cmp(&other.time).then(self.number.cmp(&other.number))
    }
}

struct Machine {
    costs: Costs,
    events: BinaryHeap<Reverse<Event>>,
    number: u64,
    stacks: Vec<VecDeque<u32>>,
    /// Workers whose stacks are not empty, and where each stands in this list.
    full: Vec<u32>,
    place: Vec<usize>,
    idle: Vec<u32>,
    /// Workers that have not been woken, from this one on.
    asleep: u32,
    waking: bool,
    random: u64,
}

impl Machine {
    fn new(processors: usize, costs: Costs) -> Machine {
        Machine {
            costs,
            events: BinaryHeap::new(),
            number: 0,
            stacks: vec![VecDeque::new(); processors],
            full: Vec::new(),
            place: vec![usize::MAX; processors],
            idle: Vec::new(),
            asleep: 1,
            waking: false,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    fn push(&mut self, worker: u32, node: u32) {
        let at = worker as usize;
        self.stacks[at].push_back(node);
        if self.place[at] == usize::MAX {
            self.place[at] = self.full.len();
            self.full.push(worker);
        }
    }

    fn emptied(&mut self, worker: usize) {
        if self.stacks[worker].is_empty() && self.place[worker] != usize::MAX {
            let at = self.place[worker];
            self.full.swap_remove(at);
            if let Some(&moved) = self.full.get(at) {
                self.place[moved as usize] = at;
            }
            self.place[worker] = usize::MAX;
        }
    }

    fn pop(&mut self, worker: u32) -> Option<u32> {
        let node = self.stacks[worker as usize].pop_back();
        self.emptied(worker as usize);
        node
    }

    fn begin(&mut self, time: f64, worker: u32, node: u32, work: &[f64]) {
        self.schedule(time + work[node as usize], worker, Some(node));
    }

    fn schedule(&mut self, time: f64, worker: u32, node: Option<u32>) {
        self.number += 1;
        self.events.push(Reverse(Event { time, number: self.number, worker, node }));
    }

    /// Gives what is there to take to those who look for it.
    fn hand_out(&mut self, time: f64, work: &[f64]) {
        while let (Some(&victim), Some(&thief)) = (self.pick().as_ref(), self.idle.last()) {
            self.idle.pop();
            let node = self.stacks[victim as usize].pop_front();
            self.emptied(victim as usize);
            let Some(node) = node else { continue };
            let cost = if thief == victim { 0.0 } else { self.costs.steal };
            self.begin(time + cost, thief, node, work);
        }
        if !self.full.is_empty() && !self.waking && (self.asleep as usize) < self.stacks.len() {
            self.waking = true;
            self.asleep += 1;
            self.schedule(time + self.costs.wake, self.asleep - 1, None);
        }
    }

    fn pick(&mut self) -> Option<u32> {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let count = self.full.len().max(1) as u64;
        self.full.get((self.random % count) as usize).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::super::graph::NONE;
    use super::super::label::Label;
    use super::*;

    /// So many pieces of work side by side, between a beginning and an end of no work.
    fn broad(pieces: &[f32]) -> Graph {
        let node = |work| {
            let label = Label::Unknown;
            Node { work, span: work, label, region: NONE, fork: NONE, mix: NONE }
        };
        let works = [0.0].iter().chain(pieces).chain(&[0.0]);
        let mut graph =
            Graph { nodes: works.map(|&work| node(work)).collect(), ..Graph::default() };
        let end = pieces.len() as u32 + 1;
        graph.edges.extend((1..end).map(|node| (0, node, EdgeKind::Child)));
        graph.edges.extend((1..end).map(|node| (node, end, EdgeKind::Result)));
        graph.finish();
        graph
    }

    #[test]
    fn time_lies_between_the_bounds_and_hand_offs_cost() {
        let free = Costs { steal: 0.0, wake: 0.0 };
        let even = Plan::new(&broad(&[100.0; 64]), |_| 1.0);
        for (processors, time) in [(1, 6400.0), (2, 3200.0), (64, 100.0), (1024, 100.0)] {
            assert_eq!(even.run(processors, free), time);
        }
        assert_eq!(Plan::new(&broad(&[100.0; 64]), |_| 0.5).run(2, free), 1600.0);
        // The second worker is awake after 250, when the first has begun its third piece.
        let two = even.run(2, Costs { steal: 10.0, wake: 250.0 });
        assert!((3300.0..3700.0).contains(&two), "{two}");
        let uneven = Plan::new(&broad(&[10.0, 1000.0, 10.0]), |_| 1.0);
        assert_eq!(uneven.run(8, free), 1000.0);
    }
}
