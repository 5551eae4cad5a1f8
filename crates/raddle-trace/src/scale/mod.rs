//! Work, span, and what more processors would give.
//!
//! *Work* is the processor time of all tasks together: what one thread needs. *Span* is the longest way through what must
//! follow each other: what is needed however many processors there are. No schedule of work `W` and span `S` on `P`
//! processors is faster than the greater of `S` and `W / P`. A greedy one, which leaves no processor idle while there is
//! something to begin, takes at most `S + (W - S) / P` (Graham, 1966; Brent, 1974), if that something is begun at once.
//! Between the two lies what a simulation of the recorded graph says, but for hand-offs and wakes: those are in the
//! simulation, which therefore may be slower than any greedy schedule. The *burdened* span counts in each hand-off on the way, as Cilkscale
//! does (Leiserson and others, 2021).
//!
//! | file | |
//! |---|---|
//! | `build.rs`, `build/tasks.rs`, `build/locks.rs` | from events to a graph |
//! | `build/small.rs` | small tasks that become one piece |
//! | `arena.rs`, `mix.rs` | the graph in the making, and small forks in it that become one piece |
//! | `graph.rs` | the graph, its longest ways, and a coarser one |
//! | `suppose.rs` | what is supposed to be faster |
//! | `processor.rs` | how much of the time a thread had a processor |
//! | `simulate.rs` | the graph run by any number of workers |
//! | `span.rs` | where the span was |
//! | `label.rs` | places in the source |
//! | `costs.rs` | what recording costs, and hand-offs |
//! | `verdict.rs`, `refusal.rs` | what bounds the run; why that cannot be told |
//! | `report.rs`, `plot.rs` | as text |

mod arena;
mod build;
mod costs;
mod graph;
mod label;
mod mix;
mod plot;
mod processor;
mod refusal;
mod report;
mod simulate;
mod span;
mod suppose;
#[cfg(test)]
mod tests;
mod verdict;

use std::collections::HashMap;
use std::time::Duration;

use self::build::{Built, Grain, How, build};
use self::costs::HandOffs;
use self::graph::{Graph, Longest, NONE};
use self::label::Label;
pub use self::label::WhatIf;
pub(crate) use self::label::short;
pub(crate) use self::processor::Processor;
pub use self::refusal::Refusal;
use self::report::times;
pub use self::simulate::Costs;
use self::simulate::Plan;
pub(crate) use self::span::Stretches;
pub use self::verdict::Bound;
use self::verdict::Found;
use crate::summary::counted;
use crate::trace::{Trace, TraceLevel};

/// Below this part of the time with a processor a recording tells more of the machine than of the program.
const LEAST_PROCESSOR: f64 = 0.7;
/// And below this one its figures are rough, which is said with them. (What is lost is seen task by task, and not counted;
/// but caches are cold afterwards, and whoever waits for a task that is held up looks for others meanwhile.)
const ENOUGH_PROCESSOR: f64 = 0.9;
/// A part of the tasks that may have come from nowhere: those that were going on when recording began.
const MOST_ORPHANS: f64 = 0.03;
/// No stretch takes longer, in nanoseconds, whatever a file or a supposition says.
const LONGEST: f64 = u64::MAX as f64;
/// How many places are told, at most.
const PLACES: usize = 8;

/// What a recorded run would do on other numbers of processors: see [`Trace::scale`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Scale {
    /// Processor time of all tasks together.
    pub work: Duration,
    /// The longest way through them.
    pub span: Duration,
    /// The same with a hand-off for each task on the way.
    pub burdened: Duration,
    /// What hand-offs were taken to cost.
    pub costs: Costs,
    /// Whether what a steal costs is not of this recording, which has too few, but what is usual.
    pub steal_is_assumed: bool,
    /// The same of a wake.
    pub wake_is_assumed: bool,
    /// What is expected on 1, 2, 4 .. 1,024 processors.
    pub points: Vec<Point>,
    /// And on as many as the recording had, or on two if it had one.
    pub here: Point,
    /// What was measured: this recording itself. Nothing where something is supposed, of which there is no recording.
    pub measured: Vec<Measured>,
    /// The places that the span hangs on, the weightiest first.
    pub places: Vec<Place>,
    /// The regions handed over from outside, and marked ones within, in the order of their beginnings.
    pub regions: Vec<RegionScale>,
    /// What was supposed to be faster or slower than recorded.
    pub supposed: Vec<WhatIf>,
    /// The part of the tasks' time in which their threads had a processor. Below 0.7 a recording is refused, and below 0.9 what
    /// it took by the clock is not judged.
    pub with_processor: f64,
    /// What else is to be known of these figures.
    pub notes: Vec<String>,
    found: Found,
}

