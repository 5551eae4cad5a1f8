//! The benchmarks of the Lisp libraries as tables: `raddle::remote` on threads, processes, slots and Ray, beside
//! ProcessPoolExecutor and loky.
//!
//! `cargo xtask peers` runs it with a Python that has both, and a head of Ray, and writes the tables into `one_machine.md`. All of
//! a row are measured in turns, and the best of each counts, as the machine may be busy; of round trips the median.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use raddle::remote::{Env, Plan};

const ROUNDS: usize = 5;
/// So often each round trip is measured.
const TRIPS: usize = 15;

fn main() {
    if std::env::args().nth(1).as_deref() == Some("echo") {
        return echo();
    }
    raddle::remote::init();
    let python = std::env::var("RADDLE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let mut peers = Peers::start(&python);
    trips(&mut peers);
    println!();
    tasks(&mut peers);
    println!();
    rounds(&mut peers);
    println!();
    starts();
}

/// The two of the table in Python.
struct Peers {
    process: Child,
    to: Option<ChildStdin>,
    from: BufReader<ChildStdout>,
}

impl Peers {
    fn start(python: &str) -> Peers {
        // A file: what it runs in processes of its own must be found by them.
        let file = std::env::temp_dir().join(format!("raddle_peers_{}.py", std::process::id()));
        std::fs::write(&file, include_str!("peers.py")).expect("a file for the peers");
        let mut process = Command::new(python)
            .arg(&file)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a Python");
        let to = process.stdin.take();
        let from = BufReader::new(process.stdout.take().expect("it is piped"));
        Peers { process, to, from }
    }

    /// NaN if the peer cannot do it.
    fn ask(&mut self, peer: &str, which: &str, number: f64) -> f64 {
        let to = self.to.as_mut().expect("it is open");
        writeln!(to, "{peer} {which} {number}").expect("the peers are there");
        let mut answer = String::new();
        self.from.read_line(&mut answer).expect("the peers are there");
        answer.trim().parse().unwrap_or(f64::NAN)
    }
}

impl Drop for Peers {
    fn drop(&mut self) {
        drop(self.to.take());
        let _ = self.process.wait();
    }
}

fn timed(mut what: impl FnMut()) -> f64 {
    let start = Instant::now();
    what();
    start.elapsed().as_secs_f64()
}

/// The least of several, each taken in turn.
fn least<const N: usize>(mut each: [&mut dyn FnMut() -> f64; N]) -> [f64; N] {
    let mut least = [f64::INFINITY; N];
    for _ in 0..ROUNDS {
        for (least, measure) in least.iter_mut().zip(&mut each) {
            *least = least.min(measure());
        }
    }
    least
}

/// The plans of two workers, or of one; Ray where there is a head.
fn plans(workers: usize) -> [Option<Env>; 4] {
    let python = std::env::var("RADDLE_TEST_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let ray = std::env::var("RADDLE_TEST_RAY").ok().map(Plan::ray);
    [
        Some(Plan::threads(workers)),
        Some(Plan::processes(workers)),
        Some(Plan::loopback(workers)),
        ray.map(|plan| plan.workers(workers)),
    ]
    .map(|plan| plan.map(|plan| environment(plan.python(&python))))
}

const COLUMNS: &str = "| threads | processes | slots here | Ray | ProcessPoolExecutor | loky |";
const LINES: &str = "|---|---|---|---|---|---|---|";

/// A row: each plan's figure and each peer's, measured in turns.
fn row(
    plans: &[Option<Env>; 4],
    ours: impl Fn(&Env) -> f64,
    ask: impl Fn(&str) -> f64,
) -> [f64; 6] {
    let our = |at: usize| plans[at].as_ref().map_or(f64::NAN, &ours);
    least([
        &mut || our(0),
        &mut || our(1),
        &mut || our(2),
        &mut || our(3),
        &mut || ask("executor"),
        &mut || ask("loky"),
    ])
}

fn cells(figures: &[f64], digits: usize) -> String {
    let cell = |figure: &f64| match figure.is_finite() {
        true => format!(" {figure:.digits$} |"),
        false => " |".to_owned(),
    };
    figures.iter().map(cell).collect()
}

fn environment(plan: Plan) -> Env {
    let env = Env::new(plan).expect("workers");
    env.map(|n: u32| n, 0..20).wait().expect("workers");
    env
}

/// Says back each byte.
fn echo() {
    use std::os::fd::FromRawFd;
    // SAFETY: standard input is the socket, and is used by nothing else.
    let mut socket = UnixStream::from(unsafe { OwnedFd::from_raw_fd(0) });
    let mut byte = [0; 100];
    while let Ok(read @ 1..) = socket.read(&mut byte) {
        if socket.write_all(&byte[..read]).is_err() {
            return;
        }
    }
}

/// There and back, with nothing.
fn trips(peers: &mut Peers) {
    const COUNT: u32 = 3000;
    let (mut ours, theirs) = UnixStream::pair().expect("a socket");
    let mut child = Command::new("/proc/self/exe")
        .arg("echo")
        .stdin(Stdio::from(OwnedFd::from(theirs)))
        .spawn()
        .expect("a process");
    let mut buffer = [0; 100];
    let mut bare = || {
        timed(|| {
            for _ in 0..COUNT {
                ours.write_all(&[1; 100]).expect("it is there");
                ours.read_exact(&mut buffer).expect("it is there");
            }
        }) / f64::from(COUNT)
    };
    let plans = plans(1);
    let trip = |env: &Env, count: u32| {
        timed(|| (0..count).for_each(|_| env.spawn(|()| (), ()).wait().expect("nothing")))
            / f64::from(count)
    };
    let peers = std::cell::RefCell::new(peers);
    let our = |at: usize, count| plans[at].as_ref().map_or(f64::NAN, |env| trip(env, count));
    let mut each: [Vec<f64>; 7] = Default::default();
    for _ in 0..TRIPS {
        each[0].push(bare());
        each[1].push(our(0, COUNT));
        each[2].push(our(1, COUNT));
        each[3].push(our(2, COUNT / 10));
        each[4].push(our(3, COUNT / 30));
        each[5].push(peers.borrow_mut().ask("executor", "trip", 500.0));
        each[6].push(peers.borrow_mut().ask("loky", "trip", 300.0));
    }
    let [bare, rest @ ..] = each.map(|mut all| {
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    });
    println!("| there and back with nothing, medians {COLUMNS}");
    println!("{LINES}");
    println!("| us (a bare socketpair: {:.1}) |{}", bare * 1e6, cells(&rest.map(|t| t * 1e6), 1));
    println!("| times a bare socketpair |{}", cells(&rest.map(|time| time / bare), 2));
    drop(ours);
    let _ = child.wait();
}

fn fib(n: u32) -> u64 {
    if n <= 1 { 1 } else { fib(n - 1) + fib(n - 2) }
}

/// Calls `fib(12)` so often.
fn work(turns: u32) -> u64 {
    (0..turns).map(|_| fib(std::hint::black_box(12))).sum()
}

/// How many times as fast as alone tasks of a length are on two workers.
fn tasks(peers: &mut Peers) {
    println!("| tasks of `fib` on 2 workers, times as fast as alone {COLUMNS}");
    println!("{LINES}");
    let turn = (0..20)
        .map(|_| timed(|| _ = std::hint::black_box(work(100))))
        .fold(f64::INFINITY, f64::min)
        / 100.0;
    let plans = plans(2);
    let peers = std::cell::RefCell::new(peers);
    for milliseconds in [0.1, 0.25, 0.5, 1.0, 2.0, 4.0] {
        let turns = (milliseconds / 1e3 / turn) as u32;
        let count = (300.0 / milliseconds / 4.0).max(20.0) as usize;
        let alone = || timed(|| (0..count).for_each(|_| _ = std::hint::black_box(work(turns))));
        let many = |env: &Env| {
            timed(|| {
                let all: Vec<_> = (0..count).map(|_| env.spawn(work, turns)).collect();
                all.into_iter().for_each(|one| _ = one.wait().expect("a number"));
            })
        };
        let ask = |peer: &str| 1.0 / peers.borrow_mut().ask(peer, "tasks", milliseconds);
        let least_alone = std::cell::Cell::new(f64::INFINITY);
        // Of the same moments as the others.
        let ours = |env: &Env| {
            least_alone.set(least_alone.get().min(alone()));
            many(env)
        };
        let [a, b, c, d, executor, loky] = row(&plans, ours, ask);
        let alone = least_alone.get();
        let times = [alone / a, alone / b, alone / c, alone / d, 1.0 / executor, 1.0 / loky];
        println!("| {milliseconds} ms |{}", cells(&times, 2));
    }
}

fn rounds(peers: &mut Peers) {
    println!("| s {COLUMNS}");
    println!("{LINES}");
    let plans = plans(2);
    let peers = std::cell::RefCell::new(peers);
    let round = |env: &Env, rounds: usize, futures: u32| {
        timed(|| {
            for _ in 0..rounds {
                let all: Vec<_> = (0..futures).map(|n| env.spawn(|n| n + 1, n)).collect();
                all.into_iter().for_each(|one| _ = one.wait().expect("a number"));
            }
        })
    };
    for (name, which, count, futures) in [
        ("100 rounds of 100 futures", "rounds", 100, 100),
        ("map-reduce: 100 rounds of 32 futures", "reduce", 100, 32),
    ] {
        let ask = |peer: &str| peers.borrow_mut().ask(peer, which, count as f64);
        let figures = row(&plans, |env| round(env, count, futures), ask);
        println!("| {name} |{}", cells(&figures, 3));
    }
    // Where they take long there are fewer, and the time is scaled up.
    let reset = |env: &Env| {
        let slow = ["loopback", "ray"].iter().any(|name| env.plan().to_string().starts_with(name));
        let count = if slow { 10 } else { 1000 };
        1000.0 / f64::from(count) * timed(|| (0..count).for_each(|_| reset_and_ask(env)))
    };
    let ask = |peer: &str| {
        let count = if peer == "loky" { 1.0 } else { 10.0 };
        1000.0 * peers.borrow_mut().ask(peer, "reset", count)
    };
    let figures = cells(&row(&plans, reset, ask), 2);
    println!("| 1000 resets of a pool of 2, and an answer of each |{figures}");
}

/// Until its two workers are there again: a reset by itself only says that they are to be.
fn reset_and_ask(env: &Env) {
    env.reset();
    env.map(|n: u32| n, 0..2).wait().expect("numbers");
}

/// Workers that come and go.
fn starts() {
    let first = || {
        let env = Env::new(Plan::processes(1)).expect("workers");
        let time = timed(|| env.spawn(|()| (), ()).wait().expect("nothing"));
        drop(env);
        time
    };
    let env = environment(Plan::processes(1));
    let killed = || {
        let (gate, opened) = gate();
        let spins = env.spawn(spin, gate);
        opened();
        timed(|| {
            spins.kill();
            env.spawn(|()| (), ()).wait().expect("nothing");
        })
    };
    let pool = environment(Plan::processes(2));
    let reset = || timed(|| (0..20).for_each(|_| reset_and_ask(&pool))) / 20.0;
    let [first, killed, reset] = least([&mut || first(), &mut || killed(), &mut || reset()]);
    println!("| ms | processes |");
    println!("|---|---|");
    println!("| start to first answer | {:.2} |", first * 1e3);
    println!("| kill to an answer of the replacement | {:.2} |", killed * 1e3);
    println!("| reset of a pool of 2, and an answer of each | {:.2} |", reset * 1e3);
}

/// A file that is there once the task runs.
fn gate() -> (String, impl FnOnce()) {
    let path = std::env::temp_dir().join(format!("raddle-gate-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let text = path.to_str().expect("a path of text").to_owned();
    let wait = move || {
        while !path.exists() {
            std::thread::sleep(Duration::from_micros(100));
        }
    };
    (text, wait)
}

fn spin(path: String) {
    std::fs::write(path, "").expect("a file");
    loop {
        std::hint::spin_loop();
    }
}
