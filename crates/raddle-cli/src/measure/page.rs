//! The page: what it comes to, then a bar for each figure. It fits a terminal of 80 columns and 24 lines, with one left
//! for the next command.

use std::fmt::Write as _;

use super::{Figures, Verdict};
use crate::machine::BUSY;
use crate::report::{count, duration};

/// The longest bar.
const BAR: f64 = 17.0;
const WIDTH: usize = 80;

/// Some figures that are compared with each other.
struct Group {
    name: &'static str,
    rows: Vec<Row>,
}

struct Row {
    name: String,
    seconds: f64,
    beside: String,
}

pub(super) fn text(figures: &Figures) -> String {
    let mut page = String::new();
    let mut line = |text: &str| _ = writeln!(page, "{}", text.trim_end());
    line(&title(figures));
    verdict(figures).iter().for_each(|text| line(text));
    line(&warning(figures.others));
    for group in groups(figures) {
        let longest = group.rows.iter().map(|row| row.seconds).fold(0.0, f64::max);
        for (at, row) in group.rows.iter().enumerate() {
            let name = if at == 0 { group.name } else { "" };
            let bar = "#".repeat((row.seconds / longest * BAR).round().max(1.0) as usize);
            let time = duration(row.seconds);
            line(&format!("{name:<10}{:<29}{time:>9}  {bar} {}", row.name, row.beside));
        }
    }
    line("Next: raddle run kmeans, knn, quantize, sort or fib; --help says how.");
    page
}

fn title(figures: &Figures) -> String {
    let threads = count(figures.threads, "thread");
    let kind = if cfg!(debug_assertions) { ", not optimised: figures mean little" } else { "" };
    let version = env!("CARGO_PKG_VERSION");
    let title = format!("raddle {version}{kind}, {threads}, {}", figures.cpu);
    title.chars().take(WIDTH).collect()
}

fn verdict(figures: &Figures) -> [String; 2] {
    let Verdict { fork, call, .. } = figures.verdict();
    let pays = pays(figures.threads, fork, call);
    let threads = count(figures.threads, "thread");
    let idle = figures.idle.map_or("unknown".into(), |idle| format!("{:.2} %", idle * 100.0));
    let speedup = figures.speedup();
    let gain = match figures.threads {
        1 => String::new(),
        _ => format!("{threads} do {speedup:.2}x the work of one. "),
    };
    [pays, format!("{gain}Idle, a pool takes {idle} of a processor.")]
}

/// From how much work on forks and calls pay, as far as that could be measured.
fn pays(threads: usize, fork: Option<f64>, call: Option<f64>) -> String {
    // Less than that is nothing that anybody could fork.
    let from = |time: f64| match time {
        time if time < 0.1e-9 => "less than 0.1 ns".into(),
        time => duration(time),
    };
    match (fork.map(from), call.map(from)) {
        _ if threads == 1 => "On one thread forks never pay; this is what they cost.".into(),
        (Some(fork), Some(call)) => {
            format!("Forks pay from {fork} of work on, calls from outside from {call} on.")
        }
        (Some(fork), None) => {
            format!("Forks pay from {fork} of work on; what calls add cannot be told.")
        }
        (None, Some(call)) => {
            format!("What forks add cannot be told; calls pay from {call} on.")
        }
        (None, None) => "What forks and calls add cannot be told: it is too little.".into(),
    }
}

fn warning(others: Option<f64>) -> String {
    match others.filter(|others| *others >= BUSY) {
        Some(others) => format!("The machine is busy ({others:.1} processors): believe no figure."),
        None => String::new(),
    }
}

fn groups(figures: &Figures) -> Vec<Group> {
    let Figures { effort, threads, forks, futures, locals, locks, hand_offs, .. } = figures;
    let fib = |threads| format!("fib({}), {}", effort.fib_all, count(threads, "thread"));
    let floor = figures.join_floor();
    let mut all = Group { name: "All", rows: vec![plain(fib(1), figures.fib_one)] };
    if *threads > 1 {
        let beside = format!("1/{:.2}", figures.speedup());
        all.rows.push(Row { name: fib(*threads), seconds: figures.fib_all, beside });
    }
    vec![
        beside_floor(
            "Fork",
            [
                ("a plain call instead", forks.call),
                ("Worker::join", forks.worker),
                ("raddle::join, from anywhere", forks.ambient),
            ],
        ),
        all,
        beside_floor(
            "Future",
            [
                ("a closure boxed and called", futures.boxed),
                ("spawn all, then wait for all", futures.together),
                ("spawn and wait, one by one", futures.alone),
            ],
        ),
        beside_floor(
            "Promise",
            [("two small boxes", futures.boxes), ("promise, map, set, take", futures.mapped)],
        ),
        beside_floor(
            "Inherit",
            [("a fork, nothing bound", locals.fork), ("a fork, one local bound", locals.bound)],
        ),
        beside_floor(
            "Lock",
            [
                ("one atomic swap", locks.atomic),
                ("raddle::lock::Mutex", locks.pair),
                ("std::sync::Mutex", locks.standard),
            ],
        ),
        beside_floor(
            "Hand-off",
            [
                ("two halves of 20 us", floor),
                ("from outside, at once", hand_offs.hot),
                ("after 3 ms of quiet", hand_offs.quiet),
            ],
        ),
    ]
}

/// The first is what nothing can be faster than.
fn beside_floor<const N: usize>(name: &'static str, rows: [(&str, f64); N]) -> Group {
    let floor = rows[0].1;
    let row = |(at, (name, seconds)): (usize, (&str, f64))| {
        let beside = if at == 0 { "floor".into() } else { format!("{:.1}x", seconds / floor) };
        Row { name: name.into(), seconds, beside }
    };
    Group { name, rows: rows.into_iter().enumerate().map(row).collect() }
}

fn plain(name: String, seconds: f64) -> Row {
    Row { name, seconds, beside: String::new() }
}

#[cfg(test)]
mod tests {
    use super::{WIDTH, pays, warning};

    #[test]
    fn a_busy_machine_is_told_of() {
        let busy = "The machine is busy (1.5 processors): believe no figure.";
        assert!(busy.len() <= WIDTH);
        let others = [Some(1.5), Some(0.1), Some(0.05), None].map(warning);
        assert_eq!(others, [busy, &busy.replace("1.5", "0.1"), "", ""]);
    }

    #[test]
    fn only_what_was_measured_is_told() {
        let told = |fork, call| pays(2, fork, call);
        let all = told(Some(2e-9), Some(3e-6));
        assert_eq!(all, "Forks pay from 2.00 ns of work on, calls from outside from 3.00 us on.");
        for (fork, call) in [(None, Some(3e-6)), (Some(1e-12), None), (None, None)] {
            let text = told(fork, call);
            assert!(!text.contains("0.00 ns") && text.len() < 80, "{text}");
            assert_eq!(text.contains("calls pay from 3.00 us"), call.is_some(), "{text}");
            assert_eq!(text.contains("less than 0.1 ns"), fork.is_some(), "{text}");
        }
        assert!(pays(1, None, None).starts_with("On one thread"));
    }
}
