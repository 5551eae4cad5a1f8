//! Formulas on raddle.

mod pools;
mod tell;

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use raddle::{Future, Scope, Worker};

use crate::exec::yield_now;
use crate::ir::{Formula, Order, Place};
use crate::oracle::{digest, part};
use crate::rng::mix;
use crate::world::{World, outcome, panic_on_purpose};

/// On whose behalf a formula is evaluated.
#[derive(Clone, Copy)]
pub(crate) struct Context {
    pub(crate) world: &'static World,
    /// Whether it is said how often closures run: not in what may be killed.
    pub(crate) counted: bool,
}

impl Context {
    /// One more closure runs.
    pub(crate) fn count(self) {
        let counter = if self.counted { &self.world.closures } else { &self.world.uncounted };
        counter.fetch_add(1, SeqCst);
    }

    fn spawn(self, place: Place, f: impl FnOnce() -> u64 + Send + 'static) -> Future<u64> {
        let run = move || {
            self.count();
            f()
        };
        match place {
            Place::Pool(pool) => self.world.pool(pool).spawn(run),
            _ => raddle::spawn(run),
        }
    }

    fn task(self, place: Place, task: &'static Formula, given: u64, index: usize) -> Future<u64> {
        self.spawn(place, move || eval(self, task, mix(given, index as u64), None))
    }

    /// A result that there has to be.
    fn good(self, what: &str, result: Result<u64, raddle::Failure>) -> u64 {
        result.unwrap_or_else(|failure| {
            self.world.complain(format!("{what} in a formula: {failure:?}"));
            0
        })
    }
}

pub(crate) fn eval(
    context: Context,
    formula: &'static Formula,
    given: u64,
    worker: Option<&Worker>,
) -> u64 {
    match formula {
        Formula::Work(turns) => {
            (0..*turns).for_each(|_| std::hint::spin_loop());
            mix(given, u64::from(*turns))
        }
        Formula::Join(both) => {
            let half = |which: &'static Formula, given, worker: Option<&Worker>| {
                context.count();
                eval(context, which, given, worker)
            };
            let (a, b) = (mix(given, 1), mix(given, 2));
            let (a, b) = match worker {
                Some(worker) => {
                    worker.join(|w| half(&both.0, a, Some(w)), |w| half(&both.1, b, Some(w)))
                }
                None => raddle::join(|| half(&both.0, a, None), || half(&both.1, b, None)),
            };
            mix(a, b)
        }
        Formula::JoinIn { pool, halves } => {
            let half = |which: &'static Formula, salt| {
                context.count();
                eval(context, which, mix(given, salt), None)
            };
            let pool = context.world.pool(*pool);
            let (a, b) = pool.join(|| half(&halves.0, 1), || half(&halves.1, 2));
            mix(a, b)
        }
        Formula::Tree { place, depth } => match (place, worker) {
            (Place::Pool(pool), _) => {
                context.world.pool(*pool).run(|worker| tree(context, worker, given, *depth))
            }
            (_, Some(worker)) => tree(context, worker, given, *depth),
            _ => ambient_tree(context, given, *depth),
        },
        Formula::Scope { place, count, chained, task } => {
            scope(context, *place, *count, *chained, task, given)
        }
        Formula::Spawns { place, count, order, task } => {
            let futures =
                (0..*count).map(|index| context.task(*place, task, given, index)).collect();
            wait_for(context, futures, *order)
        }
        Formula::Relay { place, count, task } => {
            let mut last = Future::ready(0);
            for index in 0..*count {
                last = context.spawn(*place, move || {
                    let before = context.good("relay", last.wait());
                    mix(before, eval(context, task, mix(given, index as u64), None))
                });
            }
            context.good("relay", last.wait())
        }
        Formula::Promised { place, means, count, setters_first, task } => {
            tell::promised(context, *place, *means, *count, *setters_first, task, given)
        }
        Formula::Turns { place, count, last_first, task } => {
            tell::turns(context, *place, *count, *last_first, task, given)
        }
        Formula::Shares { place, count, task } => {
            let shared = context.task(*place, task, given, 0).shared();
            let consumers = (0..*count).map(|_| {
                let shared = shared.clone();
                context.spawn(*place, move || context.good("shares", shared.wait()))
            });
            let values = raddle::collect(consumers.collect::<Vec<_>>()).wait();
            let values = values.unwrap_or_else(|failure| {
                context.world.complain(format!("shares in a formula: {failure:?}"));
                Vec::new()
            });
            sum(values.into_iter().enumerate())
        }
        Formula::Run { pool, inner } => {
            context.world.pool(*pool).run(|worker| eval(context, inner, given, Some(worker)))
        }
        Formula::Hold { lock, grip, inner } => {
            context.world.hold(*lock, *grip, || eval(context, inner, given, worker))
        }
        Formula::Async { pool, turns, task } => {
            let driven = async move {
                let mut acc = given;
                for turn in 0..*turns {
                    yield_now().await;
                    let one = context.task(Place::Here, task, given, turn).await;
                    acc = mix(acc, context.good("async", one));
                }
                acc
            };
            let future = context.world.pool(*pool).spawn_async(driven);
            context.good("async", future.wait())
        }
        Formula::On { pool, task } => {
            let first = context.task(Place::Here, task, given, 0);
            let moved = first.on(&context.world.pool(*pool)).map(|value| mix(value, 3));
            context.good("on", moved.wait())
        }
        Formula::OwnPool { manner, threads, count, task } => {
            pools::own_pool(context, *manner, *threads, *count, task, given)
        }
        Formula::KillAll { threads, at_once, count, task } => {
            pools::kill_all(context, *threads, *at_once, *count, task, given)
        }
        Formula::Await(value) => {
            let result = context.world.shared[*value].get().expect("created before").clone().wait();
            context.world.check("a formula", *value, &result);
            digest(&outcome(&result))
        }
        Formula::Catch(inner) => {
            let caught = context.world.catch("a formula", || {
                raddle::join(
                    || panic_on_purpose(),
                    || {
                        context.count();
                        eval(context, inner, given, None)
                    },
                )
            });
            match caught {
                Ok(((), _)) => 0,
                Err(_) => mix(given, 0xca7c4),
            }
        }
    }
}