/// What is expected on a number of processors. Speed-ups are over one processor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Point {
    /// How many processors.
    pub processors: usize,
    /// The speed-up that the simulation gives.
    pub speedup: f64,
    /// What a greedy schedule reaches at least where hand-offs and wakes cost nothing: `W / (S + (W - S) / P)` with work `W`
    /// and span `S` on `P` processors. As they do cost, what is expected may be less.
    pub least: f64,
    /// What none can exceed.
    pub most: f64,
}

/// What was measured on a number of threads.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// How many threads.
    pub processors: usize,
    /// Work over elapsed time.
    pub speedup: f64,
}

/// A place in the source, and what it has to do with the span.
#[derive(Clone, Debug, PartialEq)]
pub struct Place {
    /// What it is called: `sort.rs:52`, `before sort.rs:52`, `after sort.rs:52`, `region clone`.
    pub name: String,
    /// How much of the span is spent there.
    pub on_span: Duration,
    /// How much of the work.
    pub work: Duration,
    /// The bound if none of it were on the span: if it were split, or done beside something else. The work stays.
    pub without: f64,
}

/// One region's work and span.
#[derive(Clone, Debug, PartialEq)]
pub struct RegionScale {
    /// Its name or number.
    pub name: String,
    /// Processor time of all its tasks.
    pub work: Duration,
    /// The longest way through them.
    pub span: Duration,
    /// The same with a hand-off for each task on the way.
    pub burdened: Duration,
    /// How long it took.
    pub took: Duration,
}

impl Scale {
    /// The most that any number of processors can give: work over span.
    #[inline]
    pub fn bound(&self) -> f64 {
        ratio(self.work.as_secs_f64(), self.span.as_secs_f64())
    }

    /// What bounds it: what else than the number of processors, if it scales so far.
    #[inline]
    pub fn bound_by(&self) -> Bound {
        self.found.bound
    }

    /// The speed-up that is expected on so many processors, if it was asked for.
    #[inline]
    pub fn predicted(&self, processors: usize) -> Option<f64> {
        self.points.iter().find(|point| point.processors == processors).map(|point| point.speedup)
    }
}

#[inline]
fn ratio(of: f64, to: f64) -> f64 {
    if to > 0.0 { of / to } else { 1.0 }
}

#[inline]
fn nanos(nanos: f64) -> Duration {
    Duration::from_nanos(nanos.max(0.0).round() as u64)
}

impl Trace {
    /// Work and span of what was recorded, and what it would take on 1 to 1,024 processors, from a recording at level
    /// [`Tasks`](TraceLevel::Tasks) that has lost nothing. One thread's is as good as many threads', and less disturbed, as far as a
    /// program forks alike on one: what it did not fork is one piece here. Sorts and scans of `raddle::par` fork as there are threads,
    /// on one not at all; so do rayon's loops (unless `with_max_len` says how large a piece may be), and loops that ask
    /// `Worker::should_fork`. Of raddle's locks it knows where somebody waited for one: who had it comes before who got it. So one
    /// thread's recording knows nothing of locks, and [says so](Scale::notes); that of few threads does not know all.
    ///
    /// What `supposed` names counts as so much faster or slower.
    ///
    /// Costs some passes over all events, with some nodes for each fork that is worth a hand-off and more than a 100,000th part of all,
    /// or that was stolen, for each spawned task that is worth a hand-off, and for each region. The others become one piece with what
    /// is around them, which processors that have nothing to do are expected to share.
    ///
    /// # Errors
    ///
    /// [`Refusal`] if the recording does not carry it.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Event, EventKind::*, Lane, Subject, Trace};
    ///
    /// // One thread: 100 us alone, then a fork of two halves of 300 us each. A tick is a microsecond.
    /// let fork = |tsc, kind| Event { flags: Subject::Fork as u8, ..Event::new(tsc, kind, 7) };
    /// let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 800, nanos: 800_000 });
    /// trace.lanes.push(Lane::new("worker 0", vec![
    ///     Event::new(0, Submit, 1), Event::new(0, Exec, 1),
    ///     fork(100, Fork), fork(400, Exec), fork(700, Executed),
    ///     Event::new(700, Executed, 1),
    /// ]));
    /// let scale = trace.scale(&[])?;
    /// assert_eq!((scale.work.as_micros(), scale.span.as_micros()), (700, 400));
    /// assert!(scale.bound() < 1.76 && scale.predicted(2).unwrap() > 1.5);
    /// # Ok::<(), raddle_trace::Refusal>(())
    /// ```
    #[inline]
    pub fn scale(&self, supposed: &[WhatIf]) -> Result<Scale, Refusal> {
        self.carries_a_graph()?;
        let hand_offs = costs::of_hand_offs(self);
        let built = self.graph(costs::grain(self, hand_offs.costs.steal, supposed), supposed)?;
        self.scale_of(built, &hand_offs, supposed, |_, _| ())
    }

