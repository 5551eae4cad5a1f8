//! The regions of a trace, one after the other, in little memory: a trace may consist of millions of them and nothing else.
//!
//! Events name regions by numbers, and numbers may come back: an event belongs to the last region of its number that was submitted
//! before it, or to the first one if the clocks have it that none was.

use crate::activity::Activity;
use crate::event::{Event, EventKind};
use crate::phases::{Found, Phases};
use crate::trace::Trace;

/// A moment of which nothing was recorded.
const NEVER: u64 = u64::MAX;

/// All regions together have room for so many numbers of lanes, and for some with each event; then each has a few.
const ROOM: usize = 1 << 21;
const EACH: usize = 4;
/// So many lanes each region has room for in any case: those of a large machine.
const ORDINARY: usize = 128;

/// What was recorded of a region besides its submission: when it was first executed, when it was resolved or else executed for the
/// last time, and when its submitter went on.
type Moments = [u64; 3];

/// The six parts of a region's time, in nanoseconds: seven digits, as many as are shown.
pub(crate) type Parts = [f32; 6];

/// The regions of a trace, in the order of submission.
#[derive(Debug)]
pub(crate) struct Regions<'a> {
    trace: &'a Trace,
    /// Of each region the lane that submitted it, and the place of the event there.
    submits: Vec<(u32, u32)>,
    moments: Vec<Moments>,
    activity: Activity,
    width: usize,
    room: usize,
    next: usize,
    scratch: Vec<u64>,
}

impl Trace {
    /// The phases of each region, in the order of submission: [`phases`](Trace::phases), but one after the other, where so many
    /// regions at once would fill the memory.
    #[inline]
    pub fn regions(&self) -> impl ExactSizeIterator<Item = Phases> + '_ {
        Regions::of(self)
    }
}

impl<'a> Regions<'a> {
    #[inline]
    pub(crate) fn of(trace: &'a Trace) -> Regions<'a> {
        let submits = trace.submits();
        let moments = trace.moments(&submits);
        let activity = Activity::of_regions(&trace.lanes, submits.len());
        let width = trace.width_by(|| activity.width());
        let room = ROOM + EACH * trace.len() + ORDINARY * submits.len();
        Regions { trace, submits, moments, activity, width, room, next: 0, scratch: Vec::new() }
    }

    /// How many threads could have worked at once.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        self.width
    }

    /// Keeps something of the region that came last. Its moments are of no more use, and all together take much memory.
    #[inline]
    pub(crate) fn keep(&mut self, parts: Parts) {
        let bits = parts.map(|part| u64::from(part.to_bits()));
        self.moments[self.next - 1] = std::array::from_fn(|i| bits[2 * i] << 32 | bits[2 * i + 1]);
    }

    /// What was kept of each region.
    #[inline]
    pub(crate) fn kept(&self) -> impl Iterator<Item = Parts> + Clone + '_ {
        let half = |moment: u64, shift: u32| f32::from_bits((moment >> shift) as u32);
        let parts = move |kept: &Moments| {
            std::array::from_fn(|i| half(kept[i / 2], if i % 2 == 0 { 32 } else { 0 }))
        };
        self.moments[..self.next].iter().map(parts)
    }
}

impl Iterator for Regions<'_> {
    type Item = Phases;

    #[inline]
    fn next(&mut self) -> Option<Phases> {
        let &(lane, at) = self.submits.get(self.next)?;
        let [first_exec, done, resumed] = self.moments[self.next];
        self.next += 1;
        let known = |tsc| (tsc != NEVER).then_some(tsc);
        let found = Found {
            lane: lane as usize,
            submit: self.trace.lanes[lane as usize].events[at as usize],
            first_exec: known(first_exec),
            done: known(done),
            resumed: known(resumed),
        };
        let phases =
            self.trace.region(found, &self.activity, self.width, self.room, &mut self.scratch);
        self.room = self.room.saturating_sub(phases.levels.len());
        Some(phases)
    }

    #[inline]
    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.submits.len() - self.next;
        (left, Some(left))
    }
}

