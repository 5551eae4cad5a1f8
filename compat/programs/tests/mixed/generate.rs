//! How programs are made up, and why they cannot deadlock.
//!
//! Whatever waits, waits for what it has started itself: of two that wait, one has begun before the other. So threads that take on
//! anything while they wait (`Waits::Host`) can only lie on each other in an order in which they end. What is beyond that
//! is left out:
//!
//! - **G1** A thread that waits for a pool of raddle's own, or for a thread of the system, does nothing for its own pool by
//!   rayon's rules. So either a program is *ranked*, and pools are entered upwards only; or all of its pools are by
//!   rayon's rules, and what such a thread waits for enters none of them; or all threads that wait give their places away
//!   (`RADDLE_WAITS=substitute`).
//! - **G2** A broadcast needs each thread of its pool. In programs that are not ranked only pools by rayon's rules have them, and
//!   none where a lock is held, nor where threads give their places away.
//!   What is called on each thread lies on top of a thread's waits: where it waits itself, one on the other. So few do.
//! - **G3** A lock is held while something waits only where threads that wait take on nothing else; and of a pool's locks by that pool's
//!   code alone, in the order of their numbers. Nothing there yields, or enters a pool downwards. What is called on each thread takes
//!   no locks, as it may lie on top of what holds one.
//! - **G4** All places of a pool may be with threads that block for a lock of the standard library's. So whoever holds such a one waits
//!   only for what it can run itself.
//! - **G5** At the cap of spare threads anything is taken on after all. So programs with such locks are small.

mod nodes;
mod weights;

use crate::ir::{CellKind, Fresh, Node, PoolKind, PoolSpec, Program, Way};
use crate::rng::Rng;

/// What a program is made for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Of a pool at most, and of the global one.
    pub(crate) threads: usize,
    /// What threads by rayon's rules do while they wait.
    pub(crate) substitute: bool,
    /// The global pool is raddle's own.
    pub(crate) raddle_first: bool,
    pub(crate) size: Option<usize>,
}

/// Under which rules a pool is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Rules {
    /// rayon's, by threads that are its own.
    Team,
    Native,
    NativeHost,
}

/// Where a node is, and what it may be.
#[derive(Clone, Copy, Debug)]
struct Ctx {
    rules: Rules,
    threads: usize,
    /// One of the program's pools.
    pool: Option<usize>,
    /// Pools above this may be entered, if the program is ranked.
    rank: Option<usize>,
    /// None may be entered.
    closed: bool,
    /// Locks from this one on are free.
    locks: usize,
    /// Something waits while a lock is held.
    held: bool,
    /// Nothing may wait.
    leaves: bool,
    /// Runs exactly once.
    exact: bool,
    /// May panic.
    panics: bool,
    /// Its pool has threads that do what nobody waits for.
    stays: bool,
    /// Its pool has been entered before, beneath.
    again: bool,
    /// Pools on the way here, as bits.
    path: u64,
    /// About so many of its kind there may be at a time.
    crowd: usize,
    depth: usize,
}

struct Generator {
    rng: Rng,
    shape: Shape,
    ranked: bool,
    /// Whether locks are held while something waits.
    holding: bool,
    /// Whether such a lock may be one for which threads block with their places.
    foreign: bool,
    pools: Vec<PoolSpec>,
    ranks: Vec<usize>,
    cells: Vec<(CellKind, Node)>,
    /// The pool whose code alone asks for the cell; of leaves, anybody's.
    cell_pools: Vec<Option<usize>>,
    weights: weights::Weights,
}

pub(crate) fn generate(seed: u64, shape: Shape) -> Program {
    let mut rng = Rng::new(seed);
    let all_teams = !shape.raddle_first;
    let ranked = if shape.substitute || all_teams { rng.chance(60) } else { true };
    let pools = pools(&mut rng, shape, ranked);
    let mut ranks: Vec<usize> = (0..pools.len()).collect();
    for i in (1..ranks.len()).rev() {
        ranks.swap(i, rng.below(i + 1));
    }
    let holding = rng.chance(40);
    let foreign = rng.chance(50);
    let weights = weights::Weights::new(&mut rng);
    let mut generator = Generator {
        rng,
        shape,
        ranked,
        holding,
        foreign,
        pools,
        ranks,
        cells: Vec::new(),
        cell_pools: Vec::new(),
        weights,
    };
    generator.cells();
    let roots = generator.rng.between(1, 3);
    let size = match shape.size {
        Some(size) => size,
        None if holding => generator.rng.between(20, 250),
        None => generator.rng.sized(150_000),
    };
    let roots = (0..roots).map(|_| generator.root(size / roots + 1)).collect();
    Program { pools: generator.pools, roots, cells: generator.cells }
}

fn pools(rng: &mut Rng, shape: Shape, ranked: bool) -> Vec<PoolSpec> {
    let mut pools = vec![PoolSpec { kind: PoolKind::Global, threads: shape.threads }];
    for _ in 0..rng.below(4) {
        let kind = match rng.below(5) {
            0 if ranked => PoolKind::NativeHost,
            1 | 2 if ranked || shape.substitute => PoolKind::Native,
            _ => PoolKind::Team,
        };
        pools.push(PoolSpec { kind, threads: rng.between(1, shape.threads) });
    }
    pools
}

