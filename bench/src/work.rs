//! The workloads, written once and instantiated for each runtime, so that each runs the code its
//! users would write, without a trait in between.
//!
//! Each function takes the runtime's context `c` (`&Worker`, `&mut Scope`, or nothing) and forks by
//! one of two functions. `join(c, a, b)` is what the runtime calls so. In `fork(c, here, forked)`
//! the first half runs here and now and others may take the second: most runtimes do that anyway,
//! but chili's `join` runs its second half first.

use std::{
    hint,
    sync::OnceLock,
    time::{Duration, Instant},
};

/// The next value of the splitmix64 sequence.
pub(crate) fn splitmix(x: u64) -> u64 {
    let x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ (x >> 31)
}

/// Keeps the CPU busy for this long.
pub(crate) fn spin(time: Duration) {
    let start = Instant::now();
    while start.elapsed() < time {
        hint::spin_loop();
    }
}

/// Calls that `fib(n)` makes, itself included.
fn fib_calls(n: u32) -> u64 {
    if n < 2 { 1 } else { 1 + fib_calls(n - 1) + fib_calls(n - 2) }
}

/// A node of a binary tree as in chili's own benchmark.
pub(crate) struct Node {
    value: u64,
    left: Option<Box<Node>>,
    right: Option<Box<Node>>,
}

impl Node {
    /// A full tree of `2^levels - 1` nodes, each with the value 1.
    fn tree(levels: u32) -> Node {
        let child = || (levels > 1).then(|| Box::new(Node::tree(levels - 1)));
        Node { value: 1, left: child(), right: child() }
    }

    /// The tree of that size, built once per process: half a gigabyte for 24 levels.
    fn shared(levels: u32) -> &'static Node {
        static TREES: [OnceLock<Node>; 32] = [const { OnceLock::new() }; 32];
        TREES[levels as usize].get_or_init(|| Node::tree(levels))
    }
}

/// How many children a node of the unbalanced tree has: geometrically distributed, capped at 8,
/// with a mean that falls from 3.3 at the root to 0 at `levels`. Integers only, so that the tree is
/// the same everywhere.
fn children(seed: u64, depth: u32, levels: u32) -> u64 {
    let more = 205 * (levels - depth.min(levels)) / levels; // of 256
    seed.to_le_bytes().iter().take_while(|byte| u32::from(**byte) < more).count() as u64
}

/// A workload with a result that can be checked.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Workload {
    /// The exponential recursion without a cut-off.
    Fib(u32),
    /// A tree of this depth, shaped by hashes, in the manner of UTS.
    Unbalanced(u32),
    /// The sum over a full binary tree of this many levels.
    TreeSum(u32),
    /// Merge sort of so many numbers.
    Sort(usize),
}

/// What a run of a workload works on: made outside timing.
#[derive(Default)]
pub(crate) struct Input {
    tree: Option<&'static Node>,
    data: Vec<u64>,
    scratch: Vec<u64>,
}

impl Workload {
    pub(crate) fn title(self) -> String {
        match self {
            Workload::Fib(n) => format!("fib({n}), per call"),
            Workload::Unbalanced(_) => match self.operations() {
                n if n < 1_000_000 => format!("unbalanced tree, {n} nodes"),
                n => format!("unbalanced tree, {:.1}M nodes", n as f64 / 1e6),
            },
            Workload::TreeSum(levels) => format!("tree sum, 2^{levels}-1 nodes"),
            Workload::Sort(n) => format!("merge sort of {n} u64"),
        }
    }

    /// How many calls, nodes or numbers one run handles.
    pub(crate) fn operations(self) -> u64 {
        match self {
            Workload::Fib(n) => fib_calls(n),
            Workload::Unbalanced(levels) => sequential::unbalanced((), SEED, 0, levels).0,
            Workload::TreeSum(levels) => (1 << levels) - 1,
            Workload::Sort(n) => n as u64,
        }
    }

    /// What a run must return.
    pub(crate) fn expected(self) -> u64 {
        match self {
            Workload::Fib(_) | Workload::Unbalanced(_) => {
                sequential::run((), self, &mut Input::default())
            }
            Workload::TreeSum(_) => self.operations(),
            Workload::Sort(_) => 0,
        }
    }

    pub(crate) fn prepare(self) -> Input {
        match self {
            Workload::Fib(_) | Workload::Unbalanced(_) => Input::default(),
            Workload::TreeSum(levels) => {
                Input { tree: Some(Node::shared(levels)), ..Input::default() }
            }
            Workload::Sort(n) => {
                let data = (0..n as u64).map(splitmix).collect();
                Input { data, scratch: vec![0; n], ..Input::default() }
            }
        }
    }

