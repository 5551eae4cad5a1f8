//! Two recordings of one program: what got slower.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::time::Duration;

use crate::scale::Refusal;
use crate::summary::{short, time, wrap};
use crate::trace::Trace;

/// How many rows are shown of each table.
const SHOWN: usize = 10;

/// How long what has a name took.
type Named = BTreeMap<String, Duration>;

/// What of a recording is compared with another's: a few names and times, whatever the recording's size. So one recording
/// can be let go before the other is read. See [`Trace::profile`].
#[derive(Clone, Debug, PartialEq)]
pub struct Profile {
    regions: Named,
    phases: Named,
    places: Named,
    run: Result<Named, Refusal>,
}

/// What two recordings differ in: see [`Profile::diff`]. As text it fits 80 columns, and shows ten rows of each table.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Diff {
    /// Regions by their names, on average.
    pub regions: Vec<Change>,
    /// The phases of all regions together.
    pub phases: Vec<Change>,
    /// Tasks by their places in the source, and regions' own time.
    pub places: Vec<Change>,
    /// Work and span, or why they are not compared.
    pub run: Result<Vec<Change>, Refusal>,
}

/// How long something took before, and after. In each list what takes longer comes first, by how much longer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// A region's name, a phase, a place in the source, `work` or `span`.
    pub name: String,
    /// How long it took before; zero if it is new.
    pub before: Duration,
    /// How long it takes after; zero if it is gone.
    pub after: Duration,
}

impl Change {
    /// How many times as long it takes; nothing if it is new.
    ///
    /// ```
    /// use raddle_trace::Change;
    /// use std::time::Duration;
    ///
    /// let [before, after] = [20, 30].map(Duration::from_micros);
    /// assert_eq!(Change { name: "sort".into(), before, after }.ratio(), Some(1.5));
    /// ```
    #[inline]
    pub fn ratio(&self) -> Option<f64> {
        (!self.before.is_zero()).then(|| self.after.as_secs_f64() / self.before.as_secs_f64())
    }

    /// How much longer it takes, in nanoseconds; negative if it is faster.
    #[inline]
    pub fn more_nanos(&self) -> i128 {
        let [before, after] = [self.before, self.after].map(|time| time.as_nanos() as i128);
        after - before
    }
}

impl Trace {
    /// What takes longer in `after` than here, the most first: regions by their names, and, of recordings at level
    /// [`Tasks`](crate::TraceLevel::Tasks), places in the source. Fits 80 columns. [`Trace::profile`] has it as data.
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
    #[inline]
    pub fn diff(&self, after: &Trace) -> String {
        self.profile().diff(&after.profile()).to_string()
    }

    /// What of this recording is compared with another.
    ///
    /// ```
    /// use raddle_trace::{ClockPair, Event, EventKind::*, Lane, Trace};
    ///
    /// let profile = |long: u64| {
    ///     let mut trace = Trace::new(ClockPair { tsc: 0, nanos: 0 }, ClockPair { tsc: 99, nanos: 99_000 });
    ///     trace.lanes.push(Lane::new("", vec![Event::new(0, Submit, 1), Event::new(0, Exec, 1), Event::new(long, Executed, 1)]));
    ///     trace.profile()
    /// };
    /// let diff = profile(20).diff(&profile(30));
    /// assert_eq!(diff.regions[0].more_nanos(), 10_000);
    /// ```
    #[inline]
    pub fn profile(&self) -> Profile {
        let mut sums: BTreeMap<String, (Duration, usize)> = BTreeMap::new();
        let mut phases = Named::new();
        for region in self.regions() {
            for (name, spent) in region.parts() {
                *phases.entry(name.into()).or_default() += spent;
            }
            let sum = sums.entry(region.name.unwrap_or_else(|| "(unnamed)".into())).or_default();
            *sum = (sum.0 + region.total, sum.1 + 1);
        }
        let regions =
            sums.into_iter().map(|(name, (all, count))| (name, all / count.max(1) as u32));
        let mut places = Named::new();
        for named in self.time_by_name() {
            *places.entry(named.name).or_default() += named.own;
        }
        let run = self.scale(&[]).map(|scale| {
            [("work", scale.work), ("span", scale.span)].map(|(n, t)| (n.to_owned(), t)).into()
        });
        Profile { regions: regions.collect(), phases, places, run }
    }
}

impl Profile {
    /// What differs in `after`.
    #[inline]
    pub fn diff(&self, after: &Profile) -> Diff {
        let run = match (&self.run, &after.run) {
            (Ok(before), Ok(after)) => Ok(changes(before, after)),
            (Err(why), _) | (_, Err(why)) => Err(why.clone()),
        };
        Diff {
            regions: changes(&self.regions, &after.regions),
            phases: changes(&self.phases, &after.phases),
            places: changes(&self.places, &after.places),
            run,
        }
    }
}

