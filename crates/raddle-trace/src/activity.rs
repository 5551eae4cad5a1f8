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
    /// From when on, and how many.
    pub(crate) steps: Vec<(u64, u32)>,
    /// For each block of steps, and each number of lanes: for how many ticks so many were active before it.
    before: Vec<u64>,
    /// How many numbers there are.
    levels: usize,
    /// How many steps in a block.
    block: usize,
}

/// What was active between two moments.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Within {
    /// For how many ticks each number of lanes was active.
    pub(crate) ticks: Vec<u64>,
    /// The most lanes active at once, or so many as were asked for if there are more.
    pub(crate) peak: usize,
    /// The first and the last instant with so many or more, if there is one.
    pub(crate) first: Option<u64>,
    pub(crate) last: Option<u64>,
}

impl Activity {
    /// At one instant the stops come before the starts, so that a hand-over from lane to lane does not
    /// count as both.
    pub(crate) fn of(lanes: &[Lane]) -> Activity {
        Activity::of_regions(lanes, 1)
    }

    /// The same, to be asked about so many regions. With thousands of lanes that are active at once, numbers above some count
    /// as that.
    pub(crate) fn of_regions(lanes: &[Lane], regions: usize) -> Activity {
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
                // What comes and goes at one instant would be counted the wrong way round.
                if changes[first..].last() == Some(&(now, !is_active)) {
                    changes.pop();
                } else {
                    changes.push((now, is_active));
                }
            }
        }
        changes.sort_unstable();
        let most =
            (MOST.0 / (changes.len() / BLOCKS.1 + 1)).min(MOST.1 / regions.max(1)).max(LEVELS);
        let mut active = 0_u32;
        let mut steps: Vec<(u64, u32)> = Vec::with_capacity(changes.len());
        for (tsc, starts) in changes {
            active = if starts { active + 1 } else { active.saturating_sub(1) };
            let counts = active.min(most as u32);
            match steps.last_mut() {
                Some(last) if last.0 == tsc => last.1 = counts,
                _ => steps.push((tsc, counts)),
            }
        }
        let levels = steps.iter().map(|step| step.1 as usize + 1).max().unwrap_or(1);
        let block = levels.clamp(BLOCKS.0, BLOCKS.1);
        let mut before = vec![0; levels];
        let mut sum = before.clone();
        for (number, of) in steps.chunks(block).enumerate() {
            for (index, &(tsc, active)) in of.iter().enumerate() {
                let next = steps.get(number * block + index + 1).map_or(tsc, |next| next.0);
                sum[active as usize] += next - tsc;
            }
            before.extend_from_slice(&sum);
        }
        Activity { steps, before, levels, block }
    }

    /// For how many ticks each number of lanes was active before `tsc`.
    fn ticks_before(&self, tsc: u64) -> Vec<u64> {
        let at = self.steps.partition_point(|step| step.0 <= tsc);
        let block = at / self.block;
        let mut ticks = self.before[block * self.levels..(block + 1) * self.levels].to_vec();
        for index in block * self.block..at {
            let (from, active) = self.steps[index];
            let to = self.steps.get(index + 1).map_or(tsc, |next| next.0.min(tsc));
            ticks[active as usize] += to.saturating_sub(from);
        }
        // The last step of all lasts on, and no block says so.
        if at == self.steps.len() && at % self.block == 0 {
            let last = at.checked_sub(1).map(|last| self.steps[last]);
            if let Some((from, active)) = last {
                ticks[active as usize] += tsc - from;
            }
        }
        ticks
    }

    /// How many lanes were active at once for more than a moment: an overlap of a hundredth of the time may be of clocks
    /// that disagree, or of work that changes hands.
    pub(crate) fn width(&self) -> usize {
        let ticks = self.ticks_before(self.steps.last().map_or(0, |last| last.0));
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

    /// What was active from one moment to another, and when so many lanes as ever were, or `full` if there were more.
    pub(crate) fn within(&self, (from, to): (u64, u64), full: usize) -> Within {
        let to = to.max(from);
        let begun = self.ticks_before(from);
        let mut ticks: Vec<u64> =
            self.ticks_before(to).iter().zip(&begun).map(|(to, from)| to - from).collect();
        // Before the first step nothing is active.
        let known: u64 = ticks.iter().sum();
        ticks[0] += (to - from).saturating_sub(known);
        let peak = ticks.iter().rposition(|&time| time > 0).unwrap_or(0).min(full);
        if peak == 0 {
            return Within { ticks, peak, first: None, last: None };
        }
        let start = self.steps.partition_point(|step| step.0 <= from).saturating_sub(1);
        let end = self.steps.partition_point(|step| step.0 < to);
        let until = |index: usize| self.steps.get(index + 1).map_or(to, |next| next.0).min(to);
        let holds = |index: usize| {
            let (tsc, active) = self.steps[index];
            active as usize >= peak && tsc.max(from) < until(index)
        };
        let first = self.find(start, end, peak, &holds).map(|i| self.steps[i].0.max(from));
        let last = self.find_last(start, end, peak, &holds).map(until);
        Within { ticks, peak, first, last }
    }

    /// Whether so many or more are ever active in a whole block.
    fn has(&self, block: usize, level: usize) -> bool {
        let at = |block: usize, level: usize| self.before.get(block * self.levels + level);
        (level..self.levels).any(|level| at(block + 1, level) > at(block, level))
    }

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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::{Event, EventKind::*};

    #[test]
    fn what_takes_no_time_is_no_second_lane() {
        let event = |tsc, kind| Event::new(tsc, kind, 1);
        let events = vec![event(5, Exec), event(5, Executed), event(5, Exec), event(9, Executed)];
        let activity = Activity::of(&[Lane::new("", events)]);
        assert_eq!(activity.steps, [(5, 1), (9, 0)]);
    }

    #[test]
    fn an_end_that_is_stamped_before_its_beginning_ends_it() {
        let event = |tsc, kind| Event::new(tsc, kind, 1);
        let late = vec![event(1_000, Exec), event(990, Executed)];
        let other = vec![event(2_000, Exec), event(10_000, Executed)];
        let lanes = [Lane::new("", late), Lane::new("", other)];
        assert_eq!(Activity::of(&lanes).steps, [(2_000, 1), (10_000, 0)]);
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
        assert!(activity.steps.len() > 2 * activity.block);
        for (from, to) in
            [(0, 50), (0, 1_000_000), (90, 140_100), (70_000, 70_100), (4_321, 99_999)]
        {
            let mut ticks = vec![0; activity.levels];
            let (mut first, mut last, mut peak) = (None, None, 0);
            for tick in from..to {
                let at = activity.steps.partition_point(|step| step.0 <= tick);
                let active = at.checked_sub(1).map_or(0, |at| activity.steps[at].1 as usize);
                ticks[active] += 1;
                if active > 0 && active >= peak {
                    if active > peak {
                        (peak, first) = (active, Some(tick));
                    }
                    last = Some(tick + 1);
                }
            }
            let all = activity.within((from, to), usize::MAX);
            assert_eq!(all, Within { ticks, peak, first, last });
        }
    }
}
