//! Rows that were measured with raddle and with rayon's own scheduler: medians of rounds, and the file that keeps them.

use std::fs;
use std::io;
use std::process::Command;

use serde_json::{Value, json};

use crate::steps::root;

/// What one thing takes, in any unit.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Took {
    pub(super) wall: f64,
    /// Of all processors together.
    pub(super) busy: f64,
}

impl Took {
    /// Of several rounds, each figure for itself.
    pub(super) fn median(all: &[Took]) -> Took {
        let middle = |of: fn(&Took) -> f64| {
            let mut all: Vec<f64> = all.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all.get(all.len() / 2).copied().unwrap_or_default()
        };
        Took { wall: middle(|took| took.wall), busy: middle(|took| took.busy) }
    }
}

/// One row of both sides.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Row {
    pub(super) name: String,
    pub(super) ours: Took,
    pub(super) theirs: Took,
    /// What raddle takes with one thread, if that was measured.
    pub(super) alone: Option<f64>,
}

impl Row {
    /// Of the times, and of the processor times.
    pub(super) fn ratios(&self) -> [f64; 2] {
        [self.ours.wall / self.theirs.wall, self.ours.busy / self.theirs.busy]
    }

    /// Of the time, if so many threads shared what one does, and that cost nothing.
    pub(super) fn at_best(&self, threads: usize) -> Option<f64> {
        Some(self.alone? / threads as f64 / self.theirs.wall)
    }
}

/// What is in such a file.
#[derive(Debug)]
pub(super) struct Figures {
    pub(super) machine: String,
    pub(super) rounds: u64,
    pub(super) rows: Vec<Row>,
}

impl Figures {
    /// Of this machine, without rows yet.
    pub(super) fn new(rounds: usize) -> Figures {
        Figures { machine: machine(), rounds: rounds as u64, rows: Vec::new() }
    }

    /// Writes them down.
    pub(super) fn save(&self, file: &str) -> io::Result<()> {
        fs::write(root().join(file), self.text()?)
    }

    /// What [`parse`] reads.
    fn text(&self) -> io::Result<String> {
        let both = |took: Took| [took.wall, took.busy];
        let row = |row: &Row| {
            let mut value =
                json!({ "name": row.name, "ours": both(row.ours), "theirs": both(row.theirs) });
            row.alone.inspect(|alone| value["alone"] = (*alone).into());
            value
        };
        let rows: Vec<_> = self.rows.iter().map(row).collect();
        let figures = json!({ "machine": self.machine, "rounds": self.rounds, "rows": rows });
        Ok(serde_json::to_string_pretty(&figures)? + "\n")
    }
}

/// What they were measured on, of which commit, and when.
fn machine() -> String {
    let processors = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let field = |name: &str| {
        let mut fields = processors.lines().filter_map(|line| line.split_once(':'));
        let found = fields.find(|(found, _)| found.trim() == name);
        found.map_or("unknown", |(_, value)| value.trim()).to_owned()
    };
    let said = |program: &str, args: &[&str]| {
        let output = Command::new(program).args(args).current_dir(root()).output().ok()?;
        let text = String::from_utf8(output.stdout).ok()?;
        output.status.success().then(|| text.trim().to_owned())
    };
    format!(
        "{} (family {}, model {}), {} cores; commit {}, {}",
        field("model name"),
        field("cpu family"),
        field("model"),
        std::thread::available_parallelism().map_or(1, usize::from),
        said("git", &["describe", "--always", "--dirty"]).unwrap_or_else(|| "unknown".into()),
        said("date", &["-u", "+%F"]).unwrap_or_else(|| "some day".into()),
    )
}

/// The text of such a file.
pub(super) fn parse(text: &str) -> Result<Figures, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| error.to_string())?;
    let rows = value["rows"].as_array().ok_or("figures without rows")?;
    let row = |row: &Value| {
        let name = row["name"].as_str().ok_or("a row has no name")?;
        let of = |whose: &str, at: usize| {
            row[whose][at].as_f64().ok_or_else(|| format!("{name}: {whose} has no figure"))
        };
        let took = |whose| Ok::<_, String>(Took { wall: of(whose, 0)?, busy: of(whose, 1)? });
        let alone = row["alone"].as_f64();
        Ok(Row { name: name.to_owned(), ours: took("ours")?, theirs: took("theirs")?, alone })
    };
    let rows: Result<Vec<Row>, String> = rows.iter().map(row).collect();
    Ok(Figures {
        machine: value["machine"].as_str().ok_or("figures of no machine")?.to_owned(),
        rounds: value["rounds"].as_u64().ok_or("figures without rounds")?,
        rows: rows?,
    })
}

