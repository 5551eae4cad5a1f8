//! Speed-up by more and more threads.

use std::iter;

use crate::{
    args::Settings,
    harness::{Group, Table},
    peers::{Job, Runtime},
    report::{Budget, Limit},
    tables::count,
    work::Workload,
};

const RUNTIMES: [(&str, Runtime); 3] =
    [("raddle", Runtime::Worker), ("chili", Runtime::Chili), ("rayon", Runtime::Rayon)];

pub(crate) fn table(settings: &Settings) -> Table {
    let jobs = [
        Job::new(Workload::Fib(settings.size(38, 22))),
        Job::new(Workload::TreeSum(settings.size(24, 16))),
    ];
    let steps = steps(settings.threads);
    let group = |job: &Job| Group {
        unit: "ns",
        references: &["chili", "rayon"],
        ceiling: None,
        contenders: steps
            .iter()
            .flat_map(|n| RUNTIMES.map(|(name, how)| job.row(job.section(*n), name, how, *n)))
            .collect(),
    };
    let speedup = |job: &Job, runtime: &str, n: usize| {
        let id = |n| (job.section(n), runtime.to_owned());
        let title = job.title.split(',').next().unwrap_or_default();
        let what = format!("{title}: speed-up, {runtime}, {}", count(n, "thread"));
        Budget::ratio(what, id(1), id(n), Limit::None)
    };
    let mut speedups = Vec::new();
    for job in &jobs {
        for (runtime, _) in RUNTIMES {
            speedups.extend(steps[1..].iter().map(|n| speedup(job, runtime, *n)));
        }
    }
    Table {
        about: "ns per call or node by number of threads",
        rounds: 7,
        groups: jobs.iter().map(group).collect(),
        budgets: speedups,
    }
}

/// 1, 2, 4 and so on, and `most`.
fn steps(most: usize) -> Vec<usize> {
    let doubling = iter::successors(Some(1), |n| Some(n * 2));
    doubling.take_while(|n| *n < most).chain([most]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_end_with_what_was_asked_for() {
        assert_eq!(steps(1), [1]);
        assert_eq!(steps(2), [1, 2]);
        assert_eq!(steps(6), [1, 2, 4, 6]);
        assert_eq!(steps(8), [1, 2, 4, 8]);
    }
}
