//! Perfetto's own format: protobuf, <https://perfetto.dev/docs/reference/synthetic-track-event>.
//!
//! A `Trace` is a sequence of packets. Those that describe a track say who its thread is; the others begin or end a slice
//! on a track, or set a counter. The few fields that are needed are written by hand: each is a tag (its number and type),
//! and a varint or so many bytes.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;

use crate::event::EventKind;
use crate::names::Names;
use crate::out::{Out, kept, written};
use crate::queues::queues;
use crate::states::{Follower, State};
use crate::trace::Trace;

/// Field types.
const VARINT: u64 = 0;
const FIXED: u64 = 1;
const BYTES: u64 = 2;
/// `TrackEvent.Type`.
const BEGIN: u64 = 1;
const END: u64 = 2;
const INSTANT: u64 = 3;
const COUNTER: u64 = 4;
/// The process.
const PROCESS: u64 = 1;

#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    #[inline]
    fn raw(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    #[inline]
    fn int(mut self, field: u64, value: u64) -> Message {
        self.raw(field << 3 | VARINT);
        self.raw(value);
        self
    }

    #[inline]
    fn fixed(mut self, field: u64, value: u64) -> Message {
        self.raw(field << 3 | FIXED);
        self.0.extend(value.to_le_bytes());
        self
    }

    #[inline]
    fn bytes(mut self, field: u64, bytes: &[u8]) -> Message {
        self.raw(field << 3 | BYTES);
        self.raw(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
        self
    }

    #[inline]
    fn message(self, field: u64, inner: &Message) -> Message {
        self.bytes(field, &inner.0)
    }
}

struct Writer<'a, 'out> {
    out: &'a mut Out<'out>,
    trace: &'a Trace,
    first: bool,
}

impl Writer<'_, '_> {
    /// `TracePacket`, field 1 of `Trace`.
    #[inline]
    fn packet(&mut self, packet: Message) {
        let mut tagged = Message::default();
        tagged.raw(1 << 3 | BYTES);
        tagged.raw(packet.0.len() as u64);
        self.out.bytes(&tagged.0);
        self.out.bytes(&packet.0);
    }

    #[inline]
    fn describe(&mut self, track: Message) {
        self.packet(Message::default().message(60, &track));
    }

    #[inline]
    fn event(&mut self, at: u64, event: &Message) {
        if self.out.has_failed() {
            return;
        }
        let packet = Message::default().int(8, at).int(10, 1);
        // The first packet of a sequence clears what is known of it.
        let packet = if std::mem::take(&mut self.first) { packet.int(13, 1) } else { packet };
        self.packet(packet.message(11, event));
    }

    #[inline]
    fn begin(&mut self, track: u64, at: u64, name: &str, category: &str) {
        let event = Message::default().int(9, BEGIN).int(11, track);
        self.event(at, &event.bytes(22, category.as_bytes()).bytes(23, name.as_bytes()));
    }

    /// An arrow: from an instant on one track to one on another. An instant belongs to the slices that are open when it is.
    #[inline]
    fn flow(&mut self, number: u64, from: (u64, u64), to: (u64, u64), name: &str) {
        for (field, (track, at)) in [(47, from), (48, to)] {
            let event = Message::default().int(9, INSTANT).int(11, track);
            self.event(at, &event.bytes(23, name.as_bytes()).fixed(field, number));
        }
    }

    #[inline]
    fn end(&mut self, track: u64, at: u64) {
        self.event(at, &Message::default().int(9, END).int(11, track));
    }

    /// A lane's slices, as in `chrome`.
    #[inline]
    fn lane(&mut self, lane: usize, names: &Names) {
        let (trace, track) = (self.trace, lane as u64 + 10);
        let name = trace.lanes[lane].name.as_bytes();
        let thread = Message::default().int(1, 1).int(2, track).bytes(5, name);
        self.describe(Message::default().int(1, track).int(5, PROCESS).message(4, &thread));
        let mut named = names.lane(lane);
        let mut follower = Follower::new();
        let (mut base, mut now) = (State::Absent, 0);
        for event in &trace.lanes[lane].events {
            now = trace.offset(event.tsc).max(now);
            let depth = follower.depth();
            let ended = follower.step(event);
            named.step(event, follower.depth());
            let next = match follower.state() {
                state @ (State::Spinning | State::Stealing) if follower.depth() == 0 => state,
                _ => State::Absent,
            };
            if base != State::Absent && base != next {
                self.end(track, now);
            }
            (0..ended).for_each(|_| self.end(track, now));
            if next != State::Absent && base != next {
                self.begin(track, now, next.name(), "worker");
            }
            if follower.depth() > depth {
                let state = follower.state();
                let is_task = event.kind == EventKind::Exec && !named.text().is_empty();
                let name = if is_task { named.text() } else { state.name() };
                let category = if is_task { "task" } else { "worker" };
                self.begin(track, now, name, category);
            }
            base = next;
        }
        now = trace.offset(trace.end.tsc).max(now);
        (0..follower.depth() + usize::from(base != State::Absent))
            .for_each(|_| self.end(track, now));
    }
}

/// Rows that each show one thing at a time.
#[derive(Default)]
struct Rows {
    count: u64,
    /// Until when, and which.
    taken: BinaryHeap<Reverse<(u64, u64)>>,
    free: BinaryHeap<Reverse<u64>>,
}

impl Rows {
    /// The lowest row that is free at `start`, which is not before the last one's; from then on it is taken.
    #[inline]
    fn take(&mut self, start: u64, end: u64) -> u64 {
        while self.taken.peek().is_some_and(|taken| taken.0.0 <= start) {
            let over = self.taken.pop().map(|taken| Reverse(taken.0.1));
            self.free.extend(over);
        }
        let row = self.free.pop().map_or(self.count, |row| row.0);
        self.count = self.count.max(row + 1);
        self.taken.push(Reverse((end, row)));
        row
    }
}

impl Trace {
    /// The trace in Perfetto's own format, which <https://ui.perfetto.dev> opens: the slices of each worker, named by
    /// places in the source; regions with their phases; the lengths of queues.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Event, EventKind, Lane, Trace};
    /// let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9 });
    /// trace.lanes.push(Lane::new("worker 0", vec![Event::new(5, EventKind::Park, 0)]));
    /// let bytes = trace.perfetto();
    /// assert!(bytes.windows(8).any(|text| text == b"worker 0"));
    /// ```
    #[inline]
    pub fn perfetto(&self) -> Vec<u8> {
        kept(Vec::new(), |out| self.perfetto_to(out))
    }

    /// [`Trace::perfetto`], written in pieces as it is made: as a whole it is larger than the trace.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    #[inline]
    pub fn write_perfetto(&self, to: impl io::Write) -> io::Result<()> {
        written(to, |out| self.perfetto_to(out))
    }

    #[inline]
    fn perfetto_to(&self, out: &mut Out<'_>) {
        let mut writer = Writer { out, trace: self, first: true };
        let process = Message::default().int(1, 1).bytes(6, b"raddle");
        writer.describe(Message::default().int(1, PROCESS).message(3, &process));
        let regions = 5;
        let named = Message::default().int(1, regions).int(5, PROCESS).bytes(2, b"regions");
        writer.describe(named);
        let names = Names::of(self);
        for lane in 0..self.lanes.len() {
            if !self.lanes[lane].events.is_empty() {
                writer.lane(lane, &names);
            }
        }
        drop(names);
        let mut number = 0;
        self.each_edge(|edge| {
            number += 1;
            let [from, to] = edge.ends(self).map(|(lane, at)| (lane as u64 + 10, at));
            writer.flow(number, from, to, edge.kind.name());
        });
        for (lane, queue) in queues(self).iter().enumerate().filter(|(_, queue)| !queue.is_empty())
        {
            let track = (self.lanes.len() + lane) as u64 + 10;
            let name = format!("queue of {}", self.lanes[lane].name);
            let counter = Message::default().int(1, track).int(5, PROCESS);
            writer.describe(counter.bytes(2, name.as_bytes()).message(8, &Message::default()));
            for &(tsc, length) in queue {
                let event = Message::default().int(9, COUNTER).int(11, track);
                writer.event(self.offset(tsc), &event.int(30, length.into()));
            }
        }
        // Regions that overlap get tracks of their own.
        let first = 2 * self.lanes.len() as u64 + 10;
        let mut rows = Rows::default();
        for region in self.regions() {
            let start = region.start.as_nanos() as u64;
            let end = start + region.total.as_nanos() as u64;
            let known = rows.count;
            let track = first + rows.take(start, end.max(start.saturating_add(1)));
            if rows.count > known {
                let named = Message::default().int(1, track).int(5, regions).bytes(2, b"region");
                writer.describe(named);
            }
            let name = region.name.clone().unwrap_or_else(|| format!("region {}", region.task));
            writer.begin(track, start, &name, "region");
            let mut at = start;
            for (phase, time) in region.parts() {
                let next = at + time.as_nanos() as u64;
                if next > at {
                    writer.begin(track, at, phase, "phase");
                    writer.end(track, next);
                }
                at = next;
            }
            writer.end(track, end);
        }
    }
}

#[cfg(test)]
mod tests;
