//! Loops and sorts over a million numbers or two, in the words of each runtime, and flat loops.

use std::hint::black_box;

use crate::work::{leaf_of, splitmix};

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Operation {
    ForEach,
    MapCollect,
    Filter,
    Reduce,
    Sort,
    SortUnstable,
}

use self::Operation::{Filter, ForEach, MapCollect, Reduce, Sort, SortUnstable};

impl Operation {
    pub(crate) const ALL: [Operation; 6] =
        [ForEach, MapCollect, Filter, Reduce, Sort, SortUnstable];

    pub(crate) fn name(self) -> &'static str {
        match self {
            ForEach => "for_each",
            MapCollect => "map_collect",
            Filter => "filter",
            Reduce => "reduce",
            Sort => "sort",
            SortUnstable => "sort_unstable",
        }
    }

    pub(crate) fn is_sort(self) -> bool {
        matches!(self, Sort | SortUnstable)
    }
}

/// What the operations work on.
pub(crate) struct Data {
    input: Vec<u64>,
    output: Vec<u64>,
}

impl Data {
    pub(crate) fn new(count: usize) -> Data {
        let input: Vec<u64> = (0..count as u64).map(splitmix).collect();
        Data { output: input.clone(), input }
    }

    /// Fills the output anew, to be sorted.
    fn unsorted(&mut self) -> &mut [u64] {
        self.output.copy_from_slice(&self.input);
        &mut self.output
    }
}

fn change(x: &mut u64) {
    *x = splitmix(*x);
}

fn changed(x: &u64) -> u64 {
    splitmix(*x)
}

fn is_kept(x: &u64) -> bool {
    x.is_multiple_of(2)
}

pub(crate) mod sequential {
    use super::*;

    pub(crate) fn run(operation: Operation, data: &mut Data) {
        match operation {
            ForEach => data.output.iter_mut().for_each(change),
            MapCollect => {
                black_box(data.input.iter().map(changed).collect::<Vec<_>>());
            }
            Filter => {
                let kept = data.input.iter().copied().filter(is_kept);
                black_box(kept.collect::<Vec<_>>());
            }
            Reduce => {
                black_box(data.input.iter().map(changed).fold(0, u64::wrapping_add));
            }
            Sort => data.unsorted().sort(),
            SortUnstable => data.unsorted().sort_unstable(),
        }
    }

    /// The sum of what the leaves come to.
    pub(crate) fn flat(items: std::ops::Range<u64>, steps: u32) -> u64 {
        items.map(|item| leaf_of(item, steps)).fold(0, u64::wrapping_add)
    }
}

pub(crate) mod raddle {
    use super::*;
    use ::raddle::par;

    pub(crate) fn run(operation: Operation, data: &mut Data) {
        match operation {
            ForEach => par::for_each(&mut data.output, change),
            MapCollect => {
                black_box(par::map_collect(&data.input, changed));
            }
            Filter => {
                black_box(par::filter_map(&data.input, |x| is_kept(x).then_some(*x)));
            }
            Reduce => {
                black_box(par::map_reduce(&data.input, 0, changed, u64::wrapping_add));
            }
            Sort => par::sort(data.unsorted()),
            SortUnstable => par::sort_unstable(data.unsorted()),
        }
    }

    pub(crate) fn flat(items: std::ops::Range<u64>, steps: u32) -> u64 {
        par::map_reduce(items, 0, |item| leaf_of(item, steps), u64::wrapping_add)
    }
}

pub(crate) mod rayon {
    use super::*;
    use ::rayon::prelude::*;

    pub(crate) fn run(operation: Operation, data: &mut Data) {
        match operation {
            ForEach => data.output.par_iter_mut().for_each(change),
            MapCollect => {
                black_box(data.input.par_iter().map(changed).collect::<Vec<_>>());
            }
            Filter => {
                let kept = data.input.par_iter().copied().filter(is_kept);
                black_box(kept.collect::<Vec<_>>());
            }
            Reduce => {
                black_box(data.input.par_iter().map(changed).reduce(|| 0, u64::wrapping_add));
            }
            Sort => data.unsorted().par_sort(),
            SortUnstable => data.unsorted().par_sort_unstable(),
        }
    }

    pub(crate) fn flat(items: std::ops::Range<u64>, steps: u32) -> u64 {
        let leaves = items.into_par_iter().map(|item| leaf_of(item, steps));
        leaves.reduce(|| 0, u64::wrapping_add)
    }
}

/// It has neither sorts nor filters, and collects into places that are there.
pub(crate) mod paralight {
    use super::*;
    use ::paralight::prelude::*;

    pub(crate) fn pool(threads: usize) -> ThreadPool {
        ThreadPoolBuilder {
            num_threads: ThreadCount::try_from(threads).expect("not zero"),
            range_strategy: RangeStrategy::WorkStealing,
            cpu_pinning: CpuPinningPolicy::No,
        }
        .build()
    }

    pub(crate) fn run(pool: &mut ThreadPool, operation: Operation, data: &mut Data) {
        match operation {
            ForEach => data.output.par_iter_mut().with_thread_pool(pool).for_each(change),
            Reduce => {
                let changed = data.input.par_iter().with_thread_pool(pool).map(changed);
                black_box(changed.reduce(|| 0, u64::wrapping_add));
            }
            MapCollect | Filter | Sort | SortUnstable => unreachable!("not there"),
        }
    }

    pub(crate) fn flat(pool: &mut ThreadPool, items: std::ops::Range<u64>, steps: u32) -> u64 {
        let items = (items.start as usize..items.end as usize).into_par_iter();
        let leaves = items.with_thread_pool(pool).map(|item| leaf_of(item as u64, steps));
        leaves.reduce(|| 0, u64::wrapping_add)
    }
}
