//! What begins and ends a node: forks and what becomes of them, regions, scopes, results.

use super::locks::Holder;
use super::{Builder, Frame, Grain, OpenFork, Region};
use crate::event::{Event, Subject};
use crate::scale::arena::Raw;
use crate::scale::graph::{EdgeKind, Fork, NONE};
use crate::scale::label::Label;
use crate::scale::mix::{MOST_PARTS, Mix};

impl Builder<'_> {
    #[inline]
    pub(super) fn fork(&mut self, number: usize, event: &Event) {
        let lane = &mut self.lanes[number];
        let Some(frame) = lane.frames.last_mut() else { return };
        let (from, outer, place) = (frame.node, frame.fork, event.aux);
        let before = &mut lane.done.nodes[from];
        before.label = before.label.forks_at(place);
        let before = before.number;
        let fork = self.next_fork;
        self.next_fork += 1;
        let mark = lane.done.mark();
        let half = lane.done.add(&mut self.next, Label::In(place), frame.region, fork);
        lane.done.edge(before, EdgeKind::Next);
        self.forked.insert(event.key(), (before, fork, place, frame.region));
        let key = event.key();
        let (pure, begin) = (true, event.tsc);
        lane.forks.push(OpenFork { key, fork, from, end: half, outer, place, pure, mark, begin });
        (frame.node, frame.fork) = (half, fork);
    }

    #[inline]
    pub(super) fn exec(&mut self, number: usize, event: &Event) {
        let key = event.key();
        self.built.tasks += 1;
        if let Some(submitted) = self.submitted.remove(&key) {
            return self.begin_region(number, event, submitted);
        }
        let lane = &mut self.lanes[number];
        // The owner takes its fork back: the first half is over.
        let mut own = false;
        if let Some(node) = lane.frames.last().filter(|frame| frame.waits == 0).map(|f| f.node) {
            if let Some(open) = lane.open().filter(|open| open.key == key) {
                open.end = node;
                own = true;
            }
        }
        let (from, fork, place, region) = self.forked.remove(&key).unwrap_or_else(|| {
            self.built.orphans += 1;
            (NONE, NONE, 0, NONE)
        });
        let node = lane.done.add(&mut self.next, Label::In(place), region, fork);
        let is_fork = key.0 == Subject::Fork;
        lane.done.edge(from, if is_fork { EdgeKind::Child } else { EdgeKind::Task });
        let outer = lane.forks.len();
        lane.frames.push(Frame {
            key,
            first: node,
            node,
            from: event.tsc,
            region,
            fork,
            outer,
            waits: 0,
            own,
            scope: None,
            marks: NONE,
            known: false,
            held: false,
            place,
        });
    }

    #[inline]
    fn begin_region(&mut self, number: usize, event: &Event, (after, name): (u32, u16)) {
        let same_lane = event.subject() == Subject::Region;
        let before = match same_lane {
            true => {
                let here = self.here(number);
                self.lanes[number].number(here)
            }
            false => after,
        };
        let frame = self.lanes[number].frames.last();
        let (parent, fork) = frame.map_or((NONE, NONE), |f| (f.region, f.fork));
        self.mixes(number, fork);
        let lane = &mut self.lanes[number];
        let label =
            if name != 0 && parent != NONE { Label::Named(name) } else { Label::In(event.aux) };
        let region = self.built.regions.len() as u32;
        let node = lane.done.add(&mut self.next, label, region, fork);
        lane.done.edge(before, EdgeKind::Next);
        let (from, to) = (event.tsc, event.tsc);
        let (task, first) = (event.task, lane.number(node));
        self.built.regions.push(Region { parent, name, task, first, last: first, from, to });
        let outer = lane.forks.len();
        lane.frames.push(Frame {
            key: event.key(),
            first: node,
            node,
            from: event.tsc,
            region,
            fork,
            outer,
            waits: 0,
            own: false,
            scope: None,
            marks: region,
            known: false,
            held: false,
            place: event.aux,
        });
    }

    /// The innermost frame is over, at this time. Of its forks that nobody joined the join is not in the recording.
    #[inline]
    pub(super) fn drop_frame(&mut self, number: usize, tsc: u64) -> Option<Frame> {
        let lane = &mut self.lanes[number];
        let frame = lane.frames.pop()?;
        if frame.held {
            let holder = Holder { lane: number, beneath: lane.frames.len(), from: frame.from };
            self.left.insert(holder, lane.number(frame.node));
        }
        while lane.forks.len() > frame.outer {
            let Some(open) = lane.forks.pop() else { break };
            let from = lane.number(open.from);
            let fork = Fork { parent: open.outer, from, join: NONE, pure: open.pure };
            lane.done.over(open.fork, fork);
        }
        if frame.marks != NONE {
            let region = &mut self.built.regions[frame.marks as usize];
            (region.last, region.to) = (lane.number(frame.node), tsc);
        } else if lane.frames.is_empty() {
            self.built.ran.push((frame.from, tsc));
        }
        Some(frame)
    }

    #[inline]
    pub(super) fn executed(&mut self, number: usize, event: &Event) {
        let key = event.key();
        let Some(depth) = self.lanes[number].frames.innermost(key) else { return };
        while self.lanes[number].frames.len() > depth + 1 {
            self.drop_frame(number, event.tsc);
        }
        let Some(frame) = self.drop_frame(number, event.tsc) else { return };
        let node = self.lanes[number].number(frame.node);
        if frame.marks != NONE {
            if key.0 != Subject::Region {
                self.done.insert(key, node);
            }
            return self.after_region(number, node);
        }
        if let Some(scope) = frame.scope {
            self.ends_in(scope, number, &frame);
        }
        if frame.own {
            // Who waits for a future that it has resolved last, say, comes after it.
            if frame.known {
                self.mixes(number, frame.fork);
            }
            if frame.known || !self.vanishes(number, frame.node) {
                self.join(number, node, frame.place);
            }
        } else if key.0 == Subject::Fork {
            self.done.insert(key, node);
        }
    }

    /// After a region that ended with `node`.
    #[inline]
    fn after_region(&mut self, number: usize, node: u32) {
        let lane = &mut self.lanes[number];
        let Some(outer) = lane.frames.last_mut() else {
            // The next that is handed over from here comes after it.
            lane.outside = Some(lane.done.add(&mut self.next, Label::Unknown, NONE, NONE));
            lane.done.edge(node, EdgeKind::Next);
            return;
        };
        let label = lane.done.nodes[outer.node].label;
        outer.node = lane.done.add(&mut self.next, label, outer.region, outer.fork);
        lane.done.edge(node, EdgeKind::Next);
    }

    /// So much work has a node, with what is supposed.
    #[inline]
    pub(super) fn weight(&mut self, number: usize, at: usize) -> f64 {
        let Raw { label, region, work, ref before, .. } = self.lanes[number].done.nodes[at];
        let before = before.as_ref().map_or(0.0, |mix| mix.work);
        before + work * self.supposing.factor(label, region, &self.built.regions)
    }

    /// All of a node as a mix. The node stays without work.
    #[inline]
    pub(super) fn mixture(&mut self, number: usize, at: usize) -> Box<Mix> {
        let node = &mut self.lanes[number].done.nodes[at];
        let mut mix = node.before.take().unwrap_or_else(|| self.spare.pop().unwrap_or_default());
        let work = std::mem::take(&mut node.work);
        let work = self.supposing.work(node.label, node.region, &self.built.regions, work);
        mix.goes_on(node.label, work);
        if matches!(node.label, Label::In(_)) {
            let [first, second] = &mut self.built.longest;
            (*first, *second) = (first.max(work), second.max(work.min(*first)));
        }
        mix
    }

    /// Puts the innermost fork, of which `second` is the second half's last node, into the node before it if it is small.
    #[inline]
    fn vanishes(&mut self, number: usize, second: usize) -> bool {
        let lane = &mut self.lanes[number];
        let Some(&mut OpenFork { from, end, outer, place, pure, mark, begin, .. }) = lane.open()
        else {
            return false;
        };
        // Whatever else began since is a node that stays.
        let first = mark.nodes;
        let alone = (end, second, lane.done.nodes.len()) == (first, first + 1, first + 2);
        if !pure || !alone || self.how.grain.forks <= 0.0 {
            return false;
        }
        let parts = [from, first, second]
            .map(|at| lane.done.nodes[at].before.as_ref().map_or(0, |mix| mix.parts.len()) + 1);
        if parts.iter().sum::<usize>() > MOST_PARTS {
            return false;
        }
        let work = self.weight(number, first) + self.weight(number, second);
        let Grain { forks, steal, .. } = self.how.grain;
        let burden = (work >= 2.0 * steal).then_some(steal);
        // What is worth a hand-off is put to no more than as much, so that no piece is a large part of all.
        if work >= forks || burden.is_some() && work + self.weight(number, from) >= forks {
            return false;
        }
        let mut halves = self.mixture(number, first);
        let mut other = self.mixture(number, second);
        halves.beside(&other, burden);
        let mut whole = self.mixture(number, from);
        whole.then(&halves);
        for mix in [&mut halves, &mut other] {
            mix.clear();
        }
        self.spare.extend([halves, other]);
        let lane = &mut self.lanes[number];
        lane.forks.pop();
        lane.done.back_to(mark);
        let node = &mut lane.done.nodes[from];
        (node.before, node.label) = (Some(whole), Label::After(place));
        if let Some(watch) = &mut self.watch {
            watch(node.number, number, begin, lane.last);
        }
        if let Some(frame) = lane.frames.last_mut() {
            (frame.node, frame.fork) = (from, outer);
        }
        true
    }

    /// Both halves of the innermost fork are over, the second one with node `second`.
    #[inline]
    fn join(&mut self, number: usize, second: u32, place: u16) {
        let lane = &mut self.lanes[number];
        if lane.open().is_none() {
            return;
        }
        let (Some(open), Some(frame)) = (lane.forks.pop(), lane.frames.last_mut()) else { return };
        let place = if open.place != 0 { open.place } else { place };
        let end = lane.done.nodes[open.end].number;
        let next = lane.done.add(&mut self.next, Label::After(place), frame.region, open.outer);
        lane.done.edge(end, EdgeKind::Next);
        lane.done.edge(second, EdgeKind::Result);
        (frame.node, frame.fork) = (next, open.outer);
        let (from, join) = (lane.number(open.from), lane.number(next));
        let fork = Fork { parent: open.outer, from, join, pure: open.pure };
        lane.done.over(open.fork, fork);
    }

    #[inline]
    pub(super) fn joined(&mut self, number: usize, event: &Event) {
        let key = event.key();
        self.wait(number, -1);
        if self.lanes[number].open().is_none_or(|open| open.key != key) {
            return;
        }
        let second = self.done.remove(&key).unwrap_or(NONE);
        self.join(number, second, event.aux);
    }

    #[inline]
    pub(super) fn scope_end(&mut self, number: usize, event: &Event) {
        let ends = self.scopes.remove(&event.task).unwrap_or_default();
        self.go_on(number, &ends, event.aux);
    }

    /// A future is done, or one of several: what comes next here is after all of them if it is the last.
    #[inline]
    pub(super) fn resolve(&mut self, number: usize, event: &Event) {
        let node = self.here(number);
        let node = self.lanes[number].number(node);
        match event.aux {
            0 => _ = self.resolved.insert(event.task, node),
            1 => self.parts.entry(event.task).or_default().push(node),
            3 => {
                self.parts.remove(&event.task);
                return;
            }
            _ => {
                let parts = self.parts.remove(&event.task).unwrap_or_default();
                return self.go_on_by(number, &parts, EdgeKind::Future, 0);
            }
        }
        self.lanes[number].due = true;
    }

    #[inline]
    pub(super) fn touch_end(&mut self, number: usize, event: &Event) {
        self.wait(number, -1);
        let end = self.resolved.get(&event.task).copied();
        self.go_on_by(number, end.as_slice(), EdgeKind::Future, event.aux);
    }
}
