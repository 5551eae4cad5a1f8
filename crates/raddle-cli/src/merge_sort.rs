//! A stable merge sort whose halves and whose merges are both done in parallel.

use raddle::Worker;

use crate::progress::Progress;

/// Pieces up to this length are sorted, and merged, by one task.
const CHUNK: usize = 2048;

/// How many steps [`sort`] says it takes for that many items.
pub(crate) fn steps(items: usize) -> u64 {
    if items <= CHUNK { 1 } else { steps(items / 2) + steps(items - items / 2) }
}

/// The items of `from`, sorted; equal ones stay in order. `blank` is any item: one of zero bytes costs no time, as the
/// system gives memory that is zero, and then every task gets the memory that it needs by itself. (Before, copying all
/// items first was nine tenths of the span.)
pub(crate) fn sort<T>(worker: &Worker, from: &[T], blank: T, progress: &Progress) -> Vec<T>
where
    T: Ord + Copy + Send + Sync,
{
    let mut sorted = vec![blank; from.len()];
    let mut spare = vec![blank; from.len()];
    sort_into(worker, from, &mut sorted, &mut spare, false, progress);
    sorted
}

/// Sorts `from` into `items`, or into `spare`, using the other of the two on the way.
fn sort_into<T>(
    worker: &Worker,
    from: &[T],
    items: &mut [T],
    spare: &mut [T],
    to_spare: bool,
    progress: &Progress,
) where
    T: Ord + Copy + Send + Sync,
{
    if items.len() <= CHUNK {
        let to = if to_spare { spare } else { items };
        to.copy_from_slice(from);
        to.sort();
        progress.step();
        return;
    }
    let middle = items.len() / 2;
    let (from_left, from_right) = from.split_at(middle);
    let (left, right) = items.split_at_mut(middle);
    let (spare_left, spare_right) = spare.split_at_mut(middle);
    worker.join(
        |worker| sort_into(worker, from_left, left, spare_left, !to_spare, progress),
        |worker| sort_into(worker, from_right, right, spare_right, !to_spare, progress),
    );
    if to_spare {
        merge(worker, left, right, spare);
    } else {
        merge(worker, spare_left, spare_right, items);
    }
}

/// Merges two sorted slices, of equal items those of `left` first.
///
/// The longer one is cut in the middle, and the other where the middle item belongs: what lies
/// before the cuts comes before what lies behind them, so both can be merged at the same time.
fn merge<T>(worker: &Worker, left: &[T], right: &[T], to: &mut [T])
where
    T: Ord + Copy + Send + Sync,
{
    if to.len() <= CHUNK {
        return merge_here(left, right, to);
    }
    let (cut_left, cut_right) = if left.len() >= right.len() {
        let cut = left.len() / 2;
        (cut, right.partition_point(|item| *item < left[cut]))
    } else {
        let cut = right.len() / 2;
        (left.partition_point(|item| *item <= right[cut]), cut)
    };
    let (left, left_behind) = left.split_at(cut_left);
    let (right, right_behind) = right.split_at(cut_right);
    let (to, to_behind) = to.split_at_mut(cut_left + cut_right);
    worker.join(
        |worker| merge(worker, left, right, to),
        |worker| merge(worker, left_behind, right_behind, to_behind),
    );
}

fn merge_here<'a, T: Ord + Copy>(mut left: &'a [T], mut right: &'a [T], to: &mut [T]) {
    for slot in to {
        let from = match (left.first(), right.first()) {
            (Some(l), Some(r)) if r < l => &mut right,
            (None, _) => &mut right,
            _ => &mut left,
        };
        *slot = from[0];
        *from = &from[1..];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use raddle::Pool;
    use std::cmp::Ordering;

    /// Equal to all of the same key, and still to be told apart.
    #[derive(Debug, Clone, Copy)]
    struct Item {
        key: u32,
        place: usize,
    }

    impl PartialEq for Item {
        fn eq(&self, other: &Item) -> bool {
            self.key == other.key
        }
    }

    impl Eq for Item {}

    impl PartialOrd for Item {
        fn partial_cmp(&self, other: &Item) -> Option<Ordering> {
            Some(self.cmp(other))
        }
    }

    impl Ord for Item {
        fn cmp(&self, other: &Item) -> Ordering {
            self.key.cmp(&other.key)
        }
    }

    fn both(items: &[Item]) -> (Vec<usize>, Vec<usize>) {
        let places = |items: Vec<Item>| items.into_iter().map(|item| item.place).collect();
        let blank = Item { key: 0, place: 0 };
        let pool = Pool::new(3).unwrap();
        let ours = pool.run(|worker| sort(worker, items, blank, &Progress::hidden()));
        let mut theirs = items.to_vec();
        theirs.sort();
        (places(ours), places(theirs))
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn is_the_stable_sort_of_the_standard_library(
            length in 0_usize..30_000, keys in 1_u32..20_000, seed: u64,
        ) {
            let mut random = crate::made_up::Random::new(seed);
            let items: Vec<Item> = (0..length)
                .map(|place| Item { key: random.below(keys as usize) as u32, place })
                .collect();
            let (ours, theirs) = both(&items);
            prop_assert!(ours == theirs);
        }
    }

    #[test]
    fn sorts_what_is_sorted_backwards_or_all_the_same() {
        type Key = fn(usize) -> u32;
        let keys: [Key; 4] = [|i| i as u32, |i| u32::MAX - i as u32, |_| 1, |i| (i % 2) as u32];
        for key in keys {
            let items: Vec<Item> = (0..10_001).map(|i| Item { key: key(i), place: i }).collect();
            let (ours, theirs) = both(&items);
            assert!(ours == theirs);
        }
    }
}
