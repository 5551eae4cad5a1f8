//! When to wake whom, how many may search, and for how long: the constants and the rules, in one place.
//!
//! The pool asks here, and so does the simulation of larger machines in `bench`: both follow the same
//! policy. `raddle-trace` knows no pool, so `scale/simulate.rs` has the defaults of who wakes how many once more: a test in `bench`
//! holds them against these, where work is forked. What the protocol needs to lose no work is not here but in `places`.

use std::time::Duration;

/// Wake cost before the first measurement.
pub const TYPICAL_WAKE: Duration = Duration::from_micros(50);
/// The longest wake that counts in the average.
pub const LONGEST_WAKE: Duration = Duration::from_micros(200);
/// Bounds for how long a search may spin.
pub const SPIN_RANGE: (Duration, Duration) = (Duration::from_micros(5), Duration::from_micros(100));
/// So many searches beyond a wake's cost are lost in a row before they are made no more ..
pub const BETS: u32 = 4;
/// .. but for one in so many: it may pay again.
pub const BET_AGAIN: u32 = 8;
/// How long a searcher naps between two looks. The system adds up to its timer slack, 50 us: so when a region begins,
/// the nap lasts about as long as it would take to wake somebody.
pub const NAP: Duration = Duration::from_micros(50);
/// How long a napper looks on before it takes part in what it sees. A region of which less is left ends sooner without.
pub const GRACE: Duration = Duration::from_micros(15);
/// After so many times in vain a worker naps no more, until a guest comes so soon after it has gone to sleep that it
/// would have met one that naps.
pub const TRIES: u32 = 2;
/// A fork that is run in less time than this had better not been stolen: it takes its owner about as long to notice.
pub const SMALL_FORK: Duration = Duration::from_nanos(600);
/// So many in a row a thief puts up with, as regions have ends.
pub const TOLERATED: u32 = if cfg!(raddle_model) { 0 } else { 4 };
/// For how long it rests then: at first, and at most.
pub const RESTS: (Duration, Duration) = (Duration::from_micros(2), Duration::from_micros(16));
/// After so many, a millisecond, it naps instead.
pub const MANY_RESTS: u32 = if cfg!(raddle_model) { 1 } else { 64 };
/// A thread that looks for all others so soon after the last time, for so many times, wakes one of them instead.
pub const LOOKS: (Duration, u32) =
    (Duration::from_micros(200), if cfg!(raddle_model) { 2 } else { 8 });
/// If so many forks and tasks end within a nap, it is of use.
pub const MANY_ENDED: usize = 4;
/// How long a thief polls an owner that it has asked to share.
pub const POLL: Duration = Duration::from_nanos(1500);
/// How long a caller from outside looks on before it sleeps: regions of which less is left need not wake it. In a pool that
/// has rested a small region takes 30 us, as its first fork has another thread woken.
pub const WATCH: Duration = Duration::from_micros(50);
/// Pools of no more threads than this wake one at a time, whatever the fan-out.
pub const SMALL: usize = 4;
/// In pools of no more threads than this a thief's forks wake nobody: they gain nothing by it.
pub const MIDDLING: usize = 8;

/// The most stack that is to be left before a wait takes on work; a quarter of what a thread has will do.
pub const MOST_ROOM: usize = 256 << 10;

/// With less stack than this nobody takes on what others could run.
pub const LAST_ROOM: usize = 64 << 10;

/// Who wakes the next sleepers when a region begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Who {
    /// A thief, once it has found work.
    Finder,
    /// A worker that was woken, before it looks for work; and thieves.
    Woken,
}

/// What may differ from pool to pool. The defaults were chosen by measurement and simulation: see
/// `bench`, tables `wake` and `simulate`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Policy {
    /// How many sleepers one worker wakes at a time.
    pub fan_out: usize,
    /// A search spins for this part of a wake's cost, in percent.
    pub spin: u32,
    /// Who wakes the next ones.
    pub who: Who,
    /// A thread that has been woken for a fork wakes one more with each of so many that it forks first, in pools of more than `MIDDLING`.
    pub spread: usize,
    /// How many processors the pool counts on; none: those that there are.
    pub processors: Option<usize>,
    /// One searcher naps for so long after the last region or work, before it sleeps for good.
    pub drowsy: Duration,
}

