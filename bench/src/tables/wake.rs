//! Where the time of a short region goes: the five phases of the wake-up study (Shipilev, 2012), for
//! each way to wake.

use std::{thread, time::Duration};

use raddle::{
    Pool,
    policy::{Policy, Who},
    trace::Phases,
};

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers,
    regions::Region,
    report::{Budget, Limit},
    tables::count,
};

/// A region is a millisecond of work.
pub(crate) const LEAVES: usize = 100;
const QUIET: Duration = Duration::from_millis(3);
const TOTAL: &str = "total";

#[derive(Clone, Copy, Debug, PartialEq)]
enum Runner {
    Raddle(Policy),
    Rayon,
    Alone,
}

#[derive(Clone, Copy)]
struct Mode {
    workers: usize,
    /// The region begins on a worker, not on a thread from outside.
    inside: bool,
    cold: bool,
    samples: usize,
}

impl Mode {
    fn section(self) -> String {
        let place = if self.inside { "inside" } else { "outside" };
        let heat = if self.cold { "cold" } else { "hot" };
        format!("from {place}, {heat}, {}", count(self.workers, "worker"))
    }
}

pub(crate) fn table(settings: &Settings) -> Table {
    let mut modes = Vec::new();
    for workers in [2, 8] {
        for inside in [false, true] {
            for cold in [true, false] {
                modes.push(Mode { workers, inside, cold, samples: settings.size(30, 2) });
            }
        }
    }
    let group = |mode: Mode| Group {
        unit: "us",
        references: &[],
        ceiling: None,
        contenders: variants(mode).map(|(name, runner)| contender(mode, &name, runner)).collect(),
    };
    let budget = |&mode: &Mode| {
        let id = |name: &str| (mode.section(), format!("{name}: {TOTAL}"));
        let ratio = |a, b, what: &str, limit| {
            let what = format!("{what}, {}", mode.section());
            Budget::ratio(what, id(a), id(b), limit).by_median().needs_cores(2)
        };
        let cold = mode.cold && !mode.inside && mode.workers == 2;
        let faster = if cold { Limit::AtLeast(1.5) } else { Limit::None };
        [
            ratio("raddle", "rayon", "raddle / rayon", Limit::None),
            ratio("one thread", "raddle", "one thread / raddle", faster),
        ]
    };
    Table {
        about: "us per phase of a region of 1 ms in leaves of 10 us; cold: after 3 ms of quiet",
        rounds: 2,
        budgets: modes.iter().flat_map(budget).collect(),
        groups: modes.into_iter().map(group).collect(),
    }
}

/// The ways to wake, and peers. In small pools the fan-out changes nothing, in large ones spinning is not
/// what matters.
fn variants(mode: Mode) -> impl Iterator<Item = (String, Runner)> {
    let standard = Policy::default();
    let mut variants = vec![
        ("one thread".to_owned(), Runner::Alone),
        ("raddle".to_owned(), Runner::Raddle(standard)),
    ];
    if mode.workers > raddle::policy::SMALL {
        for fan_out in [1, 2, 3, 4] {
            if fan_out != standard.fan_out {
                let policy = Policy { fan_out, ..standard };
                variants.push((format!("raddle, fan-out {fan_out}"), Runner::Raddle(policy)));
            }
        }
        let policy = Policy { who: Who::Woken, ..standard };
        variants.push(("raddle, the woken wake".to_owned(), Runner::Raddle(policy)));
    } else {
        for spin in [0, 400] {
            let policy = Policy { spin, ..standard };
            variants.push((format!("raddle, spin {spin} %"), Runner::Raddle(policy)));
        }
    }
    variants.push(("rayon".to_owned(), Runner::Rayon));
    variants.into_iter()
}

fn contender(mode: Mode, name: &str, runner: Runner) -> Contender {
    let parts = ["first hand-off", "ramp-up", "full", "catch-up", "result", "unattributed", TOTAL];
    let names = parts.map(|part| format!("{name}: {part}"));
    Contender::several(mode.section(), names.into(), move || {
        let phases = measure(mode, runner);
        (0..parts.len()).map(|part| phases.iter().map(|p| micros(p, part)).collect()).collect()
    })
}

fn micros(phases: &Phases, part: usize) -> f64 {
    let time = phases.parts().get(part).map_or(phases.total, |part| part.1);
    time.as_nanos() as f64 / 1e3
}

fn measure(mode: Mode, runner: Runner) -> Vec<Phases> {
    let quiet = || {
        if mode.cold {
            thread::sleep(QUIET);
        }
    };
    let samples = |one: &mut dyn FnMut() -> Phases| -> Vec<Phases> {
        (0..5).for_each(|_| _ = one());
        (0..mode.samples).map(|_| one()).collect()
    };
    match runner {
        Runner::Alone => samples(&mut || {
            let region = Region::new(LEAVES);
            quiet();
            region.phases(1, |root| root.run(|| region.alone()))
        }),
        Runner::Raddle(policy) => {
            let pool = raddle_pool(mode.workers, policy);
            samples(&mut || {
                let region = Region::new(LEAVES);
                if mode.inside {
                    return pool.run(|w| {
                        quiet();
                        region.phases(mode.workers, |root| root.run(|| region.raddle(w)))
                    });
                }
                quiet();
                region.phases(mode.workers, |root| pool.run(|w| root.run(|| region.raddle(w))))
            })
        }
        Runner::Rayon => {
            let pool = peers::rayon_pool(mode.workers);
            samples(&mut || {
                let region = Region::new(LEAVES);
                if mode.inside {
                    return pool.install(|| {
                        quiet();
                        region.phases(mode.workers, |root| root.run(|| region.rayon()))
                    });
                }
                quiet();
                region.phases(mode.workers, |root| pool.install(|| root.run(|| region.rayon())))
            })
        }
    }
}

fn raddle_pool(workers: usize, policy: Policy) -> Pool {
    Pool::builder().threads(workers).policy(policy).build().expect("a pool")
}
