//! `raddle` without arguments: what parallel work costs on this machine, on one page.

mod machine;
mod probe;

use std::fmt::Write as _;

use serde_json::{Value, json};

use self::probe::{Effort, Forks, Futures, HALF, HandOffs, Locals, Locks};
use crate::args::Common;
use crate::error::Error;
use crate::progress::Progress;
use crate::report::{count, duration, print, print_json};
use crate::timing;

pub(crate) fn run(quick: bool, common: &Common) -> Result<(), Error> {
    let threads = timing::threads(common.threads)?;
    let effort = if quick { Effort::QUICK } else { Effort::FULL };
    let page = Page::measure(threads, effort)?;
    if common.json { print_json(&page.json()) } else { print(&page.text()) }
}

/// All that is measured.
struct Page {
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
}

impl Page {
    fn measure(threads: usize, effort: Effort) -> Result<Page, Error> {
        let progress = Progress::line("measuring forks");
        let (one, all) = (timing::pool(1)?, timing::pool(threads)?);
        let forks = probe::forks(&one, effort);
        progress.say("measuring fib on one thread");
        let fib_one = probe::fib_on(&one, effort);
        progress.say("measuring fib on all threads");
        let fib_all = probe::fib_on(&all, effort);
        progress.say("measuring futures");
        let futures = probe::futures(&all, effort);
        progress.say("measuring inheritance");
        let locals = probe::locals(&one, effort);
        progress.say("measuring locks");
        let locks = probe::locks(effort);
        progress.say("measuring hand-offs");
        let hand_offs = probe::hand_offs(&all, effort);
        progress.say("watching an idle pool");
        let idle = probe::idle(&all, effort);
        let cpu = machine::cpu_model();
        Ok(Page {
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
        })
    }

    fn text(&self) -> String {
        let Page { effort, forks, futures, locals, locks, hand_offs, .. } = self;
        let threads = count(self.threads, "thread");
        let mut page = Lines(String::new());
        page.line(&format!("raddle {} on {threads}", env!("CARGO_PKG_VERSION")));
        page.line(&self.cpu);
        if cfg!(debug_assertions) {
            page.line("Built without optimisation: the figures mean little. Use --release.");
        }

        page.head(&format!("Fork and join: fib({}) on one thread, time per fork", effort.fib));
        page.floor("plain calls instead of forks", forks.call);
        page.times("Worker::join", forks.worker, forks.call);
        page.times("raddle::join, from anywhere", forks.ambient, forks.call);

        page.head(&format!("All threads: fib({}), every call forks", effort.fib_all));
        page.figure("1 thread", &duration(self.fib_one), "");
        let speedup = format!("{:.2}x as fast, at best {}x", self.speedup(), self.threads);
        page.figure(&threads, &duration(self.fib_all), &speedup);

        page.head(&format!("Futures: {} that do nothing, time for each", effort.futures));
        page.floor("closures boxed, then called", futures.boxed);
        page.times("spawn all, then wait for all", futures.together, futures.boxed);
        page.times("spawn and wait, one by one", futures.alone, futures.boxed);

        page.head("Operations: time for each");
        page.floor("two atomic read-modify-writes", 2.0 * locks.atomic);
        page.times("promise, map, set, take", futures.mapped, 2.0 * locks.atomic);
        page.figure("two small boxes, made and freed", &duration(futures.boxes), "");
        page.figure("map on a future that is done", &duration(futures.ready), "");

        page.head(&format!("Inheritance: fib({}) with a scope local bound, per fork", effort.fib));
        page.floor("nothing bound", locals.fork);
        page.times("one bound, and not read", locals.bound, locals.fork);
        page.figure("reading it", &duration(locals.read), "");

        page.head("Locks: taken and released, nobody else there");
        page.floor("one atomic read-modify-write", locks.atomic);
        page.times("raddle::lock::Mutex", locks.pair, locks.atomic);
        page.times("std::sync::Mutex", locks.standard, locks.atomic);

        page.head("Hand-off: work given to the pool from outside, median time");
        page.figure("an empty region", &duration(hand_offs.empty), "floor 0");
        let floor = self.join_floor();
        page.floor("two halves of 20 us", floor);
        page.above("join of both, again and again", hand_offs.hot, floor);
        page.above("join of both, after 3 ms of quiet", hand_offs.quiet, floor);

        page.head("Idle: processor time of a pool that has nothing to do");
        let idle = self.idle.map_or("unknown".into(), |idle| format!("{:.2} %", idle * 100.0));
        page.figure("of one processor", &idle, "floor 0");

        page.line("");
        page.line(
            "Next: `raddle run kmeans --help`, then knn, quantize, sort or fib in its place.",
        );
        page.0
    }

    fn json(&self) -> Value {
        let Page { effort, forks, futures, locals, locks, hand_offs, .. } = self;
        let nanoseconds = |seconds: f64| seconds * 1e9;
        json!({
            "version": env!("CARGO_PKG_VERSION"),
            "optimised": !cfg!(debug_assertions),
            "cpu": self.cpu,
            "os": std::env::consts::OS,
            "arch": std::env::consts::ARCH,
            "threads": self.threads,
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

/// Lines of a page, of at most 80 columns.
struct Lines(String);

impl Lines {
    fn line(&mut self, text: &str) {
        _ = writeln!(self.0, "{}", text.trim_end());
    }

    fn head(&mut self, text: &str) {
        self.line("");
        self.line(text);
    }

    fn figure(&mut self, name: &str, value: &str, beside: &str) {
        self.line(&format!("  {name:<34} {value:>9}   {beside}"));
    }

    /// What nothing can be faster than.
    fn floor(&mut self, name: &str, floor: f64) {
        self.figure(name, &duration(floor), "floor");
    }

    /// A figure as a multiple of its floor.
    fn times(&mut self, name: &str, time: f64, floor: f64) {
        self.figure(name, &duration(time), &format!("{:.1}x the floor", time / floor));
    }

    /// A figure as what it adds to its floor.
    fn above(&mut self, name: &str, time: f64, floor: f64) {
        let more = if time < floor {
            "at the floor".into()
        } else {
            format!("floor + {}", duration(time - floor))
        };
        self.figure(name, &duration(time), &more);
    }
}