#[inline]
fn changes(before: &Named, after: &Named) -> Vec<Change> {
    let names = before.keys().chain(after.keys().filter(|name| !before.contains_key(*name)));
    let of = |times: &Named, name: &String| times.get(name).copied().unwrap_or_default();
    let change = |name: &String| Change {
        name: name.clone(),
        before: of(before, name),
        after: of(after, name),
    };
    let mut rows: Vec<Change> = names.map(change).collect();
    rows.retain(|row| !(row.before.is_zero() && row.after.is_zero()));
    rows.sort_by_key(|row| {
        Reverse((row.after.saturating_sub(row.before), row.before.abs_diff(row.after)))
    });
    rows
}

impl fmt::Display for Diff {
    #[inline]
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let tables = [
            ("region, on average", &self.regions),
            ("phase, of all regions", &self.phases),
            ("tasks, by place", &self.places),
        ];
        if tables.iter().all(|(_, rows)| rows.is_empty()) {
            f.write_str("No region and no task took any time, before or after.\n\n")?;
        }
        for (title, rows) in tables.into_iter().filter(|(_, rows)| !rows.is_empty()) {
            table(f, title, rows)?;
            f.write_char('\n')?;
        }
        match &self.run {
            Ok(run) => table(f, "the run", run),
            Err(why) => {
                let mut text = String::new();
                wrap(&mut text, &format!("Work and span are not compared: {why}."));
                f.write_str(&text)
            }
        }
    }
}

#[inline]
fn table(f: &mut fmt::Formatter<'_>, title: &str, rows: &[Change]) -> fmt::Result {
    writeln!(f, "{title:<40} {:>10} {:>10} {:>10} {:>6}", "before", "after", "more", "ratio")?;
    for row in rows.iter().take(SHOWN) {
        let more = match row.after.checked_sub(row.before) {
            Some(more) => format!("+{}", time(more)),
            None => format!("-{}", time(row.before - row.after)),
        };
        let ratio = match row.ratio() {
            None => "new".into(),
            Some(_) if row.after.is_zero() => "gone".into(),
            Some(ratio) if ratio < 99.5 => format!("{ratio:.2}x"),
            Some(_) => ">99x".into(),
        };
        let (name, before, after) = (short(&row.name, 40), time(row.before), time(row.after));
        writeln!(f, "{name:<40} {before:>10} {after:>10} {more:>10} {ratio:>6}")?;
    }
    if rows.len() > SHOWN {
        writeln!(f, "  and {} more", rows.len() - SHOWN)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(times: &[(&str, u64)]) -> Named {
        times.iter().map(|&(name, us)| (name.to_owned(), Duration::from_micros(us))).collect()
    }

    #[test]
    fn what_takes_longer_comes_first_then_what_changed_more() {
        let before = named(&[("same", 5), ("slower", 10), ("gone", 90), ("faster", 40), ("no", 0)]);
        let after = named(&[("same", 5), ("slower", 12), ("new", 50), ("faster", 30), ("no", 0)]);
        let rows = changes(&before, &after);
        let told: Vec<(&str, i128, Option<f64>)> =
            rows.iter().map(|r| (r.name.as_str(), r.more_nanos() / 1000, r.ratio())).collect();
        let expected = [
            ("new", 50, None),
            ("slower", 2, Some(1.2)),
            ("gone", -90, Some(0.0)),
            ("faster", -10, Some(0.75)),
            ("same", 0, Some(1.0)),
        ];
        assert_eq!(told, expected);
    }

    #[test]
    fn of_a_long_table_ten_rows_are_shown_and_all_are_there() {
        let rows: Vec<(String, u64)> = (0..14).map(|n| (format!("place {n:02}"), n + 1)).collect();
        let rows: Vec<(&str, u64)> = rows.iter().map(|(name, us)| (name.as_str(), *us)).collect();
        let profile = |places| Profile {
            regions: Named::new(),
            phases: Named::new(),
            places,
            run: Err(Refusal::Level),
        };
        let diff = profile(Named::new()).diff(&profile(named(&rows)));
        assert_eq!(diff.places.len(), 14);
        let text = diff.to_string();
        assert!(text.contains("place 13") && text.contains("new"), "{text}");
        assert!(!text.contains("place 03") && text.contains("and 4 more"), "{text}");
        assert!(text.contains("not compared: recorded at level phase"), "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        // Of what there is nothing there is no table.
        assert!(!text.contains("region, on") && !text.contains("phase, of"), "{text}");
        let gone = profile(named(&rows)).diff(&profile(Named::new())).to_string();
        assert!(gone.contains(" gone\n") && !gone.contains("0.00x"), "{gone}");
        let none = profile(Named::new()).diff(&profile(Named::new())).to_string();
        assert!(none.starts_with("No region and no task took any time"), "{none}");
    }
}
