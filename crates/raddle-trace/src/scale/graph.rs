//! What a run computes, as a graph: pieces of work, and which must be over before which begins.
//!
//! Nodes are numbered in an order in which every edge runs from a lower number to a higher one. A node with a second
//! successor is where something was forked; one with several predecessors, where something was waited for.

use super::label::Label;
use super::mix::{Mix, Part};

/// Nobody, of nodes and forks.
pub(crate) const NONE: u32 = u32::MAX;

/// A piece of work that one thread did without forking or waiting.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Node {
    /// How long it took on a processor, in nanoseconds.
    pub(crate) work: f32,
    /// How long it takes at least, however many processors there are: less than the work if this stands for a tree of
    /// small forks.
    pub(crate) span: f32,
    /// The same with a hand-off for each of those forks that is worth one.
    pub(crate) burdened: f32,
    /// How long it takes at least if what is worth no hand-off is done by one.
    pub(crate) divided: f32,
    /// How much of that nobody else can share.
    pub(crate) serial: f32,
    pub(crate) label: Label,
    /// The region that it belongs to, or `NONE`.
    pub(crate) region: u32,
    /// The innermost fork that it is part of, or `NONE`.
    pub(crate) fork: u32,
    /// What it is made of if that has several labels, or `NONE`: `label` is the last one then.
    pub(crate) mix: u32,
}

/// One `join`: from the node that forks to the one that has both results.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fork {
    /// The fork that it is part of, or `NONE`.
    pub(crate) parent: u32,
    pub(crate) from: u32,
    /// The node after both halves, or `NONE` if the recording ends before.
    pub(crate) join: u32,
    /// Nothing in it waits for, or is waited for by, anything outside of it.
    pub(crate) pure: bool,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum EdgeKind {
    /// The same thread goes on.
    Next,
    /// Another may take it: that costs a hand-off.
    Child,
    /// The same, of a task in a queue.
    Task,
    /// A result is waited for.
    Result,
    /// A future's.
    Future,
    /// A lock.
    Lock,
}

impl EdgeKind {
    /// Whether another thread may go on than the one before.
    #[inline]
    pub(crate) fn changes_hands(self) -> bool {
        matches!(self, EdgeKind::Child | EdgeKind::Task)
    }
}

#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) nodes: Vec<Node>,
    /// From, to; in the order of `to` once `finish` has been called.
    pub(crate) edges: Vec<(u32, u32, EdgeKind)>,
    pub(crate) forks: Vec<Fork>,
    pub(crate) mixes: Vec<Mix>,
}

/// The longest way through a graph to each of its nodes.
#[derive(Clone, Debug)]
pub(crate) struct Longest {
    /// When each node can begin at the earliest, and end.
    pub(crate) begin: Vec<f64>,
    pub(crate) end: Vec<f64>,
    /// The predecessor that the beginning hangs on.
    pub(crate) after: Vec<u32>,
}

impl Graph {
    /// All edges in the order in which longest ways are found.
    #[inline]
    pub(crate) fn finish(&mut self) {
        self.edges.sort_unstable_by_key(|edge| (edge.1, edge.0));
    }

    #[inline]
    pub(crate) fn work(&self) -> f64 {
        self.nodes.iter().map(|node| f64::from(node.work)).sum()
    }

    #[inline]
    fn mix(&self, node: &Node) -> Option<&Mix> {
        self.mixes.get(node.mix as usize)
    }

