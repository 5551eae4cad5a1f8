//! Who waits for whom when a recording ends: for programs that hang, or were killed.

use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::time::Duration;

use crate::event::{Event, EventKind, Subject};
use crate::nest::{Nest, interval};
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
    /// One finding each: first a circle of lanes that wait for each other, if there is one, or perhaps is.
    #[inline]
    pub fn lines(&self) -> &[String] {
        &self.lines
    }

    /// The lanes that wait for each other in a circle, each for the next; empty if there are none. A recording does not tell whose
    /// a future is, so waits for futures are in none.
    #[inline]
    pub fn circle(&self) -> &[usize] {
        &self.circle
    }
}

impl fmt::Display for Diagnosis {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.lines.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}

/// Why a lane waits, in its innermost interval that is a wait.
#[derive(Clone, Copy, Debug)]
struct Wait {
    since: u64,
    what: What,
    on: On,
}

/// The lane that somebody waits for.
#[derive(Clone, Copy, Debug, PartialEq)]
enum On {
    Nobody,
    /// It is known.
    Lane(usize),
    /// There is nobody else who might have it, or nobody who has had it later; but one of whom nothing is recorded may.
    Perhaps(usize),
}

impl On {
    #[inline]
    fn known(lane: Option<usize>) -> On {
        lane.map_or(On::Nobody, On::Lane)
    }
}

/// What was going on when the recording ended.
#[derive(Default)]
struct Scene {
    /// The lane of each strand, and since when: the last one that it was on.
    strands: HashMap<u16, (u64, usize)>,
    /// The lane on which a task or a fork runs.
    runs: HashMap<(Subject, u32), usize>,
    /// Where it was forked.
    forked: HashMap<(Subject, u32), u16>,
    /// Who was woken for a lock last, and did not lie down for it again: as which strand, and when. It may have got it.
    had: HashMap<u32, (u64, u16)>,
    /// The lanes that run spawned tasks: up to three, as it is asked for the only one but for whoever asks.
    busy: Vec<usize>,
    /// The lanes that run tasks of a scope.
    members: HashMap<u32, Vec<usize>>,
    /// What has begun on each lane and has not ended.
    open: Vec<Nest<Event>>,
}

