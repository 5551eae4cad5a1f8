//! What a fork costs when almost all of them run where they were made.

use crate::{
    args::Settings,
    harness::{Group, Table},
    peers::{Job, Runtime},
    report::{Budget, Limit},
    work::Workload,
};

pub(crate) fn table(settings: &Settings) -> Table {
    let fib = Job::new(Workload::Fib(settings.size(35, 22)));
    let unbalanced = Job::new(Workload::Unbalanced(settings.size(52, 20)));
    let sum = Job::new(Workload::TreeSum(settings.size(24, 16)));
    let budgets = budgets(&fib);
    Table {
        about: "ns per call or node, no cut-off",
        rounds: 15,
        groups: [fib, unbalanced, sum].iter().map(group).collect(),
        budgets,
    }
}

fn group(job: &Job) -> Group {
    use Runtime::{Ambient, Chili, Rayon, Sequential, Worker};
    let mut contenders = Vec::new();
    for threads in [1, 2] {
        for runtime in [Sequential, Worker, Ambient, Chili, Rayon] {
            if threads == 1 || runtime != Sequential {
                contenders.push(job.row(job.section(threads), runtime.name(), runtime, threads));
            }
        }
    }
    Group { unit: "ns", references: &["chili", "rayon"], ceiling: None, contenders }
}

fn budgets(fib: &Job) -> Vec<Budget> {
    use Runtime::{Ambient, Chili, Rayon, Worker};
    let id = |threads, runtime: Runtime| (fib.section(threads), runtime.name().to_owned());
    let ratio = |what, of: (usize, Runtime), to: (usize, Runtime), limit| {
        Budget::ratio(what, id(of.0, of.1), id(to.0, to.1), limit).needs_cores(of.0.max(to.0))
    };
    let (most, least) = (Limit::AtMost, Limit::AtLeast);
    vec![
        ratio("fib: Worker::join / chili, 1 thread", (1, Worker), (1, Chili), most(1.0)),
        ratio("fib: join / rayon, 1 thread", (1, Ambient), (1, Rayon), most(0.4)),
        ratio("fib: speed-up by 2 threads, Worker::join", (1, Worker), (2, Worker), least(1.85)),
        ratio("fib: speed-up by 2 threads, join", (1, Ambient), (2, Ambient), least(1.85)),
        ratio("fib: Worker::join / chili, 2 threads", (2, Worker), (2, Chili), most(1.0)),
    ]
}
