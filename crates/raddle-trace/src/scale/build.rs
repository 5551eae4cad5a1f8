//! From events to the graph of what was computed.
//!
//! All lanes are gone through at once, in the order of time. Each lane has a stack of *frames*, one for each task, second
//! half of a fork and region that it runs. The time between two events of a lane is work of the innermost frame, unless
//! that waits. A frame has a current node; a fork, a result, a scope's end and a future's begin the next one.

use std::collections::HashMap;

use super::graph::{EdgeKind, Fork, Graph, NONE};
use super::label::Label;
use super::processor::Processor;
use crate::event::{Event, EventKind, Subject};
use crate::trace::Trace;

type Key = (Subject, u32);

/// What a region is, by its number in nodes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Region {
    /// The region that it lies in, or `NONE`.
    pub(crate) parent: u32,
    /// The number of its name, or 0.
    pub(crate) name: u16,
    pub(crate) task: u32,
    pub(crate) first: u32,
    pub(crate) last: u32,
    /// In ticks.
    pub(crate) from: u64,
    pub(crate) to: u64,
}

/// What was found.
#[derive(Debug, Default)]
pub(crate) struct Built {
    pub(crate) graph: Graph,
    pub(crate) regions: Vec<Region>,
    /// Tasks that ran, of which nobody knows where they were forked.
    pub(crate) orphans: u64,
    /// Forks, and tasks that were spawned.
    pub(crate) forks: u64,
    /// Nanoseconds between events in which tasks ran, before anything was subtracted.
    pub(crate) wall: f64,
    /// Of these, when the thread had no processor.
    pub(crate) lost: f64,
    /// Nanoseconds spent in waits for locks.
    pub(crate) locks: f64,
}

/// Told of each stretch of work: its node, its lane, and from when to when.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(u32, usize, u64, u64);

struct OpenFork {
    key: Key,
    fork: u32,
    /// Where the first half ended.
    end: u32,
    outer: u32,
    place: u16,
}

struct Frame {
    key: Key,
    node: u32,
    region: u32,
    /// The innermost fork around.
    fork: u32,
    forks: Vec<OpenFork>,
    waits: u32,
    /// A second half that its owner runs.
    own: bool,
    scope: Option<u32>,
    /// A region marked within a task: its number.
    marks: u32,
    touched: Vec<u32>,
    place: u16,
}

#[derive(Default)]
struct Lane {
    frames: Vec<Frame>,
    last: u64,
    /// The last node of what was done here outside of tasks.
    outside: u32,
    locked: u64,
}

pub(crate) struct Builder<'a> {
    trace: &'a Trace,
    built: Built,
    lanes: Vec<Lane>,
    forked: HashMap<Key, (u32, u32, u16, u32)>,
    done: HashMap<Key, u32>,
    /// What a region comes after, and the number of its name.
    submitted: HashMap<Key, (u32, u16)>,
    scopes: HashMap<u32, Vec<u32>>,
    resolved: HashMap<u32, u32>,
    processor: Vec<Processor>,
    /// What recording an event costs, and nanoseconds in a tick.
    cost: f64,
    tick: f64,
    watch: Option<Watch<'a>>,
}

/// The graph of a trace; `cost` is what recording an event takes, in nanoseconds.
pub(crate) fn build<'a>(trace: &'a Trace, cost: f64, watch: Option<Watch<'a>>) -> Built {
    let tick = trace.tick();
    let builder = Builder {
        trace,
        built: Built::default(),
        lanes: trace.lanes.iter().map(|_| Lane { outside: NONE, ..Lane::default() }).collect(),
        forked: HashMap::new(),
        done: HashMap::new(),
        submitted: HashMap::new(),
        scopes: HashMap::new(),
        resolved: HashMap::new(),
        processor: trace.lanes.iter().map(|lane| Processor::of(lane, tick)).collect(),
        cost,
        tick,
        watch,
    };
    builder.run()
}

