//! What a task costs that is spawned into a scope, or for nobody: nothing but made, queued, run and forgotten.

use std::{
    hint::black_box,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    machine, peers,
    report::{Budget, Limit},
    tables::count,
};

const REST: Duration = Duration::from_millis(5);

/// Who spawns whom.
#[derive(Clone, Copy)]
enum Shape {
    /// Each task spawns two, so many times over.
    Tree(u32),
    /// One body spawns all.
    Flat(u64),
}

/// For whom.
#[derive(Clone, Copy)]
enum Kind {
    Scope,
    Detached,
}

#[derive(Clone, Copy)]
enum Clock {
    Wall,
    /// That of all threads of the process.
    Processor,
}

#[derive(Clone, Copy)]
struct Case {
    kind: Kind,
    shape: Shape,
    threads: usize,
    clock: Clock,
    runs: usize,
}

impl Case {
    fn tasks(self) -> u64 {
        match self.shape {
            Shape::Tree(depth) => (2 << depth) - 1,
            Shape::Flat(tasks) => tasks,
        }
    }

    fn section(self) -> String {
        let shape = match self.shape {
            Shape::Tree(depth) => format!("tree of depth {depth}"),
            Shape::Flat(tasks) => format!("{tasks} from one body"),
        };
        let kind = match self.kind {
            Kind::Scope => "scope",
            Kind::Detached => "detached",
        };
        let clock = match self.clock {
            Clock::Wall => "time",
            Clock::Processor => "processor time",
        };
        format!("{kind}, {shape}, {}, {clock}", count(self.threads, "thread"))
    }
}

pub(crate) fn table(settings: &Settings) -> Table {
    let shapes = [Shape::Tree(settings.size(15, 6)), Shape::Flat(settings.size(10_000, 100))];
    let clocks: &[Clock] = if machine::cpu_time().is_some() {
        &[Clock::Wall, Clock::Processor]
    } else {
        &[Clock::Wall]
    };
    let mut groups = Vec::new();
    let mut budgets = Vec::new();
    for kind in [Kind::Scope, Kind::Detached] {
        for shape in shapes {
            let runs = match shape {
                Shape::Tree(_) => settings.size(8, 1),
                Shape::Flat(_) => settings.size(40, 1),
            };
            for threads in [1, 2] {
                let case = |&clock| Case { kind, shape, threads, clock, runs };
                groups.push(group(clocks.iter().map(case)));
                budgets.extend(clocks.iter().map(case).map(budget));
            }
        }
    }
    Table { about: "ns per empty task; detached: spawned for nobody", rounds: 9, groups, budgets }
}

fn group(cases: impl Iterator<Item = Case>) -> Group {
    let rows = cases.flat_map(|case| {
        let row = |name, measure: fn(Case) -> Vec<f64>| {
            Contender::sampled(case.section(), name, move || measure(case))
        };
        [row("raddle", raddle), row("rayon", rayon)]
    });
    Group { unit: "ns", references: &["rayon"], ceiling: None, contenders: rows.collect() }
}

fn budget(case: Case) -> Budget {
    let id = |name: &str| (case.section(), name.to_owned());
    Budget::ratio(
        format!("raddle / rayon, {}", case.section()),
        id("raddle"),
        id("rayon"),
        Limit::AtMost(1.0),
    )
    .by_median()
    .needs_cores(case.threads)
}

