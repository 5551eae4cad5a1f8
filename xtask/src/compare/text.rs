//! The tables, as Markdown, between the marks that the documents have for them.

use super::figures::{Budget, Figures, Row};
use super::pairs::{self, Pair};
use super::simulated;

type Make = fn(&Figures) -> Result<Vec<(&'static str, String)>, String>;

/// Which documents have tables, and what makes those: each a name and its text.
pub(crate) const DOCUMENTS: &[(&str, Make)] = &[
    ("README.md", readme),
    ("COMPARE.md", compare),
    ("crates/raddle-core/src/places.md", simulated::places),
];

/// A document with what lies between `<!-- NAME -->` and `<!-- /NAME -->` replaced.
pub(crate) fn filled(
    path: &str,
    document: &str,
    parts: &[(&'static str, String)],
) -> Result<String, String> {
    let mut document = document.to_owned();
    for (name, text) in parts {
        let (open, close) = (format!("<!-- {name} -->"), format!("<!-- /{name} -->"));
        let missing = || format!("{path} has no place for {name}: {open} .. {close}");
        let start = document.find(&open).ok_or_else(missing)? + open.len();
        let end = start + document[start..].find(&close).ok_or_else(missing)?;
        document.replace_range(start..end, &format!("\n{}\n", text.trim_end()));
    }
    Ok(document)
}

/// What README shows besides the rows that lose most: the words, then the row.
const WINS: &[(&str, [&str; 4])] = &[
    ("a region of 2 us from outside, back to back", ["regions", "2 us, hot", "raddle", "rayon"]),
    (
        "`join`, every call of fib a task, per call, 1 thread",
        ["join", "fib(35), per call, 1 thread", "raddle join", "rayon"],
    ),
    (
        "the same by `Worker::join`, beside chili",
        ["join", "fib(35), per call, 1 thread", "raddle Worker::join", "chili"],
    ),
    (
        "a million futures spawned and waited for, each",
        ["spawn", "1000000 at once, from outside", "raddle", "tokio"],
    ),
    (
        "a mutex taken and released, nobody else there",
        ["lock", "lock and unlock, nobody else", "raddle Mutex", "parking_lot"],
    ),
];

/// tokio, and what computes for its services.
pub(crate) const TOKIO: &[&str] = &["tokio", "spawn_blocking", "tokio-rayon", "futures"];

/// How many of those that lose most README shows.
const LOSSES: usize = 3;

fn readme(figures: &Figures) -> Result<Vec<(&'static str, String)>, String> {
    let mut table = String::from("| what | raddle | beside | ratio |\n|---|---|---|---|\n");
    for (what, [section_of, section, ours, theirs]) in WINS {
        let pair = pairs::one(figures, section_of, section, ours, theirs)?;
        table += &readme_row(what, &pair);
    }
    for pair in worst(figures) {
        table += &readme_row(&sentence(&pair), &pair);
    }
    let builds = match figures.placements.len() {
        0 => String::new(),
        builds => {
            format!(", for `join` also of {} builds with the code in other places", builds + 1)
        }
    };
    table += &format!(
        "\nLess is better. Minima of long computations and medians of latencies; in brackets the range of interleaved rounds, \
         if there were several{builds}. The last three are the worst losing rows beside any peer, one of each table; those where \
         the peer's compiler has folded the work away are left out here, but [COMPARE.md](COMPARE.md) has every row that \
         loses.\n\n{}.\n",
        figures.machine()
    );
    if let Some(warning) = figures.warning() {
        table += &format!("\n{warning}\n");
    }
    Ok(vec![("figures", table)])
}

fn readme_row(what: &str, pair: &Pair) -> String {
    let figure = |row: &Row| value(if pair.is_latency() { row.median } else { row.min }, &row.unit);
    format!(
        "| {what} | {} | {} {} | {} |\n",
        figure(&pair.ours),
        pair.peer,
        figure(&pair.theirs),
        ratio(pair)
    )
}

/// Of each table the row that loses most, the worst of these first. What a compiler has folded away is no peer.
fn worst(figures: &Figures) -> Vec<Pair> {
    let mut all = pairs::all(figures);
    all.retain(|pair| pair.judged() > 1.0 && pair.theirs.note.is_none());
    all.sort_by(|a, b| b.judged().total_cmp(&a.judged()));
    let mut worst: Vec<Pair> = Vec::new();
    for pair in all {
        if worst.len() < LOSSES && worst.iter().all(|other| other.ours.table != pair.ours.table) {
            worst.push(pair);
        }
    }
    worst
}

/// Sections of operations are called `name: what it is`.
fn sentence(pair: &Pair) -> String {
    match pair.ours.table.as_str() {
        "future" => pair.ours.section.clone(),
        "idle" => format!("{}, processor time in 3 s", pair.title()),
        _ => pair.title(),
    }
}

fn compare(figures: &Figures) -> Result<Vec<(&'static str, String)>, String> {
    let all = pairs::all(figures);
    pairs::all_told_apart(&all)?;
    let mut parts = Vec::new();
    let mut about = format!("{}.\n\nPeers: {}.\n", figures.machine(), figures.peers());
    if let Some(warning) = figures.warning() {
        about += &format!("\n{warning}\n");
    }
    parts.push(("machine", about));
    for (mark, peers) in [
        ("rayon", &["rayon"][..]),
        ("chili", &["chili", "forte", "Fork Union", "paralight"]),
        ("tokio", TOKIO),
        ("parking_lot", &["parking_lot", "std", "usync", "spin"]),
        ("trane", &["Trane", "Trane, ParallelGC"]),
        ("jdk", &["JDK"]),
    ] {
        let these = all.iter().filter(|pair| peers.contains(&pair.peer));
        let these: Vec<&Pair> = these.collect();
        let losses = these.iter().filter(|pair| pair.loses()).count();
        let summary =
            format!("All {} rows, of which {losses} lose by either statistic", these.len());
        let table = table(these, peers.len() > 1);
        parts.push((
            mark,
            format!("<details>\n<summary>{summary}</summary>\n\n{table}\n</details>\n"),
        ));
    }
    let mut losing: Vec<&Pair> = all.iter().filter(|pair| pair.loses()).collect();
    losing.sort_by(|a, b| b.judged().total_cmp(&a.judged()));
    let heading = format!("{} of {} comparisons, the worst first.\n\n", losing.len(), all.len());
    parts.push(("losses", heading + &table(losing, true)));
    parts.push(("missed", missed(&figures.budgets)));
    Ok(parts)
}

fn missed(budgets: &[Budget]) -> String {
    let missed: Vec<_> = budgets.iter().filter(|budget| !budget.met).collect();
    let mut table = format!(
        "{} of the {} budgets that can be judged on this machine.\n\n\
         | table | budget | by min | by median | asked |\n|---|---|---|---|---|\n",
        missed.len(),
        budgets.len()
    );
    for Budget { table: of, what, min, median, limit: (kind, limit), .. } in missed {
        let kind = if kind == "at_most" { "at most" } else { "at least" };
        let figure = |figure: &Option<f64>| figure.map_or(String::new(), number);
        let (min, median) = (figure(min), figure(median));
        table += &format!("| `{of}` | {what} | {min} | {median} | {kind} {} |\n", number(*limit));
    }
    table
}

fn table(pairs: Vec<&Pair>, several: bool) -> String {
    if pairs.is_empty() {
        return "Not measured here: the peer was missing.\n".into();
    }
    let peer = if several { " peer |" } else { "" };
    let rule = if several { "---|" } else { "" };
    let mut table = format!(
        "| what |{peer} raddle min, median | peer min, median | p99 | by min | by median | range |\n\
         |---|{rule}---|---|---|---|---|---|\n"
    );
    for pair in pairs {
        let both = |row: &Row| format!("{}, {}", number(row.min), value(row.median, &row.unit));
        let tails = match (pair.ours.p99, pair.theirs.p99) {
            (Some(ours), Some(theirs)) => format!("{}, {}", number(ours), number(theirs)),
            _ => String::new(),
        };
        let bytes = |row: &Row| row.bytes.map_or(String::new(), |bytes| format!(", {bytes:.0} B"));
        let note = pair.theirs.note.as_ref().map_or(String::new(), |note| format!(" ({note})"));
        let name = if several { format!(" {} |", pair.peer) } else { String::new() };
        let range = pair.range().map_or(String::new(), |(least, most)| {
            format!("{} to {}", number(least), number(most))
        });
        table += &format!(
            "| {} |{name} {}{} | {}{}{note} | {tails} | {} | {} | {range} |\n",
            pair.title(),
            both(&pair.ours),
            bytes(&pair.ours),
            both(&pair.theirs),
            bytes(&pair.theirs),
            lost(pair.by_min()),
            lost(pair.by_median()),
        );
    }
    table
}

/// The judged ratio, bold if it is a loss, with its range.
fn ratio(pair: &Pair) -> String {
    let range = pair
        .range()
        .map_or(String::new(), |(least, most)| format!(" ({} to {})", number(least), number(most)));
    lost(pair.judged()) + &range
}

/// A ratio, bold if it is a loss.
fn lost(ratio: f64) -> String {
    if ratio > 1.0 { format!("**{}**", number(ratio)) } else { number(ratio) }
}

fn value(figure: f64, unit: &str) -> String {
    format!("{} {unit}", number(figure))
}

/// Three digits.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 || v == 0.0 => format!("{value:.2}"),
        v if v >= 0.01 => format!("{value:.3}"),
        _ => format!("{value:.4}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_lies_between_the_marks_changes() {
        let parts = [("a", "new\n".to_owned())];
        let filled_in = filled("f", "x <!-- a -->old<!-- /a --> y", &parts).unwrap();
        assert_eq!(filled_in, "x <!-- a -->\nnew\n<!-- /a --> y");
        assert!(filled("f", "x", &parts).unwrap_err().contains("no place for a"));
    }

    #[test]
    fn losses_are_bold_and_figures_have_three_digits() {
        assert_eq!([lost(0.5), lost(1.5)], ["0.500", "**1.50**"]);
        assert_eq!([0.0, 1234.5, 12.34, 0.001].map(number), ["0.00", "1234", "12.3", "0.0010"]);
    }

    #[test]
    fn a_pair_loses_by_either_statistic_and_is_judged_by_its_kind() {
        let row = |name: &str, min, median, p99| Row {
            table: "t".into(),
            section: "s".into(),
            name: name.into(),
            unit: "ns".into(),
            min,
            median,
            p99,
            rounds: vec![min, median],
            bytes: None,
            note: None,
        };
        let pair = |p99| Pair {
            ours: row("raddle", 1.0, 6.0, p99),
            theirs: row("rayon", 2.0, 3.0, p99),
            peer: "rayon",
            variant: None,
            placements: vec![0.25],
        };
        assert!(pair(None).loses());
        assert_eq!((pair(None).judged(), pair(Some(9.0)).judged()), (0.5, 2.0));
        assert_eq!(pair(None).range(), Some((0.25, 2.0)));
        let shown = table(vec![&pair(Some(9.0))], false);
        assert!(shown.contains("| s | 1.00, 6.00 ns | 2.00, 3.00 ns | 9.00, 9.00 | 0.500 | **2.00** | 0.250 to 2.00 |"), "{shown}");
    }
}
