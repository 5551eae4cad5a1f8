//! When a task starts that was forked before its owner went on into a long leaf, and another worker
//! has nothing to do.

use std::{thread, time::Duration};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers,
    report::{Budget, Limit},
    work,
};

const QUIET: Duration = Duration::from_millis(3);
const WORKERS: [usize; 2] = [2, 16];
const TASKS: [&str; 3] = ["outermost", "middle", "innermost"];

#[derive(Clone, Copy)]
struct Case {
    workers: usize,
    /// All workers were busy a moment ago; else they have slept for a while.
    hot: bool,
    leaf: Duration,
    samples: usize,
}

impl Case {
    fn title(self) -> String {
        let state = if self.hot { "hot" } else { "parked" };
        format!("{} workers, {state}", self.workers)
    }

    fn single(self) -> String {
        format!("join(leaf, task), {}", self.title())
    }

    fn nested(self) -> String {
        format!("3 nested joins, {}", self.title())
    }
}

pub(crate) fn table(settings: &Settings) -> Table {
    let case = |workers, hot| Case {
        workers,
        hot,
        leaf: settings.size(Duration::from_millis(10), Duration::from_millis(1)),
        samples: settings.size(10, 3),
    };
    let cases: Vec<Case> = WORKERS.iter().flat_map(|n| [case(*n, false), case(*n, true)]).collect();
    let group = |contenders: fn(Case) -> Vec<Contender>, references| Group {
        unit: "us",
        references,
        ceiling: Some(cases[0].leaf.as_micros() as f64),
        contenders: cases.iter().flat_map(|case| contenders(*case)).collect(),
    };
    Table {
        about: "us from a fork to its start while the owner runs a 10 ms leaf",
        rounds: 6,
        groups: vec![group(single, &["chili", "rayon"]), group(nested, &[])],
        budgets: cases.iter().flat_map(|case| budgets(*case)).collect(),
    }
}

fn budgets(case: Case) -> Vec<Budget> {
    let budget = |section: String, name: String| {
        let what = section.replace("join(leaf, task)", "raddle").replace("3 nested joins", &name);
        Budget::value(what, (section, name), Limit::AtMost(100.0)).by_median().needs_cores(2)
    };
    let mut budgets = vec![budget(case.single(), "raddle".into())];
    budgets.extend(TASKS.map(|task| budget(case.nested(), format!("raddle, {task}"))));
    budgets
}

fn single(case: Case) -> Vec<Contender> {
    let row = |name, probe: fn(Case) -> Vec<[Duration; 1]>| {
        Contender::sampled(case.single(), name, move || rows(&probe(case)).remove(0))
    };
    vec![
        row("raddle", |case| on_raddle(case, |w| [work::worker::leaf(w, case.leaf)])),
        row("chili", |case| on_chili(case, |s| [work::chili::leaf(s, case.leaf)])),
        row("rayon", |case| on_rayon(case, || [work::rayon::leaf((), case.leaf)])),
    ]
}

fn nested(case: Case) -> Vec<Contender> {
    let row = |name, probe: fn(Case) -> Vec<[Duration; 3]>| {
        let names = TASKS.map(|task| format!("{name}, {task}")).into();
        Contender::several(case.nested(), names, move || rows(&probe(case)))
    };
    vec![
        row("raddle", |case| on_raddle(case, |w| work::worker::nest(w, case.leaf))),
        row("chili", |case| on_chili(case, |s| work::chili::nest(s, case.leaf))),
        row("rayon", |case| on_rayon(case, || work::rayon::nest((), case.leaf))),
    ]
}

/// Leaves enough to keep all workers busy for a moment.
fn burst(case: Case) -> (u32, Duration) {
    (2 * case.workers as u32, Duration::from_micros(50))
}

fn on_raddle<const N: usize>(
    case: Case,
    probe: impl Fn(&raddle::Worker) -> [Duration; N] + Sync,
) -> Vec<[Duration; N]> {
    let pool = peers::raddle_pool(case.workers);
    let (width, time) = burst(case);
    let region = || {
        pool.run(|w| {
            if case.hot {
                assert_eq!(work::worker::spread(w, width, time), width);
            } else {
                thread::sleep(QUIET);
            }
            probe(w)
        })
    };
    (0..case.samples).map(|_| region()).collect()
}

fn on_chili<const N: usize>(
    case: Case,
    probe: impl Fn(&mut chili::Scope<'_>) -> [Duration; N],
) -> Vec<[Duration; N]> {
    let pool = peers::chili_pool(case.workers);
    let (width, time) = burst(case);
    let mut scope = pool.scope();
    let mut region = || {
        if case.hot {
            assert_eq!(work::chili::spread(&mut scope, width, time), width);
        } else {
            thread::sleep(QUIET);
        }
        probe(&mut scope)
    };
    (0..case.samples).map(|_| region()).collect()
}

fn on_rayon<const N: usize>(
    case: Case,
    probe: impl Fn() -> [Duration; N] + Sync,
) -> Vec<[Duration; N]> {
    let pool = peers::rayon_pool(case.workers);
    let (width, time) = burst(case);
    let region = || {
        pool.install(|| {
            if case.hot {
                assert_eq!(work::rayon::spread((), width, time), width);
            } else {
                thread::sleep(QUIET);
            }
            probe()
        })
    };
    (0..case.samples).map(|_| region()).collect()
}

/// From start times per sample to microseconds per row.
fn rows<const N: usize>(samples: &[[Duration; N]]) -> Vec<Vec<f64>> {
    let us = |time: Duration| time.as_nanos() as f64 / 1e3;
    (0..N).map(|row| samples.iter().map(|sample| us(sample[row])).collect()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_become_rows() {
        let us = Duration::from_micros;
        assert_eq!(rows(&[[us(1), us(2)], [us(3), us(4)]]), [[1.0, 3.0], [2.0, 4.0]]);
    }
}
