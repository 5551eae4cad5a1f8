//! Two recordings of one program: what got slower.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

use crate::summary::{short, time, wrap};
use crate::trace::Trace;

/// How many rows are shown of each table.
const SHOWN: usize = 10;

impl Trace {
    /// What takes longer in `after` than here, the most first: regions by their names, and, of recordings at level
    /// [`Tasks`](crate::TraceLevel::Tasks), places in the source. Fits 80 columns.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Event, EventKind::*, Lane, Trace};
    ///
    /// let run = |long: u64| {
    ///     let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 99, nanos: 99_000 });
    ///     trace.names.push("sort".into());
    ///     let submit = Event { aux: 1, ..Event::new(0, Submit, 1) };
    ///     trace.lanes.push(Lane::new("", vec![submit, Event::new(0, Exec, 1), Event::new(long, Executed, 1)]));
    ///     trace
    /// };
    /// let told = run(20).diff(&run(30));
    /// assert!(told.contains("sort") && told.contains("1.50x"), "{told}");
    /// ```
    pub fn diff(&self, after: &Trace) -> String {
        let mut out = String::new();
        let regions = |trace: &Trace| {
            let mut sums: BTreeMap<String, (Duration, usize)> = BTreeMap::new();
            for region in trace.phases() {
                let sum =
                    sums.entry(region.name.unwrap_or_else(|| "(unnamed)".into())).or_default();
                *sum = (sum.0 + region.total, sum.1 + 1);
            }
            sums.into_iter().map(|(name, (all, count))| (name, all / count.max(1) as u32)).collect()
        };
        table(&mut out, "region, on average", regions(self), regions(after));
        let phases = |trace: &Trace| {
            let mut sums: BTreeMap<String, Duration> = BTreeMap::new();
            for region in trace.phases() {
                for (name, spent) in region.parts() {
                    *sums.entry(name.into()).or_default() += spent;
                }
            }
            sums
        };
        table(&mut out, "phase, of all regions", phases(self), phases(after));
        let names = |trace: &Trace| {
            trace.time_by_name().into_iter().map(|named| (named.name, named.own)).collect()
        };
        table(&mut out, "tasks, by place", names(self), names(after));
        match (self.scale(&[]), after.scale(&[])) {
            (Ok(a), Ok(b)) => {
                let whole = |scale: &crate::Scale| {
                    [("work", scale.work), ("span", scale.span)]
                        .map(|(n, t)| (n.to_owned(), t))
                        .into()
                };
                table(&mut out, "the run", whole(&a), whole(&b));
            }
            (Err(why), _) | (_, Err(why)) => {
                out.push('\n');
                wrap(&mut out, &format!("Work and span are not compared: {why}."));
            }
        }
        out
    }
}

fn table(
    out: &mut String,
    title: &str,
    before: BTreeMap<String, Duration>,
    after: BTreeMap<String, Duration>,
) {
    let mut rows: Vec<(&str, Duration, Duration)> = Vec::new();
    for name in before.keys().chain(after.keys().filter(|name| !before.contains_key(*name))) {
        let of = |times: &BTreeMap<String, Duration>| times.get(name).copied().unwrap_or_default();
        rows.push((name, of(&before), of(&after)));
    }
    rows.retain(|row| !(row.1.is_zero() && row.2.is_zero()));
    rows.sort_by_key(|row| std::cmp::Reverse((row.2.saturating_sub(row.1), row.1.abs_diff(row.2))));
    if !out.is_empty() {
        out.push('\n');
    }
    let _ =
        writeln!(out, "{title:<40} {:>10} {:>10} {:>10} {:>6}", "before", "after", "more", "ratio");
    for (name, before, after) in rows.iter().take(SHOWN) {
        let more = match after.checked_sub(*before) {
            Some(more) => format!("+{}", time(more)),
            None => format!("-{}", time(*before - *after)),
        };
        let ratio = after.as_secs_f64() / before.as_secs_f64();
        let ratio = match ratio {
            ratio if ratio.is_infinite() => "new".into(),
            ratio if ratio < 99.5 => format!("{ratio:.2}x"),
            _ => ">99x".into(),
        };
        let _ = writeln!(
            out,
            "{:<40} {:>10} {:>10} {more:>10} {ratio:>6}",
            short(name, 40),
            time(*before),
            time(*after)
        );
    }
    if rows.len() > SHOWN {
        let _ = writeln!(out, "  and {} more", rows.len() - SHOWN);
    }
}
