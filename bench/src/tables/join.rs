//! What a fork costs when almost all of them run where they were made; and in a loop of small joins, each of which another thread
//! might steal from.

use std::hint::black_box;

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers::{self, Job, Runtime},
    report::{Budget, Limit},
    work::{Workload, leaf_of},
};

/// Steps of each half of a small join: a step is some 2 ns.
const STEPS: [u32; 4] = [0, 10, 40, 150];

pub(crate) fn table(settings: &Settings) -> Table {
    let fib = Job::new(Workload::Fib(settings.size(35, 22)));
    let unbalanced = Job::new(Workload::Unbalanced(settings.size(52, 20)));
    let sum = Job::new(Workload::TreeSum(settings.size(24, 16)));
    let budgets = budgets(&fib).into_iter().chain(STEPS.map(small_budget)).collect();
    let count = settings.size(1_000_000, 1_000);
    let small = STEPS.map(|steps| small(count / (steps as usize + 4), steps));
    Table {
        about: "ns per call or node, no cut-off; per join in a loop of small ones",
        rounds: 15,
        groups: [fib, unbalanced, sum].iter().map(group).chain(small).collect(),
        budgets,
    }
}

fn small_section(steps: u32) -> String {
    format!("loop of joins of 2 x {steps} steps, 2 threads")
}

/// Joins one after the other, each of two halves of so many steps, on one thread of two: the other has nothing else to do.
fn small(count: usize, steps: u32) -> Group {
    let per_join = move |mut join: Box<dyn FnMut(usize) -> u64 + '_>| {
        // Until both threads are as they will be.
        black_box(join(count));
        let (time, _) = peers::timed(|| black_box(join(count)));
        time.as_nanos() as f64 / count as f64
    };
    let leaf = move |number: usize| leaf_of(black_box(number as u64), steps);
    let contenders = vec![
        Contender::new(small_section(steps), "sequential", move || {
            per_join(Box::new(|count| {
                (0..count).map(|n| leaf(n) ^ leaf(n + 1)).fold(0, u64::wrapping_add)
            }))
        }),
        Contender::new(small_section(steps), "raddle Worker::join", move || {
            peers::raddle_pool(2).run(|worker| {
                per_join(Box::new(|count| {
                    let join = |n| worker.join(|_| leaf(n), |_| leaf(n + 1));
                    (0..count).map(join).fold(0, |sum, (a, b)| sum.wrapping_add(a ^ b))
                }))
            })
        }),
        Contender::new(small_section(steps), "raddle join", move || {
            peers::raddle_pool(2).run(|_| {
                per_join(Box::new(|count| {
                    let join = |n| raddle::join(|| leaf(n), || leaf(n + 1));
                    (0..count).map(join).fold(0, |sum, (a, b)| sum.wrapping_add(a ^ b))
                }))
            })
        }),
        Contender::new(small_section(steps), "rayon", move || {
            peers::rayon_pool(2).install(|| {
                per_join(Box::new(|count| {
                    let join = |n| rayon::join(|| leaf(n), || leaf(n + 1));
                    (0..count).map(join).fold(0, |sum, (a, b)| sum.wrapping_add(a ^ b))
                }))
            })
        }),
    ];
    Group { unit: "ns", references: &["sequential", "rayon"], ceiling: None, contenders }
}

fn small_budget(steps: u32) -> Budget {
    let id = |name: &str| (small_section(steps), name.to_owned());
    let what = format!("2 x {steps} steps, one after the other: join / rayon, 2 threads");
    Budget::ratio(what, id("raddle join"), id("rayon"), Limit::AtMost(1.0)).needs_cores(2)
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
