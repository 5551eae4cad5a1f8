//! Small forks that become one piece while events are read: what is told stays.

use super::*;
use crate::scale::graph::EdgeKind;
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

type Told = (u64, u64, u64, Vec<(Label, [u64; 3])>);

/// The span with hand-offs.
fn burdened(graph: &Graph) -> f64 {
    let ways = graph.longest(0.0);
    let (coarse, _) = graph.coarse(2.0 * STEAL, &ways, &ways);
    coarse.longest(STEAL).end.into_iter().fold(0.0, f64::max)
}

/// All that is told of a graph, as whole numbers: work, span, the longest task, and of each label its work, how much of it
/// the span hangs on, and the span without it.
fn told(graph: &Graph) -> Told {
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
    let (mut fewer, mut burdens) = (0, 0);
    for seed in 1..60 {
        let trace = Run::of(seed, 400);
        let all = trace.graph(below(0.0), &[]).unwrap();
        let expected = told(&all.graph);
        for grain in [10.0, 1_000.0, 30_000.0, 1e9] {
            let built = trace.graph(below(grain), &[]).unwrap();
            let mut found = told(&built.graph);
            // What little a task does after its result is not told apart.
            assert!((0..grain as u64).contains(&(found.2 - expected.2)), "{seed}: {found:?}");
            found.2 = expected.2;
            assert_eq!(found, expected, "seed {seed}, grain {grain}");
            let (with_hand_offs, all_of_them) = (burdened(&built.graph), burdened(&all.graph));
            burdens += usize::from(all_of_them > expected.1 as f64 + 2.0 * STEAL);
            assert!((with_hand_offs - all_of_them).abs() < 1.0, "seed {seed}, grain {grain}");
            assert_eq!(built.forks, all.forks);
            fewer += usize::from(built.graph.nodes.len() * 2 < all.graph.nodes.len());
        }
        let supposed = [WhatIf::parse("tree.rs:52=0.25").unwrap()];
        let slower = told(&trace.graph(below(0.0), &supposed).unwrap().graph);
        assert_ne!(slower, expected);
        assert_eq!(told(&trace.graph(below(5_000.0), &supposed).unwrap().graph).1, slower.1);
    }
    assert!(fewer > 60, "only {fewer} graphs became smaller");
    assert!(burdens > 60, "only {burdens} spans have hand-offs on them");
}

/// Tasks of scopes, some of which are small, and some of which spawn; by two lanes in turns.
fn scopes(seed: u64) -> Trace {
    let mut run = Run { owner: Script::new(), thief: Script::new(), state: seed * 2 + 1 };
    let (mut next, mut queue) = (100, Vec::new());
    run.owner.note(Submit, Subject::Region, 1, 1);
    run.owner.note(Exec, Subject::Region, 1, 1);
    for _ in 1..20 {
        // Where it lies on the stack, as a rule, so it comes back.
        let scope = 1 + run.random(2) as u32;
        run.owner.note(ScopeBegin, Subject::Any, scope, 0);
        for _ in 0..run.random(60) {
            if run.random(4) == 0 {
                run.spend();
            }
            run.owner.spend(20);
            // Or before the recording began.
            if run.random(80) > 0 {
                run.owner.note(Fork, Subject::Task, next, 3);
            }
            queue.push(next);
            next += 1;
        }
        run.owner.note(Wait, Subject::Any, 0, 0);
        while let Some(task) = queue.pop() {
            let (time, spawns) = (run.random(1 << 13) >> (run.random(3) * 4), run.random(9) == 0);
            let resolves = run.random(15) == 0;
            let is_owner = run.random(2) == 0;
            let now = run.owner.now.max(run.thief.now);
            let lane = if is_owner { &mut run.owner } else { &mut run.thief };
            lane.now = now + 30;
            lane.note(Exec, Subject::Task, task, 0);
            lane.note(Member, Subject::Any, scope, 0);
            lane.spend(time);
            if resolves {
                lane.note(Resolve, Subject::Any, task, 0);
                lane.spend(time / 3);
            }
            if spawns {
                lane.note(Fork, Subject::Task, next, 2);
                queue.push(next);
                next += 1;
                lane.spend(time / 2);
            }
            lane.note(Executed, Subject::Task, task, 0);
        }
        run.owner.now = run.owner.now.max(run.thief.now);
        run.owner.note(Waited, Subject::Any, 0, 0);
        run.owner.note(ScopeEnd, Subject::Any, scope, 3);
        run.spend();
    }
    run.owner.note(Executed, Subject::Region, 1, 0);
    let mut trace = run.owner.trace();
    trace.lanes.push(Lane::new("raddle-0", run.thief.events));
    trace
}

