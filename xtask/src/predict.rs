//! `cargo xtask predict`: what `raddle trace scale` expects of two processors, from a recording on one, beside what is measured.
//!
//! Each round records a run of each workload on one thread, reads off it what two would give, and measures runs on one thread
//! and on two, in turn. Medians over all rounds count, so that no moment of the machine decides. It wants a quiet machine
//! of two processors or more.

use std::path::Path;

use serde_json::Value;

use crate::steps::{Outcome, cargo, outcome, target_dir};

const WORKLOADS: [&str; 4] = ["sort", "kmeans", "knn", "quantize"];
const PROCESSORS: u64 = 2;
const ROUNDS: usize = 5;
/// Of each round, on one thread and on two.
const RUNS: usize = 3;
/// A recording may be refused, or be of another time, while something else uses the machine.
const TRIES: usize = 10;
/// How far a prediction may be off.
const MOST_OFF: f64 = 0.15;
/// With so many processors used by others, figures are not to be kept.
const BUSY: f64 = 0.1;

/// What is known of one workload.
#[derive(Debug, Default)]
struct Seen {
    predicted: Vec<f64>,
    one: Vec<f64>,
    two: Vec<f64>,
    /// The most processors that others used.
    others: f64,
}

pub(crate) fn predict() -> Outcome {
    let built = outcome(cargo().args(["build", "--quiet", "--release", "-p", "raddle-cli"]));
    if built != Outcome::Passed {
        return built;
    }
    let mut all: Vec<Seen> = WORKLOADS.iter().map(|_| Seen::default()).collect();
    for round in 1..=ROUNDS {
        eprintln!("xtask: round {round} of {ROUNDS}");
        for (workload, seen) in WORKLOADS.iter().zip(&mut all) {
            if let Err(error) = seen.add(workload) {
                eprintln!("xtask: {workload}: {error}");
                return Outcome::Failed;
            }
        }
    }
    println!("{}", table(&all));
    let others = all.iter().map(|seen| seen.others).fold(0.0, f64::max);
    if others > BUSY {
        println!("Others used up to {others:.1} processors meanwhile: not to be kept.");
    }
    let far = all.iter().filter(|seen| !seen.holds()).count();
    if far == 0 { Outcome::Passed } else { Outcome::Failed }
}

impl Seen {
    fn add(&mut self, workload: &str) -> Result<(), String> {
        self.predicted.push(predicted(workload)?);
        let (runs, threads) = (RUNS.to_string(), PROCESSORS.to_string());
        let json = raddle(&["run", workload, "--threads", &threads, "--runs", &runs, "--json"])?;
        let seconds = |name: &str| -> Vec<f64> {
            json[name].as_array().into_iter().flatten().filter_map(Value::as_f64).collect()
        };
        self.one.extend(seconds("seconds_one_thread_of_each_run"));
        self.two.extend(seconds("seconds_of_each_run"));
        self.others = json["processors_used_by_others"].as_f64().unwrap_or(0.0).max(self.others);
        match self.one.is_empty() || self.two.is_empty() {
            true => Err("no seconds of each run in what it prints".into()),
            false => Ok(()),
        }
    }

    fn measured(&self) -> f64 {
        median(&self.one) / median(&self.two)
    }

    /// What was predicted, as a part of what was measured.
    fn ratio(&self) -> f64 {
        median(&self.predicted) / self.measured()
    }

    fn holds(&self) -> bool {
        (self.ratio() - 1.0).abs() <= MOST_OFF
    }
}

/// The speed-up that a recording on one thread promises of two processors.
fn predicted(workload: &str) -> Result<f64, String> {
    let room = target_dir("predict");
    std::fs::create_dir_all(&room).map_err(|error| format!("{}: {error}", room.display()))?;
    let trace = room.join(format!("{workload}.trace"));
    let trace = trace.to_str().ok_or("the target directory's name is no text")?;
    let mut why = String::new();
    for _ in 0..TRIES {
        raddle(&[
            "run",
            workload,
            "--threads",
            "1",
            "--runs",
            "1",
            "--trace",
            trace,
            "--trace-level",
            "tasks",
            "--json",
        ])?;
        match raddle(&["trace", "scale", trace, "--json"]) {
            Ok(json) => return point(&json).ok_or_else(|| format!("no point in {json}")),
            Err(refused) => why = refused,
        }
    }
    Err(why)
}

fn point(json: &Value) -> Option<f64> {
    let points = json["points"].as_array()?;
    points.iter().find(|point| point["processors"] == PROCESSORS)?["speedup"].as_f64()
}

fn raddle(args: &[&str]) -> Result<Value, String> {
    let program = target_dir("release").join("raddle");
    let output = std::process::Command::new(Path::new(&program))
        .args(args)
        .output()
        .map_err(|error| format!("{}: {error}", program.display()))?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).trim().to_owned());
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("{args:?}: {error}"))
}

fn table(all: &[Seen]) -> String {
    let mut table = format!(
        "| workload | predicted at P = {PROCESSORS} | measured | predicted / measured | |\n|---|---|---|---|---|\n"
    );
    for (workload, seen) in WORKLOADS.iter().zip(all) {
        let spread = |values: &[f64]| {
            let least = values.iter().copied().fold(f64::INFINITY, f64::min);
            let most = values.iter().copied().fold(0.0, f64::max);
            format!("{least:.2} to {most:.2}")
        };
        let each: Vec<f64> = seen.one.iter().zip(&seen.two).map(|(one, two)| one / two).collect();
        table += &format!(
            "| {workload} | {:.2} ({}) | {:.2} ({}) | {:.2} | {} |\n",
            median(&seen.predicted),
            spread(&seen.predicted),
            seen.measured(),
            spread(&each),
            seen.ratio(),
            if seen.holds() { "" } else { "too far" }
        );
    }
    table
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let count = sorted.len();
    if count == 0 { f64::NAN } else { (sorted[(count - 1) / 2] + sorted[count / 2]) / 2.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(predicted: f64) -> Seen {
        let (one, two) = (vec![3.0, 1.0, 2.0], vec![1.0, 9.0, 0.5]);
        Seen { predicted: vec![predicted, 9.0, 0.1], one, two, others: 0.0 }
    }

    #[test]
    fn a_prediction_holds_within_fifteen_in_a_hundred_of_the_medians() {
        assert_eq!(seen(2.0).measured(), 2.0);
        for (predicted, holds) in
            [(1.6, false), (1.71, true), (2.0, true), (2.29, true), (2.4, false)]
        {
            let seen = seen(predicted);
            assert_eq!(seen.holds(), holds, "{predicted}");
            assert_eq!(table(&[seen]).contains("too far"), !holds);
        }
        assert!(!Seen::default().holds(), "nothing was seen");
    }

    #[test]
    fn the_point_of_two_processors_is_taken() {
        let json = serde_json::json!({ "points": [
            { "processors": 1, "speedup": 1.0 }, { "processors": 2, "speedup": 1.75 },
        ] });
        assert_eq!(point(&json), Some(1.75));
        assert_eq!(point(&Value::Null), None);
    }
}
