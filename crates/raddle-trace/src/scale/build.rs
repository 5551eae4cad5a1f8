//! From events to the graph of what was computed.
//!
//! All lanes are gone through at once, in the order of time. Each lane has a stack of *frames*, one for each task, second
//! half of a fork and region that it runs. The time between two events of a lane is work of the innermost frame, unless
//! that waits. A frame has a current node; a fork, a result, a scope's end and a future's begin the next one.

mod locks;
mod small;
mod tasks;

use self::locks::{Holder, Strands};
use self::small::{Bundle, Spawned};
use super::arena::{self, Done, Mark, Places, Raw};
use super::graph::{EdgeKind, Graph, NONE};
use super::label::{Label, WhatIf};
use super::mix::Mix;
use super::processor::Processor;
use super::suppose::Supposing;
use super::{LONGEST, Refusal, costs};
use crate::event::{Event, EventKind, Subject};
use crate::file::DAMAGE;
use crate::hash::NumberMap;
use crate::nest::{Keyed, Nest};
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
    /// Where its nodes are by their numbers.
    pub(crate) places: Places,
    pub(crate) grain: Grain,
    pub(crate) regions: Vec<Region>,
    /// From when to when lanes ran tasks beneath which there was nothing, in ticks: what was spawned from outside is in no region.
    pub(crate) ran: Vec<(u64, u64)>,
    /// Tasks, forks and regions that ran.
    pub(crate) tasks: u64,
    /// Of these, those of which nobody knows where they were forked.
    pub(crate) orphans: u64,
    /// Lanes that still ran something at the end.
    pub(crate) unfinished: usize,
    /// Forks, and tasks that were spawned.
    pub(crate) forks: u64,
    /// Nanoseconds between events in which tasks ran, before anything was subtracted.
    pub(crate) wall: f64,
    /// Of these, when the thread had no processor.
    pub(crate) lost: f64,
    /// Nanoseconds spent in waits for locks.
    pub(crate) locks: f64,
    /// Nanoseconds of work as it was recorded, whatever is supposed.
    pub(crate) work: f64,
    /// The two longest tasks without forks that were put together with others.
    pub(crate) longest: [f64; 2],
    /// What is supposed of something that there is not.
    pub(crate) unknown: Option<Refusal>,
}

/// Told of each stretch of work: its node, its lane, and from when to when. Of a fork that vanishes into a node, and of tasks that
/// are put together, all is told once more, as work of the node that stays.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(u32, usize, u64, u64);

struct OpenFork {
    key: Key,
    fork: u32,
    /// Before it.
    from: usize,
    /// Where the first half ended.
    end: usize,
    outer: u32,
    place: u16,
    /// As [`Fork::pure`].
    pure: bool,
    /// Where its first half begins.
    mark: Mark,
    /// When.
    begin: u64,
}

struct Frame {
    key: Key,
    /// The places of its first node on its lane, and of its current one.
    first: usize,
    node: usize,
    /// When it began.
    from: u64,
    region: u32,
    /// The innermost fork around.
    fork: u32,
    /// How many forks were open on its lane when it began.
    outer: usize,
    waits: u32,
    /// A second half that its owner runs.
    own: bool,
    scope: Option<u32>,
    /// A region marked within a task: its number.
    marks: u32,
    /// Others come after its current node, or may.
    known: bool,
    /// Somebody waits, or has waited, for a lock of its.
    held: bool,
    place: u16,
}

impl Keyed for Frame {
    type Key = Key;
    #[inline]
    fn key(&self) -> Key {
        self.key
    }
}

#[derive(Default)]
struct Lane {
    frames: Nest<Frame>,
    /// Of all frames, the innermost last.
    forks: Vec<OpenFork>,
    done: Done,
    last: u64,
    /// The last node of what was done here outside of tasks.
    outside: Option<usize>,
    /// Since when a task sleeps for a lock here.
    locked: Option<u64>,
    /// What comes next begins a node, unless the frame ends.
    due: bool,
    spawned: Option<Spawned>,
    bundle: Option<Bundle>,
}

