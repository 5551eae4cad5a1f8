//! What is compared with what: rows of raddle and of a peer that do the same.

use std::collections::{HashMap, HashSet};

use super::figures::{Figures, Row, find};

/// Who raddle is compared with: what their rows are called, up to a comma or a space, and what they are called.
pub(crate) const PEERS: &[(&str, &str)] = &[
    ("rayon", "rayon"),
    ("chili", "chili"),
    ("forte", "forte"),
    ("Fork Union", "Fork Union"),
    ("paralight", "paralight"),
    ("tokio", "tokio"),
    ("tokio-rayon", "tokio-rayon"),
    ("spawn_blocking", "spawn_blocking"),
    ("parking_lot", "parking_lot"),
    ("std", "std"),
    ("usync", "usync"),
    ("spin", "spin"),
    ("trane, ParallelGC", "Trane, ParallelGC"),
    ("trane", "Trane"),
    ("futures oneshot", "futures"),
    ("JDK ScopedValue", "JDK"),
    ("JDK RecursiveTask", "JDK"),
    ("JDK CountedCompleter", "JDK"),
];

/// Rows that are nobody's: floors, and what a thing costs without the rest. `thread_local!` is inherited by nobody.
const NOBODYS: &[&str] = &[
    "floor",
    "sequential",
    "1.1 x sequential + 1.5 us",
    "no pool: what measuring takes",
    "nothing bound",
    "1 bound",
    "8 bound",
    "64 bound",
    "no subscriber",
    "tracing-subscriber's registry",
    "thread_local!",
    "a call that reads nothing",
    "JDK, a call that reads nothing",
];

/// Tables whose rows are not comparisons: models, costs of our own, and speed-ups, of which more is better.
const OTHERS: &[&str] = &["simulate", "trace", "scaling", "wake"];

/// Tables of latencies whose rows carry no 99th percentile of their own.
const LATENCIES: &[&str] = &["leaf", "service"];

/// Two rows, ours and theirs.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) ours: Row,
    pub(crate) theirs: Row,
    /// What they are called in [`PEERS`].
    pub(crate) peer: &'static str,
    /// Which of the peer's rows this is, where several are compared with the same row of ours.
    pub(crate) variant: Option<String>,
    /// Ratios in builds with other placements of the code.
    pub(crate) placements: Vec<f64>,
}

impl Pair {
    pub(crate) fn by_min(&self) -> f64 {
        self.ours.min / self.theirs.min
    }

    pub(crate) fn by_median(&self) -> f64 {
        self.ours.median / self.theirs.median
    }

    /// Samples of latencies are many and short, and their minima are luck; the minimum of a long computation is what it
    /// takes when nothing disturbs it.
    pub(crate) fn is_latency(&self) -> bool {
        self.ours.p99.is_some() || LATENCIES.contains(&self.ours.table.as_str())
    }

    pub(crate) fn judged(&self) -> f64 {
        if self.is_latency() { self.by_median() } else { self.by_min() }
    }

    /// Rounds are interleaved, so each has a ratio of its own; builds have one each.
    pub(crate) fn range(&self) -> Option<(f64, f64)> {
        let rounds = self.ours.rounds.iter().zip(&self.theirs.rounds);
        let each: Vec<f64> =
            rounds.map(|(ours, theirs)| ours / theirs).chain(self.placements.clone()).collect();
        let least = each.iter().copied().fold(f64::INFINITY, f64::min);
        let most = each.iter().copied().fold(0.0, f64::max);
        (each.len() > 1).then_some((least, most))
    }

    /// Whether either statistic says so: a row that loses by one of them is not hidden by the other.
    pub(crate) fn loses(&self) -> bool {
        self.by_min() > 1.0 || self.by_median() > 1.0
    }

    pub(crate) fn title(&self) -> String {
        let Row { table, section, name, .. } = &self.ours;
        let variant =
            name.strip_prefix("raddle").unwrap_or(name).trim_start_matches([',', ':', ' ']);
        let kind = match table.as_str() {
            "regions" => "a region of ",
            "spawn" => "futures, ",
            "nested" => "nested scopes, ",
            "oversubscribed" => "oversubscribed, ",
            "service" => "latency beside big requests, ",
            "leaf" => "a task starts, ",
            "lock" if !section.contains("lock") => "a lock: ",
            _ => "",
        };
        // As short as the plots' margins.
        let section = if section == "99th percentile" { "p99" } else { section.as_str() };
        let ours = match (table.as_str(), variant) {
            ("local", _) => format!("{section}: {name}"),
            (_, "") => format!("{kind}{section}"),
            (_, variant) => format!("{kind}{section}: {variant}"),
        };
        match &self.variant {
            Some(theirs) => format!("{ours} ({theirs})"),
            None => ours,
        }
    }
}