impl ExactSizeIterator for Regions<'_> {}

impl Trace {
    /// Where regions are submitted: the lane, and the place of the event there.
    #[inline]
    fn submits(&self) -> Vec<(u32, u32)> {
        let is_submit = |event: &&Event| event.kind == EventKind::Submit;
        let events = self.lanes.iter().flat_map(|lane| &lane.events);
        let mut submits = Vec::with_capacity(events.filter(is_submit).count());
        for (lane, number) in self.lanes.iter().zip(0..=u32::MAX) {
            let of = lane.events.iter().zip(0..=u32::MAX).filter(|(event, _)| is_submit(event));
            submits.extend(of.map(|(_, at)| (number, at)));
        }
        submits.sort_unstable_by_key(|&place| (self.at(place).tsc, place));
        submits
    }

    #[inline]
    fn at(&self, (lane, at): (u32, u32)) -> &Event {
        &self.lanes[lane as usize].events[at as usize]
    }

    #[inline]
    fn moments(&self, submits: &[(u32, u32)]) -> Vec<Moments> {
        let mut moments = vec![[NEVER; 3]; submits.len()];
        let mut resolved = vec![false; submits.len()];
        let numbers = Numbers::of(self, submits);
        for (lane, number) in self.lanes.iter().zip(0..=u32::MAX) {
            for event in &lane.events {
                use EventKind::{Exec, Executed, Joined, Resolve, TouchEnd, Waited};
                let same = match event.kind {
                    Exec | Executed | Resolve => numbers.of_event(event),
                    Joined | TouchEnd | Waited => numbers.of_waiter(event, number, submits),
                    _ => continue,
                };
                let before = |&r: &u64| self.at(submits[region(r)]).tsc <= event.tsc;
                // As a rule there is one.
                let found = match same {
                    [] => continue,
                    [one] => region(*one),
                    _ => region(same[same.partition_point(before).saturating_sub(1)]),
                };
                let tsc = event.tsc.min(NEVER - 1);
                let [first_exec, done, resumed] = &mut moments[found];
                match event.kind {
                    Exec => *first_exec = tsc.min(*first_exec),
                    Resolve if resolved[found] => *done = tsc.min(*done),
                    Resolve => (*done, resolved[found]) = (tsc, true),
                    Executed if resolved[found] => {}
                    Executed if *done == NEVER => *done = tsc,
                    Executed => *done = tsc.max(*done),
                    _ if event.tsc >= self.at(submits[found]).tsc => *resumed = tsc.min(*resumed),
                    _ => {}
                }
            }
        }
        moments
    }
}

/// The regions of each number, in the order of submission.
struct Numbers {
    by_subject: [Table; 4],
    /// The same, but those of one lane before those of the next, if several lanes have the same numbers.
    by_lane: Option<[Table; 4]>,
}

impl Numbers {
    #[inline]
    fn of(trace: &Trace, submits: &[(u32, u32)]) -> Numbers {
        let mut counts = [0; 4];
        submits.iter().for_each(|&place| counts[trace.at(place).subject() as usize] += 1);
        let mut entries = counts.map(Vec::with_capacity);
        for (&place, number) in submits.iter().zip(0..=u32::MAX) {
            let submit = trace.at(place);
            entries[submit.subject() as usize].push(entry(submit.task, number));
        }
        let lane = |entry: u64| submits[region(entry)].0;
        let mut mixed = false;
        let by_subject = entries.map(|mut entries| {
            entries.sort_unstable();
            let differ =
                |pair: &[u64]| pair[0] >> 32 == pair[1] >> 32 && lane(pair[0]) != lane(pair[1]);
            mixed |= entries.windows(2).any(differ);
            Table::of(entries)
        });
        let by_lane = mixed.then(|| {
            by_subject.each_ref().map(|table| {
                let mut entries = table.entries.clone();
                entries.sort_unstable_by_key(|&entry| (entry >> 32, lane(entry), entry));
                Table::of(entries)
            })
        });
        Numbers { by_subject, by_lane }
    }