impl Lane {
    /// The innermost fork of the innermost frame.
    #[inline]
    fn open(&mut self) -> Option<&mut OpenFork> {
        let outer = self.frames.last()?.outer;
        self.forks.get_mut(outer..)?.last_mut()
    }

    /// The number of a node by its place.
    #[inline]
    fn number(&self, at: usize) -> u32 {
        self.done.nodes[at].number
    }
}

/// What holds less work becomes one piece, if nobody stole it: nanoseconds. Nothing does, if all are 0.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Grain {
    pub(crate) forks: f64,
    pub(crate) tasks: f64,
    /// What a hand-off takes: a fork of twice as much work is worth one.
    pub(crate) steal: f64,
}

/// How a graph is built.
#[derive(Clone, Copy)]
pub(crate) struct How<'a> {
    /// What recording an event takes, in nanoseconds.
    pub(crate) cost: f64,
    pub(crate) grain: Grain,
    pub(crate) supposed: &'a [WhatIf],
}

impl<'a> How<'a> {
    #[inline]
    pub(crate) fn of(trace: &Trace, supposed: &'a [WhatIf]) -> How<'a> {
        How { cost: costs::of_an_event(trace), grain: Grain::default(), supposed }
    }
}

pub(crate) struct Builder<'a> {
    trace: &'a Trace,
    built: Built,
    lanes: Vec<Lane>,
    forked: NumberMap<Key, (u32, u32, u16, u32)>,
    done: NumberMap<Key, u32>,
    /// What a region comes after, and the number of its name.
    submitted: NumberMap<Key, (u32, u16)>,
    scopes: NumberMap<u32, Vec<u32>>,
    resolved: NumberMap<u32, u32>,
    /// Of several futures that are all wanted, with what those that are done ended.
    parts: NumberMap<u32, Vec<u32>>,
    strands: Strands,
    /// Who had each lock last, as far as is known: of those that somebody has. Nobody has a condition, say.
    had: NumberMap<u32, Option<Holder>>,
    /// The last nodes of those that are over.
    left: NumberMap<Holder, u32>,
    processor: Vec<Processor>,
    how: How<'a>,
    /// Nanoseconds in a tick.
    tick: f64,
    watch: Option<Watch<'a>>,
    supposing: Supposing<'a>,
    /// The next node's number, and the next fork's.
    next: u32,
    next_fork: u32,
    /// Forks that are not pure, and that other lanes have begun.
    mixed: Vec<u32>,
    /// To be used again.
    #[expect(clippy::vec_box, reason = "the boxes come from nodes, and go back there")]
    spare: Vec<Box<Mix>>,
}

/// The graph of a trace. What watches has nodes' numbers.
#[inline]
pub(crate) fn build<'a>(trace: &'a Trace, how: How<'a>, watch: Option<Watch<'a>>) -> Built {
    let tick = trace.tick();
    let builder = Builder {
        trace,
        built: Built::default(),
        lanes: trace.lanes.iter().map(|_| Lane::default()).collect(),
        forked: NumberMap::default(),
        done: NumberMap::default(),
        submitted: NumberMap::default(),
        scopes: NumberMap::default(),
        resolved: NumberMap::default(),
        parts: NumberMap::default(),
        strands: locks::strands(trace),
        had: NumberMap::default(),
        left: NumberMap::default(),
        processor: trace.lanes.iter().map(|lane| Processor::of(lane, tick)).collect(),
        how,
        tick,
        watch,
        supposing: Supposing::new(trace, how.supposed),
        next: 0,
        next_fork: 0,
        mixed: Vec::new(),
        spare: Vec::new(),
    };
    builder.run()
}

/// The time from one stamp to another, in nanoseconds. What a file's clock makes longer than any is as long as there is: sums of
/// that are numbers, too.
#[inline]
fn nanos(from: u64, to: u64, tick: f64) -> f64 {
    (to.saturating_sub(from) as f64 * tick).min(LONGEST)
}