#[derive(Clone, Copy, Debug)]
enum What {
    Fork(u16),
    Future,
    /// The lock, and the strand that is known to hold it.
    Lock(u32, Option<u16>),
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
    #[inline]
    pub fn doctor(&self) -> Diagnosis {
        let scene = Scene::of(self);
        let Scene { open, forked, .. } = &scene;
        let waits: Vec<Option<Wait>> = (0..open.len()).map(|lane| scene.wait_of(lane)).collect();
        let is_known = |wait: &Wait| match wait.on {
            On::Lane(lane) => Some(lane),
            _ => None,
        };
        let may_be = |wait: &Wait| match wait.on {
            On::Lane(lane) | On::Perhaps(lane) => Some(lane),
            On::Nobody => None,
        };
        let circle = circle(&waits, is_known);
        let perhaps = if circle.is_empty() { self::circle(&waits, may_be) } else { Vec::new() };
        let mut found = Diagnosis { lines: Vec::new(), circle };
        let name = |lane: usize| short_name(&self.lanes[lane].name, lane);
        for (what, circle) in [("deadlock", &found.circle), ("perhaps a deadlock", &perhaps)] {
            let Some(&first) = circle.first() else { continue };
            let next = circle.iter().skip(1).chain([&first]);
            let steps: Vec<String> = circle
                .iter()
                .zip(next)
                .map(|(&a, &b)| format!("{} waits for {}", name(a), name(b)))
                .collect();
            found.lines.push(format!("{what}: {}", steps.join(", ")));
        }
        let end = self.end.tsc;
        for (number, stack) in
            open.iter().enumerate().filter(|(number, _)| !self.lanes[*number].events.is_empty())
        {
            let text = match (&waits[number], stack.last()) {
                (Some(wait), _) => {
                    let for_whom = match wait.on {
                        On::Lane(lane) if lane == number => {
                            ", which it would have to run itself".into()
                        }
                        On::Lane(lane) => format!(", which {} has", name(lane)),
                        On::Perhaps(lane) => format!(", which perhaps {} has", name(lane)),
                        On::Nobody => String::new(),
                    };
                    let what = match wait.what {
                        What::Fork(place) => format!("the fork at {}", self.place_text(place)),
                        What::Future => "a future".into(),
                        What::Lock(lock, None) => format!("the lock {lock:#x}"),
                        What::Lock(lock, Some(strand)) => {
                            format!("the lock {lock:#x}, held by strand {strand}")
                        }
                        // Which do is not recorded everywhere.
                        What::Scope(0) => "a scope".into(),
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

    #[inline]
    fn ago(&self, since: u64, end: u64) -> String {
        time(Duration::from_nanos(self.between(since, end)))
    }

    #[inline]
    fn place_text(&self, place: u16) -> String {
        self.place(place).map_or_else(|| "an unknown place".into(), short)
    }
}

impl Scene {
    #[inline]
    fn of(trace: &Trace) -> Scene {
        let mut scene = Scene::default();
        for (number, lane) in trace.lanes.iter().enumerate() {
            let mut stack: Nest<Event> = Nest::default();
            // The scopes whose members run here, and how deep.
            let mut scopes: Vec<(usize, u32)> = Vec::new();
            let again = again(&lane.events);
            for (event, again) in lane.events.iter().zip(again) {
                use EventKind::*;
                if let Strand | LockHad = event.kind {
                    let last = scene.strands.entry(event.aux).or_insert((0, number));
                    *last = (*last).max((event.tsc, number));
                }
                match event.kind {
                    LockHad if !again => {
                        let last = scene.had.entry(event.task).or_insert((0, 0));
                        *last = (*last).max((event.tsc, event.aux));
                    }
                    Fork => _ = scene.forked.insert(event.key(), event.aux),
                    Member => scopes.push((stack.len(), event.task)),
                    _ => {}
                }
                if let Exec | Join | Wait | Park | TouchBegin | LockWait | ScopeBegin = event.kind {
                    stack.push(*event);
                    continue;
                }
                let Some(begin) = event.kind.opened_by() else { continue };
                if event.kind == Waited && event.subject() == Subject::Region {
                    continue;
                }
                if let Some(at) = stack.innermost(interval(begin, event.key())) {
                    stack.truncate(at);
                    let left = scopes.iter().rposition(|scope| scope.0 <= at);
                    scopes.truncate(left.map_or(0, |last| last + 1));
                }
            }
            for event in stack.iter().filter(|event| event.kind == EventKind::Exec) {
                scene.runs.insert(event.key(), number);
            }
            for (_, scope) in scopes {
                scene.members.entry(scope).or_default().push(number);
            }
            scene.open.push(stack);
        }
        let tasks = scene.runs.iter().filter(|(key, _)| key.0 == Subject::Task);
        let lanes: BTreeSet<usize> = tasks.map(|(_, &lane)| lane).collect();
        scene.busy = lanes.into_iter().take(3).collect();
        scene
    }

    /// What a lane waits for, innermost first; a task that runs on top of a wait is not waited for.
    #[inline]
    fn wait_of(&self, number: usize) -> Option<Wait> {
        let mut unknown = None;
        for (depth, event) in self.open[number].iter().enumerate().rev() {
            let wait = |what, on| Some(Wait { since: event.tsc, what, on });
            match event.kind {
                EventKind::Exec => return unknown,
                EventKind::LockWait => {
                    let lock = event.task;
                    let lane = |strand: u16| {
                        let last = self.strands.get(&strand).filter(|_| strand != 0);
                        last.map(|&(_, lane)| lane)
                    };
                    // It was recorded who had the lock then. Others may have had it since.
                    return match self.had.get(&lock).filter(|had| had.0 > event.tsc) {
                        Some(&(_, later)) => {
                            let on = lane(later).map_or(On::Nobody, On::Perhaps);
                            wait(What::Lock(lock, None), on)
                        }
                        None => {
                            let holder = Some(event.aux).filter(|&strand| strand != 0);
                            wait(What::Lock(lock, holder), On::known(lane(event.aux)))
                        }
                    };
                }
                EventKind::Join => {
                    let on = self.runs.get(&event.key()).copied();
                    let place = self.forked.get(&event.key()).copied().unwrap_or(0);
                    return wait(What::Fork(place), On::known(on));
                }
                EventKind::TouchBegin => {
                    let on = self.only_other(number).map_or(On::Nobody, On::Perhaps);
                    return wait(What::Future, on);
                }
                EventKind::ScopeBegin if unknown.is_some() => {
                    let members = self.members.get(&event.task).map_or(&[][..], Vec::as_slice);
                    let other = members.iter().copied().find(|&lane| lane != number);
                    return wait(What::Scope(members.len()), On::known(other));
                }
                EventKind::Wait => unknown = wait(What::Else, On::Nobody),
                EventKind::Park if depth > 0 => unknown = unknown.or(wait(What::Else, On::Nobody)),
                _ => {}
            }
        }
        unknown
    }

    /// The lane that runs a task, if there is one besides this one, and no more.
    #[inline]
    fn only_other(&self, number: usize) -> Option<usize> {
        let mut others = self.busy.iter().copied().filter(|&lane| lane != number);
        let one = others.next()?;
        others.next().is_none().then_some(one)
    }
}

/// Of each event whether its lane then lies down for the same lock: so a thread that was woken for it has not got it.
#[inline]
fn again(events: &[Event]) -> Vec<bool> {
    let mut next = None;
    let mut again = vec![false; events.len()];
    for (event, again) in events.iter().zip(&mut again).rev() {
        match event.kind {
            EventKind::LockWait => next = Some(event.task),
            EventKind::LockHad => *again = next.take() == Some(event.task),
            _ => {}
        }
    }
    again
}

#[inline]
fn short_name(name: &str, lane: usize) -> String {
    if name.is_empty() { format!("lane {lane}") } else { crate::summary::short(name, 40) }
}

/// Lanes that wait for each other, from the lowest on. Each is passed once: whoever comes to one of an earlier walk comes to its end.
#[inline]
fn circle(waits: &[Option<Wait>], on: impl Fn(&Wait) -> Option<usize>) -> Vec<usize> {
    let mut walked = vec![usize::MAX; waits.len()];
    for start in 0..waits.len() {
        let mut path = Vec::new();
        let mut at = start;
        while walked[at] == usize::MAX {
            walked[at] = start;
            path.push(at);
            match waits[at].as_ref().and_then(&on) {
                Some(next) if next != at => at = next,
                _ => break,
            }
        }
        let back = path.iter().position(|&lane| lane == at).filter(|&back| back + 1 < path.len());
        if let Some(back) = back {
            let mut circle = path.split_off(back);
            let lowest = (0..circle.len()).min_by_key(|&i| circle[i]).unwrap_or(0);
            circle.rotate_left(lowest);
            return circle;
        }
    }
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::EventKind::*;
    use crate::trace::{ClockPair, Lane};

    const SECOND: u64 = 1_000_000_000;

    fn task(tsc: u64, kind: EventKind, key: u32) -> Event {
        Event { flags: Subject::Task as u8, ..Event::new(tsc, kind, key) }
    }

    fn with_aux(tsc: u64, kind: EventKind, key: u32, aux: u16) -> Event {
        Event { aux, ..Event::new(tsc, kind, key) }
    }

    fn of(lanes: Vec<(&str, Vec<Event>)>) -> Diagnosis {
        let end = ClockPair { tsc: 9 * SECOND, nanos: 9 * SECOND };
        let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, end);
        trace.lanes.extend(lanes.into_iter().map(|(name, events)| Lane::new(name, events)));
        trace.doctor()
    }

    #[test]
    fn whose_a_future_is_is_not_known() {
        let waits = |key| vec![task(1, Exec, key), Event::new(2, TouchBegin, key + 70)];
        let found = of(vec![("a", waits(1)), ("b", waits(2))]);
        assert!(found.circle().is_empty());
        assert_eq!(found.lines()[0], "perhaps a deadlock: a waits for b, b waits for a");
        assert!(found.lines()[1].contains("a future, which perhaps b has"), "{found}");
    }

    #[test]
    fn a_lock_is_held_by_who_came_to_have_it_last() {
        // `b` had lock 7 when `c` lay down for it, and has lain down for what `c` has; since then `a` has had it.
        let a = vec![with_aux(0, Strand, 0, 1), Event::new(1, Exec, 1), Event::new(2, LockWait, 7)];
        let a = [a, vec![with_aux(5, LockHad, 7, 1)]].concat();
        let b =
            vec![with_aux(0, Strand, 0, 2), Event::new(1, Exec, 2), with_aux(6, LockWait, 9, 3)];
        let c =
            vec![with_aux(0, Strand, 0, 3), Event::new(1, Exec, 3), with_aux(3, LockWait, 7, 2)];
        let found = of(vec![("a", a), ("b", b), ("c", c)]);
        assert!(found.circle().is_empty(), "{found}");
        assert!(found.lines().iter().any(|line| line.starts_with("c has waited")), "{found}");
        assert!(found.lines()[2].ends_with("the lock 0x7, which perhaps a has"), "{found}");
        let nobody = of(vec![("a", vec![Event::new(1, Exec, 1), Event::new(2, LockWait, 7)])]);
        assert!(nobody.lines()[0].ends_with("for the lock 0x7"), "{nobody}");
        // Woken, and down again: it has not got it.
        let holder = vec![with_aux(0, Strand, 0, 1), Event::new(1, Exec, 1)];
        let waits = vec![with_aux(0, Strand, 0, 2), Event::new(1, Exec, 2)];
        let first = [waits.clone(), vec![with_aux(3, LockWait, 7, 1)]].concat();
        let naps =
            [with_aux(3, LockWait, 7, 1), with_aux(5, LockHad, 7, 3), with_aux(6, LockWait, 7, 1)];
        let other = [vec![with_aux(0, Strand, 0, 3), Event::new(1, Exec, 3)], naps.to_vec()];
        let found = of(vec![("h", holder), ("a", first), ("b", other.concat())]);
        for lane in ["a", "b"] {
            let line = found.lines().iter().find(|line| line.starts_with(lane));
            assert!(line.unwrap().ends_with("held by strand 1, which h has"), "{found}");
        }
    }

    #[test]
    fn a_strand_is_where_it_was_last_whatever_the_order_of_lanes() {
        let waits = |strand, tsc, lock, holder| {
            let strand = with_aux(tsc - 1, Strand, 0, strand);
            vec![task(tsc - 2, Exec, lock), strand, with_aux(tsc, LockWait, lock, holder)]
        };
        // The thread of the first guest was the second one before.
        let before = vec![task(1, Exec, 1), with_aux(1, Strand, 0, 1), task(5, Executed, 1)];
        let (worker, guest) = (waits(2, 15, 0x71, 1), waits(1, 20, 0x70, 2));
        let found = of(vec![("w", worker.clone()), ("g0", guest.clone()), ("g1", before.clone())]);
        assert_eq!(found.circle(), [0, 1], "{found}");
        let found = of(vec![("w", worker), ("g1", before), ("g0", guest)]);
        assert_eq!(found.circle(), [0, 2], "{found}");
    }

    #[test]
    fn of_a_scope_nothing_is_said_that_was_not_recorded() {
        let begun = vec![task(1, Exec, 1), Event::new(2, ScopeBegin, 50)];
        let waits = [begun, vec![Event::new(3, EventKind::Wait, 0)]].concat();
        let found = of(vec![("a", waits), ("b", vec![task(4, Exec, 2)])]);
        assert!(found.lines()[0].ends_with("for a scope"), "{found}");
    }

    #[test]
    fn a_scope_is_waited_for_where_its_own_tasks_run() {
        let waits = vec![
            Event::new(1, Exec, 1),
            Event::new(2, ScopeBegin, 50),
            Event::new(3, EventKind::Wait, 0),
        ];
        let member =
            |scope, key| vec![task(1, Exec, key), Event::new(2, Member, scope), task(3, Exec, 90)];
        let left = vec![task(1, Exec, 4), Event::new(2, Member, 50), task(3, Executed, 4)];
        let left = [left, vec![task(4, Exec, 5)]].concat();
        let found = of(vec![("a", waits), ("b", member(60, 2)), ("c", member(50, 3)), ("d", left)]);
        assert!(found.lines()[0].contains("a scope, 1 of whose tasks run, which c has"), "{found}");
    }

    #[test]
    fn circles_are_found_in_one_pass() {
        let waits = |on: &[usize]| -> Vec<Option<super::Wait>> {
            let wait =
                |&lane: &usize| super::Wait { since: 0, what: What::Else, on: On::Lane(lane) };
            on.iter().map(|lane| Some(wait(lane))).collect()
        };
        let on = |wait: &super::Wait| match wait.on {
            On::Lane(lane) => Some(lane),
            _ => None,
        };
        // Two that lead to a circle, and one that waits for itself.
        assert_eq!(circle(&waits(&[1, 4, 2, 0, 3, 3]), on), [0, 1, 4, 3]);
        assert!(circle(&waits(&[0, 0, 1]), on).is_empty());
        let mut chain: Vec<usize> = (1..100_001).collect();
        chain[99_999] = 99_998;
        assert_eq!(circle(&waits(&chain), on), [99_998, 99_999]);
        chain[99_999] = 99_999;
        assert!(circle(&waits(&chain), on).is_empty());
    }
}
