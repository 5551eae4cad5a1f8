//! Small graphs of futures, and two or three threads who do things to them: both at random.
//!
//! Each schedule has a graph of its own: two or three promises, and a few operations on their futures, of which some become
//! known only when a promise is linked. What the promises come to is settled, so for each future there are a few ends that it
//! may have; one that was killed in time has no other than that, and the consumers of a shared future agree.
//!
//! A hundred thousand schedules; as many as `RADDLE_SHUTTLE` says if those are more.

use std::sync::{Arc, Mutex};

use raddle_sync::thread;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

use crate::future::{FailureKind, Future, Killed, Promise, collect, first, select};
use crate::models::future::threes::{Move, one_in, produce};
use crate::models::future::{End, Stage, Token, Watcher, end, play};

const SCHEDULES: usize = 100_000;

fn below(n: usize) -> usize {
    thread_rng().gen_range(0..n)
}

/// A future that nobody has consumed, and how it may end.
struct Open {
    future: Future<Token>,
    ends: Vec<End>,
    killed: bool,
}

impl Open {
    fn new(future: Future<Token>, ends: Vec<End>) -> Open {
        Open { future, ends, killed: false }
    }

    fn check(&self, end: End) {
        if self.killed {
            assert_eq!(end, End::Failed(FailureKind::Killed));
        } else {
            assert!(self.ends.contains(&end), "{end:?}, which may be {:?}", self.ends);
        }
    }
}

/// What a shared future was seen to end with, by its consumers.
type Seen = Arc<Mutex<Vec<End>>>;

/// A graph in the making.
#[derive(Default)]
struct Graph {
    open: Vec<Open>,
    moves: Vec<Move>,
    shares: Vec<Seen>,
}

impl Graph {
    fn take(&mut self) -> Open {
        self.open.swap_remove(below(self.open.len()))
    }

    fn add(&mut self, future: Future<Token>, ends: Vec<End>) {
        self.open.push(Open::new(future, ends));
    }

    fn promise(&mut self, stage: &Stage) {
        let (promise, future) = stage.promise(one_in(2));
        let (complete, end) = produce(stage, promise);
        self.moves.push(complete);
        self.add(future, vec![end]);
    }

    /// One more operation.
    fn grow(&mut self, stage: &Stage) {
        let Open { future, ends, .. } = self.take();
        match below(8) {
            0 => {
                let next = |end: End| match end {
                    End::Value(n) => End::Value(n + 1),
                    failed => failed,
                };
                self.add(future.map(stage.step()), ends.into_iter().map(next).collect());
            }
            1 => self.add(future.transform(Future::from), ends),
            2 => {
                // Whoever interrupts it ends it, and so does the kill of what is made of it.
                let by_signals = [FailureKind::Error, FailureKind::Killed].map(End::Failed);
                self.add(future.interruptible(), [ends, by_signals.into()].concat());
            }
            3 => self.add(future.masked(), ends),
            4 => {
                let (promise, linked) = stage.promise(one_in(2));
                self.moves.push(Box::new(move || promise.link(future)));
                self.add(linked, ends);
            }
            5 => {
                let (shared, seen) = (future.shared(), Seen::default());
                for _ in 0..2 {
                    let seen = Arc::clone(&seen);
                    let look = move |result: Result<Token, _>| {
                        seen.lock().unwrap().push(match &result {
                            Ok(value) => End::Value(value.number),
                            Err(failure) => End::Failed(crate::Failure::kind(failure)),
                        });
                        result
                    };
                    self.add(shared.future().map_result(look), ends.clone());
                }
                self.shares.push(seen);
            }
            _ if self.open.is_empty() => self.add(future, ends),
            _ => {
                let other = self.take();
                self.combine(stage, (future, ends), (other.future, other.ends));
            }
        }
    }

