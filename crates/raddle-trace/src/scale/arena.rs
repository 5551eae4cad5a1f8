//! The graph in the making: what each lane has done so far, of which small forks may vanish again.
//!
//! Nodes and forks are numbered in the order of their beginnings, over all lanes; each lane keeps its own. A fork whose
//! halves are one node each, of which nobody knows, is put into the node before it when it is joined, and its own two
//! vanish. So numbers have gaps, which `finish` closes. An edge is kept by the lane of the node that it leads to, so that
//! what vanishes is always the last that the lane has.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use super::graph::{EdgeKind, Fork, Graph, NONE, Node};
use super::label::Label;
use super::mix::Mix;

/// A node that may still grow.
#[derive(Debug)]
pub(super) struct Raw {
    pub(super) number: u32,
    /// Of what comes now.
    pub(super) label: Label,
    pub(super) region: u32,
    pub(super) fork: u32,
    /// With this label, since `before`.
    pub(super) work: f64,
    /// What small forks have put here.
    pub(super) before: Option<Box<Mix>>,
}

/// What a lane has done.
#[derive(Debug, Default)]
pub(super) struct Done {
    pub(super) nodes: Vec<Raw>,
    edges: Vec<(u32, u32, EdgeKind)>,
    /// Forks that are over, by their numbers.
    forks: Vec<(u32, Fork)>,
}

/// Where a lane's nodes and edges end: what comes after it may vanish.
#[derive(Clone, Copy, Debug)]
pub(super) struct Mark {
    pub(super) nodes: usize,
    edges: usize,
}

impl Done {
    #[inline]
    pub(super) fn mark(&self) -> Mark {
        Mark { nodes: self.nodes.len(), edges: self.edges.len() }
    }

    /// Nothing has been since.
    #[inline]
    pub(super) fn back_to(&mut self, mark: Mark) {
        self.nodes.truncate(mark.nodes);
        self.edges.truncate(mark.edges);
    }

    /// Whether the last node comes after something, by the last edge and no other.
    #[inline]
    pub(super) fn is_after_one(&self) -> bool {
        let Some(number) = self.nodes.last().map(|node| node.number) else { return false };
        let mut edges = self.edges.iter().rev().map(|edge| edge.1);
        edges.next() == Some(number) && edges.next() != Some(number)
    }

    /// Puts the last node in the place of the one before it, with all that comes before either: that has `after` edges. So many
    /// has both then.
    #[inline]
    pub(super) fn put_together(&mut self, after: usize) -> usize {
        let (Some(last), Some(edge)) = (self.nodes.pop(), self.edges.pop()) else { return after };
        let first = self.edges.len().saturating_sub(after);
        let edges = &mut self.edges[first..];
        edges.iter_mut().for_each(|edge| edge.1 = last.number);
        let known = edges.contains(&edge);
        if let Some(place) = self.nodes.last_mut() {
            *place = last;
        }
        if !known {
            self.edges.push(edge);
        }
        after + usize::from(!known)
    }

    /// The next node of all; its place here.
    #[inline]
    pub(super) fn add(&mut self, next: &mut u32, label: Label, region: u32, fork: u32) -> usize {
        self.nodes.push(Raw { number: *next, label, region, fork, work: 0.0, before: None });
        *next += 1;
        self.nodes.len() - 1
    }

    /// An edge to the newest node.
    #[inline]
    pub(super) fn edge(&mut self, from: u32, kind: EdgeKind) {
        let Some(to) = self.nodes.last() else { return };
        if from != NONE && from < to.number {
            self.edges.push((from, to.number, kind));
        }
    }

    #[inline]
    pub(super) fn over(&mut self, number: u32, fork: Fork) {
        self.forks.push((number, fork));
    }
}

/// Numbers with gaps, and the places of those that there are.
#[derive(Debug, Default)]
pub(crate) struct Places {
    numbers: Vec<u32>,
    count: u32,
    gaps: bool,
}

