//! `raddle` without arguments: what parallel work costs on this machine, on one page.

mod page;
mod probe;

use serde_json::{Value, json};

use self::probe::{Effort, Forks, Futures, HALF, HandOffs, Locals, Locks};
use crate::args::Common;
use crate::error::Error;
use crate::machine::{self, Watch};
use crate::progress::Progress;
use crate::report::{print, print_json};
use crate::timing;

pub(crate) fn run(quick: bool, common: &Common) -> Result<(), Error> {
    let threads = timing::threads(common.threads)?;
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    let figures = Figures::measure(threads, effort)?;
    if common.json { print_json(&figures.json()) } else { print(&page::text(&figures)) }
}

/// All that is measured; times are in seconds.
struct Figures {
    effort: Effort,
    cpu: String,
    threads: usize,
    forks: Forks,
    fib_one: f64,
    fib_all: f64,
    futures: Futures,
    locals: Locals,
    locks: Locks,
    hand_offs: HandOffs,
    idle: Option<f64>,
    /// How many processors other programs used meanwhile.
    others: Option<f64>,
}

/// Less than this, in seconds, is no figure: a fork adds some instructions at least, and takes their time.
const LEAST: f64 = 0.05e-9;

/// From how much work on it pays to share it; nothing where that cannot be told: on one thread it never does, and what sharing
/// adds may be lost in what else disturbs the clock.
struct Verdict {
    /// Of a fork among others, with all threads at work: what it adds is earned by what the other threads take off.
    fork: Option<f64>,
    /// Of a call from outside, the pool at hand ..
    call: Option<f64>,
    /// .. and at rest.
    call_after_quiet: Option<f64>,
}

impl Figures {
    fn measure(threads: usize, effort: Effort) -> Result<Figures, Error> {
        const STEPS: u64 = 8;
        let progress = Progress::steps(STEPS);
        let watch = Watch::start();
        let (one, all) = (timing::pool(1)?, timing::pool(threads)?);
        progress.say("forks");
        let forks = probe::forks(&one, effort);
        progress.say("fib on one thread");
        let fib_one = probe::fib_on(&one, effort);
        progress.say("fib on all threads");
        let fib_all = probe::fib_on(&all, effort);
        progress.say("futures");
        let futures = probe::futures(&all, effort);
        progress.say("inheritance");
        let locals = probe::locals(&one, effort);
        progress.say("locks");
        let locks = probe::locks(effort);
        progress.say("hand-offs");
        let hand_offs = probe::hand_offs(&all, effort);
        progress.say("an idle pool");
        let idle = probe::idle(&all, effort);
        debug_assert!(progress.is_at(STEPS), "as many steps as were promised");
        let (cpu, others) = (machine::cpu_model(), watch.others());
        Ok(Figures {
            effort,
            cpu,
            threads,
            forks,
            fib_one,
            fib_all,
            futures,
            locals,
            locks,
            hand_offs,
            idle,
            others,
        })
    }

    /// Work of the time `w` on `n` threads takes `w / n` and what sharing adds. That is less than `w` from
    /// `added * n / (n - 1)` on; of a fork each thread has its part of what is added too.
    fn verdict(&self) -> Verdict {
        let pays = |added: f64| pays(added, self.threads);
        let call = |time: f64| pays((time - self.join_floor()) * self.threads as f64);
        Verdict {
            fork: pays(self.forks.worker - self.forks.call),
            call: call(self.hand_offs.hot),
            call_after_quiet: call(self.hand_offs.quiet),
        }
    }

    fn json(&self) -> Value {
        let Figures { effort, forks, futures, locals, locks, hand_offs, .. } = self;
        let nanoseconds = |seconds: f64| seconds * 1e9;
        let Verdict { fork, call, call_after_quiet } = self.verdict();
        json!({
            "schema": "raddle-measure-1",
            "version": env!("CARGO_PKG_VERSION"),
            "optimised": !cfg!(debug_assertions),
            "cpu": self.cpu,
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "threads": self.threads,
            "processors_used_by_others": self.others,
            "pays_from_ns": {
                "fork": fork.map(nanoseconds),
                "call": call.map(nanoseconds),
                "call_after_quiet": call_after_quiet.map(nanoseconds),
            },
            "fork_ns": {
                "n": effort.fib,
                "plain_call": nanoseconds(forks.call),
                "worker_join": nanoseconds(forks.worker),
                "ambient_join": nanoseconds(forks.ambient),
            },
            "fib": {
                "n": effort.fib_all,
                "seconds_one_thread": self.fib_one,
                "seconds": self.fib_all,
                "speedup": self.speedup(),
            },
            "future_ns": {
                "count": effort.futures,
                "boxed_closure": nanoseconds(futures.boxed),
                "spawn_all_wait_all": nanoseconds(futures.together),
                "spawn_wait": nanoseconds(futures.alone),
            },
            "operation_ns": {
                "two_boxes": nanoseconds(futures.boxes),
                "promise_map_set_take": nanoseconds(futures.mapped),
                "map_on_done": nanoseconds(futures.ready),
            },
            "inheritance_ns": {
                "fork": nanoseconds(locals.fork),
                "fork_with_a_local_bound": nanoseconds(locals.bound),
                "read": nanoseconds(locals.read),
            },
            "lock_ns": {
                "atomic": nanoseconds(locks.atomic),
                "mutex": nanoseconds(locks.pair),
                "std_mutex": nanoseconds(locks.standard),
            },
            "hand_off_ns": {
                "empty_region": nanoseconds(hand_offs.empty),
                "join_floor": nanoseconds(self.join_floor()),
                "join_hot": nanoseconds(hand_offs.hot),
                "join_after_quiet": nanoseconds(hand_offs.quiet),
            },
            "idle_cpu_share": self.idle,
        })
    }

    fn speedup(&self) -> f64 {
        self.fib_one / self.fib_all
    }

    /// How long two halves take if handing them off costs nothing.
    fn join_floor(&self) -> f64 {
        HALF.as_secs_f64() * if self.threads == 1 { 2.0 } else { 1.0 }
    }
}

/// The work from which on it pays to share it among so many threads if that adds so much.
fn pays(added: f64, threads: usize) -> Option<f64> {
    (threads > 1 && added > LEAST).then(|| added / (threads - 1) as f64)
}

#[cfg(test)]
mod tests {
    use super::pays;

    #[test]
    fn what_is_lost_among_disturbances_is_no_figure() {
        assert_eq!(pays(2e-9, 2), Some(2e-9));
        assert_eq!(pays(2e-9, 5), Some(0.5e-9));
        assert_eq!(pays(2e-9, 1), None, "one thread shares nothing");
        for added in [0.0, 1e-12, -3e-9, f64::NAN] {
            assert_eq!(pays(added, 2), None, "{added}");
        }
    }
}
