//! Ratios and budgets, as text and as JSON.

use std::fmt;

use serde::Serialize;
use serde_json::json;

use crate::{
    args::Settings,
    harness::{Measured, Memory, Outcome, Row},
    machine::Machine,
};

/// Which row: section and name.
pub(crate) type RowId = (String, String);

/// A bound on a figure.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Limit {
    AtMost(f64),
    AtLeast(f64),
    Below(f64),
    /// Shown, never judged.
    None,
}

/// Which of the two figures of a row is judged: the minimum where other programs can only slow the
/// work down, the median where single samples are short and luck counts.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Stat {
    Min,
    Median,
    /// Bytes per operation, which don't vary.
    Bytes,
    /// Allocations per operation, likewise.
    Allocations,
}

/// A figure to be kept within a limit: a row, or a row divided by another.
#[derive(Clone, Debug)]
pub(crate) struct Budget {
    what: String,
    of: RowId,
    to: Option<RowId>,
    limit: Limit,
    stat: Stat,
    cores: usize,
}

impl Budget {
    /// The row `of` divided by the row `to`, by their minima.
    pub(crate) fn ratio(what: impl Into<String>, of: RowId, to: RowId, limit: Limit) -> Self {
        Budget { what: what.into(), of, to: Some(to), limit, stat: Stat::Min, cores: 1 }
    }

    /// The row itself, by its minimum.
    pub(crate) fn value(what: impl Into<String>, of: RowId, limit: Limit) -> Self {
        Budget { what: what.into(), of, to: None, limit, stat: Stat::Min, cores: 1 }
    }

    /// The bytes that an operation of the row takes from the heap.
    pub(crate) fn bytes(what: impl Into<String>, of: RowId, limit: Limit) -> Self {
        Budget { stat: Stat::Bytes, ..Self::value(what, of, limit) }
    }

    /// How often an operation of the row asks the allocator.
    pub(crate) fn allocations(what: impl Into<String>, of: RowId, limit: Limit) -> Self {
        Budget { stat: Stat::Allocations, ..Self::value(what, of, limit) }
    }

    /// The sections whose rows it compares.
    pub(crate) fn sections(&self) -> impl Iterator<Item = &str> {
        [Some(&self.of), self.to.as_ref()]
            .into_iter()
            .flatten()
            .map(|(section, _)| section.as_str())
    }

    /// Judges by the medians.
    pub(crate) fn by_median(self) -> Self {
        Budget { stat: Stat::Median, ..self }
    }

    /// Judges only on machines with this many cores.
    pub(crate) fn needs_cores(self, cores: usize) -> Self {
        Budget { cores, ..self }
    }

