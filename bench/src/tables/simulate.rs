//! Regions on larger machines: simulated, after the simulation has been held against this machine.
//!
//! The first section has the phases as measured with two workers beside those simulated with the costs of
//! that very measurement. Then the machine of the wake-up study (Shipilev, 2012: 32 hardware threads,
//! waking dominated by some 60 us; 429 us as it was, 150 us without sleeping), and machines of up to 1024
//! workers.

use std::{cell::RefCell, rc::Rc, thread, time::Duration};

use raddle::{
    Pool,
    policy::Policy,
    trace::{EdgeKind, EventKind, Phases, Trace, TraceLevel},
};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    regions::Region,
    report::{Budget, Limit},
    simulate::{Costs, Rules, Setup, fences, median, regions},
};

const LEAVES: usize = 100;
/// Regions of which the median is told: they differ much.
const SEEDS: u64 = 400;
const QUIET: Duration = Duration::from_millis(3);
const HERE: &str = "2 workers, cold, 1 ms in leaves of 5 to 15 us";
const FENCES: &str = "heavy fences, 500 us of work for each";
const STUDY: &str = "the study's machine, 32 workers";
/// Of how many forks a thief has one more woken with each.
const SPREADS: [usize; 4] = [0, 1, 3, 6];
const PARTS: [&str; 6] =
    ["first hand-off", "ramp-up", "full parallelism", "catch-up", "result hand-off", "total"];

type Part = fn(&Phases) -> Duration;
const OF: [Part; 6] = [
    |r| r.first_handoff,
    |r| r.ramp_up,
    |r| r.full_parallelism,
    |r| r.catch_up,
    |r| r.result_handoff,
    |r| r.total,
];

/// What the rows share: the measurement, made once.
type Shared = Rc<RefCell<Option<Measured>>>;

#[derive(Clone)]
struct Measured {
    regions: Vec<Phases>,
    costs: Costs,
    leaf: u64,
}

pub(crate) fn table(settings: &Settings) -> Table {
    let shared = Shared::default();
    let samples = settings.size(200, 3);
    let seeds = settings.size(SEEDS, 2);
    let group = |contenders| Group { unit: "us", references: &[], ceiling: None, contenders };
    let largest = settings.size(1024, 32);
    let sizes: Vec<usize> =
        (1..=10).map(|power| 1 << power).filter(|&workers| workers <= largest).collect();
    let mut groups = vec![group(here(&shared, samples, seeds)), group(study(seeds))];
    for workers in sizes {
        groups.push(group(larger(&shared, workers, seeds.min(20))));
    }
    let rare = fences_of(&shared, &[2, 4, 8, 16, 32, 64], seeds.min(20));
    groups.push(Group { unit: "fences", ..group(rare) });
    let budget = |part: usize| {
        let id = |who: &str| (HERE.to_owned(), format!("{who}: {}", PARTS[part]));
        let ratio = |limit| {
            let what = format!("simulated / measured, {}", PARTS[part]);
            Budget::ratio(what, id("simulated"), id("measured"), limit).by_median().needs_cores(2)
        };
        [ratio(Limit::AtMost(1.25)), ratio(Limit::AtLeast(0.75))]
    };
    Table {
        about: "us per phase of a region, measured and simulated with the same policy",
        rounds: 1,
        groups,
        budgets: (0..PARTS.len()).flat_map(budget).collect(),
    }
}

fn here(shared: &Shared, samples: usize, seeds: u64) -> Vec<Contender> {
    let names = |who: &str| PARTS.map(|part| format!("{who}: {part}")).to_vec();
    let rows = |regions: &[Phases]| -> Vec<Vec<f64>> {
        OF.iter()
            .map(|part| regions.iter().map(|r| part(r).as_nanos() as f64 / 1e3).collect())
            .collect()
    };
    let measured = Rc::clone(shared);
    let simulated = Rc::clone(shared);
    vec![
        Contender::several(HERE, names("measured"), move || {
            rows(&measurement(&measured, samples).regions)
        }),
        Contender::several(HERE, names("simulated"), move || {
            let Measured { costs, leaf, .. } = measurement(&simulated, samples);
            rows(&regions(&setup(2, Policy::default(), costs, LEAVES, leaf), seeds))
        }),
    ]
}

