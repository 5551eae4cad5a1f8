//! What comes of a program: the sequential interpreter.

use std::cell::Cell;

use crate::ir::{Detached, Fresh, Futures, Loop, Node, Program, Spread, Way};
use crate::rng::mix;

/// A node has panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

pub(crate) type Outcome = Result<u64, Panicked>;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Expected {
    /// What the roots make, in turn.
    pub(crate) roots: u64,
    /// The sum of what tasks make for which nobody waits.
    pub(crate) detached: u64,
    /// How many panics the pools' handlers get.
    pub(crate) handled: u64,
}

/// What cells are made of, wherever.
pub(crate) const CELL: u64 = 0xce11;
/// What a node makes that has panicked.
pub(crate) const CAUGHT: u64 = 0xca06;

pub(crate) fn expected(program: &Program) -> Expected {
    let oracle = Oracle { program, detached: Cell::new(0), handled: Cell::new(0) };
    let mut roots = 0;
    for (index, root) in program.roots.iter().enumerate() {
        let value = oracle.value(root, 1, index as u64);
        roots = mix(roots, value.expect("what panics is caught"));
    }
    Expected { roots, detached: oracle.detached.get(), handled: oracle.handled.get() }
}

/// What a leaf makes.
pub(crate) fn leaf(x: u64) -> u64 {
    mix(x, 0x1eaf)
}

/// Numbers whose order counts.
pub(crate) fn in_order(x: u64, values: impl IntoIterator<Item = u64>) -> u64 {
    values.into_iter().fold(x, mix)
}

/// Which of `count` items is looked for, or has an error; perhaps none.
pub(crate) fn target(x: u64, count: u32) -> u64 {
    mix(x, 0x7a6) % (u64::from(count) + 2)
}

/// Whether a node that may panic does.
pub(crate) fn panics(x: u64, one_of: u64) -> bool {
    mix(x, 0xdead) % one_of == 0
}

/// How many tasks are queued in a pool that is dropped.
pub(crate) fn dropped(x: u64) -> u64 {
    1 + mix(x, 0xd409) % 40
}

/// What operations after a future make of its value.
pub(crate) fn after(v: u64) -> u64 {
    mix(mix(v, 1), 2)
}

/// A link of a long chain.
pub(crate) fn link(v: u64) -> u64 {
    v.rotate_left(5) ^ 0x11
}

struct Oracle<'a> {
    program: &'a Program,
    detached: Cell<u64>,
    handled: Cell<u64>,
}

