//! What keeps a run from being faster: found in its graph, and told in one sentence.

use super::build::Built;
use super::graph::{EdgeKind, Graph, Longest, NONE, Node};
use super::label::Label;
use super::mix::Part;
use super::{Place, Point, Scale, critical, ratio, times};
use crate::summary::time;

/// A part of the span, of the work or of the processors that decides what is told.
const HALF: f64 = 0.5;
/// From this part of as many processors as there are on, it is they that bound a run.
const SCALES: f64 = 0.8;
/// A fork costs a few nanoseconds. With less work for each, that counts.
const FORK: f64 = 50.0;
/// With less than this part of the speed-up that the graph allows, threads waited for something else.
const WAITED: f64 = 0.6;
/// Waits for locks count from this part of the work on.
const LOCKS: f64 = 0.25;

/// What keeps a run from being faster on more processors, and on any number of them in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Bound {
    /// Threads waited, for locks or for whatever else is not in the graph: it could have been faster as it is.
    Waits,
    /// There is hardly more work for each fork than the fork costs.
    Forks,
    /// Work changes hands for longer than it takes.
    HandOffs,
    /// Work beside which there is nothing else to do.
    Serial,
    /// Tasks that are too large, or too few.
    Tasks,
    /// Tasks that must follow each other.
    Chain,
}

impl Bound {
    /// Its name for programs.
    #[inline]
    pub const fn name(self) -> &'static str {
        match self {
            Bound::Waits => "waits",
            Bound::Forks => "forks",
            Bound::HandOffs => "hand_offs",
            Bound::Serial => "serial",
            Bound::Tasks => "tasks",
            Bound::Chain => "chain",
        }
    }
}

/// What the bound was found by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    pub(crate) bound: Bound,
    /// Forks and spawned tasks.
    forks: u64,
    /// Nanoseconds of the span with nothing else to do, if all is done as early as it can be.
    alone: f64,
    /// The longest task on the span, and how many tasks are half as long at least: of those that were put together with others
    /// up to two.
    longest: f64,
    alike: usize,
    /// Nanoseconds of waits for locks.
    locks: f64,
}

impl Found {
    /// `here` is what is expected on as many processors as took part; what came of it was so many times as fast as one, and had so
    /// many nanoseconds of waits for locks.
    #[inline]
    pub(crate) fn of(
        built: &Built,
        coarse: &Graph,
        ways: &Longest,
        burdened: f64,
        here: &Point,
        (measured, locks): (f64, f64),
    ) -> Found {
        let graph = &built.graph;
        let (work, forks) = (graph.work(), built.forks);
        let span = ways.end.iter().copied().fold(0.0, f64::max);
        let on_way: Vec<u32> = critical(ways).collect();
        let node = |number: &u32| &graph.nodes[*number as usize];
        let longest = on_way.iter().map(|n| graph.task(node(n))).fold(0.0, f64::max);
        let is_alike = |node: &&Node| {
            let is_task = node.mix == NONE && matches!(node.label, Label::In(_));
            is_task && f64::from(node.span) >= HALF * longest
        };
        let small = built.longest.iter().filter(|&&task| task > 0.0 && task >= HALF * longest);
        let alike = graph.nodes.iter().filter(is_alike).count() + small.count();
        let parts = on_way.iter().flat_map(|n| graph.parts(node(n)));
        let is_task = |part: &Part| matches!(part.label, Label::In(_));
        let in_tasks: f64 = parts.filter(is_task).map(|part| part.on).sum();
        let alone = alone(coarse);
        let waited = here.processors > 1 && measured < WAITED * here.speedup;
        // Where recording took longer than the work, what was measured says nothing of waits.
        let is_telling = work > HALF * (built.wall - built.lost);
        let bound = match () {
            () if locks > LOCKS * work || waited && is_telling => Bound::Waits,
            () if forks > 0 && work < FORK * forks as f64 => Bound::Forks,
            () if burdened > span / HALF => Bound::HandOffs,
            () if forks > 0 && longest > HALF * span => Bound::Tasks,
            () if alone > HALF * span && follow_each_other(graph, ways) < 2 => Bound::Serial,
            () if alone < HALF * span && in_tasks > HALF * span => Bound::Tasks,
            () => Bound::Chain,
        };
        Found { bound, forks, alone, longest, alike, locks }
    }
}

/// For how long only one piece is worked on that others can't share, if each begins as early as it can.
#[inline]
fn alone(graph: &Graph) -> f64 {
    let ways = graph.longest(0.0);
    let pieces = graph.nodes.iter().zip(ways.begin.iter().zip(&ways.end));
    let pieces = pieces.filter(|(_, (begin, end))| begin < end);
    let lone =
        |node: &Node| f64::from(if node.divided < node.work { node.serial } else { node.span });
    let mut steps: Vec<(f64, i32)> = pieces
        .flat_map(|(node, (&begin, &end))| {
            [(begin, 1), ((begin + lone(node)).min(end), 1), (end, -2)]
        })
        .collect();
    steps.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let (mut alone, mut busy, mut since) = (0.0, 0, 0.0);
    for (at, more) in steps {
        if busy == 1 {
            alone += at - since;
        }
        busy += more;
        since = at;
    }
    alone
}

