//! Iterators that are slow to say what comes next, bridged: threads wait for them, and take no processor meanwhile.

use std::thread;
use std::time::{Duration, Instant};

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;

/// So many numbers, each a while after the last.
fn slowly(numbers: u64) -> impl Iterator<Item = u64> + Send {
    (0..numbers).inspect(|_| thread::sleep(Duration::from_millis(1)))
}

fn sum(numbers: u64) -> u64 {
    slowly(numbers).par_bridge().sum()
}

/// Microseconds that the process has had processors, in hundredths of a second, threads that are over included.
fn processor_time() -> f64 {
    let text = std::fs::read_to_string("/proc/self/stat").expect("the process's times");
    let (_, fields) = text.rsplit_once(')').expect("a name in brackets");
    let times = fields.split_whitespace().skip(11).take(2);
    times.map(|ticks| ticks.parse::<f64>().expect("a time")).sum::<f64>() * 1e4
}

/// From several threads at once, in a pool, and within each other.
pub(crate) fn bridges() {
    let (since, before) = (Instant::now(), processor_time());
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| assert_eq!(sum(60), 59 * 30));
        }
    });
    let threads = rayon::current_num_threads();
    let pool = ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    assert_eq!(pool.install(|| sum(60)), 59 * 30);
    let nested = || slowly(8).par_bridge().map(|number| sum(8) + number).sum::<u64>();
    thread::scope(|s| {
        for _ in 0..3 {
            s.spawn(|| assert_eq!(nested(), 8 * 28 + 28));
        }
        assert_eq!(pool.install(nested), 8 * 28 + 28);
    });
    let (busy, took) = (processor_time() - before, since.elapsed().as_secs_f64() * 1e6);
    println!("{busy:.0} us of processors in {took:.0} us");
    assert!(busy < took / 2.0, "{busy:.0} us of processors in {took:.0} us");
}
