//! JSON in the format of Chrome's tracing tools, for Perfetto (<https://ui.perfetto.dev>).
//!
//! | in the trace                 | there                                                        |
//! |------------------------------|--------------------------------------------------------------|
//! | a lane                       | a thread, with its name                                       |
//! | an interval                  | a slice (`B`, `E`); slices nest, and orphans are closed         |
//! | spinning, stealing           | slices where no interval is open                              |
//! | a step from lane to lane     | a flow (`s`, `f`), if both its ends lie within slices             |
//! | a region, its phases         | async slices (`b`, `e`) of one id                              |
//! | a spawned task's life        | an async slice from its submission to its result               |
//! | a queue's length             | a counter (`C`)                                               |
//!
//! The format: "Trace Event Format", Google, 2016.

use std::fmt::Write as _;
use std::io;

use crate::event::{EventKind, Subject};
use crate::hash::NumberMap;
use crate::names::Names;
use crate::out::{Out, kept_text, written};
use crate::queues::queues;
use crate::states::{Follower, State};
use crate::trace::Trace;

impl Trace {
    /// The trace as JSON that Perfetto and `chrome://tracing` open.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Event, EventKind, Lane, Trace};
    /// let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9 });
    /// trace.lanes.push(Lane::new("worker 0", vec![Event::new(5, EventKind::Park, 0)]));
    /// assert!(trace.chrome_json().contains(r#""name":"parked""#));
    /// ```
    #[inline]
    pub fn chrome_json(&self) -> String {
        kept_text(self.len() * 96, |out| self.chrome_to(out))
    }

    /// [`Trace::chrome_json`], written in pieces as it is made: as a whole it is several times as large as the trace.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    #[inline]
    pub fn write_chrome_json(&self, to: impl io::Write) -> io::Result<()> {
        written(to, |out| self.chrome_to(out))
    }

    #[inline]
    fn chrome_to(&self, out: &mut Out<'_>) {
        let mut json = Json { out, trace: self };
        json.out.push_str("{\"displayTimeUnit\":\"ns\",\"otherData\":{\"dropped\":");
        // Whether that fails is found at the end, here and below.
        let _ = write!(json.out, "{}", self.drops());
        json.out.push_str("},\"traceEvents\":[\n");
        json.out.push_str(r#"{"ph":"M","pid":1,"name":"process_name","args":{"name":"raddle"}}"#);
        let names = Names::of(self);
        let slices: Vec<_> = (0..self.lanes.len()).map(|lane| json.lane(lane, &names)).collect();
        drop(names);
        json.flows(&slices);
        drop(slices);
        json.regions();
        json.tasks();
        for (lane, queue) in queues(self).iter().enumerate() {
            let name = quoted(&format!("queue of {}", self.lanes[lane].name));
            for &(tsc, length) in queue {
                let at = micros(self.offset(tsc));
                json.event(format_args!(
                    r#"{{"ph":"C","pid":1,"tid":{lane},"ts":{at},"name":{name},"args":{{"length":{length}}}}}"#
                ));
            }
        }
        json.out.push_str("\n]}\n");
    }
}

struct Json<'a, 'out> {
    out: &'a mut Out<'out>,
    trace: &'a Trace,
}

impl Json<'_, '_> {
    #[inline]
    fn event(&mut self, event: std::fmt::Arguments<'_>) {
        if !self.out.has_failed() {
            self.out.push_str(",\n");
            let _ = self.out.write_fmt(event);
        }
    }

    /// Writes a lane's slices, and returns from when to when the outermost ones are.
    #[inline]
    fn lane(&mut self, lane: usize, names: &Names) -> Vec<(u64, u64)> {
        let trace = self.trace;
        if trace.lanes[lane].events.is_empty() {
            return Vec::new();
        }
        let name = quoted(&trace.lanes[lane].name);
        self.event(format_args!(
            r#"{{"ph":"M","pid":1,"tid":{lane},"name":"thread_name","args":{{"name":{name}}}}}"#
        ));
        self.event(format_args!(
            r#"{{"ph":"M","pid":1,"tid":{lane},"name":"thread_sort_index","args":{{"sort_index":{lane}}}}}"#
        ));
        let (mut follower, mut named) = (Follower::new(), names.lane(lane));
        // Memory that is not written to costs nothing, and to move what has grown does.
        let mut outermost: Vec<(u64, u64)> = Vec::with_capacity(trace.lanes[lane].events.len() / 2);
        // Whether a slice stands for a state in which no interval is open.
        let mut base = State::Absent;
        let mut now = 0;
        for event in &trace.lanes[lane].events {
            // Slices nest only if time does not go back.
            now = trace.offset(event.tsc).max(now);
            let depth = follower.depth();
            let ended = follower.step(event);
            named.step(event, follower.depth());
            let next_base = match follower.state() {
                state @ (State::Spinning | State::Stealing) if follower.depth() == 0 => state,
                _ => State::Absent,
            };
            if base != State::Absent && base != next_base {
                self.end(lane, now);
                close(&mut outermost, now);
            }
            for _ in 0..ended {
                self.end(lane, now);
            }
            if ended > 0 && ended == depth {
                close(&mut outermost, now);
            }
            if next_base != State::Absent && base != next_base {
                self.begin(lane, now, next_base.name(), None);
                outermost.push((now, u64::MAX));
            }
            if follower.depth() > depth {
                if depth == 0 {
                    outermost.push((now, u64::MAX));
                }
                let is_task = event.kind == EventKind::Exec && !named.text().is_empty();
                let name = if is_task { named.text() } else { follower.state().name() };
                self.begin(lane, now, name, follower.task());
            }
            base = next_base;
        }
        // What is still going on ends with the trace.
        now = trace.offset(trace.end.tsc).max(now);
        for _ in 0..follower.depth() + usize::from(base != State::Absent) {
            self.end(lane, now);
        }
        close(&mut outermost, now);
        outermost
    }