    fn judge(&self, rows: &[&Row], settings: &Settings) -> Judgement {
        let find = |(section, name): &RowId| {
            rows.iter()
                .find(|row| row.section == *section && row.name == *name)
                .unwrap_or_else(|| panic!("no row {name:?} in section {section:?}"))
        };
        let of = find(&self.of);
        let to = self.to.as_ref().map(find);
        let memory = |f: fn(&Memory) -> Option<f64>| of.memory.as_ref().and_then(f);
        let (min, median) = match (self.stat, to) {
            (Stat::Bytes, _) => pair(memory(|m| Some(m.bytes))),
            (Stat::Allocations, _) => pair(memory(|m| m.allocations)),
            (_, Some(to)) => ratios(of, to),
            (_, None) => (of.min, of.median),
        };
        let figure = if self.stat == Stat::Median { median } else { min };
        let met = match self.limit {
            Limit::AtMost(limit) => figure <= limit,
            Limit::AtLeast(limit) => figure >= limit,
            Limit::Below(limit) => figure < limit,
            Limit::None => true,
        };
        // A peer that is not there is no reason to blame anybody.
        let comparable = to.is_none_or(|to| !to.rounds.is_empty());
        let judged = self.limit != Limit::None
            && comparable
            && !settings.smoke
            && settings.cores >= self.cores;
        let verdict = match (judged, met) {
            (false, _) => Verdict::NotJudged,
            (true, true) => Verdict::Met,
            (true, false) => Verdict::Missed,
        };
        let what = self.what.clone();
        Judgement { what, min, median, judged_by: self.stat, limit: self.limit, verdict }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
enum Verdict {
    Met,
    Missed,
    NotJudged,
}

#[derive(Debug, Serialize)]
struct Judgement {
    what: String,
    #[serde(serialize_with = "finite")]
    min: f64,
    #[serde(serialize_with = "finite")]
    median: f64,
    judged_by: Stat,
    limit: Limit,
    verdict: Verdict,
}

/// JSON knows neither infinity nor NaN: null.
fn finite<S: serde::Serializer>(value: &f64, to: S) -> Result<S::Ok, S::Error> {
    value.is_finite().then_some(*value).serialize(to)
}

/// A row divided by a reference row.
#[derive(Debug, Serialize)]
struct Ratio {
    section: String,
    row: String,
    reference: &'static str,
    #[serde(serialize_with = "finite")]
    min: f64,
    #[serde(serialize_with = "finite")]
    median: f64,
}

/// The same figure for both columns; NaN if there is none.
fn pair(figure: Option<f64>) -> (f64, f64) {
    let figure = figure.unwrap_or(f64::NAN);
    (figure, figure)
}

/// `of / to`, of the minima and of the medians.
fn ratios(of: &Row, to: &Row) -> (f64, f64) {
    (of.min / to.min, of.median / to.median)
}

/// A table with its verdicts.
#[derive(Debug)]
pub(crate) struct Report {
    name: &'static str,
    about: &'static str,
    groups: Vec<Measured>,
    judgements: Vec<Judgement>,
    others: Option<f64>,
}

impl Report {
    pub(crate) fn new(name: &'static str, outcome: Outcome, settings: &Settings) -> Self {
        let rows: Vec<&Row> = outcome.groups.iter().flat_map(|group| &group.rows).collect();
        let judgements = outcome.budgets.iter().map(|b| b.judge(&rows, settings)).collect();
        let Outcome { about, groups, others, .. } = outcome;
        Report { name, about, groups, judgements, others }
    }
}

impl Measured {
    /// Sections in the order of their first rows.
    fn sections(&self) -> Vec<&str> {
        let mut sections: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !sections.contains(&row.section.as_str()) {
                sections.push(&row.section);
            }
        }
        sections
    }

    fn rows_of<'a>(&'a self, section: &'a str) -> impl Iterator<Item = &'a Row> {
        self.rows.iter().filter(move |row| row.section == section)
    }

    /// The reference rows that this section has.
    fn references_of<'a>(&'a self, section: &'a str) -> Vec<(&'static str, &'a Row)> {
        let find = |name| Some((name, self.rows_of(section).find(|row| row.name == name)?));
        self.references.iter().filter_map(|name| find(*name)).collect()
    }

    fn ratios(&self) -> Vec<Ratio> {
        let mut all = Vec::new();
        for section in self.sections() {
            for row in self.rows_of(section) {
                for (name, reference) in self.references_of(section) {
                    let (min, median) = ratios(row, reference);
                    let (section, row) = (section.to_owned(), row.name.clone());
                    all.push(Ratio { section, row, reference: name, min, median });
                }
            }
        }
        all
    }
}

/// All of it as one JSON object.
pub(crate) fn json(machine: &Machine, settings: &Settings, reports: &[Report]) -> String {
    let tables: Vec<_> = reports
        .iter()
        .map(|report| {
            let rows: Vec<&Row> = report.groups.iter().flat_map(|group| &group.rows).collect();
            let ratios: Vec<Ratio> = report.groups.iter().flat_map(Measured::ratios).collect();
            json!({
                "name": report.name,
                "about": report.about,
                "processors_used_by_others": report.others,
                "rows": rows,
                "ratios": ratios,
                "budgets": report.judgements,
            })
        })
        .collect();
    let whole = json!({ "machine": machine, "smoke": settings.smoke, "tables": tables });
    format!("{whole:#}")
}

/// From so many processors on that others use, figures are doubtful.
pub(crate) const BUSY: f64 = 0.1;