/// The sum in which order does not matter.
fn sum(values: impl Iterator<Item = (usize, u64)>) -> u64 {
    values.fold(0, |sum, (index, value)| sum.wrapping_add(part(index, value)))
}

fn tree(context: Context, worker: &Worker, given: u64, depth: u32) -> u64 {
    let Some(depth) = depth.checked_sub(1) else {
        context.count();
        return mix(given, 7);
    };
    let (a, b) = worker.join(
        |w| tree(context, w, mix(given, 1), depth),
        |w| tree(context, w, mix(given, 2), depth),
    );
    mix(a, b)
}

fn ambient_tree(context: Context, given: u64, depth: u32) -> u64 {
    let Some(depth) = depth.checked_sub(1) else {
        context.count();
        return mix(given, 7);
    };
    let (a, b) = raddle::join(
        || ambient_tree(context, mix(given, 1), depth),
        || ambient_tree(context, mix(given, 2), depth),
    );
    mix(a, b)
}

/// Tasks of a scope, which borrow.
fn scope(
    context: Context,
    place: Place,
    count: usize,
    chained: bool,
    task: &'static Formula,
    given: u64,
) -> u64 {
    let total = AtomicU64::new(0);
    let one = |index: usize| {
        context.count();
        let value = eval(context, task, mix(given, index as u64), None);
        total.fetch_add(part(index, value), SeqCst);
    };
    match place {
        Place::Pool(pool) => {
            context.world.pool(pool).scope(|scope| spawn_all(scope, &one, count, chained));
        }
        _ => raddle::scope(|scope| spawn_all(scope, &one, count, chained)),
    }
    total.into_inner()
}

/// Spawned by the body, or each by the one before it.
fn spawn_all<'s>(scope: &Scope<'s>, one: &'s (impl Fn(usize) + Sync), count: usize, chained: bool) {
    fn next<'s>(scope: &Scope<'s>, one: &'s (impl Fn(usize) + Sync), index: usize, count: usize) {
        if index < count {
            scope.spawn(move |scope| {
                next(scope, one, index + 1, count);
                one(index);
            });
        }
    }
    if chained {
        return next(scope, one, 0, count);
    }
    for index in 0..count {
        scope.spawn(move |_| one(index));
    }
}

fn wait_for(context: Context, mut futures: Vec<Future<u64>>, order: Order) -> u64 {
    let count = futures.len();
    let good = |result| context.good("spawns", result);
    let all = |result: Result<Vec<u64>, raddle::Failure>| {
        result.unwrap_or_else(|failure| {
            context.world.complain(format!("collect in a formula: {failure:?}"));
            Vec::new()
        })
    };
    match order {
        Order::Forward => sum(futures.into_iter().map(|future| good(future.wait())).enumerate()),
        Order::Backward => {
            let waited = |(index, future): (usize, Future<u64>)| (index, good(future.wait()));
            sum(futures.into_iter().enumerate().rev().map(waited))
        }
        Order::Mixed => {
            let mut left: std::collections::VecDeque<_> = futures.into_iter().enumerate().collect();
            let mut total = 0_u64;
            while let Some((index, future)) =
                if left.len() % 2 == 0 { left.pop_front() } else { left.pop_back() }
            {
                total = total.wrapping_add(part(index, good(future.wait())));
            }
            total
        }
        Order::Collect => sum(all(raddle::collect(futures).wait()).into_iter().enumerate()),
        Order::JoinAll => good(raddle::join_all(futures).map(|()| 0).wait()),
        Order::Completed => {
            sum(raddle::as_completed(futures).map(|(index, result)| (index, good(result))))
        }
        Order::Any => {
            // Each says which it is, for the list is not kept in order.
            let name =
                |(index, future): (usize, Future<u64>)| future.map(move |value| part(index, value));
            futures = futures.into_iter().enumerate().map(name).collect();
            (0..count)
                .fold(0, |total: u64, _| total.wrapping_add(good(raddle::wait_any(&mut futures).1)))
        }
    }
}
