//! Rounds of measurements, and their statistics.
//!
//! The rows of a group are measured in turn, one measurement each per round, so that a slow minute
//! of the machine slows all of them. The order is reversed in every other round and rotated after
//! it. Each measurement makes its own pool and drops it; the next waits until the threads of the
//! last are gone.

use std::{
    io::{IsTerminal, Write},
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{args::Settings, machine, report::Budget};

/// A table: some groups of rows, and the budgets that concern them.
pub(crate) struct Table {
    /// One line on what the table shows.
    pub(crate) about: &'static str,
    /// Rounds, unless the command line says otherwise.
    pub(crate) rounds: usize,
    pub(crate) groups: Vec<Group>,
    pub(crate) budgets: Vec<Budget>,
}

/// Rows whose rounds are interleaved.
pub(crate) struct Group {
    pub(crate) unit: &'static str,
    /// Rows that the others of their section are divided by.
    pub(crate) references: &'static [&'static str],
    /// From here on a figure says no more than "not before the end".
    pub(crate) ceiling: Option<f64>,
    pub(crate) contenders: Vec<Contender>,
}

type Measure = Box<dyn FnMut() -> Vec<Figures>>;

/// What one measurement says of one row.
#[derive(Clone, Debug, Default)]
pub(crate) struct Figures {
    /// None if there was nothing to measure: a peer is missing, or not measured in every round.
    pub(crate) samples: Vec<f64>,
    pub(crate) memory: Option<Memory>,
    /// What one must know to read the figure right.
    pub(crate) note: Option<&'static str>,
}

/// What one operation takes from the heap.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Serialize)]
pub(crate) struct Memory {
    /// Where something is kept for the next time, as raddle keeps nodes: the first time on a thread.
    pub(crate) bytes: f64,
    /// None where the runtime doesn't tell.
    pub(crate) allocations: Option<f64>,
    /// What glibc takes for them: blocks with their headers, rounded up. None where it is not asked.
    #[serde(default)]
    pub(crate) heap: Option<f64>,
    /// Bytes when what is kept is there. None where nothing is known to be kept.
    #[serde(default)]
    pub(crate) warm: Option<f64>,
}

impl Memory {
    /// Of a runtime that says no more.
    pub(crate) fn of_bytes(bytes: f64) -> Memory {
        Memory { bytes, allocations: None, heap: None, warm: None }
    }
}

impl From<Vec<f64>> for Figures {
    fn from(samples: Vec<f64>) -> Self {
        Figures { samples, ..Figures::default() }
    }
}

/// What is measured in turn with others. Mostly one row, but one measurement may fill several.
pub(crate) struct Contender {
    section: String,
    names: Vec<String>,
    measure: Measure,
}

impl Contender {
    /// One row with one figure a round.
    pub(crate) fn new(
        section: impl Into<String>,
        name: impl Into<String>,
        mut measure: impl FnMut() -> f64 + 'static,
    ) -> Self {
        Self::sampled(section, name, move || vec![measure()])
    }

    /// One row with several samples a round.
    pub(crate) fn sampled(
        section: impl Into<String>,
        name: impl Into<String>,
        mut measure: impl FnMut() -> Vec<f64> + 'static,
    ) -> Self {
        Self::several(section, vec![name.into()], move || vec![measure()])
    }

    /// Several rows, each with several samples a round.
    pub(crate) fn several(
        section: impl Into<String>,
        names: Vec<String>,
        mut measure: impl FnMut() -> Vec<Vec<f64>> + 'static,
    ) -> Self {
        let measure = Box::new(move || measure().into_iter().map(Figures::from).collect());
        Contender { section: section.into(), names, measure }
    }

    /// One row with what it takes from the heap.
    pub(crate) fn with_memory(
        section: impl Into<String>,
        name: impl Into<String>,
        mut measure: impl FnMut() -> Figures + 'static,
    ) -> Self {
        let measure = Box::new(move || vec![measure()]);
        Contender { section: section.into(), names: vec![name.into()], measure }
    }
}

/// The figures of one row.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    pub(crate) section: String,
    pub(crate) name: String,
    pub(crate) unit: &'static str,
    /// Over all samples of all rounds.
    pub(crate) min: f64,
    pub(crate) median: f64,
    /// What one sample in a hundred exceeds; none of fewer than a hundred samples.
    pub(crate) p99: Option<f64>,
    /// The median of each round, in order.
    pub(crate) rounds: Vec<f64>,
    pub(crate) memory: Option<Memory>,
    pub(crate) note: Option<&'static str>,
}

