//! How many lanes ran something, over time.

use crate::states::{Follower, State};
use crate::trace::Lane;

/// Steps in one block, at least, and at most: a question costs a look at two blocks, however long it reaches, and a block has room for each
/// number of lanes.
const BLOCKS: (usize, usize) = (64, 1024);
/// So many numbers of lanes are always told apart ..
const LEVELS: usize = 1024;
/// .. and more of them while there are no more than so many, those of all blocks together, or of all questions.
const MOST: (usize, usize) = (1 << 24, 1 << 28);

/// How many lanes were active, over time.
#[derive(Debug)]
pub(crate) struct Activity {
    /// From when on ..
    from: Vec<u64>,
    /// .. how many.
    active: Vec<u32>,
    /// For each block of steps, and each number of lanes: for how many ticks so many were active before it.
    before: Vec<u64>,
    /// How many numbers there are.
    levels: usize,
    /// How many steps in a block.
    block: usize,
}

/// When most were active between two moments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Within {
    /// The most lanes active at once, or so many as were asked for if there are more.
    pub(crate) peak: usize,
    /// The first and the last instant with so many or more, if there is one.
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
}

impl Activity {
    /// At one instant the stops come before the starts, so that a hand-over from lane to lane does not
    /// count as both.
    #[inline]
    pub(crate) fn of(lanes: &[Lane]) -> Activity {
        Activity::of_regions(lanes, 1)
    }

    /// The same, to be asked about so many regions. With thousands of lanes that are active at once, numbers above some count
    /// as that.
    #[inline]
    pub(crate) fn of_regions(lanes: &[Lane], regions: usize) -> Activity {
        let base = lanes.iter().flat_map(|lane| &lane.events).map(|e| e.tsc).min().unwrap_or(0);
        let mut changes = changes(lanes, base);
        changes.sort_unstable();
        let most =
            (MOST.0 / (changes.len() / BLOCKS.1 + 1)).min(MOST.1 / regions.max(1)).max(LEVELS);
        // The steps are written over the changes that have been read.
        let mut steps = 0;
        let mut active: Vec<u32> = Vec::with_capacity(changes.len());
        let mut now = 0_u32;
        for at in 0..changes.len() {
            let (tsc, starts) = (base + (changes[at] >> 1), changes[at] & 1 == 1);
            now = if starts { now + 1 } else { now.saturating_sub(1) };
            let counts = now.min(most as u32);
            match active.last_mut() {
                Some(last) if changes[steps - 1] == tsc => *last = counts,
                _ => {
                    changes[steps] = tsc;
                    active.push(counts);
                    steps += 1;
                }
            }
        }
        changes.truncate(steps);
        let from = changes;
        let levels = active.iter().max().map_or(1, |&most| most as usize + 1);
        let block = levels.clamp(BLOCKS.0, BLOCKS.1);
        let mut before = vec![0; levels];
        let mut sum = before.clone();
        for (number, of) in active.chunks(block).enumerate() {
            for (at, &active) in (number * block..).zip(of) {
                sum[active as usize] += from.get(at + 1).map_or(0, |next| next - from[at]);
            }
            before.extend_from_slice(&sum);
        }
        Activity { from, active, before, levels, block }
    }

    /// For how many ticks each number of lanes was active before `tsc`.
    #[inline]
    fn ticks_before(&self, tsc: u64) -> Vec<u64> {
        let at = self.from.partition_point(|&from| from <= tsc);
        // The last step before then is looked at itself: it may last beyond, or be the last of all.
        let block = at.saturating_sub(1) / self.block;
        let mut ticks = self.before[block * self.levels..(block + 1) * self.levels].to_vec();
        for index in block * self.block..at {
            ticks[self.active[index] as usize] +=
                self.until(index, tsc).saturating_sub(self.from[index]);
        }
        ticks
    }

    /// How many lanes were active at once for more than a moment: an overlap of a hundredth of the time may be of clocks
    /// that disagree, or of work that changes hands.
    #[inline]
    pub(crate) fn width(&self) -> usize {
        let ticks = self.ticks_before(self.from.last().copied().unwrap_or(0));
        let mut least = ticks[1..].iter().sum::<u64>() / 100 + 1;
        (1..self.levels)
            .rev()
            .find(|&level| {
                let enough = ticks[level] >= least;
                least = least.saturating_sub(ticks[level]);
                enough
            })
            .unwrap_or(0)
    }

    /// For how many ticks each number of lanes was active from one moment to another; and which steps these are.
    #[inline]
    pub(crate) fn ticks(&self, (from, to): (u64, u64), ticks: &mut Vec<u64>) -> (usize, usize) {
        let to = to.max(from);
        let start = self.from.partition_point(|&step| step <= from).saturating_sub(1);
        let end = start + self.from[start..].partition_point(|&step| step < to);
        ticks.clear();
        if end - start > 2 * self.block {
            let begun = self.ticks_before(from);
            ticks.extend(self.ticks_before(to).iter().zip(&begun).map(|(to, from)| to - from));
        } else {
            // So few are looked at themselves.
            ticks.resize(self.levels, 0);
            for index in start..end {
                let spent = self.until(index, to).saturating_sub(self.from[index].max(from));
                ticks[self.active[index] as usize] += spent;
            }
        }
        // Before the first step nothing is active.
        let known: u64 = ticks.iter().sum();
        ticks[0] += (to - from).saturating_sub(known);
        (start, end)
    }

    /// When a step ends, or what is looked at.
    #[inline]
    fn until(&self, index: usize, to: u64) -> u64 {
        self.from.get(index + 1).map_or(to, |&next| next.min(to))
    }