impl Places {
    #[inline]
    fn new(numbers: Vec<u32>) -> Places {
        let gaps = numbers.last().is_some_and(|&last| last as usize + 1 != numbers.len());
        let count = numbers.len() as u32;
        // Without gaps nobody looks.
        Places { numbers: if gaps { numbers } else { Vec::new() }, count, gaps }
    }

    /// What is at a place.
    #[inline]
    pub(super) fn number(&self, place: u32) -> u32 {
        if self.gaps { self.numbers[place as usize] } else { place }
    }

    /// `NONE` if it has vanished.
    #[inline]
    pub(super) fn of(&self, number: u32) -> u32 {
        match self.gaps {
            true => self.numbers.binary_search(&number).map_or(NONE, |at| at as u32),
            false if number < self.count => number,
            false => NONE,
        }
    }
}

/// The graph of all lanes, and where its nodes are by their numbers. Forks that are `mixed` are not pure; `settle` has the
/// last word on each node's work.
#[inline]
pub(super) fn finish(
    mut lanes: Vec<Done>,
    mixed: &[u32],
    mut settle: impl FnMut(&mut Raw),
) -> (Graph, Places) {
    let mut forks: Vec<(u32, Fork)> = Vec::new();
    let mut edges = Vec::new();
    for lane in &mut lanes {
        match forks.is_empty() {
            true => forks = std::mem::take(&mut lane.forks),
            false => forks.append(&mut lane.forks),
        }
        match edges.is_empty() {
            true => edges = std::mem::take(&mut lane.edges),
            false => edges.append(&mut lane.edges),
        }
    }
    forks.sort_unstable_by_key(|fork| fork.0);
    for number in mixed {
        if let Ok(at) = forks.binary_search_by_key(number, |fork| fork.0) {
            forks[at].1.pure = false;
        }
    }
    let fork_places = Places::new(forks.iter().map(|fork| fork.0).collect());
    let mut graph = Graph::default();
    let count = lanes.iter().map(|lane| lane.nodes.len()).sum();
    let mut numbers = Vec::with_capacity(count);
    graph.nodes.reserve_exact(count);
    let mut lanes: Vec<_> =
        lanes.into_iter().map(|lane| lane.nodes.into_iter().peekable()).collect();
    let first = lanes.iter_mut().enumerate();
    let mut heap: BinaryHeap<Reverse<(u32, usize)>> =
        first.filter_map(|(at, nodes)| Some(Reverse((nodes.peek()?.number, at)))).collect();
    while let Some(Reverse((_, lane))) = heap.pop() {
        let until = heap.peek().map_or(u32::MAX, |next| next.0.0);
        while let Some(mut raw) = lanes[lane].next_if(|raw| raw.number < until) {
            settle(&mut raw);
            let mut node = Node {
                work: raw.work as f32,
                span: raw.work as f32,
                burdened: raw.work as f32,
                divided: raw.work as f32,
                serial: raw.work as f32,
                label: raw.label,
                region: raw.region,
                fork: fork_places.of(raw.fork),
                mix: NONE,
            };
            if let Some(mix) = raw.before {
                (node.work, node.span) = (mix.work as f32, mix.span as f32);
                (node.burdened, node.divided) = (mix.burdened as f32, mix.divided as f32);
                node.serial = mix.serial as f32;
                node.mix = graph.mixes.len() as u32;
                graph.mixes.push(*mix);
            }
            numbers.push(raw.number);
            graph.nodes.push(node);
        }
        if let Some(next) = lanes[lane].peek() {
            heap.push(Reverse((next.number, lane)));
        }
    }
    drop(lanes);
    let places = Places::new(numbers);
    if places.gaps {
        for edge in &mut edges {
            (edge.0, edge.1) = (places.of(edge.0), places.of(edge.1));
        }
        edges.retain(|edge| edge.0 != NONE && edge.1 != NONE);
    }
    graph.edges = edges;
    graph.forks = forks.into_iter().map(|fork| fork.1).collect();
    for fork in &mut graph.forks {
        fork.parent = fork_places.of(fork.parent);
        (fork.from, fork.join) = (places.of(fork.from), places.of(fork.join));
        fork.pure &= fork.from != NONE;
    }
    graph.finish();
    (graph, places)
}