impl Table {
    /// Keeps the sections whose names contain the text, and the budgets that need no other.
    pub(crate) fn keep(&mut self, text: &str) {
        for group in &mut self.groups {
            group.contenders.retain(|contender| contender.section.contains(text));
        }
        self.groups.retain(|group| !group.contenders.is_empty());
        self.budgets.retain(|budget| budget.sections().all(|section| section.contains(text)));
    }
}

/// The figures of one group.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) references: &'static [&'static str],
    pub(crate) ceiling: Option<f64>,
    pub(crate) rows: Vec<Row>,
}

/// The figures of one table.
#[derive(Debug)]
pub(crate) struct Outcome {
    pub(crate) about: &'static str,
    pub(crate) groups: Vec<Measured>,
    pub(crate) budgets: Vec<Budget>,
    /// How many processors other programs used meanwhile, on average.
    pub(crate) others: Option<f64>,
}

/// Measures all groups of a table, each with an equal share of the time that is left.
pub(crate) fn run(table: Table, settings: &Settings) -> Outcome {
    let rounds = settings.rounds.unwrap_or(settings.size(table.rounds, 1));
    let start = Instant::now();
    let watch = machine::Watch::start();
    let count = table.groups.len();
    let mut groups = Vec::new();
    for (i, group) in table.groups.into_iter().enumerate() {
        let left = settings.max.saturating_sub(start.elapsed());
        groups.push(run_group(group, rounds, left / (count - i) as u32));
    }
    Outcome { about: table.about, groups, budgets: table.budgets, others: watch.others() }
}

fn run_group(mut group: Group, rounds: usize, time: Duration) -> Measured {
    let start = Instant::now();
    let count = group.contenders.len();
    // figures[contender][row][round]: the figures of that round
    let mut measured: Vec<Vec<Vec<Figures>>> =
        group.contenders.iter().map(|c| vec![Vec::new(); c.names.len()]).collect();
    for round in 0..rounds {
        if round > 0 && start.elapsed() > time {
            break;
        }
        for (turn, i) in order(count, round).enumerate() {
            let contender = &mut group.contenders[i];
            progress(&format!("round {}/{rounds}, {}/{count}", round + 1, turn + 1));
            settle();
            let figures = (contender.measure)();
            assert_eq!(figures.len(), contender.names.len(), "a figure for each row");
            for (row, figures) in measured[i].iter_mut().zip(figures) {
                row.push(figures);
            }
        }
    }
    progress("");
    let mut rows = Vec::new();
    for (contender, measured) in group.contenders.into_iter().zip(measured) {
        for (name, rounds) in contender.names.into_iter().zip(measured) {
            rows.push(row(contender.section.clone(), name, group.unit, &rounds));
        }
    }
    Measured { references: group.references, ceiling: group.ceiling, rows }
}

fn row(section: String, name: String, unit: &'static str, rounds: &[Figures]) -> Row {
    let measured = || rounds.iter().filter(|figures| !figures.samples.is_empty());
    let all: Vec<f64> = measured().flat_map(|figures| &figures.samples).copied().collect();
    Row {
        section,
        name,
        unit,
        min: minimum(&all),
        median: median(&all),
        p99: p99(&all),
        rounds: measured().map(|figures| median(&figures.samples)).collect(),
        memory: rounds.iter().rev().find_map(|figures| figures.memory),
        note: rounds.iter().find_map(|figures| figures.note),
    }
}

/// The order of `count` contenders in a round.
fn order(count: usize, round: usize) -> impl Iterator<Item = usize> {
    (0..count).map(move |turn| {
        let turn = if round.is_multiple_of(2) { turn } else { count - 1 - turn };
        (turn + round / 2) % count
    })
}

/// Waits until the threads of dropped pools are gone: some pools don't join theirs.
fn settle() {
    let start = Instant::now();
    while machine::thread_count().is_none_or(|count| count > 1) {
        if start.elapsed() > Duration::from_millis(20) {
            break;
        }
        thread::sleep(Duration::from_millis(1));
    }
}

/// Shows on a terminal what goes on.
fn progress(text: &str) {
    let mut err = std::io::stderr();
    if err.is_terminal() {
        // Nothing is lost with it.
        let _ = write!(err, "\r{text:<40}\r");
    }
}

/// The least of the samples; NaN if there are none.
pub(crate) fn minimum(samples: &[f64]) -> f64 {
    samples.iter().copied().fold(f64::NAN, f64::min)
}

