//! `cargo xtask calls`: what a call into a pool takes, with rayon's own rayon-core and with raddle's, in turn.
//!
//! What was found goes to `bench/rayon-calls.json`, from which COMPARE's table is made.

use std::io;
use std::path::Path;
use std::process::Command;

use super::controls::{original, program};
use super::programs;
use super::rows::{self, Figures, Row, Took};
use crate::steps::{Outcome, target_dir};

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
    let mut found: [Vec<Vec<Calls>>; 2] = Default::default();
    for _ in 0..ROUNDS {
        for (program, found) in [&ours, &theirs].into_iter().zip(&mut found) {
            found.push(run(program)?);
        }
    }
    let [ours, theirs] = found.map(medians);
    let both = ours.into_iter().zip(theirs);
    let mut figures = Figures::new(ROUNDS);
    let row = |((name, ours), (_, theirs))| Row { name, ours, theirs, alone: None };
    figures.rows = both.map(row).collect();
    for Row { name, ours, theirs, .. } in &figures.rows {
        println!("{name}: {:.1} us, rayon {:.1}", ours.wall, theirs.wall);
    }
    figures.save(FIGURES)
}

/// Calls of some kind, in microseconds.
type Calls = (String, Took);

fn run(program: &Path) -> io::Result<Vec<Calls>> {
    let output = Command::new(program).arg("calls").output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let rows: Vec<_> = text.lines().filter_map(row).collect();
    let well = output.status.success() && !rows.is_empty();
    if well { Ok(rows) } else { Err(io::Error::other(format!("the program ends with {text}"))) }
}

/// A line as the program prints it.
fn row(line: &str) -> Option<Calls> {
    let mut fields = line.split('\t');
    let (name, wall, busy) = (fields.next()?, fields.next()?, fields.next()?);
    Some((name.into(), Took { wall: wall.parse().ok()?, busy: busy.parse().ok()? }))
}

/// Of all rounds, which have the same rows.
fn medians(rounds: Vec<Vec<Calls>>) -> Vec<Calls> {
    let names = rounds.first().into_iter().flatten().map(|(name, _)| name.clone()).enumerate();
    let of_all = |at: usize| -> Vec<Took> {
        rounds.iter().filter_map(|rows| rows.get(at)).map(|&(_, took)| took).collect()
    };
    names.map(|(at, name)| (name, Took::median(&of_all(at)))).collect()
}

/// COMPARE's part about them.
pub(crate) fn table(figures: &str) -> Result<String, String> {
    let Figures { machine, rounds, rows } = rows::parse(figures)?;
    let mut text = format!(
        "Calls from outside into a pool of two threads (`install`), in microseconds: the call in the middle, and the time of \
         processors for each, looking for more included. A program of rayon's, built with and without the line; medians of \
         {rounds} rounds in turn. {machine}.\n\n\
         | a region of | raddle | rayon | ratio | processor time, raddle | processor time, rayon | processor time, ratio |\n\
         |---|---|---|---|---|---|---|\n",
    );
    for row in &rows {
        let (name, ours, theirs) = (&row.name, row.ours, row.theirs);
        let [wall, busy] = row.ratios().map(rows::ratio);
        text += &format!(
            "| {name} | {:.1} | {:.1} | {wall} | {:.0} | {:.0} | {busy} |\n",
            ours.wall, theirs.wall, ours.busy, theirs.busy
        );
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_read_and_compared() {
        let lines = ["a join, every 1ms\t30.5\t200.25", "a join, every 1ms\t20\t100", "x\t1"];
        let rounds: Vec<Vec<Calls>> =
            lines.iter().filter_map(|line| row(line)).map(|row| vec![row]).collect();
        assert_eq!(rounds.len(), 2);
        let took = Took { wall: 30.5, busy: 200.25 };
        assert_eq!(medians(rounds), [(String::from("a join, every 1ms"), took)]);
        let rows = json!([{ "name": "a", "ours": [3.0, 9.0], "theirs": [2.0, 8.0] }]);
        let figures = json!({ "machine": "two cores", "rounds": 5, "rows": rows });
        let text = table(&figures.to_string()).unwrap();
        assert!(text.contains("5 rounds in turn. two cores."), "{text}");
        assert!(text.contains("| a | 3.0 | 2.0 | **1.50** | 9 | 8 | **1.12** |"), "{text}");
    }
}