fn setup(workers: usize, policy: Policy, costs: Costs, leaves: usize, leaf: u64) -> Setup {
    Setup {
        workers,
        policy,
        costs,
        leaves,
        leaf,
        caller_works: true,
        rules: Rules::Raddle,
        full: workers,
        busy_loop: false,
    }
}

/// What 32 workers woken one by one or in a tree come to, with the costs that the study gives. The work is
/// taken from its run without sleeping: 32 workers for the 65 us in which they all worked or caught up. Its pictures show the machine
/// as full when some workers still lack, which is taken to be an eighth of them.
fn study(seeds: u64) -> Vec<Contender> {
    let row = |(name, setup): (&str, Setup)| {
        let names = PARTS.map(|part| format!("{name}: {part}")).to_vec();
        Contender::several(STUDY, names, move || {
            let regions = regions(&setup, seeds);
            OF.iter().map(|part| vec![median(&regions, part)]).collect()
        })
    };
    setups_of_the_study().into_iter().map(row).collect()
}

fn setups_of_the_study() -> Vec<(&'static str, Setup)> {
    const WORK: u64 = 32 * 65_000;
    let costs = |latency: u64, wake: u64| Costs {
        enter: 300,
        leave: 10_000,
        fork: 20,
        look: 10,
        steal: 500,
        fence: 0,
        wake,
        nap: 0,
        latency: vec![latency],
    };
    // As many parts as Java's streams make: four for each processor.
    const OF_A_STREAM: usize = 4 * 32;
    let setup = |policy, costs| {
        let setup = setup(32, policy, costs, OF_A_STREAM, WORK / OF_A_STREAM as u64);
        Setup { full: 28, ..setup }
    };
    let theirs = |policy, costs| Setup {
        caller_works: false,
        rules: Rules::ForkJoinPool,
        ..setup(policy, costs)
    };
    let mut setups = Vec::new();
    for (name, fan_out) in [("vanilla", 2), ("wakeup-3", 3), ("wakeup-4", 4)] {
        let policy = Policy { fan_out, ..Policy::default() };
        setups.push((name, theirs(policy, costs(60_000, 10_000))));
    }
    let loops = theirs(Policy::default(), costs(5_000, 200));
    setups.push(("busy loop", Setup { busy_loop: true, ..loops }));
    let helps = setup(Policy::default(), costs(60_000, 10_000));
    let policy = Policy { spread: 0, ..helps.policy };
    setups.push(("as raddle: the caller works", helps.clone()));
    setups.push(("as raddle, a thief's forks wake nobody", Setup { policy, ..helps }));
    setups
}

fn of_spread(spread: usize) -> String {
    match spread {
        0 => "a thief's forks wake nobody".into(),
        1 => "its first wakes one".into(),
        _ => format!("its first {spread} wake one each"),
    }
}

/// Regions that would take 500 us if all worked from the start.
fn larger(shared: &Shared, workers: usize, seeds: u64) -> Vec<Contender> {
    let section = format!("{workers} workers, 500 us of work for each");
    SPREADS
        .iter()
        .map(|&spread| {
            let shared = Rc::clone(shared);
            let names = ["ramp-up", "total"].map(|part| format!("{}: {part}", of_spread(spread)));
            Contender::several(section.clone(), names.to_vec(), move || {
                let Measured { costs, leaf, .. } = measurement(&shared, 3);
                let policy = Policy { spread, ..Policy::default() };
                let regions = regions(&setup(workers, policy, costs, 50 * workers, leaf), seeds);
                [OF[1], OF[5]].iter().map(|part| vec![median(&regions, part)]).collect()
            })
        })
        .collect()
}

