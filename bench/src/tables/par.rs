//! Parallel loops and sorts beside rayon's iterators, paralight and Fork Union.

use std::{
    cell::OnceCell,
    hint::black_box,
    ops::Range,
    rc::Rc,
    time::{Duration, Instant},
};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    loops::{Data, Operation, paralight, raddle, rayon, sequential},
    peers,
    report::{Budget, Limit},
    work::leaf_of,
};

const THREADS: usize = 2;
/// From so many elements on raddle is to be as fast as rayon, and below that twice as fast.
const MANY: usize = 10_000;
const FEW: usize = 1_000;
const SIZES: [usize; 5] = [100, 900, 10_000, 100_000, 1_000_000];
const LARGEST_SORT: usize = 10_000_000;
/// Elements of all operations of one sample together, at least: to read the clock takes some time.
const BATCH: usize = 200_000;
/// Regions of a sample of flat loops.
const REGIONS: usize = 20;

/// Where the calls come from.
#[derive(Clone, Copy, Debug, PartialEq)]
enum From {
    /// Each enters the pool.
    Outside,
    /// From a thread of the pool.
    Inside,
}

#[derive(Clone, Copy)]
struct Case {
    operation: Operation,
    count: usize,
    from: From,
    samples: usize,
}

impl Case {
    fn section(self) -> String {
        let from = match self.from {
            From::Outside => "from outside",
            From::Inside => "within the pool",
        };
        format!("{} of {}, {from}", self.operation.name(), self.count)
    }

    fn repetitions(self) -> usize {
        (BATCH / self.count).max(1)
    }

    /// Microseconds for each operation.
    fn samples(self, mut run: impl FnMut(&mut Data)) -> Vec<f64> {
        let mut data = Data::new(self.count);
        let repetitions = self.repetitions();
        let mut sample = || {
            let start = Instant::now();
            (0..repetitions).for_each(|_| run(&mut data));
            start.elapsed().as_nanos() as f64 / 1e3 / repetitions as f64
        };
        sample();
        (0..self.samples).map(|_| sample()).collect()
    }

    fn raddle(self) -> Vec<f64> {
        let pool = peers::raddle_pool(THREADS);
        match self.from {
            From::Outside => self.samples(|data| pool.run(|_| raddle::run(self.operation, data))),
            From::Inside => pool.run(|_| self.samples(|data| raddle::run(self.operation, data))),
        }
    }

    fn rayon(self) -> Vec<f64> {
        let pool = peers::rayon_pool(THREADS);
        match self.from {
            From::Outside => self.samples(|data| pool.install(|| rayon::run(self.operation, data))),
            From::Inside => pool.install(|| self.samples(|data| rayon::run(self.operation, data))),
        }
    }

    fn group(self) -> Group {
        let row = |name: &str, measure: fn(Case) -> Vec<f64>| {
            Contender::sampled(self.section(), name, move || measure(self))
        };
        let mut contenders = vec![
            row("sequential", |case| case.samples(|data| sequential::run(case.operation, data))),
            row("raddle", Case::raddle),
            row("rayon", Case::rayon),
        ];
        if matches!(self.operation, Operation::ForEach | Operation::Reduce)
            && self.from == From::Outside
        {
            contenders.push(row("paralight", |case| {
                let mut pool = paralight::pool(THREADS);
                case.samples(|data| paralight::run(&mut pool, case.operation, data))
            }));
        }
        Group { unit: "us", references: &["sequential", "rayon"], ceiling: None, contenders }
    }

    fn budget(self) -> Option<Budget> {
        let limit = match self.count {
            count if count >= MANY => 1.0,
            // Within a pool rayon takes little more than the sequential loop, of which there is no half to be had.
            count if count < FEW && self.from == From::Outside => 0.5,
            _ => return None,
        };
        let id = |name: &str| (self.section(), name.to_owned());
        let what = format!("{}: raddle / rayon", self.section());
        let budget = Budget::ratio(what, id("raddle"), id("rayon"), Limit::AtMost(limit));
        Some(budget.needs_cores(THREADS))
    }
}

/// A loop of items that are all alike.
#[derive(Clone)]
struct Flat {
    count: usize,
    time: Duration,
    samples: usize,
    /// What a step takes, in ns, found when the first is needed.
    step: Rc<OnceCell<f64>>,
}

const FORK_UNION: &str = "Fork Union";

impl Flat {
    fn section(&self) -> String {
        format!("{} x {:?}, hot", self.count, self.time)
    }

    fn steps(&self) -> u32 {
        let step = *self.step.get_or_init(|| {
            const STEPS: u32 = 100_000;
            let time = |_| peers::timed(|| black_box(leaf_of(black_box(1), STEPS))).0;
            let fastest = (0..20).map(time).min().unwrap_or_default();
            fastest.as_nanos() as f64 / f64::from(STEPS)
        });
        (self.time.as_nanos() as f64 / step).round().max(1.0) as u32
    }