    #[inline]
    fn of_event(&self, event: &Event) -> &[u64] {
        self.by_subject[event.subject() as usize].run(event.task)
    }

    /// Those that a lane submitted itself.
    #[inline]
    fn of_waiter(&self, event: &Event, lane: u32, submits: &[(u32, u32)]) -> &[u64] {
        let tables = self.by_lane.as_ref().unwrap_or(&self.by_subject);
        let run = tables[event.subject() as usize].run(event.task);
        let from = run.partition_point(|&entry| submits[region(entry)].0 < lane);
        let run = &run[from..];
        &run[..run.partition_point(|&entry| submits[region(entry)].0 == lane)]
    }
}

/// A region by its number, and by its place among all.
#[inline]
fn entry(number: u32, region: u32) -> u64 {
    u64::from(number) << 32 | u64::from(region)
}

#[inline]
fn region(entry: u64) -> usize {
    entry as u32 as usize
}

/// Entries in ascending order, and where to look for a number: as a rule numbers are counted, and lie close together.
struct Table {
    entries: Vec<u64>,
    least: u32,
    /// Numbers that differ in so many low bits alone share a place in `starts`.
    shift: u32,
    /// From where on the entries of each such group are, and where the last ends.
    starts: Vec<u32>,
}

impl Table {
    #[inline]
    fn of(entries: Vec<u64>) -> Table {
        let number = |entry: &u64| (entry >> 32) as u32;
        let (Some(least), Some(most)) = (entries.first().map(number), entries.last().map(number))
        else {
            return Table { entries, least: 0, shift: 0, starts: Vec::new() };
        };
        let mut shift = 0;
        while ((most - least) >> shift) as usize > entries.len() {
            shift += 1;
        }
        let groups = ((most - least) >> shift) as usize + 1;
        let mut starts = Vec::with_capacity(groups + 1);
        for (entry, at) in entries.iter().zip(0..=u32::MAX) {
            let group = ((number(entry) - least) >> shift) as usize;
            while starts.len() <= group {
                starts.push(at);
            }
        }
        starts.push(entries.len() as u32);
        Table { entries, least, shift, starts }
    }

    /// All entries of a number.
    #[inline]
    fn run(&self, number: u32) -> &[u64] {
        let Some(offset) = number.checked_sub(self.least) else { return &[] };
        let group = (offset >> self.shift) as usize;
        let (Some(&from), Some(&to)) = (self.starts.get(group), self.starts.get(group + 1)) else {
            return &[];
        };
        let group = &self.entries[from as usize..to as usize];
        let group = &group[group.partition_point(|entry| entry >> 32 < u64::from(number))..];
        &group[..group.partition_point(|entry| entry >> 32 == u64::from(number))]
    }
}

impl std::fmt::Debug for Table {
    #[inline]
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Table of {}", self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_found_however_they_lie() {
        let far = |n: u32| n.wrapping_mul(2_654_435_761);
        for of in [|n| n, |n| n / 3, |_| 7, |n| u32::MAX - n, far as fn(u32) -> u32] {
            let mut entries: Vec<u64> = (0..1000).map(|n| entry(of(n), n)).collect();
            entries.sort_unstable();
            let table = Table::of(entries.clone());
            for n in (0..1000).map(of).chain([0, 1, 999, 1_000_000, u32::MAX]) {
                let expected: Vec<u64> =
                    entries.iter().copied().filter(|entry| entry >> 32 == u64::from(n)).collect();
                assert_eq!(table.run(n), expected);
            }
        }
        assert!(Table::of(Vec::new()).run(0).is_empty());
    }
}