impl Builder<'_> {
    fn run(mut self) -> Built {
        let trace = self.trace;
        trace.in_order(|number, event| self.event(number, event));
        for number in 0..self.lanes.len() {
            while let Some(frame) = self.lanes[number].frames.pop() {
                self.close_region(&frame, trace.end.tsc);
            }
        }
        self.built.graph.finish();
        self.built
    }

    /// The time since the lane's last event is work of its innermost frame.
    fn attribute(&mut self, number: usize, tsc: u64, counts: bool) {
        let lane = &mut self.lanes[number];
        let from = lane.last;
        lane.last = tsc.max(from);
        let Some(frame) = lane.frames.last().filter(|frame| frame.waits == 0 && counts) else {
            return;
        };
        let wall = tsc.saturating_sub(from) as f64 * self.tick;
        let part = self.processor[number].part(tsc);
        let nanos = ((wall - self.cost) * part).max(0.0);
        self.built.wall += wall;
        self.built.lost += wall * (1.0 - part);
        let node = frame.node;
        let target = &mut self.built.graph.nodes[node as usize];
        target.work += nanos as f32;
        target.span += nanos as f32;
        if let Some(watch) = &mut self.watch {
            watch(node, number, from, tsc);
        }
    }

    fn event(&mut self, number: usize, event: &Event) {
        use EventKind::*;
        // Between an event and these the recorder was at work.
        let counts = !matches!(event.kind, Cpu | Save);
        self.attribute(number, event.tsc, counts);
        match (event.kind, event.subject()) {
            (Fork, subject) => {
                self.built.forks += 1;
                match subject {
                    Subject::Fork => self.fork(number, event),
                    _ => self.spawn(number, event),
                }
            }
            (Submit, _) => {
                let node = self.here(number);
                self.submitted.insert(event.key(), (node, event.aux));
                if self.lanes[number].frames.is_empty() {
                    self.go_on(number, &[], 0);
                }
            }
            (Exec, _) => self.exec(number, event),
            (Executed, _) => self.executed(number, event),
            (Join, _) => {
                if let Some(frame) = self.lanes[number].frames.last_mut() {
                    frame.waits += 1;
                    let node = frame.node;
                    if let Some(open) = frame.forks.last_mut().filter(|f| f.key == event.key()) {
                        open.end = node;
                    }
                }
            }
            (Joined, _) => self.joined(number, event),
            (Wait | Park, _) => self.wait(number, 1),
            (Waited | Unparked, _) if self.done_elsewhere(number, event) => {}
            (Waited | Unparked, subject) if subject != Subject::Region => self.wait(number, -1),
            (LockWait, _) => {
                self.lanes[number].locked = event.tsc;
                self.wait(number, 1);
            }
            (LockHad, _) => {
                let since = event.tsc.saturating_sub(self.lanes[number].locked);
                self.built.locks += since as f64 * self.tick;
                self.wait(number, -1);
            }
            (Member, _) => {
                if let Some(frame) = self.lanes[number].frames.last_mut() {
                    frame.scope = Some(event.task);
                }
            }
            (ScopeBegin, _) => _ = self.scopes.insert(event.task, Vec::new()),
            (ScopeEnd, _) => self.scope_end(number, event),
            (TouchBegin, _) => {
                self.wait(number, 1);
                if let Some(frame) = self.lanes[number].frames.last_mut() {
                    frame.touched.clear();
                }
            }
            (TouchEnd, subject) if subject != Subject::Region => self.touch_end(number, event),
            (Resolve, _) => {
                let node = self.here(number);
                self.resolved.insert(event.task, node);
                self.go_on(number, &[], 0);
            }
            (Kill, _) => _ = self.forked.remove(&event.key()),
            _ => {}
        }
    }

    /// Whether a submitter outside goes on now, after a region that a worker ran.
    fn done_elsewhere(&mut self, number: usize, event: &Event) -> bool {
        if event.subject() == Subject::Region || !self.lanes[number].frames.is_empty() {
            return false;
        }
        let Some(end) = self.done.remove(&event.key()) else { return false };
        self.go_on(number, &[end], 0);
        true
    }

    fn wait(&mut self, number: usize, by: i32) {
        if let Some(frame) = self.lanes[number].frames.last_mut() {
            frame.waits = frame.waits.saturating_add_signed(by);
        }
    }

    /// The current node of a lane: outside of tasks, one without work.
    fn here(&mut self, number: usize) -> u32 {
        let lane = &mut self.lanes[number];
        if let Some(frame) = lane.frames.last() {
            return frame.node;
        }
        if lane.outside == NONE {
            lane.outside = self.built.graph.add(Label::Unknown, NONE, NONE);
        }
        lane.outside
    }

    /// The next node of a lane: after the current one and all of `ends`. What surrounds it is no tree of forks.
    fn go_on(&mut self, number: usize, ends: &[u32], place: u16) {
        self.go_on_by(number, ends, EdgeKind::Result, place);
    }

    fn go_on_by(&mut self, number: usize, ends: &[u32], kind: EdgeKind, place: u16) {
        let node = self.here(number);
        let graph = &mut self.built.graph;
        let lane = &mut self.lanes[number];
        let (region, fork) = lane.frames.last().map_or((NONE, NONE), |f| (f.region, f.fork));
        if fork != NONE {
            graph.forks[fork as usize].pure = false;
        }
        let label = graph.nodes[node as usize].label;
        let label = if place != 0 { Label::After(place) } else { label };
        let next = graph.add(label, region, fork);
        graph.edge(node, next, EdgeKind::Next);
        for &end in ends {
            graph.edge(end, next, kind);
        }
        match lane.frames.last_mut() {
            Some(frame) => frame.node = next,
            None => lane.outside = next,
        }
    }

    fn fork(&mut self, number: usize, event: &Event) {
        let Some(frame) = self.lanes[number].frames.last_mut() else { return };
        let graph = &mut self.built.graph;
        let from = &mut graph.nodes[frame.node as usize];
        from.label = from.label.forks_at(event.aux);
        let fork = graph.forks.len() as u32;
        graph.forks.push(Fork { parent: frame.fork, from: frame.node, join: NONE, pure: true });
        let half = graph.add(Label::In(event.aux), frame.region, fork);
        graph.edge(frame.node, half, EdgeKind::Next);
        self.forked.insert(event.key(), (frame.node, fork, event.aux, frame.region));
        let (outer, place) = (frame.fork, event.aux);
        frame.forks.push(OpenFork { key: event.key(), fork, end: half, outer, place });
        (frame.node, frame.fork) = (half, fork);
    }

    fn spawn(&mut self, number: usize, event: &Event) {
        let node = self.here(number);
        let label = &mut self.built.graph.nodes[node as usize].label;
        *label = label.forks_at(event.aux);
        let region = self.lanes[number].frames.last().map_or(NONE, |frame| frame.region);
        self.forked.insert(event.key(), (node, NONE, event.aux, region));
        self.go_on(number, &[], event.aux);
    }

    fn exec(&mut self, number: usize, event: &Event) {
        let key = event.key();
        if let Some(submitted) = self.submitted.remove(&key) {
            return self.begin_region(number, event, submitted);
        }
        let graph = &mut self.built.graph;
        let lane = &mut self.lanes[number];
        // The owner takes its fork back: the first half is over.
        let mut own = false;
        if let Some(frame) = lane.frames.last_mut().filter(|frame| frame.waits == 0) {
            if let Some(open) = frame.forks.last_mut().filter(|open| open.key == key) {
                open.end = frame.node;
                own = true;
            }
        }
        let (from, fork, place, region) = self.forked.remove(&key).unwrap_or_else(|| {
            self.built.orphans += 1;
            (NONE, NONE, 0, NONE)
        });
        let node = graph.add(Label::In(place), region, fork);
        graph.edge(from, node, EdgeKind::Child);
        lane.frames.push(Frame {
            key,
            node,
            region,
            fork,
            forks: Vec::new(),
            waits: 0,
            own,
            scope: None,
            marks: NONE,
            touched: Vec::new(),
            place,
        });
    }

    fn begin_region(&mut self, number: usize, event: &Event, (after, name): (u32, u16)) {
        let same_lane = event.subject() == Subject::Region;
        let before = if same_lane { self.here(number) } else { after };
        let graph = &mut self.built.graph;
        let lane = &mut self.lanes[number];
        let (parent, fork) = lane.frames.last().map_or((NONE, NONE), |f| (f.region, f.fork));
        if fork != NONE {
            graph.forks[fork as usize].pure = false;
        }
        let label =
            if name != 0 && parent != NONE { Label::Named(name) } else { Label::In(event.aux) };
        let region = self.built.regions.len() as u32;
        let node = graph.add(label, region, fork);
        graph.edge(before, node, EdgeKind::Next);
        let (from, to) = (event.tsc, event.tsc);
        let task = event.task;
        self.built.regions.push(Region { parent, name, task, first: node, last: node, from, to });
        lane.frames.push(Frame {
            key: event.key(),
            node,
            region,
            fork,
            forks: Vec::new(),
            waits: 0,
            own: false,
            scope: None,
            marks: region,
            touched: Vec::new(),
            place: event.aux,
        });
    }

    fn close_region(&mut self, frame: &Frame, tsc: u64) {
        if frame.marks != NONE {
            let region = &mut self.built.regions[frame.marks as usize];
            (region.last, region.to) = (frame.node, tsc);
        }
    }

    fn executed(&mut self, number: usize, event: &Event) {
        let key = event.key();
        let depth = self.lanes[number].frames.iter().rposition(|frame| frame.key == key);
        let Some(depth) = depth else { return };
        while self.lanes[number].frames.len() > depth + 1 {
            if let Some(lost) = self.lanes[number].frames.pop() {
                self.close_region(&lost, event.tsc);
            }
        }
        let Some(frame) = self.lanes[number].frames.pop() else { return };
        self.close_region(&frame, event.tsc);
        if frame.marks != NONE {
            if key.0 != Subject::Region {
                self.done.insert(key, frame.node);
            }
            return self.after_region(number, &frame);
        }
        if let Some(scope) = frame.scope {
            self.scopes.entry(scope).or_default().push(frame.node);
        }
        if let Some(outer) = self.lanes[number].frames.last_mut().filter(|f| f.waits > 0) {
            // Run while it waits for a future: perhaps that future's task.
            outer.touched.push(frame.node);
        }
        if frame.own {
            self.join(number, frame.node, frame.place);
        } else if key.0 == Subject::Fork {
            self.done.insert(key, frame.node);
        }
    }

    fn after_region(&mut self, number: usize, frame: &Frame) {
        let graph = &mut self.built.graph;
        let lane = &mut self.lanes[number];
        let Some(outer) = lane.frames.last_mut() else {
            // The next that is handed over from here comes after it.
            let next = graph.add(Label::Unknown, NONE, NONE);
            graph.edge(frame.node, next, EdgeKind::Next);
            lane.outside = next;
            return;
        };
        let label = graph.nodes[outer.node as usize].label;
        let next = graph.add(label, outer.region, outer.fork);
        graph.edge(frame.node, next, EdgeKind::Next);
        outer.node = next;
    }

    /// Both halves of the innermost fork are over, the second one with node `second`.
    fn join(&mut self, number: usize, second: u32, place: u16) {
        let graph = &mut self.built.graph;
        let Some(frame) = self.lanes[number].frames.last_mut() else { return };
        let Some(open) = frame.forks.pop() else { return };
        let place = if open.place != 0 { open.place } else { place };
        let next = graph.add(Label::After(place), frame.region, open.outer);
        graph.edge(open.end, next, EdgeKind::Next);
        graph.edge(second, next, EdgeKind::Result);
        graph.forks[open.fork as usize].join = next;
        (frame.node, frame.fork) = (next, open.outer);
    }

    fn joined(&mut self, number: usize, event: &Event) {
        let key = event.key();
        self.wait(number, -1);
        let Some(frame) = self.lanes[number].frames.last_mut() else { return };
        if frame.forks.last().is_none_or(|open| open.key != key) {
            return;
        }
        let second = self.done.remove(&key).unwrap_or(NONE);
        self.join(number, second, event.aux);
    }

    fn scope_end(&mut self, number: usize, event: &Event) {
        let ends = self.scopes.remove(&event.task).unwrap_or_default();
        self.go_on(number, &ends, event.aux);
    }

    fn touch_end(&mut self, number: usize, event: &Event) {
        self.wait(number, -1);
        let mut ends: Vec<u32> = match self.lanes[number].frames.last_mut() {
            Some(frame) => std::mem::take(&mut frame.touched),
            None => Vec::new(),
        };
        ends.extend(self.resolved.get(&event.task));
        self.go_on_by(number, &ends, EdgeKind::Future, event.aux);
    }
}
