//! The one place that says how work is split.

use std::ops::Range;
use std::panic::Location;

use raddle::Worker;

/// Runs `leaf` over pieces of `items`, in parallel, and merges what the pieces give.
///
/// Every piece but the last has `chunk` items; `leaf` is told the index of its first. The pieces
/// and the tree in which they are merged depend on the number of items alone, never on the number
/// of threads: also sums of floating-point numbers come out the same to the bit, however many
/// threads take part. In a trace its forks are where it was called.
#[track_caller]
pub(crate) fn fold_chunks<T, R>(
    worker: &Worker,
    items: &mut [T],
    chunk: usize,
    leaf: &(impl Fn(usize, &mut [T]) -> R + Sync),
    merge: &(impl Fn(R, R) -> R + Sync),
) -> R
where
    T: Send,
    R: Send,
{
    fold_from(worker, Location::caller(), 0, items, chunk, leaf, merge)
}

fn fold_from<T, R>(
    worker: &Worker,
    place: &'static Location<'static>,
    first: usize,
    items: &mut [T],
    chunk: usize,
    leaf: &(impl Fn(usize, &mut [T]) -> R + Sync),
    merge: &(impl Fn(R, R) -> R + Sync),
) -> R
where
    T: Send,
    R: Send,
{
    let chunks = items.len().div_ceil(chunk);
    if chunks <= 1 {
        return leaf(first, items);
    }
    let middle = chunks / 2 * chunk;
    let (left, right) = items.split_at_mut(middle);
    let (left, right) = worker.join_at(
        place,
        |worker| fold_from(worker, place, first, left, chunk, leaf, merge),
        |worker| fold_from(worker, place, first + middle, right, chunk, leaf, merge),
    );
    merge(left, right)
}

/// As [`fold_chunks`], on this thread alone.
pub(crate) fn fold_alone<T, R>(
    first: usize,
    items: &mut [T],
    chunk: usize,
    leaf: &impl Fn(usize, &mut [T]) -> R,
    merge: &impl Fn(R, R) -> R,
) -> R {
    let chunks = items.len().div_ceil(chunk);
    if chunks <= 1 {
        return leaf(first, items);
    }
    let middle = chunks / 2 * chunk;
    let (left, right) = items.split_at_mut(middle);
    let left = fold_alone(first, left, chunk, leaf, merge);
    merge(left, fold_alone(first + middle, right, chunk, leaf, merge))
}

/// The upper part of the tree of [`fold_chunks`]: at most `2^depth` pieces, in order, each to be folded on its own.
pub(crate) fn pieces(items: Range<usize>, chunk: usize, depth: u32) -> Vec<Range<usize>> {
    let chunks = items.len().div_ceil(chunk);
    if chunks <= 1 || depth == 0 {
        return vec![items];
    }
    let middle = items.start + chunks / 2 * chunk;
    let mut all = pieces(items.start..middle, chunk, depth - 1);
    all.extend(pieces(middle..items.end, chunk, depth - 1));
    all
}

/// Merges what the [`pieces`] gave as [`fold_chunks`] would have.
pub(crate) fn merge_pieces<R>(
    len: usize,
    chunk: usize,
    depth: u32,
    results: &mut impl Iterator<Item = R>,
    merge: &impl Fn(R, R) -> R,
) -> Option<R> {
    let chunks = len.div_ceil(chunk);
    if chunks <= 1 || depth == 0 {
        return results.next();
    }
    let middle = chunks / 2 * chunk;
    let left = merge_pieces(middle, chunk, depth - 1, results, merge)?;
    Some(merge(left, merge_pieces(len - middle, chunk, depth - 1, results, merge)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use raddle::Pool;

    #[test]
    fn every_item_is_visited_once_and_the_tree_does_not_depend_on_the_threads() {
        for len in [0, 1, 9, 10, 11, 95] {
            let shapes: Vec<String> = [1, 2, 5]
                .into_iter()
                .map(|threads| {
                    let mut items = vec![0; len];
                    let shape = Pool::new(threads).unwrap().run(|worker| {
                        let leaf = |first: usize, items: &mut [usize]| {
                            items.iter_mut().zip(first..).for_each(|(item, index)| *item += index);
                            format!("{first}+{}", items.len())
                        };
                        let merge = |left, right| format!("({left} {right})");
                        fold_chunks(worker, &mut items, 10, &leaf, &merge)
                    });
                    assert!(items.into_iter().eq(0..len));
                    shape
                })
                .collect();
            assert!(shapes.iter().all(|shape| *shape == shapes[0]), "{shapes:?}");
            let leaf = |first: usize, items: &mut [usize]| format!("{first}+{}", items.len());
            let merge = |left, right| format!("({left} {right})");
            for depth in 0..4 {
                let mut items = vec![0; len];
                let fold = |piece: Range<usize>| {
                    fold_alone(piece.start, &mut items[piece], 10, &leaf, &merge)
                };
                let parts: Vec<String> = pieces(0..len, 10, depth).into_iter().map(fold).collect();
                assert!(parts.len() <= 1 << depth);
                let whole = merge_pieces(len, 10, depth, &mut parts.into_iter(), &merge);
                assert_eq!(whole.as_ref(), Some(&shapes[0]));
            }
        }
    }
}