    /// Microseconds for each region.
    fn samples(&self, region: impl FnMut(Range<u64>, u32) -> u64) -> Vec<f64> {
        flat_samples(self.count, self.steps(), self.samples, region)
    }

    fn group(&self) -> Group {
        let row = |name: &str, measure: fn(&Flat) -> Vec<f64>| {
            let flat = self.clone();
            Contender::sampled(flat.section(), name, move || measure(&flat))
        };
        let mut contenders = vec![
            row("sequential", |flat| flat.samples(sequential::flat)),
            row("raddle", |flat| {
                let pool = peers::raddle_pool(THREADS);
                flat.samples(|items, steps| pool.run(|_| raddle::flat(items, steps)))
            }),
            row("raddle, within the pool", |flat| {
                let (count, steps, samples) = (flat.count, flat.steps(), flat.samples);
                peers::raddle_pool(THREADS)
                    .run(|_| flat_samples(count, steps, samples, raddle::flat))
            }),
            row("rayon", |flat| {
                let pool = peers::rayon_pool(THREADS);
                flat.samples(|items, steps| pool.install(|| rayon::flat(items, steps)))
            }),
            row("paralight", |flat| {
                let mut pool = paralight::pool(THREADS);
                flat.samples(|items, steps| paralight::flat(&mut pool, items, steps))
            }),
        ];
        if cfg!(feature = "fork-union") {
            contenders.push(row(FORK_UNION, fork_union));
        }
        Group { unit: "us", references: &["sequential", "rayon"], ceiling: None, contenders }
    }

    fn budget(&self) -> Option<Budget> {
        let id = |name: &str| (self.section(), name.to_owned());
        let what = format!("{}: raddle / {FORK_UNION}", self.section());
        let budget = || Budget::ratio(what, id("raddle"), id(FORK_UNION), Limit::AtMost(1.1));
        cfg!(feature = "fork-union").then(|| budget().needs_cores(THREADS))
    }
}

/// Microseconds for each region.
fn flat_samples(
    count: usize,
    steps: u32,
    samples: usize,
    mut region: impl FnMut(Range<u64>, u32) -> u64,
) -> Vec<f64> {
    let items = 0..count as u64;
    let expected = sequential::flat(items.clone(), steps);
    let mut sample = || {
        let start = Instant::now();
        for _ in 0..REGIONS {
            assert_eq!(region(items.clone(), steps), expected, "wrong result");
        }
        start.elapsed().as_nanos() as f64 / 1e3 / REGIONS as f64
    };
    (0..3).for_each(|_| _ = sample());
    (0..samples).map(|_| sample()).collect()
}

#[cfg(feature = "fork-union")]
fn fork_union(flat: &Flat) -> Vec<f64> {
    use std::sync::atomic::{AtomicU64, Ordering};
    let topology = forkunion::Topology::new().expect("a topology");
    let mut pool = forkunion::spawn(&topology, THREADS);
    flat.samples(|items, steps| {
        let sum = AtomicU64::new(0);
        forkunion::for_slices(&mut pool, items.end as usize, |first, count| {
            let own = first.task_index as u64..(first.task_index + count) as u64;
            sum.fetch_add(sequential::flat(own, steps), Ordering::Relaxed);
        });
        sum.into_inner()
    })
}

#[cfg(not(feature = "fork-union"))]
fn fork_union(_: &Flat) -> Vec<f64> {
    Vec::new()
}

fn cases(settings: &Settings) -> Vec<Case> {
    let mut cases = Vec::new();
    for operation in Operation::ALL {
        let largest = operation.is_sort().then_some(LARGEST_SORT);
        for count in SIZES.into_iter().chain(largest) {
            for from in [From::Outside, From::Inside] {
                let samples = settings.size(if count > BATCH { 5 } else { 20 }, 2);
                let count = settings.size(count, count.min(FEW));
                cases.push(Case { operation, count, from, samples });
            }
        }
    }
    cases.dedup_by_key(|case| case.section());
    cases
}

fn flats(settings: &Settings) -> Vec<Flat> {
    let step = Rc::default();
    [(2, 1_650), (100, 160), (1_000, 160), (1_000, 1_600), (100_000, 7)]
        .map(|(count, nanos)| Flat {
            count: settings.size(count, count.min(100)),
            time: Duration::from_nanos(nanos),
            samples: settings.size(50, 2),
            step: Rc::clone(&step),
        })
        .into()
}

pub(crate) fn table(settings: &Settings) -> Table {
    let (cases, flats) = (cases(settings), flats(settings));
    let groups = flats.iter().map(Flat::group).chain(cases.iter().map(|case| case.group()));
    Table {
        about: "us per loop or sort on 2 threads, back to back; sorts with a copy of what they sort",
        rounds: 5,
        groups: groups.collect(),
        budgets: flats
            .iter()
            .filter_map(Flat::budget)
            .chain(cases.iter().filter_map(|case| case.budget()))
            .collect(),
    }
}