/// A task begins a little earlier or later than it could, in each scope, and one that spawned it as well.
#[test]
fn small_tasks_of_scopes_become_one_piece_and_the_span_stays_but_for_the_grain() {
    let mut fewer = 0;
    for seed in 1..60 {
        let trace = scopes(seed);
        let all = trace.graph(below(0.0), &[]).unwrap();
        let expected = told(&all.graph);
        for grain in [100.0, 2_000.0, 10_000.0] {
            let built = trace.graph(below(grain), &[]).unwrap();
            let found = told(&built.graph);
            assert_eq!((built.forks, built.tasks), (all.forks, all.tasks));
            let works = |told: &Told| {
                told.3.iter().map(|(_, [work, ..])| *work).sum::<u64>().abs_diff(told.0) <= 20
            };
            assert_eq!(found.0, expected.0, "seed {seed}, grain {grain}");
            assert!(works(&found) && works(&expected), "{found:?}");
            // Chains in a scope are a few tasks long.
            let off = found.1.abs_diff(expected.1);
            assert!(
                off < 19 * 4 * grain as u64,
                "seed {seed}, grain {grain}: {found:?} {expected:?}"
            );
            fewer += usize::from(built.graph.nodes.len() * 2 < all.graph.nodes.len());
        }
    }
    assert!(fewer > 60, "only {fewer} graphs became smaller");
}

/// A scope with what `forks` does, of which a thief runs these tasks for so long each, and nothing else in between.
fn stolen_scope(
    owner: &mut Script,
    thief: &mut Script,
    forks: impl FnOnce(&mut Script),
    tasks: impl IntoIterator<Item = (u32, u64)>,
) {
    owner.note(ScopeBegin, Subject::Any, 7, 0);
    forks(owner);
    thief.now = owner.now;
    for (task, time) in tasks {
        thief.note(Exec, Subject::Task, task, 0);
        thief.note(Member, Subject::Any, 7, 0);
        thief.spend(time).note(Executed, Subject::Task, task, 0);
    }
    owner.note(Wait, Subject::Any, 0, 0);
    owner.now = thief.now;
    owner.note(Waited, Subject::Any, 0, 0);
    owner.note(ScopeEnd, Subject::Any, 7, 3);
}

/// A scope's number is where it lies on the stack.
#[test]
fn small_tasks_of_two_scopes_with_one_number_stay_apart() {
    let (mut owner, mut thief) = (Script::new(), Script::new());
    owner.region(0, |s| {
        for scope in 0..3 {
            let tasks = scope * 4..scope * 4 + 4;
            let forks = |s: &mut Script| {
                s.spend(100_000);
                tasks.clone().for_each(|task| s.note(Fork, Subject::Task, task, 3));
            };
            stolen_scope(s, &mut thief, forks, tasks.clone().map(|task| (task, 300)));
        }
    });
    let mut trace = owner.trace();
    trace.lanes.push(Lane::new("raddle-0", thief.events));
    let built = trace.graph(below(2_000.0), &[]).unwrap();
    let told = told(&built.graph);
    assert_eq!((told.0, told.1), (303_600, 300_900));
}

/// Their edges would be others'.
#[test]
fn small_tasks_that_come_from_nowhere_stay_as_they_are() {
    let (mut owner, mut thief) = (Script::new(), Script::new());
    owner.region(0, |s| {
        let forks = |s: &mut Script| {
            s.spend(100_000).note(Fork, Subject::Task, 1, 3);
            s.note(Fork, Subject::Task, 4, 3);
            s.tree(200, 10);
        };
        let tasks = [(1, 150_000), (4, 100_000), (2, 300), (3, 300)];
        stolen_scope(s, &mut thief, forks, tasks);
    });
    let mut trace = owner.trace();
    trace.lanes.push(Lane::new("raddle-0", thief.events));
    let built = trace.graph(below(1_000.0), &[]).unwrap();
    assert_eq!((built.orphans, told(&built.graph).1), (2, 250_000));
}

