//! Runs whose work and span are known.

mod ends;
mod hand_offs;
mod kills;
mod locks;
mod merged;
mod processor;
mod span;
mod suppose;
mod wakes;

use super::*;
use crate::event::{Event, EventKind, EventKind::*, Subject};
use crate::trace::{ClockPair, Lane};

/// What a recording of one thread is told, and nothing else.
const ONE_THREAD: &str =
    "One thread waits for no lock: record on two or more to see what locks cost";

/// What holds less work is one piece; a hand-off takes `STEAL`.
fn below(grain: f64) -> Grain {
    Grain { forks: grain, tasks: grain, steal: STEAL }
}

const STEAL: f64 = 700.0;

/// One thread's events in the making; a tick is a nanosecond.
struct Script {
    now: u64,
    events: Vec<Event>,
    next: u32,
}

impl Script {
    fn new() -> Script {
        Script { now: 0, events: Vec::new(), next: 1 }
    }

    fn note(&mut self, kind: EventKind, subject: Subject, task: u32, aux: u16) {
        let flags = subject as u8;
        self.events.push(Event { flags, aux, ..Event::new(self.now, kind, task) });
    }

    fn spend(&mut self, time: u64) -> &mut Script {
        self.now += time;
        self
    }

    /// A region of this name (or 0), submitted at place 1.
    fn region(&mut self, name: u16, body: impl FnOnce(&mut Script)) {
        let number = self.next;
        self.next += 1;
        self.note(Submit, Subject::Region, number, name);
        self.note(Exec, Subject::Region, number, 1);
        body(self);
        self.note(Executed, Subject::Region, number, 0);
        self.note(Waited, Subject::Region, number, 0);
    }

    /// A join at this place, both halves run here. Numbers of forks come back, as their depth.
    fn join(&mut self, place: u16, a: impl FnOnce(&mut Script), b: impl FnOnce(&mut Script)) {
        let depth = self.next;
        self.next += 1;
        self.note(Fork, Subject::Fork, depth, place);
        a(self);
        self.note(Exec, Subject::Fork, depth, 0);
        self.next -= 1;
        b(self);
        self.note(Executed, Subject::Fork, depth, 0);
    }

    fn tree(&mut self, leaves: u64, leaf: u64) {
        if leaves == 1 {
            self.spend(leaf);
            return;
        }
        self.join(2, |s| s.tree(leaves / 2, leaf), |s| s.tree(leaves - leaves / 2, leaf));
    }

    fn trace(self) -> Trace {
        let mut trace = Trace::new(
            ClockPair { tsc: 0, nanos: 0 },
            ClockPair { tsc: self.now.max(1), nanos: self.now.max(1) },
        );
        trace.threads = 1;
        trace.places =
            ["src/main.rs:10:5", "src/tree.rs:52:9", "src/scope.rs:7:1"].map(str::to_owned).into();
        trace.names = vec!["alone".into()];
        trace.lanes.push(Lane::new("guest 0", self.events));
        trace
    }
}

fn scaled(body: impl FnOnce(&mut Script)) -> Scale {
    let mut script = Script::new();
    script.region(0, body);
    script.trace().scale(&[]).unwrap()
}

fn micros(scale: &Scale) -> (u128, u128) {
    (scale.work.as_micros(), scale.span.as_micros())
}

#[test]
fn a_tree_is_as_long_as_a_leaf() {
    let scale = scaled(|s| s.tree(128, 50_000));
    assert_eq!(micros(&scale), (6400, 50));
    assert_eq!(scale.bound().round(), 128.0);
    assert!((1.9..=2.0).contains(&scale.predicted(2).unwrap()), "{scale:?}");
    assert!((6.5..=8.0).contains(&scale.predicted(8).unwrap()), "{scale:?}");
    assert!(scale.predicted(1024).unwrap() < 128.0);
    for pair in scale.points.windows(2) {
        assert!(pair[0].least <= pair[0].most && pair[0].speedup <= pair[0].most);
        assert!(pair[0].speedup <= pair[1].speedup * 1.05, "{pair:?}");
    }
}

