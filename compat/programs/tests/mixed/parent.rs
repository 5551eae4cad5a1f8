//! Has programs run by other processes, and says which of them hang, crash or are wrong.

use std::io::{BufRead, BufReader, Read};
use std::ops::Range;
use std::path::PathBuf;
use std::process::{Child, Command, ExitCode, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::{Duration, Instant};

use crate::options::{Options, Setting};

#[derive(Debug)]
struct Failure {
    seed: u64,
    setting: Setting,
    what: What,
    details: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Hangs,
    Crashes,
    Wrong,
}

/// Seeds of one process at most.
const BATCH: u64 = 100;
/// How many limits a program may take while it computes: on a busy machine it stands still for long, and those that hang in a
/// loop are found too.
const LOOPS: u32 = 12;

pub(crate) fn run(options: &Options) -> ExitCode {
    let start = Instant::now();
    let count = options.seeds.end.saturating_sub(options.seeds.start);
    let settings = settings(options);
    let turns = (2 * settings.len() as u64).max(options.processes as u64);
    let batch = count.div_ceil(turns).clamp(1, BATCH);
    let state = Mutex::new((options.seeds.start, 0_usize, Vec::<Failure>::new()));
    let next = || {
        let mut state = state.lock().unwrap();
        let (seed, turn, failures) = &mut *state;
        if *seed >= options.seeds.end || failures.len() >= options.failures {
            return None;
        }
        let end = (*seed + batch).min(options.seeds.end);
        *turn += 1;
        let seeds = *seed..end;
        // One alone is run in each setting.
        if count > 1 || *turn == settings.len() {
            *seed = end;
        }
        Some((seeds, settings[(*turn - 1) % settings.len()]))
    };
    thread::scope(|scope| {
        for _ in 0..options.processes {
            scope.spawn(|| {
                while let Some((mut seeds, setting)) = next() {
                    while !seeds.is_empty() {
                        let (done, failures) = process(options, setting, seeds.clone());
                        seeds.start = done;
                        let mut state = state.lock().unwrap();
                        for failure in failures {
                            tell(options, &failure);
                            state.2.push(failure);
                        }
                        if state.2.len() >= options.failures {
                            break;
                        }
                    }
                }
            });
        }
    });
    let (seed, _, failures) = state.into_inner().unwrap();
    let ran = seed - options.seeds.start;
    println!(
        "{ran} programs in {:.1} s, {} failures",
        start.elapsed().as_secs_f64(),
        failures.len()
    );
    if options.shrink {
        for failure in failures.iter().take(1) {
            shrink(options, failure);
        }
    }
    if failures.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// All combinations of what is not said; traces with half of them.
fn settings(options: &Options) -> Vec<Setting> {
    let threads = options.threads.map_or(vec![1, 2, 3, 8], |threads| vec![threads]);
    let both = |said: Option<bool>| said.map_or(vec![false, true], |said| vec![said]);
    let mut all = Vec::new();
    for raddle_first in both(options.raddle_first) {
        for threads in &threads {
            for substitute in both(options.substitute) {
                let trace = options.trace.unwrap_or((all.len() / 2) % 3 == 1);
                all.push(Setting { threads: *threads, substitute, raddle_first, trace });
            }
        }
    }
    all
}

fn command(options: &Options, setting: Setting, seeds: &Range<u64>) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    command.args(["--here", "--seeds", &format!("{}..{}", seeds.start, seeds.end)]);
    command.args(setting.args());
    command.args(["--times", &options.times.to_string()]);
    command.args(["--limit-seconds", &options.limit.as_secs().to_string()]);
    command.args(options.rest());
    command.env("RADDLE_NUM_THREADS", setting.threads.to_string());
    command.env("RADDLE_WAITS", if setting.substitute { "substitute" } else { "host" });
    // Chains of joins and nested scopes are as deep as they are.
    command.env("RUST_MIN_STACK", (16 << 20).to_string());
    if setting.trace {
        command.env("RADDLE_TRACE", trace_file(seeds));
        let level = if seeds.start % 2 == 0 { "phase" } else { "tasks" };
        command.env("RADDLE_TRACE_LEVEL", level).env_remove("RADDLE_TRACE_ROOM");
        if seeds.start % 3 == 0 {
            // Kept in memory, else all of it goes to the file.
            command.env("RADDLE_TRACE_ROOM", "10000");
        }
    } else {
        command.env_remove("RADDLE_TRACE");
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Where a process records what its pools do.
fn trace_file(seeds: &Range<u64>) -> PathBuf {
    let name = format!("raddle-mixed-{}-{}.trace", std::process::id(), seeds.start);
    std::env::temp_dir().join(name)
}

/// Traces of a process and its pools, each a file.
fn remove_traces(seeds: &Range<u64>) {
    let file = trace_file(seeds);
    drop(std::fs::remove_file(&file));
    for number in 2.. {
        let next = format!("{}.{number}", file.display());
        if std::fs::remove_file(next).is_err() {
            break;
        }
    }
}

/// Runs programs in another process up to the first that it does not survive; returns the first seed that is left.
fn process(options: &Options, setting: Setting, seeds: Range<u64>) -> (u64, Vec<Failure>) {
    let mut child = command(options, setting, &seeds).spawn().expect("this program starts again");
    let errors = child.stderr.take().expect("it is piped");
    let errors = thread::spawn(move || {
        let mut text = String::new();
        drop(BufReader::new(errors).read_to_string(&mut text));
        text
    });
    let lines = lines(&mut child);
    let mut at = seeds.start;
    let mut failures: Vec<Failure> = Vec::new();
    let mut still = Still::new(child.id());
    let what = loop {
        let line = lines.recv_timeout(options.limit.min(Duration::from_secs(1)));
        if line.is_ok() {
            still = Still::new(child.id());
        }
        match line {
            Ok(line) if line == "done" => break None,
            Ok(line) => {
                if let Some(seed) = line.strip_prefix("> ") {
                    at = seed.parse().expect("a seed");
                } else if let Some(error) = line.strip_prefix("! ") {
                    let details = error.to_owned();
                    failures.push(Failure { seed: at, setting, what: What::Wrong, details });
                } else {
                    println!("{line}");
                }
            }
            Err(RecvTimeoutError::Timeout) if !still.hangs(options.limit) => {}
            Err(RecvTimeoutError::Timeout) => break Some(What::Hangs),
            Err(RecvTimeoutError::Disconnected) => break Some(What::Crashes),
        }
    };
    // If it is over already there is nothing to be ended.
    drop(child.kill());
    let status = child.wait();
    if setting.trace {
        remove_traces(&seeds);
    }
    let errors = errors.join().unwrap_or_default();
    failures.dedup_by_key(|failure| failure.seed);
    let Some(what) = what else { return (seeds.end, failures) };
    let mut details = errors;
    if what == What::Crashes {
        details += &format!("{status:?}");
    }
    failures.push(Failure { seed: at, setting, what, details });
    (at + 1, failures)
}

/// For how long a process has said nothing, and not computed either.
struct Still {
    process: u32,
    silent: Instant,
    still: Instant,
    ticks: Option<u64>,
}

impl Still {
    fn new(process: u32) -> Still {
        let now = Instant::now();
        Still { process, silent: now, still: now, ticks: ticks(process) }
    }

    fn hangs(&mut self, limit: Duration) -> bool {
        let ticks = ticks(self.process);
        if ticks != self.ticks {
            self.ticks = ticks;
            self.still = Instant::now();
        }
        self.still.elapsed() >= limit || self.silent.elapsed() >= limit * LOOPS
    }
}

/// Hundredths of a second that a process has computed; none where the system doesn't tell.
fn ticks(process: u32) -> Option<u64> {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    // After the name of the program, which may contain anything: state and ten fields, then user and system.
    let fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11).take(2);
    fields.map(|field| field.parse::<u64>().ok()).sum()
}

fn lines(child: &mut Child) -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    let out = child.stdout.take().expect("it is piped");
    thread::spawn(move || {
        for line in BufReader::new(out).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}

fn tell(options: &Options, failure: &Failure) {
    let Failure { seed, setting, what, details } = failure;
    println!("seed {seed} {what:?}, {setting:?}");
    for line in details.lines().take(12) {
        println!("    {line}");
    }
    let rest = [setting.args(), options.rest()].concat().join(" ");
    println!("    again: cargo test --test mixed -- --seed {seed} {rest}");
}

/// Looks for a shorter program with which it happens too: of the same seed, or another one.
fn shrink(options: &Options, failure: &Failure) {
    let mut options = options.clone();
    options.limit = options.limit.min(Duration::from_secs(5));
    options.times = 3;
    for size in [2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 40, 48, 64, 80, 96, 128] {
        options.size = Some(size);
        for seed in [failure.seed, 1000 * failure.seed] {
            let seeds = seed..seed + if seed == failure.seed { 1 } else { 40 };
            let (_, failures) = process(&options, failure.setting, seeds);
            if let Some(smaller) = failures.iter().find(|other| other.what == failure.what) {
                println!("shorter:");
                return tell(&options, smaller);
            }
        }
    }
    println!("nothing shorter was found");
}
