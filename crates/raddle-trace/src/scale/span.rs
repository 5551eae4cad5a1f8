//! Where what the span hangs on was done: for pictures.

use super::build::{Built, Grain, How, build};
use super::graph::Longest;
use super::{Refusal, Scale, costs, critical};
use crate::trace::Trace;

/// Of so many events each task is by itself. A longer recording is told of in the pieces that its graph has: all of one, if the span
/// goes through it.
const MOST_EVENTS: usize = 300_000;
/// What is closer than such a part of the recording can't be told apart on the widest screen.
const WIDEST: u64 = 20_000;

/// Of each lane from when to when, in ticks and in the order of time.
pub(crate) type Stretches = Vec<Vec<(u64, u64)>>;

impl Trace {
    /// As [`Trace::scale`], with where the span was.
    #[inline]
    pub(crate) fn scale_with_span(&self) -> Result<(Scale, Stretches), Refusal> {
        self.scale_with_span_of(MOST_EVENTS)
    }

    #[inline]
    pub(super) fn scale_with_span_of(&self, most: usize) -> Result<(Scale, Stretches), Refusal> {
        self.carries_a_graph()?;
        let hand_offs = costs::of_hand_offs(self);
        let mut grain = costs::grain(self, hand_offs.costs.steal, &[]);
        let mut found = Vec::new();
        let built = self.graph(grain, &[])?;
        let is_long = self.len() > most;
        let scale = self.scale_of(built, &hand_offs, &[], |built, ways| {
            if is_long {
                found = on_span(built, ways);
            }
        })?;
        if !is_long {
            grain = Grain::default();
            let built = self.graph(grain, &[])?;
            found = on_span(&built, &built.graph.longest(0.0));
        }
        Ok((scale, self.stretches(grain, &found)))
    }

    /// When there is work of those nodes that are there in a graph with that grain.
    #[inline]
    fn stretches(&self, grain: Grain, is_on: &[bool]) -> Stretches {
        let close = self.end.tsc.saturating_sub(self.start.tsc) / WIDEST;
        let mut stretches: Stretches = vec![Vec::new(); self.lanes.len()];
        let mut watch = |node: u32, lane: usize, from: u64, to: u64| {
            if to <= from || !is_on.get(node as usize).is_some_and(|&is_on| is_on) {
                return;
            }
            // What is told once more may begin before what was told last.
            let (mut from, mut to) = (from, to);
            let stretches = &mut stretches[lane];
            while let Some(&last) = stretches.last().filter(|l| from <= l.1.saturating_add(close)) {
                (from, to) = (from.min(last.0), to.max(last.1));
                stretches.pop();
            }
            stretches.push((from, to));
        };
        build(self, How { grain, ..How::of(self, &[]) }, Some(&mut watch));
        stretches
    }
}

/// Of each node, by its number, whether the span goes through it.
#[inline]
fn on_span(built: &Built, ways: &Longest) -> Vec<bool> {
    let mut is_on = Vec::new();
    for place in critical(ways) {
        let number = built.places.number(place) as usize;
        if is_on.len() <= number {
            is_on.resize(number + 1, false);
        }
        is_on[number] = true;
    }
    is_on
}
