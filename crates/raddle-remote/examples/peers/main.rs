//! The benchmarks of the Lisp libraries as a table: `raddle::remote` on threads and processes, beside ProcessPoolExecutor and
//! loky.
//!
//! `cargo xtask peers` runs it with a Python that has both. All of a row are measured in turns, and the best of each
//! counts: minima, as the machine may be busy.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use raddle::remote::{Env, Plan};

const ROUNDS: usize = 5;

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
    starts(&mut peers);
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

    /// None if the peer cannot do it.
    fn ask(&mut self, peer: &str, row: &str, number: f64) -> f64 {
        let to = self.to.as_mut().expect("it is open");
        writeln!(to, "{peer} {row} {number}").expect("the peers are there");
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
    let (one, thread) = (environment(Plan::processes(1)), environment(Plan::threads(1)));
    let trip = |env: &Env| {
        timed(|| (0..COUNT).for_each(|_| env.spawn(|()| (), ()).wait().expect("nothing")))
            / f64::from(COUNT)
    };
    let peers = std::cell::RefCell::new(peers);
    let [bare, threads, processes, executor, loky] = least([
        &mut bare,
        &mut || trip(&thread),
        &mut || trip(&one),
        &mut || peers.borrow_mut().ask("executor", "trip", 1000.0),
        &mut || peers.borrow_mut().ask("loky", "trip", 500.0),
    ]);
    println!("| round trip of nothing | us | of a bare socketpair | of ProcessPoolExecutor |");
    println!("|---|---|---|---|");
    for (name, time) in [
        ("bare socketpair", bare),
        ("threads:1", threads),
        ("processes:1", processes),
        ("ProcessPoolExecutor", executor),
        ("loky", loky),
    ] {
        println!("| {name} | {:.1} | {:.2} | {:.2} |", time * 1e6, time / bare, time / executor);
    }
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
    println!(
        "| tasks on 2 workers, times as fast as alone | threads:2 | processes:2 | ProcessPoolExecutor | loky |"
    );
    println!("|---|---|---|---|---|");
    let turn = (0..20)
        .map(|_| timed(|| drop(std::hint::black_box(work(100)))))
        .fold(f64::INFINITY, f64::min)
        / 100.0;
    let (threads, processes) = (environment(Plan::threads(2)), environment(Plan::processes(2)));
    let peers = std::cell::RefCell::new(peers);
    for milliseconds in [0.1, 0.25, 0.5, 1.0, 2.0, 4.0] {
        let turns = (milliseconds / 1e3 / turn) as u32;
        let count = (300.0 / milliseconds / 4.0).max(20.0) as usize;
        let alone = || timed(|| (0..count).for_each(|_| drop(std::hint::black_box(work(turns)))));
        let many = |env: &Env| {
            timed(|| {
                let all: Vec<_> = (0..count).map(|_| env.spawn(work, turns)).collect();
                all.into_iter().for_each(|one| drop(one.wait().expect("a number")));
            })
        };
        let ask = |peer: &'static str| 1.0 / peers.borrow_mut().ask(peer, "tasks", milliseconds);
        let [alone, threads, processes, executor, loky] = least([
            &mut || alone(),
            &mut || many(&threads),
            &mut || many(&processes),
            &mut || ask("executor"),
            &mut || ask("loky"),
        ]);
        let (a, b, c, d) = (alone / threads, alone / processes, 1.0 / executor, 1.0 / loky);
        println!("| {milliseconds} ms | {a:.2} | {b:.2} | {c:.2} | {d:.2} |");
    }
}

fn rounds(peers: &mut Peers) {
    println!("| s | threads:2 | processes:2 | ProcessPoolExecutor | loky |");
    println!("|---|---|---|---|---|");
    let (threads, processes) = (environment(Plan::threads(2)), environment(Plan::processes(2)));
    let peers = std::cell::RefCell::new(peers);
    let round = |env: &Env, rounds: usize, futures: u32| {
        timed(|| {
            for _ in 0..rounds {
                let all: Vec<_> = (0..futures).map(|n| env.spawn(|n| n + 1, n)).collect();
                all.into_iter().for_each(|one| drop(one.wait().expect("a number")));
            }
        })
    };
    for (name, row, count, futures) in [
        ("100 rounds of 100 futures", "rounds", 100, 100),
        ("map-reduce: 100 rounds of 32 futures", "reduce", 100, 32),
    ] {
        let ask = |peer: &'static str| peers.borrow_mut().ask(peer, row, count as f64);
        let [a, b, c, d] = least([
            &mut || round(&threads, count, futures),
            &mut || round(&processes, count, futures),
            &mut || ask("executor"),
            &mut || ask("loky"),
        ]);
        println!("| {name} | {a:.3} | {b:.3} | {c:.3} | {d:.3} |");
    }
}

/// Workers that come and go.
fn starts(peers: &mut Peers) {
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
    let reset = || {
        timed(|| {
            for _ in 0..20 {
                pool.reset();
                pool.map(|n: u32| n, 0..2).wait().expect("numbers");
            }
        }) / 20.0
    };
    let thousand = || timed(|| (0..1000).for_each(|_| pool.reset()));
    let peers = std::cell::RefCell::new(peers);
    let [first, killed, reset, executor, loky] = least([
        &mut || first(),
        &mut || killed(),
        &mut || reset(),
        &mut || peers.borrow_mut().ask("executor", "reset", 3.0),
        &mut || peers.borrow_mut().ask("loky", "reset", 1.0),
    ]);
    println!("| ms | processes | ProcessPoolExecutor | loky |");
    println!("|---|---|---|---|");
    println!("| start to first answer | {:.2} | | |", first * 1e3);
    println!("| kill to an answer of the replacement | {:.2} | | |", killed * 1e3);
    println!(
        "| reset of a pool of 2 | {:.2} | {:.1} | {:.1} |",
        reset * 1e3,
        executor * 1e3,
        loky * 1e3
    );
    println!("| 1000 resets | {:.0} | | |", thousand() * 1e3);
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