/// All pairs that the figures have, in their order.
pub(crate) fn all(figures: &Figures) -> Vec<Pair> {
    let mut pairs = Vec::new();
    let rows = figures.rows.iter().filter(|row| !OTHERS.contains(&row.table.as_str()));
    for ours in rows.filter(|row| is_ours(row)) {
        let section = |row: &&Row| row.table == ours.table && row.section == ours.section;
        for theirs in figures.rows.iter().filter(section) {
            if let Some(peer) = peer(theirs).filter(|_| comparable(ours, theirs)) {
                pairs.push(pair(figures, ours, theirs, peer));
            }
        }
    }
    pairs.retain(|pair| pair.by_min().is_finite() && pair.by_median().is_finite());
    tell_apart(&mut pairs);
    pairs
}

/// Gives the peer's variants to those that are called the same without them.
fn tell_apart(pairs: &mut [Pair]) {
    let mut times: HashMap<(String, &str), usize> = HashMap::new();
    for pair in &*pairs {
        *times.entry((pair.title(), pair.peer)).or_default() += 1;
    }
    for pair in pairs {
        if times[&(pair.title(), pair.peer)] > 1 {
            pair.variant = variant(&pair.theirs);
        }
    }
}

/// Two rows of one name would say two things of the same.
pub(crate) fn all_told_apart(pairs: &[Pair]) -> Result<(), String> {
    let mut titles = HashSet::new();
    match pairs.iter().find(|pair| !titles.insert((pair.title(), pair.peer))) {
        None => Ok(()),
        Some(pair) => Err(format!("two rows beside {} are called {}", pair.peer, pair.title())),
    }
}

/// One pair by name.
pub(crate) fn one(
    figures: &Figures,
    table: &str,
    section: &str,
    ours: &str,
    theirs: &str,
) -> Result<Pair, String> {
    let theirs = figures.row(table, section, theirs)?;
    let peer = peer(theirs).unwrap_or("raddle");
    Ok(pair(figures, figures.row(table, section, ours)?, theirs, peer))
}

fn pair(figures: &Figures, ours: &Row, theirs: &Row, peer: &'static str) -> Pair {
    let placed = figures.placements.iter().filter_map(|rows| {
        let of = |row: &Row| find(rows, &row.table, &row.section, &row.name).map(|row| row.min);
        Some(of(ours)? / of(theirs)?)
    });
    let placements = placed.collect();
    let mut theirs = theirs.clone();
    if ours.table == "idle" {
        theirs.note = noise(figures, ours);
    }
    Pair { ours: ours.clone(), theirs, peer, variant: None, placements }
}

/// What an idle pool uses is noise unless it is well above what the measuring itself takes.
fn noise(figures: &Figures, ours: &Row) -> Option<String> {
    let measuring = |row: &&Row| row.section == ours.section && row.name.starts_with("no pool");
    let alone = figures.rows.iter().find(measuring)?.median;
    (ours.median < 2.0 * alone).then(|| format!("noise: {alone:.2} ms without a pool"))
}

fn is_ours(row: &Row) -> bool {
    // A lock that is thin and one that is fat are two rows of one section; so are two ways to fork.
    row.name.starts_with("raddle") && !row.name.contains("mimalloc")
}

fn peer(row: &Row) -> Option<&'static str> {
    known(row).map(|(_, name)| *name)
}

fn known(row: &Row) -> Option<&'static (&'static str, &'static str)> {
    let known = PEERS.iter().filter(|(name, _)| is_of(row, name));
    known.max_by_key(|(name, _)| name.len())
}

/// What a peer's row is called after the peer.
fn variant(row: &Row) -> Option<String> {
    let rest = row.name.strip_prefix(known(row)?.0)?.trim_start_matches([',', ' ']);
    (!rest.is_empty()).then(|| rest.to_owned())
}

