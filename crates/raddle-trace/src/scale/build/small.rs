//! Spawned tasks that are too small to be told apart: of millions of them a node each would be larger than the recording.
//!
//! What is worth no hand-off is one piece, as of forks: what a task does between two spawns, and tasks of one scope
//! that a thread has run one after the other. So a task may begin earlier than it did, or later, by less than the grain.

use super::{Builder, Frame, nanos};
use crate::event::{Event, EventKind};
use crate::scale::graph::NONE;

/// What comes after a spawn: little is done until the next one there, as a rule.
#[derive(Clone, Copy, Debug)]
pub(super) struct Spawned {
    /// The node that has begun then, and the one before.
    node: u32,
    before: u32,
    place: u16,
}

/// Small tasks of a scope in one node, the last that its lane has.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bundle {
    scope: u32,
    /// Its place on the lane, and among what the scope ends with.
    at: usize,
    among: usize,
    /// How many nodes it comes after.
    after: usize,
    /// When the first of them began, and the last ended.
    begin: u64,
    end: u64,
}

/// A node comes after so many at most, each of which is passed for each task that is put there.
const MOST_AFTER: usize = 32;

impl Builder<'_> {
    #[inline]
    pub(super) fn spawn(&mut self, number: usize, event: &Event) {
        let at = self.here(number);
        let place = event.aux;
        let region = self.lanes[number].frames.last().map_or(NONE, |frame| frame.region);
        let node = self.lanes[number].number(at);
        let last = self.lanes[number].spawned.filter(|s| (s.node, s.place) == (node, place));
        if let Some(last) = last.filter(|_| self.weight(number, at) < self.how.grain.tasks) {
            self.forked.insert(event.key(), (last.before, NONE, place, region));
            return;
        }
        let raw = &mut self.lanes[number].done.nodes[at];
        raw.label = raw.label.forks_at(place);
        self.forked.insert(event.key(), (node, NONE, place, region));
        self.go_on(number, &[], place);
        let next = self.here(number);
        let lane = &mut self.lanes[number];
        lane.spawned = Some(Spawned { node: lane.number(next), before: node, place });
    }

    /// A future's result was there: what its lane does next does not come before whoever wants that. The end of a task is
    /// so little that it is left where it is.
    #[inline]
    pub(super) fn begin_due(&mut self, number: usize, event: &Event) {
        let lane = &mut self.lanes[number];
        lane.due = false;
        let time = nanos(lane.last, event.tsc, self.tick);
        if event.kind != EventKind::Executed || time >= self.how.grain.tasks {
            self.go_on(number, &[], 0);
        }
    }

    /// A task of a scope is over: its end is one of the scope's.
    #[inline]
    pub(super) fn ends_in(&mut self, scope: u32, number: usize, frame: &Frame) {
        let (at, grain) = (frame.node, self.how.grain.tasks);
        let done = &self.lanes[number].done;
        let is_last = at + 1 == done.nodes.len() && done.is_after_one();
        let is_alone = is_last && at == frame.first && !frame.known;
        let small = is_alone && self.weight(number, at) < grain;
        let before = self.lanes[number].bundle.take();
        let before = before.filter(|b| small && (b.scope, b.at + 1) == (scope, at));
        // What lies between would be marked as well.
        let before = before.filter(|b| nanos(b.end, frame.from, self.tick) < grain);
        // Numbers of scopes come back.
        let before = before.filter(|b| {
            let ends = self.scopes.get(&scope);
            ends.and_then(|ends| ends.get(b.among)) == Some(&self.lanes[number].number(b.at))
        });
        if let Some(bundle) = before.filter(|b| self.fits(number, b)) {
            let mut all = self.mixture(number, bundle.at);
            let mut one = self.mixture(number, at);
            // The edges to the piece say what the hand-off of each costs.
            all.beside(&one, None);
            one.clear();
            self.spare.push(one);
            let done = &mut self.lanes[number].done;
            let after = done.put_together(bundle.after);
            done.nodes[bundle.at].before = Some(all);
            let node = done.nodes[bundle.at].number;
            let end = self.lanes[number].last;
            if let Some(watch) = &mut self.watch {
                watch(node, number, bundle.begin, end);
            }
            self.lanes[number].bundle = Some(Bundle { after, end, ..bundle });
            let ends = self.scopes.entry(scope).or_default();
            return ends[bundle.among] = node;
        }
        let node = self.lanes[number].number(at);
        let ends = self.scopes.entry(scope).or_default();
        ends.push(node);
        let (begin, end) = (frame.from, self.lanes[number].last);
        let bundle = Bundle { scope, at, among: ends.len() - 1, after: 1, begin, end };
        self.lanes[number].bundle = small.then_some(bundle);
    }

    /// Whether the lane's last node may be put to the bundle before it.
    #[inline]
    fn fits(&mut self, number: usize, bundle: &Bundle) -> bool {
        let nodes = &self.lanes[number].done.nodes;
        let (all, one) = (&nodes[bundle.at], &nodes[bundle.at + 1]);
        let alike = (all.label, all.region, all.fork) == (one.label, one.region, one.fork);
        alike
            && bundle.after < MOST_AFTER
            && self.weight(number, bundle.at) + self.weight(number, bundle.at + 1)
                < self.how.grain.tasks
    }
}