    /// When from one moment to another so many lanes as ever were active, or `full` if there were more.
    #[inline]
    pub(crate) fn within(
        &self,
        (from, to): (u64, u64),
        full: usize,
        ticks: &mut Vec<u64>,
    ) -> Within {
        let to = to.max(from);
        let (start, end) = self.ticks((from, to), ticks);
        let peak = ticks.iter().rposition(|&time| time > 0).unwrap_or(0).min(full);
        if peak == 0 {
            return Within { peak, first: None, last: None };
        }
        let holds = |index: usize| {
            self.active[index] as usize >= peak
                && self.from[index].max(from) < self.until(index, to)
        };
        let first = self.find(start, end, peak, &holds).map(|i| self.from[i].max(from));
        let last = self.find_last(start, end, peak, &holds).map(|i| self.until(i, to));
        Within { peak, first, last }
    }

    /// Whether so many or more are ever active in a whole block.
    #[inline]
    fn has(&self, block: usize, level: usize) -> bool {
        let at = |block: usize, level: usize| self.before.get(block * self.levels + level);
        (level..self.levels).any(|level| at(block + 1, level) > at(block, level))
    }

    #[inline]
    fn find(
        &self,
        start: usize,
        end: usize,
        level: usize,
        holds: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut at = start;
        while at < end {
            if at % self.block == 0 && at + self.block <= end && !self.has(at / self.block, level) {
                at += self.block;
            } else if holds(at) {
                return Some(at);
            } else {
                at += 1;
            }
        }
        None
    }

    #[inline]
    fn find_last(
        &self,
        start: usize,
        end: usize,
        level: usize,
        holds: &impl Fn(usize) -> bool,
    ) -> Option<usize> {
        let mut at = end;
        while at > start {
            if at % self.block == 0
                && at >= start + self.block
                && !self.has(at / self.block - 1, level)
            {
                at -= self.block;
            } else if holds(at - 1) {
                return Some(at - 1);
            } else {
                at -= 1;
            }
        }
        None
    }
}

/// When lanes begin to run something, and when they stop: ticks since `base`, twice, and one more where they begin.
#[inline]
fn changes(lanes: &[Lane], base: u64) -> Vec<u64> {
    let mut changes = Vec::new();
    for lane in lanes {
        let mut follower = Follower::new();
        let mut was_active = false;
        let first = changes.len();
        let mut now = 0;
        for event in &lane.events {
            // A stamp before the last one's counts as that: else what ends would have ended before it began.
            now = event.tsc.max(now);
            follower.step(event);
            let is_active = follower.state() == State::Executing;
            if is_active == was_active {
                continue;
            }
            was_active = is_active;
            // Ticks of half an eternity are all there is room for.
            let change = (now - base).min(u64::MAX >> 1) << 1;
            // What comes and goes at one instant would be counted the wrong way round.
            if changes[first..].last() == Some(&(change | u64::from(!is_active))) {
                changes.pop();
            } else {
                changes.push(change | u64::from(is_active));
            }
        }
    }
    changes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind::*};

    fn steps(activity: &Activity) -> Vec<(u64, u32)> {
        activity.from.iter().copied().zip(activity.active.iter().copied()).collect()
    }

    #[test]
    fn what_takes_no_time_is_no_second_lane() {
        let event = |tsc, kind| Event::new(tsc, kind, 1);
        let events = vec![event(5, Exec), event(5, Executed), event(5, Exec), event(9, Executed)];
        let activity = Activity::of(&[Lane::new("", events)]);
        assert_eq!(steps(&activity), [(5, 1), (9, 0)]);
    }

    #[test]
    fn an_end_that_is_stamped_before_its_beginning_ends_it() {
        let event = |tsc, kind| Event::new(tsc, kind, 1);
        let late = vec![event(1_000, Exec), event(990, Executed)];
        let other = vec![event(2_000, Exec), event(10_000, Executed)];
        let lanes = [Lane::new("", late), Lane::new("", other)];
        assert_eq!(steps(&Activity::of(&lanes)), [(2_000, 1), (10_000, 0)]);
    }

    #[test]
    fn blocks_are_of_no_consequence() {
        // Three lanes that come and go at odd times, for more than two blocks of steps.
        let lane = |every: u64, long: u64| {
            let of =
                |i| [Event::new(i * every, Exec, 1), Event::new(i * every + long, Executed, 1)];
            Lane::new("", (1..1500).flat_map(of).collect())
        };
        let lanes = [lane(100, 30), lane(100, 61), lane(70_000, 150)];
        let activity = Activity::of(&lanes);
        let known = steps(&activity);
        assert!(known.len() > 2 * activity.block);
        let within = |at: usize| (known[at - 1].0 + known[at].0) / 2;
        let (block, last) = (activity.block, known.len() - 1);
        let windows = [(0, 50), (0, 1_000_000), (90, 140_100), (70_000, 70_100), (4_321, 99_999)];
        // From within the last step of a block, and to that of another.
        let cut =
            [(0, within(block)), (within(block), within(4 * block)), (within(9), within(block))];
        for (from, to) in
            windows.into_iter().chain(cut).chain([(known[last].0 - 99, known[last].0 + 9)])
        {
            let mut ticks = vec![0; activity.levels];
            let (mut first, mut last, mut peak) = (None, None, 0);
            for tick in from..to {
                let at = known.partition_point(|step| step.0 <= tick);
                let active = at.checked_sub(1).map_or(0, |at| known[at].1 as usize);
                ticks[active] += 1;
                if active > 0 && active >= peak {
                    if active > peak {
                        (peak, first) = (active, Some(tick));
                    }
                    last = Some(tick + 1);
                }
            }
            let mut all = Vec::new();
            let most = activity.within((from, to), usize::MAX, &mut all);
            assert_eq!((all, most), (ticks, Within { peak, first, last }));
        }
    }
}
