//! Sorts: stable ones by merging, unstable ones by partition. Where a piece is small the standard library sorts it.

mod merge;
mod stable;
mod unstable;

use std::cmp::Ordering;

/// Sorts stably: equal elements stay in their order.
///
/// On one thread, and for fewer than about a thousand elements, this is [`slice::sort`]. Else pieces are sorted so and merged in
/// parallel, by way of memory for as many elements.
///
/// # Panics
///
/// If a comparison does, or may do so if it is not a total order: the slice then has each of its elements once, in some order.
///
/// ```
/// let mut numbers = [3, 1, 2];
/// raddle::par::sort(&mut numbers);
/// assert_eq!(numbers, [1, 2, 3]);
/// ```
#[doc(alias = "par_sort")]
#[track_caller]
pub fn sort<T: Ord + Send>(data: &mut [T]) {
    stable::sort(data, &T::cmp);
}

/// As [`sort`], by a comparison of two elements.
///
/// # Panics
///
/// As [`sort`].
///
/// ```
/// let mut words = ["weft", "and", "warp"];
/// raddle::par::sort_by(&mut words, |a, b| a.len().cmp(&b.len()));
/// assert_eq!(words, ["and", "weft", "warp"]);
/// ```
#[track_caller]
pub fn sort_by<T, F>(data: &mut [T], compare: F)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    stable::sort(data, &compare);
}

/// As [`sort`], by a key of each element, which is asked for at each comparison.
///
/// # Panics
///
/// As [`sort`], and if `key` does.
///
/// ```
/// let mut words = ["weft", "and", "warp"];
/// raddle::par::sort_by_key(&mut words, |word| word.len());
/// assert_eq!(words, ["and", "weft", "warp"]);
/// ```
#[track_caller]
pub fn sort_by_key<T, K, F>(data: &mut [T], key: F)
where
    T: Send,
    K: Ord,
    F: Fn(&T) -> K + Sync,
{
    stable::sort(data, &|a: &T, b: &T| key(a).cmp(&key(b)));
}

/// Sorts in place, and equal elements end up in any order; faster than [`sort`] as a rule.
///
/// On one thread, and for fewer than some thousand elements, this is [`slice::sort_unstable`]. Allocates nothing.
///
/// # Panics
///
/// As [`sort`].
///
/// ```
/// let mut numbers = [3, 1, 2];
/// raddle::par::sort_unstable(&mut numbers);
/// assert_eq!(numbers, [1, 2, 3]);
/// ```
#[doc(alias = "par_sort_unstable")]
#[track_caller]
pub fn sort_unstable<T: Ord + Send>(data: &mut [T]) {
    unstable::sort(data, &T::cmp);
}

/// As [`sort_unstable`], by a comparison of two elements.
///
/// # Panics
///
/// As [`sort`].
///
/// ```
/// let mut numbers = [0.5, -1.0, 0.25];
/// raddle::par::sort_unstable_by(&mut numbers, f64::total_cmp);
/// assert_eq!(numbers, [-1.0, 0.25, 0.5]);
/// ```
#[track_caller]
pub fn sort_unstable_by<T, F>(data: &mut [T], compare: F)
where
    T: Send,
    F: Fn(&T, &T) -> Ordering + Sync,
{
    unstable::sort(data, &compare);
}

/// As [`sort_unstable`], by a key of each element, which is asked for at each comparison.
///
/// # Panics
///
/// As [`sort`], and if `key` does.
///
/// ```
/// let mut numbers = [3_i32, -1, -2];
/// raddle::par::sort_unstable_by_key(&mut numbers, |n| n.abs());
/// assert_eq!(numbers, [-1, -2, 3]);
/// ```
#[track_caller]
pub fn sort_unstable_by_key<T, K, F>(data: &mut [T], key: F)
where
    T: Send,
    K: Ord,
    F: Fn(&T) -> K + Sync,
{
    unstable::sort(data, &|a: &T, b: &T| key(a).cmp(&key(b)));
}

/// Whether the slice is in order, or in strictly falling order, which is then turned round.
fn is_one_run<T>(data: &mut [T], compare: &impl Fn(&T, &T) -> Ordering) -> bool {
    if data.is_sorted_by(|a, b| compare(a, b).is_le()) {
        return true;
    }
    let falls = data.is_sorted_by(|a, b| compare(a, b).is_gt());
    if falls {
        data.reverse();
    }
    falls
}
