//! What calls into a pool take: of regions small and large, one upon the other and with pauses between.

use std::hint::{black_box, spin_loop};
use std::thread;
use std::time::{Duration, Instant};

use rayon::ThreadPool;
use rayon::prelude::*;

/// Between two calls the caller is at something else, or sleeps if it is long.
const PAUSES: &[Duration] = &[
    Duration::ZERO,
    Duration::from_micros(30),
    Duration::from_micros(100),
    Duration::from_millis(1),
    Duration::from_millis(10),
];
/// A thread that pauses less stays awake.
const AWAKE: Duration = Duration::from_micros(60);
/// How long calls of one kind are made, pauses included, and how often at the least and the most.
const EACH: Duration = Duration::from_millis(300);
const CALLS: (usize, usize) = (40, 5_000);

type Region = (&'static str, fn(&ThreadPool));

const REGIONS: &[Region] = &[
    ("nothing", |pool| pool.install(|| ())),
    ("a join", |pool| _ = black_box(pool.install(|| rayon::join(tiny, tiny)))),
    ("a sum of 10,000", |pool| _ = black_box(pool.install(|| sum(10_000)))),
    ("two leaves of 100 us", |pool| pool.install(|| (0..2).into_par_iter().for_each(|_| spin()))),
];

fn tiny() -> u64 {
    (0..20).map(black_box).sum()
}

fn sum(n: u64) -> u64 {
    (0..n).into_par_iter().map(|i| black_box(i) % 7).sum()
}

fn spin() {
    let start = Instant::now();
    while start.elapsed() < Duration::from_micros(100) {
        spin_loop();
    }
}

/// Prints for each kind of call the microseconds that it takes in the middle, and those of processors per call, the caller's
/// and what the pool spends on looking for more included.
pub fn calls() {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
    for (name, region) in REGIONS {
        for &pause in PAUSES {
            let (took, busy) = measure(pause, || region(&pool));
            println!("{name}, {}\t{took:.2}\t{busy:.2}", called(pause));
        }
    }
}

fn called(pause: Duration) -> String {
    if pause.is_zero() { "at once".into() } else { format!("every {pause:?}").replace('µ', "u") }
}

fn measure(pause: Duration, call: impl Fn()) -> (f64, f64) {
    let fit = EACH.as_micros() / pause.as_micros().max(1);
    let calls = (fit as usize).clamp(CALLS.0, CALLS.1);
    (0..calls.min(100)).for_each(|_| call());
    let before = processor_time();
    let mut took: Vec<Duration> = Vec::with_capacity(calls);
    let mut pauses = Duration::ZERO;
    for _ in 0..calls {
        pauses += rest(pause);
        let start = Instant::now();
        call();
        took.push(start.elapsed());
    }
    let busy = processor_time() - before - pauses.as_secs_f64() * 1e6;
    took.sort_unstable();
    (took[calls / 2].as_secs_f64() * 1e6, busy / calls as f64)
}

/// Says for how long it was awake.
fn rest(pause: Duration) -> Duration {
    let start = Instant::now();
    if pause >= AWAKE {
        thread::sleep(pause);
        return Duration::ZERO;
    }
    while start.elapsed() < pause {
        spin_loop();
    }
    start.elapsed()
}

/// Of all threads of this process together, in microseconds; nothing where the system does not say.
fn processor_time() -> f64 {
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten().flatten();
    let times = tasks.filter_map(|task| {
        let text = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
        text.split(' ').next()?.parse::<f64>().ok()
    });
    times.sum::<f64>() / 1e3
}
