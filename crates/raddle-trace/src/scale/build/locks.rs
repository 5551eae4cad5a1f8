//! Waits for locks: what the one who had it did until then comes before what the one who got it does.
//!
//! Known of a lock is who had it when somebody lay down for it, and who got it after a wait. Where nobody waited nothing was
//! recorded, so a recording by one thread knows nothing of locks.

use std::collections::HashMap;

use super::Builder;
use crate::event::{Event, EventKind};
use crate::scale::graph::EdgeKind;
use crate::trace::Trace;

/// As which lane a strand was seen, from when on.
pub(super) type Strands = HashMap<u16, Vec<(u64, usize)>>;

/// One who has a lock, or had it: a frame, by its lane, how many are beneath it, and when it began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Holder {
    pub(super) lane: usize,
    pub(super) beneath: usize,
    pub(super) from: u64,
}

/// All that is known of strands: a holder may be seen only later.
#[inline]
pub(super) fn strands(trace: &Trace) -> Strands {
    let mut strands = Strands::new();
    for (number, lane) in trace.lanes.iter().enumerate() {
        let names = |event: &&Event| matches!(event.kind, EventKind::Strand | EventKind::LockHad);
        for event in lane.events.iter().filter(names).filter(|event| event.aux != 0) {
            strands.entry(event.aux).or_default().push((event.tsc, number));
        }
    }
    strands.values_mut().for_each(|seen| seen.sort_unstable());
    strands
}

impl Builder<'_> {
    #[inline]
    pub(super) fn lock_wait(&mut self, number: usize, event: &Event) {
        self.lanes[number].locked = Some(event.tsc);
        self.wait(number, 1);
        if event.aux == 0 {
            return;
        }
        self.had.entry(event.task).or_default();
        let Some(seen) = self.strands.get(&event.aux) else { return };
        let next = seen.partition_point(|seen| seen.0 <= event.tsc);
        let Some(&(_, lane)) = seen.get(next.saturating_sub(1)) else { return };
        if lane != number {
            self.has(lane, event.task);
        }
    }

    /// The innermost frame of a lane has a lock.
    #[inline]
    fn has(&mut self, lane: usize, lock: u32) {
        let frames = &mut self.lanes[lane].frames;
        let Some(frame) = frames.last_mut() else { return };
        (frame.held, frame.known) = (true, true);
        let (from, fork) = (frame.from, frame.fork);
        self.had.insert(lock, Some(Holder { lane, beneath: frames.len() - 1, from }));
        // So it has to do with others, and stays.
        self.mixes(lane, fork);
    }

    #[inline]
    pub(super) fn lock_had(&mut self, number: usize, event: &Event) {
        // One that began before the recording, or outside of tasks, is none of theirs.
        let Some(since) = self.lanes[number].locked.take() else { return };
        self.built.locks += super::nanos(since, event.tsc, self.tick);
        self.wait(number, -1);
        let Some(&had) = self.had.get(&event.task) else { return };
        let before = had.filter(|holder| holder.lane != number);
        if let Some(end) = before.and_then(|holder| self.until_now(holder, event.tsc)) {
            self.go_on_by(number, &[end], EdgeKind::Lock, 0);
        }
        self.has(number, event.task);
    }

    /// The node with which a frame's work until now ends.
    #[inline]
    fn until_now(&mut self, holder: Holder, tsc: u64) -> Option<u32> {
        let Holder { lane, beneath, from } = holder;
        let frames = &self.lanes[lane].frames;
        let Some(frame) = frames.get(beneath).filter(|frame| frame.from == from) else {
            return self.left.get(&holder).copied();
        };
        let (node, innermost) = (frame.node, beneath + 1 == frames.len());
        if innermost {
            self.attribute(lane, &Event::new(tsc, EventKind::LockHad, 0), 0.0);
            self.go_on(lane, &[], 0);
        }
        Some(self.lanes[lane].number(node))
    }
}
