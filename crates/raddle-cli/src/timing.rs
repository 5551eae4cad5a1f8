//! Runs work twice, on one thread and on all of them, and holds the results against each other.

use std::thread;
use std::time::Instant;

use raddle::{Pool, Worker};

use crate::error::Error;
use crate::progress::Progress;
use crate::report::{Report, count, duration};

/// What came out, and how long it took.
#[derive(Debug)]
pub(crate) struct Timed<T> {
    pub(crate) value: T,
    threads: usize,
    seconds: f64,
    seconds_one_thread: f64,
}

impl<T> Timed<T> {
    /// Adds the times to a report.
    pub(crate) fn tell(&self, report: &mut Report) {
        let speedup = self.seconds_one_thread / self.seconds;
        report.told(
            "seconds_one_thread",
            self.seconds_one_thread,
            duration(self.seconds_one_thread),
        );
        let on = format!("{} on {}", duration(self.seconds), count(self.threads, "thread"));
        report.told("seconds", self.seconds, on);
        report.told("speedup", speedup, format!("{speedup:.2}x"));
        report.datum("threads", self.threads);
    }
}

/// The threads a run is to use: all of the machine unless the user says otherwise.
pub(crate) fn threads(wanted: Option<usize>) -> Result<usize, Error> {
    match wanted {
        Some(0) => Err(Error::usage("--threads must be at least 1")),
        Some(threads) => Ok(threads),
        None => Ok(thread::available_parallelism().map_or(1, usize::from)),
    }
}

/// A pool of that many threads.
pub(crate) fn pool(threads: usize) -> Result<Pool, Error> {
    Pool::new(threads).map_err(|error| Error::usage(format!("--threads {threads}: {error}")))
}

/// Does the work on one thread, then on `threads`, and insists that the results are the same.
///
/// With one thread there is nothing to compare with, and the work is done once. `steps` is how
/// often the work says [`Progress::step`], if it can be known.
pub(crate) fn compare<T: Send>(
    threads: usize,
    steps: Option<u64>,
    work: impl Fn(&Worker, &Progress) -> T + Sync,
    same: impl Fn(&T, &T) -> bool,
) -> Result<Timed<T>, Error> {
    let timed = |threads: usize| -> Result<(T, f64), Error> {
        let pool = pool(threads)?;
        let what = count(threads, "thread");
        let progress = match steps {
            Some(steps) => Progress::bar(&what, steps),
            None => Progress::line(&what),
        };
        let start = Instant::now();
        let value = pool.run(|worker| work(worker, &progress));
        Ok((value, start.elapsed().as_secs_f64()))
    };
    let (value, seconds_one_thread) = timed(1)?;
    let mut seconds = seconds_one_thread;
    if threads > 1 {
        let (other, time) = timed(threads)?;
        if !same(&value, &other) {
            let message = format!("internal error: {threads} threads and 1 thread disagree");
            return Err(Error::failure(message));
        }
        seconds = time;
    }
    Ok(Timed { value, threads, seconds, seconds_one_thread })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn runs_once_on_one_thread_and_twice_on_more() {
        for (threads, runs) in [(1, 1), (2, 2)] {
            let calls = AtomicUsize::new(0);
            let work = |_: &Worker, _: &Progress| {
                calls.fetch_add(1, Ordering::Relaxed);
                7
            };
            let timed = compare(threads, None, work, |a, b| a == b).unwrap();
            assert_eq!((timed.value, calls.into_inner()), (7, runs));
        }
    }

    #[test]
    fn results_that_differ_are_an_error() {
        let calls = AtomicUsize::new(0);
        let work = |_: &Worker, _: &Progress| calls.fetch_add(1, Ordering::Relaxed);
        let error = compare(2, None, work, |a, b| a == b).unwrap_err();
        assert!(error.to_string().contains("internal error"), "{error}");
    }
}