    /// Panics unless the result is right.
    pub(crate) fn check(self, input: &Input, result: u64, expected: u64) {
        assert_eq!(result, expected, "wrong result of {self:?}");
        if let Workload::Sort(n) = self {
            assert!(input.data.is_sorted(), "not sorted");
            // What is sorted must be what there was.
            let sum = |numbers: &mut dyn Iterator<Item = u64>| numbers.fold(0, u64::wrapping_add);
            let before = sum(&mut (0..n as u64).map(splitmix));
            assert_eq!(sum(&mut input.data.iter().copied()), before, "other numbers");
        }
    }
}

const SEED: u64 = 42;
/// Below this, sorting and merging are sequential.
const SORT_LEAF: usize = 4096;

macro_rules! workloads {
    ($(#[$doc:meta])* $module:ident, $context:ty, $join:path, $fork:path) => {
        $(#[$doc])*
        #[allow(dead_code, reason = "no table runs everything on every runtime")]
        pub(crate) mod $module {
            use super::*;

            pub(crate) fn run(c: $context, workload: Workload, input: &mut Input) -> u64 {
                match workload {
                    Workload::Fib(n) => fib(c, n),
                    Workload::Unbalanced(levels) => unbalanced(c, SEED, 0, levels).1,
                    Workload::TreeSum(_) => input.tree.map_or(0, |tree| sum(c, tree)),
                    Workload::Sort(_) => {
                        sort(c, &mut input.data, &mut input.scratch, false);
                        0
                    }
                }
            }

            pub(crate) fn fib(c: $context, n: u32) -> u64 {
                if n < 2 {
                    return u64::from(n);
                }
                let (x, y) = $join(c, move |c| fib(c, n - 1), move |c| fib(c, n - 2));
                x + y
            }

            /// The boxes of a tree that was built recursively lie in memory in post-order, so
            /// that the right child is next to its parent, and with the right child first one
            /// goes straight through memory.
            fn sum(c: $context, node: &Node) -> u64 {
                let (right, left) = $fork(
                    c,
                    move |c| node.right.as_deref().map_or(0, |node| sum(c, node)),
                    move |c| node.left.as_deref().map_or(0, |node| sum(c, node)),
                );
                node.value + left + right
            }

            /// The number of nodes under and including this one, and the sum of their hashes.
            pub(super) fn unbalanced(
                c: $context,
                seed: u64,
                depth: u32,
                levels: u32,
            ) -> (u64, u64) {
                let count = children(seed, depth, levels);
                let (nodes, hash) = brood(c, seed, 0..count, depth + 1, levels);
                (nodes + 1, hash.wrapping_add(seed))
            }

            /// The children of a node with these numbers.
            fn brood(
                c: $context,
                seed: u64,
                range: std::ops::Range<u64>,
                depth: u32,
                levels: u32,
            ) -> (u64, u64) {
                let (start, end) = (range.start, range.end);
                match end - start {
                    0 => (0, 0),
                    1 => unbalanced(c, splitmix(seed ^ start), depth, levels),
                    n => {
                        let mid = start + n / 2;
                        let (x, y) = $join(
                            c,
                            move |c| brood(c, seed, start..mid, depth, levels),
                            move |c| brood(c, seed, mid..end, depth, levels),
                        );
                        (x.0 + y.0, x.1.wrapping_add(y.1))
                    }
                }
            }

            /// Sorts `data`, or into `other`.
            fn sort(c: $context, data: &mut [u64], other: &mut [u64], into_other: bool) {
                if data.len() <= SORT_LEAF {
                    data.sort_unstable();
                    if into_other {
                        other.copy_from_slice(data);
                    }
                    return;
                }
                let mid = data.len() / 2;
                let (d0, d1) = data.split_at_mut(mid);
                let (o0, o1) = other.split_at_mut(mid);
                $join(
                    c,
                    move |c| sort(c, d0, o0, !into_other),
                    move |c| sort(c, d1, o1, !into_other),
                );
                let (from, to) = if into_other { (data, other) } else { (other, data) };
                let (left, right) = from.split_at(mid);
                merge(c, left, right, to);
            }

            fn merge(c: $context, left: &[u64], right: &[u64], to: &mut [u64]) {
                if to.len() <= SORT_LEAF {
                    return merge_here(left, right, to);
                }
                let (long, short) =
                    if left.len() >= right.len() { (left, right) } else { (right, left) };
                let (l0, l1) = long.split_at(long.len() / 2);
                let (s0, s1) = short.split_at(short.partition_point(|x| *x < l1[0]));
                let (t0, t1) = to.split_at_mut(l0.len() + s0.len());
                $join(c, move |c| merge(c, l0, s0, t0), move |c| merge(c, l1, s1, t1));
            }

            /// Both halves spin for so long. Returns 1 and 2.
            pub(crate) fn pair(c: $context, time: Duration) -> (u32, u32) {
                let half = move |n| {
                    spin(time);
                    n
                };
                $join(c, move |_| half(1), move |_| half(2))
            }

            /// The leaves with these numbers, each of so many steps: the sum of what they compute.
            pub(crate) fn leaves(c: $context, range: std::ops::Range<u64>, steps: u32) -> u64 {
                let (start, end) = (range.start, range.end);
                if end - start <= 1 {
                    return range.map(|n| leaf_of(n, steps)).fold(0, u64::wrapping_add);
                }
                let mid = start + (end - start) / 2;
                let (x, y) = $join(
                    c,
                    move |c| leaves(c, start..mid, steps),
                    move |c| leaves(c, mid..end, steps),
                );
                x.wrapping_add(y)
            }

            /// Spins in `width` leaves that others may take, so that they are awake.
            pub(crate) fn spread(c: $context, width: u32, time: Duration) -> u32 {
                if width <= 1 {
                    spin(time);
                    return 1;
                }
                let half = width / 2;
                let (x, y) = $join(
                    c,
                    move |c| spread(c, width - half, time),
                    move |c| spread(c, half, time),
                );
                x + y
            }

            /// How long after the fork a task starts whose owner goes on into a long leaf.
            pub(crate) fn leaf(c: $context, time: Duration) -> Duration {
                let start = Instant::now();
                let ((), begun) = $fork(c, move |_| spin(time), |_| Instant::now());
                begun - start
            }

            /// The same with three tasks: the outermost is forked first.
            pub(crate) fn nest(c: $context, time: Duration) -> [Duration; 3] {
                let start = Instant::now();
                let inner = move |c: $context| $fork(c, move |_| spin(time), |_| Instant::now());
                let middle = move |c: $context| $fork(c, inner, |_| Instant::now());
                let ((((), third), second), first) = $fork(c, middle, |_| Instant::now());
                [first - start, second - start, third - start]
            }
        }
    };
}

/// So many steps of arithmetic, each of which needs the last.
pub(crate) fn leaf_of(number: u64, steps: u32) -> u64 {
    (0..steps).fold(number, |x, _| splitmix(x))
}

fn merge_here<'a>(mut left: &'a [u64], mut right: &'a [u64], to: &mut [u64]) {
    for slot in to {
        let from = match (left.first(), right.first()) {
            (Some(l), Some(r)) if r < l => &mut right,
            (Some(_), _) => &mut left,
            (None, _) => &mut right,
        };
        *slot = from[0];
        *from = &from[1..];
    }
}

workloads! {
    /// Plain calls.
    sequential, (), fork::sequential, fork::sequential
}
workloads! {
    /// `Worker::join`.
    worker, &raddle::Worker, fork::worker, fork::worker
}
workloads! {
    /// `raddle::join`, which finds its worker itself.
    ambient, (), fork::ambient, fork::ambient
}
workloads! {
    /// `chili::Scope::join`.
    chili, &mut ::chili::Scope<'_>, fork::chili_join, fork::chili
}
workloads! {
    /// `forte::Worker::join`.
    forte, &::forte::Worker, fork::forte, fork::forte
}
workloads! {
    /// `rayon::join`.
    rayon, (), fork::rayon, fork::rayon
}

/// One signature for all, but for the context. Only chili needs one for `join` and another for
/// `fork`.
mod fork {
    use ::chili::Scope;
    use raddle::Worker;

    #[inline(always)]
    pub(super) fn sequential<A, B, RA, RB>(c: (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(()) -> RA,
        B: FnOnce(()) -> RB,
    {
        (a(c), b(c))
    }

    #[inline(always)]
    pub(super) fn worker<A, B, RA, RB>(c: &Worker, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&Worker) -> RA + Send,
        B: FnOnce(&Worker) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        c.join(a, b)
    }

    #[inline(always)]
    pub(super) fn ambient<A, B, RA, RB>(c: (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(()) -> RA + Send,
        B: FnOnce(()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        raddle::join(move || a(c), move || b(c))
    }

    #[inline(always)]
    pub(super) fn chili_join<A, B, RA, RB>(c: &mut Scope<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut Scope<'_>) -> RA + Send,
        B: FnOnce(&mut Scope<'_>) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        c.join(a, b)
    }

    #[inline(always)]
    pub(super) fn chili<A, B, RA, RB>(c: &mut Scope<'_>, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&mut Scope<'_>) -> RA + Send,
        B: FnOnce(&mut Scope<'_>) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        let (b, a) = c.join(b, a);
        (a, b)
    }

    #[inline(always)]
    pub(super) fn forte<A, B, RA, RB>(c: &::forte::Worker, a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(&::forte::Worker) -> RA + Send,
        B: FnOnce(&::forte::Worker) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        c.join(a, b)
    }

    #[inline(always)]
    pub(super) fn rayon<A, B, RA, RB>(c: (), a: A, b: B) -> (RA, RB)
    where
        A: FnOnce(()) -> RA + Send,
        B: FnOnce(()) -> RB + Send,
        RA: Send,
        RB: Send,
    {
        ::rayon::join(move || a(c), move || b(c))
    }
}

#[cfg(test)]
mod tests;
