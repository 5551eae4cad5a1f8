//! The loop: sequential while nobody asks, cut in two when somebody does and what is left is worth it. The last few items are forked
//! unasked.

use std::panic::Location;

use crate::pool::recorder::Place;
use crate::pool::{Pool, Worker, clock};

/// What takes less time, in ticks of the clock, is not worth a fork that another thread takes: some microseconds.
const WORTH: u64 = 10_000;
/// An item that takes less time, in ticks, is not worth that another thread comes for it: some 600 ns, where ticks are a processor's.
const SHORT: u64 = 1_500;
/// So long, in ticks, after a fork its thief begins: some 400 ns, where ticks are a processor's. At the fastest it sees the fork, takes
/// it, and gets what belongs to it from the other's cache.
const LEAD: u64 = 1_000;
/// In less time nothing is learnt of how long items take: one that has to come from memory takes as long.
const GLANCE: u64 = 250;
/// So few items are forked each by itself, as whoever takes part may ask when the last one has begun ..
const HANDFUL: usize = 8;
/// .. and so few after short ones: those that come last may be long all the same.
const PAIR: usize = 2;
/// So few items may be long ones, and are shared before anything is known of them ..
const FEW: usize = 64;
/// .. and so few for each thread, when none has been done: were they long, the first would hold up all the others.
const FEW_EACH: usize = 16;
/// What takes less time, in ticks, is hardly worth a look at the clock.
const HARDLY: u64 = WORTH / 4;

/// A loop in progress: what is left of it, and what it has come to so far.
pub(crate) trait Work: Sized + Send {
    /// What it comes to.
    type Output: Send;

    /// Fewer items are not worth a fork.
    const LEAST: usize = 2;
    /// So many are done before the first look.
    const FIRST: usize = 1;
    /// And so many between two looks, at the most.
    const MOST: usize = 512;

    /// How many items are left.
    fn left(&self) -> usize;
    /// Does the next `count` items.
    fn advance(&mut self, count: usize);
    /// Cuts what is left in two: the next `at` items, and the others.
    fn split(self, at: usize) -> (Self, Self);
    /// When nothing is left.
    fn finish(self) -> Self::Output;
    /// What both parts come to.
    fn combine(front: Self::Output, back: Self::Output) -> Self::Output;
}

/// Calls `f` with the worker that this thread is, or as a guest of the global pool, from `place`.
pub(crate) fn enter<R: Send>(place: Place, f: impl FnOnce(&Worker) -> R + Send) -> R {
    let mut f = Some(f);
    let mut call = |worker: &Worker| f.take().map(|f| f(worker));
    match Worker::with(&mut call).flatten() {
        Some(result) => result,
        None => Pool::global().run_at(place, call).expect("called once"),
    }
}

/// Runs a loop on the pool that this thread is in, or on the global one. In a trace it is its caller's, as are the functions of this
/// module that call it.
#[track_caller]
pub(crate) fn run<W: Work>(work: W) -> W::Output {
    run_at(Location::caller(), work)
}

/// As `run`, called from `place`.
pub(crate) fn run_at<W: Work>(place: Place, work: W) -> W::Output {
    if work.left() < W::LEAST {
        return alone(work);
    }
    enter(place, |worker| drive(worker, place, work, Before::Nothing))
}

/// Runs a loop on this thread, where there is nothing to share.
fn alone<W: Work>(mut work: W) -> W::Output {
    work.advance(work.left());
    work.finish()
}

/// What is known of a loop's items that have been done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Before {
    /// No item has been done.
    Nothing,
    /// Some have been; how long they took is not known.
    Something,
    /// The latest took so many ticks each, in the mean.
    Took(u64),
}

impl Before {
    /// Each of those that are left is taken to be worth a fork by itself. Of shorter ones what one took may have been an exception.
    fn is_long(self) -> bool {
        matches!(self, Before::Took(ticks) if ticks >= WORTH)
    }

    /// Each of those that are left is taken not to be worth a steal.
    fn is_short(self) -> bool {
        matches!(self, Before::Took(ticks) if ticks < SHORT)
    }
}