impl Builder<'_> {
    #[inline]
    fn run(mut self) -> Built {
        let trace = self.trace;
        trace.in_order(|number, event| self.event(number, event));
        // How long a lane went on that is cut, nobody knows.
        let is_whole = trace.fact(DAMAGE).is_none();
        for number in 0..self.lanes.len() {
            if is_whole {
                self.goes_on(number, trace.end.tsc);
            }
            while !self.lanes[number].frames.is_empty() {
                self.drop_frame(number, trace.end.tsc);
            }
        }
        let Builder { mut built, lanes, mut supposing, mixed, how, .. } = self;
        let mut regions = std::mem::take(&mut built.regions);
        let settle = |raw: &mut Raw| {
            raw.work = supposing.work(raw.label, raw.region, &regions, raw.work);
            if let Some(mix) = &mut raw.before {
                mix.goes_on(raw.label, raw.work);
            }
        };
        let lanes = lanes.into_iter().map(|lane| lane.done).collect();
        let (graph, places) = arena::finish(lanes, &mixed, settle);
        for region in &mut regions {
            // A region's first and last nodes stay, whatever vanishes.
            (region.first, region.last) = (places.of(region.first), places.of(region.last));
        }
        let grain = how.grain;
        Built { graph, places, grain, regions, unknown: supposing.check(), ..built }
    }

    /// The time since the lane's last event is work of its innermost frame. Between an event and some others the
    /// recorder was at work: of that time counts how much of it had no processor. Recording the event has taken `cost` of it.
    #[inline]
    fn attribute(&mut self, number: usize, event: &Event, cost: f64) {
        if self.lanes[number].due {
            self.begin_due(number, event);
        }
        let lane = &mut self.lanes[number];
        let from = lane.last;
        let tsc = event.tsc;
        lane.last = tsc.max(from);
        let works = |frame: &&Frame| frame.waits == 0 && event.kind != EventKind::Save;
        let Some(frame) = lane.frames.last().filter(works) else {
            return;
        };
        let wall = nanos(from, tsc, self.tick);
        let part = self.processor[number].part(event);
        self.built.wall += wall;
        self.built.lost += wall * (1.0 - part);
        if event.kind == EventKind::Cpu {
            return;
        }
        let nanos = ((wall - cost) * part).max(0.0);
        self.built.work += nanos;
        let node = &mut lane.done.nodes[frame.node];
        node.work += nanos;
        if let Some(watch) = &mut self.watch {
            watch(node.number, number, from, tsc);
        }
    }

    /// What a lane still runs at the end of the recording has run until then, as far as anybody knows: the system was not asked how
    /// much of that it had a processor, so this says nothing about the rest.
    #[inline]
    fn goes_on(&mut self, number: usize, end: u64) {
        if std::mem::take(&mut self.lanes[number].due) {
            self.go_on(number, &[], 0);
        }
        let lane = &mut self.lanes[number];
        let Some(frame) = lane.frames.last() else { return };
        self.built.unfinished += 1;
        if frame.waits > 0 {
            return;
        }
        let nanos = nanos(lane.last, end, self.tick);
        self.built.work += nanos;
        let node = &mut lane.done.nodes[frame.node];
        node.work += nanos;
        if let Some(watch) = &mut self.watch {
            watch(node.number, number, lane.last, end);
        }
    }

    #[inline]
    fn event(&mut self, number: usize, event: &Event) {
        use EventKind::*;
        self.attribute(number, event, self.how.cost);
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
                let node = self.lanes[number].number(node);
                self.submitted.insert(event.key(), (node, event.aux));
                match self.lanes[number].frames.last() {
                    // What is submitted begins after it, here or elsewhere.
                    Some(frame) => self.mixes(number, frame.fork),
                    None => self.go_on(number, &[], 0),
                }
            }
            (Exec, _) => self.exec(number, event),
            (Executed, _) => self.executed(number, event),
            (Join, _) => {
                let lane = &mut self.lanes[number];
                if let Some(frame) = lane.frames.last_mut() {
                    frame.waits += 1;
                    let node = frame.node;
                    if let Some(open) = lane.open().filter(|open| open.key == event.key()) {
                        open.end = node;
                    }
                }
            }
            (Joined, _) => self.joined(number, event),
            (Wait | Park, _) => self.wait(number, 1),
            (Waited | Unparked, _) if self.done_elsewhere(number, event) => {}
            (Waited | Unparked, subject) if subject != Subject::Region => self.wait(number, -1),
            (LockWait, _) if !self.lanes[number].frames.is_empty() => self.lock_wait(number, event),
            (LockHad, _) => self.lock_had(number, event),
            (Member, _) => {
                if let Some(frame) = self.lanes[number].frames.last_mut() {
                    frame.scope = Some(event.task);
                }
            }
            (ScopeBegin, _) => _ = self.scopes.insert(event.task, Vec::new()),
            (ScopeEnd, _) => self.scope_end(number, event),
            (TouchBegin, _) => self.wait(number, 1),
            (TouchEnd, subject) if subject != Subject::Region => self.touch_end(number, event),
            (Resolve, _) => self.resolve(number, event),
            (Kill, _) => _ = self.forked.remove(&event.key()),
            _ => {}
        }
    }

    /// Whether a submitter outside goes on now, after a region that a worker ran.
    #[inline]
    fn done_elsewhere(&mut self, number: usize, event: &Event) -> bool {
        if event.subject() == Subject::Region || !self.lanes[number].frames.is_empty() {
            return false;
        }
        let Some(end) = self.done.remove(&event.key()) else { return false };
        self.go_on(number, &[end], 0);
        true
    }

    #[inline]
    fn wait(&mut self, number: usize, by: i32) {
        if let Some(frame) = self.lanes[number].frames.last_mut() {
            frame.waits = frame.waits.saturating_add_signed(by);
        }
    }

    /// The place of a lane's current node: outside of tasks, one without work.
    #[inline]
    fn here(&mut self, number: usize) -> usize {
        let lane = &mut self.lanes[number];
        if let Some(frame) = lane.frames.last_mut() {
            frame.known = true;
            return frame.node;
        }
        let add = || lane.done.add(&mut self.next, Label::Unknown, NONE, NONE);
        *lane.outside.get_or_insert_with(add)
    }

    /// A fork that a lane is in has to do with what is outside of it.
    #[inline]
    fn mixes(&mut self, number: usize, fork: u32) {
        if fork == NONE {
            return;
        }
        match self.lanes[number].forks.last_mut() {
            Some(open) if open.fork == fork => open.pure = false,
            _ if self.mixed.last() == Some(&fork) => {}
            // Another lane's, of which this one has the second half.
            _ => self.mixed.push(fork),
        }
    }

    /// The next node of a lane: after the current one and all of `ends`. What surrounds it is no tree of forks.
    #[inline]
    fn go_on(&mut self, number: usize, ends: &[u32], place: u16) {
        self.go_on_by(number, ends, EdgeKind::Result, place);
    }

    #[inline]
    fn go_on_by(&mut self, number: usize, ends: &[u32], kind: EdgeKind, place: u16) {
        let node = self.here(number);
        let frame = self.lanes[number].frames.last();
        let (region, fork) = frame.map_or((NONE, NONE), |f| (f.region, f.fork));
        self.mixes(number, fork);
        let lane = &mut self.lanes[number];
        let Raw { number: before, label, .. } = lane.done.nodes[node];
        let label = if place != 0 { Label::After(place) } else { label };
        let next = lane.done.add(&mut self.next, label, region, fork);
        lane.done.edge(before, EdgeKind::Next);
        for &end in ends {
            lane.done.edge(end, kind);
        }
        match lane.frames.last_mut() {
            Some(frame) => frame.node = next,
            None => lane.outside = Some(next),
        }
    }
}