/// How often all processors are interrupted, in a region after some quiet, and in a second of such regions.
fn fences_of(shared: &Shared, sizes: &[usize], seeds: u64) -> Vec<Contender> {
    let row = |&workers: &usize| {
        let shared = Rc::clone(shared);
        let names = ["per region", "per second"].map(|per| format!("{workers} workers, {per}"));
        Contender::several(FENCES, names.to_vec(), move || {
            let Measured { costs, leaf, .. } = measurement(&shared, 3);
            let setup = setup(workers, Policy::default(), costs, 50 * workers, leaf);
            let fences = fences(&setup, seeds);
            let total = median(&regions(&setup, seeds), OF[5]);
            let second = fences.iter().map(|fences| fences * 1e6 / total).collect();
            vec![fences, second]
        })
    };
    sizes.iter().map(row).collect()
}

/// Regions on this machine, and what things cost in them.
fn measurement(shared: &Shared, samples: usize) -> Measured {
    if let Some(measured) = &*shared.borrow() {
        return measured.clone();
    }
    let mut work = Vec::new();
    let mut record = |policy: Policy| {
        let pool = Pool::builder().threads(2).policy(policy).trace(TraceLevel::Phase).build();
        let pool = pool.expect("a pool");
        for sample in 0..samples + 5 {
            let region = Region::uneven(LEAVES, sample as u64 * 1_000);
            thread::sleep(QUIET);
            pool.run(|w| region.raddle(w));
            let alone = region.phases(1, |root| root.run(|| region.alone()));
            work.push(alone.total.as_nanos() as f64);
        }
        pool.trace()
    };
    // Where somebody naps, nobody is woken.
    let asleep = record(Policy { drowsy: Duration::ZERO, ..Policy::default() });
    let wakes = asleep.wakes();
    let trace = record(Policy::default());
    let regions = trace.phases().split_off(5);
    let costs = Costs {
        enter: nanos(&regions, OF[0]),
        leave: nanos(&regions, OF[4]),
        fork: 3,
        look: 20,
        steal: steal_time(&trace),
        fence: fence_in(&trace).unwrap_or_else(fence_time),
        wake: wakes.cost.get(wakes.cost.len() / 2).copied().unwrap_or(0),
        nap: nap_time(),
        latency: latencies(&asleep),
    };
    let leaf = (crate::harness::median(&work) / LEAVES as f64) as u64;
    let measured = Measured { regions, costs, leaf };
    *shared.borrow_mut() = Some(measured.clone());
    measured
}

fn nanos(regions: &[Phases], part: Part) -> u64 {
    (median(regions, part) * 1e3) as u64
}

/// From the beginning of a wake until the sleeper looks for work. The longest tenth is left out: it is of
/// other programs that had the processor, and on a machine of a thousand workers each region would meet it.
fn latencies(trace: &Trace) -> Vec<u64> {
    use EventKind::{Ask, Exec, Search, Steal};
    let wakes = trace.edges().into_iter().filter(|edge| edge.kind == EdgeKind::Wake);
    let mut times: Vec<u64> = wakes
        .filter_map(|edge| {
            let events = &trace.lanes[edge.to.0].events;
            let after = events.iter().skip_while(|event| event.tsc < edge.to.1);
            let looks = after.clone().find(|e| matches!(e.kind, Ask | Exec | Search | Steal))?;
            Some(trace.nanos(looks.tsc) - trace.nanos(edge.from.1))
        })
        .collect();
    times.sort_unstable();
    times.truncate((times.len() * 9).div_ceil(10));
    times
}

/// From the end of a search that finds something until that runs, where nobody had to be asked: the median.
fn steal_time(trace: &Trace) -> u64 {
    let mut times = Vec::new();
    for lane in &trace.lanes {
        for pair in lane.events.windows(2) {
            if pair[0].kind == EventKind::Steal && pair[1].kind == EventKind::Exec {
                times.push((trace.nanos(pair[1].tsc) - trace.nanos(pair[0].tsc)) as f64);
            }
        }
    }
    // The look that found it is about as long as what follows it.
    (2.0 * crate::harness::median(&times)).max(50.0) as u64
}