#[test]
fn small_tasks_cost_no_memory_however_many_they_are() {
    let mut script = Script::new();
    script.region(0, |s| {
        s.note(ScopeBegin, Subject::Any, 7, 0);
        for task in 0..100_000 {
            s.spend(20).note(Fork, Subject::Task, task, 3);
        }
        for task in (0..100_000).rev() {
            s.note(Exec, Subject::Task, task, 0);
            s.note(Member, Subject::Any, 7, 0);
            s.spend(30).note(Executed, Subject::Task, task, 0);
        }
        s.note(ScopeEnd, Subject::Any, 7, 3);
    });
    let trace = script.trace();
    let built = trace.graph(below(2_000.0), &[]).unwrap();
    assert!(built.graph.nodes.len() < 4_000, "{}", built.graph.nodes.len());
    let scale = trace.scale(&[]).unwrap();
    assert_eq!(micros(&scale), (5_000, 2_000), "{}", scale.text());
    assert!(scale.predicted(4).unwrap() > 1.2, "{}", scale.text());
}

#[test]
fn what_nobody_stole_costs_no_memory_however_much_it_is() {
    let mut script = Script::new();
    script.region(0, |s| s.tree(1 << 14, 30));
    let trace = script.trace();
    let (all, small) =
        (trace.graph(below(0.0), &[]).unwrap(), trace.graph(below(2_000.0), &[]).unwrap());
    assert!(all.graph.nodes.len() > 3 << 14);
    assert!(small.graph.nodes.len() < 3 << 10, "{}", small.graph.nodes.len());
    assert_eq!(small.longest, [30.0, 30.0]);
}

/// In pieces the span covers all that it covers task by task, and little more than the pieces that it goes through.
#[test]
fn the_span_in_pieces_is_where_the_span_of_each_task_is() {
    let mut wider = 0;
    for trace in (1..60).map(|seed| Run::of(seed, 400)) {
        let (scale, fine) = trace.scale_with_span_of(usize::MAX).unwrap();
        let (same, pieces) = trace.scale_with_span_of(0).unwrap();
        assert_eq!(scale, same);
        let length = |all: &[(u64, u64)]| all.iter().map(|(from, to)| to - from).sum::<u64>();
        for (fine, pieces) in fine.iter().zip(&pieces) {
            let is_within = |&(from, to): &(u64, u64)| {
                pieces.iter().any(|piece| piece.0 <= from && to <= piece.1)
            };
            assert!(fine.iter().all(is_within), "{fine:?} in {pieces:?}");
            wider += usize::from(length(pieces) > length(fine));
        }
        let [fine, pieces] = [fine, pieces].map(|all| all.iter().map(|l| length(l)).sum::<u64>());
        assert!(pieces <= 3 * fine, "{pieces} of {fine}");
    }
    assert!(wider > 30, "only {wider} lanes have pieces");
}

#[test]
fn tasks_that_are_put_together_are_marked_together() {
    let trace = one_region(2, |s| {
        s.note(ScopeBegin, Subject::Any, 5, 0);
        (10..19).for_each(|task| s.note(Fork, Subject::Task, task, 3));
        s.note(Wait, Subject::Any, 0, 0);
        for task in 10..19 {
            s.note(Exec, Subject::Task, task, 0);
            s.note(Member, Subject::Any, 5, 0);
            s.spend(500).note(Executed, Subject::Task, task, 0);
        }
        s.note(Waited, Subject::Any, 0, 0);
        s.note(ScopeEnd, Subject::Any, 5, 0);
    });
    let marked = |most: usize| trace.scale_with_span_of(most).unwrap().1[0].clone();
    let length = |marked: Vec<(u64, u64)>| marked[0].1 - marked[0].0;
    // As many as are worth no hand-off.
    assert_eq!((length(marked(usize::MAX)), length(marked(0))), (500, 1_500));
}

