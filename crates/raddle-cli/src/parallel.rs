//! The one place that says how work is split.

use raddle::Worker;

/// Runs `leaf` over pieces of `items`, in parallel, and merges what the pieces give.
///
/// Every piece but the last has `chunk` items; `leaf` is told the index of its first. The pieces
/// and the tree in which they are merged depend on the number of items alone, never on the number
/// of threads: also sums of floating-point numbers come out the same to the bit, however many
/// threads take part.
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
    fold_from(worker, 0, items, chunk, leaf, merge)
}

fn fold_from<T, R>(
    worker: &Worker,
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
    let (left, right) = worker.join(
        |worker| fold_from(worker, first, left, chunk, leaf, merge),
        |worker| fold_from(worker, first + middle, right, chunk, leaf, merge),
    );
    merge(left, right)
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
        }
    }
}
