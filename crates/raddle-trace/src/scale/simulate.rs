//! A graph run by workers that steal, on any number of processors.
//!
//! Each worker has a stack of what is ready: it goes on with what follows the node that it has run, puts the rest on the
//! stack, and takes from there when there is nothing to follow. One without work takes the oldest of another's, which
//! costs a hand-off.
//!
//! At the start only the first worker is awake. The others are woken by the rules of raddle's pools: the defaults of the core's
//! `Policy`, which a test of `bench` holds against these.
//!
//! | who | wakes |
//! |---|---|
//! | forks or spawns something while nobody searches | one |
//! | has searched, and found something | one for each task, and each worker with forks, that is left to take, two at most, or one in pools of up to four; no more than make half of those who work, or that many, search |
//! | was woken, and has found a fork, in pools of more than eight | one more with each of the first three that it forks |
//!
//! Who is on the way counts as a searcher. A wake takes some of the waker's time, and longer until the sleeper looks for work.
//!
//! A piece that stands for many forks is shared by those who have nothing to do, which costs hand-offs and no wakes.
//!
//! Not here: whoever is awake stays so and sees at once what there is, where raddle's workers ask, run fences, and sleep when they
//! have searched for about as long as a wake takes. Whoever waits takes on something else. What is spawned from outside is seen as
//! one worker's.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::graph::{EdgeKind, Graph, Node};

/// Pools of no more workers wake one at a time, larger ones so many.
const SMALL: usize = 4;
const FAN_OUT: usize = 2;
/// In pools of more workers whoever was woken wakes one more with each of so many forks.
const MIDDLING: usize = 8;
const SPREAD: u8 = 3;

/// What it costs that work changes hands, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Costs {
    /// To take work from another worker.
    pub steal: f64,
    /// Until a sleeping worker is awake.
    pub wake: f64,
    /// To wake one: how long that keeps the waker.
    pub rouse: f64,
}

/// The successors of each node, and how many predecessors each has.
pub(crate) struct Plan {
    start: Vec<u32>,
    to: Vec<u32>,
    before: Vec<u32>,
    work: Vec<f64>,
    /// How long each takes at least if others share it.
    divided: Vec<f64>,
    serial: Vec<f64>,
    /// Whether a node begins a spawned task, which lies in a queue, not on a stack of forks.
    is_task: Vec<bool>,
}

impl Plan {
    #[inline]
    pub(crate) fn new(graph: &Graph, factor: impl Fn(&Node) -> f64) -> Plan {
        let count = graph.nodes.len();
        let mut start = vec![0_u32; count + 1];
        let mut before = vec![0; count];
        let mut is_task = vec![false; count];
        for &(from, to, kind) in &graph.edges {
            start[from as usize + 1] += 1;
            before[to as usize] += 1;
            is_task[to as usize] |= kind == EdgeKind::Task;
        }
        for at in 0..count {
            start[at + 1] += start[at];
        }
        let mut next = start.clone();
        let mut to = vec![0; graph.edges.len()];
        // What the same worker goes on with comes first.
        for others in [false, true] {
            for &(from, target, kind) in &graph.edges {
                if kind.changes_hands() == others {
                    to[next[from as usize] as usize] = target;
                    next[from as usize] += 1;
                }
            }
        }
        let times = |of: fn(&Node) -> f32| {
            graph.nodes.iter().map(|node| f64::from(of(node)) * factor(node)).collect()
        };
        let (work, divided) = (times(|node| node.work), times(|node| node.divided));
        let serial = times(|node| node.serial);
        Plan { start, to, before, work, divided, serial, is_task }
    }