/// The middle sample, or the mean of the two in the middle; NaN if there are none.
pub(crate) fn median(samples: &[f64]) -> f64 {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    match sorted.len() {
        0 => f64::NAN,
        n if n % 2 == 1 => sorted[n / 2],
        n => (sorted[n / 2 - 1] + sorted[n / 2]) / 2.0,
    }
}

/// What one sample in a hundred exceeds, if there are a hundred.
fn p99(samples: &[f64]) -> Option<f64> {
    let mut sorted = samples.to_vec();
    sorted.sort_by(f64::total_cmp);
    (sorted.len() >= 100).then(|| sorted[sorted.len() * 99 / 100])
}

#[cfg(test)]
mod tests {
    use std::{cell::RefCell, rc::Rc};

    use super::*;
    use crate::report::Limit;

    #[test]
    fn medians() {
        assert_eq!(median(&[3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(&[7.0]), 7.0);
        assert!(median(&[]).is_nan());
    }

    #[test]
    fn one_in_a_hundred() {
        let samples: Vec<f64> = (0..200).rev().map(f64::from).collect();
        assert_eq!(p99(&samples), Some(198.0));
        assert_eq!(p99(&samples[..99]), None);
    }

    #[test]
    fn minima() {
        assert_eq!(minimum(&[3.0, 1.0, 2.0]), 1.0);
        assert!(minimum(&[]).is_nan());
    }

    #[test]
    fn rows_pool_their_samples() {
        let memory = Memory { allocations: Some(2.0), ..Memory::of_bytes(40.0) };
        let rounds = [
            vec![5.0, 1.0, 2.0].into(),
            Figures { samples: vec![9.0], memory: Some(memory), note: Some("so") },
            Figures::default(),
        ];
        let row = row("s".into(), "n".into(), "us", &rounds);
        assert_eq!((row.min, row.median), (1.0, 3.5));
        assert_eq!(row.rounds, [2.0, 9.0]);
        assert_eq!((row.memory, row.note, row.p99), (Some(memory), Some("so"), None));
    }

    #[test]
    fn every_round_has_everyone_once_in_another_order() {
        for count in 1..6 {
            for round in 0..12 {
                let mut seen: Vec<usize> = order(count, round).collect();
                seen.sort_unstable();
                assert!(seen.into_iter().eq(0..count));
            }
        }
        assert!(order(3, 0).eq([0, 1, 2]));
        assert!(order(3, 1).eq([2, 1, 0]));
        assert!(order(3, 2).eq([1, 2, 0]));
        assert!(order(3, 3).eq([0, 2, 1]));
    }

    #[test]
    fn sections_are_kept_with_their_budgets() {
        let group = |sections: &[&str]| Group {
            unit: "ns",
            references: &[],
            ceiling: None,
            contenders: sections.iter().map(|s| Contender::new(*s, "row", || 1.0)).collect(),
        };
        let budget = |of: &str, to: &str| {
            let id = |section: &str| (section.to_owned(), "row".to_owned());
            Budget::ratio("b", id(of), id(to), Limit::None)
        };
        let mut table = Table {
            about: "",
            rounds: 1,
            groups: vec![group(&["map", "mapN"]), group(&["set"])],
            budgets: vec![budget("map", "mapN"), budget("map", "set"), budget("set", "set")],
        };
        table.keep("map");
        assert_eq!(table.groups.len(), 1);
        assert_eq!(table.groups[0].contenders.len(), 2);
        assert_eq!(table.budgets.len(), 1);
        table.keep("");
        assert_eq!(table.groups.len(), 1);
    }

    #[test]
    fn groups_interleave_and_stop_in_time() {
        let log = Rc::new(RefCell::new(Vec::new()));
        let contender = |name: &'static str, pause| {
            let log = Rc::clone(&log);
            Contender::new("s", name, move || {
                log.borrow_mut().push(name);
                thread::sleep(pause);
                1.0
            })
        };
        let group = |pause| Group {
            unit: "ns",
            references: &[],
            ceiling: None,
            contenders: vec![contender("a", pause), contender("b", pause)],
        };
        let done = run_group(group(Duration::ZERO), 2, Duration::from_secs(60));
        assert_eq!(*log.borrow(), ["a", "b", "b", "a"]);
        assert!(done.rows.iter().all(|row| row.rounds == [1.0, 1.0]));

        let done = run_group(group(Duration::from_millis(5)), 1000, Duration::from_millis(1));
        assert!(done.rows.iter().all(|row| row.rounds.len() == 1));
    }
}
