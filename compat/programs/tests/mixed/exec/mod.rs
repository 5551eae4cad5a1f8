//! The interpreter that runs on raddle.

mod detached;
mod forks;
mod futures;
mod loops;
mod pools;
mod scopes;

use std::hint::black_box;
use std::panic::{self, AssertUnwindSafe};
use std::thread;
use std::time::Duration;

use raddle::Snapshot;
use raddle::trace::TraceLevel;

use crate::ir::{Broadcast, CellKind, Node};
use crate::oracle::{self, CAUGHT, CELL, in_order};
use crate::rng::mix;
use crate::world::{BOUND, LENT, OnPurpose, Spot, World, panic_on_purpose, text};

/// Where a node runs, and what it is to find there.
#[derive(Clone, Copy)]
pub(crate) struct Env {
    pub(crate) world: &'static World,
    pub(crate) here: &'static Spot,
    pub(crate) bound: Option<u64>,
    pub(crate) lent: Option<u64>,
}

impl Env {
    /// For tasks, which inherit nothing that is lent.
    fn away(self) -> Env {
        Env { lent: None, ..self }
    }

    /// Sees whether what is bound is what it should be.
    fn check(self, by: &str) {
        let (bound, lent) = (BOUND.get(), LENT.get());
        if bound != self.bound || lent != self.lent {
            self.world.complain(format!(
                "{by}: bound {bound:?} instead of {:?}, lent {lent:?} instead of {:?}",
                self.bound, self.lent
            ));
        }
    }

    /// The same by a continuation that this code attaches. What is done already has it run within the call, where what is lent
    /// is seen.
    fn check_continuation(self, by: &str) {
        let within_the_call = LENT.get().is_some();
        if within_the_call { self.check(by) } else { self.away().check(by) }
    }
}

/// Runs a node.
pub(crate) fn run(node: &'static Node, env: Env, x: u64) -> u64 {
    env.check("before a node");
    let value = evaluate(node, env, x);
    env.check("after a node");
    value
}

/// Runs it for one of several.
fn item(node: &'static Node, env: Env, x: u64, index: u64) -> u64 {
    run(node, env, mix(x, index))
}

fn evaluate(node: &'static Node, env: Env, x: u64) -> u64 {
    match node {
        Node::Leaf(turns) => work(*turns, x),
        Node::Seq(nodes) => nodes.iter().fold(x, |x, node| run(node, env, x)),
        Node::Bind(value, inner) => {
            BOUND.bind(*value).run(|| run(inner, Env { bound: Some(*value), ..env }, x))
        }
        Node::Lend(value, inner) => {
            LENT.bind_ref(value).run(|| run(inner, Env { lent: Some(*value), ..env }, x))
        }
        Node::Snapshot(inner) => {
            let snapshot = Snapshot::capture();
            let elsewhere = BOUND.bind(0);
            elsewhere.run(|| snapshot.run(|| run(inner, env.away(), x)))
        }
        Node::Panic(one_of) if oracle::panics(x, *one_of) => panic_on_purpose(),
        Node::Panic(_) => x,
        Node::Catch(inner) => catch(inner, env, x),
        Node::Pair(fork, halves) => {
            let [a, b] = &**halves;
            let (a, b) = forks::fork(*fork, || item(a, env, x, 1), || item(b, env, x, 2));
            mix(a, b)
        }
        Node::Tree(fork, depth) => forks::tree(*fork, *depth, x),
        Node::Chain(fork, second, count) => forks::chain(*fork, *second, *count, x),
        Node::Loop(kind, count, inner) => loops::run(*kind, *count, inner, env, x),
        Node::Scope(kind, spread, count, inner) => {
            scopes::run(*kind, *spread, *count, inner, env, x)
        }
        Node::Detached(kind, count, inner) => {
            detached::run(*kind, *count, inner, env.away(), x);
            x
        }
        Node::Handled(count) => {
            detached::handled(*count, env);
            x
        }
        Node::Spun(kind, inner) => detached::spin(*kind, inner, env.away(), x),
        Node::Broadcast(kind, inner) => {
            let call = |index: usize| item(inner, env, x, index as u64);
            let values = match kind {
                Broadcast::Rayon => rayon::broadcast(|thread| call(thread.index())),
                Broadcast::Raddle => raddle::broadcast(|thread| call(thread.index())),
            };
            in_order(x, values)
        }
        Node::Enter(pool, way, inner) => pools::enter(*pool, *way, inner, env, x),
        Node::Fresh(kind, threads, inner) => pools::fresh(*kind, *threads, inner, env, x),
        Node::Futures(kind, count, inner) => futures::run(*kind, *count, inner, env, x),
        Node::Frail(kind, count, inner) => {
            futures::frail(*kind, *count, inner, env, x);
            x
        }
        Node::Hold(lock, grip, inner) => {
            let (value, changed) = env.here.locks.hold(*lock, *grip, || run(inner, env, x));
            if changed {
                env.world.complain(format!("another had lock {lock}, {grip:?}, at the same time"));
            }
            value
        }
        Node::Cell(cell) => {
            let (kind, inner) = &env.world.program.cells[*cell];
            let make = || run(inner, env, CELL);
            match kind {
                CellKind::Std => *env.world.std_cells[*cell].get_or_init(make),
                CellKind::Raddle => *env.world.cells[*cell].get_or_init(make),
            }
        }
        Node::Trace(level) => {
            let level =
                [TraceLevel::Off, TraceLevel::Phase, TraceLevel::Tasks][usize::from(*level)];
            if let Some(pool) = raddle::Pool::current() {
                pool.set_trace(level);
            }
            x
        }
        Node::Nap(micros) => {
            match micros {
                0 => thread::yield_now(),
                _ => thread::sleep(Duration::from_micros(u64::from(*micros))),
            }
            x
        }
    }
}

fn catch(inner: &'static Node, env: Env, x: u64) -> u64 {
    match panic::catch_unwind(AssertUnwindSafe(|| run(inner, env, x))) {
        Ok(value) => value,
        Err(payload) => {
            if !payload.is::<OnPurpose>() {
                env.world.complain(format!("a node panicked: {}", text(&*payload)));
            }
            CAUGHT
        }
    }
}

fn work(turns: u32, x: u64) -> u64 {
    (0..turns).for_each(|turn| {
        black_box(turn);
    });
    oracle::leaf(x)
}