impl Generator {
    fn rules_of(&self, pool: usize) -> Rules {
        match self.pools[pool].kind {
            PoolKind::Global if self.shape.raddle_first => Rules::Native,
            PoolKind::Global | PoolKind::Team => Rules::Team,
            PoolKind::Native => Rules::Native,
            PoolKind::NativeHost => Rules::NativeHost,
        }
    }

    /// Whether a thread that waits there takes on nothing else.
    fn substitutes(&self, rules: Rules) -> bool {
        match rules {
            Rules::Team => self.shape.substitute,
            Rules::Native => true,
            Rules::NativeHost => false,
        }
    }

    fn cells(&mut self) {
        for _ in 0..self.rng.below(4) {
            let pool = self.rng.below(self.pools.len());
            let kind = if self.rng.chance(50) { CellKind::Std } else { CellKind::Raddle };
            let ctx = self.within_pool(pool);
            let is_safe = self.foreign || kind == CellKind::Raddle;
            let waits = self.holding && self.substitutes(ctx.rules) && is_safe;
            let depth = self.rng.between(1, 3);
            let inner = Ctx { held: true, locks: usize::MAX, leaves: !waits, depth, ..ctx };
            let node = self.node(Ctx { exact: false, ..inner }, 30);
            self.cells.push((kind, node));
            self.cell_pools.push(waits.then_some(pool));
        }
    }

    fn root(&mut self, size: usize) -> Node {
        let pool = self.rng.below(self.pools.len());
        let ctx = self.within_pool(pool);
        let way = self.way();
        let mut inner = self.node(ctx, size);
        if self.rng.chance(30) {
            inner = Node::Seq(vec![Node::Trace(self.rng.below(3) as u8), inner]);
        }
        Node::Enter(pool, way, Box::new(inner))
    }

    fn way(&mut self) -> Way {
        *self
            .rng
            .pick(&[Way::Call, Way::Call, Way::Join, Way::Scope, Way::InPlace, Way::Spawn])
            .expect("some")
    }

    /// At a pool that a thread from outside has entered.
    fn within_pool(&mut self, pool: usize) -> Ctx {
        Ctx {
            rules: self.rules_of(pool),
            threads: self.pools[pool].threads,
            pool: Some(pool),
            rank: Some(self.ranks[pool]),
            closed: false,
            locks: 0,
            held: false,
            leaves: false,
            exact: true,
            panics: false,
            stays: true,
            again: false,
            path: 1 << pool,
            crowd: 1,
            depth: self.rng.between(2, 9),
        }
    }

    /// Those that may be entered from here.
    fn enterable(&self, ctx: Ctx) -> Vec<usize> {
        // The global one is entered from outside only: there is no handle of it by rayon's rules.
        let all = 1..self.pools.len();
        let may = |pool: &usize| {
            if self.ranked {
                ctx.rank.is_some_and(|rank| self.ranks[*pool] > rank)
            } else {
                !ctx.closed && !ctx.held
            }
        };
        all.filter(may).collect()
    }

    fn enter(&mut self, ctx: Ctx, budget: usize) -> Option<Node> {
        let pools = self.enterable(ctx);
        let pool = *self.rng.pick(&pools)?;
        let there = Ctx {
            rules: self.rules_of(pool),
            threads: self.pools[pool].threads,
            pool: Some(pool),
            rank: Some(self.ranks[pool]),
            locks: 0,
            held: false,
            stays: true,
            again: ctx.again || ctx.path & (1 << pool) != 0,
            path: ctx.path | 1 << pool,
            ..ctx
        };
        let way = self.way();
        let locks = if ctx.path & (1 << pool) != 0 { usize::MAX } else { 0 };
        let inner = self.node(Ctx { locks, ..there }, budget.saturating_sub(20));
        Some(Node::Enter(pool, way, Box::new(inner)))
    }

    fn fresh(&mut self, ctx: Ctx, budget: usize) -> Node {
        let kinds = [
            Fresh::Team,
            Fresh::Team,
            Fresh::Scoped,
            Fresh::CurrentThread,
            Fresh::Native,
            Fresh::NativeHost,
            Fresh::Dropped,
        ];
        let mut kind = *self.rng.pick(&kinds).expect("some");
        if kind == Fresh::Dropped && !ctx.exact {
            kind = Fresh::Native;
        }
        let threads = self.rng.between(1, self.shape.threads);
        let rules = match kind {
            Fresh::Team | Fresh::Scoped | Fresh::CurrentThread => Rules::Team,
            // It may be either.
            Fresh::Native | Fresh::Dropped => Rules::Native,
            Fresh::NativeHost => Rules::NativeHost,
        };
        let hosts = matches!(kind, Fresh::Team) && ctx.rules == Rules::Team;
        let lasts = matches!(kind, Fresh::Scoped | Fresh::CurrentThread);
        let gives = self.shape.substitute && matches!(kind, Fresh::Team | Fresh::Native);
        let free = hosts || gives;
        let there = Ctx {
            rules,
            threads,
            pool: None,
            closed: ctx.closed || !free,
            locks: 0,
            held: ctx.held || kind == Fresh::Dropped,
            exact: ctx.exact && !lasts,
            stays: !lasts,
            again: false,
            panics: ctx.panics && kind != Fresh::Dropped,
            ..ctx
        };
        // As G3 has it: what is entered from here is not what is held.
        let budget = match kind {
            Fresh::Dropped => budget / 40,
            _ => budget.saturating_sub(100),
        };
        let there = Ctx { leaves: kind == Fresh::Dropped, ..there };
        Node::Fresh(kind, threads, Box::new(self.node(there, budget)))
    }
}
