//! Small forks that become one piece while events are read: what is told stays.

use super::*;
use crate::scale::mix::Part;

/// A run of two lanes, the second of which steals from the first; times are whole, and hardly ever the same.
struct Run {
    owner: Script,
    thief: Script,
    state: u64,
}

impl Run {
    fn of(seed: u64, forks: u32) -> Trace {
        let thief = Script { next: 1 << 18, ..Script::new() };
        let mut run = Run { owner: Script::new(), thief, state: seed * 2 + 1 };
        run.owner.note(Submit, Subject::Region, 1, 1);
        run.owner.note(Exec, Subject::Region, 1, 1);
        run.owner.next = 2;
        run.grow(forks);
        run.owner.note(Executed, Subject::Region, 1, 0);
        let mut trace = run.owner.trace();
        trace.facts.push(("level".into(), "tasks".into()));
        trace.lanes.push(Lane::new("raddle-0", run.thief.events));
        trace
    }

    fn random(&mut self, below: u64) -> u64 {
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    /// Long pieces and short ones.
    fn spend(&mut self) {
        let time = self.random(1 << 14) >> (self.random(3) * 4);
        self.owner.spend(time);
    }

    fn grow(&mut self, forks: u32) {
        self.spend();
        if forks == 0 {
            return;
        }
        let first = self.random(u64::from(forks)) as u32;
        let place = 1 + self.random(3) as u16;
        match self.random(12) {
            0 => self.stolen(first, forks - 1 - first, place),
            // What is outside has to do with it.
            1 => self.with_a_result(first, place),
            _ => {
                let depth = self.owner.next;
                self.owner.next += 1;
                self.owner.note(Fork, Subject::Fork, depth, place);
                self.grow(first);
                self.owner.note(Exec, Subject::Fork, depth, 0);
                self.owner.next -= 1;
                self.grow(forks - 1 - first);
                self.owner.note(Executed, Subject::Fork, depth, 0);
            }
        }
        self.spend();
    }

    fn stolen(&mut self, first: u32, second: u32, place: u16) {
        let depth = self.owner.next;
        self.owner.next += 1;
        self.owner.note(Fork, Subject::Fork, depth, place);
        self.thief.now = self.thief.now.max(self.owner.now);
        self.thief.note(Exec, Subject::Fork, depth, 0);
        self.grow(first);
        for _ in 0..second {
            let time = self.random(1 << 12);
            self.thief.join(3, |s| _ = s.spend(time), |s| _ = s.spend(time / 3));
        }
        self.thief.note(Executed, Subject::Fork, depth, 0);
        self.owner.note(Join, Subject::Fork, depth, 0);
        self.owner.now = self.owner.now.max(self.thief.now);
        self.owner.note(Joined, Subject::Fork, depth, place);
        self.owner.next -= 1;
    }

    fn with_a_result(&mut self, forks: u32, place: u16) {
        let depth = self.owner.next;
        self.owner.next += 1;
        self.owner.note(Fork, Subject::Fork, depth, place);
        self.grow(forks);
        self.owner.note(Exec, Subject::Fork, depth, 0);
        self.spend();
        self.owner.note(Resolve, Subject::Any, depth, 0);
        self.spend();
        self.owner.note(Executed, Subject::Fork, depth, 0);
        self.owner.next -= 1;
    }
}

/// All that is told of a graph, as whole numbers: work, span, the longest task, and of each label its work, how much of it
/// the span hangs on, and the span without it.
fn told(graph: &Graph) -> (u64, u64, u64, Vec<(Label, [u64; 3])>) {
    let ways = graph.longest(0.0);
    let span = ways.end.iter().copied().fold(0.0, f64::max);
    let mut labels: Vec<Part> = Vec::new();
    let mut add = |part: Part, is_on: bool| {
        let at = labels.iter().position(|sum| sum.label == part.label).unwrap_or_else(|| {
            labels.push(Part { work: 0.0, on: 0.0, ..part });
            labels.len() - 1
        });
        labels[at].work += part.work;
        labels[at].on += if is_on { part.on } else { 0.0 };
    };
    let on: Vec<u32> = critical(&ways).collect();
    for (number, node) in graph.nodes.iter().enumerate() {
        graph.parts(node).for_each(|part| add(part, on.contains(&(number as u32))));
    }
    let task = on.iter().map(|&n| graph.task(&graph.nodes[n as usize])).fold(0.0, f64::max);
    let whole = |time: f64| time.round() as u64;
    let mut labels: Vec<_> = labels
        .into_iter()
        .filter(|part| part.work > 0.0)
        .map(|part| (part.label, [part.work, part.on, graph.span_without(part.label)].map(whole)))
        .collect();
    labels.sort_unstable();
    (whole(graph.work()), whole(span), whole(task), labels)
}

#[test]
fn what_is_told_is_the_same_whatever_becomes_one_piece() {
    let mut fewer = 0;
    for seed in 1..60 {
        let trace = Run::of(seed, 400);
        let all = trace.graph(0.0, &[]).unwrap();
        let expected = told(&all.graph);
        for grain in [10.0, 1_000.0, 30_000.0, 1e9] {
            let built = trace.graph(grain, &[]).unwrap();
            assert_eq!(told(&built.graph), expected, "seed {seed}, grain {grain}");
            assert_eq!(built.forks, all.forks);
            fewer += usize::from(built.graph.nodes.len() * 2 < all.graph.nodes.len());
        }
        let supposed = [WhatIf::parse("tree.rs:52=0.25").unwrap()];
        let slower = told(&trace.graph(0.0, &supposed).unwrap().graph);
        assert_ne!(slower, expected);
        assert_eq!(told(&trace.graph(5_000.0, &supposed).unwrap().graph).1, slower.1);
    }
    assert!(fewer > 60, "only {fewer} graphs became smaller");
}

#[test]
fn what_nobody_stole_costs_no_memory_however_much_it_is() {
    let mut script = Script::new();
    script.region(0, |s| s.tree(1 << 14, 30));
    let trace = script.trace();
    let (all, small) = (trace.graph(0.0, &[]).unwrap(), trace.graph(2_000.0, &[]).unwrap());
    assert!(all.graph.nodes.len() > 3 << 14);
    assert!(small.graph.nodes.len() < 3 << 10, "{}", small.graph.nodes.len());
    assert_eq!(small.longest, [30.0, 30.0]);
}