/// What the heavy fence costs, seen from asks that the owner had to be answered for; none if there were none.
fn fence_in(trace: &Trace) -> Option<u64> {
    let poll = raddle::policy::POLL.as_nanos() as u64;
    let mut times = Vec::new();
    for lane in &trace.lanes {
        for pair in lane.events.windows(2) {
            let took = trace.nanos(pair[1].tsc).saturating_sub(trace.nanos(pair[0].tsc));
            if pair[0].kind == EventKind::Ask && pair[1].kind == EventKind::Steal && took > poll {
                times.push((took - poll) as f64);
            }
        }
    }
    (!times.is_empty()).then(|| crate::harness::median(&times) as u64)
}

/// How long a nap lasts: longer than asked for.
fn nap_time() -> u64 {
    let time = |_| {
        let start = std::time::Instant::now();
        thread::park_timeout(raddle::policy::NAP);
        start.elapsed().as_nanos() as f64
    };
    crate::harness::median(&(0..50).map(time).collect::<Vec<f64>>()) as u64
}

/// What the heavy fence costs while another processor runs this program.
fn fence_time() -> u64 {
    let stop = std::sync::atomic::AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        });
        let times: Vec<f64> = (0..50)
            .map(|_| {
                let start = std::time::Instant::now();
                raddle_sync::fence::heavy();
                start.elapsed().as_nanos() as f64
            })
            .collect();
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        crate::harness::median(&times) as u64
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever reads how far to believe the simulation is told where it does not agree with the study, and what it says of
    /// raddle's own rules: in the figures that come out.
    #[test]
    fn what_is_said_of_the_study_is_what_comes_out() {
        let text = include_str!("../../../crates/raddle-core/src/places.md").replace('\n', " ");
        let (_, said) = text.split_once("How far to believe it").unwrap();
        let (said, _) = said.split_once("![").unwrap();
        // What the study measured, and with which words it is said beside what is simulated.
        let told = [
            (
                "vanilla",
                [
                    ("{} us (the study's phases add up to 345;", 5),
                    ("ramp-up {} (240)", 1),
                    ("full parallelism, {} (20)", 2),
                    ("catch-up {} (15)", 3),
                ]
                .as_slice(),
            ),
            (
                "wakeup-3",
                &[
                    ("with three wakes at a time {} (330;", 5),
                    ("wakes {} (40)", 2),
                    ("with three {} (180)", 1),
                ],
            ),
            (
                "wakeup-4",
                &[("with four {} (330;", 5), ("wakes {} (50)", 2), ("with four {} (170)", 1)],
            ),
            (
                "busy loop",
                &[
                    ("without sleeping {} (90;", 5),
                    ("{} of full parallelism (55)", 2),
                    ("without sleeping {} (10)", 3),
                ],
            ),
            ("as raddle: the caller works", &[("raddle's own rules come to {} us", 5)]),
            ("as raddle, a thief's forks wake nobody", &[("without `spread` they took {}", 5)]),
        ];
        let (mut totals, mut unsaid) = (Vec::new(), Vec::new());
        for ((name, words), (of, setup)) in told.into_iter().zip(setups_of_the_study()) {
            assert_eq!(name, of);
            let regions = regions(&setup, SEEDS);
            for &(words, part) in words {
                // What lies between two figures may be told as either.
                let figure = median(&regions, OF[part]);
                let says = |figure: f64| said.contains(&words.replace("{}", &figure.to_string()));
                let says_it = says(figure.floor()) || says(figure.ceil());
                if !says_it {
                    unsaid.push(format!("{words} with {figure}"));
                }
            }
            totals.push(median(&regions, OF[5]));
        }
        // Raddle's own policy is no worse than the study's.
        let less = format!("{:.0} % less than", 100.0 * (1.0 - totals[4] / totals[0]));
        if !said.contains(&less) {
            unsaid.push(less);
        }
        assert!(unsaid.is_empty(), "it does not say: {unsaid:#?}");
    }
}