#[test]
fn a_serial_part_is_named_and_the_rest_told() {
    let scale = scaled(|s| {
        s.spend(3_000_000);
        s.tree(64, 50_000);
    });
    assert_eq!(micros(&scale), (6200, 3050));
    assert_eq!(scale.places[0].name, "before tree.rs:52");
    assert_eq!(scale.places[0].on_span.as_micros(), 3000);
    assert_eq!(scale.places[0].without.round(), 124.0);
    assert_eq!(scale.bound_by(), Bound::Serial);
    let text = scale.text();
    assert!(text.contains("at most 2.0x"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
}

#[test]
fn a_tail_bounds() {
    let scale = scaled(|s| s.join(2, |s| s.tree(64, 50_000), |s| _ = s.spend(5_000_000)));
    assert_eq!(micros(&scale), (8200, 5000));
    assert_eq!(scale.places[0].name, "tree.rs:52");
}

#[test]
fn what_follows_a_join_adds_to_it() {
    // Merges: each level of the tree is followed by work.
    let scale = scaled(|s| {
        s.join(2, |s| s.tree(4, 10_000), |s| s.tree(4, 10_000));
        s.spend(30_000);
    });
    assert_eq!(micros(&scale), (110, 40));
    assert_eq!(scale.places[0].name, "after tree.rs:52");
}

#[test]
fn a_scope_ends_with_its_longest_task() {
    let scale = scaled(|s| {
        s.note(ScopeBegin, Subject::Any, 9, 0);
        for task in 0..10 {
            s.spend(1_000);
            s.note(Fork, Subject::Task, 100 + task, 3);
        }
        s.note(Wait, Subject::Any, 0, 0);
        for task in (0..10).rev() {
            s.note(Exec, Subject::Task, 100 + task, 0);
            s.note(Member, Subject::Any, 9, 0);
            s.spend(if task == 4 { 200_000 } else { 20_000 });
            s.note(Executed, Subject::Task, 100 + task, 0);
        }
        s.note(Waited, Subject::Any, 0, 0);
        s.note(ScopeEnd, Subject::Any, 9, 3);
        s.spend(7_000);
    });
    // The fifth task begins after 5 us.
    assert_eq!(micros(&scale), (10 + 9 * 20 + 200 + 7, 5 + 200 + 7));
}

#[test]
fn a_pipeline_is_as_long_as_its_stages() {
    // Three tasks, each of which waits for the one before; they run on two lanes.
    let mut script = Script::new();
    script.region(0, |s| {
        for task in 0..3 {
            s.spend(1_000);
            s.note(Fork, Subject::Task, task, 3);
        }
        s.note(TouchBegin, Subject::Any, 70 + 2, 0);
        s.spend(91_000);
        s.note(TouchEnd, Subject::Any, 70 + 2, 0);
        s.spend(2_000);
    });
    let mut worker = Script::new();
    worker.now = 4_000;
    for task in 0..3 {
        worker.note(Exec, Subject::Task, task, 0);
        if task > 0 {
            worker.note(TouchBegin, Subject::Any, 70 + task - 1, 0);
            worker.note(TouchEnd, Subject::Any, 70 + task - 1, 0);
        }
        worker.spend(30_000);
        worker.note(Resolve, Subject::Any, 70 + task, 0);
        worker.note(Executed, Subject::Task, task, 0);
    }
    let mut trace = script.trace();
    trace.lanes.push(Lane::new("raddle-0", worker.events));
    let scale = trace.scale(&[]).unwrap();
    assert_eq!(micros(&scale), (3 + 90 + 2, 1 + 90 + 2));
}

#[test]
fn a_stolen_half_counts_as_one_that_was_not() {
    let mut owner = Script::new();
    owner.region(0, |s| {
        s.note(Fork, Subject::Fork, 5, 2);
        s.spend(10_000);
        s.note(Join, Subject::Fork, 5, 0);
        s.note(Wait, Subject::Fork, 5, 0);
        s.spend(50_000);
        s.note(Waited, Subject::Fork, 5, 0);
        s.note(Joined, Subject::Fork, 5, 2);
        s.spend(1_000);
    });
    let mut thief = Script::new();
    thief.now = 3_000;
    thief.note(Steal, Subject::Fork, 5, 0);
    thief.note(Exec, Subject::Fork, 5, 0);
    thief.spend(40_000);
    thief.note(Executed, Subject::Fork, 5, 0);
    let mut trace = owner.trace();
    trace.facts.push(("level".into(), "tasks".into()));
    trace.lanes.push(Lane::new("raddle-0", thief.events));
    let scale = trace.scale(&[]).unwrap();
    assert_eq!(micros(&scale), (51, 41));
    let (_, stretches) = trace.scale_with_span().unwrap();
    assert_eq!(stretches, [[(60_000, 61_000)], [(3_000, 43_000)]]);
}

/// As in a service: threads from outside are in a region each at once, and nobody waits.
#[test]
fn regions_side_by_side_took_the_time_that_they_cover() {
    let script = |first: u64| {
        let mut script = Script { now: first, next: 1 + first as u32, ..Script::new() };
        script.region(0, |s| _ = s.spend(1_000_000));
        script
    };
    let mut trace = script(0).trace();
    trace.threads = 2;
    let other = script(1000);
    (trace.end.tsc, trace.end.nanos) = (other.now, other.now);
    trace.lanes.push(Lane::new("guest 1", other.events));
    let scale = trace.scale(&[]).unwrap();
    let measured = scale.measured[0].speedup;
    assert!((1.99..=2.0).contains(&measured), "{measured}");
    assert_ne!(scale.bound_by(), Bound::Waits, "{}", scale.verdict());
    // One after the other, with a break, it is still one.
    let mut apart = script(0).trace();
    apart.lanes.push(Lane::new("guest 1", script(3_000_000).events));
    apart.threads = 2;
    (apart.end.tsc, apart.end.nanos) = (4_000_000, 4_000_000);
    assert_eq!(apart.scale(&[]).unwrap().measured[0].speedup.round(), 1.0);
}

#[test]
fn what_if_scales_what_is_named() {
    let mut script = Script::new();
    script.region(0, |s| {
        s.region(1, |s| _ = s.spend(1_000_000));
        s.tree(10, 100_000);
    });
    let trace = script.trace();
    let supposing = |text: &str| trace.scale(&[WhatIf::parse(text).unwrap()]);
    assert_eq!(micros(&trace.scale(&[]).unwrap()), (2000, 1100));
    for (what, expected) in [
        ("alone=0.5", (1500, 600)),
        ("tree.rs:52=2", (3000, 1200)),
        ("src/tree.rs=0", (1000, 1000)),
    ] {
        assert_eq!(micros(&supposing(what).unwrap()), expected, "{what}");
    }
    let error = supposing("sort.rs:1=0.5").unwrap_err().to_string();
    assert!(error.contains("'sort.rs:1'") && error.contains("tree.rs:52"), "{error}");
    let regions = trace.scale(&[]).unwrap().regions;
    assert_eq!(regions.len(), 2);
    assert_eq!((regions[1].name.as_str(), regions[1].span.as_micros()), ("alone", 1000));
}

#[test]
fn recordings_that_do_not_carry_it_are_refused_with_the_reason() {
    let mut script = Script::new();
    script.region(0, |s| s.tree(4, 10_000));
    let whole = script.trace();
    let refused = |change: &dyn Fn(&mut Trace)| {
        let mut trace = whole.clone();
        change(&mut trace);
        trace.scale(&[]).unwrap_err().to_string()
    };
    let lost = refused(&|trace| trace.lanes[0].dropped = 9_500_000);
    assert!(
        lost.starts_with("9500000 events were lost") && lost.contains("--trace-room"),
        "{lost}"
    );
    let level = refused(&|trace| trace.facts.push(("level".into(), "phase".into())));
    assert!(level.contains("--trace-level tasks"), "{level}");
    let empty = refused(&|trace| trace.lanes.clear());
    assert!(empty.contains("no task ran"), "{empty}");
    // The thread had a processor for so much of its 40 us.
    let having = |part: u32| {
        let mut trace = whole.clone();
        let cpu = |tsc, tenths| Event { aux: 1, ..Event::new(tsc, Cpu, tenths) };
        let events = &mut trace.lanes[0].events;
        events.insert(2, cpu(0, 7000));
        let last = events.len() - 2;
        events.insert(last, cpu(40_000, 7000 + 4 * part));
        trace.scale(&[])
    };
    for part in [20, 49] {
        let told = having(part).unwrap_err().to_string();
        assert!(told.contains(&format!("{part} %")) && told.contains("--threads 1"), "{told}");
        assert!(told.contains("RAYON_NUM_THREADS=1"), "{told}");
    }
    let rough = having(75).unwrap();
    assert!(rough.text().contains("only 75 % of their time"), "{}", rough.text());
    assert_eq!(having(95).unwrap().notes, [ONE_THREAD]);
}

#[test]
fn time_without_a_processor_is_no_work() {
    let mut script = Script::new();
    script.region(0, |s| {
        s.tree(4, 100_000);
        s.note(Cpu, Subject::Any, 0, 1);
        s.join(2, |s| _ = s.spend(100_000), |s| _ = s.spend(100_000));
        s.note(Cpu, Subject::Any, 1600, 1);
    });
    let scale = script.trace().scale(&[]).unwrap();
    assert_eq!(micros(&scale), (560, 180));
}

#[test]
fn small_forks_become_one_piece_and_the_span_stays() {
    let mut script = Script::new();
    script.region(0, |s| s.tree(4096, 100));
    let trace = script.trace();
    let built = trace.graph(below(0.0), &[]).unwrap();
    let ways = built.graph.longest(0.0);
    let (coarse, _) = built.graph.coarse(2_000.0, &ways, &ways);
    assert!(coarse.nodes.len() < built.graph.nodes.len() / 8);
    let same = |a: f64, b: f64| assert!((a - b).abs() < 1.0, "{a} {b}");
    same(coarse.work(), built.graph.work());
    let end = |ways: &Longest| ways.end.iter().copied().fold(0.0, f64::max);
    same(end(&coarse.longest(0.0)), end(&ways));
    assert_eq!(end(&ways), 100.0);
}

/// What bounds a run, and that the sentence says so and promises nothing that is not to be had.
#[track_caller]
fn told(bound: Bound, says: &[&str], trace: &Trace) {
    let scale = trace.scale(&[]).unwrap();
    let text = scale.verdict();
    assert_eq!(scale.bound_by(), bound, "{text}");
    assert!(says.iter().all(|part| text.contains(part)), "{text}");
    assert!(!text.contains(". ") && text.len() < 230, "one sentence, and short: {text}");
    for place in &scale.places {
        assert!(place.without >= scale.bound() - 1e-6, "{place:?}");
    }
}

fn one_region(threads: u32, body: impl FnOnce(&mut Script)) -> Trace {
    let mut script = Script::new();
    script.region(0, body);
    Trace { threads, ..script.trace() }
}

#[test]
fn a_verdict_says_what_bounds() {
    // As many leaves as `run knn` has: more than enough for two processors, and for 64 of them.
    let leaves = one_region(2, |s| s.tree(77, 600_000));
    told(Bound::Waits, &["1.0x was measured on 2 processors where", "2.0x"], &leaves);
    let leaves = one_region(1, |s| s.tree(77, 600_000));
    let scales = ["Processors bound this run, which scales to about 64", "2.0x is expected on 2"];
    told(Bound::Tasks, &scales, &leaves);
    told(Bound::Tasks, &["in tree.rs:52", "at most 77x"], &leaves);
    let many = one_region(1, |s| s.tree(600, 900_000));
    told(Bound::Tasks, &["scales to about 512"], &many);

    let serial = one_region(1, |s| {
        s.spend(3_000_000);
        s.tree(64, 50_000);
    });
    told(
        Bound::Serial,
        &["A serial part of 3.0 ms (98 %", "before the fork at tree.rs:52", "at most 2.0x"],
        &serial,
    );
    let nothing = one_region(1, |s| _ = s.spend(5_000));
    told(Bound::Serial, &["nothing was forked", "at most 1.0x"], &nothing);
    let one = one_region(1, |s| s.join(2, |s| s.tree(16, 50_000), |s| _ = s.spend(5_000_000)));
    told(Bound::Tasks, &["One task of 5.0 ms in tree.rs:52 bounds this run", "at most 1.2x"], &one);
    let tiny = one_region(1, |s| s.tree(4096, 20));
    told(Bound::Forks, &["for each of 4095 there is 20 ns of work"], &tiny);
    let short = one_region(1, |s| s.tree(256, 200));
    told(Bound::HandOffs, &["Hand-offs of 1.0 us", "200 ns of work", "at most 9.8x"], &short);
    let merges = one_region(1, |s| {
        for _ in 0..50 {
            s.join(2, |s| _ = s.spend(9_000), |s| _ = s.spend(9_000));
            s.join(2, |s| _ = s.spend(9_000), |s| _ = s.spend(9_000));
            s.spend(2_000);
        }
    });
    told(Bound::Tasks, &["too few or too large tasks in tree.rs:52"], &merges);
    let locked = one_region(1, |s| {
        s.tree(8, 50_000);
        s.note(LockWait, Subject::Any, 1, 0);
        s.spend(300_000);
        s.note(LockHad, Subject::Any, 1, 0);
    });
    told(Bound::Waits, &["Waits for locks bound this run: threads slept 300.0 us"], &locked);
}

#[test]
fn a_pipeline_is_a_chain() {
    let mut script = Script::new();
    script.region(0, |s| {
        for task in 0..4 {
            s.note(Fork, Subject::Task, task, 3);
        }
        for task in 0..4 {
            s.note(TouchBegin, Subject::Any, 70 + task, 0);
            s.note(Exec, Subject::Task, task, 0);
            if task > 0 {
                s.note(TouchBegin, Subject::Any, 70 + task - 1, 0);
                s.note(TouchEnd, Subject::Any, 70 + task - 1, 0);
            }
            s.spend(30_000);
            s.note(Resolve, Subject::Any, 70 + task, 0);
            s.note(Executed, Subject::Task, task, 0);
            s.note(TouchEnd, Subject::Any, 70 + task, 0);
        }
    });
    told(Bound::Chain, &["A chain of 120.0 us", "at most 1.0x"], &script.trace());
}

#[test]
fn the_least_is_what_a_greedy_schedule_reaches() {
    for body in [
        &(|s: &mut Script| s.tree(37, 70_000)) as &dyn Fn(&mut Script),
        &|s| s.join(2, |s| s.tree(20, 9_000), |s| _ = s.spend(400_000)),
        &|s| (0..9).for_each(|n| s.spend(5_000 * n).join(2, |s| s.tree(7, 20_000), |_| ())),
    ] {
        let mut script = Script::new();
        script.region(0, body);
        let trace = script.trace();
        let (scale, built) = (trace.scale(&[]).unwrap(), trace.graph(below(0.0), &[]).unwrap());
        let plan = Plan::new(&built.graph, |_| 1.0);
        let free = Costs { steal: 0.0, wake: 0.0, rouse: 0.0 };
        let (work, span) = (scale.work.as_nanos() as f64, scale.span.as_nanos() as f64);
        for point in &scale.points {
            let time = plan.run(point.processors, free);
            let greedy = work / time;
            assert!(
                point.least <= greedy + 1e-9 && greedy <= point.most + 1e-9,
                "{point:?} {greedy}"
            );
            let longest = span + (work - span) / point.processors as f64;
            assert!((point.least - work / longest).abs() < 1e-6, "{point:?}");
        }
        assert!((scale.points[0].least - 1.0).abs() < 1e-9, "one processor is never late");
    }
}

#[test]
fn the_report_fits_a_terminal_whatever_is_told() {
    let mut script = Script::new();
    script.region(0, |s| {
        for place in 1..=3 {
            s.region(1, |s| s.join(place, |s| _ = s.spend(40_000), |s| s.tree(40, 9_000)));
        }
        s.tree(700, 20_000);
        s.spend(100_000);
    });
    let mut scale = script.trace().scale(&[]).unwrap();
    let fits = |scale: &Scale| {
        let text = scale.text();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        assert!(text.lines().count() <= 23, "{} lines: {text}", text.lines().count());
        for part in [&scale.places[0].name, "●", "░", "◆", "expected", "greedy", "1024"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        text
    };
    fits(&scale);
    scale.notes.clear(); // of one thread
    let plain = fits(&scale);
    assert!(plain.contains("\nalone ") && plain.contains("took"), "{plain}");
    // The widest of everything.
    scale.notes = vec!["a word of this note ".repeat(10), "a word of that note ".repeat(7)];
    scale.supposed = vec![WhatIf { name: "a/place.rs:1000".into(), factor: 0.25 }; 9];
    scale.measured = vec![Measured { processors: 64, speedup: 33.3 }; 20];
    fits(&scale);
}
