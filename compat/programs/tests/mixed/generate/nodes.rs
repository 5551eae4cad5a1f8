//! One node after the other.

use super::weights::What;
use super::{Ctx, Generator, Rules};
use crate::ir::{
    Broadcast, Detached, Fork, Frail, Futures, Grip, Loop, Node, ScopeKind, Spread, Spun,
};
use crate::world::LOCKS;

const FORKS: &[Fork] = &[Fork::Rayon, Fork::Context, Fork::Raddle, Fork::Worker, Fork::Scope];
const SCOPES: &[ScopeKind] = &[
    ScopeKind::Usual,
    ScopeKind::Fifo,
    ScopeKind::InPlace,
    ScopeKind::InPlaceFifo,
    ScopeKind::Raddle,
];
const LOOPS: &[Loop] = &[
    Loop::Reduce,
    Loop::Single,
    Loop::Collect,
    Loop::Zip,
    Loop::Chunks(0),
    Loop::ChunksMut(0),
    Loop::Filter,
    Loop::FlatMap,
    Loop::FlatMapIter,
    Loop::Fold,
    Loop::Bridge,
    Loop::SortCached,
    Loop::SortBy,
    Loop::SortUnstable,
    Loop::FindAny,
    Loop::FindFirst,
    Loop::TryForEach,
    Loop::TryReduce,
    Loop::Blocks,
    Loop::WalkTree,
    Loop::Partition,
    Loop::Chain,
    Loop::ParCollect,
    Loop::ParReduce,
    Loop::ParEach,
    Loop::ParChunks(0),
    Loop::ParSort,
    Loop::ParFindAny,
    Loop::ParScan,
];
/// Those that end only when all of their tasks have, and panic as they do.
const WHOLE: &[Futures] = &[
    Futures::Forward,
    Futures::Backward,
    Futures::WaitAll,
    Futures::Completed,
    Futures::Any,
    Futures::Ops,
    Futures::Long,
];
const FUTURES: &[Futures] = &[
    Futures::Forward,
    Futures::Backward,
    Futures::Collect,
    Futures::JoinAll,
    Futures::WaitAll,
    Futures::Completed,
    Futures::Any,
    Futures::Ops,
    Futures::Zip,
    Futures::Promised,
    Futures::FromOutside,
    Futures::Long,
    Futures::Shared,
    Futures::Window,
    Futures::TailLoop,
    Futures::Async,
    Futures::Timeout,
];
const GRIPS: &[Grip] = &[
    Grip::Std,
    Grip::StdBlocking,
    Grip::StdRead,
    Grip::Mutex,
    Grip::Read,
    Grip::Write,
    Grip::Header,
    Grip::Reentrant,
];

/// So many tasks may wait for each other's threads.
const CROWD: usize = 64;

impl Ctx {
    /// For one of so many.
    fn among(self, count: u32) -> Ctx {
        Ctx { crowd: self.crowd.saturating_mul(count as usize), ..self }
    }
}

impl Generator {
    pub(super) fn node(&mut self, ctx: Ctx, budget: usize) -> Node {
        if ctx.depth == 0 || budget <= 1 || ctx.leaves {
            return self.leaf(ctx);
        }
        loop {
            let ctx = Ctx { depth: ctx.depth - 1, ..ctx };
            let what = self.weights.pick(&mut self.rng);
            if let Some(node) = self.of(what, ctx, budget) {
                return node;
            }
            // What is not possible here may be all that there is.
            if self.rng.chance(3) {
                return self.leaf(ctx);
            }
        }
    }

    fn leaf(&mut self, ctx: Ctx) -> Node {
        if ctx.panics && self.rng.chance(15) {
            return Node::Panic(self.rng.sized(100) as u64);
        }
        Node::Leaf(self.rng.sized(400) as u32)
    }

    fn boxed(&mut self, ctx: Ctx, budget: usize) -> Box<Node> {
        Box::new(self.node(ctx, budget))
    }

    /// How many, and what is left for each.
    fn many(&mut self, budget: usize) -> (u32, usize) {
        let count = self.rng.sized(budget);
        (count as u32, budget / count)
    }

    fn any<T: Copy>(&mut self, of: &[T]) -> T {
        *self.rng.pick(of).expect("there are some")
    }