    /// How long it takes on so many processors, in nanoseconds.
    #[inline]
    pub(crate) fn run(&self, processors: usize, costs: Costs) -> f64 {
        let mut left = self.before.clone();
        let mut machine = Machine::new(self, processors.max(1), costs);
        for (node, &before) in left.iter().enumerate() {
            if before == 0 {
                machine.put(0, node as u32);
            }
        }
        machine.searching.push(0);
        machine.hand_out(0.0);
        let mut end = 0.0_f64;
        while let Some(Reverse(Event { time, worker, node, .. })) = machine.events.pop() {
            let Some(node) = node else {
                machine.comes(time, worker);
                continue;
            };
            end = end.max(time);
            machine.help_ends(worker);
            let mut at = time;
            let mut own = None;
            let range = self.start[node as usize] as usize..self.start[node as usize + 1] as usize;
            for &next in &self.to[range] {
                left[next as usize] -= 1;
                if left[next as usize] == 0 {
                    match own {
                        None => own = Some(next),
                        Some(_) => at += machine.forks(at, worker, next),
                    }
                }
            }
            match own.or_else(|| machine.pop(worker)) {
                Some(next) => machine.begin(at, worker, next),
                None => machine.ends(time, worker),
            }
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
    #[inline]
    fn partial_cmp(&self, other: &Event) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Event {
    #[inline]
    fn cmp(&self, other: &Event) -> std::cmp::Ordering {
        self.time.total_cmp(&other.time).then(self.number.cmp(&other.number))
    }
}

#[derive(Clone, Default)]
struct Worker {
    stack: VecDeque<u32>,
    /// Its place among those whose stacks are not empty.
    place: Option<usize>,
    /// It was woken, and has not found anything since.
    woken: bool,
    /// With so many of its next forks it wakes one more each.
    spreads: u8,
    /// What it has found last is a task: it takes the next without a search.
    in_task: bool,
    /// So many share what it is at.
    helpers: usize,
}

struct Machine<'a> {
    plan: &'a Plan,
    costs: Costs,
    events: BinaryHeap<Reverse<Event>>,
    number: u64,
    workers: Vec<Worker>,
    /// Those whose stacks are not empty.
    full: Vec<u32>,
    /// Those who have nothing to do. There is nothing to take then.
    searching: Vec<u32>,
    /// How many have been woken and are on the way.
    coming: usize,
    /// Workers that have not been woken, from this one on.
    asleep: usize,
    /// How many of those who have nothing to do share what others are at.
    helping: usize,
    random: u64,
}

impl Machine<'_> {
    #[inline]
    fn new(plan: &Plan, processors: usize, costs: Costs) -> Machine<'_> {
        Machine {
            plan,
            costs,
            events: BinaryHeap::new(),
            number: 0,
            workers: vec![Worker::default(); processors],
            full: Vec::new(),
            searching: Vec::new(),
            coming: 0,
            asleep: 1,
            helping: 0,
            random: 0x9E37_79B9_7F4A_7C15,
        }
    }

    #[inline]
    fn put(&mut self, worker: u32, node: u32) {
        let Worker { stack, place, .. } = &mut self.workers[worker as usize];
        stack.push_back(node);
        if place.is_none() {
            *place = Some(self.full.len());
            self.full.push(worker);
        }
    }

    #[inline]
    fn emptied(&mut self, worker: u32) {
        let Worker { stack, place, .. } = &mut self.workers[worker as usize];
        let Some(at) = place.take_if(|_| stack.is_empty()) else { return };
        self.full.swap_remove(at);
        if let Some(&moved) = self.full.get(at) {
            self.workers[moved as usize].place = Some(at);
        }
    }

    #[inline]
    fn pop(&mut self, worker: u32) -> Option<u32> {
        let node = self.workers[worker as usize].stack.pop_back();
        self.emptied(worker);
        node
    }

    /// A piece that stands for many forks is shared with those who have nothing to do, whether or not they have been woken: one of
    /// the first of many has done that. Others that are under way get as many helpers.
    #[inline]
    fn begin(&mut self, time: f64, worker: u32, node: u32) {
        let number = node as usize;
        let (work, least) = (self.plan.work[number], self.plan.divided[number]);
        let mut takes = work;
        if least < work {
            let all = self.workers.len();
            let busy = (self.asleep - self.searching.len() - self.coming).max(1);
            let idle = all.saturating_sub(busy + self.helping);
            let of_use = (work / least).ceil() as usize;
            let helpers = idle.min(all / busy - 1).min(of_use);
            if helpers > 0 {
                let serial = self.plan.serial[number];
                takes = serial + (least - serial).max((work - serial) / (1 + helpers) as f64);
            }
            self.workers[worker as usize].helpers = helpers;
            self.helping += helpers;
        }
        self.schedule(time + takes, worker, Some(node));
    }

    #[inline]
    fn help_ends(&mut self, worker: u32) {
        self.helping -= std::mem::take(&mut self.workers[worker as usize].helpers);
    }

    #[inline]
    fn schedule(&mut self, time: f64, worker: u32, node: Option<u32>) {
        self.number += 1;
        self.events.push(Reverse(Event { time, number: self.number, worker, node }));
    }

