//! `cargo xtask demo`: the benchmarks of rayon-demo, on rayon's own scheduler and on raddle's, in turn.
//!
//! rayon-demo is not published, so `RAYON_REPOSITORY` names a clone of rayon's repository. Benchmarks that compute on one thread
//! to compare with are left out. What was found goes to `bench/rayon-demo.json`, from which COMPARE's table is made.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::packages::copy_package;
use super::rows::{self, Figures, Row, Took, geometric_mean};
use super::{demo_suite, missing};
use crate::steps::{Outcome, cargo, target_dir};

/// Where the figures are.
pub(crate) const FIGURES: &str = "bench/rayon-demo.json";
const THREADS: usize = 2;
/// Where a benchmark's loop lies is chance, and decides by up to a third of its time, also with one thread: quick sort's was 14 % slower
/// in one of two programs for that alone. So in both programs functions, and blocks that are jumped to, begin a cache line.
const ALIGNED: &str =
    "-Cllvm-args=-align-all-functions=6 -Cllvm-args=-align-all-nofallthru-blocks=6";
/// So many times rayon's time is more than chance.
const MOST: f64 = 1.05;
/// Parts of the names of benchmarks that never call rayon.
const SERIAL: &[&str] = &[
    "serial",
    "seq",
    "factorial_iterator",
    "factorial_recursion",
    "fibonacci_iterative",
    "fibonacci_recursive",
];
/// These do not, either.
const SERIAL_NAMES: &[&str] = &["life::bench::generations", "sieve::bench::sieve_chunks"];
/// It does call rayon.
const NOT_SERIAL: &str = "increment_all_serialized";

/// The step.
pub(crate) fn demo() -> Outcome {
    let Some(clone) = std::env::var_os("RAYON_REPOSITORY") else {
        return Outcome::ToolMissing("RAYON_REPOSITORY is to name a clone of rayon's repository");
    };
    let rounds = std::env::var("RADDLE_DEMO_ROUNDS").ok().and_then(|n| n.parse().ok()).unwrap_or(3);
    match measure(Path::new(&clone), rounds) {
        Ok(()) => Outcome::Passed,
        Err(error) => {
            eprintln!("xtask: rayon-demo: {error}");
            Outcome::Failed
        }
    }
}

fn measure(clone: &Path, rounds: usize) -> io::Result<()> {
    let folder = target_dir("rayon");
    let theirs = folder.join("demo");
    copy_package(clone, &theirs)?;
    fs::remove_file(theirs.join("Cargo.lock")).or_else(missing)?;
    let ours = demo_suite(&folder.join("repository"), clone)?;
    let theirs = build(&theirs, &folder.join("target-of-rayon"))?;
    let ours = build(&ours, &folder.join("target"))?;
    let names = benchmarks(&theirs)?;
    let only = std::env::var("RADDLE_DEMO_ONLY").unwrap_or_default();
    let mut figures = Figures::new(rounds);
    for name in names.iter().filter(|name| name.contains(&only)) {
        let mut found: [Vec<Took>; 2] = Default::default();
        for _ in 0..rounds {
            for (program, found) in [&theirs, &ours].into_iter().zip(&mut found) {
                found.push(run(program, name, THREADS)?);
            }
        }
        // In the same minute: the machine is not always as fast.
        let alone = Some(run(&ours, name, 1)?.wall);
        let [theirs, ours] = found.map(|all| Took::median(&all));
        let row = Row { name: name.clone(), ours, theirs, alone };
        let [wall, busy] = row.ratios();
        println!(
            "{name}: {:.0} ns, rayon {:.0}: {wall:.3}, processor time {busy:.3}",
            ours.wall, theirs.wall
        );
        figures.rows.push(row);
        // Hours of measuring are not lost with the last row. Some rows are no table.
        if only.is_empty() {
            figures.save(FIGURES)?;
        }
    }
    Ok(())
}

/// The program with the benchmarks.
fn build(folder: &Path, target: &Path) -> io::Result<PathBuf> {
    let mut command = cargo();
    command.args(["bench", "-p", "rayon-demo", "--bin", "rayon-demo", "--no-run"]);
    command.args(["--message-format", "json", "--target-dir"]).arg(target).current_dir(folder);
    command.env("RUSTFLAGS", ALIGNED);
    let output = command.env("RUSTC_BOOTSTRAP", "1").stderr(Stdio::inherit()).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let messages = text.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let mut programs =
        messages.filter_map(|message| message["executable"].as_str().map(PathBuf::from));
    let found = programs.next_back().filter(|_| output.status.success());
    found.ok_or_else(|| io::Error::other(format!("{} cannot be built", folder.display())))
}

fn benchmarks(program: &Path) -> io::Result<Vec<String>> {
    let output = Command::new(program).args(["--bench", "--list"]).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let names = text.lines().filter_map(|line| line.strip_suffix(": benchmark"));
    Ok(names.filter(|name| is_parallel(name)).map(str::to_owned).collect())
}

fn is_parallel(name: &str) -> bool {
    let serial = SERIAL_NAMES.contains(&name) || SERIAL.iter().any(|part| name.contains(part));
    name.ends_with(NOT_SERIAL) || !serial
}