    fn combine(
        &mut self,
        stage: &Stage,
        (a, ends): (Future<Token>, Vec<End>),
        (b, others): (Future<Token>, Vec<End>),
    ) {
        let is_value = |end: &End| matches!(end, End::Value(_));
        // What stays of the first one's ends, with the other's in place of the rest.
        let or_other = |stays: &dyn Fn(&End) -> bool| -> Vec<End> {
            let all =
                ends.iter().flat_map(|end| if stays(end) { vec![*end] } else { others.clone() });
            all.collect()
        };
        let either = [ends.clone(), others.clone()].concat();
        match below(5) {
            0 => {
                let ends = or_other(&|end| !is_value(end));
                self.add(a.flat_map(stage.to(b)), ends);
            }
            1 => {
                let ends = or_other(&is_value);
                self.add(a.or(b), ends);
            }
            2 => self.add(first([a, b]), either),
            3 => self.add(select([a, b]).flat_map(|(_, _, mut rest)| rest.remove(0)), either),
            _ => {
                let all = collect([a, b]).map(|mut values| values.remove(0));
                // The value is the first one's, if there is one.
                let fails = others.into_iter().filter(|end| !is_value(end));
                self.add(all, ends.iter().copied().chain(fails).collect());
            }
        }
    }
}

/// What one thread has to do: it completes, and has futures of its own.
#[derive(Default)]
struct Party {
    moves: Vec<Move>,
    futures: Vec<Open>,
}

impl Party {
    fn play(mut self, stage: &Stage) {
        let mut signal = 0;
        while !self.moves.is_empty() || one_in(3) {
            if !self.moves.is_empty() && (self.futures.is_empty() || one_in(2)) {
                let complete = self.moves.pop().expect("there is one");
                complete();
            } else if !self.futures.is_empty() {
                signal += 1;
                let open = self.futures.swap_remove(below(self.futures.len()));
                self.futures.push(act(stage, open, signal));
            }
        }
        for open in std::mem::take(&mut self.futures) {
            match below(3) {
                0 => drop(open.future),
                _ => {
                    let (future, ends, killed) = (open.future, open.ends, open.killed);
                    let open = Open { future: Future::never(), ends, killed };
                    open.check(end(future.wait()));
                }
            }
        }
    }
}

/// Something that does not block.
fn act(stage: &Stage, mut open: Open, signal: u32) -> Open {
    match below(5) {
        0 | 1 => stage.interrupt(&open.future, signal),
        2 => match open.future.kill() {
            Killed::TooLate => assert!(open.future.is_done()),
            Killed::BeforeStart => {
                assert!(!open.killed, "killed twice");
                open.killed = true;
            }
            Killed::WhileRunning => unreachable!("there are no tasks"),
        },
        3 => {
            let killed = open.killed;
            let future = open.future.map_result(|result| result);
            // What was killed is done, and so is what is made of it.
            let ends = if killed { vec![End::Failed(FailureKind::Killed)] } else { open.ends };
            open = Open::new(future, ends);
        }
        _ => {
            if Watcher::watch(stage, &open.future) {
                Watcher::leave(&open.future);
            }
        }
    }
    open
}

fn model(stage: &Stage) {
    let mut graph = Graph::default();
    for _ in 0..2 + below(2) {
        graph.promise(stage);
    }
    for _ in 0..1 + below(4) {
        graph.grow(stage);
    }
    let mut parties: Vec<Party> = (0..2 + below(2)).map(|_| Party::default()).collect();
    let many = parties.len();
    for complete in graph.moves {
        parties[below(many)].moves.push(complete);
    }
    for open in graph.open {
        parties[below(many)].futures.push(open);
    }
    let own = parties.pop().expect("there are two at least");
    let others: Vec<_> = parties
        .into_iter()
        .map(|party| {
            let stage = stage.clone();
            thread::spawn(move || party.play(&stage))
        })
        .collect();
    own.play(stage);
    for other in others {
        other.join().unwrap();
    }
    for seen in graph.shares {
        let seen = seen.lock().unwrap();
        assert!(seen.windows(2).all(|two| two[0] == two[1]), "consumers differ: {seen:?}");
    }
}

#[test]
fn small_graphs() {
    let schedules = std::env::var("RADDLE_SHUTTLE").ok().and_then(|many| many.parse().ok());
    let half = schedules.map_or(SCHEDULES, |many: usize| many.max(SCHEDULES)) / 2;
    let config = shuttle::Config::new();
    let random = RandomScheduler::new(half);
    shuttle::Runner::new(random, config.clone()).run(|| play(model));
    // Few changes at the worst moments.
    shuttle::Runner::new(PctScheduler::new(3, half), config).run(|| play(model));
}
