//! `raddle run fib`: the smallest tasks there are.

use raddle::Worker;

use crate::args::{Common, FibArgs};
use crate::error::Error;
use crate::files::Files;
use crate::progress::Progress;
use crate::report::Report;
use crate::timing;

/// The largest whose doubly recursive computation anyone could mean; 93 is the last that fits 64
/// bits.
const LARGEST: u32 = 90;

pub(crate) fn run(args: &FibArgs, common: &Common) -> Result<(), Error> {
    common.refuse_plan("its forks are too small to be sent")?;
    let files = Files::of(None)?;
    let setup = timing::Setup::new(common, &files)?;
    let FibArgs { n, cutoff } = *args;
    if n > LARGEST {
        return Err(Error::usage(format!("--n must be at most {LARGEST}")));
    }
    let work = |worker: &Worker, _: &Progress| fib(worker, n, cutoff);
    let timed = timing::compare(setup, None, work, |a, b| a == b)?;

    let how =
        if cutoff < 2 { "every call forks".into() } else { format!("calls above {cutoff} fork") };
    let mut report = Report::new(format!("fib({n}), {how}"));
    super::begin(&mut report, "fib");
    report.datum("n", n);
    report.datum("cutoff", cutoff);
    report.fact("result", timed.value);
    timed.tell(&mut report);
    report.print(common.json, false)
}

/// Forks at every call whose argument is above the cut-off.
pub(crate) fn fib(worker: &Worker, n: u32, cutoff: u32) -> u64 {
    if n < 2 || n <= cutoff {
        return sequential(n);
    }
    let (a, b) = worker.join(|w| fib(w, n - 1, cutoff), |w| fib(w, n - 2, cutoff));
    a + b
}

/// The same without a fork.
pub(crate) fn sequential(n: u32) -> u64 {
    if n < 2 { u64::from(n) } else { sequential(n - 1) + sequential(n - 2) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle::Pool;

    #[test]
    fn the_cut_off_changes_nothing() {
        let pool = Pool::new(2).unwrap();
        for n in 0..16 {
            for cutoff in [0, 1, 2, 7, 99] {
                assert_eq!(pool.run(|worker| fib(worker, n, cutoff)), sequential(n));
            }
        }
        assert_eq!(sequential(20), 6765);
    }
}
