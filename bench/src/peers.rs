//! Pools of raddle and its peers, and timed runs of the workloads on them.
//!
//! A pool is made outside timing and its threads have worked before it is handed out. chili and
//! raddle count the caller among their threads, rayon and tokio don't: with `threads` of each, as
//! many threads work, and with rayon and tokio the caller only waits.

use std::{
    cell::OnceCell,
    num::NonZero,
    rc::Rc,
    time::{Duration, Instant},
};

use crate::{
    harness::Contender,
    work::{self, Workload},
};

const WARM: Duration = Duration::from_micros(50);

/// Leaves that occupy all threads for a moment.
fn width(threads: usize) -> u32 {
    4 * threads as u32
}

pub(crate) fn raddle_pool(threads: usize) -> raddle::Pool {
    let pool = raddle::Pool::new(threads).expect("a pool");
    let leaves = pool.run(|w| {
        work::worker::fib(w, 20);
        work::worker::spread(w, width(threads), WARM)
    });
    assert_eq!(leaves, width(threads));
    pool
}

pub(crate) fn chili_pool(threads: usize) -> chili::ThreadPool {
    let pool = chili::ThreadPool::with_config(chili::Config {
        thread_count: NonZero::new(threads),
        ..chili::Config::default()
    });
    let mut scope = pool.scope();
    work::chili::fib(&mut scope, 20);
    work::chili::spread(&mut scope, width(threads), WARM);
    drop(scope);
    pool
}

pub(crate) fn rayon_pool(threads: usize) -> rayon::ThreadPool {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("a pool");
    pool.install(|| {
        work::rayon::fib((), 20);
        work::rayon::spread((), width(threads), WARM);
    });
    pool
}

/// forte's pools are for ever, and its heartbeat goes on without work: only in a process of its own. (To take its
/// threads away hangs, in the version that we have.)
pub(crate) struct FortePool(());

impl FortePool {
    /// The caller counts among the threads.
    pub(crate) fn new(threads: usize) -> FortePool {
        FORTE.resize_to(threads - 1);
        let pool = FortePool(());
        pool.run(|w| {
            work::forte::fib(w, 20);
            work::forte::spread(w, width(threads), WARM)
        });
        pool
    }

    pub(crate) fn run<R>(&self, f: impl FnOnce(&forte::Worker) -> R) -> R {
        FORTE.with_worker(f)
    }
}

static FORTE: forte::ThreadPool = forte::ThreadPool::new();

pub(crate) fn tokio_pool(threads: usize) -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(threads)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let tasks: Vec<_> =
            (0..width(threads)).map(|_| tokio::spawn(async { work::spin(WARM) })).collect();
        for task in tasks {
            task.await.expect("no panic");
        }
    });
    runtime
}

/// How a workload forks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Runtime {
    Sequential,
    Worker,
    Ambient,
    Chili,
    Rayon,
}

impl Runtime {
    /// The name of its row.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Runtime::Sequential => "sequential",
            Runtime::Worker => "raddle Worker::join",
            Runtime::Ambient => "raddle join",
            Runtime::Chili => "chili",
            Runtime::Rayon => "rayon",
        }
    }

    /// Runs the workload once on a new pool, and returns the time it took without the making of
    /// the pool and the check of the result.
    fn time(self, threads: usize, workload: Workload, expected: u64) -> Duration {
        let mut input = workload.prepare();
        let input = &mut input;
        let (time, result) = match self {
            Runtime::Sequential => timed(|| work::sequential::run((), workload, input)),
            Runtime::Worker => {
                let pool = raddle_pool(threads);
                timed(|| pool.run(|w| work::worker::run(w, workload, input)))
            }
            Runtime::Ambient => {
                let pool = raddle_pool(threads);
                timed(|| pool.run(|_| work::ambient::run((), workload, input)))
            }
            Runtime::Chili => {
                let pool = chili_pool(threads);
                timed(|| work::chili::run(&mut pool.scope(), workload, input))
            }
            Runtime::Rayon => {
                let pool = rayon_pool(threads);
                timed(|| pool.install(|| work::rayon::run((), workload, input)))
            }
        };
        workload.check(input, result, expected);
        time
    }
}

/// Runs something and says how long it took.
pub(crate) fn timed<R>(run: impl FnOnce() -> R) -> (Duration, R) {
    let start = Instant::now();
    let result = run();
    (start.elapsed(), result)
}

/// A workload with what is known of it once it was run sequentially.
#[derive(Clone)]
pub(crate) struct Job {
    workload: Workload,
    expected: Rc<OnceCell<u64>>,
    operations: u64,
    pub(crate) title: String,
}

impl Job {
    pub(crate) fn new(workload: Workload) -> Job {
        let operations = workload.operations();
        Job { workload, expected: Rc::default(), operations, title: workload.title() }
    }

    /// The section for runs with so many threads.
    pub(crate) fn section(&self, threads: usize) -> String {
        let s = if threads == 1 { "" } else { "s" };
        format!("{}, {threads} thread{s}", self.title)
    }

    /// A row: nanoseconds per operation (call, node, number).
    pub(crate) fn row(
        &self,
        section: impl Into<String>,
        name: impl Into<String>,
        runtime: Runtime,
        threads: usize,
    ) -> Contender {
        let job = self.clone();
        Contender::new(section, name, move || {
            let expected = *job.expected.get_or_init(|| job.workload.expected());
            let time = runtime.time(threads, job.workload, expected);
            time.as_nanos() as f64 / job.operations as f64
        })
    }
}
