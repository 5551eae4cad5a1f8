//! Scopes in scopes: two nested loops, and a search that opens a scope at each step.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers,
    report::{Budget, Limit},
    tables::count,
    work::leaf_of,
};

#[derive(Clone, Copy, Debug)]
enum Shape {
    /// A scope with so many tasks, in each of which there is one with so many.
    Loops { outer: u64, inner: u64 },
    /// The shortest round trip of so many cities, a scope for each of the first so many.
    Trip { cities: usize, forked: usize },
}

/// Steps of a task in the loops: some 50 ns.
const STEPS: u32 = 30;
const CITIES: usize = 12;

impl Shape {
    fn title(self) -> String {
        match self {
            Shape::Loops { outer, inner } => format!("{outer} x {inner} tasks"),
            Shape::Trip { cities, forked } => {
                format!("trip of {cities} cities, {forked} forked")
            }
        }
    }

    /// All tasks.
    fn tasks(self) -> u64 {
        match self {
            Shape::Loops { outer, inner } => outer * inner + outer,
            Shape::Trip { cities, forked } => {
                let mut total = 0;
                let mut level = 1;
                for depth in 0..forked {
                    level *= (cities - 1 - depth) as u64;
                    total += level;
                }
                total
            }
        }
    }

    /// What a run must return.
    fn expected(self) -> u64 {
        match self {
            Shape::Loops { outer, inner } => {
                (0..outer * inner).map(|n| leaf_of(n, STEPS)).fold(0, u64::wrapping_add)
            }
            Shape::Trip { cities, .. } => Trip::start(cities).shortest(),
        }
    }
}

pub(crate) fn table(settings: &Settings) -> Table {
    let shapes = [
        settings.size(Shape::Loops { outer: 200, inner: 200 }, Shape::Loops { outer: 8, inner: 8 }),
        settings
            .size(Shape::Loops { outer: 20, inner: 2_000 }, Shape::Loops { outer: 3, inner: 20 }),
        settings.size(Shape::Trip { cities: 10, forked: 6 }, Shape::Trip { cities: 6, forked: 3 }),
    ];
    let runs = settings.size(5, 1);
    let cases = || shapes.into_iter().flat_map(|shape| [1, 2].map(|threads| (shape, threads)));
    Table {
        about: "ns per task, in scopes that are opened in tasks of others",
        rounds: 7,
        groups: cases().map(|(shape, threads)| group(shape, threads, runs)).collect(),
        budgets: cases().map(|(shape, threads)| budget(shape, threads)).collect(),
    }
}

fn section(shape: Shape, threads: usize) -> String {
    format!("{}, {}", shape.title(), count(threads, "thread"))
}

fn budget(shape: Shape, threads: usize) -> Budget {
    let id = |name: &str| (section(shape, threads), name.to_owned());
    let what = format!("raddle / rayon, {}", section(shape, threads));
    Budget::ratio(what, id("raddle"), id("rayon"), Limit::AtMost(1.0))
        .by_median()
        .needs_cores(threads)
}

fn group(shape: Shape, threads: usize, runs: usize) -> Group {
    let row = |name: &str, measure: fn(Shape, usize, usize) -> Vec<f64>| {
        Contender::sampled(section(shape, threads), name, move || measure(shape, threads, runs))
    };
    let contenders = vec![
        row("sequential", |shape, _, runs| samples(shape, runs, || shape.expected())),
        row("raddle", |shape, threads, runs| {
            let pool = peers::raddle_pool(threads);
            samples(shape, runs, || pool.run(|_| on_raddle::run(shape)))
        }),
        row("rayon", |shape, threads, runs| {
            let pool = peers::rayon_pool(threads);
            samples(shape, runs, || pool.install(|| on_rayon::run(shape)))
        }),
    ];
    Group { unit: "ns", references: &["rayon"], ceiling: None, contenders }
}

/// Nanoseconds per task.
fn samples(shape: Shape, runs: usize, run: impl Fn() -> u64) -> Vec<f64> {
    let expected = shape.expected();
    let sample = |_| {
        let (time, result) = peers::timed(&run);
        assert_eq!(result, expected, "wrong result");
        time.as_nanos() as f64 / shape.tasks() as f64
    };
    (0..=runs).map(sample).skip(1).collect()
}

/// Where a traveller is, who has been to some cities.
#[derive(Clone, Copy)]
struct Trip {
    cities: usize,
    here: usize,
    /// A bit for each city.
    seen: u32,
    length: u64,
}

impl Trip {
    fn start(cities: usize) -> Trip {
        assert!(cities <= CITIES);
        Trip { cities, here: 0, seen: 1, length: 0 }
    }

    /// How far it is from one city to another.
    fn way(a: usize, b: usize) -> u64 {
        leaf_of((a.min(b) * CITIES + a.max(b)) as u64, 3) % 1_000
    }

    fn next(self) -> impl Iterator<Item = Trip> {
        let to = move |city| Trip {
            here: city,
            seen: self.seen | 1 << city,
            length: self.length + Trip::way(self.here, city),
            ..self
        };
        (1..self.cities).filter(move |city| self.seen & 1 << city == 0).map(to)
    }

    /// The shortest way round from here. All are looked at, so that each run does the same work.
    fn shortest(self) -> u64 {
        let home = || self.length + Trip::way(self.here, 0);
        self.next().map(Trip::shortest).min().unwrap_or_else(home)
    }
}

macro_rules! runtime {
    ($module:ident, $scope:path) => {
        mod $module {
            use super::*;
            use $scope as scope;

            pub(super) fn run(shape: Shape) -> u64 {
                match shape {
                    Shape::Loops { outer, inner } => loops(outer, inner),
                    Shape::Trip { cities, forked } => {
                        let best = AtomicU64::new(u64::MAX);
                        trip(Trip::start(cities), forked, &best);
                        best.into_inner()
                    }
                }
            }

            fn loops(outer: u64, inner: u64) -> u64 {
                let mut sums = vec![0_u64; outer as usize];
                scope(|s| {
                    for (i, sum) in (0..).zip(&mut sums) {
                        s.spawn(move |_| {
                            let mut row = vec![0; inner as usize];
                            scope(|s| {
                                for (j, to) in (0..).zip(&mut row) {
                                    s.spawn(move |_| *to = leaf_of(i * inner + j, STEPS));
                                }
                            });
                            *sum = row.into_iter().fold(0, u64::wrapping_add);
                        });
                    }
                });
                sums.into_iter().fold(0, u64::wrapping_add)
            }

            fn trip(at: Trip, forked: usize, best: &AtomicU64) {
                if forked == 0 {
                    best.fetch_min(at.shortest(), Ordering::Relaxed);
                    return;
                }
                scope(|s| {
                    for next in at.next() {
                        s.spawn(move |_| trip(next, forked - 1, best));
                    }
                });
            }
        }
    };
}
runtime!(on_raddle, ::raddle::scope);
runtime!(on_rayon, ::rayon::scope);