    #[inline]
    fn begin(&mut self, lane: usize, at: u64, name: &str, task: Option<u32>) {
        let (at, name) = (micros(at), quoted(name));
        match task {
            Some(task) => self.event(format_args!(
                r#"{{"ph":"B","pid":1,"tid":{lane},"ts":{at},"name":{name},"args":{{"task":{task}}}}}"#
            )),
            None => self.event(format_args!(
                r#"{{"ph":"B","pid":1,"tid":{lane},"ts":{at},"name":{name}}}"#
            )),
        }
    }

    #[inline]
    fn end(&mut self, lane: usize, at: u64) {
        let at = micros(at);
        self.event(format_args!(r#"{{"ph":"E","pid":1,"tid":{lane},"ts":{at}}}"#));
    }

    #[inline]
    fn flows(&mut self, slices: &[Vec<(u64, u64)>]) {
        let within = |(lane, at): (usize, u64)| {
            let slices = &slices[lane];
            let before = slices.partition_point(|slice| slice.0 <= at);
            before > 0 && at <= slices[before - 1].1
        };
        let (trace, mut id) = (self.trace, 0);
        trace.each_edge(|edge| {
            let number = id;
            id += 1;
            let [from, to] = edge.ends(trace);
            if !within(from) || !within(to) {
                return;
            }
            let name = edge.kind.name();
            for (phase, (lane, at)) in [("s", from), ("f", to)] {
                let at = micros(at);
                let bind = if phase == "f" { r#","bp":"e""# } else { "" };
                self.event(format_args!(
                    r#"{{"ph":"{phase}","pid":1,"tid":{lane},"ts":{at},"id":{number},"cat":"{name}","name":"{name}"{bind}}}"#
                ));
            }
        });
    }

    #[inline]
    fn regions(&mut self) {
        for (id, region) in self.trace.regions().enumerate() {
            let name = region.name.clone().unwrap_or_else(|| format!("region {}", region.task));
            let start = region.start.as_nanos() as u64;
            self.span("region", id, &name, start, start + region.total.as_nanos() as u64);
            let mut at = start;
            for (phase, time) in region.parts() {
                let end = at + time.as_nanos() as u64;
                if end > at {
                    self.span("region", id, phase, at, end);
                }
                at = end;
            }
        }
    }

    /// An async slice; those of one category and id nest.
    #[inline]
    fn span(&mut self, category: &str, id: impl std::fmt::Display, name: &str, from: u64, to: u64) {
        let name = quoted(name);
        for (phase, at) in [("b", from), ("e", to)] {
            let at = micros(at);
            self.event(format_args!(
                r#"{{"ph":"{phase}","pid":1,"tid":0,"ts":{at},"id":"{category}-{id}","cat":"{category}","name":{name}}}"#
            ));
        }
    }

    /// Spawned tasks, from being queued until they are over. Their numbers come back: an end is that of the last one queued.
    #[inline]
    fn tasks(&mut self) {
        let mut queued: NumberMap<u32, u64> = NumberMap::default();
        let trace = self.trace;
        trace.in_order(|_, event| match (event.subject(), event.kind) {
            (Subject::Task, EventKind::Fork | EventKind::Submit) => {
                queued.insert(event.task, event.tsc);
            }
            (Subject::Task, EventKind::Executed | EventKind::Resolve | EventKind::Kill) => {
                if let Some(from) = queued.remove(&event.task) {
                    let from = trace.offset(from);
                    let to = trace.offset(event.tsc).max(from);
                    self.span("task", event.task, "task", from, to);
                }
            }
            _ => {}
        });
    }
}

#[inline]
fn close(slices: &mut [(u64, u64)], now: u64) {
    if let Some(last) = slices.last_mut().filter(|slice| slice.1 == u64::MAX) {
        last.1 = now;
    }
}

/// Nanoseconds as microseconds, exactly.
#[inline]
fn micros(nanos: u64) -> String {
    format!("{}.{:03}", nanos / 1000, nanos % 1000)
}

/// A JSON string that may also stand in a page's script.
#[inline]
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            // Neither control characters nor what ends a script, in any page's encoding.
            c if c.is_control() || matches!(c, '<' | '>' | '&' | '\u{2028}' | '\u{2029}') => {
                let _ = write!(quoted, "\\u{:04x}", c as u32);
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests;
