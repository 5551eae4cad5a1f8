//! What recording costs: off, at level `Phase`, at level `Tasks`.

use std::{
    hint::black_box,
    time::{Duration, Instant},
};

use raddle::{Pool, Worker, trace::TraceLevel};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    report::{Budget, Limit},
};

const EVERY: &str = "fib, every call forks, 1 thread";
const COARSE: &str = "fib, leaves of about 1 us, 1 thread";
/// A fork that nobody steals is three events: forked, begun, ended.
const EVENTS: f64 = 3.0;
const LEVELS: [(&str, TraceLevel); 3] =
    [("off", TraceLevel::Off), ("phase", TraceLevel::Phase), ("tasks", TraceLevel::Tasks)];

pub(crate) fn table(settings: &Settings) -> Table {
    let n = settings.size(27, 12);
    let large = settings.size(31, 18);
    let repeats = settings.size(40, 2);
    let group = |unit, section: &'static str, per_fork: bool, n: u32, cutoff: u32| {
        let mut names: Vec<String> = LEVELS.map(|level| level.0.to_owned()).into();
        if per_fork {
            names.push("per event".into());
        }
        let forks = if per_fork { f64::from(forks(n)) } else { 1e3 };
        let measure = move || {
            let mut rows = levels(n, cutoff, repeats, forks);
            if per_fork {
                let least = |row: &[f64]| crate::harness::minimum(row);
                let event = (least(&rows[2]) - least(&rows[0])) / EVENTS;
                rows.push(vec![event]);
            }
            rows
        };
        let contenders = vec![Contender::several(section, names, measure)];
        Group { unit, references: &["off"], ceiling: None, contenders }
    };
    let id = |section: &str, name: &str| (section.to_owned(), name.to_owned());
    Table {
        about: "ns per fork, and us per run; the levels are measured in turn",
        rounds: 2,
        groups: vec![
            group("ns", EVERY, true, n, 1),
            group("us", COARSE, false, large, 15.min(large / 2)),
        ],
        budgets: vec![
            Budget::value("an event at level tasks", id(EVERY, "per event"), Limit::AtMost(12.0)),
            Budget::ratio(
                "level phase / off, leaves of 1 us",
                id(COARSE, "phase"),
                id(COARSE, "off"),
                Limit::AtMost(1.01),
            ),
        ],
    }
}

/// Calls of `fib(n)` that fork: those with an argument of 2 or more.
fn forks(n: u32) -> u32 {
    (0..n).fold((1, 0), |(a, b), _| (a + b, a)).0 - 1
}

/// The times of each level, in turn, divided by `per` nanoseconds.
fn levels(n: u32, cutoff: u32, repeats: usize, per: f64) -> Vec<Vec<f64>> {
    let pools =
        LEVELS.map(|(_, level)| Pool::builder().threads(1).trace(level).build().expect("a pool"));
    let mut rows = vec![Vec::new(); LEVELS.len()];
    for turn in 0..repeats * LEVELS.len() {
        let level = (turn + turn / LEVELS.len()) % LEVELS.len();
        let start = Instant::now();
        black_box(pools[level].run(|w| fib(w, n, cutoff)));
        rows[level].push(nanos(start.elapsed()) / per);
    }
    for (pool, (name, level)) in pools.iter().zip(LEVELS) {
        assert_eq!(pool.trace().is_empty(), level == TraceLevel::Off, "{name}");
    }
    rows
}

fn nanos(time: Duration) -> f64 {
    time.as_nanos() as f64
}

fn fib(worker: &Worker, n: u32, cutoff: u32) -> u64 {
    if n <= cutoff {
        return plain(n);
    }
    let (a, b) = worker.join(|w| fib(w, n - 1, cutoff), |w| fib(w, n - 2, cutoff));
    a + b
}

fn plain(n: u32) -> u64 {
    if n < 2 { n.into() } else { plain(n - 1) + plain(n - 2) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forks_are_counted() {
        assert_eq!([2, 3, 5, 15].map(forks), [1, 2, 7, 986]);
    }
}
