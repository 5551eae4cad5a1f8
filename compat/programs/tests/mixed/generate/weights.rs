//! How often a program has which nodes: each program has its own.

use crate::rng::Rng;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Leaf,
    Seq,
    Bind,
    Lend,
    Snapshot,
    Panic,
    Catch,
    Pair,
    Tree,
    Chain,
    Loop,
    Scope,
    Detached,
    Handled,
    Spun,
    Broadcast,
    Enter,
    Fresh,
    Futures,
    Frail,
    Hold,
    HoldLeaf,
    Cell,
    Trace,
    Nap,
}

const USUAL: &[(What, usize)] = &[
    (What::Leaf, 2),
    (What::Seq, 12),
    (What::Bind, 5),
    (What::Lend, 3),
    (What::Snapshot, 2),
    (What::Panic, 4),
    (What::Catch, 6),
    (What::Pair, 15),
    (What::Tree, 5),
    (What::Chain, 3),
    (What::Loop, 22),
    (What::Scope, 14),
    (What::Detached, 6),
    (What::Handled, 2),
    (What::Spun, 4),
    (What::Broadcast, 4),
    (What::Enter, 12),
    (What::Fresh, 5),
    (What::Futures, 14),
    (What::Frail, 4),
    (What::Hold, 12),
    (What::HoldLeaf, 4),
    (What::Cell, 4),
    (What::Trace, 2),
    (What::Nap, 2),
];

pub(super) struct Weights(Vec<(What, usize)>);

impl Weights {
    pub(super) fn new(rng: &mut Rng) -> Weights {
        let own = USUAL.iter().map(|(what, weight)| {
            let factor = [0, 1, 4, 4, 4, 12][rng.below(6)];
            (*what, weight * factor)
        });
        Weights(own.collect())
    }

    pub(super) fn pick(&self, rng: &mut Rng) -> What {
        let index = rng.weighted(self.0.iter().map(|(_, weight)| *weight));
        self.0[index].0
    }
}
