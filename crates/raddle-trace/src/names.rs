//! What slices are called, and where time went by name.

use std::time::Duration;

use crate::event::{Event, EventKind, Subject};
use crate::hash::NumberMap;
use crate::scale::short;
use crate::states::{Follower, State};
use crate::trace::Trace;

/// The names of all that lanes run.
#[derive(Debug)]
pub(crate) struct Names {
    /// Of each lane: the place of each task that began, in their order; regions' names count from `places` on.
    places: Vec<Vec<u16>>,
    /// The texts of places, the first one for none.
    pub(crate) texts: Vec<String>,
}

/// Tasks of one name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// A place in the source, or a region's name.
    pub name: String,
    /// How long they ran, without what they ran within.
    pub own: Duration,
    /// How many there were.
    pub count: u64,
}

impl Names {
    /// Goes through all lanes at once, in the order of time.
    #[inline]
    pub(crate) fn of(trace: &Trace) -> Names {
        let mut texts = vec![String::new()];
        texts.extend((1..=trace.places.len()).map(|n| short(trace.place(n as u16).unwrap_or(""))));
        let known = texts.len();
        texts.extend(trace.names.iter().cloned());
        let region = |number: u16| u16::try_from(known + usize::from(number) - 1).unwrap_or(0);
        let mut places: Vec<Vec<u16>> = vec![Vec::new(); trace.lanes.len()];
        let mut forked: NumberMap<(Subject, u32), u16> = NumberMap::default();
        let mut nameless: NumberMap<(Subject, u32), (u32, u32)> = NumberMap::default();
        trace.in_order(|number, event| match event.kind {
            EventKind::Fork => _ = forked.insert(event.key(), event.aux),
            EventKind::Submit if event.aux != 0 => {
                forked.insert(event.key(), region(event.aux));
            }
            EventKind::Exec => {
                let place = forked.remove(&event.key()).unwrap_or(event.aux);
                if place == 0 {
                    let at = (number as u32, places[number].len() as u32);
                    nameless.insert(event.key(), at);
                }
                places[number].push(place);
            }
            // Where forks that nobody steals are left out, its owner says where it was.
            EventKind::Joined if event.aux != 0 => {
                if let Some((lane, at)) = nameless.remove(&event.key()) {
                    places[lane as usize][at as usize] = event.aux;
                }
            }
            _ => {}
        });
        Names { places, texts }
    }

    /// Goes along a lane.
    #[inline]
    pub(crate) fn lane(&self, number: usize) -> NamedLane<'_> {
        NamedLane { names: self, places: self.places[number].iter(), open: Vec::new() }
    }

    /// A name's text; empty for none.
    #[inline]
    pub(crate) fn text(&self, number: u16) -> &str {
        self.texts.get(usize::from(number)).map_or("", String::as_str)
    }
}

/// The names of what is open on a lane.
#[derive(Debug)]
pub(crate) struct NamedLane<'a> {
    names: &'a Names,
    places: std::slice::Iter<'a, u16>,
    open: Vec<u16>,
}

impl NamedLane<'_> {
    /// Takes the next event, after the follower has: `depth` intervals are open now. True: a task began.
    #[inline]
    pub(crate) fn step(&mut self, event: &Event, depth: usize) -> bool {
        let began = event.kind == EventKind::Exec;
        let place = if began { self.places.next().copied() } else { None };
        self.open.truncate(depth);
        if self.open.len() < depth {
            self.open.resize(depth - 1, 0);
            let outer = self.open.last().copied().unwrap_or(0);
            self.open.push(place.unwrap_or(outer));
        }
        began
    }

    /// The name of the innermost task.
    #[inline]
    pub(crate) fn name(&self) -> u16 {
        self.open.last().copied().unwrap_or(0)
    }

    #[inline]
    pub(crate) fn text(&self) -> &str {
        self.names.text(self.name())
    }
}

impl Trace {
    /// How long tasks ran by their names, the longest first: places in the source, and regions. At level
    /// [`Phase`](crate::TraceLevel::Phase) forks that nobody stole count for what they ran within.
    #[inline]
    pub fn time_by_name(&self) -> Vec<Named> {
        self.time_by(&Names::of(self))
    }

    /// The same, with names that are known already.
    #[inline]
    pub(crate) fn time_by(&self, names: &Names) -> Vec<Named> {
        let mut sums = vec![(0_u64, 0_u64); usize::from(u16::MAX) + 1];
        for (number, lane) in self.lanes.iter().enumerate() {
            let (mut follower, mut named) = (Follower::new(), names.lane(number));
            let mut since = 0;
            for event in &lane.events {
                if follower.state() == State::Executing {
                    let own = &mut sums[usize::from(named.name())].0;
                    *own = own.saturating_add(event.tsc.saturating_sub(since));
                }
                since = event.tsc.max(since);
                follower.step(event);
                if named.step(event, follower.depth()) {
                    sums[usize::from(named.name())].1 += 1;
                }
            }
        }
        let mut sums: Vec<Named> = sums
            .into_iter()
            .zip(0..=u16::MAX)
            .filter(|(sum, _)| *sum != (0, 0))
            .map(|((own, count), name)| {
                let name = match names.text(name) {
                    "" => "(unknown place)".into(),
                    text => text.to_owned(),
                };
                Named { name, own: Duration::from_nanos(self.span_of(own)), count }
            })
            .collect();
        sums.sort_by(|a, b| b.own.cmp(&a.own).then_with(|| a.name.cmp(&b.name)));
        sums
    }
}