    #[inline]
    fn carries_a_graph(&self) -> Result<(), Refusal> {
        if self.drops() > 0 {
            return Err(Refusal::Lost(self.drops()));
        }
        let mut steals = self.lanes.iter().flat_map(|lane| &lane.events);
        let stolen = steals.any(|e| e.kind == crate::EventKind::Steal);
        if self.level() != TraceLevel::Tasks && (stolen || self.fact("level").is_some()) {
            return Err(Refusal::Level);
        }
        Ok(())
    }

    /// The graph, if the recording carries it.
    #[inline]
    fn graph(&self, grain: Grain, supposed: &[WhatIf]) -> Result<Built, Refusal> {
        self.carries_a_graph()?;
        let mut built = build(self, How { grain, ..How::of(self, supposed) }, None);
        let tasks = built.tasks;
        if built.work <= 0.0 {
            return Err(Refusal::Empty);
        }
        if built.orphans as f64 > tasks as f64 * MOST_ORPHANS {
            return Err(Refusal::Orphans(built.orphans, tasks));
        }
        let had = 1.0 - ratio(built.lost, built.wall);
        if built.wall > 0.0 && had < LEAST_PROCESSOR {
            return Err(Refusal::Preempted(had));
        }
        if let Some(unknown) = built.unknown.take() {
            return Err(unknown);
        }
        // Longer times are cut to that, and what is left of them contradicts itself.
        let work = built.graph.work();
        match supposed.is_empty() || (1.0..LONGEST).contains(&work) {
            true => Ok(built),
            false => Err(Refusal::Supposed(work)),
        }
    }

    /// `look` is shown the longest ways, before the graph is gone.
    #[inline]
    fn scale_of(
        &self,
        built: Built,
        hand_offs: &HandOffs,
        supposed: &[WhatIf],
        look: impl FnOnce(&Built, &Longest),
    ) -> Result<Scale, Refusal> {
        let &HandOffs { costs, steal_is_assumed, wake_is_assumed } = hand_offs;
        let elapsed = self.covered(&built);
        let speedup = ratio(built.work, elapsed as f64);
        let width = self.width();
        // What is supposed was not run.
        let is_measured = supposed.is_empty() && elapsed > 0;
        let measured: Vec<Measured> =
            is_measured.then_some(Measured { processors: width, speedup }).into_iter().collect();
        let graph = &built.graph;
        let work = graph.work();
        let ways = graph.longest(0.0);
        look(&built, &ways);
        let span = ways.end.iter().copied().fold(0.0, f64::max);
        let (burdened, place) = graph.coarse(2.0 * costs.steal, &ways, &ways);
        let with_hand_offs = burdened.longest(costs.steal);
        drop(burdened);
        let regions = self.regions_of(&built, &ways, (&with_hand_offs, &place));
        let burdened = with_hand_offs.end.iter().copied().fold(span, f64::max);
        drop((with_hand_offs, place));
        // Of those that were stolen, too, what is as small is one piece.
        let divided = graph.longest_divided(costs.steal);
        let grain = built.grain.forks.max(work / costs::PIECES);
        let (coarse, _) = graph.coarse(grain, &ways, &divided);
        drop(divided);
        let plan = Plan::new(&coarse, |_| 1.0);
        let point = |processors: usize| {
            let time = plan.run(processors, costs);
            let most = (processors as f64).min(ratio(work, span));
            let speedup = ratio(work, time).min(most);
            let least = ratio(work, span + (work - span) / processors as f64);
            Point { processors, speedup, least, most }
        };
        let points = (0..=10).map(|power| point(1 << power)).collect();
        let here = point(width.max(2));
        let lost = ratio(built.lost, built.wall.max(1.0));
        let rough = lost > 1.0 - ENOUGH_PROCESSOR;
        // What the clock says of threads that had no processor is the machine's doing.
        let is_judged = is_measured && width > 1 && !rough;
        let measured_here = if is_judged { speedup } else { here.speedup };
        // With something supposed, threads would wait for locks for longer or less long.
        let locks = if supposed.is_empty() { built.locks } else { 0.0 };
        let found = Found::of(&built, &coarse, &ways, burdened, &here, (measured_here, locks));
        let mut notes = Vec::new();
        if rough {
            notes.push(format!(
                "Tasks had a processor for only {:.0} % of their time, and what they lacked is not counted. Something else \
                 used the machine, or tasks sleep: figures are rough",
                100.0 * (1.0 - lost)
            ));
        }
        if let Some(damage) = self.fact("damage") {
            notes.push(format!("The file is damaged, and this is of what comes before: {damage}"));
        }
        if built.unfinished > 0 {
            notes.push(format!(
                "{} still ran tasks when the recording ended: what they had done counts, and what was to come does not",
                counted(built.unfinished, "thread")
            ));
        }
        if built.locks > 0.01 * work {
            notes.push(format!(
                "{} of waiting for locks are no work; who had one counts as before who got it, in the order of this recording, and with \
                 more processors there will be more",
                crate::summary::time(nanos(built.locks))
            ));
        } else if width == 1 && built.locks <= 0.0 {
            // One line, so that there is room for the rest.
            notes.push(
                "One thread waits for no lock: record on two or more to see what locks cost".into(),
            );
        }
        Ok(Scale {
            work: nanos(work),
            span: nanos(span),
            burdened: nanos(burdened),
            costs,
            steal_is_assumed,
            wake_is_assumed,
            points,
            here,
            measured,
            places: self.places_of(graph, &ways, work),
            regions,
            supposed: supposed.to_vec(),
            with_processor: 1.0 - lost,
            notes,
            found,
        })
    }

