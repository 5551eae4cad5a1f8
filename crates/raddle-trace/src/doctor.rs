//! Who waits for whom when a recording ends: for programs that hang, or were killed.

use std::collections::HashMap;
use std::fmt;
use std::time::Duration;

use crate::event::{Event, EventKind, Subject};
use crate::scale::short;
use crate::states::State;
use crate::summary::time;
use crate::trace::Trace;

/// What each lane was doing at the end, and for what it waited.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Diagnosis {
    lines: Vec<String>,
    circle: Vec<usize>,
}

impl Diagnosis {
    /// One finding each: first a circle of lanes that wait for each other, if there is one.
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The lanes that wait for each other in a circle, each for the next; empty if there are none.
    pub fn circle(&self) -> &[usize] {
        &self.circle
    }
}

impl fmt::Display for Diagnosis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Why a lane waits, in its innermost interval that is a wait.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: u64,
    what: What,
    /// The lane that it waits for, if that is known.
    on: Option<usize>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Fork(u16),
    Future,
    Lock(u32, u16),
    Scope(usize),
    Else,
}

impl Trace {
    /// What each thread was doing when the recording ended, who waits for whom, and whether that is a circle. At level
    /// [`Tasks`](crate::TraceLevel::Tasks) it also tells which places in the source.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Event, EventKind::*, Lane, Trace};
    ///
    /// let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 9, nanos: 9_000_000_000 });
    /// for (name, me, other, lock) in [("a", 1, 2, 70), ("b", 2, 1, 71)] {
    ///     let strand = Event { aux: me, ..Event::new(0, Strand, 0) };
    ///     let waits = Event { aux: other, ..Event::new(3, LockWait, lock) };
    ///     trace.lanes.push(Lane::new(name, vec![strand, Event::new(1, Exec, 1), waits]));
    /// }
    /// let found = trace.doctor();
    /// assert_eq!(found.circle(), [0, 1]);
    /// assert!(found.lines()[0].starts_with("deadlock: a waits for b, b waits for a"));
    /// ```
    pub fn doctor(&self) -> Diagnosis {
        let mut strands: HashMap<u16, usize> = HashMap::new();
        let mut runs: HashMap<(Subject, u32), (usize, u64)> = HashMap::new();
        let mut forked: HashMap<(Subject, u32), u16> = HashMap::new();
        let mut resolved: HashMap<u32, u64> = HashMap::new();
        let mut open: Vec<Vec<Event>> = Vec::new();
        for (number, lane) in self.lanes.iter().enumerate() {
            let mut stack: Vec<Event> = Vec::new();
            for event in &lane.events {
                use EventKind::*;
                match event.kind {
                    Strand | LockHad => _ = strands.insert(event.aux, number),
                    Fork => _ = forked.insert(event.key(), event.aux),
                    Resolve => _ = resolved.insert(event.task, event.tsc),
                    _ => {}
                }
                match event.kind {
                    Exec | Join | Wait | Park | TouchBegin | LockWait | ScopeBegin => {
                        stack.push(*event)
                    }
                    Waited if event.subject() == Subject::Region => {}
                    kind => {
                        let begin = kind.opened_by();
                        let same = |o: &Event| {
                            Some(o.kind) == begin
                                && (o.key() == event.key() || matches!(o.kind, Park | LockWait))
                        };
                        if let Some(at) = stack.iter().rposition(same) {
                            stack.truncate(at);
                        }
                    }
                }
            }
            for event in stack.iter().filter(|event| event.kind == EventKind::Exec) {
                runs.insert(event.key(), (number, event.tsc));
            }
            open.push(stack);
        }
        let waits: Vec<Option<Wait>> = open
            .iter()
            .enumerate()
            .map(|(number, stack)| self.wait_of(number, stack, &strands, &runs, &forked))
            .collect();
        let circle = circle(&waits);
        let mut found = Diagnosis { lines: Vec::new(), circle };
        let name = |lane: usize| short_name(&self.lanes[lane].name, lane);
        if let Some(&first) = found.circle.first() {
            let next = found.circle.iter().skip(1).chain([&first]);
            let steps: Vec<String> = found
                .circle
                .iter()
                .zip(next)
                .map(|(&a, &b)| format!("{} waits for {}", name(a), name(b)))
                .collect();
            found.lines.push(format!("deadlock: {}", steps.join(", ")));
        }
        let end = self.end.tsc;
        for (number, stack) in
            open.iter().enumerate().filter(|(number, _)| !self.lanes[*number].events.is_empty())
        {
            let text = match (&waits[number], stack.last()) {
                (Some(wait), _) => {
                    let for_whom = match wait.on {
                        Some(lane) if lane == number => {
                            ", which it would have to run itself".into()
                        }
                        Some(lane) => format!(", which {} has", name(lane)),
                        None => String::new(),
                    };
                    let what = match wait.what {
                        What::Fork(place) => format!("the fork at {}", self.place_text(place)),
                        What::Future => "a future".into(),
                        What::Lock(lock, strand) => {
                            format!("the lock {lock:#x}, held by strand {strand}")
                        }
                        What::Scope(tasks) => format!("a scope, {tasks} of whose tasks run"),
                        What::Else => "something that is not recorded".into(),
                    };
                    format!("has waited for {} for {what}{for_whom}", self.ago(wait.since, end))
                }
                (None, Some(event)) if event.kind == EventKind::Exec => {
                    let place = forked.get(&event.key()).copied().unwrap_or(0);
                    let place = if place == 0 {
                        String::new()
                    } else {
                        format!(" of {}", self.place_text(place))
                    };
                    format!("has run a task{place} for {}", self.ago(event.tsc, end))
                }
                (None, Some(event)) if event.kind == EventKind::Park => {
                    format!("has slept for {}", self.ago(event.tsc, end))
                }
                _ => {
                    let last = self.lanes[number].segments().last();
                    let state = last.map_or(State::Absent, |segment| segment.state);
                    match state {
                        State::Absent => continue,
                        state => format!("is {}", state.name()),
                    }
                }
            };
            found.lines.push(format!("{} {text}", name(number)));
        }
        if found.lines.is_empty() {
            found.lines.push("nothing was going on when the recording ended".into());
        }
        found
    }

