//! Many more workers than cores: what a pool that others share the machine with has to live with.

use crate::{
    args::Settings,
    harness::{Group, Table},
    peers::{Job, Runtime},
    report::{Budget, Limit},
    tables::count,
    work::Workload,
};

const RUNTIMES: [(&str, Runtime); 2] = [("raddle", Runtime::Worker), ("rayon", Runtime::Rayon)];

pub(crate) fn table(settings: &Settings) -> Table {
    let few = settings.threads;
    let many = (4 * settings.cores).max(16);
    let jobs = [
        Job::new(Workload::Fib(settings.size(35, 22))),
        Job::new(Workload::Unbalanced(settings.size(52, 20))),
        Job::new(Workload::TreeSum(settings.size(24, 16))),
        Job::new(Workload::Sort(settings.size(4_000_000, 50_000))),
    ];
    let name = |runtime, workers| format!("{runtime}, {}", count(workers, "worker"));
    let group = |job: &Job| {
        let mut contenders = Vec::new();
        for (runtime, how) in RUNTIMES {
            for workers in [few, many] {
                contenders.push(job.row(&job.title, name(runtime, workers), how, workers));
            }
        }
        Group { unit: "ns", references: &[], ceiling: None, contenders }
    };
    let budget = |job: &Job, runtime, limit| {
        let id = |workers| (job.title.clone(), name(runtime, workers));
        let title = job.title.split(',').next().unwrap_or_default();
        let what = format!("{title}: {runtime} with {many} / {few}");
        Budget::ratio(what, id(many), id(few), limit)
    };
    Table {
        about: "ns per call, node or number, with too many workers",
        rounds: 9,
        groups: jobs.iter().map(group).collect(),
        budgets: jobs
            .iter()
            .flat_map(|job| {
                [budget(job, "raddle", Limit::AtMost(1.2)), budget(job, "rayon", Limit::None)]
            })
            .collect(),
    }
}