    /// How long at least one region handed over from outside was under way, or a task ran that is within none: some may be so at
    /// once.
    #[inline]
    fn covered(&self, built: &Built) -> u64 {
        let outer = built.regions.iter().filter(|region| region.parent == NONE);
        let outer = outer.map(|region| (region.from, region.to));
        let mut spans: Vec<(u64, u64)> = outer.chain(built.ran.iter().copied()).collect();
        spans.sort_unstable();
        let (mut until, mut sum) = (0, 0);
        for (from, to) in spans {
            sum += self.between(from.max(until), to);
            until = until.max(to);
        }
        sum
    }

    #[inline]
    fn places_of(&self, graph: &Graph, ways: &Longest, work: f64) -> Vec<Place> {
        let mut on_span: HashMap<Label, f64> = HashMap::new();
        for node in critical(ways) {
            for part in graph.parts(&graph.nodes[node as usize]) {
                *on_span.entry(part.label).or_default() += part.on;
            }
        }
        let mut order: Vec<(Label, f64)> = on_span.into_iter().filter(|on| on.1 > 0.0).collect();
        order.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
        order.truncate(PLACES);
        let place = |(label, on_span): (Label, f64)| {
            let parts = graph.nodes.iter().flat_map(|node| graph.parts(node));
            let there: f64 = parts.filter(|part| part.label == label).map(|part| part.work).sum();
            let without = ratio(work, graph.span_without(label).max(1.0));
            Place { name: label.text(self), on_span: nanos(on_span), work: nanos(there), without }
        };
        order.into_iter().map(place).collect()
    }

    /// With the longest ways through the graph, and those with hand-offs through one of which the nodes have other places.
    #[inline]
    fn regions_of(
        &self,
        built: &Built,
        ways: &Longest,
        (burdened, place): (&Longest, &[u32]),
    ) -> Vec<RegionScale> {
        let mut work = vec![0.0_f64; built.regions.len()];
        for node in built.graph.nodes.iter().filter(|node| node.region != NONE) {
            work[node.region as usize] += f64::from(node.work);
        }
        for number in (0..built.regions.len()).rev() {
            if let Some(parent) = work.get(built.regions[number].parent as usize) {
                work[built.regions[number].parent as usize] = parent + work[number];
            }
        }
        let shown = built.regions.iter().zip(work);
        let shown = shown.filter(|(region, _)| region.parent == NONE || region.name != 0);
        let name = |region: &build::Region| {
            let name = self.names.get(usize::from(region.name).wrapping_sub(1));
            name.cloned().unwrap_or_else(|| format!("#{}", region.task))
        };
        let row = |(region, work): (&build::Region, f64)| {
            let build::Region { first, last, from, to, .. } = *region;
            let (first, last) = (first as usize, last as usize);
            let span = ways.end[last] - ways.begin[first];
            let with_hand_offs =
                burdened.end[place[last] as usize] - burdened.begin[place[first] as usize];
            RegionScale {
                name: name(region),
                work: nanos(work),
                span: nanos(span),
                burdened: nanos(with_hand_offs.max(span)),
                took: Duration::from_nanos(self.between(from, to)),
            }
        };
        shown.map(row).collect()
    }
}

/// The nodes on the longest way of all, from the last one back.
#[inline]
fn critical(ways: &Longest) -> impl Iterator<Item = u32> + '_ {
    let mut last = NONE;
    for (node, &end) in ways.end.iter().enumerate() {
        if last == NONE || end >= ways.end[last as usize] {
            last = node as u32;
        }
    }
    std::iter::successors((last != NONE).then_some(last), |&node| {
        let before = ways.after[node as usize];
        (before != NONE).then_some(before)
    })
}