    /// What a node is made of.
    #[inline]
    pub(crate) fn parts(&self, node: &Node) -> impl Iterator<Item = Part> + '_ {
        let mix = self.mix(node);
        let (work, span) = (f64::from(node.work), f64::from(node.span));
        let all = mix.is_none().then_some(Part { label: node.label, work, on: span, less: span });
        mix.into_iter().flat_map(|mix| mix.parts.iter().copied()).chain(all)
    }

    /// The longest task without forks on a node's longest way.
    #[inline]
    pub(crate) fn task(&self, node: &Node) -> f64 {
        match (self.mix(node), node.label) {
            (Some(mix), _) => mix.task,
            (None, Label::In(_)) => f64::from(node.span),
            (None, _) => 0.0,
        }
    }

    /// How long the longest way of all would be if what has this label took no time.
    #[inline]
    pub(crate) fn span_without(&self, label: Label) -> f64 {
        let mut ends = vec![0.0_f64; self.nodes.len()];
        let mut edges = self.edges.iter().peekable();
        for (number, node) in self.nodes.iter().enumerate() {
            let mut begin = 0.0_f64;
            while let Some(edge) = edges.next_if(|edge| edge.1 as usize == number) {
                begin = begin.max(ends[edge.0 as usize]);
            }
            let less = match self.mix(node) {
                Some(mix) => mix.part(label).map_or(0.0, |part| part.less),
                None if node.label == label => f64::from(node.span),
                None => 0.0,
            };
            ends[number] = begin + (f64::from(node.span) - less).max(0.0);
        }
        ends.into_iter().fold(0.0, f64::max)
    }

    /// Longest ways, each hand-off taking `burden` nanoseconds.
    #[inline]
    pub(crate) fn longest(&self, burden: f64) -> Longest {
        self.longest_of(burden, |node| if burden > 0.0 { node.burdened } else { node.span })
    }

    /// The same where what is worth no hand-off is done by one.
    #[inline]
    pub(crate) fn longest_divided(&self, burden: f64) -> Longest {
        self.longest_of(burden, |node| node.divided)
    }

    #[inline]
    fn longest_of(&self, burden: f64, takes: impl Fn(&Node) -> f32) -> Longest {
        let count = self.nodes.len();
        let mut ways =
            Longest { begin: vec![0.0; count], end: vec![0.0; count], after: vec![NONE; count] };
        let mut edges = self.edges.iter().peekable();
        for (number, node) in self.nodes.iter().enumerate() {
            let (mut begin, mut after) = (0.0, NONE);
            while let Some(&&(from, _, kind)) =
                edges.peek().filter(|edge| edge.1 as usize == number)
            {
                edges.next();
                let cost = if kind.changes_hands() { burden } else { 0.0 };
                let ready = ways.end[from as usize] + cost;
                if ready > begin || after == NONE {
                    (begin, after) = (ready, from);
                }
            }
            ways.begin[number] = begin;
            ways.end[number] = begin + f64::from(takes(node));
            ways.after[number] = after;
        }
        ways
    }

    /// The graph with every fork whose work is below `grain` made one node, and which of its nodes each one of this is now. With
    /// the longest ways, and those of what is divided among processors.
    #[inline]
    pub(crate) fn coarse(
        &self,
        grain: f64,
        ways: &Longest,
        divided: &Longest,
    ) -> (Graph, Vec<u32>) {
        let mut work = vec![0.0_f64; self.forks.len()];
        for node in self.nodes.iter().filter(|node| node.fork != NONE) {
            work[node.fork as usize] += f64::from(node.work);
        }
        let mut pure: Vec<bool> =
            self.forks.iter().map(|fork| fork.pure && fork.join != NONE).collect();
        for number in (0..self.forks.len()).rev() {
            let parent = self.forks[number].parent;
            if parent != NONE {
                work[parent as usize] += work[number];
                pure[parent as usize] &= pure[number];
            }
        }
        // The outermost fork that each one vanishes in. A fork comes after the one that it is part of.
        let mut within = vec![NONE; self.forks.len()];
        for (number, fork) in self.forks.iter().enumerate() {
            let outer = if fork.parent == NONE { NONE } else { within[fork.parent as usize] };
            within[number] = match outer {
                NONE if pure[number] && work[number] < grain => number as u32,
                outer => outer,
            };
        }
        let mut coarse = Graph::default();
        let mut place = vec![NONE; self.nodes.len()];
        let mut stands = vec![NONE; self.forks.len()];
        for (number, node) in self.nodes.iter().enumerate() {
            let outer = if node.fork == NONE { NONE } else { within[node.fork as usize] };
            if outer == NONE {
                place[number] = coarse.nodes.len() as u32;
                coarse.nodes.push(Node { fork: NONE, mix: NONE, ..*node });
                continue;
            }
            // The first node of a fork that vanishes stands for all of it.
            let fork = &self.forks[outer as usize];
            if stands[outer as usize] == NONE {
                stands[outer as usize] = coarse.nodes.len() as u32;
                let work = work[outer as usize] as f32;
                let within = |ways: &Longest| {
                    let within = ways.begin[fork.join as usize] - ways.end[fork.from as usize];
                    (within.max(0.0) as f32).min(work)
                };
                let (span, divided) = (within(ways), within(divided));
                let serial = if divided < work { 0.0 } else { work };
                let (fork, mix, burdened) = (NONE, NONE, span);
                let stands = Node { work, span, burdened, divided, serial, fork, mix, ..*node };
                coarse.nodes.push(stands);
            }
            place[number] = stands[outer as usize];
        }
        for &(from, to, kind) in &self.edges {
            let (from, to) = (place[from as usize], place[to as usize]);
            if from != to {
                coarse.edges.push((from, to, kind));
            }
        }
        coarse.edges.sort_unstable_by_key(|edge| (edge.1, edge.0, edge.2 != EdgeKind::Next));
        coarse.edges.dedup_by_key(|edge| (edge.1, edge.0));
        (coarse, place)
    }
}
