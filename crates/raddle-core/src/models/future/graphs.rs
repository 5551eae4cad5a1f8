//! Small graphs of futures, and two or three threads who do things to them: both at random.
//!
//! Each schedule has a graph of its own: two or three promises, and a few operations on their futures, of which some become
//! known only when a promise is linked. What the promises come to is settled, so for each future there are a few ends that it
//! may have; one that was killed in time has no other than that, and the consumers of a shared future agree. And a promise that
//! is completed after a signal was sent along a way that is sure has heard of it (see `Source`).
//!
//! A hundred thousand schedules; as many as `RADDLE_SHUTTLE` says if those are more.

use std::sync::{Arc, Mutex};

use raddle_sync::thread;
use shuttle::rand::{Rng, thread_rng};
use shuttle::scheduler::{PctScheduler, RandomScheduler};

use crate::future::{FailureKind, Future, Killed, Promise, collect, first, select};
use crate::models::future::threes::{Move, one_in, produce_after};
use crate::models::future::{End, Stage, Token, Watcher, end, number, play};

const SCHEDULES: usize = 100_000;

fn below(n: usize) -> usize {
    thread_rng().gen_range(0..n)
}

/// A promise upstream of a future, where signals have to come. Not upstream of what is shared or combined: others may want it,
/// or it may be over already.
#[derive(Clone)]
struct Source {
    promise: usize,
    /// When these are made; also those that come later pass on what was sent before.
    links: Vec<usize>,
    kills_only: bool,
    /// On the way is one that ends by an interrupt, and goes no further.
    ends: bool,
}

/// What was sent where, and whether it is a kill; and the links that are made. No steps of the model.
#[derive(Clone, Default)]
struct Signals(Arc<Mutex<(Vec<(Source, bool)>, Vec<usize>)>>);

impl Signals {
    /// A signal has been sent.
    fn sent(&self, sources: &[Source], kill: bool) {
        let to = sources.iter().filter(|source| kill || !source.kills_only).cloned();
        self.0.lock().unwrap().0.extend(to.map(|source| (source, kill)));
    }

    fn linked(&self, link: usize) {
        self.0.lock().unwrap().1.push(link);
    }

    /// The promise, which is about to be completed, has heard of what came before.
    fn check(&self, id: usize, promise: &Promise<Token>) {
        let kills: Vec<bool> = {
            let (sent, linked) = &*self.0.lock().unwrap();
            let is_there = |source: &Source| {
                source.promise == id && source.links.iter().all(|link| linked.contains(link))
            };
            sent.iter().filter(|(source, _)| is_there(source)).map(|&(_, kill)| kill).collect()
        };
        let heard = promise.interrupted().as_ref().map(number);
        assert!(kills.is_empty() || heard.is_some(), "an interrupt has not arrived");
        assert!(!kills.contains(&true) || heard == Some(0), "a kill has not arrived");
    }
}

/// A future that nobody has consumed, and how it may end.
struct Open {
    future: Future<Token>,
    ends: Vec<End>,
    killed: bool,
    sources: Vec<Source>,
}

impl Open {
    fn new(future: Future<Token>, ends: Vec<End>, sources: Vec<Source>) -> Open {
        Open { future, ends, killed: false, sources }
    }

    /// The future, and the rest.
    fn apart(mut self) -> (Future<Token>, Open) {
        (std::mem::replace(&mut self.future, Future::never()), self)
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
    signals: Signals,
    /// How many promises there have been.
    promises: usize,
}

impl Graph {
    fn take(&mut self) -> Open {
        self.open.swap_remove(below(self.open.len()))
    }

    fn add(&mut self, future: Future<Token>, ends: Vec<End>, sources: Vec<Source>) {
        self.open.push(Open::new(future, ends, sources));
    }

    /// The number of one more promise, and its future's way to that.
    fn source(&mut self) -> (usize, Source) {
        let promise = self.promises;
        self.promises += 1;
        (promise, Source { promise, links: Vec::new(), kills_only: false, ends: false })
    }

    fn promise(&mut self, stage: &Stage) {
        let (promise, future) = stage.promise(one_in(2));
        let ((id, source), signals) = (self.source(), self.signals.clone());
        let check = move |promise: &Promise<Token>| signals.check(id, promise);
        let (complete, end) = produce_after(stage, promise, check);
        self.moves.push(complete);
        self.add(future, vec![end], vec![source]);
    }

