//! What is done with futures one at a time, in each of Rust's runtimes; `bench/jvm` has the same.
//!
//! The operations are those of the module `future-benchmark` of <https://github.com/traneio/future>,
//! which names them. Their form is theirs too: what a future is made of is a constant, and what
//! comes out is hidden from the optimiser, so that both compilers may compute in advance what they
//! can; only in `mapSatisfied` the future itself is hidden from it as well.
//!
//! Each measurement is a process of its own, as it is on the JVM: it has the allocator that it is
//! told to have (see [`crate::alloc`]) and a heap that nobody has used before.

use std::{
    env,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use serde::{Deserialize, Serialize};

use crate::{
    alloc,
    args::Settings,
    harness::{Figures, Memory},
    peers::timed,
};

mod floor;
mod polled;
mod raddle;
mod tokio;

/// Links of the chains in the operations named `..N`.
pub(crate) const LINKS: u64 = 100;

/// Promises that live at the same time in `aliveAtOnce`.
pub(crate) const ALIVE: u64 = 100_000;

/// Promises that are set on another thread, all together, in `setElsewhere`.
pub(crate) const MOVED: u64 = 1_000;

/// The value of every future. Operations add up what comes out, and the sum is checked.
const ONE: u64 = 1;

/// Does something so often, and returns the sum of the results.
type Repeat = fn(u64) -> u64;

/// What can be measured, by its name.
type Find = fn(&str) -> Option<Repeat>;

/// Runtimes by name.
const RUNTIMES: &[(&str, Find)] = &[
    ("floor", floor::operation),
    ("raddle", raddle::operation),
    ("tokio", tokio::operation),
    ("futures", polled::operation),
];

/// A function that evaluates the expression `n` times and adds up its values, none of which the
/// optimiser sees.
macro_rules! repeat {
    ($result:expr) => {
        |n| {
            let mut sum = 0;
            for _ in 0..n {
                sum += std::hint::black_box($result);
            }
            sum
        }
    };
}

/// The same for what has no result: what it makes is hidden from the optimiser and dropped.
macro_rules! repeat_make {
    ($made:expr) => {
        |n| {
            for _ in 0..n {
                drop(std::hint::black_box($made));
            }
            n
        }
    };
}

pub(crate) use {repeat, repeat_make};

/// Who does what: an operation in a runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject {
    name: (&'static str, &'static str),
    repeat: Repeat,
}

impl Subject {
    /// None if the runtime has no such operation.
    ///
    /// # Panics
    ///
    /// If there is no such runtime.
    pub(crate) fn find(runtime: &'static str, operation: &'static str) -> Option<Subject> {
        let (_, find) = RUNTIMES.iter().find(|(name, _)| *name == runtime).expect("a runtime");
        Some(Subject { name: (runtime, operation), repeat: find(operation)? })
    }

    /// `RUNTIME/OPERATION`, as on the command line.
    pub(crate) fn parse(text: &str) -> Option<Subject> {
        let (runtime, operation) = text.split_once('/')?;
        let (runtime, find) = RUNTIMES.iter().find(|(name, _)| *name == runtime)?;
        // A process parses one name at most.
        let operation: &'static str = String::from(operation).leak();
        Some(Subject { name: (runtime, operation), repeat: find(operation)? })
    }

    /// Does it a few times and checks the results.
    #[cfg(test)]
    pub(crate) fn check(self) {
        assert_eq!((self.repeat)(3), 3 * ONE, "{:?}", self.name);
    }

    /// Measures in this process.
    pub(crate) fn measure(self, settings: &Settings) -> Samples {
        let first = self.first();
        let run = |n| {
            let (time, sum) = timed(|| (self.repeat)(n));
            assert_eq!(sum, n * ONE, "wrong results");
            time
        };
        let (count, time) = settings.size((7, Duration::from_millis(20)), (1, Duration::ZERO));
        let n = repetitions(time, run);
        let samples = (0..count).map(|_| run(n).as_nanos() as f64 / n as f64).collect();
        const COUNTED: u64 = 16;
        let warm = alloc::counted(|| _ = run(COUNTED)).map(|all| all.bytes / COUNTED as f64);
        let memory = first.map(|first| Memory { warm, ..first });
        Samples { nanos: samples, memory }
    }

    /// What it takes from the heap on a thread that has done nothing of the kind before: no list of nodes is there yet.
    fn first(self) -> Option<Memory> {
        let on_a_thread = |subject: Subject| {
            let measure = move || {
                // What a thread's first destructor takes is not counted.
                AT_END.with(|_| ());
                alloc::counted(|| _ = (subject.repeat)(1))
            };
            thread::spawn(measure).join().ok().flatten()
        };
        // Nor what a process takes once.
        Subject::find(self.name.0, "mapPromise").and_then(on_a_thread);
        on_a_thread(self)
    }

    /// Measures in a process of its own. What goes wrong there is said on standard error.
    pub(crate) fn measure_apart(self, allocator: &str, settings: &Settings) -> Figures {
        let (runtime, operation) = self.name;
        let row = format!("{runtime}/{operation}");
        match apart(&row, allocator, settings) {
            Ok(Samples { nanos, memory }) => Figures { samples: nanos, memory, note: None },
            Err(error) => {
                eprintln!("raddle-bench: {row} with {allocator}: {error}");
                Figures::default()
            }
        }
    }
}

struct AtEnd;

impl Drop for AtEnd {
    fn drop(&mut self) {}
}

thread_local! {
    static AT_END: AtEnd = const { AtEnd };
}

/// What a process says of its subject, as JSON.
#[derive(Debug, Deserialize, Serialize)]
pub(crate) struct Samples {
    /// Nanoseconds per operation.
    nanos: Vec<f64>,
    memory: Option<Memory>,
}

fn apart(row: &str, allocator: &str, settings: &Settings) -> Result<Samples, String> {
    let mut command = Command::new(env::current_exe().map_err(|e| e.to_string())?);
    command.args(["future", "--row", row]).env(alloc::VARIABLE, allocator);
    if settings.smoke {
        command.arg("--smoke");
    }
    let output = command.output().map_err(|e| e.to_string())?;
    if !output.status.success() {
        let error = String::from_utf8_lossy(&output.stderr);
        return Err(format!("{}: {}", output.status, error.trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|e| e.to_string())
}

/// How many repetitions take about so long. Runs long enough to warm up.
fn repetitions(time: Duration, mut run: impl FnMut(u64) -> Duration) -> u64 {
    let start = Instant::now();
    let mut n = 16;
    loop {
        let took = run(n);
        if took >= time / 4 {
            let per = took.as_secs_f64() / n as f64;
            let enough = (time.as_secs_f64() / per).max(16.0) as u64;
            // Until the clock of the processor is up, and the heap is what it will be.
            if start.elapsed() >= 2 * time {
                return enough;
            }
            n = enough;
        } else {
            n *= 2;
        }
    }
}