/// How often on the longest way a future's result was waited for.
#[inline]
fn follow_each_other(graph: &Graph, ways: &Longest) -> usize {
    let is_wait = |node: &u32| {
        let (from, to) = (ways.after[*node as usize], *node);
        let at = graph.edges.partition_point(|edge| (edge.1, edge.0) < (to, from));
        graph.edges.get(at).is_some_and(|edge| *edge == (from, to, EdgeKind::Future))
    };
    critical(ways).filter(is_wait).count()
}

impl Scale {
    /// What bounds the run, in one sentence.
    #[inline]
    pub fn verdict(&self) -> String {
        let Found { bound, forks, locks, .. } = self.found;
        let here = &self.here;
        let (bound_x, each) =
            (times(self.in_the_end()), self.work.as_nanos() as f64 / forks.max(1) as f64);
        let span = time(self.span);
        match bound {
            Bound::Waits if locks > LOCKS * self.work.as_nanos() as f64 => format!(
                "Waits for locks bound this run: threads slept {} for them beside {} of work, of which {span} must follow \
                 each other (at most {bound_x})",
                time(super::nanos(locks)),
                time(self.work),
            ),
            Bound::Waits => format!(
                "Waits bound this run: {} was measured on {} processors where its tasks allow {} (at most {bound_x} on any \
                 number), and raddle trace summary says where threads waited",
                times(self.measured.first().map_or(0.0, |m| m.speedup)),
                here.processors,
                times(here.speedup),
            ),
            Bound::Forks => format!(
                "Forks bound this run: for each of {forks} there is {} of work, not much more than a fork costs, so fork \
                 less (at most {bound_x} as it is, and such short times are rough)",
                time(super::nanos(each)),
            ),
            _ if here.speedup >= SCALES * here.processors as f64 => self.scales(),
            bound => {
                let limit = self.limit(bound);
                format!(
                    "{}{} this run: at most {bound_x} on any number of processors",
                    limit[..1].to_uppercase(),
                    &limit[1..]
                )
            }
        }
    }

    /// It is processors that bound it, up to some number.
    #[inline]
    fn scales(&self) -> String {
        let (here, most) = (&self.here, self.points.iter().max_by_key(|point| point.processors));
        let pays = |point: &&Point| point.speedup >= HALF * point.processors as f64;
        let last = self.points.iter().filter(pays).max_by_key(|point| point.processors);
        let last = last.filter(|last| last.processors > here.processors).unwrap_or(here);
        let now = format!("{} is expected on {}", times(here.speedup), here.processors);
        let then = match last.processors > here.processors {
            true => format!("{now}, {} on {}", times(last.speedup), last.processors),
            false => now,
        };
        if most == Some(last) {
            return format!(
                "Processors bound this run, which scales to {} and more: {then}",
                last.processors
            );
        }
        format!(
            "Processors bound this run, which scales to about {}: {then}; beyond, {} it (at most {})",
            last.processors,
            self.limit(self.found.bound),
            times(self.in_the_end())
        )
    }

    /// The most that any number of processors gives, with hand-offs where they are what bounds it.
    #[inline]
    fn in_the_end(&self) -> f64 {
        let counts = self.found.bound == Bound::HandOffs;
        let span = if counts { self.burdened } else { self.span };
        ratio(self.work.as_secs_f64(), span.as_secs_f64())
    }

    /// What bounds the run where there are enough processors: a subject and its verb.
    #[inline]
    fn limit(&self, bound: Bound) -> String {
        let at = |place: Option<&Place>| {
            place.map_or_else(String::new, |place| format!(", most of it {}", place.whereabouts()))
        };
        let weightiest = self.places.first();
        match bound {
            Bound::Serial if self.found.forks == 0 => {
                format!("all {} of work, of which nothing was forked, bound", time(self.work))
            }
            Bound::Serial => format!(
                "a serial part of {} ({:.0} % of the span of {}{}) bounds",
                time(super::nanos(self.found.alone)),
                100.0 * ratio(self.found.alone, self.span.as_nanos() as f64),
                time(self.span),
                at(weightiest),
            ),
            Bound::Tasks if self.found.alike == 1 => format!(
                "one task of {} {} bounds",
                time(super::nanos(self.found.longest)),
                weightiest.map_or_else(String::new, Place::whereabouts),
            ),
            Bound::Tasks => format!(
                "too few or too large tasks {} (of up to {} on the span of {}) bound",
                weightiest.map_or_else(String::new, Place::whereabouts),
                time(super::nanos(self.found.longest)),
                time(self.span),
            ),
            Bound::HandOffs => format!(
                "hand-offs of {}{}, which take longer on the way than its {} of work, bound",
                time(super::nanos(self.costs.steal)),
                if self.steal_is_assumed { " (assumed)" } else { "" },
                time(self.span),
            ),
            _ => format!(
                "a chain of {} that must follow each other, of {} of work{}, bounds",
                time(self.span),
                time(self.work),
                at(weightiest),
            ),
        }
    }
}

impl Place {
    /// Where it is, within a sentence.
    #[inline]
    fn whereabouts(&self) -> String {
        match (self.name.strip_prefix("before "), self.name.strip_prefix("after ")) {
            (Some(place), _) => format!("before the fork at {place}"),
            (_, Some(place)) => format!("after the fork at {place}"),
            _ => format!("in {}", self.name),
        }
    }
}