/// Runs a loop, or a part of one, and has others take part who ask.
///
/// Where every fork is recorded, what is known to be worth one is forked whoever asks: a recording is to tell what more threads
/// would find, and not what these few have asked for.
pub(crate) fn drive<W: Work>(
    worker: &Worker,
    place: Place,
    mut work: W,
    before: Before,
) -> W::Output {
    let recorded = worker.memory().lane.has_tasks();
    let mut step = W::FIRST;
    let few = match before {
        Before::Nothing => FEW.max(FEW_EACH * worker.num_threads()),
        Before::Something | Before::Took(_) => FEW,
    };
    let mut pace = Pace::new(work.left(), few, recorded, before);
    loop {
        let left = work.left();
        let is_asked =
            |pace: &Pace| pace.is_eager(left) || worker.should_fork() || (recorded && pace.known);
        if left >= W::LEAST && pace.is_worth(left, clock::now) && is_asked(&pace) {
            let before = if left == pace.all { before } else { pace.before };
            let (front, back) = work.split(pace.middle(left));
            let (front, back) = worker.join_at(
                place,
                |w| drive(w, place, front, before),
                |w| drive(w, place, back, before),
            );
            return W::combine(front, back);
        }
        // Whoever asks meanwhile waits: for little beside what is left to share.
        let count = step.min(left / 8).max(W::FIRST).min(left);
        work.advance(count);
        if count == left {
            return work.finish();
        }
        step = (step * 2).min(W::MOST);
    }
}

/// How fast a loop goes, and so whether what is left of it is worth a fork. Looked at each time that three times as much has been
/// done again, and before more than a quarter of what is left is done unseen, or half if it seems to be over at once: the last items
/// may be the long ones. (Parts of few items are looked at less, see `new`.)
struct Pace {
    /// At the last look: when that was, and how many items were left.
    time: u64,
    left: usize,
    /// It is known to be worth a fork.
    known: bool,
    /// To be looked at when so few are left.
    next: usize,
    all: usize,
    few: bool,
    /// What the last look that could tell has told of what has been done; until then what is known of other parts. Only that those were
    /// short outlasts a look that tells nothing.
    before: Before,
}

impl Pace {
    /// With fewer than `few` items it is looked at only if `wanted`; or, if others were short, once a handful is left: are these as
    /// short?
    fn new(all: usize, few: usize, wanted: bool, before: Before) -> Pace {
        // Models do not depend on the time.
        let few = all < few || cfg!(raddle_model);
        let next = match before {
            _ if wanted || !few => usize::MAX,
            _ if before.is_short() && all > PAIR => HANDFUL,
            _ => 0,
        };
        let next = next.min(all.saturating_sub(1));
        let time = if next == 0 { 0 } else { clock::now() };
        let known = before.is_long();
        let before = if before == Before::Nothing { Before::Something } else { before };
        Pace { time, left: all, known, next, all, few, before }
    }

    #[inline]
    fn is_worth(&mut self, left: usize, now: impl FnOnce() -> u64) -> bool {
        if left <= self.next {
            self.look(left, now());
        }
        self.known || self.few
    }

    /// Whether so few are left that they are forked before anybody asks, if that is worth it: short ones are in parts of few items only.
    fn is_eager(&self, left: usize) -> bool {
        left <= if self.before.is_short() { PAIR } else { HANDFUL }
    }

    /// Where to cut what is left: in the middle, or a little behind it, as this thread goes on at once.
    fn middle(&self, left: usize) -> usize {
        let lead = match self.before {
            Before::Took(ticks) => LEAD / ticks.max(1),
            Before::Nothing | Before::Something => 0,
        };
        left.midpoint((lead as usize).min(left / 4))
    }

    fn look(&mut self, left: usize, now: u64) {
        let (took, done) = (now.saturating_sub(self.time), self.left - left);
        self.known = is_much(took, done, left);
        self.before = match self.before {
            _ if took >= GLANCE => Before::Took(took / done as u64),
            before if before.is_short() => before,
            _ => Before::Something,
        };
        (self.time, self.left) = (now, left);
        let unseen = if expected(took, done, left) < HARDLY { left / 2 } else { left / 4 };
        self.next = left - (self.all - left).saturating_mul(3).min(unseen).max(1);
    }
}