/// Nanoseconds of an iteration, on so many threads.
fn run(program: &Path, name: &str, threads: usize) -> io::Result<Took> {
    let (before, start) = (processor_time()?, Instant::now());
    let mut command = Command::new(program);
    command.args(["--bench", name, "--exact"]).env("RAYON_NUM_THREADS", threads.to_string());
    let output = command.stderr(Stdio::inherit()).output()?;
    let processors = (processor_time()? - before) / start.elapsed().as_secs_f64();
    let text = String::from_utf8_lossy(&output.stdout);
    let wall = nanos(&text).filter(|_| output.status.success());
    let wall = wall.ok_or_else(|| io::Error::other(format!("{name} ends with {text}")))?;
    Ok(Took { wall, busy: wall * processors })
}

/// The figure in a line as `test life::generations ... bench:  1,234.50 ns/iter (+/- 9)`.
fn nanos(text: &str) -> Option<f64> {
    let (_, rest) = text.split_once(" bench: ")?;
    rest.split_once(" ns/iter")?.0.trim().replace(',', "").parse().ok()
}

/// Of all children that have ended, in seconds; in hundredths, while a benchmark takes seconds.
fn processor_time() -> io::Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    // What comes after the name, which may have spaces: the state is the third field.
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap_or("").split(' ').collect();
    let ticks = |at: usize| fields.get(at - 3).and_then(|field| field.parse::<f64>().ok());
    let both = ticks(16).zip(ticks(17));
    both.map(|(user, system)| (user + system) / 100.0)
        .ok_or_else(|| io::Error::other("/proc/self/stat is not as it is on Linux"))
}

/// COMPARE's part about them.
pub(crate) fn table(figures: &str) -> Result<String, String> {
    let Figures { machine, rounds, rows } = rows::parse(figures)?;
    let mut lines: BTreeMap<&str, String> = BTreeMap::new();
    for row in &rows {
        let (name, ours, theirs) = (&row.name, row.ours.wall / 1e3, row.theirs.wall / 1e3);
        let [wall, busy] = row.ratios().map(rows::ratio);
        let best = row.at_best(THREADS).map_or_else(String::new, |best| format!("{best:.2}"));
        lines.insert(
            name,
            format!("| {name} | {ours:.1} | {theirs:.1} | {wall} | {busy} | {best} |\n"),
        );
    }
    let ratios = |at: usize| rows.iter().map(move |row| row.ratios()[at]);
    let [wall, busy] = [0, 1].map(|at| geometric_mean(ratios(at)).unwrap_or(1.0));
    let above = ratios(0).filter(|ratio| *ratio > MOST).count();
    let best: Option<Vec<f64>> = rows.iter().map(|row| row.at_best(THREADS)).collect();
    let best = best.and_then(|best| geometric_mean(best.into_iter()));
    let best = best.map_or_else(String::new, |best| {
        format!(
            " *At best* is the time with one of raddle's threads, taken once, divided by {THREADS} and by rayon's time: as if a second thread came \
             at once, shared all, and cost nothing; {best:.2} in the mean. (A search may take less than that, and two threads may have more to do.)"
        )
    });
    let how = match rounds {
        1 => "in one round".into(),
        _ => format!("medians of {rounds} rounds in turn"),
    };
    let mut text = format!(
        "The benchmarks of rayon-demo that compute in parallel, as they are, on {THREADS} threads, {how}: \
         geometric mean of the ratios {wall:.2}, of processor time {busy:.2}. {above} of \
         {} take more than {MOST} times rayon's time.{best} {machine}.\n\n<details>\n<summary>All of them</summary>\n\n\
         | benchmark | raddle, us | rayon, us | time | processor time | at best |\n|---|---|---|---|---|---|\n",
        rows.len()
    );
    lines.values().for_each(|line| text += line);
    Ok(text + "\n</details>\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_read_and_compared() {
        let line = "test life::generations ... bench:   1,234.50 ns/iter (+/- 9.1)";
        assert_eq!(nanos(line), Some(1234.5));
        assert!(is_parallel("join_microbench::increment_all_serialized"));
        assert!(!is_parallel("nbody::bench::nbody_seq") && !is_parallel("sieve::sieve_serial"));
        assert!(!is_parallel("life::bench::generations"));
        assert!(is_parallel("life::bench::par_iter_generations"));
        let row = |name, ours| json!({ "name": name, "ours": [ours, 2.0], "theirs": [2.0, 4.0] });
        let mut rows = [row("b", 4.0), row("a", 1.0)];
        let of = |rows: &[Value]| {
            let figures = json!({ "machine": "two cores", "rounds": 3, "rows": rows });
            table(&figures.to_string()).unwrap()
        };
        let text = of(&rows);
        assert!(text.contains("ratios 1.00, of processor time 0.50"), "{text}");
        assert!(text.contains("1 of 2 take more"), "{text}");
        assert!(text.contains("| a | 0.0 | 0.0 | 0.50 | 0.50 |  |"), "{text}");
        rows[0]["alone"] = 6.0.into();
        assert!(!of(&rows).contains("in the mean"), "not of some rows");
        rows[1]["alone"] = 1.5.into();
        let text = of(&rows);
        assert!(text.contains("0.75 in the mean"), "{text}");
        assert!(text.contains("| b | 0.0 | 0.0 | **2.00** | 0.50 | 1.50 |"), "{text}");
    }
}