impl Oracle<'_> {
    /// Of a node, in a pool of so many threads.
    fn value(&self, node: &Node, threads: usize, x: u64) -> Outcome {
        Ok(match node {
            Node::Leaf(_) => leaf(x),
            Node::Seq(nodes) => {
                let mut x = x;
                for node in nodes {
                    x = self.value(node, threads, x)?;
                }
                x
            }
            Node::Bind(_, inner)
            | Node::Lend(_, inner)
            | Node::Snapshot(inner)
            | Node::Spun(_, inner)
            | Node::Hold(_, _, inner) => self.value(inner, threads, x)?,
            Node::Panic(one_of) if panics(x, *one_of) => return Err(Panicked),
            Node::Panic(_) | Node::Trace(_) | Node::Nap(_) | Node::Frail(..) => x,
            Node::Catch(inner) => self.value(inner, threads, x).unwrap_or(CAUGHT),
            Node::Pair(_, halves) => mix(
                self.value(&halves[0], threads, mix(x, 1))?,
                self.value(&halves[1], threads, mix(x, 2))?,
            ),
            Node::Tree(_, depth) => tree(*depth, x),
            Node::Chain(_, second, count) => chain(*second, *count, x),
            Node::Loop(kind, count, inner) => self.of_loop(*kind, *count, inner, threads, x)?,
            Node::Scope(_, spread, count, inner) => {
                let each = if *spread == Spread::Everywhere { threads } else { 1 };
                self.sum(*count, inner, threads, x)?.wrapping_mul(each as u64)
            }
            Node::Detached(kind, count, inner) => {
                let each = if *kind == Detached::Broadcast { threads } else { 1 };
                let sum = self.sum(*count, inner, threads, x)?.wrapping_mul(each as u64);
                self.detached.set(self.detached.get().wrapping_add(sum));
                x
            }
            Node::Handled(count) => {
                self.handled.set(self.handled.get() + u64::from(*count));
                x
            }
            Node::Broadcast(_, inner) => {
                let each = (0..threads).map(|i| self.value(inner, threads, mix(x, i as u64)));
                in_order(x, each.collect::<Result<Vec<u64>, Panicked>>()?)
            }
            Node::Enter(pool, way, inner) => {
                let value = self.value(inner, self.program.pools[*pool].threads, x)?;
                if *way == Way::Join { mix(value, leaf(x)) } else { value }
            }
            Node::Fresh(Fresh::Dropped, threads, inner) => {
                let sum = self.sum(dropped(x) as u32, inner, *threads, x)?;
                self.detached.set(self.detached.get().wrapping_add(sum));
                x
            }
            Node::Fresh(_, threads, inner) => self.value(inner, *threads, x)?,
            Node::Futures(kind, count, inner) => match kind {
                Futures::Ops => {
                    let mut sum = 0_u64;
                    for i in 0..*count {
                        let value = self.value(inner, threads, mix(x, u64::from(i)))?;
                        sum = sum.wrapping_add(after(value));
                    }
                    sum
                }
                Futures::Long => (0..*count).fold(self.value(inner, threads, x)?, |v, _| link(v)),
                Futures::Shared => self.value(inner, threads, x)?.wrapping_mul(u64::from(*count)),
                _ => self.sum(*count, inner, threads, x)?,
            },
            Node::Cell(cell) => self.value(&self.program.cells[*cell].1, threads, CELL)?,
        })
    }

    fn sum(&self, count: u32, inner: &Node, threads: usize, x: u64) -> Outcome {
        let mut sum = 0_u64;
        for i in 0..count {
            sum = sum.wrapping_add(self.value(inner, threads, mix(x, u64::from(i)))?);
        }
        Ok(sum)
    }

    fn of_loop(&self, kind: Loop, count: u32, inner: &Node, threads: usize, x: u64) -> Outcome {
        let target = target(x, count);
        let is_there = target < u64::from(count);
        if matches!(kind, Loop::FindAny | Loop::FindFirst | Loop::TryForEach | Loop::ParFindAny) {
            return Ok(if is_there { mix(x, target) } else { x });
        }
        if kind == Loop::TryReduce && is_there {
            return Ok(x);
        }
        let each = (0..count).map(|i| self.value(inner, threads, mix(x, u64::from(i))));
        let mut values = each.collect::<Result<Vec<u64>, Panicked>>()?;
        let sum = |values: &[u64]| values.iter().fold(0, |a: u64, b| a.wrapping_add(*b));
        Ok(match kind {
            Loop::Collect
            | Loop::Zip
            | Loop::Chunks(_)
            | Loop::ChunksMut(_)
            | Loop::ParCollect
            | Loop::ParEach
            | Loop::ParChunks(_) => in_order(x, values),
            Loop::SortCached | Loop::SortBy | Loop::SortUnstable | Loop::ParSort => {
                values.sort_unstable();
                in_order(x, values)
            }
            Loop::ParScan => {
                let mut sum = 0_u64;
                in_order(
                    x,
                    values.iter().map(|v| {
                        sum = sum.wrapping_add(*v);
                        sum
                    }),
                )
            }
            Loop::Filter => {
                values.retain(|v| v % 2 == 1);
                sum(&values)
            }
            Loop::FlatMap | Loop::FlatMapIter => {
                let three: Vec<u64> =
                    values.iter().flat_map(|v| (0..3).map(|j| mix(*v, j))).collect();
                sum(&three)
            }
            Loop::Partition => {
                let (odd, even): (Vec<u64>, Vec<u64>) = values.iter().partition(|v| *v % 2 == 1);
                mix(in_order(x, odd), in_order(x, even))
            }
            _ => sum(&values),
        })
    }
}

fn tree(depth: u32, x: u64) -> u64 {
    if depth == 0 {
        return leaf(x);
    }
    mix(tree(depth - 1, mix(x, 1)), tree(depth - 1, mix(x, 2)))
}

fn chain(second: bool, count: u32, x: u64) -> u64 {
    if count == 0 {
        return leaf(x);
    }
    let rest = chain(second, count - 1, mix(x, 3));
    if second { mix(leaf(x), rest) } else { mix(rest, leaf(x)) }
}
