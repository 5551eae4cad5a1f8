//! Futures made and waited for, all at once and one at a time, from outside and from within.
//!
//! rayon has no futures: its tasks send their results through a channel, either a oneshot channel
//! each (tokio's), which does what a future does, or one std mpsc channel for all, which doesn't
//! tell the results apart.

use std::sync::mpsc;

use tokio::sync::oneshot;

use crate::{
    args::Settings,
    harness::{Contender, Group, Table},
    peers,
    report::{Budget, Limit},
};

const WORKERS: usize = 2;

/// How the futures follow each other.
#[derive(Clone, Copy)]
enum Shape {
    All,
    Ping,
}

/// Where they are made and waited for.
#[derive(Clone, Copy)]
enum Place {
    Outside,
    Within,
}

#[derive(Clone, Copy)]
struct Case {
    shape: Shape,
    place: Place,
    futures: u64,
}

impl Case {
    fn section(self) -> String {
        let n = self.futures;
        let shape = match self.shape {
            Shape::All => format!("{n} at once"),
            Shape::Ping => format!("{n} one by one"),
        };
        match self.place {
            Place::Outside => shape + ", from outside",
            Place::Within => shape + ", from within",
        }
    }
}

pub(crate) fn table(settings: &Settings) -> Table {
    let (all, ping) = (settings.size(1_000_000, 5_000), settings.size(20_000, 500));
    let cases = [
        Case { shape: Shape::All, place: Place::Outside, futures: all },
        Case { shape: Shape::All, place: Place::Within, futures: all },
        Case { shape: Shape::Ping, place: Place::Outside, futures: ping },
        Case { shape: Shape::Ping, place: Place::Within, futures: ping },
    ];
    let budget = |case: Case| {
        let id = |name: &str| (case.section(), name.to_owned());
        let what = format!("raddle / tokio, {}", case.section());
        Budget::ratio(what, id("raddle"), id("tokio"), Limit::AtMost(0.5))
    };
    Table {
        about: "ns per future: made, run by a pool of 2 workers, waited for",
        rounds: 5,
        groups: cases.map(group).into(),
        budgets: cases.map(budget).into(),
    }
}

fn group(case: Case) -> Group {
    let row = |name, run: fn(Case) -> f64| Contender::new(case.section(), name, move || run(case));
    Group {
        unit: "ns",
        references: &["tokio"],
        ceiling: None,
        contenders: vec![
            row("raddle", raddle),
            row("tokio", tokio),
            row("rayon, a oneshot each", rayon_oneshot),
            row("rayon, one mpsc for all", rayon_mpsc),
        ],
    }
}

/// Nanoseconds per future. Future number i must have returned i.
fn timed(case: Case, run: impl FnOnce() -> u64) -> f64 {
    let (time, sum) = peers::timed(run);
    assert_eq!(sum, case.futures * (case.futures - 1) / 2, "wrong result");
    time.as_nanos() as f64 / case.futures as f64
}

/// Makes futures and waits for them.
fn each<F>(case: Case, make: impl Fn(u64) -> F, wait: impl Fn(F) -> u64) -> u64 {
    match case.shape {
        Shape::All => {
            let futures: Vec<F> = (0..case.futures).map(make).collect();
            futures.into_iter().map(wait).sum()
        }
        Shape::Ping => (0..case.futures).map(|i| wait(make(i))).sum(),
    }
}

fn raddle(case: Case) -> f64 {
    let pool = peers::raddle_pool(WORKERS);
    let wait = |future: raddle::Future<u64>| future.wait().expect("no failure");
    timed(case, || match case.place {
        Place::Outside => each(case, |i| pool.spawn(move || i), wait),
        Place::Within => pool.run(|_| each(case, |i| raddle::spawn(move || i), wait)),
    })
}

fn tokio(case: Case) -> f64 {
    async fn each(case: Case) -> u64 {
        let make = |i| tokio::spawn(async move { i });
        let mut sum = 0;
        match case.shape {
            Shape::All => {
                let futures: Vec<_> = (0..case.futures).map(make).collect();
                for future in futures {
                    sum += future.await.expect("no panic");
                }
            }
            Shape::Ping => {
                for i in 0..case.futures {
                    sum += make(i).await.expect("no panic");
                }
            }
        }
        sum
    }
    let runtime = peers::tokio_pool(WORKERS);
    timed(case, || match case.place {
        Place::Outside => runtime.block_on(each(case)),
        Place::Within => {
            runtime.block_on(async { tokio::spawn(each(case)).await.expect("no panic") })
        }
    })
}

fn rayon_oneshot(case: Case) -> f64 {
    type Receiver = oneshot::Receiver<u64>;
    fn task(i: u64) -> (impl FnOnce() + Send + 'static, Receiver) {
        let (sender, receiver) = oneshot::channel();
        (move || sender.send(i).expect("a receiver"), receiver)
    }
    let pool = peers::rayon_pool(WORKERS);
    timed(case, || match case.place {
        Place::Outside => {
            let make = |i| {
                let (task, receiver) = task(i);
                pool.spawn(task);
                receiver
            };
            each(case, make, |receiver| receiver.blocking_recv().expect("a result"))
        }
        Place::Within => pool.install(|| {
            let make = |i| {
                let (task, receiver) = task(i);
                rayon::spawn(task);
                receiver
            };
            each(case, make, |mut receiver| helping(|| receiver.try_recv().ok()))
        }),
    })
}

fn rayon_mpsc(case: Case) -> f64 {
    let pool = peers::rayon_pool(WORKERS);
    let (sender, receiver) = mpsc::channel();
    let task = |i| {
        let sender = sender.clone();
        move || sender.send(i).expect("a receiver")
    };
    timed(case, || match case.place {
        Place::Outside => {
            each(case, |i| pool.spawn(task(i)), |()| receiver.recv().expect("a result"))
        }
        Place::Within => pool.install(move || {
            let wait = |()| helping(|| receiver.try_recv().ok());
            each(case, |i| rayon::spawn(task(i)), wait)
        }),
    })
}

/// Waits as one has to on a worker of rayon's: by running other tasks until there is a result.
fn helping<T>(mut result: impl FnMut() -> Option<T>) -> T {
    loop {
        if let Some(result) = result() {
            return result;
        }
        if rayon::yield_now() != Some(rayon::Yield::Executed) {
            std::thread::yield_now();
        }
    }
}
