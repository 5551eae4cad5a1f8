//! What the simulation says of two workers and of more: tables of the page on sleeping and waking, and curves for its plot.

use std::fmt::Write as _;

use super::figures::Figures;
use super::text::number;

const TABLE: &str = "simulate";
const HERE: &str = "2 workers, cold, 1 ms in leaves of 5 to 15 us";
const PHASES: [&str; 6] =
    ["first hand-off", "ramp-up", "full parallelism", "catch-up", "result hand-off", "total"];
pub(super) const SIZES: [usize; 10] = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
/// By how many of its first forks a thread that was woken wakes somebody: what that is called in the table, and in the figures.
pub(super) const SPREADS: [(&str, &str); 4] = [
    ("none", "a thief's forks wake nobody"),
    ("1", "its first wakes one"),
    ("3", "its first 3 wake one each"),
    ("6", "its first 6 wake one each"),
];
/// In pools up to this size forks of thieves wake nobody, whatever the spread.
const MIDDLING: usize = 8;

/// Ramp-up or the total of a region, in us.
pub(super) fn larger(
    figures: &Figures,
    workers: usize,
    spread: &str,
    part: &str,
) -> Result<f64, String> {
    let section = format!("{workers} workers, 500 us of work for each");
    Ok(figures.row(TABLE, &section, &format!("{spread}: {part}"))?.median)
}

pub(super) fn places(figures: &Figures) -> Result<Vec<(&'static str, String)>, String> {
    Ok(vec![("spread", spread(figures)?), ("phases", phases(figures)?)])
}

fn spread(figures: &Figures) -> Result<String, String> {
    let mut text = String::from("| workers |");
    for (name, _) in SPREADS {
        _ = write!(text, " {name} |");
    }
    text += "\n|---|---|---|---|---|\n";
    let mut least: [Vec<String>; SPREADS.len()] = Default::default();
    for workers in SIZES.into_iter().filter(|workers| *workers > MIDDLING) {
        _ = write!(text, "| {workers} |");
        let mut totals = Vec::new();
        for (_, spread) in SPREADS {
            let part = |part| larger(figures, workers, spread, part);
            let (ramp_up, total) = (part("ramp-up")?, part("total")?);
            _ = write!(text, " {ramp_up:.0} / {total:.0} |");
            totals.push(total);
        }
        text.push('\n');
        let best = (0..totals.len()).min_by(|&a, &b| totals[a].total_cmp(&totals[b]));
        least[best.unwrap_or(0)].push(workers.to_string());
    }
    let said = SPREADS.iter().zip(&least).filter(|(_, sizes)| !sizes.is_empty());
    let said: Vec<String> =
        said.map(|((name, _), sizes)| format!("{name} at {}", sizes.join(", "))).collect();
    _ = writeln!(text, "\nThe shortest region: {}. {}.", said.join("; "), figures.short());
    Ok(text)
}

fn phases(figures: &Figures) -> Result<String, String> {
    let mut text = String::from(
        "| us, medians | measured | simulated | simulated / measured |\n|---|---|---|---|\n",
    );
    for phase in PHASES {
        let of = |who: &str| {
            Ok::<_, String>(figures.row(TABLE, HERE, &format!("{who}: {phase}"))?.median)
        };
        let (measured, simulated) = (of("measured")?, of("simulated")?);
        let [ratio, measured, simulated] = [simulated / measured, measured, simulated].map(number);
        _ = writeln!(text, "| {phase} | {measured} | {simulated} | {ratio} |");
    }
    _ = writeln!(text, "\n{}.", figures.short());
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_say_what_the_figures_say() {
        let row = |section: &str, name: String, median: f64| serde_json::json!({"section": section, "name": name, "unit": "us", "min": 1.0, "median": median});
        let mut rows = Vec::new();
        for (at, phase) in PHASES.into_iter().enumerate() {
            rows.push(row(HERE, format!("measured: {phase}"), 4.0));
            rows.push(row(HERE, format!("simulated: {phase}"), 2.0 * at as f64));
        }
        for workers in SIZES {
            for (at, (_, spread)) in SPREADS.into_iter().enumerate() {
                let section = format!("{workers} workers, 500 us of work for each");
                // The third is best, but on the largest.
                let total = if at == 2 && workers < 1024 { 100.0 } else { 200.0 + at as f64 };
                rows.push(row(&section, format!("{spread}: ramp-up"), workers as f64));
                rows.push(row(&section, format!("{spread}: total"), total));
            }
        }
        let tables = serde_json::json!([{"name": TABLE, "rows": rows}]);
        let text = serde_json::json!({"smoke": false, "machine": {}, "tables": tables}).to_string();
        let figures = Figures::read(&text).unwrap();
        let table = spread(&figures).unwrap();
        assert!(
            table.contains("\n| 16 | 16 / 200 | 16 / 201 | 16 / 100 | 16 / 203 |\n"),
            "{table}"
        );
        let said = "shortest region: none at 1024; 3 at 16, 32, 64, 128, 256, 512.";
        assert!(table.contains(said) && !table.contains("\n| 8 |"), "{table}");
        let table = phases(&figures).unwrap();
        assert!(table.contains("| catch-up | 4.00 | 6.00 | 1.50 |"), "{table}");
    }
}