/// None of nothing.
pub(super) fn geometric_mean(ratios: impl Iterator<Item = f64>) -> Option<f64> {
    let (count, sum) = ratios.fold((0, 0.0), |(count, sum), ratio| (count + 1, sum + ratio.ln()));
    (count > 0).then(|| (sum / f64::from(count)).exp())
}

/// For a table: bold if it is a loss.
pub(super) fn ratio(ratio: f64) -> String {
    if ratio > 1.0 { format!("**{ratio:.2}**") } else { format!("{ratio:.2}") }
}

/// Those that lose by either figure, the worst first; each part of them has a name and what its times are multiplied by
/// to be microseconds.
pub(super) fn losses(parts: &[(&str, f64, &Figures)]) -> String {
    let mut losing: Vec<(String, [f64; 2], f64, &Row)> = Vec::new();
    let mut all = 0;
    for (part, factor, figures) in parts {
        all += figures.rows.len();
        let rows = figures.rows.iter().map(|row| (row.ratios(), row));
        let rows = rows.filter(|(ratios, _)| ratios.iter().any(|ratio| *ratio > 1.0));
        losing.extend(rows.map(|(by, row)| (format!("{part}: {}", row.name), by, *factor, row)));
    }
    losing.sort_by(|(_, a, ..), (_, b, ..)| b[0].total_cmp(&a[0]));
    let mut table = format!(
        "{} of {all} comparisons of rayon's programs, by time or by processor time.\n\n\
         | what | raddle, us | rayon, us | time | processor time |\n|---|---|---|---|---|\n",
        losing.len()
    );
    for (name, by, factor, row) in losing {
        let [ours, theirs] = [row.ours, row.theirs].map(|took| took.wall * factor);
        let [wall, busy] = by.map(ratio);
        table += &format!("| {name} | {ours:.1} | {theirs:.1} | {wall} | {busy} |\n");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_read_and_medians_are_in_the_middle() {
        let took = |wall, busy| Took { wall, busy };
        let all = [took(1.0, 9.0), took(3.0, 8.0), took(2.0, 7.0)];
        assert_eq!(Took::median(&all), took(2.0, 8.0));
        assert_eq!(Took::median(&[]), Took::default());
        let text = r#"{ "machine": "two cores", "rounds": 3,
            "rows": [{ "name": "a", "ours": [3, 9], "theirs": [2, 6] }] }"#;
        let mut figures = parse(text).unwrap();
        assert_eq!((figures.rounds, figures.rows[0].ratios()), (3, [1.5, 1.5]));
        assert_eq!((figures.machine.as_str(), figures.rows[0].at_best(2)), ("two cores", None));
        for alone in [None, Some(5.0)] {
            figures.rows[0].alone = alone;
            let again = parse(&figures.text().unwrap()).unwrap();
            assert_eq!(again.rows, figures.rows);
            assert_eq!(again.rows[0].at_best(2), alone.map(|_| 1.25));
        }
        assert!(
            geometric_mean([1.0, 4.0].into_iter()).is_some_and(|mean| (mean - 2.0).abs() < 1e-9)
        );
        assert_eq!(geometric_mean([].into_iter()), None);
        assert_eq!((&*ratio(1.06), &*ratio(1.0)), ("**1.06**", "1.00"));
        let error =
            parse(r#"{ "machine": "", "rounds": 3, "rows": [{ "name": "a", "ours": [3] }] }"#)
                .unwrap_err();
        assert_eq!(error, "a: ours has no figure");
    }

    #[test]
    fn what_loses_by_either_figure_is_listed() {
        let row = |name: &str, ours: [f64; 2]| Row {
            name: name.into(),
            ours: Took { wall: ours[0], busy: ours[1] },
            theirs: Took { wall: 2.0, busy: 2.0 },
            alone: None,
        };
        let figures = |rows| Figures { machine: String::new(), rounds: 1, rows };
        let calls = figures(vec![row("won", [1.0, 2.0]), row("busy", [1.0, 3.0])]);
        let demo = figures(vec![row("slow", [2000.0, 1.0])]);
        let table = losses(&[("calls", 1.0, &calls), ("demo", 1e-3, &demo)]);
        let lines: Vec<&str> = table.lines().collect();
        assert!(lines[0].starts_with("2 of 3 comparisons"), "{table}");
        assert_eq!(lines[4], "| demo: slow | 2.0 | 0.0 | **1000.00** | 0.50 |");
        assert_eq!(lines[5], "| calls: busy | 1.0 | 2.0 | 0.50 | **1.50** |");
        assert_eq!(lines.len(), 6);
    }
}