/// How long so many items take, in ticks, if `done` took `took`.
fn expected(took: u64, done: usize, left: usize) -> u64 {
    took.saturating_mul(left as u64) / done as u64
}

/// Whether that is known to be worth a fork.
fn is_much(took: u64, done: usize, left: usize) -> bool {
    took >= GLANCE && expected(took, done, left) >= WORTH
}

#[cfg(all(test, not(raddle_model)))]
mod tests {
    use super::*;

    /// At a clock of the test's own.
    fn pace(n: usize, before: Before) -> Pace {
        Pace { time: 0, ..Pace::new(n, FEW, false, before) }
    }

    /// Says for `n` items, of which those from `long` on take a while and the others hardly anything, at how many left the loop was worth
    /// a fork first.
    fn first_worth(n: usize, long: usize) -> Option<usize> {
        let (mut pace, mut now) = (pace(n, Before::Nothing), 0);
        (1..n).rev().find(|left| {
            now += if n - left > long { WORTH } else { 5 };
            pace.is_worth(*left, || now)
        })
    }

    #[test]
    fn what_takes_long_is_worth_a_fork_wherever_it_lies() {
        assert_eq!(first_worth(1000, 0), Some(999));
        // A quarter of what was left before, and of that again, at the most.
        assert!(first_worth(1000, 900).is_some_and(|left| left >= 50));
        assert!(first_worth(100, 80).is_some_and(|left| left >= 10));
        // Of few nothing need be known.
        assert_eq!(first_worth(FEW - 1, FEW), Some(FEW - 2));
    }

    #[test]
    fn who_goes_on_at_once_does_a_little_more_of_what_is_left() {
        let middle = |left, before| Pace::new(left, FEW, false, before).middle(left);
        for left in (2..200).chain([usize::MAX - 1, usize::MAX]) {
            for before in [Before::Nothing, Before::Something, Before::Took(WORTH)] {
                assert_eq!(middle(left, before), left / 2);
            }
            let behind = left - middle(left, Before::Took(1));
            assert!(behind > left / 4 && behind <= left.div_ceil(2), "{behind} of {left}");
        }
        assert_eq!(middle(100, Before::Took(LEAD / 4)), 52);
        assert_eq!(middle(100_000, Before::Took(0)), 50_000 + LEAD as usize / 2);
    }

    /// For a part of few items, after others that took so long: when nobody asks, at how many left it forks.
    fn first_eager(before: Before, n: usize, item: u64) -> Option<usize> {
        let (mut pace, mut now) = (pace(n, before), 0);
        (2..=n).rev().find(|left| {
            let forks = pace.is_worth(*left, || now) && pace.is_eager(*left);
            now += item;
            forks
        })
    }

    #[test]
    fn the_last_few_are_forked_by_themselves_unless_they_are_short() {
        let short = Before::Took(SHORT - 1);
        for item in [0, 5, SHORT, WORTH] {
            assert_eq!(first_eager(Before::Nothing, 50, item), Some(HANDFUL));
            assert_eq!(first_eager(Before::Something, 50, item), Some(HANDFUL));
            assert_eq!(first_eager(Before::Took(SHORT), 50, item), Some(HANDFUL));
        }
        assert_eq!(first_eager(Before::Took(SHORT), 5, 0), Some(5));
        for item in [0, 5, GLANCE, SHORT - 1] {
            assert_eq!(first_eager(short, 50, item), Some(PAIR), "{item}");
            assert_eq!(first_eager(short, PAIR, item), Some(PAIR));
        }
        // Shorter ones had come before: looked at once more when few are left, and when one of those is done.
        assert_eq!(first_eager(short, 50, SHORT), Some(HANDFUL));
        assert_eq!(first_eager(short, HANDFUL, SHORT), Some(HANDFUL - 1));
    }

    #[test]
    fn what_is_over_at_once_is_not() {
        assert_eq!(first_worth(100, 100), None);
    }
}