    fn ago(&self, since: u64, end: u64) -> String {
        time(Duration::from_nanos(self.between(since, end)))
    }

    fn place_text(&self, place: u16) -> String {
        self.place(place).map_or_else(|| "an unknown place".into(), short)
    }

    fn wait_of(
        &self,
        number: usize,
        stack: &[Event],
        strands: &HashMap<u16, usize>,
        runs: &HashMap<(Subject, u32), (usize, u64)>,
        forked: &HashMap<(Subject, u32), u16>,
    ) -> Option<Wait> {
        // Innermost first; a task that runs on top of a wait is not waited for.
        let mut unknown = None;
        for (depth, event) in stack.iter().enumerate().rev() {
            let wait = |what, on| Some(Wait { since: event.tsc, what, on });
            match event.kind {
                EventKind::Exec => return unknown,
                EventKind::LockWait => {
                    let holder = strands.get(&event.aux).copied();
                    return wait(What::Lock(event.task, event.aux), holder);
                }
                EventKind::Join => {
                    let on = runs.get(&event.key()).map(|run| run.0);
                    let place = forked.get(&event.key()).copied().unwrap_or(0);
                    return wait(What::Fork(place), on);
                }
                EventKind::TouchBegin => return wait(What::Future, self.only_other(number, runs)),
                EventKind::ScopeBegin if unknown.is_some() => {
                    let tasks = runs.keys().filter(|key| key.0 == Subject::Task).count();
                    return wait(What::Scope(tasks), self.only_other(number, runs));
                }
                EventKind::Wait => unknown = wait(What::Else, None),
                EventKind::Park if depth > 0 => unknown = unknown.or(wait(What::Else, None)),
                _ => {}
            }
        }
        unknown
    }

    /// The lane that runs a task, if there is one besides this one, and no more.
    fn only_other(
        &self,
        number: usize,
        runs: &HashMap<(Subject, u32), (usize, u64)>,
    ) -> Option<usize> {
        let mut lanes: Vec<usize> = runs
            .iter()
            .filter(|(key, run)| key.0 == Subject::Task && run.0 != number)
            .map(|(_, run)| run.0)
            .collect();
        lanes.sort_unstable();
        lanes.dedup();
        if let [one] = lanes[..] { Some(one) } else { None }
    }
}

fn short_name(name: &str, lane: usize) -> String {
    if name.is_empty() { format!("lane {lane}") } else { crate::summary::short(name, 40) }
}

/// Lanes that wait for each other, from the lowest on.
fn circle(waits: &[Option<Wait>]) -> Vec<usize> {
    for start in 0..waits.len() {
        let mut path = vec![start];
        while let Some(next) = path.last().and_then(|&at| waits.get(at)?.as_ref()?.on) {
            if next == start && path.len() > 1 {
                return path;
            }
            if path.contains(&next) {
                break;
            }
            path.push(next);
        }
    }
    Vec::new()
}