const NAME: usize = 46;
const NUMBER: usize = 9;

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "== {}: {}", self.name, self.about)?;
        if let Some(others) = self.others.filter(|others| *others > BUSY) {
            writeln!(
                f,
                "other programs used {others:.2} processors: read ratios of the minima, not medians"
            )?;
        }
        for group in &self.groups {
            for section in group.sections() {
                write_section(f, group, section)?;
            }
        }
        if !self.judgements.is_empty() {
            writeln!(f, "\nbudgets {:>w$} {:>NUMBER$}", "by min", "by median", w = NAME + NUMBER)?;
        }
        self.judgements.iter().try_for_each(|judgement| write!(f, "{judgement}"))
    }
}

fn write_section(f: &mut fmt::Formatter<'_>, group: &Measured, section: &str) -> fmt::Result {
    let references = group.references_of(section);
    let unit = group.rows.first().map_or("", |row| row.unit);
    write!(f, "\n{:NAME$}", format!("{section} [{unit}]"))?;
    write!(f, "{:>NUMBER$}{:>NUMBER$}", "min", "median")?;
    for (name, _) in &references {
        write!(f, "{:>NUMBER$}{:>NUMBER$}", format!("/{name}"), "median")?;
    }
    let tails = group.rows_of(section).any(|row| row.p99.is_some());
    if tails {
        write!(f, "{:>NUMBER$}", "p99")?;
    }
    let memory = |of: fn(&Memory) -> bool| {
        group.rows_of(section).any(|row| row.memory.as_ref().is_some_and(of))
    };
    // Of a thread's first time, and of later ones: only where that differs.
    let columns = match (memory(|_| true), memory(|m| m.heap.or(m.warm).is_some())) {
        (_, true) => 4,
        (true, false) => 2,
        (false, false) => 0,
    };
    for column in &["B", "allocs", "heap B", "warm B"][..columns] {
        write!(f, "{column:>NUMBER$}")?;
    }
    writeln!(f)?;
    for row in group.rows_of(section) {
        let figure = |value: f64| match group.ceiling {
            Some(ceiling) if value >= ceiling => format!(">{}", number(ceiling)),
            _ => number(value),
        };
        write!(f, "  {:w$}", row.name, w = NAME - 2)?;
        write!(f, "{:>NUMBER$}{:>NUMBER$}", figure(row.min), figure(row.median))?;
        for (_, reference) in &references {
            let (min, median) = ratios(row, reference);
            write!(f, "{:>NUMBER$}{:>NUMBER$}", number(min), number(median))?;
        }
        if tails {
            write!(f, "{:>NUMBER$}", row.p99.map_or("-".into(), number))?;
        }
        if let Some(Memory { bytes, allocations, heap, warm }) = row.memory {
            for figure in &[Some(bytes), allocations, heap, warm][..columns] {
                write!(f, "{:>NUMBER$}", figure.map_or("-".into(), number))?;
            }
        }
        if let Some(note) = row.note {
            write!(f, "  ({note})")?;
        }
        writeln!(f)?;
    }
    Ok(())
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match self.verdict {
            Verdict::Met => "met",
            Verdict::Missed => "MISSED",
            Verdict::NotJudged => "",
        };
        let limit = match self.limit {
            Limit::AtMost(limit) => format!("<= {}", number(limit)),
            Limit::AtLeast(limit) => format!(">= {}", number(limit)),
            Limit::Below(limit) => format!("< {}", number(limit)),
            Limit::None => String::new(),
        };
        // The figure that counts is marked.
        let mark = |stat| {
            let by = if self.judged_by == Stat::Median { Stat::Median } else { Stat::Min };
            if by == stat && self.limit != Limit::None { '*' } else { ' ' }
        };
        let line = format!(
            "  {verdict:6}  {:w$}{:>NUMBER$}{}{:>NUMBER$}{} {limit}",
            self.what,
            number(self.min),
            mark(Stat::Min),
            number(self.median),
            mark(Stat::Median),
            w = NAME,
        );
        writeln!(f, "{}", line.trim_end())
    }
}

/// About three significant digits, aligned well enough.
fn number(value: f64) -> String {
    match value.abs() {
        _ if !value.is_finite() => "-".into(),
        v if v >= 1000.0 => format!("{value:.0}"),
        v if v >= 100.0 => format!("{value:.1}"),
        v if v >= 10.0 || v == 0.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests;
