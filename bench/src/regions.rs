//! Regions whose every leaf notes who ran it and when, so that one and the same analysis gives the five
//! phases for any runtime.

use std::{
    cell::Cell,
    hint::black_box,
    sync::OnceLock,
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::{Duration, Instant},
};

use raddle::{
    Worker,
    trace::{ClockPair, Event, EventKind, Lane, Phases, Subject, Trace},
};

/// How long a leaf is, undisturbed.
pub(crate) const LEAF: Duration = Duration::from_micros(10);

/// Work of a given amount, not of a given time: a thread that loses its processor has not worked.
fn work(iterations: u64) {
    for i in 0..iterations {
        black_box(i);
    }
}

/// How many iterations take as long as a leaf should.
fn iterations() -> u64 {
    static ITERATIONS: OnceLock<u64> = OnceLock::new();
    *ITERATIONS.get_or_init(|| {
        let mut rate = f64::INFINITY;
        for _ in 0..50 {
            let start = Instant::now();
            work(20_000);
            rate = rate.min(start.elapsed().as_nanos() as f64 / 20_000.0);
        }
        (LEAF.as_nanos() as f64 / rate) as u64
    })
}

/// What the leaves of one region noted.
pub(crate) struct Region {
    epoch: Instant,
    iterations: u64,
    /// If leaves are of random lengths.
    seed: Option<u64>,
    /// Begin, end and thread of each leaf.
    notes: Vec<[AtomicU64; 3]>,
}

/// This thread's number.
fn thread_number() -> u64 {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local!(static NUMBER: Cell<u64> = const { Cell::new(u64::MAX) });
    NUMBER.with(|number| {
        if number.get() == u64::MAX {
            number.set(NEXT.fetch_add(1, Ordering::Relaxed) as u64);
        }
        number.get()
    })
}

/// When the root of a region began, and when it was done.
pub(crate) struct Root<'a> {
    region: &'a Region,
    times: [AtomicU64; 2],
}

impl Root<'_> {
    /// Runs the root's body.
    pub(crate) fn run(&self, body: impl FnOnce()) {
        self.times[0].store(self.region.now(), Ordering::Relaxed);
        body();
        self.times[1].store(self.region.now(), Ordering::Relaxed);
    }
}

impl Region {
    /// As `new`, with leaves from half as long to one and a half times: random, and other ones for every seed.
    pub(crate) fn uneven(leaves: usize, seed: u64) -> Region {
        Region { seed: Some(seed), ..Region::new(leaves) }
    }

    /// Room for so many leaves.
    pub(crate) fn new(leaves: usize) -> Region {
        Region {
            epoch: Instant::now(),
            iterations: iterations(),
            seed: None,
            notes: (0..leaves).map(|_| Default::default()).collect(),
        }
    }

    fn now(&self) -> u64 {
        self.epoch.elapsed().as_nanos() as u64
    }

    fn leaf(&self, number: usize) {
        let [begin, end, thread] = &self.notes[number];
        begin.store(self.now(), Ordering::Relaxed);
        let part = self.seed.map_or(512, |seed| {
            // SplitMix64: Steele, Lea and Flood, 2014.
            let z = (seed + number as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            256 + ((z ^ (z >> 27)) >> 11) % 513
        });
        work(self.iterations * part / 512);
        thread.store(thread_number(), Ordering::Relaxed);
        end.store(self.now(), Ordering::Relaxed);
    }

    pub(crate) fn raddle(&self, worker: &Worker) {
        self.split_raddle(worker, 0, self.notes.len());
    }

    fn split_raddle(&self, worker: &Worker, from: usize, to: usize) {
        if to - from == 1 {
            return self.leaf(from);
        }
        let middle = from.midpoint(to);
        worker.join(|w| self.split_raddle(w, from, middle), |w| self.split_raddle(w, middle, to));
    }

    pub(crate) fn rayon(&self) {
        self.split_rayon(0, self.notes.len());
    }

    fn split_rayon(&self, from: usize, to: usize) {
        if to - from == 1 {
            return self.leaf(from);
        }
        let middle = from.midpoint(to);
        rayon::join(|| self.split_rayon(from, middle), || self.split_rayon(middle, to));
    }

    pub(crate) fn alone(&self) {
        (0..self.notes.len()).for_each(|number| self.leaf(number));
    }

    /// The phases of a call: from there until it returns. The call is given a [`Root`], whose beginning and
    /// end it notes on whatever thread it runs.
    pub(crate) fn phases(&self, width: usize, call: impl FnOnce(&Root<'_>)) -> Phases {
        let root = Root { region: self, times: Default::default() };
        let submit = self.now();
        call(&root);
        let resumed = self.now();
        let root = root.times.map(AtomicU64::into_inner);
        let zero = ClockPair { tsc: 0, nanos: 0 };
        let mut trace = Trace::new(zero, ClockPair { tsc: resumed, nanos: resumed });
        trace.threads = width as u32;
        let event = |tsc, kind| Event { flags: Subject::Region as u8, ..Event::new(tsc, kind, 1) };
        // The root is what hands out leaves; leaves are what counts as activity.
        trace.lanes.push(Lane::new(
            "submitter",
            vec![
                event(submit, EventKind::Submit),
                event(root[0], EventKind::Exec),
                event(root[0], EventKind::Wait),
                event(root[1], EventKind::Executed),
                event(resumed, EventKind::Waited),
            ],
        ));
        let mut lanes: Vec<(u64, Vec<[u64; 2]>)> = Vec::new();
        for [begin, end, thread] in &self.notes {
            let [begin, end, thread] =
                [begin, end, thread].map(|note| note.load(Ordering::Relaxed));
            assert!(end > 0, "every leaf ran");
            match lanes.iter_mut().find(|lane| lane.0 == thread) {
                Some(lane) => lane.1.push([begin, end]),
                None => lanes.push((thread, vec![[begin, end]])),
            }
        }
        for (thread, mut leaves) in lanes {
            leaves.sort_unstable();
            // From one leaf to the next a worker is taken to be active, unless it had time to steal.
            leaves.dedup_by(|next, last| {
                let joins = next[0].saturating_sub(last[1]) < 1_000;
                if joins {
                    last[1] = next[1];
                }
                joins
            });
            let events = leaves.iter().flat_map(|&[begin, end]| {
                [Event::new(begin, EventKind::Exec, 2), Event::new(end, EventKind::Executed, 2)]
            });
            trace.lanes.push(Lane::new(format!("thread {thread}"), events.collect()));
        }
        trace.phases().remove(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_runs_every_leaf_and_the_phases_add_up() {
        let pool = raddle::Pool::new(2).expect("a pool");
        let peer = rayon::ThreadPoolBuilder::new().num_threads(2).build().expect("a pool");
        let check = |phases: Phases| {
            let sum: Duration = phases.parts().iter().map(|part| part.1).sum();
            assert_eq!(sum, phases.total);
            assert!(phases.total >= LEAF && phases.peak >= 1, "{phases}");
        };
        let region = Region::new(8);
        check(region.phases(1, |root| root.run(|| region.alone())));
        let region = Region::new(8);
        check(region.phases(2, |root| pool.run(|w| root.run(|| region.raddle(w)))));
        let region = Region::new(8);
        check(region.phases(2, |root| peer.install(|| root.run(|| region.rayon()))));
    }
}
