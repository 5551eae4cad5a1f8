//! What a region costs that is entered from outside, from 2 us to 5 ms of work: never more than doing it oneself.

use std::{
    cell::OnceCell,
    hint::black_box,
    io,
    ops::Range,
    process::Command,
    rc::Rc,
    thread,
    time::{Duration, Instant},
};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers,
    report::{Budget, Limit},
    work,
};

const THREADS: usize = 2;
const QUIET: Duration = Duration::from_millis(3);
/// What a leaf takes, about.
const LEAF: Duration = Duration::from_nanos(1_500);
/// A region may take this many times as long as without a pool, and so much longer, in us.
const FACTOR: f64 = 1.1;
const ENTRY: f64 = 1.5;
/// From here on two threads must show, by so much.
const WORTH_IT: Duration = Duration::from_millis(1);
const FASTER: f64 = 1.7;
/// A pool whose threads spin for longer than it is quiet: a region then costs at most so many times what it does hot.
const SPIN: Duration = Duration::from_millis(20);
const AS_HOT: f64 = 1.25;
const SPINNING: &str = "raddle, spin_for(20 ms)";
const SEQUENTIAL: &str = "sequential";
const ALLOWED: &str = "1.1 x sequential + 1.5 us";

#[derive(Clone)]
struct Case {
    work: Duration,
    quiet: bool,
    samples: usize,
    /// Steps of a leaf, found when the first is needed.
    steps: Rc<OnceCell<u32>>,
}

impl Case {
    fn section(&self) -> String {
        let time = match self.work.as_micros() {
            us if us < 1_000 => format!("{us} us"),
            us => format!("{} ms", us / 1_000),
        };
        format!("{time}, {}", if self.quiet { "quiet" } else { "hot" })
    }

    fn leaves(&self) -> Range<u64> {
        0..(self.work.as_nanos() as f64 / LEAF.as_nanos() as f64).round().max(1.0) as u64
    }

    fn steps(&self) -> u32 {
        *self.steps.get_or_init(calibrate)
    }
}

/// How many steps take as long as a leaf should.
fn calibrate() -> u32 {
    const STEPS: u32 = 100_000;
    let time = |_| peers::timed(|| black_box(work::leaf_of(black_box(1), STEPS))).0;
    let fastest = (0..20).map(time).min().unwrap_or(LEAF);
    (f64::from(STEPS) * LEAF.as_nanos() as f64 / fastest.as_nanos() as f64) as u32
}

pub(crate) fn table(settings: &Settings) -> Table {
    let micros = [2, 5, 10, 20, 50, 200, 1_000, 5_000];
    let steps = Rc::default();
    let cases = |quiet| {
        let steps = Rc::clone(&steps);
        let samples = if quiet { settings.size(60, 3) } else { settings.size(200, 5) };
        micros.map(|us| Case {
            work: Duration::from_micros(us),
            quiet,
            samples,
            steps: Rc::clone(&steps),
        })
    };
    let cases: Vec<Case> = [true, false].into_iter().flat_map(cases).collect();
    Table {
        about: "us per region entered from outside by 2 threads, in leaves of 1.5 us; quiet: after 3 ms",
        rounds: 5,
        budgets: cases.iter().flat_map(budgets).collect(),
        groups: cases.into_iter().map(group).collect(),
    }
}

fn budgets(case: &Case) -> Vec<Budget> {
    let id = |name: &str| (case.section(), name.to_owned());
    let what = format!("{}: raddle / ({ALLOWED})", case.section());
    let mut budgets = vec![
        Budget::ratio(what, id("raddle"), id(ALLOWED), Limit::AtMost(1.0))
            .by_median()
            .needs_cores(THREADS),
    ];
    if case.quiet {
        let hot = Case { quiet: false, ..case.clone() };
        let what = format!("{}: {SPINNING} / raddle, hot", case.section());
        let ours = (hot.section(), "raddle".to_owned());
        budgets.push(
            Budget::ratio(what, id(SPINNING), ours, Limit::AtMost(AS_HOT))
                .by_median()
                .needs_cores(THREADS),
        );
    }
    if case.work >= WORTH_IT {
        let what = format!("{}: sequential / raddle", case.section());
        budgets.push(
            Budget::ratio(what, id(SEQUENTIAL), id("raddle"), Limit::AtLeast(FASTER))
                .by_median()
                .needs_cores(THREADS),
        );
    }
    budgets
}