    /// A worker makes something ready that it does not go on with. How long it is kept by that.
    #[inline]
    fn forks(&mut self, time: f64, worker: u32, node: u32) -> f64 {
        let nobody_searches = self.searching.is_empty() && self.coming == 0;
        self.put(worker, node);
        self.hand_out(time);
        let mut late = if nobody_searches { self.wake(time) } else { 0.0 };
        let spreads = &mut self.workers[worker as usize].spreads;
        if *spreads > 0 && !self.plan.is_task[node as usize] {
            *spreads -= 1;
            late += self.wake(time + late);
        }
        late
    }

    /// A worker has nothing of its own to go on with.
    #[inline]
    fn ends(&mut self, time: f64, worker: u32) {
        let searches = !self.workers[worker as usize].in_task;
        if !self.take(time, worker, searches) {
            self.searching.push(worker);
        }
    }

    /// One that was woken looks for work.
    #[inline]
    fn comes(&mut self, time: f64, worker: u32) {
        self.coming -= 1;
        self.workers[worker as usize].woken = true;
        self.searching.push(worker);
        self.hand_out(time);
    }

    /// Gives what is there to take to those who look for it.
    #[inline]
    fn hand_out(&mut self, time: f64) {
        while let Some(thief) = self.searching.pop() {
            if !self.take(time, thief, true) {
                return self.searching.push(thief);
            }
        }
    }

    /// A worker takes the oldest of another's, if there is any.
    #[inline]
    fn take(&mut self, time: f64, thief: u32, searched: bool) -> bool {
        let Some(victim) = self.pick() else { return false };
        let Some(node) = self.workers[victim as usize].stack.pop_front() else { return false };
        self.emptied(victim);
        let is_task = self.plan.is_task[node as usize];
        let is_large = self.workers.len() > MIDDLING;
        let worker = &mut self.workers[thief as usize];
        let for_a_fork = std::mem::take(&mut worker.woken) && !is_task;
        worker.spreads = if for_a_fork && is_large { SPREAD } else { 0 };
        worker.in_task = is_task;
        let mut at = time + if thief == victim { 0.0 } else { self.costs.steal };
        if searched {
            at += self.hand_on(at);
        }
        self.begin(at, thief, node);
        true
    }

    /// A search has found something, and more is to be seen. How long the worker is kept by waking others.
    #[inline]
    fn hand_on(&mut self, time: f64) -> f64 {
        let most = if self.workers.len() > SMALL { FAN_OUT } else { 1 };
        let mut late = 0.0;
        for _ in 0..self.visible(most) {
            let searching = self.searching.len() + self.coming;
            let busy = self.asleep - searching;
            if searching < most.max(busy / 2) {
                late += self.wake(time + late);
            }
        }
        late
    }

    /// How much is to be seen, up to `most`: all tasks, and of each worker's forks that there are some.
    #[inline]
    fn visible(&self, most: usize) -> usize {
        let mut seen = 0;
        for &worker in &self.full {
            if seen >= most {
                break;
            }
            let stack = self.workers[worker as usize].stack.iter();
            let is_task = |node: &&u32| self.plan.is_task[**node as usize];
            let tasks = stack.clone().filter(is_task).take(most).count();
            seen += tasks + usize::from(stack.len() > tasks);
        }
        seen.min(most)
    }

    /// Wakes somebody who sleeps. How long that takes.
    #[inline]
    fn wake(&mut self, time: f64) -> f64 {
        if self.asleep == self.workers.len() {
            return 0.0;
        }
        self.schedule(time + self.costs.wake, self.asleep as u32, None);
        self.asleep += 1;
        self.coming += 1;
        self.costs.rouse
    }

    #[inline]
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
            Node {
                work,
                span: work,
                burdened: work,
                divided: work,
                serial: work,
                label,
                region: NONE,
                fork: NONE,
                mix: NONE,
            }
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
        let free = Costs { steal: 0.0, wake: 0.0, rouse: 0.0 };
        let even = Plan::new(&broad(&[100.0; 64]), |_| 1.0);
        for (processors, time) in [(1, 6400.0), (2, 3200.0), (64, 100.0), (1024, 100.0)] {
            assert_eq!(even.run(processors, free), time);
        }
        assert_eq!(Plan::new(&broad(&[100.0; 64]), |_| 0.5).run(2, free), 1600.0);
        // The second worker is awake after 250, when the first has begun its third piece.
        let two = even.run(2, Costs { steal: 10.0, wake: 250.0, rouse: 20.0 });
        assert!((3300.0..3700.0).contains(&two), "{two}");
        let uneven = Plan::new(&broad(&[10.0, 1000.0, 10.0]), |_| 1.0);
        assert_eq!(uneven.run(8, free), 1000.0);
    }
}