    fn of(&mut self, what: What, ctx: Ctx, budget: usize) -> Option<Node> {
        Some(match what {
            What::Leaf if budget < 20 || self.rng.chance(5) => self.leaf(ctx),
            What::Seq => {
                let count = self.rng.between(2, 5);
                Node::Seq((0..count).map(|_| self.node(ctx, budget / count)).collect())
            }
            What::Bind => Node::Bind(self.rng.next(), self.boxed(ctx, budget)),
            What::Lend => Node::Lend(self.rng.next(), self.boxed(ctx, budget)),
            What::Snapshot => Node::Snapshot(self.boxed(ctx, budget)),
            What::Panic if ctx.panics => Node::Panic(self.rng.sized(100) as u64),
            What::Catch => {
                Node::Catch(self.boxed(Ctx { panics: true, exact: false, ..ctx }, budget))
            }
            What::Pair => {
                let fork = self.any(FORKS);
                let first = self.rng.between(0, budget);
                let halves = [self.node(ctx, first), self.node(ctx, budget - first)];
                Node::Pair(fork, Box::new(halves))
            }
            What::Tree => {
                let depth = self.rng.between(0, budget.ilog2() as usize) as u32;
                Node::Tree(self.any(FORKS), depth)
            }
            What::Chain => {
                let most = if self.rng.chance(10) { 2000 } else { 200 };
                let count = self.rng.sized(budget.min(most)) as u32;
                Node::Chain(self.any(FORKS), self.rng.chance(50), count)
            }
            What::Loop => self.a_loop(ctx, budget),
            What::Scope => return self.scope(ctx, budget),
            What::Detached => return self.detached(ctx, budget),
            What::Handled if ctx.rules == Rules::Team && ctx.exact && ctx.stays => {
                Node::Handled(self.rng.sized(budget.min(50)) as u32)
            }
            What::Spun if !ctx.held => {
                let kind = self.any(&[Spun::Spawn, Spun::Fifo, Spun::Local, Spun::Raddle]);
                Node::Spun(kind, self.boxed(ctx, budget))
            }
            What::Broadcast if self.may_broadcast(ctx) => {
                let kind = self.any(&[Broadcast::Rayon, Broadcast::Raddle]);
                let inner = self.on_each_thread(ctx);
                Node::Broadcast(kind, self.boxed(inner, budget / ctx.threads))
            }
            What::Enter if budget > 20 => return self.enter(ctx, budget),
            What::Fresh if budget > 100 => self.fresh(ctx, budget),
            What::Futures => self.futures(ctx, budget),
            What::Frail if ctx.stays => {
                let kinds = [Frail::Kill, Frail::Interrupt, Frail::Within, Frail::CancelOnDrop];
                let (count, each) = self.many(budget.min(500));
                let inner = Ctx { panics: false, exact: false, ..ctx.among(count) };
                Node::Frail(self.any(&kinds), count, self.boxed(inner, each))
            }
            What::Hold => return self.hold(ctx, budget, true),
            What::HoldLeaf => return self.hold(ctx, budget, false),
            What::Cell => return self.cell(ctx),
            What::Trace => Node::Trace(self.rng.below(3) as u8),
            What::Nap if budget > 50 => Node::Nap(self.rng.below(100) as u32),
            _ => return None,
        })
    }

    fn may_broadcast(&self, ctx: Ctx) -> bool {
        let teams = ctx.rules == Rules::Team && !self.shape.substitute;
        !ctx.held && !ctx.again && ctx.crowd <= CROWD && (self.ranked || teams)
    }

    /// It may lie on top of what holds a lock, and runs several times.
    fn on_each_thread(&self, ctx: Ctx) -> Ctx {
        let held = self.holding && self.substitutes(ctx.rules);
        let leaves = ctx.leaves || ctx.crowd > CROWD;
        Ctx { locks: usize::MAX, held, exact: false, leaves, ..ctx }
    }

    fn a_loop(&mut self, ctx: Ctx, budget: usize) -> Node {
        let mut kind = self.any(LOOPS);
        let (mut count, each) = self.many(budget);
        let size = 1 + self.rng.below(count as usize);
        match &mut kind {
            Loop::Chunks(of) | Loop::ChunksMut(of) | Loop::ParChunks(of) => *of = size,
            Loop::SortBy => count = count.min(3000),
            _ => {}
        }
        let once = !kind.ends_early() && kind != Loop::SortCached;
        let inner =
            Ctx { exact: ctx.exact && once, panics: ctx.panics && !kind.ends_early(), ..ctx };
        let inner = self.node(inner.among(count), each);
        if self.holding && matches!(inner, Node::Leaf(_)) && self.rng.chance(50) {
            count *= 20;
        }
        Node::Loop(kind, count, Box::new(inner))
    }

