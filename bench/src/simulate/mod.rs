//! A region on a machine that is not here: a discrete-event simulation of the pool's policy.
//!
//! It follows the same rules as the pool (`raddle::policy`) with costs taken from measurements, and what
//! comes out is a trace, analysed like any other.
//!
//! | in the pool                                | here                                           |
//! |--------------------------------------------|------------------------------------------------|
//! | a fork, a push or pop that nobody asked for | [`Costs::fork`]                                |
//! | the older half is published when asked, or one for each that searches | the same            |
//! | whoever had nothing to publish stays asked | the same                                       |
//! | a thief's first forks wake one more each   | the same                                       |
//! | a thief's round over all workers            | [`Costs::look`] for each it looks at              |
//! | taking a public fork                       | [`Costs::steal`]                                |
//! | asking for a private one                   | until the owner's next push or pop, at most `policy::POLL` and a fence |
//! | waking a sleeper                           | [`Costs::wake`] to the waker; the sleeper is there [`Costs::latency`] later |
//! | the last searcher's look round             | [`Costs::fence`]                                |
//! | a nap                                      | [`Costs::nap`]; when the region begins, some part of one is over |
//!
//! Not modelled: caches, memory, more workers than processors, several regions at once.

mod machine;

use std::time::Duration;

use raddle::policy::Policy;
use raddle::trace::Phases;

pub(crate) use machine::Machine;

/// What things cost, in nanoseconds.
#[derive(Clone, Debug)]
pub(crate) struct Costs {
    /// From the submission until the root runs, where the caller takes part.
    pub(crate) enter: u64,
    /// From the root's end until the caller goes on.
    pub(crate) leave: u64,
    pub(crate) fork: u64,
    /// A look at one worker, while searching.
    pub(crate) look: u64,
    pub(crate) steal: u64,
    /// The heavy fence.
    pub(crate) fence: u64,
    /// To the waker.
    pub(crate) wake: u64,
    /// How long a nap lasts; 0: it has been quiet for so long that nobody naps.
    pub(crate) nap: u64,
    /// From the wake's beginning until the sleeper looks for work: one is drawn for each wake.
    pub(crate) latency: Vec<u64>,
}

impl Costs {
    pub(crate) fn median_latency(&self) -> u64 {
        let mut sorted = self.latency.clone();
        sorted.sort_unstable();
        sorted.get(sorted.len() / 2).copied().unwrap_or(0)
    }
}

/// Whose rules are followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rules {
    /// Those of raddle's pool.
    Raddle,
    /// Those of Java's as the study had it: forks are public at once, a push that leaves no more of them than the fan-out says wakes
    /// somebody, and nobody waits for what is with others: whoever completes the last part goes on with what is above.
    ForkJoinPool,
}

/// What is to be simulated.
#[derive(Clone, Debug)]
pub(crate) struct Setup {
    pub(crate) workers: usize,
    pub(crate) policy: Policy,
    pub(crate) costs: Costs,
    /// Leaves of a balanced binary tree, and how long each is on average: from half of that to one and a half.
    pub(crate) leaves: usize,
    pub(crate) leaf: u64,
    /// The caller works too; otherwise it hands over and waits, as in a fork/join pool of Java.
    pub(crate) caller_works: bool,
    pub(crate) rules: Rules,
    /// With so many at work the machine is said to be full.
    pub(crate) full: usize,
    /// Nobody ever sleeps.
    pub(crate) busy_loop: bool,
}

/// The phases of so many regions, each with other random numbers.
pub(crate) fn regions(setup: &Setup, count: u64) -> Vec<Phases> {
    (1..=count).map(|seed| Machine::new(setup, seed).run().0.phases().remove(0)).collect()
}

/// How many heavy fences there are in a region.
pub(crate) fn fences(setup: &Setup, count: u64) -> Vec<f64> {
    (1..=count).map(|seed| Machine::new(setup, seed).run().1 as f64).collect()
}

/// The median of one of the phases, or of the total: microseconds.
pub(crate) fn median(regions: &[Phases], part: impl Fn(&Phases) -> Duration) -> f64 {
    let times: Vec<f64> = regions.iter().map(|r| part(r).as_nanos() as f64 / 1e3).collect();
    crate::harness::median(&times)
}

#[cfg(test)]
mod tests;
