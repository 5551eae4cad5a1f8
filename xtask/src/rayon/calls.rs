//! `cargo xtask calls`: what a call into a pool takes, with rayon's own rayon-core and with raddle's, in turn.
//!
//! What was found goes to `bench/rayon-calls.json`, from which COMPARE's table is made.

use std::fs;
use std::io;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::controls::{original, program};
use super::programs;
use crate::steps::{Outcome, root, target_dir};

/// Where the figures are.
pub(crate) const FIGURES: &str = "bench/rayon-calls.json";
const ROUNDS: usize = 3;

/// The step.
pub(crate) fn calls() -> Outcome {
    match measure() {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            eprintln!("xtask: calls: {error}");
            Outcome::Failed
        }
    }
}

fn measure() -> io::Result<()> {
    let folder = target_dir("rayon");
    let theirs =
        program(&original(&folder.join("programs"))?, &folder.join("target-of-rayon"), true)?;
    let ours = program(&programs(), &folder.join("target"), true)?;
    let mut found: [Vec<Vec<Row>>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (program, found) in [&ours, &theirs].into_iter().zip(&mut found) {
            found.push(run(program)?);
        }
    }
    let [ours, theirs] = found.map(medians);
    let both = ours.iter().zip(&theirs);
    let rows: Vec<_> = both
        .map(|(ours, theirs)| {
            println!("{}: {:.1} us, rayon {:.1}", ours.name, ours.took, theirs.took);
            json!({
                "name": ours.name,
                "ours": [ours.took, ours.busy],
                "theirs": [theirs.took, theirs.busy],
            })
        })
        .collect();
    let figures = json!({ "rounds": ROUNDS, "rows": rows });
    fs::write(root().join(FIGURES), serde_json::to_string_pretty(&figures)? + "\n")
}

/// Microseconds of a call of some kind.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    name: String,
    took: f64,
    /// Of all processors together.
    busy: f64,
}

fn run(program: &Path) -> io::Result<Vec<Row>> {
    let output = Command::new(program).arg("calls").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    let well = output.status.success() && !rows.is_empty();
    if well { Ok(rows) } else { Err(io::Error::other(format!("the program ends with {text}"))) }
}

/// A line as the program prints it.
fn row(line: &str) -> Option<Row> {
    let mut fields = line.split('\t');
    let (name, took, busy) = (fields.next()?, fields.next()?, fields.next()?);
    Some(Row { name: name.into(), took: took.parse().ok()?, busy: busy.parse().ok()? })
}

/// Of all rounds.
fn medians(rounds: Vec<Vec<Row>>) -> Vec<Row> {
    let names = rounds.first().map(|rows| rows.len()).unwrap_or(0);
    let middle = |at: usize, of: fn(&Row) -> f64| {
        let mut all: Vec<f64> = rounds.iter().filter_map(|rows| rows.get(at)).map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    let row = |at: usize| Row {
        name: rounds[0][at].name.clone(),
        took: middle(at, |row| row.took),
        busy: middle(at, |row| row.busy),
    };
    (0..names).map(row).collect()
}

/// COMPARE's part about them.
pub(crate) fn table(figures: &str) -> Result<String, String> {
    let value: Value = serde_json::from_str(figures).map_err(|error| error.to_string())?;
    let rows = value["rows"].as_array().ok_or("the figures of calls have no rows")?;
    let mut text = format!(
        "Calls from outside into a pool of two threads (`install`), in microseconds: the call in the middle, and the time of \
         processors for each, looking for more included. A program of rayon's, built with and without the line; medians of {} \
         rounds in turn.\n\n| a region of | raddle | rayon | ratio | processors, raddle | rayon |\n|---|---|---|---|---|---|\n",
        value["rounds"],
    );
    for row in rows {
        let name = row["name"].as_str().ok_or("a row has no name")?;
        let of = |whose: &str, at: usize| row[whose][at].as_f64().ok_or(format!("{name}: {whose}"));
        let (ours, theirs) = (of("ours", 0)?, of("theirs", 0)?);
        let ratio = match ours / theirs {
            ratio if ratio > 1.0 => format!("**{ratio:.2}**"),
            ratio => format!("{ratio:.2}"),
        };
        let (busy, rayons) = (of("ours", 1)?, of("theirs", 1)?);
        text +=
            &format!("| {name} | {ours:.1} | {theirs:.1} | {ratio} | {busy:.0} | {rayons:.0} |\n");
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_read_and_compared() {
        let lines = ["a join, every 1ms\t30.5\t200.25", "a join, every 1ms\t20\t100", "x\t1"];
        let rounds: Vec<Vec<Row>> =
            lines.iter().filter_map(|line| row(line)).map(|row| vec![row]).collect();
        assert_eq!(rounds.len(), 2);
        let name = String::from("a join, every 1ms");
        assert_eq!(medians(rounds), [Row { name, took: 30.5, busy: 200.25 }]);
        let rows = json!([{ "name": "a", "ours": [3.0, 9.0], "theirs": [2.0, 8.0] }]);
        let text = table(&json!({ "rounds": 5, "rows": rows }).to_string()).unwrap();
        assert!(text.contains("| a | 3.0 | 2.0 | **1.50** | 9 | 8 |"), "{text}");
    }
}