fn group(case: Case) -> Group {
    let row = |name: &str, measure: fn(&Case) -> Vec<f64>| {
        let case = case.clone();
        Contender::sampled(case.section(), name, move || measure(&case))
    };
    let alone = {
        let case = case.clone();
        let names = vec![SEQUENTIAL.into(), ALLOWED.into()];
        Contender::several(case.section(), names, move || {
            let times = samples(&case, |leaves, steps| work::sequential::leaves((), leaves, steps));
            let allowed = times.iter().map(|time| FACTOR * time + ENTRY).collect();
            vec![times, allowed]
        })
    };
    let mut contenders = vec![
        alone,
        row("raddle", |case| {
            let pool = peers::raddle_pool(THREADS);
            samples(case, |leaves, steps| pool.run(|w| work::worker::leaves(w, leaves, steps)))
        }),
        row("rayon", |case| {
            let pool = peers::rayon_pool(THREADS);
            samples(case, |leaves, steps| pool.install(|| work::rayon::leaves((), leaves, steps)))
        }),
        row("chili", |case| {
            let pool = peers::chili_pool(THREADS);
            samples(case, |leaves, steps| work::chili::leaves(&mut pool.scope(), leaves, steps))
        }),
        row("forte", |case| forte(case).expect("a process of its own")),
    ];
    if case.quiet {
        contenders.push(row(SPINNING, |case| {
            let builder = raddle::Pool::builder().threads(THREADS).spin_for(SPIN);
            let pool = builder.build().expect("a pool");
            samples(case, |leaves, steps| pool.run(|w| work::worker::leaves(w, leaves, steps)))
        }));
    }
    if cfg!(feature = "fork-union") {
        // It spins for ever: its pool lives during its own row only, as all do.
        contenders.push(row("Fork Union", fork_union));
    }
    Group { unit: "us", references: &[SEQUENTIAL, "rayon"], ceiling: None, contenders }
}

/// The command line's `--region`: microseconds, `quiet` or `hot`, samples, steps of a leaf.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spec {
    micros: u64,
    quiet: bool,
    samples: usize,
    steps: u32,
}

impl Spec {
    pub(crate) fn parse(text: &str) -> Option<Spec> {
        let mut parts = text.split('/');
        let micros = parts.next()?.parse().ok()?;
        let quiet = parts.next()? == "quiet";
        let samples = parts.next()?.parse().ok()?;
        let steps = parts.next()?.parse().ok()?;
        parts.next().is_none().then_some(Spec { micros, quiet, samples, steps })
    }

    /// What forte needs for these regions, in us.
    pub(crate) fn measure(self) -> Vec<f64> {
        let Spec { micros, quiet, samples: n, steps } = self;
        let work = Duration::from_micros(micros);
        let case = Case { work, quiet, samples: n, steps: Rc::new(steps.into()) };
        let pool = peers::FortePool::new(THREADS);
        samples(&case, |leaves, steps| pool.run(|w| work::forte::leaves(w, leaves, steps)))
    }
}

/// Measures forte in a process of its own, whose threads it does not get rid of.
fn forte(case: &Case) -> io::Result<Vec<f64>> {
    let mode = if case.quiet { "quiet" } else { "hot" };
    let spec = format!("{}/{mode}/{}/{}", case.work.as_micros(), case.samples, case.steps());
    let output = Command::new(std::env::current_exe()?).args(["--region", &spec]).output()?;
    if !output.status.success() {
        let told = String::from_utf8_lossy(&output.stderr);
        return Err(io::Error::other(format!("{}: {told}", output.status)));
    }
    Ok(serde_json::from_slice(&output.stdout)?)
}

#[cfg(feature = "fork-union")]
fn fork_union(case: &Case) -> Vec<f64> {
    use std::sync::atomic::{AtomicU64, Ordering};
    let topology = forkunion::Topology::new().expect("a topology");
    let mut pool = forkunion::spawn(&topology, THREADS);
    samples(case, |leaves, steps| {
        let sum = AtomicU64::new(0);
        forkunion::for_slices(&mut pool, leaves.end as usize, |first, count| {
            let own = first.task_index as u64..(first.task_index + count) as u64;
            sum.fetch_add(work::sequential::leaves((), own, steps), Ordering::Relaxed);
        });
        sum.into_inner()
    })
}

#[cfg(not(feature = "fork-union"))]
fn fork_union(_: &Case) -> Vec<f64> {
    Vec::new()
}

/// Microseconds per region.
fn samples(case: &Case, mut region: impl FnMut(Range<u64>, u32) -> u64) -> Vec<f64> {
    let steps = case.steps();
    let expected = work::sequential::leaves((), case.leaves(), steps);
    let mut sample = |quiet: bool| {
        if quiet {
            thread::sleep(QUIET);
        }
        let start = Instant::now();
        let sum = region(case.leaves(), steps);
        let time = start.elapsed();
        assert_eq!(sum, expected, "wrong result");
        time.as_nanos() as f64 / 1e3
    };
    (0..10).for_each(|_| _ = sample(false));
    (0..case.samples).map(|_| sample(case.quiet)).collect()
}
