//! What it costs to enter a pool from a thread that is not of it, for nothing and for 40 us of
//! work.

use std::{
    hint, thread,
    time::{Duration, Instant},
};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers,
    report::{Budget, Limit},
    tables::count,
    work,
};

const HALF: Duration = Duration::from_micros(20);
const QUIET: Duration = Duration::from_millis(3);
/// The caller runs it with raddle and opens a scope with chili, where rayon hands it to a worker and waits: what the rows
/// have in common is what a user writes.
const EMPTY: &str = "empty region";
const BY_CALLER: &str = "raddle, run by the caller";
const BY_OWNER: &str = "chili, a scope opened and closed";
const BY_WORKER: &str = "rayon, handed to a worker";
const JOIN: &str = "join(20+20 us)";

/// How the regions follow each other.
#[derive(Clone, Copy)]
struct Mode {
    title: &'static str,
    quiet: Duration,
    samples: usize,
    /// Regions per sample.
    batch: u32,
}

pub(crate) fn table(settings: &Settings) -> Table {
    let threads = settings.threads.max(2);
    let hot = |batch| Mode {
        title: "hot",
        quiet: Duration::ZERO,
        samples: settings.size(200, 10),
        batch,
    };
    let quiet = Mode { title: "quiet", quiet: QUIET, samples: settings.size(60, 5), batch: 1 };
    // An empty region is shorter than two readings of the clock.
    let modes = [(EMPTY, hot(16)), (EMPTY, quiet), (JOIN, hot(1)), (JOIN, quiet)];
    let group = |(what, mode)| Group {
        unit: "us",
        references: if what == EMPTY { &[BY_WORKER] } else { &["chili", "rayon"] },
        ceiling: None,
        contenders: contenders(what, mode, threads),
    };
    let budget = |(what, mode): (&str, Mode)| {
        let id = |name: &str| (section(what, mode, threads), name.to_owned());
        let (limit, ours, theirs) = match what {
            JOIN => (Limit::AtMost(0.5), "raddle", "rayon"),
            _ => (Limit::None, BY_CALLER, BY_WORKER),
        };
        Budget::ratio(
            format!("raddle / rayon, {what}, {}", mode.title),
            id(ours),
            id(theirs),
            limit,
        )
        .by_median()
        .needs_cores(2)
    };
    Table {
        about: "us per region entered from outside; hot: back to back, quiet: after 3 ms",
        rounds: 5,
        groups: modes.map(group).into(),
        budgets: modes.map(budget).into(),
    }
}

fn section(what: &str, mode: Mode, threads: usize) -> String {
    format!("{what}, {}, {}", mode.title, count(threads, "thread"))
}

fn contenders(what: &str, mode: Mode, threads: usize) -> Vec<Contender> {
    let row = |name, samples: Box<dyn FnMut() -> Vec<f64>>| {
        Contender::sampled(section(what, mode, threads), name, samples)
    };
    if what == EMPTY {
        return vec![
            row(
                BY_CALLER,
                Box::new(move || {
                    let pool = peers::raddle_pool(threads);
                    samples(mode, || pool.run(|_| ()))
                }),
            ),
            row(
                BY_OWNER,
                Box::new(move || {
                    let pool = peers::chili_pool(threads);
                    samples(mode, || drop(hint::black_box(pool.scope())))
                }),
            ),
            row(
                BY_WORKER,
                Box::new(move || {
                    let pool = peers::rayon_pool(threads);
                    samples(mode, || pool.install(|| ()))
                }),
            ),
        ];
    }
    vec![
        row(
            "sequential",
            Box::new(move || samples(mode, || check(work::sequential::pair((), HALF)))),
        ),
        row(
            "raddle",
            Box::new(move || {
                let pool = peers::raddle_pool(threads);
                samples(mode, || check(pool.run(|w| work::worker::pair(w, HALF))))
            }),
        ),
        row(
            "chili",
            Box::new(move || {
                let pool = peers::chili_pool(threads);
                samples(mode, || check(work::chili::pair(&mut pool.scope(), HALF)))
            }),
        ),
        row(
            "rayon",
            Box::new(move || {
                let pool = peers::rayon_pool(threads);
                samples(mode, || check(pool.install(|| work::rayon::pair((), HALF))))
            }),
        ),
    ]
}

fn check(result: (u32, u32)) {
    assert_eq!(result, (1, 2), "wrong result");
}

/// Microseconds per region.
fn samples(mode: Mode, mut region: impl FnMut()) -> Vec<f64> {
    (0..20).for_each(|_| region());
    let mut sample = || {
        if !mode.quiet.is_zero() {
            thread::sleep(mode.quiet);
        }
        let start = Instant::now();
        (0..mode.batch).for_each(|_| region());
        start.elapsed().as_nanos() as f64 / 1e3 / f64::from(mode.batch)
    };
    (0..mode.samples).map(|_| sample()).collect()
}