/// Whether the row is called that, perhaps with a variant: `tokio, depth 1` is tokio's, and `tokio-rayon` is not.
fn is_of(row: &Row, name: &str) -> bool {
    row.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with([',', ' ']))
}

/// A peer that is in no list would be left out, and a loss with it.
pub(crate) fn all_known(figures: &Figures) -> Result<(), String> {
    let mut rows = figures.rows.iter().filter(|row| !OTHERS.contains(&row.table.as_str()));
    let nobodys = |row: &Row| NOBODYS.iter().any(|name| is_of(row, name));
    match rows.find(|row| !row.name.starts_with("raddle") && peer(row).is_none() && !nobodys(row)) {
        None => Ok(()),
        Some(Row { table, section, name, .. }) => {
            Err(format!("nobody knows whose this row is: {table} / {section} / {name}"))
        }
    }
}

/// Rows of one section do the same, unless each has a variant of its own: then those must agree.
fn comparable(ours: &Row, theirs: &Row) -> bool {
    let variants = ["leaf", "oversubscribed"].contains(&ours.table.as_str());
    let read = ours.table == "local" && ours.section.starts_with("a read");
    if variants || read {
        let variant = |row: &Row| row.name.split_once(", ").map(|(_, variant)| variant.to_owned());
        return variant(ours) == variant(theirs);
    }
    // A chili whose scope is kept open is compared with nobody's idle pool but itself.
    theirs.name != "chili, a scope kept open"
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(names: &[&str]) -> Figures {
        let row = |(at, name): (usize, &&str)| {
            let figure = 1.0 + at as f64;
            serde_json::json!({"section": "median", "name": name, "unit": "us", "min": figure, "median": figure})
        };
        let rows: Vec<_> = names.iter().enumerate().map(row).collect();
        let tables = serde_json::json!([{"name": "service", "rows": rows}]);
        let text = serde_json::json!({"smoke": false, "machine": {}, "tables": tables});
        Figures::read(&text.to_string()).unwrap()
    }

    #[test]
    fn peers_have_the_names_that_they_have_and_none_is_left_out() {
        let names = [
            "tokio-rayon",
            "tokio",
            "tokio task_local!",
            "spawn_blocking",
            "floor, x",
            "raddle, apart",
            "raddle",
        ];
        let figures = figures(&names);
        all_known(&figures).unwrap();
        let pairs = all(&figures);
        let of = |ours: &str| -> Vec<(&str, String)> {
            pairs.iter().filter(|p| p.ours.name == ours).map(|p| (p.peer, p.title())).collect()
        };
        let peers = ["tokio-rayon", "tokio", "tokio", "spawn_blocking"];
        let variants = ["", "", " (task_local!)", ""];
        let title = "latency beside big requests, median";
        let called =
            |ours| [0, 1, 2, 3].map(|at| (peers[at], format!("{title}{ours}{}", variants[at])));
        assert_eq!(of("raddle"), called(""));
        assert_eq!(of("raddle, apart"), called(": apart"));
        assert!(pairs.iter().all(Pair::loses));
        all_told_apart(&pairs).unwrap();
        let twice = [&pairs[..], &pairs[..1]].concat();
        let error = all_told_apart(&twice).unwrap_err();
        assert_eq!(error, format!("two rows beside tokio-rayon are called {title}: apart"));
    }

    #[test]
    fn how_long_tasks_and_requests_wait_is_judged_by_medians() {
        let text = std::fs::read_to_string(crate::steps::root().join(crate::compare::FIGURES));
        let pairs = all(&Figures::read(&text.unwrap()).unwrap());
        for table in LATENCIES {
            let these: Vec<&Pair> = pairs.iter().filter(|p| p.ours.table == *table).collect();
            assert!(!these.is_empty(), "{table}");
            for pair in these {
                let (least, most) = pair.range().unwrap();
                // Up to the digits that the figures are rounded to.
                let within = least * 0.999 <= pair.judged() && pair.judged() <= most * 1.001;
                assert!(
                    within,
                    "{}, {}: {least} to {most}, {}",
                    pair.title(),
                    pair.peer,
                    pair.judged()
                );
            }
        }
    }

    #[test]
    fn a_row_of_somebody_unknown_is_an_error() {
        let error = all_known(&figures(&["raddle", "tokyo"])).unwrap_err();
        assert!(error.ends_with("service / median / tokyo"), "{error}");
    }
}