    /// One more operation.
    fn grow(&mut self, stage: &Stage) {
        let Open { future, ends, mut sources, .. } = self.take();
        match below(8) {
            0 => {
                let next = |end: End| match end {
                    End::Value(n) => End::Value(n + 1),
                    failed => failed,
                };
                let ends = ends.into_iter().map(next).collect();
                self.add(future.map(stage.step()), ends, sources);
            }
            1 => self.add(future.transform(Future::from), ends, sources),
            2 => {
                // Whoever interrupts it ends it, and so does the kill of what is made of it.
                let by_signals = [FailureKind::Error, FailureKind::Killed].map(End::Failed);
                sources.iter_mut().for_each(|source| {
                    (source.kills_only, source.ends) = (true, true);
                });
                self.add(future.interruptible(), [ends, by_signals.into()].concat(), sources);
            }
            3 => {
                sources.iter_mut().for_each(|source| source.kills_only = true);
                self.add(future.masked(), ends, sources);
            }
            4 => {
                let (promise, linked) = stage.promise(one_in(2));
                let ((id, own), signals) = (self.source(), self.signals.clone());
                self.moves.push(Box::new(move || {
                    signals.check(id, &promise);
                    promise.link(future);
                    signals.linked(id);
                }));
                // An interrupt from before may be about to end what a kill comes to.
                sources.retain(|source| !source.ends);
                sources.iter_mut().for_each(|source| source.links.push(id));
                sources.push(own);
                self.add(linked, ends, sources);
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
                    self.add(shared.future().map_result(look), ends.clone(), Vec::new());
                }
                self.shares.push(seen);
            }
            _ if self.open.is_empty() => self.add(future, ends, sources),
            _ => {
                let other = self.take();
                self.combine(stage, (future, ends), sources, (other.future, other.ends));
            }
        }
    }

    fn combine(
        &mut self,
        stage: &Stage,
        (a, ends): (Future<Token>, Vec<End>),
        mut sources: Vec<Source>,
        (b, others): (Future<Token>, Vec<End>),
    ) {
        // What has ended so may have become the other.
        sources.retain(|source| !source.ends);
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
                self.add(a.flat_map(stage.to(b)), ends, sources);
            }
            1 => {
                let ends = or_other(&is_value);
                self.add(a.or(b), ends, sources);
            }
            2 => self.add(first([a, b]), either, Vec::new()),
            3 => {
                let loser = select([a, b]).flat_map(|(_, _, mut rest)| rest.remove(0));
                self.add(loser, either, Vec::new());
            }
            _ => {
                let all = collect([a, b]).map(|mut values| values.remove(0));
                // The value is the first one's, if there is one.
                let fails = others.into_iter().filter(|end| !is_value(end));
                self.add(all, ends.iter().copied().chain(fails).collect(), Vec::new());
            }
        }
    }
}

/// What one thread has to do: it completes, and has futures of its own.
#[derive(Default)]
struct Party {
    moves: Vec<Move>,
    futures: Vec<Open>,
    signals: Signals,
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
                self.futures.push(act(stage, &self.signals, open, signal));
            }
        }
        for open in std::mem::take(&mut self.futures) {
            match below(3) {
                0 => drop(open.future),
                _ => {
                    let (future, open) = open.apart();
                    open.check(end(future.wait()));
                }
            }
        }
    }
}

/// Something that does not block.
fn act(stage: &Stage, signals: &Signals, mut open: Open, signal: u32) -> Open {
    match below(5) {
        0 | 1 => {
            stage.interrupt(&open.future, signal);
            signals.sent(&open.sources, false);
        }
        2 => match open.future.kill() {
            Killed::TooLate => assert!(open.future.is_done()),
            Killed::BeforeStart => {
                assert!(!open.killed, "killed twice");
                open.killed = true;
                signals.sent(&open.sources, true);
                open.sources.clear();
            }
            Killed::WhileRunning => unreachable!("there are no tasks"),
        },
        3 => {
            let killed = open.killed;
            let future = open.future.map_result(|result| result);
            // What was killed is done, and so is what is made of it.
            let ends = if killed { vec![End::Failed(FailureKind::Killed)] } else { open.ends };
            open = Open::new(future, ends, open.sources);
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
    let party = |_| Party { signals: graph.signals.clone(), ..Party::default() };
    let mut parties: Vec<Party> = (0..2 + below(2)).map(party).collect();
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
