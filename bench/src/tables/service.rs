//! Small requests that come to a service of tokio's while big ones are computed.
//!
//! The service receives on one thread, and has what it receives computed elsewhere, by one of four means. Two big
//! requests are in work at any time, each as long as a thousand small ones. A big one is parallel where its means allow
//! that. The latency of a small one counts from when it came to when its result is back on tokio's thread.
//!
//! Where both kinds share the threads of one pool, a small one waits until a big one ends: nothing takes a task from its
//! thread. With `spawn_blocking` each has a thread of its own, and the system sees to fairness; so it does between two
//! pools.

use std::{
    hint::black_box,
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::{JoinHandle, spawn_blocking};
use tokio_rayon::AsyncThreadPool;

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers,
    work::splitmix,
};

const THREADS: usize = 2;
const BIG_AT_ONCE: usize = 2;
/// Steps of some 2 ns each.
const SMALL: u64 = 10_000;
const BIG: u64 = 1_000 * SMALL;
/// A big one is split down to this.
const LEAF: u64 = SMALL;
/// A small one comes so long after the last was answered.
const PAUSE: Duration = Duration::from_micros(300);

/// What computes.
#[derive(Clone, Copy)]
enum Means {
    /// Both kinds by a pool of raddle's.
    Raddle,
    /// Big ones by one pool, small ones by another.
    Apart,
    SpawnBlocking,
    TokioRayon,
}

impl Means {
    const ALL: [(&str, Means); 4] = [
        ("raddle", Means::Raddle),
        ("raddle, big ones in a pool of their own", Means::Apart),
        (BLOCKING, Means::SpawnBlocking),
        ("tokio-rayon", Means::TokioRayon),
    ];
}

const BLOCKING: &str = "spawn_blocking";

pub(crate) fn table(settings: &Settings) -> Table {
    let small = settings.size(100, 5) as usize;
    let rows = |section: &'static str, percent: usize| {
        Means::ALL.map(move |(name, means)| {
            Contender::new(section, name, move || {
                let mut times = latencies(means, small);
                times.sort_unstable();
                times[(small - 1) * percent / 100].as_secs_f64() * 1e6
            })
        })
    };
    let contenders = [rows("median", 50), rows("99th percentile", 99)].into_iter().flatten();
    Table {
        about: "us from a small request (20 us) to its answer, while two of 20 ms are computed on 2 threads",
        rounds: 3,
        groups: vec![Group {
            unit: "us",
            references: &[BLOCKING],
            ceiling: None,
            contenders: contenders.collect(),
        }],
        budgets: vec![],
    }
}

/// Of so many small requests.
fn latencies(means: Means, small: usize) -> Vec<Duration> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build();
    let computer = Arc::new(Computer::new(means));
    let service = async {
        let big = (0..BIG_AT_ONCE).map(|_| tokio::spawn(ask_for_ever(computer.clone())));
        let big: Vec<_> = big.collect();
        let mut times = Vec::with_capacity(small);
        for _ in 0..small {
            tokio::time::sleep(PAUSE).await;
            let start = Instant::now();
            black_box(computer.small().await);
            times.push(start.elapsed());
        }
        big.iter().for_each(JoinHandle::abort);
        times
    };
    runtime.expect("a runtime").block_on(service)
}

async fn ask_for_ever(computer: Arc<Computer>) {
    loop {
        black_box(computer.big().await);
    }
}

/// By its means.
enum Computer {
    Raddle { small: Arc<raddle::Pool>, big: Arc<raddle::Pool> },
    SpawnBlocking,
    TokioRayon(rayon::ThreadPool),
}

impl Computer {
    fn new(means: Means) -> Computer {
        let raddle = || Arc::new(peers::raddle_pool(THREADS));
        match means {
            Means::Raddle => {
                let pool = raddle();
                Computer::Raddle { small: pool.clone(), big: pool }
            }
            Means::Apart => Computer::Raddle { small: raddle(), big: raddle() },
            Means::SpawnBlocking => Computer::SpawnBlocking,
            Means::TokioRayon => Computer::TokioRayon(peers::rayon_pool(THREADS)),
        }
    }

    async fn small(&self) -> u64 {
        let done = "it does not panic";
        match self {
            Computer::Raddle { small, .. } => small.spawn(|| steps(0, SMALL)).await.expect(done),
            Computer::SpawnBlocking => spawn_blocking(|| steps(0, SMALL)).await.expect(done),
            Computer::TokioRayon(pool) => pool.spawn_async(|| steps(0, SMALL)).await,
        }
    }

    async fn big(&self) -> u64 {
        let done = "it does not panic";
        match self {
            Computer::Raddle { big, .. } => big.spawn(|| by_raddle(0, BIG)).await.expect(done),
            Computer::SpawnBlocking => spawn_blocking(|| steps(0, BIG)).await.expect(done),
            Computer::TokioRayon(pool) => pool.spawn_async(|| by_rayon(0, BIG)).await,
        }
    }
}

fn steps(from: u64, to: u64) -> u64 {
    (from..to).fold(from, |sum, n| splitmix(sum ^ n))
}

fn by_raddle(from: u64, to: u64) -> u64 {
    if to - from <= LEAF {
        return steps(from, to);
    }
    let middle = from.midpoint(to);
    let (left, right) = raddle::join(|| by_raddle(from, middle), || by_raddle(middle, to));
    left ^ right
}

fn by_rayon(from: u64, to: u64) -> u64 {
    if to - from <= LEAF {
        return steps(from, to);
    }
    let middle = from.midpoint(to);
    let (left, right) = rayon::join(|| by_rayon(from, middle), || by_rayon(middle, to));
    left ^ right
}