    fn scope(&mut self, ctx: Ctx, budget: usize) -> Option<Node> {
        let kind = self.any(SCOPES);
        let spreads = [
            Spread::Flat,
            Spread::Flat,
            Spread::Chained,
            Spread::Tree,
            Spread::Nested,
            Spread::Everywhere,
        ];
        let spread = self.any(&spreads);
        let (mut count, mut each) = self.many(budget);
        match spread {
            Spread::Everywhere => {
                if !self.may_broadcast(ctx) || kind == ScopeKind::Raddle {
                    return None;
                }
                each /= ctx.threads;
            }
            Spread::Nested => count = count.min(if self.rng.chance(10) { 1000 } else { 60 }),
            _ => {}
        }
        let mut inner = ctx.among(count);
        if spread == Spread::Everywhere {
            inner = self.on_each_thread(inner);
        }
        Some(Node::Scope(kind, spread, count, self.boxed(inner, each)))
    }

    fn detached(&mut self, ctx: Ctx, budget: usize) -> Option<Node> {
        if !ctx.exact || !ctx.stays || ctx.panics {
            return None;
        }
        let kinds = [
            Detached::Spawn,
            Detached::Spawn,
            Detached::Fifo,
            Detached::Chained,
            Detached::Broadcast,
            Detached::Future,
        ];
        let kind = self.any(&kinds);
        let (count, mut each) = self.many(budget);
        let mut inner = ctx.among(count);
        if kind == Detached::Broadcast {
            if !self.may_broadcast(ctx) {
                return None;
            }
            each /= ctx.threads;
            inner = self.on_each_thread(inner);
        }
        Some(Node::Detached(kind, count, self.boxed(inner, each)))
    }

    fn futures(&mut self, ctx: Ctx, budget: usize) -> Node {
        let mut kind = if ctx.panics { self.any(WHOLE) } else { self.any(FUTURES) };
        // With a time limit a thread runs nothing while it waits, and there may be no other.
        if kind == Futures::Timeout && !self.substitutes(ctx.rules) {
            kind = Futures::Forward;
        }
        // What the waiting thread cannot run itself.
        let by_others = matches!(
            kind,
            Futures::Promised
                | Futures::Async
                | Futures::Timeout
                | Futures::Any
                | Futures::Completed
                | Futures::Window
        );
        if by_others && ctx.held && self.foreign {
            kind = Futures::Backward;
        }
        let (count, each) = self.many(budget);
        let ctx = Ctx { again: ctx.again || kind == Futures::Timeout, ..ctx.among(count) };
        match kind {
            Futures::FromOutside => Node::Futures(kind, count, Box::new(Node::Leaf(0))),
            Futures::Long | Futures::Shared => Node::Futures(kind, count, self.boxed(ctx, budget)),
            Futures::Any => {
                let count = count.min(100);
                Node::Futures(kind, count, self.boxed(ctx, each))
            }
            _ => Node::Futures(kind, count, self.boxed(ctx, each)),
        }
    }

    fn hold(&mut self, ctx: Ctx, budget: usize, waits: bool) -> Option<Node> {
        let waits = waits && self.holding && self.substitutes(ctx.rules);
        if ctx.locks >= LOCKS {
            return None;
        }
        let lock = self.rng.between(ctx.locks, LOCKS - 1);
        let grip = match self.any(GRIPS) {
            Grip::Std | Grip::StdRead if waits && !self.foreign => Grip::StdBlocking,
            // The same lock.
            Grip::Std if self.holding && !self.foreign => Grip::StdBlocking,
            grip => grip,
        };
        let inner = Ctx { locks: lock + 1, held: true, leaves: !waits, ..ctx };
        Some(Node::Hold(lock, grip, self.boxed(inner, budget)))
    }

    fn cell(&mut self, ctx: Ctx) -> Option<Node> {
        let may: Vec<usize> = (0..self.cell_pools.len())
            .filter(|cell| match self.cell_pools[*cell] {
                // Its own code, while nothing is held that comes after.
                Some(pool) => ctx.pool == Some(pool) && ctx.locks <= LOCKS && !ctx.leaves,
                None => true,
            })
            .collect();
        self.rng.pick(&may).map(|cell| Node::Cell(*cell))
    }
}
