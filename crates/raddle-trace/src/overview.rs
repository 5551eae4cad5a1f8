//! What is said of all regions together, of which there may be too many to keep.

use std::time::Duration;

use crate::phases::Phases;
use crate::regions::{Parts, Regions};
use crate::trace::Trace;

/// How many regions are kept, at most: those shown one by one.
pub(crate) const SHOWN: usize = 12;

/// All regions of a trace.
#[derive(Debug)]
pub(crate) struct Overview {
    pub(crate) count: usize,
    /// The six parts of [`Phases::parts`], of all regions.
    pub(crate) parts: [Duration; 6],
    pub(crate) total: Duration,
    /// How many lanes were active on average.
    pub(crate) average: f64,
    pub(crate) width: usize,
    pub(crate) clamped: usize,
    /// The longest ones, in the order of time.
    pub(crate) longest: Vec<Phases>,
    /// The median of each phase, and of the total: if there is more than one region. They need not add up.
    pub(crate) median: Option<[Duration; 7]>,
}

impl Overview {
    #[inline]
    pub(crate) fn of(trace: &Trace) -> Overview {
        let mut regions = Regions::of(trace);
        let mut all = Overview {
            count: 0,
            parts: [Duration::ZERO; 6],
            total: Duration::ZERO,
            average: 0.0,
            width: regions.width(),
            clamped: 0,
            longest: Vec::new(),
            median: None,
        };
        let mut busy = 0.0;
        while let Some(region) = regions.next() {
            let parts = region.parts().map(|(_, time)| time);
            all.count += 1;
            all.parts.iter_mut().zip(parts).for_each(|(sum, time)| *sum += time);
            all.total += region.total;
            all.clamped += region.clamped;
            busy += region.average() * region.total.as_secs_f64();
            regions.keep(parts.map(|time| time.as_nanos() as f32));
            all.keep(region);
        }
        all.longest.sort_by_key(|region| region.start);
        all.average = if all.total.is_zero() { 0.0 } else { busy / all.total.as_secs_f64() };
        all.median = (all.count > 1).then(|| medians(regions.kept()));
        all
    }

    /// Keeps a region if it is one of the longest: of equal ones the first.
    #[inline]
    fn keep(&mut self, region: Phases) {
        let at = self.longest.partition_point(|kept| kept.total >= region.total);
        if at < SHOWN {
            self.longest.truncate(SHOWN - 1);
            self.longest.insert(at, region);
        }
    }

    /// The longest of all.
    #[inline]
    pub(crate) fn longest(&self) -> Option<&Phases> {
        self.longest.iter().max_by_key(|region| region.total)
    }
}

#[inline]
fn medians(each: impl Iterator<Item = Parts> + Clone) -> [Duration; 7] {
    std::array::from_fn(|which| {
        let of = |parts: &Parts| match parts.get(which) {
            Some(&part) => f64::from(part),
            None => parts.iter().copied().map(f64::from).sum(),
        };
        let mut times: Vec<f32> = each.clone().map(|parts| of(&parts) as f32).collect();
        // As `Wakes::median` has it.
        let middle = times.len() / 2;
        let (_, &mut median, _) = times.select_nth_unstable_by(middle, f32::total_cmp);
        Duration::from_nanos(median as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_are_those_of_all_times() {
        let times = |n: usize| -> Vec<Parts> {
            (0..n).map(|i| [i as f32, 0.0, 7.0, (n - i) as f32, 1e9, 2.0]).collect()
        };
        for n in [2, 3, 10, 11] {
            let mut first: Vec<u64> = (0..n as u64).collect();
            let expected = crate::Wakes::median(&first);
            first.clear();
            assert_eq!(medians(times(n).into_iter())[0], expected, "{n}");
        }
        let total = Duration::from_nanos(1_000_000_019);
        assert!(medians(times(10).into_iter())[6].abs_diff(total) < Duration::from_nanos(100));
    }
}