impl Default for Policy {
    fn default() -> Policy {
        // Few naps under models.
        let drowsy = Duration::from_micros(if cfg!(raddle_shuttle) { 60 } else { 5_000 });
        Policy { fan_out: 2, spin: 100, who: Who::Finder, spread: 3, processors: None, drowsy }
    }
}

/// So many percent of what a wake costs.
fn part(wake_cost: Duration, percent: u32) -> Duration {
    wake_cost.clamp(SPIN_RANGE.0, SPIN_RANGE.1) * percent / 100
}

impl Policy {
    /// How many to wake in a pool of so many threads, with so much work to be seen.
    pub fn wakes(&self, threads: usize, visible: usize) -> usize {
        visible.min(if threads > SMALL { self.fan_out.max(1) } else { 1 })
    }

    /// Of how many forks a thread that was woken for one has one more woken with each: the region is no small one, as it has lasted for
    /// a wake. This does not ask how many search: they are about to find what is forked here.
    pub fn spreads(&self, threads: usize) -> usize {
        if threads > MIDDLING { self.spread } else { 0 }
    }

    /// The most that may search at a time: half of those who are busy, as many as are woken at a time, and
    /// one at least.
    pub fn search_cap(&self, threads: usize, idle: usize) -> usize {
        let least = if threads > SMALL { self.fan_out.max(1) } else { 1 };
        (threads.saturating_sub(idle) / 2).max(least)
    }

    /// As `search_cap`, for those who have just worked, where there are many threads: each of them may look on for as long as it would
    /// take to wake it. Regions that come one soon after the other find them awake, and need no tree of wakes.
    pub fn linger_cap(&self, threads: usize, idle: usize) -> usize {
        if threads > SMALL { threads } else { self.search_cap(threads, idle) }
    }

    /// How long a search may spin before the worker sleeps, by the cost of a wake; if the last one was
    /// fruitless, a quarter of that. One that lasts for a wake takes twice the best time at most; a longer one, of a worker that has lost so
    /// many of them, is a bet that the next region comes soon, and is made while it pays.
    pub fn patience(&self, wake_cost: Duration, fruitless: bool, lost: u32) -> Duration {
        let bets = lost < BETS || lost % BET_AGAIN == 0;
        let time = if bets { part(wake_cost, self.spin) } else { self.sure(wake_cost) };
        if fruitless { time / 4 } else { time }
    }

    /// How much of a search is no bet.
    pub fn sure(&self, wake_cost: Duration) -> Duration {
        part(wake_cost, self.spin.min(100))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_pools_wake_one_by_one_and_large_ones_in_a_tree() {
        let policy = Policy::default();
        assert_eq!((policy.wakes(4, 2), policy.wakes(5, 2), policy.wakes(5, 1)), (1, 2, 1));
        assert_eq!(policy.wakes(64, 0), 0);
        assert_eq!([8, 9, 64].map(|threads| policy.spreads(threads)), [0, 3, 3]);
        let caps = [(2, 1), (4, 3), (8, 7), (64, 63), (64, 32), (64, 64)];
        let caps = caps.map(|(threads, idle)| policy.search_cap(threads, idle));
        assert_eq!(caps, [1, 1, 2, 2, 16, 2]);
        assert_eq!((policy.linger_cap(4, 3), policy.linger_cap(64, 63)), (1, 64));
    }

    #[test]
    fn a_search_spins_for_about_a_wake() {
        let policy = Policy::default();
        let us = Duration::from_micros;
        assert_eq!(policy.patience(us(40), false, 0), us(40));
        assert_eq!(policy.patience(us(40), true, 0), us(10));
        assert_eq!(policy.patience(us(1), false, 0), us(5));
        assert_eq!(policy.patience(us(900), false, 0), us(100));
        assert_eq!(Policy { spin: 0, ..policy }.patience(us(40), false, 0), us(0));
    }

    #[test]
    fn a_longer_search_is_made_while_it_pays() {
        let us = Duration::from_micros;
        let policy = Policy { spin: 300, ..Policy::default() };
        let lost = [0, 1, 3, 4, 7, 8, 9, 16, u32::MAX];
        let times = lost.map(|lost| policy.patience(us(40), false, lost));
        assert_eq!(times, [120, 120, 120, 40, 40, 120, 40, 120, 40].map(us));
        assert_eq!(policy.sure(us(40)), us(40));
    }
}