/// A task goes on for a while, or ends, once it has resolved a future.
#[test]
fn a_small_fork_that_resolves_a_future_is_before_whoever_waits_for_it() {
    for after in [0, 100] {
        let trace = one_region(1, |s| {
            let resolves = |s: &mut Script| {
                s.spend(1_000).note(Resolve, Subject::Any, 77, 0);
                s.spend(after);
            };
            s.join(2, |s| _ = s.spend(500), resolves);
            s.join(
                2,
                |s| _ = s.spend(300),
                |s| {
                    s.note(TouchBegin, Subject::Any, 77, 0);
                    s.note(TouchEnd, Subject::Any, 77, 0);
                    s.spend(900);
                },
            );
        });
        let graph = |grain| trace.graph(below(grain), &[]).unwrap().graph;
        let edges =
            |graph: &Graph| graph.edges.iter().filter(|edge| edge.2 == EdgeKind::Future).count();
        assert_eq!((edges(&graph(0.0)), edges(&graph(1e9))), (1, 1), "{after}");
    }
}

#[test]
fn a_hundred_thousand_regions_keep_what_is_in_them_apart() {
    let mut script = Script::new();
    (0..120_000).for_each(|_| script.region(0, |s| s.tree(4, 10_000)));
    let scale = Trace { threads: 2, ..script.trace() }.scale(&[]).unwrap();
    assert_eq!((scale.work.as_micros(), scale.span.as_micros()), (4_800_000, 1_200_000));
    let expected = [2, 4].map(|processors| scale.predicted(processors).unwrap());
    assert!(expected[0] > 1.8 && expected[1] > 3.0, "{expected:?}");
    assert!(!matches!(scale.bound_by(), Bound::Serial | Bound::Chain), "{}", scale.verdict());
}

/// What is in pieces takes on some processors about what it takes when it is told apart.
#[test]
fn pieces_are_shared_by_those_who_have_nothing_to_do() {
    let costs = Costs { steal: STEAL, wake: 0.0, rouse: 0.0 };
    let mut ratios = Vec::new();
    for seed in 1..10 {
        let trace = one_region(2, |s| {
            for at in 0..200_u64 {
                // Alone for so long: nothing, or about as long as the tree takes.
                s.spend(500 + 40_000 * (seed % 3));
                s.tree(2 + (at * seed) % 15, 4_000 + 97 * ((at + seed) % 50));
            }
        });
        let takes = |forks: f64, processors| {
            let grain = Grain { forks, tasks: 2.0 * STEAL, steal: STEAL };
            let built = trace.graph(grain, &[]).unwrap();
            let ways = built.graph.longest(0.0);
            let divided = built.graph.longest_divided(STEAL);
            let (coarse, _) = built.graph.coarse(forks, &ways, &divided);
            Plan::new(&coarse, |_| 1.0).run(processors, costs)
        };
        for processors in [1, 2, 4, 16] {
            for grain in [20_000.0, 100_000.0, 1e9] {
                let (told_apart, pieces) =
                    (takes(2.0 * STEAL, processors), takes(grain, processors));
                ratios.push((pieces / told_apart, processors, grain));
            }
        }
    }
    ratios.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (least, most) = (ratios[0], ratios[ratios.len() - 1]);
    assert!(least.0 > 0.7 && most.0 < 1.4, "{least:?} to {most:?}");
}

/// Two pieces of each region begin at about the same time.
#[test]
fn helpers_are_shared_alike_among_pieces() {
    let mut script = Script::new();
    (0..90_000).for_each(|_| script.region(0, |s| s.tree(8, 5_000)));
    let scale = Trace { threads: 2, ..script.trace() }.scale(&[]).unwrap();
    let expected = [4, 16].map(|processors| scale.predicted(processors).unwrap());
    assert!(expected[0] > 2.8 && expected[1] > 4.0, "{expected:?}");
}

#[test]
fn a_long_serial_part_stays_one_whatever_is_put_to_it() {
    let trace = one_region(2, |s| {
        s.spend(3_000_000_000);
        s.tree(8, 3_000);
        s.tree(64, 50_000_000);
    });
    let scale = trace.scale(&[]).unwrap();
    assert_eq!(scale.bound_by(), Bound::Serial, "{}", scale.verdict());
}