/// Nanoseconds per task, of each run. `run` is given a counter of the tasks, or none where it is timed.
fn samples(case: Case, run: impl Fn(Option<&'static AtomicU64>)) -> Vec<f64> {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    COUNT.store(0, Ordering::Relaxed);
    run(Some(&COUNT));
    assert_eq!(COUNT.load(Ordering::Relaxed), case.tasks(), "tasks were lost");
    let per_task = |nanos: f64| nanos / case.tasks() as f64;
    match case.clock {
        Clock::Wall => (0..case.runs)
            .map(|_| per_task(peers::timed(|| run(None)).0.as_nanos() as f64))
            .collect(),
        Clock::Processor => {
            // The system adds the time of a thread up when that stops, or every few milliseconds: so all runs
            // together, and a rest after them.
            let before = machine::cpu_time();
            (0..case.runs).for_each(|_| run(None));
            thread::sleep(REST);
            let time = machine::cpu_time().zip(before).map(|(after, before)| after - before);
            vec![per_task(1e6 * time.unwrap_or(f64::NAN) / case.runs as f64)]
        }
    }
}

/// What a task does.
#[inline]
fn work(counter: Option<&AtomicU64>) {
    match counter {
        Some(counter) => _ = counter.fetch_add(1, Ordering::Relaxed),
        None => black_box(()),
    }
}

type Counter = Option<&'static AtomicU64>;

macro_rules! runtime {
    ($module:ident, $runtime:ident) => {
        // rayon's `spawn` returns nothing to drop.
        #[allow(clippy::let_underscore_future)]
        mod $module {
            use super::*;
            use ::$runtime::{Scope, scope, spawn};

            pub(super) fn in_scope(shape: Shape, counter: Counter) {
                scope(|s| match shape {
                    Shape::Tree(depth) => tree(s, depth, counter),
                    Shape::Flat(tasks) => {
                        (0..tasks).for_each(|_| s.spawn(move |_| work(counter)));
                    }
                });
            }

            fn tree<'scope>(s: &Scope<'scope>, depth: u32, counter: Counter) {
                work(counter);
                if depth > 0 {
                    s.spawn(move |s| tree(s, depth - 1, counter));
                    s.spawn(move |s| tree(s, depth - 1, counter));
                }
            }

            /// Whoever drops the last of `done` is the last.
            pub(super) fn detached(shape: Shape, counter: Counter, done: Arc<Done>) {
                match shape {
                    Shape::Tree(depth) => detached_tree(depth, counter, done),
                    Shape::Flat(tasks) => (0..tasks).for_each(|_| {
                        let done = Arc::clone(&done);
                        let _ = spawn(move || {
                            work(counter);
                            drop(done);
                        });
                    }),
                }
            }

            fn detached_tree(depth: u32, counter: Counter, done: Arc<Done>) {
                work(counter);
                if depth > 0 {
                    let other = Arc::clone(&done);
                    let _ = spawn(move || detached_tree(depth - 1, counter, done));
                    let _ = spawn(move || detached_tree(depth - 1, counter, other));
                }
            }
        }
    };
}
runtime!(on_raddle, raddle);
runtime!(on_rayon, rayon);

/// Tells whoever waits when it is dropped.
struct Done(mpsc::SyncSender<()>);

impl Drop for Done {
    fn drop(&mut self) {
        // Nobody waits if it panics.
        let _ = self.0.send(());
    }
}

/// Starts something that ends when all shares of `Done` have gone, and waits for that.
fn wait_for(start: impl FnOnce(Arc<Done>)) {
    let (sender, receiver) = mpsc::sync_channel(1);
    start(Arc::new(Done(sender)));
    receiver.recv().expect("the last task tells");
}

fn raddle(case: Case) -> Vec<f64> {
    let pool = peers::raddle_pool(case.threads);
    samples(case, |counter| match case.kind {
        Kind::Scope => pool.run(|_| on_raddle::in_scope(case.shape, counter)),
        Kind::Detached => {
            wait_for(|done| _ = pool.spawn(move || on_raddle::detached(case.shape, counter, done)));
        }
    })
}

fn rayon(case: Case) -> Vec<f64> {
    let pool = peers::rayon_pool(case.threads);
    samples(case, |counter| match case.kind {
        Kind::Scope => pool.install(|| on_rayon::in_scope(case.shape, counter)),
        Kind::Detached => {
            wait_for(|done| pool.spawn(move || on_rayon::detached(case.shape, counter, done)));
        }
    })
}
