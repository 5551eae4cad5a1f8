use std::time::Duration;

use super::*;
use crate::args::Peers;

fn row(name: &str, min: f64, median: f64) -> Row {
    let rounds = vec![min, median];
    let memory = Some(Memory::of_bytes(40.0));
    let (p99, note) = (None, None);
    Row {
        section: "s".into(),
        name: name.into(),
        unit: "ns",
        min,
        median,
        p99,
        rounds,
        memory,
        note,
    }
}

fn id(name: &str) -> RowId {
    ("s".into(), name.into())
}

fn settings(smoke: bool) -> Settings {
    let (max, peers) = (Duration::ZERO, Peers::None);
    Settings { rounds: None, smoke, full: false, threads: 2, cores: 2, max, peers }
}

fn verdict(budget: &Budget, smoke: bool) -> Verdict {
    let rows = [row("a", 1.0, 3.0), row("b", 2.0, 2.5)];
    budget.judge(&rows.each_ref(), &settings(smoke)).verdict
}

#[test]
fn ratios_are_judged_by_minima_or_medians() {
    let budget = Budget::ratio("a / b", id("a"), id("b"), Limit::AtMost(0.5));
    assert_eq!(verdict(&budget, false), Verdict::Met);
    assert_eq!(verdict(&budget.by_median(), false), Verdict::Missed);
}

#[test]
fn limits_are_inclusive_but_below() {
    let value = |limit| verdict(&Budget::value("a", id("a"), limit), false);
    assert_eq!(value(Limit::AtMost(1.0)), Verdict::Met);
    assert_eq!(value(Limit::AtMost(0.99)), Verdict::Missed);
    assert_eq!(value(Limit::AtLeast(1.0)), Verdict::Met);
    assert_eq!(value(Limit::AtLeast(1.01)), Verdict::Missed);
    assert_eq!(value(Limit::Below(1.0)), Verdict::Missed);
    assert_eq!(value(Limit::Below(1.01)), Verdict::Met);
}

#[test]
fn smoke_runs_small_machines_and_mere_figures_are_not_judged() {
    let missed = Budget::value("a", id("a"), Limit::AtMost(0.0));
    assert_eq!(verdict(&missed, true), Verdict::NotJudged);
    assert_eq!(verdict(&missed.clone().needs_cores(2), false), Verdict::Missed);
    assert_eq!(verdict(&missed.needs_cores(3), false), Verdict::NotJudged);
    let figure = Budget::value("a", id("a"), Limit::None);
    assert_eq!(verdict(&figure, false), Verdict::NotJudged);
}

#[test]
fn a_figure_that_is_none_misses() {
    let rows = [row("a", 0.0, 0.0), row("b", 0.0, 0.0)];
    let budget = Budget::ratio("a / b", id("a"), id("b"), Limit::AtMost(1.0));
    let judgement = budget.judge(&rows.each_ref(), &settings(false));
    assert_eq!(judgement.verdict, Verdict::Missed);
    assert!(serde_json::to_string(&judgement).unwrap().contains(r#""min":null"#));
}

#[test]
fn memory_is_judged_by_itself_and_absent_peers_by_nobody() {
    assert_eq!(verdict(&Budget::bytes("a", id("a"), Limit::AtMost(40.0)), false), Verdict::Met);
    assert_eq!(verdict(&Budget::bytes("a", id("a"), Limit::AtMost(39.0)), false), Verdict::Missed);
    let unknown = Budget::allocations("a", id("a"), Limit::AtMost(9.0));
    assert_eq!(verdict(&unknown, false), Verdict::Missed);

    let absent = Row { rounds: Vec::new(), ..row("b", f64::NAN, f64::NAN) };
    let budget = Budget::ratio("a / b", id("a"), id("b"), Limit::AtMost(1.0));
    let judgement = budget.judge(&[&row("a", 1.0, 1.0), &absent], &settings(false));
    assert_eq!(judgement.verdict, Verdict::NotJudged);
}

fn report() -> Report {
    let other = Row { section: "t".into(), ..row("raddle", 100.0, 10_000.0) };
    let group = Measured {
        references: &["chili", "rayon"],
        ceiling: Some(10_000.0),
        rows: vec![row("raddle", 1.0, 2.0), row("rayon", 2.0, 8.0), other],
    };
    let of = |limit| Budget::ratio("raddle / rayon", id("raddle"), id("rayon"), limit);
    let budgets = vec![of(Limit::AtMost(0.4)), of(Limit::None)];
    Report::new(
        "join",
        Outcome { about: "forks", groups: vec![group], budgets, others: Some(0.5) },
        &settings(false),
    )
}

#[test]
fn text() {
    let text = report().to_string();
    let lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    let words = |i: usize| lines[i].split_whitespace().collect::<Vec<_>>();
    assert_eq!(lines[0], "== join: forks");
    assert!(lines[1].starts_with("other programs used 0.50 processors"), "{text}");
    assert_eq!(words(3), ["s", "[ns]", "min", "median", "/rayon", "median", "B", "allocs"]);
    assert_eq!(words(4), ["raddle", "1.000", "2.000", "0.500", "0.250", "40.00", "-"]);
    assert_eq!(words(8), ["raddle", "100.0", ">10000", "40.00", "-"]);
    assert_eq!(words(11), ["MISSED", "raddle", "/", "rayon", "0.500*", "0.250", "<=", "0.400"]);
    assert_eq!(words(12), ["raddle", "/", "rayon", "0.500", "0.250"]);
    assert!(lines.iter().all(|line| line.len() <= 100));
}

#[test]
fn json_has_rows_ratios_and_budgets() {
    let text = json(&Machine::read(), &settings(false), &[report()]);
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let table = &value["tables"][0];
    assert_eq!(table["rows"][1]["median"], 8.0);
    assert_eq!(table["ratios"][0]["reference"], "rayon");
    assert_eq!(table["ratios"][0]["median"], 0.25);
    assert_eq!(table["budgets"][0]["verdict"], "missed");
    assert_eq!(table["budgets"][0]["limit"]["at_most"], 0.4);
    assert!(value["machine"]["cores"].as_u64() > Some(0));
    assert!(value["machine"]["peers"]["rayon"].is_string(), "{text}");
}
