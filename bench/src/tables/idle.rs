//! The CPU time that a pool takes while nobody uses it.

use std::{hint::black_box, thread, time::Duration};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    machine, peers,
    report::{Budget, Limit},
    tables::count,
};

const WORKERS: [usize; 2] = [2, 16];

pub(crate) fn table(settings: &Settings) -> Table {
    let times = Times {
        rest: settings.size(Duration::from_secs(1), Duration::from_millis(10)),
        window: settings.size(Duration::from_secs(3), Duration::from_millis(30)),
    };
    let section = |workers| format!("idle pool, {}", count(workers, "worker"));
    let group = |workers| Group {
        unit: "ms",
        references: &[],
        ceiling: None,
        contenders: contenders(&section(workers), workers, times),
    };
    let budget = |workers| {
        let id = (section(workers), "raddle".to_owned());
        Budget::value(format!("raddle, {}", section(workers)), id, Limit::Below(1.0)).by_median()
    };
    if machine::cpu_time().is_none() {
        let about = "not measured: this system doesn't tell a process its CPU time";
        return Table { about, rounds: 1, groups: vec![], budgets: vec![] };
    }
    Table {
        about: "ms of CPU time over 3 s, starting 1 s after some work; what is not above \"no pool\" is noise",
        rounds: 1,
        groups: WORKERS.map(group).into(),
        budgets: WORKERS.map(budget).into(),
    }
}

#[derive(Clone, Copy)]
struct Times {
    rest: Duration,
    window: Duration,
}

/// The helpers that make the pools have them do some work.
fn contenders(section: &str, workers: usize, times: Times) -> Vec<Contender> {
    let row = |name, measure: fn(usize, Times) -> f64| {
        Contender::new(section, name, move || measure(workers, times))
    };
    vec![
        row("no pool: what measuring takes", |_, times| measure(times, &())),
        row("raddle", |n, times| measure(times, &peers::raddle_pool(n))),
        row("rayon", |n, times| measure(times, &peers::rayon_pool(n))),
        row("chili", |n, times| measure(times, &peers::chili_pool(n))),
        row("chili, a scope kept open", |n, times| {
            let pool = peers::chili_pool(n);
            measure(times, &pool.scope())
        }),
        row("tokio", |n, times| measure(times, &peers::tokio_pool(n))),
    ]
}

/// The CPU time this process takes while it keeps `pool`.
fn measure<P>(times: Times, pool: &P) -> f64 {
    thread::sleep(times.rest);
    let before = machine::cpu_time();
    thread::sleep(times.window);
    let after = machine::cpu_time();
    black_box(pool);
    after.zip(before).map_or(f64::NAN, |(after, before)| after - before)
}
