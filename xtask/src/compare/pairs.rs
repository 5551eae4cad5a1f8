//! What is compared with what: rows of raddle and of a peer that do the same.

use super::figures::{Figures, Row, find};

/// Who raddle is compared with: how their rows begin, and what they are called.
pub(crate) const PEERS: &[(&str, &str)] = &[
    ("rayon", "rayon"),
    ("chili", "chili"),
    ("forte", "forte"),
    ("Fork Union", "Fork Union"),
    ("paralight", "paralight"),
    ("tokio", "tokio"),
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

/// Tables whose rows are not comparisons: models, costs of our own, and speed-ups, of which more is better.
const OTHERS: &[&str] = &["simulate", "trace", "scaling", "wake"];

/// Two rows, ours and theirs.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    pub(crate) ours: Row,
    pub(crate) theirs: Row,
    /// What they are called in [`PEERS`].
    pub(crate) peer: &'static str,
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
        self.ours.p99.is_some()
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
            "leaf" => "a task starts, ",
            "lock" if !section.contains("lock") => "a lock: ",
            _ => "",
        };
        match (table.as_str(), variant) {
            ("local", _) => format!("{section}: {name}"),
            (_, "") => format!("{kind}{section}"),
            (_, variant) => format!("{kind}{section}: {variant}"),
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
    pairs
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
    Pair { ours: ours.clone(), theirs, peer, placements }
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
    let known = PEERS.iter().find(|(prefix, _)| row.name.starts_with(prefix));
    known.map(|(_, name)| *name)
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
